//! All drives tell one story.
//!
//! Verified, by the census: every drive is a member of the deployment in its own slot and sound; every
//! bucket is on all drives; no version has two identities; no drive holds another order of versions,
//! another header, or a version twice, than the rest of its set; no key lies in a wrong set.
//!
//! Not verified: how many shards there are (`every_version_is_full`); versions below a quorum, which a
//! drive keeps from a write that failed or a delete that it missed, until a grace has passed.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::drives;
use crate::harness::audit::census::DriveProblem;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::ProblemKind;
use crate::harness::audit::census::VersionClass;

/// Its name.
pub const NAME: &str = "drives_agree";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    for drive in &census.drives {
        examination.examined();
        let what = match (drive.state, drive.problems.first()) {
            (DriveState::Member, None) => continue,
            (DriveState::Member, Some(problem)) => problem.clone(),
            (state, _) => format!("it is {state:?}").to_lowercase(),
        };
        let message = format!("drive {}: {what}", drive.name);
        examination.found(Found::fail("unsound_drive", message).shown_in("census.json"));
    }
    for bucket in census.buckets.iter().filter(|bucket| !bucket.name.starts_with('.')) {
        examination.examined();
        if !bucket.missing_on.is_empty() {
            let drives = bucket.missing_on.join(", ");
            let message = format!("bucket {} is missing on {drives}", bucket.name);
            examination.found(Found::fail("missing_bucket", message).shown_in("census.json"));
        }
    }
    for key in &census.keys {
        examination.examined();
        one_key(&mut examination, witnesses, key);
    }
    examination.finish()
}

fn one_key(examination: &mut Examination, witnesses: &Witnesses<'_>, key: &KeyCensus) {
    let committed = key.versions.iter().filter(|version| drives::is_committed(version));
    let divergent = committed.clone().find(|version| version.class == VersionClass::Divergent);
    if let Some(version) = divergent {
        let message = format!("version {} has two identities", version.version);
        examination.found(found("divergent", message, witnesses, key, version.problems.first()));
        return;
    }
    let problems = committed.flat_map(|version| &version.problems).chain(&key.problems);
    let contradiction = problems.into_iter().find(|problem| {
        matches!(
            problem.kind,
            ProblemKind::VersionDiffers
                | ProblemKind::DuplicateVersion
                | ProblemKind::Inconsistent
                | ProblemKind::WrongSet
                | ProblemKind::ShardMisplaced
        )
    });
    if let Some(problem) = contradiction {
        let message = format!("drive {} {}: {}", problem.drive, problem.path, problem.detail);
        examination.found(found("contradiction", message, witnesses, key, Some(problem)));
        return;
    }
    // What lies below a quorum, or is missing on a drive, makes the lists differ without contradiction.
    let is_uneven = key.versions.iter().any(|version| version.class != VersionClass::Full);
    if !key.same_order && !is_uneven {
        let message = "the drives hold its versions in different orders".to_owned();
        examination.found(found("different_orders", message, witnesses, key, None));
    }
}

fn found(
    kind: &str,
    message: String,
    witnesses: &Witnesses<'_>,
    key: &KeyCensus,
    problem: Option<&DriveProblem>,
) -> Found {
    let writes = witnesses.history.keys.get(&key.target).into_iter().flatten();
    let writes = writes.map(|position| &witnesses.history.ops[*position]);
    let last = writes.rev().find(|op| op.is_write()).map(|op| op.id());
    let mut found =
        Found::fail(kind, message).about(&key.target).explained_by(last).shown_in("census.json");
    if let Some(problem) = problem {
        found = found.shown_in(format!("drive {}: {}", problem.drive, problem.path));
    }
    found
}

//! After a rebuild that is claimed to be complete, the replaced drive holds every historical version: those that
//! clients had written before it was replaced, whether numbered, null or delete marker.
//!
//! Verified, by history and census: for each drive that the history replaced and that some proof names, each version
//! whose write had been acknowledged before the drive was replaced, and that the other drives hold still, has its
//! metadata and its shard on that very drive, whether it is the latest of its key or not.
//!
//! Not verified: versions written later, null versions that were written again after the proof (`proof_is_true`,
//! `every_version_is_full`), and drives that nobody claims to be complete.

use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;
use super::generations::replaced;
use super::model::drives;
use super::sightings::injected;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::VersionCensus;
use crate::harness::workload::history::Ending;
use crate::harness::workload::record::History;
use crate::harness::workload::record::Op;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "historical_data_on_target";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    all.tell_unreadable(&mut examination, Found::undecided);
    for drive in replaced(witnesses.history).into_keys() {
        let proofs = all.proofs.iter().filter(|(_, proof)| proof.targets_drive(drive));
        let Some((id, proof)) = proofs.max_by_key(|(_, proof)| proof.verified_at) else {
            continue;
        };
        let written = written_before(witnesses.history, drive);
        let set = witnesses.facts.set_of(drive);
        for key in census.keys.iter().filter(|key| Some(key.set) == set) {
            for version in key.versions.iter().filter(|it| drives::is_committed(it)) {
                // A null version that was written again since is not the one from before.
                let written_s = u64::try_from(version.modtime_ns / 1_000_000_000).unwrap_or(0);
                let is_historical = written.contains(&(&key.target, version.version));
                if !is_historical || written_s > proof.verified_at {
                    continue;
                }
                examination.examined();
                let Some((detail, path)) = lacking(key, version, drive) else { continue };
                let (kind, what) = kind(version);
                let message = format!(
                    "{id} claims drive {drive} to be complete, which lacks {what}: {detail}"
                );
                let found = Found::fail(kind, message)
                    .about(&key.target)
                    .explained_by(writers(witnesses.history, &key.target, version.version))
                    .shown_in(proof.evidence())
                    .shown_in(format!("drive {drive}: {path}"));
                examination.found(found);
            }
        }
    }
    examination.finish()
}

/// Versions whose writes had been acknowledged when `drive` was last replaced.
fn written_before<'a>(history: &'a History, drive: &str) -> BTreeSet<(&'a ObjectKey, VersionId)> {
    let struck = injected(history).filter(|fault| {
        fault.what.name == "replace_drive" && fault.what.drives.iter().any(|it| it == drive)
    });
    let at = struck.map(|fault| fault.seq).max().unwrap_or(0);
    let writes = history.ops.iter().filter(|op| op.is_write() && op.is_acknowledged());
    let before = writes.filter(|op| op.ended < at);
    let version = |answer: &Ending| answer.version;
    before
        .map(|op| {
            (&op.asked.target, op.answer.as_ref().and_then(version).unwrap_or(VersionId::NULL))
        })
        .collect()
}

/// The acknowledged writes that made a version.
fn writers<'a>(
    history: &'a History,
    key: &'a ObjectKey,
    version: VersionId,
) -> impl Iterator<Item = u64> + 'a {
    let ops = history.keys.get(key).into_iter().flatten().map(|position| &history.ops[*position]);
    let made = move |op: &&Op| {
        let answer = op.answer.as_ref().and_then(|answer| answer.version);
        op.is_write() && op.is_acknowledged() && answer.unwrap_or(VersionId::NULL) == version
    };
    ops.filter(made).map(|op| op.id())
}

/// What is wrong with a version on `drive`, and where.
fn lacking<'a>(
    key: &'a KeyCensus,
    version: &'a VersionCensus,
    drive: &str,
) -> Option<(&'a str, &'a str)> {
    let mut problems = version.problems.iter().chain(&key.problems);
    let problem = problems.find(|problem| problem.drive == drive)?;
    Some((&problem.detail, &problem.path))
}

/// The name of the finding, and what is missing.
fn kind(version: &VersionCensus) -> (&'static str, String) {
    let id = version.version;
    match (version.delete_marker, id.is_null()) {
        (true, _) => ("historical_marker_missing", format!("delete marker {id}")),
        (false, true) => ("historical_null_missing", "the null version".to_owned()),
        (false, false) => ("historical_version_missing", format!("version {id}")),
    }
}

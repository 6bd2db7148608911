//! Every version has all its shards again, on every drive of its set.
//!
//! Verified, by the census after settling: each committed version of every key, those of the system
//! volume included, is whole on all drives of its set: metadata, every frame, every stripe. That
//! successful reads do not show.
//!
//! Not verified: leftovers below a quorum (they are no versions), the order of versions
//! (`versions_are_ordered`), whether a version should be there at all.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::drives;
use super::model::story::Story;
use super::model::tolerance::Kept;
use super::model::tolerance::Tolerance;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::VersionCensus;
use crate::harness::audit::census::VersionClass;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "every_version_is_full";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let book = Book::of(witnesses);
    let tolerance = Tolerance::of(witnesses);
    for drive in census.drives.iter().filter(|drive| drive.state != DriveState::Member) {
        let message = format!("drive {} is {:?}", drive.name, drive.state).to_lowercase();
        let found = Found::fail("drive_not_member", message).shown_in("census.json");
        examination.found(found);
    }
    for key in &census.keys {
        for version in key.versions.iter().filter(|version| drives::is_committed(version)) {
            examination.examined();
            if version.class == VersionClass::Full {
                continue;
            }
            let writer = writer(&book, key, version);
            let kept = match version.delete_marker {
                true => Kept::Marker,
                false => Kept::Object(version.size),
            };
            let is_lost = version.class == VersionClass::Unreadable;
            let certain = writer.map_or(0, |(_, certain)| certain);
            if is_lost
                && tolerance.exceeded(&key.target, kept, certain, NEVER, Some(key.set)).is_some()
            {
                examination.excused();
                continue;
            }
            let first = version.problems.first().or(key.problems.first());
            let problem = first.map_or(String::new(), |problem| {
                format!(": drive {} {}, {}", problem.drive, problem.path, problem.detail)
            });
            let message = format!(
                "version {} is {}, {} good of {}{problem}",
                version.version,
                words(version.class),
                version.good_shards,
                witnesses.facts.set_drives,
            );
            let mut found = Found::fail("version_not_full", message)
                .about(&key.target)
                .explained_by(writer.map(|(op, _)| op))
                .shown_in("census.json");
            for problem in version.problems.iter().take(8) {
                found = found.shown_in(format!("drive {}: {}", problem.drive, problem.path));
            }
            examination.found(found);
        }
    }
    examination.finish()
}

/// The operation that wrote the version, and where that was certain.
fn writer(book: &Book<'_>, key: &KeyCensus, version: &VersionCensus) -> Option<(u64, u64)> {
    if !book.keys.contains(&key.target) {
        return None;
    }
    let story = Story::tell(book, &key.target, false);
    let value = match version.digest {
        Some(digest) => story.by_digest(digest, version.size),
        None => match version.etag.as_ref().map(|etag| story.by_etag(etag, version.size)) {
            Some(super::model::stack::Values::These(values)) => values.first().copied(),
            _ => None,
        },
    };
    let told = story.maker(story.id(version.version)?, value)?;
    let certain = if told.is_certain() { told.certain } else { told.op.invoked };
    Some((told.op.id(), certain))
}

fn words(class: VersionClass) -> &'static str {
    match class {
        VersionClass::Full => "full",
        VersionClass::Degraded => "degraded",
        VersionClass::AtRisk => "at_risk",
        VersionClass::Uncommitted => "uncommitted",
        VersionClass::Unreadable => "unreadable",
        VersionClass::Divergent => "divergent",
    }
}

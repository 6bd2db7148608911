//! A key has at most one null version.
//!
//! Verified: no listing of versions, under load or in the end, shows a key with two null versions; no
//! drive holds two; in a bucket whose versioning was never touched, no listing shows a second version
//! of a key at all.
//!
//! Not verified: which write the null version is of (`acknowledged_writes_survive`,
//! `reads_are_linearizable`).

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::book::Listing;
use super::model::drives;
use super::model::drives::Drives;
use crate::harness::audit::census::ProblemKind;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "null_version_is_unique";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let mut examination = Examination::of(NAME);
    for (bucket, listings) in &book.listings {
        let modes = book.modes.get(bucket);
        let is_unversioned = modes.is_some_and(|modes| modes.is_always_unversioned());
        for listing in listings.iter().filter(|listing| listing.of_versions) {
            for key in listing.rows.keys() {
                let key = ObjectKey { bucket: (*bucket).to_owned(), key: (*key).to_owned() };
                let null = count(listing, &key, |version| version == VersionId::NULL);
                let others = count(listing, &key, |version| version != VersionId::NULL);
                let (kind, what) = match (null, others) {
                    (0, 0) => continue,
                    (2.., _) => ("two_null_versions", format!("{null} null versions")),
                    (_, 1..) if is_unversioned => {
                        ("version_without_versioning", "a version with an id of its own".to_owned())
                    }
                    _ => {
                        examination.examined();
                        continue;
                    }
                };
                examination.examined();
                let message = format!("operation {} lists the key with {what}", listing.op.id());
                let writes = book.ops(&key).filter(|op| op.is_write() && op.precedes(listing.op));
                let last = writes.map(|op| op.id()).collect::<Vec<_>>();
                let found = Found::fail(kind, message)
                    .about(&key)
                    .explained_by(last.into_iter().rev().take(2).rev().chain([listing.op.id()]))
                    .shown_in(listing.op.line());
                examination.found(found);
            }
        }
    }
    for key in Drives::of(witnesses).user_keys() {
        let is_null = |id: VersionId| id == VersionId::NULL;
        let committed = key.versions.iter().filter(|version| drives::is_committed(version));
        let null = committed.filter(|version| is_null(version.version)).count();
        let on_one_drive = key.versions.iter().filter(|version| is_null(version.version));
        let problems = on_one_drive.flat_map(|version| &version.problems).chain(&key.problems);
        let double = problems.filter(|problem| problem.kind == ProblemKind::DuplicateVersion);
        let double = double.map(|problem| problem.drive.as_str()).collect::<Vec<_>>();
        if null == 0 && double.is_empty() {
            continue;
        }
        examination.examined();
        if null < 2 && double.is_empty() {
            continue;
        }
        let where_ = match double.as_slice() {
            [] => "the drives".to_owned(),
            drives => format!("drive {}", drives.join(", ")),
        };
        let message = format!("{where_} hold two null versions of the key");
        let writes = book.ops(&key.target).filter(|op| op.is_write());
        let last = writes.map(|op| op.id()).collect::<Vec<_>>();
        let found = Found::fail("two_null_versions", message)
            .about(&key.target)
            .explained_by(last.into_iter().rev().take(2).rev())
            .shown_in("census.json");
        examination.found(found);
    }
    examination.finish()
}

fn count(listing: &Listing<'_>, key: &ObjectKey, wanted: impl Fn(VersionId) -> bool) -> usize {
    let rows = listing.rows.get(key.key.as_str()).into_iter().flatten();
    rows.filter(|row| row.version.is_some_and(&wanted)).count()
}

//! Lists, HEAD and GET tell one story in the end, on every node, and it is that of the drives.
//!
//! Verified, in the final reads: every node lists the same versions and the same latest objects; the
//! latest objects are those that the versions have on top; HEAD and GET of every listed version and of
//! every key find what is listed, with its length and ETag; the drives hold exactly the listed
//! versions, apart from leftovers below a quorum.
//!
//! Not verified: whether that story is the true one (`acknowledged_writes_survive`), listings under
//! load (`reads_are_linearizable`), reads that stayed unanswered (`service_returned`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::book::Listing;
use super::model::drives;
use super::model::drives::Drives;
use super::model::wire::Wire;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Listed;
use crate::harness::workload::history::Seen;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "listings_agree";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let mut check = Check {
        wire: Wire::of(&book),
        drives: Drives::of(witnesses),
        examination: Examination::of(NAME),
    };
    check.nodes();
    for key in &book.keys {
        check.latest(key);
        check.reads(key);
        check.held(key);
    }
    let held = check.drives.user_keys().map(|key| key.target.clone()).collect::<Vec<_>>();
    for key in held.iter().filter(|key| !book.keys.contains(key)) {
        check.held(key);
    }
    if check.wire.is_silent() {
        let message = "no node was asked what it has in the end".to_owned();
        check.examination.found(Found::undecided("no_final_reads", message));
    }
    check.examination.finish()
}

struct Check<'a, 'b> {
    wire: Wire<'a, 'b>,
    drives: Drives<'a>,
    examination: Examination,
}

/// What a line of a listing says, apart from its page.
type Line<'a> = (&'a str, Option<VersionId>, bool, bool, &'a str, u64);

fn line(row: &Listed) -> Line<'_> {
    (&row.key, row.version, row.delete_marker, row.latest, &row.etag, row.size)
}

impl Check<'_, '_> {
    /// Every node lists the same.
    fn nodes(&mut self) {
        for of_versions in [true, false] {
            let mut first = BTreeMap::<&str, &Listing<'_>>::new();
            for ((bucket, _), listing) in self.wire.listings(of_versions) {
                self.examination.examined();
                let reference = *first.entry(bucket).or_insert(listing);
                let lines = |listing: &Listing<'_>| {
                    let rows = listing.rows.values().flatten();
                    rows.map(|row| format!("{:?}", line(row))).collect::<BTreeSet<_>>()
                };
                let (mine, its) = (lines(listing), lines(reference));
                let differing = mine.symmetric_difference(&its).next();
                let Some(differing) = differing else { continue };
                let keys = listing.rows.keys().chain(reference.rows.keys());
                let key = keys.copied().find(|key| {
                    let of = |listing: &Listing<'_>| {
                        listing.rows.get(key).map(|rows| {
                            rows.iter()
                                .map(|row| format!("{:?}", line(row)))
                                .collect::<BTreeSet<_>>()
                        })
                    };
                    of(listing) != of(reference)
                });
                let target = ObjectKey {
                    bucket: (*bucket).to_owned(),
                    key: key.unwrap_or_default().to_owned(),
                };
                let message = format!(
                    "nodes {} and {} do not list the same: only one has {differing}",
                    reference.op.asked.node, listing.op.asked.node
                );
                let found = Found::fail("nodes_disagree", message)
                    .about(&target)
                    .explained_by([reference.op.id(), listing.op.id()])
                    .shown_in(reference.op.line())
                    .shown_in(listing.op.line());
                self.examination.found(found);
            }
        }
    }

    /// The latest objects are what the versions have on top.
    fn latest(&mut self, key: &ObjectKey) {
        for (versions, rows) in self.wire.versions(key) {
            let node = versions.op.asked.node;
            let objects = self.wire.objects(key);
            let Some((objects, listed)) =
                objects.into_iter().find(|(objects, _)| objects.op.asked.node == node)
            else {
                continue;
            };
            self.examination.examined();
            let top = rows.iter().find(|row| row.latest && !row.delete_marker);
            let top = top.map(|row| (row.etag.as_str(), row.size));
            let listed = listed.first().map(|row| (row.etag.as_str(), row.size));
            if top == listed {
                continue;
            }
            let message = format!(
                "node {node} lists {} as the latest object, and {} on top of the versions",
                words(listed),
                words(top)
            );
            let found = Found::fail("lists_disagree", message)
                .about(key)
                .explained_by([versions.op.id(), objects.op.id()])
                .shown_in(versions.op.line())
                .shown_in(objects.op.line());
            self.examination.found(found);
        }
    }

    /// HEAD and GET find what is listed.
    fn reads(&mut self, key: &ObjectKey) {
        for (listing, rows) in self.wire.versions(key) {
            let node = listing.op.asked.node;
            let asked = rows.iter().map(|row| row.version);
            let asked = asked.chain([None]).collect::<BTreeSet<_>>();
            for version in asked {
                let row = rows.iter().find(|row| match version {
                    Some(_) => row.version == version,
                    None => row.latest,
                });
                let expected = row.filter(|row| !row.delete_marker);
                let expected = expected.map(|row| (row.etag.as_str(), row.size));
                let reads = self.wire.reads(key, version);
                for read in reads.filter(|read| read.asked.node == node && read.is_acknowledged()) {
                    let Some(answer) = &read.answer else { continue };
                    let etag = answer.etag.as_deref().unwrap_or_default();
                    let seen = match &answer.seen {
                        Some(Seen::Object { size, .. }) => Some((etag, *size)),
                        Some(Seen::Absent) => None,
                        _ => continue,
                    };
                    self.examination.examined();
                    if seen == expected {
                        continue;
                    }
                    let how = match read.asked.action {
                        Action::Head { .. } => "HEAD",
                        _ => "GET",
                    };
                    let version =
                        version.map_or("latest".to_owned(), |version| version.to_string());
                    let message = format!(
                        "node {node} lists {} as version {version}, and its {how} finds {}",
                        words(expected),
                        words(seen)
                    );
                    let found = Found::fail("read_disagrees", message)
                        .about(key)
                        .explained_by([listing.op.id(), read.id()])
                        .shown_in(listing.op.line())
                        .shown_in(read.line());
                    self.examination.found(found);
                }
            }
        }
    }

    /// The drives hold what is listed.
    fn held(&mut self, key: &ObjectKey) {
        let listings = self.wire.versions(key);
        let (Some((listing, rows)), true) = (listings.first(), self.drives.are_known) else {
            return;
        };
        self.examination.examined();
        let listed = rows.iter().filter_map(|row| Some((row.version?, row.delete_marker)));
        let listed = listed.collect::<BTreeSet<_>>();
        let held = self.drives.key(key).into_iter().flat_map(|key| &key.versions);
        let held = held.filter(|version| drives::is_committed(version));
        let held = held.map(|version| (version.version, version.delete_marker));
        let held = held.collect::<BTreeSet<_>>();
        let Some((version, _)) = listed.symmetric_difference(&held).next() else { return };
        let message = match held.iter().any(|(held, _)| held == version) {
            true => format!("the drives hold version {version}, which is not listed like that"),
            false => format!("version {version} is listed, and the drives do not hold it"),
        };
        let found = Found::fail("drives_disagree", message)
            .about(key)
            .explained_by([listing.op.id()])
            .shown_in(listing.op.line())
            .shown_in("census.json");
        self.examination.found(found);
    }
}

fn words(seen: Option<(&str, u64)>) -> String {
    match seen {
        None => "no object".to_owned(),
        Some((etag, size)) => format!("{size} bytes with ETag {etag}"),
    }
}

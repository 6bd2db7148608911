//! Versions of a key stand in the order in which they were written, everywhere.
//!
//! Verified: in every listing, under load and in the end, a version stands above every other whose
//! write had ended before its own began; exactly one is called the latest, and it is the newest; all
//! nodes show one order in the end, which is also the order on the drives.
//!
//! Not verified: the order of writes that overlap (any will do, as long as it stays); the order of
//! objects and markers among each other in listings that show one kind after the other; the latest of
//! a key that stands on two pages.

use std::collections::BTreeMap;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::book::Listing;
use super::model::drives;
use super::model::drives::Drives;
use super::model::stack::Id;
use super::model::story::Story;
use super::model::story::Told;
use super::model::wire::Wire;
use crate::harness::workload::history::Listed;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "versions_are_ordered";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let wire = Wire::of(&book);
    let drives = Drives::of(witnesses);
    let mut examination = Examination::of(NAME);
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        let listings = book.listings_of(&key.bucket).iter().filter(|listing| listing.of_versions);
        for listing in listings {
            let Some(rows) = listing.about(&key.key) else { continue };
            if rows.is_empty() {
                continue;
            }
            examination.examined();
            one_listing(&mut examination, &story, listing, rows);
        }
        nodes_agree(&mut examination, key, &wire);
        drives_agree(&mut examination, &story, &wire, &drives);
    }
    examination.finish()
}

/// The write that made a listed line, if it is certain which.
fn maker<'s, 'a>(story: &'s Story<'a>, row: &Listed) -> Option<&'s Told<'a>> {
    let id: Id = story.id(row.version.unwrap_or(VersionId::NULL))?;
    let value = match row.delete_marker {
        true => None,
        false => match story.listed(row) {
            super::model::stack::Values::These(values) => match values.as_slice() {
                [value] => Some(*value),
                _ => return None,
            },
            super::model::stack::Values::Any => return None,
        },
    };
    story.maker(id, value)
}

fn one_listing(
    examination: &mut Examination,
    story: &Story<'_>,
    listing: &Listing<'_>,
    rows: &[&Listed],
) {
    let key = &story.key;
    let line = listing.op.line();
    let flagged = rows.iter().filter(|row| row.latest).count();
    if flagged != 1 {
        let message =
            format!("operation {} lists {flagged} latest versions of the key", listing.op.id());
        let found = Found::fail("not_one_latest", message).about(key);
        examination.found(found.explained_by([listing.op.id()]).shown_in(&line));
    }
    let makers = rows.iter().map(|row| maker(story, row)).collect::<Vec<_>>();
    let is_ordered = |one: &Listed, other: &Listed| {
        listing.interleaved || one.delete_marker == other.delete_marker || one.latest
    };
    for upper in 0..rows.len() {
        let below = (0..rows.len()).filter(|lower| *lower > upper || rows[upper].latest);
        for lower in below.filter(|lower| *lower != upper) {
            let (Some(above), Some(beneath)) = (makers[upper], makers[lower]) else { continue };
            if !is_ordered(rows[upper], rows[lower]) || rows[lower].latest {
                continue;
            }
            if above.precedes(beneath) && above.op.id() != beneath.op.id() {
                let message = format!(
                    "operation {} lists what operation {} wrote above what operation {} wrote later",
                    listing.op.id(),
                    above.op.id(),
                    beneath.op.id()
                );
                let found = Found::fail("out_of_order", message)
                    .about(key)
                    .explained_by([above.op.id(), beneath.op.id(), listing.op.id()])
                    .shown_in(line);
                examination.found(found);
                return;
            }
        }
    }
}

/// The versions of one kind, or of both when their order is known, as a listing shows them.
fn kinds(interleaved: bool, rows: &[&Listed]) -> BTreeMap<Option<bool>, Vec<VersionId>> {
    let mut kinds = BTreeMap::<_, Vec<_>>::new();
    for row in rows {
        let version = row.version.unwrap_or(VersionId::NULL);
        kinds.entry(Some(row.delete_marker)).or_default().push(version);
        if interleaved {
            kinds.entry(None).or_default().push(version);
        }
    }
    kinds
}

fn nodes_agree(examination: &mut Examination, key: &ObjectKey, wire: &Wire<'_, '_>) {
    let listings = wire.versions(key);
    let Some(((first, first_rows), others)) = listings.split_first() else { return };
    let latest = |rows: &[&Listed]| rows.iter().find(|row| row.latest).and_then(|row| row.version);
    for (other, rows) in others {
        let both = first.interleaved && other.interleaved;
        let agree =
            kinds(both, first_rows) == kinds(both, rows) && latest(first_rows) == latest(rows);
        // Which versions there are is another promise.
        let mut mine = first_rows.iter().map(|row| row.version).collect::<Vec<_>>();
        let mut its = rows.iter().map(|row| row.version).collect::<Vec<_>>();
        mine.sort_unstable();
        its.sort_unstable();
        if agree || mine != its {
            continue;
        }
        let message = format!(
            "nodes {} and {} list the versions in different orders",
            first.op.asked.node, other.op.asked.node
        );
        let found = Found::fail("nodes_disagree", message)
            .about(key)
            .explained_by([first.op.id(), other.op.id()])
            .shown_in(first.op.line())
            .shown_in(other.op.line());
        examination.found(found);
        return;
    }
}

fn drives_agree(
    examination: &mut Examination,
    story: &Story<'_>,
    wire: &Wire<'_, '_>,
    drives: &Drives<'_>,
) {
    let Some(kept) = drives.key(&story.key) else { return };
    let committed = kept.versions.iter().filter(|version| drives::is_committed(version));
    let committed = committed.collect::<Vec<_>>();
    let listings = wire.versions(&story.key);
    let Some((listing, rows)) = listings.first() else { return };
    for is_marker in [false, true] {
        let listed = rows.iter().filter(|row| row.delete_marker == is_marker);
        let listed = listed.filter_map(|row| row.version).collect::<Vec<_>>();
        let held = committed.iter().filter(|version| version.delete_marker == is_marker);
        let held = held.map(|version| version.version).collect::<Vec<_>>();
        let (mut one, mut other) = (listed.clone(), held.clone());
        one.sort_unstable();
        other.sort_unstable();
        if one == other && listed != held {
            let message = format!(
                "node {} lists the versions in another order than the drives hold them",
                listing.op.asked.node
            );
            let found = Found::fail("drives_disagree", message)
                .about(&story.key)
                .explained_by([listing.op.id()])
                .shown_in(listing.op.line())
                .shown_in("census.json");
            examination.found(found);
            return;
        }
    }
    // The drives know the order of objects and markers among each other.
    let makers = committed.iter().map(|version| {
        let id = story.id(version.version)?;
        let value = match (version.delete_marker, version.digest) {
            (true, _) => None,
            (false, Some(digest)) => Some(story.by_digest(digest, version.size)?),
            (false, None) => return None,
        };
        story.maker(id, value)
    });
    let makers = makers.collect::<Vec<_>>();
    for (upper, above) in makers.iter().enumerate() {
        let Some(above) = above else { continue };
        let late = makers[upper + 1..]
            .iter()
            .flatten()
            .find(|beneath| above.precedes(beneath) && above.op.id() != beneath.op.id());
        if let Some(beneath) = late {
            let message = format!(
                "the drives hold what operation {} wrote above what operation {} wrote later",
                above.op.id(),
                beneath.op.id()
            );
            let found = Found::fail("out_of_order", message)
                .about(&story.key)
                .explained_by([above.op.id(), beneath.op.id()])
                .shown_in("census.json");
            examination.found(found);
            return;
        }
    }
}

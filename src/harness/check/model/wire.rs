//! What the settled cluster answered, by node and key. Pure.

use std::collections::BTreeMap;

use super::book::Book;
use super::book::Listing;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Listed;
use crate::harness::workload::record::Op;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The final reads.
#[derive(Debug)]
pub struct Wire<'a, 'b> {
    /// Whole listings of versions, by bucket and node.
    versions: BTreeMap<(&'a str, usize), &'b Listing<'a>>,
    /// Whole listings of latest objects, by bucket and node.
    objects: BTreeMap<(&'a str, usize), &'b Listing<'a>>,
    /// GETs and HEADs by key, answered or not.
    reads: BTreeMap<&'a ObjectKey, Vec<&'a Op>>,
}

impl<'a, 'b> Wire<'a, 'b> {
    /// The final reads in `book`.
    pub fn of(book: &'b Book<'a>) -> Self {
        let (mut versions, mut objects) = (BTreeMap::new(), BTreeMap::new());
        for (bucket, listings) in &book.listings {
            for listing in listings.iter().filter(|l| l.op.is_final && l.prefix.is_empty()) {
                let of_kind = if listing.of_versions { &mut versions } else { &mut objects };
                of_kind.insert((*bucket, listing.op.asked.node), listing);
            }
        }
        let mut reads = BTreeMap::<&ObjectKey, Vec<&Op>>::new();
        for op in book.history.final_reads() {
            if matches!(op.asked.action, Action::Get { .. } | Action::Head { .. }) {
                reads.entry(&op.asked.target).or_default().push(op);
            }
        }
        Self { versions, objects, reads }
    }

    /// Whether nothing was listed at all.
    pub fn is_silent(&self) -> bool {
        self.versions.is_empty()
    }

    /// What each node lists of all versions of `key`.
    pub fn versions(&self, key: &ObjectKey) -> Vec<(&'b Listing<'a>, &'b [&'a Listed])> {
        about(&self.versions, key)
    }

    /// What each node lists of the latest object of `key`.
    pub fn objects(&self, key: &ObjectKey) -> Vec<(&'b Listing<'a>, &'b [&'a Listed])> {
        about(&self.objects, key)
    }

    /// Whole listings by bucket and node: of versions, or of objects.
    pub fn listings(&self, of_versions: bool) -> &BTreeMap<(&'a str, usize), &'b Listing<'a>> {
        if of_versions { &self.versions } else { &self.objects }
    }

    /// The GETs and HEADs of `version` of `key`, answered or not; `None` for the latest.
    pub fn reads(
        &self,
        key: &ObjectKey,
        version: Option<VersionId>,
    ) -> impl Iterator<Item = &'a Op> {
        let reads = self.reads.get(key).into_iter().flatten().copied();
        reads.filter(move |op| match op.asked.action {
            Action::Get { version: asked, .. } | Action::Head { version: asked } => {
                asked == version
            }
            _ => false,
        })
    }

    /// The GETs of `version` of `key`, answered or not; `None` for the latest.
    pub fn gets(
        &self,
        key: &ObjectKey,
        version: Option<VersionId>,
    ) -> impl Iterator<Item = &'a Op> {
        let reads = self.reads(key, version);
        reads.filter(|op| matches!(op.asked.action, Action::Get { .. }))
    }
}

fn about<'a, 'b>(
    listings: &BTreeMap<(&'a str, usize), &'b Listing<'a>>,
    key: &ObjectKey,
) -> Vec<(&'b Listing<'a>, &'b [&'a Listed])> {
    let of_bucket = listings.iter().filter(|((bucket, _), _)| *bucket == key.bucket);
    of_bucket.filter_map(|(_, listing)| Some((*listing, listing.about(&key.key)?))).collect()
}

//! The history by key: what was asked of it, and what listings of its bucket said about it. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::modes::ModeChanges;
use crate::harness::check::Witnesses;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Listed;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::History;
use crate::harness::workload::record::Op;
use crate::value::Digest;
use crate::value::ObjectKey;

/// One acknowledged listing of a bucket.
#[derive(Debug)]
pub struct Listing<'a> {
    /// The request.
    pub op: &'a Op,
    /// Only keys that begin so were asked for.
    pub prefix: &'a str,
    /// Whether it lists every version.
    pub of_versions: bool,
    /// Whether nothing changed while it was read: its pages are one.
    pub is_quiet: bool,
    /// Whether objects and markers stand in one order (and not one kind after the other).
    pub interleaved: bool,
    /// Its lines by key, in the order received.
    pub rows: BTreeMap<&'a str, Vec<&'a Listed>>,
}

/// The history by key.
#[derive(Debug)]
pub struct Book<'a> {
    /// The history.
    pub history: &'a History,
    /// Acknowledged listings by bucket.
    pub listings: BTreeMap<&'a str, Vec<Listing<'a>>>,
    /// Changes of versioning by bucket.
    pub modes: BTreeMap<&'a str, ModeChanges>,
    /// Every key that was asked for or listed.
    pub keys: BTreeSet<ObjectKey>,
    /// Whether every ETag that a write was answered with is the one that S3 defines.
    pub trusts_etags: bool,
    /// Who first wrote contents with this digest: whose lines they are made of.
    authors: BTreeMap<Digest, u64>,
}

impl<'a> Book<'a> {
    /// The book of a run.
    pub fn of(witnesses: &Witnesses<'a>) -> Self {
        let history = witnesses.history;
        let mut listings = BTreeMap::<&str, Vec<Listing<'_>>>::new();
        let mut keys = history.keys.keys().cloned().collect::<BTreeSet<_>>();
        for (bucket, ops) in &history.buckets {
            for op in ops.iter().map(|position| &history.ops[*position]) {
                let Some(mut listing) = Listing::of(op) else { continue };
                let settled = history.last_settled();
                listing.is_quiet =
                    op.is_final && settled.is_some_and(|settled| settled < op.invoked);
                for key in listing.rows.keys() {
                    let key = ObjectKey { bucket: bucket.clone(), key: (*key).to_owned() };
                    keys.insert(key);
                }
                listings.entry(bucket).or_default().push(listing);
            }
        }
        let mut modes = BTreeMap::new();
        for bucket in history.buckets.keys().chain(history.keys.keys().map(|key| &key.bucket)) {
            modes.entry(bucket.as_str()).or_insert_with(|| {
                let kind = witnesses.facts.buckets.get(bucket).copied();
                ModeChanges::of(history, bucket, kind)
            });
        }
        let ranges = history
            .ops
            .iter()
            .any(|op| matches!(op.asked.action, Action::Get { range: Some(_), .. }));
        let mut authors = BTreeMap::new();
        let mut trusts_etags = true;
        for op in &history.ops {
            let Some((digest, _, etag)) = contents(&op.asked.action) else { continue };
            if ranges && !matches!(op.asked.action, Action::Copy { .. }) {
                authors.entry(digest).or_insert(op.id());
            }
            let answered = op.answer.as_ref().and_then(|answer| answer.etag.as_deref());
            if let (Some(defined), Some(answered)) = (etag, answered) {
                trusts_etags &= !op.is_acknowledged() || defined == answered;
            }
        }
        Self { history, listings, modes, keys, trusts_etags, authors }
    }

    /// Requests about `key`, in order.
    pub fn ops(&self, key: &ObjectKey) -> impl Iterator<Item = &'a Op> {
        let positions = self.history.keys.get(key).into_iter().flatten();
        positions.map(|position| &self.history.ops[*position])
    }

    /// Requests about `bucket` as such, in order.
    pub fn bucket_ops(&self, bucket: &str) -> impl Iterator<Item = &'a Op> {
        let positions = self.history.buckets.get(bucket).into_iter().flatten();
        positions.map(|position| &self.history.ops[*position])
    }

    /// Acknowledged listings of `bucket`, in order.
    pub fn listings_of(&self, bucket: &str) -> &[Listing<'a>] {
        self.listings.get(bucket).map_or(&[], Vec::as_slice)
    }

    /// The operation whose lines contents with this digest are made of.
    pub fn author(&self, digest: Digest) -> Option<u64> {
        self.authors.get(&digest).copied()
    }
}

impl<'a> Listing<'a> {
    /// The listing that `op` was answered with, if it was.
    fn of(op: &'a Op) -> Option<Self> {
        let (prefix, of_versions) = match &op.asked.action {
            Action::List { prefix } => (prefix, false),
            Action::ListVersions { prefix } => (prefix, true),
            _ => return None,
        };
        let answer = op.answer.as_ref().filter(|_| op.is_acknowledged())?;
        let lines = match answer.seen.as_ref()? {
            Seen::Listing(lines) => lines.as_slice(),
            // There was no such bucket.
            Seen::Absent => &[],
            Seen::Object { .. } => return None,
        };
        let mut rows = BTreeMap::<&str, Vec<&Listed>>::new();
        let mut interleaved = false;
        let (mut changes, mut last) = (0, None);
        for line in lines {
            rows.entry(&line.key).or_default().push(line);
            changes += u32::from(last.replace(line.delete_marker) != Some(line.delete_marker));
            interleaved |= changes > 2;
            if line.cut {
                (changes, last) = (0, None);
            }
        }
        Some(Self { op, prefix, of_versions, is_quiet: false, interleaved, rows })
    }

    /// What it says about `key`: nothing when the key was not asked for, or when its versions may stand
    /// on two pages, which are read at two times.
    pub fn about(&self, key: &str) -> Option<&[&'a Listed]> {
        if !key.starts_with(self.prefix) {
            return None;
        }
        let rows = self.rows.get(key).map_or(&[][..], Vec::as_slice);
        let is_torn = self.of_versions && !self.is_quiet && rows.iter().any(|row| row.cut);
        (!is_torn).then_some(rows)
    }
}

/// What a write puts there: digest, length and the ETag that S3 defines.
pub fn contents(action: &Action) -> Option<(Digest, u64, Option<&str>)> {
    match action {
        Action::Put { digest, size, etag, .. }
        | Action::Copy { digest, size, etag, .. }
        | Action::CompleteUpload { digest, size, etag, .. } => {
            Some((*digest, *size, etag.as_deref()))
        }
        _ => None,
    }
}

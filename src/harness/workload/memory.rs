//! What clients have learnt from answers: the versions and ETags that later requests name. Pure.
//!
//! It is shared by all clients of a run, so that they contend for the same versions. It decides
//! nothing about what is true: a stale entry makes a request that is refused, as with any client.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::history::Action;
use super::history::Ending;
use super::history::Operation;
use super::history::Outcome;
use super::history::Seen;
use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Versions remembered of one key.
const VERSIONS_MAX: usize = 16;

/// What clients have learnt.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    versions: BTreeMap<ObjectKey, Vec<Known>>,
    etags: BTreeMap<ObjectKey, (String, u64)>,
    sources: Vec<Source>,
    touched: BTreeSet<ObjectKey>,
}

/// A version that a client was told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub version: VersionId,
    /// Its length in bytes; `None` for a marker.
    pub size: Option<u64>,
}

/// A key that is written once, to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is.
    pub target: ObjectKey,
    /// Its version, where the bucket gives one.
    pub version: Option<VersionId>,
    /// SHA-256 of its contents.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Its ETag, without quotes.
    pub etag: Option<String>,
}

impl Memory {
    /// Every key that a write was sent to, in order.
    pub fn touched(&self) -> impl Iterator<Item = &ObjectKey> {
        self.touched.iter()
    }

    /// Notes that a write is about to be sent to `target`.
    pub fn touch(&mut self, target: &ObjectKey) {
        self.touched.insert(target.clone());
    }

    /// Adds a source of copies.
    pub fn add_source(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// Source number `index`, counted round.
    pub fn source(&self, index: u32) -> Option<&Source> {
        let count = self.sources.len().max(1);
        self.sources.get(index as usize % count)
    }

    /// Version number `pick` of those known of `target`, counted round, newest first.
    pub fn version(&self, target: &ObjectKey, pick: u32) -> Option<Known> {
        let versions = self.versions.get(target)?;
        let index = pick as usize % versions.len().max(1);
        versions.iter().rev().nth(index).copied()
    }

    /// The ETag and length that `target` was last known to have.
    pub fn latest(&self, target: &ObjectKey) -> Option<&(String, u64)> {
        self.etags.get(target)
    }

    /// Learns from how `operation` ended.
    pub fn learn(&mut self, operation: &Operation, ending: &Ending) {
        if ending.outcome != Outcome::Acknowledged {
            return;
        }
        let target = &operation.target;
        match (&operation.action, &ending.seen) {
            (
                Action::Put { size, .. }
                | Action::Copy { size, .. }
                | Action::CompleteUpload { size, .. },
                _,
            ) => {
                if let Some(etag) = &ending.etag {
                    self.etags.insert(target.clone(), (etag.clone(), *size));
                }
                self.know(target, ending.version, Some(*size));
            }
            (Action::Delete { version: None }, _) => {
                self.etags.remove(target);
                if ending.delete_marker {
                    self.know(target, ending.version, None);
                }
            }
            (Action::Delete { version: Some(version) }, _) => {
                if let Some(versions) = self.versions.get_mut(target) {
                    versions.retain(|known| known.version != *version);
                }
                self.etags.remove(target);
            }
            (
                Action::Get { version: None, .. } | Action::Head { version: None },
                Some(Seen::Object { size, .. }),
            ) => {
                // A range says nothing about the whole length.
                let whole = !matches!(operation.action, Action::Get { range: Some(_), .. });
                if let Some(etag) = ending.etag.as_ref().filter(|_| whole) {
                    self.etags.insert(target.clone(), (etag.clone(), *size));
                }
            }
            _ => {}
        }
    }

    fn know(&mut self, target: &ObjectKey, version: Option<VersionId>, size: Option<u64>) {
        let Some(version) = version else { return };
        let versions = self.versions.entry(target.clone()).or_default();
        versions.retain(|known| known.version != version);
        versions.push(Known { version, size });
        if versions.len() > VERSIONS_MAX {
            versions.remove(0);
        }
    }
}

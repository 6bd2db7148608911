//! What the drives hold of a key, for those who judge clients' promises by it. Pure.

use std::collections::BTreeMap;

use crate::harness::audit::census::Census;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::VersionCensus;
use crate::harness::audit::census::VersionClass;
use crate::harness::check::Witnesses;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The system volume's name begins so: what lies there was not written by clients.
const SYSTEM_PREFIX: char = '.';

/// The census by key.
#[derive(Debug, Default)]
pub struct Drives<'a> {
    keys: BTreeMap<&'a ObjectKey, &'a KeyCensus>,
    /// Whether there is a census at all.
    pub are_known: bool,
}

impl<'a> Drives<'a> {
    /// The census of a run.
    pub fn of(witnesses: &Witnesses<'a>) -> Self {
        let keys = witnesses.census.into_iter().flat_map(|census| &census.keys);
        let keys = keys.map(|key| (&key.target, key)).collect();
        Self { keys, are_known: witnesses.census.is_some() }
    }

    /// What lies there of `key`.
    pub fn key(&self, key: &ObjectKey) -> Option<&'a KeyCensus> {
        self.keys.get(key).copied()
    }

    /// Version `version` of `key`, however well it is kept.
    pub fn version(&self, key: &ObjectKey, version: VersionId) -> Option<&'a VersionCensus> {
        let versions = self.key(key)?.versions.iter();
        // Of one id in two identities the better kept one counts.
        versions.filter(|found| found.version == version).min_by_key(|found| found.class)
    }

    /// Keys that clients could have written.
    pub fn user_keys(&self) -> impl Iterator<Item = &'a KeyCensus> {
        self.keys.values().copied().filter(|key| is_user_key(key))
    }
}

/// Whether clients could have written the key.
pub fn is_user_key(key: &KeyCensus) -> bool {
    !key.target.bucket.starts_with(SYSTEM_PREFIX)
}

/// Whether a version has been committed: enough drives carry it for it to count. What is below that is
/// the leftover of a write that failed, or of a delete that a drive missed.
pub fn is_committed(version: &VersionCensus) -> bool {
    version.class != VersionClass::Uncommitted
}

/// Keys of `census` that clients could have written.
pub fn user_keys(census: &Census) -> impl Iterator<Item = &KeyCensus> {
    census.keys.iter().filter(|key| is_user_key(key))
}

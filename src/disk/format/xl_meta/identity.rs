//! The identity by which drives vote: a digest of everything that must be equal on all of them.
//!
//! Shard number and inline bytes differ by design and are left out; so is the state of replication,
//! which each drive learns at its own time. The user's metadata and tags are in it.

use std::collections::BTreeMap;

use sha2::Digest as _;
use sha2::Sha256;

use super::Body;
use super::Version;
use super::keys;

/// SHA-256 over everything in a version but its shard number and replication state.
pub type Identity = [u8; 32];

/// Collects facts so that no two lists of facts look alike.
struct Facts(Sha256);

impl Facts {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn number(&mut self, number: impl Into<i128>) {
        self.0.update(number.into().to_le_bytes());
    }

    fn system(&mut self, system: &BTreeMap<String, Vec<u8>>) {
        let mut by_suffix = BTreeMap::new();
        // The preferred prefix comes last and wins.
        for prefix in [keys::INTERNAL_OTHER, keys::INTERNAL] {
            for (key, value) in system {
                if let Some(suffix) = key.strip_prefix(prefix) {
                    by_suffix.insert(suffix, value);
                }
            }
        }
        for (key, value) in system {
            if !key.starts_with(keys::INTERNAL) && !key.starts_with(keys::INTERNAL_OTHER) {
                by_suffix.insert(key, value);
            }
        }
        by_suffix.retain(|suffix, _| !is_replication(suffix));
        self.number(by_suffix.len() as i64);
        for (suffix, value) in by_suffix {
            self.bytes(suffix.as_bytes());
            self.bytes(value);
        }
    }

    fn unknown(&mut self, unknown: &[(String, Vec<u8>)]) {
        let mut sorted = unknown.iter().collect::<Vec<_>>();
        sorted.sort_unstable();
        self.number(sorted.len() as i64);
        for (key, value) in sorted {
            self.bytes(key.as_bytes());
            self.bytes(value);
        }
    }
}

/// Whether an internal value is about replication.
fn is_replication(suffix: &str) -> bool {
    suffix.starts_with("replication-") || suffix.starts_with("replica-") || suffix == "purgestatus"
}

pub(super) fn of(version: &Version) -> Identity {
    let mut facts = Facts(Sha256::new());
    facts.number(version.header().kind as u8);
    match version.body() {
        Body::Object(object) => {
            facts.bytes(&object.version.0);
            facts.number(object.modtime_ns);
            facts.number(object.size);
            facts.bytes(object.data_dir.as_bytes());
            facts.number(object.erasure_algorithm);
            facts.number(object.checksum_algorithm);
            if object.size > 0 {
                facts.number(object.data as i64);
                facts.number(object.parity as i64);
                facts.number(object.block_bytes);
                facts.bytes(&object.distribution);
            }
            facts.number(object.parts.len() as i64);
            for part in &object.parts {
                facts.number(part.number as i64);
                facts.number(part.size);
                facts.number(part.actual_size);
                facts.bytes(part.etag.as_bytes());
                facts.bytes(&part.index);
            }
            facts.system(&object.system);
            let user = object.user.iter();
            let user =
                user.filter(|(key, _)| !key.eq_ignore_ascii_case("x-amz-replication-status"));
            for (key, value) in user {
                facts.bytes(key.as_bytes());
                facts.bytes(value.as_bytes());
            }
            facts.unknown(&object.unknown);
        }
        Body::Marker(marker) => {
            facts.bytes(&marker.version.0);
            facts.number(marker.modtime_ns);
            facts.system(&marker.system);
            facts.unknown(&marker.unknown);
        }
        Body::Opaque => {
            facts.bytes(version.header_bytes());
            facts.bytes(version.body_bytes());
        }
    }
    facts.0.finalize().into()
}

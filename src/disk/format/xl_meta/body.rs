//! The bodies of versions, as facts.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::keys;
use crate::value::VersionId;

/// What a version is, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// An object with contents.
    Object(Box<ObjectBody>),
    /// A delete marker or a free version.
    Marker(MarkerBody),
    /// A form that is kept but neither understood nor written.
    Opaque,
}

/// An object. Only [`ObjectBody::shard`] differs between the drives of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectBody {
    /// Its id.
    pub version: VersionId,
    /// The folder of its shards. Every object has one in name, inline and empty ones too.
    pub data_dir: Uuid,
    /// 1 is Reed-Solomon.
    pub erasure_algorithm: u64,
    /// Data shards.
    pub data: usize,
    /// Parity shards.
    pub parity: usize,
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Which shard this drive holds, from 1.
    pub shard: usize,
    /// The shard of each drive of the set, in slot order, from 1.
    pub distribution: Vec<u8>,
    /// 1 is HighwayHash-256.
    pub checksum_algorithm: u64,
    /// Its parts, in order.
    pub parts: Vec<Part>,
    /// Stored bytes: the sum over all parts.
    pub size: u64,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Internal values, both prefixes.
    pub system: BTreeMap<String, Vec<u8>>,
    /// All other metadata, the ETag included.
    pub user: BTreeMap<String, String>,
    /// Keys that we do not know, each with its encoded value.
    pub unknown: Vec<(String, Vec<u8>)>,
}

/// One part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its number, 1 to 10,000.
    pub number: usize,
    /// Stored bytes.
    pub size: u64,
    /// Bytes as the client sent them; negative when unknown.
    pub actual_size: i64,
    /// MD5 of the part in hexadecimal; empty when it was not kept.
    pub etag: String,
    /// Index into a compressed part; empty without.
    pub index: Vec<u8>,
}

/// A delete marker, or a free version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerBody {
    /// Its id.
    pub version: VersionId,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Internal values.
    pub system: BTreeMap<String, Vec<u8>>,
    /// Keys that we do not know, each with its encoded value.
    pub unknown: Vec<(String, Vec<u8>)>,
}

impl ObjectBody {
    /// Whether the contents lie in the metadata file.
    pub fn is_inline(&self) -> bool {
        self.system(keys::INLINE_DATA).is_some() && !self.is_remote()
    }

    /// Whether the contents were moved to a remote tier and not brought back.
    pub fn is_remote(&self) -> bool {
        self.system(keys::TRANSITION_STATUS) == Some(b"complete")
            && !self.user.keys().any(|key| key.eq_ignore_ascii_case("x-amz-restore"))
    }

    /// Whether the stored bytes are not the client's: compressed or encrypted.
    pub fn is_encoded(&self) -> bool {
        let encrypted = |key: &str| {
            let key = key.to_ascii_lowercase();
            key.starts_with("x-rustfs-encryption-")
                || key.starts_with("x-minio-encryption-")
                || key.starts_with("x-amz-server-side-encryption")
                || key.contains("-internal-server-side-encryption-")
                || key.contains("-internal-encrypted-")
        };
        self.system(keys::COMPRESSION).is_some()
            || self.system.keys().any(|key| encrypted(key))
            || self.user.keys().any(|key| encrypted(key))
    }

    /// An internal value by its suffix.
    pub fn system(&self, suffix: &str) -> Option<&[u8]> {
        system_value(&self.system, suffix)
    }

    /// Sets an internal value under both prefixes.
    pub fn set_system(&mut self, suffix: &str, value: impl Into<Vec<u8>>) {
        let value = value.into();
        self.system.insert(format!("{}{suffix}", keys::INTERNAL), value.clone());
        self.system.insert(format!("{}{suffix}", keys::INTERNAL_OTHER), value);
    }

    /// Removes an internal value under both prefixes.
    pub fn remove_system(&mut self, suffix: &str) {
        self.system.remove(&format!("{}{suffix}", keys::INTERNAL));
        self.system.remove(&format!("{}{suffix}", keys::INTERNAL_OTHER));
    }

    /// The ETag, without quotes; empty when there is none.
    pub fn etag(&self) -> &str {
        self.user.get(keys::ETAG).map_or("", String::as_str)
    }

    /// All shards.
    pub fn total(&self) -> usize {
        self.data + self.parity
    }
}

pub(super) fn system_value<'a>(
    system: &'a BTreeMap<String, Vec<u8>>,
    suffix: &str,
) -> Option<&'a [u8]> {
    let value = |prefix: &str| system.get(&format!("{prefix}{suffix}"));
    value(keys::INTERNAL).or_else(|| value(keys::INTERNAL_OTHER)).map(Vec::as_slice)
}

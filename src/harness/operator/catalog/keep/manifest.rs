//! What a backup says of itself: the last file of it that is written, without which it is none.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

use super::super::error::CatalogError;
use crate::harness::operator::kept::KeptFile;
use crate::harness::report::recorded;
use crate::value::Digest;

/// The manifest's name in the backup.
pub const NAME: &str = "manifest.json";
/// Its format.
pub const FORMAT: u32 = 1;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// 1.
    pub format: u32,
    /// When it was begun: seconds since 1970.
    pub made_at: u64,
    /// The release of the servers, as the operator told it.
    pub release: String,
    /// The version of this program.
    pub made_by: String,
    /// Whether nodes had the drives meanwhile.
    pub live: bool,
    /// The deployment's id.
    pub deployment: String,
    /// Erasure sets.
    pub sets: usize,
    /// Drives of a set.
    pub set_drives: usize,
    /// Whether durable strong processes have taken over.
    pub is_cut_over: bool,
    /// The strong snapshot, where there is one.
    pub snapshot: Option<KeptSnapshot>,
    /// The keys of the fences that stand.
    pub fences: Vec<String>,
    /// The table buckets.
    pub warehouses: BTreeMap<String, KeptWarehouse>,
    /// Every object that the files decode to, in order.
    pub objects: Vec<KeptObject>,
    /// The drives, in order of set and slot.
    pub drives: Vec<KeptDrive>,
}

/// The strong snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptSnapshot {
    /// Its format's version.
    pub version: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// SHA-256 of it.
    pub sha256: String,
}

/// One table bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptWarehouse {
    /// By name: where each table stands in object-backed state.
    pub tables: BTreeMap<String, KeptPointer>,
    /// By name: where each table stands in the snapshot.
    pub strong_tables: BTreeMap<String, KeptPointer>,
    /// Views, in object-backed state.
    pub views: Vec<String>,
}

/// Where a table stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPointer {
    /// Its identity.
    pub table_id: String,
    /// Its current metadata file, a key of the table bucket.
    pub metadata_location: String,
    /// Its version token.
    pub version_token: String,
    /// How often its pointer moved.
    pub generation: u64,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptObject {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// SHA-256 of its contents.
    pub sha256: String,
}

/// What was kept of one drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDrive {
    /// Its folder in the backup.
    pub folder: String,
    /// Its set.
    pub set: usize,
    /// Its place in the set.
    pub slot: usize,
    /// Its id.
    pub format_id: String,
    /// Its files, in the order of their paths.
    pub files: Vec<KeptFile>,
}

impl Manifest {
    /// Reads the manifest of the backup in `folder`, and its digest.
    ///
    /// # Errors
    ///
    /// It is none, or a newer one.
    pub fn read(folder: &Path) -> Result<(Self, String), CatalogError> {
        let path = folder.join(NAME);
        let bytes = std::fs::read(&path).map_err(CatalogError::io("read", &path))?;
        let manifest = recorded::parse_json(&path, &bytes, FORMAT)?;
        Ok((manifest, Digest::of(&bytes).to_string()))
    }
}

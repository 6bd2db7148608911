//! The census: what the drives really hold, read while no node runs.
//!
//! These are the facts alone; `audit` gathers them and `check` judges them. Stored as `census.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The format of a census file.
pub const CENSUS_FORMAT: u32 = 1;

/// Everything found on the drives of one deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Census {
    /// [`CENSUS_FORMAT`].
    pub format: u32,
    /// The deployment id, when a majority of drives agrees on one.
    pub deployment: Option<String>,
    /// The drives, in pool order.
    pub drives: Vec<DriveCensus>,
    /// Buckets, in order, with the drives that lack them.
    pub buckets: Vec<BucketCensus>,
    /// Every key that any drive holds, `.rustfs.sys` included, in order.
    pub keys: Vec<KeyCensus>,
    /// What no version owns: orphan data directories, temporary files, open uploads, leftovers.
    pub surplus: Vec<Surplus>,
    /// What the drives hold of the replacement protocol; a drive that holds nothing of it is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacement: Vec<ReplacementCensus>,
    /// What they hold of the table catalog; `None` when nobody looked, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogCensus>,
    /// Bytes read and hashed, for the figures.
    pub bytes_read: u64,
}

/// What the drives together hold of the table catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogCensus {
    /// The text of every object of the catalog's own, by its key in the meta bucket.
    pub objects: BTreeMap<String, String>,
    /// The text of the metadata files that tables have now, by `bucket/key`.
    pub metadata: BTreeMap<String, String>,
    /// What cannot be read from the drives, and why.
    pub unreadable: Vec<String>,
}

/// What one drive holds of the replacement protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacementCensus {
    /// The drive's name.
    pub drive: String,
    /// What its marker says; `None` when it has none. Bytes that are no text are shown as such.
    pub marker: Option<String>,
    /// Its records as they stand there, by path.
    pub records: BTreeMap<String, String>,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveCensus {
    /// How the caller named it.
    pub name: String,
    /// Set and slot that its format.json claims.
    pub place: Option<(usize, usize)>,
    /// Its own id.
    pub id: Option<String>,
    /// How it stands.
    pub state: DriveState,
    /// What is wrong with it, in words; empty when sound.
    pub problems: Vec<String>,
}

/// How a drive stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// It belongs to the deployment and sits in its slot.
    Member,
    /// It carries no format.json.
    Blank,
    /// It belongs to another deployment, or sits in another slot.
    Foreign,
    /// Its format.json cannot be read.
    Unreadable,
    /// Nobody named a drive for its slot, or what was named is not there.
    Missing,
}

/// One bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketCensus {
    /// Its name.
    pub name: String,
    /// Names of the drives whose bucket directory is missing.
    pub missing_on: Vec<String>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyCensus {
    /// Bucket and key, decoded (a trailing `/` instead of `__XLDIR__`).
    pub target: ObjectKey,
    /// The set that holds it.
    pub set: usize,
    /// Its versions: the union over all drives, newest first by the format's total order.
    pub versions: Vec<VersionCensus>,
    /// Whether all members of the set hold the same ordered list.
    pub same_order: bool,
    /// What is wrong with the key's xl.meta files as such, by drive; empty when sound.
    pub problems: Vec<DriveProblem>,
}

/// One version of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCensus {
    /// Its id.
    pub version: VersionId,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Object or marker.
    pub delete_marker: bool,
    /// Contents length in bytes; 0 for a marker.
    pub size: u64,
    /// SHA-256 of the contents as decoded from the shards; `None` for markers, encoded payloads and what cannot be decoded.
    pub digest: Option<Digest>,
    /// ETag as stored.
    pub etag: Option<String>,
    /// Data shards (0 for a marker).
    pub data_shards: usize,
    /// Parity shards (0 for a marker).
    pub parity_shards: usize,
    /// The class of the specification's 6.3 L.
    pub class: VersionClass,
    /// Drives whose metadata of this version agrees with the winning identity.
    pub metadata_copies: usize,
    /// Least number of good shards over all blocks of all parts; for a marker its copies.
    pub good_shards: usize,
    /// `good_shards - data_shards`; for a marker and an empty object copies minus their read quorum. Negative
    /// when unreadable.
    pub margin: i64,
    /// What is wrong on which drive; empty when full.
    pub problems: Vec<DriveProblem>,
}

/// How well a version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionClass {
    /// All drives of the set hold it, whole.
    Full,
    /// Readable with a margin, but not on all drives.
    Degraded,
    /// Readable with nothing to spare.
    AtRisk,
    /// Metadata on fewer drives than a write quorum: a leftover of a write that failed or still runs.
    Uncommitted,
    /// Fewer good shards, or fewer agreeing copies, than reading needs.
    Unreadable,
    /// One id with two identities, or shards that contradict each other.
    Divergent,
}

/// One thing wrong on one drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveProblem {
    /// The drive's name.
    pub drive: String,
    /// What kind.
    pub kind: ProblemKind,
    /// The file concerned, relative to the drive.
    pub path: String,
    /// What was seen and what was expected.
    pub detail: String,
}

/// What can be wrong on one drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// No xl.meta where one belongs.
    MetadataMissing,
    /// The xl.meta does not decode or its checksum is wrong.
    MetadataCorrupt,
    /// The xl.meta lacks this version.
    VersionMissing,
    /// The version's fields differ from the winning identity.
    VersionDiffers,
    /// A part file, or the inline value, is missing.
    PartMissing,
    /// A part file, or the inline value, has the wrong length.
    PartLength,
    /// A frame's hash does not match its bytes.
    FrameCorrupt,
    /// Frames are self-consistent but contradict the stripe: a misplaced or stale shard.
    ShardMisplaced,
    /// The key stands in a set where it does not belong.
    WrongSet,
    /// A checksum or ETag stored with the version does not match its contents.
    ContentMismatch,
    /// Two null versions, or one id twice, in one xl.meta.
    DuplicateVersion,
    /// The stored order, a header or a signature contradicts the bodies.
    Inconsistent,
}

/// Something that no version owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surplus {
    /// The drive's name.
    pub drive: String,
    /// What it is.
    pub kind: SurplusKind,
    /// Path relative to the drive.
    pub path: String,
    /// Bytes below it.
    pub bytes: u64,
}

/// What a surplus file or directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurplusKind {
    /// A data directory that no version references.
    OrphanDataDir,
    /// An inline entry that no version owns.
    OrphanInline,
    /// Below `.rustfs.sys/tmp`, the trash excepted.
    Temporary,
    /// Below `.rustfs.sys/tmp/.trash`.
    Trash,
    /// An upload that is neither completed nor aborted.
    OpenUpload,
    /// `xl.meta.bkp`, `reserve-delete-data.*`, `delete-data.*`, rollback marks.
    Transient,
    /// Parts or `part.N.meta` that a completed upload left behind.
    UploadLeftover,
    /// Moved aside by a healer, waiting for its grace to end.
    Quarantined,
    /// A name that the format does not know.
    Unknown,
}

//! What the store is asked and what it answers.
//!
//! Every answer of a write is one of three: done (`Ok`), not done ([`StoreError`] whose
//! [`effect`](StoreError::effect) is none), or cannot know.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

pub use super::error::StoreError;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Record;
use crate::disk::format::format_json::FormatJson;
use crate::node::seams::DriveClient;
use crate::node::seams::Locks;
use crate::protocol::admin::ScanStatus;
use crate::protocol::config::Limits;
use crate::protocol::crash_point::Passing;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect::BucketState;
use crate::protocol::rules::SharedRules;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// What a store is made of.
pub struct StoreParts {
    /// The drives: `sets[set][slot]`, local and peers' alike.
    pub sets: Vec<Vec<Arc<dyn DriveClient>>>,
    /// Which of them this node owns, as `(set, slot)`.
    pub local: Vec<(usize, usize)>,
    /// The format that the quorum of drives agrees on; `this` does not matter.
    pub format: FormatJson,
    /// Parity shards of standard objects.
    pub parity: usize,
    /// Namespace locks.
    pub locks: Arc<dyn Locks>,
    /// The rules that a planted defect may bend.
    pub rules: SharedRules,
    /// Crash points of the coordinator.
    pub passing: Arc<dyn Passing>,
    /// Bounds and periods.
    pub limits: Limits,
}

/// Contents on their way in.
pub type BodyStream = BoxStream<'static, Result<Bytes, BodyError>>;

/// Contents on their way out. An error ends them: what came before must then not be taken for the whole.
pub type ContentStream = BoxStream<'static, Result<Bytes, StoreError>>;

/// Why a request's body ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off: {0}")]
pub struct BodyError(pub String);

/// A checksum that the client announced.
pub struct WantedChecksum {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// What it must be.
    pub expected: ExpectedChecksum,
}

/// What an announced checksum must be.
pub enum ExpectedChecksum {
    /// Compute and keep it only.
    Any,
    /// These bytes.
    Is(Vec<u8>),
    /// What stands behind the body: called after its last byte; `None` when the trailer is missing.
    Trailing(Box<dyn FnOnce() -> Option<Vec<u8>> + Send>),
}

/// One object to be written.
pub struct PutRequest {
    /// Where.
    pub target: ObjectKey,
    /// Length of the body, when it is known.
    pub size: Option<u64>,
    /// What is kept with it.
    pub metadata: Metadata,
    /// `Content-MD5`.
    pub content_md5: Option<[u8; 16]>,
    /// Additional checksums.
    pub checksums: Vec<WantedChecksum>,
    /// When it is to be written at all.
    pub conditions: Conditions,
}

/// What a client keeps with an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Standard headers that are kept, in lowercase: `content-type`, `cache-control`, …
    pub headers: BTreeMap<String, String>,
    /// `x-amz-meta-NAME`, as `NAME` in lowercase.
    pub user: BTreeMap<String, String>,
    /// `x-amz-tagging`, as sent.
    pub tags: Option<String>,
    /// Its owner and grants; `None` for an object that belongs to its bucket's owner alone. The store does not
    /// look into them.
    pub acl: Option<String>,
    /// Whether `REDUCED_REDUNDANCY` was asked for.
    pub reduced_redundancy: bool,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOutcome {
    /// The ETag, without quotes.
    pub etag: String,
    /// The version, when the answer names one.
    pub version: Option<VersionId>,
    /// Bytes.
    pub size: u64,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Checksums that were kept.
    pub checksums: Vec<Record>,
}

/// A version of a key: the latest, or one by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// The key.
    pub target: ObjectKey,
    /// Its version; `None` for the latest.
    pub version: Option<VersionId>,
    /// Which bytes; `None` for all. Ignored by HEAD.
    pub range: Option<Range>,
    /// One part of a multipart object, from 1. Not together with `range`.
    pub part: Option<u32>,
    /// When it is to be read at all.
    pub conditions: Conditions,
}

/// A range of bytes as HTTP has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// From the first byte to the last one, both included.
    Between(u64, u64),
    /// From a byte to the end.
    From(u64),
    /// So many bytes at the end.
    Last(u64),
}

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The key.
    pub target: ObjectKey,
    /// The version.
    pub version: VersionId,
    /// Whether answers name the version: it has an id, or the bucket keeps versions.
    pub names_version: bool,
    /// Whether it is the latest.
    pub is_latest: bool,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
    /// Bytes.
    pub size: u64,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// The ETag, without quotes.
    pub etag: String,
    /// What the client kept with it.
    pub metadata: Metadata,
    /// Additional checksums.
    pub checksums: Vec<Record>,
    /// Sizes of its parts.
    pub parts: Vec<(u32, u64)>,
}

/// An object that is being read.
pub struct ReadOutcome {
    /// What it is.
    pub info: ObjectInfo,
    /// First byte and number of bytes that follow.
    pub span: (u64, u64),
    /// The bytes.
    pub content: ContentStream,
}

/// One object to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The key.
    pub target: ObjectKey,
    /// Exactly this version; `None` for what a plain delete does.
    pub version: Option<VersionId>,
    /// When it is to be deleted at all.
    pub conditions: Conditions,
}

/// What became of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// The version that was removed or put in, when the answer names one.
    pub version: Option<VersionId>,
    /// Whether that is a delete marker.
    pub delete_marker: bool,
}

/// One object to be copied.
pub struct CopyRequest {
    /// From where; its range is ignored.
    pub source: ReadRequest,
    /// Where to.
    pub target: ObjectKey,
    /// What is kept with the copy; `None` for what the source has.
    pub metadata: Option<Metadata>,
    /// Tags of the copy; `None` for what the source has.
    pub tags: Option<Option<String>>,
    /// Owner and grants of the copy; those of the source stay behind.
    pub acl: Option<String>,
    /// An additional checksum to compute.
    pub checksum: Option<Algorithm>,
    /// When the copy is to be written at all.
    pub conditions: Conditions,
}

/// An upload to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRequest {
    /// Where the object is to be.
    pub target: ObjectKey,
    /// What is kept with it.
    pub metadata: Metadata,
    /// The additional checksum of its parts, and whether that of the whole is over the contents.
    pub checksum: Option<(Algorithm, bool)>,
}

/// A part to be uploaded.
pub struct PartRequest {
    /// The upload's object.
    pub target: ObjectKey,
    /// The upload, as clients know it.
    pub upload: String,
    /// 1 to 10,000.
    pub number: u32,
    /// Length of the body, when it is known.
    pub size: Option<u64>,
    /// `Content-MD5`.
    pub content_md5: Option<[u8; 16]>,
    /// Additional checksums.
    pub checksums: Vec<WantedChecksum>,
}

/// A part that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Its number.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// The ETag, without quotes.
    pub etag: String,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Additional checksums, by algorithm.
    pub checksums: Vec<(Algorithm, Vec<u8>)>,
}

/// A part of a copy.
pub struct PartCopyRequest {
    /// From where.
    pub source: ReadRequest,
    /// The upload's object.
    pub target: ObjectKey,
    /// The upload, as clients know it.
    pub upload: String,
    /// 1 to 10,000.
    pub number: u32,
}

/// An open upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadInfo {
    /// Where the object is to be.
    pub target: ObjectKey,
    /// The upload, as clients know it.
    pub upload: String,
    /// When it was opened, Unix nanoseconds.
    pub opened_ns: i64,
    /// The additional checksum of its parts, and whether that of the whole is over the contents.
    pub checksum: Option<(Algorithm, bool)>,
    /// Owner and grants of its object, as [`Metadata::acl`].
    pub acl: Option<String>,
}

/// An upload to be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteRequest {
    /// The object.
    pub target: ObjectKey,
    /// The upload, as clients know it.
    pub upload: String,
    /// The parts, in the client's order.
    pub parts: Vec<CompletePart>,
    /// What the whole object's checksum must be.
    pub checksum: Option<(Algorithm, Vec<u8>)>,
    /// When the object is to be written at all.
    pub conditions: Conditions,
}

/// A part as the client lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletePart {
    /// Its number.
    pub number: u32,
    /// Its ETag, without quotes.
    pub etag: String,
    /// Its checksum, when the client lists it.
    pub checksum: Option<(Algorithm, Vec<u8>)>,
}

/// Which uploads are to be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadListRequest {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Keys are grouped at this.
    pub delimiter: Option<String>,
    /// Only after this key.
    pub key_marker: String,
    /// And, of that key, only after this upload.
    pub upload_marker: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Open uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadListing {
    /// The uploads, by key and then by when they were opened.
    pub uploads: Vec<UploadInfo>,
    /// Prefixes at the delimiter.
    pub prefixes: Vec<String>,
    /// Where the next page begins.
    pub next: Option<(String, Option<String>)>,
}

/// What is to be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The bucket.
    pub bucket: String,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Keys are grouped at this.
    pub delimiter: Option<String>,
    /// Only after this key (or prefix).
    pub after: String,
    /// And, of that key, only after this version; for version listings.
    pub after_version: Option<VersionId>,
    /// At most so many entries, prefixes counted.
    pub limit: usize,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects, or versions newest first within a key, in order.
    pub entries: Vec<ObjectInfo>,
    /// Prefixes at the delimiter, in order.
    pub prefixes: Vec<String>,
    /// Where the next page begins: pass both as `after` and `after_version`.
    pub next: Option<(String, Option<VersionId>)>,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// When it was made, Unix nanoseconds.
    pub created_ns: i64,
    /// Whether it keeps versions.
    pub state: BucketState,
    /// Its policy, as it was given; empty when there is none. The store does not look into it.
    pub policy: Vec<u8>,
    /// Its tags; empty when there are none. The store does not look into them.
    pub tags: Vec<u8>,
    /// Its owner and grants; empty for what was always there. The store does not look into them.
    pub acl: Vec<u8>,
    /// What makes it a table bucket; empty for any other. The store does not look into it.
    pub tables: Vec<u8>,
}

/// One of the documents that a bucket has besides its versioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketDocument {
    /// [`BucketInfo::policy`].
    Policy,
    /// [`BucketInfo::tags`].
    Tags,
    /// [`BucketInfo::acl`].
    Acl,
    /// [`BucketInfo::tables`].
    Tables,
}

/// What is to be said of a version from now on; its contents and its moment stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amendment {
    /// Its tags, as [`Metadata::tags`]; `None` takes them away.
    Tags(Option<String>),
    /// Its grants, as [`Metadata::acl`]; `None` takes them away.
    Acl(Option<String>),
}

/// What is to be healed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealRequest {
    /// Only this bucket; `None` for everything, the system's own objects first.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Only keys that begin with this; `key` is better for a single one.
    #[serde(default)]
    pub prefix: String,
    /// Only this key, all its versions.
    #[serde(default)]
    pub key: Option<String>,
    /// Only this version of `key`.
    #[serde(default)]
    pub version: Option<VersionId>,
    /// Whether every byte is read and compared, and not only what is there and how long it is.
    #[serde(default)]
    pub deep: bool,
}

/// How far a healing sequence has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealProgress {
    /// Its id.
    pub id: Uuid,
    /// What it heals.
    pub request: HealRequest,
    /// Whether it still runs.
    pub running: bool,
    /// Keys looked at.
    pub keys: u64,
    /// Versions looked at.
    pub versions: u64,
    /// Versions brought back on at least one drive.
    pub healed: u64,
    /// Versions, directories and files moved to quarantine.
    pub quarantined: u64,
    /// Versions that nothing could be done for, yet or ever.
    pub unhealed: u64,
    /// What is below its quorum and waits for its grace to end; no version suffers from it.
    pub waiting: u64,
    /// The first problems in words, with key and version.
    pub problems: Vec<String>,
    /// When it began, Unix nanoseconds.
    pub began_ns: i64,
    /// When it ended, Unix nanoseconds.
    pub ended_ns: Option<i64>,
}

/// How the store stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Entries of the durable queue of partial writes, on this node's drives.
    pub queued: u64,
    /// Whether anything is being healed.
    pub healing: bool,
    /// When the queue was last worked through, Unix nanoseconds.
    pub last_cycle_ended_ns: i64,
    /// Versions healed since this process began.
    pub healed: u64,
    /// Versions moved to quarantine since this process began.
    pub quarantined: u64,
    /// Writes that were answered as unknown since this process began.
    pub unknown: u64,
    /// Writes that were taken back since this process began.
    pub undone: u64,
    /// Reads that met a bad or missing shard since this process began.
    pub repaired_reads: u64,
    /// The scanner.
    pub scan: ScanStatus,
}

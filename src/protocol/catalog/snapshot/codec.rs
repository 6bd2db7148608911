//! The bytes of a snapshot.
//!
//! # Sources
//!
//! Specification of the catalog §4.2 (members and order), §1.3 (size), §4.3 and F33 to F35 (which failure is what).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::snapshot::derived::Derived;
use crate::protocol::catalog::snapshot::validate;

/// The largest snapshot, in bytes, read or written.
pub const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The newest version.
pub const SNAPSHOT_VERSION_MAX: u32 = 2;

/// The bytes, as they are read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    version: u32,
    table_buckets: Vec<BucketEntry>,
    namespaces: Vec<NamespaceEntry>,
    tables: Vec<TableEntry>,
    views: Vec<ViewEntry>,
    commits: Vec<Row<CommitRecord>>,
    idempotency: Vec<Row<CommitRecord>>,
}

/// One commit with its place.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row<R, S = String> {
    pub(crate) table_bucket: S,
    pub(crate) table_id: S,
    pub(crate) lookup_key: S,
    pub(crate) commit: R,
}

/// The bytes, as they are written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    table_buckets: Vec<&'a BucketEntry>,
    namespaces: Vec<&'a NamespaceEntry>,
    tables: Vec<&'a TableEntry>,
    views: Vec<&'a ViewEntry>,
    commits: Vec<Row<&'a CommitRecord, &'a str>>,
    idempotency: Vec<Row<&'a CommitRecord, &'a str>>,
}

/// A snapshot that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The version of the bytes it was read from.
    pub version: u32,
    /// What it holds.
    pub contents: Arc<Contents>,
    /// What follows from it.
    pub derived: Arc<Derived>,
    /// How many commit records of no table were left out; version 1 only.
    pub orphans: usize,
}

/// Reads a snapshot.
///
/// # Errors
///
/// [`Class::Damaged`] when it is not JSON of this form; [`Class::Invalid`] when it is too large, of another
/// version, or contradicts itself. Either way all of it is unusable.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, Refusal> {
    decode_up_to(bytes, SNAPSHOT_VERSION_MAX)
}

/// Reads a snapshot as a release does that knows no version above `version_max`.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_up_to(bytes: &[u8], version_max: u32) -> Result<Snapshot, Refusal> {
    check_size(bytes.len(), SNAPSHOT_BYTES_MAX)?;
    let read: Read = serde_json::from_slice(bytes)
        .map_err(|error| Class::Damaged.because(format!("the strong snapshot: {error}")))?;
    let version = read.version;
    if !(1..=version_max).contains(&version) {
        let text = format!("the strong snapshot is of version {version}, not 1 to {version_max}");
        return Err(Class::Invalid.because(text));
    }
    let parts = validate::Parts {
        buckets: read.table_buckets,
        namespaces: read.namespaces,
        tables: read.tables,
        views: read.views,
        commits: read.commits,
        idempotency: read.idempotency,
    };
    let (contents, orphans) = validate::assemble(parts, version)?;
    let derived = validate::validate(&contents, version)?;
    Ok(Snapshot { version, contents: Arc::new(contents), derived: Arc::new(derived), orphans })
}

/// Refuses a snapshot of more than `bytes_max` bytes.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn check_size(bytes: usize, bytes_max: usize) -> Result<(), Refusal> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Class::Invalid
        .because(format!("the strong snapshot has {bytes} bytes, more than {bytes_max}")))
}

/// The bytes of `contents` in this version.
///
/// # Errors
///
/// [`Class::Invalid`] when they are too many.
pub fn encode(contents: &Contents, version: u32) -> Result<Vec<u8>, Refusal> {
    let written = Written {
        version,
        table_buckets: contents.buckets.values().map(|it| &**it).collect(),
        namespaces: contents.namespaces.values().map(|it| &**it).collect(),
        tables: contents.tables.values().map(|it| &**it).collect(),
        views: contents.views.values().map(|it| &**it).collect(),
        commits: commit_rows(contents),
        idempotency: idempotency_rows(contents),
    };
    let bytes = compact(&written);
    check_size(bytes.len(), SNAPSHOT_BYTES_MAX)?;
    Ok(bytes)
}

/// The commits in the order in which they are written.
pub(crate) fn commit_rows(contents: &Contents) -> Vec<Row<&CommitRecord, &str>> {
    rows(contents, |table| &table.commits)
}

/// The idempotency records in the order in which they are written.
pub(crate) fn idempotency_rows(contents: &Contents) -> Vec<Row<&CommitRecord, &str>> {
    rows(contents, |table| &table.idempotency)
}

fn rows<'a>(
    contents: &'a Contents,
    of: impl Fn(&'a TableCommits) -> &'a BTreeMap<String, Arc<CommitRecord>>,
) -> Vec<Row<&'a CommitRecord, &'a str>> {
    let mut rows = Vec::new();
    for ((table_bucket, table_id), table) in &contents.commits {
        for (lookup_key, commit) in of(table) {
            rows.push(Row::<&CommitRecord, &str> { table_bucket, table_id, lookup_key, commit });
        }
    }
    rows
}

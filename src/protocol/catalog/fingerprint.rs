//! The fingerprint of one bucket's state: what a migration copies must be what it then finds.
//!
//! # Sources
//!
//! Specification of the catalog §5.4, as corrected: only typed maps are sorted by their keys.

use serde::Serialize;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::codec::Row;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::value::Digest;

/// What a fingerprint is taken of.
#[derive(Serialize)]
struct State<'a> {
    table_bucket: &'a BucketEntry,
    namespaces: Vec<&'a NamespaceEntry>,
    tables: Vec<&'a TableEntry>,
    views: Vec<&'a ViewEntry>,
    commits: Vec<Row<&'a CommitRecord, &'a str>>,
    idempotency: Vec<Row<&'a CommitRecord, &'a str>>,
}

/// The fingerprint of a bucket's state: lower-case hexadecimal SHA-256. `None` when there is no such bucket.
pub fn of_bucket(contents: &Contents, bucket: &str) -> Option<String> {
    let only = contents.of_bucket(bucket);
    let state = State {
        table_bucket: only.buckets.get(bucket)?,
        namespaces: only.namespaces.values().map(|it| &**it).collect(),
        tables: only.tables.values().map(|it| &**it).collect(),
        views: only.views.values().map(|it| &**it).collect(),
        commits: codec::commit_rows(&only),
        idempotency: codec::idempotency_rows(&only),
    };
    Some(Digest::of(&compact(&state)).to_string())
}

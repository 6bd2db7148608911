//! The changes of durable-strong state.
//!
//! # Sources
//!
//! Specification of the catalog §4.6, §4.7.

use std::collections::BTreeMap;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::crash_point::CrashPoint;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Enable a table bucket; an entry that is there stays.
    EnableBucket(String),
    /// Create a namespace, and its bucket's entry if it has none.
    CreateNamespace(NamespaceEntry),
    /// Drop an empty namespace.
    DropNamespace(String, Namespace),
    /// Set and remove properties of a namespace.
    SetProperties(Properties),
    /// Create or register a table.
    CreateTable(TableEntry),
    /// Move a table's pointer.
    Commit(Box<Commit>),
    /// Drop a table with its commits. The id is that of the first reading.
    DropTable(String, Identifier, Option<String>),
    /// Rename a table: id, token, generation and metadata stay.
    RenameTable(Rename),
    /// Create a view.
    CreateView(ViewEntry),
    /// Replace a view: from the first entry to the second.
    ReplaceView(Box<(ViewEntry, ViewEntry)>),
    /// Drop a view. The id is that of the first reading.
    DropView(String, Identifier, Option<String>),
    /// A migration adds a bucket: contents of that bucket only.
    AddBucket(String, Box<Contents>),
    /// A cancellation takes a bucket out whose fingerprint is this one.
    RemoveBucket(String, String),
}

/// A change of a namespace's properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// The bucket.
    pub bucket: String,
    /// The namespace.
    pub namespace: Namespace,
    /// To be set.
    pub updates: BTreeMap<String, String>,
    /// To be removed.
    pub removals: Vec<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The bucket.
    pub bucket: String,
    /// The table.
    pub table: Identifier,
    /// Its record, with a fresh new token. It is recorded as committed.
    pub record: CommitRecord,
    /// The table's location after it.
    pub warehouse_location: String,
    /// The format version after it.
    pub format_version: u32,
}

/// A renaming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// The bucket.
    pub bucket: String,
    /// The name that it has.
    pub from: Identifier,
    /// The name that it gets.
    pub to: Identifier,
    /// The table's id at the first reading, if it was there.
    pub table_id: Option<String>,
}

/// What a change answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// The bucket's entry.
    Bucket(BucketEntry),
    /// The namespace's entry.
    Namespace(NamespaceEntry),
    /// What became of the properties.
    Properties(ChangedProperties),
    /// The table's entry.
    Table(TableEntry),
    /// The table as it stands now, and whether nothing had to be published.
    Committed(TableEntry, bool),
    /// The view's entry.
    View(ViewEntry),
}

/// What became of each property that was named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedProperties {
    /// Set, also to what they were.
    pub updated: Vec<String>,
    /// Removed.
    pub removed: Vec<String>,
    /// To be removed, and not there.
    pub missing: Vec<String>,
}

impl Change {
    /// The crash point right after its write.
    pub fn point(&self) -> CrashPoint {
        match self {
            Self::AddBucket(..) => CrashPoint::CatalogMigrateSnapshotWritten,
            Self::RemoveBucket(..) => CrashPoint::CatalogCancelSnapshotWritten,
            _ => CrashPoint::CatalogStrongSnapshotWritten,
        }
    }
}

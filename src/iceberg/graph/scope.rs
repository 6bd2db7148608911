//! What is looked at, where it may be, and how much of it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::iceberg::Metadata;

/// How much one commit may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most manifests.
    pub manifests: usize,
    /// The most manifests, each counted with every snapshot that lists it.
    pub traversals: usize,
    /// The most bytes of manifest lists and manifests together.
    pub avro_bytes: u64,
    /// The most references to data and delete files.
    pub file_references: usize,
    /// The most statistics files.
    pub statistics: usize,
}

impl Budget {
    /// That of the specification.
    pub const SERVED: Self = Self {
        manifests: 10_000,
        traversals: 20_000,
        avro_bytes: 512 << 20,
        file_references: 1_000_000,
        statistics: 1_024,
    };
}

/// Where a table's files may lie. Prefixes are of keys, and end in a slash.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The table's bucket.
    pub bucket: &'a str,
    /// What the table's location leads to: its data and metadata.
    pub warehouse_prefix: &'a str,
    /// Where the catalog keeps the table's metadata: no data.
    pub metadata_prefix: &'a str,
}

/// Which parts of a table are looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    pub(super) snapshots: BTreeSet<i64>,
    /// The locations of statistics files, and how long they are said to be.
    pub(super) statistics: BTreeMap<String, Option<u64>>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Examined {
    /// Snapshots.
    pub snapshots: usize,
    /// Manifests, each once.
    pub manifests: usize,
    /// Data and delete files, each once.
    pub files: usize,
    /// Statistics files.
    pub statistics: usize,
}

impl Scope {
    /// What `new` has and `old` has not, or has differently.
    pub fn between(old: &Metadata, new: &Metadata) -> Self {
        let is_new = |list: &str, entry: &Value| !old.list(list).contains(entry);
        Self::of(new, is_new)
    }

    /// Everything.
    pub fn all(metadata: &Metadata) -> Self {
        Self::of(metadata, |_, _| true)
    }

    fn of(metadata: &Metadata, is_wanted: impl Fn(&str, &Value) -> bool) -> Self {
        let mut scope = Self::default();
        for snapshot in metadata.snapshots().iter().filter(|entry| is_wanted("snapshots", entry)) {
            scope.snapshots.extend(snapshot["snapshot-id"].as_i64());
        }
        for list in ["statistics", "partition-statistics"] {
            for entry in metadata.list(list).iter().filter(|entry| is_wanted(list, entry)) {
                let path = entry["statistics-path"].as_str().unwrap_or_default().to_owned();
                scope.statistics.insert(path, entry["file-size-in-bytes"].as_u64());
            }
        }
        scope
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.statistics.is_empty()
    }
}

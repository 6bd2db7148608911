//! What a scenario says about its clients. Pure; the generator turns it into operations.
//!
//! People write it, so every unknown key is an error and every number has its unit in its name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

/// The workload of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// The buckets, with what they keep.
    pub buckets: BTreeMap<String, BucketKind>,
    /// How often each operation is drawn, relative to the others; a bit of everything by default.
    #[serde(default = "WorkloadSpec::default_mix")]
    pub mix: Mix,
    /// Clients that work side by side, each with one request at a time.
    #[serde(default = "default_clients")]
    pub clients: u32,
    /// Keys of each bucket that clients share.
    #[serde(default = "default_keys")]
    pub keys: u32,
    /// Which sizes objects have.
    #[serde(default)]
    pub sizes: Sizes,
    /// Bytes that all load steps together may send as contents.
    #[serde(default = "default_bytes_max")]
    pub bytes_max: u64,
    /// After how long a client gives an answer up.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

/// One `load` step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// How many operations, over all clients.
    pub operations: u64,
    /// Instead of the workload's clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Instead of the workload's mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Instead of the workload's sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Only these buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<String>>,
    /// Which nodes are asked.
    #[serde(default)]
    pub targets: Targets,
    /// What a client does when a node refuses its connection.
    #[serde(default)]
    pub when_down: WhenDown,
    /// How long a client waits in all for nodes that are down before it stops.
    #[serde(default = "default_down_wait_ms")]
    pub down_wait_ms: u64,
}

/// Which nodes are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Targets {
    /// All, in turn.
    #[default]
    All,
    /// These, in turn.
    These(Vec<usize>),
}

impl Targets {
    /// The nodes, out of `count`.
    pub fn nodes(&self, count: usize) -> Vec<usize> {
        match self {
            Self::All => (0..count).collect(),
            Self::These(nodes) => nodes.clone(),
        }
    }
}

/// What a client does when a node refuses its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenDown {
    /// It asks the next node; when all are down it waits.
    #[default]
    Elsewhere,
    /// It waits for that node.
    Wait,
    /// It counts the operation as done and goes on with its next one.
    Skip,
}

/// What a bucket keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketKind {
    /// Versioning was never touched: every object is its null version.
    Unversioned,
    /// Versioning is enabled before the first object.
    Enabled,
    /// Versioning was enabled for the first objects and is suspended since: a null version among numbered ones.
    Suspended,
    /// Versioning was enabled after the first objects: a null version below numbered ones.
    Adopted,
}

impl BucketKind {
    /// Whether a write during the load gets an id of its own.
    pub fn keeps_versions(self) -> bool {
        matches!(self, Self::Enabled | Self::Adopted)
    }

    /// Whether objects stand in it before the load that were written under another versioning.
    pub fn has_early_objects(self) -> bool {
        matches!(self, Self::Suspended | Self::Adopted)
    }
}

/// How often each operation is drawn, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Write a key, most often one that no one has written.
    pub put: u32,
    /// Write a key that was written before.
    pub overwrite: u32,
    /// Delete a key without naming a version.
    pub delete: u32,
    /// Delete one version of a key by its id.
    pub delete_version: u32,
    /// Write a key in parts.
    pub multipart: u32,
    /// Write a key with the contents of another.
    pub copy: u32,
    /// Write a key only if it is absent.
    pub put_if_absent: u32,
    /// Write a key only if it still has the ETag that was seen last.
    pub put_if_match: u32,
    /// Read contents, whole or a range, of the latest or of an older version.
    pub read: u32,
    /// Read metadata.
    pub head: u32,
    /// List the latest objects of a bucket.
    pub list: u32,
    /// List all versions of a bucket.
    pub list_versions: u32,
}

impl Mix {
    /// Nothing at all.
    pub const NOTHING: Self = Self {
        put: 0,
        overwrite: 0,
        delete: 0,
        delete_version: 0,
        multipart: 0,
        copy: 0,
        put_if_absent: 0,
        put_if_match: 0,
        read: 0,
        head: 0,
        list: 0,
        list_versions: 0,
    };

    /// The sum of all weights.
    pub fn total(&self) -> u32 {
        self.put
            + self.overwrite
            + self.delete
            + self.delete_version
            + self.multipart
            + self.copy
            + self.put_if_absent
            + self.put_if_match
            + self.read
            + self.head
            + self.list
            + self.list_versions
    }
}

/// What is not named is not drawn.
impl Default for Mix {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl WorkloadSpec {
    /// A bit of everything.
    pub fn default_mix() -> Mix {
        Mix {
            put: 20,
            overwrite: 16,
            delete: 8,
            delete_version: 4,
            multipart: 4,
            copy: 4,
            put_if_absent: 6,
            put_if_match: 6,
            read: 20,
            head: 6,
            list: 3,
            list_versions: 3,
        }
    }
}

/// Which sizes objects have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// From nothing across the inline limit and the block boundary; at most one in twenty is larger than 2 MiB.
    #[default]
    Mixed,
    /// At most 4 KiB: always inside xl.meta.
    Inline,
    /// Around one and two blocks: always in part files.
    Blocks,
    /// Exactly so many bytes.
    Bytes(u64),
}

fn default_clients() -> u32 {
    4
}

fn default_keys() -> u32 {
    24
}

fn default_bytes_max() -> u64 {
    96 << 20
}

fn default_timeout_ms() -> u64 {
    15_000
}

fn default_down_wait_ms() -> u64 {
    20_000
}

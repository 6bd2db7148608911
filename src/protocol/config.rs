//! The node's configuration file, `node.yaml`: written by an operator or by the testbed.
//!
//! Read through `yaml.rs`. Secrets never stand in it: it names the files that hold them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use super::catalog::snapshot::codec::SNAPSHOT_BYTES_MAX;
use super::replacement::legacy;

/// One node of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Which of `nodes` this process is.
    pub node: usize,
    /// Where to listen, `address:port`; port 0 lets the kernel choose (the control descriptor tells which).
    pub listen: String,
    /// Every node in endpoint order; node i owns the drives `nodes[i].drives`.
    pub nodes: Vec<NodeEntry>,
    /// Drives of one erasure set; all drives together are a multiple of it.
    pub set_drives: usize,
    /// Parity shards of standard objects; by default as the format has it for `set_drives`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parity: Option<usize>,
    /// What an acknowledgement promises after a loss of power.
    #[serde(default)]
    pub durability: Durability,
    /// The file that holds the cluster secret (peer RPC).
    pub cluster_secret_file: PathBuf,
    /// Principals by access key.
    pub principals: BTreeMap<String, Principal>,
    /// Whether a drive root may be a plain directory. For tests on temporary directories only.
    #[serde(default)]
    pub allow_unmounted: bool,
    /// Bounds and periods; every one has a default.
    #[serde(default)]
    pub limits: Limits,
    /// Which release it behaves as where it replaces drives. For rehearsals only.
    #[serde(default, skip_serializing_if = "Release::is_current")]
    pub release: Release,
    /// The table catalog.
    #[serde(default, skip_serializing_if = "CatalogConfig::is_default")]
    pub catalog: CatalogConfig,
}

/// The table catalog. Its switches may stand in the process's environment instead, under the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogConfig {
    /// Where its state is: `object` (the default) or `durable-strong`.
    #[serde(rename = "RUSTFS_TABLE_CATALOG_BACKING", skip_serializing_if = "Option::is_none")]
    pub backing: Option<Switch>,
    /// Whether snapshots of version 2 are asked for.
    #[serde(
        rename = "RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2",
        skip_serializing_if = "Option::is_none"
    )]
    pub snapshot_v2: Option<Switch>,
    /// Whether every process of the fleet reads version 2.
    #[serde(
        rename = "RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2_FLEET_CONFIRMED",
        skip_serializing_if = "Option::is_none"
    )]
    pub snapshot_v2_fleet_confirmed: Option<Switch>,
    /// Commits of each table that a snapshot keeps, the newest ones.
    pub commit_history_per_table: usize,
    /// Bytes of the largest snapshot that is written, 64 MiB at most. A rehearsal lowers it to come near the cap.
    pub snapshot_bytes_max: usize,
    /// Whether a preflight uses only the words of the reference server.
    pub reference_wire: bool,
    /// Which release it behaves as. For rehearsals only.
    #[serde(skip_serializing_if = "CatalogRelease::is_current")]
    pub release: CatalogRelease,
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            backing: None,
            snapshot_v2: None,
            snapshot_v2_fleet_confirmed: None,
            commit_history_per_table: 10_000,
            snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
            reference_wire: false,
            release: CatalogRelease::Current,
        }
    }
}

impl CatalogConfig {
    /// Whether nothing of it was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The value of a switch: a word, or what YAML takes for true or false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Switch {
    /// `true` or `false`.
    Flag(bool),
    /// A word.
    Word(String),
}

impl Switch {
    /// The word.
    pub fn word(&self) -> &str {
        match self {
            Self::Flag(true) => "true",
            Self::Flag(false) => "false",
            Self::Word(word) => word,
        }
    }
}

/// Which release the catalog behaves as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogRelease {
    /// This one.
    #[default]
    Current,
    /// An older one that knows no fences: it changes what a migration has frozen.
    WithoutFences,
    /// An older one that reads snapshots of version 1 only, and lets a view have the name of a table.
    SnapshotV1,
}

impl CatalogRelease {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::WithoutFences => "without-fences",
            Self::SnapshotV1 => "snapshot-v1",
        }
    }

    /// Whether it keeps a table and a view from having one name, and knows what to do where they have.
    pub fn knows_collisions(self) -> bool {
        self != Self::SnapshotV1
    }

    /// Whether it is this one.
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }
}

/// Which release a node behaves as where it replaces drives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// This one.
    #[default]
    Current,
    /// An older one that writes schema 6.
    #[serde(rename = "legacy-6")]
    Legacy6,
    /// An older one that writes schema 5.
    #[serde(rename = "legacy-5")]
    Legacy5,
}

impl Release {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Legacy6 => "legacy-6",
            Self::Legacy5 => "legacy-5",
        }
    }

    /// Whether it is this one.
    pub fn is_current(&self) -> bool {
        *self == Self::Current
    }

    /// The rules of an older one.
    pub fn legacy(self) -> Option<legacy::Release> {
        match self {
            Self::Current => None,
            Self::Legacy6 => Some(legacy::Release::Legacy6),
            Self::Legacy5 => Some(legacy::Release::Legacy5),
        }
    }
}

/// One node, as its peers know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// Where this node's peers reach it, `address:port`. Ignored for the node itself.
    pub address: String,
    /// Mount points of its drives in slot order; only the owner opens them.
    pub drives: Vec<PathBuf>,
    /// What records call these drives, in the same order, where another server has given them names; by default
    /// they are called by their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
}

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    /// The file that holds the secret key.
    pub secret_file: PathBuf,
    /// Actions, `*` for all.
    pub actions: Vec<String>,
    /// The account that owns what it makes; `firedrill` by default. What another account owns is closed to it
    /// unless a grant or a policy opens it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// What an acknowledgement promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It survives the loss of power on all nodes at once.
    #[default]
    Strict,
    /// It survives the death of every process; shard files are flushed, names and metadata are not.
    Relaxed,
}

/// Bounds and periods, in milliseconds unless the name says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A drive that has not answered by then is suspect.
    pub drive_deadline_ms: u64,
    /// Requests waiting for one drive; the next is refused at once.
    pub drive_queue_max: usize,
    /// How often a suspect drive is probed.
    pub probe_period_ms: u64,
    /// A peer call that has not answered by then is ambiguous.
    pub peer_deadline_ms: u64,
    /// A lock that was not refreshed for so long is free again.
    pub lock_lease_ms: u64,
    /// How long a request waits for its lock. Longer than a lease, so that a lock whose holder died refuses nobody.
    pub lock_wait_ms: u64,
    /// How often the queue of partial writes is worked through.
    pub heal_period_ms: u64,
    /// How long a version stays below quorum before healing may quarantine it, in seconds.
    pub heal_grace_s: u64,
    /// Objects of one page of a replacement: so much is read again after a restart.
    pub replacement_page: usize,
    /// How hard replaced drives are rebuilt.
    pub rebuild_pace: RebuildPace,
    /// Everything is looked at without anybody asking, and no sooner again than so long after it began; 0 for never.
    pub scan_cycle_ms: u64,
    /// Every so many cycles every byte is read, and not only what is there and how long it is.
    pub scan_deep_every: u32,
    /// The share of time that a cycle may keep drives at work, in percent; it rests for the others.
    pub scan_share_percent: u32,
    /// How long a client is waited for: for a request's head, for each 16 KiB of its body, and until it takes
    /// something of its answer.
    pub client_wait_ms: u64,
    /// Connections at one time; the next is closed at once.
    pub connections_max: usize,
}

/// How hard a replaced drive is rebuilt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebuildPace {
    /// Clients come first: few keys at once, and after them as long a rest as they took.
    #[default]
    Background,
    /// As fast as the drives go.
    Full,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            drive_deadline_ms: 5_000,
            drive_queue_max: 256,
            probe_period_ms: 1_000,
            peer_deadline_ms: 6_000,
            lock_lease_ms: 10_000,
            lock_wait_ms: 12_000,
            heal_period_ms: 1_000,
            heal_grace_s: 24 * 3_600,
            replacement_page: 1_000,
            rebuild_pace: RebuildPace::Background,
            scan_cycle_ms: 60_000,
            scan_deep_every: 2,
            scan_share_percent: 10,
            client_wait_ms: 30_000,
            connections_max: 4_096,
        }
    }
}

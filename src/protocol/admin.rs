//! The words of the administration interface, `/firedrill/v1/…`: JSON, requests signed (SigV4).
//!
//! | request | answer |
//! |---|---|
//! | `GET /health/live` (unsigned) | 200 while the process serves |
//! | `GET /health/ready` (unsigned) | 200 or 503 with [`Readiness`] |
//! | `GET /metrics` (unsigned) | Prometheus text |
//! | `GET /firedrill/v1/status` | [`NodeStatus`] |
//! | `POST /firedrill/v1/heal?deep=&bucket=&prefix=&key=&version=` | [`HealStarted`] |
//! | `GET /firedrill/v1/heal/<id>` | [`HealProgress`] |
//! | `GET /firedrill/v1/replacement` | [`Answer`](super::replacement::status::Answer): generations and proofs |
//! | `GET /firedrill/v1/config` | the node's configuration, without secrets |
//!
//! What a node says of itself is recorded and never believed: it decides nothing.

use serde::Deserialize;
use serde::Serialize;

use super::config::Release;
use super::control::Defect;

/// The body of `/health/ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether requests are served: the deployment's format is accepted, and this node has found its peers and
    /// reaches a write quorum of every set, or has waited for them for a while.
    pub ready: bool,
    /// Why not; empty when ready.
    pub reason: String,
    /// Planted defects: a node that has one must not be trusted with anybody's data.
    pub defects: Vec<Defect>,
    /// The release that it behaves as; left out when it is its own.
    #[serde(default, skip_serializing_if = "Release::is_current")]
    pub release: Release,
}

/// How a node sees itself and its peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// 1.
    pub format: u32,
    /// Which of the deployment's nodes this is.
    pub node: usize,
    /// The version of this program.
    pub version: String,
    /// Milliseconds since the process started.
    pub uptime_ms: u64,
    /// Whether it serves S3.
    pub ready: bool,
    /// Why it does not; empty when ready.
    pub reason: String,
    /// The deployment's id, once known.
    pub deployment: Option<String>,
    /// Planted defects.
    pub defects: Vec<Defect>,
    /// Every drive of the deployment in endpoint order, its own and its peers' (as it reaches them).
    pub drives: Vec<DriveStatus>,
    /// Healing.
    pub heal: HealStatus,
    /// Replacements of this node's drives.
    #[serde(default)]
    pub replacement: ReplacementStatus,
    /// Locks that this node grants now.
    pub locks_granted: usize,
    /// Locks that requests of this node hold or try to get now.
    pub locks_held: usize,
    /// Writes that were answered as unknown since the start.
    pub writes_unknown: u64,
    /// Writes that were taken back since the start.
    pub writes_undone: u64,
    /// Reads that met a bad or missing shard since the start.
    pub reads_repaired: u64,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveStatus {
    /// `node/slot`.
    pub name: String,
    /// Its set.
    pub set: usize,
    /// Its slot in the set.
    pub slot: usize,
    /// How it stands.
    pub state: DriveCondition,
    /// Why it is not online, in words; empty when it is.
    pub reason: String,
    /// Requests that wait for it (own drives only).
    pub queued: usize,
}

/// How a drive stands, as its owner or a peer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveCondition {
    /// It serves.
    Online,
    /// It missed a deadline and is probed; it takes no work.
    Suspect,
    /// Its mount point is bare, or cannot be opened.
    Absent,
    /// Another file system is mounted where it was opened.
    Swapped,
    /// It carries no format yet; healing gives it one.
    Blank,
    /// It belongs to another deployment or another slot, and is left alone.
    Refused,
    /// Its owner does not answer.
    Unreachable,
}

/// Healing, as one node does it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealStatus {
    /// Partial writes that wait to be completed.
    pub queued: u64,
    /// Whether anything is being healed now.
    pub running: bool,
    /// When the queue was last worked through, Unix milliseconds.
    pub last_cycle_ended_at_ms: Option<u64>,
    /// Versions healed since the start.
    pub versions_healed: u64,
    /// Versions moved to the quarantine since the start.
    pub versions_quarantined: u64,
    /// The scanner.
    #[serde(default)]
    pub scan: ScanStatus,
}

/// The scanner of one node: it looks at everything, cycle after cycle, without being asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanStatus {
    /// Sets that are this node's to scan: it owns the first of their drives that is online.
    pub sets: usize,
    /// Cycles begun since the start.
    pub cycles_begun: u64,
    /// Cycles ended since the start.
    pub cycles_ended: u64,
    /// Whether the cycle under way, or else the last one, reads every byte.
    pub deep: bool,
    /// Whether a cycle is under way.
    pub running: bool,
    /// Keys that it has looked at.
    pub keys: u64,
    /// Keys that are left, by what the cycle before met; `None` in the first one.
    pub keys_remaining: Option<u64>,
    /// Keys a second, its rests included.
    pub keys_per_s: u64,
    /// Versions that it has healed.
    pub healed: u64,
    /// Versions that it could not make whole.
    pub failed: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
    /// When a cycle last ended, Unix milliseconds.
    pub last_ended_at_ms: Option<u64>,
}

/// Replacements, as one node performs them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementStatus {
    /// Sets in which something is open, or that were not looked at since the start.
    pub open: usize,
    /// Generations with a live executor on this node.
    pub running: usize,
    /// What was last decided, by set; empty where nothing is to be done.
    pub reasons: Vec<String>,
    /// What an operator has to know.
    pub alarms: Vec<String>,
    /// What stands in the way now: numbers of refusals, names of alarms, each once.
    #[serde(default)]
    pub standing: Vec<String>,
    /// Durable steps taken since the start.
    pub writes: u64,
    /// Proofs written since the start.
    pub proofs: u64,
    /// Attempts refused since the start.
    pub refusals: u64,
}

/// The answer to the start of a heal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealStarted {
    /// Names the sequence in `/firedrill/v1/heal/<id>`.
    pub id: String,
}

/// How far a heal has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealProgress {
    /// The sequence.
    pub id: String,
    /// Where it stands.
    pub state: HealState,
    /// Whether contents are verified, not only presence and sizes.
    pub deep: bool,
    /// Versions looked at.
    pub examined: u64,
    /// Versions that were repaired on at least one drive.
    pub healed: u64,
    /// Versions, directories and files that were moved to the quarantine.
    pub quarantined: u64,
    /// Versions that could not be made whole, with the reason in `problems`.
    pub failed: u64,
    /// What is below its quorum and waits for its grace to end, before it moves to the quarantine.
    #[serde(default)]
    pub waiting: u64,
    /// The first problems, in words.
    pub problems: Vec<String>,
}

/// Where a heal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealState {
    /// Still at work.
    Running,
    /// Everything was looked at; `failed` says how it went.
    Done,
}

//! The history: what clients asked, what they were told, and what was done to the cluster meanwhile.
//!
//! One JSON object a line in `history.jsonl`, written as it happens; a torn tail costs one entry.
//! Entries stand in the one order in which the recording task saw them: `seq` is that order and
//! `at_us` its clock, so two operations overlap unless one's `Ended` precedes the other's `Invoked`.

use serde::Deserialize;
use serde::Serialize;

use super::catalog::CatalogAnswer;
use super::catalog::CatalogRequest;
use super::catalog::CatalogSeen;
use super::catalog::Handled;
use super::catalog::Rehearsed;
use super::request::Compared;
pub use super::tool::OperatorNote;
pub use super::tool::WrittenFile;
use crate::harness::audit::census::DriveProblem;
use crate::harness::audit::census::ReplacementCensus;
use crate::protocol::config::Release;
use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The format of a history file.
pub const HISTORY_FORMAT: u32 = 1;

/// The phase whose operations are the wire witness: what the settled cluster answers.
pub const PHASE_FINAL_READS: &str = "final_reads";
/// The phase that ends a history. A history without it was torn.
pub const PHASE_END: &str = "end";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Position in the file, from 0, without gaps.
    pub seq: u64,
    /// Microseconds of the monotonic clock since the run began.
    pub at_us: u64,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The first entry of every history.
    Header {
        /// [`HISTORY_FORMAT`].
        format: u32,
        /// The case, as the report names it.
        case: String,
        /// The seed of the run.
        seed: u64,
    },
    /// The run enters a step of its scenario, or a phase around them (`provision`,
    /// [`PHASE_FINAL_READS`], [`PHASE_END`], …). A phase lasts until the next one.
    Phase {
        /// Its name.
        name: String,
    },
    /// A client is about to send a request.
    Invoked(Operation),
    /// A client knows, or gives up knowing, how its request ended.
    Ended(Ending),
    /// Something is about to be asked of the table catalog.
    CatalogAsked(CatalogRequest),
    /// How that ended for its client.
    CatalogAnswered(CatalogAnswer),
    /// A fault changes its state.
    Fault(FaultEvent),
    /// Requests begun before this entry can no longer be held by what it names.
    Fence(Fence),
    /// How far the repair of the cluster got, as the harness sees it.
    Settle(SettleEvent),
    /// A node changed its state, as the harness saw it from outside.
    Node {
        /// Which node.
        node: usize,
        /// What it did.
        state: NodeState,
    },
    /// The harness noticed something about the run itself.
    Noted(Note),
    /// The harness looked at the records of replacements on the drives.
    Sighted(Sighting),
}

/// What the drives held of the replacement protocol at one moment of the run.
///
/// Records are replaced whole, so that each one that is seen was there. Only what lies on a drive `at_rest` is
/// durable for certain, and belongs together: nobody was in the middle of a write to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// When, in words.
    pub when: String,
    /// The injection that it was taken for, just before or just after the strike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u64>,
    /// The drives that were looked at, as `node/slot`.
    pub drives: Vec<String>,
    /// Those among them that no node was writing records to: their node did not run, or was held at a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_rest: Vec<String>,
    /// What was there; a drive that held nothing is left out.
    pub held: Vec<ReplacementCensus>,
    /// What a census, taken at that moment, found wrong with committed versions; `None` when none was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<Lack>>,
}

/// One thing that is wrong with one version on one drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lack {
    /// The key.
    pub target: ObjectKey,
    /// The version; `None` when it is about the key's metadata as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// What is wrong, and where.
    pub problem: DriveProblem,
}

/// What the harness noticed about the run itself, so that it can be judged from the files alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A census of the drives, taken on the way, counted versions that are not whole.
    Damage {
        /// When it was taken.
        when: String,
        /// Versions that are not full.
        versions: u64,
    },
    /// The wall limit ended the run while it waited for this.
    Stuck {
        /// What was waited for.
        waiting_for: String,
        /// Whether that was a promise of the cluster's (or only our own doing).
        is_promise: bool,
    },
    /// A signal, or a failure of the harness itself, ended the run early.
    Interrupted {
        /// Why.
        reason: String,
        /// The signal, if it was one.
        signal: Option<i32>,
    },
    /// What lay below a mount point when its missing mount came back: a promise is broken unless 0.
    BelowMountPoint {
        /// The drive, `node/slot`.
        drive: String,
        /// Files and folders.
        entries: u64,
    },
    /// So many cases ran at once: times are reported, not judged.
    Shared {
        /// Cases at once.
        jobs: u64,
    },
    /// An operator used a tool.
    Operator(OperatorNote),
    /// A real client went through a part of its flow.
    Client(ClientNote),
    /// A node behaves as this release from its next start on.
    Release {
        /// The node.
        node: usize,
        /// The release.
        release: Release,
    },
    /// Every node has this backing of the table catalog from its next start on.
    Backing {
        /// `object` or `durable-strong`.
        backing: String,
        /// Whether both gates of snapshot version 2 are open.
        #[serde(default, skip_serializing_if = "is_false")]
        snapshot_v2: bool,
    },
    /// A request to the catalog was refused, and the drives were looked at before and after.
    Compared(Compared),
    /// The tool of the catalog's runbook went on, as far as it came.
    Rehearsed(Rehearsed),
    /// The drives held this of the table catalog.
    CatalogSeen(CatalogSeen),
    /// A hand has changed the strong snapshot on the drives.
    Snapshot(Handled),
    /// Every node was ended, and starts again.
    Restarted,
    /// A node told a refusal that it owed, and what had become of the records that were there before it started.
    Refused {
        /// The node.
        node: usize,
        /// Its words.
        words: String,
        /// Records that were compared.
        records: u64,
        /// Records that were not as before: the first ones, `node/slot: path`.
        changed: Vec<String>,
    },
    /// A node told a state of its replacements that was awaited.
    Told {
        /// The node.
        node: usize,
        /// What it named.
        named: String,
        /// Its words.
        words: String,
    },
    /// What became of a record that a stranger's hand had changed, and of those around it, until it was given back:
    /// a promise is broken unless nothing was.
    Tampered {
        /// The drive, `node/slot`.
        drive: String,
        /// The record's path.
        path: String,
        /// What has changed since, in words.
        changed: Vec<String>,
    },
}

/// How a real client got through a part of its flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientNote {
    /// The client.
    pub client: String,
    /// The part.
    pub part: String,
    /// Whether everything was as the flow expects; `None` when nobody can tell: it was cut short, or did not start.
    pub passed: Option<bool>,
    /// What it said last.
    pub words: String,
}

/// A request, as the client meant it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Unique in the run; contents are derived from it.
    pub op: u64,
    /// The client (lane) that sends it; one request at a time each.
    pub client: u32,
    /// The node it is sent to.
    pub node: usize,
    /// What it is about; for bucket operations the key is empty.
    pub target: ObjectKey,
    /// What it asks.
    pub action: Action,
}

/// What a request asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Create the bucket.
    CreateBucket,
    /// Delete the bucket.
    DeleteBucket,
    /// Set the bucket's versioning.
    SetVersioning {
        /// `true` for Enabled, `false` for Suspended.
        enabled: bool,
    },
    /// Write the key, in one request.
    Put {
        /// SHA-256 of the body.
        digest: Digest,
        /// Length of the body in bytes.
        size: u64,
        /// The ETag that S3 defines for these contents (MD5), without quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        etag: Option<String>,
        /// The precondition sent along.
        #[serde(default, skip_serializing_if = "Condition::is_none")]
        condition: Condition,
    },
    /// Write the key with another object's contents. The source is never rewritten: it is a version
    /// with an id, or a key that is written once.
    Copy {
        /// The source.
        source: ObjectKey,
        /// Its version; `None` for the latest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<VersionId>,
        /// SHA-256 of what was written to the source.
        digest: Digest,
        /// Length of what was written to the source, in bytes.
        size: u64,
        /// The ETag that S3 defines for these contents (MD5), without quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        etag: Option<String>,
    },
    /// Begin an upload. Changes nothing that a reader sees.
    CreateUpload,
    /// Store one part. Changes nothing that a reader sees.
    PutPart {
        /// The upload's id.
        upload: String,
        /// The part's number.
        part: u32,
        /// SHA-256 of the part.
        digest: Digest,
        /// Length of the part in bytes.
        size: u64,
    },
    /// Turn an upload's parts into the key's contents: the write of a multipart object.
    CompleteUpload {
        /// The upload's id.
        upload: String,
        /// Numbers of the parts listed.
        parts: Vec<u32>,
        /// SHA-256 of the whole contents.
        digest: Digest,
        /// Length of the whole contents in bytes.
        size: u64,
        /// The ETag that S3 defines for these parts (MD5 of their MD5s), without quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        etag: Option<String>,
        /// The precondition sent along.
        #[serde(default, skip_serializing_if = "Condition::is_none")]
        condition: Condition,
    },
    /// Give an upload up.
    AbortUpload {
        /// The upload's id.
        upload: String,
    },
    /// Delete the key without naming a version, or one version.
    Delete {
        /// The version; `None` deletes as the bucket's state has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<VersionId>,
    },
    /// Read contents.
    Get {
        /// The version; `None` for the latest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<VersionId>,
        /// First and last byte, inclusive; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<(u64, u64)>,
    },
    /// Read a version's metadata.
    Head {
        /// The version; `None` for the latest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<VersionId>,
    },
    /// List the latest objects of a bucket (ListObjectsV2), all pages.
    List {
        /// Only keys that begin so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
    },
    /// List every version and marker of a bucket (ListObjectVersions), all pages.
    ListVersions {
        /// Only keys that begin so.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prefix: String,
    },
}

/// A precondition of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// `If-None-Match: *`: only if the key has no latest object.
    IfAbsent,
    /// `If-Match`: only if the latest object carries this ETag (without quotes).
    IfMatch(String),
}

impl Condition {
    /// Whether nothing is asked.
    pub fn is_none(&self) -> bool {
        *self == Self::Always
    }
}

/// How a request ended for its client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// The operation.
    pub op: u64,
    /// What the client may conclude.
    pub outcome: Outcome,
    /// Why, in words: the S3 error code, or how far the request got. Empty for a plain success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The HTTP status, if one arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The version that the answer names: what a write made or removed, what a read saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// ETag without quotes, of a write or of what a read saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Whether the answer said that this is a delete marker.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete_marker: bool,
    /// The id of an upload that was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// What an acknowledged read saw. Only acknowledged reads say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// What a client may conclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It took effect.
    Acknowledged,
    /// It took none, and never will.
    Refused,
    /// Nobody can tell: it may have, it may yet, it may never.
    Ambiguous,
}

/// What an acknowledged read saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Contents (GET: digest and length of the bytes received; HEAD: without a digest).
    Object {
        /// SHA-256 of what was received; `None` for HEAD.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// Received length for GET, announced length for HEAD.
        size: u64,
        /// For GET: the operation that wrote the first bytes, as derived from them; `None` when no operation could have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        written_by: Option<u64>,
    },
    /// The key, or the version, is not there (404), or its latest version is a marker.
    Absent,
    /// A listing, in the order received.
    Listing(Vec<Listed>),
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// The version; `None` in ListObjectsV2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// Whether it is a delete marker.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete_marker: bool,
    /// Whether the server called it the latest; in ListObjectsV2 every line is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub latest: bool,
    /// ETag without quotes; empty for a marker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub etag: String,
    /// Length in bytes; 0 for a marker.
    #[serde(default)]
    pub size: u64,
    /// Whether its page ended after it and another one was asked for. Pages are read at different times.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
}

/// Serde's test for leaving `false` out.
fn is_false(value: &bool) -> bool {
    !*value
}

/// How far the repair of the cluster got, as the harness sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleEvent {
    /// Every fault is healed and every node runs; from here the time objective counts.
    Began {
        /// The time objective.
        within_ms: u64,
    },
    /// The drives were looked at, at half time or later.
    Looked {
        /// Whether durable redundancy grew since the last look.
        progressed: bool,
        /// What was measured, in words.
        evidence: String,
    },
    /// The waiting is over.
    Ended {
        /// Whether everything was repaired; only then [`Fence::Settled`] follows.
        repaired: bool,
    },
}

/// A fault changes its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultEvent {
    /// Unique in the run, one per injection.
    pub fault: u64,
    /// Its name, as scenarios spell it.
    pub name: String,
    /// Which of its three facts this is.
    pub phase: FaultPhase,
    /// The nodes it concerns.
    pub nodes: Vec<usize>,
    /// The drives it concerns, as `node/slot`.
    pub drives: Vec<String>,
    /// The crash point at which it was injected, if any.
    pub at: Option<String>,
    /// What was measured, in words.
    pub evidence: String,
}

/// The facts that every fault leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultPhase {
    /// It was done, and seen to be done.
    Injected,
    /// Work went on while it lasted.
    InForce,
    /// It was undone, and seen to be undone.
    Healed,
    /// It could not be brought about on this machine or was not reached: the run is undecided.
    NotReached,
}

/// What can no longer hold an old request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fence {
    /// Every process of this node died, and its connections and proxies were emptied.
    NodeRestarted {
        /// The node.
        node: usize,
    },
    /// Everything was settled with every drive present: no request begun before is still under way.
    Settled,
}

/// What a node did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Its process was started.
    Started,
    /// `/health/ready` answered 200.
    Ready,
    /// Its process was ended, or ended by itself.
    Dead,
    /// Its process was stopped (SIGSTOP or cgroup freeze).
    Paused,
    /// Its process goes on.
    Resumed,
}

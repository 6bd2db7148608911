//! What was asked of the table catalog, and what was answered: words of the history.

use serde::Deserialize;
use serde::Serialize;

use super::history::Outcome;
use super::request::RawRequest;
use crate::value::Digest;

/// A request, just before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogRequest {
    /// Its number, unique in the run.
    pub ask: u64,
    /// The node.
    pub node: usize,
    /// The warehouse; empty where it is about all.
    pub warehouse: String,
    /// The table, `namespace.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The namespace, with dots, or the view, `namespace.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is asked.
    pub action: CatalogAction,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogAction {
    /// Make the bucket.
    MakeBucket,
    /// Enable it as a table bucket.
    Enable,
    /// Make a namespace.
    CreateNamespace,
    /// Make a table.
    CreateTable,
    /// Fill the index.
    Backfill,
    /// Tell what stands in the way of a migration.
    Preflight,
    /// Materialise the warehouse.
    Migrate,
    /// Cancel its migration.
    Cancel,
    /// Open the node to writers.
    Admit,
    /// Set one property.
    Commit(Commit),
    /// Tell a table's pointer.
    Pointer,
    /// What a step spells out.
    Request(RawRequest),
    /// Look for the property of a commit in the table's metadata; what is told is [`SEEN`] or [`NOT_SEEN`].
    Look(Commit),
    /// Tell how the table's commits stand.
    Diagnose,
    /// Set right what interrupted commits left.
    Recover,
    /// Drop the table.
    DropTable,
    /// Drop a namespace.
    DropNamespace,
    /// Create a view.
    CreateView,
    /// Replace a view.
    ReplaceView,
    /// Drop a view.
    DropView,
}

/// What a look for a commit tells when its property is there.
pub const SEEN: &str = "seen";
/// What it tells when it is not.
pub const NOT_SEEN: &str = "not seen";

/// One attempt at a commit. All attempts at one commit have the same id and the same property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The writer.
    pub writer: u32,
    /// The property that it sets: nobody else sets it. Its value is the commit's id.
    pub property: String,
    /// Names the commit.
    pub commit_id: String,
    /// Attempts before this one.
    pub attempt: u32,
    /// Its idempotency key, where that is not made of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it moves the table to, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl Commit {
    /// Its idempotency key.
    pub fn idempotency_key(&self) -> String {
        self.key.clone().unwrap_or_else(|| format!("key-{}", self.commit_id))
    }
}

/// How a request ended for its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogAnswer {
    /// The request.
    pub ask: u64,
    /// What the client may conclude.
    pub outcome: Outcome,
    /// The HTTP status, if a whole answer arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The server's words about an error, or how far the request got.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The status that a preflight or a migration tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The generation that a commit or a pointer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The type of the error, in the server's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The place that it tells of a table: `s3://bucket/prefix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The beginning of an answer that is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The metadata file that a commit or a pointer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The version token that a pointer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// How far the tool of the catalog's runbook came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rehearsed {
    /// The steps that it did, each with what it saw.
    pub done: Vec<String>,
    /// The step at which it stopped, and why; nothing when it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<(String, String)>,
}

/// What the drives held of the catalog at one moment of the run, while no request of ours was under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogSeen {
    /// The version of the strong snapshot; `None` when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u32>,
    /// The digest of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Whether the registry fence was up.
    pub registry_fence: bool,
    /// The fences of warehouses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<FenceSeen>,
}

/// The fence of one warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FenceSeen {
    /// The warehouse.
    pub bucket: String,
    /// How it stood.
    pub status: String,
}

/// What a hand has done to the strong snapshot on the drives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handled {
    /// What it did.
    pub what: HandledHow,
    /// The name of the copy; empty when none was concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub copy: String,
    /// Files that were copied, put back or removed, over all drives.
    pub files: u64,
    /// The nodes that ran meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<usize>,
}

/// What a hand does to the strong snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandledHow {
    /// It is copied.
    Kept,
    /// A copy is put in its place.
    PutBack,
    /// It is removed.
    Removed,
}

/// A request with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogOp {
    /// What was asked.
    pub asked: CatalogRequest,
    /// Where it was invoked.
    pub invoked: u64,
    /// When, in microseconds since the run began.
    pub invoked_us: u64,
    /// Where it ended; `None` when the record ends before.
    pub ended: Option<u64>,
    /// When, in microseconds since the run began.
    pub ended_us: Option<u64>,
    /// Its answer.
    pub answer: Option<CatalogAnswer>,
}

impl CatalogOp {
    /// What the client may conclude.
    pub fn outcome(&self) -> Outcome {
        self.answer.as_ref().map_or(Outcome::Ambiguous, |answer| answer.outcome)
    }

    /// Whether it was done for certain.
    pub fn is_acknowledged(&self) -> bool {
        self.outcome() == Outcome::Acknowledged
    }

    /// The commit that it attempts, if it is one.
    pub fn commit(&self) -> Option<&Commit> {
        match &self.asked.action {
            CatalogAction::Commit(commit) => Some(commit),
            _ => None,
        }
    }

    /// What a step spelt out, if it is that.
    pub fn raw(&self) -> Option<&RawRequest> {
        match &self.asked.action {
            CatalogAction::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Whether it is a look that saw the commit.
    pub fn saw(&self) -> Option<&Commit> {
        match &self.asked.action {
            CatalogAction::Look(commit) => {
                let told = self.answer.as_ref().and_then(|answer| answer.told.as_deref());
                (told == Some(SEEN)).then_some(commit)
            }
            _ => None,
        }
    }

    /// The line that shows it, for a finding.
    pub fn line(&self) -> String {
        format!("history.jsonl:{}", self.ended.unwrap_or(self.invoked) + 1)
    }
}

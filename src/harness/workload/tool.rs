//! What an operator's tool was used for in a run: words of the history. Pure.

use serde::Deserialize;
use serde::Serialize;

use crate::value::Digest;

/// What an operator typed, what came of it, and what it left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorNote {
    /// The command, as it would have been typed.
    pub command: String,
    /// What it printed, or why it was refused.
    pub answer: String,
    /// By what it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// By what it had to be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What it was to be used on and was not there: then it was not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Records and markers of the node's drives that it wrote, and the files of a backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<WrittenFile>,
}

/// A file that a tool left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenFile {
    /// The drive, `node/slot`, or the folder of a backup.
    pub place: String,
    /// Its path there.
    pub path: String,
    /// How long it is; 0 when it is gone.
    pub bytes: u64,
    /// What it holds.
    pub sha256: Digest,
}

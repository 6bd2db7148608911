//! An operator's permission to import legacy records into one named successor, and its receipt.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;

/// An approval file is no longer than this.
pub const BYTES_MAX: usize = 64 * 1024;
/// An approval names no more sources than this.
pub const SOURCES_MAX: usize = 32;
/// What the operator asserts, word for word.
pub const ASSERTION: &str = "all-writers-stopped-before-upgrade";

/// A legacy record that may be imported, bound to its exact bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its generation.
    pub task_id: GenerationId,
    /// SHA-256 of its record's bytes.
    pub sha256: [u8; 32],
}

/// The approval. The keys and their order are the record's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// 1.
    pub schema_version: u32,
    /// The generation that takes over.
    pub successor: GenerationId,
    /// The set of all sources.
    pub set_disk_id: String,
    /// The targets of all sources, sorted, each once.
    pub targets: Vec<String>,
    /// The owner that each marker names now; `None` when it is absent.
    pub expected_markers: Vec<Option<String>>,
    /// The records to be imported.
    pub sources: Vec<Source>,
    /// [`ASSERTION`].
    pub maintenance_assertion: String,
}

impl Approval {
    /// The only schema there is.
    pub const SCHEMA: u32 = 1;

    /// The valid approval in `bytes`, which lie under the name of `successor`.
    ///
    /// # Errors
    ///
    /// [`Refusal::ApprovalInvalid`] for a file that is too long, does not parse, has unknown keys, or breaks a rule.
    pub fn read(successor: GenerationId, bytes: &[u8]) -> Result<Self, Refusal> {
        let refuse = |seen: String, expected: &str| {
            Refusal::ApprovalInvalid(on_record(Record::Approval, successor, seen, expected))
        };
        if bytes.len() > BYTES_MAX {
            return Err(refuse(format!("{} bytes", bytes.len()), "at most 65536"));
        }
        let approval: Self = serde_json::from_slice(bytes)
            .map_err(|error| refuse(error.to_string(), "an approval's JSON"))?;
        if approval.successor != successor {
            return Err(refuse(approval.successor.to_string(), &successor.to_string()));
        }
        approval.check(successor)?;
        Ok(approval)
    }

    /// Checks the approval by itself; `holder` is the generation in whose record or name it stands.
    ///
    /// # Errors
    ///
    /// [`Refusal::ApprovalInvalid`].
    pub fn check(&self, holder: GenerationId) -> Result<(), Refusal> {
        let refuse = |seen: String, expected: &str| {
            Refusal::ApprovalInvalid(on_record(Record::Approval, holder, seen, expected))
        };
        if self.schema_version != Self::SCHEMA {
            return Err(refuse(format!("schema {}", self.schema_version), "1"));
        }
        if self.maintenance_assertion != ASSERTION {
            return Err(refuse(format!("{:?}", self.maintenance_assertion), ASSERTION));
        }
        self.set_disk_id.parse::<SetId>().map_err(|seen| refuse(seen, "a set"))?;
        if self.targets.is_empty() || !self.targets.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(refuse(format!("targets {:?}", self.targets), "in order, each once"));
        }
        if self.expected_markers.len() != self.targets.len() {
            let seen = format!("{} markers", self.expected_markers.len());
            return Err(refuse(seen, "one for each target"));
        }
        let sources: BTreeSet<_> = self.sources.iter().map(|it| it.task_id).collect();
        let count = self.sources.len();
        if count == 0 || count > SOURCES_MAX || sources.len() != count {
            return Err(refuse(format!("{count} sources"), "1 to 32, each once"));
        }
        if sources.contains(&self.successor) {
            return Err(refuse(format!("source {}", self.successor), "a fresh successor"));
        }
        for owner in self.expected_markers.iter().flatten() {
            let source = marker::generation(&self.set_disk_id, owner);
            if !source.is_some_and(|source| sources.contains(&source)) {
                return Err(refuse(format!("marker `{owner}`"), "one of the sources"));
            }
        }
        Ok(())
    }

    /// Compact JSON, as it stands inside an intent or a proof.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an approval is plain JSON")
    }

    /// The file that the operator's tool publishes: two-space indent, and a newline at the end.
    pub fn encode_pretty(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("an approval is plain JSON");
        bytes.push(b'\n');
        bytes
    }
}

//! The record of one commit, and its second copy by which a client's idempotency key finds it.
//!
//! # Sources
//!
//! Specification of the catalog §3.2 (fields), §3.4 ("same payload").

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::json::Json;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::record::check_version;
use crate::protocol::catalog::record::parse;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// How far a commit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Written before the pointer moves.
    Staged,
    /// Written after it has moved.
    Committed,
    /// Never written by this release, and left to an operator where it is found.
    Failed,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitRecord {
    /// 1.
    pub version: u32,
    /// Names the commit within its table.
    pub commit_id: String,
    /// The client's own name for the attempt, if it gave one.
    pub idempotency_key: Option<String>,
    /// The table.
    pub table_id: String,
    /// What kind of change it is.
    pub operation: String,
    /// The token that the pointer must have.
    pub expected_version_token: String,
    /// The token that it has then.
    pub new_version_token: String,
    /// The metadata file that it starts from.
    pub previous_metadata_location: String,
    /// The metadata file that it publishes.
    pub new_metadata_location: String,
    /// What the client required, as it sent it.
    #[serde(default)]
    pub requirements: Vec<Json>,
    /// How far it has come.
    pub status: Status,
    /// Who writes, if the client says so.
    pub writer: Option<String>,
    /// Written as null.
    pub created_at: Option<String>,
    /// Written as null.
    pub updated_at: Option<String>,
}

impl CommitRecord {
    /// Whether both are the same commit: all but status, new token and times.
    pub fn has_payload_of(&self, other: &Self) -> bool {
        self.commit_id == other.commit_id
            && self.idempotency_key == other.idempotency_key
            && self.table_id == other.table_id
            && self.operation == other.operation
            && self.expected_version_token == other.expected_version_token
            && self.previous_metadata_location == other.previous_metadata_location
            && self.new_metadata_location == other.new_metadata_location
            && self.requirements == other.requirements
            && self.writer == other.writer
    }

    /// The same record with another status.
    #[must_use]
    pub fn with_status(&self, status: Status) -> Self {
        Self { status, ..self.clone() }
    }

    /// The state that it makes: location and token.
    pub fn new_state(&self) -> (&str, &str) {
        (&self.new_metadata_location, &self.new_version_token)
    }

    /// The state that it starts from: location and token.
    pub fn previous_state(&self) -> (&str, &str) {
        (&self.previous_metadata_location, &self.expected_version_token)
    }

    /// Reads the idempotency record under `key` in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]; also when it has no idempotency key, or another one than its key in the bucket says.
    pub fn decode_idempotency(bucket: &str, key: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let record: Self = parse("idempotency record", key, bytes)?;
        record.check()?;
        let named = record.idempotency_key.as_deref();
        let expected = named.map(|it| keys::idempotency_record(bucket, &record.table_id, it));
        if expected.as_deref() != Some(key) {
            let text = format!("the idempotency record under {key} belongs elsewhere");
            return Err(Class::Invalid.because(text));
        }
        Ok(record)
    }
}

impl Record for CommitRecord {
    const KIND: &'static str = "commit log record";

    fn bucket(&self) -> Option<&str> {
        None
    }

    fn key(&self, bucket: &str) -> Result<String, Refusal> {
        Ok(keys::commit(bucket, &self.table_id, &self.commit_id))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)
    }
}

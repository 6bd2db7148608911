//! What the answers of the wire say. Fields that are not known here are left alone: servers differ.

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ask::Heard;

/// A preflight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    /// The warehouse.
    pub table_bucket: String,
    /// `READY_TO_SNAPSHOT` and its like.
    pub status: String,
    /// Explicit namespaces.
    #[serde(default)]
    pub namespace_count: u64,
    /// Tables of any state.
    #[serde(default)]
    pub table_count: u64,
    /// Views of any state.
    #[serde(default)]
    pub view_count: u64,
    /// Commit records of live tables.
    #[serde(default)]
    pub commit_log_count: u64,
    /// Idempotency records of live tables.
    #[serde(default)]
    pub idempotency_index_count: u64,
    /// Whether the warehouse prefix index is whole.
    #[serde(default)]
    pub warehouse_index_ready: bool,
    /// Whether a bucket fence stands.
    #[serde(default)]
    pub object_backed_writes_fenced: bool,
    /// Whether the registry fence stands; only some servers tell.
    #[serde(default)]
    pub registry_fenced: Option<bool>,
    /// Whether every table bucket is in the snapshot as it is on the drives.
    #[serde(default)]
    pub ready_to_enable_durable_strong: bool,
    /// What stands in the way.
    #[serde(default)]
    pub blockers: Vec<String>,
    /// What may be done.
    #[serde(default)]
    pub recommended_actions: Vec<String>,
}

/// What a migration did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// `SNAPSHOT_MATERIALIZED` or `SNAPSHOT_ALREADY_MATERIALIZED`.
    pub status: String,
    /// Explicit namespaces.
    #[serde(default)]
    pub namespace_count: u64,
    /// Tables.
    #[serde(default)]
    pub table_count: u64,
    /// Views.
    #[serde(default)]
    pub view_count: u64,
    /// Commit records.
    #[serde(default)]
    pub commit_log_count: u64,
    /// Idempotency records.
    #[serde(default)]
    pub idempotency_index_count: u64,
    /// SHA-256 of what was copied.
    #[serde(default)]
    pub source_fingerprint: String,
    /// The snapshot's ETag.
    #[serde(default)]
    pub target_snapshot_etag: String,
    /// Whether the bucket fence stands.
    #[serde(default)]
    pub object_backed_writes_fenced: bool,
    /// Whether every table bucket is in the snapshot as it is on the drives.
    #[serde(default)]
    pub ready_to_enable_durable_strong: bool,
}

/// Where a table stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The current metadata file, in a client's spelling.
    #[serde(rename = "metadata-location")]
    pub metadata_location: String,
    /// The version token.
    #[serde(rename = "version-token")]
    pub version_token: String,
    /// How often the pointer moved.
    pub generation: u64,
    /// Where the table's files are.
    #[serde(rename = "warehouse-location", default)]
    pub warehouse_location: String,
}

/// How a table's commits stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The table's identity.
    #[serde(default)]
    pub table_id: String,
    /// The pointer, as a bare key.
    #[serde(default)]
    pub current_metadata_location: String,
    /// The token.
    #[serde(default)]
    pub current_version_token: String,
    /// The generation.
    #[serde(default)]
    pub current_generation: u64,
    /// Begun and not published.
    #[serde(default)]
    pub staged_before_table_update_count: u64,
    /// Published and not finished.
    #[serde(default)]
    pub finalization_required_count: u64,
    /// Finished without its index.
    #[serde(default)]
    pub idempotency_repair_required_count: u64,
    /// For a person to look at.
    #[serde(default)]
    pub manual_review_count: u64,
    /// What this call repaired.
    #[serde(default)]
    pub finalized_count: u64,
}

impl Recovery {
    /// What a repair would finish.
    pub fn repairable(&self) -> u64 {
        self.finalization_required_count + self.idempotency_repair_required_count
    }
}

/// What a diagnosis says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// `VALID` and its like.
    pub current_metadata_status: String,
    /// `HEALTHY` and its like.
    pub recovery_status: String,
    /// What may be done.
    #[serde(default)]
    pub recommended_actions: Vec<String>,
    /// How its commits stand.
    pub commit_recovery: Recovery,
}

/// Reads an answer, or says that it is none.
///
/// # Errors
///
/// Which field is missing or of another type.
pub fn read<T: DeserializeOwned>(heard: &Heard) -> Result<T, String> {
    T::deserialize(&heard.told.body)
        .map_err(|error| format!("{} answered what cannot be read: {error}", heard.ask.words()))
}

/// One page of a listing: what it lists, and the token of the next.
///
/// # Errors
///
/// The answer is no listing.
pub fn page<T: DeserializeOwned>(
    heard: &Heard,
    field: &str,
) -> Result<(Vec<T>, Option<String>), String> {
    let list = heard.told.body.get(field).unwrap_or(&Value::Null);
    let list = Vec::<T>::deserialize(list)
        .map_err(|error| format!("{} answered no list of {field}: {error}", heard.ask.words()))?;
    let next = heard.text("/next-page-token").filter(|token| !token.is_empty());
    Ok((list, next.map(str::to_owned)))
}

/// An identifier in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listed {
    /// Its namespace.
    pub namespace: Vec<String>,
    /// Its name.
    pub name: String,
}

/// The backing that a config answers: what overrides, else `object`.
pub fn backing(heard: &Heard) -> &str {
    heard.text("/overrides/rustfs.catalog-backing").unwrap_or("object")
}

/// Whether a config offers an endpoint.
pub fn offers(heard: &Heard, endpoint: &str) -> bool {
    let endpoints = heard.told.body.get("endpoints").and_then(Value::as_array);
    endpoints.is_some_and(|all| all.iter().any(|it| it.as_str() == Some(endpoint)))
}

/// The names in a listing of buckets, which is XML.
pub fn bucket_names(heard: &Heard) -> Vec<String> {
    let text = heard.told.body.as_str().unwrap_or_default();
    let pieces = text.split("<Bucket>").skip(1);
    let names = pieces.filter_map(|piece| {
        let (_, rest) = piece.split_once("<Name>")?;
        Some(rest.split_once("</Name>")?.0.to_owned())
    });
    names.collect()
}

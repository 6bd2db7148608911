//! The metadata of a table: one document, and what can be asked of it.
//!
//! The document is the truth. The crate reads a copy of it (see [`shown`](super::shown)), judges it and works on it; what
//! it does not keep (fields that it does not know, the order of lists) stays in the document.

use iceberg::spec::FormatVersion;
use iceberg::spec::TableMetadata;
use iceberg::spec::TableMetadataBuilder;
use serde_json::Map;
use serde_json::Value;
use uuid::Uuid;

use super::Trouble;
use super::kept;
use super::limits;
use super::shown;

/// The metadata of a table, of format version 1 or 2, that was found whole.
#[derive(Debug, Clone)]
pub struct Metadata {
    document: Map<String, Value>,
    /// The crate's view of it, as format version 2: that one knows every reference.
    seen: TableMetadata,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

/// One entry of the metadata log: a metadata file that was current before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// When that file was written, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Where it lies.
    pub metadata_file: String,
}

/// Which snapshots a client wants to see when it loads a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshots {
    /// All of them.
    All,
    /// Those that a branch or tag refers to.
    Refs,
}

impl Metadata {
    /// Reads the plain bytes of a metadata file.
    ///
    /// # Errors
    /// [`Class::Invalid`](super::Class::Invalid) when it is too large, no JSON, or not whole; `Unsupported` for a
    /// format version that is not served.
    pub fn parse(bytes: &[u8]) -> Result<Self, Trouble> {
        if bytes.len() > limits::METADATA_BYTES_MAX {
            return Err(Trouble::invalid("the table metadata is larger than 50 MiB"));
        }
        let document = serde_json::from_slice(bytes)
            .map_err(|error| Trouble::invalid(format!("the table metadata is no JSON: {error}")))?;
        Self::from_document(document)
    }

    /// Takes a document that was parsed already.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_document(document: Value) -> Result<Self, Trouble> {
        limits::ids_have_room(&document)?;
        let Value::Object(document) = document else {
            return Err(Trouble::invalid("the table metadata is no JSON object"));
        };
        match document.get("format-version").and_then(Value::as_u64) {
            Some(1 | 2) => {}
            Some(version) => return Err(unsupported_version(version)),
            None => return Err(Trouble::invalid("the table metadata has no format-version")),
        }
        for (key, is_there) in [
            ("table-uuid", document.get("table-uuid").is_some_and(Value::is_string)),
            ("last-updated-ms", document.get("last-updated-ms").is_some_and(Value::is_i64)),
        ] {
            if !is_there {
                return Err(Trouble::invalid(format!("the table metadata has no {key}")));
            }
        }
        // Of one without the other the crate takes neither, and goes by the lone schema of version 1.
        let is_there = |key: &str| document.get(key).is_some_and(|value| !value.is_null());
        if is_there("schemas") != is_there("current-schema-id") {
            return Err(Trouble::invalid("schemas and current-schema-id are not both there"));
        }
        logged(&document)?;
        kept::ids_are_unique(&document, kept::LISTS)?;
        let seen = shown::seen(&document)?;
        Ok(Self { document, seen })
    }

    /// The document, for an answer.
    pub fn document(&self) -> Value {
        Value::Object(self.document.clone())
    }

    /// The bytes of its file: the same document is always the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.document).unwrap_or_default()
    }

    /// The table's UUID.
    pub fn uuid(&self) -> Uuid {
        self.seen.uuid()
    }

    /// Where the table's files lie, without a slash at the end.
    pub fn location(&self) -> &str {
        self.seen.location()
    }

    /// The format version: 1 or 2.
    pub fn format_version(&self) -> u8 {
        if self.member("format-version").and_then(Value::as_u64) == Some(1) { 1 } else { 2 }
    }

    /// When it was last changed, in milliseconds since 1970.
    pub fn last_updated_ms(&self) -> i64 {
        self.member("last-updated-ms").and_then(Value::as_i64).unwrap_or_default()
    }

    /// The largest field id that was ever assigned.
    pub fn last_column_id(&self) -> i32 {
        self.seen.last_column_id()
    }

    /// The largest partition field id that was ever assigned.
    pub fn last_partition_id(&self) -> i32 {
        self.seen.last_partition_id()
    }

    /// The largest sequence number that was ever assigned: 0 in format version 1.
    pub fn last_sequence_number(&self) -> i64 {
        self.seen.last_sequence_number()
    }

    /// The snapshot that `main` refers to.
    pub fn current_snapshot_id(&self) -> Option<i64> {
        self.seen.current_snapshot_id()
    }

    /// The operation that the current snapshot's summary names.
    pub fn current_operation(&self) -> Option<&str> {
        self.seen.current_snapshot().map(|snapshot| snapshot.summary().operation.as_str())
    }

    /// The table's properties.
    pub fn properties(&self) -> Map<String, Value> {
        self.member("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Branches and tags, by name.
    pub fn refs(&self) -> Map<String, Value> {
        self.member("refs").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// The snapshots as they stand in the document.
    pub fn snapshots(&self) -> &[Value] {
        self.list("snapshots")
    }

    /// The ids of the snapshots, in the order of the document.
    pub fn snapshot_ids(&self) -> Vec<i64> {
        let ids = self.snapshots().iter().map(|snapshot| snapshot["snapshot-id"].as_i64());
        ids.flatten().collect()
    }

    /// The metadata files that were current before, oldest first.
    pub fn metadata_log(&self) -> Vec<Logged> {
        logged(&self.document).unwrap_or_default()
    }

    /// The document as a load shows it: all snapshots, or those that are referred to.
    pub fn for_load(&self, wanted: Snapshots) -> Value {
        let mut document = self.document.clone();
        if wanted == Snapshots::Refs {
            let kept: Vec<i64> =
                self.refs().values().filter_map(|known| known["snapshot-id"].as_i64()).collect();
            let kept = |id: Option<i64>| {
                id.is_some_and(|id| kept.contains(&id) || self.current_snapshot_id() == Some(id))
            };
            if let Some(Value::Array(snapshots)) = document.get_mut("snapshots") {
                snapshots.retain(|snapshot| kept(snapshot["snapshot-id"].as_i64()));
            }
        }
        Value::Object(document)
    }

    pub(super) fn members(&self) -> &Map<String, Value> {
        &self.document
    }

    pub(super) fn member(&self, key: &str) -> Option<&Value> {
        self.document.get(key)
    }

    pub(super) fn list(&self, key: &str) -> &[Value] {
        self.member(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn seen(&self) -> &TableMetadata {
        &self.seen
    }

    /// The crate's builder on this document, in its own format version.
    pub(super) fn builder(&self) -> Result<TableMetadataBuilder, Trouble> {
        if self.format_version() == 2 {
            return Ok(self.seen.clone().into_builder(None));
        }
        shown::builder(&self.document)
    }
}

/// Refuses a format version that is not served.
pub(super) fn unsupported_version(version: impl std::fmt::Display) -> Trouble {
    Trouble::unsupported(format!("format version {version} of Iceberg tables is not served"))
}

/// The crate's word for a format version that is served.
pub(super) fn format_of(version: i64) -> Result<FormatVersion, Trouble> {
    match version {
        1 => Ok(FormatVersion::V1),
        2 => Ok(FormatVersion::V2),
        other => Err(unsupported_version(other)),
    }
}

/// The metadata log of a document. The crate does not see it, so that it is looked at here.
fn logged(document: &Map<String, Value>) -> Result<Vec<Logged>, Trouble> {
    let entries = match document.get("metadata-log") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(Trouble::invalid("the metadata-log is no list")),
    };
    let entries = entries.iter().map(|entry| {
        let timestamp_ms = entry["timestamp-ms"].as_i64();
        let metadata_file = entry["metadata-file"].as_str().map(str::to_owned);
        let entry = timestamp_ms.zip(metadata_file);
        let entry =
            entry.map(|(timestamp_ms, metadata_file)| Logged { timestamp_ms, metadata_file });
        entry.ok_or_else(|| Trouble::invalid("the metadata-log has an entry that is none"))
    });
    entries.collect()
}

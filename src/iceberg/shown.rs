//! What the crate is shown of a document, and how it is told back.
//!
//! The crate is made for a client that commits now: it stamps what it changes with the system's clock, refuses what is
//! more than a minute older than what it saw last, and trims the metadata log. A catalog applies a commit again years
//! later and must come to the same bytes, and its clock is handed in. So it is shown no time at all: the metadata log
//! is ours alone, entries of a history are marked with their place instead of their time ([`mark`]), and snapshots that
//! are added come from a constant day ([`TIMELESS_MS`]). [`history`] puts the times back.

use iceberg::spec::FormatVersion;
use iceberg::spec::SnapshotReference;
use iceberg::spec::TableMetadata;
use iceberg::spec::TableMetadataBuilder;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Trouble;
use super::trouble::guarded;

/// When everything that is added seems to come from: later than any clock says, so that nothing is before it.
pub(super) const TIMELESS_MS: i64 = 9_999_999_999_999;

/// The branch that is current.
pub(super) const MAIN: &str = "main";

/// The crate's view of a table's document, as format version 2: as version 1 it forgets every reference but `main`
/// whenever it is written or read.
pub(super) fn seen(document: &Map<String, Value>) -> Result<TableMetadata, Trouble> {
    if document.get("format-version").and_then(Value::as_u64) == Some(2) {
        return parsed(document);
    }
    let builder = builder(document)?;
    let built = guarded("the table metadata", || {
        builder.upgrade_format_version(FormatVersion::V2)?.build()
    })?;
    Ok(built.metadata)
}

/// The crate's builder on a document of format version 1, whose other references are set again.
pub(super) fn builder(document: &Map<String, Value>) -> Result<TableMetadataBuilder, Trouble> {
    let mut builder = parsed(document)?.into_builder(None);
    let refs = document.get("refs").and_then(Value::as_object);
    for (name, reference) in refs.into_iter().flatten().filter(|(name, _)| *name != MAIN) {
        let reference: SnapshotReference = read("a snapshot reference", reference.clone())?;
        builder = guarded("a snapshot reference", || builder.set_ref(name, reference))?;
    }
    Ok(builder)
}

/// What the crate reads of a document.
fn parsed(document: &Map<String, Value>) -> Result<TableMetadata, Trouble> {
    let members = document.iter().filter(|(key, _)| *key != "metadata-log");
    let mut shown: Map<String, Value> =
        members.map(|(key, value)| (key.clone(), value.clone())).collect();
    shown.insert("last-updated-ms".to_owned(), json!(0));
    mark(shown.get_mut("snapshot-log"));
    read("the table metadata", Value::Object(shown))
}

/// Reads one of the crate's types.
pub(super) fn read<T: serde::de::DeserializeOwned>(what: &str, value: Value) -> Result<T, Trouble> {
    let read = guarded(what, || Ok(serde_json::from_value(value)))?;
    read.map_err(|error| Trouble::invalid(format!("{what} is not valid: {error}")))
}

/// Marks the entries of a history: of three, the times become -3, -2 and -1. What is appended later is not negative.
pub(super) fn mark(history: Option<&mut Value>) {
    let Some(Value::Array(entries)) = history else { return };
    let count = entries.len() as i64;
    for (index, entry) in entries.iter_mut().enumerate() {
        // What is no time stays as it is, for the crate to refuse.
        if let Some(time) = entry.get_mut("timestamp-ms").filter(|time| time.is_i64()) {
            *time = json!(index as i64 - count);
        }
    }
}

/// A history with its times again: what was marked is the entry of `old` that stood there, what is new has the time of
/// what it is about (`added`, when this commit brought it) or `now_ms`.
pub(super) fn history(
    marked: Option<&Value>,
    old: &[Value],
    id_key: &str,
    added: impl Fn(i64) -> Option<i64>,
    now_ms: i64,
) -> Vec<Value> {
    let entries = marked.and_then(Value::as_array).into_iter().flatten();
    let entries = entries.map(|entry| {
        let time = entry["timestamp-ms"].as_i64().unwrap_or_default();
        let place = old.len() as i64 + time;
        let before = usize::try_from(place).ok().filter(|_| time < 0);
        match before.and_then(|index| old.get(index)) {
            Some(entry) => entry.clone(),
            None => {
                let id = entry[id_key].as_i64().unwrap_or_default();
                json!({ "timestamp-ms": added(id).unwrap_or(now_ms), id_key: id })
            }
        }
    });
    entries.collect()
}

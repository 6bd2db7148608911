//! The next document of a table, from what the crate built.

use iceberg::spec::FormatVersion;
use iceberg::spec::TableMetadata;
use iceberg::spec::TableMetadataBuilder;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::Metadata;
use super::Trouble;
use super::kept;
use super::kept::LISTS;
use super::kept::List;
use super::metadata::Logged;
use super::shown;
use super::trouble::guarded;

/// What a request brought, as it wrote it.
#[derive(Default)]
pub(super) struct Given {
    pub(super) schemas: Vec<Value>,
    pub(super) snapshots: Vec<Value>,
    pub(super) statistics: Vec<Value>,
    pub(super) partition_statistics: Vec<Value>,
}

/// Members that are carried over as the crate has them.
const PLAIN: &[&str] = &[
    "table-uuid",
    "location",
    "last-column-id",
    "current-schema-id",
    "default-spec-id",
    "last-partition-id",
    "default-sort-order-id",
    "current-snapshot-id",
];

/// Members that are made here.
const MADE: &[&str] = &[
    "format-version",
    "last-updated-ms",
    "last-sequence-number",
    "properties",
    "refs",
    "snapshot-log",
    "metadata-log",
    "schema",
    "partition-spec",
];

/// The document that follows `old`.
pub(super) struct Next<'a> {
    /// The document before; none when the table is new.
    pub(super) old: Option<&'a Metadata>,
    /// What the request brought.
    pub(super) given: &'a Given,
    /// The format version of the table from now on.
    pub(super) format_version: u8,
    /// When this is, in milliseconds since 1970.
    pub(super) now_ms: i64,
    /// The file that is current until now.
    pub(super) logged: Option<Logged>,
}

impl Next<'_> {
    /// Has the crate build, and writes down what it built.
    pub(super) fn document(&self, builder: TableMetadataBuilder) -> Result<Metadata, Trouble> {
        // Of version 1 the crate writes neither branches nor tags, so that it always writes version 2.
        let built = guarded("the new table metadata", || {
            builder.upgrade_format_version(FormatVersion::V2)?.build()
        })?;
        let mut built = as_json(&built.metadata)?;
        let before = self.old.map(|old| as_json(old.seen())).transpose()?.unwrap_or_default();
        self.tell_the_time_of_snapshots(&mut built);

        let known: Vec<&str> = LISTS.iter().map(|(list, _)| *list).collect();
        let known = [known.as_slice(), PLAIN, MADE].concat();
        let mut next =
            self.old.map(|old| kept::strangers(old.members(), &known)).unwrap_or_default();
        for key in PLAIN {
            next.extend(built.get(*key).map(|value| ((*key).to_owned(), value.clone())));
        }
        for (key, id_key) in LISTS {
            let merged = List {
                id_key,
                is_assigned: *key == "schemas",
                built: list(&built, key),
                built_before: list(&before, key),
                before: self.old.map_or(&[], |old| old.list(key)),
                given: self.given(key),
            };
            let merged = merged.merged();
            let is_wanted = !key.ends_with("statistics") || self.has(key) || !merged.is_empty();
            if is_wanted {
                next.insert((*key).to_owned(), Value::Array(merged));
            }
        }
        let properties = built.get("properties").cloned().unwrap_or_else(|| json!({}));
        next.insert("properties".to_owned(), properties);
        next.insert("refs".to_owned(), self.refs(&built, &before));
        self.write_history(&mut next, &built);
        self.write_version(&mut next, &built);
        Metadata::from_document(Value::Object(next))
    }

    /// The crate was shown no time of the snapshots that this commit adds.
    fn tell_the_time_of_snapshots(&self, built: &mut Map<String, Value>) {
        let Some(Value::Array(snapshots)) = built.get_mut("snapshots") else { return };
        for snapshot in snapshots {
            let id = snapshot["snapshot-id"].as_i64();
            if let Some(added) = id.and_then(|id| self.added(id)) {
                snapshot["timestamp-ms"] = json!(added);
            }
        }
    }

    /// When the snapshot was made, when this commit adds it.
    fn added(&self, id: i64) -> Option<i64> {
        let mut given = self.given.snapshots.iter();
        given.find(|given| given["snapshot-id"].as_i64() == Some(id))?["timestamp-ms"].as_i64()
    }

    fn has(&self, key: &str) -> bool {
        self.old.is_some_and(|old| old.member(key).is_some())
    }

    fn given(&self, key: &str) -> &[Value] {
        match key {
            "schemas" => &self.given.schemas,
            "snapshots" => &self.given.snapshots,
            "statistics" => &self.given.statistics,
            "partition-statistics" => &self.given.partition_statistics,
            _ => &[],
        }
    }

    /// Branches and tags; those that did not change as they stand.
    fn refs(&self, built: &Map<String, Value>, before: &Map<String, Value>) -> Value {
        let mut refs = built.get("refs").and_then(Value::as_object).cloned().unwrap_or_default();
        for (name, reference) in &mut refs {
            let was = before.get("refs").and_then(|refs| refs.get(name));
            let stands =
                self.old.and_then(|old| old.member("refs")).and_then(|refs| refs.get(name));
            if let Some(stands) = stands.filter(|_| was == Some(&*reference)) {
                *reference = stands.clone();
            }
        }
        Value::Object(refs)
    }

    /// Both logs and the time. It is never before what the logs say, even when a clock went back: readers refuse that.
    fn write_history(&self, next: &mut Map<String, Value>, built: &Map<String, Value>) {
        let old = self.old.map_or(&[][..], |old| old.list("snapshot-log"));
        let added = |id| self.added(id);
        let log = shown::history(built.get("snapshot-log"), old, "snapshot-id", added, self.now_ms);
        let newest = log.last().and_then(|entry| entry["timestamp-ms"].as_i64());
        let before = self.old.map(Metadata::last_updated_ms);
        let now_ms = [newest, before].into_iter().flatten().fold(self.now_ms, i64::max);

        let mut files = self.old.map_or(&[][..], |old| old.list("metadata-log")).to_vec();
        files.extend(self.logged.iter().map(|logged| {
            json!({ "timestamp-ms": logged.timestamp_ms, "metadata-file": logged.metadata_file })
        }));
        next.insert("snapshot-log".to_owned(), Value::Array(log));
        next.insert("metadata-log".to_owned(), Value::Array(files));
        next.insert("last-updated-ms".to_owned(), json!(now_ms));
    }

    /// What one format version has and the other has not.
    fn write_version(&self, next: &mut Map<String, Value>, built: &Map<String, Value>) {
        next.insert("format-version".to_owned(), json!(self.format_version));
        if self.format_version == 2 {
            let number = built.get("last-sequence-number").cloned().unwrap_or_else(|| json!(0));
            next.insert("last-sequence-number".to_owned(), number);
            let Some(Value::Array(snapshots)) = next.get_mut("snapshots") else { return };
            for snapshot in snapshots.iter_mut().filter_map(Value::as_object_mut) {
                snapshot.entry("sequence-number").or_insert_with(|| json!(0));
            }
            return;
        }
        // Readers of version 1 that are older than lists of schemas and specs look for the current one by itself.
        let schema = entry(next, "schemas", "schema-id", "current-schema-id");
        let spec = entry(next, "partition-specs", "spec-id", "default-spec-id");
        next.extend(schema.map(|schema| ("schema".to_owned(), schema)));
        next.extend(spec.map(|spec| ("partition-spec".to_owned(), spec["fields"].clone())));
        let unnumbered = self.given.snapshots.iter();
        let unnumbered = unnumbered.filter(|given| given.get("sequence-number").is_none());
        let unnumbered: Vec<i64> =
            unnumbered.filter_map(|given| given["snapshot-id"].as_i64()).collect();
        let Some(Value::Array(snapshots)) = next.get_mut("snapshots") else { return };
        for snapshot in snapshots.iter_mut().filter_map(Value::as_object_mut) {
            // There are no sequence numbers in version 1; the zero that some writers put there stays where it was.
            let id = snapshot.get("snapshot-id").and_then(Value::as_i64);
            if id.is_some_and(|id| unnumbered.contains(&id)) {
                snapshot.remove("sequence-number");
            }
        }
    }
}

/// The entry of a list that another member names.
fn entry(next: &Map<String, Value>, list: &str, id_key: &str, named_by: &str) -> Option<Value> {
    let id = next.get(named_by)?;
    next.get(list)?.as_array()?.iter().find(|entry| entry.get(id_key) == Some(id)).cloned()
}

fn list<'a>(document: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    document.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn as_json(metadata: &TableMetadata) -> Result<Map<String, Value>, Trouble> {
    match guarded("the table metadata", || Ok(serde_json::to_value(metadata)))? {
        Ok(Value::Object(document)) => Ok(document),
        _ => Err(Trouble::invalid("the table metadata cannot be written")),
    }
}

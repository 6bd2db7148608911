//! What a commit changes.

use std::collections::BTreeSet;

use iceberg::TableUpdate;
use iceberg::spec::TableMetadataBuilder;
use serde_json::Value;
use serde_json::json;

use super::Metadata;
use super::Trouble;
use super::limits;
use super::metadata;
use super::metadata::Logged;
use super::shown;
use super::shown::MAIN;
use super::shown::read;
use super::trouble::guarded;
use super::written::Given;
use super::written::Next;

const TABLE_UPDATES: &[&str] = &[
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-current-schema",
    "add-spec",
    "set-default-spec",
    "add-sort-order",
    "set-default-sort-order",
    "add-snapshot",
    "set-snapshot-ref",
    "remove-snapshots",
    "remove-snapshot-ref",
    "set-location",
    "set-properties",
    "remove-properties",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
];

/// When a commit is, and what it follows.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// When this is, in milliseconds since 1970: of a commit that is applied again, when it was first.
    pub now_ms: i64,
    /// Where the metadata file lies that is current until now: an `s3://` address.
    pub previous_location: &'a str,
}

/// Applies `updates` in their order. No requirement is looked at; the same input gives the same bytes.
///
/// # Errors
/// `Invalid` for an update that is unknown, malformed or not possible; `Conflict` for a snapshot that is there already,
/// whose parent is not, or whose sequence number is taken; `Unsupported` for encryption keys and format version 3.
pub fn apply(
    metadata: &Metadata,
    updates: &[Value],
    moment: &Moment<'_>,
) -> Result<Metadata, Trouble> {
    limits::updates_fit(updates)?;
    let mut applied = Applied {
        builder: metadata.builder()?,
        given: Given::default(),
        snapshots: metadata.snapshot_ids().into_iter().collect(),
        last_sequence_number: metadata.last_sequence_number(),
        format_version: metadata.format_version(),
    };
    for update in updates {
        applied = applied.then(update)?;
    }
    Next {
        old: Some(metadata),
        given: &applied.given,
        format_version: applied.format_version,
        now_ms: moment.now_ms,
        logged: Some(Logged {
            timestamp_ms: metadata.last_updated_ms(),
            metadata_file: moment.previous_location.to_owned(),
        }),
    }
    .document(applied.builder)
}

/// A table with some of the updates.
struct Applied {
    builder: TableMetadataBuilder,
    given: Given,
    snapshots: BTreeSet<i64>,
    last_sequence_number: i64,
    format_version: u8,
}

impl Applied {
    fn then(mut self, update: &Value) -> Result<Self, Trouble> {
        limits::ids_have_room(update)?;
        let action =
            update["action"].as_str().ok_or_else(|| Trouble::invalid("an update has no action"))?;
        let mut update = update.clone();
        match action {
            "add-encryption-key" | "remove-encryption-key" => {
                return Err(Trouble::unsupported("encryption keys of tables are not served"));
            }
            "upgrade-format-version" => self.upgrade(&update)?,
            "add-snapshot" => self.snapshot(&mut update)?,
            "set-snapshot-ref" => main_is_a_branch(&update)?,
            "remove-snapshots" => {
                let ids = update["snapshot-ids"].as_array().into_iter().flatten();
                for id in ids.filter_map(Value::as_i64) {
                    self.snapshots.remove(&id);
                }
            }
            "add-schema" => self.given.schemas.push(update["schema"].clone()),
            "set-statistics" => self.given.statistics.push(update["statistics"].clone()),
            "set-partition-statistics" => {
                self.given.partition_statistics.push(update["partition-statistics"].clone());
            }
            known if TABLE_UPDATES.contains(&known) => {}
            unknown => {
                return Err(Trouble::invalid(format!("the update {unknown:?} is unknown")));
            }
        }
        let what = format!("the update {action}");
        let update: TableUpdate = read(&what, update)?;
        let builder = self.builder;
        self.builder = guarded(&what, || update.apply(builder))?;
        Ok(self)
    }

    fn upgrade(&mut self, update: &Value) -> Result<(), Trouble> {
        let version = update["format-version"].as_i64();
        let version = version.ok_or_else(|| Trouble::invalid("format-version is no integer"))?;
        metadata::format_of(version)?;
        if version < i64::from(self.format_version) {
            return Err(Trouble::invalid("the format version of a table is never lowered"));
        }
        self.format_version = if version == 1 { 1 } else { 2 };
        Ok(())
    }

    /// The rules of new snapshots, which the crate judges by its clock and applies to some only.
    fn snapshot(&mut self, update: &mut Value) -> Result<(), Trouble> {
        let snapshot = &mut update["snapshot"];
        let id = snapshot["snapshot-id"].as_i64();
        let id = id.ok_or_else(|| Trouble::invalid("a snapshot has no snapshot-id"))?;
        if !self.snapshots.insert(id) {
            return Err(Trouble::conflict(format!("there is a snapshot {id} already")));
        }
        let parent = snapshot["parent-snapshot-id"].as_i64();
        if let Some(parent) =
            parent.filter(|parent| *parent == id || !self.snapshots.contains(parent))
        {
            return Err(Trouble::conflict(format!("there is no parent snapshot {parent}")));
        }
        if !snapshot["key-id"].is_null() {
            return Err(Trouble::unsupported("encrypted snapshots are not served"));
        }
        if !snapshot["timestamp-ms"].is_i64() {
            return Err(Trouble::invalid("a snapshot has no timestamp-ms"));
        }
        let Some(members) = snapshot.as_object_mut() else { return Ok(()) };
        if self.format_version == 1 {
            // There are no sequence numbers in version 1. Clients send zero, and the crate would keep any other.
            if members.get("sequence-number").is_some_and(|number| *number != json!(0)) {
                members.remove("sequence-number");
            }
        } else {
            let number = members.get("sequence-number").and_then(Value::as_i64);
            let number =
                number.ok_or_else(|| Trouble::invalid("a snapshot has no sequence-number"))?;
            // The crate lets a snapshot without a parent have any number.
            if number <= self.last_sequence_number {
                let last = self.last_sequence_number;
                let text = format!("the sequence number {number} is not beyond {last}");
                return Err(Trouble::conflict(text));
            }
            self.last_sequence_number = number;
        }
        // They belong to version 3.
        members.remove("first-row-id");
        members.remove("added-rows");
        self.given.snapshots.push(Value::Object(members.clone()));
        members.insert("timestamp-ms".to_owned(), json!(shown::TIMELESS_MS));
        Ok(())
    }
}

/// The crate would make a tag of it, and readers find the current snapshot nowhere.
fn main_is_a_branch(update: &Value) -> Result<(), Trouble> {
    if update["ref-name"] == MAIN && update["type"] != "branch" {
        return Err(Trouble::invalid("main is a branch, and stays one"));
    }
    Ok(())
}

//! From which metadata of a table one may go to which.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Metadata;
use super::Trouble;

/// Whether `new` may follow `old` at all: it is the same table, in no older format.
///
/// # Errors
/// `Invalid`, with what it is that changes.
pub fn transition(old: &Metadata, new: &Metadata) -> Result<(), Trouble> {
    if old.uuid() != new.uuid() {
        return Err(Trouble::invalid("the uuid of a table never changes"));
    }
    if new.format_version() < old.format_version() {
        return Err(Trouble::invalid("the format version of a table is never lowered"));
    }
    Ok(())
}

/// Whether a table may go back from `current` to `target` while clients go on: no id that was assigned is assigned
/// again, and nothing that both define has two meanings.
///
/// # Errors
/// `Invalid`, with what would be lost.
pub fn forward_safe(current: &Metadata, target: &Metadata) -> Result<(), Trouble> {
    transition(current, target)?;
    let is_lower = [
        ("last-column-id", target.last_column_id() < current.last_column_id()),
        ("last-partition-id", target.last_partition_id() < current.last_partition_id()),
        // Of version 1 it is always zero.
        ("last-sequence-number", target.last_sequence_number() < current.last_sequence_number()),
    ];
    if let Some((what, _)) = is_lower.iter().find(|(_, is_lower)| *is_lower) {
        return Err(Trouble::invalid(format!("{what} would go down")));
    }
    for (list, id_key) in [
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
        ("snapshots", "snapshot-id"),
    ] {
        let now = by_id(current, list, id_key);
        for (id, then) in by_id(target, list, id_key) {
            if now.get(&id).is_some_and(|now| **now != *then) {
                return Err(Trouble::invalid(format!("{list} have another {id_key} {id} since")));
            }
        }
    }
    Ok(())
}

fn by_id<'a>(metadata: &'a Metadata, list: &str, id_key: &str) -> BTreeMap<i64, &'a Value> {
    let entries = metadata.list(list).iter();
    entries.filter_map(|entry| Some((entry[id_key].as_i64()?, entry))).collect()
}

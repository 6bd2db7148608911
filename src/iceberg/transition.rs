//! From which metadata of a table one may go to which.

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
    // As the crate reads them: a zero that a version implies is the same as one that is written.
    let (now, then) = (current.seen(), target.seen());
    let changed = [
        (
            "schema",
            another(then.schemas_iter().map(|schema| {
                (schema.schema_id().into(), schema, now.schema_by_id(schema.schema_id()))
            })),
        ),
        (
            "partition spec",
            another(then.partition_specs_iter().map(|spec| {
                (spec.spec_id().into(), spec, now.partition_spec_by_id(spec.spec_id()))
            })),
        ),
        (
            "sort order",
            another(
                then.sort_orders_iter()
                    .map(|order| (order.order_id, order, now.sort_order_by_id(order.order_id))),
            ),
        ),
        (
            "snapshot",
            another(then.snapshots().map(|snapshot| {
                (snapshot.snapshot_id(), snapshot, now.snapshot_by_id(snapshot.snapshot_id()))
            })),
        ),
    ];
    match changed.iter().find_map(|(what, id)| Some((what, (*id)?))) {
        Some((what, id)) => Err(Trouble::invalid(format!("the {what} {id} is another since"))),
        None => Ok(()),
    }
}

/// The smallest id of what is there now, and was something else then.
fn another<'a, T: PartialEq + 'a>(
    entries: impl Iterator<Item = (i64, &'a T, Option<&'a T>)>,
) -> Option<i64> {
    let changed = entries.filter(|(_, then, now)| now.is_some_and(|now| now != *then));
    changed.map(|(id, _, _)| id).min()
}

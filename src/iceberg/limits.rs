//! How much is read of what others wrote.

use serde_json::Value;

use super::Trouble;

/// The most bytes of a metadata file, as it lies and unpacked.
pub const METADATA_BYTES_MAX: usize = 50 << 20;
/// The most requirements of one commit.
pub const REQUIREMENTS_MAX: usize = 1_024;
/// The most updates of one commit.
pub const UPDATES_MAX: usize = 1_024;

/// The largest id of a schema, a field, a partition spec or a sort order. Iceberg keeps the two hundred ids below 2^31
/// for its own columns; and where the crate counts on from the largest id there is always a next one.
const ID_MAX: i64 = 1 << 30;

/// Where such ids stand in a document.
const IDS: &[&str] = &[
    "id",
    "element-id",
    "key-id",
    "value-id",
    "field-id",
    "source-id",
    "schema-id",
    "spec-id",
    "order-id",
    "version-id",
    "last-column-id",
    "last-partition-id",
    "current-schema-id",
    "current-version-id",
];

/// Refuses ids that leave no room for the next one.
pub(super) fn ids_have_room(value: &Value) -> Result<(), Trouble> {
    match value {
        Value::Array(items) => items.iter().try_for_each(ids_have_room),
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            let is_beyond = value.as_i64().is_none_or(|id| id > ID_MAX);
            if value.is_number() && is_beyond && IDS.contains(&key.as_str()) {
                return Err(Trouble::invalid(format!("{key} {value} is beyond {ID_MAX}")));
            }
            ids_have_room(value)
        }),
        _ => Ok(()),
    }
}

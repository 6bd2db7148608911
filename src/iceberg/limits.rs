//! How much is read of what others wrote.

use serde_json::Value;

use super::Trouble;

/// The most bytes of a metadata file, as it lies and unpacked.
pub const METADATA_BYTES_MAX: usize = 50 << 20;
/// The most requirements of one commit.
pub const REQUIREMENTS_MAX: usize = 1_024;
/// The most updates of one commit.
pub const UPDATES_MAX: usize = 1_024;

/// The most bytes of the dotted names of all fields of what one request brings. The crate has each of them several times,
/// by name, by id and in lower case: a long name of a struct counts with each of its fields.
pub const NAMES_BYTES_MAX: usize = 512 << 10;

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

/// Refuses more updates than a commit has, or more names than one request has.
pub(super) fn updates_fit(updates: &[Value]) -> Result<(), Trouble> {
    if updates.len() > UPDATES_MAX {
        return Err(Trouble::invalid(format!("a commit has at most {UPDATES_MAX} updates")));
    }
    names_are_few(updates)
}

/// Refuses the parts of a request whose names are too much together.
pub(super) fn names_are_few<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Result<(), Trouble> {
    let mut left = NAMES_BYTES_MAX;
    parts.into_iter().try_for_each(|part| names_fit(part, 0, &mut left))
}

/// Takes the dotted names of the fields in `value` from what is `left`; it stands in one of `outer` bytes.
fn names_fit(value: &Value, outer: usize, left: &mut usize) -> Result<(), Trouble> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| names_fit(item, outer, left)),
        Value::Object(members) => {
            let name = members.get("name").and_then(Value::as_str);
            let name = name.filter(|_| members.contains_key("type"));
            let path = outer + name.map_or(0, |name| name.len() + 1);
            if name.is_some() {
                *left = left.checked_sub(path).ok_or_else(|| {
                    let max = NAMES_BYTES_MAX;
                    Trouble::invalid(format!("the names of all fields have more than {max} bytes"))
                })?;
            }
            members.values().try_for_each(|member| names_fit(member, path, left))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_fields_are_bounded_with_what_they_stand_in() {
        let of_request = |part: &Value| names_are_few([part]);
        let field =
            |name: &str, of: Value| json!({"id": 1, "name": name, "required": false, "type": of});
        let schema = |fields: Vec<Value>| json!({"type": "struct", "fields": fields});
        let flat = |count: usize, length: usize| {
            let name = "n".repeat(length);
            schema((0..count).map(|_| field(&name, json!("long"))).collect())
        };
        of_request(&flat(10_000, 50)).unwrap();
        of_request(&flat(1, NAMES_BYTES_MAX - 1)).unwrap();
        of_request(&flat(1, NAMES_BYTES_MAX)).unwrap_err();
        of_request(&flat(10_000, 60)).unwrap_err();
        // One long name around many short ones.
        of_request(&schema(vec![field(&"n".repeat(1_000), flat(400, 5))])).unwrap();
        of_request(&schema(vec![field(&"n".repeat(1_000), flat(600, 5))])).unwrap_err();
        let list = json!({"type": "list", "element-id": 3, "element": flat(600, 5)});
        of_request(&json!({"schema": schema(vec![field(&"n".repeat(1_000), list)])})).unwrap_err();
        // Of parts that would do by themselves.
        let part = flat(6_000, 50);
        names_are_few([&part]).unwrap();
        names_are_few([&part, &part]).unwrap_err();
        // What is no field has a bound of its own.
        of_request(&json!({"properties": {"name": "n".repeat(NAMES_BYTES_MAX)}})).unwrap();
    }
}

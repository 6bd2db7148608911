//! What a document keeps that the crate does not.
//!
//! The crate holds lists in hash maps and knows only the fields of its own version of the specification: written out
//! again, a document would change its order at random and lose what a newer writer put there. So an entry that did
//! not change is taken from the old document as it stands, and one that is new brings along the fields of the request
//! that the crate passed over.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;

use super::Trouble;

/// The lists of a table whose entries are known by an id.
pub(super) const LISTS: &[(&str, &str)] = &[
    ("schemas", "schema-id"),
    ("partition-specs", "spec-id"),
    ("sort-orders", "order-id"),
    ("snapshots", "snapshot-id"),
    ("statistics", "snapshot-id"),
    ("partition-statistics", "snapshot-id"),
];

/// One list of a document, in three versions.
pub(super) struct List<'a> {
    /// The member that tells its entries apart.
    pub(super) id_key: &'a str,
    /// Whether the catalog assigns that member: what the request says of it means nothing.
    pub(super) is_assigned: bool,
    /// The list as the crate has it now.
    pub(super) built: &'a [Value],
    /// The list as the crate had it before.
    pub(super) built_before: &'a [Value],
    /// The list as the old document has it.
    pub(super) before: &'a [Value],
    /// What the request gave for it, in its order.
    pub(super) given: &'a [Value],
}

impl List<'_> {
    /// The list of the new document: what stood before in its order, then what is new in the order of the request.
    pub(super) fn merged(&self) -> Vec<Value> {
        let mut built = by_id(self.built, self.id_key);
        let built_before = by_id(self.built_before, self.id_key);
        let mut merged = Vec::with_capacity(built.len());
        for entry in self.before {
            let Some(id) = entry[self.id_key].as_i64() else { continue };
            let Some(now) = built.remove(&id) else { continue };
            let is_the_same = built_before.get(&id) == Some(&now);
            merged.push(if is_the_same { entry.clone() } else { self.completed(now) });
        }
        for id in self.given.iter().filter_map(|given| given[self.id_key].as_i64()) {
            merged.extend(built.remove(&id).map(|now| self.completed(now)));
        }
        merged.extend(built.into_values().map(|now| self.completed(now)));
        merged
    }

    fn completed(&self, now: &Value) -> Value {
        let but = if self.is_assigned { self.id_key } else { "" };
        let given = self.given.iter().rev().find(|given| agree(now, given, but));
        given.map_or_else(|| now.clone(), |given| completed(now.clone(), given))
    }
}

fn by_id<'a>(list: &'a [Value], id_key: &str) -> BTreeMap<i64, &'a Value> {
    list.iter().filter_map(|entry| Some((entry[id_key].as_i64()?, entry))).collect()
}

/// Whether two values say the same wherever both say something; `but` is passed over at the top.
pub(super) fn agree(one: &Value, other: &Value, but: &str) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .filter(|(key, _)| *key != but)
            .all(|(key, value)| other.get(key).is_none_or(|other| agree(value, other, ""))),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| agree(one, other, ""))
        }
        _ => one == other,
    }
}

/// `value`, with the members of `given` that it does not have. What both have is as `value` says.
pub(super) fn completed(value: Value, given: &Value) -> Value {
    match (value, given) {
        (Value::Object(mut value), Value::Object(given)) => {
            for (key, given) in given.iter().filter(|(_, given)| !given.is_null()) {
                let completed = match value.remove(key) {
                    Some(own) => completed(own, given),
                    None => given.clone(),
                };
                value.insert(key.clone(), completed);
            }
            Value::Object(value)
        }
        (Value::Array(value), Value::Array(given)) if value.len() == given.len() => {
            let pairs = value.into_iter().zip(given);
            Value::Array(pairs.map(|(value, given)| completed(value, given)).collect())
        }
        (value, _) => value,
    }
}

/// Refuses a document in which one id means two things: the crate would keep either of them.
pub(super) fn ids_are_unique(
    document: &Map<String, Value>,
    lists: &[(&str, &str)],
) -> Result<(), Trouble> {
    for (list, id_key) in lists {
        let entries = document.get(*list).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if by_id(entries, id_key).len() < entries.len() {
            return Err(Trouble::invalid(format!("{list} have two entries of one {id_key}")));
        }
    }
    Ok(())
}

/// The members of `old` that are none of `known`: they stay.
pub(super) fn strangers(old: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let strangers = old.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    strangers.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_that_did_not_change_stays_as_it_stands() {
        let list = List {
            id_key: "id",
            is_assigned: false,
            built: &[json!({"id": 2, "a": 1}), json!({"id": 1, "a": 7}), json!({"id": 4})],
            built_before: &[json!({"id": 1, "a": 1}), json!({"id": 2, "a": 1}), json!({"id": 3})],
            before: &[
                json!({"id": 3}),
                json!({"id": 2, "a": 1, "odd": null}),
                json!({"id": 1, "a": 1, "odd": 5}),
            ],
            given: &[json!({"id": 4, "new": true})],
        };
        let expected = [
            json!({"id": 2, "a": 1, "odd": null}),
            json!({"id": 1, "a": 7}),
            json!({"id": 4, "new": true}),
        ];
        assert_eq!(list.merged(), expected);
    }

    #[test]
    fn what_the_request_says_besides_is_brought_along_at_every_depth() {
        let value = json!({"fields": [{"id": 1, "type": {"element": "int"}}], "schema-id": 4});
        let given = json!({
            "fields": [{"id": 9, "note": "x", "type": {"element": "int", "more": 1}}],
            "schema-id": 0, "identifier-field-ids": [], "doc": null,
        });
        let expected = json!({
            "fields": [{"id": 1, "note": "x", "type": {"element": "int", "more": 1}}],
            "schema-id": 4, "identifier-field-ids": [],
        });
        assert_eq!(completed(value, &given), expected);
    }
}

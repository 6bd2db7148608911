//! The first metadata of a table.

use super::*;

#[test]
fn a_table_begins_empty() {
    let expected = json!({
        "format-version": 2, "table-uuid": UUID.to_string(), "location": LOCATION,
        "last-updated-ms": 1_000, "last-column-id": 2, "last-sequence-number": 0,
        "schemas": [schema()], "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
        "properties": {}, "snapshots": [], "snapshot-log": [], "metadata-log": [], "refs": {},
    });
    assert_eq!(table().document(), expected);
}

#[test]
fn ids_are_assigned_anew() {
    let created = create(json!({
        "name": "t",
        "schema": {"type": "struct", "schema-id": 7, "fields": [
            {"id": 40, "name": "a", "required": true, "type": "long", "note": "kept"},
            {"id": 10, "name": "l", "required": false, "type":
                {"type": "list", "element-id": 11, "element": "string", "element-required": true}},
        ], "identifier-field-ids": [40]},
        "partition-spec": {"spec-id": 3, "fields": [
            {"source-id": 40, "field-id": 5, "name": "a_bucket", "transform": "bucket[4]"}]},
        "write-order": {"order-id": 9, "fields": [
            {"source-id": 40, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]},
        "properties": {"format-version": "2", "owner": "ops"},
    }))
    .unwrap()
    .document();
    let schema = json!({"type": "struct", "schema-id": 0, "fields": [
        {"id": 1, "name": "a", "required": true, "type": "long", "note": "kept"},
        {"id": 2, "name": "l", "required": false, "type":
            {"type": "list", "element-id": 3, "element": "string", "element-required": true}},
    ], "identifier-field-ids": [1]});
    assert_eq!(created["schemas"], json!([schema]));
    let spec = json!([{"spec-id": 0, "fields": [
        {"source-id": 1, "field-id": 1000, "name": "a_bucket", "transform": "bucket[4]"}]}]);
    assert_eq!(created["partition-specs"], spec);
    assert_eq!(created["sort-orders"][0]["order-id"], 1);
    assert_eq!(created["sort-orders"][0]["fields"][0]["source-id"], 1);
    assert_eq!(created["default-sort-order-id"], 1);
    assert_eq!(created["last-column-id"], 3);
    assert_eq!(created["last-partition-id"], 1000);
    assert_eq!(created["properties"], json!({"owner": "ops"}));
}

#[test]
fn a_table_of_version_one_has_its_schema_and_spec_by_themselves_too() {
    let body = json!({"name": "t", "schema": schema(), "properties": {"format-version": "1"}});
    let created = create(body).unwrap().document();
    assert_eq!(created["format-version"], 1);
    assert_eq!(created["schema"], schema());
    assert_eq!(created["partition-spec"], json!([]));
    assert_eq!(created.get("last-sequence-number"), None);
}

#[test]
fn what_is_no_table_is_refused() {
    let with = |key: &str, value: Value| {
        let mut body = json!({"name": "t", "schema": schema()});
        body[key] = value;
        class(create(body))
    };
    assert_eq!(with("stage-create", json!(true)), Class::Unsupported);
    assert_eq!(with("properties", json!({"format-version": "3"})), Class::Unsupported);
    assert_eq!(with("properties", json!({"format-version": "x"})), Class::Invalid);
    assert_eq!(with("properties", json!({"a": 1})), Class::Invalid);
    assert_eq!(with("unknown", json!(1)), Class::Invalid);
    assert_eq!(with("schema", json!({"type": "struct"})), Class::Invalid);
    assert_eq!(with("schema", json!([])), Class::Invalid);
    let spec = json!({"fields": [{"source-id": 99, "name": "x", "transform": "identity"}]});
    assert_eq!(with("partition-spec", spec), Class::Invalid);
    let beyond = json!({"type": "struct", "fields": [
        {"id": i32::MAX, "name": "id", "required": true, "type": "long"}]});
    assert_eq!(with("schema", beyond), Class::Invalid);
    assert!(create(json!({"name": "t", "schema": schema(), "stage-create": false})).is_ok());
}

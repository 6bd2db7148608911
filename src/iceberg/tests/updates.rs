//! What a commit may change, and what it must leave alone.

use super::*;

/// What `updates` make of `key` of a table.
fn made(of: &Metadata, updates: Value, key: &str) -> Value {
    applied(of, updates).unwrap().document()[key].clone()
}

fn refused(of: &Metadata, update: Value) -> Class {
    class(applied(of, json!([update])))
}

#[test]
fn a_commit_is_written_down_and_takes_its_time() {
    let table = table();
    let next = applied(&table, json!([])).unwrap();
    let log = json!([{"timestamp-ms": 1_000, "metadata-file": FILE}]);
    assert_eq!(next.document()["metadata-log"], log);
    assert_eq!(next.last_updated_ms(), 2_000);
    assert_eq!(next.metadata_log()[0], Logged { timestamp_ms: 1_000, metadata_file: FILE.into() });
}

/// Goal: the crate trims the log to a hundred entries, or to what a property says.
#[test]
fn the_metadata_log_is_never_trimmed() {
    let keep_one = json!([{"action": "set-properties", "updates":
        {"write.metadata.previous-versions-max": "1"}}]);
    let mut table = applied(&table(), keep_one).unwrap();
    for _ in 0..120 {
        table = applied(&table, json!([])).unwrap();
    }
    assert_eq!(table.metadata_log().len(), 121);
}

#[test]
fn the_time_never_goes_back() {
    let table = applied(&table(), json!([])).unwrap();
    let earlier = apply(&table, &[], &moment(500)).unwrap();
    assert_eq!(earlier.last_updated_ms(), 2_000);
    // A client whose clock is ahead: readers refuse a log that is newer than the document.
    let mut ahead = append(7, None, 1);
    ahead[0]["snapshot"]["timestamp-ms"] = json!(900_000);
    assert_eq!(applied(&table, ahead).unwrap().last_updated_ms(), 900_000);
}

#[test]
fn the_same_commit_is_the_same_bytes_again() {
    let mut table = table();
    for id in 1..20 {
        table = applied(&table, append(id, (id > 1).then(|| id - 1), id)).unwrap();
    }
    let updates = json!([
        {"action": "set-properties", "updates": {"b": "2", "a": "1", "c": "3"}},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 3},
        {"action": "set-snapshot-ref", "ref-name": "t1", "type": "tag", "snapshot-id": 4},
    ]);
    let once = applied(&table, updates.clone()).unwrap();
    for _ in 0..20 {
        let read = Metadata::parse(&table.to_bytes()).unwrap();
        assert_eq!(applied(&read, updates.clone()).unwrap().to_bytes(), once.to_bytes());
    }
    let ids: Vec<i64> = once.snapshot_ids();
    assert_eq!(ids, (1..20).collect::<Vec<_>>(), "snapshots keep their order");
    // The crate would have stamped it with the time of this test.
    let log = once.document()["snapshot-log"].clone();
    assert_eq!(log[19], json!({"snapshot-id": 3, "timestamp-ms": 2_000}));
}

#[test]
fn properties_are_set_and_removed() {
    let table =
        applied(&table(), json!([{"action": "set-properties", "updates": {"a": "1", "b": "2"}}]));
    let table = table.unwrap();
    let updates = json!([
        {"action": "set-properties", "updates": {"a": "3"}},
        {"action": "remove-properties", "removals": ["b", "absent"]},
    ]);
    assert_eq!(made(&table, updates, "properties"), json!({"a": "3"}));
    assert_eq!(refused(&table, json!({"action": "set-properties"})), Class::Invalid);
    assert_eq!(
        refused(&table, json!({"action": "set-properties", "updates": {"a": 1}})),
        Class::Invalid
    );
    assert_eq!(refused(&table, json!({"action": "remove-properties"})), Class::Invalid);
}

#[test]
fn a_location_and_a_uuid_are_assigned() {
    let updates = json!([
        {"action": "set-location", "location": "s3://lake/elsewhere/"},
        {"action": "assign-uuid", "uuid": Uuid::nil()},
    ]);
    let next = applied(&table(), updates).unwrap();
    assert_eq!((next.location(), next.uuid()), ("s3://lake/elsewhere", Uuid::nil()));
    assert_eq!(refused(&table(), json!({"action": "set-location"})), Class::Invalid);
    assert_eq!(refused(&table(), json!({"action": "assign-uuid", "uuid": "x"})), Class::Invalid);
}

#[test]
fn a_schema_is_added_and_the_last_added_is_minus_one() {
    let mut wider = schema();
    wider["fields"].as_array_mut().unwrap().push(
        json!({"id": 3, "name": "more", "required": false, "type": "string", "note": "kept"}),
    );
    let updates = json!([
        {"action": "add-schema", "schema": wider, "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
    ]);
    let next = applied(&table(), updates).unwrap();
    wider["schema-id"] = json!(1);
    assert_eq!(next.document()["schemas"], json!([schema(), wider]));
    assert_eq!(next.document()["current-schema-id"], 1);
    assert_eq!(next.last_column_id(), 3);

    let removed = applied(&next, json!([{"action": "remove-schemas", "schema-ids": [0]}])).unwrap();
    assert_eq!(removed.document()["schemas"], json!([wider]));
    assert_eq!(
        refused(&next, json!({"action": "remove-schemas", "schema-ids": [1]})),
        Class::Invalid
    );
    assert_eq!(
        refused(&next, json!({"action": "set-current-schema", "schema-id": -1})),
        Class::Invalid
    );
    assert_eq!(
        refused(&next, json!({"action": "set-current-schema", "schema-id": 9})),
        Class::Invalid
    );
    assert_eq!(
        refused(&next, json!({"action": "add-schema", "schema": {"type": "x"}})),
        Class::Invalid
    );
    let beyond = json!({"type": "struct", "fields": [
        {"id": i32::MAX, "name": "id", "required": true, "type": "long"}]});
    assert_eq!(refused(&next, json!({"action": "add-schema", "schema": beyond})), Class::Invalid);
}

#[test]
fn a_partition_spec_is_added_and_made_the_default() {
    let fields = json!([{"source-id": 2, "name": "day_day", "transform": "day"}]);
    let updates = json!([
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": fields}},
        {"action": "set-default-spec", "spec-id": -1},
    ]);
    let next = applied(&table(), updates).unwrap();
    let expected = json!([
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [
            {"source-id": 2, "field-id": 1000, "name": "day_day", "transform": "day"}]},
    ]);
    assert_eq!(next.document()["partition-specs"], expected);
    assert_eq!(next.document()["default-spec-id"], 1);
    assert_eq!(next.last_partition_id(), 1000);

    let removed = applied(&next, json!([{"action": "remove-partition-specs", "spec-ids": [0]}]));
    assert_eq!(removed.unwrap().document()["partition-specs"], json!([expected[1]]));
    assert_eq!(
        refused(&next, json!({"action": "remove-partition-specs", "spec-ids": [1]})),
        Class::Invalid
    );
    assert_eq!(
        refused(&next, json!({"action": "set-default-spec", "spec-id": -1})),
        Class::Invalid
    );
    assert_eq!(refused(&next, json!({"action": "set-default-spec", "spec-id": 9})), Class::Invalid);
    let unknown = json!({"fields": [{"source-id": 99, "name": "x", "transform": "identity"}]});
    assert_eq!(refused(&next, json!({"action": "add-spec", "spec": unknown})), Class::Invalid);
}

#[test]
fn a_sort_order_is_added_and_made_the_default() {
    let fields = json!([
        {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]);
    let updates = json!([
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": fields}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]);
    let next = applied(&table(), updates).unwrap();
    let expected = json!([{"order-id": 0, "fields": []}, {"order-id": 1, "fields": fields}]);
    assert_eq!(next.document()["sort-orders"], expected);
    assert_eq!(next.document()["default-sort-order-id"], 1);
    assert_eq!(
        refused(&next, json!({"action": "set-default-sort-order", "sort-order-id": -1})),
        Class::Invalid
    );
    assert_eq!(
        refused(&next, json!({"action": "set-default-sort-order", "sort-order-id": 9})),
        Class::Invalid
    );
    let unknown = json!({"order-id": 1, "fields": [
        {"source-id": 99, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]});
    assert_eq!(
        refused(&next, json!({"action": "add-sort-order", "sort-order": unknown})),
        Class::Invalid
    );
}

#[test]
fn a_snapshot_is_added_as_the_client_wrote_it() {
    let mut updates = append(7, None, 1);
    updates[0]["snapshot"]["odd"] = json!({"kept": true});
    let next = applied(&table(), updates.clone()).unwrap();
    assert_eq!(next.snapshots(), [updates[0]["snapshot"].clone()]);
    assert_eq!(next.current_snapshot_id(), Some(7));
    assert_eq!(next.current_operation(), Some("append"));
    assert_eq!(next.last_sequence_number(), 1);
    assert_eq!(Value::Object(next.refs()), json!({"main": {"type": "branch", "snapshot-id": 7}}));
    let log = json!([{"snapshot-id": 7, "timestamp-ms": 1_507}]);
    assert_eq!(next.document()["snapshot-log"], log);
}

#[test]
fn a_snapshot_is_new_has_a_parent_and_a_number_that_is_beyond() {
    let table = applied(&table(), append(7, None, 3)).unwrap();
    let with = |key: &str, value: Value| {
        let mut snapshot = snapshot(8, Some(7), 4);
        snapshot[key] = value;
        refused(&table, json!({"action": "add-snapshot", "snapshot": snapshot}))
    };
    assert_eq!(with("snapshot-id", json!(7)), Class::Conflict);
    assert_eq!(with("parent-snapshot-id", json!(6)), Class::Conflict);
    assert_eq!(with("parent-snapshot-id", json!(8)), Class::Conflict);
    assert_eq!(with("sequence-number", json!(3)), Class::Conflict);
    assert_eq!(with("sequence-number", json!(null)), Class::Invalid);
    assert_eq!(with("manifest-list", json!(null)), Class::Invalid);
    assert_eq!(with("timestamp-ms", json!(null)), Class::Invalid);
    assert_eq!(with("summary", json!({})), Class::Invalid);
    assert_eq!(with("summary", json!({"operation": "mystery"})), Class::Invalid);
    assert_eq!(with("key-id", json!("k")), Class::Unsupported);
    for operation in ["append", "overwrite", "delete", "replace"] {
        let mut updates = append(8, Some(7), 4);
        updates[0]["snapshot"]["summary"]["operation"] = json!(operation);
        let next = applied(&table, updates).unwrap();
        assert_eq!(next.current_operation(), Some(operation));
    }
    // The crate asks for a number that is beyond only where there is a parent.
    let orphan = json!({"action": "add-snapshot", "snapshot": snapshot(8, None, 3)});
    assert_eq!(refused(&table, orphan), Class::Conflict);
}

/// Goal: the crate refuses what is a minute older than what it saw last, and overflows on what is much older.
#[test]
fn the_time_of_a_snapshot_is_the_clients_own_affair() {
    let mut table = applied(&table(), append(7, None, 3)).unwrap();
    for (id, time) in [(8, 0), (9, i64::MIN), (10, i64::MAX), (11, 5)] {
        let mut updates = append(id, Some(id - 1), id);
        updates[0]["snapshot"]["timestamp-ms"] = json!(time);
        table = applied(&table, updates).unwrap();
        let log = table.document()["snapshot-log"].clone();
        let last = log.as_array().unwrap().last().unwrap();
        assert_eq!(*last, json!({"snapshot-id": id, "timestamp-ms": time}));
    }
}

#[test]
fn branches_and_tags_come_and_go() {
    let table = applied(&table(), append(7, None, 1)).unwrap();
    let set = json!([{"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch",
        "snapshot-id": 7, "min-snapshots-to-keep": 5, "max-snapshot-age-ms": 10, "max-ref-age-ms": 20}]);
    let table = applied(&table, set).unwrap();
    let expected = json!({"type": "branch", "snapshot-id": 7, "min-snapshots-to-keep": 5,
        "max-snapshot-age-ms": 10, "max-ref-age-ms": 20});
    assert_eq!(table.refs()["audit"], expected);
    let gone = applied(
        &table,
        json!([
            {"action": "remove-snapshot-ref", "ref-name": "audit"},
            {"action": "remove-snapshot-ref", "ref-name": "never"},
        ]),
    );
    assert_eq!(gone.unwrap().refs().len(), 1);
    let main = json!([{"action": "remove-snapshot-ref", "ref-name": "main"}]);
    let headless = applied(&table, main).unwrap();
    assert_eq!(headless.current_snapshot_id(), None);
    assert_eq!(headless.document().get("current-snapshot-id"), None);
    let set = |name: &str, kind: &str, id: i64| {
        refused(
            &table,
            json!({"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": id}),
        )
    };
    assert_eq!(set("x", "branch", 99), Class::Invalid);
    assert_eq!(set("main", "tag", 7), Class::Invalid);
    assert_eq!(set("x", "mystery", 7), Class::Invalid);
}

#[test]
fn removed_snapshots_take_their_references_and_the_history_before_them() {
    let mut table = table();
    for id in 1..=4 {
        table = applied(&table, append(id, (id > 1).then(|| id - 1), id)).unwrap();
    }
    let tag =
        json!([{"action": "set-snapshot-ref", "ref-name": "old", "type": "tag", "snapshot-id": 2}]);
    let table = applied(&table, tag).unwrap();
    let next = applied(&table, json!([{"action": "remove-snapshots", "snapshot-ids": [2, 99]}]));
    let next = next.unwrap();
    assert_eq!(next.snapshot_ids(), [1, 3, 4]);
    assert_eq!(next.refs().len(), 1);
    let log = next.document()["snapshot-log"].clone();
    let log: Vec<_> = log.as_array().unwrap().iter().map(|entry| &entry["snapshot-id"]).collect();
    assert_eq!(log, [3, 4]);
    let current = json!({"action": "remove-snapshots", "snapshot-ids": [4]});
    assert_eq!(refused(&table, current), Class::Invalid, "main would refer to nothing");
    // Its number is not free again.
    let again = json!({"action": "add-snapshot", "snapshot": snapshot(2, Some(1), 2)});
    assert_eq!(refused(&next, again), Class::Conflict);
    let removed_and_added = json!([
        {"action": "remove-snapshots", "snapshot-ids": [1]},
        {"action": "add-snapshot", "snapshot": snapshot(1, Some(4), 9)},
    ]);
    assert_eq!(applied(&table, removed_and_added).unwrap().snapshot_ids(), [1, 2, 3, 4]);
}

#[test]
fn statistics_are_set_replaced_and_removed() {
    let table = applied(&table(), append(7, None, 1)).unwrap();
    let file = |size: i64| {
        json!({"snapshot-id": 7, "statistics-path": "s3://lake/tables/t/metadata/s.puffin",
        "file-size-in-bytes": size, "file-footer-size-in-bytes": 5, "blob-metadata": []})
    };
    let set = |size: i64| json!([{"action": "set-statistics", "snapshot-id": 7, "statistics": file(size)}]);
    let one = applied(&table, set(10)).unwrap();
    assert_eq!(one.document()["statistics"], json!([file(10)]));
    let two = applied(&one, set(20)).unwrap();
    assert_eq!(two.document()["statistics"], json!([file(20)]));
    let none = applied(&two, json!([{"action": "remove-statistics", "snapshot-id": 7}])).unwrap();
    assert_eq!(none.document()["statistics"], json!([]));
    let other = json!({"action": "set-statistics", "snapshot-id": 8, "statistics": file(1)});
    assert_eq!(refused(&table, other), Class::Invalid);

    let file = json!({"snapshot-id": 7, "statistics-path": "s3://lake/tables/t/metadata/p.parquet", "file-size-in-bytes": 3});
    let set = json!([{"action": "set-partition-statistics", "partition-statistics": file}]);
    let one = applied(&table, set).unwrap();
    assert_eq!(one.document()["partition-statistics"], json!([file]));
    let none = applied(&one, json!([{"action": "remove-partition-statistics", "snapshot-id": 7}]));
    assert_eq!(none.unwrap().document()["partition-statistics"], json!([]));
    assert_eq!(refused(&table, json!({"action": "set-partition-statistics"})), Class::Invalid);
    assert_eq!(refused(&table, json!({"action": "remove-statistics"})), Class::Invalid);
    assert_eq!(refused(&table, json!({"action": "remove-partition-statistics"})), Class::Invalid);
}

#[test]
fn what_is_not_served_says_so_and_what_is_unknown_is_refused() {
    let table = table();
    assert_eq!(
        refused(&table, json!({"action": "add-encryption-key", "encryption-key": {}})),
        Class::Unsupported
    );
    assert_eq!(
        refused(&table, json!({"action": "remove-encryption-key", "key-id": "k"})),
        Class::Unsupported
    );
    let upgrade = |version: Value| {
        refused(&table, json!({"action": "upgrade-format-version", "format-version": version}))
    };
    assert_eq!(upgrade(json!(3)), Class::Unsupported);
    assert_eq!(upgrade(json!(1)), Class::Invalid);
    assert_eq!(upgrade(json!("2")), Class::Invalid);
    assert_eq!(refused(&table, json!({"action": "bogus"})), Class::Invalid);
    assert_eq!(refused(&table, json!({})), Class::Invalid);
    let many = vec![json!({"action": "set-properties", "updates": {}}); 1_025];
    assert!(apply(&table, &many[..1_024], &moment(1)).is_ok());
    assert_eq!(class(apply(&table, &many, &moment(1))), Class::Invalid);
}

/// Goal: a document comes from a bucket, and other writers have been there.
#[test]
fn what_the_crate_does_not_know_stays() {
    let mut document = applied(&table(), append(7, None, 1)).unwrap().document();
    document["odd"] = json!({"a": [1]});
    document["schemas"][0]["fields"][0]["odd"] = json!(1);
    document["snapshots"][0]["odd"] = json!(null);
    document["refs"]["main"]["odd"] = json!(2);
    document["partition-specs"][0]["odd"] = json!(3);
    let table = Metadata::from_document(document.clone()).unwrap();
    let next = applied(&table, json!([])).unwrap().document();
    for key in ["odd", "schemas", "snapshots", "refs", "partition-specs", "snapshot-log"] {
        assert_eq!(next[key], document[key], "{key}");
    }
}

#[test]
fn a_document_that_is_not_whole_is_refused() {
    let whole = applied(&table(), append(7, None, 1)).unwrap().document();
    for key in [
        "format-version",
        "table-uuid",
        "location",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "last-sequence-number",
    ] {
        let mut document = whole.clone();
        document.as_object_mut().unwrap().remove(key);
        assert_eq!(class(Metadata::from_document(document)), Class::Invalid, "{key}");
    }
    for (pointer, value) in [
        ("/current-schema-id", json!(5)),
        ("/current-snapshot-id", json!(5)),
        ("/refs/main/snapshot-id", json!(5)),
        ("/default-spec-id", json!(5)),
        ("/default-sort-order-id", json!(5)),
        ("/last-sequence-number", json!(0)),
        ("/metadata-log", json!([{}])),
        ("/metadata-log", json!(1)),
        ("/snapshot-log/0", json!({})),
        ("/schemas/0/schema-id", json!(i32::MAX)),
        ("/format-version", json!("2")),
    ] {
        let mut document = whole.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        assert_eq!(class(Metadata::from_document(document)), Class::Invalid, "{pointer}");
    }
    for list in ["schemas", "partition-specs", "sort-orders", "snapshots"] {
        let mut document = whole.clone();
        let entry = document[list][0].clone();
        document[list].as_array_mut().unwrap().push(entry);
        assert_eq!(class(Metadata::from_document(document)), Class::Invalid, "{list}");
    }
    let mut three = whole;
    three["format-version"] = json!(3);
    assert_eq!(class(Metadata::from_document(three)), Class::Unsupported);
    assert_eq!(class(Metadata::parse(b"[]")), Class::Invalid);
    assert_eq!(class(Metadata::parse(b"{")), Class::Invalid);
}

#[test]
fn a_load_shows_all_snapshots_or_those_that_are_referred_to() {
    let mut table = table();
    for id in 1..=3 {
        table = applied(&table, append(id, (id > 1).then(|| id - 1), id)).unwrap();
    }
    assert_eq!(table.for_load(Snapshots::All), table.document());
    let shown = table.for_load(Snapshots::Refs);
    assert_eq!(shown["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(shown["snapshots"][0]["snapshot-id"], 3);
    assert_eq!(shown["snapshot-log"].as_array().unwrap().len(), 3);
}

//! Tables of format version 1, whose references the crate forgets.

use super::*;

fn one() -> Metadata {
    let body = json!({"name": "t", "schema": schema(), "properties": {"format-version": "1"}});
    create(body).unwrap()
}

#[test]
fn its_branches_and_tags_are_kept() {
    let table = applied(&one(), append(7, None, 0)).unwrap();
    let table = applied(&table, append(8, Some(7), 0)).unwrap();
    let tag =
        json!([{"action": "set-snapshot-ref", "ref-name": "t1", "type": "tag", "snapshot-id": 7}]);
    let table = applied(&table, tag).unwrap();
    assert_eq!(table.refs().len(), 2);
    let again = Metadata::parse(&table.to_bytes()).unwrap();
    let next = applied(&again, json!([])).unwrap();
    assert_eq!(next.refs(), table.refs());
    let requirement = json!({"type": "assert-ref-snapshot-id", "ref": "t1", "snapshot-id": 7});
    assert_eq!(check(&[requirement], &next), Ok(()));
    assert_eq!(next.current_snapshot_id(), Some(8));
    assert_eq!(next.format_version(), 1);
    let gone =
        applied(&next, json!([{"action": "remove-snapshot-ref", "ref-name": "t1"}])).unwrap();
    assert_eq!(gone.refs().len(), 1);
}

#[test]
fn its_snapshots_have_no_sequence_number_but_the_zero_that_clients_send() {
    let mut updates = append(7, None, 0);
    let table = applied(&one(), updates.clone()).unwrap();
    assert_eq!(table.snapshots()[0], updates[0]["snapshot"]);
    updates[0]["snapshot"].as_object_mut().unwrap().remove("sequence-number");
    let table = applied(&one(), updates.clone()).unwrap();
    assert_eq!(table.snapshots()[0], updates[0]["snapshot"]);
    let table = applied(&one(), append(7, None, 5)).unwrap();
    assert_eq!(table.snapshots()[0].get("sequence-number"), None);
    assert_eq!(table.last_sequence_number(), 0);
}

#[test]
fn its_current_schema_and_spec_stand_by_themselves() {
    let mut wider = schema();
    wider["fields"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 3, "name": "more", "required": false, "type": "string"}));
    let updates = json!([
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 3, "name": "m", "transform": "identity"}]}},
        {"action": "set-default-spec", "spec-id": -1},
    ]);
    let next = applied(&one(), updates).unwrap().document();
    assert_eq!(next["schema"], next["schemas"][1]);
    assert_eq!(next["partition-spec"], next["partition-specs"][1]["fields"]);
}

#[test]
fn it_is_upgraded_to_version_two_and_stays_what_it_was() {
    let mut updates = append(7, None, 0);
    updates[0]["snapshot"].as_object_mut().unwrap().remove("sequence-number");
    let table = applied(&one(), updates).unwrap();
    let upgrade = json!([{"action": "upgrade-format-version", "format-version": 2}]);
    let next = applied(&table, upgrade).unwrap();
    assert_eq!(next.format_version(), 2);
    let document = next.document();
    assert_eq!((document.get("schema"), document.get("partition-spec")), (None, None));
    assert_eq!(document["last-sequence-number"], 0);
    assert_eq!(document["snapshots"][0]["sequence-number"], 0);
    assert_eq!(next.refs(), table.refs());
    assert_eq!(forward_safe(&table, &next), Ok(()), "the zero that version 1 implies");
    let same = json!([{"action": "upgrade-format-version", "format-version": 1}]);
    assert_eq!(applied(&table, same).unwrap().format_version(), 1);
    let upgraded_and_appended = json!([
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-snapshot", "snapshot": snapshot(8, Some(7), 1)},
    ]);
    assert_eq!(applied(&table, upgraded_and_appended).unwrap().last_sequence_number(), 1);
}

/// Goal: writers of old know neither lists of schemas nor references nor summaries.
#[test]
fn an_old_document_is_read() {
    let document = json!({
        "format-version": 1, "table-uuid": UUID, "location": LOCATION, "last-updated-ms": 5,
        "last-column-id": 2, "schema": schema(), "partition-spec": [], "current-snapshot-id": 7,
        "snapshots": [{"snapshot-id": 7, "timestamp-ms": 4, "manifest-list": "s3://lake/tables/t/metadata/l.avro"}],
    });
    let table = Metadata::from_document(document.clone()).unwrap();
    assert_eq!(table.current_snapshot_id(), Some(7));
    let next = applied(&table, json!([])).unwrap().document();
    assert_eq!(next["refs"], json!({"main": {"type": "branch", "snapshot-id": 7}}));
    assert_eq!(next["snapshots"], document["snapshots"]);
    let mut half = document.clone();
    half["schemas"] = json!([schema()]);
    assert_eq!(class(Metadata::from_document(half)), Class::Invalid, "which one is current?");
    let mut broken = document;
    broken["refs"] = json!({"x": {"type": "tag", "snapshot-id": 99}});
    assert_eq!(class(Metadata::from_document(broken)), Class::Invalid);
}

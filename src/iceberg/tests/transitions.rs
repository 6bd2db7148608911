//! Where a table may go.

use super::*;

#[test]
fn a_table_stays_the_same_table_in_no_older_format() {
    let two = table();
    let one =
        create(json!({"name": "t", "schema": schema(), "properties": {"format-version": "1"}}));
    let one = one.unwrap();
    assert_eq!(transition(&one, &two), Ok(()));
    assert_eq!(class(transition(&two, &one)), Class::Invalid);
    let other = applied(&two, json!([{"action": "assign-uuid", "uuid": Uuid::nil()}])).unwrap();
    assert_eq!(class(transition(&two, &other)), Class::Invalid);
}

#[test]
fn going_back_over_properties_is_safe_and_over_an_append_is_not() {
    let first = table();
    let set = json!([{"action": "set-properties", "updates": {"a": "1"}}]);
    let second = applied(&first, set).unwrap();
    assert_eq!(forward_safe(&second, &first), Ok(()));
    let third = applied(&second, append(7, None, 1)).unwrap();
    assert_eq!(class(forward_safe(&third, &second)), Class::Invalid);
    assert_eq!(forward_safe(&second, &third), Ok(()));
}

#[test]
fn of_version_one_an_append_can_be_gone_back_over() {
    let one =
        create(json!({"name": "t", "schema": schema(), "properties": {"format-version": "1"}}));
    let one = one.unwrap();
    let later = applied(&one, append(7, None, 0)).unwrap();
    assert_eq!(forward_safe(&later, &one), Ok(()));
}

#[test]
fn nothing_may_mean_two_things() {
    let first = applied(&table(), append(7, None, 1)).unwrap();
    let mut document = first.document();
    document["snapshots"][0]["manifest-list"] = json!("s3://lake/tables/t/metadata/other.avro");
    let other = Metadata::from_document(document).unwrap();
    assert_eq!(class(forward_safe(&first, &other)), Class::Invalid);
    let mut document = first.document();
    document["schemas"][0]["fields"][1]["name"] = json!("other");
    let other = Metadata::from_document(document).unwrap();
    assert_eq!(class(forward_safe(&first, &other)), Class::Invalid);
}

#[test]
fn columns_and_partition_fields_are_not_given_back() {
    let first = table();
    let mut wider = schema();
    wider["fields"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 3, "name": "more", "required": false, "type": "string"}));
    let second = applied(
        &first,
        json!([
        {"action": "add-schema", "schema": wider, "last-column-id": 3}]),
    )
    .unwrap();
    assert_eq!(class(forward_safe(&second, &first)), Class::Invalid);
    let second = applied(
        &first,
        json!([{"action": "add-spec", "spec":
        {"fields": [{"source-id": 1, "name": "b", "transform": "bucket[4]"}]}}]),
    )
    .unwrap();
    assert_eq!(class(forward_safe(&second, &first)), Class::Invalid);
}

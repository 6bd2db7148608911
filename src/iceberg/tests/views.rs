//! Views.

use super::*;

fn version(sql: &str, time: i64) -> Value {
    json!({"version-id": 1, "timestamp-ms": time, "schema-id": 0, "summary": {"engine-name": "x"},
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark", "odd": 1}]})
}

fn view() -> View {
    let body = json!({"name": "v", "schema": schema(), "view-version": version("select 1", 900),
        "properties": {"k": "v"}});
    create_view(&CreateView::parse(body.to_string().as_bytes()).unwrap(), &fresh()).unwrap()
}

fn applied(view: &View, updates: Value) -> Result<View, Trouble> {
    apply_view(view, updates.as_array().unwrap(), 2_000)
}

#[test]
fn a_view_begins_with_one_version() {
    let expected = json!({
        "format-version": 1, "view-uuid": UUID, "location": LOCATION, "current-version-id": 1,
        "schemas": [schema()], "versions": [version("select 1", 900)],
        "version-log": [{"timestamp-ms": 900, "version-id": 1}], "properties": {"k": "v"},
    });
    assert_eq!(view().document(), expected);
}

#[test]
fn a_view_is_replaced() {
    let mut wider = schema();
    wider["fields"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": 3, "name": "more", "required": false, "type": "string"}));
    let mut second = version("select 2", 3);
    second["schema-id"] = json!(-1);
    let updates = json!([
        {"action": "add-schema", "schema": wider},
        {"action": "add-view-version", "view-version": second},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]);
    let next = applied(&view(), updates.clone()).unwrap();
    let document = next.document();
    second["schema-id"] = json!(1);
    second["version-id"] = json!(2);
    assert_eq!(document["versions"], json!([version("select 1", 900), second]));
    wider["schema-id"] = json!(1);
    assert_eq!(document["schemas"], json!([schema(), wider]));
    assert_eq!(document["current-version-id"], 2);
    let log = json!([{"timestamp-ms": 900, "version-id": 1}, {"timestamp-ms": 3, "version-id": 2}]);
    assert_eq!(document["version-log"], log);
    assert_eq!(applied(&view(), updates).unwrap().to_bytes(), next.to_bytes());

    // Back to the first, at a time that is handed in.
    let back = json!([{"action": "set-current-view-version", "view-version-id": 1}]);
    let back = applied(&next, back).unwrap().document();
    assert_eq!(back["version-log"][2], json!({"timestamp-ms": 2_000, "version-id": 1}));
    assert_eq!(back["versions"], document["versions"]);
}

#[test]
fn the_rest_of_a_view_changes_too() {
    let updates = json!([
        {"action": "assign-uuid", "uuid": Uuid::nil()},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "s3://lake/elsewhere/"},
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "remove-properties", "removals": ["k", "absent"]},
    ]);
    let next = applied(&view(), updates).unwrap();
    assert_eq!((next.uuid(), next.location()), (Uuid::nil(), "s3://lake/elsewhere"));
    assert_eq!(Value::Object(next.properties()), json!({"a": "1"}));
    assert_eq!(class(view_transition(&view(), &next)), Class::Invalid);
    let same = applied(&view(), json!([])).unwrap();
    assert_eq!(same, view());
    assert_eq!(view_transition(&view(), &same), Ok(()));
}

#[test]
fn what_a_view_cannot_be_is_refused() {
    let refused = |update: Value| class(applied(&view(), json!([update])));
    assert_eq!(
        refused(json!({"action": "upgrade-format-version", "format-version": 2})),
        Class::Unsupported
    );
    assert_eq!(refused(json!({"action": "upgrade-format-version"})), Class::Invalid);
    assert_eq!(refused(json!({"action": "bogus"})), Class::Invalid);
    assert_eq!(refused(json!({})), Class::Invalid);
    assert_eq!(
        refused(json!({"action": "set-current-view-version", "view-version-id": 9})),
        Class::Invalid
    );
    assert_eq!(
        refused(json!({"action": "set-current-view-version", "view-version-id": -1})),
        Class::Invalid
    );
    assert_eq!(refused(json!({"action": "add-view-version"})), Class::Invalid);
    assert_eq!(refused(json!({"action": "add-schema", "schema": 1})), Class::Invalid);
    assert_eq!(refused(json!({"action": "set-location"})), Class::Invalid);
    assert_eq!(refused(json!({"action": "set-properties"})), Class::Invalid);
    assert_eq!(refused(json!({"action": "remove-properties"})), Class::Invalid);
    assert_eq!(refused(json!({"action": "assign-uuid"})), Class::Invalid);
    let mut unknown_schema = version("select 2", 5);
    unknown_schema["schema-id"] = json!(9);
    assert_eq!(
        refused(json!({"action": "add-view-version", "view-version": unknown_schema})),
        Class::Invalid
    );
    let mut twice = version("select 2", 5);
    twice["representations"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "sql", "sql": "x", "dialect": "SPARK"}));
    assert_eq!(
        refused(json!({"action": "add-view-version", "view-version": twice})),
        Class::Invalid
    );
}

#[test]
fn a_view_is_asked_for_its_uuid_only() {
    let of = |uuid: Uuid| json!({"type": "assert-view-uuid", "uuid": uuid});
    assert_eq!(check_view(&[of(UUID)], &view()), Ok(()));
    assert_eq!(class(check_view(&[of(Uuid::nil())], &view())), Class::Conflict);
    assert_eq!(class(check_view(&[json!({"type": "assert-view-uuid"})], &view())), Class::Invalid);
    assert_eq!(
        class(check_view(&[json!({"type": "assert-table-uuid", "uuid": UUID})], &view())),
        Class::Invalid
    );
}

#[test]
fn a_view_that_is_not_whole_is_refused() {
    let whole = view().document();
    for key in [
        "format-version",
        "view-uuid",
        "location",
        "current-version-id",
        "schemas",
        "versions",
        "version-log",
    ] {
        let mut document = whole.clone();
        document.as_object_mut().unwrap().remove(key);
        assert_eq!(class(View::from_document(document)), Class::Invalid, "{key}");
    }
    let mut twice = whole.clone();
    let entry = twice["versions"][0].clone();
    twice["versions"].as_array_mut().unwrap().push(entry);
    assert_eq!(class(View::from_document(twice)), Class::Invalid);
    let mut two = whole;
    two["format-version"] = json!(2);
    assert_eq!(class(View::from_document(two)), Class::Unsupported);
    assert_eq!(View::parse(&view().to_bytes()).unwrap(), view());
}

//! Object-backed state over its routes.

use serde_json::json;

use super::*;

#[tokio::test]
async fn a_table_lives_from_creation_to_drop() {
    let made = Deployment::new().await;
    assert_eq!(kind(&made.create("events").await), (409, "AlreadyExistsException"));
    let (status, pointer) = made.pointer().await;
    assert_eq!((status, &pointer["generation"]), (200, &json!(1)));

    let (status, first) =
        made.set("a", json!({ "commit-id": "one", "idempotency-key": "k" })).await;
    assert_eq!((status, &first["generation"]), (200, &json!(2)), "{first}");
    assert_eq!(first["metadata"]["properties"]["a"], "1");
    assert_eq!(first["commit-id"], "one");
    // The same again is the same; something else under the same name is not.
    let again = made.set("a", json!({ "commit-id": "one", "idempotency-key": "k" })).await;
    assert_eq!((again.0, &again.1["version-token"]), (200, &first["version-token"]));
    let other = made.set("b", json!({ "commit-id": "one", "idempotency-key": "k" })).await;
    assert_eq!(kind(&other), (409, "CommitFailedException"));

    let stale = json!({
        "requirements": [{ "type": "assert-table-uuid", "uuid": uuid::Uuid::nil().to_string() }],
        "updates": [],
    });
    let stale = made.ask("POST", EVENTS, Some(stale)).await;
    assert_eq!(kind(&stale), (409, "CommitFailedException"));
    let (_, loaded) = made.ask("GET", EVENTS, None).await;
    assert_eq!(loaded["metadata-location"], first["metadata-location"]);
    assert_eq!(loaded["metadata"]["metadata-log"].as_array().unwrap().len(), 1);

    let (_, listed) = made.ask("GET", "lake1/namespaces/sales/tables", None).await;
    assert_eq!(listed["identifiers"], json!([{ "namespace": ["sales"], "name": "events" }]));
    assert_eq!(made.ask("HEAD", EVENTS, None).await.0, 204);
    let purge = made.ask("DELETE", &format!("{EVENTS}?purgeRequested=True"), None).await;
    assert_eq!(kind(&purge), (406, "UnsupportedOperationException"));
    let full = made.ask("DELETE", "lake1/namespaces/sales", None).await;
    assert_eq!(kind(&full), (409, "NamespaceNotEmptyException"));
    assert_eq!(made.ask("DELETE", &format!("{EVENTS}?purgeRequested=False"), None).await.0, 204);
    assert_eq!(made.ask("HEAD", EVENTS, None).await.0, 404);
    assert_eq!(made.ask("DELETE", "lake1/namespaces/sales", None).await.0, 204);
    let (_, listed) = made.ask("GET", "lake1/namespaces", None).await;
    assert_eq!(listed["namespaces"], json!([]));
}

#[tokio::test]
async fn a_moved_table_gives_its_prefix_back() {
    let made = Deployment::new().await;
    let moved = |to: &str| {
        let update = json!({ "action": "set-location", "location": format!("s3://lake1/{to}") });
        json!({ "requirements": [], "updates": [update] })
    };
    let (status, body) = made.ask("POST", EVENTS, Some(moved("moved"))).await;
    assert_eq!(
        (status, &body["metadata"]["location"]),
        (200, &json!("s3://lake1/moved")),
        "{body}"
    );
    assert_eq!(made.create("other").await.0, 200);
    let other = "lake1/namespaces/sales/tables/other";
    let (status, refused) = made.ask("POST", other, Some(moved("moved/inside"))).await;
    assert_eq!((status, refused["error"]["type"].as_str()), (409, Some("CommitFailedException")));
    assert_eq!(made.ask("POST", EVENTS, Some(moved("elsewhere"))).await.0, 200);
    assert_eq!(made.ask("POST", other, Some(moved("moved/inside"))).await.0, 200);
    let inside = made.ask("POST", other, Some(moved(".rustfs-table/x"))).await;
    assert_eq!(kind(&inside), (400, "BadRequestException"));
}

#[tokio::test]
async fn views_have_their_own_life_and_share_names_with_tables() {
    let made = Deployment::new().await;
    let field = json!({ "id": 1, "name": "id", "required": false, "type": "long" });
    let view = |name: &str| {
        json!({
            "name": name,
            "schema": { "type": "struct", "schema-id": 0, "fields": [field] },
            "view-version": {
                "version-id": 1, "timestamp-ms": 1_795_960_359_804_i64, "schema-id": 0,
                "summary": {}, "default-namespace": ["sales"],
                "representations": [{ "type": "sql", "sql": "select 1", "dialect": "spark" }],
            },
            "properties": { "k": "v" },
        })
    };
    let views = "lake1/namespaces/sales/views";
    let taken = made.ask("POST", views, Some(view("events"))).await;
    assert_eq!(kind(&taken), (409, "AlreadyExistsException"));
    let (status, made_view) = made.ask("POST", views, Some(view("v"))).await;
    assert_eq!(status, 200, "{made_view}");
    assert_eq!(kind(&made.create("v").await), (409, "AlreadyExistsException"));
    let uuid = &made_view["metadata"]["view-uuid"];
    let replace = |uuid: &Value| {
        json!({
            "requirements": [{ "type": "assert-view-uuid", "uuid": uuid }],
            "updates": [{ "action": "set-properties", "updates": { "k": "v2" } }],
        })
    };
    let path = format!("{views}/v");
    let (status, replaced) = made.ask("POST", &path, Some(replace(uuid))).await;
    assert_eq!((status, &replaced["metadata"]["properties"]["k"]), (200, &json!("v2")));
    let nil = json!(uuid::Uuid::nil().to_string());
    assert_eq!(made.ask("POST", &path, Some(replace(&nil))).await.0, 409);
    let (_, listed) = made.ask("GET", views, None).await;
    assert_eq!(listed["identifiers"], json!([{ "namespace": ["sales"], "name": "v" }]));
    assert_eq!(made.ask("DELETE", &path, None).await.0, 204);
    assert_eq!(kind(&made.ask("GET", &path, None).await), (404, "NoSuchViewException"));
}

#[tokio::test]
async fn f1_to_f5_who_asks_what_is_asked_and_where() {
    let made = Deployment::new().await;
    let nobody = ask_as(&made.catalog, "nobody", "GET", "config", None).await;
    assert_eq!(kind(&nobody), (403, "NotAuthorizedException"));
    let as_reader = |method, path| ask_as(&made.catalog, READER, method, path, None);
    assert_eq!(as_reader("GET", "config?warehouse=lake1").await.0, 200);
    assert_eq!(as_reader("GET", MIGRATION).await.0, 200);
    for (method, path) in [("POST", MIGRATION), ("DELETE", MIGRATION), ("GET", EVENTS)] {
        assert_eq!(kind(&as_reader(method, path).await), (403, "ForbiddenException"), "{path}");
    }
    // `bkt` is a bucket, and no table bucket.
    let plain = made.ask("GET", "bkt/namespaces", None).await;
    assert_eq!(kind(&plain), (400, "BadRequestException"));
    let extra = json!({ "namespace": ["a"], "more": 1 });
    let extra = made.ask("POST", "lake1/namespaces", Some(extra)).await;
    assert_eq!(kind(&extra), (400, "BadRequestException"));
    for (path, status) in [
        ("config?warehouse=", 400),
        ("config?warehouse=a&warehouse=b", 400),
        ("lake1/nothing", 501),
        ("lake1/namespaces/sales/tables/events/refs/main", 406),
        ("lake1/namespaces/Sales", 400),
    ] {
        assert_eq!(made.ask("GET", path, None).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn f47_f48_what_this_backing_does_not_do() {
    let made = Deployment::new().await;
    let rename = json!({
        "source": { "namespace": ["sales"], "name": "events" },
        "destination": { "namespace": ["sales"], "name": "e2" },
    });
    let renamed = made.ask("POST", "lake1/tables/rename", Some(rename)).await;
    assert_eq!(kind(&renamed), (406, "UnsupportedOperationException"));
    let change = json!({ "removals": [], "updates": { "a": "b" } });
    let changed = made.ask("POST", "lake1/namespaces/sales/properties", Some(change)).await;
    assert_eq!(kind(&changed), (406, "UnsupportedOperationException"));
    let both = json!({ "removals": ["a"], "updates": { "a": "b" } });
    let both = made.ask("POST", "lake1/namespaces/sales/properties", Some(both)).await;
    assert_eq!(kind(&both), (422, "UnprocessableEntityException"));
}

#[tokio::test]
async fn f9_to_f12_what_a_commit_is_based_on_and_what_it_refers_to() {
    let made = Deployment::new().await;
    let before = made.pointer().await.1;
    let (_, loaded) = made.ask("GET", EVENTS, None).await;
    let location = loaded["metadata"]["location"].as_str().unwrap().to_owned();
    let current = loaded["metadata-location"].as_str().unwrap().to_owned();
    let folder = current.rsplit_once('/').unwrap().0;
    let moved = |to: &str, token: &str| {
        json!({
            "new-metadata-location": to,
            "expected-metadata-location": current,
            "expected-version-token": token,
        })
    };
    let token = before["version-token"].as_str().unwrap();
    let stale = made.ask("POST", EVENTS, Some(moved(&current, "token-of-nobody"))).await;
    assert_eq!(kind(&stale), (409, "CommitFailedException"), "F9");
    let unmet = json!({
        "requirements": [{ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5 }],
        "updates": [],
    });
    let unmet = made.ask("POST", EVENTS, Some(unmet)).await;
    assert_eq!(kind(&unmet), (409, "CommitFailedException"), "F10");
    let absent = format!("{folder}/00009-absent.metadata.json");
    let absent = made.ask("POST", EVENTS, Some(moved(&absent, token))).await;
    assert_eq!(kind(&absent), (400, "BadRequestException"), "F11");
    let outside = made.ask("POST", EVENTS, Some(moved("s3://lake1/elsewhere.json", token))).await;
    assert_eq!(kind(&outside), (400, "BadRequestException"), "F11");
    let snapshot = json!({
        "snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1_795_960_359_804_i64,
        "manifest-list": format!("{location}/metadata/snap-1.avro"),
        "summary": { "operation": "append" }, "schema-id": 0,
    });
    let append = json!({
        "requirements": [],
        "updates": [{ "action": "add-snapshot", "snapshot": snapshot }],
    });
    let append = made.ask("POST", EVENTS, Some(append)).await;
    assert_eq!(kind(&append), (400, "BadRequestException"), "F12");
    assert_eq!(made.pointer().await.1, before, "nothing moved the pointer");
    // What is current already is no change (M24).
    let (status, same) = made.ask("POST", EVENTS, Some(moved(&current, token))).await;
    assert_eq!((status, &same["version-token"]), (200, &before["version-token"]));
    // A commit whose metadata file could not be published has left none behind (M18).
    let folder = folder.strip_prefix("s3://lake1/").unwrap();
    let request = crate::node::store::api::ListRequest {
        bucket: "lake1".to_owned(),
        prefix: folder.to_owned(),
        limit: 10,
        ..Default::default()
    };
    assert_eq!(made.bench.store.list(request).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn a_key_alone_finds_the_commit_that_was_made_with_it() {
    let made = Deployment::new().await;
    let both = json!({ "commit-id": "one", "idempotency-key": "k" });
    let (_, first) = made.set("a", both).await;
    let (status, again) = made.set("a", json!({ "idempotency-key": "k" })).await;
    assert_eq!((status, &again["commit-id"]), (200, &json!("one")), "{again}");
    assert_eq!(again["version-token"], first["version-token"]);
    let (_, pointer) = made.pointer().await;
    assert_eq!(pointer["generation"], 2, "it was not done twice");
    let other = json!({ "commit-id": "two", "idempotency-key": "k" });
    assert_eq!(kind(&made.set("a", other).await), (409, "CommitFailedException"));
    let long = "x".repeat(2_000);
    assert_eq!(kind(&made.set("a", json!({ "writer": long })).await), (400, "BadRequestException"));
}

#[tokio::test]
async fn f44_f45_keys_of_tables_are_closed_to_who_has_no_table_policy() {
    use crate::node::catalog::bridge::Access;
    use crate::node::catalog::bridge::Pass;
    let made = Deployment::new().await;
    let (_, loaded) = made.ask("GET", EVENTS, None).await;
    let location = loaded["metadata"]["location"].as_str().unwrap();
    let inside = format!("{}/data/1.parquet", location.strip_prefix("s3://lake1/").unwrap());
    let pass = |who: Option<&'static str>, key: String, access: Access| {
        let catalog = &made.catalog;
        async move {
            let mut pass = Pass::default();
            let passed = catalog.pass(&mut pass, who, "lake1", &key, access).await;
            passed.map_err(|error| error.code().as_str().to_owned())
        }
    };
    for access in [Access::Read, Access::Write] {
        assert_eq!(pass(Some("root"), inside.clone(), access).await, Ok(()));
        assert_eq!(pass(Some(READER), "outside".to_owned(), access).await, Ok(()));
        for who in [Some(READER), None] {
            let denied = pass(who, inside.clone(), access).await;
            assert_eq!(denied, Err("AccessDenied".to_owned()), "{who:?}");
        }
    }
    let reserved = ".rustfs-table/x".to_owned();
    let written = pass(Some("root"), reserved.clone(), Access::Write).await;
    assert_eq!(written, Err("InvalidRequest".to_owned()), "F45");
    assert_eq!(pass(Some("root"), reserved, Access::Read).await, Ok(()));
    // F43: a table bucket without its entry is closed to everybody.
    let key = crate::protocol::catalog::keys::bucket_entry("lake1");
    made.bench.store.remove_system(&key, Default::default(), &[]).await.unwrap();
    let denied = pass(Some("root"), inside, Access::Read).await;
    assert_eq!(denied, Err("AccessDenied".to_owned()), "F43");
}

#[tokio::test]
async fn a_table_bucket_goes_only_when_nothing_is_left_of_it() {
    let made = Deployment::new().await;
    let full = made.catalog.remove_bucket("lake1").await.unwrap_err();
    assert_eq!(full.class, crate::protocol::catalog::refusal::Class::Conflict, "{full}");
    made.bench.store.create_bucket("lake9").await.unwrap();
    assert_eq!(made.ask("PUT", "buckets/lake9", None).await.0, 200);
    made.catalog.remove_bucket("lake9").await.unwrap().unwrap();
    let root = crate::protocol::catalog::keys::bucket_root("lake9");
    assert_eq!(made.bench.store.list_system(&root).await.unwrap(), []);
}

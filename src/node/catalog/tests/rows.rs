//! Rows of the tables that a client sees at the routes: conditions that fail closed (F), crash points (K), and where
//! this catalog does otherwise than the reference (M).

use serde_json::json;

use super::*;
use crate::protocol::catalog::keys;

const V1: Gates = Gates { requested: false, fleet_confirmed: false };
const PROPERTIES: &str = "lake1/namespaces/sales/properties";

/// Migrates the bucket, starts the other backing, and admits writers.
async fn cut_over(made: &mut Deployment) {
    made.catalog.backfill("lake1").await.unwrap();
    let (status, executed) = made.ask("POST", MIGRATION, None).await;
    assert_eq!(status, 200, "{executed}");
    made.restart(Backing::DurableStrong, V1);
    made.catalog.admit().await.unwrap();
}

/// Every object that the catalog has, by its key.
async fn objects(made: &Deployment) -> Vec<(String, Vec<u8>)> {
    let store = &made.bench.store;
    let mut all = Vec::new();
    for (key, _) in store.list_system("s3tables/catalog/").await.unwrap() {
        let found = store.read_system(&key).await.unwrap().unwrap();
        all.push((key, found.contents.to_vec()));
    }
    all
}

/// Adds a column; a table cannot go back behind it.
async fn add_column(made: &Deployment) {
    let field =
        |id: u32, name: &str| json!({ "id": id, "name": name, "required": false, "type": "long" });
    let schema =
        json!({ "type": "struct", "schema-id": 1, "fields": [field(1, "id"), field(2, "more")] });
    let body = json!({ "requirements": [], "updates": [
        { "action": "add-schema", "schema": schema },
        { "action": "set-current-schema", "schema-id": -1 },
    ] });
    let (status, answer) = made.ask("POST", EVENTS, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn f46_what_only_an_object_backed_catalog_does_is_refused_after_a_cutover() {
    let mut made = Deployment::new().await;
    cut_over(&mut made).await;
    let before = objects(&made).await;
    let external = format!("{EVENTS}/catalog/external");
    let sync = format!("{EVENTS}/catalog/external/sync");
    let config = format!("{EVENTS}/maintenance/config");
    let worker = format!("{EVENTS}/maintenance/worker/run");
    for (method, path) in [
        ("GET", MIGRATION),
        ("POST", MIGRATION),
        ("DELETE", MIGRATION),
        ("GET", &external),
        ("POST", &sync),
        ("PUT", &config),
        ("POST", &worker),
    ] {
        let (status, kind) = {
            let answer = made.ask(method, path, None).await;
            (answer.0, kind(&answer).1.to_owned())
        };
        assert!(matches!(status, 400 | 406), "{method} {path}: {status} {kind}");
        assert!(!kind.is_empty(), "{method} {path} is refused without an error document");
    }
    assert_eq!(objects(&made).await, before, "a refused request wrote something");
}

#[tokio::test]
async fn f52_a_rollback_that_gives_columns_back_is_refused() {
    let made = Deployment::new().await;
    let (_, first) = made.pointer().await;
    add_column(&made).await;
    let (_, before) = made.pointer().await;
    let body = json!({
        "metadata-location": first["metadata-location"],
        "version-token": before["version-token"],
    });
    let back = made.ask("POST", &format!("{EVENTS}/catalog/rollback"), Some(body)).await;
    assert_eq!(kind(&back), (400, "BadRequestException"));
    assert_eq!(made.pointer().await.1, before, "a refused rollback moved the pointer");
}

/// Cleaning up is not served, so that no crash can leave it half done: nothing that a table has ever had is taken.
#[tokio::test]
async fn k_g1_no_cleanup_is_ever_under_way() {
    let made = Deployment::new().await;
    made.set("a", json!({})).await;
    let before = objects(&made).await;
    for (method, path) in [
        ("GET", format!("{EVENTS}/maintenance/config")),
        ("PUT", format!("{EVENTS}/maintenance/config")),
        ("POST", format!("{EVENTS}/maintenance/scheduler/run")),
        ("POST", format!("{EVENTS}/maintenance/worker/run")),
        ("POST", format!("{EVENTS}/maintenance/cleanup")),
        ("POST", "lake1/maintenance/run".to_owned()),
    ] {
        let answer = made.ask(method, &path, None).await;
        assert_eq!(kind(&answer), (406, "UnsupportedOperationException"), "{method} {path}");
    }
    let purge = made.ask("DELETE", &format!("{EVENTS}?purgeRequested=true"), None).await;
    assert_eq!(purge.0, 406, "a purge is a cleanup, too");
    assert_eq!(objects(&made).await, before);
    assert_eq!(made.ask("GET", EVENTS, None).await.0, 200);
}

/// On the store's real locks: whatever looks at an entry whose lock it holds answers at once.
#[tokio::test]
async fn m1_nothing_waits_for_a_lock_that_it_holds() {
    let made = Deployment::new().await;
    let began = std::time::Instant::now();
    assert_eq!(kind(&made.create("events").await), (409, "AlreadyExistsException"));
    let (_, pointer) = made.pointer().await;
    let register = json!({ "name": "events", "metadata-location": pointer["metadata-location"] });
    let again = made.ask("POST", "lake1/namespaces/sales/register", Some(register)).await;
    assert_eq!(kind(&again), (409, "AlreadyExistsException"));
    made.catalog.backfill("lake1").await.unwrap();
    assert_eq!(made.set("a", json!({})).await.0, 200);
    let waited = made.bench.store.lock_wait();
    assert!(began.elapsed() < waited, "something waited for a lock: {:?}", began.elapsed());
}

#[tokio::test]
async fn m2_a_backfill_makes_the_entries_that_are_missing() {
    let made = Deployment::new().await;
    let index = keys::warehouse_index("lake1");
    for (key, _) in made.bench.store.list_system(&index).await.unwrap() {
        made.bench.store.remove_system(&key, Default::default(), &[]).await.unwrap();
    }
    let (_, report) = made.ask("GET", MIGRATION, None).await;
    assert_eq!(report["blockers"], json!(["WAREHOUSE_INDEX_BACKFILL_REQUIRED"]));
    made.catalog.backfill("lake1").await.unwrap();
    assert!(!made.bench.store.list_system(&index).await.unwrap().is_empty());
    let (_, report) = made.ask("GET", MIGRATION, None).await;
    assert_eq!(report["status"], "READY_TO_SNAPSHOT", "{report}");
}

#[tokio::test]
async fn m4_m27_both_prefixes_take_both_names_of_the_service_and_no_other() {
    let made = Deployment::new().await;
    for prefix in ["/iceberg/v1", "/_iceberg/v1"] {
        for (service, region, status) in [
            ("s3", REGION, 200),
            ("s3tables", REGION, 200),
            ("sts", REGION, 403),
            ("s3", "eu-nowhere-1", 403),
        ] {
            let signed = Signed { prefix, service, region };
            let asked = ask_signed(&made.catalog, "root", signed, "GET", EVENTS, None).await;
            assert_eq!(asked.0, status, "{signed:?}: {}", asked.1);
        }
    }
}

#[tokio::test]
async fn m20_tables_of_one_namespace_are_not_listed_in_another() {
    let made = Deployment::new().await;
    let hidden = json!({ "namespace": ["sales", "tables", "b"], "properties": {} });
    let hidden = made.ask("POST", "lake1/namespaces", Some(hidden)).await;
    assert_eq!(
        kind(&hidden),
        (400, "BadRequestException"),
        "it would lie among the tables of sales"
    );
    let below = json!({ "namespace": ["sales", "eu"], "properties": {} });
    assert_eq!(made.ask("POST", "lake1/namespaces", Some(below)).await.0, 200);
    let field = json!({ "id": 1, "name": "id", "required": false, "type": "long" });
    let body = json!({ "name": "deep", "schema": { "type": "struct", "schema-id": 0, "fields": [field] } });
    assert_eq!(made.ask("POST", "lake1/namespaces/sales%1Feu/tables", Some(body)).await.0, 200);
    let (_, listed) = made.ask("GET", "lake1/namespaces/sales/tables", None).await;
    assert_eq!(listed["identifiers"], json!([{ "namespace": ["sales"], "name": "events" }]));
}

#[tokio::test]
async fn m21_no_table_lies_where_only_the_catalog_writes() {
    let made = Deployment::new().await;
    let field = json!({ "id": 1, "name": "id", "required": false, "type": "long" });
    let schema = json!({ "type": "struct", "schema-id": 0, "fields": [field] });
    let inside = "s3://lake1/.rustfs-table/mine";
    let body = json!({ "name": "late", "schema": schema, "location": inside });
    let created = made.ask("POST", "lake1/namespaces/sales/tables", Some(body)).await;
    assert_eq!(kind(&created), (400, "BadRequestException"));
    let moved = json!({ "requirements": [], "updates": [{ "action": "set-location", "location": inside }] });
    let moved = made.ask("POST", EVENTS, Some(moved)).await;
    assert_eq!(kind(&moved), (400, "BadRequestException"));
}

#[tokio::test]
async fn m23_m26_after_a_cutover_tables_are_still_diagnosed_and_nothing_is_said_to_be_repaired() {
    let mut made = Deployment::new().await;
    made.set("a", json!({})).await;
    cut_over(&mut made).await;
    let (status, diagnosis) = made.ask("GET", &format!("{EVENTS}/catalog/diagnostics"), None).await;
    assert_eq!((status, &diagnosis["recovery_status"]), (200, &json!("HEALTHY")), "{diagnosis}");
    let (status, export) = made.ask("GET", &format!("{EVENTS}/catalog/export"), None).await;
    let (_, pointer) = made.pointer().await;
    assert_eq!((status, &export["table"]["version_token"]), (200, &pointer["version-token"]));
    let before = objects(&made).await;
    let body = json!({ "mode": "safe-repair" });
    let (status, report) =
        made.ask("POST", &format!("{EVENTS}/catalog/recovery"), Some(body)).await;
    assert_eq!((status, &report["finalized_count"]), (200, &json!(0)), "{report}");
    assert_eq!(objects(&made).await, before);
}

#[tokio::test]
async fn m24_publishing_what_is_current_changes_nothing() {
    let made = Deployment::new().await;
    let (_, before) = made.pointer().await;
    let body = json!({
        "metadata-location": before["metadata-location"],
        "version-token": before["version-token"],
    });
    let rolled = made.ask("POST", &format!("{EVENTS}/catalog/rollback"), Some(body.clone())).await;
    assert_eq!(rolled.0, 200, "{}", rolled.1);
    let put = made.ask("PUT", &format!("{EVENTS}/metadata-location"), Some(body)).await;
    assert_eq!(put.0, 200, "{}", put.1);
    assert_eq!(made.pointer().await.1, before);
}

/// Each refusal says what is the matter with it, in a class that a client can go by.
#[tokio::test]
async fn m25_refusals_say_what_is_the_matter() {
    let mut made = Deployment::new().await;
    let says = |answer: &(u16, Value)| answer.1["error"]["message"].as_str().unwrap().to_owned();
    // What this backing does not do is unsupported, and no mistake of the client's.
    let change = json!({ "removals": [], "updates": { "a": "b" } });
    let changed = made.ask("POST", PROPERTIES, Some(change)).await;
    assert_eq!(kind(&changed), (406, "UnsupportedOperationException"));
    let twice = made.create("events").await;
    assert!(says(&twice).contains("events"), "{twice:?}");
    // A snapshot that never was is not said to have disappeared.
    made.restart(Backing::DurableStrong, V1);
    let empty = made.ask("GET", "lake1/namespaces", None).await;
    assert!(empty.0 >= 500 && !says(&empty).contains("disappeared"), "{empty:?}");
    let unsigned = ask_as(&made.catalog, "nobody", "GET", "config", None).await;
    assert!(unsigned.0 == 403 && !says(&unsigned).is_empty());
}

/// What is left of a table that was dropped lies outside every table: S3's own policies are what counts there.
#[tokio::test]
async fn m28_what_a_dropped_table_leaves_is_under_the_buckets_policy_alone() {
    use crate::node::catalog::bridge::Access;
    use crate::node::catalog::bridge::Pass;
    let made = Deployment::new().await;
    let (_, loaded) = made.ask("GET", EVENTS, None).await;
    let location = loaded["metadata"]["location"].as_str().unwrap();
    let key = format!("{}/data/1.parquet", location.strip_prefix("s3://lake1/").unwrap());
    let may_read = || async {
        let mut pass = Pass::default();
        made.catalog.pass(&mut pass, Some(READER), "lake1", &key, Access::Read).await.is_ok()
    };
    assert!(!may_read().await);
    assert_eq!(made.ask("DELETE", EVENTS, None).await.0, 204);
    assert!(may_read().await);
}

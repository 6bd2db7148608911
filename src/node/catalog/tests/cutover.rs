//! From object-backed state to the strong snapshot, and back.

use serde_json::json;

use super::*;

const V1: Gates = Gates { requested: false, fleet_confirmed: false };

async fn ready(made: &Deployment) {
    made.catalog.backfill("lake1").await.unwrap();
    let (status, report) = made.ask("GET", MIGRATION, None).await;
    assert_eq!((status, &report["status"]), (200, &json!("READY_TO_SNAPSHOT")), "{report}");
}

#[tokio::test]
async fn a_cutover_keeps_everything_and_opens_when_it_is_admitted() {
    let mut made = Deployment::new().await;
    let (_, committed) = made.set("a", json!({ "commit-id": "one" })).await;
    let unready = made.ask("POST", MIGRATION, None).await;
    assert_eq!(kind(&unready), (409, "CommitFailedException"), "the index is not ready");
    ready(&made).await;
    let (status, executed) = made.ask("POST", MIGRATION, None).await;
    assert_eq!((status, &executed["status"]), (200, &json!("SNAPSHOT_MATERIALIZED")), "{executed}");
    assert_eq!(executed["ready_to_enable_durable_strong"], true);
    let (_, again) = made.ask("POST", MIGRATION, None).await;
    assert_eq!(again["status"], "SNAPSHOT_ALREADY_MATERIALIZED");
    // Reads go on; changes are fenced, and a creation is no "already exists" (M9).
    assert_eq!(made.ask("GET", EVENTS, None).await.0, 200);
    assert_eq!(kind(&made.set("b", json!({})).await), (409, "CommitFailedException"));
    let created = made.create("late").await;
    assert_eq!(kind(&created), (503, "ServiceUnavailableException"));

    made.restart(Backing::DurableStrong, V1);
    let (status, pointer) = made.pointer().await;
    assert_eq!((status, &pointer["version-token"]), (200, &committed["version-token"]));
    assert_eq!(made.ask("GET", EVENTS, None).await.0, 200);
    // Closed to writers: a replay needs no write.
    let replay = made.set("a", json!({ "commit-id": "one" })).await;
    assert_eq!((replay.0, &replay.1["version-token"]), (200, &committed["version-token"]));
    let closed = made.set("b", json!({})).await;
    assert_eq!(kind(&closed), (503, "ServiceUnavailableException"));
    made.catalog.admit().await.unwrap();
    let (status, later) = made.set("b", json!({})).await;
    assert_eq!((status, &later["generation"]), (200, &json!(3)), "{later}");
    let migration = made.ask("GET", MIGRATION, None).await;
    assert_eq!(kind(&migration), (400, "BadRequestException"));
    assert_eq!(made.create("late").await.0, 200);
    let rename = json!({
        "source": { "namespace": ["sales"], "name": "late" },
        "destination": { "namespace": ["sales"], "name": "later" },
    });
    assert_eq!(made.ask("POST", "lake1/tables/rename", Some(rename)).await.0, 204);
    let (_, listed) = made.ask("GET", "lake1/namespaces/sales/tables", None).await;
    assert_eq!(listed["identifiers"].as_array().unwrap().len(), 2);

    // The way back is closed: what is there is stale (M6), and cannot be given back any more (F50).
    made.restart(Backing::Object, V1);
    assert_eq!(kind(&made.ask("GET", EVENTS, None).await), (503, "ServiceUnavailableException"));
    let cancelled = made.ask("DELETE", MIGRATION, None).await;
    assert_eq!(kind(&cancelled), (409, "CommitFailedException"));
}

#[tokio::test]
async fn a_migration_that_is_cancelled_leaves_nothing_behind() {
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    let (status, released) = made.ask("DELETE", MIGRATION, None).await;
    assert_eq!((status, &released["status"]), (200, &json!("FENCE_RELEASED")), "{released}");
    let (_, none) = made.ask("DELETE", MIGRATION, None).await;
    assert_eq!(none["status"], "NO_MIGRATION_FENCE");
    assert_eq!(made.set("b", json!({})).await.0, 200);
    ready(&made).await;
    // There is no empty catalog to be opened (M5).
    made.restart(Backing::DurableStrong, V1);
    let opened = made.ask("GET", "lake1/namespaces", None).await;
    assert!(opened.0 >= 500, "{opened:?}");
    // And a second migration begins like the first.
    made.restart(Backing::Object, V1);
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
}

#[tokio::test]
async fn a_bucket_that_was_never_migrated_keeps_the_strong_catalog_closed() {
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.bench.store.create_bucket("lake2").await.unwrap();
    // A new table bucket is refused before anything is marked (M10).
    let enabled = made.ask("PUT", "buckets/lake2", None).await;
    assert_eq!(kind(&enabled), (503, "ServiceUnavailableException"));
    assert!(made.bench.store.bucket("lake2").await.unwrap().tables.is_empty());
    assert_eq!(made.ask("DELETE", MIGRATION, None).await.0, 200);
    assert_eq!(made.ask("PUT", "buckets/lake2", None).await.0, 200);
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.restart(Backing::DurableStrong, V1);
    let closed = made.ask("GET", "lake1/namespaces", None).await;
    assert_eq!(kind(&closed), (503, "ServiceUnavailableException"));
    let why = closed.1["error"]["message"].as_str().unwrap();
    assert!(why.contains("lake2"), "{why}");
}

#[tokio::test]
async fn both_gates_write_version_2_and_it_stays() {
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    let version = |made: &Deployment| {
        let store = Arc::clone(&made.bench.store);
        async move {
            let key = crate::protocol::catalog::keys::SNAPSHOT;
            let found = store.read_system(key).await.unwrap().unwrap();
            let json: Value = serde_json::from_slice(&found.contents).unwrap();
            json["version"].as_u64().unwrap()
        }
    };
    assert_eq!(version(&made).await, 1);
    let both = Gates { requested: true, fleet_confirmed: true };
    for (gates, expected) in [
        (Gates { requested: true, fleet_confirmed: false }, 1),
        (Gates { requested: false, fleet_confirmed: true }, 1),
        (both, 2),
        (V1, 2),
    ] {
        made.restart(Backing::DurableStrong, gates);
        made.catalog.admit().await.unwrap();
        let key = format!("p{}{}", u8::from(gates.requested), u8::from(gates.fleet_confirmed));
        let (status, body) = made.set(&key, json!({})).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(version(&made).await, expected, "{gates:?}");
    }
}

#[tokio::test]
async fn f42_both_gates_close_table_data_until_version_2_is_written() {
    use crate::node::catalog::bridge::Access;
    use crate::node::catalog::bridge::Pass;
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.restart(Backing::DurableStrong, Gates { requested: true, fleet_confirmed: true });
    let pass = |made: &Deployment| {
        let catalog = process(
            &made.bench,
            Backing::DurableStrong,
            Gates { requested: true, fleet_confirmed: true },
        );
        async move {
            let mut pass = Pass::default();
            catalog.pass(&mut pass, Some("root"), "lake1", "any/key", Access::Read).await.is_ok()
        }
    };
    assert_eq!(made.ask("GET", EVENTS, None).await.0, 200, "the control plane is open");
    assert!(!pass(&made).await, "the data plane is not");
    made.catalog.admit().await.unwrap();
    let scratch = json!({ "namespace": ["scratch"] });
    assert_eq!(made.ask("POST", "lake1/namespaces", Some(scratch)).await.0, 200);
    assert!(pass(&made).await);
}

#[tokio::test]
async fn two_processes_of_one_snapshot_never_lose_a_change_of_the_other() {
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.restart(Backing::DurableStrong, V1);
    made.catalog.admit().await.unwrap();
    let other = process(&made.bench, Backing::DurableStrong, V1);
    other.admit().await.unwrap();
    for turn in 0..4 {
        let scratch = json!({ "namespace": [format!("n{turn}")] });
        let made_by_other = ask_as(&other, "root", "POST", "lake1/namespaces", Some(scratch)).await;
        assert_eq!(made_by_other.0, 200, "{made_by_other:?}");
        assert_eq!(made.set(&format!("k{turn}"), json!({})).await.0, 200);
    }
    // The same bytes as before, and not the same snapshot (M22): nobody goes back behind it.
    let scratch = json!({ "namespace": ["passing"] });
    let asked = ask_as(&other, "root", "POST", "lake1/namespaces", Some(scratch)).await;
    assert_eq!(asked.0, 200);
    let dropped = ask_as(&other, "root", "DELETE", "lake1/namespaces/passing", None).await;
    assert_eq!(dropped.0, 204);
    assert_eq!(made.set("last", json!({})).await.0, 200);
    let (status, listed) = ask_as(&other, "root", "GET", "lake1/namespaces", None).await;
    assert_eq!((status, listed["namespaces"].as_array().unwrap().len()), (200, 5), "{listed}");
    let (_, pointer) =
        ask_as(&other, "root", "GET", &format!("{EVENTS}/metadata-location"), None).await;
    assert_eq!(pointer["generation"], 6);
}

#[tokio::test]
async fn f30_a_snapshot_that_disappears_is_missed_and_never_made_anew() {
    let mut made = Deployment::new().await;
    ready(&made).await;
    assert_eq!(made.ask("POST", MIGRATION, None).await.0, 200);
    made.restart(Backing::DurableStrong, V1);
    made.catalog.admit().await.unwrap();
    let key = crate::protocol::catalog::keys::SNAPSHOT;
    let kept = made.bench.store.read_system(key).await.unwrap().unwrap();
    made.bench.store.remove_system(key, Default::default(), &[]).await.unwrap();
    assert_eq!(made.ask("GET", EVENTS, None).await.0, 500);
    let refused = made.set("a", json!({})).await;
    assert_eq!(kind(&refused), (503, "RESTException"), "known, since nothing was written");
    assert_eq!(made.bench.store.read_system(key).await.unwrap(), None);
    let put = made.bench.store.write_system(
        key,
        kept.contents.clone(),
        kept.stat.user.clone(),
        Default::default(),
        &[],
    );
    put.await.unwrap();
    assert_eq!(made.set("a", json!({})).await.0, 200, "it heals when it is put back");
}

//! The other rehearsals, and what is printed.

use std::sync::Arc;

use serde_json::Value;
use serde_json::json;

use super::World;
use super::orders;
use super::rehearsed;
use super::stop;
use super::world::Instead;
use crate::harness::operator::catalog::orders::Orders;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::orders::TableName;
use crate::harness::operator::catalog::rehearse;
use crate::harness::operator::catalog::rehearse::Conclusion;
use crate::harness::operator::catalog::report;
use crate::harness::operator::catalog::report::Verdict;
use crate::harness::operator::catalog::single;
use crate::harness::operator::catalog::single::Single;
use crate::harness::operator::catalog::step::Step;
use crate::harness::operator::catalog::turn::StopKind;

/// Goal: what needs a crash is not counted as passed; everything else holds, and the warehouse is released again.
#[test]
fn a_disaster_recovery_rehearsal_leaves_the_warehouse_as_it_was() {
    let world = Arc::new(World::new());
    let (concluded, state) = rehearsed(&world, orders(Rehearsal::DisasterRecovery));
    assert_eq!(concluded, Conclusion::Over { lacking: 3 }, "{:?}", state.stopped);
    assert_eq!(report::verdict(&state), Verdict::Undecided);
    let lacking: Vec<_> = state.done.iter().filter(|it| it.lacks).map(|it| it.step).collect();
    assert_eq!(lacking, [Step::InjectGap, Step::ReadRecoveryDiagnostics, Step::SafeRecoveryRepair]);
    assert!(world.state().fenced.is_empty());
    assert_eq!(world.state().tables.len(), 1);
}

#[test]
fn a_gap_that_a_command_makes_is_found_and_repaired() {
    let mut asked = orders(Rehearsal::DisasterRecovery);
    asked.hooks.insert(Step::InjectGap, "true".to_owned());
    // Nobody interrupted anything: the diagnosis does not find it.
    let (at, why) = stop(rehearsed(&Arc::new(World::new()), asked).0);
    assert_eq!((at, why.kind), (Step::ReadRecoveryDiagnostics, StopKind::Unexpected));
    assert!(why.words.contains("not seen"), "{}", why.words);
}

#[test]
fn broken_promises_of_a_recovery_are_found() {
    let no = |status| Instead::Say(status, json!({"error": "no"}));
    let probe = "lake/namespaces/firedrill_rehearsal/tables/probe_";
    for (about, after, instead, step, words) in [
        ("catalog/rollback", 0, no(400), Step::RollbackToKnownMetadata, "400"),
        (
            "catalog/rollback",
            1,
            Instead::Say(200, json!({})),
            Step::RollbackToKnownMetadata,
            "stale token",
        ),
        (
            "catalog/import",
            1,
            Instead::Say(200, json!({})),
            Step::ImportKnownMetadata,
            "other metadata",
        ),
        (
            "catalog/recovery",
            1,
            Instead::Change("/finalized_count", json!(3)),
            Step::SafeRecoveryRepair,
            "second repair",
        ),
        (
            "catalog/export",
            0,
            Instead::Change("/table/generation", json!(99)),
            Step::ExportCatalogState,
            "the export",
        ),
        (
            "DELETE /iceberg/v1/lake/catalog/migration",
            0,
            no(409),
            Step::MaterializeAndRelease,
            "still fenced",
        ),
        (
            "catalog/diagnostics",
            1,
            Instead::Change("/recovery_status", json!("READ_ONLY_RECOMMENDED")),
            Step::DiagnosticsAfterRepair,
            "READ_ONLY",
        ),
    ] {
        let world = Arc::new(World::new());
        world.overrule(about, after, instead);
        let (at, why) = stop(rehearsed(&world, orders(Rehearsal::DisasterRecovery)).0);
        assert_eq!(at, step, "{about}: {why:?}");
        assert!(why.words.contains(words), "{about}: {}", why.words);
    }
    // A commit that lands under the fence.
    let world = Arc::new(World::new());
    world.overrule(&format!("POST /iceberg/v1/{probe}"), 10, Instead::Say(200, json!({})));
    let (at, why) = stop(rehearsed(&world, orders(Rehearsal::DisasterRecovery)).0);
    assert_eq!((at, why.kind), (Step::MaterializeAndRelease, StopKind::Broken), "{why:?}");
}

#[test]
fn a_scale_and_fault_rehearsal_holds_and_says_what_it_could_not_do() {
    let world = Arc::new(World::new());
    let (concluded, state) = rehearsed(&world, orders(Rehearsal::ScaleFault));
    // This server has no maintenance: four steps.
    assert_eq!(concluded, Conclusion::Over { lacking: 4 }, "{:?}", state.stopped);
    assert_eq!(state.facts.stressed["cohorts"], json!({"rounds": 4, "writers": 3, "conflicts": 8}));
    assert!(world.state().fenced.is_empty());
}

#[test]
fn two_winners_or_a_lost_commit_are_found() {
    let world = Arc::new(World::new());
    // The third commit of the first round: its base is gone, and it is acknowledged all the same.
    let probe = "POST /iceberg/v1/lake/namespaces/firedrill_rehearsal/tables/probe_";
    world.overrule(
        probe,
        4,
        Instead::Say(200, json!({"version-token": "token-x", "generation": 9})),
    );
    let (at, why) = stop(rehearsed(&world, orders(Rehearsal::ScaleFault)).0);
    assert_eq!((at, why.kind), (Step::SpawnConcurrentWriters, StopKind::Broken), "{why:?}");
    let world = Arc::new(World::new());
    // Of the writers beside the repair, one is acknowledged and not there.
    world.overrule(
        probe,
        14,
        Instead::Say(200, json!({"version-token": "token-x", "generation": 9})),
    );
    let (at, why) = stop(rehearsed(&world, orders(Rehearsal::ScaleFault)).0);
    assert_eq!((at, why.kind), (Step::RecoveryUnderLoad, StopKind::Broken), "{why:?}");
    assert!(why.words.contains("not there"), "{}", why.words);
}

#[test]
fn version_two_needs_a_durable_strong_catalog_and_a_write() {
    let world = Arc::new(World::new());
    let (at, why) = stop(rehearsed(&world, orders(Rehearsal::SnapshotV2)).0);
    assert_eq!((at, why.kind), (Step::Identify, StopKind::Precondition), "{why:?}");
    let strong = || {
        let world = World::new();
        world.state().strong = true;
        world.overrule(
            "GET /firedrill/v1/catalog",
            6,
            Instead::Change("/snapshot/version", json!(2)),
        );
        Arc::new(world)
    };
    let (concluded, state) = rehearsed(&strong(), orders(Rehearsal::SnapshotV2));
    assert_eq!(concluded, Conclusion::Over { lacking: 0 }, "{:?}", state.stopped);
    let world = strong();
    world.overrule("HEAD /lake/", 1, Instead::Say(403, Value::Null));
    let (at, why) = stop(rehearsed(&world, orders(Rehearsal::SnapshotV2)).0);
    assert_eq!(at, Step::VerifyV2, "{why:?}");
    assert!(why.remedy.contains("controlled-write"), "{}", why.remedy);
}

fn printed(orders: &Orders) -> (Value, Arc<World>) {
    let world = Arc::new(World::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let document = runtime.block_on(rehearse::print(&world, orders)).unwrap();
    (document, world)
}

/// Goal: nothing that is printed has to be filled in by hand, and printing only reads.
#[test]
fn requests_are_executable_as_printed() {
    for rehearsal in Rehearsal::ALL {
        if rehearsal == Rehearsal::SnapshotV2 {
            continue;
        }
        let table = TableName { namespace: vec!["sales".to_owned()], name: "orders".to_owned() };
        for table in [None, Some(table)] {
            if rehearsal == Rehearsal::Cutover && table.is_some() {
                continue;
            }
            let is_own = table.is_none();
            let (document, world) = printed(&Orders { table, ..orders(rehearsal) });
            assert!(world.state().asked.iter().all(|words| words.starts_with("GET ")));
            let steps = document["steps"].as_array().unwrap();
            assert_eq!(steps.len(), rehearsal.steps().len());
            let mut ids = Vec::new();
            for request in steps.iter().flat_map(|step| step["requests"].as_array().unwrap()) {
                let text = request.to_string();
                for placeholder in [
                    "from-load-table",
                    "from-previous",
                    "from-catalog",
                    "from-backup",
                    "stale-metadata-location",
                    "table-id",
                    "<",
                ] {
                    assert!(!text.contains(placeholder), "{text}");
                }
                assert!(!request["expect"].as_array().unwrap().is_empty(), "{text}");
                if let Some(take) = request.get("take") {
                    assert!(is_own, "a table that is there has nothing to take: {text}");
                    assert!(ids.contains(&take["of"]), "{text}");
                } else if request["path"].as_str().unwrap().ends_with("/rollback") {
                    let token = request["body"]["version-token"].as_str().unwrap();
                    assert!(token.starts_with("token-"), "{text}");
                }
                ids.push(request["id"].clone());
            }
            let migrations =
                ids.iter().filter(|id| id.as_str().unwrap().starts_with("materialize"));
            assert!(migrations.count() > 0);
        }
    }
}

/// Goal: bodies that the reference refused as printed (§8) are valid here, member by member.
#[test]
fn bodies_have_the_members_that_servers_know() {
    let (document, _) = printed(&orders(Rehearsal::ScaleFault));
    let find = |name: &str| {
        let steps = document["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        step["requests"][0]["body"].clone()
    };
    assert_eq!(find("claim-worker-job"), json!({"worker-id": "w1"}));
    let import = find("import-under-load");
    assert_eq!(
        import.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["metadata-location", "properties"]
    );
    assert!(import["metadata-location"].as_str().unwrap().starts_with("s3://lake/.rustfs-table/"));
}

#[test]
fn single_steps_refuse_what_a_blocker_forbids() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = Arc::new(World::new());
    let orders = orders(Rehearsal::Cutover);
    let run = |what| runtime.block_on(single::run(&world, &orders, what));
    world.state().index_ready = false;
    assert_eq!(run(Single::Preflight).unwrap_err().kind, StopKind::Blocked);
    assert_eq!(run(Single::Migrate).unwrap_err().kind, StopKind::Blocked);
    assert!(!world.was_asked("POST"), "a blocked migration was sent");
    assert_eq!(run(Single::Backfill).unwrap()["lake"]["by"], "the server's own route");
    assert_eq!(run(Single::Preflight).unwrap()["lake"]["status"], "READY_TO_SNAPSHOT");
    assert_eq!(run(Single::Admit).unwrap_err().kind, StopKind::Precondition);
    assert_eq!(run(Single::Migrate).unwrap()["lake"]["status"], "SNAPSHOT_MATERIALIZED");
    assert_eq!(run(Single::Cancel).unwrap()["lake"]["status"], "FENCE_RELEASED");
    let status = run(Single::Status).unwrap();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(status["warehouses"]["lake"]["status"], "READY_TO_SNAPSHOT");
    run(Single::Migrate).unwrap();
    runtime.block_on(single::run(&world, &orders, Single::Status)).unwrap();
    assert!(world.state().strong, "the operator has restarted");
    run(Single::Admit).unwrap();
    assert!(!world.state().closed);
}

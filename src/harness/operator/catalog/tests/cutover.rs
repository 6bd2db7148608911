//! The cutover: every step's good answer goes on, each bad one stops with the right words.

use std::sync::Arc;

use serde_json::Value;
use serde_json::json;

use super::World;
use super::go_on;
use super::orders;
use super::rehearsed;
use super::stop;
use super::world::Instead;
use crate::harness::operator::catalog::orders::Orders;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::rehearse::Conclusion;
use crate::harness::operator::catalog::report;
use crate::harness::operator::catalog::report::Verdict;
use crate::harness::operator::catalog::state::Ended;
use crate::harness::operator::catalog::state::State;
use crate::harness::operator::catalog::step::Step;
use crate::harness::operator::catalog::turn::StopKind;

fn cutover() -> Orders {
    orders(Rehearsal::Cutover)
}

#[test]
fn a_whole_cutover_holds_and_leaves_nothing_of_its_own() {
    let world = Arc::new(World::new());
    let (concluded, state) = rehearsed(&world, cutover());
    assert_eq!(concluded, Conclusion::Over { lacking: 0 }, "{:?}", state.stopped);
    assert_eq!(report::verdict(&state), Verdict::Pass);
    assert_eq!(state.done.len(), Rehearsal::Cutover.steps().len());
    let by_word = state.done.iter().filter(|done| done.ended == Ended::Asserted).count();
    assert_eq!(by_word, 4, "what only the operator did is told apart");
    let left = world.state();
    assert!(left.strong && !left.closed);
    assert_eq!(left.tables.len(), 1);
    assert_eq!(left.namespaces.len(), 1);
    assert!(left.objects.is_empty());
}

/// Goal: killed before any step and started again, it goes on there; no step is done twice.
#[test]
fn it_goes_on_where_it_stopped_after_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let world = Arc::new(World::new());
    for step in Rehearsal::Cutover.steps() {
        if matches!(step, Step::TakeBackup | Step::PreserveBackup) {
            continue;
        }
        let orders = Orders { stop_before: Some(*step), ..cutover() };
        let (at, why) = stop(go_on(&world, folder.path(), orders).unwrap());
        assert_eq!((at, why.kind), (*step, StopKind::Asked));
    }
    let concluded = go_on(&world, folder.path(), cutover()).unwrap();
    assert_eq!(concluded, Conclusion::Over { lacking: 0 });
    let state = State::read(folder.path()).unwrap().unwrap();
    let migrations = world
        .state()
        .asked
        .iter()
        .filter(|it| it.starts_with("POST /iceberg/v1/lake/catalog/migration"))
        .count();
    assert_eq!(migrations, 1);
    assert_eq!(state.done.len(), Rehearsal::Cutover.steps().len());
    assert!(state.starts > 15);
}

/// Goal: the answer to each changing request is lost after it was executed; nothing is cancelled, and the same command
/// again comes to the same end.
#[test]
fn a_lost_answer_ends_it_and_the_same_command_goes_on() {
    for about in [
        "POST /iceberg/v1/lake/catalog/migration",
        "POST /iceberg/v1/lake/namespaces/firedrill_rehearsal/tables",
        "POST /firedrill/v1/catalog/admit",
        "DELETE /iceberg/v1/lake/namespaces/firedrill_rehearsal/tables",
    ] {
        let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(World::new()));
        world.overrule(about, 0, Instead::Lose);
        let (step, why) = stop(go_on(&world, folder.path(), cutover()).unwrap());
        assert_eq!(why.kind, StopKind::Lost, "{about}: {why:?}");
        assert!(why.words.contains("not known"), "{}", why.words);
        assert!(!world.was_asked("DELETE /iceberg/v1/lake/catalog/migration"), "it cancelled");
        let state = State::read(folder.path()).unwrap().unwrap();
        assert_eq!(report::verdict(&state), Verdict::Undecided);
        assert_eq!(state.next(), Some(step));
        world.state().rules.clear();
        let concluded = go_on(&world, folder.path(), cutover()).unwrap();
        assert_eq!(concluded, Conclusion::Over { lacking: 0 }, "{about}");
    }
}

/// A bad answer: where, after how many good ones, what instead, the step and kind of the stop, and words in it.
type Bad = (&'static str, usize, Instead, Step, StopKind, &'static str);

fn bad_answers() -> Vec<Bad> {
    use Instead::*;
    let no = |status| Say(status, json!({"error": {"message": "no", "type": "X"}}));
    let get = "GET /iceberg/v1/lake/catalog/migration";
    let replay = "POST /iceberg/v1/lake/namespaces/firedrill_rehearsal/tables/probe_";
    let orders = "GET /iceberg/v1/lake/namespaces/sales/tables/orders/metadata-location";
    let config = "GET /iceberg/v1/config";
    vec![
        (config, 1, Refuse, Step::Identify, StopKind::Unexpected, "refused"),
        (config, 1, no(403), Step::Identify, StopKind::Unexpected, "403"),
        (
            config,
            1,
            Change("/overrides/rustfs.catalog-backing", json!("durable-strong")),
            Step::Identify,
            StopKind::Precondition,
            "durable-strong",
        ),
        (
            "buckets/lake",
            0,
            Change("/catalog-entry-present", json!(false)),
            Step::Identify,
            StopKind::Precondition,
            "entry is missing",
        ),
        (
            "buckets/plain",
            0,
            Say(200, json!({"table-bucket": "plain", "enabled": true})),
            Step::Identify,
            StopKind::Precondition,
            "not named: plain",
        ),
        ("namespaces?pageToken=", 0, no(500), Step::Inventory, StopKind::Unexpected, "500"),
        (orders, 0, Say(200, json!({})), Step::Inventory, StopKind::Unexpected, "cannot be read"),
        (
            get,
            0,
            Change("/blockers", json!(["COMMIT_MANUAL_REVIEW_REQUIRED"])),
            Step::Preflight,
            StopKind::Blocked,
            "COMMIT_MANUAL_REVIEW_REQUIRED",
        ),
        (
            get,
            0,
            Change("/object_backed_writes_fenced", json!(true)),
            Step::Preflight,
            StopKind::Precondition,
            "unfinished",
        ),
        (
            get,
            0,
            Change("/table_bucket", json!("other")),
            Step::Preflight,
            StopKind::Unexpected,
            "answers for other",
        ),
        (
            get,
            1,
            Change("/blockers", json!(["DUPLICATE_TABLE_IDENTITY"])),
            Step::PreflightClean,
            StopKind::Blocked,
            "DUPLICATE_TABLE_IDENTITY",
        ),
        (
            get,
            1,
            Change("/status", json!("CANCEL_IN_PROGRESS")),
            Step::PreflightClean,
            StopKind::Precondition,
            "CANCEL_IN_PROGRESS",
        ),
        (replay, 0, no(400), Step::PlantProbe, StopKind::Unexpected, "400"),
        (
            "POST /iceberg/v1/lake/catalog/migration",
            0,
            no(409),
            Step::Materialize,
            StopKind::Unexpected,
            "409",
        ),
        (
            "POST /iceberg/v1/lake/catalog/migration",
            0,
            no(500),
            Step::Materialize,
            StopKind::Lost,
            "not known",
        ),
        (
            "POST /iceberg/v1/lake/catalog/migration",
            0,
            Change("/object_backed_writes_fenced", json!(false)),
            Step::Materialize,
            StopKind::Unexpected,
            "fenced: false",
        ),
        (
            get,
            2,
            Change("/ready_to_enable_durable_strong", json!(false)),
            Step::VerifyReady,
            StopKind::Blocked,
            "not ready",
        ),
        (
            get,
            2,
            Change("/blockers", json!(["DURABLE_STRONG_SNAPSHOT_CHANGED"])),
            Step::VerifyReady,
            StopKind::Blocked,
            "DURABLE_STRONG_SNAPSHOT_CHANGED",
        ),
        (
            get,
            2,
            Change("/table_count", json!(77)),
            Step::VerifyReady,
            StopKind::Unexpected,
            "counted differently",
        ),
        (
            config,
            3,
            Change("/overrides/rustfs.catalog-backing", Value::Null),
            Step::VerifyConfig,
            StopKind::Precondition,
            "still runs",
        ),
        (
            config,
            3,
            Change("/endpoints", json!([])),
            Step::VerifyConfig,
            StopKind::Unexpected,
            "does not offer",
        ),
        (
            "GET /firedrill/v1/catalog",
            2,
            Say(200, json!({"refused": "bucket b was never migrated"})),
            Step::VerifyConfig,
            StopKind::Broken,
            "never migrated",
        ),
        (
            orders,
            2,
            Change("/version-token", json!("token-of-another")),
            Step::VerifyLoads,
            StopKind::Broken,
            "token-of-another",
        ),
        (orders, 3, no(404), Step::VerifyLoads, StopKind::Broken, "not there any more"),
        (
            "GET /iceberg/v1/lake/namespaces/sales/views/v",
            2,
            Change("/metadata-location", json!("s3://lake/w")),
            Step::VerifyLoads,
            StopKind::Broken,
            "the view",
        ),
        (replay, 2, no(409), Step::VerifyIdempotency, StopKind::Broken, "for another"),
        (
            replay,
            2,
            Change("/generation", json!(9)),
            Step::VerifyIdempotency,
            StopKind::Broken,
            "sent again",
        ),
        (replay, 2, no(503), Step::VerifyIdempotency, StopKind::Unexpected, "refuses even"),
        (
            "GET /lake/tables/probe_",
            1,
            Say(200, json!("text")),
            Step::VerifyPolicy,
            StopKind::Broken,
            "no policy allows",
        ),
        (
            "GET /lake/tables/probe_",
            2,
            no(403),
            Step::VerifyPolicy,
            StopKind::Unexpected,
            "refused",
        ),
        (
            "GET /lake/firedrill-rehearsal/",
            1,
            Say(200, json!("text")),
            Step::VerifyPolicy,
            StopKind::Broken,
            "no policy allows",
        ),
        ("POST /firedrill/v1/catalog/admit", 1, no(503), Step::Admit, StopKind::Unexpected, "503"),
        (
            "GET /firedrill/v1/catalog",
            7,
            Change("/closed_to_writers", json!(true)),
            Step::Admit,
            StopKind::Unexpected,
            "still closed",
        ),
        (replay, 3, no(409), Step::VerifyWrites, StopKind::Unexpected, "409"),
    ]
}

#[test]
fn each_bad_answer_stops_it_with_the_right_words() {
    for (about, after, instead, step, kind, words) in bad_answers() {
        let world = Arc::new(World::new());
        world.overrule(about, after, instead.clone());
        let (concluded, state) = rehearsed(&world, cutover());
        let (at, why) = stop(concluded);
        let what = format!("{about} after {after}: {instead:?}: {why:?}");
        assert_eq!((at, why.kind), (step, kind), "{what}");
        assert!(why.words.contains(words), "{what}");
        assert!(!why.remedy.is_empty(), "{what}");
        assert!(
            !world.was_asked("DELETE /iceberg/v1/lake/catalog/migration"),
            "it cancelled: {what}"
        );
        assert_ne!(report::verdict(&state), Verdict::Pass);
        if at < Step::Admit {
            assert!(!world.was_asked("admit"), "writers were admitted: {what}");
        }
    }
}

#[test]
fn what_only_the_operator_can_do_is_waited_for() {
    for step in [Step::Drain, Step::Quiesce, Step::Restart] {
        let mut orders = cutover();
        orders.done.remove(&step);
        let world = || Arc::new(World::new());
        let (at, why) = stop(rehearsed(&world(), orders.clone()).0);
        assert_eq!((at, why.kind), (step, StopKind::Operator));
        assert!(why.remedy.contains(&format!("--done {}", step.name())), "{}", why.remedy);
        orders.hooks.insert(step, "test \"$FIREDRILL_WAREHOUSES\" = lake".to_owned());
        assert_eq!(rehearsed(&world(), orders.clone()).0, Conclusion::Over { lacking: 0 });
        orders.hooks.insert(step, "false".to_owned());
        let (_, why) = stop(rehearsed(&world(), orders).0);
        assert!(why.words.contains("failed"), "{}", why.words);
    }
}

#[test]
fn blockers_that_can_be_repaired_are() {
    let world = Arc::new(World::new());
    world.state().index_ready = false;
    world.state().unfinished = 1;
    let (concluded, state) = rehearsed(&world, cutover());
    assert_eq!(concluded, Conclusion::Over { lacking: 0 }, "{:?}", state.stopped);
    assert!(world.was_asked("POST /firedrill/v1/catalog/backfill"));
    assert!(
        world.was_asked("POST /iceberg/v1/lake/namespaces/sales/tables/orders/catalog/recovery")
    );
}

/// Goal: on a server without our own routes the runbook's own means are used, and what it cannot tell is said.
#[test]
fn another_server_is_cut_over_by_the_runbooks_own_means() {
    let world = Arc::new(World::new());
    world.state().has_own_routes = false;
    world.state().index_ready = false;
    let mut orders = cutover();
    let (at, why) = stop(rehearsed(&world, orders.clone()).0);
    assert_eq!((at, why.kind), (Step::Admit, StopKind::Operator));
    assert!(world.was_asked("HEAD /lake/firedrill-backfill-probe"));
    orders.done.insert(Step::Admit);
    let world = Arc::new(World::new());
    world.state().has_own_routes = false;
    assert_eq!(rehearsed(&world, orders).0, Conclusion::Over { lacking: 0 });
}

#[test]
fn a_dry_run_changes_nothing_and_ends_at_any_blocker() {
    let dry = Orders { execute: false, ..cutover() };
    let world = Arc::new(World::new());
    assert_eq!(rehearsed(&world, dry.clone()).0, Conclusion::Over { lacking: 0 });
    assert!(world.state().asked.iter().all(|words| words.starts_with("GET ")));
    let world = Arc::new(World::new());
    world.state().index_ready = false;
    let (at, why) = stop(rehearsed(&world, dry).0);
    assert_eq!((at, why.kind), (Step::Preflight, StopKind::Blocked));
    assert!(why.remedy.contains("backfill"), "{}", why.remedy);
}

#[test]
fn without_principals_nobody_is_admitted_but_by_the_operators_word() {
    let mut orders = Orders { has_principals: false, ..cutover() };
    let world = Arc::new(World::new());
    let (at, why) = stop(rehearsed(&world, orders.clone()).0);
    assert_eq!((at, why.kind), (Step::VerifyPolicy, StopKind::Operator));
    assert!(!world.was_asked("admit"));
    orders.done.insert(Step::VerifyPolicy);
    let world = Arc::new(World::new());
    assert_eq!(rehearsed(&world, orders).0, Conclusion::Over { lacking: 0 });
}

#[test]
fn a_run_is_not_gone_on_with_for_something_else() {
    let (folder, world) = (tempfile::tempdir().unwrap(), Arc::new(World::new()));
    let first = Orders { stop_before: Some(Step::Drain), ..cutover() };
    stop(go_on(&world, folder.path(), first).unwrap());
    let other = Orders { nodes: 3, ..cutover() };
    assert!(go_on(&world, folder.path(), other).unwrap_err().to_string().contains("--run"));
    let held = crate::harness::operator::catalog::rehearse::Folder::take(folder.path()).unwrap();
    assert!(go_on(&world, folder.path(), cutover()).is_err(), "two at once");
    drop(held);
}

/// Goal: the operator's page tells of every step by the name that `--hook`, `--done` and `--stop-before` take.
#[test]
fn the_operators_page_names_every_step_of_a_cutover() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (_, page) = readme.split_once("## Cutting a table catalog over\n").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    for step in Rehearsal::Cutover.steps() {
        assert!(page.contains(&format!("`{}`", step.name())), "{} is missing", step.name());
    }
    for rehearsal in Rehearsal::ALL {
        let is_told = rehearsal == Rehearsal::Cutover || page.contains(rehearsal.name());
        assert!(is_told, "{} is missing", rehearsal.name());
    }
}

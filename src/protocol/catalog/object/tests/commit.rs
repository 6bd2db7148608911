//! Commits: every row of the crash catalogue, and every contradiction of the records.

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::depot::Depot;
use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::json::Json;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::commit;
use crate::protocol::catalog::object::commit::Committed;
use crate::protocol::catalog::object::commit::Durable;
use crate::protocol::catalog::object::commit::Request;
use crate::protocol::catalog::object::resolve;
use crate::protocol::catalog::object::resolve::Facts;
use crate::protocol::catalog::object::resolve::Resolution;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::PrefixMap;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::recovery;
use crate::protocol::catalog::recovery::RecoveryState;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::crash_point::CrashPoint;

const OLD: &str = "tables/id-of-orders/";
const NEW: &str = "moved/orders/";

/// The n-th commit with a key; a retry draws another token.
fn request(n: u64, fresh: &str) -> Request {
    let record = CommitRecord {
        new_version_token: fresh.to_owned(),
        ..fixture::keyed_commit(n, Status::Staged)
    };
    Request {
        bucket: BUCKET.to_owned(),
        table: fixture::identifier("orders"),
        record,
        metadata: Some(b"{}".to_vec()),
        warehouse_location: format!("s3://{BUCKET}/{}", OLD.trim_end_matches('/')),
        format_version: 2,
        from_prefix: OLD.to_owned(),
        has_fresh_name: false,
        leaves_unfinished: false,
    }
}

/// The same, to another prefix.
fn relocation(n: u64, fresh: &str) -> Request {
    Request { warehouse_location: format!("s3://{BUCKET}/moved/orders"), ..request(n, fresh) }
}

fn read(depot: &Depot, request: &Request) -> Durable {
    let record = &request.record;
    let name = record.idempotency_key.as_deref().unwrap_or_default();
    let prefix = prefix::of_table(BUCKET, &request.warehouse_location).unwrap();
    let mut others = PrefixMap::default();
    for table in depot.tables().iter().filter(|it| it.table_id != record.table_id) {
        let prefix = prefix::of_table(BUCKET, &table.warehouse_location).unwrap();
        others.insert(prefix, table.identifier().unwrap()).unwrap();
    }
    let mut durable = Durable {
        fence: depot.fence(),
        table: depot.table("orders"),
        has_metadata: depot.has_metadata(&record.new_metadata_location),
        commit: depot.record(&keys::commit(BUCKET, &record.table_id, &record.commit_id)),
        keyed: depot.keyed(&record.table_id, name),
        history: None,
        reservation: depot.reservation(&prefix),
        released: depot.reservation(&request.from_prefix),
        overlapping: others.overlapping(&prefix).cloned(),
    };
    if commit::needs_history(&durable, request) {
        durable.history = Some(depot.commits(&record.table_id));
    }
    durable
}

fn run(depot: &mut Depot, request: &Request, crash: Option<CrashPoint>) -> End<Committed> {
    depot.run(crash, |depot| commit::next(&read(depot, request), request))
}

fn crashed(request: &Request, after: CrashPoint) -> Depot {
    let mut depot = Depot::with_orders(1);
    assert_eq!(run(&mut depot, request, Some(after)), End::Crashed, "{after} is never passed");
    depot
}

/// The states that recovery gives the commits, by their ids.
fn states(depot: &Depot) -> Vec<(String, RecoveryState)> {
    let (table, id) = (depot.table("orders").unwrap().value, "id-of-orders");
    let (commits, keyed) = (depot.commits(id), depot.idempotency(id));
    let report = recovery::Records::new(&table, &commits, &keyed).report(0);
    report.commits.into_iter().map(|it| (it.commit_id, it.recovery_state)).collect()
}

fn state_of(depot: &Depot, commit: &str) -> RecoveryState {
    let found = states(depot).into_iter().find(|(id, _)| id == commit);
    found.unwrap_or_else(|| panic!("no record of {commit}")).1
}

fn recover(depot: &mut Depot, abandons: bool, crash: Option<CrashPoint>) -> End<recovery::Report> {
    let id = "id-of-orders";
    let read = |depot: &Depot| recovery::Durable {
        fence: depot.fence(),
        table: depot.table("orders"),
        commits: depot.commits(id),
        idempotency: depot.idempotency(id),
        kept: (1..9)
            .map(|n| format!("commit-{n}"))
            .filter(|commit| depot.get(&keys::abandoned(BUCKET, id, commit)).is_some())
            .collect(),
    };
    let found = Some(recovery::repairs(&read(depot), abandons));
    let request = recovery::Request { table: fixture::identifier("orders"), abandons, found };
    depot.run(crash, |depot| recovery::next(&read(depot), &request))
}

fn owner(depot: &Depot, key: &str) -> Option<String> {
    let hits = resolve::probes(BUCKET, key);
    let hits = hits.iter().filter_map(|it| {
        let entry = depot.record::<crate::protocol::catalog::prefix::IndexEntry>(it)?;
        depot.reservation(&entry.warehouse_object_prefix)
    });
    let facts = Facts {
        bucket: depot.bucket(),
        state: depot.index_state(),
        hits: hits.collect(),
        tables: Some(depot.tables()),
        is_backfill_broken: false,
    };
    match resolve::resolve(&facts, BUCKET, key).unwrap() {
        Resolution::Table(name, _) => Some(name.to_string()),
        Resolution::Nobody(_) => None,
        other => panic!("{other:?}"),
    }
}

/// After every crash: the same request, sent again, is done once and ends in the same state.
fn retry_converges(depot: &mut Depot, first: &Request, again: &Request, stored: bool) {
    let answer = run(depot, again, None).done();
    let token =
        if stored { &first.record.new_version_token } else { &again.record.new_version_token };
    assert_eq!(&answer.table.version_token, token, "a retry keeps the token that is stored");
    assert_eq!(answer.table.generation, 3);
    assert_eq!(state_of(depot, "commit-2"), RecoveryState::Committed);
    let settled = depot.clone();
    assert_eq!(run(depot, again, None).done().table, answer.table);
    assert_eq!(depot.objects, settled.objects, "a replay writes nothing");
}

#[test]
fn a_commit_writes_in_its_order() {
    let mut depot = Depot::with_orders(1);
    let answer = run(&mut depot, &relocation(2, "t"), None).done();
    assert!(!answer.is_replay);
    use CrashPoint as P;
    let order = [
        P::CatalogCommitMetadataWritten,
        P::CatalogCommitIndexReserved,
        P::CatalogCommitLogStaged,
        P::CatalogCommitKeyStaged,
        P::CatalogCommitPointerMoved,
        P::CatalogCommitIndexReleased,
        P::CatalogCommitLogCommitted,
        P::CatalogCommitKeyCommitted,
    ];
    assert_eq!(depot.passed, order);
    assert_eq!(owner(&depot, "moved/orders/data/x").as_deref(), Some("sales.orders"));
    assert_eq!(owner(&depot, "tables/id-of-orders/data/x"), None);
}

#[test]
fn k_c1_a_metadata_file_that_nobody_points_to_is_taken_up_by_the_retry() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitMetadataWritten);
    assert_eq!(depot.table("orders").unwrap().value, fixture::table_at(1));
    assert_eq!(states(&depot).len(), 1, "no record: nothing blocks a migration");
    retry_converges(&mut depot, &first, &request(2, "t2"), false);
}

#[test]
fn k_c2_a_reservation_without_a_commit_owns_nothing() {
    let first = relocation(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitIndexReserved);
    assert_eq!(depot.table("orders").unwrap().value, fixture::table_at(1));
    assert_eq!(owner(&depot, "moved/orders/x"), None);
    assert_eq!(owner(&depot, "tables/id-of-orders/x").as_deref(), Some("sales.orders"));
    retry_converges(&mut depot, &first, &relocation(2, "t2"), false);
}

#[test]
fn k_c3_a_staged_commit_is_gone_on_with_by_its_client() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitLogStaged);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::StagedBeforeTableUpdate);
    let before = depot.objects.clone();
    assert_eq!(recover(&mut depot, false, None).done().finalized_count, 0);
    assert_eq!(depot.objects, before, "safe repair leaves it alone");
    retry_converges(&mut depot, &first, &request(2, "t2"), true);
}

#[test]
fn k_c4_a_staged_key_finds_its_commit() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitKeyStaged);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::StagedBeforeTableUpdate);
    retry_converges(&mut depot, &first, &request(2, "t2"), true);
}

#[test]
fn k_c5_a_moved_pointer_is_the_commit() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitPointerMoved);
    assert_eq!(depot.table("orders").unwrap().value.version_token, "t");
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::FinalizationRequired);
    let mut recovered = depot.clone();
    let report = recover(&mut recovered, true, None).done();
    assert_eq!((report.finalized_count, report.manual_review_count), (1, 0));
    assert_eq!(state_of(&recovered, "commit-2"), RecoveryState::Committed);
    assert_eq!(recovered.table("orders"), depot.table("orders"), "repair moves no pointer");
    assert_eq!(recover(&mut recovered, true, None).done().finalized_count, 0);
    retry_converges(&mut depot, &first, &request(2, "t2"), true);
    retry_converges(&mut recovered, &first, &request(2, "t2"), true);
}

/// The answer of the pointer's write is lost, and it did or did not happen: asking again finds out which (M17).
#[test]
fn k_c5_a_lost_answer_is_found_out_by_asking_again() {
    let first = request(2, "t");
    let mut landed = crashed(&first, CrashPoint::CatalogCommitPointerMoved);
    let answer = run(&mut landed, &first, None).done();
    assert_eq!((&*answer.table.version_token, answer.is_replay), ("t", false));
    let mut lost = crashed(&first, CrashPoint::CatalogCommitKeyStaged);
    assert_eq!(run(&mut lost, &first, None).done().table, answer.table);
    assert_eq!(lost.objects, landed.objects);
}

#[test]
fn k_c6_a_released_prefix_belongs_to_nobody() {
    let first = relocation(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitIndexReleased);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::FinalizationRequired);
    assert_eq!(owner(&depot, "tables/id-of-orders/x"), None);
    retry_converges(&mut depot, &first, &relocation(2, "t2"), true);
    // One write earlier, the old entry is still there, and is no owner either.
    let depot = crashed(&first, CrashPoint::CatalogCommitPointerMoved);
    assert_eq!(owner(&depot, "tables/id-of-orders/x"), None);
    assert_eq!(owner(&depot, "moved/orders/x").as_deref(), Some("sales.orders"));
}

#[test]
fn k_c7_a_stale_key_is_repaired() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitLogCommitted);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::IdempotencyIndexRepairRequired);
    let mut recovered = depot.clone();
    assert_eq!(recover(&mut recovered, true, None).done().finalized_count, 1);
    assert_eq!(state_of(&recovered, "commit-2"), RecoveryState::Committed);
    retry_converges(&mut depot, &first, &request(2, "t2"), true);
}

#[test]
fn k_c8_a_finished_commit_is_clean() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitKeyCommitted);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::Committed);
    retry_converges(&mut depot, &first, &request(2, "t2"), true);
}

/// Another commit of the same base, by another client.
fn other(fresh: &str) -> Request {
    let mut other = request(2, fresh);
    other.record.commit_id = "commit-9".to_owned();
    other.record.idempotency_key = None;
    other.record.new_metadata_location = fixture::location(9);
    other
}

#[test]
fn k_c9_a_staged_commit_that_was_overtaken_is_put_aside_when_asked() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitKeyStaged);
    run(&mut depot, &other("o"), None).done();
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::ManualReview);
    assert_eq!(run(&mut depot, &request(2, "t2"), None).refused().class, Class::Conflict);
    let mut manual = depot.clone();
    assert_eq!(recover(&mut manual, false, None).done().manual_review_count, 1);
    assert_eq!(manual.objects, depot.objects, "without being asked it stays for an operator");
    let report = recover(&mut depot, true, None).done();
    assert_eq!((report.manual_review_count, report.finalized_count), (0, 1));
    let kept = depot.get(&keys::abandoned(BUCKET, "id-of-orders", "commit-2")).unwrap();
    assert_eq!(*kept, first.record.encode(), "what is put aside is kept");
}

/// Every step of putting a commit aside may be the last: going on ends in the same state.
#[test]
fn k_c9_putting_a_commit_aside_goes_on_after_a_crash_at_any_step() {
    let mut depot = crashed(&request(2, "t"), CrashPoint::CatalogCommitKeyStaged);
    run(&mut depot, &other("o"), None).done();
    let mut whole = depot.clone();
    recover(&mut whole, true, None).done();
    for point in [
        CrashPoint::CatalogRecoveryAbandonedKept,
        CrashPoint::CatalogRecoveryAbandonedKeyRemoved,
        CrashPoint::CatalogRecoveryAbandonedLogRemoved,
    ] {
        let mut torn = depot.clone();
        assert_eq!(recover(&mut torn, true, Some(point)), End::Crashed);
        recover(&mut torn, true, None).done();
        assert_eq!(torn.objects, whole.objects, "{point}");
    }
}

/// A staged commit on what is current may be put aside, too; its client's retry then begins anew.
#[test]
fn a_staged_commit_that_was_put_aside_can_be_sent_again() {
    let first = request(2, "t");
    let mut depot = crashed(&first, CrashPoint::CatalogCommitKeyStaged);
    assert_eq!(recover(&mut depot, true, None).done().finalized_count, 1);
    assert_eq!(states(&depot).len(), 1);
    retry_converges(&mut depot, &first, &request(2, "t2"), false);
}

/// Its base is neither current nor known to be followed by another: nothing proves that it was not published.
#[test]
fn a_staged_commit_of_unknown_fate_is_never_put_aside() {
    let mut depot = crashed(&request(2, "t"), CrashPoint::CatalogCommitKeyStaged);
    depot.file(&fixture::table_at(5));
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::ManualReview);
    let before = depot.objects.clone();
    // Commit 1, too: recorded as committed, and no longer on the way to the pointer.
    assert_eq!(recover(&mut depot, true, None).done().manual_review_count, 2);
    assert_eq!(depot.objects, before);
}

#[test]
fn k_c10_a_published_commit_is_proven_by_those_that_build_on_it() {
    let mut depot = crashed(&request(2, &fixture::token(2)), CrashPoint::CatalogCommitPointerMoved);
    run(&mut depot, &request(3, &fixture::token(3)), None).done();
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::FinalizationRequired);
    let replay = run(&mut depot.clone(), &request(2, "t2"), None).done();
    assert_eq!((replay.table.generation, replay.is_replay), (4, true), "the current pointer");
    assert_eq!(recover(&mut depot, true, None).done().finalized_count, 1);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::Committed);
}

#[test]
fn k_w1_recovery_goes_on_after_the_log_was_rewritten() {
    let mut depot = crashed(&request(2, "t"), CrashPoint::CatalogCommitPointerMoved);
    let point = CrashPoint::CatalogRecoveryLogRewritten;
    assert_eq!(recover(&mut depot, true, Some(point)), End::Crashed);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::IdempotencyIndexRepairRequired);
    assert_eq!(recover(&mut depot, true, None).done().finalized_count, 1);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::Committed);
}

#[test]
fn f9_a_stale_base_moves_nothing() {
    let mut depot = Depot::with_orders(2);
    let before = depot.objects.clone();
    let refusal = run(&mut depot, &other("o"), None).refused();
    assert_eq!(refusal.class, Class::Conflict);
    assert_eq!(depot.objects, before);
    let stale_token = Request {
        record: CommitRecord {
            expected_version_token: "token-x".to_owned(),
            ..request(3, "t").record
        },
        ..request(3, "t")
    };
    assert_eq!(run(&mut depot, &stale_token, None).refused().class, Class::Conflict);
}

#[test]
fn f13_an_id_or_key_is_of_one_commit_only() {
    let mut depot = Depot::with_orders(1);
    run(&mut depot, &request(2, "t"), None).done();
    let before = depot.objects.clone();
    let mut changed = request(2, "t2");
    changed.record.requirements = vec![Json::Text("another".to_owned())];
    assert_eq!(run(&mut depot, &changed, None).refused().class, Class::Conflict);
    let mut renamed = request(2, "t2");
    renamed.record.commit_id = "commit-x".to_owned();
    assert_eq!(run(&mut depot, &renamed, None).refused().class, Class::Conflict);
    let mut writer = request(2, "t2");
    writer.record.writer = Some("somebody else".to_owned());
    assert_eq!(run(&mut depot, &writer, None).refused().class, Class::Conflict);
    assert_eq!(depot.objects, before);
}

#[test]
fn f14_a_key_without_its_commit_is_a_contradiction() {
    let mut depot = Depot::with_orders(1);
    run(&mut depot, &request(2, "t"), None).done();
    depot.remove(&keys::commit(BUCKET, "id-of-orders", "commit-2"));
    assert_eq!(run(&mut depot, &request(2, "t2"), None).refused().class, Class::Conflict);
}

#[test]
fn f15_a_conflicting_key_is_neither_followed_nor_overwritten() {
    let mut depot = Depot::with_orders(1);
    run(&mut depot, &request(2, "t"), None).done();
    let key = keys::idempotency_record(BUCKET, "id-of-orders", "key-2");
    let mut forged = fixture::keyed_commit(2, Status::Committed);
    forged.operation = "forged".to_owned();
    depot.put(&key, forged.encode());
    assert_eq!(run(&mut depot, &request(2, "t2"), None).refused().class, Class::Conflict);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::ManualReview);
    let before = depot.objects.clone();
    assert_eq!(recover(&mut depot, true, None).done().manual_review_count, 1);
    assert_eq!(depot.objects, before);
}

#[test]
fn f16_a_committed_record_over_an_older_pointer_is_a_contradiction() {
    let mut depot = Depot::with_orders(1);
    run(&mut depot, &request(2, "t"), None).done();
    depot.file(&fixture::table_at(1));
    assert_eq!(run(&mut depot, &request(2, "t2"), None).refused().class, Class::Conflict);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::ManualReview);
    assert_eq!(recover(&mut depot, true, None).done().manual_review_count, 1);
}

#[test]
fn a_failed_record_is_left_to_an_operator() {
    let mut depot = Depot::with_orders(1);
    depot.file(&fixture::keyed_commit(2, Status::Failed));
    assert_eq!(run(&mut depot, &request(2, "t"), None).refused().class, Class::Conflict);
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::ManualReview);
    assert_eq!(recover(&mut depot, true, None).done().manual_review_count, 1);
}

/// The lock is lost between the staged records and the pointer: nothing moves, and what was taken is given back.
#[test]
fn f17_what_a_commit_has_taken_is_given_back() {
    let first = relocation(2, "t");
    let depot = crashed(&first, CrashPoint::CatalogCommitIndexReserved);
    let undone = commit::undo(&read(&depot, &first), &first);
    let keys_of: Vec<_> = undone.iter().map(|write| write.key.clone()).collect();
    assert_eq!(keys_of, [keys::warehouse_index_entry(BUCKET, NEW)]);
    assert!(undone.iter().all(|write| write.is_best_effort));
    let fresh = Request { has_fresh_name: true, ..first.clone() };
    assert_eq!(commit::undo(&read(&depot, &fresh), &fresh).len(), 2, "and its own metadata file");
    let staged = crashed(&fresh, CrashPoint::CatalogCommitLogStaged);
    assert_eq!(commit::undo(&read(&staged, &fresh), &fresh), [], "a staged commit needs both");
    let done = crashed(&fresh, CrashPoint::CatalogCommitPointerMoved);
    assert_eq!(commit::undo(&read(&done, &fresh), &fresh), []);
}

#[test]
fn f20_a_commit_may_not_move_into_another_tables_prefix() {
    let mut depot = Depot::with_orders(1);
    let mut other = fixture::table("other");
    other.warehouse_location = format!("s3://{BUCKET}/moved");
    depot.add_table(&other);
    let before = depot.objects.clone();
    assert_eq!(run(&mut depot, &relocation(2, "t"), None).refused().class, Class::Conflict);
    assert_eq!(depot.objects, before, "and leaves nothing behind");
    let inside =
        Request { warehouse_location: format!("s3://{BUCKET}/.rustfs-table/x"), ..request(2, "t") };
    assert_eq!(run(&mut depot, &inside, None).refused().class, Class::Invalid);
}

#[test]
fn f21_a_fenced_table_takes_no_commit_and_tells_what_was_done_before() {
    let mut depot = Depot::with_orders(1);
    run(&mut depot, &request(2, "t"), None).done();
    let fence = BucketFence::preparing(BUCKET, "m", false, None);
    depot.put(&keys::bucket_fence(BUCKET), compact(&fence));
    assert_eq!(run(&mut depot, &request(3, "t"), None).refused().class, Class::Conflict);
    assert_eq!(recover(&mut depot, true, None).refused().class, Class::Conflict);
    let fenced = depot.objects.clone();
    let replay = run(&mut depot, &request(2, "t2"), None).done();
    assert_eq!((&*replay.table.version_token, replay.is_replay), ("t", true));
    assert_eq!(depot.objects, fenced, "a replay writes nothing");
    // What is not finished needs a write, and a fence takes none.
    depot.remove(&keys::bucket_fence(BUCKET));
    let mut staged = crashed(&request(2, "t"), CrashPoint::CatalogCommitPointerMoved);
    staged.put(&keys::bucket_fence(BUCKET), compact(&fence));
    assert_eq!(run(&mut staged, &request(2, "t2"), None).refused().class, Class::Conflict);
}

#[test]
fn publishing_what_is_current_is_no_change() {
    let mut depot = Depot::with_orders(1);
    let mut same = request(2, "t");
    same.record.new_metadata_location = fixture::location(1);
    let before = depot.objects.clone();
    let answer = run(&mut depot, &same, None).done();
    assert_eq!((answer.table, answer.is_replay), (fixture::table_at(1), true));
    assert_eq!(depot.objects, before);
}

#[test]
fn a_table_without_its_index_entry_gets_it_with_the_next_commit() {
    let mut depot = Depot::with_orders(1);
    depot.remove(&keys::warehouse_index_entry(BUCKET, OLD));
    run(&mut depot, &request(2, "t"), None).done();
    assert!(depot.reservation(OLD).is_some());
}

#[test]
fn a_step_that_fails_after_the_pointer_moved_fails_no_commit() {
    let first = Request { leaves_unfinished: true, ..request(2, "t") };
    let mut depot = crashed(&first, CrashPoint::CatalogCommitPointerMoved);
    assert_eq!(run(&mut depot, &first, None).done().table.version_token, "t");
    assert_eq!(state_of(&depot, "commit-2"), RecoveryState::FinalizationRequired);
}

#[test]
fn a_table_that_is_not_there_or_another_one_takes_no_commit() {
    let mut depot = Depot::with_orders(1);
    let mut other = request(2, "t");
    other.record.table_id = "another".to_owned();
    assert_eq!(run(&mut depot, &other, None).refused().class, Class::Conflict);
    depot.remove(&keys::table_entry(BUCKET, &fixture::identifier("orders")));
    assert_eq!(run(&mut depot, &request(2, "t"), None).refused().class, Class::NoSuchTable);
}

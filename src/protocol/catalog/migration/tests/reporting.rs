//! The report.

use crate::protocol::catalog::commit_record::Status as CommitStatus;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::preflight;
use crate::protocol::catalog::migration::preflight::Action;
use crate::protocol::catalog::migration::preflight::Blocker;
use crate::protocol::catalog::migration::preflight::Report;
use crate::protocol::catalog::migration::preflight::Status;
use crate::protocol::catalog::migration::tests::OTHER;
use crate::protocol::catalog::migration::tests::World;
use crate::protocol::catalog::migration::tests::rules;
use crate::protocol::catalog::refusal::Class;

/// The report on lake1 after `change`, in our words and in the reference's.
fn reports(change: impl FnOnce(&mut World)) -> (Report, Report) {
    let mut world = World::new();
    change(&mut world);
    let facts = world.facts(BUCKET).unwrap();
    let ours = preflight::report(&facts, &rules(), false).unwrap();
    (ours, preflight::report(&facts, &rules(), true).unwrap())
}

fn blocked(change: impl FnOnce(&mut World), status: Status, blocker: Blocker, action: Action) {
    let (ours, _) = reports(change);
    assert_eq!((ours.status, &*ours.blockers), (status, &[blocker][..]), "{:?}", ours.details);
    assert_eq!(ours.recommended_actions, [action]);
    assert!(!ours.details.is_empty());
}

#[test]
fn a_clean_bucket_is_ready() {
    let (ours, theirs) = reports(|_| {});
    assert_eq!(ours.status, Status::ReadyToSnapshot);
    assert_eq!(
        theirs.recommended_actions,
        [Action::SnapshotObjectBackedCatalog, Action::KeepObjectBackedRollbackConfig]
    );
    assert_eq!((ours.namespace_count, ours.table_count, ours.view_count), (1, 1, 1));
    assert_eq!((ours.commit_log_count, ours.idempotency_index_count), (2, 2));
    assert_eq!((ours.warehouse_prefix_count, ours.warehouse_index_ready), (1, true));
    let mut expected = ours;
    (expected.registry_fenced, expected.details) = (None, Vec::new());
    assert_eq!(theirs, expected, "the reference has no more members");
    assert!(!serde_json::to_string(&theirs).unwrap().contains("registry_fenced"));
}

#[test]
fn a_bucket_without_an_entry_has_no_report() {
    let mut world = World::new();
    world.depot.remove(&keys::bucket_entry(BUCKET));
    assert_eq!(world.report(BUCKET).unwrap_err().class, Class::NotFound);
}

#[test]
fn staged_commits_are_for_recovery() {
    let (status, blocker) = (Status::RecoveryRequired, Blocker::CommitRecoveryRequired);
    let staged = |world: &mut World| world.depot.file(&fixture::commit(3, CommitStatus::Staged));
    blocked(staged, status, blocker, Action::RunCatalogRecovery);
    let published =
        |world: &mut World| world.depot.file(&fixture::keyed_commit(2, CommitStatus::Staged));
    blocked(published, status, blocker, Action::RunCatalogRecovery);
}

/// An overtaken commit is for recovery with us, and for an operator with the reference.
#[test]
fn an_overtaken_commit_is_for_recovery_because_recovery_helps() {
    let overtaken = |world: &mut World| {
        let mut lost = fixture::commit(2, CommitStatus::Staged);
        lost.commit_id = "lost".to_owned();
        lost.new_version_token = "token-lost".to_owned();
        world.depot.file(&lost);
    };
    let (ours, theirs) = reports(overtaken);
    assert_eq!(
        (ours.status, &*ours.blockers),
        (Status::RecoveryRequired, &[Blocker::CommitRecoveryRequired][..])
    );
    assert_eq!(ours.recommended_actions, [Action::RunCatalogRecovery]);
    assert_eq!(theirs.status, Status::ManualReviewRequired);
    assert_eq!(theirs.blockers, [Blocker::CommitManualReviewRequired]);
    assert_eq!(theirs.recommended_actions, [Action::RunCatalogRecovery]);
}

#[test]
fn every_other_blocker_has_its_cause_and_its_action() {
    let manual = Status::ManualReviewRequired;
    blocked(
        |world| world.depot.file(&fixture::commit(9, CommitStatus::Committed)),
        manual,
        Blocker::CommitManualReviewRequired,
        Action::ReviewCommitLog,
    );
    blocked(
        |world| world.depot.remove(&keys::warehouse_index_state(BUCKET)),
        Status::RecoveryRequired,
        Blocker::WarehouseIndexBackfillRequired,
        Action::BackfillWarehouseIndex,
    );
    blocked(
        |world| {
            let mut nested = fixture::table("nested");
            nested.warehouse_location = "s3://lake1/tables/id-of-orders/x".to_owned();
            world.depot.file(&nested);
        },
        manual,
        Blocker::DuplicateWarehousePrefix,
        Action::ReviewDuplicateWarehousePrefixes,
    );
    blocked(
        |world| {
            let mut twin = fixture::table("twin");
            twin.metadata_location = fixture::location(2);
            twin.version_token = fixture::token(2);
            twin.table_id = "id-of-orders".to_owned();
            world.depot.file(&twin);
        },
        manual,
        Blocker::DuplicateTableIdentity,
        Action::ReviewDuplicateTableIdentities,
    );
    blocked(
        |world| world.depot.file(&fixture::view("orders")),
        manual,
        Blocker::TableViewIdentifierCollision,
        Action::ReviewTableViewIdentifierCollisions,
    );
    blocked(
        |world| world.unreadable.push(fixture::location(2)),
        manual,
        Blocker::CurrentMetadataUnreadable,
        Action::RestoreCurrentMetadataObject,
    );
    blocked(
        |world| {
            let mut off = fixture::namespace_entry("sales");
            off.state = crate::protocol::catalog::entry::State::Deleted;
            world.depot.file(&off);
        },
        manual,
        Blocker::SourceStateInvalid,
        Action::ReviewSourceState,
    );
}

#[test]
fn what_is_ours_alone_is_not_said_in_the_references_words() {
    let (_, theirs) = reports(|world| world.unreadable.push(fixture::location(2)));
    assert_eq!((theirs.status, &*theirs.blockers), (Status::ReadyToSnapshot, &[][..]));
    let mut world = World::new();
    world.post(BUCKET, Some(crate::protocol::crash_point::CrashPoint::CatalogMigrateBucketFenced));
    let facts = world.facts(BUCKET).unwrap();
    let theirs = preflight::report(&facts, &rules(), true).unwrap();
    assert_eq!(
        (theirs.status, theirs.object_backed_writes_fenced),
        (Status::ReadyToSnapshot, true)
    );
}

#[test]
fn a_materialized_bucket_says_what_is_left_to_do() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.status, Status::SnapshotMaterialized);
    assert_eq!(report.recommended_actions[1], Action::SnapshotRemainingTableBuckets);
    world.post(OTHER, None).done();
    let report = world.report(BUCKET).unwrap();
    assert!(report.ready_to_enable_durable_strong);
    assert_eq!(
        report.recommended_actions,
        [
            Action::VerifyDurableStrongSnapshot,
            Action::EnableDurableStrongBacking,
            Action::KeepObjectBackedRollbackConfig
        ]
    );
}

/// Goal: what was read between a commit's pointer and its records gives way to what is read once it has ended.
#[test]
fn a_second_look_takes_the_place_of_the_first() {
    let world = World::new();
    let later = world.source(BUCKET);
    assert_eq!(later.unfinished(), []);
    let mut source = later.clone();
    let table = source.tables[0].clone();
    let id = table.table_id.clone();
    source.commits.get_mut(&id).unwrap().last_mut().unwrap().status = CommitStatus::Staged;
    assert_eq!(source.unfinished(), std::slice::from_ref(&table));
    let (commits, keys) = (later.commits[&id].clone(), later.idempotency[&id].clone());
    source.replace(&table, Some(table.clone()), commits, keys);
    assert_eq!(source, later);
    source.replace(&table, None, Vec::new(), Vec::new());
    assert!(source.tables.is_empty() && !source.commits.contains_key(&id), "it was dropped");
}

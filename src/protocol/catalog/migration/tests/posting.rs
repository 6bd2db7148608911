//! POST, and what opens after it.

use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::Baseline;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::cancel;
use crate::protocol::catalog::migration::post::Status;
use crate::protocol::catalog::migration::preflight;
use crate::protocol::catalog::migration::source;
use crate::protocol::catalog::migration::tests::OTHER;
use crate::protocol::catalog::migration::tests::World;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::crash_point::CrashPoint;

const POINTS: [CrashPoint; 4] = [
    CrashPoint::CatalogMigrateRegistryFenced,
    CrashPoint::CatalogMigrateBucketFenced,
    CrashPoint::CatalogMigrateSnapshotWritten,
    CrashPoint::CatalogMigrateMaterialized,
];

fn crashed(after: CrashPoint) -> World {
    let mut world = World::new();
    assert_eq!(world.post(BUCKET, Some(after)), End::Crashed, "{after} is never passed");
    world.restarted()
}

/// A retry ends materialized, with the copy equal to the source and the first fence's identity.
fn converges(world: &World, expected: Status) {
    let mut world = world.restarted();
    let id = world.fence(BUCKET).map(|fence| fence.migration_id);
    let before = world.source_objects();
    let done = world.post(BUCKET, None).done();
    assert_eq!(done.status, expected);
    assert_eq!(world.source_objects(), before, "a migration copies and changes nothing");
    let fence = world.fence(BUCKET).unwrap();
    assert!(fence.is_materialized());
    assert!(id.is_none_or(|id| id == fence.migration_id), "a retry keeps the migration");
    let snapshot = codec::decode(world.depot.get(keys::SNAPSHOT).unwrap()).unwrap();
    let copied = fingerprint::of_bucket(&snapshot.contents, BUCKET);
    assert_eq!(copied.as_ref(), Some(&done.source_fingerprint));
    assert_eq!(fence.source_fingerprint, copied);
    assert!(!done.ready_to_enable_durable_strong, "the other bucket is left");
    assert!(world.post(OTHER, None).done().ready_to_enable_durable_strong);
}

/// A cancellation from here leaves everything as it was before.
fn cancels(world: &World, expected: cancel::Status) {
    let mut world = world.restarted();
    assert_eq!(world.cancel(BUCKET, None).done().status, expected);
    let mut before = World::new().depot.objects;
    let mut after = world.depot.objects.clone();
    for objects in [&mut before, &mut after] {
        objects.retain(|(_, key), _| key != keys::CANCELLED);
    }
    assert_eq!(after, before);
}

#[test]
fn a_post_writes_in_its_order() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    assert_eq!(world.depot.passed, POINTS);
}

#[test]
fn k_m1_a_registry_fence_alone_freezes_no_bucket() {
    let mut world = crashed(CrashPoint::CatalogMigrateRegistryFenced);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.status, preflight::Status::ReadyToSnapshot);
    assert_eq!((report.registry_fenced, report.object_backed_writes_fenced), (Some(true), false));
    assert!(report.recommended_actions.contains(&preflight::Action::RetryMigrationOrCancel));
    converges(&world, Status::SnapshotMaterialized);
    cancels(&world, cancel::Status::NoMigrationFence);
}

#[test]
fn k_m2_a_preparing_fence_is_gone_on_with_or_released() {
    let mut world = crashed(CrashPoint::CatalogMigrateBucketFenced);
    assert_eq!(world.fence(BUCKET).unwrap().baseline(), Baseline::Absent);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.status, preflight::Status::MigrationInProgress);
    assert!(report.object_backed_writes_fenced && report.blockers.is_empty());
    converges(&world, Status::SnapshotMaterialized);
    cancels(&world, cancel::Status::FenceReleased);
}

/// The first snapshot write of all is ambiguous: landed, and not landed; retried and cancelled; by the same process
/// and after a restart.
#[test]
fn k_m3_the_first_snapshot_write_is_ambiguous() {
    let landed = crashed(CrashPoint::CatalogMigrateSnapshotWritten);
    converges(&landed, Status::SnapshotAlreadyMaterialized);
    cancels(&landed, cancel::Status::FenceReleased);
    let lost = crashed(CrashPoint::CatalogMigrateBucketFenced);
    converges(&lost, Status::SnapshotMaterialized);
    cancels(&lost, cancel::Status::FenceReleased);
    // The process that sent it remembers that there must be a snapshot; the fence explains that there is none.
    let mut same = lost.clone();
    same.memory = same.memory.has_tried();
    assert_eq!(same.report(BUCKET).unwrap().status, preflight::Status::MigrationInProgress);
    assert!(same.report(OTHER).is_ok(), "and of every other bucket");
    assert_eq!(same.post(BUCKET, None).done().status, Status::SnapshotMaterialized);
    let mut same = lost;
    same.memory = same.memory.has_tried();
    assert_eq!(same.cancel(BUCKET, None).done().status, cancel::Status::FenceReleased);
    let mut other = crashed(CrashPoint::CatalogMigrateBucketFenced);
    other.memory = other.memory.has_tried();
    other.post(OTHER, None).done();
    assert_eq!(other.post(BUCKET, None).done().status, Status::SnapshotMaterialized);
}

#[test]
fn k_m3b_a_later_bucket_leaves_the_others_as_they_are() {
    let mut world = World::new();
    world.post(OTHER, None).done();
    let before = world.fence(OTHER).unwrap();
    let point = CrashPoint::CatalogMigrateSnapshotWritten;
    assert_eq!(world.post(BUCKET, Some(point)), End::Crashed);
    let snapshot = codec::decode(world.depot.get(keys::SNAPSHOT).unwrap()).unwrap();
    let other = fingerprint::of_bucket(&snapshot.contents, OTHER);
    assert_eq!(other, before.source_fingerprint);
    let done = world.restarted().post(BUCKET, None).done();
    assert_eq!(done.status, Status::SnapshotAlreadyMaterialized);
    assert!(done.ready_to_enable_durable_strong);
    // Not landed, and the answer lost: the snapshot that was there before is there still.
    let mut lost = World::new();
    lost.post(OTHER, None).done();
    lost.post(BUCKET, Some(CrashPoint::CatalogMigrateBucketFenced));
    lost.memory = lost.memory.has_tried();
    assert_eq!(lost.post(BUCKET, None).done().status, Status::SnapshotMaterialized);
}

#[test]
fn k_m4_a_materialized_fence_is_found_and_kept() {
    let world = crashed(CrashPoint::CatalogMigrateMaterialized);
    converges(&world, Status::SnapshotAlreadyMaterialized);
    cancels(&world, cancel::Status::FenceReleased);
}

/// A commit is under way when the POST asks for its locks. It ends first, or it finds a fence.
#[test]
fn k_m5_a_commit_is_copied_whole_or_refused() {
    for point in POINTS {
        let mut world = crashed(point);
        let facts = world.facts(BUCKET).unwrap();
        let is_fenced = point != CrashPoint::CatalogMigrateRegistryFenced;
        let permit = crate::protocol::catalog::object::permit::check_bucket(
            facts.fence(),
            crate::protocol::catalog::object::permit::Purpose::Change,
        );
        assert_eq!(permit.is_err(), is_fenced, "{point}");
    }
    // Half a commit is never copied.
    let mut world = World::new();
    world.depot.file(&fixture::commit(3, crate::protocol::catalog::commit_record::Status::Staged));
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert!(world.fence(BUCKET).is_none() && !world.has(keys::REGISTRY_FENCE));
}

#[test]
fn k_r1_a_cut_over_opens_what_was_copied() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.post(OTHER, None).done();
    let before = world.source_objects();
    let mut strong = world.restarted();
    assert_eq!(strong.open(Some(CrashPoint::CatalogCutOverRecorded)), End::Crashed);
    let mut strong = strong.restarted();
    strong.open(None).done();
    assert_eq!(strong.source_objects(), before);
    let facts = strong.facts(BUCKET).unwrap();
    let table = facts.target.as_ref().unwrap().snapshot.contents.clone();
    let table = table.table(BUCKET, &fixture::identifier("orders")).unwrap();
    assert_eq!(**table, fixture::table_at(2));
    // From here on the strong state moves on.
    let mut moved = Contents::clone(&facts.target.unwrap().snapshot.contents);
    let orders = TableEntry { generation: 99, ..TableEntry::clone(table) };
    crate::protocol::catalog::strong::tests::add_table(&mut moved, orders);
    strong.seed(&moved);
    strong.restarted().open(None).done();
    // And back in object mode what is stale is not served, and not cancelled either.
    let mut object = strong.restarted();
    let facts = object.facts(BUCKET).unwrap();
    let served = crate::protocol::catalog::object::permit::check_current(
        facts.cut_over.as_ref(),
        facts.fence(),
    );
    assert_eq!(served.unwrap_err().class, Class::Unavailable);
    assert_eq!(object.cancel(BUCKET, None).refused().class, Class::Conflict, "f50");
    let report = object.report(BUCKET).unwrap();
    assert_eq!(report.blockers, [preflight::Blocker::DurableStrongSnapshotChanged]);
}

#[test]
fn k_r2_a_cut_over_with_a_bucket_left_is_refused() {
    let mut world = World::new();
    assert_eq!(world.open(None).refused().class, Class::Unavailable, "f31: no snapshot");
    world.post(BUCKET, None).done();
    let mut early = world.restarted();
    let refusal = early.open(None).refused();
    assert_eq!(refusal.class, Class::Unavailable);
    assert!(refusal.text.contains(OTHER) && !early.has(keys::CUT_OVER));
    world.post(OTHER, None).done();
    world.depot.remove(keys::REGISTRY_FENCE);
    assert_eq!(world.restarted().open(None).refused().class, Class::Unavailable);
}

/// Nobody has taken over yet, and the snapshot is not what was copied: an older one was restored, or a bucket added.
#[test]
fn a_snapshot_that_is_not_what_was_copied_is_not_opened() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.post(OTHER, None).done();
    let target = world.facts(BUCKET).unwrap().target.unwrap();
    let mut older = Contents::clone(&target.snapshot.contents);
    older.views.clear();
    let mut grown = Contents::clone(&target.snapshot.contents);
    let entry = crate::protocol::catalog::entry::BucketEntry::new("lake9");
    grown.buckets.insert("lake9".to_owned(), std::sync::Arc::new(entry));
    for contents in [older, grown] {
        let mut world = world.restarted();
        world.seed(&contents);
        assert_eq!(world.open(None).refused().class, Class::Unavailable);
        assert!(!world.has(keys::CUT_OVER));
    }
    world.restarted().open(None).done();
}

#[test]
fn an_empty_snapshot_opens_nothing_that_is_object_backed() {
    let mut world = World::new();
    world.seed(&Contents::default());
    assert_eq!(world.open(None).refused().class, Class::Unavailable);
    world.depot.objects.retain(|(_, key), _| key == keys::SNAPSHOT);
    world.open(None).done();
}

#[test]
fn f23_a_blocker_leaves_no_fence() {
    let mut world = World::new();
    world.depot.remove(&keys::warehouse_index_state(BUCKET));
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.depot.passed, []);
}

#[test]
fn f14_a_key_without_its_commit_is_not_copied() {
    let mut world = World::new();
    let record =
        fixture::keyed_commit(7, crate::protocol::catalog::commit_record::Status::Committed);
    world.depot.put(&keys::idempotency_record(BUCKET, "id-of-orders", "key-7"), record.encode());
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.blockers, [preflight::Blocker::SourceStateInvalid]);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Invalid);
    assert_eq!(world.depot.passed, []);
}

#[test]
fn f24_an_invalid_fence_stops_everything_and_stays() {
    let mut world = World::new();
    let fence = BucketFence { version: 3, ..BucketFence::preparing(BUCKET, "m", false, None) };
    world.depot.put(&keys::bucket_fence(BUCKET), compact(&fence));
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Invalid);
    assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Invalid);
    assert_eq!(world.report(BUCKET).unwrap_err().class, Class::Invalid);
    let mut world = World::new();
    let registry = RegistryFence { version: 3, ..RegistryFence::new("m") };
    world.depot.put(keys::REGISTRY_FENCE, compact(&registry));
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Invalid);
    assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Invalid);
    assert_eq!(world.depot.passed, []);
}

#[test]
fn f25_a_source_that_changed_since_is_detected() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.post(OTHER, None).done();
    let mut edited = fixture::view("v");
    edited.generation = 9;
    world.depot.file(&edited);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.blockers, [preflight::Blocker::SourceChangedAfterMaterialization]);
    assert!(!report.ready_to_enable_durable_strong);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Conflict);
}

/// Another state of the bucket in the snapshot.
fn different(world: &mut World) -> Contents {
    let source = world.source(BUCKET);
    let mut contents = source::collect(&source, 1).unwrap().contents;
    contents.views.clear();
    contents
}

#[test]
fn f26_a_target_that_is_different_refuses_before_the_first_fence() {
    let mut world = World::new();
    let contents = different(&mut world);
    world.seed(&contents);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.blockers, [preflight::Blocker::DurableStrongSnapshotChanged]);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.depot.passed, [], "and freezes nobody");
    // Equal contents are taken as they are, and left there by a cancellation.
    let mut world = World::new();
    let equal = source::collect(&world.source(BUCKET), 1).unwrap().contents;
    world.seed(&equal);
    let done = world.post(BUCKET, None).done();
    assert_eq!(done.status, Status::SnapshotAlreadyMaterialized);
    assert!(world.fence(BUCKET).unwrap().target_bucket_existed);
    world.cancel(BUCKET, None).done();
    assert!(world.has(keys::SNAPSHOT) && !world.has(keys::REGISTRY_FENCE));
}

#[test]
fn f27_unknown_buckets_in_the_snapshot_are_for_an_operator() {
    let mut world = World::new();
    let mut contents = Contents::default();
    let entry = crate::protocol::catalog::entry::BucketEntry::new("lake9");
    contents.buckets.insert("lake9".to_owned(), std::sync::Arc::new(entry));
    world.seed(&contents);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.status, preflight::Status::ManualReviewRequired);
    assert_eq!(report.blockers, [preflight::Blocker::DurableStrongSnapshotChanged]);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
}

#[test]
fn f28_a_snapshot_that_vanished_stops_everything_and_keeps_the_fences() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.depot.remove(keys::SNAPSHOT);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Damaged, "this process saw it");
    assert_eq!(world.report(BUCKET).unwrap_err().class, Class::Damaged);
    let mut world = world.restarted();
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Conflict);
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.blockers, [preflight::Blocker::DurableStrongSnapshotChanged]);
    assert!(world.fence(BUCKET).is_some() && world.has(keys::REGISTRY_FENCE));
    assert_eq!(world.open(None).refused().class, Class::Unavailable);
}

#[test]
fn f29_a_fence_that_does_not_know_the_baseline_is_not_taken_for_none() {
    for etag in [None, Some("e")] {
        let mut world = World::new();
        let fence = BucketFence { version: 1, ..BucketFence::preparing(BUCKET, "m", false, etag) };
        world.depot.put(&keys::bucket_fence(BUCKET), compact(&fence));
        assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
        assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Conflict);
        assert_eq!(world.fence(BUCKET), Some(fence));
    }
}

#[test]
fn f55_what_is_another_buckets_is_not_copied() {
    let world = World::new();
    let mut source = world.source(BUCKET);
    source.namespaces[0].table_bucket = OTHER.to_owned();
    assert_eq!(source::collect(&source, 1).unwrap_err().class, Class::Invalid);
    let mut source = world.source(BUCKET);
    source.bucket = None;
    assert_eq!(source::collect(&source, 1).unwrap_err().class, Class::NotFound);
}

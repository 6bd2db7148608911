//! DELETE.

use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::cancel::Status;
use crate::protocol::catalog::migration::post;
use crate::protocol::catalog::migration::preflight;
use crate::protocol::catalog::migration::source;
use crate::protocol::catalog::migration::tests::OTHER;
use crate::protocol::catalog::migration::tests::World;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::crash_point::CrashPoint;

/// Both buckets are migrated, lake1 last.
fn migrated() -> World {
    let mut world = World::new();
    world.post(OTHER, None).done();
    world.post(BUCKET, None).done();
    world.depot.passed.clear();
    world
}

/// Only lake1 is migrated.
fn alone() -> World {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.depot.passed.clear();
    world
}

fn crashed(mut world: World, after: CrashPoint) -> World {
    assert_eq!(world.cancel(BUCKET, Some(after)), End::Crashed, "{after} is never passed");
    world.restarted()
}

fn is_writable(world: &World) -> bool {
    permit::check_bucket(world.fence(BUCKET).as_ref(), Purpose::Change).is_ok()
}

/// Everything is as before the first migration, but for the mark that says why.
fn is_undone(world: &World) {
    let mut objects = world.depot.objects.clone();
    objects.retain(|(_, key), _| key != keys::CANCELLED);
    assert_eq!(objects, World::new().depot.objects);
}

#[test]
fn the_last_cancellation_undoes_all_in_its_order() {
    let mut world = alone();
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::FenceReleased);
    use CrashPoint as P;
    let order = [
        P::CatalogCancelSnapshotWritten,
        P::CatalogCancelBucketReleased,
        P::CatalogCancelMarked,
        P::CatalogCancelSnapshotRemoved,
        P::CatalogCancelRegistryReleased,
    ];
    assert_eq!(world.depot.passed, order);
    is_undone(&world);
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::NoMigrationFence);
}

#[test]
fn k_d0_a_registry_fence_that_is_missing_is_raised_again() {
    let mut world = alone();
    world.depot.remove(keys::REGISTRY_FENCE);
    let mut world = crashed(world, CrashPoint::CatalogCancelRegistryFenced);
    assert!(!is_writable(&world));
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::FenceReleased);
    is_undone(&world);
}

#[test]
fn k_d1_a_bucket_that_is_out_of_the_snapshot_is_still_fenced() {
    let mut world = crashed(migrated(), CrashPoint::CatalogCancelSnapshotWritten);
    assert!(!is_writable(&world));
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.status, preflight::Status::CancelInProgress);
    assert_eq!(report.recommended_actions[0], preflight::Action::RetryMigrationOrCancel);
    assert!(report.blockers.is_empty());
    let mut again = world.clone();
    let done = again.post(BUCKET, None).done();
    assert_eq!(done.status, post::Status::SnapshotMaterialized);
    assert!(done.ready_to_enable_durable_strong);
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::FenceReleased);
    assert!(is_writable(&world) && world.has(keys::REGISTRY_FENCE));
}

/// Between the two, somebody who knows no fence has written: neither way goes on.
#[test]
fn f25_a_source_that_changed_during_a_cancellation_is_detected() {
    let mut world = crashed(migrated(), CrashPoint::CatalogCancelSnapshotWritten);
    let mut edited = crate::protocol::catalog::fixture::view("v");
    edited.generation = 9;
    world.depot.file(&edited);
    assert_eq!(world.post(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.cancel(BUCKET, None).refused().class, Class::Conflict);
}

#[test]
fn k_d2_a_released_bucket_is_writable_while_the_registry_is_fenced() {
    let mut world = crashed(alone(), CrashPoint::CatalogCancelBucketReleased);
    assert!(is_writable(&world) && world.has(keys::REGISTRY_FENCE));
    let report = world.report(BUCKET).unwrap();
    assert_eq!(report.registry_fenced, Some(true));
    assert_eq!(world.open(None).refused().class, Class::Unavailable, "and nobody opens it");
    let mut again = world.clone();
    again.post(BUCKET, None).done();
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::NoMigrationFence);
    is_undone(&world);
}

/// The snapshot goes with its mark; in between, and after, every process can go on.
#[test]
fn k_d2_the_empty_snapshot_goes_and_is_not_missed() {
    for point in [CrashPoint::CatalogCancelMarked, CrashPoint::CatalogCancelSnapshotRemoved] {
        let mut world = crashed(alone(), point);
        world.post(BUCKET, None).done();
        let mut world = crashed(alone(), point);
        world.cancel(BUCKET, None).done();
        is_undone(&world);
    }
    // A process that had seen the full snapshot, and not the cancellation.
    let mut other = alone();
    other.report(BUCKET).unwrap();
    let mut world = other.clone();
    world.cancel(BUCKET, None).done();
    other.depot = world.depot.clone();
    assert_eq!(other.report(BUCKET).unwrap().status, preflight::Status::ReadyToSnapshot);
    let seen = other.post(BUCKET, None).done();
    assert_eq!(seen.status, post::Status::SnapshotMaterialized);
    let epoch = other.depot.epoch;
    assert!(epoch > world.facts(BUCKET).unwrap().cancelled.map(|it| it.epoch), "epochs go up");
}

#[test]
fn k_d3_all_is_normal_again() {
    let mut world = crashed(alone(), CrashPoint::CatalogCancelRegistryReleased);
    is_undone(&world);
    assert_eq!(world.report(BUCKET).unwrap().registry_fenced, Some(false));
    let before = world.depot.objects.clone();
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::NoMigrationFence);
    assert_eq!(world.depot.objects, before);
}

#[test]
fn the_first_of_two_keeps_the_registry_fence_and_the_last_releases_it() {
    let mut world = migrated();
    world.cancel(BUCKET, None).done();
    assert!(world.has(keys::REGISTRY_FENCE) && world.fence(OTHER).is_some());
    let snapshot = codec::decode(world.depot.get(keys::SNAPSHOT).unwrap()).unwrap();
    assert_eq!(snapshot.contents.bucket_names().into_iter().collect::<Vec<_>>(), [OTHER]);
    world.cancel(OTHER, None).done();
    is_undone(&world);
}

/// In the reference, the later migration of another bucket has to be refreshed first.
#[test]
fn f51_another_buckets_migration_does_not_stop_a_cancellation() {
    let mut world = World::new();
    world.post(BUCKET, None).done();
    world.post(OTHER, None).done();
    assert_eq!(world.cancel(BUCKET, None).done().status, Status::FenceReleased);
}

#[test]
fn f50_a_strong_state_that_has_moved_on_is_not_cancelled() {
    let mut world = migrated();
    world.open(None).done();
    let facts = world.facts(BUCKET).unwrap();
    let mut moved = crate::protocol::catalog::snapshot::contents::Contents::clone(
        &facts.target.unwrap().snapshot.contents,
    );
    moved.views.clear();
    world.seed(&moved);
    let before = world.depot.objects.clone();
    assert_eq!(world.restarted().cancel(BUCKET, None).refused().class, Class::Conflict);
    // A bucket that only the strong state has would be lost with the last cancellation.
    let mut grown = migrated();
    grown.open(None).done();
    let mut contents = grown.facts(BUCKET).unwrap().target.unwrap().snapshot.contents;
    let entry = crate::protocol::catalog::entry::BucketEntry::new("lake9");
    std::sync::Arc::make_mut(&mut contents).buckets.insert("lake9".to_owned(), entry.into());
    grown.seed(&contents);
    assert_eq!(grown.restarted().cancel(BUCKET, None).refused().class, Class::Conflict);
    assert_eq!(world.depot.objects, before);
}

/// The snapshot had the bucket before: a cancellation leaves it there, and only as it was copied.
#[test]
fn f50_a_bucket_that_was_there_before_has_to_be_unchanged_too() {
    let mut world = World::new();
    let equal = source::collect(&world.source(BUCKET), 1).unwrap().contents;
    world.seed(&equal);
    world.post(BUCKET, None).done();
    let mut moved = equal;
    moved.views.clear();
    world.seed(&moved);
    assert_eq!(world.restarted().cancel(BUCKET, None).refused().class, Class::Conflict);
    assert!(world.fence(BUCKET).is_some());
}

#[test]
fn back_to_objects_before_any_strong_change() {
    let mut world = migrated();
    world.open(None).done();
    let mut object = world.restarted();
    object.cancel(BUCKET, None).done();
    assert!(object.has(keys::CUT_OVER), "until the last");
    object.cancel(OTHER, None).done();
    is_undone(&object);
}

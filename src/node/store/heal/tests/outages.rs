//! Drives that were away, are replaced, or come back with what was deleted.

use super::bench::*;
use crate::disk::drive::Effect;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;
use crate::protocol::replacement::scan::Class;
use crate::value::VersionId;

const LARGE: usize = 1_500_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_drive_missed_follows_by_itself_when_it_is_back() {
    let bench = Bench::new(4).await;
    bench.put("gone", &bytes(1, LARGE)).await.unwrap();
    bench.put("over", b"old").await.unwrap();
    bench.quiet().await;
    bench.set([2], Fault::Away);
    bench.put("new", &bytes(2, LARGE)).await.unwrap();
    bench.put("over", b"new").await.unwrap();
    bench.delete("gone", None).await.unwrap();
    bench.store.create_bucket("later").await.unwrap();
    bench.quiet().await;
    assert!(bench.queued(0) > 0, "what is missing is queued durably");
    bench.heal_faults();
    assert!(matches!(bench.get("gone").await, Err(StoreError::NoSuchKey(_))));
    assert_eq!(bench.get("over").await.unwrap(), b"new");
    bench.work_off().await;
    assert!(bench.meta(2, "new").is_some());
    assert!(bench.meta(2, "gone").is_none(), "an acknowledged delete is completed");
    assert!(bench.root(2).join("later").exists());
    for slot in 0..4 {
        assert_eq!(bench.queued(slot), 0);
    }
    let progress = bench.heal_all(true).await;
    assert_eq!((progress.healed, progress.unhealed), (0, 0), "{:?}", progress.problems);
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_survives_the_death_of_the_node() {
    let mut bench = Bench::new(4).await;
    bench.set([1], Fault::Away);
    bench.versioning(BucketState::Enabled).await;
    let first = bench.put("k", b"one").await.unwrap();
    bench.delete("k", None).await.unwrap();
    bench.put("k", &bytes(3, LARGE)).await.unwrap();
    bench.quiet().await;
    bench.restart();
    bench.heal_faults();
    bench.work_off().await;
    assert_eq!(bench.meta(1, "k").unwrap().versions().len(), 3);
    assert_eq!(bench.get_version("k", first.version.unwrap()).await.unwrap(), b"one");
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_drives_as_there_is_parity_may_be_gone_in_any_way() {
    let large = bytes(9, LARGE);
    for (n, parity) in [(4, 2), (6, 3), (12, 4)] {
        for fault in [Fault::Away, Fault::Failing, Fault::Full, Fault::Hung] {
            let bench = Bench::new(n).await;
            bench.put("small", b"contents").await.unwrap();
            bench.put("large", &large).await.unwrap();
            bench.quiet().await;
            bench.set(0..parity, fault);
            assert_eq!(bench.get("small").await.unwrap(), b"contents", "{n} {fault:?}");
            assert!(bench.get("large").await.unwrap() == large, "{n} {fault:?}");
            assert_eq!(bench.keys().await, ["large", "small"], "{n} {fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_its_quorum_is_not_done_or_unknown_and_settles_either_way() {
    for fault in [Fault::Away, Fault::Full, Fault::Fenced, Fault::Mute] {
        let bench = Bench::new(4).await;
        bench.put("k", b"before").await.unwrap();
        bench.quiet().await;
        bench.set([0, 1], fault);
        let error = bench.put("k", b"after").await.unwrap_err();
        let is_unknown = error.effect() == Effect::Unknown;
        assert_eq!(is_unknown, fault == Fault::Mute, "{fault:?}: {error}");
        let fresh = bench.put("fresh", b"after").await.unwrap_err();
        assert_eq!(fresh.effect() == Effect::Unknown, is_unknown, "{fault:?}: {fresh}");
        bench.heal_faults();
        bench.quiet().await;
        let read = bench.get("k").await.unwrap();
        if !is_unknown {
            assert_eq!(read, b"before", "{fault:?}");
            assert!(matches!(bench.get("fresh").await, Err(StoreError::NoSuchKey(_))));
        }
        bench.work_off().await;
        bench.heal_all(true).await;
        assert_eq!(bench.get("k").await.unwrap(), read, "what was read stays, {fault:?}");
        let progress = bench.heal_all(true).await;
        assert_eq!((progress.healed, progress.unhealed), (0, 0), "{:?}", progress.problems);
        bench.sweep().await;
        bench.audit();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blank_drive_is_given_its_format_and_everything_that_it_should_have() {
    for n in [4, 6] {
        let bench = Bench::new(n).await;
        bench.put("a/small", b"x").await.unwrap();
        bench.put("large", &bytes(4, LARGE)).await.unwrap();
        bench.put("empty", b"").await.unwrap();
        bench.versioning(BucketState::Enabled).await;
        bench.put("large", b"second").await.unwrap();
        bench.delete("a/small", None).await.unwrap();
        bench.quiet().await;
        bench.replace(1);
        let id = bench.adopt_blank(0, 1).await;
        // Writes go on while it is rebuilt.
        bench.put("meanwhile", &bytes(5, LARGE)).await.unwrap();
        let progress = bench.healed(id).await;
        assert_eq!(progress.unhealed, 0, "{:?}", progress.problems);
        let progress = bench.heal_all(true).await;
        assert_eq!(progress.unhealed, 0, "{:?}", progress.problems);
        let again = bench.heal_all(true).await;
        assert_eq!((again.healed, again.unhealed), (0, 0), "{:?}", again.problems);
        bench.quiet().await;
        bench.audit();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_copy_of_what_was_deleted_stays_hidden_and_goes_to_quarantine() {
    let bench = Bench::new(4).await;
    bench.versioning(BucketState::Enabled).await;
    let version = bench.put("k", &bytes(6, LARGE)).await.unwrap().version.unwrap();
    let kept = bench.put("k", b"kept").await.unwrap().version.unwrap();
    bench.quiet().await;
    let stale = bench.snapshot(3);
    bench.delete("k", Some(version)).await.unwrap();
    bench.quiet().await;
    bench.restore(3, &stale);
    let ids = |rows: Vec<(String, String, bool)>| rows.into_iter().map(|it| it.1);
    assert_eq!(ids(bench.versions().await).collect::<Vec<_>>(), [kept.to_string()]);
    assert!(matches!(bench.get_version("k", version).await, Err(StoreError::NoSuchVersion { .. })));

    bench.set([0], Fault::Away);
    bench.heal_all(true).await;
    assert_eq!(bench.meta(3, "k").unwrap().versions().len(), 2, "not while a drive is away");
    bench.heal_faults();
    let progress = bench.heal_all(false).await;
    assert_eq!((progress.unhealed, progress.quarantined), (0, 1), "{:?}", progress.problems);
    assert_eq!(bench.meta(3, "k").unwrap().versions().len(), 1);
    assert!(bench.root(3).join(".rustfs.sys/quarantine").read_dir().unwrap().count() > 0);
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn within_its_grace_nothing_goes_and_the_grace_is_counted_on_the_drives() {
    let mut bench = Bench::new(4).await;
    bench.put("k", b"x").await.unwrap();
    bench.quiet().await;
    let stale = bench.snapshot(3);
    bench.delete("k", None).await.unwrap();
    bench.quiet().await;
    bench.restore(3, &stale);
    bench.grace(1);
    let first = bench.heal_all(false).await;
    assert_eq!((first.quarantined, first.unhealed, first.waiting), (0, 0, 1));
    // A new process knows since when, because the drives do; but its drives have only just come back.
    bench.restart_with_grace(1);
    assert!(bench.heal_all(false).await.quarantined == 0);
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    let last = bench.heal_all(false).await;
    assert_eq!((last.quarantined, last.unhealed), (1, 0), "{:?}", last.problems);
    assert!(bench.meta(3, "k").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_value_that_stopped_halfway_does_not_cost_an_acknowledged_one_its_shard() {
    let mut bench = Bench::new(4).await;
    bench.grace(86_400);
    bench.put("k", &bytes(7, LARGE)).await.unwrap();
    bench.quiet().await;
    let before = [0, 1, 2].map(|slot| (slot, bench.snapshot(slot)));
    bench.put("k", &bytes(8, LARGE)).await.unwrap();
    bench.quiet().await;
    for (slot, snapshot) in &before {
        bench.restore(*slot, snapshot);
    }
    assert!(bench.get("k").await.unwrap() == bytes(7, LARGE));
    let progress = bench.heal_all(true).await;
    assert_eq!((progress.quarantined, progress.unhealed), (1, 0), "{:?}", progress.problems);
    assert!(bench.root(3).join(".rustfs.sys/quarantine").read_dir().unwrap().count() > 0);
    assert!(bench.get("k").await.unwrap() == bytes(7, LARGE));
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_while_a_drive_was_away_is_never_seen_off() {
    let mut bench = Bench::new(4).await;
    bench.put("k", b"x").await.unwrap();
    bench.quiet().await;
    let stale = bench.snapshot(3);
    bench.delete("k", None).await.unwrap();
    bench.quiet().await;
    bench.restore(3, &stale);
    // Drive 0 was last seen long before: that it lacks the version says nothing.
    let presence = ".rustfs.sys/buckets/.heal/firedrill/presence.json";
    let long_ago = br#"{"format":1,"alive_ns":1,"absent_from_ns":0,"absent_until_ns":0}"#;
    std::fs::write(bench.root(0).join(presence), long_ago).unwrap();
    bench.restart();
    let progress = bench.heal_all(true).await;
    assert_eq!(progress.quarantined, 0);
    assert!(progress.problems.iter().any(|it| it.contains("was away")), "{:?}", progress.problems);
    assert!(bench.meta(3, "k").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_drives_away_than_parity_cost_nothing_once_they_are_back() {
    let bench = Bench::new(4).await;
    for key in 0..10 {
        bench.put(&format!("k{key}"), &bytes(key, 400_000)).await.unwrap();
    }
    bench.quiet().await;
    bench.set([0, 1, 2], Fault::Away);
    assert!(bench.get("k1").await.is_err());
    assert!(bench.put("k1", b"no").await.is_err());
    bench.heal_all(true).await;
    bench.heal_faults();
    let progress = bench.heal_all(true).await;
    assert_eq!((progress.quarantined, progress.unhealed), (0, 0), "{:?}", progress.problems);
    for key in 0..10 {
        assert!(bench.get(&format!("k{key}")).await.unwrap() == bytes(key, 400_000));
    }
    bench.quiet().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_made_again_shows_nothing_of_the_one_before() {
    let bench = Bench::new(4).await;
    bench.put("old", &bytes(1, LARGE)).await.unwrap();
    bench.put("both", b"old").await.unwrap();
    bench.quiet().await;
    bench.set([3], Fault::Away);
    bench.delete("old", None).await.unwrap();
    bench.delete("both", None).await.unwrap();
    bench.quiet().await;
    bench.store.delete_bucket("bkt").await.unwrap();
    bench.store.create_bucket("bkt").await.unwrap();
    bench.put("both", b"new").await.unwrap();
    bench.quiet().await;
    bench.heal_faults();
    assert_eq!(bench.keys().await, ["both"]);
    assert_eq!(bench.get("both").await.unwrap(), b"new");
    bench.work_off().await;
    let progress = bench.heal_all(true).await;
    assert_eq!(progress.unhealed, 0, "{:?}", progress.problems);
    assert_eq!(bench.keys().await, ["both"]);
    assert!(bench.meta(3, "old").is_none());
    assert_eq!(
        bench.meta(3, "both").unwrap().find(VersionId::NULL),
        bench.meta(3, "both").unwrap().latest()
    );
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_gone_goes_from_drives_that_were_away() {
    let bench = Bench::new(4).await;
    bench.put("k", b"x").await.unwrap();
    bench.quiet().await;
    bench.set([3], Fault::Away);
    bench.delete("k", None).await.unwrap();
    bench.quiet().await;
    bench.store.delete_bucket("bkt").await.unwrap();
    bench.quiet().await;
    bench.heal_faults();
    assert!(bench.store.list_buckets().await.unwrap().is_empty());
    bench.work_off().await;
    assert!(!bench.root(3).join("bkt").exists());
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sets_are_healed_alike() {
    let bench = Bench::with_sets(2, 4).await;
    for key in 0..12 {
        bench.put(&format!("k{key}"), &bytes(key, 10_000)).await.unwrap();
    }
    bench.quiet().await;
    bench.replace(1);
    bench.replace(6);
    let first = bench.adopt_blank(0, 1).await;
    let second = bench.adopt_blank(1, 2).await;
    bench.healed(first).await;
    bench.healed(second).await;
    let progress = bench.heal_all(true).await;
    assert_eq!(progress.unhealed, 0, "{:?}", progress.problems);
    bench.quiet().await;
    bench.audit();
}

/// Goal: a write that was interrupted on a minority of drives, one of which is being rebuilt, lies on top of an
/// acknowledged one: it cannot have been acknowledged, and the rebuild does not wait for it for ever. The more drives are
/// rebuilt, the fewer say so.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_write_does_not_keep_a_rebuild_from_ending() {
    for targets in [vec![1], vec![1, 4]] {
        let bench = Bench::new(6).await;
        bench.put("k", &bytes(1, LARGE)).await.unwrap();
        bench.quiet().await;
        for target in &targets {
            bench.replace(*target);
            bench.format_blank(0, *target).await;
            std::fs::create_dir(bench.root(*target).join("bkt")).unwrap();
        }
        let first = bench.store.rebuild_page(0, "bkt", "", 10, &targets).await;
        assert!(first.outcomes.iter().all(|outcome| outcome.class == Class::Rebuilt));
        let before: Vec<_> = (2..6).map(|slot| bench.snapshot(slot)).collect();
        bench.put("k", &bytes(2, LARGE)).await.unwrap();
        bench.quiet().await;
        // Two of six drives have the newer one, a target among them.
        for (slot, copy) in (2..6).zip(&before) {
            bench.restore(slot, copy);
        }
        let page = bench.store.rebuild_page(0, "bkt", "", 10, &targets).await;
        assert_eq!((page.broken, page.away), (None, None));
        let classes: Vec<_> = page.outcomes.iter().map(|outcome| outcome.class).collect();
        assert_eq!(classes, [Class::Rebuilt], "{targets:?} have what was acknowledged");
        assert!(bench.get("k").await.unwrap() == bytes(1, LARGE));
        for slot in 0..6 {
            assert_eq!(bench.meta(slot, "k").unwrap().versions().len(), 1, "drive {slot}");
        }
    }
}

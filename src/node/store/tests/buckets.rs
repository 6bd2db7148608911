//! Buckets that come and go, also while drives are away.

use std::sync::Arc;

use super::bench::*;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;
use crate::protocol::rules::Sound;

async fn names(bench: &Bench) -> Vec<String> {
    let buckets = bench.store.list_buckets().await.unwrap();
    buckets.into_iter().map(|bucket| bucket.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_are_made_once_and_removed_when_empty() {
    for (sets, n) in [(1, 1), (1, 4), (2, 4)] {
        let bench = Bench::with(sets, n, Arc::new(Sound));
        assert!(names(&bench).await.is_empty());
        bench.store.create_bucket("bkt").await.unwrap();
        bench.store.create_bucket("other").await.unwrap();
        assert_eq!(names(&bench).await, ["bkt", "other"]);
        let again = bench.store.create_bucket("bkt").await;
        assert_eq!(again, Err(StoreError::BucketExists("bkt".to_owned())));
        for illegal in ["", "a", "Upper", ".rustfs.sys", "a/b"] {
            assert!(bench.store.create_bucket(illegal).await.is_err(), "{illegal:?}");
            assert!(bench.store.bucket(illegal).await.is_err(), "{illegal:?}");
        }
        assert_eq!(bench.store.bucket("bkt").await.unwrap().state, BucketState::Unversioned);
        bench.store.set_versioning("bkt", BucketState::Enabled).await.unwrap();
        assert_eq!(bench.store.bucket("bkt").await.unwrap().state, BucketState::Enabled);

        let version = bench.put("a/b/c", b"x").await.unwrap().version;
        let marker = bench.delete("a/b/c", None).await.unwrap().version;
        let full = Err(StoreError::BucketNotEmpty("bkt".to_owned()));
        assert_eq!(bench.store.delete_bucket("bkt").await, full);
        bench.delete("a/b/c", version).await.unwrap();
        assert_eq!(bench.store.delete_bucket("bkt").await, full, "a marker is a version too");
        bench.delete("a/b/c", marker).await.unwrap();
        bench.quiet().await;
        bench.store.delete_bucket("bkt").await.unwrap();
        let none = Err(StoreError::NoSuchBucket("bkt".to_owned()));
        assert_eq!(bench.store.delete_bucket("bkt").await, none);
        assert!(matches!(bench.put("k", b"x").await, Err(StoreError::NoSuchBucket(_))));
        assert!(matches!(bench.get("k").await, Err(StoreError::NoSuchBucket(_))));
        assert_eq!(names(&bench).await, ["other"]);
        bench.store.create_bucket("bkt").await.unwrap();
        let state = bench.store.bucket("bkt").await.unwrap().state;
        assert_eq!(state, BucketState::Unversioned, "the new one knows nothing of the old one");
        if sets == 1 {
            bench.audit().await;
        }
    }
}

/// Goal: a drive that slept through the end of a bucket and the beginning of another of the same name brings no
/// old key back and loses no new one, whatever else is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_drive_does_not_bring_an_old_bucket_back() {
    for sleeper in 0..4 {
        let bench = Bench::new(4, BucketState::Enabled).await;
        bench.put("old", b"old").await.unwrap();
        bench.put("both", b"old").await.unwrap();
        bench.quiet().await;
        bench.set_mood([sleeper], Mood::Offline);
        for entry in bench
            .store
            .list_versions(ListRequest {
                bucket: "bkt".to_owned(),
                limit: 10,
                ..ListRequest::default()
            })
            .await
            .unwrap()
            .entries
        {
            bench.delete(&entry.target.key, Some(entry.version)).await.unwrap();
        }
        bench.quiet().await;
        bench.store.delete_bucket("bkt").await.unwrap();
        bench.store.create_bucket("bkt").await.unwrap();
        bench.put("both", b"new").await.unwrap();
        bench.put("new", b"new").await.unwrap();
        bench.quiet().await;
        for away in [vec![], vec![(sleeper + 1) % 4], vec![(sleeper + 2) % 4]] {
            bench.all_good();
            bench.set_mood(away.clone(), Mood::Offline);
            let story = format!("{sleeper} slept, {away:?} away");
            assert!(matches!(bench.get("old").await, Err(StoreError::NoSuchKey(_))), "{story}");
            assert_eq!(bench.get("both").await.unwrap(), b"new", "{story}");
            assert_eq!(bench.get("new").await.unwrap(), b"new", "{story}");
            let listed = bench.store.list_versions(ListRequest {
                bucket: "bkt".to_owned(),
                limit: 10,
                ..ListRequest::default()
            });
            let listed = listed.await.unwrap().entries;
            let keys: Vec<_> = listed.iter().map(|it| it.target.key.as_str()).collect();
            assert_eq!(keys, ["both", "new"], "{story}");
            assert_eq!(bench.store.bucket("bkt").await.unwrap().state, BucketState::Unversioned);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drive_that_missed_the_bucket_takes_part_as_soon_as_it_is_back() {
    let bench = Bench::with(1, 4, Arc::new(Sound));
    bench.set_mood([2], Mood::Offline);
    bench.store.create_bucket("bkt").await.unwrap();
    bench.put("early", b"x").await.unwrap();
    bench.all_good();
    assert!(!bench.root(2).join("bkt").exists());
    bench.put("late", b"x").await.unwrap();
    bench.quiet().await;
    assert_eq!(bench.held(2, "late").len(), 1, "its directory was made on the way");
    assert_eq!(bench.get("early").await.unwrap(), b"x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_no_bucket_is_made_or_removed() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    for mood in [Mood::Offline, Mood::Failing] {
        bench.set_mood([0, 1], mood);
        assert!(bench.store.create_bucket("new").await.is_err());
        assert!(bench.store.delete_bucket("bkt").await.is_err());
        bench.all_good();
        bench.quiet().await;
        assert_eq!(names(&bench).await, ["bkt"]);
        bench.put("k", b"x").await.unwrap();
        assert_eq!(bench.get("k").await.unwrap(), b"x");
    }
}

/// Goal: a write and the removal of its bucket at the same time: either the write is refused or the bucket stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_does_not_slip_into_a_bucket_that_is_being_removed() {
    let bench = Bench::with(1, 4, Arc::new(Sound));
    let (mut kept, mut gone) = (0, 0);
    for round in 0..30_u64 {
        bench.store.create_bucket("bkt").await.unwrap();
        let store = Arc::clone(&bench.store);
        let put = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_micros(200 * round)).await;
            store.put(put_request(key("bkt", "k"), 1), body(b"x")).await
        });
        let removed = bench.store.delete_bucket("bkt").await;
        let put = put.await.unwrap();
        bench.quiet().await;
        match removed {
            Ok(()) => {
                assert!(put.is_err(), "{round}: {put:?}");
                gone += 1;
            }
            Err(error) => {
                assert!(matches!(error, StoreError::BucketNotEmpty(_)), "{round}: {error}");
                assert_eq!(bench.get("k").await.is_ok(), put.is_ok(), "{round}: {put:?}");
                kept += 1;
                bench.delete("k", None).await.unwrap();
                bench.quiet().await;
                bench.store.delete_bucket("bkt").await.unwrap();
            }
        }
    }
    assert!(gone > 0, "{kept} kept, {gone} gone");
}

//! Objects of the system volume, with their conditions and the locks they are written under.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::bench::Bench;
use super::bench::contents;
use super::seams::Mood;
use crate::node::seams::LockMode;
use crate::node::store::api::StoreError;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::protocol::object::effect::BucketState;

const KEY: &str = "s3tables/catalog/a/b.json";

fn absent() -> Conditions {
    Conditions { if_none_match: Some(Tags::Any), ..Conditions::default() }
}

fn matching(etag: &str) -> Conditions {
    Conditions { if_match: Some(Tags::OneOf(vec![etag.to_owned()])), ..Conditions::default() }
}

async fn write(bench: &Bench, bytes: &[u8], when: Conditions) -> Result<String, StoreError> {
    let bytes = Bytes::copy_from_slice(bytes);
    bench.store.write_system(KEY, bytes, BTreeMap::new(), when, &[]).await
}

#[tokio::test]
async fn objects_are_compared_by_their_etags() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    assert_eq!(bench.store.read_system(KEY).await.unwrap(), None);
    let first = write(&bench, b"one", absent()).await.unwrap();
    assert_eq!(first, "f97c5d29941bfb1b2fdab0874906ab82", "the MD5 of the contents");
    for when in [absent(), matching("another")] {
        let refused = write(&bench, b"two", when).await.unwrap_err();
        assert!(matches!(refused, StoreError::Condition { .. }), "{refused}");
    }
    // Too large for the metadata: it goes through the staging area.
    let large = contents(3 << 20, 7);
    let user = BTreeMap::from([("epoch".to_owned(), "2".to_owned())]);
    let bytes = Bytes::copy_from_slice(&large);
    let second = bench.store.write_system(KEY, bytes, user.clone(), matching(&first), &[]).await;
    bench.set_mood([0], Mood::Offline);
    let found = bench.store.read_system(KEY).await.unwrap().unwrap();
    assert_eq!((found.contents.as_ref(), &found.stat.user), (large.as_slice(), &user));
    assert_eq!(Ok(&found.stat.etag), second.as_ref());
    assert_eq!(bench.store.stat_system(KEY).await.unwrap(), Some(found.stat.clone()));

    let listed = bench.store.list_system("s3tables/catalog/a/").await.unwrap();
    assert_eq!(listed, [(KEY.to_owned(), found.stat.clone())]);
    assert_eq!(bench.store.list_system("s3tables/catalog/b").await.unwrap(), []);
    let stale = bench.store.remove_system(KEY, matching(&first), &[]).await;
    assert!(matches!(stale, Err(StoreError::Condition { .. })), "{stale:?}");
    bench.store.remove_system(KEY, matching(&found.stat.etag), &[]).await.unwrap();
    assert_eq!(bench.store.read_system(KEY).await.unwrap(), None);
}

#[tokio::test]
async fn who_lost_a_named_lock_changes_nothing() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let etag = write(&bench, b"one", absent()).await.unwrap();
    let lock = bench
        .store
        .lock_named("table", LockMode::Exclusive, bench.store.lock_wait())
        .await
        .unwrap();
    let under = [&lock];
    let put = |bytes: &'static [u8]| {
        let (bytes, user) = (Bytes::from_static(bytes), BTreeMap::new());
        bench.store.write_system(KEY, bytes, user, Conditions::default(), &under)
    };
    let held = put(b"two").await.unwrap();
    assert_ne!(held, etag);
    // As after a pause that was longer than the lease.
    bench.table.lapse();
    for refused in [
        put(b"three").await.map(drop),
        bench.store.remove_system(KEY, Conditions::default(), &[&lock]).await,
    ] {
        assert!(matches!(refused, Err(StoreError::NoQuorum { .. })), "{refused:?}");
    }
    bench.quiet().await;
    let found = bench.store.read_system(KEY).await.unwrap().unwrap();
    assert_eq!((found.contents.as_ref(), found.stat.etag), (b"two".as_slice(), held));
}

#[tokio::test]
async fn a_scan_brings_back_what_a_drive_missed() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    bench.set_mood([3], Mood::Offline);
    write(&bench, b"one", absent()).await.unwrap();
    bench.all_good();
    let path = bench.root(3).join(".rustfs.sys").join(KEY);
    assert!(!path.exists());
    bench.heal().await;
    assert!(path.join("xl.meta").exists());
}

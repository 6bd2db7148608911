//! Objects and versions on drives that are well.

use super::bench::*;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Hasher;
use crate::node::store::api::*;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::protocol::object::condition::Unmet;
use crate::protocol::object::effect::BucketState;
use crate::value::VersionId;

/// Sizes at which something changes, for `data` shards.
fn sizes(data: usize, versioned: bool) -> Vec<usize> {
    let inline = if versioned { 16_384 } else { 131_072 }
        .min((262_144_usize.div_ceil(data)) / if versioned { 8 } else { 1 })
        * data;
    let block = 1 << 20;
    vec![0, 1, 100, inline - 1, inline, inline + 1, block - 1, block, block + 1, 3 * block + 77]
}

async fn round_trips(n: usize, state: BucketState) {
    let bench = Bench::new(n, state).await;
    let data = n - crate::protocol::object::quorum::default_parity(n);
    for size in sizes(data, state == BucketState::Enabled) {
        let bytes = contents(size, size as u64);
        let name = format!("folder/of {size}");
        let put = bench.put(&name, &bytes).await.unwrap();
        assert_eq!(put.size, size as u64);
        assert!(bench.get(&name).await.unwrap() == bytes, "{n} drives, {size} bytes");
        let info = bench.store.head(read_request(key("bkt", &name))).await.unwrap();
        assert_eq!((info.size, &info.etag, info.modtime_ns), (put.size, &put.etag, put.modtime_ns));
        assert!(info.is_latest);
        for (start, length) in [(0, 1), (size / 2, 10), (size.saturating_sub(3), 3), (0, size)] {
            if start >= size {
                continue;
            }
            let last = (start + length - 1) as u64;
            let range = Some(Range::Between(start as u64, last));
            let read = bench.read(ReadRequest { range, ..read_request(key("bkt", &name)) }).await;
            let end = (start + length).min(size);
            assert!(read.unwrap() == bytes[start..end], "{size} bytes from {start} to {last}");
        }
    }
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_comes_back_on_1_drive() {
    round_trips(1, BucketState::Unversioned).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_comes_back_on_4_drives() {
    round_trips(4, BucketState::Unversioned).await;
    round_trips(4, BucketState::Enabled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_comes_back_on_6_drives() {
    round_trips(6, BucketState::Suspended).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_comes_back_on_12_drives() {
    round_trips(12, BucketState::Unversioned).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_outside_and_parts_that_are_not_there_are_refused() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    bench.put("k", b"0123456789").await.unwrap();
    let read = |range| ReadRequest { range, ..read_request(key("bkt", "k")) };
    assert_eq!(bench.read(read(Some(Range::From(7)))).await.unwrap(), b"789");
    assert_eq!(bench.read(read(Some(Range::Last(3)))).await.unwrap(), b"789");
    assert_eq!(bench.read(read(Some(Range::Last(30)))).await.unwrap(), b"0123456789");
    assert_eq!(bench.read(read(Some(Range::Between(8, 100)))).await.unwrap(), b"89");
    for range in [Range::From(10), Range::Between(10, 11), Range::Last(0), Range::Between(5, 4)] {
        let refused = bench.read(read(Some(range))).await;
        assert_eq!(refused, Err(StoreError::Range { size: 10 }), "{range:?}");
    }
    let part = |part| ReadRequest { part: Some(part), ..read_request(key("bkt", "k")) };
    assert_eq!(bench.read(part(1)).await.unwrap(), b"0123456789");
    assert!(bench.read(part(2)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwriting_leaves_one_version_and_nothing_of_the_old_one() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let mut before = 0;
    for (round, size) in [300_000, 10, 2_000_000, 0, 400_000, 400_001].into_iter().enumerate() {
        let bytes = contents(size, round as u64);
        let put = bench.put("k", &bytes).await.unwrap();
        assert!(put.modtime_ns > before);
        before = put.modtime_ns;
        assert_eq!(put.version, None, "an unversioned bucket names no versions");
        assert!(bench.get("k").await.unwrap() == bytes);
    }
    bench.quiet().await;
    for drive in 0..4 {
        assert_eq!(bench.held(drive, "k"), [(before, true)]);
        let below = bench.below(drive, "k");
        assert_eq!(below.len(), 3, "metadata, one folder, one part: {below:?}");
    }
    bench.delete("k", None).await.unwrap();
    assert_eq!(bench.get("k").await, Err(StoreError::NoSuchKey(key("bkt", "k"))));
    bench.delete("k", None).await.unwrap();
    bench.quiet().await;
    for drive in 0..4 {
        assert!(!bench.root(drive).join("bkt/k").exists(), "drive {drive}");
    }
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_stack_and_are_deleted_one_by_one() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let one = bench.put("k", b"one").await.unwrap().version.unwrap();
    let two = bench.put("k", &contents(600_000, 2)).await.unwrap().version.unwrap();
    let marker = bench.delete("k", None).await.unwrap();
    assert!(marker.delete_marker);
    let marker = marker.version.unwrap();
    let another = bench.delete("k", None).await.unwrap().version.unwrap();
    assert_ne!(marker, another, "each delete adds a marker");
    assert!(
        matches!(bench.get("k").await, Err(StoreError::Deleted { marker, .. }) if marker == another)
    );

    let by_id = |version| ReadRequest { version: Some(version), ..read_request(key("bkt", "k")) };
    assert_eq!(bench.read(by_id(one)).await.unwrap(), b"one");
    assert!(bench.read(by_id(two)).await.unwrap() == contents(600_000, 2));
    assert!(matches!(bench.read(by_id(marker)).await, Err(StoreError::IsDeleteMarker { .. })));
    assert!(matches!(
        bench.read(by_id(VersionId::NULL)).await,
        Err(StoreError::NoSuchVersion { .. })
    ));

    for version in [another, marker] {
        let gone = bench.delete("k", Some(version)).await.unwrap();
        assert_eq!(gone, DeleteOutcome { version: Some(version), delete_marker: true });
    }
    assert!(bench.get("k").await.unwrap() == contents(600_000, 2));
    let gone = bench.delete("k", Some(two)).await.unwrap();
    assert_eq!(gone, DeleteOutcome { version: Some(two), delete_marker: false });
    assert_eq!(bench.get("k").await.unwrap(), b"one");
    bench.delete("k", Some(one)).await.unwrap();
    assert_eq!(bench.get("k").await, Err(StoreError::NoSuchKey(key("bkt", "k"))));
    // What is not there is deleted already.
    bench.delete("k", Some(one)).await.unwrap();
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_bucket_has_one_null_version_whatever_lies_on_top() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let kept = bench.put("k", b"kept").await.unwrap().version.unwrap();
    bench.store.set_versioning("bkt", BucketState::Suspended).await.unwrap();
    let null = bench.put("k", &contents(500_000, 1)).await.unwrap();
    assert_eq!(null.version, Some(VersionId::NULL));
    bench.put("k", b"null again").await.unwrap();
    let gone = bench.delete("k", None).await.unwrap();
    let marked = DeleteOutcome { version: Some(VersionId::NULL), delete_marker: true };
    assert_eq!(gone, marked);
    assert!(matches!(bench.get("k").await, Err(StoreError::Deleted { .. })));
    bench.quiet().await;
    let listed = bench.store.list_versions(ListRequest {
        bucket: "bkt".to_owned(),
        limit: 10,
        ..ListRequest::default()
    });
    let listed = listed.await.unwrap().entries;
    let listed: Vec<_> = listed.iter().map(|it| (it.version, it.delete_marker)).collect();
    assert_eq!(listed, [(VersionId::NULL, true), (kept, false)]);
    // On top of the marker of an enabled bucket too.
    bench.store.set_versioning("bkt", BucketState::Enabled).await.unwrap();
    let marker = bench.delete("k", None).await.unwrap().version.unwrap();
    bench.store.set_versioning("bkt", BucketState::Suspended).await.unwrap();
    bench.delete("k", None).await.unwrap();
    bench.delete("k", Some(VersionId::NULL)).await.unwrap();
    bench.delete("k", Some(marker)).await.unwrap();
    assert_eq!(bench.get("k").await.unwrap(), b"kept");
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_key_has_only_a_null_version() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let put = bench.put("photos/", b"").await.unwrap();
    assert_eq!(put.version, Some(VersionId::NULL));
    bench.put("photos/", b"more").await.unwrap();
    assert_eq!(bench.get("photos/").await.unwrap(), b"more");
    bench.put("photos/one", b"1").await.unwrap();
    bench.delete("photos/", None).await.unwrap();
    assert!(matches!(bench.get("photos/").await, Err(StoreError::NoSuchKey(_))));
    assert_eq!(bench.get("photos/one").await.unwrap(), b"1");
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_happen_only_when_their_conditions_hold() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let put = |bytes: &'static [u8], conditions: Conditions| {
        let request = PutRequest { conditions, ..put_request(key("bkt", "k"), bytes.len()) };
        bench.store.put(request, body(bytes))
    };
    let none_match = || Conditions { if_none_match: Some(Tags::Any), ..Conditions::default() };
    let matches = |etag: &str| Conditions {
        if_match: Some(Tags::OneOf(vec![etag.to_owned()])),
        ..Conditions::default()
    };
    let unmet = |result: Result<PutOutcome, StoreError>| match result {
        Err(StoreError::Condition { unmet, .. }) => unmet,
        other => panic!("{other:?}"),
    };
    assert_eq!(unmet(put(b"x", matches("abc")).await), Unmet::NoSuchKey);
    let first = put(b"one", none_match()).await.unwrap();
    assert_eq!(unmet(put(b"two", none_match()).await), Unmet::Failed);
    assert_eq!(unmet(put(b"two", matches("abc")).await), Unmet::Failed);
    put(b"two", matches(&first.etag)).await.unwrap();
    assert_eq!(bench.get("k").await.unwrap(), b"two");
    bench.delete("k", None).await.unwrap();
    // A delete marker is no object.
    put(b"three", none_match()).await.unwrap();

    let mut wins = 0;
    let races = (0..8).map(|_| {
        let request = PutRequest { conditions: none_match(), ..put_request(key("bkt", "race"), 4) };
        bench.store.put(request, body(b"race"))
    });
    for result in futures::future::join_all(races).await {
        wins += usize::from(result.is_ok());
    }
    assert_eq!(wins, 1, "exactly one of the conditional writers creates the key");
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_not_what_was_announced_leave_nothing() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let bytes = contents(2_500_000, 3);
    for size in [0, 10, 2_499_999, 2_500_001] {
        let request = put_request(key("bkt", "k"), size);
        let result = bench.store.put(request, body(&bytes)).await;
        assert!(matches!(result, Err(StoreError::IncompleteBody(_))), "{size}: {result:?}");
    }
    let request = PutRequest { content_md5: Some([7; 16]), ..put_request(key("bkt", "k"), 3) };
    assert_eq!(bench.store.put(request, body(b"abc")).await, Err(StoreError::BadDigest));
    let mut hasher = Hasher::new(Algorithm::Crc32C);
    hasher.update(&bytes);
    let digest = hasher.finish();
    let wanted = |expected| vec![WantedChecksum { algorithm: Algorithm::Crc32C, expected }];
    let with = |expected| PutRequest {
        checksums: wanted(expected),
        ..put_request(key("bkt", "k"), bytes.len())
    };
    let wrong = ExpectedChecksum::Is(vec![0; 4]);
    let refused = bench.store.put(with(wrong), body(&bytes)).await;
    assert_eq!(refused, Err(StoreError::BadChecksum(Algorithm::Crc32C)));
    let missing = ExpectedChecksum::Trailing(Box::new(|| None));
    assert!(bench.store.put(with(missing), body(&bytes)).await.is_err());
    assert!(matches!(bench.get("k").await, Err(StoreError::NoSuchKey(_))));
    let trailer = digest.clone();
    let right = ExpectedChecksum::Trailing(Box::new(move || Some(trailer)));
    let put = bench.store.put(with(right), body(&bytes)).await.unwrap();
    assert_eq!(put.checksums[0].digest, digest);
    let info = bench.store.head(read_request(key("bkt", "k"))).await.unwrap();
    assert_eq!(info.checksums, put.checksums);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_the_contents_and_the_metadata_that_were_asked_for() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let bytes = contents(1_500_000, 5);
    let mut metadata = Metadata { tags: Some("a=b".to_owned()), ..Metadata::default() };
    metadata.headers.insert("content-type".to_owned(), "text/plain".to_owned());
    metadata.user.insert("colour".to_owned(), "blue".to_owned());
    let request =
        PutRequest { metadata: metadata.clone(), ..put_request(key("bkt", "from"), bytes.len()) };
    let first = bench.store.put(request, body(&bytes)).await.unwrap().version.unwrap();
    let copy = |to: &str, metadata: Option<Metadata>, version| CopyRequest {
        acl: None,
        source: ReadRequest { version, ..read_request(key("bkt", "from")) },
        target: key("bkt", to),
        metadata,
        tags: None,
        checksum: Some(Algorithm::Sha256),
        conditions: Conditions::default(),
    };
    bench.store.copy(copy("to", None, None)).await.unwrap();
    let info = bench.store.head(read_request(key("bkt", "to"))).await.unwrap();
    assert_eq!(info.metadata, metadata);
    assert_eq!(info.checksums[0].digest, crate::value::Digest::of(&bytes).0);
    assert!(bench.get("to").await.unwrap() == bytes);
    // Onto itself, with other metadata; and from an older version.
    let other = Metadata::default();
    bench.store.copy(copy("from", Some(other), None)).await.unwrap();
    assert!(bench.get("from").await.unwrap() == bytes);
    bench.put("from", b"newer").await.unwrap();
    let (_, source) = bench.store.copy(copy("from", None, Some(first))).await.unwrap();
    assert_eq!(source.version, first);
    assert!(bench.get("from").await.unwrap() == bytes);
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_below_keys_and_keys_that_look_like_folders_live_side_by_side() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let id = "11111111-2222-4333-8444-555555555555";
    let below = [format!("a/{id}"), format!("a/{id}/x")];
    let odd = [
        "a", "a/b", &below[0], &below[1], "a-b", "ä/ö", "/", "//", "a//b", "../a", "xl.meta", "b/",
        "b//",
    ];
    let names: Vec<_> = odd.into_iter().collect();
    for (index, name) in names.iter().enumerate() {
        bench.put(name, &contents(400_000, index as u64)).await.unwrap();
    }
    for (index, name) in names.iter().enumerate() {
        assert!(bench.get(name).await.unwrap() == contents(400_000, index as u64), "{name}");
    }
    bench.put("a", b"again").await.unwrap();
    bench.delete("a", None).await.unwrap();
    bench.quiet().await;
    for (index, name) in names.iter().enumerate().skip(1) {
        assert!(bench.get(name).await.unwrap() == contents(400_000, index as u64), "{name}");
    }
    let listed =
        bench.store.list(ListRequest { limit: 99, bucket: "bkt".to_owned(), ..Default::default() });
    let listed: Vec<_> =
        listed.await.unwrap().entries.into_iter().map(|info| info.target.key).collect();
    let mut left = names[1..].to_vec();
    left.sort_unstable();
    assert_eq!(listed, left);
    for name in ["", "a\0b"] {
        assert!(matches!(bench.put(name, b"x").await, Err(StoreError::IllegalName(_))), "{name}");
    }
    bench.audit().await;
}

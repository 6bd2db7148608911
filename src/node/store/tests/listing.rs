//! Listings against a plain model, page by page.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::bench::*;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;
use crate::protocol::rules::Sound;
use crate::value::VersionId;

const KEYS: [&str; 14] = [
    "a", "a-b", "a.b", "a/", "a/b", "a/b/c", "a/b/d", "a/c", "aa", "b/", "b/c/d", "c", "d//", "é/ü",
];

/// Objects and prefixes that a listing must show, in order.
fn expected(keys: &[&str], prefix: &str, delimiter: Option<&str>) -> (Vec<String>, Vec<String>) {
    let (mut objects, mut prefixes) = (Vec::new(), BTreeSet::new());
    let sorted: BTreeSet<_> = keys.iter().filter(|key| key.starts_with(prefix)).collect();
    for key in sorted {
        match delimiter.and_then(|it| key[prefix.len()..].find(it).map(|at| at + it.len())) {
            Some(end) => {
                prefixes.insert(key[..prefix.len() + end].to_owned());
            }
            None => objects.push((*key).to_owned()),
        }
    }
    (objects, prefixes.into_iter().collect())
}

/// Follows a listing to its end; every page is as long as it may be.
async fn follow(
    bench: &Bench,
    mut request: ListRequest,
    versions: bool,
) -> (Vec<ObjectInfo>, Vec<String>) {
    let (mut entries, mut prefixes) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let listing = if versions {
            bench.store.list_versions(request.clone()).await.unwrap()
        } else {
            bench.store.list(request.clone()).await.unwrap()
        };
        let count = listing.entries.len() + listing.prefixes.len();
        assert!(count <= request.limit);
        entries.extend(listing.entries);
        prefixes.extend(listing.prefixes);
        let Some((after, version)) = listing.next else { return (entries, prefixes) };
        assert_eq!(count, request.limit, "a page that is not the last is full");
        (request.after, request.after_version) = (after, version);
    }
    panic!("the listing does not end");
}

fn names(entries: &[ObjectInfo]) -> Vec<String> {
    entries.iter().map(|entry| entry.target.key.clone()).collect()
}

/// Goal: for every prefix, delimiter and page size the pages together show each key and prefix once, in order, on
/// one set and on two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_together_show_everything_once() {
    let keys: Vec<_> = KEYS.into_iter().filter(|key| !key.contains("//")).collect();
    for sets in [1, 2] {
        let bench = Bench::with(sets, 4, Arc::new(Sound));
        bench.store.create_bucket("bkt").await.unwrap();
        for key in &keys {
            bench.put(key, b"x").await.unwrap();
        }
        // What was deleted is not shown, nor does it count.
        for key in ["a/a", "bb/x", "zz"] {
            bench.put(key, b"x").await.unwrap();
            bench.delete(key, None).await.unwrap();
        }
        bench.quiet().await;
        for prefix in ["", "a", "a/", "a/b", "a/b/", "b", "é", "x"] {
            for delimiter in [None, Some("/"), Some("b"), Some("-")] {
                let (objects, groups) = expected(&keys, prefix, delimiter);
                for limit in [1, 2, 3, 5, 100] {
                    let request = ListRequest {
                        bucket: "bkt".to_owned(),
                        prefix: prefix.to_owned(),
                        delimiter: delimiter.map(str::to_owned),
                        limit,
                        ..ListRequest::default()
                    };
                    let story = format!("{prefix:?} {delimiter:?} {limit}");
                    let (entries, prefixes) = follow(&bench, request.clone(), false).await;
                    assert_eq!((names(&entries), &prefixes), (objects.clone(), &groups), "{story}");
                    let (entries, prefixes) = follow(&bench, request, true).await;
                    assert_eq!((names(&entries), &prefixes), (objects.clone(), &groups), "{story}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_begins_where_it_is_asked_to() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    for key in ["a", "a/b", "a/c", "b"] {
        bench.put(key, b"x").await.unwrap();
    }
    let listed = |after: &str, delimiter: Option<&str>| {
        let request = ListRequest {
            bucket: "bkt".to_owned(),
            after: after.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            limit: 10,
            ..ListRequest::default()
        };
        let bench = &bench;
        async move {
            let listing = bench.store.list(request).await.unwrap();
            (names(&listing.entries), listing.prefixes)
        }
    };
    let (none, group): (Vec<String>, Vec<String>) = (Vec::new(), vec!["a/".to_owned()]);
    assert_eq!(listed("a", None).await.0, ["a/b", "a/c", "b"]);
    assert_eq!(listed("a/b", None).await.0, ["a/c", "b"]);
    assert_eq!(listed("z", None).await, (none.clone(), none.clone()));
    assert_eq!(listed("a", Some("/")).await, (vec!["b".to_owned()], group.clone()));
    assert_eq!(listed("a/", Some("/")).await, (vec!["b".to_owned()], none.clone()));
    assert_eq!(listed("a/b", Some("/")).await, (vec!["b".to_owned()], group));
    assert_eq!(listed("a/c", Some("/")).await, (vec!["b".to_owned()], none));
    let empty = ListRequest { bucket: "bkt".to_owned(), limit: 0, ..ListRequest::default() };
    assert_eq!(bench.store.list(empty).await.unwrap(), Listing::default());
}

/// Goal: every page size shows all versions of all keys once, newest first, the first of each key as its latest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_versions_end_and_begin_within_a_key() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    let mut wanted = BTreeMap::<&str, Vec<VersionId>>::new();
    for round in 0..4 {
        for key in ["a", "a/b", "b"] {
            let version = match round {
                2 => bench.delete(key, None).await.unwrap().version.unwrap(),
                _ => bench.put(key, b"x").await.unwrap().version.unwrap(),
            };
            wanted.entry(key).or_default().insert(0, version);
        }
    }
    bench.delete("b", None).await.unwrap();
    let marker = bench.delete("b", None).await.unwrap().version.unwrap();
    wanted.get_mut("b").unwrap().insert(0, marker);
    bench.quiet().await;
    for limit in 1..=16 {
        let request = ListRequest { bucket: "bkt".to_owned(), limit, ..ListRequest::default() };
        let (entries, _) = follow(&bench, request.clone(), true).await;
        assert_eq!(entries.len(), 14, "{limit}");
        for (key, versions) in &wanted {
            let of_key: Vec<_> = entries.iter().filter(|it| it.target.key == *key).collect();
            let latest = of_key.iter().filter(|it| it.is_latest).count();
            assert_eq!((latest, of_key[0].is_latest), (1, true), "{limit} {key}");
            assert_eq!(of_key[0].version, versions[0], "{limit} {key}");
            assert!(of_key.is_sorted_by(|a, b| a.modtime_ns > b.modtime_ns));
        }
        let (entries, _) = follow(&bench, request, false).await;
        assert_eq!(names(&entries), ["a", "a/b"], "a deleted key is not listed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_survives_as_many_drives_as_a_read_does() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    for number in 0..40 {
        bench.put(&format!("key {number:02}"), b"x").await.unwrap();
    }
    bench.quiet().await;
    let request = || ListRequest { bucket: "bkt".to_owned(), limit: 7, ..ListRequest::default() };
    for (away, mood) in
        [(vec![0], Mood::Failing), (vec![1, 2], Mood::Offline), (vec![3], Mood::Hung)]
    {
        bench.set_mood(away.clone(), mood);
        let (entries, _) = follow(&bench, request(), false).await;
        assert_eq!(entries.len(), 40, "{away:?} {mood:?}");
        bench.all_good();
    }
    bench.set_mood([0, 1, 2], Mood::Offline);
    assert!(bench.store.list(request()).await.is_err());
}

/// Goal: a key that a quorum has is listed and one that was deleted is not, whatever single drives missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_single_drives_missed_does_not_show() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    for (number, missing) in (0..4).cycle().take(12).enumerate() {
        let key = format!("key {number:02}");
        bench.put(&key, b"old").await.unwrap();
        bench.quiet().await;
        bench.set_mood([missing], Mood::Offline);
        match number % 3 {
            0 => drop(bench.delete(&key, None).await.unwrap()),
            1 => drop(bench.put(&key, b"newer").await.unwrap()),
            _ => drop(bench.put(&format!("{key}+"), b"fresh").await.unwrap()),
        }
        bench.all_good();
    }
    bench.quiet().await;
    let request = ListRequest { bucket: "bkt".to_owned(), limit: 5, ..ListRequest::default() };
    let (entries, _) = follow(&bench, request, false).await;
    let mut wanted = Vec::new();
    for number in (0..12).filter(|number| number % 3 > 0) {
        wanted.push((format!("key {number:02}"), if number % 3 == 1 { 5 } else { 3 }));
        if number % 3 == 2 {
            wanted.push((format!("key {number:02}+"), 5));
        }
    }
    let shown: Vec<_> = entries.iter().map(|it| (it.target.key.clone(), it.size)).collect();
    assert_eq!(shown, wanted);
    for entry in entries {
        let info = bench.store.head(read_request(entry.target.clone())).await.unwrap();
        assert_eq!((info.size, info.etag), (entry.size, entry.etag));
    }
}

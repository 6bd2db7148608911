//! Shards and metadata that are not what was written.

use std::path::Path;

use super::bench::*;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;

/// Every file below a directory whose name begins with `part.`.
fn part_files(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_str().unwrap().starts_with("part.") {
                found.push(entry.path());
            }
        }
    }
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotten_and_truncated_shards_never_reach_a_client() {
    for n in [4_usize, 6] {
        let parity = quorum::default_parity(n);
        for size in [400_000, 1_048_577, 5_000_000] {
            let bench = Bench::new(n, BucketState::Unversioned).await;
            let bytes = contents(size, 4);
            bench.put("k", &bytes).await.unwrap();
            bench.quiet().await;
            for drive in 0..n {
                let path = part_files(&bench.root(drive).join("bkt/k")).remove(0);
                match drive % 3 {
                    0 => flip(&path, 12_345),
                    1 => std::fs::write(&path, &std::fs::read(&path).unwrap()[..100]).unwrap(),
                    _ => std::fs::remove_file(&path).unwrap(),
                }
                let read = bench.get("k").await;
                if drive < parity {
                    assert!(read == Ok(bytes.clone()), "{n} drives, {drive} bad, {size} bytes");
                } else {
                    assert!(read.is_err(), "{n} drives, {drive} bad, {size} bytes");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotten_inline_contents_never_reach_a_client() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let bytes = contents(5_000, 4);
    bench.put("k", &bytes).await.unwrap();
    bench.quiet().await;
    for drive in 0..4 {
        let path = bench.root(drive).join("bkt/k/xl.meta");
        let length = std::fs::read(&path).unwrap().len();
        flip(&path, length - 10);
        let read = bench.get("k").await;
        if drive < 2 {
            assert!(read == Ok(bytes.clone()), "{drive}");
        } else {
            assert!(read.is_err(), "{drive}: {:?}", read.map(|it| it.len()));
        }
    }
}

/// Goal: a shard of another object of the same size verifies by its own hash. It must not be believed, with all
/// drives there, with parity missing, whole or by ranges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_in_the_wrong_place_is_not_believed() {
    for n in [4_usize, 6] {
        for size in [400_000, 4_000_000] {
            for wrong in 0..n {
                let bench = Bench::new(n, BucketState::Unversioned).await;
                let bytes = contents(size, 4);
                bench.put("k", &bytes).await.unwrap();
                bench.put("other", &contents(size, 5)).await.unwrap();
                bench.quiet().await;
                let part =
                    |name: &str| part_files(&bench.root(wrong).join("bkt").join(name)).remove(0);
                std::fs::copy(part("other"), part("k")).unwrap();
                for missing in 0..quorum::default_parity(n) {
                    let away: Vec<_> = (1..=missing).map(|step| (wrong + step) % n).collect();
                    bench.set_mood(away.clone(), Mood::Offline);
                    let story = format!("{n} drives, {size} bytes, {wrong} wrong, {away:?} away");
                    let read = bench.get("k").await;
                    match &read {
                        Ok(read) => assert!(*read == bytes, "{story}: wrong bytes"),
                        Err(error) => assert!(missing > 0, "{story}: {error}"),
                    }
                    let last = size as u64 - 1;
                    for (first, last) in [(0, 99), (last / 2, last / 2 + 9), (last - 9, last)] {
                        let range = Some(Range::Between(first, last));
                        let request = ReadRequest { range, ..read_request(key("bkt", "k")) };
                        match bench.read(request).await {
                            Ok(read) => assert!(
                                read == bytes[first as usize..=last as usize],
                                "{story}: wrong bytes in {first}"
                            ),
                            Err(error) => assert!(missing > 0, "{story}: {error}"),
                        }
                    }
                    bench.all_good();
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_metadata_on_one_drive_hinders_nobody() {
    let bench = Bench::new(4, BucketState::Enabled).await;
    bench.put("k", b"one").await.unwrap();
    bench.quiet().await;
    flip(&bench.root(1).join("bkt/k/xl.meta"), 60);
    assert_eq!(bench.get("k").await.unwrap(), b"one");
    bench.put("k", b"two").await.unwrap();
    bench.delete("k", None).await.unwrap();
    let listed = bench.store.list_versions(ListRequest {
        bucket: "bkt".to_owned(),
        limit: 10,
        ..ListRequest::default()
    });
    assert_eq!(listed.await.unwrap().entries.len(), 3);
}

//! Drives that are away, fail, hang, lie or lose what they are asked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use super::bench::*;
use crate::disk::drive::Effect;
use crate::node::store::api::*;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::protocol::rules::Sound;

/// Contents of a small, a block-sized and a large object.
const SIZES: [usize; 4] = [0, 1_000, 400_000, 3_300_000];

fn definite(result: &Result<impl std::fmt::Debug, StoreError>) -> bool {
    result.as_ref().is_err_and(|error| error.effect() == Effect::None)
}

async fn reads_without(n: usize, mood: Mood) {
    let bench = Bench::new(n, BucketState::Unversioned).await;
    let parity = quorum::default_parity(n);
    for size in SIZES {
        bench.put(&format!("k{size}"), &contents(size, 7)).await.unwrap();
    }
    bench.quiet().await;
    for first in 0..n {
        let away: Vec<_> = (0..parity).map(|drive| (first + drive) % n).collect();
        bench.set_mood(away.clone(), mood);
        for size in SIZES {
            let read = bench.get(&format!("k{size}")).await;
            assert!(read == Ok(contents(size, 7)), "{n} drives, {away:?} {mood:?}, {size} bytes");
        }
        // One more, and there is an error and not a wrong byte.
        bench.set_mood([(first + parity) % n], mood);
        for size in SIZES {
            let read = bench.get(&format!("k{size}")).await;
            assert!(definite(&read), "{n} drives, {size} bytes: too many are away");
        }
        bench.all_good();
        if mood == Mood::Hung {
            break;
        }
    }
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_drives_as_there_is_parity_may_be_away_while_reading() {
    for n in [4, 6, 12] {
        reads_without(n, Mood::Offline).await;
    }
    reads_without(4, Mood::Failing).await;
    reads_without(6, Mood::Hung).await;
}

/// Goal: with too few drives a write is refused for certain and leaves nothing; with enough it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_stand_on_a_quorum_or_leave_nothing() {
    for n in [4_usize, 6] {
        let parity = quorum::default_parity(n);
        let spare = n - quorum::write(n - parity, parity);
        for mood in [Mood::Offline, Mood::Failing, Mood::ReadOnly] {
            let bench = Bench::new(n, BucketState::Unversioned).await;
            bench.put("k", b"before").await.unwrap();
            bench.set_mood(0..spare, mood);
            for size in SIZES {
                let bytes = contents(size, 1);
                bench.put("k", &bytes).await.unwrap();
                assert!(bench.get("k").await == Ok(bytes), "{mood:?} {size}");
            }
            bench.put("gone", b"x").await.unwrap();
            bench.delete("gone", None).await.unwrap();
            bench.put("k", b"kept").await.unwrap();
            bench.quiet().await;
            bench.set_mood([spare], mood);
            for size in SIZES {
                let put = bench.put("k", &contents(size, 2)).await;
                assert!(definite(&put), "{mood:?} {size}: {put:?}");
                let put = bench.put("new", &contents(size, 2)).await;
                assert!(definite(&put), "{mood:?} {size}: {put:?}");
            }
            assert!(definite(&bench.delete("k", None).await), "{mood:?}");
            bench.all_good();
            assert_eq!(bench.get("k").await.unwrap(), b"kept");
            assert!(matches!(bench.get("new").await, Err(StoreError::NoSuchKey(_))));
            bench.quiet().await;
            for drive in 0..n {
                assert_eq!(bench.held(drive, "new"), []);
                assert!(bench.below(drive, "new").is_empty(), "{mood:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_drive_costs_a_moment_and_no_write() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    bench.set_mood([2], Mood::Hung);
    let began = Instant::now();
    for size in SIZES {
        bench.put("k", &contents(size, 9)).await.unwrap();
        assert!(bench.get("k").await == Ok(contents(size, 9)));
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Goal: when answers are lost the client hears *unknown* unless the write stood on a quorum all the same, and
/// what readers see afterwards never goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_and_lost_questions_are_unknown_and_then_decided_once() {
    for mood in [Mood::LosesAnswers, Mood::LosesQuestions] {
        for lost in 1..=4 {
            for size in [1_000, 400_000] {
                let bench = Bench::new(4, BucketState::Unversioned).await;
                let (old, new) = (contents(size, 1), contents(size + 1, 2));
                bench.put("k", &old).await.unwrap();
                bench.quiet().await;
                bench.set_mood(0..lost, mood);
                let put = bench.put("k", &new).await;
                let story = format!("{mood:?} on {lost}, {size} bytes: {put:?}");
                bench.all_good();
                let read = bench.get("k").await.unwrap_or_else(|error| panic!("{story}: {error}"));
                match &put {
                    Ok(_) => assert!(read == new && lost == 1, "{story}"),
                    Err(StoreError::Unknown { .. }) => {
                        assert!(read == new || read == old, "{story}")
                    }
                    Err(_) => panic!("{story}: it may have taken effect"),
                }
                for away in [vec![], vec![0, 1], vec![2, 3], vec![1, 2], vec![0, 3], vec![]] {
                    bench.set_mood(away.clone(), Mood::Offline);
                    match bench.get("k").await {
                        Ok(again) => assert!(again == read, "{story}: went back without {away:?}"),
                        Err(error) => assert!(!away.is_empty(), "{story}: {error}"),
                    }
                    bench.all_good();
                }
                bench.audit().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_deletes_are_unknown_and_then_decided_once() {
    for state in [BucketState::Unversioned, BucketState::Enabled, BucketState::Suspended] {
        for mood in [Mood::LosesAnswers, Mood::LosesQuestions] {
            for lost in 1..=4 {
                let bench = Bench::new(4, state).await;
                bench.put("k", &contents(300_000, 1)).await.unwrap();
                bench.quiet().await;
                bench.set_mood(0..lost, mood);
                let gone = bench.delete("k", None).await;
                bench.all_good();
                let story = format!("{state:?} {mood:?} on {lost}: {gone:?}");
                let read = bench.get("k").await;
                let is_gone =
                    matches!(read, Err(StoreError::NoSuchKey(_) | StoreError::Deleted { .. }));
                match &gone {
                    Ok(_) => assert!(is_gone, "{story}: {read:?}"),
                    Err(StoreError::Unknown { .. }) => {
                        assert!(is_gone || read.is_ok(), "{story}: {read:?}");
                    }
                    Err(_) => panic!("{story}: it may have taken effect"),
                }
                assert_eq!(bench.get("k").await.is_ok(), !is_gone, "{story}");
                bench.audit().await;
            }
        }
    }
}

/// Goal: a version that its coordinator left on some drives is brought to all before it is returned, or taken
/// back before its absence is; whichever it is stays so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_coordinator_left_is_decided_by_the_first_reader() {
    for n in [4_usize, 6] {
        for reached in 1..n {
            for before in [false, true] {
                for size in [0, 1_000, 1_500_000] {
                    let bench = Bench::new(n, BucketState::Unversioned).await;
                    if before {
                        bench.put("k", b"old").await.unwrap();
                        bench.quiet().await;
                    }
                    bench.set_mood(0..reached, Mood::FailsAfterCommit);
                    bench.set_mood(reached..n, Mood::LosesQuestions);
                    let new = contents(size, 3);
                    bench.put("k", &new).await.ok();
                    bench.all_good();
                    let story = format!("{n} drives, {reached} reached, {size} bytes, {before}");
                    let read = bench.get("k").await;
                    match &read {
                        Ok(bytes) => assert!(*bytes == new || before && bytes == b"old", "{story}"),
                        Err(StoreError::NoSuchKey(_)) => assert!(!before, "{story}"),
                        Err(error) => panic!("{story}: {error}"),
                    }
                    bench.quiet().await;
                    let held: BTreeSet<_> = (0..n).map(|drive| bench.held(drive, "k")).collect();
                    let agree = held.len() == 1
                        || read.is_err() && held.len() == 2
                        || reached >= quorum::majority(n)
                        || n - reached >= quorum::majority(n);
                    assert!(agree, "{story}: {held:?}");
                    let parity = quorum::default_parity(n);
                    for first in 0..n {
                        let away: Vec<_> = (0..parity).map(|drive| (first + drive) % n).collect();
                        bench.set_mood(away.clone(), Mood::Offline);
                        match (bench.get("k").await, &read) {
                            (Ok(again), Ok(read)) => assert!(again == *read, "{story}"),
                            (Err(StoreError::NoSuchKey(_)), Err(_)) => {}
                            (Err(StoreError::NoSuchKey(_)), Ok(_)) => {
                                panic!("{story}: it vanished")
                            }
                            (Ok(_), Err(_)) => panic!("{story}: it appeared"),
                            (Err(_), _) => {}
                        }
                        bench.all_good();
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lock_makes_a_write_unknown_at_most() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    bench.put("k", b"old").await.unwrap();
    bench.quiet().await;
    for round in 0..20 {
        let (store, table) = (Arc::clone(&bench.store), Arc::clone(&bench.table));
        let put =
            tokio::spawn(
                async move { store.put(put_request(key("bkt", "k"), 3), body(b"new")).await },
            );
        tokio::time::sleep(Duration::from_micros(150 * round)).await;
        table.lapse();
        let put = put.await.unwrap();
        let read = bench.get("k").await.unwrap();
        match put {
            Ok(_) => assert_eq!(read, b"new"),
            Err(StoreError::Unknown { .. }) => {}
            Err(_) => assert_eq!(read, b"old"),
        }
        bench.put("k", b"old").await.unwrap();
        bench.quiet().await;
    }
}

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

/// Goal: under concurrent overwrites, with a drive failing now and then, no reader ever sees anything but a whole
/// write that is at least as new as the last acknowledged one when it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_beside_writers_see_whole_writes_in_order() {
    let bench = Arc::new(Bench::new(4, BucketState::Unversioned).await);
    let acknowledged = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let write = |number: u64| {
        let size = [900, 300_000, 2_600_000][number as usize % 3];
        let mut bytes = contents(size, number);
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    bench.put("k", &write(0)).await.unwrap();
    let writer = {
        let (bench, acknowledged) = (Arc::clone(&bench), Arc::clone(&acknowledged));
        tokio::spawn(async move {
            for number in 1..=40_u64 {
                let mood = if number % 4 == 0 { Mood::Failing } else { Mood::Good };
                bench.set_mood([number as usize % 3], mood);
                bench.put("k", &write(number)).await.unwrap();
                acknowledged.store(number, std::sync::atomic::Ordering::SeqCst);
                bench.all_good();
            }
        })
    };
    let mut broken_off = 0;
    while !writer.is_finished() {
        let least = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
        match bench.get("k").await {
            Ok(bytes) => {
                let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == write(number), "a whole write");
                assert!(number >= least, "{number} was read after {least} was acknowledged");
            }
            Err(_) => broken_off += 1,
        }
    }
    writer.await.unwrap();
    assert!(broken_off < 5, "{broken_off} reads broke off");
    assert!(bench.get("k").await.unwrap() == write(40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_of_many_keep_their_order() {
    let bench = Bench::with(2, 4, Arc::new(Sound));
    bench.store.create_bucket("bkt").await.unwrap();
    let names: Vec<String> = (0..30).map(|number| format!("key {number}")).collect();
    for name in &names {
        bench.put(name, b"x").await.unwrap();
    }
    let request = |name: &String| DeleteRequest {
        target: key("bkt", name),
        version: None,
        conditions: Conditions::default(),
    };
    let mut requests: Vec<_> = names.iter().map(request).collect();
    requests.insert(7, request(&"/illegal".to_owned()));
    let answers = bench.store.delete_many(requests).await;
    assert_eq!(answers.len(), 31);
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), index == 7, "{answer:?}");
    }
    for name in &names {
        assert!(bench.get(name).await.is_err());
    }
    bench.store.delete_bucket("bkt").await.unwrap();
}

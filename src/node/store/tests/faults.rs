//! Drives that are away, fail, hang, lie or lose what they are asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use futures::StreamExt as _;

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
            // Nothing is missing of what has no contents.
            let exact = size == 0 && read == Ok(Vec::new());
            assert!(exact || definite(&read), "{n} drives, {size} bytes: too many are away");
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

/// Goal: with as many data as parity shards, half of the drives may lose a key, its metadata or the whole bucket, in
/// any mix: it is read, whole, and stands on a write quorum again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_four_drives_may_lose_a_key_or_its_bucket() {
    type Lose = fn(&std::path::Path);
    let losses: [(&str, Lose); 4] = [
        ("the bucket", |bucket| std::fs::remove_dir_all(bucket).unwrap()),
        ("the key", |bucket| std::fs::remove_dir_all(bucket.join("k")).unwrap()),
        ("xl.meta", |bucket| std::fs::remove_file(bucket.join("k/xl.meta")).unwrap()),
        ("sense", |bucket| std::fs::write(bucket.join("k/xl.meta"), "XL2 no").unwrap()),
    ];
    for size in SIZES {
        for (first, lose) in losses {
            for (second, lose_too) in losses {
                let bench = Bench::new(4, BucketState::Unversioned).await;
                bench.put("k", &contents(size, 9)).await.unwrap();
                bench.quiet().await;
                lose(&bench.root(0).join("bkt"));
                lose_too(&bench.root(2).join("bkt"));
                let what = format!("{first} and {second} are lost, {size} bytes");
                assert!(bench.get("k").await == Ok(contents(size, 9)), "{what}");
                let written = bench.put("k", b"after").await;
                // Two that cannot say what they hold are too many to be written past, until they are healed.
                if (first, second) == ("sense", "sense") {
                    assert!(definite(&written), "{what}");
                    continue;
                }
                assert!(written.is_ok(), "{what}: {written:?}");
                assert!(bench.get("k").await == Ok(b"after".to_vec()), "{what}");
            }
        }
    }
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
                bench.heal().await;
                assert!(bench.get("k").await == Ok(read), "{story}: healing changed it");
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
                bench.heal().await;
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

/// Goal: what a process had staged when it died is thrown away by the next one, on every drive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_process_staged_is_thrown_away() {
    let mut bench = Bench::new(4, BucketState::Unversioned).await;
    for round in 0..2 {
        let staged = |bench: &Bench| {
            let entries = std::fs::read_dir(bench.root(3).join(".rustfs.sys/tmp")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name != ".trash").collect::<BTreeSet<_>>()
        };
        let before = staged(&bench);
        let chunks = futures::stream::iter([Ok(contents(2_500_000, 1).into())]);
        let endless = chunks.chain(futures::stream::pending()).boxed();
        let store = Arc::clone(&bench.store);
        let put = tokio::spawn(async move {
            let request = PutRequest { size: None, ..put_request(key("bkt", "k"), 0) };
            store.put(request, endless).await
        });
        // What the last process left may be thrown away meanwhile: only names tell what is new.
        let mut seen = false;
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            seen = staged(&bench).difference(&before).next().is_some();
            if seen {
                break;
            }
        }
        assert!(seen, "{round}");
        bench.set_mood(0..4, Mood::Failing);
        put.abort();
        tokio::time::sleep(Duration::from_millis(50)).await;
        bench.all_good();
        bench.take_over();
    }
    bench.heal().await;
    bench.audit().await;
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
    requests.insert(7, request(&"ill\0egal".to_owned()));
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

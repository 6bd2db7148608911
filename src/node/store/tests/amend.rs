//! Saying something else of versions: with drives away, with answers lost, beside newer versions.

use super::bench::*;
use crate::disk::drive::Effect;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::value::VersionId;

/// Inline, and in files of their own.
const SIZES: [usize; 3] = [0, 300, 2_500_000];

async fn tags(bench: &Bench, name: &str, version: Option<VersionId>) -> Option<String> {
    let read = ReadRequest { version, ..read_request(key("bkt", name)) };
    bench.store.head(read).await.expect("the version is there").metadata.tags
}

fn tagged(tags: &str) -> Amendment {
    Amendment::Tags(Some(tags.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_is_amended_in_its_place_and_keeps_its_contents() {
    let bench = Bench::new(6, BucketState::Enabled).await;
    for size in SIZES {
        let (name, old) = (format!("k{size}"), contents(size, 1));
        let first = bench.put(&name, &old).await.unwrap().version;
        bench.put(&name, &contents(size, 2)).await.unwrap();
        let target = key("bkt", &name);
        for round in ["a=1", "b=2"] {
            bench.store.amend(&target, first, tagged(round)).await.unwrap();
            assert_eq!(tags(&bench, &name, first).await.as_deref(), Some(round));
            assert_eq!(tags(&bench, &name, None).await, None, "the latest was not meant");
        }
        let acl = Amendment::Acl(Some("{}".to_owned()));
        bench.store.amend(&target, first, acl).await.unwrap();
        let read = ReadRequest { version: first, ..read_request(target.clone()) };
        assert!(bench.read(read).await.unwrap() == old, "{size} bytes are other ones");
        assert!(bench.get(&name).await.unwrap() == contents(size, 2), "another is the latest");
        bench.store.amend(&target, first, Amendment::Tags(None)).await.unwrap();
        assert_eq!(tags(&bench, &name, first).await, None);
        let gone = bench.delete(&name, None).await.unwrap().version;
        let refused = bench.store.amend(&target, gone, tagged("a=1")).await;
        assert!(matches!(refused, Err(StoreError::IsDeleteMarker { .. })), "{refused:?}");
        let refused = bench.store.amend(&target, None, tagged("a=1")).await;
        assert!(matches!(refused, Err(StoreError::Deleted { .. })), "{refused:?}");
    }
    let refused = bench.store.amend(&key("bkt", "never"), None, tagged("a=1")).await;
    assert!(matches!(refused, Err(StoreError::NoSuchKey(_))), "{refused:?}");
    bench.quiet().await;
    bench.audit().await;
}

/// Goal: with too few drives nothing is changed for certain; with enough the change stands, and the drives that
/// missed it follow without a wrong byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_amendment_stands_on_a_quorum_or_changes_nothing() {
    let n = 6;
    let parity = quorum::default_parity(n);
    let spare = n - quorum::write(n - parity, parity);
    for mood in [Mood::Offline, Mood::Failing, Mood::ReadOnly] {
        let bench = Bench::new(n, BucketState::Unversioned).await;
        for size in SIZES {
            let (name, bytes) = (format!("k{size}"), contents(size, 3));
            let target = key("bkt", &name);
            bench.put(&name, &bytes).await.unwrap();
            bench.quiet().await;
            bench.set_mood(0..spare, mood);
            bench.store.amend(&target, None, tagged("a=1")).await.unwrap();
            bench.set_mood(0..=spare, mood);
            let refused = bench.store.amend(&target, None, tagged("a=2")).await;
            let is_refusal = |error: &StoreError| error.effect() == Effect::None;
            assert!(refused.as_ref().is_err_and(is_refusal), "{mood:?}, {size} bytes: {refused:?}");
            bench.all_good();
            bench.quiet().await;
            bench.heal().await;
            assert_eq!(tags(&bench, &name, None).await.as_deref(), Some("a=1"), "{mood:?}, {size}");
            // Those that missed it carry the object alone.
            bench.set_mood(spare..spare + parity, Mood::Offline);
            assert_eq!(tags(&bench, &name, None).await.as_deref(), Some("a=1"), "{mood:?}, {size}");
            assert!(bench.get(&name).await.unwrap() == bytes, "{mood:?}, {size} bytes");
            bench.all_good();
        }
        bench.audit().await;
    }
}

/// Goal: when answers are lost the client hears *unknown* unless the change stood on a quorum all the same, and
/// what readers see afterwards never goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_makes_an_amendment_unknown_at_most() {
    for mood in [Mood::LosesAnswers, Mood::LosesQuestions] {
        for lost in 1..=4 {
            for size in [300, 400_000] {
                let bench = Bench::new(4, BucketState::Unversioned).await;
                bench.put("k", &contents(size, 1)).await.unwrap();
                bench.quiet().await;
                bench.set_mood(0..lost, mood);
                let target = key("bkt", "k");
                let amended = bench.store.amend(&target, None, tagged("a=1")).await;
                let story = format!("{mood:?} on {lost}, {size} bytes: {amended:?}");
                bench.all_good();
                let seen = tags(&bench, "k", None).await;
                match &amended {
                    Ok(_) => assert!(seen.is_some() && lost == 1, "{story}"),
                    Err(error) => assert_eq!(error.effect(), Effect::Unknown, "{story}"),
                }
                for away in [vec![0, 1], vec![2, 3], vec![1, 2], vec![0, 3], vec![]] {
                    bench.set_mood(away.clone(), Mood::Offline);
                    let read = bench.store.head(read_request(target.clone())).await;
                    bench.all_good();
                    match read {
                        Ok(info) => {
                            assert_eq!(info.metadata.tags, seen, "{story}: without {away:?}")
                        }
                        Err(error) => assert!(!away.is_empty(), "{story}: {error}"),
                    }
                }
                bench.heal().await;
                assert_eq!(tags(&bench, "k", None).await, seen, "{story}: healing changed it");
                assert!(bench.get("k").await == Ok(contents(size, 1)), "{story}");
                bench.audit().await;
            }
        }
    }
}

//! What rots, goes missing or lies in the wrong place comes back, and nothing else changes.

use std::path::Path;

use super::bench::*;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::node::store::api::*;
use crate::protocol::object::effect::BucketState;

const LARGE: usize = 3_000_001;

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Goal: every kind of damage on one drive is repaired to the very bytes that were there, by the heal that
/// promises it, and reads are right before and after.
#[tokio::test(flavor = "multi_thread")]
async fn damage_of_every_kind_is_repaired_to_the_bytes_that_were_there() {
    type Damage = fn(&Bench, usize);
    let cases: [(&str, bool, Damage); 10] = [
        ("a part is missing", false, |bench, slot| {
            std::fs::remove_file(bench.part(slot, "large")).unwrap();
        }),
        ("a part is short", false, |bench, slot| {
            let bytes = std::fs::read(bench.part(slot, "large")).unwrap();
            std::fs::write(bench.part(slot, "large"), &bytes[..bytes.len() - 1]).unwrap();
        }),
        ("a part is long", false, |bench, slot| {
            let mut bytes = std::fs::read(bench.part(slot, "large")).unwrap();
            bytes.push(0);
            std::fs::write(bench.part(slot, "large"), bytes).unwrap();
        }),
        ("a part is rotten", true, |bench, slot| flip(&bench.part(slot, "large"), 700_000)),
        ("a part is another drive's", true, |bench, slot| {
            let other = (slot + 1) % 4;
            std::fs::copy(bench.part(other, "large"), bench.part(slot, "large")).unwrap();
        }),
        ("inline contents are rotten", true, |bench, slot| {
            let path = bench.root(slot).join(layout::meta_path("bkt", "small"));
            let length = std::fs::read(&path).unwrap().len();
            flip(&path, length - 3);
        }),
        ("metadata is rotten", false, |bench, slot| {
            flip(&bench.root(slot).join(layout::meta_path("bkt", "small")), 40);
        }),
        ("metadata is cut in its inline block", false, |bench, slot| {
            let path = bench.root(slot).join(layout::meta_path("bkt", "small"));
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() - 20]).unwrap();
        }),
        ("metadata is empty", false, |bench, slot| {
            let path = bench.root(slot).join(layout::meta_path("bkt", "large"));
            std::fs::write(path, b"").unwrap();
        }),
        ("a key is missing", false, |bench, slot| {
            std::fs::remove_dir_all(bench.root(slot).join("bkt/large")).unwrap();
        }),
    ];
    for n in [4, 6] {
        let bench = Bench::new(n).await;
        let (small, large) = (bytes(1, 9_000), bytes(2, LARGE));
        bench.put("small", &small).await.unwrap();
        bench.put("large", &large).await.unwrap();
        bench.quiet().await;
        for (at, (name, deep, damage)) in cases.iter().enumerate() {
            let slot = at % 4;
            let before = files(&bench.root(slot).join("bkt"));
            damage(&bench, slot);
            assert_ne!(files(&bench.root(slot).join("bkt")), before, "{name}: the damage is real");
            assert!(bench.get("small").await.unwrap() == small, "{name}");
            assert!(bench.get("large").await.unwrap() == large, "{name}");
            if *deep {
                bench.heal_all(false).await;
                let same = files(&bench.root(slot).join("bkt")) == before;
                assert!(!same, "{name}: a normal heal does not look at every byte");
            }
            let progress = bench.heal_all(*deep).await;
            assert_eq!(progress.unhealed, 0, "{name}: {:?}", progress.problems);
            assert!(progress.healed > 0, "{name}");
            assert!(files(&bench.root(slot).join("bkt")) == before, "{name}: {n} drives");
            let again = bench.heal_all(true).await;
            assert_eq!((again.healed, again.unhealed), (0, 0), "{name}: nothing is left to do");
        }
        bench.sweep().await;
        bench.audit();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_bad_shards_as_there_is_parity_are_repaired_and_more_are_left_alone() {
    let bench = Bench::new(4).await;
    let large = bytes(2, LARGE);
    bench.put("large", &large).await.unwrap();
    bench.quiet().await;
    let before = (0..4).map(|slot| files(&bench.root(slot))).collect::<Vec<_>>();
    flip(&bench.part(0, "large"), 100);
    flip(&bench.part(1, "large"), 100);
    assert!(bench.get("large").await.unwrap() == large);
    let progress = bench.heal_all(true).await;
    assert_eq!((progress.healed, progress.unhealed), (1, 0), "{:?}", progress.problems);
    assert!(bench.get("large").await.unwrap() == large);
    for slot in 0..3 {
        flip(&bench.part(slot, "large"), 100);
    }
    let damaged = (0..4).map(|slot| files(&bench.root(slot).join("bkt"))).collect::<Vec<_>>();
    assert!(matches!(bench.get("large").await, Err(StoreError::Unreadable { .. })));
    let progress = bench.heal_all(true).await;
    assert!(progress.unhealed > 0);
    let after = (0..4).map(|slot| files(&bench.root(slot).join("bkt"))).collect::<Vec<_>>();
    assert!(after == damaged, "what cannot be repaired is not touched");
    drop(before);
}

/// Goal: the pattern that loses data elsewhere (object `a` beside objects below `a/<uuid>`) survives
/// every heal, also while `a` itself is damaged.
#[tokio::test(flavor = "multi_thread")]
async fn keys_named_like_data_directories_survive_the_healing_of_their_parent() {
    let bench = Bench::new(4).await;
    let uuid = "0f6f2a3e-5b51-4f0e-9a53-6a8f0a5c7d10";
    let children = [format!("a/{uuid}"), format!("a/{uuid}/x"), format!("a/{uuid}/big")];
    for size in [10, LARGE] {
        bench.put("a", &bytes(1, size)).await.unwrap();
        for child in &children {
            let size = if child.ends_with("big") { LARGE } else { 20 };
            bench.put(child, &bytes(3, size)).await.unwrap();
        }
        bench.quiet().await;
        std::fs::remove_file(bench.root(1).join("bkt/a/xl.meta")).unwrap();
        for deep in [false, true] {
            bench.heal_all(deep).await;
            let request = HealRequest {
                bucket: Some("bkt".to_owned()),
                key: Some("a".to_owned()),
                deep,
                ..HealRequest::default()
            };
            bench.heal(request).await;
        }
        for child in &children {
            for slot in 0..4 {
                assert!(bench.meta(slot, child).is_some(), "{child} on drive {slot}");
            }
            assert!(bench.get(child).await.is_ok());
        }
        assert!(bench.meta(1, "a").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_of_a_key_comes_back_null_ones_and_markers_too() {
    let bench = Bench::new(4).await;
    bench.put("k", b"null").await.unwrap();
    bench.versioning(BucketState::Enabled).await;
    bench.put("k", &bytes(1, LARGE)).await.unwrap();
    bench.delete("k", None).await.unwrap();
    bench.put("k", b"last").await.unwrap();
    bench.quiet().await;
    let before = bench.meta(2, "k").unwrap();
    for gone in 0..4 {
        let path = bench.root(2).join(layout::meta_path("bkt", "k"));
        let mut meta = XlMeta::parse(&std::fs::read(&path).unwrap()).unwrap();
        meta.remove(before.versions()[gone].id()).unwrap();
        std::fs::write(&path, meta.encode()).unwrap();
        let progress = bench.heal_all(false).await;
        assert_eq!((progress.healed, progress.unhealed), (1, 0), "{:?}", progress.problems);
        assert_eq!(bench.meta(2, "k").unwrap().versions(), before.versions(), "version {gone}");
    }
    bench.sweep().await;
    bench.audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_beside_versions_is_cleared_and_never_shards_in_use() {
    let bench = Bench::new(4).await;
    let large = bytes(2, LARGE);
    bench.put("k", &large).await.unwrap();
    bench.quiet().await;
    let folder = |slot: usize, name: &str| bench.root(slot).join("bkt").join(name);
    let orphan = "11111111-2222-4333-8444-555555555555";
    std::fs::create_dir_all(folder(0, &format!("k/{orphan}"))).unwrap();
    std::fs::write(folder(0, &format!("k/{orphan}/part.1")), b"half").unwrap();
    // A new key of which only the shards were placed.
    std::fs::create_dir_all(folder(1, &format!("new/{orphan}"))).unwrap();
    std::fs::write(folder(1, &format!("new/{orphan}/part.1")), b"half").unwrap();
    // An overwrite that was acknowledged and not cleared up behind.
    std::fs::create_dir_all(folder(2, &format!("k/{orphan}"))).unwrap();
    std::fs::copy(folder(2, "k/xl.meta"), folder(2, &format!("k/{orphan}/xl.meta.bkp"))).unwrap();
    let data_dir = bench.part(3, "k").parent().unwrap().to_owned();
    std::fs::write(data_dir.join("part.1.meta"), b"x").unwrap();
    std::fs::write(data_dir.join("part.9"), b"x").unwrap();

    bench.set([3], Fault::Away);
    bench.heal_all(false).await;
    assert!(folder(0, &format!("k/{orphan}")).exists(), "not while a drive is away");
    bench.heal_faults();
    let progress = bench.heal_all(false).await;
    assert_eq!(progress.unhealed, 0, "{:?}", progress.problems);
    for (slot, name) in [(0, "k"), (1, "new"), (2, "k")] {
        assert!(!folder(slot, &format!("{name}/{orphan}")).exists(), "drive {slot}");
    }
    assert!(!folder(1, "new").exists());
    assert_eq!(std::fs::read_dir(data_dir).unwrap().count(), 1);
    assert!(bench.get("k").await.unwrap() == large);
    bench.sweep().await;
    bench.audit();
}

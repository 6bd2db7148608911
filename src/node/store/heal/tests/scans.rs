//! The scanner finds what nobody asks about, in the cycles that promise it, and one node does so for each set.

use std::sync::Arc;
use std::time::Duration;

use super::bench::*;
use crate::node::store::Store;
use crate::protocol::admin::ScanStatus;
use crate::protocol::config::Limits;

const LARGE: usize = 3_000_001;

fn scanning(bench: &Bench, slots: std::ops::Range<usize>, scan_deep_every: u32) -> Arc<Store> {
    let limits = Limits { scan_cycle_ms: 50, scan_share_percent: 100, scan_deep_every, ..quick() };
    let local = slots.map(|slot| (0, slot)).collect();
    store_of(&bench.clients, &bench.format, 4, local, limits)
}

/// Runs a store until it has ended so many cycles; answers how its scanner stands then.
async fn cycles(store: &Arc<Store>, count: u64) -> ScanStatus {
    let running = tokio::spawn(Arc::clone(store).run());
    for _ in 0..2_000 {
        let scan = store.status().scan;
        if scan.cycles_ended >= count && !scan.running {
            running.abort();
            return scan;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no {count} cycles: {:?}", store.status().scan);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_found_by_any_cycle_and_what_rots_by_a_deep_one() {
    let bench = Bench::new(4).await;
    bench.put("large", &vec![7; LARGE]).await.unwrap();
    bench.put("other", &vec![8; LARGE]).await.unwrap();
    bench.quiet().await;
    let (rotten, whole) = (bench.part(2, "large"), std::fs::read(bench.part(2, "large")).unwrap());
    let lost = bench.part(1, "other");
    let mut bytes = whole.clone();
    bytes[70_000] ^= 1;
    std::fs::write(&rotten, bytes).unwrap();
    std::fs::remove_file(&lost).unwrap();

    let shallow = cycles(&scanning(&bench, 0..4, 1_000), 2).await;
    assert!(!shallow.deep && lost.exists(), "{shallow:?}");
    assert!(std::fs::read(&rotten).unwrap() != whole, "nobody has read it");
    assert_eq!((shallow.sets, shallow.healed, shallow.failed), (1, 1, 0));
    assert_eq!(shallow.keys_remaining, Some(0));
    let deep = cycles(&scanning(&bench, 0..4, 2), 2).await;
    assert_eq!(deep.healed, 1, "{deep:?}");
    assert!(std::fs::read(bench.part(2, "large")).unwrap() == whole, "it was made whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_scanned_by_whoever_owns_the_first_of_its_drives_that_is_online() {
    let bench = Bench::new(4).await;
    let (first, second) = (scanning(&bench, 0..2, 2), scanning(&bench, 2..4, 2));
    let sets = |store: &Arc<Store>| store.status().scan.sets;
    assert_eq!((sets(&first), sets(&second)), (1, 0));
    bench.set([0], Fault::Away);
    assert_eq!((sets(&first), sets(&second)), (1, 0));
    bench.set([0, 1], Fault::Away);
    assert_eq!((sets(&first), sets(&second)), (0, 1));
}

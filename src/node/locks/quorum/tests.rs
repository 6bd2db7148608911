//! Three nodes with four drives each, in one process: their tables, and who holds what.

use std::sync::atomic::AtomicUsize;

use super::*;
use crate::disk::drive::Fences;

const LEASE: Duration = Duration::from_millis(300);
const WAIT: Duration = Duration::from_secs(5);

/// A node as its peers reach it, or do not.
struct Reached {
    table: OwnTable,
    cut: AtomicBool,
}

impl LockPeer for Reached {
    fn ask(&self, call: LockCall) -> BoxFuture<'_, Option<LockAnswer>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            (!self.cut.load(Ordering::SeqCst)).then(|| self.table.answer(&call))
        })
    }
}

struct Cluster {
    tables: Vec<LocalLocks>,
    nodes: Vec<Arc<Reached>>,
    coordinators: Vec<QuorumLocks>,
}

fn cluster(lease: Duration) -> Cluster {
    let tables: Vec<_> = (0..3).map(|_| LocalLocks::new(lease)).collect();
    let reached = |table: &LocalLocks| {
        let table = OwnTable::new(table.clone(), Uuid::now_v7());
        Arc::new(Reached { table, cut: AtomicBool::new(false) })
    };
    let nodes: Vec<_> = tables.iter().map(reached).collect();
    let owners: Vec<_> = (0..12).map(|drive| drive / 4).collect();
    let coordinators = (0..3).map(|_| {
        let peers = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn LockPeer>).collect();
        let votes = SetVotes::new(&owners, 3, 8);
        QuorumLocks::new(peers, Box::new(move |_| vec![votes.clone()]), lease)
    });
    let coordinators = coordinators.collect();
    Cluster { tables, nodes, coordinators }
}

fn key() -> ObjectKey {
    ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contending_nodes_take_turns_and_all_get_theirs() {
    let cluster = cluster(Duration::from_secs(10));
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for locks in &cluster.coordinators {
        for _ in 0..10 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                let wait = Duration::from_secs(30);
                let key = key();
                let guard = locks.acquire(&key, LockMode::Exclusive, wait).await;
                let guard = guard.expect("everybody gets a turn");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                assert!(guard.is_held());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            }));
        }
    }
    for task in tasks {
        task.await.expect("no task fails");
    }
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_them() {
    let cluster = cluster(Duration::from_secs(10));
    let [a, b, _] = &cluster.coordinators[..] else { panic!("three nodes") };
    let reader = a.acquire(&key(), LockMode::Shared, WAIT).await.expect("free");
    let other = b.acquire(&key(), LockMode::Shared, WAIT).await.expect("shared");
    let short = Duration::from_millis(80);
    let refused = b.acquire(&key(), LockMode::Exclusive, short).await.err();
    assert!(matches!(refused, Some(LockError::Busy { .. })), "{refused:?}");
    drop((reader, other));
    b.acquire(&key(), LockMode::Exclusive, WAIT).await.expect("free again");
}

#[tokio::test]
async fn a_minority_of_nodes_may_be_away_and_a_majority_may_not() {
    let cluster = cluster(Duration::from_secs(10));
    let a = &cluster.coordinators[0];
    cluster.nodes[2].cut.store(true, Ordering::SeqCst);
    let guard = a.acquire(&key(), LockMode::Exclusive, WAIT).await.expect("8 of 12 votes");
    drop(guard);
    cluster.nodes[1].cut.store(true, Ordering::SeqCst);
    let short = Duration::from_millis(200);
    let refused = a.acquire(&key(), LockMode::Exclusive, short).await.err();
    let expected = LockError::NoQuorum { resource: key(), granted: 4, needed: 7 };
    assert_eq!(refused, Some(expected));
}

#[tokio::test]
async fn a_lock_in_use_outlives_its_lease_and_a_holder_that_dies_loses_it() {
    let cluster = cluster(LEASE);
    let [a, b, _] = &cluster.coordinators[..] else { panic!("three nodes") };
    let guard = a.acquire(&key(), LockMode::Exclusive, WAIT).await.expect("free");
    tokio::time::sleep(LEASE * 2).await;
    assert!(guard.is_held(), "it is refreshed");
    let refused = b.acquire(&key(), LockMode::Exclusive, LEASE).await;
    assert!(refused.is_err(), "it is held");

    // The holder is frozen: nothing refreshes, nothing is given back.
    let old = guard.id();
    cluster.nodes[0].cut.store(true, Ordering::SeqCst);
    cluster.nodes[1].cut.store(true, Ordering::SeqCst);
    cluster.nodes[2].cut.store(true, Ordering::SeqCst);
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(!guard.is_held(), "it knows that its lease is over");
    cluster.nodes[1].cut.store(false, Ordering::SeqCst);
    cluster.nodes[2].cut.store(false, Ordering::SeqCst);
    let next = b.acquire(&key(), LockMode::Exclusive, WAIT).await.expect("the lease is over");

    // It resumes, and commits with the old id.
    for table in &cluster.tables {
        assert!(table.pin(&key(), old).is_none(), "a stale holder writes nowhere");
    }
    for table in &cluster.tables[1..] {
        assert!(table.pin(&key(), next.id()).is_some(), "the new one does");
    }
}

#[tokio::test]
async fn a_restarted_node_is_not_counted_on() {
    let cluster = cluster(Duration::from_secs(10));
    let a = &cluster.coordinators[0];
    cluster.nodes[2].cut.store(true, Ordering::SeqCst);
    let guard = a.acquire(&key(), LockMode::Exclusive, WAIT).await.expect("8 of 12 votes");
    a.forget_votes_of(2, Uuid::now_v7());
    assert!(guard.is_held(), "it had no vote of node 2");
    a.forget_votes_of(1, Uuid::now_v7());
    assert!(!guard.is_held(), "4 votes are left");
    let short = Duration::from_millis(100);
    let late = a.acquire(&key(), LockMode::Exclusive, short).await;
    assert!(late.is_err(), "answers of the life before do not count either");
}

#[tokio::test]
async fn a_dropped_lock_is_free_everywhere() {
    let cluster = cluster(Duration::from_secs(10));
    for round in 0..50 {
        let locks = &cluster.coordinators[round % 3];
        let soon = Duration::from_secs(2);
        let guard = locks.acquire(&key(), LockMode::Exclusive, soon).await;
        drop(guard.expect("free again at once"));
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    while cluster.tables.iter().any(|table| table.sweep() > 0) {
        assert!(Instant::now() < deadline, "grants are left behind");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(cluster.coordinators.iter().all(|locks| locks.held() == 0));
}

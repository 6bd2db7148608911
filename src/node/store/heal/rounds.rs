//! The loop that heals by itself: heartbeats, the queue, what readers stumbled over, the trash.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Busy;
use super::queue;
use super::queue::Tried;
use super::sequence;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::store::Store;
use crate::node::store::api::HealRequest;
use crate::node::store::calls::now_ns;
use crate::node::store::stagings;

/// How often a drive says durably that it is here.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often trash and quarantine are swept.
const SWEEP: Duration = Duration::from_secs(30);

/// Completes partial writes, keeps heartbeats and empties trash, until the future is dropped.
pub(super) async fn run(store: Arc<Store>) {
    let period = Duration::from_millis(store.parts.limits.heal_period_ms.max(10));
    let mut tried = Tried::default();
    let mut heartbeat = Instant::now();
    let mut sweep = Instant::now() + SWEEP;
    let mut looked_at_unclean = false;
    loop {
        let now = Instant::now();
        if now >= heartbeat {
            heartbeat = now + HEARTBEAT;
            on_local(&store, &DriveRequest::Heartbeat { now_ns: now_ns() }).await;
        }
        if now >= sweep {
            sweep = now + SWEEP;
            let grace_s = store.parts.limits.heal_grace_s;
            on_local(&store, &DriveRequest::Sweep { now_ns: now_ns(), grace_s }).await;
        }
        if !looked_at_unclean && all_online(&store) {
            looked_at_unclean = true;
            if was_unclean(&store).await && !sequence::heals_everything(&store) {
                sequence::begin(&store, HealRequest::default());
            }
        }
        {
            let _busy = Busy::new(&store.heal.busy);
            stagings::retry(&store).await;
            queue::work_off(&store, &mut tried).await;
            let suspects = std::mem::take(&mut *store.heal.suspects());
            for (set, work) in suspects {
                queue::finish(&store, set, work).await;
            }
        }
        store.heal.last_cycle_ended_ns.store(now_ns(), Ordering::Relaxed);
        tokio::time::sleep(period).await;
    }
}

fn all_online(store: &Store) -> bool {
    (0..store.sets()).all(|set| store.drives(set).iter().all(|drive| drive.is_online()))
}

/// Asks every drive of this node the same. One that cannot do it says so to everybody who asks it for more.
async fn on_local(
    store: &Store,
    request: &DriveRequest,
) -> Vec<Result<DriveReply, crate::disk::drive::DriveError>> {
    let mut answers = Vec::new();
    for set in 0..store.sets() {
        let local = store.parts.local.iter().filter(|(of, _)| *of == set);
        let requests = local.map(|(_, slot)| (*slot, request.clone())).collect::<Vec<_>>();
        answers.extend(store.ask(set, requests).await.into_iter().map(|(_, answer)| answer));
    }
    answers
}

/// Whether a drive of this node was in use when its node last died.
async fn was_unclean(store: &Store) -> bool {
    let answers = on_local(store, &DriveRequest::Facts).await;
    answers.iter().any(|answer| matches!(answer, Ok(DriveReply::Facts(facts)) if facts.unclean))
}

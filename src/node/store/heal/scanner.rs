//! The scanner: it looks at everything, cycle after cycle, and finds what nobody asked about.
//!
//! Each set is scanned by one node, which owns the first of its drives that is online; when two nodes see that
//! differently for a while, both do, and the locks of the keys keep them apart. A cycle looks at what is there and
//! how long it is; some of them read every byte. Between keys it rests, so that clients have the drives.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio::time::sleep_until;
use uuid::Uuid;

use super::sequence;
use super::sequence::Pace;
use crate::node::store::Store;
use crate::node::store::calls::now_ns;
use crate::protocol::admin::ScanStatus;

/// The first cycle begins no later than this after the start: what an outage left is to be found soon.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

/// What the scanner remembers of its cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    begun: u64,
    ended: u64,
    deep: bool,
    /// The sequence of the cycle under way, and when it began.
    running: Option<(Uuid, Instant)>,
    last: Option<Last>,
    /// Versions healed in all cycles that have ended.
    healed: u64,
}

impl Cycles {
    /// The sequence of the cycle under way.
    pub(super) fn under_way(&self) -> Option<Uuid> {
        self.running.map(|(id, _)| id)
    }
}

/// A cycle that has ended.
#[derive(Debug)]
struct Last {
    keys: u64,
    failed: u64,
    problems: Vec<String>,
    took: Duration,
    ended_ns: i64,
}

/// Scans until the future is dropped.
pub(super) async fn run(store: Arc<Store>) {
    let limits = &store.parts.limits;
    if limits.scan_cycle_ms == 0 {
        return;
    }
    let cycle = Duration::from_millis(limits.scan_cycle_ms);
    let pace = Pace::share(limits.scan_share_percent);
    let mut next = Instant::now() + cycle.min(FIRST_WITHIN);
    loop {
        sleep_until(next).await;
        next = Instant::now() + cycle;
        let sets = own(&store);
        if sets.is_empty() {
            continue;
        }
        let (id, began) = (Uuid::now_v7(), Instant::now());
        let deep = {
            let mut cycles = store.heal.scan();
            cycles.begun += 1;
            cycles.deep = cycles.begun.is_multiple_of(limits.scan_deep_every.into());
            cycles.running = Some((id, began));
            cycles.deep
        };
        let found = sequence::scan(&store, id, sets, deep, pace).await;
        if found.unhealed > 0 {
            let problem = found.problems.first().map_or("", String::as_str);
            tracing::warn!(versions = found.unhealed, problem, "a scan could not make all whole");
        }
        let mut cycles = store.heal.scan();
        cycles.ended += 1;
        cycles.running = None;
        cycles.healed += found.healed;
        cycles.last = Some(Last {
            keys: found.keys,
            failed: found.unhealed,
            problems: found.problems,
            took: began.elapsed(),
            ended_ns: now_ns(),
        });
    }
}

/// The sets that this node scans now.
fn own(store: &Store) -> Vec<usize> {
    let is_own = |set: &usize| {
        let first = store.drives(*set).iter().position(|drive| drive.is_online());
        first.is_some_and(|slot| store.parts.local.contains(&(*set, slot)))
    };
    (0..store.sets()).filter(is_own).collect()
}

/// How the scanner stands.
pub(super) fn status(store: &Store) -> ScanStatus {
    let cycles = store.heal.scan();
    let mut status = ScanStatus {
        sets: own(store).len(),
        cycles_begun: cycles.begun,
        cycles_ended: cycles.ended,
        deep: cycles.deep,
        running: cycles.running.is_some(),
        healed: cycles.healed,
        ..ScanStatus::default()
    };
    let per_s = |keys: u64, took: Duration| (keys as f64 / took.as_secs_f64().max(0.001)) as u64;
    let last = cycles.last.as_ref();
    status.last_ended_at_ms = last.and_then(|last| u64::try_from(last.ended_ns / 1_000_000).ok());
    let under_way = cycles.running.and_then(|(id, began)| {
        let progress = store.heal.sequences().get(&id).cloned()?;
        Some((progress, began))
    });
    match (under_way, last) {
        (Some((progress, began)), last) => {
            status.keys = progress.keys;
            status.keys_per_s = per_s(progress.keys, began.elapsed());
            status.keys_remaining = last.map(|last| last.keys.saturating_sub(progress.keys));
            status.healed += progress.healed;
            status.failed = progress.unhealed;
            status.problems = progress.problems;
        }
        (None, Some(last)) => {
            status.keys = last.keys;
            status.keys_per_s = per_s(last.keys, last.took);
            status.keys_remaining = Some(0);
            status.failed = last.failed;
            status.problems.clone_from(&last.problems);
        }
        (None, None) => {}
    }
    status
}

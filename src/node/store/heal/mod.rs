//! Healing: the durable queue of unfinished work, and bringing every version back to every drive.
//!
//! Healing adds; it takes nothing away that could still be somebody's. What is provably nobody's (`grace`) is
//! moved to quarantine. `mend` looks at one key, `verify` reads every byte of a version, `surplus` says what lies
//! there too much, `sequence` walks what a request names, `target` rebuilds the drives of one
//! replacement and proves it, `queue` finishes what writes left behind, `rounds`
//! is the loop that does so by itself, and `scanner` looks at everything by itself.

mod grace;
mod mend;
mod queue;
mod rounds;
mod scanner;
mod sequence;
mod surplus;
pub mod target;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

pub(crate) use grace::Doubt;
pub(crate) use queue::Noted;

use super::Store;
use super::api::HealProgress;
use super::api::HealRequest;
use super::api::StoreStatus;
use crate::value::ObjectKey;
use crate::value::VersionId;

pub(super) use queue::enqueue;

/// What healing remembers between calls.
#[derive(Default)]
pub struct State {
    sequences: Mutex<BTreeMap<Uuid, HealProgress>>,
    /// What readers stumbled over: looked at soon, and not remembered beyond this process.
    suspects: Mutex<BTreeSet<(usize, Unfinished)>>,
    queued: AtomicU64,
    busy: AtomicU64,
    last_cycle_ended_ns: AtomicI64,
    scan: Mutex<scanner::Cycles>,
}

/// Work that a write leaves behind when it reached its quorum but not every drive, or when nobody knows
/// what it reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unfinished {
    /// A version is to be the same on every drive of its set: present or absent, as a quorum has it.
    Version {
        /// The key.
        target: ObjectKey,
        /// The version.
        version: VersionId,
    },
    /// A read met shards that are missing, broken or misplaced: every byte of the version is to be looked at.
    Contents {
        /// The key.
        target: ObjectKey,
        /// The version.
        version: VersionId,
    },
    /// Drives hold different versions of a key.
    Key {
        /// The key.
        target: ObjectKey,
    },
    /// A version was removed by an acknowledged delete; what lags behind and is older goes too.
    Removal {
        /// The key.
        target: ObjectKey,
        /// The version.
        version: VersionId,
        /// Only what was written before this, Unix nanoseconds.
        before_ns: i64,
    },
    /// An upload was completed or aborted; drives that still have it are to remove it.
    Upload {
        /// The set of its object.
        set: usize,
        /// Its key in the system volume.
        upload: ObjectKey,
    },
    /// A bucket was made or removed; its directory is to follow on every drive.
    Bucket {
        /// The bucket.
        bucket: String,
    },
}

impl State {
    fn sequences(&self) -> MutexGuard<'_, BTreeMap<Uuid, HealProgress>> {
        self.sequences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scan(&self) -> MutexGuard<'_, scanner::Cycles> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn suspects(&self) -> MutexGuard<'_, BTreeSet<(usize, Unfinished)>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts work while it lives.
struct Busy<'a>(&'a AtomicU64);

impl<'a> Busy<'a> {
    fn new(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Finishes what was left behind and scans, until the future is dropped.
pub(super) async fn run(store: Arc<Store>) {
    futures::join!(rounds::run(Arc::clone(&store)), scanner::run(store));
}

/// Begins to heal; answers the sequence's id.
pub(super) fn heal(store: &Arc<Store>, request: HealRequest) -> Uuid {
    sequence::begin(store, request)
}

/// How far a sequence has come.
pub(super) fn progress(store: &Store, id: Uuid) -> Option<HealProgress> {
    store.heal.sequences().get(&id).cloned()
}

/// How the store stands.
pub(super) fn status(store: &Store) -> StoreStatus {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (heal, counts) = (&store.heal, store.counters.now());
    let suspects = heal.suspects().len() as u64;
    StoreStatus {
        queued: count(&heal.queued) + suspects + store.stagings.waiting(),
        healing: count(&heal.busy) > 0,
        last_cycle_ended_ns: heal.last_cycle_ended_ns.load(Ordering::Relaxed),
        healed: counts.healed,
        quarantined: counts.quarantined,
        unknown: counts.unknown,
        undone: counts.undone,
        repaired_reads: counts.repaired_reads,
        scan: scanner::status(store),
    }
}

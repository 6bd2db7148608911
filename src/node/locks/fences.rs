//! The lock table of this node on its monotonic clock, shared by those who grant and those who ask.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;
use std::time::Instant;

use uuid::Uuid;

use crate::disk::drive::Fences;
use crate::node::locks::table::LockTable;
use crate::node::seams::LockMode;
use crate::value::ObjectKey;

/// This node's grants. Cheap to clone; all clones are one table.
#[derive(Clone)]
pub struct LocalLocks {
    shared: Arc<Shared>,
}

struct Shared {
    table: Mutex<LockTable>,
    /// `CLOCK_MONOTONIC`: it runs on while the process is stopped, so a frozen holder lapses too.
    epoch: Instant,
    /// Until when nothing is granted after a restart; see [`LocalLocks::forgetful`].
    quiet_until: Mutex<Option<Instant>>,
}

impl LocalLocks {
    /// An empty table.
    pub fn new(lease: Duration) -> Self {
        let table = Mutex::new(LockTable::new(lease));
        let quiet_until = Mutex::new(None);
        Self { shared: Arc::new(Shared { table, epoch: Instant::now(), quiet_until }) }
    }

    /// A table whose node may have granted locks before it was restarted, and has forgotten them. It
    /// grants nothing until all holders know that ([`remember`](Self::remember)) or a lease has passed.
    pub fn forgetful(lease: Duration) -> Self {
        let locks = Self::new(lease);
        *locks.quiet() = Some(locks.shared.epoch + lease);
        locks
    }

    /// Says that no holder counts on a grant from before the restart any more.
    pub fn remember(&self) {
        *self.quiet() = None;
    }

    /// Whether nothing is granted yet.
    pub fn is_quiet(&self) -> bool {
        let mut quiet = self.quiet();
        if quiet.is_some_and(|until| Instant::now() >= until) {
            *quiet = None;
        }
        quiet.is_some()
    }

    /// See [`LockTable::grant`].
    pub fn grant(&self, resource: &ObjectKey, id: Uuid, mode: LockMode) -> bool {
        if self.is_quiet() {
            return false;
        }
        let now = self.now();
        self.table().grant(resource, id, mode, now)
    }

    /// See [`LockTable::refresh`].
    pub fn refresh(&self, resource: &ObjectKey, id: Uuid) -> bool {
        let now = self.now();
        self.table().refresh(resource, id, now)
    }

    /// See [`LockTable::release`].
    pub fn release(&self, resource: &ObjectKey, id: Uuid) {
        self.table().release(resource, id);
    }

    /// See [`LockTable::sweep`].
    pub fn sweep(&self) -> usize {
        let now = self.now();
        self.table().sweep(now)
    }

    fn quiet(&self) -> MutexGuard<'_, Option<Instant>> {
        self.shared.quiet_until.lock().expect("nothing panics while it holds the time")
    }

    fn now(&self) -> Duration {
        self.shared.epoch.elapsed()
    }

    fn table(&self) -> MutexGuard<'_, LockTable> {
        self.shared.table.lock().expect("nothing panics while it holds the table")
    }
}

impl Fences for LocalLocks {
    fn pin(&self, resource: &ObjectKey, lock: Uuid) -> Option<Box<dyn Send>> {
        // The time is read under the table's lock: a thread that was stopped in between would
        // otherwise judge by a time long gone.
        let mut table = self.table();
        let now = self.now();
        let pinned = table.pin(resource, lock, now);
        drop(table);
        pinned.then(|| {
            let pin = Pin { locks: self.clone(), resource: resource.clone(), lock };
            Box::new(pin) as Box<dyn Send>
        })
    }
}

/// One step under way.
struct Pin {
    locks: LocalLocks,
    resource: ObjectKey,
    lock: Uuid,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.locks.table().unpin(&self.resource, self.lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_allowed_while_the_grant_stands_and_keeps_it_standing() {
        let key = ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() };
        let locks = LocalLocks::new(Duration::from_secs(60));
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(locks.pin(&key, one).is_none(), "nobody was granted anything");
        assert!(locks.grant(&key, one, LockMode::Exclusive));
        assert!(locks.pin(&key, two).is_none());
        let pin = locks.pin(&key, one).expect("the grant stands");
        locks.release(&key, one);
        assert!(!locks.grant(&key, two, LockMode::Exclusive), "a step is under way");
        drop(pin);
        assert!(locks.grant(&key, two, LockMode::Exclusive));
        assert!(locks.pin(&key, one).is_none(), "the old holder is fenced");
    }

    #[test]
    fn a_restarted_table_grants_nothing_before_the_holders_know() {
        let key = ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() };
        let one = Uuid::from_u128(1);
        let locks = LocalLocks::forgetful(Duration::from_secs(60));
        assert!(!locks.grant(&key, one, LockMode::Exclusive));
        locks.remember();
        assert!(locks.grant(&key, one, LockMode::Exclusive));
        let locks = LocalLocks::forgetful(Duration::ZERO);
        assert!(!locks.is_quiet(), "a lease has passed");
    }
}

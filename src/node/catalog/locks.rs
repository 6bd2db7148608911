//! The catalog's locks: by name, shared or alone, and carried by every step that is taken under them.
//!
//! A record's own key is locked by each write of it; these names are others, so that nobody waits for a lock that
//! they hold (M1). All of them are voted for by every set, and each drive holds a step to all of them.
//!
//! # Sources
//!
//! Specification of the catalog §3.3 (names and order), §5.9 (what a migration drains).

use std::sync::Arc;
use std::time::Duration;

use crate::node::seams::LockMode;
use crate::node::store::Store;
use crate::node::store::system::NamedLock;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// Locks that are held until this is dropped, in the order in which they were taken.
#[derive(Default)]
pub struct Locks {
    held: Vec<(String, NamedLock)>,
}

/// The registry lock.
pub fn registry() -> String {
    keys::REGISTRY_LOCK.to_owned()
}

/// The lock of the strong snapshot, taken last.
pub fn snapshot() -> String {
    format!("{}.lock", keys::SNAPSHOT)
}

/// The lock of a bucket's fence.
pub fn bucket_fence(bucket: &str) -> String {
    keys::bucket_fence_lock(bucket)
}

/// The lock that orders what decides about names and prefixes of a bucket.
pub fn bucket_publication(bucket: &str) -> String {
    format!("{bucket}/{}", keys::bucket_publication_lock())
}

/// The lock of a table's or view's pointer, and of the objects that it owns.
pub fn publication(bucket: &str, of: &Identifier) -> String {
    format!("{bucket}/{}", keys::publication_lock(of))
}

impl Locks {
    /// No lock.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes one more lock; one that is held already, in whichever mode, is not taken again.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] when it is not granted in time; those that were held before are held still.
    pub async fn take(
        &mut self,
        store: &Arc<Store>,
        name: &str,
        mode: LockMode,
    ) -> Result<(), Refusal> {
        self.take_within(store, name, mode, store.lock_wait()).await
    }

    /// As [`Locks::take`], with its own time to wait.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`].
    pub async fn take_within(
        &mut self,
        store: &Arc<Store>,
        name: &str,
        mode: LockMode,
        wait: Duration,
    ) -> Result<(), Refusal> {
        if self.held.iter().any(|(held, _)| held == name) {
            return Ok(());
        }
        let lock = store.lock_named(name, mode, wait).await.map_err(|error| {
            let why = crate::node::chain(&error);
            Class::Unavailable.because(format!("the lock {name} was not granted: {why}"))
        })?;
        self.held.push((name.to_owned(), lock));
        Ok(())
    }

    /// Refuses to go on without one of them.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`].
    pub fn check(&self) -> Result<(), Refusal> {
        if self.held.iter().all(|(_, lock)| lock.is_held()) {
            return Ok(());
        }
        Err(Class::Unavailable.because("a lock was lost; nothing more was written"))
    }

    /// All of them.
    pub fn all(&self) -> Vec<&NamedLock> {
        self.held.iter().map(|(_, lock)| lock).collect()
    }
}

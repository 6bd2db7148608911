//! Where the parts of a node meet: drives that answer, locks that are held.
//!
//! The store (what objects are) knows only these traits; the server (queues, peers, leases) provides
//! them. A rehearsal plants its defects around these seams and in `protocol::rules`, never inside.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use uuid::Uuid;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::value::ObjectKey;

/// A future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A drive as the store sees it: asked, and answering within its deadline.
///
/// A local drive stands behind its queue, a peer's drive behind an RPC; both look alike from here.
pub trait DriveClient: Send + Sync {
    /// Its name in the configuration, `node/slot`.
    fn name(&self) -> &str;

    /// Whether new work should be sent to it: false while absent, suspect, swapped or unreachable.
    fn is_online(&self) -> bool;

    /// Performs one request.
    ///
    /// # Errors
    /// As the drive has them, and `DriveError::Deadline` or `DriveError::Unreachable` when no answer
    /// arrived: for anything that writes these mean *cannot know*.
    fn call(&self, request: DriveRequest) -> BoxFuture<'_, Result<DriveReply, DriveError>>;
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockMode {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// Grants namespace locks by quorum of the nodes, weighted by the drives that they own.
pub trait Locks: Send + Sync {
    /// Waits at most `wait` for a lock on `resource` from a quorum.
    ///
    /// # Errors
    /// [`LockError`]; nothing is held then.
    fn acquire<'a>(
        &'a self,
        resource: &'a ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn LockGuard>, LockError>>;
}

/// A lock that is held: refreshed while it lives, released when it is dropped.
pub trait LockGuard: Send + Sync {
    /// The id that every commit step must carry (see `DriveRequest`).
    fn id(&self) -> Uuid;

    /// Whether the lease still stands at a quorum, as far as this node knows.
    fn is_held(&self) -> bool;
}

/// Why no lock was granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Somebody else held it for the whole wait.
    #[error("{resource} stayed locked for {waited_ms} ms")]
    Busy {
        /// What was to be locked.
        resource: ObjectKey,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Too few nodes answered.
    #[error("{granted} of {needed} votes for a lock on {resource}")]
    NoQuorum {
        /// What was to be locked.
        resource: ObjectKey,
        /// Votes received, in drives.
        granted: usize,
        /// Votes needed, in drives.
        needed: usize,
    },
}

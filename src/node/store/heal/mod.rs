//! Healing: the durable queue of unfinished work, and bringing every version back to every drive.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

use super::Store;
use super::api::HealProgress;
use super::api::HealRequest;
use super::api::StoreError;
use super::api::StoreStatus;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// What healing remembers between calls.
#[derive(Default)]
pub struct State {}

/// Work that a write leaves behind when it reached its quorum but not every drive, or when nobody knows
/// what it reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Notes unfinished work durably on the drives `took` of `set`, which took the write. Answers on how many
/// drives it stands; callers go on when it is none.
pub(super) async fn enqueue(store: &Store, set: usize, took: &[usize], work: Unfinished) -> usize {
    let _ = (store, set, took, work);
    0
}

/// Begins to heal; answers the sequence's id.
pub(super) fn heal(store: &Arc<Store>, request: HealRequest) -> Uuid {
    let _ = (store, request);
    unimplemented!("being written")
}

/// How far a sequence has come.
pub(super) fn progress(store: &Store, id: Uuid) -> Option<HealProgress> {
    let _ = (store, id);
    unimplemented!("being written")
}

/// Gives a blank drive in a known slot its format and begins to rebuild it; answers the sequence's id.
pub(super) async fn adopt_blank(
    store: &Arc<Store>,
    set: usize,
    slot: usize,
) -> Result<Uuid, StoreError> {
    let _ = (store, set, slot);
    unimplemented!("being written")
}

/// How the store stands.
pub(super) fn status(store: &Store) -> StoreStatus {
    let _ = store;
    unimplemented!("being written")
}

/// Completes partial writes, keeps heartbeats and empties trash, until the future is dropped.
pub(super) async fn run(store: Arc<Store>) {
    let _ = store;
    unimplemented!("being written")
}

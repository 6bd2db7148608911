//! Deciding what an interrupted write left undecided, under the key's lock held alone.
//!
//! What [`decide`](crate::protocol::object::decide) says is to be brought is written to every drive that
//! answers; what is to be cleared is moved to quarantine there. Then the copies are read again, and only
//! what they then say counts.

use std::sync::Arc;

use uuid::Uuid;

use super::Store;
use super::calls::Held;
use super::copies::Copies;
use super::copies::Want;
use super::rebuild;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Published;
use crate::disk::drive::Settle;
use crate::disk::drive::Undo;
use crate::disk::format::xl_meta::Version;
use crate::protocol::object::decide::Decision;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Decides every version of a key that can be decided. Answers the copies as they are then.
pub(super) async fn settle(
    store: &Arc<Store>,
    set: usize,
    target: &ObjectKey,
    since_ns: i64,
    lock: &Held,
) -> Copies {
    decide_all(store, set, target, since_ns, lock, true).await
}

/// As [`settle`], but takes nothing away: what healing moves away has rules of its own.
pub(super) async fn complete(
    store: &Arc<Store>,
    set: usize,
    target: &ObjectKey,
    since_ns: i64,
    lock: &Held,
) -> Copies {
    decide_all(store, set, target, since_ns, lock, false).await
}

async fn decide_all(
    store: &Arc<Store>,
    set: usize,
    target: &ObjectKey,
    since_ns: i64,
    lock: &Held,
    clears: bool,
) -> Copies {
    let all = |_: &Copies| false;
    let copies = store.read_copies(set, target, since_ns, true, all).await;
    let mut changed = false;
    for (id, _) in copies.ids() {
        match copies.decide(id, true) {
            Decision::Present(_) | Decision::Absent | Decision::Open => {}
            Decision::Bring(backing) => {
                tracing::info!(%target, %id, "completing a write that was interrupted");
                changed |= rebuild::bring(store, lock, &copies, &backing).await;
            }
            Decision::Clear if !clears => {}
            Decision::Clear => {
                tracing::info!(%target, %id, "taking back a write that was interrupted");
                changed |= clear(store, lock, &copies, id).await;
            }
        }
    }
    if !changed {
        return copies;
    }
    let copies = store.read_copies(set, target, since_ns, true, all).await;
    if copies.read(Want::All, false).is_ok() {
        forget(store, lock, &copies).await;
    }
    copies
}

/// The write that put a version there.
pub(super) fn published(version: &Version) -> Published {
    Published {
        version: version.id(),
        modtime_ns: version.header().modtime_ns,
        data_dir: version.as_object().map(|object| object.data_dir),
    }
}

/// Takes a version off every drive that holds it.
async fn clear(store: &Arc<Store>, lock: &Held, copies: &Copies, id: VersionId) -> bool {
    let undo = |slot: usize| {
        let version = copies.version(slot, id)?;
        let undo = Undo {
            grant: lock.grant(),
            target: copies.target.clone(),
            published: Some(published(version)),
            rollback: None,
            quarantine: true,
            upload: None,
        };
        Some((slot, DriveRequest::Undo(undo)))
    };
    let requests: Vec<_> = (0..copies.copies.len()).filter_map(undo).collect();
    store.ask(copies.set, requests).await.iter().any(|(_, answer)| answer.is_ok())
}

/// Removes what was kept for taking back, now that everything is decided by a quorum.
async fn forget(store: &Arc<Store>, lock: &Held, copies: &Copies) {
    let settle = |slot: usize| {
        let rollbacks: Vec<Uuid> =
            copies.copies[slot].backups.iter().map(|(folder, _)| *folder).collect();
        let settle = Settle {
            grant: lock.grant(),
            target: copies.target.clone(),
            rollbacks,
            data_dirs: Vec::new(),
            parts: None,
        };
        (!settle.rollbacks.is_empty()).then_some((slot, DriveRequest::Settle(settle)))
    };
    let requests: Vec<_> = (0..copies.copies.len()).filter_map(settle).collect();
    store.ask(copies.set, requests).await;
}

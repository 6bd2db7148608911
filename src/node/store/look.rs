//! Looking at a key so that what is seen stays seen.
//!
//! A reader holds the key's lock with other readers, so that no write is under way. What the drives do not
//! agree on by a quorum is decided first, under the lock held alone (see [`super::settle`]).

use std::sync::Arc;

use super::Store;
use super::api::StoreError;
use super::calls::Held;
use super::copies::Copies;
use super::copies::Found;
use super::copies::Want;
use super::settle;
use crate::disk::drive::DriveRequest;
use crate::node::seams::LockMode;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;

/// What was seen, and the lock that keeps it so.
pub(super) struct Seen {
    pub(super) copies: Copies,
    /// What was wanted, newest first.
    pub(super) found: Vec<Found>,
    pub(super) lock: Held,
}

impl Store {
    /// Looks at a key.
    pub(super) async fn look(
        self: &Arc<Self>,
        set: usize,
        target: &ObjectKey,
        since_ns: i64,
        want: Want,
        inline: bool,
    ) -> Result<Seen, StoreError> {
        self.look_as(set, target, since_ns, want, inline, false).await
    }

    /// As [`Store::look`]; a patient reader waits for every drive, because it needs as many shards as there are.
    pub(super) async fn look_as(
        self: &Arc<Self>,
        set: usize,
        target: &ObjectKey,
        since_ns: i64,
        want: Want,
        inline: bool,
        patient: bool,
    ) -> Result<Seen, StoreError> {
        let lock = self.lock(target, LockMode::Shared).await?;
        let enough = |copies: &Copies| !patient && copies.read(want, false).is_ok();
        // Of folders only those matter here in which metadata is kept.
        let request = DriveRequest::ReadKey { target: target.clone(), inline, brief: true };
        let copies = self.read_copies_as(set, target, since_ns, request, enough).await;
        if let Ok(found) = copies.read(want, true) {
            if lock.is_held() {
                return Ok(Seen { copies, found, lock });
            }
        } else if copies.answered() < quorum::absence(copies.copies.len()) {
            return Err(self.cannot_read(&copies));
        }
        drop(lock);
        let lock = self.lock(target, LockMode::Exclusive).await?;
        let copies = settle::settle(self, set, target, since_ns, &lock).await;
        match copies.read(want, true) {
            Ok(found) if lock.is_held() => Ok(Seen { copies, found, lock }),
            _ => Err(self.cannot_read(&copies)),
        }
    }

    /// The error for a key whose copies cannot be added up.
    pub(super) fn cannot_read(&self, copies: &Copies) -> StoreError {
        let (able, needed) = (copies.answered(), self.majority());
        if able < needed {
            let why = copies.failure();
            return StoreError::NoQuorum { what: "say what the key holds", able, needed, why };
        }
        let why =
            "its drives contradict each other, or too few of them answer, to say what it holds";
        StoreError::Unreadable { target: copies.target.clone(), why: why.to_owned() }
    }
}

//! When a version that nobody acknowledged, or that was deleted, may be moved away.
//!
//! *Verified before anything goes:* every drive of the set is present, belongs, and is not being rebuilt (or so many
//! of those that are not hold an older write that no lost drive can have made the difference; a rebuild could not end
//! otherwise); by what they all say the version is not there; it was so for the whole grace,
//! by records on a majority of them that count from the last return of any drive; and no drive that lacks it was
//! away when it was written, since such a drive would lack it in any case.
//!
//! What is in the way waits for no grace: an acknowledged version would lack a shard for so long, or nobody
//! could read the key. Quarantine keeps its bytes all the same.
//!
//! *Not verified:* why it is below its quorum.

use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;
use sha2::Digest as _;
use sha2::Sha256;

use super::rounds;
use super::surplus;
use super::surplus::Leftover;
use crate::disk::drive::DriveFacts;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::store::Store;
use crate::node::store::calls::now_ns;
use crate::node::store::copies::Copies;
use crate::value::ObjectKey;

/// A drive was still here for up to so long after its last heartbeat.
const SLACK_NS: i64 = 2 * rounds::HEARTBEAT.as_nanos() as i64;

/// Since when a version is known to be below its quorum.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Doubt {
    format: u32,
    since_ns: i64,
}

/// Why a leftover stays.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stays {
    /// Not everything is known that could speak for it.
    #[error("it is below its quorum, and {0}")]
    Unproved(String),
    /// Time alone is missing, and no version suffers from it.
    #[error("it is below its quorum, and its grace has not ended")]
    Grace,
}

/// Whether a leftover may go. `removing`: its bucket is gone or going, so that no grace is due.
///
/// # Errors
///
/// Why not.
pub(super) async fn allows(
    store: &Arc<Store>,
    copies: &Copies,
    leftover: &Leftover,
    removing: bool,
) -> Result<(), Stays> {
    let refuse = |why: &str| Err(Stays::Unproved(why.to_owned()));
    let is_outvoted = leftover.in_the_way && surplus::is_outvoted(copies, leftover);
    if !is_outvoted && !surplus::all_speak(copies) {
        return refuse("not every drive is present and whole");
    }
    let mut facts = Vec::new();
    for (slot, answer) in store.ask_all(copies.set, &DriveRequest::Facts).await {
        match answer {
            Ok(DriveReply::Facts(it)) if is_outvoted || !it.rebuilding => facts.push((slot, it)),
            _ => return refuse("a drive does not say how it stands"),
        }
    }
    if removing {
        return Ok(());
    }
    let written_ns = leftover.version.header().modtime_ns;
    let was_away = |(slot, it): &&(usize, DriveFacts)| {
        !leftover.slots.contains(slot)
            && it.absent_until_ns > 0
            && (it.absent_from_ns.saturating_add(SLACK_NS)..=it.absent_until_ns)
                .contains(&written_ns)
    };
    if let Some((slot, _)) = facts.iter().find(was_away) {
        return refuse(&format!("drive {slot} was away when it was written"));
    }
    let grace_s = store.parts.limits.heal_grace_s;
    if grace_s == 0 || leftover.in_the_way {
        return Ok(());
    }
    let last_return_ns = facts.iter().map(|(_, it)| it.absent_until_ns).max().unwrap_or(0);
    let since_ns = doubt(store, copies.set, &copies.target, leftover).await.max(last_return_ns);
    let grace_ns = i64::try_from(grace_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
    if now_ns().saturating_sub(since_ns) >= grace_ns {
        return Ok(());
    }
    Err(Stays::Grace)
}

/// Since when the version is in doubt, by records of a majority; they are made when they are not there.
async fn doubt(store: &Store, set: usize, target: &ObjectKey, leftover: &Leftover) -> i64 {
    let name = record_name(target, leftover);
    let mut since = Vec::new();
    for (_, answer) in store.ask_all(set, &DriveRequest::RecordRead { name: name.clone() }).await {
        if let Ok(DriveReply::Record(Some(bytes))) = answer
            && let Ok(doubt) = serde_json::from_slice::<Doubt>(&bytes)
        {
            since.push(doubt.since_ns);
        }
    }
    if since.len() >= store.majority() {
        // The latest of them: the shortest time that can be proved.
        return since.into_iter().max().unwrap_or(i64::MAX);
    }
    let now = now_ns();
    let bytes = serde_json::to_vec(&Doubt { format: 1, since_ns: now })
        .expect("a doubt has text keys only");
    store.ask_all(set, &DriveRequest::RecordPut { name, bytes }).await;
    now
}

/// Forgets that a version was in doubt.
pub(super) async fn forget(store: &Store, set: usize, target: &ObjectKey, leftover: &Leftover) {
    if store.parts.limits.heal_grace_s > 0 {
        let name = record_name(target, leftover);
        store.ask_all(set, &DriveRequest::RecordRemove { name }).await;
    }
}

fn record_name(target: &ObjectKey, leftover: &Leftover) -> String {
    let mut digest = Sha256::new();
    let header = leftover.version.header();
    for part in [target.bucket.as_bytes(), target.key.as_bytes(), &header.version.0] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.update(header.modtime_ns.to_be_bytes());
    format!("doubt-{}", &hex::encode(digest.finalize())[..40])
}

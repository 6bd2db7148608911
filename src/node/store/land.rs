//! One write on all drives of a set, and what became of it: done, not done, or nobody knows.
//!
//! ```text
//!  quorum took it, lock still held ──▶ done        (who missed it is noted durably before the answer)
//!  fewer, all of them taken back ────▶ not done
//!  anything else ────────────────────▶ unknown     (noted, so that healing decides it)
//! ```
//!
//! A write is taken back only if it cannot have reached its quorum: what did may have been seen.

use std::sync::Arc;

use super::Store;
use super::api::StoreError;
use super::calls::Answer;
use super::calls::Asked;
use super::calls::GRACE;
use super::calls::Held;
use super::calls::first_error;
use super::calls::gather;
use super::heal;
use super::heal::Unfinished;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Effect;
use crate::disk::drive::Undo;
use crate::value::ObjectKey;

/// How to take the write back on one drive, given what the drive answered, if it did.
pub(super) type UndoOn = Box<dyn Fn(usize, Option<&DriveReply>) -> Undo + Send + Sync>;

/// A write that is about to begin.
pub(super) struct Launch {
    pub(super) set: usize,
    pub(super) target: ObjectKey,
    /// What each drive is asked.
    pub(super) requests: Vec<(usize, DriveRequest)>,
    /// Drives that must take it, after the rules.
    pub(super) quorum: usize,
    pub(super) undo: UndoOn,
    /// What is noted when a drive missed it or nobody knows.
    pub(super) unfinished: Unfinished,
}

/// A write that reached its quorum.
pub(super) struct Landed {
    /// Who took it, with what was answered.
    pub(super) done: Vec<(usize, DriveReply)>,
    /// Who had not answered yet.
    pub(super) late: Asked,
}

impl Landed {
    /// Drives that took it.
    pub(super) fn slots(&self) -> Vec<usize> {
        self.done.iter().map(|(slot, _)| *slot).collect()
    }
}

/// Writes. The caller holds `lock` alone and keeps it until [`Landed::late`] is empty.
///
/// # Errors
///
/// `NoQuorum`: nothing was done. `Unknown`: it may have taken effect, now or later.
pub(super) async fn land(
    store: &Arc<Store>,
    lock: &Held,
    launch: Launch,
) -> Result<Landed, StoreError> {
    let Launch { set, target, requests, quorum, undo, unfinished } = launch;
    let what = "take the write";
    if requests.len() < quorum {
        let able = requests.len();
        return Err(StoreError::NoQuorum { what, able, needed: quorum, why: None });
    }
    let mut late = store.start(set, requests);
    let oks = |answers: &[Answer]| answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    let answers = gather(&mut late, GRACE, |answers| oks(answers) >= quorum).await;
    let why = first_error(&answers);
    let mut done = Vec::new();
    let mut perhaps = Vec::new();
    let mut unheard = false;
    for (slot, answer) in answers {
        match answer {
            Ok(reply) => done.push((slot, reply)),
            Err(error) if error.effect() == Effect::Unknown => {
                unheard |= is_silence(&error);
                perhaps.push(slot);
            }
            Err(_) => {}
        }
    }
    let slots: Vec<_> = done.iter().map(|(slot, _)| *slot).collect();

    if done.len() >= quorum && lock.is_held() {
        if done.len() < store.drives(set).len() {
            heal::enqueue(store, set, &slots, unfinished).await;
        }
        return Ok(Landed { done, late });
    }
    // What nobody was told of is not carried through by healing, but decided.
    let undecided = match unfinished {
        Unfinished::Removal { target, version, .. } => Unfinished::Version { target, version },
        other => other,
    };
    let note = |slots: Vec<usize>, why: &'static str| async move {
        heal::enqueue(store, set, &slots, undecided).await;
        store.unknown(&target, why, quorum)
    };
    if done.len() + perhaps.len() >= quorum {
        tokio::spawn(async move { gather(&mut late, GRACE, |_| false).await });
        let why = match lock.is_held() {
            true => "too few drives said that they took it",
            false => "the lock was lost while drives took it",
        };
        return Err(note(slots, why).await);
    }
    let mut undos: Vec<_> = done
        .iter()
        .map(|(slot, reply)| (*slot, DriveRequest::Undo(undo(*slot, Some(reply)))))
        .collect();
    undos.extend(perhaps.iter().map(|slot| (*slot, DriveRequest::Undo(undo(*slot, None)))));
    let any = !undos.is_empty();
    let undone = store.ask(set, undos).await;
    // A question that was lost on its way may still arrive, after what was to take it back.
    if unheard || undone.iter().any(|(_, answer)| answer.is_err()) {
        return Err(note(slots, "too few drives took it, and it could not be taken back").await);
    }
    if any {
        store.counters.undone();
    }
    Err(StoreError::NoQuorum { what, able: done.len(), needed: quorum, why })
}

/// Whether no answer came, so that the question may still be on its way.
fn is_silence(error: &DriveError) -> bool {
    matches!(error, DriveError::Deadline { .. } | DriveError::Unreachable { .. })
}

impl Store {
    /// The error for a write that nobody knows the outcome of.
    pub(super) fn unknown(&self, target: &ObjectKey, why: &str, needed: usize) -> StoreError {
        self.counters.unknown();
        tracing::warn!(%target, why, "the outcome of a write is unknown");
        if self.parts.rules.admits_the_unknown() {
            return StoreError::Unknown { target: target.clone(), why: why.to_owned() };
        }
        StoreError::NoQuorum { what: "take the write", able: 0, needed, why: None }
    }
}

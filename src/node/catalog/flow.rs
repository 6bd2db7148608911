//! Performing a flow of the protocol: read, ask, write, read again, until it is done.
//!
//! # Sources
//!
//! `protocol::catalog::write`, "What the performer owes".

use std::future::Future;

use super::depot::Depot;
use super::locks::Locks;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// How often one request asks before it is taken for stuck: more than any flow has steps, besides those that make
/// one entry of many.
const QUESTIONS_MAX: usize = 64;
/// Writes with unknown outcomes before a request gives up finding out.
const UNKNOWN_MAX: usize = 3;

/// One flow, with what was asked for.
pub trait Flow: Send {
    /// What it reads.
    type Durable: Send + Sync;
    /// What it answers.
    type Answer: Send;

    /// Reads what is durable.
    fn read(&mut self) -> impl Future<Output = Result<Self::Durable, Refusal>> + Send;

    /// What is to be done next.
    ///
    /// # Errors
    ///
    /// As the flow has them.
    fn next(&self, durable: &Self::Durable) -> Result<Step<Self::Answer>, Refusal>;

    /// What gives back what a refused request has taken.
    fn undo(&self, _durable: &Self::Durable) -> Vec<Write> {
        Vec::new()
    }

    /// Whether every write of it leaves something that others see, so that no error after one says that nothing was
    /// done.
    fn is_staged(&self) -> bool {
        false
    }

    /// This became of a write.
    fn performed(&mut self, _write: &Write, _outcome: &Outcome) {}

    /// A write was done, or may have been: what is found from now on may be this request's own.
    fn attempted(&mut self) {}

    /// A step that the request can do without has failed.
    fn leave_unfinished(&mut self) {}

    /// Whether it makes as many writes as there are entries.
    fn is_long(&self) -> bool {
        false
    }
}

/// Performs a flow under locks that are held.
///
/// # Errors
///
/// As the flow has them; [`Class::Unknown`] when nobody can say what became of it.
pub async fn perform<F: Flow>(
    depot: &Depot,
    locks: &Locks,
    flow: &mut F,
) -> Result<F::Answer, Refusal> {
    let (mut has_written, mut is_open, mut unknown) = (false, false, 0);
    let mut questions = 0;
    loop {
        // What has happened, or may have, is never answered as a refusal; what reads like the old state may still be
        // overtaken by a write that is under way.
        let is_seen = is_open || flow.is_staged() && has_written;
        let durable = flow.read().await.map_err(|refusal| known_or(is_seen, refusal))?;
        let write = match flow.next(&durable) {
            Ok(Step::Done(answer)) => return Ok(answer),
            Ok(Step::Write(write)) => write,
            Err(refusal) => {
                if has_written && !is_open {
                    take_back(depot, locks, flow.undo(&durable)).await;
                }
                return Err(known_or(is_open, refusal));
            }
        };
        questions += 1;
        if questions > QUESTIONS_MAX && !flow.is_long() {
            let text = format!("{} is written again and again", write.key);
            return Err(known_or(is_open, Class::Unavailable.because(text)));
        }
        let outcome = depot.perform(&write, locks).await;
        if let Ok(outcome) = &outcome {
            flow.performed(&write, outcome);
        }
        match outcome {
            Ok(Outcome::Done(_)) => {
                has_written = true;
                is_open |= is_linearising(&write);
                flow.attempted();
            }
            // It was judged under the key's lock: whatever went before it has landed or never will, and reading tells.
            Ok(Outcome::PreconditionFailed) => is_open &= !is_linearising(&write),
            Ok(Outcome::Unknown) => {
                has_written = true;
                is_open |= is_linearising(&write);
                unknown += 1;
                flow.attempted();
                if write.is_best_effort {
                    flow.leave_unfinished();
                } else if unknown >= UNKNOWN_MAX {
                    let text = format!("what became of {} cannot be known", write.key);
                    return Err(Class::Unknown.because(text));
                }
            }
            Err(error) if write.is_best_effort => {
                tracing::warn!(key = write.key, %error, "a step after the answer was left out");
                flow.leave_unfinished();
            }
            Err(refusal) => {
                let is_seen = is_open || flow.is_staged() && has_written;
                if has_written
                    && !is_open
                    && let Ok(durable) = flow.read().await
                {
                    take_back(depot, locks, flow.undo(&durable)).await;
                }
                return Err(known_or(is_seen, refusal));
            }
        }
    }
}

/// Whether a write is the one that makes a change visible.
fn is_linearising(write: &Write) -> bool {
    use CrashPoint as P;
    matches!(
        write.point,
        P::CatalogCommitPointerMoved
            | P::CatalogCreateEntryWritten
            | P::CatalogDropEntryDeleted
            | P::CatalogViewEntryWritten
            | P::CatalogViewPointerMoved
            | P::CatalogViewEntryDeleted
            | P::CatalogNamespaceEntryWritten
            | P::CatalogNamespaceEntryDeleted
            | P::CatalogBucketEntryWritten
    )
}

/// A refusal, unless something is not known.
fn known_or(is_open: bool, refusal: Refusal) -> Refusal {
    if is_open { refusal.as_class(Class::Unknown) } else { refusal }
}

async fn take_back(depot: &Depot, locks: &Locks, writes: Vec<Write>) {
    for write in writes {
        if let Err(error) = depot.perform(&write, locks).await {
            tracing::warn!(key = write.key, %error, "what a refused request took was not given back");
        }
    }
}

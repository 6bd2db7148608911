//! The failure budget: what a failed pass costs, and what it leaves in the records.
//!
//! A generation may fail [`RETRIES_MAX`](crate::protocol::replacement::intent::RETRIES_MAX) passes in total, across
//! restarts and successors. A handoff costs nothing: the length of the lineage bounds those. A target that is
//! not ready costs nothing. An exhausted budget is the end until an operator re-arms it.

use crate::protocol::replacement::checkpoint::Checkpoint;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::refusal::Effect;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::scan;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Write;

/// What a record says that waits for a target; released servers look for these words.
pub const READINESS_DEFERRED: &str = "Replacement target readiness deferred; retry pending";

/// Why an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The pass left versions out although every target was ready: it begins again from zero.
    Pass(Refusal),
    /// A target went away during the pass: it begins again from zero, and nothing is charged.
    TargetNotReady,
    /// A refusal: what it costs is its [`Effect`].
    Refused(Refusal),
    /// Anything else, in its own words: an attempt is charged, progress stays.
    Other(String),
}

/// The next write that records why the attempt on `id` ended; `None` when it is recorded, or leaves no trace.
///
/// `retries_before` is the record's count when the attempt began: one attempt is charged once, however often
/// this is asked.
///
/// # Errors
///
/// As reading and saving the record.
pub fn next_write(
    durable: &Durable,
    id: GenerationId,
    failure: &Failure,
    retries_before: u32,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let stored = durable.files.intent_of(id)?;
    let intent = &stored.value;
    if intent.completed && matches!(failure, Failure::Other(_)) {
        // What was found whole is not doubted because its cleanup took too long.
        return Ok(None);
    }
    let charged = retries_before.saturating_add(1).max(intent.retry_count);
    let (words, retries) = match failure {
        Failure::Pass(refusal) if intent.phase == Phase::Rebuilding => {
            return pass(durable, id, refusal, retries_before, now);
        }
        Failure::TargetNotReady => return not_ready(durable, id, now),
        Failure::Pass(refusal) | Failure::Refused(refusal) => match refusal.effect() {
            Effect::Report | Effect::Defer | Effect::Block => return Ok(None),
            Effect::Record => (refusal.to_string(), charged),
            Effect::Pin => (refusal.to_string(), intent.max_retries.max(intent.retry_count)),
        },
        Failure::Other(words) => (words.clone(), charged),
    };
    if intent.error_message.as_ref() == Some(&words) && intent.retry_count >= retries {
        return Ok(None);
    }
    stored
        .save(Step::FailureRecorded, |next| {
            next.error_message = Some(words);
            next.retry_count = retries;
            next.last_update = now.time_s;
        })
        .map(Some)
}

/// The record is charged and rewound first, then the ledger: a crash in between is seen when it is read again.
fn pass(
    durable: &Durable,
    id: GenerationId,
    refusal: &Refusal,
    retries_before: u32,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let stored = durable.files.intent_of(id)?;
    if stored.value.retry_count <= retries_before {
        let words = refusal.to_string();
        let write = stored.save(Step::RetryArmed, |next| {
            next.rewind();
            next.retry_count = retries_before.saturating_add(1);
            next.waiting_for_target = false;
            next.error_message = Some(words);
            next.last_update = now.time_s;
        })?;
        return Ok(Some(write));
    }
    Ok(reset_ledger(durable, id, now))
}

/// The ledger first: with the old record it is read as a pass that is not clean, never as a whole one.
fn not_ready(durable: &Durable, id: GenerationId, now: &Now) -> Result<Option<Write>, Refusal> {
    let stored = durable.files.intent_of(id)?;
    let intent = &stored.value;
    let waits = matches!(intent.phase, Phase::Intent | Phase::OwnershipPending | Phase::Rebuilding);
    let words = Some(READINESS_DEFERRED.to_owned());
    let is_recorded = intent.waiting_for_target && intent.error_message == words;
    if !waits || intent.is_exhausted() || is_recorded {
        return Ok(None);
    }
    if let Some(write) = reset_ledger(durable, id, now) {
        return Ok(Some(write));
    }
    let write = stored.save(Step::ReadinessDeferred, |next| {
        next.rewind();
        next.waiting_for_target = true;
        next.error_message = words;
        next.last_update = now.time_s;
    })?;
    Ok(Some(write))
}

/// The next write of an operator's re-arming; `None` when the budget is not exhausted (any more).
///
/// The pass begins again from zero, with the whole budget.
///
/// # Errors
///
/// As reading and saving the record.
pub fn rearm(durable: &Durable, id: GenerationId, now: &Now) -> Result<Option<Write>, Refusal> {
    let stored = durable.files.intent_of(id)?;
    if !stored.value.is_exhausted() {
        return Ok(None);
    }
    if let Some(write) = reset_ledger(durable, id, now) {
        return Ok(Some(write));
    }
    let write = stored.save(Step::BudgetRearmed, |next| {
        next.rewind();
        next.retry_count = 0;
        next.waiting_for_target = false;
        next.error_message = None;
        next.retry_compatibility_done = true;
        next.last_update = now.time_s;
    })?;
    Ok(Some(write))
}

/// Sets an existing ledger back to its beginning; one that cannot be trusted stays as it is, as evidence.
fn reset_ledger(durable: &Durable, id: GenerationId, now: &Now) -> Option<Write> {
    let ledger = durable.files.checkpoint(id).ok().flatten()?;
    if ledger.value.is_fresh() {
        return None;
    }
    let fresh = Checkpoint::fresh(id, now.time_s);
    Some(scan::save(&durable.files, Step::LedgerReset, &fresh, now))
}

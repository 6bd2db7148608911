//! The pass over all versions: what is to be rebuilt next, and the durable order of a page.
//!
//! ```text
//!  page:    OutcomesSaved … ─▶ PositionSaved ─▶ CursorSaved ─▶ LedgerPruned
//!  bucket:  (last page) ─▶ CountersSaved ─▶ BucketCompleted ─▶ BucketAdvanced
//!  end:     InternalsSaved ─▶ (deep check) ─▶ ProofWritten ─▶ VerifiedSaved
//! ```
//!
//! A crash anywhere leaves the page to be read once more, with its finished versions known, or the next one.
//! No version is left out for being new: what was written while a target was away, or since, is rebuilt and
//! checked like any other. A bucket of the plan that is gone is done.

use crate::protocol::replacement::checkpoint::Checkpoint;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;

/// What has become of one version on the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Every target reported it rebuilt exactly once and read it back by itself.
    Rebuilt,
    /// It is gone from the set: deleted since it was listed.
    Gone,
    /// It was put off: a drive was away, or a target did not report or read it back.
    Skipped,
    /// It cannot be rebuilt.
    Failed,
}

/// The outcome of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its name in the ledger: [`ledger_key`](crate::protocol::replacement::checkpoint::ledger_key).
    pub key: String,
    /// What has become of it.
    pub class: Class,
    /// Its bytes, counted when it was rebuilt.
    pub bytes: u64,
}

/// A whole page that the executor has dealt with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The bucket's position in the plan.
    pub bucket_index: usize,
    /// The cursor that the page was read from.
    pub cursor: Option<String>,
    /// Every outcome of it, those included that were saved before.
    pub outcomes: Vec<Outcome>,
    /// Objects that it listed.
    pub objects: usize,
    /// The cursor after it; `None` when the bucket ends here.
    pub next_cursor: Option<String>,
    /// Objects that were listed in this bucket before it.
    pub objects_before: usize,
}

/// What the check of the targets' own shards found, over every version of the set, internal objects included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Versions that were looked at.
    pub versions: u64,
    /// Of these, the ones whose shard is missing, wrong or unreadable on some target.
    pub unproved: u64,
}

/// What the executor has done since the last write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Done {
    /// Nothing that has to be recorded.
    #[default]
    Nothing,
    /// Some versions of the page under way.
    Outcomes(Vec<Outcome>),
    /// The page.
    Page(Page),
    /// The objects of the metadata volume that this set owns.
    Internals(Vec<Outcome>),
    /// The check of the targets.
    Checked(Checked),
}

/// What the executor has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Nothing: the generation is over, or another one goes on.
    Nothing,
    /// Rebuild a page of a bucket, leaving out what the ledger knows; done, it is [`Done::Page`].
    Page {
        /// The bucket's position in the plan.
        bucket_index: usize,
        /// Its name.
        bucket: String,
        /// Where the page begins; `None` is the beginning of the bucket.
        cursor: Option<String>,
        /// Objects that were listed in this bucket before it.
        objects_before: usize,
    },
    /// Rebuild the objects of the metadata volume that this set owns; done, it is [`Done::Internals`].
    Internals,
    /// Check every version on every target by its own shards; done, it is [`Done::Checked`].
    Check,
}

/// Whether the internal objects are done: past the end of the plan the ledger counts them as its objects.
fn has_internals(intent: &Intent, ledger: &Checkpoint) -> bool {
    ledger.current_bucket_index >= intent.buckets.len() && ledger.current_object_index > 0
}

/// What is to be done in phase *rebuilding* when there is nothing to write.
pub(crate) fn work(files: &Files, intent: &Intent) -> Result<Work, Refusal> {
    let Some(ledger) = files.checkpoint(intent.task_id)? else {
        return Ok(Work::Nothing);
    };
    let index = ledger.value.current_bucket_index;
    Ok(match intent.buckets.get(index) {
        Some(bucket) => {
            let objects = ledger.value.current_object_index;
            Work::Page {
                bucket_index: index,
                bucket: bucket.clone(),
                cursor: intent.resume_cursor.clone(),
                objects_before: if intent.resume_cursor.is_some() { objects } else { 0 },
            }
        }
        None if has_internals(intent, &ledger.value) => Work::Check,
        None => Work::Internals,
    })
}

/// The next write of a pass; `None` when the executor has [`work`] to do.
pub(crate) fn next_write(
    durable: &Durable,
    stored: &Stored<Intent>,
    now: &Now,
    done: &Done,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let intent = &stored.value;
    let id = intent.task_id;
    let ledger = match files.checkpoint(id) {
        Ok(ledger) => ledger,
        Err(refusal) => return flag(files, intent, refusal).map(Some),
    };
    let Some(ledger) = ledger else {
        let fresh = Checkpoint::fresh(id, now.time_s);
        return Ok(Some(save(files, Step::LedgerReset, &fresh, now)));
    };
    let ledger = ledger.value;
    if now.is_opening && (intent.waiting_for_target || intent.error_message.is_some()) {
        let write = stored.save(Step::RebuildingEntered, |next| {
            next.error_message = None;
            next.waiting_for_target = false;
            next.last_update = now.time_s;
        })?;
        return Ok(Some(write));
    }
    // A failed pass was charged and the ledger may still be the old one.
    let is_rewound = intent.retry_count > 0 && intent.is_untouched();
    if now.is_opening && is_rewound && !ledger.is_fresh() {
        return Ok(Some(save(files, Step::LedgerReset, &Checkpoint::fresh(id, now.time_s), now)));
    }
    let index = ledger.current_bucket_index;
    if let Some(bucket) = intent.buckets.get(index)
        && intent.completed_buckets.contains(bucket)
    {
        return Ok(Some(advance(files, &ledger, index + 1, now)));
    }
    match done {
        Done::Nothing => Ok(None),
        Done::Outcomes(outcomes) => {
            let next = with_outcomes(&ledger, outcomes);
            Ok(next.map(|next| save(files, Step::OutcomesSaved, &next, now)))
        }
        Done::Page(page) => page_write(files, stored, &ledger, page, now),
        Done::Internals(outcomes) => internals_write(files, intent, &ledger, outcomes, now),
        Done::Checked(checked) => checked_write(files, stored, &ledger, checked, now),
    }
}

/// Flags a ledger that cannot be trusted, once; then says why it cannot.
fn flag(files: &Files, intent: &Intent, refusal: Refusal) -> Result<Write, Refusal> {
    let id = intent.task_id;
    if files.record(Record::Blocked, id).is_some() {
        return Err(refusal);
    }
    let new = Some(crate::protocol::replacement::names::BLOCKED_BYTES.to_vec());
    Ok(Write::record(Step::LedgerFlagged, Record::Blocked, id, None, new))
}

/// Saves the ledger over whatever its file holds now.
pub(crate) fn save(files: &Files, step: Step, ledger: &Checkpoint, now: &Now) -> Write {
    let id = ledger.task_id;
    let expected = files.record(Record::Checkpoint, id);
    Write::record(step, Record::Checkpoint, id, expected, Some(ledger.seal(now.time_s)))
}

/// The ledger with those `outcomes` that it does not know yet; `None` when it knows them all.
fn with_outcomes(ledger: &Checkpoint, outcomes: &[Outcome]) -> Option<Checkpoint> {
    let mut next = ledger.clone();
    let mut known = ledger.known();
    let mut is_new = false;
    for outcome in outcomes {
        if !known.insert(&outcome.key) {
            continue;
        }
        is_new = true;
        let (set, count) = match outcome.class {
            Class::Rebuilt | Class::Gone => {
                (&mut next.processed_objects, &mut next.successful_objects)
            }
            Class::Skipped => (&mut next.skipped_objects, &mut next.skipped_object_count),
            Class::Failed => (&mut next.failed_objects, &mut next.failed_object_count),
        };
        set.push(outcome.key.clone());
        *count = count.saturating_add(1);
        if outcome.class == Class::Rebuilt {
            next.processed_bytes = next.processed_bytes.saturating_add(outcome.bytes);
        }
    }
    is_new.then_some(next)
}

/// The ledger on the bucket at `index`, with the page's versions forgotten and the counters kept.
fn advance(files: &Files, ledger: &Checkpoint, index: usize, now: &Now) -> Write {
    let mut next = pruned(ledger);
    next.current_bucket_index = index;
    next.current_object_index = 0;
    save(files, Step::BucketAdvanced, &next, now)
}

fn pruned(ledger: &Checkpoint) -> Checkpoint {
    let mut next = ledger.clone();
    next.processed_objects.clear();
    next.failed_objects.clear();
    next.skipped_objects.clear();
    next
}

/// The next write of a page that is done: outcomes, position, cursor, prune; at the end of the bucket counters
/// and the bucket itself instead of the cursor.
fn page_write(
    files: &Files,
    stored: &Stored<Intent>,
    ledger: &Checkpoint,
    page: &Page,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    if page.bucket_index != ledger.current_bucket_index {
        return Ok(None);
    }
    let is_last = page.next_cursor.is_none();
    if !is_last && (page.outcomes.is_empty() || page.next_cursor == page.cursor) {
        let seen = format!("{} versions, then {:?}", page.outcomes.len(), page.next_cursor);
        let expected = format!("versions, and a cursor other than {:?}", page.cursor);
        let on = on_record(Record::Checkpoint, intent.task_id, seen, expected);
        return Err(Refusal::PageStuck(on));
    }
    let has_moved_on = !is_last && intent.resume_cursor == page.next_cursor;
    if has_moved_on {
        let is_pruned = ledger.known().is_empty();
        let next = pruned(ledger);
        return Ok((!is_pruned).then(|| save(files, Step::LedgerPruned, &next, now)));
    }
    if let Some(next) = with_outcomes(ledger, &page.outcomes) {
        return Ok(Some(save(files, Step::OutcomesSaved, &next, now)));
    }
    let position = page.objects_before + page.objects;
    if ledger.current_object_index != position {
        let next = Checkpoint { current_object_index: position, ..ledger.clone() };
        return Ok(Some(save(files, Step::PositionSaved, &next, now)));
    }
    if !is_last {
        return stored
            .save(Step::CursorSaved, |next| {
                next.resume_cursor.clone_from(&page.next_cursor);
                next.current_bucket = intent.buckets.get(page.bucket_index).cloned();
                next.last_update = now.time_s;
            })
            .map(Some);
    }
    if !is_clean(intent, ledger) {
        return Err(unclean(intent, ledger));
    }
    if !has_counters_of(intent, ledger) {
        let write = stored.save(Step::CountersSaved, |next| {
            count(next, ledger);
            next.last_update = now.time_s;
        })?;
        return Ok(Some(write));
    }
    stored
        .save(Step::BucketCompleted, |next| {
            let bucket = &intent.buckets[page.bucket_index];
            next.completed_buckets.push(bucket.clone());
            next.pending_buckets.retain(|it| it != bucket);
            next.resume_cursor = None;
            next.last_update = now.time_s;
        })
        .map(Some)
}

/// Whether neither the ledger nor the record says that a version was left out; the ledger may have been reset
/// without the record.
fn is_clean(intent: &Intent, ledger: &Checkpoint) -> bool {
    ledger.is_clean() && intent.failed_objects == 0 && intent.skipped_objects == 0
}

fn has_counters_of(intent: &Intent, ledger: &Checkpoint) -> bool {
    let mut counted = intent.clone();
    count(&mut counted, ledger);
    counted == *intent
}

/// Takes the counters of the pass over into the intent.
fn count(intent: &mut Intent, ledger: &Checkpoint) {
    let left_out = ledger.failed_object_count.saturating_add(ledger.skipped_object_count);
    // A ledger that was reset under the record counts only what came after.
    intent.counter_unknown |= ledger.successful_objects < intent.successful_objects;
    intent.processed_objects = ledger.successful_objects.saturating_add(left_out);
    intent.successful_objects = ledger.successful_objects;
    intent.failed_objects = ledger.failed_object_count;
    intent.skipped_objects = ledger.skipped_object_count;
    intent.processed_bytes = ledger.processed_bytes;
}

/// The first bucket that is not clean stops the pass; so does an internal object.
fn unclean(intent: &Intent, ledger: &Checkpoint) -> Refusal {
    let failed = ledger.failed_object_count.saturating_add(intent.failed_objects);
    let skipped = ledger.skipped_object_count.saturating_add(intent.skipped_objects);
    let seen = format!("{failed} failed and {skipped} skipped versions");
    let expected = "none, on every target";
    Refusal::PassUnclean(on_record(Record::Checkpoint, intent.task_id, seen, expected))
}

fn internals_write(
    files: &Files,
    intent: &Intent,
    ledger: &Checkpoint,
    outcomes: &[Outcome],
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    if ledger.current_bucket_index != intent.buckets.len() || has_internals(intent, ledger) {
        return Ok(None);
    }
    let mut next = with_outcomes(ledger, outcomes).unwrap_or_else(|| ledger.clone());
    if !is_clean(intent, &next) {
        return Err(unclean(intent, &next));
    }
    next = pruned(&next);
    next.current_object_index = outcomes.len().max(1);
    Ok(Some(save(files, Step::InternalsSaved, &next, now)))
}

/// The proof, and only after a check that found every version of every target whole.
fn checked_write(
    files: &Files,
    stored: &Stored<Intent>,
    ledger: &Checkpoint,
    checked: &Checked,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let id = intent.task_id;
    let is_over = has_internals(intent, ledger)
        && intent.buckets.iter().all(|it| intent.completed_buckets.contains(it));
    if !is_over || intent.phase != Phase::Rebuilding {
        let seen = format!("bucket {} of {}", ledger.current_bucket_index, intent.buckets.len());
        let on = on_record(Record::Checkpoint, id, seen, "the end of the pass");
        return Err(Refusal::PhaseUnfit(on));
    }
    if !is_clean(intent, ledger) {
        return Err(unclean(intent, ledger));
    }
    if checked.unproved > 0 || checked.versions < ledger.successful_objects.min(1) {
        let seen = format!("{} of {} versions unproved", checked.unproved, checked.versions);
        let on = on_record(Record::Checkpoint, id, seen, "every version on every target");
        return Err(Refusal::CheckUnclean(on));
    }
    if !has_counters_of(intent, ledger) {
        let write = stored.save(Step::CountersSaved, |next| {
            count(next, ledger);
            next.last_update = now.time_s;
        })?;
        return Ok(Some(write));
    }
    match files.proof(id)? {
        // A proof that is there turns the record into a verified one when it is read again.
        Some(_) => Ok(None),
        None => {
            let proof = Proof::of(intent, now.time_s.max(1), Proof::SCHEMA).encode();
            let expected = files.record(Record::Proof, id);
            let step = Step::ProofWritten;
            Ok(Some(Write::record(step, Record::Proof, id, expected, Some(proof))))
        }
    }
}

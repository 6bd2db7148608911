//! Replacement: a drive is replaced while the cluster serves, and at the end a durable proof says what was
//! rebuilt.
//!
//! A *generation* rebuilds a fixed list of *targets* that are bound to the mounts it began on. Its *intent*, on
//! one surviving drive of the set (the *anchor*), is the only authority about its phase; a *marker* on each
//! target names the generation that owns it. Another mount gets exactly one successor, by a *handoff*. The words
//! are those of the released servers whose records these are, and so are the bytes.
//!
//! Pure. Each decision is a function from what is durable to the next write; it remembers nothing, so that
//! resuming is asking again: read, ask, write, repeat. Every write but a format is a compare-and-swap of one
//! file on the bytes that were read ([`store::Write`]); a swap that does not hold means that somebody else wrote,
//! and everything is read again.
//!
//! # Who decides what
//!
//! | function | reads | may ask for ([`step::Step`], the crash point right after it) |
//! |---|---|---|
//! | [`discover::discover`] | all drives of a set: state, markers, intents | nothing: *resume*, *begin*, *wait*, *block*, and alarms |
//! | [`flat::next_write`] | an anchor's files | `FlatMoved` `FlatRemoved` |
//! | [`import::next_write`] | anchor, markers and mounts of an approval's targets | `SourceArchived` `ImportPublished` `ImportSealed` `PlanExtended` `SourceRetired` `ReceiptWritten` `ApprovalConsumed` |
//! | [`start::next_write`] | anchor, mounts, buckets | `FolderMade` `IntentPublished` `IntentSealed` |
//! | [`resolve::next_write`] | anchor, markers, mounts, buckets | `IntentSealed` `TargetsNoted` `VerifiedSaved` `HandoffPrepared` `HandoffRebound` `SuccessorPublished` `SuccessorSealed` `SuccessorRebound` `ImportSealed` `ImportRebound` |
//! | [`run::next_write`] | the same, and what was done | all of `resolve`'s, then `TargetFormatted` `TargetsNoted` `MarkerAcquired` `MarkerMoved` `MarkersOwned` `HandoffCommitted` `RebuildingEntered` `LedgerReset` `LedgerFlagged` `OutcomesSaved` `PositionSaved` `CursorSaved` `LedgerPruned` `CountersSaved` `BucketCompleted` `BucketAdvanced` `InternalsSaved` `ProofWritten` `VerifiedSaved` `MarkerCleared` `CleanupEntered` `LedgerRemoved` `NoteRemoved` `IntentRemoved` `SealRemoved` |
//! | [`run::work`] | anchor | nothing: which page, the internal objects, or the check is to be done |
//! | [`run::roll_back`] | anchor, markers | `MarkerRolledBack` |
//! | [`failure::next_write`] | anchor | `RetryArmed` `LedgerReset` `ReadinessDeferred` `FailureRecorded` |
//! | [`failure::rearm`] | anchor | `LedgerReset` `BudgetRearmed` |
//! | [`prepare::proposal`], [`prepare::publication`] | an anchor and targets of a stopped cluster | `ApprovalStaged` `ApprovalPublished` `ApprovalUnstaged` |
//! | [`status::snapshot`], [`status::cluster`] | records and proofs; which executors live | nothing |
//! | [`legacy`] | as `discover`, `start` and `run` | an older release's habits, for rehearsals |
//!
//! # The executor's loop
//!
//! Leases on all targets, in endpoint order, are taken before the first question and kept to the end. Then:
//! `runner = resolve::runner(files, root)`; `run::next_write(durable, runner, now, done)`; a write is performed and
//! everything read again; on `None` do `run::work(durable, runner)` and pass it as `done`; nothing to do is the
//! end. A [`refusal::Refusal`] ends it: [`failure::next_write`] is asked until it has nothing to record, and after a
//! failed acquisition [`run::roll_back`]. A target that goes away after work was begun is handed in as
//! [`failure::Failure::TargetNotReady`], which rewinds the pass; one that was not ready at the first question leaves no
//! trace.
//!
//! What the executor observes and hands in: the time; each target's fingerprint, file-system UUID and drive id,
//! taken anew for every question through the pinned descriptor, or why it is not ready; the buckets that exist;
//! ids drawn for a successor and a transaction; whether work was done yet since the leases were taken. What it
//! answers for: that a version is only reported *rebuilt* when every target reported it once and read it back
//! itself; that a bucket of the plan that is gone is reported as an empty last page and not made again; that a
//! check looks at every version of the set, internal objects included, by the target's own shards.
//!
//! # Invariants
//!
//! 1. Intent, then seal, and only then anything on a target.
//! 2. One successor, named in its predecessor before it exists.
//! 3. A marker moves only from the owner that was recorded, never back; nothing is rebuilt before all have moved.
//! 4. A proof follows a clean pass and a clean check; markers go after the proof, records after the markers.
//! 5. Evidence stays: a predecessor, a retired source, an archive, a receipt, a proof is never removed, and a
//!    refusal writes nothing but its own failure record.
//!
//! # What is otherwise than in the released servers
//!
//! Their readers understand all that is written here. Retained history does not block a fresh generation;
//! handoffs cost nothing of the failure budget, and an exhausted one waits for an operator; no version is left
//! out for being new; a blank drive during a pending transfer is bound to it; a drive under recycled numbers is
//! noticed by the side-file ([`identity::Note`]); a predecessor shows as handed over.

pub mod approval;
pub mod checkpoint;
pub mod discover;
pub mod failure;
pub mod flat;
mod handoff;
pub mod identity;
pub mod ids;
pub mod import;
pub mod intent;
mod intent_rules;
pub mod legacy;
pub mod lineage;
pub mod marker;
pub mod names;
pub mod prepare;
pub mod proof;
pub mod refusal;
pub mod resolve;
pub mod run;
pub mod scan;
pub mod start;
pub mod status;
pub mod step;
pub mod store;

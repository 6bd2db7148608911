//! The one decision that startup and scanner share: which generation goes on, now that the targets are mounted
//! as they are.
//!
//! The same mount goes on where it was. A changed mount gets exactly one successor, which the predecessor names
//! first. A target that is not ready waits, and nothing is charged. Nothing in here rebuilds anything.

use crate::protocol::replacement::handoff;
use crate::protocol::replacement::identity::Continuity;
use crate::protocol::replacement::identity::Identity;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::identity::Note;
use crate::protocol::replacement::identity::continuity;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::lineage::HandoffPhase;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;

/// The next write that decides who goes on with the targets of `id`; `None` when it is decided:
/// [`runner`] says whom to ask next.
///
/// # Errors
///
/// Every refusal of the records, of the targets and of a handoff; [`Refusal::BudgetExhausted`] when no pass is
/// left, on whatever mount: only an operator re-arms it.
pub fn next_write(
    durable: &Durable,
    id: GenerationId,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let stored = durable.files.intent_of(id)?;
    if durable.files.is_blank {
        let evidence = names::path(Record::Intent, id);
        let expected = "the drive that holds the record";
        return Err(Refusal::AnchorBlank(about("a blank drive", expected, evidence)));
    }
    if durable.files.record(Record::Seal, id).is_none() {
        let step = match &stored.value {
            intent if intent.predecessor.is_some() => Step::SuccessorSealed,
            intent if intent.legacy_import.is_some() => Step::ImportSealed,
            _ => Step::IntentSealed,
        };
        return Ok(Some(seal_write(step, id, None)));
    }
    if let Some(write) = reconcile_proof(&durable.files, &stored)? {
        return Ok(Some(write));
    }
    let intent = &stored.value;
    if intent.phase == Phase::CleanupPending {
        return Ok(None);
    }
    if intent.phase == Phase::Abandoned {
        return stepped_back(&durable.files, intent).map(|()| None);
    }
    check_budget(intent)?;
    let mounted = now.mounted(&intent.targets)?;
    match intent.phase {
        Phase::HandoffPending => handoff::replay(durable, &stored, &mounted, now),
        Phase::OwnershipPending => owning(durable, &stored, &mounted, now),
        Phase::Intent | Phase::Rebuilding | Phase::Verified => {
            running(durable, &stored, &mounted, now)
        }
        Phase::CleanupPending | Phase::Abandoned | Phase::None => Ok(None),
    }
}

/// Whose record is to be asked about the targets of `id`: the last of its chain that is there, or that is over.
///
/// It is asked anew after every write: a handoff appends to the chain.
///
/// # Errors
///
/// As reading the records; [`Refusal::LineageBroken`] for a chain that does not end.
pub fn runner(files: &Files, id: GenerationId) -> Result<GenerationId, Refusal> {
    let mut id = id;
    // No chain is longer than its lineage may be.
    for _ in 0..=crate::protocol::replacement::lineage::LINKS_MAX {
        let handoff = files.intent(id)?.and_then(|stored| stored.value.handoff);
        match handoff.map(|handoff| handoff.link.successor) {
            Some(next) if is_there(files, next)? => id = next,
            _ => return Ok(id),
        }
    }
    let seen = "a chain that does not end";
    Err(Refusal::LineageBroken(on_record(Record::Intent, id, seen, "at most 32 links")))
}

/// Whether `id` has a record, or a proof that it is over.
fn is_there(files: &Files, id: GenerationId) -> Result<bool, Refusal> {
    Ok(files.intent(id)?.is_some() || files.proof(id)?.is_some())
}

/// A generation that has passed its targets on, to somebody who is there.
pub(crate) fn stepped_back(files: &Files, intent: &Intent) -> Result<(), Refusal> {
    let handoff = intent.handoff.as_ref();
    let successor = handoff.map(|handoff| handoff.link.successor).or(intent.legacy_successor);
    let on =
        |seen: String, expected: &str| on_record(Record::Intent, intent.task_id, seen, expected);
    match successor {
        None => {
            let seen = "an abandoned generation without a successor".to_owned();
            Err(Refusal::Abandoned(on(seen, "one that has passed its targets on")))
        }
        Some(next) if !is_there(files, next)? => {
            let seen = format!("neither a record nor a proof of {next}");
            Err(Refusal::SuccessorMissing(on(seen, "one of them")))
        }
        Some(_) => Ok(()),
    }
}

/// Refuses a generation that has no pass left.
pub(crate) fn check_budget(intent: &Intent) -> Result<(), Refusal> {
    // A predecessor that has named its successor does not run any more: its budget is history.
    if !intent.is_exhausted() || intent.handoff.is_some() {
        return Ok(());
    }
    let seen = format!(
        "{} failed passes, the last one: {}",
        intent.retry_count,
        intent.error_message.as_deref().unwrap_or("not recorded"),
    );
    let expected = format!("fewer than {}", intent.max_retries);
    Err(Refusal::BudgetExhausted(on_record(Record::Intent, intent.task_id, seen, expected)))
}

/// A generation that owns, or is about to own, its markers: has a target changed?
fn running(
    durable: &Durable,
    stored: &Stored<Intent>,
    mounted: &[&Mounted],
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let mut found = worst_continuity(&durable.files, intent, mounted);
    let has_rebuilt = intent.phase != Phase::Intent;
    if has_rebuilt && found == Continuity::Same {
        found = signs_of_another_drive(durable, intent, mounted)?;
    }
    match found {
        Continuity::Same => Ok(None),
        // Nothing was rebuilt yet that could be missing: what is here now is what it is bound to.
        Continuity::Unknown if !has_rebuilt => {
            Ok(Some(note_write(&durable.files, intent.task_id, mounted)))
        }
        Continuity::Unknown | Continuity::Changed(_) => {
            handoff::prepare(durable, stored, mounted, now).map(Some)
        }
    }
}

/// A successor that has not taken over yet.
fn owning(
    durable: &Durable,
    stored: &Stored<Intent>,
    mounted: &[&Mounted],
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let Some(predecessor) = intent.predecessor else {
        return importing(durable, stored, mounted, now);
    };
    let Some(predecessor) = durable.files.intent(predecessor)? else {
        let seen = format!("no record of {predecessor}");
        let expected = "the authority that names this successor";
        let on = on_record(Record::Intent, intent.task_id, seen, expected);
        return Err(Refusal::PredecessorMissing(on));
    };
    check_authority(&predecessor.value, intent)?;
    let is_committed = predecessor
        .value
        .handoff
        .as_ref()
        .is_some_and(|handoff| handoff.phase == HandoffPhase::Committed);
    if !is_committed {
        return handoff::replay(durable, &predecessor, mounted, now);
    }
    match worst_continuity(&durable.files, intent, mounted) {
        Continuity::Same => Ok(None),
        Continuity::Unknown => Ok(Some(note_write(&durable.files, intent.task_id, mounted))),
        Continuity::Changed(_) => handoff::prepare(durable, stored, mounted, now).map(Some),
    }
}

/// An imported successor that has not taken over yet is bound again in place.
fn importing(
    durable: &Durable,
    stored: &Stored<Intent>,
    mounted: &[&Mounted],
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let id = intent.task_id;
    if intent.legacy_import.is_none() {
        let seen = "neither predecessor nor import";
        let expected = "one of them, in this phase";
        return Err(Refusal::PredecessorMissing(on_record(Record::Intent, id, seen, expected)));
    }
    match worst_continuity(&durable.files, intent, mounted) {
        Continuity::Same => Ok(None),
        Continuity::Unknown => Ok(Some(note_write(&durable.files, id, mounted))),
        Continuity::Changed(_) => {
            check_untouched(&durable.files, intent)?;
            let identities = identities(mounted);
            if intent.identities == identities {
                // Only the note knows of the change, and nothing was rebuilt: it is taken again.
                return Ok(Some(note_write(&durable.files, id, mounted)));
            }
            let write = stored.save(Step::ImportRebound, |next| {
                next.identities = identities;
                next.last_update = now.time_s;
            })?;
            Ok(Some(write))
        }
    }
}

/// Whether `predecessor` has named `successor` in the terms that the successor carries.
///
/// # Errors
///
/// [`Refusal::SuccessorDiffers`].
pub(crate) fn check_authority(predecessor: &Intent, successor: &Intent) -> Result<(), Refusal> {
    let link = predecessor.handoff.as_ref().map(|handoff| &handoff.link);
    let is_named = link.is_some_and(|link| {
        let (carried, inherited) = match successor.lineage.split_last() {
            Some(split) => split,
            None => return false,
        };
        link.is_same_edge(carried) && inherited == predecessor.lineage
    });
    if is_named {
        return Ok(());
    }
    let seen = format!("a predecessor that names {:?}", link.map(|link| link.successor));
    let expected = format!("{} in its own terms", successor.task_id);
    let on = on_record(Record::Intent, predecessor.task_id, seen, expected);
    Err(Refusal::SuccessorDiffers(on))
}

/// Whether nothing was ever rebuilt under `intent`: neither its record nor a ledger nor a proof says so.
///
/// # Errors
///
/// [`Refusal::SuccessorStarted`].
pub(crate) fn check_untouched(files: &Files, intent: &Intent) -> Result<(), Refusal> {
    let id = intent.task_id;
    let seen = if intent.phase != Phase::OwnershipPending || !intent.is_untouched() {
        format!("phase {:?}, {} versions", intent.phase, intent.processed_objects)
    } else if files.record(Record::Checkpoint, id).is_some() {
        names::path(Record::Checkpoint, id)
    } else if files.record(Record::Proof, id).is_some() {
        names::path(Record::Proof, id)
    } else {
        return Ok(());
    };
    let expected = "a successor that nothing was rebuilt under";
    Err(Refusal::SuccessorStarted(on_record(Record::Intent, id, seen, expected)))
}

/// The least certain answer over all targets.
pub fn worst_continuity(files: &Files, intent: &Intent, mounted: &[&Mounted]) -> Continuity {
    let note = files.note(intent.task_id);
    let of = |(index, now): (usize, &&Mounted)| {
        let noted = note.as_ref().and_then(|note: &Note| note.targets.get(index));
        continuity(&intent.identities[index], noted, now)
    };
    mounted.iter().enumerate().map(of).max().unwrap_or(Continuity::Unknown)
}

/// A drive that was marked and formatted, and is not any more, is another drive, whatever its numbers are.
///
/// Markers of a verified generation go one after another: there, absence says nothing.
fn signs_of_another_drive(
    durable: &Durable,
    intent: &Intent,
    mounted: &[&Mounted],
) -> Result<Continuity, Refusal> {
    if let Some(blank) = mounted.iter().find(|it| it.is_blank()) {
        return Ok(Continuity::Changed(format!("{} is blank", blank.identity.endpoint)));
    }
    let owners = durable.owners(&intent.targets)?;
    let unmarked = owners.iter().position(Option::is_none);
    Ok(match unmarked.filter(|_| intent.phase == Phase::Rebuilding) {
        Some(index) => Continuity::Changed(format!("{} is not marked", intent.targets[index])),
        None => Continuity::Same,
    })
}

/// The identities of the mounted targets.
pub(crate) fn identities(mounted: &[&Mounted]) -> Vec<Identity> {
    mounted.iter().map(|it| it.identity.clone()).collect()
}

/// Notes what the targets of `id` are now.
pub(crate) fn note_write(files: &Files, id: GenerationId, mounted: &[&Mounted]) -> Write {
    let targets = mounted.iter().map(|it| it.noted()).collect();
    let note = Note { format: Note::FORMAT, generation: id, targets };
    let expected = files.record(Record::Note, id);
    Write::record(Step::TargetsNoted, Record::Note, id, expected, Some(note.encode()))
}

/// Seals the intent of `id`.
pub(crate) fn seal_write(step: Step, id: GenerationId, expected: Option<&[u8]>) -> Write {
    Write::record(step, Record::Seal, id, expected, Some(names::SEAL_BYTES.to_vec()))
}

/// What a proof beside the intent means: nothing, that the generation is verified, or a conflict.
fn reconcile_proof(files: &Files, stored: &Stored<Intent>) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    if intent.has_passed_on() {
        return Ok(None);
    }
    let id = intent.task_id;
    let Some(proof) = files.proof(id)? else {
        return Ok(None);
    };
    if !proof.matches(intent) {
        let seen = "a proof of other targets, identities or history";
        return Err(Refusal::ProofDiffers(on_record(Record::Proof, id, seen, "the intent's own")));
    }
    match intent.phase {
        Phase::Verified | Phase::CleanupPending if intent.completed => Ok(None),
        Phase::Intent | Phase::Rebuilding if !intent.completed => {
            let write = stored.save(Step::VerifiedSaved, |next| {
                next.completed = true;
                next.phase = Phase::Verified;
                next.error_message = None;
                next.waiting_for_target = false;
                next.last_update = proof.verified_at;
            })?;
            Ok(Some(write))
        }
        phase => {
            let seen = format!("a proof in phase {phase:?}");
            let expected = "none, or phase intent or rebuilding";
            Err(Refusal::ProofUnexpected(on_record(Record::Proof, id, seen, expected)))
        }
    }
}

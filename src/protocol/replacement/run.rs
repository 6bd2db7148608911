//! The executor's side of one generation: from its published record to the last file that is removed.
//!
//! [`next_write`] names the next write, given what the executor has done since ([`Done`]); [`work`] names what is
//! to be done when there is nothing to write. [`resolve`] is asked first, in the same loop and under the same
//! leases, so that no change of a mount slips in between.
//!
//! [`resolve`]: crate::protocol::replacement::resolve

use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::lineage::Handoff;
use crate::protocol::replacement::lineage::HandoffPhase;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::scan;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::scan::Work;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Place;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;

/// The next write of the generation `id`; `None` when the executor has to do [`work`] first, or when nothing
/// is left of the generation but its proof.
///
/// # Errors
///
/// Whatever stops it; nothing may be written then but what [`failure`] asks for.
///
/// [`failure`]: crate::protocol::replacement::failure
pub fn next_write(
    durable: &Durable,
    id: GenerationId,
    now: &Now,
    done: &Done,
) -> Result<Option<Write>, Refusal> {
    let Some(stored) = durable.files.intent(id)? else {
        return after_intent(durable, id);
    };
    if let Some(write) = resolve::next_write(durable, id, now)? {
        return Ok(Some(write));
    }
    let intent = &stored.value;
    match intent.phase {
        Phase::Intent => acquire(durable, &stored, now),
        Phase::OwnershipPending => transfer(durable, &stored, now),
        Phase::Rebuilding => {
            check_owned(durable, intent)?;
            scan::next_write(durable, &stored, now, done)
        }
        Phase::Verified => clear(durable, &stored, now),
        Phase::CleanupPending => clean(durable, &stored),
        // Whoever holds one of these runs its successor.
        Phase::HandoffPending | Phase::Abandoned | Phase::None => Ok(None),
    }
}

/// What the executor of `id` has to do when there is nothing to write.
///
/// # Errors
///
/// As reading the records.
pub fn work(durable: &Durable, id: GenerationId) -> Result<Work, Refusal> {
    match durable.files.intent(id)? {
        Some(stored) if stored.value.phase == Phase::Rebuilding => {
            scan::work(&durable.files, &stored.value)
        }
        _ => Ok(Work::Nothing),
    }
}

/// Takes back the markers that a failed acquisition wrote, the last one first; `None` when there are none left.
///
/// `acquired` are the targets whose markers this attempt has written. A transfer never takes anything back.
///
/// # Errors
///
/// As reading the records.
pub fn roll_back(
    durable: &Durable,
    id: GenerationId,
    acquired: &[usize],
) -> Result<Option<Write>, Refusal> {
    let intent = durable.files.intent_of(id)?.value;
    if intent.phase != Phase::Intent {
        return Ok(None);
    }
    let owner = intent.owner();
    let mut acquired = acquired.to_vec();
    acquired.sort_unstable();
    for target in acquired.into_iter().rev() {
        if durable.markers[target].as_deref() == Some(owner.as_bytes()) {
            let expected = Some(owner.as_bytes());
            return Ok(Some(Write::marker(Step::MarkerRolledBack, target, expected, None)));
        }
    }
    Ok(None)
}

/// Formats what is blank, marks what is unmarked, and enters the rebuild.
fn acquire(
    durable: &Durable,
    stored: &Stored<Intent>,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let owner = intent.owner();
    let owners = durable.owners(&intent.targets)?;
    // A stranger's marker stops it before the first target is touched.
    for (found, endpoint) in owners.iter().zip(&intent.targets) {
        if let Some(found) = found.filter(|found| **found != *owner) {
            let evidence = format!("{endpoint}/{}", names::MARKER);
            let expected = format!("`{owner}` or none");
            return Err(Refusal::MarkerForeign(about(format!("`{found}`"), expected, evidence)));
        }
    }
    let mounted = now.mounted(&intent.targets)?;
    if let Some(write) = format(durable, intent, &mounted) {
        return Ok(Some(write));
    }
    if let Some(target) = owners.iter().position(Option::is_none) {
        return Ok(Some(Write::marker(Step::MarkerAcquired, target, None, Some(owner))));
    }
    enter_rebuilding(stored, now).map(Some)
}

/// Formats the next blank target, then notes what the drives are called since.
fn format(durable: &Durable, intent: &Intent, mounted: &[&Mounted]) -> Option<Write> {
    if let Some(target) = mounted.iter().position(|it| it.is_blank()) {
        return Some(Write {
            step: Step::TargetFormatted,
            place: Place::Target(target),
            path: names::FORMAT.to_owned(),
            change: Change::Format,
        });
    }
    let note = durable.files.note(intent.task_id);
    let noted = note.map(|note| note.targets).unwrap_or_default();
    let is_noted = mounted.iter().map(|it| it.noted()).eq(noted);
    (!is_noted).then(|| resolve::note_write(&durable.files, intent.task_id, mounted))
}

fn enter_rebuilding(stored: &Stored<Intent>, now: &Now) -> Result<Write, Refusal> {
    stored.save(Step::RebuildingEntered, |next| {
        next.phase = Phase::Rebuilding;
        next.error_message = None;
        next.retry_compatibility_done = true;
        next.waiting_for_target = false;
        next.last_update = now.time_s;
    })
}

/// Moves every marker to a successor, lets the predecessor step back, and enters the rebuild.
fn transfer(
    durable: &Durable,
    stored: &Stored<Intent>,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let predecessor = match intent.predecessor {
        Some(id) => Some(durable.files.intent_of(id)?),
        None => None,
    };
    if let Some(predecessor) = &predecessor {
        resolve::check_authority(&predecessor.value, intent)?;
    }
    let expected = match (intent.lineage.last(), &intent.legacy_import) {
        (Some(link), _) => &link.expected_markers,
        (None, Some(approval)) => &approval.expected_markers,
        (None, None) => {
            let seen = "neither predecessor nor import";
            let on = on_record(Record::Intent, intent.task_id, seen, "one of them, in this phase");
            return Err(Refusal::PredecessorMissing(on));
        }
    };
    let owner = intent.owner();
    let owners = durable.owners(&intent.targets)?;
    check_transfer(intent, &owners, expected)?;
    let mounted = now.mounted(&intent.targets)?;
    if let Some(write) = format(durable, intent, &mounted) {
        return Ok(Some(write));
    }
    if let Some(target) = owners.iter().position(|found| *found != Some(&*owner)) {
        let expected = durable.markers[target].as_deref();
        return Ok(Some(Write::marker(Step::MarkerMoved, target, expected, Some(owner))));
    }
    if let Some(predecessor) = predecessor {
        let phase = predecessor.value.handoff.as_ref().map(|handoff| handoff.phase);
        match phase {
            Some(HandoffPhase::Prepared) => {
                return predecessor
                    .save(Step::MarkersOwned, |next| {
                        set_handoff_phase(&mut next.handoff, HandoffPhase::MarkersOwned);
                    })
                    .map(Some);
            }
            Some(HandoffPhase::MarkersOwned) => {
                return predecessor
                    .save(Step::HandoffCommitted, |next| {
                        set_handoff_phase(&mut next.handoff, HandoffPhase::Committed);
                        next.phase = Phase::Abandoned;
                        next.error_message = None;
                    })
                    .map(Some);
            }
            Some(HandoffPhase::Committed) | None => {}
        }
    }
    enter_rebuilding(stored, now).map(Some)
}

fn set_handoff_phase(handoff: &mut Option<Handoff>, phase: HandoffPhase) {
    if let Some(handoff) = handoff {
        handoff.phase = phase;
    }
}

/// Every marker names its recorded owner or the successor: else nothing moves.
fn check_transfer(
    intent: &Intent,
    owners: &[Option<&str>],
    expected: &[Option<String>],
) -> Result<(), Refusal> {
    let owner = intent.owner();
    for (index, found) in owners.iter().enumerate() {
        if *found == Some(&*owner) || *found == expected[index].as_deref() {
            continue;
        }
        let evidence = format!("{}/{}", intent.targets[index], names::MARKER);
        let wanted = format!("{:?} or `{owner}`", expected[index]);
        return Err(match found {
            Some(found) => {
                Refusal::TransferMarkerForeign(about(format!("`{found}`"), wanted, evidence))
            }
            None => Refusal::MarkerVanished(about("no marker", wanted, evidence)),
        });
    }
    Ok(())
}

/// A rebuild writes to a drive only while the drive's marker names it.
fn check_owned(durable: &Durable, intent: &Intent) -> Result<(), Refusal> {
    let owner = intent.owner();
    let owners = durable.owners(&intent.targets)?;
    for (found, endpoint) in owners.iter().zip(&intent.targets) {
        if *found != Some(&*owner) {
            let seen = found.map_or("no marker".to_owned(), |found| format!("`{found}`"));
            let evidence = format!("{endpoint}/{}", names::MARKER);
            return Err(Refusal::MarkerForeign(about(seen, format!("`{owner}`"), evidence)));
        }
    }
    Ok(())
}

/// The proof of a completed generation: there, or written again first. One that does not match was refused.
fn prove(durable: &Durable, intent: &Intent) -> Result<Option<Write>, Refusal> {
    let id = intent.task_id;
    if durable.files.proof(id)?.is_some() {
        return Ok(None);
    }
    let proof = Proof::of(intent, intent.last_update, Proof::SCHEMA).encode();
    let expected = durable.files.record(Record::Proof, id);
    Ok(Some(Write::record(Step::ProofWritten, Record::Proof, id, expected, Some(proof))))
}

/// Removes the markers of a verified generation, one after another, and enters the cleanup.
fn clear(durable: &Durable, stored: &Stored<Intent>, now: &Now) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    if let Some(write) = prove(durable, intent)? {
        return Ok(Some(write));
    }
    let owner = intent.owner();
    let owners = durable.owners(&intent.targets)?;
    for (found, endpoint) in owners.iter().zip(&intent.targets) {
        if let Some(found) = found.filter(|found| **found != *owner) {
            let evidence = format!("{endpoint}/{}", names::MARKER);
            let expected = format!("`{owner}` or none");
            return Err(Refusal::ClearForeign(about(format!("`{found}`"), expected, evidence)));
        }
    }
    if let Some(target) = owners.iter().position(Option::is_some) {
        let expected = Some(owner.as_bytes());
        return Ok(Some(Write::marker(Step::MarkerCleared, target, expected, None)));
    }
    stored
        .save(Step::CleanupEntered, |next| {
            next.phase = Phase::CleanupPending;
            next.error_message = None;
            next.last_update = now.time_s.max(next.last_update);
        })
        .map(Some)
}

/// Removes what is not needed any more. The proof stays, and so does every record of another generation.
fn clean(durable: &Durable, stored: &Stored<Intent>) -> Result<Option<Write>, Refusal> {
    if let Some(write) = prove(durable, &stored.value)? {
        return Ok(Some(write));
    }
    let id = stored.value.task_id;
    let order = [
        (Record::Checkpoint, Step::LedgerRemoved),
        (Record::CheckpointDigest, Step::LedgerRemoved),
        (Record::Blocked, Step::LedgerRemoved),
        (Record::Progress, Step::LedgerRemoved),
        (Record::Note, Step::NoteRemoved),
        (Record::Intent, Step::IntentRemoved),
    ];
    Ok(order.into_iter().find_map(|(record, step)| {
        let bytes = durable.files.record(record, id)?;
        Some(Write::record(step, record, id, Some(bytes), None))
    }))
}

/// The seal goes last, and only beside a proof: a seal alone says that an intent was lost.
fn after_intent(durable: &Durable, id: GenerationId) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    if files.record(Record::Intent, id).is_some() || files.proof(id)?.is_none() {
        return Ok(None);
    }
    let seal = files.record(Record::Seal, id);
    Ok(seal.map(|seal| Write::record(Step::SealRemoved, Record::Seal, id, Some(seal), None)))
}

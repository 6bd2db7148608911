//! Handoff: passing unfinished work on to exactly one successor, and binding it again when the mounts change
//! once more before the successor owns them.
//!
//! ```text
//!  Prepared ─▶ Published ─▶ Sealed ─▶ Noted ─▶ MarkerMoved ─▶ … ─▶ MarkersOwned ─▶ Committed ─▶ Rebuilding
//!  names the   the successor's own record       one target after     the predecessor's record
//!  successor                                    another
//! ```
//!
//! The first four are in here, the others in `run.rs`: they belong to the successor's executor.
//!
//! # Invariants
//!
//! 1. *One successor.* Its id is drawn for `Prepared` and read back ever after.
//! 2. *No theft.* A marker moves only from the owner that `Prepared` recorded, or from nobody on a blank drive
//!    that was demonstrably put in since, which is recorded too before it is acted on.
//! 3. *No way back.* A marker that has moved does not move again.

use std::collections::BTreeSet;

use crate::protocol::replacement::identity::Continuity;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::identity::is_another_drive;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Layout;
use crate::protocol::replacement::intent::PROTOCOL;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::intent::TASK_TYPE;
use crate::protocol::replacement::lineage;
use crate::protocol::replacement::lineage::Handoff;
use crate::protocol::replacement::lineage::HandoffPhase;
use crate::protocol::replacement::lineage::Link;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;
use crate::value::Digest;

/// Names the one successor in the record of `stored`: the point of no return.
///
/// # Errors
///
/// [`Refusal::NotEligible`], [`Refusal::LineageFull`], [`Refusal::HandoffMarkerForeign`],
/// [`Refusal::SuccessorDiffers`] when the fresh id is taken. A handoff costs nothing of the failure budget.
pub(crate) fn prepare(
    durable: &Durable,
    stored: &Stored<Intent>,
    mounted: &[&Mounted],
    now: &Now,
) -> Result<Write, Refusal> {
    let intent = &stored.value;
    let id = intent.task_id;
    let on = |seen: String, expected: &str| on_record(Record::Intent, id, seen, expected);
    if intent.protocol != PROTOCOL || intent.handoff.is_some() {
        let seen = format!("protocol {}, phase {:?}", intent.protocol, intent.phase);
        return Err(Refusal::NotEligible(on(seen, "protocol 1 and no handoff")));
    }
    if intent.lineage.len() >= lineage::LINKS_MAX {
        let seen = format!("{} links", intent.lineage.len());
        return Err(Refusal::LineageFull(on(seen, "fewer than 32")));
    }
    let successor = now.fresh_successor;
    let is_taken = durable.files.record(Record::Intent, successor).is_some()
        || durable.files.record(Record::Proof, successor).is_some();
    if is_taken || successor == id || intent.lineage.iter().any(|it| it.predecessor == successor) {
        let expected = "an id that no record has";
        return Err(Refusal::SuccessorDiffers(on(format!("{successor} is taken"), expected)));
    }
    let owner = intent.owner();
    let owners = durable.owners(&intent.targets)?;
    for (found, endpoint) in owners.iter().zip(&intent.targets) {
        if let Some(found) = found.filter(|found| **found != *owner) {
            let evidence = format!("{endpoint}/{}", names::MARKER);
            let expected = format!("`{owner}` or none");
            let on = about(format!("`{found}`"), expected, evidence);
            return Err(Refusal::HandoffMarkerForeign(on));
        }
    }
    let link = Link {
        transaction_id: now.fresh_transaction,
        predecessor: id,
        successor,
        set_disk_id: intent.set_disk_id.clone(),
        source_sha256: Digest::of(&stored.bytes).0,
        targets: resolve::identities(mounted),
        expected_markers: owners.iter().map(|found| found.map(str::to_owned)).collect(),
        buckets: union([&intent.buckets, &now.buckets]),
    };
    stored.save(Step::HandoffPrepared, |next| {
        next.phase = Phase::HandoffPending;
        next.completed = false;
        next.error_message = None;
        next.waiting_for_target = false;
        next.handoff = Some(Handoff { phase: HandoffPhase::Prepared, link });
    })
}

/// Every bucket that one of `plans` has, in order, each once.
pub(crate) fn union<'a>(plans: impl IntoIterator<Item = &'a Vec<String>>) -> Vec<String> {
    let names: BTreeSet<&String> = plans.into_iter().flatten().collect();
    names.into_iter().cloned().collect()
}

/// Goes on with a handoff that `predecessor` has prepared, up to the successor's sealed and noted record.
///
/// The plan is the one that was recorded, whatever buckets are there now.
pub(crate) fn replay(
    durable: &Durable,
    predecessor: &Stored<Intent>,
    mounted: &[&Mounted],
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let handoff = predecessor.value.handoff.as_ref();
    let Handoff { phase, link } = handoff.expect("a pending predecessor was checked to have one");
    let id = link.successor;
    let successor = files.intent(id)?;
    if *phase == HandoffPhase::Committed {
        return match successor {
            Some(_) => Ok(None),
            None => {
                let seen = "no record";
                let expected = format!("the successor of {}", predecessor.value.task_id);
                Err(Refusal::SuccessorMissing(on_record(Record::Intent, id, seen, expected)))
            }
        };
    }
    if let Some(successor) = &successor {
        resolve::check_authority(&predecessor.value, &successor.value)?;
    }
    let terms = terms(durable, link, mounted)?;
    if terms != (link.targets.clone(), link.expected_markers.clone()) {
        if let Some(successor) = &successor {
            resolve::check_untouched(files, &successor.value)?;
        }
        let write = predecessor.save(Step::HandoffRebound, |next| {
            let handoff = next.handoff.as_mut().expect("the predecessor was checked to have one");
            (handoff.link.targets, handoff.link.expected_markers) = terms;
        })?;
        return Ok(Some(write));
    }
    let Some(successor) = successor else {
        let record = publish(&predecessor.value, link, now.time_s).encode();
        // A torn record that was never sealed may be published over.
        let expected = files.record(Record::Intent, id);
        let write =
            Write::record(Step::SuccessorPublished, Record::Intent, id, expected, Some(record));
        return Ok(Some(write));
    };
    if files.record(Record::Seal, id).is_none() {
        return Ok(Some(resolve::seal_write(Step::SuccessorSealed, id, None)));
    }
    if successor.value.lineage.last() != Some(link) {
        resolve::check_untouched(files, &successor.value)?;
        let write = successor.save(Step::SuccessorRebound, |next| {
            next.identities = link.targets.clone();
            *next.lineage.last_mut().expect("its authority was checked") = link.clone();
            next.last_update = now.time_s;
        })?;
        return Ok(Some(write));
    }
    match resolve::worst_continuity(files, &successor.value, mounted) {
        Continuity::Same => Ok(None),
        Continuity::Unknown | Continuity::Changed(_) => {
            Ok(Some(resolve::note_write(files, id, mounted)))
        }
    }
}

/// What the handoff is to be bound to now: identities and expected markers.
///
/// A marker that was expected and is gone may only be missing from a blank drive that is another one than the
/// handoff was bound to; then nobody owned it, and absence is what is expected from here on.
fn terms(
    durable: &Durable,
    link: &Link,
    mounted: &[&Mounted],
) -> Result<(Vec<crate::protocol::replacement::identity::Identity>, Vec<Option<String>>), Refusal> {
    let endpoints: Vec<String> = link.targets.iter().map(|it| it.endpoint.clone()).collect();
    let owners = durable.owners(&endpoints)?;
    // A drive whose marker was expected is the one that the predecessor had marked, and so had noted.
    let note = durable.files.note(link.successor).or(durable.files.note(link.predecessor));
    let owner = marker::owner(&link.set_disk_id, link.successor);
    let mut expected = link.expected_markers.clone();
    for (index, found) in owners.iter().enumerate() {
        if *found == Some(&*owner) || *found == expected[index].as_deref() {
            continue;
        }
        let evidence = format!("{}/{}", endpoints[index], names::MARKER);
        let wanted = match &expected[index] {
            Some(old) => format!("`{old}` or `{owner}`"),
            None => format!("none or `{owner}`"),
        };
        if let Some(found) = found {
            let on = about(format!("`{found}`"), wanted, evidence);
            return Err(Refusal::TransferMarkerForeign(on));
        }
        let drive = mounted[index];
        let noted = note.as_ref().and_then(|note| note.targets.get(index));
        if !drive.is_blank() {
            return Err(Refusal::MarkerVanished(about("no marker", wanted, evidence)));
        }
        if !is_another_drive(&link.targets[index], noted, drive) {
            let seen = "a blank drive that may be the recorded one, emptied";
            return Err(Refusal::PendingDiffers(about(seen, wanted, evidence)));
        }
        expected[index] = None;
    }
    Ok((resolve::identities(mounted), expected))
}

/// The record of a successor that takes over from `predecessor` on the terms of `link`.
fn publish(predecessor: &Intent, link: &Link, now_s: u64) -> Intent {
    let mut lineage = predecessor.lineage.clone();
    lineage.push(link.clone());
    Intent {
        predecessor: Some(link.predecessor),
        lineage,
        legacy_import: predecessor.legacy_import.clone(),
        phase: Phase::OwnershipPending,
        retry_count: predecessor.retry_count,
        max_retries: predecessor.max_retries,
        ..fresh(
            link.successor,
            &link.set_disk_id,
            link.targets.clone(),
            link.buckets.clone(),
            now_s,
        )
    }
}

/// The record of a generation that begins at zero, in phase *intent*.
pub(crate) fn fresh(
    id: GenerationId,
    set: &str,
    identities: Vec<crate::protocol::replacement::identity::Identity>,
    buckets: Vec<String>,
    now_s: u64,
) -> Intent {
    Intent {
        layout: Layout::Current,
        schema_version: SCHEMA,
        task_id: id,
        task_type: TASK_TYPE.to_owned(),
        set_disk_id: set.to_owned(),
        targets: identities.iter().map(|it| it.endpoint.clone()).collect(),
        identities,
        pending_buckets: buckets.clone(),
        buckets,
        generation: Some(id),
        phase: Phase::Intent,
        protocol: PROTOCOL,
        retry_compatibility_done: true,
        start_time: now_s,
        last_update: now_s,
        max_retries: crate::protocol::replacement::intent::RETRIES_MAX,
        ..Intent::default()
    }
}

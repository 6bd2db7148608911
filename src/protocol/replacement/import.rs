//! Import: legacy records pass on to the one successor that an operator's approval names.
//!
//! ```text
//!  SourceArchived … ─▶ ImportPublished ─▶ ImportSealed ─▶ (PlanExtended) ─▶ SourceRetired … ─▶ ReceiptWritten
//!                                                                                     ─▶ ApprovalConsumed
//! ```
//!
//! Nothing is inferred from a legacy record's phase: one in *rebuilding* may own no marker. The approval's
//! digests bind the sources byte for byte, its markers bind the targets. Every step is replayed with the same
//! approval until it is consumed; markers move later, in the successor's executor. Archives and the receipt are
//! kept for ever.

use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::approval::Source;
use crate::protocol::replacement::handoff;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Layout;
use crate::protocol::replacement::intent::PROTOCOL;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;
use crate::value::Digest;

/// The next write of the import that the approval of `successor` permits; `None` when there is no approval, or
/// it is consumed.
///
/// Markers and mounts are those of the approval's targets, in its order.
///
/// # Errors
///
/// Every refusal blocks the set and leaves all records as they are; the next start replays.
pub fn next_write(
    durable: &Durable,
    successor: GenerationId,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let Some(approval) = files.approval(successor)? else {
        return Ok(None);
    };
    let bytes = files.record(Record::Approval, successor).unwrap_or_default();
    check_receipt(files, successor, bytes)?;
    let mounted = now.mounted(&approval.targets)?;
    let owner = marker::owner(&approval.set_disk_id, successor);
    let owners = durable.owners(&approval.targets)?;
    for (index, found) in owners.iter().enumerate() {
        let expected = approval.expected_markers[index].as_deref();
        if *found != expected && *found != Some(&*owner) {
            let evidence = format!("{}/{}", approval.targets[index], names::MARKER);
            let wanted = format!("{expected:?} or `{owner}`");
            let on = about(format!("{found:?}"), wanted, evidence);
            return Err(Refusal::ImportTargetsDiffer(on));
        }
    }
    let published = files.intent(successor)?;
    if let Some(published) = &published {
        check_published(files, &published.value, &approval)?;
    }
    let mut open = Vec::new();
    let mut plans = vec![now.buckets.clone()];
    for source in &approval.sources {
        match source_of(files, &approval, source)? {
            SourceState::Open(stored) => {
                plans.push(stored.value.buckets.clone());
                open.push(stored);
            }
            SourceState::Retired(original) => plans.push(original.buckets),
        }
    }
    if let Some(write) = archive(files, successor, &open)? {
        return Ok(Some(write));
    }
    let plan = handoff::union(&plans);
    let Some(published) = published else {
        // The successor's proof would say that it is over: then somebody has to look.
        if files.record(Record::Proof, successor).is_some() {
            let seen = "a proof without an intent";
            let on = on_record(Record::Proof, successor, seen, "an approval that is not used up");
            return Err(Refusal::ImportSuccessorDiffers(on));
        }
        let identities = resolve::identities(&mounted);
        let set = &approval.set_disk_id;
        let intent = Intent {
            phase: Phase::OwnershipPending,
            legacy_import: Some(approval.clone()),
            ..handoff::fresh(successor, set, identities, plan, now.time_s)
        };
        let expected = files.record(Record::Intent, successor);
        let new = Some(intent.encode());
        let step = Step::ImportPublished;
        return Ok(Some(Write::record(step, Record::Intent, successor, expected, new)));
    };
    if files.record(Record::Seal, successor).is_none() {
        return Ok(Some(resolve::seal_write(Step::ImportSealed, successor, None)));
    }
    if let Some(write) = extend(&published, plan, now)? {
        return Ok(Some(write));
    }
    if let Some(source) = open.first() {
        let retired = retired(&source.value, successor).encode();
        let id = source.value.task_id;
        let (step, expected) = (Step::SourceRetired, Some(&*source.bytes));
        return Ok(Some(Write::record(step, Record::Intent, id, expected, Some(retired))));
    }
    if files.record(Record::Receipt, successor).is_none() {
        let new = Some(bytes.to_vec());
        let step = Step::ReceiptWritten;
        return Ok(Some(Write::record(step, Record::Receipt, successor, None, new)));
    }
    let step = Step::ApprovalConsumed;
    Ok(Some(Write::record(step, Record::Approval, successor, Some(bytes), None)))
}

/// Whether `approval` is about `set`, whose drives are called by `endpoints`.
///
/// # Errors
///
/// [`Refusal::SetDiffers`], [`Refusal::ImportTargetsDiffer`].
pub fn check_scope(approval: &Approval, set: SetId, endpoints: &[String]) -> Result<(), Refusal> {
    let evidence = names::path(Record::Approval, approval.successor);
    if approval.set_disk_id.parse() != Ok(set) {
        return Err(Refusal::SetDiffers(about(&approval.set_disk_id, set, evidence)));
    }
    match approval.targets.iter().find(|target| !endpoints.contains(target)) {
        Some(target) => {
            let expected = format!("a drive of {set}");
            Err(Refusal::ImportTargetsDiffer(about(target, expected, evidence)))
        }
        None => Ok(()),
    }
}

/// A source as the import finds it.
enum SourceState {
    /// As it was approved.
    Open(Stored<Intent>),
    /// Retired into the same successor: what it was is in its archive.
    Retired(Intent),
}

fn source_of(files: &Files, approval: &Approval, source: &Source) -> Result<SourceState, Refusal> {
    let id = source.task_id;
    let refuse = |seen: String, expected: &str| {
        Refusal::ImportSourceDiffers(on_record(Record::Intent, id, seen, expected))
    };
    let Some(bytes) = files.record(Record::Intent, id) else {
        let is_flat = files.record(Record::FlatIntent, id).is_some()
            || files.record(Record::ResumeState, id).is_some();
        let seen = if is_flat { "only a flat record" } else { "no record" };
        return Err(refuse(seen.to_owned(), "the approved bytes"));
    };
    let intent =
        Intent::parse(bytes).map_err(|error| refuse(error.to_string(), "the approved bytes"))?;
    if intent.task_id != id
        || intent.generation != Some(id)
        || intent.set_disk_id != approval.set_disk_id
        || intent.targets != approval.targets
        || !intent.is_replacement()
    {
        let seen = format!("{:?} of {}", intent.targets, intent.set_disk_id);
        return Err(refuse(seen, "the approved set and targets, one identity for each"));
    }
    if intent.schema_version == SCHEMA
        && intent.legacy_successor == Some(approval.successor)
        && intent.phase == Phase::Abandoned
    {
        let path = names::archive_path(approval.successor, id);
        let original = files.bytes.get(&path);
        let is_approved = original.is_some_and(|it| Digest::of(it).0 == source.sha256);
        return match original.and_then(|it| Intent::parse(it).ok()).filter(|_| is_approved) {
            Some(original) => Ok(SourceState::Retired(original)),
            None => {
                let seen = "a retired source without the archive of its approved bytes";
                Err(Refusal::ArchiveDiffers(about(seen, "that archive", path)))
            }
        };
    }
    let is_legacy = matches!(intent.schema_version, 5 | 6)
        && intent.protocol == 0
        && intent.revision == 0
        && intent.predecessor.is_none()
        && intent.lineage.is_empty()
        && intent.legacy_import.is_none()
        && !intent.has_passed_on();
    if !is_legacy {
        let seen = format!("schema {}, protocol {}", intent.schema_version, intent.protocol);
        return Err(refuse(seen, "schema 5 or 6 without a handoff"));
    }
    let digest = Digest::of(bytes);
    if digest.0 != source.sha256 {
        return Err(refuse(digest.to_string(), &Digest(source.sha256).to_string()));
    }
    Ok(SourceState::Open(Stored { value: intent, bytes: bytes.to_vec() }))
}

fn check_receipt(files: &Files, successor: GenerationId, bytes: &[u8]) -> Result<(), Refusal> {
    match files.record(Record::Receipt, successor) {
        Some(receipt) if receipt != bytes => {
            let (seen, expected) = (Digest::of(receipt), Digest::of(bytes));
            let on = on_record(Record::Receipt, successor, seen, expected);
            Err(Refusal::ReceiptDiffers(on))
        }
        _ => Ok(()),
    }
}

fn archive(
    files: &Files,
    successor: GenerationId,
    open: &[Stored<Intent>],
) -> Result<Option<Write>, Refusal> {
    for source in open {
        let path = names::archive_path(successor, source.value.task_id);
        match files.bytes.get(&path) {
            None => {
                let new = Some(source.bytes.clone());
                return Ok(Some(Write::file(Step::SourceArchived, path, None, new)));
            }
            Some(archived) if *archived != source.bytes => {
                let (seen, expected) = (Digest::of(archived), Digest::of(&source.bytes));
                return Err(Refusal::ArchiveDiffers(about(seen, expected, path)));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

/// Whether the record under the successor's id is this import's, before anything is written for it.
fn check_published(files: &Files, intent: &Intent, approval: &Approval) -> Result<(), Refusal> {
    if intent.legacy_import.as_ref() != Some(approval) {
        let seen = "another approval, or none";
        let on = on_record(Record::Intent, intent.task_id, seen, "the approval");
        return Err(Refusal::ImportSuccessorDiffers(on));
    }
    if !is_growing(intent) {
        return Ok(());
    }
    resolve::check_untouched(files, intent)
        .map_err(|refusal| Refusal::ImportSuccessorDiffers(refusal.particulars().clone()))
}

/// Whether the successor has not taken over yet: only then may its plan still grow.
fn is_growing(intent: &Intent) -> bool {
    intent.phase == Phase::OwnershipPending && intent.lineage.is_empty()
}

/// Takes buckets into the plan that were made since.
fn extend(
    published: &Stored<Intent>,
    plan: Vec<String>,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let intent = &published.value;
    if !is_growing(intent) {
        return Ok(None);
    }
    let plan = handoff::union([&intent.buckets, &plan]);
    if plan == intent.buckets {
        return Ok(None);
    }
    published
        .save(Step::PlanExtended, |next| {
            next.pending_buckets.clone_from(&plan);
            next.buckets = plan;
            next.last_update = now.time_s;
        })
        .map(Some)
}

/// What becomes of a source: evidence that names who took over. Everything else of it stays.
pub fn retired(source: &Intent, successor: GenerationId) -> Intent {
    Intent {
        layout: Layout::Current,
        schema_version: SCHEMA,
        protocol: PROTOCOL,
        revision: 1,
        phase: Phase::Abandoned,
        completed: false,
        error_message: None,
        legacy_successor: Some(successor),
        ..source.clone()
    }
}

//! Whether anybody goes on with a generation, by what the drives hold.

use super::stopped::Stopped;
use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;

/// Why nobody goes on with `id`, although it has a record that claims its targets or a marker that names it; `None`
/// when somebody does, or nothing is left to do.
pub(super) fn why(id: GenerationId, drives: &[Stopped]) -> Option<String> {
    let kinds = [Record::Intent, Record::FlatIntent, Record::ResumeState];
    let mut copies = kinds.into_iter().flat_map(|kind| of(drives, kind, id));
    let Some(bytes) = copies.next() else {
        let is_over = of(drives, Record::Proof, id).next().is_some();
        let is_marked = drives.iter().filter_map(Stopped::marked_by).any(|(_, owner)| owner == id);
        return (is_marked && !is_over)
            .then(|| "a marker names it, and its record is on none of these drives".to_owned());
    };
    let Ok(intent) = Intent::parse(bytes) else {
        // What was never sealed is published again under the same id.
        let is_sealed = of(drives, Record::Seal, id).next().is_some();
        return is_sealed.then(|| "its record does not parse".to_owned());
    };
    if intent.generation.is_none() && intent.targets.is_empty() {
        // An ordinary heal's state.
        return None;
    }
    if intent.schema_version < SCHEMA {
        let schema = intent.schema_version;
        let waits = match approved(id, drives) {
            Some(successor) => format!("is approved to be imported into {successor}"),
            None => "has to be imported".to_owned(),
        };
        return Some(format!("a legacy record of schema {schema}, which {waits}"));
    }
    match Intent::read(id, bytes) {
        Ok(intent) => broken_chain(&intent, drives),
        Err(refusal) => Some(refused(&refusal)),
    }
}

fn refused(refusal: &Refusal) -> String {
    format!("its record is refused ({}): {refusal}", refusal.number())
}

/// Why a record that reads well leads nowhere.
fn broken_chain(intent: &Intent, drives: &[Stopped]) -> Option<String> {
    let has = |kind, id| of(drives, kind, id).next().is_some();
    match intent.phase {
        Phase::Abandoned => {
            let handoff = intent.handoff.as_ref().map(|handoff| handoff.link.successor);
            match handoff.or(intent.legacy_successor) {
                None => Some("it was given up, and nobody took its targets over".to_owned()),
                Some(next) if has(Record::Intent, next) || has(Record::Proof, next) => None,
                Some(next) => Some(format!(
                    "its successor {next} has neither a record nor a proof on these drives"
                )),
            }
        }
        Phase::OwnershipPending => {
            let before = intent.predecessor.filter(|before| !has(Record::Intent, *before))?;
            Some(format!("its predecessor {before} has no record on these drives"))
        }
        _ => None,
    }
}

/// Into whom an approval imports `id`.
fn approved(id: GenerationId, drives: &[Stopped]) -> Option<GenerationId> {
    let mut approvals = drives.iter().flat_map(|drive| drive.all(Record::Approval));
    approvals.find_map(|(successor, bytes)| {
        let approval = Approval::read(successor, bytes).ok()?;
        approval.sources.iter().any(|source| source.task_id == id).then_some(successor)
    })
}

/// The copies of a record on all drives.
fn of(drives: &[Stopped], kind: Record, id: GenerationId) -> impl Iterator<Item = &[u8]> {
    drives.iter().filter_map(move |drive| drive.files.record(kind, id))
}

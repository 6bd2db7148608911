//! What stops recovery, as far as stopped drives show it: each refusal with what an operator may do.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use super::stopped::Stopped;
use crate::protocol::replacement::discover;
use crate::protocol::replacement::discover::Drive;
use crate::protocol::replacement::discover::DriveState;
use crate::protocol::replacement::flat;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::resolve;

/// One refusal. The keys are those of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// The number of the fail-closed condition.
    pub number: String,
    /// The drive that shows it, as it was named.
    pub drive: String,
    /// The generation, if it is about one.
    pub task_id: Option<String>,
    /// What was seen, what was expected, and where.
    pub words: String,
    /// What an operator may do.
    pub remedy: String,
}

impl Stop {
    fn new(drive: &str, id: Option<GenerationId>, refusal: &Refusal) -> Self {
        Self {
            number: refusal.number().to_owned(),
            drive: drive.to_owned(),
            task_id: id.map(|id| id.to_string()),
            words: refusal.to_string(),
            remedy: refusal.remedy().to_owned(),
        }
    }
}

/// What an operator may do about a marker whose generation has no record.
const LOST_RECORD: &str = "name every drive of the set; if the record is on none of them, bring its drive back, or \
restore the record from a backup of the survivor metadata";

/// Everything that stops recovery on `drives`, in the order of their names.
///
/// What only a mounted target can show (its mount, its lease) is not among it.
pub fn find(drives: &[Stopped]) -> Vec<Stop> {
    let mut stops = BTreeSet::new();
    for drive in drives {
        for (id, read) in drive.intents() {
            let refused = read.and_then(|intent| judge(drive, &intent)).err();
            stops.extend(refused.map(|refusal| Stop::new(&drive.name, Some(id), &refusal)));
        }
        stops.extend(others(drive));
        if let Err(refusal) = drive.owner() {
            stops.insert(Stop::new(&drive.name, None, &refusal));
        }
        stops.extend(lost_record(drive, drives));
    }
    stops.extend(contradictions(drives));
    stops.into_iter().collect()
}

/// What stops a generation whose record reads well.
fn judge(drive: &Stopped, intent: &Intent) -> Result<(), Refusal> {
    if !intent.is_replacement() {
        return Ok(());
    }
    match intent.phase {
        Phase::Abandoned => resolve::stepped_back(&drive.files, intent)?,
        _ => resolve::check_budget(intent)?,
    }
    if intent.phase == Phase::Rebuilding {
        drive.files.checkpoint(intent.task_id)?;
    }
    Ok(())
}

/// What is wrong with the drive's other records.
fn others(drive: &Stopped) -> Vec<Stop> {
    let mut stops = Vec::new();
    let mut refuse = |id, result: Result<(), Refusal>| {
        stops.extend(result.err().map(|refusal| Stop::new(&drive.name, Some(id), &refusal)));
    };
    for (id, bytes) in drive.all(Record::Proof) {
        refuse(id, Proof::read(id, bytes).map(drop));
    }
    for (id, _) in drive.all(Record::Approval) {
        refuse(id, drive.files.approval(id).map(drop));
    }
    let flat_kinds = [Record::FlatIntent, Record::ResumeState, Record::FlatProof];
    let flat_ids = flat_kinds.into_iter().flat_map(|kind| drive.all(kind));
    for id in flat_ids.map(|(id, _)| id).collect::<BTreeSet<_>>() {
        refuse(id, flat::next_write(&drive.files, id).map(drop));
    }
    stops
}

/// A marker that names nobody, or a generation of which no drive has a record.
fn lost_record(drive: &Stopped, drives: &[Stopped]) -> Option<Stop> {
    let owner = drive.owner().ok()??;
    let stop = |task_id: Option<String>, words: String| Stop {
        number: "Q9".to_owned(),
        drive: drive.name.clone(),
        task_id,
        words,
        remedy: LOST_RECORD.to_owned(),
    };
    let Some((_, id)) = drive.marked_by() else {
        return Some(stop(None, format!("the marker says {owner:?}, which names no generation")));
    };
    let kinds = [Record::Intent, Record::Approval, Record::FlatIntent, Record::ResumeState];
    let mut has_record = kinds.iter().flat_map(|kind| drives.iter().flat_map(|it| it.all(*kind)));
    if has_record.any(|(other, _)| other == id) {
        return None;
    }
    let words = format!("the marker names {id}, whose record is on none of these drives");
    Some(stop(Some(id.to_string()), words))
}

/// Copies of one generation that cannot both be true.
fn contradictions(drives: &[Stopped]) -> Vec<Stop> {
    let as_found = |drive: &Stopped| Drive {
        endpoint: drive.name.clone(),
        is_local: true,
        state: DriveState::Formatted,
        marker: None,
        intents: BTreeMap::new(),
        torn: BTreeSet::new(),
    };
    let found: Vec<_> = drives.iter().map(|drive| (as_found(drive), drive)).collect();
    let mut copies: BTreeMap<GenerationId, Vec<(&Drive, Intent)>> = BTreeMap::new();
    for (as_found, drive) in &found {
        for (id, read) in drive.intents() {
            if let Ok(intent) = read {
                copies.entry(id).or_default().push((as_found, intent));
            }
        }
    }
    let select = |(id, copies): (GenerationId, Vec<(&Drive, Intent)>)| {
        let copies: Vec<_> = copies.iter().map(|(drive, intent)| (*drive, intent)).collect();
        let refusal = discover::select(&copies).err()?;
        Some(Stop::new(&copies[0].0.endpoint, Some(id), &refusal))
    };
    copies.into_iter().filter_map(select).collect()
}

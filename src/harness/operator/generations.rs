//! `replacement orphans`: every generation that stopped drives know of, by set and slot, and whether anybody goes on
//! with it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use super::orphaned;
use super::stopped::Stopped;
use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::status;
use crate::protocol::replacement::status::State;

/// All generations that were found. The keys are those of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generations {
    /// 1.
    pub format: u32,
    /// How many of them are orphaned.
    pub orphaned: usize,
    /// By set, as the records name it; `None` last, for those whose records name none.
    pub sets: Vec<SetGenerations>,
    /// The drives, in the order given.
    pub drives: Vec<MarkedDrive>,
}

/// The generations of one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetGenerations {
    /// `pool_<P>_set_<S>`.
    pub set_disk_id: Option<String>,
    /// Each slot that a generation claims or claimed, by its endpoint, with the generations that did.
    pub slots: BTreeMap<String, Vec<String>>,
    /// The generations, by their ids.
    pub generations: Vec<Generation>,
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// Its id.
    pub generation: String,
    /// Its state, as the status has it.
    pub state: State,
    /// The phase of its record, whatever release wrote it.
    pub phase: Option<Phase>,
    /// The schema of its record.
    pub schema_version: Option<u32>,
    /// The endpoints of its targets.
    pub slots: Vec<String>,
    /// What each drive holds of it: paths relative to the drive's root.
    pub records: BTreeMap<String, Vec<String>>,
    /// The drives whose marker names it.
    pub markers: Vec<String>,
    /// Who takes its targets over, as its record says.
    pub successor: Option<String>,
    /// Why nobody goes on with it, if nobody does.
    pub orphaned: Option<String>,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkedDrive {
    /// As it was named.
    pub drive: String,
    /// Its set and slot by its own format, counting from 0.
    pub place: Option<(usize, usize)>,
    /// What its marker says; `None` when it has none.
    pub marker: Option<String>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

/// Every generation that `drives` know of.
pub fn find(drives: &[Stopped]) -> Generations {
    let mut sets: BTreeMap<(bool, Option<String>), SetGenerations> = BTreeMap::new();
    let mut count = 0;
    let states = states(drives);
    for id in ids(drives) {
        let (set, generation) = generation(id, drives, &states);
        count += usize::from(generation.orphaned.is_some());
        let (slots, generations) = (BTreeMap::new(), Vec::new());
        let empty = SetGenerations { set_disk_id: set.clone(), slots, generations };
        let found = sets.entry((set.is_none(), set)).or_insert(empty);
        for slot in &generation.slots {
            found.slots.entry(slot.clone()).or_default().push(id.to_string());
        }
        found.generations.push(generation);
    }
    let marked = |drive: &Stopped| MarkedDrive {
        drive: drive.name.clone(),
        place: drive.place,
        marker: drive.marker.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        problems: drive.problems.clone(),
    };
    let drives = drives.iter().map(marked).collect();
    Generations { format: 1, orphaned: count, sets: sets.into_values().collect(), drives }
}

/// Every generation that a record or a marker names; ordinary heals are none.
fn ids(drives: &[Stopped]) -> BTreeSet<GenerationId> {
    let mut ids: BTreeSet<_> =
        drives.iter().filter_map(Stopped::marked_by).map(|(_, id)| id).collect();
    for path in drives.iter().flat_map(|drive| drive.files.bytes.keys()) {
        match names::parse(path) {
            // Ordinary heals have them too.
            Name::Record(
                Record::ResumeState
                | Record::Checkpoint
                | Record::Blocked
                | Record::CheckpointDigest
                | Record::Progress,
                _,
            )
            | Name::Other => {}
            Name::Record(_, id) => drop(ids.insert(id)),
            Name::Archive { successor, source } => ids.extend([successor, source]),
        }
    }
    let resumed = drives.iter().flat_map(|drive| drive.all(Record::ResumeState));
    let is_replacement =
        |bytes: &[u8]| Intent::parse(bytes).is_ok_and(|intent| intent.generation.is_some());
    ids.extend(resumed.filter(|(_, bytes)| is_replacement(bytes)).map(|(id, _)| id));
    ids
}

fn states(drives: &[Stopped]) -> BTreeMap<String, State> {
    let records: Vec<_> = drives.iter().map(Stopped::records).collect();
    let records = status::snapshot(&records, &BTreeSet::new()).records;
    records.into_iter().map(|record| (record.task_id, record.state)).collect()
}

/// A generation, and the set that its records name.
fn generation(
    id: GenerationId,
    drives: &[Stopped],
    states: &BTreeMap<String, State>,
) -> (Option<String>, Generation) {
    let mut records = BTreeMap::new();
    for drive in drives {
        let paths: Vec<_> =
            drive.files.bytes.keys().filter(|path| is_of(id, path)).cloned().collect();
        if !paths.is_empty() {
            records.insert(drive.name.clone(), paths);
        }
    }
    let intent = intent(id, drives);
    let (set, slots) = scope(id, intent.as_ref(), drives);
    let marked = drives.iter().filter(|drive| drive.marked_by().is_some_and(|it| it.1 == id));
    let successor = intent.as_ref().and_then(|intent| {
        let handoff = intent.handoff.as_ref().map(|handoff| handoff.link.successor);
        handoff.or(intent.legacy_successor)
    });
    let generation = Generation {
        generation: id.to_string(),
        state: states.get(&id.to_string()).copied().unwrap_or(State::Unknown),
        phase: intent.as_ref().map(|intent| intent.phase),
        schema_version: intent.as_ref().map(|intent| intent.schema_version),
        slots,
        records,
        markers: marked.map(|drive| drive.name.clone()).collect(),
        successor: successor.map(|id| id.to_string()),
        orphaned: orphaned::why(id, drives),
    };
    (set, generation)
}

fn is_of(id: GenerationId, path: &str) -> bool {
    match names::parse(path) {
        Name::Record(_, other) => other == id,
        Name::Archive { source, .. } => source == id,
        Name::Other => false,
    }
}

/// The record of a generation without any rule applied, wherever it lies.
fn intent(id: GenerationId, drives: &[Stopped]) -> Option<Intent> {
    let kinds = [Record::Intent, Record::FlatIntent, Record::ResumeState];
    let mut copies =
        kinds.iter().flat_map(|kind| drives.iter().map(|it| it.files.record(*kind, id)));
    copies.find_map(|bytes| Intent::parse(bytes?).ok())
}

/// Set and endpoints of a generation: by its record, its proof, an approval of it, or the marker that names it.
fn scope(
    id: GenerationId,
    intent: Option<&Intent>,
    drives: &[Stopped],
) -> (Option<String>, Vec<String>) {
    if let Some(intent) = intent {
        let set = Some(intent.set_disk_id.clone()).filter(|set| !set.is_empty());
        return (set, intent.targets.clone());
    }
    let record = |kind| drives.iter().find_map(|drive| drive.files.record(kind, id));
    if let Some(proof) = record(Record::Proof).and_then(|bytes| Proof::read(id, bytes).ok()) {
        return (Some(proof.set_disk_id), proof.targets);
    }
    let approval = record(Record::Approval).or_else(|| record(Record::Receipt));
    if let Some(approval) = approval.and_then(|bytes| Approval::read(id, bytes).ok()) {
        return (Some(approval.set_disk_id), approval.targets);
    }
    let marked = drives.iter().filter_map(Stopped::marked_by).find(|(_, owner)| *owner == id);
    (marked.map(|(set, _)| set.to_owned()), Vec::new())
}

//! The records of replacements in a census, as far as invariants ask: read from their JSON alone, by the names of
//! its keys. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use super::findings::Examination;
use super::findings::Found;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::ReplacementCensus;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::record::History;

/// How the name of a generation's record ends.
pub(super) const INTENT: &str = "_ahm_replacement_intent.json";
/// From this schema on a generation owns its markers before it rebuilds, and every save counts.
pub(super) const SCHEMA_OWNED: u64 = 7;
/// How the name of a completion proof ends.
pub(super) const PROOF: &str = "_ahm_replacement_completion_proof.json";

/// Every generation that some drive knows of.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// Intents by generation.
    pub intents: BTreeMap<String, Generation>,
    /// Proofs by generation.
    pub proofs: BTreeMap<String, Generation>,
    /// Markers: drive and owner.
    pub markers: Vec<(String, String)>,
    /// Who passed on to whom, by every record that tells.
    pub edges: BTreeSet<(String, String)>,
    /// Records that cannot be read: drive and path.
    pub unreadable: Vec<(String, String)>,
}

/// What a record says of its generation.
#[derive(Debug, Clone, Default)]
pub(super) struct Generation {
    /// The drive that it lies on.
    pub drive: String,
    /// Its path there.
    pub path: String,
    /// Its set, as records spell it.
    pub set: String,
    /// Its targets' endpoints.
    pub targets: Vec<String>,
    /// The intent's phase.
    pub phase: String,
    /// Whom it has passed its targets on to, and how far that has come.
    pub handoff: Option<(String, String)>,
    /// Into whom it was imported: an older release's, that was retired.
    pub imported_into: Option<String>,
    /// The schema of the record.
    pub schema: u64,
    /// When the targets were found whole, seconds since 1970; a proof's.
    pub verified_at: u64,
}

impl Generations {
    /// Reads what the drives hold.
    pub(super) fn of(census: &Census) -> Self {
        Self::of_drives(&census.replacement)
    }

    /// Reads what these drives hold.
    pub(super) fn of_drives(drives: &[ReplacementCensus]) -> Self {
        let mut all = Self::default();
        for held in drives {
            if let Some(owner) = &held.marker {
                all.markers.push((held.drive.clone(), owner.clone()));
            }
            for (path, text) in &held.records {
                let is_intent = path.ends_with(INTENT);
                let is_proof = path.ends_with(PROOF);
                if !is_intent && !is_proof {
                    continue;
                }
                let read = serde_json::from_str::<Value>(text).ok();
                let Some((id, generation)) =
                    read.and_then(|json| all.read(&held.drive, path, &json))
                else {
                    all.unreadable.push((held.drive.clone(), path.clone()));
                    continue;
                };
                let known = if is_intent { &mut all.intents } else { &mut all.proofs };
                known.insert(id, generation);
            }
        }
        all
    }

    fn read(&mut self, drive: &str, path: &str, json: &Value) -> Option<(String, Generation)> {
        let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
        let id = text(json, "task_id")?;
        let handoff = &json["replacement_handoff"];
        let link = &handoff["link"];
        let links = json["replacement_lineage"].as_array().into_iter().flatten();
        for link in links.chain(link.is_object().then_some(link)) {
            self.edges.insert((text(link, "predecessor")?, text(link, "successor")?));
        }
        let targets = json["replacement_targets"].as_array()?.iter();
        let generation = Generation {
            drive: drive.to_owned(),
            path: path.to_owned(),
            set: text(json, "set_disk_id")?,
            targets: targets.filter_map(|it| it.as_str().map(str::to_owned)).collect(),
            phase: text(json, "replacement_phase").unwrap_or_default(),
            handoff: text(link, "successor").zip(text(handoff, "phase")),
            imported_into: text(json, "replacement_legacy_successor"),
            schema: json["schema_version"].as_u64().unwrap_or(0),
            verified_at: json["verified_at"].as_u64().unwrap_or(0),
        };
        Some((id, generation))
    }

    /// Tells of records that cannot be read: without them nobody can say how generations stand to each other.
    pub(super) fn tell_unreadable(
        &self,
        examination: &mut Examination,
        found: fn(&str, String) -> Found,
    ) {
        for (drive, path) in &self.unreadable {
            let message = format!("drive {drive} holds a record that cannot be read: {path}");
            let evidence = format!("drive {drive}: {path}");
            examination.found(found("record_unreadable", message).shown_in(evidence));
        }
    }

    /// What is left of a generation: its record, or the proof that it is over.
    pub(super) fn any(&self, id: &str) -> Option<&Generation> {
        self.intents.get(id).or_else(|| self.proofs.get(id))
    }

    /// Whether something of a generation is there: its record, or the proof that it is over.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.any(id).is_some()
    }
}

impl Generation {
    /// Where it shows.
    pub(super) fn evidence(&self) -> String {
        format!("drive {}: {}", self.drive, self.path)
    }

    /// Whether `endpoint` is one of its targets under the name of `drive`, `node/slot`: endpoints end with it.
    pub(super) fn targets_drive(&self, drive: &str) -> bool {
        self.targets.iter().any(|endpoint| is_drive(endpoint, drive))
    }
}

/// Drives that the history replaced, each with how often it changed after that: another drive in its place, other
/// mounts, a copy that came back.
pub(super) fn replaced(history: &History) -> BTreeMap<&str, usize> {
    let mut changes = BTreeMap::<&str, usize>::new();
    let struck = history.faults.iter().map(|fault| &fault.what);
    let leaves_it = |name: &str| matches!(name, "hang_writes" | "tamper_record");
    let struck = struck.filter(|fault| !leaves_it(&fault.name));
    for fault in struck.filter(|fault| fault.phase == FaultPhase::Injected) {
        for drive in &fault.drives {
            match changes.get_mut(drive.as_str()) {
                Some(changes) => *changes += 1,
                None if fault.name == "replace_drive" => drop(changes.insert(drive, 0)),
                None => {}
            }
        }
    }
    changes
}

/// Whether `endpoint` is the drive `node/slot`: testbeds mount each drive on a path that ends with its name.
pub(super) fn is_drive(endpoint: &str, drive: &str) -> bool {
    endpoint.strip_suffix(drive).is_some_and(|rest| rest.ends_with('/'))
}

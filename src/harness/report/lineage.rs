//! The replacements of a run, as the looks at the drives and the census tell them: generations, who passed on to
//! whom, which phase each was seen in and when, markers, proofs. Pure.
//!
//! A moment is that of the look which first showed it: what happened between two looks bears the later one. Records
//! are read by the names of their keys; whoever judges them does so elsewhere (`check`).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::assemble::end_us;
use super::recovery::Span;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::ReplacementCensus;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::record::History;
use crate::protocol::replacement::names::Record;

/// Generations that are told of.
const GENERATIONS_MAX: usize = 48;
/// Letters of a name that are shown.
const LETTERS_MAX: usize = 40;

/// All that was seen of one generation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Generation {
    /// Its id, as records spell it.
    pub id: String,
    /// Its drives: `node/slot` where its endpoints end so.
    pub targets: Vec<String>,
    /// The drive that held its record when that was last seen.
    pub anchor: String,
    /// Who passed its drives on to it.
    pub predecessor: Option<String>,
    /// The phase that its record was in when it was last seen.
    pub phase: String,
    /// Its phases in order.
    pub stretches: Vec<Phase>,
    /// Its proof.
    pub proof: Option<Proof>,
    /// Its markers, by drive.
    pub markers: Vec<Marker>,
    /// When it was first seen; `None` when only others tell of it.
    pub since_us: Option<u64>,
    /// When it was seen to have stepped back, and where.
    pub stepped_back: Option<Seen>,
}

/// A stretch of time in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Phase {
    /// `detect`, `hand off`, `rebuild`, `verify` or `cleanup`.
    pub name: &'static str,
    /// From its first look on.
    pub from_us: u64,
    /// To the first look that shows something else, or the last one there was.
    pub to_us: u64,
    /// Whether no look shows something else.
    pub is_open: bool,
}

/// A moment, and where the record shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Seen {
    /// The moment.
    pub at_us: u64,
    /// `history.jsonl:LINE` or `census.json`.
    pub evidence: String,
}

/// A completion proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Proof {
    /// When it was first seen.
    pub seen: Seen,
    /// The drive that it lies on.
    pub drive: String,
    /// Its path there.
    pub path: String,
    /// Its schema.
    pub schema: u64,
    /// What it says of when the targets were found whole.
    pub verified_at: String,
    /// Links of its lineage.
    pub links: usize,
    /// Whether the census has it still.
    pub is_kept: bool,
}

/// The marker of a generation on a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Marker {
    /// The drive.
    pub drive: String,
    /// When it was first seen.
    pub from_us: u64,
    /// When it was first seen to be gone, or another's; `None` when it is still there.
    pub gone: Option<Seen>,
    /// Who had the drive marked then, if anybody.
    pub passed_to: Option<String>,
}

/// What was on the drives at one moment.
struct Look<'a> {
    seen: Seen,
    held: &'a [ReplacementCensus],
    /// The drives that were looked at; `None` for all.
    drives: Option<&'a [String]>,
}

/// Every generation that was seen, or told of by one, in the order in which they were seen.
pub(super) fn generations(history: &History, census: Option<&Census>) -> Vec<Generation> {
    let mut looks: Vec<Look<'_>> = Vec::new();
    for sighting in &history.sightings {
        let evidence = format!("history.jsonl:{}", sighting.seq + 1);
        let seen = Seen { at_us: sighting.at_us, evidence };
        looks.push(Look { seen, held: &sighting.what.held, drives: Some(&sighting.what.drives) });
    }
    if let Some(census) = census {
        let seen = Seen { at_us: end_us(history), evidence: "census.json".to_owned() };
        looks.push(Look { seen, held: &census.replacement, drives: None });
    }
    let mut all: BTreeMap<String, Generation> = BTreeMap::new();
    for look in &looks {
        records(&mut all, look, census.is_some());
        markers(&mut all, look);
    }
    for generation in all.values_mut() {
        if let Some(proof) = &mut generation.proof {
            let kept = census.into_iter().flat_map(|census| &census.replacement);
            proof.is_kept = kept
                .filter(|held| held.drive == proof.drive)
                .any(|held| held.records.contains_key(&proof.path));
        }
        detect(generation, history);
    }
    let mut all: Vec<Generation> = all.into_values().collect();
    all.sort_by_key(|it| (it.since_us.unwrap_or(0), it.predecessor.is_some(), it.id.clone()));
    all.truncate(GENERATIONS_MAX);
    all
}

/// Where drives were being handed over: from the first look at a named successor to the first at its rebuild.
pub(super) fn handoffs(generations: &[Generation]) -> Vec<Span> {
    let stretches = generations.iter().flat_map(|generation| &generation.stretches);
    stretches
        .filter(|phase| phase.name == "hand off")
        .map(|phase| (phase.from_us, phase.to_us))
        .collect()
}

/// A name of others, cut to a length that can be shown.
pub(super) fn cut(name: &str) -> String {
    if name.chars().count() <= LETTERS_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(LETTERS_MAX).collect();
    format!("{kept}…")
}

/// The generation in the name of a record.
fn id_of(path: &str, record: Record) -> Option<&str> {
    path.strip_suffix(record.ending())?.rsplit('/').next()
}

fn of<'a>(all: &'a mut BTreeMap<String, Generation>, id: &str) -> &'a mut Generation {
    all.entry(id.to_owned())
        .or_insert_with(|| Generation { id: id.to_owned(), ..Generation::default() })
}

fn records(all: &mut BTreeMap<String, Generation>, look: &Look<'_>, has_census: bool) {
    let mut phases: BTreeMap<String, &'static str> = BTreeMap::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for held in look.held {
        for (path, text) in &held.records {
            let json: Value = serde_json::from_str(text).unwrap_or_default();
            if let Some(id) = id_of(path, Record::Intent) {
                known.insert(id.to_owned());
                let has_proof =
                    held.records.keys().any(|path| id_of(path, Record::Proof) == Some(id));
                let generation = of(all, id);
                generation.anchor.clone_from(&held.drive);
                generation.phase = json["replacement_phase"].as_str().unwrap_or("").to_owned();
                tell(generation, &json, look);
                if let Some(phase) = phase(&json, has_proof) {
                    phases.insert(id.to_owned(), phase);
                }
            } else if let Some(id) = id_of(path, Record::Proof) {
                known.insert(id.to_owned());
                let generation = of(all, id);
                tell(generation, &json, look);
                generation.proof.get_or_insert_with(|| Proof {
                    seen: look.seen.clone(),
                    drive: held.drive.clone(),
                    path: path.clone(),
                    schema: json["schema_version"].as_u64().unwrap_or(0),
                    verified_at: verified_at(&json),
                    links: json["replacement_lineage"].as_array().map_or(0, Vec::len),
                    is_kept: !has_census,
                });
            } else {
                continue;
            }
            for (one, other) in edges(&json) {
                of(all, &other).predecessor.get_or_insert(one.clone());
                of(all, &one);
            }
        }
    }
    let looked = |anchor: &String| look.drives.is_none_or(|drives| drives.contains(anchor));
    for (id, generation) in all.iter_mut() {
        let now = phases.get(id).copied();
        let at_us = look.seen.at_us;
        // A drive that was not looked at may still hold the record.
        if now.is_none() && !known.contains(id) && !looked(&generation.anchor) {
            continue;
        }
        let last = generation.stretches.last_mut();
        match (last, now) {
            (Some(last), Some(now)) if last.name == now && last.is_open => last.to_us = at_us,
            (last, now) => {
                if let Some(last) = last.filter(|last| last.is_open) {
                    (last.to_us, last.is_open) = (at_us, false);
                }
                generation.stretches.extend(now.map(|name| Phase {
                    name,
                    from_us: at_us,
                    to_us: at_us,
                    is_open: true,
                }));
            }
        }
    }
}

/// What every record of a generation tells.
fn tell(generation: &mut Generation, json: &Value, look: &Look<'_>) {
    generation.since_us.get_or_insert(look.seen.at_us);
    if generation.targets.is_empty() {
        let endpoints = json["replacement_targets"].as_array().into_iter().flatten();
        generation.targets = endpoints.filter_map(Value::as_str).map(drive_of).collect();
    }
    if json["replacement_phase"] == "abandoned" {
        generation.stepped_back.get_or_insert(look.seen.clone());
    }
}

/// The moment that a proof states, in UTC.
fn verified_at(proof: &Value) -> String {
    let moment = proof["verified_at"].as_i64().map(Timestamp::from_second);
    moment
        .and_then(Result::ok)
        .map_or("a moment that cannot be read".to_owned(), |it| it.to_string())
}

/// The drive at an endpoint: testbeds mount each on a path that ends with its name.
fn drive_of(endpoint: &str) -> String {
    let mut parts = endpoint.rsplit('/');
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    match (parts.next().filter(is_number), parts.next().filter(is_number)) {
        (Some(slot), Some(node)) => format!("{node}/{slot}"),
        _ => cut(endpoint),
    }
}

/// Who passed on to whom, as a record tells.
fn edges(json: &Value) -> Vec<(String, String)> {
    let link = &json["replacement_handoff"]["link"];
    let links = json["replacement_lineage"].as_array().into_iter().flatten();
    let pair = |link: &Value| {
        let text = |key: &str| link[key].as_str().map(str::to_owned);
        text("predecessor").zip(text("successor"))
    };
    links.chain(link.is_object().then_some(link)).filter_map(pair).collect()
}

/// The phase that a record shows; `None` once it has stepped back.
fn phase(json: &Value, has_proof: bool) -> Option<&'static str> {
    let count = |key: &str| json[key].as_array().map_or(0, Vec::len);
    match json["replacement_phase"].as_str().unwrap_or("") {
        "intent" => Some("detect"),
        "ownership_pending" | "handoff_pending" => Some("hand off"),
        "verified" | "cleanup_pending" => Some("cleanup"),
        "rebuilding" if has_proof => Some("cleanup"),
        "rebuilding" => {
            let is_read = count("completed_buckets") >= count("replacement_buckets");
            Some(if is_read && count("replacement_buckets") > 0 { "verify" } else { "rebuild" })
        }
        _ => None,
    }
}

fn markers(all: &mut BTreeMap<String, Generation>, look: &Look<'_>) {
    let mut now: BTreeMap<&str, &str> = BTreeMap::new();
    for held in look.held {
        if let Some((_, id)) = held.marker.as_deref().and_then(|owner| owner.split_once(':')) {
            now.insert(&held.drive, id);
        }
    }
    for (drive, id) in &now {
        let generation = of(all, id);
        let is_known = generation.markers.iter().any(|it| it.drive == *drive && it.gone.is_none());
        if !is_known {
            let (drive, from_us) = ((*drive).to_owned(), look.seen.at_us);
            generation.markers.push(Marker { drive, from_us, gone: None, passed_to: None });
        }
    }
    for (id, generation) in all.iter_mut() {
        for marker in generation.markers.iter_mut().filter(|marker| marker.gone.is_none()) {
            let is_looked_at = look.drives.is_none_or(|drives| drives.contains(&marker.drive));
            let owner = now.get(marker.drive.as_str()).copied();
            if is_looked_at && owner != Some(id.as_str()) {
                marker.gone = Some(look.seen.clone());
                marker.passed_to = owner.map(str::to_owned);
            }
        }
    }
}

/// What a generation without a predecessor began with: the drive that was replaced, until that was acted on.
fn detect(generation: &mut Generation, history: &History) {
    let Some(since_us) = generation.since_us.filter(|_| generation.predecessor.is_none()) else {
        return;
    };
    let struck = history.faults.iter().filter(|fault| {
        let of_targets = fault.what.drives.iter().any(|it| generation.targets.contains(it));
        fault.what.phase == FaultPhase::Injected
            && fault.what.name == "replace_drive"
            && fault.at_us <= since_us
            && of_targets
    });
    let Some(from_us) = struck.map(|fault| fault.at_us).max() else { return };
    match generation.stretches.first_mut() {
        Some(first) if first.name == "detect" => first.from_us = from_us,
        _ => {
            generation
                .stretches
                .insert(0, Phase { name: "detect", from_us, to_us: since_us, is_open: false });
        }
    }
}

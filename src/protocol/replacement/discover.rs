//! What a node finds on the drives of a set, and what it does about it: resume, begin, wait, or raise an alarm.
//!
//! Only generations that reserve their targets count: one that has stepped back, or was imported, is evidence
//! and blocks nobody. Blank drives that no generation names yet wait for their turn, on whatever node they are;
//! of two generations that were begun at the same moment, the one with the smaller first endpoint goes first.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::resolve;

/// How a drive answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriveState {
    /// Formatted, and in its slot.
    Formatted,
    /// Mounted and admitted, and not formatted.
    Blank,
    /// Not there, or not admitted: why.
    Away(String),
}

/// A record as it was read, or why it could not be.
pub type ReadIntent = Result<Intent, Refusal>;

/// One drive of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Its endpoint.
    pub endpoint: String,
    /// Whether this node owns it.
    pub is_local: bool,
    /// How it answered.
    pub state: DriveState,
    /// What its marker holds, where that could be read.
    pub marker: Option<Vec<u8>>,
    /// The records that it holds, by generation, with their bytes' reader's answer.
    pub intents: BTreeMap<GenerationId, ReadIntent>,
    /// Generations whose record is torn and was never sealed: publication may go on with the same id.
    pub torn: BTreeSet<GenerationId>,
}

/// What a node sees of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The set.
    pub set: SetId,
    /// Its drives, in slot order; remote ones as their nodes tell.
    pub drives: Vec<Drive>,
    /// Generations with a live executor on this node: they hold their leases.
    pub active: BTreeSet<GenerationId>,
    /// Where each generation's record was last read, as far as this process remembers.
    pub anchors: BTreeMap<GenerationId, String>,
}

/// What an operator has to know; nothing was started because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alarm {
    /// A marker names a generation whose record is on no drive that answered.
    MarkerWithoutIntent {
        /// The target.
        endpoint: String,
        /// What its marker says.
        owner: String,
    },
    /// A record cannot be read, or contradicts another.
    Record {
        /// The drive.
        endpoint: String,
        /// Why.
        refusal: Refusal,
    },
    /// The drive that holds a generation's record is away.
    AnchorAway {
        /// The generation.
        generation: GenerationId,
        /// The drive.
        endpoint: String,
    },
    /// No drive of the set may hold a record.
    NoAnchor,
}

impl Alarm {
    /// Every name that an alarm may have besides the number of a refusal.
    pub const NAMES: &[&str] = &["marker_without_record", "anchor_away", "no_anchor"];

    /// What the status calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MarkerWithoutIntent { .. } => "marker_without_record",
            Self::Record { refusal, .. } => refusal.number(),
            Self::AnchorAway { .. } => "anchor_away",
            Self::NoAnchor => "no_anchor",
        }
    }
}

/// What is to be done for a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: no drive needs it.
    Nothing,
    /// Go on with a generation.
    Resume {
        /// The generation; [`resolve`] says whether it or a successor runs.
        generation: GenerationId,
        /// The drive that holds its record.
        anchor: String,
    },
    /// Begin a fresh generation.
    Begin {
        /// The targets, sorted: every blank drive of this node.
        targets: Vec<String>,
        /// The drive that is to hold its record.
        anchor: String,
        /// The id of a publication that was torn; `None` when a fresh one is to be drawn.
        torn: Option<GenerationId>,
    },
    /// Leave the set alone for now: why.
    Wait(String),
    /// Admit nothing in the set until every record reads well again.
    Block(Refusal),
}

/// What is to be done for a set, and what an operator has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// What is to be done.
    pub decision: Decision,
    /// What an operator has to know.
    pub alarms: Vec<Alarm>,
}

/// Judges `survey`.
pub fn discover(survey: &Survey) -> Discovery {
    let mut alarms = Vec::new();
    let decision = match records(survey, &mut alarms) {
        Err(refusal) => Decision::Block(refusal),
        Ok(records) => match foreign_slots(survey, &records, &mut alarms) {
            Err(refusal) => Decision::Block(refusal),
            Ok(()) => {
                let is_known = unknown_markers(survey, &records, &mut alarms);
                decide(survey, &records, is_known, &mut alarms)
            }
        },
    };
    Discovery { decision, alarms }
}

/// A generation's record and where it lies.
struct Found<'a> {
    intent: &'a Intent,
    anchor: &'a Drive,
}

type Records<'a> = BTreeMap<GenerationId, Found<'a>>;

/// Every generation of the set with its one record; the first contradiction blocks the set.
fn records<'a>(survey: &'a Survey, alarms: &mut Vec<Alarm>) -> Result<Records<'a>, Refusal> {
    let mut copies: BTreeMap<GenerationId, Vec<(&Drive, &Intent)>> = BTreeMap::new();
    let mut first = None;
    for drive in &survey.drives {
        for (id, read) in &drive.intents {
            let refusal = match read {
                Ok(intent) if intent.set_disk_id.parse() == Ok(survey.set) => {
                    copies.entry(*id).or_default().push((drive, intent));
                    continue;
                }
                Ok(intent) => {
                    let (seen, expected) = (&intent.set_disk_id, survey.set);
                    Refusal::SetDiffers(about(seen, expected, &drive.endpoint))
                }
                Err(refusal) => refusal.clone(),
            };
            first.get_or_insert_with(|| refusal.clone());
            alarms.push(Alarm::Record { endpoint: drive.endpoint.clone(), refusal });
        }
    }
    if let Some(refusal) = first {
        return Err(refusal);
    }
    let mut records = Records::new();
    for (id, copies) in copies {
        let (anchor, intent) = select(&copies).inspect_err(|refusal| {
            let endpoint = copies[0].0.endpoint.clone();
            alarms.push(Alarm::Record { endpoint, refusal: refusal.clone() });
        })?;
        records.insert(id, Found { intent, anchor });
    }
    Ok(records)
}

/// The copy that counts among those of one generation: the highest revision; of equal ones a local drive's, then
/// the smaller endpoint's.
///
/// # Errors
///
/// [`Refusal::CopiesDiffer`] when they are bound to different things, or are different at one revision.
pub fn select<'a>(copies: &[(&'a Drive, &'a Intent)]) -> Result<(&'a Drive, &'a Intent), Refusal> {
    let (mut drive, mut best) = copies[0];
    for (other, intent) in &copies[1..] {
        let refuse = |what: &str| {
            let seen = format!("{what} on {} and {}", drive.endpoint, other.endpoint);
            Err(Refusal::CopiesDiffer(about(seen, "one record", best.task_id)))
        };
        if !is_same_binding(best, intent) {
            return refuse("other bindings");
        }
        let is_better = match intent.revision.cmp(&best.revision) {
            std::cmp::Ordering::Equal if *intent != best => {
                return refuse("other records of one revision");
            }
            std::cmp::Ordering::Equal => {
                let rank = |drive: &'a Drive| (!drive.is_local, &drive.endpoint);
                rank(other) < rank(drive)
            }
            order => order.is_gt(),
        };
        if is_better {
            (drive, best) = (other, intent);
        }
    }
    Ok((drive, best))
}

/// Whether two records are bound to the same things, which no save may change.
fn is_same_binding(one: &Intent, other: &Intent) -> bool {
    one.task_id == other.task_id
        && one.task_type == other.task_type
        && one.schema_version == other.schema_version
        && one.set_disk_id == other.set_disk_id
        && one.targets == other.targets
        && one.identities == other.identities
        && one.buckets == other.buckets
        && one.generation == other.generation
        && one.protocol == other.protocol
        && one.predecessor == other.predecessor
        && one.lineage == other.lineage
        && one.legacy_import == other.legacy_import
        && one.max_retries == other.max_retries
}

/// Refuses a set in which a drive is marked by a generation that claims other drives: the record was edited, or the
/// drives have changed their slots.
fn foreign_slots(
    survey: &Survey,
    records: &Records<'_>,
    alarms: &mut Vec<Alarm>,
) -> Result<(), Refusal> {
    let set = survey.set.to_string();
    for drive in &survey.drives {
        let owner = drive.marker.as_deref().map(String::from_utf8_lossy);
        let id = owner.as_deref().and_then(|owner| marker::generation(&set, owner));
        let Some(found) = id.and_then(|id| records.get(&id)) else {
            continue;
        };
        if !found.intent.targets.contains(&drive.endpoint) {
            let seen = format!("{}, marked by {}", drive.endpoint, found.intent.task_id);
            let expected = format!("{:?}", found.intent.targets);
            let refusal = Refusal::SlotsChanged(about(seen, expected, &found.anchor.endpoint));
            let endpoint = found.anchor.endpoint.clone();
            alarms.push(Alarm::Record { endpoint, refusal: refusal.clone() });
            return Err(refusal);
        }
    }
    Ok(())
}

/// Raises an alarm for each marker that no record explains; answers whether there is none.
fn unknown_markers(survey: &Survey, records: &Records<'_>, alarms: &mut Vec<Alarm>) -> bool {
    let set = survey.set.to_string();
    let before = alarms.len();
    for drive in &survey.drives {
        let Some(bytes) = &drive.marker else {
            continue;
        };
        let owner = String::from_utf8_lossy(bytes).into_owned();
        let id = marker::generation(&set, &owner);
        if id.is_some_and(|id| records.contains_key(&id)) {
            continue;
        }
        let endpoint = drive.endpoint.clone();
        alarms.push(Alarm::MarkerWithoutIntent { endpoint, owner });
    }
    for (id, anchor) in &survey.anchors {
        let is_away = survey
            .drives
            .iter()
            .any(|drive| drive.endpoint == *anchor && matches!(drive.state, DriveState::Away(_)));
        if is_away && !records.contains_key(id) {
            let (generation, endpoint) = (*id, anchor.clone());
            alarms.push(Alarm::AnchorAway { generation, endpoint });
        }
    }
    alarms.len() == before
}

fn decide(
    survey: &Survey,
    records: &Records<'_>,
    is_known: bool,
    alarms: &mut Vec<Alarm>,
) -> Decision {
    if let Some(decision) = resume(survey, records) {
        return decision;
    }
    let targets = waiting_drives(survey, records);
    if targets.is_empty() {
        return Decision::Nothing;
    }
    if !is_known {
        return Decision::Wait("a record that somebody refers to is on no drive".to_owned());
    }
    let reserved = records.values().find(|found| found.intent.reserves_targets());
    if let Some(found) = reserved {
        return Decision::Wait(format!("{} has the set", found.intent.task_id));
    }
    let Some(anchor) = anchor(survey, records, &targets) else {
        alarms.push(Alarm::NoAnchor);
        return Decision::Wait("no drive of the set can hold the record".to_owned());
    };
    let torn = anchor.torn.first().copied();
    Decision::Begin { targets, anchor: anchor.endpoint.clone(), torn }
}

/// The generation that this node has to go on with, or why none may.
fn resume(survey: &Survey, records: &Records<'_>) -> Option<Decision> {
    let mut open: Vec<&Found<'_>> = Vec::new();
    for found in records.values().filter(|found| found.intent.reserves_targets()) {
        // A successor speaks for its predecessor.
        let successor = found.intent.handoff.as_ref().map(|handoff| handoff.link.successor);
        let is_spoken_for = successor.is_some_and(|id| records.contains_key(&id));
        if !is_spoken_for {
            open.push(found);
        }
    }
    // Who has begun does not wait; of the others, the smallest first endpoint goes first.
    let rank = |found: &Found<'_>| {
        let has_begun = found.intent.phase != Phase::Intent;
        (!has_begun, found.intent.targets.first().cloned(), found.intent.task_id)
    };
    open.sort_by_key(|found| rank(found));
    let is_local = |endpoint: &String| {
        survey.drives.iter().any(|drive| drive.is_local && drive.endpoint == *endpoint)
    };
    let mut reason = None;
    for (place, found) in open.iter().enumerate() {
        let intent = found.intent;
        let id = intent.task_id;
        if survey.active.contains(&id) {
            return Some(Decision::Wait(format!("{id} is being worked on")));
        }
        if !intent.targets.iter().all(is_local) {
            reason.get_or_insert(format!("{id} belongs to another node"));
            continue;
        }
        let is_first = place == 0 || intent.phase != Phase::Intent;
        if !is_first {
            reason.get_or_insert(format!("{id} waits for {}", open[0].intent.task_id));
            continue;
        }
        if let Err(refusal) = resolve::check_budget(intent) {
            return Some(Decision::Block(refusal));
        }
        if intent.phase == Phase::Abandoned {
            let on = about("an abandoned generation", "one that has passed its targets on", id);
            return Some(Decision::Block(Refusal::Abandoned(on)));
        }
        let anchor = found.anchor.endpoint.clone();
        return Some(Decision::Resume { generation: id, anchor });
    }
    reason.map(Decision::Wait)
}

/// The blank drives of this node that no open generation names.
fn waiting_drives(survey: &Survey, records: &Records<'_>) -> Vec<String> {
    let open = records.values().filter(|found| found.intent.reserves_targets());
    let named: BTreeSet<&String> = open.flat_map(|found| &found.intent.targets).collect();
    let mut waiting: Vec<String> = survey
        .drives
        .iter()
        .filter(|drive| drive.is_local && drive.state == DriveState::Blank)
        .map(|drive| drive.endpoint.clone())
        .filter(|endpoint| !named.contains(endpoint))
        .collect();
    waiting.sort_unstable();
    waiting
}

/// The drive that holds the record of a fresh generation: formatted, nobody's target and unmarked; local ones
/// first, then in slot order.
fn anchor<'a>(survey: &'a Survey, records: &Records<'_>, targets: &[String]) -> Option<&'a Drive> {
    let open = records.values().filter(|found| found.intent.reserves_targets());
    let named: BTreeSet<&String> = open.flat_map(|found| &found.intent.targets).collect();
    let mut fit: Vec<&Drive> = survey
        .drives
        .iter()
        .filter(|drive| drive.state == DriveState::Formatted && drive.marker.is_none())
        .filter(|drive| !targets.contains(&drive.endpoint) && !named.contains(&drive.endpoint))
        .collect();
    fit.sort_by_key(|drive| !drive.is_local);
    fit.first().copied()
}

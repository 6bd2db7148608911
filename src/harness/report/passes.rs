//! What the records of replacements show of lineages and of passes that went on: read from their JSON alone, by the
//! names of its keys. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::audit::census::Census;
use crate::harness::audit::census::ReplacementCensus;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Sighting;
use crate::harness::workload::record::History;
use crate::protocol::replacement::names::Record;

/// Generations in the longest chain that some record on the drives tells of; 0 without any record.
pub(super) fn longest_lineage(census: Option<&Census>) -> u64 {
    let held = census.map(|census| census.replacement.as_slice()).unwrap_or_default();
    let records = held.iter().flat_map(|held| held.records.values());
    let lengths = records.filter_map(|text| {
        let json: Value = serde_json::from_str(text).ok()?;
        json["task_id"].as_str()?;
        let before = json["replacement_lineage"].as_array().map_or(0, Vec::len) as u64;
        let after = u64::from(json["replacement_handoff"]["link"].is_object());
        Some(before + 1 + after)
    });
    lengths.max().unwrap_or(0)
}

/// How far a pass had come: bucket of the plan, objects listed in it, versions dealt with in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    listed: (u64, u64),
    versions: u64,
}

impl Position {
    fn is_beyond(&self, before: &Self) -> bool {
        self.listed > before.listed && self.versions > before.versions
    }

    fn is_behind(&self, before: &Self) -> bool {
        self.listed < before.listed || self.versions < before.versions
    }
}

/// Times that a pass was seen to go on, under the same generation, from where its records stood before a node had
/// died: what lay on the drives while the executor was held both times shows it, and nothing that was seen in
/// between had gone back.
pub(super) fn resumed(history: &History) -> u64 {
    let mut count = 0;
    for (index, before) in history.sightings.iter().enumerate() {
        for (id, position) in passes(&before.what, true) {
            let mut has_died = false;
            let mut seq = before.seq;
            for later in &history.sightings[index + 1..] {
                has_died |= history.nodes.iter().any(|event| {
                    event.what.1 == NodeState::Dead && (seq..later.seq).contains(&event.seq)
                });
                seq = later.seq;
                let seen = passes(&later.what, false).remove(&id);
                let Some(now) = seen else { continue };
                if now.is_behind(&position) {
                    break;
                }
                let is_held = later.what.fault.is_some();
                if has_died && is_held && passes(&later.what, true).contains_key(&id) {
                    count += u64::from(now.is_beyond(&position));
                    break;
                }
            }
        }
    }
    count
}

/// The generations that a sighting shows rebuilding, with the position of their ledgers. `at_rest`: only where
/// nobody was writing to the drive of the record, for a fault.
fn passes(sighting: &Sighting, at_rest: bool) -> BTreeMap<String, Position> {
    let resting: BTreeSet<&String> = sighting.at_rest.iter().collect();
    let held = sighting.held.iter();
    let held =
        held.filter(|held| !at_rest || sighting.fault.is_some() && resting.contains(&held.drive));
    held.flat_map(of_drive).collect()
}

fn of_drive(held: &ReplacementCensus) -> Vec<(String, Position)> {
    let json = |text: &String| serde_json::from_str::<Value>(text).ok();
    let intents = held.records.iter().filter(|(path, _)| path.ends_with(Record::Intent.ending()));
    let rebuilding = intents.filter_map(|(_, text)| {
        let intent = json(text)?;
        let id = intent["task_id"].as_str()?.to_owned();
        let is_rebuilding = intent["replacement_phase"] == "rebuilding";
        let name = format!("{id}{}", Record::Checkpoint.ending());
        let of_id = |path: &&String| path.ends_with(&name);
        let ledger = held.records.keys().find(of_id).and_then(|path| json(&held.records[path]))?;
        let number = |key: &str| ledger[key].as_u64().unwrap_or(0);
        let counted = ["successful_objects", "failed_object_count", "skipped_object_count"];
        let position = Position {
            listed: (number("current_bucket_index"), number("current_object_index")),
            versions: counted.into_iter().map(number).sum(),
        };
        is_rebuilding.then_some((id, position))
    });
    rebuilding.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::workload::record::At;

    const ID: &str = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001";

    fn records(phase: &str, lineage: usize, ledger: (u64, u64, u64)) -> ReplacementCensus {
        let links: Vec<Value> = (0..lineage).map(|_| serde_json::json!({})).collect();
        let intent = serde_json::json!({
            "task_id": ID, "replacement_phase": phase, "replacement_lineage": links,
        });
        let ledger = serde_json::json!({
            "current_bucket_index": ledger.0, "current_object_index": ledger.1,
            "successful_objects": ledger.2,
        });
        let folder = ".rustfs.sys/buckets";
        ReplacementCensus {
            drive: "0/0".to_owned(),
            marker: None,
            records: [
                (
                    format!("{folder}/ahm-replacement/{ID}_ahm_replacement_intent.json"),
                    intent.to_string(),
                ),
                (format!("{folder}/{ID}_ahm_checkpoint.json"), ledger.to_string()),
            ]
            .into(),
        }
    }

    /// The fault that a sighting is taken for, and where the ledger stands.
    type Seen = (Option<u64>, (u64, u64, u64));

    /// Sightings; the node dies after the first.
    fn history(ledgers: &[Seen], dies: bool) -> History {
        let sighting = |(index, (fault, ledger)): (usize, &Seen)| At {
            seq: index as u64 * 10,
            at_us: 0,
            what: Sighting {
                when: String::new(),
                fault: *fault,
                drives: vec!["0/0".to_owned()],
                at_rest: fault.map(|_| "0/0".to_owned()).into_iter().collect(),
                held: vec![records("rebuilding", 0, *ledger)],
                found: None,
            },
        };
        let death = At { seq: 5, at_us: 0, what: (0, NodeState::Dead) };
        let mut history = History::default();
        history.sightings.extend(ledgers.iter().enumerate().map(sighting));
        history.nodes.extend(dies.then_some(death));
        history
    }

    #[test]
    fn a_pass_that_goes_on_is_told_from_one_that_begins_again() {
        let (first, second) = (Some(1), Some(2));
        let goes_on = [(first, (0, 6, 9)), (None, (0, 6, 9)), (second, (0, 9, 14))];
        assert_eq!(resumed(&history(&goes_on, true)), 1);
        assert_eq!(resumed(&history(&goes_on, false)), 0, "nobody died");
        let begins_again = [(first, (0, 6, 9)), (None, (0, 0, 0)), (second, (0, 9, 14))];
        assert_eq!(resumed(&history(&begins_again, true)), 0);
        let is_behind = [(first, (0, 6, 9)), (second, (0, 3, 5))];
        assert_eq!(resumed(&history(&is_behind, true)), 0);
        let stands = [(first, (0, 6, 9)), (second, (0, 6, 9))];
        assert_eq!(resumed(&history(&stands, true)), 0);
        let unheld = [(first, (0, 6, 9)), (None, (0, 9, 14))];
        assert_eq!(resumed(&history(&unheld, true)), 0, "nobody was held to be looked at");
    }

    #[test]
    fn a_lineage_counts_every_generation_of_its_chain() {
        let census = |held| Census {
            format: 1,
            deployment: None,
            drives: Vec::new(),
            buckets: Vec::new(),
            keys: Vec::new(),
            surplus: Vec::new(),
            replacement: held,
            catalog: None,
            bytes_read: 0,
        };
        assert_eq!(longest_lineage(None), 0);
        assert_eq!(longest_lineage(Some(&census(Vec::new()))), 0);
        let held = vec![records("verified", 4, (0, 0, 0)), records("abandoned", 1, (0, 0, 0))];
        assert_eq!(longest_lineage(Some(&census(held))), 5);
    }
}

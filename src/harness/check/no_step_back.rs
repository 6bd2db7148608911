//! No replacement ever goes back: what a record or a marker has said once is never unsaid.
//!
//! Verified, by what was seen on each drive in the course of the run and by the census: a record keeps its revision
//! or counts on, and is another one only under another revision; its phase, its handoff and its lineage only go on;
//! the buckets that are done, and the cursor, go back only where a failed or deferred pass begins anew; a proof stays
//! word for word; a generation that is over gets no record again; a marker that was passed on never names its
//! predecessors again.
//!
//! Not verified: what came and went between two looks; ledgers; whatever a loss of power took before it was durable.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;
use super::generations::INTENT;
use super::generations::PROOF;
use super::generations::SCHEMA_OWNED;
use super::generations::is_drive;
use super::sightings;
use super::sightings::Pair;
use super::sightings::injected;
use crate::harness::workload::history::FaultPhase;

/// Its name.
pub const NAME: &str = "no_step_back";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    if examination.census(witnesses).is_none() {
        return examination.finish();
    }
    let edges = passed_on(witnesses);
    for pair in sightings::pairs(witnesses) {
        for (path, text) in &pair.before.held.records {
            let after = pair.after.held.records.get(path);
            if let Some(id) = generation(path, INTENT) {
                match after {
                    Some(after) => intent(&mut examination, witnesses, &pair, path, text, after),
                    None => is_over(&mut examination, &pair, id, text),
                }
            } else if let Some(after) = after
                && path.ends_with(PROOF)
                && serde_json::from_str::<Value>(text).is_ok()
            {
                examination.examined();
                if after != text {
                    let message = format!("drive {}: a proof has changed", pair.drive);
                    examination.found(told("proof_changed", message, &pair, path));
                }
            }
        }
        came_back(&mut examination, &pair);
        marker(&mut examination, &pair, &edges);
    }
    examination.finish()
}

/// The generation in the name of a record.
fn generation<'a>(path: &'a str, ending: &str) -> Option<&'a str> {
    path.strip_suffix(ending)?.rsplit('/').next()
}

fn told(kind: &str, message: String, pair: &Pair<'_>, path: &str) -> Found {
    Found::fail(kind, message)
        .shown_in(pair.before.evidence.clone())
        .shown_in(pair.after.evidence.clone())
        .shown_in(format!("drive {}: {path}", pair.drive))
}

/// Predecessors with their successors, by everything that was ever seen.
fn passed_on(witnesses: &Witnesses<'_>) -> BTreeSet<(String, String)> {
    let seen = witnesses.history.sightings.iter().map(|sighting| &sighting.what.held);
    let held = seen.chain(witnesses.census.map(|census| &census.replacement));
    held.flat_map(|held| Generations::of_drives(held).edges).collect()
}

/// A record that was there and is gone: of a generation that is over.
fn is_over(examination: &mut Examination, pair: &Pair<'_>, id: &str, text: &str) {
    if serde_json::from_str::<Value>(text).is_err() {
        return;
    }
    examination.examined();
    // Older releases keep both at another place.
    let is_left = |path: &String| [INTENT, PROOF].iter().any(|it| generation(path, it) == Some(id));
    if !pair.after.held.records.keys().any(is_left) {
        let message =
            format!("drive {}: the record of {id} is gone, and nothing proves it over", pair.drive);
        let path = format!("{id}{INTENT}");
        examination.found(told("record_vanished", message, pair, &path));
    }
}

/// Records that were not there, of generations that were over.
fn came_back(examination: &mut Examination, pair: &Pair<'_>) {
    let before = &pair.before.held.records;
    for path in pair.after.held.records.keys().filter(|path| !before.contains_key(*path)) {
        let Some(id) = generation(path, INTENT) else { continue };
        examination.examined();
        let had = |ending: &str| before.keys().any(|path| generation(path, ending) == Some(id));
        if had(PROOF) && !had(INTENT) {
            let message = format!("drive {}: {id} was over and has a record again", pair.drive);
            examination.found(told("record_came_back", message, pair, path));
        }
    }
}

fn marker(examination: &mut Examination, pair: &Pair<'_>, edges: &BTreeSet<(String, String)>) {
    let (Some(before), Some(after)) = (&pair.before.held.marker, &pair.after.held.marker) else {
        return;
    };
    examination.examined();
    let id = |owner: &str| owner.split_once(':').map(|(_, id)| id.to_owned());
    if before != after
        && let Some((from, to)) = id(before).zip(id(after))
        && descends(edges, &to, &from)
    {
        let message = format!(
            "drive {}: the marker had been passed on to {from}, and names its predecessor {to} again",
            pair.drive
        );
        examination.found(told("marker_back", message, pair, ".rustfs.sys/healing.bin"));
    }
}

/// Whether `to` comes after `from` in a chain.
fn descends(edges: &BTreeSet<(String, String)>, from: &str, to: &str) -> bool {
    let mut reached = BTreeSet::from([from]);
    loop {
        let next = edges.iter().filter(|(one, other)| {
            reached.contains(one.as_str()) && !reached.contains(other.as_str())
        });
        let next: Vec<&str> = next.map(|(_, other)| other.as_str()).collect();
        if next.is_empty() {
            return from != to && reached.contains(to);
        }
        reached.extend(next);
    }
}

/// One record at two moments.
fn intent(
    examination: &mut Examination,
    witnesses: &Witnesses<'_>,
    pair: &Pair<'_>,
    path: &str,
    before: &str,
    after: &str,
) {
    let Ok(old) = serde_json::from_str::<Value>(before) else { return };
    examination.examined();
    let fail = |kind: &str, what: String| {
        told(kind, format!("drive {}: {path} {what}", pair.drive), pair, path)
    };
    let Ok(new) = serde_json::from_str::<Value>(after) else {
        examination.found(fail("record_torn", "could be read, and cannot any more".to_owned()));
        return;
    };
    let number = |json: &Value, key: &str| json[key].as_u64().unwrap_or(0);
    let (was, is) = (number(&old, "replacement_revision"), number(&new, "replacement_revision"));
    let is_counted = number(&old, "schema_version") >= SCHEMA_OWNED;
    if is < was {
        examination.found(fail("revision_back", format!("went from revision {was} to {is}")));
    } else if is == was && is_counted && before != after {
        let what = format!("says something else under revision {was}");
        examination.found(fail("changed_in_place", what));
    }
    let phase = |json: &Value| json["replacement_phase"].as_str().unwrap_or("").to_owned();
    if rank(&phase(&new)) < rank(&phase(&old)) {
        let what = format!("went from phase {} to {}", phase(&old), phase(&new));
        examination.found(fail("phase_back", what));
    }
    if let Some(what) = handoff_back(&old["replacement_handoff"], &new["replacement_handoff"]) {
        examination.found(fail("handoff_back", what));
    }
    let edges = |json: &Value| -> Vec<(Value, Value)> {
        let links = json["replacement_lineage"].as_array().into_iter().flatten();
        links.map(|link| (link["predecessor"].clone(), link["successor"].clone())).collect()
    };
    if edges(&old) != edges(&new) {
        examination.found(fail("lineage_changed", "has another lineage".to_owned()));
    }
    if progress(&new) < progress(&old) && !begins_anew(&old, &new) {
        let what = format!("went from {} back to {}", words(&old), words(&new));
        // Between two looks a pass may have been deferred and begun anew, which leaves no trace.
        let was_unseen = is > was.saturating_add(1);
        match was_unseen {
            true if was_struck(witnesses, pair, &old) => {}
            true => {
                let message = format!("drive {}: {path} {what}, and nobody saw why", pair.drive);
                examination.found(Found::undecided("progress_back_unseen", message));
            }
            false => examination.found(fail("cursor_back", what)),
        }
    }
}

/// How far a phase is: none leads to one that is not further.
fn rank(phase: &str) -> u8 {
    match phase {
        "rebuilding" => 1,
        "verified" => 2,
        "cleanup_pending" => 3,
        "handoff_pending" => 4,
        "abandoned" => 5,
        // `intent`, `ownership_pending`.
        _ => 0,
    }
}

fn handoff_back(old: &Value, new: &Value) -> Option<String> {
    if !old.is_object() {
        return None;
    }
    let of = |json: &Value, key: &str| json["link"][key].as_str().unwrap_or("nobody").to_owned();
    for key in ["successor", "transaction_id"] {
        if of(old, key) != of(new, key) {
            return Some(format!("named {} as {key}, and names {}", of(old, key), of(new, key)));
        }
    }
    let phase = |json: &Value| json["phase"].as_str().unwrap_or("none").to_owned();
    let rank = |phase: &str| match phase {
        "prepared" => 1,
        "markers_owned" => 2,
        "committed" => 3,
        _ => 0,
    };
    let (was, is) = (phase(old), phase(new));
    (rank(&is) < rank(&was)).then(|| format!("went from handoff phase {was} to {is}"))
}

/// How far a record says that its pass is: buckets that are done, then the key that the cursor stands on.
fn progress(intent: &Value) -> (usize, Vec<u8>) {
    let done = intent["completed_buckets"].as_array().map_or(0, Vec::len);
    let cursor = intent["resume_cursor"].as_str().and_then(|cursor| cursor.strip_prefix("dw1:"));
    let key = cursor.and_then(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok());
    (done, key.unwrap_or_default())
}

fn words(intent: &Value) -> String {
    let (done, key) = progress(intent);
    format!("{done} buckets and key `{}`", String::from_utf8_lossy(&key))
}

/// Whether the later record says that its pass was begun anew: it was charged, re-armed, or waits for a target.
fn begins_anew(old: &Value, new: &Value) -> bool {
    old["retry_count"] != new["retry_count"]
        || new["replacement_retry_waiting_for_target"] == Value::Bool(true)
}

/// Whether something was in force on a target, its node, or the node of the record, between the two looks.
fn was_struck(witnesses: &Witnesses<'_>, pair: &Pair<'_>, intent: &Value) -> bool {
    let targets = intent["replacement_targets"].as_array().into_iter().flatten();
    let endpoints: Vec<&str> = targets.filter_map(Value::as_str).collect();
    let is_meant = |drive: &&String| {
        *drive == pair.drive || endpoints.iter().any(|endpoint| is_drive(endpoint, drive))
    };
    let drives: Vec<&String> = witnesses.facts.drives.iter().filter(is_meant).collect();
    let node = |drive: &str| drive.split('/').next().and_then(|node| node.parse::<usize>().ok());
    let (from, to) = (pair.before.seq, pair.after.seq);
    injected(witnesses.history).filter(|fault| fault.seq < to).any(|fault| {
        let of_drives = fault.what.drives.iter().any(|drive| drives.contains(&drive));
        let mut nodes = drives.iter().filter_map(|drive| node(drive));
        // A drive that was put in stays; that alone makes no target wait later on.
        let is_over = fault.what.name == "replace_drive"
            || witnesses.history.faults.iter().any(|other| {
                let is_end = other.what.phase == FaultPhase::Healed && other.seq < from;
                is_end && other.what.fault == fault.what.fault
            });
        let is_in_force = fault.seq > from || !is_over;
        is_in_force && (of_drives || nodes.any(|node| fault.what.nodes.contains(&node)))
    })
}

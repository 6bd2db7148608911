//! A generation is handed to one successor, and nobody else ever rebuilds its targets at the same time.
//!
//! Verified, by the records on the drives: no generation has two successors and none two predecessors, by any
//! record that tells; a committed handoff's successor is there, or the proof that it is over, and so is whoever an
//! older release's generation was imported into; no two generations claim one target at once; a drive that was
//! replaced was handed over no more often than the history changed it, and no more generations began on it than drives
//! were put in; who was seen rebuilding a drive as that came under other mounts, or was replaced, was not the one to
//! prove it whole.
//!
//! Not verified: generations of which neither a record nor a proof nor a link is left.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;
use super::generations::replaced;
use super::sightings::injected;
use crate::harness::workload::history::FaultEvent;
use crate::harness::workload::record::At;

/// Its name.
pub const NAME: &str = "one_successor";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    all.tell_unreadable(&mut examination, Found::undecided);
    let generations: BTreeSet<&String> = all.intents.keys().chain(all.proofs.keys()).collect();
    for _ in generations {
        examination.examined();
    }
    for (kind, edges) in [
        ("two_successors", all.edges.iter().map(|(one, other)| (one, other)).collect::<Vec<_>>()),
        ("two_predecessors", all.edges.iter().map(|(one, other)| (other, one)).collect()),
    ] {
        let mut of = BTreeMap::<&String, BTreeSet<&String>>::new();
        for (one, other) in edges {
            of.entry(one).or_default().insert(other);
        }
        for (one, others) in of.into_iter().filter(|(_, others)| others.len() > 1) {
            let message = format!("{one} is linked with {others:?}");
            examination.found(Found::fail(kind, message).shown_in("census.json"));
        }
    }
    for (drive, changes) in replaced(witnesses.history) {
        let begun = begun_on(&all, drive);
        let put_in = put_in(witnesses, drive);
        if begun.len() > put_in {
            let message =
                format!("{begun:?} began on drive {drive}, which was replaced {put_in} times");
            examination.found(Found::fail("begun_again", message).shown_in("census.json"));
        }
        let of_drive = |(predecessor, _): &&(String, String)| {
            all.any(predecessor).is_some_and(|it| it.targets_drive(drive))
        };
        let handoffs = all.edges.iter().filter(of_drive).count();
        if handoffs > changes {
            let message = format!(
                "drive {drive} was handed over {handoffs} times, and changed {changes} times since it was replaced"
            );
            examination
                .found(Found::fail("handoff_without_cause", message).shown_in("census.json"));
        }
    }
    went_on_alone(&mut examination, witnesses, &all);
    let mut claims = BTreeMap::<&String, Vec<&String>>::new();
    for (id, intent) in &all.intents {
        if let Some((successor, phase)) = &intent.handoff
            && phase == "committed"
            && !all.knows(successor)
        {
            let message = format!("{id} has stepped back for {successor}, of whom nothing is left");
            let found = Found::fail("successor_missing", message).shown_in(intent.evidence());
            examination.found(found);
        }
        if let Some(successor) = &intent.imported_into
            && !all.knows(successor)
        {
            let message = format!("{id} was imported into {successor}, of whom nothing is left");
            let found = Found::fail("successor_missing", message).shown_in(intent.evidence());
            examination.found(found);
        }
        if intent.phase != "abandoned" && intent.handoff.is_none() {
            for target in &intent.targets {
                claims.entry(target).or_default().push(id);
            }
        }
    }
    for (target, claimants) in claims.into_iter().filter(|(_, ids)| ids.len() > 1) {
        let message = format!("{target} is claimed by {claimants:?} at once");
        examination.found(Found::fail("claimed_twice", message).shown_in("census.json"));
    }
    examination.finish()
}

/// The generations of a drive that nobody has passed it on to, nor imported anything into.
fn begun_on<'a>(all: &'a Generations, drive: &str) -> BTreeSet<&'a String> {
    let known = all.intents.iter().chain(&all.proofs);
    // What an older release began was imported.
    let known = known.filter(|(_, generation)| generation.imported_into.is_none());
    let of_drive = known.filter(|(_, generation)| generation.targets_drive(drive));
    let ids: BTreeSet<&String> = of_drive.map(|(id, _)| id).collect();
    let has_taken_over = |id: &String| {
        let mut intents = all.intents.values();
        all.edges.iter().any(|(_, successor)| successor == id)
            || intents.any(|intent| intent.imported_into.as_ref() == Some(id))
    };
    ids.into_iter().filter(|id| !has_taken_over(id)).collect()
}

/// How often another drive was put into a slot.
fn put_in(witnesses: &Witnesses<'_>, drive: &str) -> usize {
    let strikes = injected(witnesses.history);
    let put_in = strikes.filter(|fault| fault.what.name == "replace_drive");
    put_in.filter(|fault| fault.what.drives.iter().any(|it| it == drive)).count()
}

/// Generations that were rebuilding a drive when it changed for the last time, and proved it whole all the same.
fn went_on_alone(examination: &mut Examination, witnesses: &Witnesses<'_>, all: &Generations) {
    let history = witnesses.history;
    let is_change = |fault: &FaultEvent| {
        matches!(fault.name.as_str(), "vm_restart" | "replace_drive") && !fault.drives.is_empty()
    };
    for drive in replaced(history).into_keys() {
        let of_drive = |fault: &&At<FaultEvent>| {
            is_change(&fault.what) && fault.what.drives.iter().any(|it| it == drive)
        };
        let Some(change) = injected(history).filter(of_drive).last() else { continue };
        let mut judged = BTreeSet::new();
        for sighting in
            history.sightings.iter().filter(|it| it.what.fault == Some(change.what.fault))
        {
            let seen = Generations::of_drives(&sighting.what.held);
            let rebuilding = seen.intents.iter().filter(|(_, intent)| {
                intent.phase == "rebuilding"
                    && intent.targets_drive(drive)
                    && sighting.what.at_rest.contains(&intent.drive)
            });
            for (id, _) in rebuilding {
                if !judged.insert(id.clone()) {
                    continue;
                }
                examination.examined();
                let has_passed_on = all.edges.iter().any(|(predecessor, _)| predecessor == id);
                if let Some(proof) = all.proofs.get(id).filter(|_| !has_passed_on) {
                    let message = format!(
                        "{id} was rebuilding drive {drive} when that changed, and went on without a successor"
                    );
                    let found = Found::fail("went_on_after_change", message)
                        .shown_in(format!("history.jsonl:{}", sighting.seq + 1))
                        .shown_in(proof.evidence());
                    examination.found(found);
                }
            }
        }
    }
}

//! A drive is marked by whoever rebuilds it, and by nobody else.
//!
//! Verified, by the census, and by every look in the course of the run at which all drives were at rest: each marker
//! names a generation whose record is there, claims that drive, and has not stepped back for somebody who owns every
//! marker; a generation that rebuilds has marked each of its targets; one that is over has left no marker.
//!
//! Not verified: what was marked between two looks, while somebody wrote, or while a stranger's hand had changed a
//! record or marker; a generation's own markers, in a look, once another drive was put in the place of a target that
//! had been replaced before.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;
use super::generations::SCHEMA_OWNED;
use super::sightings::injected;
use super::sightings::is_tampered_with;
use crate::harness::workload::record::History;

/// Its name.
pub const NAME: &str = "markers_match_authority";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    all.tell_unreadable(&mut examination, Found::undecided);
    for sighting in &witnesses.history.sightings {
        let is_whole = witnesses.facts.drives.iter().all(|it| sighting.what.at_rest.contains(it));
        if is_whole && !is_tampered_with(witnesses.history, sighting.seq) {
            let place = format!("history.jsonl:{}", sighting.seq + 1);
            let replaced = replaced_again(witnesses.history, sighting.seq);
            let seen = Generations::of_drives(&sighting.what.held);
            judge_one(&mut examination, &seen, Some(&place), &replaced);
        }
    }
    judge_one(&mut examination, &all, None, &[]);
    examination.finish()
}

/// Drives that were replaced more than once before `seq`: the marker went with the drive.
fn replaced_again(history: &History, seq: u64) -> Vec<&str> {
    let faults = injected(history).filter(|it| it.seq < seq && it.what.name == "replace_drive");
    let mut drives: Vec<&str> =
        faults.flat_map(|fault| &fault.what.drives).map(String::as_str).collect();
    drives.sort_unstable();
    let again = drives.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    again.collect()
}

/// Judges what was on the drives at one moment: at `place` in the history, or in the census.
fn judge_one(
    examination: &mut Examination,
    all: &Generations,
    place: Option<&str>,
    replaced: &[&str],
) {
    let shown = |found: Found| match place {
        Some(place) => found.shown_in(place),
        None => found,
    };
    for _ in all.proofs.keys().filter(|id| !all.intents.contains_key(*id)) {
        examination.examined();
    }
    for (drive, owner) in &all.markers {
        examination.examined();
        let evidence = format!("drive {drive}: .rustfs.sys/healing.bin");
        let authority = owner.split_once(':').and_then(|(set, id)| {
            let intent = all.intents.get(id)?;
            (intent.set == set).then_some(intent)
        });
        let fail = match authority {
            None => Some(("marker_without_authority", "whose record is nowhere".to_owned())),
            Some(intent) if !intent.targets_drive(drive) => {
                Some(("marker_on_another_drive", format!("which claims {:?}", intent.targets)))
            }
            Some(intent) => match &intent.handoff {
                Some((successor, phase)) if phase != "prepared" => {
                    Some(("marker_stayed_behind", format!("whose markers {successor} owns")))
                }
                _ => None,
            },
        };
        if let Some((kind, why)) = fail {
            let message = format!("drive {drive} is marked by `{owner}`, {why}");
            examination.found(shown(Found::fail(kind, message)).shown_in(evidence));
        }
    }
    for (id, intent) in all.intents.iter().filter(|(_, intent)| intent.phase == "rebuilding") {
        examination.examined();
        let owner = format!("{}:{id}", intent.set);
        let of_it = all.markers.iter().filter(|(_, other)| *other == owner).count();
        let is_lost = replaced.iter().any(|drive| intent.targets_drive(drive));
        // What an older release left unmarked is for an import to take over.
        let is_left = place.is_some() && intent.schema < SCHEMA_OWNED;
        if of_it < intent.targets.len() && !is_lost && !is_left {
            let message =
                format!("{id} rebuilds {:?}, of which {of_it} are marked by it", intent.targets);
            let found =
                shown(Found::fail("rebuilds_unmarked", message)).shown_in(intent.evidence());
            examination.found(found);
        }
    }
}

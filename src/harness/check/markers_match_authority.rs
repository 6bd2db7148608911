//! A drive is marked by whoever rebuilds it, and by nobody else.
//!
//! Verified, by the drives: each marker names a generation whose record is there, claims that drive, and has not
//! stepped back for somebody who owns every marker; a generation that rebuilds has marked each of its targets; one
//! that is over has left no marker.
//!
//! Not verified: what was marked before the drives were read.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;

/// Its name.
pub const NAME: &str = "markers_match_authority";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    all.tell_unreadable(&mut examination, Found::undecided);
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
            examination.found(Found::fail(kind, message).shown_in(evidence));
        }
    }
    for (id, intent) in all.intents.iter().filter(|(_, intent)| intent.phase == "rebuilding") {
        examination.examined();
        let owner = format!("{}:{id}", intent.set);
        let of_it = all.markers.iter().filter(|(_, other)| *other == owner).count();
        if of_it < intent.targets.len() {
            let message = format!(
                "{id} rebuilds {} drives, and {of_it} are marked by it",
                intent.targets.len()
            );
            let found = Found::fail("rebuilds_unmarked", message).shown_in(intent.evidence());
            examination.found(found);
        }
    }
    examination.finish()
}

//! What a completion proof says of a drive is so: every version that was there then is whole on it.
//!
//! Verified, by the census: for each target of a proof that no later generation has taken up, each committed
//! version of its set that is not younger than the proof, internal objects included, has its metadata and its shard
//! on that very drive, every frame of it. That successful reads do not show. Where a look at the drives was taken
//! right after the proof was written, each version on the target that nobody has written since before the
//! replacement. Each drive that the history replaced is a target of some proof.
//!
//! Not verified: versions that were removed since; damage that came after the proof is counted against it, so that
//! a scenario which damages a target later does not ask for this.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;
use super::generations::is_drive;
use super::generations::replaced;
use super::model::drives;
use super::sightings::injected;
use crate::harness::workload::history::Lack;
use crate::harness::workload::history::Sighting;
use crate::harness::workload::record::At;
use crate::harness::workload::record::History;

/// Its name.
pub const NAME: &str = "proof_is_true";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    all.tell_unreadable(&mut examination, Found::undecided);
    for sighting in &witnesses.history.sightings {
        if let Some(found) = &sighting.what.found {
            at_the_time(&mut examination, witnesses.history, sighting, found);
        }
    }
    for drive in replaced(witnesses.history).into_keys() {
        examination.examined();
        if !all.proofs.values().any(|proof| proof.targets_drive(drive)) {
            let message = format!("drive {drive} was replaced, and nothing proves it whole");
            examination
                .found(Found::fail("replaced_without_proof", message).shown_in("census.json"));
        }
    }
    for (id, proof) in &all.proofs {
        for endpoint in &proof.targets {
            let is_taken_up = all
                .intents
                .values()
                .any(|intent| intent.phase != "abandoned" && intent.targets.contains(endpoint));
            if is_taken_up {
                continue;
            }
            let mut named = witnesses.facts.drives.iter();
            let Some(drive) = named.find(|drive| is_drive(endpoint, drive)) else {
                let message = format!("nobody knows which drive {endpoint} is");
                examination.found(Found::undecided("unknown_target", message));
                continue;
            };
            let set = witnesses.facts.set_of(drive);
            for key in census.keys.iter().filter(|key| Some(key.set) == set) {
                for version in key.versions.iter().filter(|it| drives::is_committed(it)) {
                    let written_s = u64::try_from(version.modtime_ns / 1_000_000_000).unwrap_or(0);
                    if written_s > proof.verified_at {
                        continue;
                    }
                    examination.examined();
                    let problems = version.problems.iter().chain(&key.problems);
                    let mut of_drive = problems.filter(|problem| problem.drive == *drive);
                    let Some(problem) = of_drive.next() else { continue };
                    let message = format!(
                        "{id} proves drive {drive} whole, which lacks version {}: {}",
                        version.version, problem.detail
                    );
                    let found = Found::fail("proof_not_true", message)
                        .about(&key.target)
                        .shown_in(proof.evidence())
                        .shown_in(format!("drive {drive}: {}", problem.path));
                    examination.found(found);
                }
            }
        }
    }
    examination.finish()
}

/// What the drives lacked when the proofs that were there spoke of them.
fn at_the_time(
    examination: &mut Examination,
    history: &History,
    sighting: &At<Sighting>,
    found: &[Lack],
) {
    let seen = Generations::of_drives(&sighting.what.held);
    let new = seen.proofs.iter().filter(|(id, _)| {
        // One whose record is still about to say so has just been written.
        seen.intents.get(*id).is_some_and(|intent| intent.phase == "rebuilding")
    });
    for (id, proof) in new {
        for drive in sighting.what.drives.iter().filter(|drive| proof.targets_drive(drive)) {
            let struck = injected(history).filter(|it| {
                let of_drive = it.what.drives.iter().any(|it| it == drive);
                it.seq < sighting.seq && it.what.name == "replace_drive" && of_drive
            });
            let Some(replaced) = struck.map(|it| it.seq).max() else { continue };
            examination.examined();
            for lack in found.iter().filter(|lack| lack.problem.drive == *drive) {
                let ops = history.keys.get(&lack.target).into_iter().flatten();
                let mut writes = ops.map(|at| &history.ops[*at]).filter(|op| op.is_write());
                // What was under way meanwhile may be anywhere.
                if writes.any(|op| op.invoked < sighting.seq && op.ended > replaced) {
                    continue;
                }
                let version = lack.version.map_or("no version".to_owned(), |it| it.to_string());
                let message = format!(
                    "{id} proved drive {drive} whole while it lacked version {version}: {}",
                    lack.problem.detail
                );
                let found = Found::fail("proof_not_true", message)
                    .about(&lack.target)
                    .shown_in(format!("history.jsonl:{}", sighting.seq + 1))
                    .shown_in(format!("drive {drive}: {}", lack.problem.path));
                examination.found(found);
            }
        }
    }
}

//! After settling, no replacement is left half done.
//!
//! Verified, by the records on the drives: every generation is over (its proof is there and its record gone) or has
//! stepped back for a successor, or was imported into one of which the record or the proof is there; every record can
//! be read.
//!
//! Not verified: whether what a proof says is true (`proof_is_true`).

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::Generations;

/// Its name.
pub const NAME: &str = "no_orphan_generation";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    let all = Generations::of(census);
    for _ in &all.proofs {
        examination.examined();
    }
    all.tell_unreadable(&mut examination, Found::fail);
    for (id, intent) in &all.intents {
        examination.examined();
        let is_retired =
            intent.imported_into.as_ref().is_some_and(|successor| all.knows(successor));
        let has_stepped_back =
            intent.phase == "abandoned" && (intent.handoff.is_some() || is_retired);
        if !has_stepped_back {
            let message = format!("{id} is left in phase {} on {:?}", intent.phase, intent.targets);
            let found = Found::fail("orphan_generation", message).shown_in(intent.evidence());
            examination.found(found);
        }
    }
    examination.finish()
}

//! A conditional write looks and writes in one instant.
//!
//! Verified: some order of the writes to a key explains every conditional write that was acknowledged
//! (its condition held at the instant at which it took effect), every one that was refused with 412
//! (its condition did not hold at some instant while it was under way), and all reads.
//!
//! Not verified: keys whose reads cannot be explained even without the conditions, unless the writes
//! alone already contradict them; refusals for other reasons; keys whose search was given up (named).

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::drives::Drives;
use super::model::search;
use super::model::search::Answer;
use super::model::search::BUDGET;
use super::model::search::Step;
use super::model::search::What;
use super::model::shrink;
use super::model::stack::Guard;
use super::model::stack::View;
use super::model::story::Story;
use super::model::tolerance::Tolerance;
use super::reads_are_linearizable::first_exceeded;
use super::reads_are_linearizable::is_explained_before;

/// Its name.
pub const NAME: &str = "conditional_writes_are_atomic";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let tolerance = Tolerance::of(witnesses);
    let drives = Drives::of(witnesses);
    let mut examination = Examination::of(NAME);
    for key in &book.keys {
        let mut story = Story::tell(&book, key, true);
        let conditional = story.steps.iter().filter(|step| is_conditional(step)).count();
        if conditional == 0 {
            continue;
        }
        // When the reads make no sense by themselves, only the writes can speak against a condition.
        let plain = Story::tell(&book, key, false);
        if search::search(&plain.steps, BUDGET) != Answer::Legal {
            story.steps.retain(|step| is_conditional(step) || matches!(step.what, What::Write(..)));
        }
        for _ in 0..conditional {
            examination.examined();
        }
        let position = match search::search(&story.steps, BUDGET) {
            Answer::Legal => continue,
            Answer::Budget(position) => {
                let op = story.steps[position].op;
                let message = format!(
                    "the search for an order was given up at operation {op}, after {BUDGET} states"
                );
                let found = Found::undecided("budget", message).about(key).explained_by([op]);
                examination.found(found);
                continue;
            }
            Answer::Illegal(position) => position,
        };
        let set = drives.key(key).map(|key| key.set);
        if let Some(exceeded) = first_exceeded(&story, &tolerance, set)
            && is_explained_before(&story, exceeded)
        {
            examination.excused();
            continue;
        }
        let operations = shrink::explain(&story.steps, position);
        let step = &story.steps[position];
        let what = match &step.what {
            What::Write(_, Guard::Absent) => "was acknowledged although the key was there",
            What::Write(_, Guard::Is(_)) => "was acknowledged although the key had other contents",
            What::Read(View::Present) => "was refused although the key was absent",
            What::Read(View::IsNot(_)) => "was refused although the key had the contents asked for",
            _ => "contradicts a conditional write",
        };
        let message = format!("operation {} {what}", step.op);
        let mut found = Found::fail("condition_not_atomic", message)
            .about(key)
            .explained_by(operations.iter().copied());
        for op in operations.iter().filter_map(|op| book.history.op(*op)) {
            found = found.shown_in(op.line());
        }
        examination.found(found);
    }
    examination.finish()
}

/// Whether the step is a conditional write, or the refusal of one.
fn is_conditional(step: &Step) -> bool {
    match &step.what {
        What::Write(_, guard) => *guard != Guard::Always && step.needed,
        What::Read(View::Present | View::IsNot(_)) => true,
        What::Read(_) => false,
    }
}

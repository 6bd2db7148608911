//! Every key behaves like one register of versions, whoever asks and whatever breaks.
//!
//! Verified: there is an order of all writes to a key, in which each took effect once between its
//! beginning and its end, that explains what every GET, HEAD, list and list of versions saw of it,
//! under load and in the end. A write whose end nobody knows may take effect once, at any time until
//! everything is settled with every drive present, or never; but what a read has seen has happened.
//!
//! Not verified: preconditions (`conditional_writes_are_atomic`), keys whose search was given up
//! (named here, undecided), one order over several keys (S3 promises none).

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
use super::model::stack::Values;
use super::model::stack::View;
use super::model::story::Story;
use super::model::tolerance::Kept;
use super::model::tolerance::Tolerance;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "reads_are_linearizable";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let tolerance = Tolerance::of(witnesses);
    let drives = Drives::of(witnesses);
    let mut examination = Examination::of(NAME);
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        let reads = story.steps.iter().filter(|step| matches!(step.what, What::Read(_))).count();
        for _ in 0..reads {
            examination.examined();
        }
        let position = match search::search(&story.steps, BUDGET) {
            Answer::Legal => continue,
            Answer::Budget(position) => {
                let step = &story.steps[position];
                let message = format!(
                    "the search for an order was given up at operation {}, after {BUDGET} states",
                    step.op
                );
                let found = Found::undecided("budget", message).about(key).explained_by([step.op]);
                examination.found(found);
                continue;
            }
            Answer::Illegal(position) => position,
        };
        let set = drives.key(key).map(|key| key.set);
        if let Some(exceeded) = first_exceeded(&story, &tolerance, set)
            && is_explained_before(&story, exceeded)
            && !saw_foreign_bytes(&story.steps[position])
        {
            examination.excused();
            continue;
        }
        let step = &story.steps[position];
        let operations = shrink::explain(&story.steps, position);
        let message = format!("operation {} {}", step.op, words(step));
        let mut found =
            Found::fail(kind(step), message).about(key).explained_by(operations.iter().copied());
        for op in operations.iter().filter_map(|op| book.history.op(*op)) {
            found = found.shown_in(op.line());
        }
        examination.found(found);
    }
    examination.finish()
}

/// Where the first write of the key was lost on more drives than it could spare.
pub(super) fn first_exceeded(
    story: &Story<'_>,
    tolerance: &Tolerance<'_>,
    set: Option<usize>,
) -> Option<u64> {
    let certain = story.writes.iter().filter(|told| told.is_certain());
    let exceeded = certain.filter_map(|told| {
        let kept = match told.value {
            Some(value) => Kept::Object(story.contents[value as usize].size),
            None => Kept::Marker,
        };
        tolerance.exceeded(&story.key, kept, told.certain, NEVER, set)
    });
    exceeded.min()
}

/// Whether everything that had ended before `exceeded` can be explained.
pub(super) fn is_explained_before(story: &Story<'_>, exceeded: u64) -> bool {
    let before = story.steps.iter().filter(|step| step.from < exceeded);
    let before = before.filter(|step| match step.what {
        What::Read(_) => step.to < exceeded,
        What::Write(..) => true,
    });
    let before = before.cloned().map(|step| {
        let is_done = step.to < exceeded;
        Step { needed: step.needed && is_done, to: if is_done { step.to } else { NEVER }, ..step }
    });
    search::search(&before.collect::<Vec<_>>(), BUDGET) == Answer::Legal
}

/// Whether the read saw contents that no write to the key can have put there: never excused.
pub(super) fn saw_foreign_bytes(step: &Step) -> bool {
    let is_foreign = |values: &Values| *values == Values::These(Vec::new());
    match &step.what {
        What::Read(View::Latest(values, _) | View::Version(_, values)) => is_foreign(values),
        What::Read(View::Stack { rows, .. }) => {
            rows.iter().any(|row| row.value.as_ref().is_some_and(is_foreign))
        }
        _ => false,
    }
}

fn kind(step: &Step) -> &'static str {
    match &step.what {
        _ if saw_foreign_bytes(step) => "foreign_contents",
        What::Read(View::Stack { .. }) => "listing_not_linearizable",
        What::Read(_) => "read_not_linearizable",
        What::Write(..) => "write_not_linearizable",
    }
}

fn words(step: &Step) -> &'static str {
    match &step.what {
        _ if saw_foreign_bytes(step) => "saw contents that no write to the key can have put there",
        What::Read(View::Absent) => "saw no object where no order of the writes leaves none",
        What::Read(View::Latest(..)) => "saw an object that no order of the writes leaves latest",
        What::Read(View::Version(..)) => "saw a version when no order of the writes has it",
        What::Read(View::NoVersion(_)) => "missed a version that every order of the writes has",
        What::Read(_) => "saw versions that no order of the writes leaves",
        What::Write(..) => "cannot have taken effect where listings show it",
    }
}

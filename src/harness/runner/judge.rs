//! Step 10, from files alone: what a run decides of itself, and what `judge` decides again.

use jiff::Timestamp;

use crate::harness::check;
use crate::harness::check::Judgement;
use crate::harness::check::Witnesses;
use crate::harness::report::CaseReport;
use crate::harness::report::ReportError;
use crate::harness::report::RunDirectory;
use crate::harness::report::assemble::Gathered;
use crate::harness::report::assemble::assemble;
use crate::harness::report::conclude::Stop;
use crate::harness::scenario::plan::Plan;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;

/// What only the run itself knows.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// How it ended; as the history tells it when `None`.
    pub stop: Option<Stop>,
    /// When it began, in UTC.
    pub began_at: Option<String>,
    /// How long it took in all.
    pub took_ms: Option<u64>,
}

/// Judges the run in `directory` by its plan, history and census. Nothing is written.
///
/// # Errors
/// One of the three is there and cannot be read, or there is no plan.
pub fn judge(directory: &RunDirectory, known: Circumstances) -> Result<CaseReport, ReportError> {
    let plan = directory.read_plan()?;
    let history = match directory.path(crate::harness::report::directory::HISTORY).exists() {
        true => Some(directory.read_history()?),
        false => None,
    };
    let census = directory.read_census()?;
    let facts = plan.facts();
    let judgements = match &history {
        Some(history) => {
            let witnesses = Witnesses { facts: &facts, history, census: census.as_ref() };
            check::judge(&witnesses, &plan.expect.holds)
        }
        None => Vec::new(),
    };
    let stop = known.stop.unwrap_or_else(|| history.as_ref().map_or(Stop::Ended, stop_of));
    Ok(assemble(Gathered {
        plan: &plan,
        history: history.as_ref(),
        census: census.as_ref(),
        judgements,
        stop,
        began_at: known.began_at,
        took_ms: known.took_ms,
        today: Timestamp::now().strftime("%Y-%m-%d").to_string(),
    }))
}

/// The plan of the run in `directory`, and what every invariant there is finds in it, whether its
/// scenario names it or not.
///
/// # Errors
/// As [`judge`].
pub fn every_invariant(directory: &RunDirectory) -> Result<(Plan, Vec<Judgement>), ReportError> {
    let plan = directory.read_plan()?;
    let history = directory.read_history()?;
    let census = directory.read_census()?;
    let facts = plan.facts();
    let witnesses = Witnesses { facts: &facts, history: &history, census: census.as_ref() };
    let names: Vec<String> = check::INVARIANTS.iter().map(|known| known.name.to_owned()).collect();
    let judgements = check::judge(&witnesses, &names);
    Ok((plan, judgements))
}

/// How a run ended, as its history tells it.
fn stop_of(history: &History) -> Stop {
    let last = history.notes.iter().rev().find_map(|note| match &note.what {
        Note::Interrupted { reason, signal } => Some((reason, signal)),
        _ => None,
    });
    match last {
        Some((_, Some(signal))) => {
            Stop::Signal { number: u8::try_from(*signal).unwrap_or(u8::MAX) }
        }
        Some((reason, None)) => Stop::Failed { error: reason.clone() },
        None => Stop::Ended,
    }
}

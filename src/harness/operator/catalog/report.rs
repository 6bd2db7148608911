//! The report of a rehearsal: `report.md` for people, `report.json` for programs.

use std::path::Path;

use serde::Serialize;

use super::rehearse::word;
use super::state::Done;
use super::state::Ended;
use super::state::State;
use super::step::Step;
use super::turn::Stop;
use super::turn::StopKind;
use super::turn::many;
use crate::harness::report::ReportError;
use crate::harness::report::escape::markdown;
use crate::harness::report::escape::markdown_code;
use crate::harness::report::recorded;

/// The report as Markdown.
pub const MARKDOWN: &str = "report.md";
/// The report as JSON.
pub const JSON: &str = "report.json";

/// What a rehearsal has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every step held.
    Pass,
    /// A promise is broken.
    Fail,
    /// A precondition, a blocker or another answer ended it.
    Refused,
    /// It is not over, an answer was lost, or checks are missing.
    Undecided,
}

/// What `state` has shown so far.
pub fn verdict(state: &State) -> Verdict {
    match &state.stopped {
        Some((_, stop)) => match stop.kind {
            StopKind::Broken => Verdict::Fail,
            StopKind::Lost | StopKind::Operator | StopKind::Asked => Verdict::Undecided,
            StopKind::Precondition | StopKind::Blocked | StopKind::Unexpected => Verdict::Refused,
        },
        None if !state.is_over || state.done.iter().any(|done| done.lacks) => Verdict::Undecided,
        None => Verdict::Pass,
    }
}

#[derive(Serialize)]
struct Json<'a> {
    format: u32,
    rehearsal: &'static str,
    run_id: &'a str,
    executed: bool,
    verdict: Verdict,
    warehouses: Vec<&'a str>,
    releases: &'a [String],
    starts: u32,
    steps: Vec<Row<'a>>,
    stopped: Option<Halt<'a>>,
    not_reached: Vec<String>,
}

#[derive(Serialize)]
struct Row<'a> {
    step: Step,
    phase: &'static str,
    purpose: &'static str,
    ended: &'a Ended,
    is_checked: bool,
    evidence: &'a str,
    /// The first of its requests, and the one after its last.
    requests: (u64, u64),
    took_ms: u64,
}

#[derive(Serialize)]
struct Halt<'a> {
    step: Step,
    kind: StopKind,
    words: &'a str,
    remedy: &'a str,
}

/// Writes both forms of the report into the run's folder.
///
/// # Errors
///
/// As [`recorded::write`].
pub fn write(folder: &Path, state: &State) -> Result<(), ReportError> {
    let orders = &state.orders;
    let stopped = state.stopped.as_ref().map(|(step, stop)| {
        let Stop { kind, words, remedy } = stop;
        Halt { step: *step, kind: *kind, words, remedy }
    });
    let json = Json {
        format: 1,
        rehearsal: orders.rehearsal.name(),
        run_id: &orders.run_id,
        executed: orders.execute,
        verdict: verdict(state),
        warehouses: orders.warehouses.iter().map(String::as_str).collect(),
        releases: &state.facts.releases,
        starts: state.starts,
        steps: state.done.iter().map(row).collect(),
        stopped,
        not_reached: not_reached(state).iter().map(|step| step.name()).collect(),
    };
    recorded::write_json(&folder.join(JSON), &json)?;
    recorded::write(&folder.join(MARKDOWN), to_markdown(state).as_bytes())
}

fn row(done: &Done) -> Row<'_> {
    let (phase, purpose) = done.step.purpose();
    Row {
        step: done.step,
        phase,
        purpose,
        ended: &done.ended,
        is_checked: !done.lacks,
        evidence: &done.evidence,
        requests: done.requests,
        took_ms: done.took_ms,
    }
}

/// The steps that were not begun.
fn not_reached(state: &State) -> Vec<Step> {
    let stopped = state.stopped.as_ref().map(|(step, _)| *step);
    let is_done = |step: &Step| state.done.iter().any(|done| done.step == *step);
    let steps = state.orders.rehearsal.steps().iter().copied();
    steps.filter(|step| !is_done(step) && Some(*step) != stopped).collect()
}

fn to_markdown(state: &State) -> String {
    let orders = &state.orders;
    let names: Vec<_> = orders.warehouses.iter().map(|name| markdown_code(name)).collect();
    let mode = if orders.execute { "Executed" } else { "A dry run: nothing was changed" };
    let mut text = format!(
        "# Table catalog: {} of {}\n\n{}. Run {}, {}, nodes of release {}.\n\n",
        orders.rehearsal.name(),
        names.join(", "),
        mode,
        markdown_code(&orders.run_id),
        many(state.starts, "start"),
        markdown(&state.facts.releases.join(", ")),
    );
    let word_of = match verdict(state) {
        Verdict::Pass => "**Pass**: every step held.",
        Verdict::Fail => "**Fail**: a promise is broken.",
        Verdict::Refused => "**Refused**: it stopped where something is not as it has to be.",
        Verdict::Undecided => "**Undecided**: it is not over, or checks are missing.",
    };
    text += word_of;
    let by_word = state.done.iter().filter(|done| done.ended == Ended::Asserted).count();
    if by_word > 0 {
        text += &format!(" By the operator's word alone: {}.", many(by_word, "step"));
    }
    text += "\n\n";
    if let Some((step, stop)) = &state.stopped {
        text += &format!(
            "It stopped at {}: {}.\n\nWhat to do: {}.\n\n",
            markdown_code(&step.name()),
            markdown(&stop.words),
            markdown(&stop.remedy)
        );
    }
    text += "| step | of | what has to hold | it | what was seen | requests |\n|---|---|---|---|---|---|\n";
    for done in &state.done {
        let (phase, purpose) = done.step.purpose();
        let ended = if done.lacks { "**not checked**" } else { word(&done.ended) };
        let requests = match done.requests {
            (first, end) if end > first + 1 => format!("{first} to {}", end - 1),
            (first, end) if end > first => first.to_string(),
            _ => "none".to_owned(),
        };
        text += &format!(
            "| {} | {} | {} | {ended} | {} | {requests} |\n",
            markdown_code(&done.step.name()),
            markdown(phase),
            markdown(purpose),
            markdown(&done.evidence),
        );
    }
    let missing: Vec<_> = state.done.iter().filter(|done| done.lacks).collect();
    let not_reached = not_reached(state);
    text += "\n## What was not tested\n\n";
    if missing.is_empty() && not_reached.is_empty() {
        text += "Every step was done. What no server was made to suffer: losses of power, lost answers, a drive's failure; those are scenarios of the family `catalog`.\n";
    }
    for done in missing {
        let name = markdown_code(&done.step.name());
        text += &format!("- {name}: {}\n", markdown(&done.evidence));
    }
    for step in not_reached {
        let (_, purpose) = step.purpose();
        text +=
            &format!("- {}: not reached ({})\n", markdown_code(&step.name()), markdown(purpose));
    }
    text += "\nEvery request with its answer is in `requests.jsonl`, by the numbers above; what is known is in `state.json`.\n";
    text
}

//! From what the invariants found, and what had to happen, to one verdict and one exit class.
//!
//! Pure. The middle value is never folded into a side: what was not provoked, not reached or not
//! examined is undecided, and a missed time is neither a broken promise nor a pass.

use super::case::CANARY_FAMILY;
use super::case::Expected;
use super::case::FaultReport;
use super::case::Objective;
use super::case::Provoked;
use super::class::ExitClass;
use crate::harness::check;
use crate::harness::check::Judgement;
use crate::harness::check::Verdict;
use crate::harness::scenario::plan::Plan;
use crate::harness::workload::history::ClientNote;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::OperatorNote;
use crate::harness::workload::record::At;
use crate::harness::workload::request::Compared;

/// The kind of the finding of a cluster that stopped repairing itself.
pub const NOT_REPAIRED: &str = "not_repaired";

/// The kind of the finding of a promise that was waited for until the wall limit.
pub const STUCK: &str = "stuck";

/// The kind of the finding of bytes that a node wrote below a mount point whose mount was missing.
pub const BELOW_MOUNT_POINT: &str = "below_mount_point";

/// The kind of finding that a tool amounts to which did otherwise than it owes.
pub const TOOL: &str = "operator_tool";

/// The kind of finding that a node amounts to which refuses a record and changes it nevertheless.
pub const REFUSED_AND_CHANGED: &str = "refused_and_changed";

/// The kind of the finding of records that were written on beside one that somebody else had changed.
pub const EVIDENCE_TOUCHED: &str = "evidence_touched";

/// The kind of the finding of a real client that did not get through its flow.
pub const CLIENT: &str = "real_client";

/// Of all that was examined, the share in percent that may be excused as beyond tolerance.
const EXCUSED_PERCENT_MAX: u64 = 5;

/// How a run as such ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// At its last step.
    Ended,
    /// Before it began: this machine lacks something.
    Lacking {
        /// What.
        what: String,
        /// Whether the caller allowed that.
        allowed: bool,
    },
    /// Before it began: the scenario was refused.
    Refused {
        /// Why.
        why: String,
    },
    /// By a failure of the harness itself.
    Failed {
        /// The error with its causes.
        error: String,
    },
    /// With something left behind on the machine.
    Uncleaned {
        /// What.
        what: String,
    },
    /// By a signal.
    Signal {
        /// Its number.
        number: u8,
    },
}

/// What a conclusion is drawn from.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub plan: &'a Plan,
    pub has_history: bool,
    pub has_census: bool,
    pub judgements: &'a [Judgement],
    pub provokes: &'a [Provoked],
    pub faults: &'a [FaultReport],
    pub objectives: &'a [Objective],
    pub notes: &'a [At<Note>],
    pub stop: &'a Stop,
    pub today: &'a str,
}

/// What is concluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conclusion {
    pub class: ExitClass,
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    pub expected: Option<Expected>,
}

/// Why something is not a plain pass, and how much that counts.
type Reason = (ExitClass, String);

/// Draws the conclusion.
pub(super) fn conclude(ground: &Ground<'_>) -> Conclusion {
    if let Some((class, reason)) = never_began(ground.stop) {
        return Conclusion {
            class,
            verdict: Verdict::Undecided,
            reasons: vec![reason],
            expected: None,
        };
    }
    let mut reasons: Vec<Reason> = ground.judgements.iter().flat_map(of_judgement).collect();
    let mut kinds: Vec<&str> = ground
        .judgements
        .iter()
        .flat_map(|judged| &judged.findings)
        .filter(|finding| finding.verdict == Verdict::Fail)
        .map(|finding| finding.kind.as_str())
        .collect();
    if ground.judgements.is_empty() {
        reasons.push((ExitClass::Undecided, "no invariant was judged".to_owned()));
    }
    if !ground.has_history {
        reasons.push((ExitClass::Undecided, "there is no history to judge".to_owned()));
    }
    if !ground.has_census {
        reasons.push((ExitClass::Undecided, "there is no census of the drives".to_owned()));
    }
    reasons.extend(ground.provokes.iter().filter_map(of_provoked));
    reasons.extend(of_faults(ground));
    let settles = ground.objectives.iter().filter_map(of_objective);
    let notes = ground.notes.iter().filter_map(|note| of_note(&note.what));
    for (kind, reason) in settles.chain(notes) {
        kinds.extend(kind);
        reasons.push(reason);
    }
    reasons.extend(of_stop(ground.stop));

    let judged = check::worst(ground.judgements);
    let verdict = reasons.iter().map(|(class, _)| as_verdict(*class)).fold(judged, Verdict::max);
    let expected = ground.plan.expect.fails.as_ref().map(|failure| {
        let expired = failure.until.as_deref().is_some_and(|until| until < ground.today);
        let came = kinds.contains(&failure.finding.as_str());
        let alone = kinds.iter().all(|kind| *kind == failure.finding);
        let is_canary = ground.plan.family == CANARY_FAMILY;
        // One defect may break several promises; a known failure is this one and no other.
        let met = came && !expired && (alone || is_canary);
        if !came {
            let missing = format!("the expected finding `{}` did not come", failure.finding);
            let class = match verdict {
                Verdict::Undecided => ExitClass::Undecided,
                Verdict::Pass | Verdict::Fail => ExitClass::Broken,
            };
            reasons.push((class, missing));
        } else if expired {
            let until = failure.until.as_deref().unwrap_or_default();
            let over = format!("the excuse for `{}` ended on {until}", failure.finding);
            reasons.push((ExitClass::Broken, over));
        }
        Expected { failure: failure.clone(), met }
    });

    let worst = reasons.iter().fold(ExitClass::Held, |worst, (class, _)| worst.worst(*class));
    let is_met = expected.as_ref().is_some_and(|expected| expected.met);
    let is_about_promises = worst.severity() <= ExitClass::Broken.severity();
    let class = if is_met && is_about_promises { ExitClass::Held } else { worst };
    reasons.sort_by_key(|(class, _)| std::cmp::Reverse(class.severity()));
    let reasons = reasons.into_iter().map(|(_, reason)| reason).collect();
    Conclusion { class, verdict, reasons, expected }
}

/// What a reason of this class says about the promises.
fn as_verdict(class: ExitClass) -> Verdict {
    match class {
        ExitClass::Broken => Verdict::Fail,
        ExitClass::Held | ExitClass::SkippedAllowed | ExitClass::Late => Verdict::Pass,
        _ => Verdict::Undecided,
    }
}

fn never_began(stop: &Stop) -> Option<Reason> {
    match stop {
        Stop::Lacking { what, allowed: true } => {
            Some((ExitClass::SkippedAllowed, format!("this machine lacks {what}")))
        }
        Stop::Lacking { what, allowed: false } => {
            Some((ExitClass::Skipped, format!("this machine lacks {what}")))
        }
        Stop::Refused { why } => Some((ExitClass::Refused, why.clone())),
        _ => None,
    }
}

fn of_stop(stop: &Stop) -> Option<Reason> {
    match stop {
        Stop::Failed { error } => {
            Some((ExitClass::HarnessFailed, format!("the harness failed: {error}")))
        }
        Stop::Uncleaned { what } => {
            Some((ExitClass::Uncleaned, format!("could not be cleaned up: {what}")))
        }
        Stop::Signal { number } => {
            Some((ExitClass::Signal(*number), format!("signal {number} ended the run")))
        }
        Stop::Ended | Stop::Lacking { .. } | Stop::Refused { .. } => None,
    }
}

fn of_judgement(judged: &Judgement) -> Vec<Reason> {
    let name = &judged.invariant;
    let mut reasons = Vec::new();
    let first = judged.findings.iter().find(|finding| finding.verdict == judged.verdict);
    let message = first.map(|finding| finding.message.as_str());
    match judged.verdict {
        Verdict::Pass if judged.examined == 0 => {
            reasons.push((ExitClass::Undecided, format!("`{name}` examined nothing")));
        }
        Verdict::Pass => {}
        Verdict::Undecided => {
            let why = message.unwrap_or("it had nothing to examine");
            reasons.push((ExitClass::Undecided, format!("`{name}` is undecided: {why}")));
        }
        Verdict::Fail => {
            let why = message.unwrap_or("it gives no finding");
            reasons.push((ExitClass::Broken, format!("`{name}` is broken: {why}")));
        }
    }
    let excused_percent = judged.excused.saturating_mul(100);
    if excused_percent > judged.examined.saturating_mul(EXCUSED_PERCENT_MAX) {
        reasons.push((
            ExitClass::Undecided,
            format!(
                "`{name}` excused {} of {} as beyond tolerance: more than {EXCUSED_PERCENT_MAX} %",
                judged.excused, judged.examined
            ),
        ));
    }
    reasons
}

fn of_provoked(provoked: &Provoked) -> Option<Reason> {
    (!provoked.is_enough()).then(|| {
        let Provoked { what, stated, seen } = provoked;
        (ExitClass::Undecided, format!("provoked {what} {seen} times of {stated}"))
    })
}

/// Faults that could not be brought about, and planned ones that nothing is heard of.
fn of_faults(ground: &Ground<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for fault in ground.faults {
        if let (Some(fact), None) = (&fault.not_reached, &fault.injected) {
            let at = fault.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
            let reason = format!("`{}`{at} did not strike: {}", fault.name, fact.evidence);
            reasons.push((ExitClass::Undecided, reason));
        }
    }
    for planned in &ground.plan.faults {
        if !ground.faults.iter().any(|fault| fault.fault == planned.fault) {
            let reason = format!("`{}` (step {}) never struck", planned.name, planned.step + 1);
            reasons.push((ExitClass::Undecided, reason));
        }
    }
    reasons
}

/// What a settle says against a pass, with the kind of finding that it amounts to.
fn of_objective(objective: &Objective) -> Option<(Option<&'static str>, Reason)> {
    let Objective { within_ms, took_ms, left, .. } = objective;
    let left = if left.is_empty() { String::new() } else { format!("; left: {left}") };
    match (objective.whole, objective.progressed) {
        (false, Some(false)) => {
            let reason = format!("nothing was repaired any more after {took_ms} ms{left}");
            Some((Some(NOT_REPAIRED), (ExitClass::Broken, reason)))
        }
        (false, None) => {
            let reason = format!("not repaired after {took_ms} ms, and nobody looked at progress");
            Some((None, (ExitClass::Undecided, reason)))
        }
        (false, Some(true)) => {
            let reason = format!(
                "still being repaired after {took_ms} ms where {within_ms} ms were promised{left}"
            );
            Some((None, (ExitClass::Late, reason)))
        }
        (true, _) if objective.is_met() || !objective.judged => None,
        (true, _) => {
            let reason =
                format!("repaired in {took_ms} ms where {within_ms} ms were promised{left}");
            Some((None, (ExitClass::Late, reason)))
        }
    }
}

/// What the use of a tool says against a pass: it was refused otherwise than it had to be, or it was refused and
/// left something.
fn of_tool(used: &OperatorNote) -> Option<(Option<&'static str>, Reason)> {
    let command = &used.command;
    if let Some(missing) = &used.missing {
        let reason = format!("`{command}` was not used: {missing}");
        return Some((None, (ExitClass::Undecided, reason)));
    }
    let reason = match (&used.refused, &used.expected) {
        (seen, owed) if seen == owed && (seen.is_none() || used.files.is_empty()) => return None,
        (Some(seen), Some(owed)) if seen == owed => {
            format!("`{command}` was refused and left {} files", used.files.len())
        }
        (Some(seen), None) => format!("`{command}` was refused ({seen}): {}", used.answer),
        (Some(seen), Some(owed)) => {
            format!("`{command}` was refused ({seen}) and not by {owed}: {}", used.answer)
        }
        (None, owed) => {
            let owed = owed.as_deref().unwrap_or_default();
            format!("`{command}` was not refused, which {owed} asks for")
        }
    };
    Some((Some(TOOL), (ExitClass::Broken, reason)))
}

/// What a real client's part says against a pass.
fn of_client(note: &ClientNote) -> Option<(Option<&'static str>, Reason)> {
    let ClientNote { client, part, passed, words } = note;
    match passed {
        Some(true) => None,
        Some(false) => {
            let reason = format!("{client} did not get through its part `{part}`: {words}");
            Some((Some(CLIENT), (ExitClass::Broken, reason)))
        }
        None => {
            let reason =
                format!("whether {client} gets through its part `{part}` is not known: {words}");
            Some((None, (ExitClass::Undecided, reason)))
        }
    }
}

/// What a note says against a pass, with the kind of finding that it amounts to.
fn of_note(note: &Note) -> Option<(Option<&'static str>, Reason)> {
    match note {
        Note::Stuck { waiting_for, is_promise: true } => {
            let reason = format!("still waiting for {waiting_for} at the wall limit");
            Some((Some(STUCK), (ExitClass::Broken, reason)))
        }
        Note::Stuck { waiting_for, is_promise: false } => {
            let reason = format!("the harness was still waiting for {waiting_for}");
            Some((None, (ExitClass::HarnessFailed, reason)))
        }
        Note::Interrupted { reason, signal } => {
            let class = match signal {
                Some(number) => ExitClass::Signal(u8::try_from(*number).unwrap_or(0)),
                None => ExitClass::HarnessFailed,
            };
            Some((None, (class, format!("ended early: {reason}"))))
        }
        Note::BelowMountPoint { drive, entries } if *entries > 0 => {
            let reason =
                format!("{entries} entries appeared below the bare mount point of {drive}");
            Some((Some(BELOW_MOUNT_POINT), (ExitClass::Broken, reason)))
        }
        Note::BelowMountPoint { .. }
        | Note::Damage { .. }
        | Note::Shared { .. }
        | Note::Release { .. }
        | Note::Backing { .. }
        | Note::Rehearsed(_)
        | Note::CatalogSeen(_)
        | Note::Snapshot(_)
        | Note::Restarted
        | Note::Told { .. } => None,
        Note::Tampered { drive, path, changed } => {
            let first = changed.first()?;
            let count = changed.len();
            let reason = format!(
                "{count} records were changed beside drive {drive}: {path}, which somebody else had changed: {first}"
            );
            Some((Some(EVIDENCE_TOUCHED), (ExitClass::Broken, reason)))
        }
        Note::Compared(Compared { ask, changed, .. }) => {
            let (count, first) = (changed.len(), changed.first()?);
            let reason = format!(
                "request {ask} to the catalog was refused, and {count} objects were changed, {first} among them"
            );
            Some((Some(REFUSED_AND_CHANGED), (ExitClass::Broken, reason)))
        }
        Note::Refused { node, words, records, changed } => match (records, changed.first()) {
            (_, Some(first)) => {
                let count = changed.len();
                let reason = format!(
                    "node {node} refused ({words}) and changed {count} records, {first} among them"
                );
                Some((Some(REFUSED_AND_CHANGED), (ExitClass::Broken, reason)))
            }
            (0, None) => {
                let reason = format!("node {node} refused ({words}) where there was no record");
                Some((None, (ExitClass::Undecided, reason)))
            }
            _ => None,
        },
        Note::Operator(used) => of_tool(used),
        Note::Client(note) => of_client(note),
    }
}

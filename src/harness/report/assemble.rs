//! Gathers what a case came to from its witnesses. Pure: the same files give the same report.

use super::case::About;
use super::case::CaseReport;
use super::case::CensusCounts;
use super::case::FaultFact;
use super::case::FaultReport;
use super::case::Objective;
use super::case::OperationCounts;
use super::case::Outcomes;
use super::case::Phase;
use super::case::Provoked;
use super::case::VERDICT_FORMAT;
use super::conclude;
use super::conclude::Ground;
use super::conclude::Stop;
use super::counters;
use super::limits;
use super::recovery;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::VersionClass;
use crate::harness::check::Judgement;
use crate::harness::scenario::plan::Plan;
use crate::harness::scenario::plan::Rung;
use crate::harness::workload::history::FaultEvent;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::OperatorNote;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::PHASE_END;
use crate::harness::workload::history::SettleEvent;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;
use crate::protocol::config::Durability;

/// The witnesses of one case, and how it went.
#[derive(Debug)]
pub struct Gathered<'a> {
    /// What was meant.
    pub plan: &'a Plan,
    /// What clients were told; `None` when the run ended before there was any.
    pub history: Option<&'a History>,
    /// What the drives held.
    pub census: Option<&'a Census>,
    /// What the invariants found.
    pub judgements: Vec<Judgement>,
    /// How the run as such ended.
    pub stop: Stop,
    /// When it began, in UTC.
    pub began_at: Option<String>,
    /// How long it took; by default as long as its history.
    pub took_ms: Option<u64>,
    /// The day of the judgement, `YYYY-MM-DD`, against which excuses run out.
    pub today: String,
}

/// The report of what was gathered.
pub fn assemble(gathered: Gathered<'_>) -> CaseReport {
    let Gathered { plan, history, census, judgements, stop, began_at, took_ms, today } = gathered;
    let about = About::of(plan);
    let provokes = provokes(plan, history, census);
    let faults = history.map(faults).unwrap_or_default();
    let objectives = history.map(objectives).unwrap_or_default();
    let torn = history.and_then(|history| history.torn.as_ref()).map(ToString::to_string);
    let conclusion = conclude::conclude(&Ground {
        plan,
        has_history: history.is_some(),
        has_census: census.is_some(),
        judgements: &judgements,
        provokes: &provokes,
        faults: &faults,
        objectives: &objectives,
        notes: history.map_or(&[], |history| history.notes.as_slice()),
        stop: &stop,
        today: &today,
    });
    let objective =
        objectives.iter().find(|objective| !objective.is_met()).or(objectives.last()).cloned();
    CaseReport {
        format: VERDICT_FORMAT,
        class: conclusion.class,
        verdict: conclusion.verdict,
        reasons: conclusion.reasons,
        expected: conclusion.expected,
        recovery: recovery::recovery(history, &judgements),
        objective,
        phases: history.map(phases).unwrap_or_default(),
        faults,
        procedure: history.map(procedure).unwrap_or_default(),
        releases: history.map(releases).unwrap_or_default(),
        operations: history.map(operations).unwrap_or_default(),
        census: census.map(counts),
        not_tested: limits::not_tested(&about, history, census, &judgements),
        torn,
        rerun: rerun(&about, plan),
        began_at,
        took_ms: took_ms.or(history.map(|history| end_us(history) / 1_000)).unwrap_or(0),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        judgements,
        provokes,
        about,
    }
}

/// What the scenario states, beside what was counted.
fn provokes(plan: &Plan, history: Option<&History>, census: Option<&Census>) -> Vec<Provoked> {
    let seen = history.map(|history| counters::count(history, census)).unwrap_or_default();
    let stated = plan.expect.provokes.iter();
    stated
        .map(|(counter, stated)| Provoked {
            what: counter.name().to_owned(),
            stated: *stated,
            seen: seen.get(counter).copied().unwrap_or(0),
        })
        .collect()
}

/// Which releases nodes behaved as, in words.
fn releases(history: &History) -> Vec<String> {
    let noted = history.notes.iter().filter_map(|note| match &note.what {
        Note::Release { node, release } => Some(format!("node {node} as {}", release.name())),
        _ => None,
    });
    noted.collect()
}

/// What operators did with tools.
fn procedure(history: &History) -> Vec<OperatorNote> {
    let used = history.notes.iter().filter_map(|note| match &note.what {
        Note::Operator(used) => Some(used.clone()),
        _ => None,
    });
    used.collect()
}

/// The command that runs the case again with the same choices.
fn rerun(about: &About, plan: &Plan) -> String {
    let verb = if about.is_canary() { "prove" } else { "run" };
    let mut command = format!("firedrill {verb} {} --seed {}", quoted(&about.case), about.seed);
    if !about.is_canary() {
        if plan.testbed.durability == Durability::Relaxed {
            command.push_str(" --durability relaxed");
        }
        match plan.testbed.rung {
            Rung::Loop | Rung::Memory => {}
            Rung::Block => command.push_str(" --rung block"),
            Rung::Vm => command.push_str(" --rung vm"),
        }
    }
    command
}

/// A word that a shell takes as it stands.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// When the history ends, in microseconds since it began.
pub(super) fn end_us(history: &History) -> u64 {
    let ops = history.ops.iter().flat_map(|op| {
        [Some(op.invoked_us), (op.ended != NEVER).then_some(op.ended_us)].into_iter().flatten()
    });
    let faults = history.faults.iter().map(|fault| fault.at_us);
    let phases = history.phases.iter().map(|phase| phase.at_us);
    let nodes = history.nodes.iter().map(|node| node.at_us);
    ops.chain(faults).chain(phases).chain(nodes).max().unwrap_or(0)
}

fn phases(history: &History) -> Vec<Phase> {
    let end = end_us(history);
    let next = history.phases.iter().skip(1).map(|phase| phase.at_us).chain([end]);
    let named = history.phases.iter().zip(next).filter(|(phase, _)| phase.what != PHASE_END);
    named
        .map(|(phase, to_us)| Phase { name: phase.what.clone(), from_us: phase.at_us, to_us })
        .collect()
}

fn faults(history: &History) -> Vec<FaultReport> {
    let mut reports: Vec<FaultReport> = Vec::new();
    for event in &history.faults {
        let fact = FaultFact {
            at_us: event.at_us,
            evidence: event.what.evidence.clone(),
            line: event.seq + 1,
        };
        let known = reports.iter().position(|report| report.fault == event.what.fault);
        let place = known.unwrap_or_else(|| {
            reports.push(unseen(&event.what));
            reports.len() - 1
        });
        let report = &mut reports[place];
        report.at = report.at.take().or_else(|| event.what.at.clone());
        let slot = match event.what.phase {
            FaultPhase::Injected => &mut report.injected,
            FaultPhase::InForce => &mut report.in_force,
            FaultPhase::Healed => &mut report.healed,
            FaultPhase::NotReached => &mut report.not_reached,
        };
        // The first fact of its kind is the one that the others are measured from.
        slot.get_or_insert(fact);
    }
    reports.sort_by_key(|report| report.fault);
    reports
}

fn unseen(event: &FaultEvent) -> FaultReport {
    FaultReport {
        fault: event.fault,
        name: event.name.clone(),
        nodes: event.nodes.clone(),
        drives: event.drives.clone(),
        at: event.at.clone(),
        injected: None,
        in_force: None,
        healed: None,
        not_reached: None,
    }
}

/// Every settle with its objective.
fn objectives(history: &History) -> Vec<Objective> {
    let shared = history.notes.iter().any(|note| match note.what {
        Note::Shared { jobs } => jobs > 1,
        _ => false,
    });
    let mut objectives = Vec::new();
    let mut began = None;
    let mut looked = None;
    for event in &history.settling {
        match &event.what {
            SettleEvent::Began { within_ms } => {
                began = Some((event.at_us, *within_ms));
                looked = None;
            }
            SettleEvent::Looked { progressed, evidence } => looked = Some((*progressed, evidence)),
            SettleEvent::Ended { repaired } => {
                let Some((from_us, within_ms)) = began.take() else {
                    continue;
                };
                let left = looked.filter(|_| !repaired).map(|(_, evidence)| evidence.clone());
                objectives.push(Objective {
                    within_ms,
                    took_ms: event.at_us.saturating_sub(from_us) / 1_000,
                    whole: *repaired,
                    progressed: looked.map(|(progressed, _)| progressed),
                    left: left.unwrap_or_default(),
                    judged: !shared,
                });
            }
        }
    }
    objectives
}

fn operations(history: &History) -> OperationCounts {
    let mut counts = OperationCounts::default();
    for op in &history.ops {
        if op.is_final {
            counts.final_reads += 1;
            continue;
        }
        let outcomes: &mut Outcomes = if op.is_write() {
            &mut counts.writes
        } else if op.asked.action.is_read() {
            &mut counts.reads
        } else {
            &mut counts.others
        };
        match op.outcome() {
            Outcome::Acknowledged => outcomes.acknowledged += 1,
            Outcome::Refused => outcomes.refused += 1,
            Outcome::Ambiguous => outcomes.ambiguous += 1,
        }
    }
    counts
}

fn counts(census: &Census) -> CensusCounts {
    let mut counts = CensusCounts {
        drives: census.drives.len() as u64,
        drives_member: census
            .drives
            .iter()
            .filter(|drive| drive.state == DriveState::Member)
            .count() as u64,
        keys: census.keys.len() as u64,
        surplus: census.surplus.len() as u64,
        bytes_read: census.bytes_read,
        ..CensusCounts::default()
    };
    for version in census.keys.iter().flat_map(|key| &key.versions) {
        let count = match version.class {
            VersionClass::Full => &mut counts.full,
            VersionClass::Degraded => &mut counts.degraded,
            VersionClass::AtRisk => &mut counts.at_risk,
            VersionClass::Uncommitted => &mut counts.uncommitted,
            VersionClass::Unreadable => &mut counts.unreadable,
            VersionClass::Divergent => &mut counts.divergent,
        };
        *count += 1;
    }
    counts
}

//! The way back: how long each of its phases took, and how many acknowledged writes it cost. Pure.
//!
//! Only what is seen from outside counts. Overlapping stretches of one phase count once; what the
//! harness itself needs to mount drives or start processes lies between the phases and is in none.

use std::collections::BTreeSet;

use super::case::Recovery;
use super::case::RecoveryPhase;
use super::lineage;
use crate::harness::check::Judgement;
use crate::harness::check::Verdict;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::PHASE_FINAL_READS;
use crate::harness::workload::history::SettleEvent;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;

/// The invariant whose findings are the recovery point.
pub const SURVIVAL: &str = "acknowledged_writes_survive";

/// A stretch of time, in microseconds.
pub(super) type Span = (u64, u64);

/// The recovery that `history` shows and `judgements` found.
pub(super) fn recovery(history: Option<&History>, judgements: &[Judgement]) -> Recovery {
    let spans = history.map(spans).unwrap_or_default();
    let phase = |name: &str, spans: &[Span], measured: &str| RecoveryPhase {
        name: name.to_owned(),
        took_us: (!spans.is_empty()).then(|| covered(spans)),
        measured: measured.to_owned(),
    };
    Recovery {
        phases: vec![
            phase(
                "detect",
                &spans.detect,
                "from a fault to the first process seen dead or request not acknowledged",
            ),
            phase("restart", &spans.restart, "from the start of a process to its readiness"),
            handed_over(history, &spans),
            phase(
                "rebuild",
                &spans.rebuild,
                "from every fault healed to every version whole on the drives",
            ),
            phase("verify", &spans.verify, "the final reads of every version from every node"),
        ],
        acknowledged_writes_lost: lost(judgements),
    }
}

/// The time in which drives were handed over and nothing else of the way back was under way.
fn handed_over(history: Option<&History>, spans: &Spans) -> RecoveryPhase {
    let handed = history.map(|history| lineage::handoffs(&lineage::generations(history, None)));
    let handed = handed.unwrap_or_default();
    let others = [&spans.detect, &spans.restart, &spans.rebuild, &spans.verify];
    let others: Vec<Span> = others.into_iter().flatten().copied().collect();
    let all: Vec<Span> = others.iter().chain(&handed).copied().collect();
    let measured = match handed.is_empty() {
        true => "no drive replacement was handed over in this run",
        false => {
            "from a named successor to its rebuild, as seen, where no other phase was under way"
        }
    };
    RecoveryPhase {
        name: "hand off".to_owned(),
        took_us: (!handed.is_empty()).then(|| covered(&all) - covered(&others)),
        measured: measured.to_owned(),
    }
}

/// Where the phases lie.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spans {
    pub detect: Vec<Span>,
    pub restart: Vec<Span>,
    pub rebuild: Vec<Span>,
    pub verify: Vec<Span>,
}

/// Where the phases of `history` lie, from the first fault on.
pub(super) fn spans(history: &History) -> Spans {
    let struck: Vec<_> =
        history.faults.iter().filter(|fault| fault.what.phase == FaultPhase::Injected).collect();
    let Some(first) = struck.iter().map(|fault| fault.at_us).min() else {
        return Spans::default();
    };
    let mut spans = Spans::default();
    for fault in struck {
        let healed = history
            .faults
            .iter()
            .find(|other| {
                other.what.fault == fault.what.fault && other.what.phase == FaultPhase::Healed
            })
            .map_or(u64::MAX, |healed| healed.at_us);
        let dead = history
            .nodes
            .iter()
            .filter(|node| node.at_us >= fault.at_us && node.what.1 == NodeState::Dead)
            .filter(|node| fault.what.nodes.contains(&node.what.0))
            .map(|node| node.at_us);
        let failed = history
            .ops
            .iter()
            .filter(|op| op.ended != NEVER && op.ended_us >= fault.at_us)
            .filter(|op| op.outcome() != Outcome::Acknowledged)
            .map(|op| op.ended_us);
        if let Some(noticed) = dead.chain(failed).min().filter(|at| *at <= healed) {
            spans.detect.push((fault.at_us, noticed));
        }
    }
    for (place, node) in history.nodes.iter().enumerate() {
        if node.at_us < first || node.what.1 != NodeState::Started {
            continue;
        }
        let rest = &history.nodes[place + 1..];
        let next = rest.iter().find(|other| other.what.0 == node.what.0);
        if let Some(ready) = next.filter(|next| next.what.1 == NodeState::Ready) {
            spans.restart.push((node.at_us, ready.at_us));
        }
    }
    let mut began = None;
    for settle in history.settling.iter().filter(|settle| settle.at_us >= first) {
        match settle.what {
            SettleEvent::Began { .. } => began = Some(settle.at_us),
            SettleEvent::Looked { .. } => {}
            SettleEvent::Ended { .. } => {
                spans.rebuild.extend(began.take().map(|from| (from, settle.at_us)));
            }
        }
    }
    let ends = history.phases.iter().skip(1).map(|phase| phase.at_us);
    let phases = history.phases.iter().zip(ends);
    let verify = phases.filter(|(phase, _)| phase.what == PHASE_FINAL_READS);
    spans.verify = verify.map(|(phase, end)| (phase.at_us, end)).collect();
    spans
}

/// Microseconds that lie in at least one of `spans`.
fn covered(spans: &[Span]) -> u64 {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut total = 0;
    let mut reached = 0;
    for (from, to) in sorted {
        let from = from.max(reached);
        total += to.saturating_sub(from);
        reached = reached.max(to);
    }
    total
}

/// Acknowledged writes that were lost: findings of the invariant about them.
fn lost(judgements: &[Judgement]) -> Option<u64> {
    let judged = judgements.iter().find(|judged| judged.invariant == SURVIVAL)?;
    if judged.examined == 0 {
        return None;
    }
    // A write that several witnesses miss is lost once: the first operation named is the write.
    let lost = judged.findings.iter().filter(|finding| finding.verdict == Verdict::Fail);
    let writes: BTreeSet<_> =
        lost.map(|finding| (&finding.target, finding.operations.first())).collect();
    Some(writes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_stretches_count_once() {
        assert_eq!(covered(&[]), 0);
        assert_eq!(covered(&[(10, 20), (5, 12), (30, 31), (11, 12)]), 16);
    }
}

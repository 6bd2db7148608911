//! After every fault is healed, the cluster becomes whole and every node serves again.
//!
//! Verified: every settle ended with everything repaired, or, if not, at least with progress; in the
//! end every node answers the listings of every bucket and every read that it is asked.
//!
//! Not verified: how long that took. A time that was missed is a time that was missed, and no broken
//! promise: the report holds it against the objective, and the exit code says so apart.

use std::collections::BTreeMap;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use crate::harness::workload::history::SettleEvent;
use crate::harness::workload::record::Op;

/// Its name.
pub const NAME: &str = "service_returned";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let history = witnesses.history;
    let mut progressed = None;
    for event in &history.settling {
        let line = format!("history.jsonl:{}", event.seq + 1);
        match &event.what {
            SettleEvent::Began { .. } => progressed = None,
            SettleEvent::Looked { progressed: now, .. } => progressed = Some(*now),
            SettleEvent::Ended { repaired: true } => examination.examined(),
            SettleEvent::Ended { repaired: false } => {
                examination.examined();
                let found = match progressed {
                    Some(false) => Found::fail(
                        "not_repaired",
                        "the cluster stopped repairing itself before it was whole".to_owned(),
                    ),
                    _ => Found::undecided(
                        "still_repairing",
                        "the cluster was not whole when the waiting ended".to_owned(),
                    ),
                };
                examination.found(found.shown_in(line));
            }
        }
    }
    // What one node was asked last about one thing counts: earlier tries were repeated.
    let mut last = BTreeMap::<(usize, String, String), &Op>::new();
    for op in history.final_reads() {
        let action = serde_json::to_string(&op.asked.action).unwrap_or_default();
        let asked = (op.asked.node, op.asked.target.to_string(), action);
        last.insert(asked, op);
    }
    for node in 0..witnesses.facts.nodes {
        let of_node = last.iter().filter(|((asked, ..), _)| *asked == node);
        let of_node = of_node.map(|(_, op)| *op).collect::<Vec<_>>();
        if of_node.is_empty() {
            let message = format!("node {node} was asked nothing in the end");
            examination.found(Found::undecided("no_final_reads", message));
            continue;
        }
        examination.examined();
        let unanswered = of_node.iter().filter(|op| !op.is_acknowledged()).collect::<Vec<_>>();
        let Some(first) = unanswered.first() else { continue };
        let reason = first.answer.as_ref().map_or("no answer", |answer| answer.reason.as_str());
        let message = format!(
            "node {node} left {} of {} final reads unanswered, the first with: {reason}",
            unanswered.len(),
            of_node.len()
        );
        let found = Found::fail("node_not_serving", message)
            .about(&first.asked.target)
            .explained_by(unanswered.iter().take(8).map(|op| op.id()))
            .shown_in(first.line());
        examination.found(found);
    }
    examination.finish()
}

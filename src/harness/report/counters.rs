//! What a finished run provoked, counted from its history and census alone.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::meanwhile;
use super::meanwhile::Changed;
use super::passes;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::VersionClass;
use crate::harness::scenario::counter::Counter;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Condition;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;
use crate::harness::workload::request::AnswerClass;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Every counter of a run.
pub fn count(history: &History, census: Option<&Census>) -> BTreeMap<Counter, u64> {
    Counter::ALL.iter().map(|counter| (*counter, value(*counter, history, census))).collect()
}

/// One counter.
fn value(counter: Counter, history: &History, census: Option<&Census>) -> u64 {
    let ops = |wanted: &dyn Fn(&Op) -> bool| {
        history.ops.iter().filter(|op| !op.is_final && wanted(op)).count() as u64
    };
    let faults = |phase: FaultPhase| {
        let events = history.faults.iter().filter(|event| event.what.phase == phase);
        events.map(|event| event.what.fault).collect::<BTreeSet<_>>().len() as u64
    };
    match counter {
        Counter::AcknowledgedWrites => ops(&|op| op.is_write() && op.is_acknowledged()),
        Counter::AmbiguousWrites => ops(&|op| op.is_write() && op.outcome() == Outcome::Ambiguous),
        Counter::RefusedWrites => ops(&|op| op.is_write() && op.outcome() == Outcome::Refused),
        Counter::AcknowledgedReads => ops(&|op| op.asked.action.is_read() && op.is_acknowledged()),
        Counter::AcknowledgedDeletes => {
            ops(&|op| matches!(op.asked.action, Action::Delete { .. }) && op.is_acknowledged())
        }
        Counter::ConditionalWrites => {
            ops(&|op| is_conditional(&op.asked.action) && op.outcome() != Outcome::Ambiguous)
        }
        Counter::MultipartCompletions => {
            ops(&|op| matches!(op.asked.action, Action::CompleteUpload { .. }))
        }
        Counter::FaultsInjected => faults(FaultPhase::Injected),
        Counter::FaultsInForce => faults(FaultPhase::InForce),
        Counter::CrashPointsReached => {
            let struck = history.faults.iter().filter(|event| {
                event.what.phase == FaultPhase::Injected && event.what.at.is_some()
            });
            struck.map(|event| event.what.fault).collect::<BTreeSet<_>>().len() as u64
        }
        Counter::MountsChanged => {
            // `vm_restart` names the drives of which it saw the identity change, and only those.
            let struck = history.faults.iter().filter(|event| {
                event.what.phase == FaultPhase::Injected && event.what.name == "vm_restart"
            });
            struck.map(|event| event.what.drives.len() as u64).sum()
        }
        Counter::NodesRestarted => restarts(history),
        Counter::OperationsUnderFault => {
            let bands = bands(history);
            ops(&|op| {
                op.ended != NEVER
                    && bands.iter().any(|(from, to)| *from <= op.ended && op.ended <= *to)
            })
        }
        Counter::VersionsHealed => healed(history, census),
        Counter::LongestLineage => passes::longest_lineage(census),
        Counter::PassesResumed => passes::resumed(history),
        Counter::StatesTold => {
            let told = history.notes.iter().filter(|note| matches!(note.what, Note::Told { .. }));
            told.count() as u64
        }
        Counter::OverwritesWhileAway => away(history, Changed::NullVersion),
        Counter::DeletesWhileAway => away(history, Changed::Key),
        Counter::MarkersRemovedWhileAway => away(history, Changed::Marker),
        Counter::OverwritesWhileHeld => held(history, Changed::NullVersion),
        Counter::DeletesWhileHeld => held(history, Changed::Key),
        Counter::MarkersRemovedWhileHeld => held(history, Changed::Marker),
        Counter::ClientParts => {
            let passed =
                |what: &Note| matches!(what, Note::Client(note) if note.passed == Some(true));
            history.notes.iter().filter(|note| passed(&note.what)).count() as u64
        }
        Counter::AcknowledgedCommits => commits(history, |op| op.is_acknowledged()),
        Counter::RefusedCommits => commits(history, |op| op.outcome() == Outcome::Refused),
        Counter::UnknownCommits => commits(history, |op| op.outcome() == Outcome::Ambiguous),
        Counter::CommitsResolved => {
            let seen = history.catalog.iter().filter_map(|op| op.saw());
            let seen: BTreeSet<&str> = seen.map(|commit| &*commit.commit_id).collect();
            seen.len() as u64
                + commits(history, |op| {
                    op.is_acknowledged() && op.commit().is_some_and(|commit| commit.attempt > 0)
                })
        }
        Counter::SupportedRequests => requests(history, AnswerClass::Supported),
        Counter::RefusedRequests => requests(history, AnswerClass::Refused),
        Counter::DeniedRequests => requests(history, AnswerClass::Denied),
        Counter::UnsupportedRequests => requests(history, AnswerClass::Unsupported),
        Counter::ComparedRefusals => {
            let notes = history.notes.iter();
            notes.filter(|note| matches!(note.what, Note::Compared(_))).count() as u64
        }
        Counter::UnknownMigrations => migrations(history, Outcome::Ambiguous),
        Counter::RefusedMigrations => migrations(history, Outcome::Refused),
        Counter::SnapshotsHandled => {
            let hands = history.notes.iter().filter(|it| matches!(it.what, Note::Snapshot(_)));
            hands.count() as u64
        }
        Counter::NewestSnapshotVersion => {
            let versions = history.notes.iter().filter_map(|note| match &note.what {
                Note::CatalogSeen(seen) => seen.snapshot.map(u64::from),
                _ => None,
            });
            versions.max().unwrap_or(0)
        }
    }
}

/// Attempts at commits.
fn commits(history: &History, wanted: impl Fn(&CatalogOp) -> bool) -> u64 {
    history.catalog.iter().filter(|op| op.commit().is_some() && wanted(op)).count() as u64
}

/// Requests of a step's own wording, by the class of their answers.
fn requests(history: &History, class: AnswerClass) -> u64 {
    let spelt = history.catalog.iter().filter(|op| op.raw().is_some());
    spelt.filter(|op| AnswerClass::of_answer(op.answer.as_ref()) == class).count() as u64
}

/// Migrations and cancellations that ended so.
fn migrations(history: &History, outcome: Outcome) -> u64 {
    let is_one = |op: &&CatalogOp| {
        let action = &op.asked.action;
        matches!(action, CatalogAction::Migrate | CatalogAction::Cancel) && op.outcome() == outcome
    };
    history.catalog.iter().filter(is_one).count() as u64
}

/// Changes of a kind while a drive was out of its slot.
fn away(history: &History, changed: Changed) -> u64 {
    meanwhile::changes(history, changed, &meanwhile::away(history))
}

/// Changes of a kind while a rebuild was held.
fn held(history: &History, changed: Changed) -> u64 {
    meanwhile::changes(history, changed, &meanwhile::held(history))
}

/// Whether a write carries a precondition.
fn is_conditional(action: &Action) -> bool {
    match action {
        Action::Put { condition, .. } | Action::CompleteUpload { condition, .. } => {
            *condition != Condition::Always
        }
        _ => false,
    }
}

/// How often a node became ready after it had been dead.
fn restarts(history: &History) -> u64 {
    let mut dead = BTreeSet::new();
    let mut count = 0;
    for event in &history.nodes {
        match event.what {
            (node, NodeState::Dead) => {
                dead.insert(node);
            }
            (node, NodeState::Ready) if dead.remove(&node) => count += 1,
            _ => {}
        }
    }
    count
}

/// From where to where, in positions of the history, each fault lasted.
pub fn bands(history: &History) -> Vec<(u64, u64)> {
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let mut bands = Vec::new();
    for event in &history.faults {
        let fault = event.what.fault;
        match event.what.phase {
            FaultPhase::Injected => {
                open.entry(fault).or_insert(event.seq);
            }
            FaultPhase::Healed => {
                if let Some(from) = open.remove(&fault) {
                    bands.push((from, event.seq));
                }
            }
            FaultPhase::InForce | FaultPhase::NotReached => {}
        }
    }
    bands.extend(open.into_values().map(|from| (from, NEVER)));
    bands
}

/// Versions that were damaged for certain and are whole in the last census: those that a census on the
/// way found damaged, or those that were acknowledged before a blank drive took a member's place.
fn healed(history: &History, census: Option<&Census>) -> u64 {
    let Some(census) = census else {
        return 0;
    };
    let versions = census.keys.iter().flat_map(|key| &key.versions);
    let left = versions.filter(|version| version.class != VersionClass::Full).count() as u64;
    let seen = history.notes.iter().filter_map(|note| match &note.what {
        Note::Damage { versions, .. } => Some(*versions),
        _ => None,
    });
    let seen = seen.max().unwrap_or(0).saturating_sub(left);
    let replaced = history.faults.iter().filter(|event| {
        event.what.phase == FaultPhase::Injected && event.what.name == "replace_drive"
    });
    let replaced = replaced.map(|event| event.seq).max();
    seen.max(replaced.map_or(0, |seq| whole_and_older(history, census, seq)))
}

/// Versions with an id that were acknowledged before `seq` and that the census finds whole.
fn whole_and_older(history: &History, census: &Census, seq: u64) -> u64 {
    let older: BTreeSet<(&ObjectKey, VersionId)> = history
        .ops
        .iter()
        .filter(|op| op.is_write() && op.is_acknowledged() && op.ended < seq)
        .filter_map(|op| Some((&op.asked.target, op.answer.as_ref()?.version?)))
        .filter(|(_, version)| !version.is_null())
        .collect();
    let whole = census.keys.iter().flat_map(|key| {
        let full = key.versions.iter().filter(|version| version.class == VersionClass::Full);
        full.map(|version| (&key.target, version.version))
    });
    whole.filter(|version| older.contains(version)).count() as u64
}

//! What clients changed while a drive was out of its slot, and while a rebuild was held. Pure.
//!
//! Only what was asked and acknowledged within such a time counts: it was done for certain in the meantime.

use std::collections::BTreeMap;

use crate::harness::workload::history::Action;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// A null version was overwritten by another one.
    NullVersion,
    /// A key was deleted without naming a version.
    Key,
    /// A delete marker was removed.
    Marker,
}

/// From where to where, in positions of the history, a drive was pulled and nothing was in its place.
pub(super) fn away(history: &History) -> Vec<(u64, u64)> {
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    let mut times = Vec::new();
    for event in history.faults.iter().filter(|event| event.what.phase != FaultPhase::InForce) {
        for drive in &event.what.drives {
            match (event.what.name.as_str(), event.what.phase) {
                ("pull_drive", FaultPhase::Injected) => {
                    open.insert(drive, event.seq);
                }
                ("pull_drive", FaultPhase::Healed)
                | ("return_drive" | "replace_drive", FaultPhase::Injected) => {
                    times.extend(open.remove(drive.as_str()).map(|from| (from, event.seq)));
                }
                _ => {}
            }
        }
    }
    times.extend(open.into_values().map(|from| (from, NEVER)));
    times
}

/// From where to where an executor was held at a step of a replacement, the node serving on.
pub(super) fn held(history: &History) -> Vec<(u64, u64)> {
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let mut times = Vec::new();
    for event in history.faults.iter().filter(|event| event.what.name == "hold") {
        let is_step = event.what.at.as_ref().is_some_and(|at| at.starts_with("replacement."));
        match event.what.phase {
            FaultPhase::Injected if is_step => {
                open.insert(event.what.fault, event.seq);
            }
            FaultPhase::Healed => {
                let from = open.remove(&event.what.fault);
                times.extend(from.map(|from| (from, event.seq)));
            }
            _ => {}
        }
    }
    times
}

/// How many changes of a kind were asked and acknowledged within one of `times`.
pub(super) fn changes(history: &History, changed: Changed, times: &[(u64, u64)]) -> u64 {
    let is_within = |op: &&Op| times.iter().any(|(from, to)| *from < op.invoked && op.ended < *to);
    let acknowledged = history.ops.iter().filter(|op| !op.is_final && op.is_acknowledged());
    acknowledged.filter(is_within).filter(|op| is_of(history, changed, op)).count() as u64
}

fn is_of(history: &History, changed: Changed, op: &Op) -> bool {
    let answer = op.answer.as_ref();
    match (changed, &op.asked.action) {
        (Changed::Key, Action::Delete { version: None }) => true,
        (Changed::Marker, Action::Delete { version: Some(_) }) => {
            answer.is_some_and(|answer| answer.delete_marker)
        }
        (Changed::NullVersion, Action::Put { .. } | Action::CompleteUpload { .. }) => {
            let is_null = |op: &Op| {
                let version = op.answer.as_ref().and_then(|answer| answer.version);
                version.is_none_or(|version| version.is_null())
            };
            // What the key held before was written, and not deleted since, for certain.
            let of_key = history.keys.get(&op.asked.target).into_iter().flatten();
            let mut before = of_key.map(|position| &history.ops[*position]);
            let last = before.rfind(|it| it.is_write() && it.precedes(op));
            let was_written = last.is_some_and(|it| {
                let is_delete = matches!(it.asked.action, Action::Delete { .. });
                it.is_acknowledged() && !is_delete && is_null(it)
            });
            is_null(op) && was_written
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::workload::history::Ending;
    use crate::harness::workload::history::Entry;
    use crate::harness::workload::history::Event;
    use crate::harness::workload::history::FaultEvent;
    use crate::harness::workload::history::HISTORY_FORMAT;
    use crate::harness::workload::history::Operation;
    use crate::harness::workload::history::Outcome;
    use crate::value::Digest;
    use crate::value::ObjectKey;
    use crate::value::VersionId;

    /// The story so far.
    struct Story(Vec<Event>);

    impl Story {
        fn new() -> Self {
            Self(vec![Event::Header { format: HISTORY_FORMAT, case: "c".to_owned(), seed: 1 }])
        }

        fn op(mut self, key: &str, action: Action, marker: bool) -> Self {
            let op = self.0.len() as u64;
            let target = ObjectKey { bucket: "b".to_owned(), key: key.to_owned() };
            self.0.push(Event::Invoked(Operation { op, client: 1, node: 0, target, action }));
            self.0.push(Event::Ended(Ending {
                op,
                outcome: Outcome::Acknowledged,
                reason: String::new(),
                status: Some(200),
                version: None,
                etag: None,
                delete_marker: marker,
                upload: None,
                seen: None,
            }));
            self
        }

        fn fault(mut self, name: &str, phase: FaultPhase) -> Self {
            self.0.push(Event::Fault(FaultEvent {
                fault: 1,
                name: name.to_owned(),
                phase,
                nodes: vec![0],
                drives: vec!["0/4".to_owned()],
                at: Some("replacement.page.cursor_saved".to_owned()),
                evidence: String::new(),
            }));
            self
        }

        fn told(self) -> History {
            let events = self.0.into_iter().zip(0..);
            History::of(events.map(|(event, seq)| Entry { seq, at_us: seq, event })).unwrap()
        }
    }

    fn put() -> Action {
        let digest = Digest::of(b"x");
        Action::Put { digest, size: 1, etag: None, condition: Default::default() }
    }

    fn delete(version: Option<VersionId>) -> Action {
        Action::Delete { version }
    }

    #[test]
    fn only_what_happened_meanwhile_counts_and_each_as_what_it_is() {
        let some = Some(VersionId::NULL);
        let history = Story::new()
            .op("a", put(), false)
            .op("a", put(), false)
            .fault("pull_drive", FaultPhase::Injected)
            .op("a", put(), false)
            .op("new", put(), false)
            .op("a", delete(None), false)
            .op("a", put(), false)
            .op("m", delete(some), true)
            .op("n", delete(some), false)
            .fault("replace_drive", FaultPhase::Injected)
            .op("a", delete(None), false)
            .fault("hold", FaultPhase::Injected)
            .op("new", put(), false)
            .fault("hold", FaultPhase::Healed)
            .op("new", put(), false)
            .told();
        let count = |changed, times: &[_]| changes(&history, changed, times);
        let (away, held) = (away(&history), held(&history));
        assert_eq!(count(Changed::NullVersion, &away), 1);
        assert_eq!(count(Changed::Key, &away), 1);
        assert_eq!(count(Changed::Marker, &away), 1);
        assert_eq!(count(Changed::NullVersion, &held), 1);
        assert_eq!((count(Changed::Key, &held), count(Changed::Marker, &held)), (0, 0));
    }
}

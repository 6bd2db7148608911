//! Which versioning a bucket can have had while a request was under way. Pure.

use crate::harness::workload::history::Action;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;
use crate::harness::workload::record::Op;
use crate::harness::workload::spec::BucketKind;

/// A set of versioning states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    /// Versioning was never touched.
    pub unversioned: bool,
    /// Writes get ids of their own.
    pub enabled: bool,
    /// Writes replace the null version; deletes leave a null marker.
    pub suspended: bool,
}

impl Modes {
    fn of(kind: BucketKind) -> Self {
        Self {
            unversioned: kind == BucketKind::Unversioned,
            enabled: kind.keeps_versions(),
            suspended: kind == BucketKind::Suspended,
        }
    }

    fn add(&mut self, other: Self) {
        self.unversioned |= other.unversioned;
        self.enabled |= other.enabled;
        self.suspended |= other.suspended;
    }
}

/// The changes of one bucket's versioning, in order.
#[derive(Debug, Clone, Default)]
pub struct ModeChanges {
    first: Modes,
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    from: u64,
    /// Where it had been made for certain; `None` when nobody can tell.
    to: Option<u64>,
    becomes: Modes,
}

impl ModeChanges {
    /// What the history tells of `bucket`. Without a word about its versioning it is what the workload
    /// says from the start.
    pub fn of(history: &History, bucket: &str, kind: Option<BucketKind>) -> Self {
        let ops = history.buckets.get(bucket).into_iter().flatten();
        let ops = ops.map(|position| &history.ops[*position]);
        let change = |op: &Op| {
            let becomes = match op.asked.action {
                Action::SetVersioning { enabled: true } => Modes::of(BucketKind::Enabled),
                Action::SetVersioning { enabled: false } => Modes::of(BucketKind::Suspended),
                Action::DeleteBucket => Modes::of(BucketKind::Unversioned),
                _ => return None,
            };
            let to = match op.outcome() {
                Outcome::Acknowledged => Some(op.ended),
                Outcome::Ambiguous => None,
                Outcome::Refused => return None,
            };
            Some(Change { from: op.invoked, to, becomes })
        };
        let changes = ops.filter_map(change).collect::<Vec<_>>();
        let is_told = changes.iter().any(|change| !change.becomes.unversioned);
        let first = match kind {
            Some(kind) if !is_told => Modes::of(kind),
            _ => Modes::of(BucketKind::Unversioned),
        };
        Self { first, changes }
    }

    /// Which versioning the bucket can have had somewhere between `from` and `to`.
    pub fn between(&self, from: u64, to: u64) -> Modes {
        let mut modes = self.first;
        for change in self.changes.iter().filter(|change| change.from < to) {
            match change.to {
                Some(made) if made < from => modes = change.becomes,
                _ => modes.add(change.becomes),
            }
        }
        modes
    }

    /// Whether the bucket never was anything but unversioned.
    pub fn is_always_unversioned(&self) -> bool {
        self.between(0, u64::MAX) == Modes::of(BucketKind::Unversioned)
    }
}

//! What is aimed at, and whether it was met.

use std::collections::BTreeMap;

use crate::harness::runner::bench::Tell;

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goal {
    /// Seconds that a thousand creations take, one after the other.
    Created,
    /// The time of the thousandth creation to that of the tenth.
    LastCreate,
    /// A table's share of a preflight of ten thousand tables to that of a thousand.
    Preflight,
    /// A table's share of a migration of ten thousand tables to that of a thousand.
    Migration,
    /// Seconds until a snapshot of 60 MiB is loaded.
    SnapshotLoad,
    /// Memory that the load takes at most, to the size of the snapshot.
    SnapshotMemory,
    /// Seconds until the fence stands while writers commit.
    Fence,
}

/// A goal in words, the most that its figure may be, and the unit of both.
struct Aim {
    what: &'static str,
    most: f64,
    unit: &'static str,
}

impl Goal {
    const ALL: [Self; 7] = [
        Self::Created,
        Self::LastCreate,
        Self::Preflight,
        Self::Migration,
        Self::SnapshotLoad,
        Self::SnapshotMemory,
        Self::Fence,
    ];

    fn aim(self) -> Aim {
        let (what, most, unit) = match self {
            Self::Created => ("1,000 tables created through the API", 180.0, " s"),
            Self::LastCreate => ("the 1,000th creation to the 10th", 1.5, " ×"),
            Self::Preflight => ("preflight of a table, of 10,000 to of 1,000", 1.5, " ×"),
            Self::Migration => ("migration of a table, of 10,000 to of 1,000", 1.5, " ×"),
            Self::SnapshotLoad => ("load of a snapshot of 60 MiB", 1.0, " s"),
            Self::SnapshotMemory => ("memory of the load to the snapshot's size", 5.0, " ×"),
            Self::Fence => ("fence under load", 2.0, " s"),
        };
        Aim { what, most, unit }
    }
}

/// The figures that goals are about, as far as they were measured.
#[derive(Debug, Default)]
pub(super) struct Goals {
    seen: BTreeMap<Goal, f64>,
}

impl Goals {
    /// This is the figure of a goal.
    pub(super) fn set(&mut self, goal: Goal, figure: f64) {
        self.seen.insert(goal, figure);
    }

    /// Tells each goal beside its figure.
    pub(super) fn tell(&self, tell: Tell<'_>) {
        tell("");
        tell("| goal | at most | figure | |");
        tell("|---|--:|--:|---|");
        for goal in Goal::ALL {
            let Aim { what, most, unit } = goal.aim();
            let (figure, verdict) = match self.seen.get(&goal) {
                Some(figure) if *figure <= most => (format!("{figure:.2}{unit}"), "met"),
                Some(figure) => (format!("{figure:.2}{unit}"), "not met"),
                None => ("-".to_owned(), "not measured"),
            };
            tell(&format!("| {what} | {most}{unit} | {figure} | {verdict} |"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_not_or_was_not_measured() {
        let lines = std::sync::Mutex::new(Vec::new());
        let tell = |line: &str| lines.lock().expect("one thread").push(line.to_owned());
        let mut goals = Goals::default();
        goals.set(Goal::Created, 180.0);
        goals.set(Goal::LastCreate, 1.51);
        goals.set(Goal::Fence, f64::NAN);
        goals.tell(&tell);
        let lines = lines.lock().expect("one thread");
        let line = |words: &str| lines.iter().find(|line| line.contains(words)).cloned();
        let wanted = "| 1,000 tables created through the API | 180 s | 180.00 s | met |";
        assert_eq!(line("through the API").as_deref(), Some(wanted));
        let wanted = "| the 1,000th creation to the 10th | 1.5 × | 1.51 × | not met |";
        assert_eq!(line("to the 10th").as_deref(), Some(wanted));
        let wanted = "| load of a snapshot of 60 MiB | 1 s | - | not measured |";
        assert_eq!(line("load of a").as_deref(), Some(wanted));
        assert!(line("fence").is_some_and(|line| line.ends_with("| not met |")), "no number");
        assert_eq!(lines.len(), 3 + Goal::ALL.len());
    }
}

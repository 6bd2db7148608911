//! Which losses are excused: those that more drives may have suffered than the version could spare.
//!
//! Counted from the outside and to the benefit of the cluster: at its acknowledgement a write is on as
//! many drives as its quorum asks for, after a settle with every drive present on all of them. A drive
//! counts as having lost it when a fault that can lose it struck that drive after the acknowledgement.
//! Pure.

use std::collections::BTreeSet;

use crate::harness::check::Facts;
use crate::harness::check::Witnesses;
use crate::harness::workload::history::FaultEvent;
use crate::harness::workload::history::FaultPhase;
use crate::value::ObjectKey;

/// What a fault does to what drives hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// It may be gone.
    Gone,
    /// The drive may show again what was there before.
    RolledBack,
}

/// What would have to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// An object of this length.
    Object(u64),
    /// A delete marker.
    Marker,
    /// The absence of a version that was removed.
    Absence,
}

/// The losses of a run.
#[derive(Debug)]
pub struct Tolerance<'a> {
    facts: &'a Facts,
    /// Where, which drive, how.
    losses: Vec<(u64, String, Loss)>,
    settled: Vec<u64>,
}

impl<'a> Tolerance<'a> {
    /// The losses that the history tells of.
    pub fn of(witnesses: &Witnesses<'a>) -> Self {
        let facts = witnesses.facts;
        let history = witnesses.history;
        let mut losses = Vec::new();
        for fault in history.faults.iter().filter(|fault| fault.what.phase == FaultPhase::Injected)
        {
            let Some(loss) = loss(&fault.what, facts) else { continue };
            let drives = drives(&fault.what, facts).into_iter();
            losses.extend(drives.map(|drive| (fault.seq, drive, loss)));
        }
        let settled = history.settled.iter().map(|settled| settled.seq).collect();
        Self { facts, losses, settled }
    }

    /// Where more drives may have lost what was acknowledged at `acknowledged` for `key` than it could
    /// spare; `None` if that never happened before `until`.
    pub fn exceeded(
        &self,
        key: &ObjectKey,
        kept: Kept,
        acknowledged: u64,
        until: u64,
        set: Option<usize>,
    ) -> Option<u64> {
        let drives = self.facts.set_drives;
        let half = drives - drives / 2;
        let (quorum, needed) = match kept {
            Kept::Object(0) => (half + usize::from(drives.is_multiple_of(2)), half),
            Kept::Object(_) => (self.facts.write_quorum(), self.facts.data_shards()),
            Kept::Marker => (self.facts.delete_quorum(), half),
            // As many as are needed to keep the removed version below what reading it takes.
            Kept::Absence => (self.facts.delete_quorum(), self.facts.parity + 1),
        };
        debug_assert!(!key.key.is_empty(), "tolerance is about keys");
        let settles = self.settled.iter().map(|seq| (*seq, None));
        let losses = self.losses.iter().map(|(seq, drive, loss)| (*seq, Some((drive, *loss))));
        let mut events = settles.chain(losses).collect::<Vec<_>>();
        events.sort_by_key(|(seq, _)| *seq);
        let mut held = quorum;
        let mut lost = BTreeSet::new();
        for (seq, event) in events {
            if seq <= acknowledged || seq >= until {
                continue;
            }
            let Some((drive, loss)) = event else {
                (held, lost) = (drives, BTreeSet::new());
                continue;
            };
            let is_concerned =
                set.is_none_or(|set| self.facts.set_of(drive).is_none_or(|of| of == set));
            if !is_concerned || kept == Kept::Absence && loss == Loss::Gone {
                continue;
            }
            lost.insert(drive);
            if held.saturating_sub(lost.len()) < needed {
                return Some(seq);
            }
        }
        None
    }
}

/// What the fault does to what is on its drives.
fn loss(fault: &FaultEvent, facts: &Facts) -> Option<Loss> {
    match fault.name.as_str() {
        "replace_drive" | "bit_rot" | "swap_shards" | "damage_keys" => Some(Loss::Gone),
        "power_cut" | "pull_drive" if !facts.survives_power_loss => Some(Loss::RolledBack),
        _ => None,
    }
}

/// The drives that it struck.
fn drives(fault: &FaultEvent, facts: &Facts) -> Vec<String> {
    if !fault.drives.is_empty() {
        return fault.drives.clone();
    }
    let is_of_node = |drive: &&String| {
        let node = drive.split('/').next().and_then(|node| node.parse::<usize>().ok());
        node.is_some_and(|node| fault.nodes.contains(&node))
    };
    facts.drives.iter().filter(is_of_node).cloned().collect()
}

//! What was seen of the records on each drive in the course of a run, put in order: which state of a drive may be
//! held against which earlier one. Pure.
//!
//! A drive that another one was put in the place of, or whose records somebody else has changed, begins anew. A loss
//! of power may take back what was not durable yet: from there on only what was durable before counts.

use super::Witnesses;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::ReplacementCensus;
use crate::harness::workload::history::FaultEvent;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::history::Sighting;
use crate::harness::workload::record::At;
use crate::harness::workload::record::History;

/// Faults that leave the records of the drives that they name as they are, but for what was not durable.
const KEEPS_RECORDS: &[&str] = &[
    "kill",
    "pause",
    "vm_restart",
    "power_cut",
    "pull_drive",
    "return_drive",
    "read_only",
    "fill_drive",
    "fail_reads",
    "hang_writes",
    "missing_mount",
    "bit_rot",
    "swap_shards",
    "damage_keys",
    "lost_reply",
    "half_request",
    "partition",
    "delay",
    "hang_peer",
];
/// Faults that take what was not durable.
const LOSES_POWER: &[&str] = &["power_cut", "pull_drive"];

/// Nothing of the protocol on a drive.
static NOTHING: ReplacementCensus = ReplacementCensus {
    drive: String::new(),
    marker: None,
    records: std::collections::BTreeMap::new(),
};

/// What was on a drive at one moment.
#[derive(Debug, Clone)]
pub(super) struct State<'a> {
    /// Where it shows.
    pub evidence: String,
    /// What was there.
    pub held: &'a ReplacementCensus,
    /// Where the history has it; past its end for the census.
    pub seq: u64,
}

/// An earlier state of a drive, and the next one that was seen and must not have lost anything of it.
#[derive(Debug, Clone)]
pub(super) struct Pair<'a> {
    /// The drive.
    pub drive: &'a str,
    /// The earlier state.
    pub before: State<'a>,
    /// The later one.
    pub after: State<'a>,
}

/// Every two states of a drive that follow each other.
pub(super) fn pairs<'a>(witnesses: &Witnesses<'a>) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    for drive in &witnesses.facts.drives {
        of_drive(witnesses, drive, &mut pairs);
    }
    pairs
}

fn of_drive<'a>(witnesses: &Witnesses<'a>, drive: &'a str, pairs: &mut Vec<Pair<'a>>) {
    let history = witnesses.history;
    let mut last = None::<State<'a>>;
    let mut durable = None::<State<'a>>;
    let mut faults =
        struck_or_undone(history).filter(|fault| fault.what.drives.iter().any(|it| it == drive));
    let mut fault = faults.next();
    let mut pass = |last: &mut Option<State<'a>>, durable: &mut Option<State<'a>>, until: u64| {
        while let Some(struck) = fault.filter(|fault| fault.seq < until) {
            let name = struck.what.name.as_str();
            if !KEEPS_RECORDS.contains(&name) {
                (*last, *durable) = (None, None);
            } else if LOSES_POWER.contains(&name) {
                *last = durable.clone();
            }
            fault = faults.next();
        }
    };
    for sighting in &history.sightings {
        if !sighting.what.drives.iter().any(|it| it == drive) {
            continue;
        }
        pass(&mut last, &mut durable, sighting.seq);
        let state = State {
            evidence: format!("history.jsonl:{}", sighting.seq + 1),
            held: on(&sighting.what.held, drive),
            seq: sighting.seq,
        };
        if witnesses.facts.survives_power_loss && is_durable(history, sighting, drive) {
            durable = Some(state.clone());
        }
        pairs.extend(last.replace(state.clone()).map(|before| Pair {
            drive,
            before,
            after: state,
        }));
    }
    let Some(census) = witnesses.census else { return };
    let is_member =
        census.drives.iter().any(|it| it.name == drive && it.state == DriveState::Member);
    if !is_member {
        return;
    }
    pass(&mut last, &mut durable, u64::MAX);
    let after = State {
        evidence: "census.json".to_owned(),
        held: on(&census.replacement, drive),
        seq: u64::MAX,
    };
    pairs.extend(last.map(|before| Pair { drive, before, after }));
}

/// What a drive holds among what all hold.
fn on<'a>(held: &'a [ReplacementCensus], drive: &str) -> &'a ReplacementCensus {
    held.iter().find(|it| it.drive == drive).unwrap_or(&NOTHING)
}

/// Strikes, in order.
pub(super) fn injected(history: &History) -> impl Iterator<Item = &At<FaultEvent>> {
    history.faults.iter().filter(|fault| fault.what.phase == FaultPhase::Injected)
}

/// Whether a record or marker was, at `seq`, as a stranger's hand had changed it.
pub(super) fn is_tampered_with(history: &History, seq: u64) -> bool {
    let changed = injected(history).filter(|fault| fault.what.name == "tamper_record");
    let is_given_back = |id: u64| {
        let mut healed = struck_or_undone(history).filter(|it| it.what.fault == id);
        healed.any(|it| it.what.phase == FaultPhase::Healed && it.seq < seq)
    };
    let mut changed = changed.filter(|fault| fault.seq < seq);
    changed.any(|fault| !is_given_back(fault.what.fault))
}

/// Every strike, and every time that what a stranger's hand had changed was given back: that is somebody else's change
/// once more.
fn struck_or_undone(history: &History) -> impl Iterator<Item = &At<FaultEvent>> {
    history.faults.iter().filter(|fault| match fault.what.phase {
        FaultPhase::Injected => true,
        FaultPhase::Healed => fault.what.name == "tamper_record",
        FaultPhase::InForce | FaultPhase::NotReached => false,
    })
}

/// The strike that a sighting was taken for, if it had struck by then.
fn struck_before<'a>(history: &'a History, sighting: &At<Sighting>) -> Option<&'a FaultEvent> {
    let id = sighting.what.fault?;
    let mut strikes = injected(history).filter(|it| it.what.fault == id && it.seq < sighting.seq);
    strikes.next().map(|it| &it.what)
}

/// Whether what a sighting shows of a drive would survive a loss of power: whoever writes it was held right after a
/// step, or the drive was mounted anew since.
fn is_durable(history: &History, sighting: &At<Sighting>, drive: &str) -> bool {
    let is_at_rest = sighting.what.at_rest.iter().any(|it| it == drive);
    let is_mounted_anew = |fault: &FaultEvent| {
        let is_meant = matches!(fault.name.as_str(), "power_cut" | "vm_restart");
        is_meant && fault.drives.iter().any(|it| it == drive)
    };
    is_at_rest
        && sighting.what.fault.is_some()
        && struck_before(history, sighting).is_none_or(is_mounted_anew)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_has_changed_is_his_until_it_is_given_back() {
        let event = |seq, phase| At {
            seq,
            at_us: 0,
            what: FaultEvent {
                fault: 1,
                name: "tamper_record".to_owned(),
                phase,
                nodes: vec![0],
                drives: vec!["0/4".to_owned()],
                at: None,
                evidence: String::new(),
            },
        };
        let mut history = History::default();
        history.faults.push(event(10, FaultPhase::Injected));
        let is_tampered = |history: &History| [5, 15, 25].map(|seq| is_tampered_with(history, seq));
        assert_eq!(is_tampered(&history), [false, true, true]);
        history.faults.push(event(20, FaultPhase::Healed));
        assert_eq!(is_tampered(&history), [false, true, false]);
        history.faults[0].what.name = "kill".to_owned();
        assert_eq!(is_tampered(&history), [false, false, false]);
    }
}

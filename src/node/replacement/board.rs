//! What is told of replacements: which generations have a live executor, what is open and why, alarms, counters.
//!
//! Kept for this process only. It decides nothing.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use uuid::Uuid;

use crate::protocol::admin::ReplacementStatus;
use crate::protocol::replacement::discover::Alarm;
use crate::protocol::replacement::discover::Decision;
use crate::protocol::replacement::discover::Drive;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::refusal::Effect;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::step::Step;

/// What is told of replacements.
#[derive(Debug, Default)]
pub struct Board(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: BTreeMap<usize, Told>,
    live: BTreeSet<GenerationId>,
    anchors: BTreeMap<GenerationId, String>,
    /// Leases that attempts have left and whose drives have not heard of it: set, endpoint and holder.
    leases: BTreeSet<(usize, usize, Uuid)>,
    writes: u64,
    proofs: u64,
    refusals: u64,
}

#[derive(Debug, Default)]
struct Told {
    is_open: bool,
    words: String,
    alarms: Vec<String>,
    /// Why nothing is done in the set, whatever else there is to do.
    blocked: Option<String>,
    /// Names of the alarms, and the number of the refusal that was last decided or met.
    alarm_names: Vec<&'static str>,
    refusal: Option<&'static str>,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These sets have not been looked at yet.
    pub fn expect(&self, sets: &[usize]) {
        let unseen = || Told { is_open: true, ..Told::default() };
        self.state().sets.extend(sets.iter().map(|set| (*set, unseen())));
    }

    /// Whether something is open in the set, or it was not looked at yet.
    pub fn is_open(&self, set: usize) -> bool {
        self.state().sets.get(&set).is_some_and(|told| told.is_open)
    }

    /// Generations with a live executor, and where records were last read, `drives` included.
    pub fn remembered(
        &self,
        drives: &[Drive],
    ) -> (BTreeSet<GenerationId>, BTreeMap<GenerationId, String>) {
        let mut state = self.state();
        for drive in drives {
            let known = drive.intents.keys().map(|id| (*id, drive.endpoint.clone()));
            state.anchors.extend(known);
        }
        (state.live.clone(), state.anchors.clone())
    }

    /// What is to be done in the set.
    pub fn decided(&self, set: usize, decision: &Decision, alarms: &[Alarm]) {
        let words = match decision {
            Decision::Nothing => String::new(),
            Decision::Resume { generation, .. } => format!("generation {generation} goes on"),
            Decision::Begin { targets, .. } => format!("a generation begins on {targets:?}"),
            Decision::Wait(why) => format!("waiting: {why}"),
            Decision::Block(refusal) => {
                let (number, remedy) = (refusal.number(), refusal.remedy());
                format!("blocked ({number}): {refusal}; {remedy}")
            }
        };
        let alarm_names: Vec<&str> = alarms.iter().map(Alarm::name).collect();
        let alarms: Vec<String> = alarms.iter().map(alarm_words).collect();
        let mut state = self.state();
        let told = state.sets.entry(set).or_default();
        if told.alarms != alarms && !alarms.is_empty() {
            tracing::error!(set, ?alarms, "replacement needs an operator");
        }
        (told.alarms, told.alarm_names) = (alarms, alarm_names);
        told.blocked = matches!(decision, Decision::Block(_)).then(|| words.clone());
        // What an attempt met stands until the next one has got further.
        if !matches!(decision, Decision::Resume { .. }) {
            told.refusal = None;
        }
        if let Decision::Block(refusal) = decision {
            told.refusal = Some(refusal.number());
        }
        told.is_open = *decision != Decision::Nothing || !told.alarms.is_empty();
        tell(set, told, words);
    }

    /// The attempt waits for something, and has recorded nothing.
    pub fn deferred(&self, set: usize, why: &str) {
        tell(set, self.state().sets.entry(set).or_default(), format!("waiting: {why}"));
    }

    /// The attempt was refused.
    pub fn refused(&self, set: usize, refusal: &Refusal) {
        let mut state = self.state();
        state.refusals += 1;
        let words = format!("refused ({}): {refusal}; {}", refusal.number(), refusal.remedy());
        let told = state.sets.entry(set).or_default();
        if refusal.effect() == Effect::Block {
            told.blocked = Some(words.clone());
        }
        told.refusal = Some(refusal.number());
        tell(set, told, words);
    }

    /// An attempt in the set is over, and its lease on a drive has to be given up.
    pub fn owes(&self, set: usize, endpoint: usize, holder: Uuid) {
        self.state().leases.insert((set, endpoint, holder));
    }

    /// The leases of the set that have to be given up: endpoint and holder.
    pub fn owed(&self, set: usize) -> Vec<(usize, Uuid)> {
        let state = self.state();
        let of_set = state.leases.iter().filter(|(other, _, _)| *other == set);
        of_set.map(|(_, endpoint, holder)| (*endpoint, *holder)).collect()
    }

    /// A lease was given up.
    pub fn settled(&self, endpoint: usize, holder: Uuid) {
        self.state().leases.retain(|(_, at, of)| (*at, *of) != (endpoint, holder));
    }

    /// A durable step was taken in the set.
    pub fn wrote(&self, set: usize, step: Step) {
        let mut state = self.state();
        if let Some(told) = state.sets.get_mut(&set) {
            told.refusal = None;
        }
        state.writes += 1;
        state.proofs += u64::from(step == Step::ProofWritten);
    }

    /// From now on this generation, and no other of the set's, has a live executor; or none has.
    pub fn lives(&self, before: Option<GenerationId>, now: Option<GenerationId>) {
        let mut state = self.state();
        if let Some(before) = before {
            state.live.remove(&before);
        }
        state.live.extend(now);
    }

    /// Why nothing is done, for each set that is blocked.
    pub fn blocked(&self) -> Vec<String> {
        let state = self.state();
        let blocked = |(set, told): (&usize, &Told)| {
            told.blocked.as_ref().map(|words| format!("set {set}: {words}"))
        };
        state.sets.iter().filter_map(blocked).collect()
    }

    /// Generations with a live executor.
    pub fn live(&self) -> BTreeSet<GenerationId> {
        self.state().live.clone()
    }

    /// The short form, for the node's own status.
    pub fn status(&self) -> ReplacementStatus {
        let state = self.state();
        let open = state.sets.values().filter(|told| told.is_open);
        let words = |(set, told): (&usize, &Told)| {
            let is_said = !told.words.is_empty();
            is_said.then(|| format!("set {set}: {}", told.words))
        };
        ReplacementStatus {
            open: open.count(),
            running: state.live.len(),
            reasons: state.sets.iter().filter_map(words).collect(),
            alarms: state.sets.values().flat_map(|told| told.alarms.clone()).collect(),
            standing: state.standing(),
            writes: state.writes,
            proofs: state.proofs,
            refusals: state.refusals,
        }
    }
}

impl State {
    /// What stands in the way in some set, each once.
    fn standing(&self) -> Vec<String> {
        let names =
            self.sets.values().flat_map(|told| told.alarm_names.iter().chain(&told.refusal));
        let names: BTreeSet<&str> = names.copied().collect();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Keeps the words, and logs them when they are news.
fn tell(set: usize, told: &mut Told, words: String) {
    if told.words == words {
        return;
    }
    if !words.is_empty() {
        tracing::info!(set, words, "replacement");
    }
    told.words = words;
}

fn alarm_words(alarm: &Alarm) -> String {
    match alarm {
        Alarm::MarkerWithoutIntent { endpoint, owner } => {
            format!("{endpoint} is marked by `{owner}`, whose record is on no drive that answers")
        }
        Alarm::Record { endpoint, refusal } => {
            format!("{endpoint}: {refusal}; {}", refusal.remedy())
        }
        Alarm::AnchorAway { generation, endpoint } => {
            format!("{endpoint}, which holds the record of {generation}, is away")
        }
        Alarm::NoAnchor => "no drive of the set can hold the record".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::replacement::refusal::about;

    #[test]
    fn a_lease_is_owed_until_its_drive_has_heard_of_it() {
        let board = Board::default();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        board.owes(0, 4, one);
        board.owes(0, 5, one);
        board.owes(1, 9, other);
        assert_eq!(board.owed(0), [(4, one), (5, one)]);
        board.settled(4, one);
        assert_eq!((board.owed(0), board.owed(1)), (vec![(5, one)], vec![(9, other)]));
    }

    #[test]
    fn what_stands_in_the_way_is_named_until_a_step_is_taken_or_it_is_over() {
        let board = Board::default();
        let refusal = Refusal::MarkerForeign(about("a", "b", "c"));
        board.refused(0, &refusal);
        assert_eq!(board.status().standing, ["E28"]);
        board.wrote(0, Step::RebuildingEntered);
        assert!(board.status().standing.is_empty());
        let alarm = Alarm::NoAnchor;
        board.decided(0, &Decision::Block(refusal), std::slice::from_ref(&alarm));
        assert_eq!(board.status().standing, ["E28", "no_anchor"]);
        board.decided(0, &Decision::Nothing, &[]);
        assert!(board.status().standing.is_empty());
    }
}

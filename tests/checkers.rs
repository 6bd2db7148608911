//! The history checker against a plain exhaustive one, on random histories of at most eight
//! operations, half of them illegal by the exhaustive one's word.

use std::collections::HashSet;

use firedrill::harness::check::model::search;
use firedrill::harness::check::model::search::Answer;
use firedrill::harness::check::model::search::Step;
use firedrill::harness::check::model::search::What;
use firedrill::harness::check::model::stack::Effect;
use firedrill::harness::check::model::stack::Guard;
use firedrill::harness::check::model::stack::Row;
use firedrill::harness::check::model::stack::Values;
use firedrill::harness::check::model::stack::View;
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// Histories compared, half legal and half illegal.
const HISTORIES: usize = 50_000;
/// Operations of the longest.
const OPERATIONS_MAX: usize = 8;

/// The exhaustive checker: every subset of the optional steps, in every order that time allows.
mod exhaustive {
    use super::*;

    /// A key's versions, oldest first: the id, the contents unless it is a marker, and where a promised
    /// write that was told its id was there for certain.
    type Versions = Vec<(u32, Option<u32>, Option<u64>)>;

    /// Whether some order explains `steps`.
    pub fn is_legal(steps: &[Step]) -> bool {
        explain(steps, 0, &Vec::new(), &mut Vec::new(), &mut HashSet::new())
    }

    fn explain(
        steps: &[Step],
        placed: u32,
        versions: &Versions,
        given_out: &mut Vec<u32>,
        known: &mut HashSet<(u32, Versions, Vec<u32>)>,
    ) -> bool {
        let waits = |index: usize| placed & (1 << index) == 0;
        if (0..steps.len()).all(|index| !waits(index) || !steps[index].needed) {
            return true;
        }
        if !known.insert((placed, versions.clone(), given_out.clone())) {
            return false;
        }
        for (index, step) in steps.iter().enumerate() {
            let is_too_early = steps.iter().enumerate().any(|(other, earlier)| {
                other != index && waits(other) && earlier.needed && earlier.to < step.from
            });
            let is_too_late = steps
                .iter()
                .enumerate()
                .any(|(other, later)| !waits(other) && step.to < later.from);
            if !waits(index) || is_too_early || is_too_late {
                continue;
            }
            let placed = placed | 1 << index;
            match &step.what {
                What::Read(view) => {
                    if sees(versions, view) && explain(steps, placed, versions, given_out, known) {
                        return true;
                    }
                }
                What::Write(effects, guard) => {
                    let latest = versions.last().and_then(|(_, value, _)| *value);
                    let is_allowed = match guard {
                        Guard::Always => true,
                        Guard::Absent => latest.is_none(),
                        Guard::Is(values) => latest.is_some_and(|value| fits(values, value)),
                    };
                    if !is_allowed {
                        continue;
                    }
                    for effect in effects {
                        let mut after = versions.clone();
                        let mut ids = given_out.clone();
                        match *effect {
                            Effect::Put { id, value } => {
                                if id != 0 && ids.contains(&id) {
                                    continue;
                                }
                                after.retain(|(known, ..)| *known != id);
                                ids.push(id);
                                ids.sort_unstable();
                                ids.dedup();
                                // One that nobody knows the end of may come late, to its own place.
                                let is_late = !step.needed && id != 0;
                                let was_told = step.needed && effects.len() == 1 && id != 0;
                                let made = was_told.then_some(step.to);
                                for place in (0..=after.len()).rev() {
                                    let mut after = after.clone();
                                    after.insert(place, (id, value, made));
                                    if explain(steps, placed, &after, &mut ids, known) {
                                        return true;
                                    }
                                    let below = after.get(place.wrapping_sub(1));
                                    let is_newer = below.is_some_and(|(_, _, made)| {
                                        made.is_none_or(|made| made > step.from)
                                    });
                                    if !is_late || !is_newer {
                                        break;
                                    }
                                }
                                continue;
                            }
                            Effect::Remove { id } => after.retain(|(known, ..)| *known != id),
                        }
                        if explain(steps, placed, &after, &mut ids, known) {
                            return true;
                        }
                    }
                }
            }
        }
        false
    }

    fn fits(values: &Values, value: u32) -> bool {
        match values {
            Values::Any => true,
            Values::These(values) => values.contains(&value),
        }
    }

    fn sees(versions: &Versions, view: &View) -> bool {
        let latest = versions.last().and_then(|(id, value, _)| value.map(|value| (*id, value)));
        let version = |wanted: u32| {
            versions.iter().find(|(id, ..)| *id == wanted).and_then(|(_, value, _)| *value)
        };
        match view {
            View::Absent => latest.is_none(),
            View::Latest(values, wanted) => latest.is_some_and(|(id, value)| {
                fits(values, value) && wanted.is_none_or(|wanted| wanted == id)
            }),
            View::Version(id, values) => version(*id).is_some_and(|value| fits(values, value)),
            View::NoVersion(id) => version(*id).is_none(),
            View::Present => latest.is_some(),
            View::IsNot(values) => latest.is_none_or(|(_, value)| !fits(values, value)),
            View::Stack { rows, interleaved, latest } => {
                let newest_first = versions.iter().rev().cloned().collect::<Versions>();
                let marks = |row: &Row, version: &(u32, Option<u32>, Option<u64>)| {
                    row.id == version.0
                        && match (&row.value, version.1) {
                            (None, None) => true,
                            (Some(values), Some(value)) => fits(values, value),
                            _ => false,
                        }
                };
                let same = |rows: &[&Row], versions: &[(u32, Option<u32>, Option<u64>)]| {
                    rows.len() == versions.len()
                        && rows.iter().zip(versions).all(|(row, version)| marks(row, version))
                };
                let of_latest = latest
                    .is_none_or(|index| newest_first.first().map(|v| v.0) == Some(rows[index].id));
                of_latest
                    && if *interleaved {
                        same(&rows.iter().collect::<Vec<_>>(), &newest_first)
                    } else {
                        [true, false].iter().all(|marker| {
                            let rows = rows.iter().filter(|row| row.value.is_none() == *marker);
                            let versions = newest_first.iter().filter(|v| v.1.is_none() == *marker);
                            let versions = versions.cloned().collect::<Versions>();
                            same(&rows.collect::<Vec<_>>(), &versions)
                        })
                    }
            }
        }
    }
}

/// Makes small histories by letting operations take effect at random instants, and spoils some.
struct Inventor {
    dice: StdRng,
}

impl Inventor {
    fn history(&mut self) -> Vec<Step> {
        let count = self.dice.random_range(2..=OPERATIONS_MAX);
        let is_versioned = self.dice.random_bool(0.5);
        let mut places = (0..2 * count as u64).collect::<Vec<_>>();
        for index in (1..places.len()).rev() {
            places.swap(index, self.dice.random_range(0..=index));
        }
        // Short intervals as often as long ones.
        if self.dice.random_bool(0.5) {
            places.chunks_mut(6).for_each(<[u64]>::sort_unstable);
        }
        let mut steps = Vec::new();
        for (op, pair) in places.chunks(2).enumerate() {
            let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            let needed = self.dice.random_bool(0.7);
            let to = if !needed && self.dice.random_bool(0.5) { u64::MAX } else { to };
            let what = What::Read(View::Absent);
            steps.push(Step { op: op as u64, from, to, needed, what });
        }
        steps.sort_by_key(|step| step.from);
        let closing =
            self.dice.random_bool(0.3).then(|| self.dice.random_range(0..2 * count as u64));
        let mut instants = Vec::new();
        for (index, step) in steps.iter_mut().enumerate() {
            // A fence closes everything that began before it and was never promised.
            if let Some(fence) = closing.filter(|fence| !step.needed && step.from < *fence) {
                step.to = fence;
            }
            let last = step.to.min(2 * count as u64);
            let instant = f64::from(u32::try_from(step.from).expect("a random history is short"));
            let width =
                f64::from(u32::try_from(last - step.from).expect("a random history is short"));
            instants.push((instant + width * self.dice.random_range(0.01..0.99), index));
        }
        instants.sort_by(|one, two| one.0.total_cmp(&two.0));
        let mut versions = Vec::<(u32, Option<u32>)>::new();
        let mut spare = vec![21, 22, 23];
        for (_, index) in instants {
            let step = &mut steps[index];
            let is_read = step.needed && self.dice.random_bool(0.55);
            step.what = if is_read {
                What::Read(self.view(&versions))
            } else {
                let id = if is_versioned { 10 + index as u32 } else { 0 };
                let (effects, effect) = self.effects(id, is_versioned, &versions, &mut spare);
                let guard = self.guard(&versions);
                if step.needed || self.dice.random_bool(0.5) {
                    match effect {
                        Effect::Put { id, value } => {
                            versions.retain(|(known, _)| *known != id);
                            let is_late = !step.needed && id != 0 && self.dice.random_bool(0.3);
                            let lowest = if is_late { 0 } else { versions.len() };
                            let place = self.dice.random_range(lowest..=versions.len());
                            versions.insert(place, (id, value));
                        }
                        Effect::Remove { id } => versions.retain(|(known, _)| *known != id),
                    }
                }
                What::Write(effects, guard)
            };
        }
        steps
    }

    fn value(&mut self) -> u32 {
        self.dice.random_range(1..=4)
    }

    /// What a write may do, and what it does.
    fn effects(
        &mut self,
        id: u32,
        is_versioned: bool,
        versions: &[(u32, Option<u32>)],
        spare: &mut Vec<u32>,
    ) -> (Vec<Effect>, Effect) {
        let removes = self.dice.random_bool(0.2);
        if removes {
            let index = self.dice.random_range(0..=versions.len());
            let id = versions.get(index).map_or(0, |version| version.0);
            let effect = Effect::Remove { id };
            return (vec![effect], effect);
        }
        let value = if self.dice.random_bool(0.3) { None } else { Some(self.value()) };
        // Markers whose ids were never told: any of those that were seen.
        if is_versioned && self.dice.random_bool(0.3) && spare.len() > 1 {
            let effects = [21, 22, 23].map(|id| Effect::Put { id, value: None }).to_vec();
            let id = spare.remove(self.dice.random_range(0..spare.len()));
            return (effects, Effect::Put { id, value: None });
        }
        let id = if self.dice.random_bool(0.1) { 0 } else { id };
        let effect = Effect::Put { id, value };
        (vec![effect], effect)
    }

    fn guard(&mut self, versions: &[(u32, Option<u32>)]) -> Guard {
        if self.dice.random_bool(0.8) {
            return Guard::Always;
        }
        match versions.last().and_then(|(_, value)| *value) {
            None => Guard::Absent,
            Some(value) => Guard::Is(self.values(value)),
        }
    }

    fn values(&mut self, value: u32) -> Values {
        match self.dice.random_range(0..10) {
            0 => Values::Any,
            1 => Values::These(vec![value, self.value()]),
            _ => Values::These(vec![value]),
        }
    }

    fn view(&mut self, versions: &[(u32, Option<u32>)]) -> View {
        let latest = versions.last().and_then(|(id, value)| value.map(|value| (*id, value)));
        match (self.dice.random_range(0..8), latest) {
            (0, _) => {
                let id = self.dice.random_range(0..18);
                match versions.iter().find(|(known, _)| *known == id).and_then(|(_, value)| *value)
                {
                    Some(value) => View::Version(id, self.values(value)),
                    None => View::NoVersion(id),
                }
            }
            (1 | 2, _) => {
                let interleaved = self.dice.random_bool(0.5);
                let mut rows = Vec::new();
                for (id, value) in versions.iter().rev() {
                    rows.push(Row { id: *id, value: value.map(|value| self.values(value)) });
                }
                let has_latest = !rows.is_empty() && self.dice.random_bool(0.5);
                let mut latest = has_latest.then_some(0);
                if !interleaved {
                    let first = rows.first().map(|row| row.id);
                    rows.sort_by_key(|row| row.value.is_some());
                    latest = latest.and_then(|_| rows.iter().position(|row| Some(row.id) == first));
                }
                View::Stack { rows, interleaved, latest }
            }
            (3, Some(_)) => View::Present,
            (4, Some((_, value))) => View::IsNot(Values::These(vec![value % 4 + 1])),
            (_, Some((id, value))) => {
                View::Latest(self.values(value), self.dice.random_bool(0.4).then_some(id))
            }
            (_, None) => View::Absent,
        }
    }

    /// Changes one thing of a history.
    fn spoil(&mut self, steps: &mut [Step]) {
        let index = self.dice.random_range(0..steps.len());
        match self.dice.random_range(0..4) {
            0 => {
                let other = self.dice.random_range(0..steps.len());
                let what = steps[index].what.clone();
                let is_swapped = !matches!(what, What::Read(_)) || steps[other].needed;
                let goes = !matches!(steps[other].what, What::Read(_)) || steps[index].needed;
                if is_swapped && goes {
                    steps[index].what = std::mem::replace(&mut steps[other].what, what);
                }
            }
            1 => {
                let versions = [(0, Some(self.value())), (11, None), (12, Some(self.value()))];
                let length = self.dice.random_range(0..=3);
                if steps[index].needed {
                    steps[index].what = What::Read(self.view(&versions[..length]));
                }
            }
            2 if steps[index].to != u64::MAX => steps[index].needed = true,
            _ => {
                if let What::Write(effects, _) = &mut steps[index].what
                    && let [Effect::Put { value: Some(value), .. }] = effects.as_mut_slice()
                {
                    *value = *value % 4 + 1;
                }
            }
        }
    }
}

/// One step a line.
fn text(steps: &[Step]) -> String {
    let lines = steps.iter().map(|step| {
        let Step { op, from, to, needed, what } = step;
        format!("\n  {op}: {from}..{to} {} {what:?}", if *needed { "promised" } else { "open" })
    });
    lines.collect()
}

#[test]
fn the_checker_agrees_with_trying_everything() {
    agree_on_histories(20_261_129);
}

#[test]
fn the_checker_agrees_with_trying_everything_again() {
    agree_on_histories(20_261_130);
}

/// Goal: the checker that judges real runs and a plain one that tries everything never disagree.
fn agree_on_histories(seed: u64) {
    let mut inventor = Inventor { dice: StdRng::seed_from_u64(seed) };
    let (mut legal, mut illegal) = (0, 0);
    let mut invented = 0_u64;
    while legal + illegal < HISTORIES {
        invented += 1;
        assert!(
            invented < 40 * HISTORIES as u64,
            "{legal} legal, {illegal} illegal: too one-sided"
        );
        let mut steps = inventor.history();
        if illegal < HISTORIES / 2 {
            inventor.spoil(&mut steps);
        }
        let expected = exhaustive::is_legal(&steps);
        let (count, answer) =
            (if expected { &mut legal } else { &mut illegal }, search::search(&steps, 1 << 22));
        if *count == HISTORIES / 2 {
            continue;
        }
        *count += 1;
        let agrees = match answer {
            Answer::Legal => expected,
            Answer::Illegal(_) => !expected,
            Answer::Budget(_) => false,
        };
        assert!(
            agrees,
            "history {invented}: legal is {expected}, the checker says {answer:?}:{}",
            text(&steps)
        );
    }
    println!("{legal} legal and {illegal} illegal histories of {invented}");
}

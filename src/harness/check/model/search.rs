//! Whether one key's history has an order that explains it: a search, with a bound. Pure.
//!
//! It walks through the history once and keeps every state that the key can be in (a *configuration*:
//! the versions, and which of the operations under way have taken effect). An operation takes effect
//! only when something makes it necessary: the end of an acknowledged one, or something that was seen.
//! That loses nothing, because an effect that nobody has seen can as well come later or, when it was
//! never promised, not at all. So the usual history costs one configuration and the time to read it.
//!
//! A read is taken as soon as it fits: it changes nothing, so earlier is never worse.
//!
//! A write whose end nobody knows may come to light late, when a drive that was away returns, and then
//! lies where its own time puts it: below versions that came since, though above all whose writes had
//! ended before it began.
//!
//! # Sources
//! Wing and Gong, "Testing and Verifying Concurrent Objects" (1993); Lowe, "Testing for
//! Linearizability" (2017), for working from the ends of operations.

mod worth;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use self::worth::Wanted;
use self::worth::could_help;
use super::bits::Bits;
use super::configurations::Configuration;
use super::configurations::Configurations;
use super::order::Order;
use super::order::Relation;
use super::stack;
use super::stack::Effect;
use super::stack::Guard;
use super::stack::Id;
use super::stack::NULL;
use super::stack::Stack;
use super::stack::View;

/// Configurations that one key may cost before it is given up.
pub const BUDGET: u64 = 1_000_000;

/// How many entries of a stack are held against what listings say of their order, at once: enough to
/// leave most wrong ways early, and no more than it costs. The listings themselves decide.
const NEAR: usize = 4;

/// One operation on the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The operation's number, for findings.
    pub op: u64,
    /// Where it began.
    pub from: u64,
    /// Where it had taken effect for certain; for one that is not `needed`, where it no longer can.
    pub to: u64,
    /// Whether it took effect for certain. A read always did.
    pub needed: bool,
    /// What it does.
    pub what: What,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// One of these effects, at an instant at which the guard holds.
    Write(Vec<Effect>, Guard),
    /// It saw this.
    Read(View),
}

/// What the search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is an order that explains everything.
    Legal,
    /// There is none; the step at this position is the first that cannot be explained.
    Illegal(usize),
    /// The bound was reached at the step at this position.
    Budget(usize),
}

/// Searches for an order of `steps` (in the order of their beginnings) that starts with a key
/// without versions. At most about `budget` configurations are looked at.
pub fn search(steps: &[Step], budget: u64) -> Answer {
    let mut search = Search::new(steps, budget);
    for event in events(steps) {
        let position = event.position();
        let went = match event {
            Event::Begin(step) => search.begin(step),
            Event::End(step) => search.end(step),
            Event::Close(step) => search.close(step),
        };
        match went {
            Ok(()) if search.now.is_empty() => return Answer::Illegal(position),
            Ok(()) => {}
            Err(Exhausted) => return Answer::Budget(position),
        }
    }
    Answer::Legal
}

/// The bound was reached.
struct Exhausted;

#[derive(Debug, Clone, Copy)]
enum Event {
    Begin(usize),
    End(usize),
    /// All steps that no longer can take effect from here on are closed with the first of them.
    Close(usize),
}

impl Event {
    fn position(self) -> usize {
        let (Self::Begin(step) | Self::End(step) | Self::Close(step)) = self;
        step
    }
}

fn events(steps: &[Step]) -> Vec<Event> {
    let mut events = Vec::with_capacity(2 * steps.len());
    let mut closing = BTreeMap::new();
    for (position, step) in steps.iter().enumerate() {
        events.push((step.from, 0, Event::Begin(position)));
        if step.needed {
            events.push((step.to, 1, Event::End(position)));
        } else if step.to != u64::MAX {
            closing.entry(step.to).or_insert(position);
        }
    }
    events.extend(closing.into_iter().map(|(to, step)| (to, 2, Event::Close(step))));
    events.sort_by_key(|(seq, order, event)| (*seq, *order, event.position()));
    events.into_iter().map(|(_, _, event)| event).collect()
}

struct Search<'a> {
    steps: &'a [Step],
    /// For each step, the first one that asks for exactly the same.
    alike: Vec<usize>,
    /// What listings say about which version came first.
    order: Order,
    /// Where the numbered versions of promised writes were there for certain.
    made: BTreeMap<Id, u64>,
    /// Ids that some step removes: what lies below them may come to light.
    removed: BTreeSet<Id>,
    /// Ids that more than one step could have made; each only once.
    contested: BTreeMap<Id, usize>,
    /// Whether some step makes a null version.
    has_null: bool,
    /// The last place at which each thing was seen: nothing is kept for later that nobody looks at.
    seen_last: Vec<u64>,
    /// The steps under way, by slot.
    slots: Vec<Option<usize>>,
    /// The slot of each step under way.
    slot_of: BTreeMap<usize, usize>,
    now: Vec<Configuration>,
    budget: u64,
}

impl<'a> Search<'a> {
    fn new(steps: &'a [Step], budget: u64) -> Self {
        let mut first = BTreeMap::new();
        let alike = steps.iter().enumerate().map(|(position, step)| {
            if step.needed { position } else { *first.entry(&step.what).or_insert(position) }
        });
        let alike = alike.collect();
        let mut makers = BTreeMap::<Id, (usize, bool)>::new();
        for step in steps {
            let What::Write(effects, _) = &step.what else { continue };
            let is_unsure = !step.needed || effects.len() > 1;
            let made = effects.iter().filter_map(|effect| match effect {
                Effect::Put { id, .. } if *id != NULL => Some(*id),
                _ => None,
            });
            for id in made.collect::<BTreeSet<_>>() {
                let (count, unsure) = makers.entry(id).or_default();
                *count += 1;
                *unsure |= is_unsure;
            }
        }
        let contested = makers.into_iter().filter(|(_, (count, unsure))| *count > 1 && *unsure);
        let contested = contested.enumerate().map(|(index, (id, _))| (id, index)).collect();
        let mut search = Self {
            steps,
            alike,
            order: Order::of(steps),
            made: made(steps),
            removed: removed(steps),
            contested,
            has_null: steps.iter().any(makes_null),
            seen_last: Vec::new(),
            slots: Vec::new(),
            slot_of: BTreeMap::new(),
            now: vec![Configuration::default()],
            budget,
        };
        search.seen_last = steps.iter().map(|step| search.last_look_at(step)).collect();
        search
    }

    /// The last place at which somebody saw something that `step`, which was never promised, helps.
    fn last_look_at(&self, step: &Step) -> u64 {
        let What::Write(effects, _) = &step.what else { return 0 };
        if step.needed {
            return 0;
        }
        let looks = self.steps.iter().filter_map(|other| match other.needed {
            true => (other.to > step.from).then_some((other, other.to)),
            // Another that was never promised may have needed it, and be seen later itself.
            false => (other.to >= step.from && other.op != step.op).then_some((other, u64::MAX)),
        });
        let helped = looks.filter(|(other, _)| {
            effects.iter().any(|effect| could_help(*effect, &other.what, None))
        });
        helped.map(|(_, to)| to).max().unwrap_or(0)
    }

    fn spend(&mut self, cost: u64) -> Result<(), Exhausted> {
        self.budget = self.budget.checked_sub(cost).ok_or(Exhausted)?;
        Ok(())
    }

    /// A step comes under way. A read may fit at once.
    fn begin(&mut self, position: usize) -> Result<(), Exhausted> {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.slots.len());
        if slot >= Bits::CAPACITY || self.contested.len() > Bits::CAPACITY {
            return Err(Exhausted);
        }
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(position);
        self.slot_of.insert(position, slot);
        if let What::Read(view) = &self.steps[position].what {
            for configuration in &mut self.now {
                if view.fits(&configuration.stack) {
                    configuration.done.set(slot);
                }
            }
        }
        Ok(())
    }

    /// A step has taken effect for certain: every configuration has it, or finds a way to, or is gone.
    fn end(&mut self, position: usize) -> Result<(), Exhausted> {
        let slot = self.slot_of[&position];
        let mut next = Configurations::default();
        for configuration in std::mem::take(&mut self.now) {
            self.spend(1)?;
            if configuration.done.has(slot) {
                next.insert(configuration);
            } else {
                self.reach(configuration, Some(slot), &Wanted::default(), &mut next)?;
            }
        }
        self.now = next.into_vec();
        self.leave(position);
        Ok(())
    }

    /// Steps that were never promised can take effect no more: those that somebody sees later may do
    /// so now, in any order.
    fn close(&mut self, first: usize) -> Result<(), Exhausted> {
        let to = self.steps[first].to;
        let closing = self.slots.iter().flatten().copied();
        let closing =
            closing.filter(|step| !self.steps[*step].needed && self.steps[*step].to == to);
        let closing = closing.collect::<Vec<_>>();
        let wanted = closing.iter().filter(|step| self.seen_last[**step] > to);
        let wanted = wanted.map(|step| self.slot_of[step]).collect::<Vec<_>>();
        if !wanted.is_empty() {
            let wanted = self.wanted(wanted, to);
            let mut next = Configurations::default();
            for configuration in std::mem::take(&mut self.now) {
                self.spend(1)?;
                if wanted.is_there(&configuration.stack) {
                    next.insert(configuration.clone());
                }
                self.reach(configuration, None, &wanted, &mut next)?;
            }
            self.now = next.into_vec();
        }
        for step in closing {
            self.leave(step);
        }
        // Configurations that differed only in what was closed are one now.
        let mut merged = Configurations::default();
        for configuration in std::mem::take(&mut self.now) {
            merged.insert(configuration);
        }
        self.now = merged.into_vec();
        Ok(())
    }

    fn leave(&mut self, position: usize) {
        let Some(slot) = self.slot_of.remove(&position) else { return };
        self.slots[slot] = None;
        for configuration in &mut self.now {
            configuration.done.clear(slot);
            configuration.spent.clear(slot);
        }
    }

    /// Adds to `found` what can be reached from `start`: with `goal`, every configuration in which that
    /// slot has just taken effect; without, every one that the `wanted` slots lead to and that has all they must.
    fn reach(
        &mut self,
        start: Configuration,
        goal: Option<usize>,
        wanted: &Wanted,
        found: &mut Configurations,
    ) -> Result<(), Exhausted> {
        let mut visited = Configurations::default();
        let mut todo = vec![start];
        while let Some(here) = todo.pop() {
            self.spend(1 + here.stack.len() as u64 / 256)?;
            let needs = self.needs(&here, wanted);
            for slot in 0..self.slots.len() {
                let Some(position) = self.slots[slot] else { continue };
                let What::Write(effects, guard) = &self.steps[position].what else { continue };
                if here.done.has(slot) || here.spent.has(slot) || !guard.allows(&here.stack) {
                    continue;
                }
                let is_goal = goal == Some(slot);
                for effect in effects {
                    let depth = match is_goal {
                        true => Some(usize::MAX),
                        false => self.worth(&here, slot, *effect, wanted, &needs),
                    };
                    let Some(depth) = depth else { continue };
                    if !self.may_come(&here, *effect) {
                        continue;
                    }
                    for above in 0..=self.places(&here.stack, position, *effect).min(depth) {
                        if !self.lies_well(&here.stack, *effect, above)
                            || !is_goal && self.has_twin(&here, position, *effect, above)
                        {
                            continue;
                        }
                        let Some(there) = self.step(&here, slot, position, *effect, above) else {
                            continue;
                        };
                        self.spend(1)?;
                        let is_there = goal.is_some_and(|goal| there.done.has(goal));
                        if is_there {
                            found.insert(there);
                        } else if visited.insert(there.clone()) {
                            if goal.is_none() && wanted.is_there(&there.stack) {
                                found.insert(there.clone());
                            }
                            todo.push(there);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// How many versions from the top what the step makes may come to lie below.
    fn places(&self, stack: &Stack, position: usize, effect: Effect) -> usize {
        let step = &self.steps[position];
        let Effect::Put { id, .. } = effect else { return 0 };
        if step.needed || id == NULL {
            return 0;
        }
        let newer = stack.iter().rev().take_while(|entry| {
            self.made.get(&entry.id).is_none_or(|made| *made > step.from)
                && self.order.relation(id, entry.id) != Relation::Above
        });
        newer.count()
    }

    /// Whether what `effect` makes may come at all: its id is free, and what every listing shows right below
    /// it is there.
    fn may_come(&self, here: &Configuration, effect: Effect) -> bool {
        let Effect::Put { id, .. } = effect else { return true };
        if self.contested.get(&id).is_some_and(|index| here.used.has(*index)) {
            return false;
        }
        let mut promised = self.order.right_below(id).filter(|below| self.made.contains_key(below));
        promised.all(|below| stack::holds(&here.stack, below))
    }

    /// Whether listings allow what `effect` makes to lie `above` entries from the top of `stack`. That none of
    /// those above it belongs below is [`places`](Self::places)' business.
    fn lies_well(&self, stack: &Stack, effect: Effect, above: usize) -> bool {
        let Effect::Put { id, .. } = effect else { return true };
        let mut rest = stack.iter().rev().skip(above).take(NEAR);
        rest.all(|entry| self.order.relation(id, entry.id) != Relation::Below)
    }

    /// `here` after the step in `slot` took `effect`, `above` entries from the top, with every read that
    /// fits now; `None` when an id in use rules it out.
    fn step(
        &self,
        here: &Configuration,
        slot: usize,
        position: usize,
        effect: Effect,
        above: usize,
    ) -> Option<Configuration> {
        let mut there = here.clone();
        if let Effect::Put { id, .. } = effect
            && let Some(index) = self.contested.get(&id)
        {
            there.used.set(*index);
        }
        if !effect.apply_late(&mut there.stack, above) {
            return None;
        }
        if self.steps[position].needed {
            there.done.set(slot);
        } else {
            there.spent.set(slot);
        }
        for (slot, step) in self.slots.iter().enumerate() {
            if let Some(step) = step
                && let What::Read(view) = &self.steps[*step].what
                && !there.done.has(slot)
                && view.fits(&there.stack)
            {
                there.done.set(slot);
            }
        }
        Some(there)
    }
}

/// Whether a step can make a null version.
fn makes_null(step: &Step) -> bool {
    let is_null = |effect: &Effect| matches!(effect, Effect::Put { id: NULL, .. });
    matches!(&step.what, What::Write(effects, _) if effects.iter().any(is_null))
}

/// Where each numbered version that a promised write made for certain was there.
fn made(steps: &[Step]) -> BTreeMap<Id, u64> {
    let made = steps.iter().filter_map(|step| match &step.what {
        What::Write(effects, _) if step.needed => match effects.as_slice() {
            [Effect::Put { id, .. }] if *id != NULL => Some((*id, step.to)),
            _ => None,
        },
        _ => None,
    });
    made.collect()
}

/// Ids that some step removes.
fn removed(steps: &[Step]) -> BTreeSet<Id> {
    let effects = steps.iter().filter_map(|step| match &step.what {
        What::Write(effects, _) => Some(effects),
        What::Read(_) => None,
    });
    let removed = effects.flatten().filter_map(|effect| match effect {
        Effect::Remove { id } => Some(*id),
        Effect::Put { .. } => None,
    });
    removed.collect()
}

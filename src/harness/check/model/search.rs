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

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashSet;

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

/// What a configuration waits for.
struct Needs {
    /// Steps under way that another could help.
    waiting: Vec<usize>,
    /// Versions that a listing waits for next.
    lacking: BTreeSet<Id>,
}

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
                self.reach(configuration, Some(slot), &[], &mut next)?;
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
            let mut next = Configurations::default();
            for configuration in std::mem::take(&mut self.now) {
                self.spend(1)?;
                next.insert(configuration.clone());
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
    /// slot has just taken effect; without, every one that any of the `wanted` slots leads to.
    fn reach(
        &mut self,
        start: Configuration,
        goal: Option<usize>,
        wanted: &[usize],
        found: &mut Configurations,
    ) -> Result<(), Exhausted> {
        let mut visited = Configurations::default();
        let mut todo = vec![start];
        while let Some(here) = todo.pop() {
            self.spend(1 + here.stack.len() as u64 / 256)?;
            let needs = Needs { waiting: self.waiting(&here), lacking: self.lacking(&here) };
            for slot in 0..self.slots.len() {
                let Some(position) = self.slots[slot] else { continue };
                let What::Write(effects, guard) = &self.steps[position].what else { continue };
                if here.done.has(slot) || here.spent.has(slot) || !guard.allows(&here.stack) {
                    continue;
                }
                let is_goal = goal == Some(slot);
                for effect in effects {
                    if !is_goal && !self.is_worth_trying(&here, slot, *effect, wanted, &needs) {
                        continue;
                    }
                    if !self.may_come(&here, *effect) {
                        continue;
                    }
                    for above in 0..=self.places(&here.stack, position, *effect) {
                        if !self.lies_well(&here.stack, *effect, above) {
                            continue;
                        }
                        let Some(there) = self.step(&here, slot, position, *effect, above) else {
                            continue;
                        };
                        self.spend(1)?;
                        let is_there = goal.is_some_and(|goal| there.done.has(goal));
                        if is_there {
                            found.insert(there);
                        } else if goal.is_none() {
                            if found.insert(there.clone()) {
                                todo.push(there);
                            }
                        } else if visited.insert(there.clone()) {
                            todo.push(there);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The steps under way that another could help: reads, conditional writes, and what a null version may have
    /// to come before.
    fn waiting(&self, here: &Configuration) -> Vec<usize> {
        let is_numbered = |effect: &Effect| matches!(effect, Effect::Put { id, .. } if *id != NULL);
        let slots = self.slots.iter().enumerate();
        let pending = slots.filter(|(slot, _)| !here.done.has(*slot) && !here.spent.has(*slot));
        let pending = pending.filter_map(|(_, step)| *step);
        let can_be_helped = |step: &usize| match &self.steps[*step].what {
            What::Read(_) => true,
            What::Write(effects, Guard::Always) => self.has_null && effects.iter().any(is_numbered),
            What::Write(..) => true,
        };
        pending.filter(can_be_helped).collect()
    }

    /// Of every listing that waits, the lowest numbered row that the stack lacks, among those whose order is
    /// known. What lies above it can wait until it is there: late versions find their places in any order,
    /// so that one order is enough.
    fn lacking(&self, here: &Configuration) -> BTreeSet<Id> {
        let mut lacking = BTreeSet::new();
        let mut present = None;
        for (slot, step) in self.slots.iter().enumerate() {
            let Some(step) = step.filter(|_| !here.done.has(slot)) else { continue };
            let What::Read(View::Stack { rows, interleaved, .. }) = &self.steps[step].what else {
                continue;
            };
            let present = present.get_or_insert_with(|| {
                here.stack.iter().map(|entry| entry.id).collect::<HashSet<_>>()
            });
            let mut is_found = [false; 2];
            for row in rows.iter().rev().filter(|row| row.id != NULL) {
                let kind = usize::from(row.value.is_none() && !interleaved);
                if !is_found[kind] && !present.contains(&row.id) {
                    is_found[kind] = true;
                    lacking.insert(row.id);
                }
            }
        }
        lacking
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

    /// Whether it could matter that the step in `slot` takes `effect` now. One that was promised always
    /// could. One that was not does only if it helps something that waits, or is wanted.
    fn is_worth_trying(
        &self,
        here: &Configuration,
        slot: usize,
        effect: Effect,
        wanted: &[usize],
        needs: &Needs,
    ) -> bool {
        let Some(position) = self.slots[slot] else { return false };
        self.steps[position].needed
            || self.helps(here, position, effect, wanted.contains(&slot), needs)
                && !self.has_twin(here, position)
    }

    /// Whether another that asks for the same is to be tried first.
    fn has_twin(&self, here: &Configuration, position: usize) -> bool {
        let mut pending = self.slots.iter().enumerate();
        pending.any(|(other, twin)| {
            twin.is_some_and(|twin| {
                self.alike[twin] == self.alike[position]
                    && !self.steps[twin].needed
                    && (self.steps[twin].to, twin) < (self.steps[position].to, position)
                    && !here.spent.has(other)
            })
        })
    }

    /// Whether the step at `position`, which was never promised, helps something by `effect`.
    fn helps(
        &self,
        here: &Configuration,
        position: usize,
        effect: Effect,
        is_wanted: bool,
        needs: &Needs,
    ) -> bool {
        let step = &self.steps[position];
        let What::Write(_, guard) = &step.what else { return false };
        // What its condition asks for may not hold any more when it is needed.
        if is_wanted || *guard != Guard::Always && self.seen_last[position] > 0 {
            return true;
        }
        needs.waiting.iter().filter(|waiting| **waiting != position).any(|waiting| {
            let what = &self.steps[*waiting].what;
            if let (What::Read(View::Stack { .. }), Effect::Put { id, .. }) = (what, effect)
                && id != NULL
                && *guard == Guard::Always
                && !needs.lacking.contains(&id)
            {
                return false;
            }
            could_help(effect, what, Some(&here.stack)) || self.may_lie_below(effect, what)
        })
    }

    /// Whether the null version that `effect` makes may have to come before what the waiting write makes:
    /// a listing shows both, or it may come to light when the other goes. Numbered versions can come
    /// late and still lie below.
    fn may_lie_below(&self, effect: Effect, waiting: &What) -> bool {
        let (Effect::Put { id: NULL, .. }, What::Write(effects, _)) = (effect, waiting) else {
            return false;
        };
        effects.iter().any(|above| match *above {
            Effect::Put { id: above, .. } if above != NULL => {
                self.order.relation(NULL, above) != Relation::Unlisted
                    || self.removed.contains(&above)
            }
            _ => false,
        })
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

/// Whether `effect` could bring about what `waiting` needs. Without a stack, whether it could on any.
fn could_help(effect: Effect, waiting: &What, stack: Option<&Stack>) -> bool {
    let holds = |id| stack.is_none_or(|stack| stack::holds(stack, id));
    let view = match waiting {
        What::Read(view) => view,
        What::Write(_, Guard::Always) => return false,
        What::Write(_, Guard::Absent) => &View::Absent,
        What::Write(_, Guard::Is(values)) => &View::Latest(values.clone(), None),
    };
    match (view, effect) {
        (View::NoVersion(id), Effect::Remove { id: removed }) => *id == removed && holds(removed),
        (View::Version(..), Effect::Remove { .. }) => false,
        (View::Stack { rows, .. }, Effect::Remove { id }) => {
            // A null version that goes makes room for nothing; one that is listed may lie elsewhere.
            holds(id) && !rows.iter().any(|row| row.id == id)
        }
        (_, Effect::Remove { id }) => holds(id),
        (View::Absent, Effect::Put { value, .. }) => value.is_none(),
        (View::Latest(values, wanted), Effect::Put { id, value }) => {
            value.is_some_and(|value| values.has(value)) && wanted.is_none_or(|wanted| wanted == id)
        }
        (View::Version(wanted, values), Effect::Put { id, value }) => {
            *wanted == id && value.is_some_and(|value| values.has(value))
        }
        (View::NoVersion(wanted), Effect::Put { id, value }) => *wanted == id && value.is_none(),
        (View::Stack { rows, .. }, Effect::Put { id, value }) => rows.iter().any(|row| {
            row.id == id
                && match (&row.value, value) {
                    (None, None) => true,
                    (Some(values), Some(value)) => values.has(value),
                    _ => false,
                }
        }),
        (View::Present, Effect::Put { value, .. }) => value.is_some(),
        (View::IsNot(values), Effect::Put { value, .. }) => {
            value.is_none_or(|value| !values.has(value))
        }
    }
}

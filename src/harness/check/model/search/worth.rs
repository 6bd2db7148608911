//! Which effects are worth trying: those that help something that waits. Pure.

use std::collections::BTreeSet;
use std::collections::HashSet;

use super::Search;
use super::What;
use crate::harness::check::model::configurations::Configuration;
use crate::harness::check::model::order::Relation;
use crate::harness::check::model::stack;
use crate::harness::check::model::stack::Effect;
use crate::harness::check::model::stack::Guard;
use crate::harness::check::model::stack::Id;
use crate::harness::check::model::stack::NULL;
use crate::harness::check::model::stack::Stack;
use crate::harness::check::model::stack::View;

/// What a configuration waits for.
pub(super) struct Needs {
    /// Steps under way that another could help.
    waiting: Vec<usize>,
    /// Versions that a listing waits for next.
    lacking: BTreeSet<Id>,
    /// Of those that later listings order, the ones whose turn it is.
    turns: BTreeSet<Id>,
}

/// Slots of steps that can take effect now or never, and are seen later.
#[derive(Default)]
pub(super) struct Wanted {
    slots: Vec<usize>,
    /// For each later listing, the versions that only these steps can make, the lowest first.
    orders: Vec<Vec<Id>>,
    /// Versions that nothing removes and that a later listing does not show.
    denied: BTreeSet<Id>,
}

impl Wanted {
    /// Whether everything is there that later listings show and nothing can make any more.
    pub(super) fn is_there(&self, stack: &Stack) -> bool {
        self.orders.iter().flatten().all(|id| stack::holds(stack, *id))
    }
}

impl Search<'_> {
    /// What `here` waits for.
    pub(super) fn needs(&self, here: &Configuration, wanted: &Wanted) -> Needs {
        let turn =
            |order: &Vec<Id>| order.iter().copied().find(|id| !stack::holds(&here.stack, *id));
        let turns = wanted.orders.iter().filter_map(turn).collect();
        Needs { waiting: self.waiting(here), lacking: self.lacking(here), turns }
    }

    /// The steps in `slots`, which can take effect no more after `to`. What a later listing shows of them has to
    /// be there by then, so that one order of it is enough, as for a listing that waits.
    pub(super) fn wanted(&self, slots: Vec<usize>, to: u64) -> Wanted {
        let closing: Vec<_> = slots.iter().filter_map(|slot| self.slots[*slot]).collect();
        let is_late = |step: &usize| self.steps[*step].to > to;
        let (mut only_now, mut made) = (BTreeSet::new(), BTreeSet::new());
        for step in closing {
            let What::Write(effects, guard) = &self.steps[step].what else { continue };
            made.extend(effects.iter().filter_map(numbered));
            if *guard == Guard::Always {
                only_now.extend(effects.iter().filter_map(numbered));
            }
        }
        for step in (0..self.steps.len()).filter(is_late) {
            let What::Write(effects, _) = &self.steps[step].what else { continue };
            for id in effects.iter().filter_map(numbered) {
                only_now.remove(&id);
            }
        }
        let mut orders = BTreeSet::new();
        let mut denied = BTreeSet::new();
        for step in (0..self.steps.len()).filter(is_late).map(|step| &self.steps[step]) {
            let What::Read(View::Stack { rows, interleaved, .. }) = &step.what else { continue };
            let mut kinds = [Vec::new(), Vec::new()];
            let is_made =
                |id: &Id| only_now.contains(id) && (step.from > to || !self.removed.contains(id));
            for row in rows.iter().rev().filter(|row| is_made(&row.id)) {
                kinds[usize::from(row.value.is_none() && !interleaved)].push(row.id);
            }
            orders.extend(kinds.into_iter().filter(|kind| !kind.is_empty()));
            if step.from > to {
                let shown: BTreeSet<Id> = rows.iter().map(|row| row.id).collect();
                denied.extend(made.difference(&shown).filter(|id| !self.removed.contains(id)));
            }
        }
        Wanted { slots, orders: orders.into_iter().collect(), denied }
    }

    /// The steps under way that another could help: reads, conditional writes, and what a null version may have
    /// to come before.
    fn waiting(&self, here: &Configuration) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        let pending = slots.filter(|(slot, _)| !here.done.has(*slot) && !here.spent.has(*slot));
        let pending = pending.filter_map(|(_, step)| *step);
        let can_be_helped = |step: &usize| match &self.steps[*step].what {
            What::Read(_) => true,
            What::Write(effects, Guard::Always) => {
                self.has_null && effects.iter().any(|effect| numbered(effect).is_some())
            }
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

    /// Below how many versions from the top it could matter that the step in `slot` takes `effect` now. One that
    /// was promised always could. One that was not does only if it helps something that waits, or is wanted.
    pub(super) fn worth(
        &self,
        here: &Configuration,
        slot: usize,
        effect: Effect,
        wanted: &Wanted,
        needs: &Needs,
    ) -> Option<usize> {
        let position = self.slots[slot]?;
        if self.steps[position].needed {
            return Some(usize::MAX);
        }
        let is_wanted = wanted.slots.contains(&slot)
            && numbered(&effect).is_none_or(|id| {
                let has_order = wanted.orders.iter().any(|order| order.contains(&id));
                !wanted.denied.contains(&id) && (!has_order || needs.turns.contains(&id))
            });
        self.help(here, position, effect, is_wanted, needs)
    }

    /// Whether another that asks for the same is to be used first: one that could take `effect` there as well, and
    /// could do nothing later that this one could not.
    pub(super) fn has_twin(
        &self,
        here: &Configuration,
        position: usize,
        effect: Effect,
        above: usize,
    ) -> bool {
        let mine = &self.steps[position];
        let mut pending = self.slots.iter().enumerate();
        !mine.needed
            && pending.any(|(other, twin)| {
                twin.is_some_and(|twin| {
                    let its = &self.steps[twin];
                    let is_worse = its.to <= mine.to && its.from >= mine.from;
                    self.alike[twin] == self.alike[position]
                        && !its.needed
                        && is_worse
                        && ((its.to, its.from) != (mine.to, mine.from) || twin < position)
                        && !here.spent.has(other)
                        && (above == 0 || above <= self.places(&here.stack, twin, effect))
                })
            })
    }

    /// Below how many versions from the top the step at `position`, which was never promised, could help something
    /// by `effect`.
    fn help(
        &self,
        here: &Configuration,
        position: usize,
        effect: Effect,
        is_wanted: bool,
        needs: &Needs,
    ) -> Option<usize> {
        let step = &self.steps[position];
        let What::Write(_, guard) = &step.what else { return None };
        // What its condition asks for may not hold any more when it is needed.
        if is_wanted || *guard != Guard::Always && self.seen_last[position] > 0 {
            return Some(usize::MAX);
        }
        let others = needs.waiting.iter().filter(|waiting| **waiting != position);
        let depths = others.filter_map(|waiting| {
            let what = &self.steps[*waiting].what;
            if let What::Read(View::Stack { .. }) = what
                && numbered(&effect).is_some_and(|id| !needs.lacking.contains(&id))
                && *guard == Guard::Always
            {
                return None;
            }
            if self.may_lie_below(effect, what) {
                return Some(usize::MAX);
            }
            could_help(effect, what, Some(&here.stack)).then(|| match what {
                What::Read(View::Stack { .. } | View::Version(..) | View::NoVersion(_)) => {
                    usize::MAX
                }
                // Only what is on top is looked at, or comes to be when those above it go.
                _ => {
                    let top = here.stack.iter().rev();
                    top.take_while(|entry| self.removed.contains(&entry.id)).count()
                }
            })
        });
        depths.max()
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

/// The numbered version that `effect` makes.
fn numbered(effect: &Effect) -> Option<Id> {
    match *effect {
        Effect::Put { id, .. } if id != NULL => Some(id),
        _ => None,
    }
}

/// Whether `effect` could bring about what `waiting` needs. Without a stack, whether it could on any.
pub(super) fn could_help(effect: Effect, waiting: &What, stack: Option<&Stack>) -> bool {
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

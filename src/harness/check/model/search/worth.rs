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
}

impl Search<'_> {
    /// What `here` waits for.
    pub(super) fn needs(&self, here: &Configuration) -> Needs {
        Needs { waiting: self.waiting(here), lacking: self.lacking(here) }
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

    /// Whether it could matter that the step in `slot` takes `effect` now. One that was promised always
    /// could. One that was not does only if it helps something that waits, or is wanted.
    pub(super) fn is_worth_trying(
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

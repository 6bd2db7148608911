//! What the null version of a key may be in the end. Pure.
//!
//! It is whatever the last write to it made of it. Several may have been last: of two writes one came
//! first only if it had taken effect before the other began, and one that was never acknowledged nor
//! seen may also not have taken effect at all.

use super::stack::Effect;
use super::stack::NULL;
use super::stack::Value;
use super::stack::Values;
use super::story::Story;
use super::story::Told;

/// What the null version can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// An object; as something seen, with any of these contents.
    Object(Values),
    /// A delete marker.
    Marker,
    /// Not there.
    Nothing,
}

/// What may be found, and which promises say so.
#[derive(Debug)]
pub struct NullSlot<'a, 'b> {
    /// What it may be.
    pub legal: Vec<State>,
    /// Writes that took effect for certain and may have been the last. Empty when nothing was promised.
    pub last: Vec<&'b Told<'a>>,
}

impl<'a, 'b> NullSlot<'a, 'b> {
    /// The null version of the key of `story`; `None` when no write was about it, or when it is not
    /// certain which writes were.
    pub fn of(story: &'b Story<'a>) -> Option<Self> {
        let writes = story.writes.iter().filter(|told| told.may_be_of_null()).collect::<Vec<_>>();
        if writes.is_empty() || writes.iter().any(|told| told.is_certain() && !told.is_of_null()) {
            return None;
        }
        let certain = writes.iter().filter(|told| told.is_certain());
        let certain = certain.copied().collect::<Vec<_>>();
        let may_be_last = |told: &&Told<'_>| !certain.iter().any(|other| told.precedes(other));
        let mut legal = Vec::new();
        for told in writes.iter().filter(|told| may_be_last(told)) {
            for effect in &told.effects {
                legal.push(match *effect {
                    Effect::Put { id: NULL, value: Some(value) } => {
                        State::Object(Values::These(vec![value]))
                    }
                    Effect::Put { id: NULL, value: None } => State::Marker,
                    Effect::Remove { id: NULL } => State::Nothing,
                    _ => continue,
                });
            }
        }
        if certain.is_empty() {
            legal.push(State::Nothing);
        }
        let last = certain.iter().copied().filter(|told| may_be_last(told)).collect();
        Some(Self { legal, last })
    }

    /// Whether the null version may be found like this.
    pub fn allows(&self, found: &State) -> bool {
        self.legal.iter().any(|legal| match (legal, found) {
            (State::Object(Values::These(values)), State::Object(found)) => {
                values.iter().any(|value| found.has(*value))
            }
            (legal, found) => legal == found,
        })
    }

    /// Whether a finding about `found` is about a delete that did not last, rather than a write.
    pub fn is_about_a_delete(&self, found: &State) -> bool {
        let deletes = self.last.iter().any(|told| told.value.is_none());
        match found {
            State::Object(Values::These(values)) => deletes && !values.is_empty(),
            State::Object(Values::Any) => deletes,
            // The marker of a suspended delete is gone, or one is there that nobody asked for.
            State::Marker | State::Nothing => self.last.iter().all(|told| told.value.is_none()),
        }
    }

    /// The write that made what was found, if one did.
    pub fn writer<'s>(story: &'s Story<'a>, found: &State) -> Option<&'s Told<'a>> {
        let State::Object(Values::These(values)) = found else { return None };
        let wrote =
            |told: &&Told<'_>| told.value.is_some_and(|value: Value| values.contains(&value));
        story.writes.iter().find(wrote)
    }
}

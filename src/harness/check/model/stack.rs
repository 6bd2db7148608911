//! The state of one key, what a write makes of it, and what a read may see in it. Pure.
//!
//! A key is a stack of versions, newest on top; the null version is one of them. Ids and values are
//! numbers that [`super::story`] gave out; nothing here knows what they stand for.

/// A version id of one key.
pub type Id = u32;

/// The null version.
pub const NULL: Id = 0;

/// Contents of one key.
pub type Value = u32;

/// One version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its id.
    pub id: Id,
    /// Its contents; `None` for a delete marker.
    pub value: Option<Value>,
}

/// The versions of a key, newest last.
pub type Stack = Vec<Entry>;

/// What a write does when it takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// The version with this id becomes the newest; one with the same id is gone.
    Put {
        /// The id.
        id: Id,
        /// Its contents; `None` for a delete marker.
        value: Option<Value>,
    },
    /// The version with this id is gone.
    Remove {
        /// The id.
        id: Id,
    },
}

/// Which contents would do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Values {
    /// Any.
    Any,
    /// One of these, in order; none at all means that nobody wrote such contents.
    These(Vec<Value>),
}

impl Values {
    /// Whether `value` would do.
    pub fn has(&self, value: Value) -> bool {
        match self {
            Self::Any => true,
            Self::These(values) => values.contains(&value),
        }
    }
}

/// What must hold for a write to take effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guard {
    /// Nothing.
    Always,
    /// There is no latest object.
    Absent,
    /// The latest version is an object with such contents.
    Is(Values),
}

/// One line of what a listing of versions showed for the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// The id.
    pub id: Id,
    /// Contents that fit; `None` for a delete marker.
    pub value: Option<Values>,
}

/// What a read saw.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// No latest object.
    Absent,
    /// A latest object with such contents, of this version if it was named.
    Latest(Values, Option<Id>),
    /// The version is there with such contents.
    Version(Id, Values),
    /// The version is not there, or is a marker.
    NoVersion(Id),
    /// All versions.
    Stack {
        /// Newest first. When `interleaved` is false, the order holds only among objects and among markers.
        rows: Vec<Row>,
        /// Whether the order of objects and markers among each other is known.
        interleaved: bool,
        /// The row that was called the latest.
        latest: Option<usize>,
    },
    /// A latest object, whatever its contents: what a refused *if absent* proves.
    Present,
    /// No latest object with such contents: what a refused *if match* proves.
    IsNot(Values),
}

impl Effect {
    /// The same, for a write that nobody knows the end of: a drive that was away can bring its version
    /// back later, at the place that its own time gives it, `above` entries from the top.
    pub fn apply_late(self, stack: &mut Stack, above: usize) -> bool {
        match self {
            Self::Put { id, value } if id != NULL && above > 0 => {
                if holds(stack, id) {
                    return false;
                }
                stack.insert(stack.len() - above, Entry { id, value });
                true
            }
            _ => self.apply(stack),
        }
    }

    /// Makes `stack` what it is after this effect. Answers false, and changes nothing, when the effect
    /// would give an id out again that is in use.
    pub fn apply(self, stack: &mut Stack) -> bool {
        match self {
            Self::Put { id, value } => {
                // Looked for from the top: that is where it is, if anywhere.
                match stack.iter().rposition(|entry| entry.id == id) {
                    Some(_) if id != NULL => {
                        // Some servers answer a delete of what is deleted with the marker that is there.
                        return value.is_none() && stack.last() == Some(&Entry { id, value });
                    }
                    Some(position) => {
                        stack.remove(position);
                    }
                    None => {}
                }
                stack.push(Entry { id, value });
            }
            Self::Remove { id } => {
                if let Some(position) = stack.iter().rposition(|entry| entry.id == id) {
                    stack.remove(position);
                }
            }
        }
        true
    }
}

/// Whether `stack` has an entry with `id`.
pub fn holds(stack: &Stack, id: Id) -> bool {
    stack.iter().rev().any(|entry| entry.id == id)
}

impl Guard {
    /// Whether a write with this guard takes effect on `stack`.
    pub fn allows(&self, stack: &Stack) -> bool {
        let latest = stack.last().and_then(|entry| entry.value);
        match self {
            Self::Always => true,
            Self::Absent => latest.is_none(),
            Self::Is(values) => latest.is_some_and(|value| values.has(value)),
        }
    }
}

impl View {
    /// Whether a read of `stack` sees this.
    pub fn fits(&self, stack: &Stack) -> bool {
        let latest = stack.last().copied();
        let latest = latest.and_then(|entry| entry.value.map(|value| (entry.id, value)));
        let version = |id: Id| {
            let entry = stack.iter().rev().find(|entry| entry.id == id);
            entry.and_then(|entry| entry.value)
        };
        match self {
            Self::Absent => latest.is_none(),
            Self::Latest(values, id) => latest.is_some_and(|(latest, value)| {
                values.has(value) && id.is_none_or(|id| id == latest)
            }),
            Self::Version(id, values) => version(*id).is_some_and(|value| values.has(value)),
            Self::NoVersion(id) => version(*id).is_none(),
            Self::Stack { rows, interleaved, latest } => {
                rows.len() == stack.len()
                    && (rows.is_empty()
                        || latest.is_none_or(|latest| {
                            stack.last().is_some_and(|entry| entry.id == rows[latest].id)
                        }))
                    && if *interleaved {
                        rows.iter().zip(stack.iter().rev()).all(|(row, entry)| row.is(*entry))
                    } else {
                        let of_kind = |is_marker: bool| {
                            let rows =
                                rows.iter().filter(move |row| row.value.is_none() == is_marker);
                            let entries = stack.iter().rev();
                            let entries =
                                entries.filter(move |entry| entry.value.is_none() == is_marker);
                            rows.map(Some).chain([None]).zip(entries.map(Some).chain([None])).all(
                                |pair| match pair {
                                    (Some(row), Some(entry)) => row.is(*entry),
                                    (None, None) => true,
                                    _ => false,
                                },
                            )
                        };
                        of_kind(false) && of_kind(true)
                    }
            }
            Self::Present => latest.is_some(),
            Self::IsNot(values) => !latest.is_some_and(|(_, value)| values.has(value)),
        }
    }
}

impl Row {
    fn is(&self, entry: Entry) -> bool {
        self.id == entry.id
            && match (&self.value, entry.value) {
                (None, None) => true,
                (Some(values), Some(value)) => values.has(value),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: Id, value: Value) -> Effect {
        Effect::Put { id, value: Some(value) }
    }

    #[test]
    fn the_null_version_replaces_itself_and_comes_to_the_top() {
        let mut stack = Stack::new();
        for effect in [object(NULL, 1), object(7, 2), object(NULL, 3)] {
            assert!(effect.apply(&mut stack));
        }
        let entry = |id, value| Entry { id, value: Some(value) };
        assert_eq!(stack, [entry(7, 2), entry(NULL, 3)]);
        assert!(!object(7, 2).apply(&mut stack), "an id is given out once");
        assert!(Effect::Remove { id: NULL }.apply(&mut stack));
        assert_eq!(stack, [entry(7, 2)]);
    }

    #[test]
    fn a_grouped_listing_fits_any_interleaving_and_no_other_order() {
        let row =
            |id, value: Option<Value>| Row { id, value: value.map(|v| Values::These(vec![v])) };
        let view = |rows: Vec<Row>, interleaved| View::Stack { rows, interleaved, latest: None };
        let stack = vec![
            Entry { id: 1, value: Some(1) },
            Entry { id: 2, value: None },
            Entry { id: 3, value: Some(3) },
        ];
        let grouped = vec![row(2, None), row(3, Some(3)), row(1, Some(1))];
        assert!(view(grouped.clone(), false).fits(&stack));
        assert!(!view(grouped, true).fits(&stack));
        assert!(!view(vec![row(2, None), row(1, Some(1)), row(3, Some(3))], false).fits(&stack));
        assert!(!view(vec![row(2, None), row(3, Some(3))], false).fits(&stack));
        assert!(view(vec![row(3, Some(3)), row(2, None), row(1, Some(1))], true).fits(&stack));
    }
}

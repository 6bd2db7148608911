//! What a request does to a key's stack of versions, by the state of its bucket.
//!
//! An effect is the same for every drive: each drive applies it to its own copy of the stack, which may
//! lag. Ids are drawn by the caller and passed in.

use crate::value::VersionId;

/// Whether a bucket keeps versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum BucketState {
    /// Versioning was never switched on: there is the null version only.
    #[default]
    Unversioned,
    /// Every write makes a version of its own.
    Enabled,
    /// Writes go to the null version; versions made before stay.
    Suspended,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutEffect {
    /// The id of the new version. An entry with the same id is replaced, object or marker.
    pub version: VersionId,
    /// Whether the answer names the version.
    pub names_version: bool,
}

/// What a delete does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteEffect {
    /// The version that is removed, with its contents. It need not exist.
    pub remove: Option<VersionId>,
    /// The delete marker that is put in.
    pub marker: Option<VersionId>,
}

/// A PUT, a copy or a completed upload. `fresh` is a random id; `directory` says that the key ends in `/`,
/// which always writes the null version.
pub fn put(state: BucketState, directory: bool, fresh: VersionId) -> PutEffect {
    match state {
        BucketState::Enabled if !directory => PutEffect { version: fresh, names_version: true },
        BucketState::Enabled | BucketState::Suspended => {
            PutEffect { version: VersionId::NULL, names_version: true }
        }
        BucketState::Unversioned => PutEffect { version: VersionId::NULL, names_version: false },
    }
}

/// A DELETE; `version` is the id that the request names, if any.
///
/// Each DELETE without an id in an enabled bucket adds a marker, whatever lies on top; in a suspended
/// bucket it always replaces the null version by a null marker.
pub fn delete(
    state: BucketState,
    directory: bool,
    version: Option<VersionId>,
    fresh: VersionId,
) -> DeleteEffect {
    match (version, state) {
        (Some(version), _) => DeleteEffect { remove: Some(version), marker: None },
        (None, BucketState::Unversioned) => {
            DeleteEffect { remove: Some(VersionId::NULL), marker: None }
        }
        (None, _) if directory => DeleteEffect { remove: Some(VersionId::NULL), marker: None },
        (None, BucketState::Enabled) => DeleteEffect { remove: None, marker: Some(fresh) },
        (None, BucketState::Suspended) => {
            DeleteEffect { remove: Some(VersionId::NULL), marker: Some(VersionId::NULL) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const FRESH: VersionId = VersionId([7; 16]);
    const OLD: VersionId = VersionId([1; 16]);

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Held {
        Object,
        Marker,
    }

    type Stack = BTreeMap<VersionId, Held>;

    fn apply_put(stack: &mut Stack, effect: PutEffect) {
        stack.insert(effect.version, Held::Object);
    }

    fn apply_delete(stack: &mut Stack, effect: DeleteEffect) {
        if let Some(version) = effect.remove {
            stack.remove(&version);
        }
        if let Some(version) = effect.marker {
            stack.insert(version, Held::Marker);
        }
    }

    /// Every stack of at most a null version and one other, each object or marker.
    fn stacks() -> Vec<Stack> {
        let held = [None, Some(Held::Object), Some(Held::Marker)];
        let mut stacks = Vec::new();
        for null in held {
            for old in held {
                let pairs = [(VersionId::NULL, null), (OLD, old)];
                stacks.push(pairs.into_iter().filter_map(|(id, it)| Some((id, it?))).collect());
            }
        }
        stacks
    }

    #[test]
    fn a_put_makes_a_version_or_replaces_the_null_version() {
        for mut stack in stacks() {
            let before = stack.clone();
            apply_put(&mut stack, put(BucketState::Enabled, false, FRESH));
            assert_eq!(stack.len(), before.len() + 1);
            for state in [BucketState::Unversioned, BucketState::Suspended] {
                let mut stack = before.clone();
                apply_put(&mut stack, put(state, false, FRESH));
                assert_eq!(stack.get(&VersionId::NULL), Some(&Held::Object));
                assert_eq!(stack.get(&OLD), before.get(&OLD));
                assert_eq!(stack.get(&FRESH), None);
            }
        }
    }

    #[test]
    fn a_delete_without_an_id_hides_the_key_and_keeps_real_versions() {
        for stack in stacks() {
            let mut enabled = stack.clone();
            apply_delete(&mut enabled, delete(BucketState::Enabled, false, None, FRESH));
            assert_eq!(enabled.remove(&FRESH), Some(Held::Marker));
            assert_eq!(enabled, stack, "nothing else changes");

            let mut suspended = stack.clone();
            apply_delete(&mut suspended, delete(BucketState::Suspended, false, None, FRESH));
            assert_eq!(suspended.get(&VersionId::NULL), Some(&Held::Marker));
            assert_eq!(suspended.get(&OLD), stack.get(&OLD));

            let mut off = stack.clone();
            apply_delete(&mut off, delete(BucketState::Unversioned, false, None, FRESH));
            assert_eq!(off.get(&VersionId::NULL), None);
            assert_eq!(off.get(&OLD), stack.get(&OLD));
        }
    }

    #[test]
    fn a_delete_with_an_id_removes_exactly_that_version() {
        for state in [BucketState::Unversioned, BucketState::Enabled, BucketState::Suspended] {
            for version in [VersionId::NULL, OLD] {
                for stack in stacks() {
                    let mut after = stack.clone();
                    apply_delete(&mut after, delete(state, false, Some(version), FRESH));
                    let mut expected = stack;
                    expected.remove(&version);
                    assert_eq!(after, expected);
                }
            }
        }
    }

    #[test]
    fn a_directory_has_only_a_null_version_and_no_marker() {
        for state in [BucketState::Unversioned, BucketState::Enabled, BucketState::Suspended] {
            assert_eq!(put(state, true, FRESH).version, VersionId::NULL);
            let effect = delete(state, true, None, FRESH);
            assert_eq!(effect, DeleteEffect { remove: Some(VersionId::NULL), marker: None });
        }
    }
}

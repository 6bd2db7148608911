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

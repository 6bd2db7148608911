//! The rules that a planted defect may bend, each in one place.
//!
//! The node asks them where it decides; production always gets [`Sound`]. A rehearsal swaps them for
//! a decorator that is armed over the control descriptor only.

use std::sync::Arc;

use crate::value::VersionId;

/// The rules that a planted defect may bend. Production uses [`Sound`].
pub trait Rules: Send + Sync {
    /// Drives that must have a write before it is acknowledged, given what the format asks for.
    fn write_quorum(&self, asked: usize) -> usize {
        asked
    }
    /// Whether a frame's hash is compared before its bytes are used.
    fn verifies_frames(&self) -> bool {
        true
    }
    /// Whether the healer looks at contents and not at names and lengths alone.
    fn heals_by_contents(&self) -> bool {
        true
    }
    /// Whether an unknown outcome is answered as unknown.
    fn admits_the_unknown(&self) -> bool {
        true
    }
    /// Whether a null version replaces the null version before it.
    fn replaces_null_versions(&self) -> bool {
        true
    }
    /// Whether directories are flushed.
    fn syncs_directories(&self) -> bool {
        true
    }
    /// Whether contents are on their device before they are given a name.
    fn writes_contents_first(&self) -> bool {
        true
    }
    /// Whether a delete marker that not every drive has is brought to the others.
    fn heals_markers(&self) -> bool {
        true
    }
    /// The moment of a new version, Unix nanoseconds: after the newest of its key, and after its
    /// bucket was made.
    fn moment_ns(&self, now_ns: i64, newest_ns: i64, since_ns: i64) -> i64 {
        now_ns.max(newest_ns.max(since_ns).saturating_add(1))
    }
    /// Whether a walk looks for keys below a key.
    fn walks_below_keys(&self) -> bool {
        true
    }
    /// Whether staged contents are gone when they were thrown away.
    fn discards_staging(&self) -> bool {
        true
    }
    /// Whether a version is brought to a drive that lacks it, and looked for there.
    fn brings(&self, _version: VersionId) -> bool {
        true
    }
    /// Whether a change of the table catalog looks for the fences of a migration.
    fn heeds_fences(&self) -> bool {
        true
    }
    /// Whether what the table catalog says of the objects of a table bucket binds those who may do everything, too.
    fn binds_everybody(&self) -> bool {
        true
    }
    /// Whether a migration waits until changes of its bucket that are under way have ended.
    fn drains_writers(&self) -> bool {
        true
    }
    /// Whether a strong snapshot keeps the version that it has reached.
    fn keeps_snapshot_version(&self) -> bool {
        true
    }
    /// Whether a cancellation looks for changes of the strong state since it was copied.
    fn heeds_strong_progress(&self) -> bool {
        true
    }
}

/// The rules as they should be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sound;

impl Rules for Sound {}

/// Shared rules.
pub type SharedRules = Arc<dyn Rules>;

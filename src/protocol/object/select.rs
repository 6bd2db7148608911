//! Which version the drives' answers add up to.
//!
//! Every drive of the set is asked for one version, the latest or one by its id, and answers with its own
//! idea of it. Answers vote by *identity*: a digest of everything but what differs between drives.

use crate::protocol::object::quorum;
use crate::value::VersionId;

/// One drive's idea of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Digest of all that must be equal on all drives; shard number and contents are not in it.
    pub identity: [u8; 32],
    /// Its id.
    pub version: VersionId,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Whether it is a delete marker.
    pub marker: bool,
    /// Bytes of its contents.
    pub size: u64,
    /// Data shards; 0 for a marker.
    pub data: usize,
    /// Parity shards; 0 for a marker.
    pub parity: usize,
}

/// What one drive said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It holds this.
    Holds(Candidate),
    /// It can read its metadata, and the version (or the whole key) is not in it.
    NotFound,
    /// It cannot say: offline, blank, being rebuilt, or its metadata is unreadable.
    Failed,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The latest version.
    Latest,
    /// The version with this id.
    ById(VersionId),
}

/// The version that won.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The winner.
    pub candidate: Candidate,
    /// Positions of the drives that hold exactly this identity.
    pub drives: Vec<usize>,
    /// Drives that must agree to read it.
    pub read_quorum: usize,
    /// Drives that must have it before it counts as acknowledged.
    pub write_quorum: usize,
}

impl Selected {
    /// Whether a write quorum holds it. If not, a reader that returns it must first make it so, or a later
    /// reader may no longer see what this one returned.
    pub fn is_committed(&self) -> bool {
        self.drives.len() >= self.write_quorum
    }
}

/// Why no version won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unselected {
    /// So many drives lack it that no write of it can have been acknowledged.
    NotFound,
    /// Too few drives answered, or they contradict each other.
    NoQuorum,
}

/// Adds up the answers of all drives of a set, in slot order.
///
/// # Errors
///
/// See [`Unselected`].
pub fn select(answers: &[Answer], wanted: Wanted) -> Result<Selected, Unselected> {
    let _ = (answers, wanted, quorum::absence(1));
    unimplemented!("being written")
}

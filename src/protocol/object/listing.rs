//! Merging the drives' stacks of one key into the one stack that a listing shows.

use crate::protocol::object::version::Header;

/// One entry that the drives agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The entry.
    pub header: Header,
    /// Positions of the drives that hold it (same id, kind and geometry; signatures may differ).
    pub drives: Vec<usize>,
}

/// Merges stacks, newest first. `stacks[i]` is drive i's own stack, or `None` when it cannot say. Entries on
/// fewer than `quorum` drives are hidden.
pub fn merge(stacks: &[Option<&[Header]>], quorum: usize) -> Vec<Merged> {
    let _ = (stacks, quorum);
    unimplemented!("being written")
}

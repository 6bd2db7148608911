//! Namespace locks: granted by each node for its own drives, held by a quorum of drives.
//!
//! `table` is what one node grants (pure: the time is given). `fences` lets the owner of a drive ask
//! it before a commit step. `quorum` takes and keeps a lock at enough nodes; `votes` is how many that
//! are. What must hold: two holders that exclude each other never both have the votes, and a holder
//! whose grant lapsed at a node writes to none of that node's drives.

pub mod fences;
pub mod quorum;
pub mod table;
pub mod votes;

pub use fences::LocalLocks;
pub use quorum::QuorumLocks;

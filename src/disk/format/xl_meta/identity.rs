//! The identity by which drives vote: a digest of everything that must be equal on all of them.

/// SHA-256 over everything in a version but its shard number and replication state.
pub type Identity = [u8; 32];

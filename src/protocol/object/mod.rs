//! The rules of objects and their versions: which version comes first, what a request does to a key's
//! stack of versions, how many drives must agree, and what the drives' answers add up to.
//!
//! Pure. Bytes are the business of `disk::format`; who is asked and when, of the node's store.

pub mod condition;
pub mod decide;
pub mod effect;
pub mod listing;
pub mod quorum;
pub mod select;
pub mod version;

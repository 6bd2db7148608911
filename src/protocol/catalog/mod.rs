//! The table catalog: which tables there are, where each stands, and how its state moves into a strong snapshot.
//!
//! Pure. Each flow is a function from what was read to the next write ([`write`]); it remembers nothing, so that
//! resuming is asking again, and so is finding out what became of a write whose answer was lost. Ids and time are
//! handed in.
//!
//! # Records and their places
//!
//! | module | holds |
//! |---|---|
//! | [`name`], [`keys`], [`prefix`] | names, keys, warehouse prefixes and their index |
//! | [`record`], [`entry`], [`commit_record`], [`json`] | the persisted records, byte for byte |
//! | [`fence`] | the fences of a migration, and the cut-over record |
//! | [`snapshot`], [`fingerprint`] | the strong snapshot, its validation, a bucket's fingerprint |
//! | [`history`] | what commit records prove |
//! | [`object`], [`recovery`] | the flows of object-backed state |
//! | [`strong`] | the changes of durable-strong state |
//! | [`migration`] | from one to the other, and back |
//! | [`report`] | what an operator is told of one table |
//! | [`settings`], [`page`], [`actions`], [`refusal`] | switches, pages, permissions, answers |
//!
//! # Sources
//!
//! The specification of the catalog, its corrections, and the decisions M1 to M28 beside it.

pub mod actions;
pub mod commit_record;
#[cfg(test)]
mod depot;
pub mod entry;
pub mod fence;
pub mod fingerprint;
#[cfg(test)]
mod fixture;
pub mod history;
pub mod json;
pub mod keys;
pub mod migration;
pub mod name;
pub mod object;
pub mod page;
pub mod prefix;
pub mod record;
pub mod recovery;
pub mod refusal;
pub mod report;
pub mod settings;
pub mod snapshot;
pub mod strong;
pub mod write;

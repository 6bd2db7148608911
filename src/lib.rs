//! Firedrill rehearses disasters on S3-compatible object storage and decides from outside
//! whether every promise to a client was kept.
//!
//! | box | what it is | may use |
//! |---|---|---|
//! | [`value`] | plain values that every box shares | nothing |
//! | [`sigv4`] | AWS signature version 4, for both ends of a connection | nothing |
//! | `iceberg` | table and view metadata, manifests: the one place that names the `iceberg` crate | nothing |
//! | [`protocol`] | the rules: no I/O, clock, thread, randomness | `value` |
//! | [`disk`] | bytes and flushes, synchronous | `protocol` |
//! | [`node`] | the storage node: protocol and disk, served | `disk`, `iceberg`, `protocol`, `sigv4` |
//! | [`harness`] | everything outside the node | `disk::format`, `disk::layout`, the words of `protocol`; its `operator` the rules |
//! | [`fuzz`] | hostile bytes for every decoder of the boxes above | all of them, what is private to the crate included |
//! | [`cli`] | one file a subcommand | `harness`, `fuzz`; `cli/node.rs` alone reaches `node` |
//!
//! `tests/architecture.rs` holds the directions. The way in is `main`, then `cli::<command>`,
//! then `harness::runner::run`.

pub mod cli;
pub mod disk;
pub mod fuzz;
pub mod harness;
#[cfg(feature = "iceberg")]
pub mod iceberg;
pub mod node;
mod out;
pub mod protocol;
pub mod sigv4;
pub mod sys;
pub mod value;
pub mod yaml;

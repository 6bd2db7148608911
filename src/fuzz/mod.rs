//! Hostile bytes for every decoder that reads from a drive or from the network.
//!
//! A [`Target`] is one decoder with what must hold of whatever it decodes. Its cases are mutations of the
//! real files in its corpus: a case follows from the target's name, the seed and the case's number, so that each can
//! be run again alone. [`watch`](watch::watch) runs a target in a process of its own, whose memory has a ceiling and whose
//! every case has a time; [`course`] is what happens in there.
//!
//! It is not guided by coverage, and proves nothing about what its corpus does not come near: each target
//! states how many of its cases the decoder accepts, and fewer than [`DECODED_PERCENT_MIN`] are a failure.

pub mod corpus;
pub mod course;
mod mutate;
mod random;
pub mod target;
mod targets;
pub mod watch;

#[cfg(test)]
mod tests;

pub use target::Target;
pub use targets::all;

/// Fewer cases than this that are decoded, in a hundred, and a target tests refusals only.
pub const DECODED_PERCENT_MIN: u64 = 10;
/// The most memory that the process of one target may have, in bytes: program, corpus and case included.
pub const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of a case.
pub const CASE_BYTES_MAX: usize = 1 << 20;

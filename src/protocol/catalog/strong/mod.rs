//! Durable-strong state: one snapshot for all table buckets, replaced as a whole by every change.
//!
//! | module | decides |
//! |---|---|
//! | [`hydrate`] | whether what is in memory may be used, is read anew, or is refused |
//! | [`change`], [`draft`] | what a change makes of the contents |
//! | [`plan`] | the version and the write; whether a lost answer was a success |
//! | [`resolve`] | which table owns a key |
//!
//! # The performer's loop
//!
//! Hold the shared registry lock and, within the process, one mutex. Hydrate; ask [`plan::plan`]; write;
//! [`hydrate::Memory::has_tried`]. On success take over [`plan::Planned::contents`] with the new ETag. On a failed
//! precondition hydrate and ask again, a bounded number of times. On an unknown outcome hydrate and ask
//! [`plan::has_happened`]: a success, or [`Class::Unknown`](super::refusal::Class::Unknown).
//!
//! # Sources
//!
//! Specification of the catalog §4.4 to §4.10; M22.

pub mod change;
pub mod draft;
pub mod hydrate;
pub mod plan;
pub mod resolve;
#[cfg(test)]
pub(crate) mod tests;

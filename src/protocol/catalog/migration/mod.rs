//! Moving a table bucket from object-backed state into the strong snapshot, and back.
//!
//! ```text
//!  POST    M1 registry fence ─▶ M2 bucket fence PREPARING ─▶ M3 snapshot with the bucket ─▶ M4 fence MATERIALIZED
//!  DELETE  D0 registry fence ─▶ D1 snapshot without it ─▶ D2 bucket fence gone ─▶ (the last: mark, empty snapshot
//!          gone, cut-over record gone) ─▶ D3 registry fence gone
//! ```
//!
//! Both hold the registry lock and the bucket-fence lock exclusively, in this order, and then the locks of all
//! that they read; whatever was under way has ended, and what waits finds a fence. Everything that can refuse is
//! looked at before the first fence is written (M8).
//!
//! | module | decides |
//! |---|---|
//! | [`source`] | what is copied, and its fingerprint |
//! | [`facts`] | what is durable about migrations |
//! | [`preflight`] | the report: all that would stop a POST |
//! | [`post`], [`cancel`] | the next write of each |
//! | [`opening`] | whether a process may serve this backing at all (M5, M6) |
//!
//! # Sources
//!
//! Specification of the catalog §5, §6.

pub mod cancel;
pub mod facts;
pub mod opening;
pub mod post;
pub mod preflight;
pub mod source;
#[cfg(test)]
mod tests;

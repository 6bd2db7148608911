//! The operator's tools as an operator meets them: the built binary on the drives of a stopped cluster.
//!
//! Goal: what they print is what the specification says, what they refuse is refused by name, and nothing that they
//! were not told to write is written: the drives are compared before and after, byte by byte. Captured drives of
//! released servers lie in the folder that the variable FIREDRILL_GOLDEN names; without it those trials say so.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod backup;
mod captured;
mod drives;
mod images;
mod look;
mod prepare;
mod readme;
mod rearm;

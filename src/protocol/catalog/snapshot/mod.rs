//! The strong snapshot: the state of all table buckets in one object.
//!
//! [`contents`] is what it holds, [`codec`] its bytes, [`validate`] what must be so before anybody uses it, and
//! [`derived`] what follows from it and is never stored. Versions 1 and 2 have the same fields; 2 is stricter.
//!
//! # Sources
//!
//! Specification of the catalog §4.

pub mod codec;
pub mod contents;
pub mod derived;
#[cfg(test)]
mod tests;
pub mod validate;

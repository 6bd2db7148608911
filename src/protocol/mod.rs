//! THE RULES: what the protocols promise and in which order they write.
//!
//! Pure: no I/O, clock, thread, randomness or await. A durable protocol is one function from what is
//! durable to the next write. [`control`], [`admin`] and [`config`] are the words that a node and whoever
//! starts it exchange; they decide nothing.

pub mod access;
pub mod admin;
pub mod catalog;
pub mod config;
pub mod control;
pub mod crash_point;
pub mod object;
pub mod replacement;
pub mod rules;

//! The replacement protocol, tried without a drive: every crash state, every refusal, every byte.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod crash_table;
mod discovery;
mod examples;
mod import;
mod legacy;
mod refusals;
mod strict;
mod world;

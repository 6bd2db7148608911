//! What is rehearsed: the embedded node, as a process.
//!
//! Knows how a node is configured, started, spoken to over its control descriptor and asked whether it is
//! ready. When it is started and ended is the testbed's to say.

pub mod config;
pub mod control;
pub mod health;
pub mod process;

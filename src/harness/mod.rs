//! EVERYTHING OUTSIDE THE NODE: it builds, breaks, watches and judges.
//!
//! A node is reached as a process and over HTTP, never as code. Three witnesses are judged against
//! each other: the history (what clients were told), the wire (what the healed cluster answers) and
//! the census (what the drives hold). A node's word about itself is recorded and never believed.

pub mod audit;
pub mod check;
pub mod fault;
pub mod operator;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod target;
pub mod testbed;
pub mod workload;

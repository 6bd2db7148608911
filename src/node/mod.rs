//! THE STORAGE NODE: the protocols and the drives, served over S3, an admin interface and peer RPC.
//!
//! | module | what it is |
//! |---|---|
//! | `process` | the life of the process; `config`, `control`, `defects` are what it starts with |
//! | `service` | one node: drives, peers, locks, store, how it stands |
//! | `negotiate`, `startup` | which format the deployment has: the loop, and the decision |
//! | `drives`, `local` | the drives of this node: queues, threads, keepers |
//! | `catalog` | the table catalog (`lean` where it is left out of the build) |
//! | `replacement` | the loop that replaces drives, as `protocol::replacement` has it |
//! | `peer` | the other nodes: their drives and locks, and what they may ask here |
//! | `locks` | who may change which key, by quorum, fenced |
//! | `store` | objects, versions, buckets, healing, over all drives |
//! | `serve` | the listener and its routes; `s3` and `admin` behind them; `metrics` |
//!
//! `seams` has the few traits across which the parts meet: a drive that is asked and answers, a
//! lock that is held. A rehearsal plants its defects around these and in `protocol::rules`.

pub(crate) mod admin;
#[cfg(feature = "iceberg")]
mod catalog;
#[cfg(not(feature = "iceberg"))]
#[path = "lean.rs"]
mod catalog;
pub(crate) mod config;
mod control;
mod defects;
mod documents;
pub(crate) mod drives;
mod interim;
mod local;
pub(crate) mod locks;
mod metrics;
mod negotiate;
mod patience;
pub(crate) mod peer;
mod process;
mod replacement;
pub(crate) mod s3;
pub mod seams;
mod serve;
mod service;
mod startup;
pub mod store;

pub use process::run;

/// An error with all its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

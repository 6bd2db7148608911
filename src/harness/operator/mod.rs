//! The operator's tools: of drive replacement, on the drives of a cluster that is stopped; of the table catalog
//! ([`catalog`]), over its wire.
//!
//! Those of drive replacement read what the drives hold and judge it by the rules of the protocol; no node is asked, and nothing is
//! believed but bytes. Three of them write: [`prepare`] publishes one approval on the survivor anchor, [`rearm`]
//! saves one record there, [`backup`] fills a folder that is not on any drive. Whatever they refuse leaves every
//! byte of every drive as it was.

pub mod backup;
pub mod catalog;
pub mod error;
pub mod generations;
pub mod kept;
pub mod lease;
pub mod manifest;
mod orphaned;
pub mod prepare;
mod publish;
pub mod rearm;
pub mod refusals;
pub mod status;
pub mod stopped;

//! `replacement status`: the generations of stopped drives in the words of the servers' contract, and what stops
//! them.
//!
//! No node runs, so that no generation has an executor: *running* is never said, and one that was rebuilding is
//! *unknown* until a node goes on with it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::refusals;
use super::refusals::Stop;
use super::stopped::Stopped;
use crate::protocol::replacement::status;
use crate::protocol::replacement::status::StatusRecord;

/// The status. The keys but `format` and `refusals` are the contract's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// 1.
    pub format: u32,
    /// Whether every drive was read and nothing is unknown.
    pub definitive: bool,
    /// Why not.
    pub reason: Option<String>,
    /// One for each generation.
    pub records: Vec<StatusRecord>,
    /// What stops recovery, with what may be done.
    pub refusals: Vec<Stop>,
}

/// The status of what `drives` hold.
pub fn status(drives: &[Stopped]) -> Status {
    let records: Vec<_> = drives.iter().map(Stopped::records).collect();
    let snapshot = status::snapshot(&records, &BTreeSet::new());
    Status {
        format: 1,
        definitive: snapshot.definitive,
        reason: snapshot.reason,
        records: snapshot.records,
        refusals: refusals::find(drives),
    }
}

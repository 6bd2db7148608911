//! What the checkers are told about the cluster and the run: plain facts, gathered from `plan.json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::harness::audit::census::Census;
use crate::harness::workload::record::History;
use crate::harness::workload::spec::BucketKind;

/// What was built and promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Processes, one machine's worth each.
    pub nodes: usize,
    /// Every drive in pool order, as `node/slot`.
    pub drives: Vec<String>,
    /// Drives of one erasure set.
    pub set_drives: usize,
    /// Parity shards of an object.
    pub parity: usize,
    /// Whether an acknowledgement promises to survive a loss of power.
    pub survives_power_loss: bool,
    /// The workload's buckets.
    pub buckets: BTreeMap<String, BucketKind>,
    /// What each principal may do, besides the one who may do everything.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub principals: BTreeMap<String, Vec<String>>,
}

impl Facts {
    /// Data shards of an object.
    pub fn data_shards(&self) -> usize {
        self.set_drives - self.parity
    }

    /// Drives that hold an object when it is acknowledged, at least.
    pub fn write_quorum(&self) -> usize {
        let data = self.data_shards();
        if data == self.parity { data + 1 } else { data }
    }

    /// Drives that hold a marker or have removed a version when that is acknowledged, at least.
    pub fn delete_quorum(&self) -> usize {
        self.set_drives / 2 + 1
    }

    /// The set that the drive called `name` belongs to.
    pub fn set_of(&self, name: &str) -> Option<usize> {
        let position = self.drives.iter().position(|drive| drive == name)?;
        Some(position / self.set_drives.max(1))
    }
}

/// The three witnesses: what clients were told, what the settled cluster answers (the final reads,
/// inside the history), what the drives hold.
#[derive(Debug, Clone, Copy)]
pub struct Witnesses<'a> {
    /// What was built and promised.
    pub facts: &'a Facts,
    /// What clients were told, the final reads included.
    pub history: &'a History,
    /// What the drives hold, read while no node ran; `None` when it could not be taken.
    pub census: Option<&'a Census>,
}

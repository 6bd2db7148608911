//! A scenario as meant: everything that a run will do, fixed by the scenario and the seed.
//!
//! `plan.json` is this, byte for byte the same for one seed. It holds no clock, path or host, and
//! `judge` needs nothing else to know what was promised.

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::control::Defect;

/// The format of a plan file.
pub const PLAN_FORMAT: u32 = 1;

/// The cluster that a run builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedPlan {
    /// Processes, one machine's worth each.
    pub nodes: usize,
    /// Drives of each node.
    pub drives_per_node: usize,
    /// Drives of one erasure set.
    pub set_drives: usize,
    /// Parity shards of an object.
    pub parity: usize,
    /// The file system of every drive.
    pub filesystem: Filesystem,
    /// Size of a drive's image in MiB.
    pub drive_mib: u64,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// What is real.
    pub rung: Rung,
    /// Every drive in pool order: node 0's slots, then node 1's.
    pub drives: Vec<DrivePlan>,
    /// Bounds and periods of the nodes.
    pub limits: Limits,
    /// Defects that every node plants.
    pub defects: Vec<Defect>,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivePlan {
    /// `node/slot`, as every file of a run calls it.
    pub name: String,
    /// The node that owns it.
    pub node: usize,
    /// Its slot on that node, from 0.
    pub slot: usize,
    /// UUID of its file system.
    pub uuid: Uuid,
}

/// A file system that a drive can carry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filesystem {
    /// ext4.
    #[default]
    Ext4,
    /// xfs, on machines that have its tools.
    Xfs,
}

/// How real a testbed is, from least to most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Protocol code over memory drives.
    Memory,
    /// Node processes over kernel file systems on loop devices.
    #[default]
    Loop,
    /// As `loop`, over a block device that may lose what was not flushed.
    Block,
    /// Guests with a kernel of their own.
    Vm,
}

impl TestbedPlan {
    /// Where the drive called `name` stands in [`TestbedPlan::drives`].
    pub fn drive(&self, name: &str) -> Option<&DrivePlan> {
        self.drives.iter().find(|drive| drive.name == name)
    }

    /// The drives of one node, in slot order.
    pub fn drives_of(&self, node: usize) -> impl Iterator<Item = &DrivePlan> {
        self.drives.iter().filter(move |drive| drive.node == node)
    }

    /// Bytes of all images.
    pub fn image_bytes(&self) -> u64 {
        (self.drives.len() as u64) * (self.drive_mib << 20)
    }
}

//! What the drives of a plan must hold at its peak: bytes and inodes.
//!
//! An upper bound: every write is counted as if nothing were ever deleted or replaced, because a
//! drive that was away may keep all of it until it is healed.

use serde::Deserialize;
use serde::Serialize;

use super::form::ScenarioForm;
use super::plan::ClientPlan;
use super::plan::TestbedPlan;

/// What one drive must hold at the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Versions written to one drive at most.
    pub versions: u64,
    /// Bytes in use.
    pub drive_bytes_max: u64,
    /// Inodes in use.
    pub drive_inodes_max: u64,
}

impl Size {
    /// What is more than `percent` of a drive of `testbed`, in words.
    pub fn excess(&self, testbed: &TestbedPlan, percent: u64) -> Option<String> {
        let bytes = testbed.drive_mib << 20;
        // ext4 has one inode for each 4 KiB of a small drive, xfs makes them as needed.
        let inodes = bytes / BYTES_PER_INODE;
        if self.drive_bytes_max > bytes / 100 * percent {
            return Some(format!("{} MiB", self.drive_bytes_max >> 20));
        }
        if self.drive_inodes_max > inodes / 100 * percent {
            return Some(format!("{} of {inodes} inodes", self.drive_inodes_max));
        }
        None
    }
}

/// Bytes of a small ext4 file system for each of its inodes.
const BYTES_PER_INODE: u64 = 4_096;
/// Bytes that a file system of ours and the node's own files take.
const OVERHEAD_BYTES: u64 = 6 << 20;
/// stub
pub fn peak(form: &ScenarioForm, clients: &[ClientPlan]) -> Size {
    let _ = (form, clients);
    Size { versions: 0, drive_bytes_max: OVERHEAD_BYTES, drive_inodes_max: 100 }
}

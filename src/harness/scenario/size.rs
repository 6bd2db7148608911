//! What the drives of a plan must hold at its peak: bytes and inodes.
//!
//! An upper bound: what is deleted is counted as if it stayed, because a drive that was away keeps it
//! until it is healed.

use serde::Deserialize;
use serde::Serialize;

use super::plan::TestbedPlan;
use crate::harness::workload::generator::Footprint;

/// What one drive must hold at the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Keys.
    pub keys: u64,
    /// Versions and markers, with those that are being written.
    pub versions: u64,
    /// Bytes of contents before parity.
    pub contents_bytes: u64,
    /// Bytes in use on one drive.
    pub drive_bytes_max: u64,
    /// Inodes in use on one drive.
    pub drive_inodes_max: u64,
}

/// Bytes of a block of the file system.
const FS_BLOCK_BYTES: u64 = 4_096;
/// Bytes of a small ext4 file system for each of its inodes.
const BYTES_PER_INODE: u64 = 4_096;
/// Bytes that the file system and the node's own files take on an empty drive.
const EMPTY_BYTES: u64 = 8 << 20;
/// Inodes of the node's own files and folders.
const EMPTY_INODES: u64 = 200;
/// Inodes of a key: its folder, the folder above it, and its xl.meta.
const KEY_INODES: u64 = 3;
/// Inodes of a version outside xl.meta: its folder and its parts.
const VERSION_INODES: u64 = 3;

impl Size {
    /// What `footprint` means for each drive of `testbed`.
    pub fn of(footprint: Footprint, testbed: &TestbedPlan) -> Self {
        let data_shards = (testbed.set_drives - testbed.parity).max(1) as u64;
        let shards = footprint.bytes.div_ceil(data_shards);
        // A frame's hash is 32 bytes; blocks of small files are counted whole.
        let frames = shards / 32_768 * 32;
        let blocks = (footprint.keys + footprint.versions) * FS_BLOCK_BYTES;
        Self {
            keys: footprint.keys,
            versions: footprint.versions,
            contents_bytes: footprint.bytes,
            drive_bytes_max: EMPTY_BYTES + shards + frames + blocks,
            drive_inodes_max: EMPTY_INODES
                + footprint.keys * KEY_INODES
                + footprint.versions * VERSION_INODES,
        }
    }

    /// What is more than `percent` of a drive of `testbed`, in words.
    pub fn excess(&self, testbed: &TestbedPlan, percent: u64) -> Option<String> {
        let bytes = testbed.drive_mib << 20;
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

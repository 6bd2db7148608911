//! What tells one mounted drive from another: read from the kernel, never assumed.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

/// The facts by which a drive is known at one moment, as its node sees it.
///
/// `st_dev` and `mount_id` are recycled by the kernel, `mount_unique` and `diskseq` never are; only the
/// UUID tells another file system on the same numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `st_dev` of its root.
    pub st_dev: u64,
    /// `st_ino` of its root.
    pub st_ino: u64,
    /// The device's name, `loop200`.
    pub device: String,
    /// The kernel's sequence number of the device's contents.
    pub diskseq: u64,
    /// The mount id, as in `/proc/self/mountinfo`; recycled.
    pub mount_id: u64,
    /// The mount id that is never used again; `None` on kernels that do not tell it.
    pub mount_unique: Option<u64>,
    /// UUID of the file system.
    pub uuid: String,
}

impl Identity {
    /// What two mounts have different, by name; empty when nothing is.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut compare = |name, differs| {
            if differs {
                names.push(name);
            }
        };
        compare("st_dev", self.st_dev != other.st_dev);
        compare("device", self.device != other.device);
        compare("diskseq", self.diskseq != other.diskseq);
        compare("mount_id", self.mount_id != other.mount_id);
        compare("mount_unique", self.mount_unique != other.mount_unique);
        compare("uuid", self.uuid != other.uuid);
        names
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { st_dev, device, diskseq, mount_id, uuid, .. } = self;
        let (major, minor) = (st_dev >> 8, st_dev & 0xff);
        write!(f, "{device} ({major}:{minor}, diskseq {diskseq}, mount {mount_id}, uuid {uuid})")
    }
}

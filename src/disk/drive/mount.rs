//! How a drive is mounted: the fingerprint by which a replacement knows its target again.
//!
//! Everything is read through the pinned descriptor of the root, so that it is told of the file system that is
//! written to. Where the configured path leads elsewhere by now, there is no answer.
//!
//! # Sources
//!
//! statx(2), `/sys/dev/block` (Documentation/ABI/testing/sysfs-dev), FS_IOC_GETFSUUID.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use nix::sys::stat::major;
use nix::sys::stat::minor;
use uuid::Uuid;

use super::request::MountIdentity;
use crate::sys;

/// Reads how the root behind `pinned`, which was opened at `path`, is mounted.
///
/// With `apart` it has to lie on devices of its own, which `/` does not use.
///
/// # Errors
///
/// Why nothing can be rebuilt here now, in words.
pub(super) fn identity(
    pinned: BorrowedFd<'_>,
    path: &Path,
    apart: bool,
) -> Result<MountIdentity, String> {
    let link = PathBuf::from(format!("/proc/self/fd/{}", pinned.as_raw_fd()));
    let said = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("{what}: {error}")
    };
    let opened = sys::mount_facts(&link.join(".")).map_err(said("the opened root"))?;
    let named = sys::mount_facts(path).map_err(said("its path"))?;
    if (named.st_dev, named.st_ino, named.mount_id)
        != (opened.st_dev, opened.st_ino, opened.mount_id)
    {
        return Err(format!(
            "path and descriptor disagree: mount {} and {}",
            named.mount_id, opened.mount_id
        ));
    }
    let devices = devices_of(opened.st_dev);
    if apart {
        let root = fs::metadata("/").map_err(said("/"))?;
        if !devices.is_disjoint(&devices_of(root.dev())) {
            return Err(format!("it lies on {devices:?}, as / does"));
        }
    }
    let canonical = fs::read_link(&link).map_err(said("its real path"))?;
    Ok(MountIdentity {
        canonical_path: canonical.to_string_lossy().into_owned(),
        physical_device_ids: devices.into_iter().collect(),
        filesystem_identity: format!("{}:{}:{}", opened.mount_id, opened.st_dev, opened.st_ino),
        filesystem_uuid: sys::file_system_uuid(pinned)
            .ok()
            .map(|uuid| Uuid::from_bytes(uuid).hyphenated().to_string()),
    })
}

/// Names of the disks below a device; its numbers where the kernel names none.
fn devices_of(device: u64) -> BTreeSet<String> {
    let numbers = format!("{}:{}", major(device), minor(device));
    let mut names = BTreeSet::new();
    if let Ok(folder) = fs::canonicalize(Path::new("/sys/dev/block").join(&numbers)) {
        leaves(&folder, &mut names);
    }
    if names.is_empty() {
        names.insert(numbers);
    }
    names
}

/// Descends to the devices that no other one is made of; a partition is its disk.
fn leaves(folder: &Path, names: &mut BTreeSet<String>) {
    let below: Vec<_> =
        fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten().collect();
    for entry in &below {
        if let Ok(folder) = fs::canonicalize(entry.path()) {
            leaves(&folder, names);
        }
    }
    if !below.is_empty() {
        return;
    }
    let is_partition = folder.join("partition").exists();
    let disk = if is_partition { folder.parent() } else { Some(folder) };
    names.extend(disk.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()));
}

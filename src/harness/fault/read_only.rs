//! `read_only`: file systems of drives turn read-only under the running node.
//!
//! An ext4 is told of an error and does what it does after any: open files, new files and flushes get EROFS at
//! once. An xfs has no such switch; its node's mount is remounted read-only as soon as no file is open for
//! writing. Evidence: an EROFS that we saw ourselves, as the node. Healed by a drive that lives again, which
//! for an ext4 means the image as it was, in a new device.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::mount::mount;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::probe;
use crate::harness::scenario::fault::ReadOnly;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

/// How long a remount waits for a moment without a file open for writing.
const REMOUNT_PATIENCE: Duration = Duration::from_secs(3);

struct IsReadOnly {
    drives: Vec<usize>,
}

pub(super) async fn inject(fault: &ReadOnly, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let (hardware, all) = (Arc::clone(scene.testbed.hardware()), drives.clone());
    let refused = blocking(move || {
        for drive in &all {
            turn(&hardware, *drive)?;
        }
        Ok(refusing(&hardware, &all))
    })
    .await?;
    let standing = IsReadOnly { drives };
    if refused < standing.drives.len() {
        let still = standing.drives.len() - refused;
        return Err(Miss::NotReached(format!("{still} drives still take writes")));
    }
    scene.teller.injected(format!("a write of ours got EROFS on {refused} drives"));
    Ok(Some(Box::new(standing)))
}

/// Turns one drive read-only.
fn turn(hardware: &Drives, drive: usize) -> Result<(), TestbedError> {
    match hardware.filesystem() {
        Filesystem::Ext4 => {
            let number = hardware.device_number(drive)?;
            let switch = format!("/sys/fs/ext4/loop{number}/trigger_fs_error");
            fs::write(&switch, "firedrill").map_err(TestbedError::io("write", &switch))
        }
        Filesystem::Xfs => hardware
            .as_node(drive, |root| remount(root, MsFlags::MS_RDONLY))
            .map_err(TestbedError::io("remount read-only", hardware.root(drive))),
    }
}

/// Changes the flags of one mount, as soon as nobody has a file open for writing.
fn remount(root: &Path, flags: MsFlags) -> io::Result<()> {
    let flags = flags
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_BIND
        | MsFlags::MS_NODEV
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NOATIME;
    let begun = Instant::now();
    loop {
        match mount(None::<&str>, root, None::<&str>, flags, None::<&str>) {
            Err(Errno::EBUSY) if begun.elapsed() < REMOUNT_PATIENCE => std::thread::yield_now(),
            other => return Ok(other?),
        }
    }
}

/// On how many drives a write of ours, as the node, gets EROFS.
fn refusing(hardware: &Drives, drives: &[usize]) -> usize {
    let refuses = |drive: &&usize| {
        let written = hardware.as_node(**drive, probe::write);
        written.is_err_and(|error| error.raw_os_error() == Some(Errno::EROFS as i32))
    };
    drives.iter().filter(refuses).count()
}

impl Standing for IsReadOnly {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let refused = refusing(testbed.hardware(), &self.drives);
            (refused > 0).then(|| format!("{refused} drives still answer EROFS"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        let (hardware, drives) = (Arc::clone(testbed.hardware()), self.drives.clone());
        blocking(move || {
            let mut words = 0;
            for drive in drives.into_iter().filter(|drive| hardware.is_mounted(*drive)) {
                match hardware.filesystem() {
                    // Somebody else may have mounted it anew since.
                    Filesystem::Ext4 if refusing(&hardware, &[drive]) == 0 => {}
                    Filesystem::Ext4 => hardware.revive(drive)?,
                    Filesystem::Xfs => hardware
                        .as_node(drive, |root| remount(root, MsFlags::empty()))
                        .map_err(TestbedError::io("remount", hardware.root(drive)))?,
                }
                let root = hardware.root(drive);
                let written = hardware.as_node(drive, probe::write);
                written.map_err(TestbedError::io("write again on", &root))?;
                words += 1;
            }
            Ok(format!("a write of ours succeeded on {words} drives"))
        })
        .boxed()
    }
}

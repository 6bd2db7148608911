//! `fill_drive`: drives have no space left.
//!
//! A file without a name takes all of it, so that nothing foreign is ever seen on the drive. Evidence: an ENOSPC
//! that we saw ourselves. Healed by closing the file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use nix::errno::Errno;
use nix::fcntl::FallocateFlags;
use nix::fcntl::fallocate;
use nix::sys::statvfs::statvfs;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::probe;
use crate::harness::scenario::fault::FillDrive;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

/// The least that is asked for: one block.
const BLOCK_BYTES: i64 = 4096;
/// How often a drive is filled before it is left as it is.
const PASSES_MAX: usize = 8;
/// How long a file system may take to give room back.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for it.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

struct Filled {
    drives: Vec<usize>,
}

pub(super) async fn inject(fault: &FillDrive, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let (hardware, all) = (Arc::clone(scene.testbed.hardware()), drives.clone());
    let (taken, full) = blocking(move || {
        let mut taken = 0;
        for drive in &all {
            let root = hardware.root(*drive);
            let (ballast, bytes) = fill(&root).map_err(TestbedError::io("fill", &root))?;
            hardware.hold_ballast(*drive, Some(ballast));
            taken += bytes;
        }
        Ok((taken, full(&hardware, &all)))
    })
    .await?;
    let mut standing = Filled { drives };
    if full < standing.drives.len() {
        let still = standing.drives.len() - full;
        standing.heal(scene.testbed).await?;
        return Err(Miss::NotReached(format!("{still} drives still have space")));
    }
    let words = format!("{taken} bytes taken; a write of ours got ENOSPC on {full} drives");
    scene.teller.injected(words);
    Ok(Some(Box::new(standing)))
}

/// Takes all space of the drive at `root`; answers what holds it, and how much.
fn fill(root: &Path) -> std::io::Result<(File, i64)> {
    let ballast = probe::unnamed_file(root)?;
    let mut taken = 0;
    // What was removed before is free only after a flush: what the last one gave back is taken, too.
    for _ in 0..PASSES_MAX {
        let before = taken;
        taken = take(&ballast, root, taken)?;
        ballast.sync_all()?;
        if taken == before {
            break;
        }
    }
    Ok((ballast, taken))
}

/// Makes `ballast`, of `taken` bytes, as long as there is space for; answers its length.
fn take(ballast: &File, root: &Path, mut taken: i64) -> std::io::Result<i64> {
    let space = statvfs(root)?;
    let free = i64::try_from(space.blocks_available().saturating_mul(space.fragment_size()));
    let mut step = free.unwrap_or(i64::MAX).max(BLOCK_BYTES);
    while step >= BLOCK_BYTES {
        match fallocate(ballast, FallocateFlags::empty(), taken, step) {
            Ok(()) => taken += step,
            Err(Errno::ENOSPC) => step /= 2,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(taken)
}

/// On how many drives a write of ours gets ENOSPC.
fn full(hardware: &Drives, drives: &[usize]) -> usize {
    let is_full = |drive: &&usize| {
        let written = probe::write(&hardware.root(**drive));
        written.is_err_and(|error| error.raw_os_error() == Some(Errno::ENOSPC as i32))
    };
    drives.iter().filter(is_full).count()
}

/// Waits until a write of ours succeeds: xfs gives the room of a file back after the last of its users has gone.
fn has_room_again(root: &Path) -> io::Result<()> {
    let deadline = Instant::now() + ROOM_PATIENCE;
    loop {
        match probe::write(root) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                if Instant::now() > deadline {
                    return Err(error);
                }
                thread::sleep(LOOK_PERIOD);
            }
            written => return written,
        }
    }
}

impl Standing for Filled {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let full = full(testbed.hardware(), &self.drives);
            (full > 0).then(|| format!("{full} drives still answer ENOSPC"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        let (hardware, drives) = (Arc::clone(testbed.hardware()), self.drives.clone());
        blocking(move || {
            for drive in drives.iter().filter(|drive| hardware.is_mounted(**drive)) {
                hardware.hold_ballast(*drive, None);
                let root = hardware.root(*drive);
                has_room_again(&root).map_err(TestbedError::io("write again on", &root))?;
            }
            Ok(format!("a write of ours succeeded on {} drives", drives.len()))
        })
        .boxed()
    }
}

//! `fail_reads`: reads of drives fail with an I/O error.
//!
//! The device shows only the front of its image, as far as the file system's own tables and journal reach: what
//! lies behind fails at once, written or read. What was cached is dropped first, or it would still be read.
//! Evidence: an EIO that we saw ourselves. Healed by showing all of it again; a file system that has given up
//! meanwhile is brought back from its image.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use nix::errno::Errno;
use nix::fcntl::PosixFadviseAdvice;
use nix::fcntl::posix_fadvise;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::probe;
use crate::harness::scenario::fault::FailReads;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

/// Bytes of the file that we try to read.
const PROBE_BYTES: usize = 64 << 10;

struct Failing {
    /// Each drive with a file of ours on it, without a name, which was whole when the fault struck.
    drives: Vec<(usize, Arc<File>)>,
}

pub(super) async fn inject(fault: &FailReads, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let hardware = Arc::clone(scene.testbed.hardware());
    let standing = blocking(move || {
        let mut failing = Vec::new();
        for drive in drives {
            let root = hardware.root(drive);
            let file = prepare(&root).map_err(TestbedError::io("prepare", &root))?;
            hardware.limit(drive, hardware.bytes_of_metadata(drive)?)?;
            failing.push((drive, Arc::new(file)));
        }
        Ok(Failing { drives: failing })
    })
    .await?;
    let failed = standing.failing();
    if failed < standing.drives.len() {
        let hardware = scene.testbed.hardware();
        for (drive, _) in &standing.drives {
            hardware.limit(*drive, 0)?;
        }
        let still = standing.drives.len() - failed;
        return Err(Miss::NotReached(format!("{still} drives could still be read")));
    }
    scene.teller.injected(format!("a read of ours got EIO on {failed} drives"));
    Ok(Some(Box::new(standing)))
}

/// Writes a file to read later, and drops everything that the kernel has cached of the drive's files.
fn prepare(root: &Path) -> io::Result<File> {
    let mut file = probe::unnamed_file(root)?;
    file.write_all(&[0x5A; PROBE_BYTES])?;
    file.sync_all()?;
    nix::unistd::syncfs(File::open(root)?)?;
    forget(root)?;
    Ok(file)
}

/// Drops the cached contents of every file below `folder`. What is open for writing elsewhere may stay.
fn forget(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            // It may have been renamed or removed since it was listed.
            let _ = File::open(entry.path()).map(|file| forget_file(&file));
        }
    }
    Ok(())
}

fn forget_file(file: &File) -> io::Result<()> {
    Ok(posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

/// Reads a file from the device and not from memory.
fn read_through(mut file: &File) -> io::Result<()> {
    forget_file(file)?;
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut [0; PROBE_BYTES])
}

impl Failing {
    /// On how many drives a read of ours gets EIO.
    fn failing(&self) -> usize {
        let fails = |(_, file): &&(usize, Arc<File>)| {
            let read = read_through(file);
            read.is_err_and(|error| error.raw_os_error() == Some(Errno::EIO as i32))
        };
        self.drives.iter().filter(fails).count()
    }
}

/// Shows all of the drive again, and brings its file system back if that has given up.
fn show_again(hardware: &Drives, drive: usize) -> Result<bool, TestbedError> {
    hardware.limit(drive, 0)?;
    let root = hardware.root(drive);
    if probe::write(&root).is_ok() {
        return Ok(false);
    }
    hardware.revive(drive)?;
    probe::write(&root).map_err(TestbedError::io("write again on", &root))?;
    Ok(true)
}

impl Standing for Failing {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let failed = self.failing();
            (failed > 0).then(|| format!("{failed} drives still answer EIO"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        let hardware = Arc::clone(testbed.hardware());
        // Closed before anything is unmounted.
        let drives: Vec<usize> = self.drives.drain(..).map(|(drive, _)| drive).collect();
        blocking(move || {
            let mut revived = 0;
            for drive in drives.iter().filter(|drive| hardware.is_mounted(**drive)) {
                revived += usize::from(show_again(&hardware, *drive)?);
            }
            let count = drives.len();
            Ok(format!("{count} drives show all their bytes again, {revived} were mounted anew"))
        })
        .boxed()
    }
}

//! Loop devices of ours: made, tagged, watched until they are gone.
//!
//! Their numbers lie in a range that nobody else draws from, they carry a tag by which `clean` knows them,
//! and the kernel detaches them when their last user is gone, however that comes about.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use sha2::Digest as _;
use sha2::Sha256;

use super::TestbedError;
use super::ledger::Ledger;
use super::ledger::LedgerEntry;
use super::registry;
use crate::sys;
use crate::sys::LoopOptions;

/// The first number that is ours: far above what the kernel and `losetup` give out.
const FIRST_NUMBER: u32 = 256;
/// How long a device may take to lose its image once nobody uses it.
const DETACH_PATIENCE: Duration = Duration::from_secs(5);
/// How often a state of the kernel's is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

/// Makes the loop devices of one testbed.
#[derive(Debug)]
pub(super) struct Loops {
    ledger: Arc<Ledger>,
    tag: String,
    made: Mutex<BTreeSet<u32>>,
}

/// A device that carries an image. Dropping it detaches the image once it is not mounted any more.
#[derive(Debug)]
pub(super) struct LoopDevice {
    number: u32,
    device: File,
}

/// The tag of the devices of the testbed `name`.
pub(super) fn tag_of(name: &str) -> String {
    format!("firedrill:{}", hex::encode(&Sha256::digest(name.as_bytes())[..12]))
}

/// The block device of this number.
pub(super) fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Whether a device of this number can be a testbed's: others are not even looked at.
pub(super) fn may_be_ours(number: u32) -> bool {
    number >= FIRST_NUMBER
}

/// A file that the kernel keeps about the device of this number.
fn facts_path(number: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/loop{number}/{name}"))
}

/// Whether the device of this number carries an image.
pub(super) fn is_attached(number: u32) -> bool {
    facts_path(number, "loop/backing_file").exists()
}

/// The kernel's sequence number of the device's contents: never the same again.
pub(super) fn diskseq(number: u32) -> io::Result<u64> {
    let text = fs::read_to_string(facts_path(number, "diskseq"))?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// The tag of the device of this number; `None` when it carries no image.
pub(super) fn tag_at(number: u32) -> io::Result<Option<String>> {
    let device = match File::open(device_path(number)) {
        Ok(device) => device,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match sys::loop_status(&device) {
        Ok(status) => Ok(Some(String::from_utf8_lossy(&status.tag).into_owned())),
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The device, if any, that carries the image at `path` now.
fn carrier_of(path: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backing.is_ok_and(|backing| Path::new(backing.trim_end_matches('\n')) == path) {
            return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// Waits until no image is attached to the device of this number.
pub(super) fn wait_detached(number: u32) -> Result<(), TestbedError> {
    let begun = Instant::now();
    while is_attached(number) {
        if begun.elapsed() > DETACH_PATIENCE {
            let state = format!("loop{number} to lose its image");
            return Err(TestbedError::Late { state, waited: DETACH_PATIENCE });
        }
        thread::sleep(LOOK_PERIOD);
    }
    Ok(())
}

/// Opens `/dev/loop-control`.
pub(super) fn control() -> Result<File, TestbedError> {
    let path = "/dev/loop-control";
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(TestbedError::io("open", path))
}

impl Loops {
    pub(super) fn new(ledger: Arc<Ledger>, testbed: &str) -> Self {
        Self { ledger, tag: tag_of(testbed), made: Mutex::default() }
    }

    /// Makes a new device and attaches an image to it.
    pub(super) fn attach_fresh(&self, image: &Path) -> Result<LoopDevice, TestbedError> {
        let number = self.make(image)?;
        self.configure(number, image, false)
    }

    /// Makes a new device and attaches an image to it, for reading only.
    pub(super) fn attach_still(&self, image: &Path) -> Result<LoopDevice, TestbedError> {
        let number = self.make(image)?;
        self.configure(number, image, true)
    }

    /// Makes a new device, which is to carry this image.
    fn make(&self, image: &Path) -> Result<u32, TestbedError> {
        let control = control()?;
        let _others = registry::lock_out_others()?;
        let mut number = FIRST_NUMBER;
        loop {
            if facts_path(number, "").exists() {
                number += 1;
                continue;
            }
            let (tag, image) = (self.tag.clone(), image.to_owned());
            self.ledger.write(&LedgerEntry::Loop { number, tag, image })?;
            match sys::loop_add(&control, number) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    return Err(TestbedError::io("make", device_path(number))(error));
                }
            }
        }
        self.ledger.write(&LedgerEntry::LoopMade { number })?;
        self.made().insert(number);
        Ok(number)
    }

    /// Attaches an image to a device that this testbed made before and that carries none now.
    pub(super) fn attach_at(&self, image: &Path, number: u32) -> Result<LoopDevice, TestbedError> {
        assert!(self.made().contains(&number), "loop{number} is none of this testbed's devices");
        let (tag, path) = (self.tag.clone(), image.to_owned());
        self.ledger.write(&LedgerEntry::Loop { number, tag, image: path })?;
        self.configure(number, image, false)
    }

    /// Attaches an image, which no other device carries, to the device of this number.
    fn configure(
        &self,
        number: u32,
        image: &Path,
        read_only: bool,
    ) -> Result<LoopDevice, TestbedError> {
        if let Some(carrier) =
            carrier_of(image).map_err(TestbedError::io("search", "/sys/block"))?
        {
            let reason = format!("{carrier} carries it already");
            return Err(TestbedError::Taken { path: image.to_owned(), reason });
        }
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let backing = if read_only { File::open(image) } else { open(image) };
        let backing = backing.map_err(TestbedError::io("open image", image))?;
        let path = device_path(number);
        let device = open(&path).map_err(TestbedError::io("open", &path))?;
        let options = LoopOptions { tag: self.tag.as_bytes(), read_only };
        sys::loop_configure(&device, &backing, options)
            .map_err(TestbedError::io("attach an image to", &path))?;
        Ok(LoopDevice { number, device })
    }

    /// Removes the devices that this testbed made; each must have lost its image.
    pub(super) fn remove_all(&self) -> Result<(), TestbedError> {
        let control = control()?;
        let _others = registry::lock_out_others()?;
        let mut made = self.made();
        let removed = remove_each(&control, made.iter());
        let gone = made.iter().zip(&removed).filter(|(_, result)| result.is_ok());
        let gone: Vec<u32> = gone.map(|(number, _)| *number).collect();
        made.retain(|number| !gone.contains(number));
        removed.into_iter().collect()
    }

    /// The numbers of the devices that this testbed made.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.made().iter().copied().collect()
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Removes devices, all at once: each removal waits for the kernel, not for a processor.
pub(super) fn remove_each<'a>(
    control: &File,
    numbers: impl IntoIterator<Item = &'a u32>,
) -> Vec<Result<(), TestbedError>> {
    thread::scope(|scope| {
        let removals = numbers.into_iter().map(|number| scope.spawn(|| remove(control, *number)));
        let running: Vec<_> = removals.collect();
        running
            .into_iter()
            .map(|removal| removal.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Removes a device without an image; nothing when there is none. The caller has locked others out.
fn remove(control: &File, number: u32) -> Result<(), TestbedError> {
    let begun = Instant::now();
    loop {
        match sys::loop_remove(control, number) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => return Ok(()),
            // Somebody who looks at all block devices may have it open for a moment.
            Err(error)
                if error.raw_os_error() == Some(Errno::EBUSY as i32)
                    && begun.elapsed() < DETACH_PATIENCE
                    && !is_attached(number) =>
            {
                thread::sleep(LOOK_PERIOD);
            }
            Err(error) => return Err(TestbedError::io("remove", device_path(number))(error)),
        }
    }
}

impl LoopDevice {
    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Where its block device is.
    pub(super) fn path(&self) -> PathBuf {
        device_path(self.number)
    }

    /// Shows only the first `bytes` of the image; 0 for all.
    pub(super) fn limit(&self, bytes: u64) -> Result<(), TestbedError> {
        sys::loop_set_size_limit(&self.device, bytes)
            .map_err(TestbedError::io("change the size of", self.path()))
    }

    /// Lets go of the device and waits until the kernel has detached the image. It must not be mounted.
    pub(super) fn detach(self) -> Result<(), TestbedError> {
        let number = self.number;
        drop(self);
        wait_detached(number)
    }
}

//! The drives of a testbed: image, loop device, and the same mount point in two namespaces.
//!
//! The harness and the node that owns a drive see it under one path, each in its own mount namespace. What
//! is done here is what happens to hardware: attached, mounted, pulled, replaced, shut down, frozen. Why
//! is for the faults to say. Nothing here waits for a node: whoever unmounts must have ended it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount2;
use sha2::Digest as _;
use sha2::Sha256;
use uuid::Uuid;

use super::DrivePlace;
use super::Identity;
use super::TestbedError;
use super::image;
use super::image::Images;
use super::ledger::Ledger;
use super::ledger::LedgerEntry;
use super::loops;
use super::loops::LoopDevice;
use super::loops::Loops;
use super::mounts::MountSpace;
use crate::harness::scenario::plan::DrivePlan;
use crate::harness::scenario::plan::Filesystem;
use crate::sys;

/// How long a mount may stay busy after its users have gone.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(5);
/// How often a busy mount is tried again.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// Threads that make drives: copying is work, mounting is waiting.
const PROVISIONING_THREADS: usize = 4;
/// Mount ids that are parked at most.
const PARKED_MOUNTS_MAX: usize = 512;
/// Images that one drive may have had in a run; their UUIDs are told to the nodes beforehand.
const GENERATIONS: u32 = 8;

/// All drives of a testbed, in pool order.
#[derive(Debug)]
pub(crate) struct Drives {
    folder: PathBuf,
    slots: Vec<Mutex<Slot>>,
    spaces: Vec<Arc<MountSpace>>,
    images: Images,
    loops: Loops,
    ledger: Arc<Ledger>,
}

/// One place for a drive, and what is in it now.
#[derive(Debug)]
struct Slot {
    plan: DrivePlan,
    mount_point: PathBuf,
    /// Counts the images that this slot has had.
    images_made: u32,
    /// Counts the blank drives that were put in.
    generation: u32,
    image: PathBuf,
    /// The device that carries the image; `None` while the drive is out.
    device: Option<LoopDevice>,
    /// Whether it is mounted (in both namespaces).
    is_mounted: bool,
    /// Holds the space of a full drive.
    ballast: Option<File>,
    /// The root of a frozen drive, opened before it was frozen.
    frozen_root: Option<File>,
}

/// UUID of the file system that the drive called `plan` has in its n-th generation.
fn uuid_in(plan: &DrivePlan, generation: u32) -> Uuid {
    if generation == 0 {
        return plan.uuid;
    }
    let mut hash = Sha256::new();
    hash.update(plan.uuid.as_bytes());
    hash.update(generation.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

impl Drives {
    /// Makes, attaches and mounts all drives. On an error what was made is dropped, and with it detached.
    pub(super) fn provision(
        plans: &[DrivePlan],
        folder: &Path,
        spaces: Vec<Arc<MountSpace>>,
        images: Images,
        loops: Loops,
        ledger: Arc<Ledger>,
    ) -> Result<Self, TestbedError> {
        let slots = plans.iter().map(|plan| {
            let mount_point = folder.join(plan.node.to_string()).join(plan.slot.to_string());
            Mutex::new(Slot {
                plan: plan.clone(),
                mount_point,
                images_made: 0,
                generation: 0,
                image: PathBuf::new(),
                device: None,
                is_mounted: false,
                ballast: None,
                frozen_root: None,
            })
        });
        let (folder, slots) = (folder.to_owned(), slots.collect());
        let drives = Self { folder, slots, spaces, images, loops, ledger };
        drives.on_each(PROVISIONING_THREADS, |slot| drives.insert_blank(slot))?;
        Ok(drives)
    }

    /// Does something with every slot, on so many threads at most.
    fn on_each(
        &self,
        threads: usize,
        act: impl Fn(&mut Slot) -> Result<(), TestbedError> + Sync,
    ) -> Result<(), TestbedError> {
        let workers = self.slots.len().min(threads);
        let share = self.slots.len().div_ceil(workers.max(1)).max(1);
        thread::scope(|scope| {
            let shares = self.slots.chunks(share).map(|slots| {
                let act = &act;
                scope.spawn(move || slots.iter().try_for_each(|slot| act(&mut lock(slot))))
            });
            let running: Vec<_> = shares.collect();
            running.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    /// Where the drive called `name` stands in pool order.
    pub(crate) fn index(&self, name: &str) -> Result<usize, TestbedError> {
        self.slots.iter().position(|slot| lock(slot).plan.name == name).ok_or_else(|| {
            TestbedError::NoDrive { drive: name.to_owned(), reason: "no such slot".to_owned() }
        })
    }

    /// Every drive, as the harness sees it.
    pub(crate) fn places(&self) -> Vec<DrivePlace> {
        let place = |slot: &Mutex<Slot>| {
            let slot = lock(slot);
            DrivePlace {
                name: slot.plan.name.clone(),
                node: slot.plan.node,
                slot: slot.plan.slot,
                root: slot.mount_point.clone(),
                mounted: slot.is_mounted,
            }
        };
        self.slots.iter().map(place).collect()
    }

    /// UUIDs of all file systems that this testbed makes, or may make in slots of `node`'s peers and its own.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let all = self.slots.iter().flat_map(|slot| {
            let plan = lock(slot).plan.clone();
            (0..GENERATIONS).map(move |generation| uuid_in(&plan, generation).to_string())
        });
        all.collect()
    }

    /// The kind of file system of all drives.
    pub(crate) fn filesystem(&self) -> Filesystem {
        self.images.filesystem()
    }

    fn slot(&self, drive: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[drive])
    }

    fn space(&self, slot: &Slot) -> &MountSpace {
        &self.spaces[slot.plan.node]
    }

    /// Puts a blank drive into an empty slot and mounts it.
    fn insert_blank(&self, slot: &mut Slot) -> Result<(), TestbedError> {
        assert!(slot.device.is_none(), "the slot of {} is taken", slot.plan.name);
        assert!(slot.generation < GENERATIONS, "{} was replaced too often", slot.plan.name);
        let path = self.next_image(slot)?;
        self.images.make(&path, uuid_in(&slot.plan, slot.generation))?;
        slot.image = path;
        slot.device = Some(self.loops.attach_fresh(&slot.image)?);
        self.mount(slot)
    }

    /// The path of the slot's next image, told to the ledger.
    fn next_image(&self, slot: &mut Slot) -> Result<PathBuf, TestbedError> {
        let Slot { plan, images_made, .. } = slot;
        let path = self.images.path(&format!("{}-{}-{images_made}", plan.node, plan.slot));
        slot.images_made += 1;
        self.ledger.write(&LedgerEntry::Image { path: path.clone() })?;
        Ok(path)
    }

    /// Mounts the slot's device for the harness and for the node.
    fn mount(&self, slot: &mut Slot) -> Result<(), TestbedError> {
        let device = slot.device.as_ref().expect("a drive is attached before it is mounted");
        let (source, target) = (device.path(), slot.mount_point.clone());
        let entry_source = source.display().to_string();
        self.ledger.write(&LedgerEntry::Mount { source: entry_source, path: target.clone() })?;
        let (kind, options) = match self.images.filesystem() {
            // On an error the file system turns read-only, as on any machine that is set up with care.
            Filesystem::Ext4 => ("ext4", "errors=remount-ro"),
            // The copy of a pulled drive has its UUID while the original may still be held.
            Filesystem::Xfs => ("xfs", "nouuid"),
        };
        let act = || -> io::Result<()> {
            let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOATIME;
            Ok(mount(Some(&source), &target, Some(kind), flags, Some(options))?)
        };
        act().map_err(TestbedError::io("mount a drive at", &target))?;
        slot.is_mounted = true;
        self.space(slot)
            .within(act)
            .map_err(TestbedError::io("mount a drive for its node at", &target))
    }

    /// Unmounts a drive in both namespaces; it must not be in use. The device stays attached.
    pub(crate) fn unmount(&self, drive: usize) -> Result<(), TestbedError> {
        self.unmount_slot(&mut self.slot(drive), MntFlags::empty())
    }

    fn unmount_slot(&self, slot: &mut Slot, flags: MntFlags) -> Result<(), TestbedError> {
        slot.ballast = None;
        self.thaw_slot(slot)?;
        if !slot.is_mounted {
            return Ok(());
        }
        let target = slot.mount_point.clone();
        let act = || unmount_patiently(&target, flags);
        self.space(slot).within(act).map_err(TestbedError::io("unmount for its node", &target))?;
        act().map_err(TestbedError::io("unmount", &target))?;
        slot.is_mounted = false;
        Ok(())
    }

    /// Unmounts drives and detaches their images; answers the numbers of the devices that carried them.
    pub(crate) fn take_out(&self, drives: &[usize]) -> Result<Vec<u32>, TestbedError> {
        drives.iter().map(|drive| self.take_out_slot(&mut self.slot(*drive))).collect()
    }

    fn take_out_slot(&self, slot: &mut Slot) -> Result<u32, TestbedError> {
        self.unmount_slot(slot, MntFlags::empty())?;
        let Some(device) = slot.device.take() else {
            let reason = "it is out already".to_owned();
            return Err(TestbedError::NoDrive { drive: slot.plan.name.clone(), reason });
        };
        let number = device.number();
        device.detach()?;
        Ok(number)
    }

    /// Attaches the image of a drive that is out, at a device number of ours or a new one, and mounts it.
    pub(crate) fn put_in(&self, drive: usize, number: Option<u32>) -> Result<(), TestbedError> {
        let mut slot = self.slot(drive);
        assert!(slot.device.is_none(), "{} is in its slot", slot.plan.name);
        let image = slot.image.clone();
        slot.device = Some(match number {
            Some(number) => self.loops.attach_at(&image, number)?,
            None => self.loops.attach_fresh(&image)?,
        });
        self.mount(&mut slot)
    }

    /// Mounts a drive whose device stayed attached.
    pub(crate) fn mount_again(&self, drive: usize) -> Result<(), TestbedError> {
        self.mount(&mut self.slot(drive))
    }

    /// Whether the drive is mounted.
    pub(crate) fn is_mounted(&self, drive: usize) -> bool {
        self.slot(drive).is_mounted
    }

    /// The device that carries the drive.
    pub(crate) fn device_number(&self, drive: usize) -> Result<u32, TestbedError> {
        let slot = self.slot(drive);
        let device = slot.device.as_ref().ok_or_else(|| TestbedError::NoDrive {
            drive: slot.plan.name.clone(),
            reason: "it is out".to_owned(),
        })?;
        Ok(device.number())
    }

    /// Shuts the drive's file system down as a loss of power does: what was not committed is gone.
    pub(crate) fn shut_down(&self, drive: usize) -> Result<(), TestbedError> {
        let root = self.slot(drive).mount_point.clone();
        let act = || sys::shut_down_file_system(&File::open(&root)?);
        act().map_err(TestbedError::io("shut down the file system at", &root))
    }

    /// Takes a drive out under its running node: its file system is shut down, a copy of the image is kept
    /// as it is then, and the mounts vanish while whoever has files open keeps them, dead.
    pub(crate) fn pull(&self, drive: usize) -> Result<(), TestbedError> {
        self.shut_down(drive)?;
        let mut slot = self.slot(drive);
        let copy = self.next_image(&mut slot)?;
        image::copy_sparse(&slot.image, &copy)?;
        self.discard(&mut slot)?;
        slot.image = copy;
        Ok(())
    }

    /// Lazily unmounts the drive and forgets its device and image, which live on while somebody holds them.
    fn discard(&self, slot: &mut Slot) -> Result<(), TestbedError> {
        self.unmount_slot(slot, MntFlags::MNT_DETACH)?;
        // Its number stays made and is removed by the teardown, when nobody can hold it any more.
        drop(slot.device.take());
        // The device keeps the file open; its space is free when the last user is gone.
        std::fs::remove_file(&slot.image).map_err(TestbedError::io("remove image", &slot.image))
    }

    /// Takes a drive out and puts a blank one, with another UUID, in its place.
    pub(crate) fn replace(&self, drive: usize) -> Result<(), TestbedError> {
        if self.is_mounted(drive) {
            self.shut_down(drive)?;
        }
        let mut slot = self.slot(drive);
        self.discard(&mut slot)?;
        slot.generation += 1;
        self.insert_blank(&mut slot)
    }

    /// Brings a drive back whose file system is dead: as [`Drives::pull`], and in again at once.
    pub(crate) fn revive(&self, drive: usize) -> Result<(), TestbedError> {
        self.pull(drive)?;
        self.put_in(drive, None)
    }

    /// Freezes the drive's file system: whoever writes hangs in the kernel until it is thawed.
    pub(crate) fn freeze(&self, drive: usize) -> Result<(), TestbedError> {
        let mut slot = self.slot(drive);
        let path = slot.mount_point.clone();
        let root = File::open(&path).map_err(TestbedError::io("open", &path))?;
        let number = slot.device.as_ref().map(LoopDevice::number).unwrap_or_default();
        self.ledger.write(&LedgerEntry::Freeze { number })?;
        sys::freeze(&root).map_err(TestbedError::io("freeze", &path))?;
        slot.frozen_root = Some(root);
        Ok(())
    }

    /// Thaws the drive's file system; nothing when it is not frozen.
    pub(crate) fn thaw(&self, drive: usize) -> Result<(), TestbedError> {
        self.thaw_slot(&mut self.slot(drive))
    }

    fn thaw_slot(&self, slot: &mut Slot) -> Result<(), TestbedError> {
        let Some(root) = slot.frozen_root.take() else {
            return Ok(());
        };
        match sys::thaw(&root) {
            Ok(()) => {}
            // Somebody else thawed it.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {}
            Err(error) => return Err(TestbedError::io("thaw", &slot.mount_point)(error)),
        }
        let number = slot.device.as_ref().map(LoopDevice::number).unwrap_or_default();
        self.ledger.write(&LedgerEntry::Thawed { number })
    }

    /// Thaws every drive, so that whoever hangs can die.
    pub(crate) fn thaw_all(&self) -> Result<(), TestbedError> {
        self.slots.iter().try_for_each(|slot| self.thaw_slot(&mut lock(slot)))
    }

    /// Shows the drive only the first bytes of its image; 0 for all.
    pub(crate) fn limit(&self, drive: usize, bytes: u64) -> Result<(), TestbedError> {
        match &self.slot(drive).device {
            Some(device) => device.limit(bytes),
            None => Ok(()),
        }
    }

    /// The least that a drive must show for its file system to stay alive while all file contents fail.
    pub(crate) fn bytes_of_metadata(&self, drive: usize) -> Result<u64, TestbedError> {
        let slot = self.slot(drive);
        match self.images.filesystem() {
            Filesystem::Ext4 => image::ext4_journal_end(&slot.image)
                .map_err(TestbedError::io("find the journal of", &slot.image)),
            // Its log lies in the middle: it shuts down with its first write to it, and must be revived.
            Filesystem::Xfs => Ok(128 << 10),
        }
    }

    /// Keeps a file open, without a name, for as long as the drive is full.
    pub(crate) fn hold_ballast(&self, drive: usize, ballast: Option<File>) {
        self.slot(drive).ballast = ballast;
    }

    /// Where the drive is mounted.
    pub(crate) fn root(&self, drive: usize) -> PathBuf {
        self.slot(drive).mount_point.clone()
    }

    /// Does something as a thread that sees what the drive's node sees.
    pub(crate) fn as_node<T: Send>(
        &self,
        drive: usize,
        act: impl FnOnce(&Path) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let (root, node) = {
            let slot = self.slot(drive);
            (slot.mount_point.clone(), slot.plan.node)
        };
        self.spaces[node].within(|| act(&root))
    }

    /// The drive's identity, as its node sees it.
    pub(crate) fn identity(&self, drive: usize) -> Result<Identity, TestbedError> {
        let (number, name) = (self.device_number(drive)?, self.slot(drive).plan.name.clone());
        if !self.is_mounted(drive) {
            let reason = "it is not mounted".to_owned();
            return Err(TestbedError::NoDrive { drive: name, reason });
        }
        let read = |root: &Path| {
            let facts = sys::mount_facts(root)?;
            let uuid = sys::file_system_uuid(File::open(root)?.as_fd())?;
            Ok(Identity {
                st_dev: facts.st_dev,
                st_ino: facts.st_ino,
                device: format!("loop{number}"),
                diskseq: loops::diskseq(number)?,
                mount_id: facts.mount_id,
                mount_unique: facts.mount_unique,
                uuid: Uuid::from_bytes(uuid).to_string(),
            })
        };
        self.as_node(drive, read).map_err(TestbedError::io("identify the drive at", name))
    }

    /// Takes every mount id up to `highest` that is free now: the kernel gives out the lowest free one.
    pub(crate) fn park_mount_ids(&self, highest: u64) -> Result<Parked, TestbedError> {
        let path = self.folder.join("parked");
        let source = path.display().to_string();
        self.ledger.write(&LedgerEntry::Mount { source, path: path.clone() })?;
        std::fs::create_dir_all(&path).map_err(TestbedError::io("create", &path))?;
        let mut parked = Parked { path, mounts: 0 };
        while parked.mounts < PARKED_MOUNTS_MAX {
            parked.mount().map_err(TestbedError::io("mount a placeholder at", &parked.path))?;
            let facts = sys::mount_facts(&parked.path);
            let facts = facts.map_err(TestbedError::io("look at", &parked.path))?;
            if facts.mount_id > highest {
                break;
            }
        }
        Ok(parked)
    }

    /// Unmounts and detaches everything and removes the devices. No node runs any more.
    /// Unmounts every drive and copies its image, without its holes, to `NODE-SLOT.img` in `folder`.
    pub(super) fn keep_images(&self, folder: &Path) -> Result<(), TestbedError> {
        std::fs::create_dir_all(folder).map_err(TestbedError::io("make", folder))?;
        self.on_each(self.slots.len(), |slot| {
            // Whole and clean only once nothing is mounted.
            self.unmount_slot(slot, MntFlags::empty())?;
            let name = format!("{}-{}.img", slot.plan.node, slot.plan.slot);
            image::copy_sparse(&slot.image, &folder.join(name))
        })
    }

    pub(super) fn tear_down(&self) -> Result<(), TestbedError> {
        // Each waits for the kernel, not for a processor.
        let mut result = self.on_each(self.slots.len(), |slot| {
            self.unmount_slot(slot, MntFlags::empty())?;
            match slot.device.take() {
                Some(device) => device.detach(),
                None => Ok(()),
            }
        });
        for number in self.loops.numbers() {
            result = result.and(loops::wait_detached(number));
        }
        result.and(self.loops.remove_all())
    }
}

/// Mounts of ours that do nothing but hold their ids; gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Parked {
    path: PathBuf,
    mounts: usize,
}

impl Parked {
    /// Stacks one more mount of the folder on itself.
    fn mount(&mut self) -> io::Result<()> {
        let nothing = None::<&str>;
        mount(Some(&self.path), &self.path, nothing, MsFlags::MS_BIND, nothing)?;
        self.mounts += 1;
        Ok(())
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        for _ in 0..self.mounts {
            // The teardown detaches whatever stays.
            let _ = umount2(&self.path, MntFlags::empty());
        }
    }
}

/// Unmounts; while users are still going away it is tried again.
fn unmount_patiently(path: &Path, flags: MntFlags) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match umount2(path, flags) {
            Err(Errno::EBUSY) if begun.elapsed() < UNMOUNT_PATIENCE => thread::sleep(LOOK_PERIOD),
            // It is not mounted in this namespace.
            Ok(()) | Err(Errno::EINVAL) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

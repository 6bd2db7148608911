//! Images that are mounted to be looked at: read-only, their journals not replayed, in our own namespace.
//!
//! Not a testbed: nothing is made or changed on the images. What is made on the machine (loop devices,
//! mounts, a folder) is registered and told in a ledger as a testbed's is, so that `clean` finds it.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount;

use super::TestbedError;
use super::ledger::Ledger;
use super::ledger::LedgerEntry;
use super::loops;
use super::loops::LoopDevice;
use super::loops::Loops;
use super::namespaces;
use super::registry;
use super::registry::Registration;

/// How each kind of file system is kept from replaying its journal.
const KINDS: [(&str, &str); 2] = [("ext4", "noload"), ("xfs", "norecovery")];

/// Mounted images. [`StillImages::dismount`] takes everything away again; a drop tries to.
#[derive(Debug)]
pub struct StillImages {
    folder: PathBuf,
    mounted: Vec<(PathBuf, Option<LoopDevice>)>,
    loops: Loops,
    ledger: Arc<Ledger>,
    registration: Registration,
}

impl StillImages {
    /// As [`StillImages::mount`]; nothing when there are no images.
    ///
    /// # Errors
    /// As [`TestbedError`] has them.
    pub fn mount_if_any(images: &[PathBuf]) -> Result<Option<Self>, TestbedError> {
        if images.is_empty() { Ok(None) } else { Self::mount(images).map(Some) }
    }

    /// Attaches and mounts images. The caller has [entered](namespaces::enter) namespaces of its own.
    ///
    /// # Errors
    /// As [`TestbedError`] has them; what was made is undone.
    pub fn mount(images: &[PathBuf]) -> Result<Self, TestbedError> {
        if !namespaces::is_inside() {
            return Err(TestbedError::Lacking {
                what: "namespaces of its own".to_owned(),
                how: "this command has to enter them first".to_owned(),
            });
        }
        let name = format!("audit-{}", hex::encode(rand::random::<[u8; 6]>()));
        let registration = Registration::enter(&name, loops::tag_of(&name))?;
        let ledger = Arc::new(Ledger::create(&[registration.ledger()], &name)?);
        let mut still = Self {
            folder: registry::folder_of(&name),
            mounted: Vec::new(),
            loops: Loops::new(Arc::clone(&ledger), &name),
            ledger,
            registration,
        };
        match still.mount_all(images) {
            Ok(()) => Ok(still),
            Err(error) => {
                // The first problem is the one to tell; what stays is left to `clean`.
                let _ = still.take_away();
                Err(error)
            }
        }
    }

    /// Where the images are mounted, in their order.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.mounted.iter().map(|(root, _)| root.clone()).collect()
    }

    /// Unmounts and detaches everything.
    ///
    /// # Errors
    /// Something is still in use; it stands in the registry.
    pub fn dismount(mut self) -> Result<(), TestbedError> {
        self.take_away()
    }

    fn mount_all(&mut self, images: &[PathBuf]) -> Result<(), TestbedError> {
        self.ledger.write(&LedgerEntry::Folder { path: self.folder.clone() })?;
        fs::create_dir(&self.folder).map_err(TestbedError::io("create", &self.folder))?;
        // On a tmpfs of this namespace, so that nothing of it is left when this process dies.
        let nothing = None::<&str>;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let (folder, source) = (self.folder.clone(), "tmpfs".to_owned());
        self.ledger.write(&LedgerEntry::Mount { source, path: folder })?;
        mount(Some("tmpfs"), &self.folder, Some("tmpfs"), flags, nothing)
            .map_err(TestbedError::errno("mount a tmpfs on", &self.folder))?;
        for (index, image) in images.iter().enumerate() {
            let image = fs::canonicalize(image).map_err(TestbedError::io("find image", image))?;
            let root = self.folder.join(index.to_string());
            fs::create_dir(&root).map_err(TestbedError::io("create", &root))?;
            let device = self.loops.attach_still(&image)?;
            let source = device.path();
            self.mounted.push((root.clone(), Some(device)));
            let line =
                LedgerEntry::Mount { source: source.display().to_string(), path: root.clone() };
            self.ledger.write(&line)?;
            mount_still(&source, &root).map_err(TestbedError::errno(
                "mount as ext4 or xfs, without replaying its journal, image",
                &image,
            ))?;
        }
        Ok(())
    }

    fn take_away(&mut self) -> Result<(), TestbedError> {
        while let Some((root, device)) = self.mounted.pop() {
            match umount(&root) {
                // It was attached and could not be mounted.
                Ok(()) | Err(nix::errno::Errno::EINVAL) => {}
                Err(errno) => return Err(TestbedError::errno("unmount", &root)(errno)),
            }
            device.map_or(Ok(()), LoopDevice::detach)?;
        }
        self.loops.remove_all()?;
        if umount(&self.folder).is_ok() {
            fs::remove_dir(&self.folder).map_err(TestbedError::io("remove", &self.folder))?;
        }
        self.ledger.write(&LedgerEntry::TornDown)?;
        self.registration.withdraw()?;
        super::clean::remove_if_unused();
        Ok(())
    }
}

impl Drop for StillImages {
    fn drop(&mut self) {
        if !self.mounted.is_empty() {
            // What stays is left to `clean`.
            let _ = self.take_away();
        }
    }
}

fn mount_still(device: &Path, root: &Path) -> nix::Result<()> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mut refused = nix::errno::Errno::EINVAL;
    for (kind, option) in KINDS {
        match mount(Some(device), root, Some(kind), flags, Some(option)) {
            Ok(()) => return Ok(()),
            // Not of this kind, or a kind that this kernel does not know.
            Err(errno @ (nix::errno::Errno::EINVAL | nix::errno::Errno::ENODEV)) => refused = errno,
            Err(errno) => return Err(errno),
        }
    }
    Err(refused)
}

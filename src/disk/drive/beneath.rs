//! Files of a real file system, reached through one descriptor of the root.
//!
//! Every path is resolved beneath that descriptor, without following links and without crossing into
//! another mount, so that nothing that happens at the mount point can redirect a write.
//!
//! # Sources
//!
//! openat2(2), renameat2(2), flock(2), sync_file_range(2). Of the kernel's own source, for what a journal orders:
//! `fs/jbd2/commit.c` (the block that ends a transaction is written behind a flush of the device, and flushed itself),
//! `ext4_end_io_end` and `xfs_end_ioend` (pages count as written only after the extents that hold them were entered),
//! `xlog_cil_push_work` (as jbd2, for xfs); `fs/jbd2/journal.c` for what a journal is called under `/proc/fs/jbd2`, and what
//! it tells there; `fs/jbd2/checkpoint.c` for a journal that is full: it lets go of one transaction for each new one, with
//! a flush before its superblock is written and one behind.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use nix::dir::Dir;
use nix::dir::Type;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;
use nix::fcntl::OpenHow;
use nix::fcntl::ResolveFlag;
use nix::fcntl::open;
use nix::fcntl::openat;
use nix::fcntl::openat2;
use nix::fcntl::renameat;
use nix::sys::stat::FileStat;
use nix::sys::stat::Mode;
use nix::sys::stat::fstat;
use nix::sys::stat::fstatat;
use nix::sys::stat::futimens;
use nix::sys::stat::lstat;
use nix::sys::stat::mkdirat;
use nix::sys::statfs::EXT4_SUPER_MAGIC;
use nix::sys::statfs::FsType;
use nix::sys::statfs::TMPFS_MAGIC;
use nix::sys::statfs::XFS_SUPER_MAGIC;
use nix::sys::statfs::fstatfs;
use nix::sys::statvfs::FsFlags;
use nix::sys::statvfs::fstatvfs;
use nix::sys::time::TimeSpec;
use nix::unistd::UnlinkatFlags;
use nix::unistd::fdatasync;
use nix::unistd::fsync;
use nix::unistd::linkat;
use nix::unistd::syncfs;
use nix::unistd::unlinkat;

use super::at_once;
use super::files::AfterWrite;
use super::files::Entry;
use super::files::Files;
use super::files::Lock;
use super::files::Room;
use super::files::WHOLE_BYTES_MAX;
use super::mount;
use super::request::MountIdentity;
use crate::sys;

/// Writes into the middle of a file of so many bytes begin to go to the drive at once.
const WRITEBACK_BYTES_MIN: u64 = 128 << 10;

/// The inode of the root of every ext4 (kernel documentation, `filesystems/ext4/special_inodes`).
const EXT4_ROOT_INODE: u64 = 2;
/// Blocks that a transaction may have, for each write that a checkpoint is put off for.
const BLOCKS_PER_WRITE: u64 = 16;

const FILE_MODE: Mode = Mode::from_bits_truncate(0o600);
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o700);

/// Files beneath one root.
pub struct Beneath {
    path: PathBuf,
    root: OwnedFd,
    /// `st_dev` and inode of the root as it was opened.
    identity: (u64, u64),
    may_be_unmounted: bool,
    /// Whether a journal orders what is changed.
    is_ordered: bool,
    /// Of an ext4 whose root this is: after how many writes its journal is written back.
    writes_per_checkpoint: Option<u64>,
    /// Held by whoever writes it back.
    checkpoint: Arc<Mutex<()>>,
    /// Whether a directory's links tell how many directories it holds.
    counts_links: bool,
}

/// What the kernel tells of the journal that an ext4 has of its own, on the same device: without one nothing is ordered,
/// and a journal elsewhere says nothing of what this device has of contents. `None` also when it does not tell.
fn own_journal(device: u64) -> Option<String> {
    let (major, minor) = (nix::libc::major(device), nix::libc::minor(device));
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = device.file_name()?.to_string_lossy().into_owned();
    let journals = std::fs::read_dir("/proc/fs/jbd2").ok()?.flatten();
    let mut own = journals.filter(|it| is_journal_of(&it.file_name().to_string_lossy(), &name));
    own.next()
        .map(|journal| std::fs::read_to_string(journal.path().join("info")).unwrap_or_default())
}

/// Whether `journal`, as the kernel calls it, is one within the device `name`: that has its inode behind the name.
fn is_journal_of(journal: &str, name: &str) -> bool {
    let inode = journal.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    inode.is_some_and(|inode| inode.parse::<u64>().is_ok())
}

/// How many writes a journal takes with ease. It tells how many blocks one transaction may have, which is a third of it
/// (a quarter on older kernels); a write by itself logs some 12 to 20 blocks, and all but such a part is used before
/// anybody has to wait.
fn writes_of_journal(info: &str) -> Option<u64> {
    let (_, rest) = info.split_once("each up to ")?;
    let blocks: u64 = rest.split_once(" blocks")?.0.parse().ok()?;
    Some((blocks / BLOCKS_PER_WRITE).max(1))
}

/// A directory that was opened on the way to a name, or the root.
enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Opened(opened) => opened.as_fd(),
        }
    }
}

/// Why a root cannot be opened.
#[derive(Debug)]
pub enum RootError {
    /// It lies on the file system of its parent: nothing is mounted there.
    Unmounted,
    /// It cannot be opened as a directory.
    Io(Errno),
}

impl Beneath {
    /// Opens a root that is a mount point, or any directory with `allow_unmounted`.
    pub fn open(path: &Path, allow_unmounted: bool) -> Result<Self, RootError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY;
        let root = open(path, flags, Mode::empty()).map_err(RootError::Io)?;
        let here = fstat(&root).map_err(RootError::Io)?;
        let parent = fstatat(&root, "..", AtFlags::empty()).map_err(RootError::Io)?;
        let is_mounted = parent.st_dev != here.st_dev;
        if !is_mounted && !allow_unmounted {
            return Err(RootError::Unmounted);
        }
        let kind = fstatfs(&root).map_err(RootError::Io)?.filesystem_type();
        let is_one_of = |kinds: &[FsType]| kinds.contains(&kind);
        let journal = is_one_of(&[EXT4_SUPER_MAGIC]).then(|| own_journal(here.st_dev)).flatten();
        Ok(Self {
            path: path.to_owned(),
            root,
            identity: identity(&here),
            may_be_unmounted: allow_unmounted,
            is_ordered: kind == XFS_SUPER_MAGIC || journal.is_some(),
            checkpoint: Arc::default(),
            // What others have on the same file system, as beside a folder or a bind mount of one, is not ours to write
            // back.
            writes_per_checkpoint: journal
                .as_deref()
                .filter(|_| is_mounted && here.st_ino == EXT4_ROOT_INODE)
                .and_then(writes_of_journal),
            counts_links: is_one_of(&[EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC]),
        })
    }

    fn open_at(&self, path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let mode = if flags.contains(OFlag::O_CREAT) { FILE_MODE } else { Mode::empty() };
        let how = OpenHow::new().flags(flags).mode(mode).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
        loop {
            match openat2(&self.root, path, how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(Errno::ENOSYS) => return self.open_stepwise(path, flags, mode),
                result => return result,
            }
        }
    }

    /// For kernels without openat2: one component after another, none of them a link.
    fn open_stepwise(&self, path: &str, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        let walk = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = openat(&self.root, ".", walk, Mode::empty())?;
        for component in parents.split('/').filter(|component| !component.is_empty()) {
            if component == ".." {
                return Err(Errno::EXDEV);
            }
            at = openat(&at, component, walk, Mode::empty())?;
        }
        openat(&at, name, flags, mode)
    }

    /// The directory that holds `path`, and the last name.
    fn parent<'a>(&self, path: &'a str) -> Result<(Parent<'_>, &'a str), Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() || matches!(name, "." | "..") {
            return Err(Errno::EINVAL);
        }
        if parent.is_empty() {
            return Ok((Parent::Root(self.root.as_fd()), name));
        }
        let opened = self.open_at(parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        Ok((Parent::Opened(opened), name))
    }

    fn stat(&self, path: &str) -> Result<FileStat, Errno> {
        if path.is_empty() {
            return fstat(&self.root);
        }
        let (parent, name) = self.parent(path)?;
        fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
    }
}

fn identity(stat: &FileStat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32))
}

fn is_directory(stat: &FileStat) -> bool {
    stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR
}

impl Files for Beneath {
    fn check_root(&self) -> Result<(), (String, String)> {
        let words = |(device, inode)| format!("{device}:{inode}");
        let found = match lstat(self.path.as_path()) {
            Ok(stat) if identity(&stat) == self.identity => return Ok(()),
            Ok(stat) => words(identity(&stat)),
            Err(error) => error.desc().to_owned(),
        };
        Err((words(self.identity), found))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let file = File::from(self.open_at(path, OFlag::O_RDONLY)?);
        let length = file.metadata().map_err(|error| errno(&error))?.len();
        if length > WHOLE_BYTES_MAX {
            return Err(Errno::EFBIG);
        }
        // One more than there is, so that its end shows without another call; it may grow while it is read.
        let mut bytes = vec![0; length as usize + 1];
        let mut filled = 0;
        loop {
            match file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
            if filled as u64 == length {
                break;
            }
            if filled as u64 > WHOLE_BYTES_MAX {
                return Err(Errno::EFBIG);
            }
            if filled == bytes.len() {
                bytes.resize(2 * filled, 0);
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let file = File::from(self.open_at(path, OFlag::O_RDONLY)?);
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(&error)),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn length(&self, path: &str) -> Result<u64, Errno> {
        let stat = self.stat(path)?;
        if is_directory(&stat) {
            return Err(Errno::EISDIR);
        }
        Ok(stat.st_size.unsigned_abs())
    }

    fn changed_ns(&self, path: &str) -> Result<i64, Errno> {
        let stat = self.stat(path)?;
        Ok(stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec))
    }

    fn list(&self, path: &str) -> Result<Vec<Entry>, Errno> {
        let directory = self.open_at(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut directory = Dir::from_fd(directory)?;
        let mut entries = Vec::new();
        for entry in directory.iter() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let is_directory = match entry.file_type() {
                Some(Type::Directory) => true,
                Some(Type::File) => false,
                Some(_) => continue,
                None => {
                    let below =
                        if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                    is_directory(&self.stat(&below)?)
                }
            };
            entries.push(Entry { name: name.to_owned(), is_directory });
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn make_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        mkdirat(&parent, name, DIRECTORY_MODE)
    }

    fn write(
        &self,
        path: &str,
        bytes: &[u8],
        then: Option<(AfterWrite, &mut bool)>,
    ) -> Result<(), Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        let file = File::from(self.open_at(path, flags)?);
        file.write_all_at(bytes, 0).map_err(|error| errno(&error))?;
        let Some((then, reached)) = then else { return Ok(()) };
        *reached = true;
        match then {
            AfterWrite::WriteBack => sys::write_back(file.as_fd()).map_err(|error| errno(&error)),
            AfterWrite::Sync => fdatasync(&file),
        }
    }

    fn write_at(&self, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let file = File::from(self.open_at(path, OFlag::O_WRONLY | OFlag::O_CREAT)?);
        file.write_all_at(bytes, offset).map_err(|error| errno(&error))?;
        // Shards of large objects: the flush at their end finds most of them written.
        let length = bytes.len() as u64;
        if offset > 0 && length >= WRITEBACK_BYTES_MIN {
            // Without it the flush writes everything.
            sys::begin_writeback(file.as_fd(), offset, length).ok();
        }
        Ok(())
    }

    fn sync_file(&self, path: &str) -> Result<(), Errno> {
        fdatasync(self.open_at(path, OFlag::O_WRONLY)?)
    }

    fn sync_directory(&self, path: &str) -> Result<(), Errno> {
        fsync(self.open_at(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    fn write_back(&self, path: &str) -> Result<(), Errno> {
        sys::write_back(self.open_at(path, OFlag::O_WRONLY)?.as_fd()).map_err(|error| errno(&error))
    }

    fn sync_ordered(&self, directory: &str) -> Result<(), Errno> {
        let directory = self.open_at(directory, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        futimens(&directory, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?;
        fsync(&directory)?;
        // Of a file system that was made read-only, as an error makes it, there is nothing to flush: no failure is told.
        match fstatvfs(&directory)?.flags().contains(FsFlags::ST_RDONLY) {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    fn writes_per_checkpoint(&self) -> Option<u64> {
        self.writes_per_checkpoint
    }

    fn begin_checkpoint(&self) {
        let Ok(root) = self.root.try_clone() else { return };
        let one = Arc::clone(&self.checkpoint);
        let work = move || {
            // What goes wrong with it stops the journal, which the next flush tells.
            if let Ok(_only) = one.try_lock() {
                syncfs(&root).ok();
            }
        };
        std::thread::Builder::new().name("checkpoint".to_owned()).spawn(work).ok();
    }

    fn has_no_directories(&self, path: &str) -> Result<bool, Errno> {
        Ok(self.counts_links && self.stat(path)?.st_nlink == 2)
    }

    fn is_root_at_once(&self) -> bool {
        self.counts_links && at_once::identity(&self.path) == Some(self.identity)
    }

    fn read_beside_at_once(
        &self,
        directory: &str,
        name: &str,
        bytes_max: u64,
        folders: &dyn Fn(&[u8]) -> Vec<String>,
        lacking: &str,
    ) -> Option<Vec<u8>> {
        at_once::read_beside(self.root.as_fd(), directory, name, bytes_max, folders, lacking)
    }

    fn read_at_once(&self, path: &str, offset: u64, length: usize) -> Option<Vec<u8>> {
        at_once::read_at(self.root.as_fd(), path, offset, length)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        renameat(&from_parent, from_name, &to_parent, to_name)
    }

    fn link(&self, from: &str, to: &str) -> Result<(), Errno> {
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        linkat(&from_parent, from_name, &to_parent, to_name, AtFlags::empty())
    }

    fn truncate(&self, path: &str, length: u64) -> Result<(), Errno> {
        let file = File::from(self.open_at(path, OFlag::O_WRONLY)?);
        file.set_len(length).map_err(|error| errno(&error))
    }

    fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir)
    }

    fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        unlinkat(&parent, name, UnlinkatFlags::RemoveDir)
    }

    fn inode(&self, path: &str) -> Result<u64, Errno> {
        Ok(self.stat(path)?.st_ino)
    }

    fn lock(&self, path: &str) -> Result<Lock, Errno> {
        let opened = match self.open_at(path, OFlag::O_RDWR | OFlag::O_CREAT) {
            // A lease can be taken on a file system that takes no writes.
            Err(Errno::EROFS) => self.open_at(path, OFlag::O_RDONLY),
            opened => opened,
        };
        let file = File::from(opened?);
        let inode = fstat(&file)?.st_ino;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Lock { inode, held: Box::new(lock) }),
            Err((_, error)) => Err(error),
        }
    }

    fn mount(&self) -> Result<MountIdentity, String> {
        mount::identity(self.root.as_fd(), &self.path, !self.may_be_unmounted)
    }

    fn room(&self) -> Result<Room, Errno> {
        let stat = fstatvfs(self.root.as_fd())?;
        let block = stat.fragment_size();
        Ok(Room {
            total_bytes: stat.blocks().saturating_mul(block),
            free_bytes: stat.blocks_available().saturating_mul(block),
            free_inodes: stat.files_available(),
        })
    }
}

/// A name as bytes; for messages about roots.
pub fn display(path: &Path) -> String {
    String::from_utf8_lossy(OsStr::as_bytes(path.as_os_str())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_known_by_its_device_and_inode() {
        assert!(is_journal_of("loop0-8", "loop0") && is_journal_of("dm-3-8", "dm-3"));
        // Another device's, and one that is a device of its own.
        assert!(!is_journal_of("loop01-8", "loop0") && !is_journal_of("dm-3", "dm-3"), "others");
        assert!(!is_journal_of("loop0", "loop0") && !is_journal_of("loop0-8", "loop"));
    }

    #[test]
    fn a_journal_takes_so_many_writes() {
        let info = "16800 transactions (16800 requested), each up to 2730 blocks\naverage: \n  0ms waiting\n";
        assert_eq!(writes_of_journal(info), Some(170));
        assert_eq!(writes_of_journal("1 transactions (1 requested), each up to 3 blocks"), Some(1));
        assert_eq!(writes_of_journal(""), None);
    }

    #[test]
    fn only_a_file_system_of_its_own_is_written_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Beneath::open(folder.path(), true).expect("a root");
        assert_eq!(files.writes_per_checkpoint(), None);
    }
}

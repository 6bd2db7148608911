//! Reads that never wait: of what the kernel has in memory, names and contents alike.
//!
//! Whatever would have to be fetched from the device, waited for, or written down (the time of access) makes the
//! answer `None`, and whoever asked goes the long way. Only file systems whose own code answers from memory are read
//! like this; one in user space may make any call wait.
//!
//! # Sources
//!
//! openat2(2) on `RESOLVE_CACHED`, preadv2(2) on `RWF_NOWAIT`, statx(2) on `AT_STATX_DONT_SYNC`, open(2) on `O_NOATIME`.

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::fs::CWD;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::ResolveFlags;
use rustix::fs::StatxFlags;
use rustix::fs::fstat;
use rustix::fs::makedev;
use rustix::fs::openat2;
use rustix::fs::statx;
use rustix::io::Errno;
use rustix::io::ReadWriteFlags;
use rustix::io::preadv2;

/// A path beneath a directory, as it is in the kernel's memory.
fn open(beneath: BorrowedFd<'_>, path: &str, flags: OFlags) -> Option<OwnedFd> {
    openat(beneath, path, flags).ok()
}

fn openat(beneath: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::CACHED
        | ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    openat2(beneath, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve)
}

fn open_file(beneath: BorrowedFd<'_>, path: &str) -> Option<OwnedFd> {
    open(beneath, path, OFlags::RDONLY | OFlags::NOATIME)
}

/// Bytes of an open file, all of them or none.
fn read_exactly(file: &OwnedFd, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let read = preadv2(file, into, offset, ReadWriteFlags::NOWAIT).ok()?;
    (read == length).then_some(bytes)
}

/// Device and inode that a path stands for; what is in memory of it is enough.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let seen = statx(CWD, path, flags, StatxFlags::INO).ok()?;
    Some((makedev(seen.stx_dev_major, seen.stx_dev_minor), seen.stx_ino))
}

/// Whether it is known that a path leads to nothing.
fn is_nothing(beneath: BorrowedFd<'_>, path: &str) -> bool {
    matches!(openat(beneath, path, OFlags::PATH), Err(Errno::NOENT))
}

/// A whole file of at most `bytes_max` bytes in a directory that holds no other directories than those which `folders`
/// makes of the file, and in none of them anything of the name `lacking`.
pub(super) fn read_beside(
    root: BorrowedFd<'_>,
    directory: &str,
    name: &str,
    bytes_max: u64,
    folders: &dyn Fn(&[u8]) -> Vec<String>,
    lacking: &str,
) -> Option<Vec<u8>> {
    let directory = open(root, directory, OFlags::PATH | OFlags::DIRECTORY)?;
    let file = open_file(directory.as_fd(), name)?;
    let length = u64::try_from(fstat(&file).ok()?.st_size).ok()?;
    if length > bytes_max {
        return None;
    }
    let bytes = read_exactly(&file, 0, usize::try_from(length).ok()?)?;
    // Looked at behind the file, as whoever waits does it.
    let folders = folders(&bytes);
    for folder in &folders {
        let folder = open(directory.as_fd(), folder, OFlags::PATH | OFlags::DIRECTORY)?;
        if !is_nothing(folder.as_fd(), lacking) {
            return None;
        }
    }
    let links = u64::try_from(folders.len()).ok()? + 2;
    (fstat(&directory).ok()?.st_nlink == links).then_some(bytes)
}

/// Bytes of a file, exactly so many.
pub(super) fn read_at(
    root: BorrowedFd<'_>,
    path: &str,
    offset: u64,
    length: usize,
) -> Option<Vec<u8>> {
    read_exactly(&open_file(root, path)?, offset, length)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn what_is_in_memory_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/leaf")).expect("folders");
        fs::write(folder.path().join("a/leaf/file"), b"contents").expect("a file");
        std::os::unix::fs::symlink("file", folder.path().join("a/leaf/link")).expect("a link");
        let root = File::open(folder.path()).expect("a root");
        let root = root.as_fd();

        let read_in_leaf = |root, directory, name, bytes_max| {
            read_beside(root, directory, name, bytes_max, &|_| Vec::new(), "kept")
        };
        assert_eq!(read_in_leaf(root, "a/leaf", "file", 8).as_deref(), Some(&b"contents"[..]));
        assert_eq!(read_at(root, "a/leaf/file", 3, 4).as_deref(), Some(&b"tent"[..]));
        assert_eq!(read_in_leaf(root, "a/leaf", "file", 7), None, "too long");
        assert_eq!(read_at(root, "a/leaf/file", 3, 6), None, "shorter than asked");
        assert_eq!(read_in_leaf(root, "a/leaf", "link", 8), None, "a link");
        assert_eq!(read_in_leaf(root, "a/../a/leaf/../leaf", "none", 8), None, "not there");
        assert_eq!(read_at(root, "../outside", 0, 1), None, "outside");
        fs::create_dir(folder.path().join("a/leaf/below")).expect("a folder");
        assert_eq!(read_in_leaf(root, "a/leaf", "file", 8), None, "no leaf any more");
        let read = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            read_beside(root, "a/leaf", "file", 8, &|_| names.clone(), "kept").is_some()
        };
        assert!(!read(&["below"]), "whether it lacks the file is not known yet");
        fs::metadata(folder.path().join("a/leaf/below/kept")).unwrap_err();
        assert!(read(&["below"]));
        assert!(!read(&["beside"]), "it is another one");
        assert!(!read(&[]) && !read(&["below", "beside"]), "one more or less");
        fs::write(folder.path().join("a/leaf/below/kept"), b"").expect("a file");
        assert!(!read(&["below"]), "it is there");
        fs::remove_file(folder.path().join("a/leaf/below/kept")).expect("removal");
        fs::create_dir(folder.path().join("a/leaf/beside")).expect("a folder");
        assert!(!read(&["below"]), "another one beside it");

        let seen = fs::metadata(folder.path()).expect("a folder");
        assert_eq!(identity(folder.path()), Some((seen.dev(), seen.ino())));
        assert_eq!(identity(&folder.path().join("none")), None);
    }

    #[test]
    fn what_only_the_device_has_is_not_waited_for() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = folder.path().join("file");
        let bytes = vec![7; 1 << 20];
        fs::write(&path, &bytes).expect("a file");
        let file = File::open(&path).expect("a file");
        file.sync_all().expect("a flush");
        let root = File::open(folder.path()).expect("a root");
        assert_eq!(read_at(root.as_fd(), "file", 0, bytes.len()), Some(bytes.clone()));
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
        let again = read_at(root.as_fd(), "file", 0, bytes.len());
        if again.is_some() {
            println!("skipped: this file system keeps everything in memory");
            return;
        }
        assert_eq!(fs::read(&path).expect("a file"), bytes);
        assert_eq!(read_at(root.as_fd(), "file", 0, bytes.len()), Some(bytes));
    }
}

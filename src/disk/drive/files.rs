//! The file-level seam below a drive: names, bytes and flushes, relative to one root.
//!
//! [`Local`](super::local) works on these few operations alone, so that a file system in memory that can
//! crash may stand in for a real one. Nothing here retries, caches or decides.

use nix::errno::Errno;

use super::request::MountIdentity;

/// Bytes of the largest file that is read as a whole: what a node writes in one piece is much smaller.
pub const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name. Names that are not UTF-8 are left out of listings.
    pub name: String,
    /// Whether it is a directory; anything that is neither file nor directory is left out.
    pub is_directory: bool,
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free for us.
    pub free_bytes: u64,
    /// Inodes free.
    pub free_inodes: u64,
}

/// What is done with a file after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterWrite {
    /// It is [written back](Files::write_back).
    WriteBack,
    /// It is flushed.
    Sync,
}

/// A lock on a file, held until the value ends.
pub struct Lock {
    /// The inode that is locked, whatever its name stands for by now.
    pub inode: u64,
    /// Ends the lock with itself.
    pub held: Box<dyn Send + Sync>,
}

/// Files below one root. Paths are relative, use `/`, and never follow a link or leave the root.
pub trait Files: Send + Sync {
    /// Whether path and descriptor of the root still mean the same directory; if not, what was opened
    /// and what is there now.
    fn check_root(&self) -> Result<(), (String, String)>;

    /// A whole file.
    fn read(&self, path: &str) -> Result<Vec<u8>, Errno>;

    /// Bytes of a file; fewer at its end.
    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Errno>;

    /// Length of a file; `EISDIR` when it is a directory.
    fn length(&self, path: &str) -> Result<u64, Errno>;

    /// When a file or directory last changed, Unix nanoseconds.
    fn changed_ns(&self, path: &str) -> Result<i64, Errno>;

    /// Entries of a directory, in order.
    fn list(&self, path: &str) -> Result<Vec<Entry>, Errno>;

    /// Makes one directory.
    fn make_directory(&self, path: &str) -> Result<(), Errno>;

    /// Writes a new file, or over the whole of an old one; what comes `then` is told to have been reached.
    fn write(
        &self,
        path: &str,
        bytes: &[u8],
        then: Option<(AfterWrite, &mut bool)>,
    ) -> Result<(), Errno>;

    /// Writes into a file, which is made if need be.
    fn write_at(&self, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Flushes a file's contents.
    fn sync_file(&self, path: &str) -> Result<(), Errno>;

    /// Flushes a directory's names.
    fn sync_directory(&self, path: &str) -> Result<(), Errno>;

    /// Whether the file system makes what is changed of names, lengths and places durable in the order in which it was
    /// changed, by a journal, so that a flush of the last is one of all.
    fn is_ordered(&self) -> bool;

    /// Writes a file's contents to the device, and waits until it took them. It may still lose them: but where the file
    /// system is ordered, it makes no name that is changed after this durable without them.
    fn write_back(&self, path: &str) -> Result<(), Errno>;

    /// Flushes all names that were changed so far, on a file system that is ordered, and with them what was written
    /// back. Changes when `directory` was changed: a flush of what has not changed since is none.
    fn sync_ordered(&self, directory: &str) -> Result<(), Errno>;

    /// After how many writes to begin a checkpoint; `None` where the file system needs none.
    fn writes_per_checkpoint(&self) -> Option<u64>;

    /// Begins to write back what the journal holds, behind everybody's back. No promise depends on it: it keeps the
    /// journal from becoming full, when each write would have to wait for two more flushes.
    fn begin_checkpoint(&self);

    /// Whether a directory is known to hold no other directory. `false` where only a listing tells.
    fn has_no_directories(&self, path: &str) -> Result<bool, Errno>;

    /// Whether path and descriptor of the root mean the same directory, as far as that is known without waiting.
    fn is_root_at_once(&self) -> bool;

    /// A whole file of at most `bytes_max` bytes, if it can be read without waiting, and its directory is known to hold
    /// no other directories than those which `folders` makes of the file, and none of them anything called `lacking`.
    fn read_beside_at_once(
        &self,
        directory: &str,
        name: &str,
        bytes_max: u64,
        folders: &dyn Fn(&[u8]) -> Vec<String>,
        lacking: &str,
    ) -> Option<Vec<u8>>;

    /// Exactly so many bytes of a file, if they can be read without waiting.
    fn read_at_once(&self, path: &str, offset: u64, length: usize) -> Option<Vec<u8>>;

    /// Renames, over what is there.
    fn rename(&self, from: &str, to: &str) -> Result<(), Errno>;

    /// Gives a file a second name.
    fn link(&self, from: &str, to: &str) -> Result<(), Errno>;

    /// Cuts a file.
    fn truncate(&self, path: &str, length: u64) -> Result<(), Errno>;

    /// Removes a file.
    fn remove_file(&self, path: &str) -> Result<(), Errno>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &str) -> Result<(), Errno>;

    /// Locks a file for this process, making it if need be; `EWOULDBLOCK` when another has it. The lock
    /// ends with the value.
    fn lock(&self, path: &str) -> Result<Lock, Errno>;

    /// The inode that a name stands for.
    fn inode(&self, path: &str) -> Result<u64, Errno>;

    /// How the root is mounted, or why that says nothing now.
    fn mount(&self) -> Result<MountIdentity, String>;

    /// Room on the file system.
    fn room(&self) -> Result<Room, Errno>;
}

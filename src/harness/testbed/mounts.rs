//! Mounts: the table as the kernel tells it, and mount namespaces in which threads of ours act.

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::thread;

use nix::errno::Errno;
use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount2;
use nix::sched::CloneFlags;
use nix::sched::setns;
use nix::sched::unshare;

/// One line of `/proc/<pid>/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountLine {
    /// The mount id.
    pub id: u64,
    /// Where it is mounted.
    pub path: PathBuf,
    /// Whether mounts made below it appear elsewhere as well.
    pub is_shared: bool,
    /// The kind of file system.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
}

/// The mounts that the calling thread sees, in the kernel's order.
///
/// # Errors
/// `/proc` cannot be read.
pub fn table() -> io::Result<Vec<MountLine>> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo")?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// Takes one line apart. Fields: id, parent, device, root, path, options, tags…, `-`, kind, source, options.
fn parse_line(line: &str) -> Option<MountLine> {
    let fields: Vec<&str> = line.split(' ').collect();
    let dash = fields.iter().position(|field| *field == "-")?;
    Some(MountLine {
        id: fields.first()?.parse().ok()?,
        path: PathBuf::from(unescape(fields.get(4)?)),
        is_shared: fields.get(6..dash)?.iter().any(|tag| tag.starts_with("shared:")),
        filesystem: (*fields.get(dash + 1)?).to_owned(),
        source: unescape(fields.get(dash + 2)?),
    })
}

/// Undoes the kernel's octal escapes of blank, tab, newline and backslash.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Makes every mount of the calling thread's namespace private.
pub(super) fn make_private() -> nix::Result<()> {
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
}

/// A mount namespace that lives as long as this value, with or without processes in it.
#[derive(Debug)]
pub struct MountSpace {
    namespace: OwnedFd,
}

impl MountSpace {
    /// A copy of the caller's namespace, private, without any mount at or below `below` but `kept`.
    ///
    /// # Errors
    /// As the kernel has them.
    pub(super) fn new(below: &Path, kept: &Path) -> io::Result<Self> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNS)?;
            make_private()?;
            // Newest first: what is stacked on top goes before what it covers.
            for line in table()?.iter().rev() {
                if line.path.starts_with(below) && line.path != kept {
                    match umount2(&line.path, MntFlags::MNT_DETACH) {
                        // Its mount point was removed in another namespace, and it went with that.
                        Err(Errno::ENOENT | Errno::EINVAL) => {}
                        detached => detached?,
                    }
                }
            }
            Ok(Self { namespace: File::open("/proc/thread-self/ns/mnt")?.into() })
        })
    }

    /// Does something as a thread that sees this namespace.
    ///
    /// # Errors
    /// Those of `act`, and those of joining.
    pub(super) fn within<T: Send>(
        &self,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        on_a_thread(|| {
            // A thread that shares its root and working folder with others cannot change its namespace.
            unshare(CloneFlags::CLONE_FS)?;
            setns(&self.namespace, CloneFlags::CLONE_NEWNS)?;
            act()
        })
    }

    /// The namespace, for a child to join.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.namespace.try_clone()
    }
}

/// Runs something on a thread of its own and waits for it.
pub(super) fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("mounts".to_owned()).spawn_scoped(scope, act)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_with_and_without_tags() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw";
        let parsed = parse_line(line).unwrap();
        assert_eq!(parsed.id, 36);
        assert_eq!(parsed.path, Path::new("/mnt 2"));
        assert!(parsed.is_shared);
        assert_eq!((parsed.filesystem.as_str(), parsed.source.as_str()), ("ext3", "/dev/root"));
        let private = "36 35 98:0 / /m rw - tmpfs none rw";
        assert!(!parse_line(private).unwrap().is_shared);
    }

    #[test]
    fn the_table_has_a_root() {
        assert!(table().unwrap().iter().any(|line| line.path == Path::new("/")));
    }
}

//! The leases of a drive: whoever works on it holds them.
//!
//! There are two files, each made by its holder and never removed: the execution lease of replacement work, and
//! the lock that a node takes on each of its drives. A tool makes neither of them: a drive without them was never
//! used by anybody who takes them.

use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;

use crate::disk::layout;
use crate::protocol::replacement::names;

/// The leases of a drive, as far as there are any. They are let go when this is dropped.
#[derive(Debug)]
pub struct Leases(#[expect(dead_code, reason = "held, not looked at")] Vec<Flock<std::fs::File>>);

/// Beside whom a lease is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Beside other readers.
    Shared,
    /// Alone.
    Alone,
}

/// Takes the leases of the drive at `root`; `None` when somebody else has one of them. It never waits.
///
/// # Errors
///
/// A lease's file is a link, or cannot be opened or locked for another reason than its holder.
pub fn take(root: &Path, hold: Hold) -> io::Result<Option<Leases>> {
    let mut leases = Vec::new();
    for name in [names::LEASE, layout::LEASE] {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(root.join(name));
        let file = match opened {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                continue;
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
        };
        let argument = match hold {
            Hold::Shared => FlockArg::LockSharedNonblock,
            Hold::Alone => FlockArg::LockExclusiveNonblock,
        };
        match Flock::lock(file, argument) {
            Ok(lease) => leases.push(lease),
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(io::Error::other(format!("{name}: {}", errno.desc()))),
        }
    }
    Ok(Some(Leases(leases)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn either_lease_keeps_others_out_and_none_is_made() {
        let drive = tempfile::tempdir().unwrap();
        assert!(take(drive.path(), Hold::Alone).unwrap().is_some());
        assert_eq!(fs::read_dir(drive.path()).unwrap().count(), 0, "a lease was made");
        fs::create_dir(drive.path().join(layout::SYSTEM)).unwrap();
        for name in [names::LEASE, layout::LEASE] {
            fs::write(drive.path().join(name), "").unwrap();
            let held = take(drive.path(), Hold::Alone).unwrap();
            assert!(held.is_some());
            assert!(take(drive.path(), Hold::Shared).unwrap().is_none(), "{name} was not held");
            drop(held);
            let one = take(drive.path(), Hold::Shared).unwrap();
            assert!(one.is_some() && take(drive.path(), Hold::Shared).unwrap().is_some());
        }
    }

    #[test]
    fn a_lease_that_is_a_link_is_no_lease() {
        let drive = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", drive.path().join(names::LEASE)).unwrap();
        assert!(take(drive.path(), Hold::Alone).is_err());
    }
}

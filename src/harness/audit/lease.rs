//! Whether a node has a drive in its hands: the lock at the drive's root.

use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;

use crate::disk::layout;

/// Whether a running node holds the lease of the drive at `root`.
///
/// The lock is tried and let go again at once, so that no node is kept from starting. A drive without the
/// file was never used by a node that takes leases; that one may still run.
///
/// # Errors
///
/// The file cannot be opened or locked for another reason.
pub fn is_held(root: &Path) -> io::Result<bool> {
    let file = match File::open(root.join(layout::LEASE)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(false),
        Err((_, Errno::EWOULDBLOCK)) => Ok(true),
        Err((_, errno)) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lease_is_held_only_while_somebody_holds_it() {
        let drive = tempfile::tempdir().unwrap();
        assert!(!is_held(drive.path()).unwrap());
        fs::create_dir(drive.path().join(layout::SYSTEM)).unwrap();
        let file = File::create(drive.path().join(layout::LEASE)).unwrap();
        assert!(!is_held(drive.path()).unwrap());
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(is_held(drive.path()).unwrap());
        drop(lock);
        assert!(!is_held(drive.path()).unwrap());
        assert!(!is_held(Path::new("/nothing/here")).unwrap());
    }
}

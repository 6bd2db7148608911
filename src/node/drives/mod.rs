//! The drives that this node owns.
//!
//! `queue` stands between everybody and a drive: a bounded queue, a few threads, a deadline for each
//! answer. `keeper` opens a drive, finds out what it is, admits it, and watches over it. `seen` is what
//! a drive turned out to be. Nothing here waits for a drive on a thread of the runtime: what the kernel has
//! in memory is read there, and for everything else whoever waits, waits for an answer.

pub mod keeper;
pub mod queue;
pub mod seen;

pub use keeper::Keeper;
pub use queue::QueuedDrive;
pub use seen::Seen;

use crate::disk::drive::Drive;
use crate::disk::drive::DriveError;
use crate::disk::drive::LocalDrive;

/// A drive that can be taken into possession and given up.
pub trait Attached: Drive {
    /// See [`LocalDrive::own`].
    ///
    /// # Errors
    /// The drive is not ours then.
    fn own(&self, now_ns: i64) -> Result<(), DriveError>;

    /// See [`LocalDrive::close`].
    ///
    /// # Errors
    /// The next start takes the drive as unclean.
    fn close(&self, now_ns: i64) -> Result<(), DriveError>;
}

impl Attached for LocalDrive {
    fn own(&self, now_ns: i64) -> Result<(), DriveError> {
        LocalDrive::own(self, now_ns)
    }

    fn close(&self, now_ns: i64) -> Result<(), DriveError> {
        LocalDrive::close(self, now_ns)
    }
}

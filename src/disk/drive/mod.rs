//! The one seam through which a drive is touched.
//!
//! A [`Drive`] is asked ([`DriveRequest`]) and answers ([`DriveReply`] or [`DriveError`]), synchronously;
//! queues, threads and deadlines are the business of whoever owns it. Commit steps are taken only while
//! [`Fences`] grants their lock.

mod at_once;
mod beneath;
mod files;
mod local;
mod mount;
mod request;

use nix::errno::Errno;
use uuid::Uuid;

pub use super::error::DriveError;
pub use super::error::DriveStep;
pub use super::error::Effect;
pub use files::WHOLE_BYTES_MAX;
pub(crate) use local::KeptFormat;
pub use local::LocalDrive;
pub use local::LocalOptions;
pub use local::LocalSeams;
pub(crate) use local::Presence;
pub(crate) use local::Queue;
pub use request::*;

use super::format::xl_meta::Version;
use super::layout;
use crate::value::ObjectKey;

/// Consulted by the owner of a drive before each commit step: does its lock table still grant this id?
pub trait Fences: Send + Sync {
    /// Pins the grant for the duration of one step, or says that it is gone. While the pin lives the
    /// grant neither expires nor passes to anyone else.
    fn pin(&self, resource: &ObjectKey, lock: Uuid) -> Option<Box<dyn Send>>;
}

/// One drive.
pub trait Drive: Send + Sync {
    /// Its name in the configuration, `node/slot`.
    fn name(&self) -> &str;

    /// Performs one request, for as long as that takes.
    ///
    /// # Errors
    ///
    /// [`DriveError::effect`] says what is left behind.
    fn perform(&self, request: DriveRequest) -> Result<DriveReply, DriveError>;

    /// The answer to a read when the machine has it in memory, so that nobody waits for it: `None` when it has to be
    /// [performed](Self::perform).
    fn at_once(&self, request: &DriveRequest) -> Option<DriveReply> {
        let _ = request;
        None
    }
}

/// Turns what the kernel said at a step into an error.
fn error_at(step: DriveStep, path: &str) -> impl FnOnce(Errno) -> DriveError {
    let path = path.to_owned();
    move |errno| DriveError::from_errno(step, &path, errno as i32)
}

/// The directory in which the metadata before a write is kept, when the write replaces `replaced`: named by
/// what is replaced, so that whoever finds it knows which version lies in it.
pub fn rollback_folder(replaced: &Version) -> Uuid {
    if let Some(object) = replaced.as_object() {
        return object.data_dir;
    }
    let mut folder = layout::rollback_dir(replaced.id()).into_bytes();
    let moment = replaced.header().modtime_ns.to_be_bytes();
    for (byte, salt) in folder[8..].iter_mut().zip(moment) {
        *byte ^= salt;
    }
    Uuid::from_bytes(folder)
}

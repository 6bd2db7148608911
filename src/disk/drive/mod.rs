//! The one seam through which a drive is touched.
//!
//! A [`Drive`] is asked ([`DriveRequest`]) and answers ([`DriveReply`] or [`DriveError`]), synchronously;
//! queues, threads and deadlines are the business of whoever owns it. Commit steps are taken only while
//! [`Fences`] grants their lock.

mod local;
mod request;

use uuid::Uuid;

pub use super::error::DriveError;
pub use super::error::DriveStep;
pub use super::error::Effect;
pub use local::LocalDrive;
pub use local::LocalOptions;
pub use local::LocalSeams;
pub use request::*;

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
}

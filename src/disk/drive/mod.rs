//! The one seam through which a drive is touched.

use uuid::Uuid;

use crate::value::ObjectKey;

/// Consulted by the owner of a drive before each commit step: does its lock table still grant this id?
pub trait Fences: Send + Sync {
    /// Pins the grant for the duration of one step, or says that it is gone. While the pin lives the
    /// grant neither expires nor passes to anyone else.
    fn pin(&self, resource: &ObjectKey, lock: Uuid) -> Option<Box<dyn Send>>;
}

/// What a drive can be asked.
#[derive(Debug, Clone)]
pub enum DriveRequest {}

/// What it answers.
#[derive(Debug, Clone)]
pub enum DriveReply {}

/// Why it did not.
#[derive(Debug, Clone)]
pub enum DriveError {}

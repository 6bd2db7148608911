//! A drive of this machine: a directory tree on a file system of its own.
//!
//! It is opened by looking only ([`LocalDrive::open`]); nothing is written below its root before it has been
//! admitted and is owned ([`LocalDrive::own`], or [`DriveRequest::WriteFormat`] on a blank drive).

use std::path::PathBuf;
use std::sync::Arc;

use super::Drive;
use super::DriveError;
use super::DriveReply;
use super::DriveRequest;
use super::Fences;
use crate::protocol::config::Durability;
use crate::protocol::crash_point::Passing;
use crate::protocol::rules::SharedRules;

/// Where a drive is and what may be assumed of it.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Its name in the configuration, `node/slot`.
    pub name: String,
    /// Its mount point.
    pub root: PathBuf,
    /// Whether the root may be a plain directory.
    pub allow_unmounted: bool,
    /// What an acknowledgement promises.
    pub durability: Durability,
}

/// Whom a drive consults.
#[derive(Clone)]
pub struct LocalSeams {
    /// The node's lock table.
    pub fences: Arc<dyn Fences>,
    /// Crash points.
    pub passing: Arc<dyn Passing>,
    /// The rules that a planted defect may bend.
    pub rules: SharedRules,
}

/// A drive of this machine.
pub struct LocalDrive {
    options: LocalOptions,
    _seams: LocalSeams,
}

impl LocalDrive {
    /// Opens a drive without writing to it.
    ///
    /// # Errors
    ///
    /// [`DriveError::Absent`] when nothing is mounted there; `Io` when the root cannot be opened.
    pub fn open(options: LocalOptions, seams: LocalSeams) -> Result<Self, DriveError> {
        Ok(Self { options, _seams: seams })
    }

    /// Takes an admitted drive into possession: its lease, its system folders, a clean staging area.
    ///
    /// # Errors
    ///
    /// [`DriveError::Leased`] when another process owns it, [`DriveError::Blank`] without a format.
    pub fn own(&self, now_ns: i64) -> Result<(), DriveError> {
        let _ = now_ns;
        unimplemented!("being written")
    }

    /// Says durably that the drive was closed in order.
    ///
    /// # Errors
    ///
    /// `Io`; the next start then takes it as unclean.
    pub fn close(&self, now_ns: i64) -> Result<(), DriveError> {
        let _ = now_ns;
        unimplemented!("being written")
    }
}

impl Drive for LocalDrive {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn perform(&self, request: DriveRequest) -> Result<DriveReply, DriveError> {
        let _ = request;
        unimplemented!("being written")
    }
}

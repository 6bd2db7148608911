//! What the replacement protocol needs of a drive: records that are compared and swapped, the execution lease,
//! and how the drive is mounted.
//!
//! The lease is a lock on a permanent file at the root. Every request that is under way holds it with its own
//! share, so that it ends with the last of them, whoever has given it up before.

use std::sync::Arc;

use nix::errno::Errno;
use serde_bytes::ByteBuf;
use uuid::Uuid;

use super::LocalDrive;
use super::possession::UNFINISHED;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::ReplacementCopy;
use crate::disk::drive::error_at;
use crate::disk::drive::files::Lock;
use crate::disk::format::format_json::FormatJson;
use crate::disk::layout;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;

/// An execution lease, and who took it.
#[derive(Clone)]
pub(super) struct Execution {
    holder: Uuid,
    /// Ends with the last clone.
    lock: Arc<Lock>,
}

impl LocalDrive {
    /// The share of the execution lease that a request holds until it is done.
    pub(super) fn share_of_execution(&self) -> Option<Execution> {
        self.state().execution.clone()
    }

    pub(super) fn take_execution(&self, holder: Uuid) -> Result<(), DriveError> {
        self.guard_root()?;
        let held = self.state().execution.as_ref().map(|it| it.holder);
        if held == Some(holder) {
            return Ok(());
        }
        let busy = || DriveError::Busy { path: layout::EXECUTION.to_owned() };
        if held.is_some() {
            return Err(busy());
        }
        let is_new = !self.exists(layout::EXECUTION)?;
        let lock = self.files.lock(layout::EXECUTION).map_err(|errno| match errno {
            Errno::EWOULDBLOCK => busy(),
            errno => error_at(DriveStep::Open, layout::EXECUTION)(errno),
        })?;
        if is_new {
            // A marker is never more durable than the lock that it was written under.
            self.sync_directory("", DriveStep::SyncPublished)?;
        }
        self.state().execution = Some(Execution { holder, lock: Arc::new(lock) });
        Ok(())
    }

    pub(super) fn end_execution(&self, holder: Uuid) {
        let mut state = self.state();
        state.execution.take_if(|it| it.holder == holder);
    }

    /// Whether the execution lease's lock is at its place: the held one, if it is held.
    fn has_execution_lock(&self) -> Result<bool, DriveError> {
        let held = self.share_of_execution().map(|it| it.lock.inode);
        match self.files.inode(layout::EXECUTION) {
            Ok(inode) => Ok(held.is_none_or(|held| held == inode)),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(error_at(DriveStep::Open, layout::EXECUTION)(errno)),
        }
    }

    pub(super) fn read_replacement(&self) -> Result<ReplacementCopy, DriveError> {
        let format = self.read_format()?;
        let format = format.and_then(|bytes| FormatJson::parse(&bytes).ok());
        let marker = match self.files.read_at(layout::HEALING, 0, marker::BYTES_MAX + 1) {
            Ok(bytes) => Some(ByteBuf::from(bytes)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => None,
            Err(errno) => return Err(error_at(DriveStep::Read, layout::HEALING)(errno)),
        };
        let mut copy = ReplacementCopy {
            format_id: format.map(|format| format.xl.this.hyphenated().to_string()),
            has_folder: self.exists(names::FOLDER)?,
            execution: self.share_of_execution().map(|it| it.holder),
            has_execution_lock: self.has_execution_lock()?,
            is_unfinished: self.exists(UNFINISHED)?,
            marker,
            mount: self.files.mount(),
            ..ReplacementCopy::default()
        };
        for folder in [names::FOLDER, names::LEDGERS] {
            let entries = match self.files.list(folder) {
                Ok(entries) => entries,
                Err(Errno::ENOENT | Errno::ENOTDIR) => continue,
                Err(errno) => return Err(error_at(DriveStep::Read, folder)(errno)),
            };
            for entry in entries.into_iter().filter(|entry| !entry.is_directory) {
                let path = format!("{folder}/{}", entry.name);
                if names::parse(&path) == names::Name::Other {
                    continue;
                }
                if let Some(bytes) = self.read_if_there(&path)? {
                    copy.records.insert(path, ByteBuf::from(bytes));
                }
            }
        }
        Ok(copy)
    }

    pub(super) fn make_record_folder(&self) -> Result<(), DriveError> {
        self.guard_writes()?;
        self.make_path("", names::FOLDER)?;
        self.sync_up_to(layout::SYSTEM, names::FOLDER)
    }

    /// Replaces, creates or removes one small file if it holds what is expected; answers whether it did.
    pub(super) fn swap(
        &self,
        path: &str,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, DriveError> {
        self.guard_writes()?;
        if path != layout::HEALING && names::parse(path) == names::Name::Other {
            return Err(DriveError::Illegal { why: format!("{path} is no record") });
        }
        let (folder, _) = path.rsplit_once('/').expect("every record lies in a folder");
        let lock = format!("{folder}/{}", names::SWAP_LOCK);
        let _lock = self.files.lock(&lock).map_err(|errno| match errno {
            Errno::EWOULDBLOCK => DriveError::Busy { path: lock.clone() },
            errno => error_at(DriveStep::Open, &lock)(errno),
        })?;
        if self.read_if_there(path)?.as_deref() != expected {
            return Ok(false);
        }
        match new {
            Some(new) => {
                let staged = format!("{}/{}", layout::TMP, Uuid::new_v4());
                self.write_file(&staged, new, true)?;
                self.publish(&staged, path)?;
            }
            None => match self.files.remove_file(path) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(error_at(DriveStep::CleanUp, path)(errno)),
            },
        }
        self.sync_directory(folder, DriveStep::SyncPublished)?;
        if path == layout::HEALING {
            let unfinished = self.exists(UNFINISHED)?;
            self.state().rebuilding = new.is_some() || unfinished;
        }
        Ok(true)
    }
}

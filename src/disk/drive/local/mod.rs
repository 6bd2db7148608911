//! A drive of this machine: a directory tree on a file system of its own.
//!
//! It is opened by looking only ([`LocalDrive::open`]); nothing is written below its root before it has been
//! admitted and is owned ([`LocalDrive::own`], or [`DriveRequest::WriteFormat`] on a blank drive).
//!
//! What must hold: every write goes through the descriptor of the root that was identified; once that
//! and the mount point disagree nothing more is written. After a failed flush nothing more is written. What
//! replaces something is staged whole, kept before its name, and renamed over it. Steps on one key never overlap.

mod base;
mod buckets;
mod commit;
mod flush;
mod keys;
mod possession;
mod quarantine;
mod queue;
mod replacement;
mod staging;
#[cfg(test)]
mod tests;
mod undo;
mod uploads;
mod walk;

pub(crate) use possession::KeptFormat;
pub(crate) use possession::Presence;
pub(crate) use queue::Queue;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Instant;

use uuid::Uuid;

use super::Drive;
use super::DriveError;
use super::DriveReply;
use super::DriveRequest;
use super::Fences;
use super::beneath::Beneath;
use super::beneath::RootError;
use super::beneath::display;
use super::error_at;
use super::files::Files;
use crate::disk::drive::DriveStep;
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

/// Keys that hash alike share a lock, so that steps on one key never overlap.
const KEY_LOCKS: usize = 128;

/// A drive of this machine.
pub struct LocalDrive {
    options: LocalOptions,
    seams: LocalSeams,
    files: Box<dyn Files>,
    state: Mutex<State>,
    keys: Vec<Mutex<()>>,
    queue: Mutex<queue::Queue>,
    flush: flush::SharedFlush,
    directories: Mutex<walk::KeptDirectories>,
}

#[derive(Default)]
struct State {
    /// Held while this process owns the drive.
    lease: Option<Box<dyn Send + Sync>>,
    /// What an earlier failed flush was to flush.
    distrusted: Option<String>,
    /// Why what has to lie on the drive before it takes writes does not: it had no room for that.
    unprepared: Option<DriveError>,
    /// What was opened and what was found instead.
    swapped: Option<(String, String)>,
    /// When a request last wrote to its staging folder.
    staged: HashMap<Uuid, Instant>,
    /// Held while a replacement is executed on the drive.
    execution: Option<replacement::Execution>,
    unclean: bool,
    rebuilding: bool,
    absent_from_ns: i64,
    absent_until_ns: i64,
}

impl LocalDrive {
    /// Opens a drive without writing to it.
    ///
    /// # Errors
    ///
    /// [`DriveError::Absent`] when nothing is mounted there; `Io` when the root cannot be opened.
    pub fn open(options: LocalOptions, seams: LocalSeams) -> Result<Self, DriveError> {
        let files = Beneath::open(&options.root, options.allow_unmounted).map_err(|error| {
            let root = display(&options.root);
            match error {
                RootError::Unmounted => DriveError::Absent { root },
                RootError::Io(nix::errno::Errno::ENOENT) => DriveError::Absent { root },
                RootError::Io(errno) => error_at(DriveStep::Open, &root)(errno),
            }
        })?;
        Ok(Self::over(options, seams, Box::new(files)))
    }

    /// A drive over files of any kind.
    pub(crate) fn over(options: LocalOptions, seams: LocalSeams, files: Box<dyn Files>) -> Self {
        Self {
            options,
            seams,
            files,
            state: Mutex::default(),
            keys: (0..KEY_LOCKS).map(|_| Mutex::new(())).collect(),
            queue: Mutex::default(),
            flush: flush::SharedFlush::default(),
            directories: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drive for LocalDrive {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn at_once(&self, request: &DriveRequest) -> Option<DriveReply> {
        self.read_at_once(request)
    }

    fn perform(&self, request: DriveRequest) -> Result<DriveReply, DriveError> {
        let done = |()| DriveReply::Done;
        let _share = self.share_of_execution();
        match request {
            DriveRequest::Facts => self.facts().map(DriveReply::Facts),
            DriveRequest::ReadFormat => self.read_format().map(DriveReply::Format),
            DriveRequest::WriteFormat { bytes, rebuilding } => {
                self.write_format(&bytes, rebuilding).map(done)
            }
            DriveRequest::FinishRebuild => self.finish_rebuild().map(done),
            DriveRequest::Heartbeat { now_ns } => self.heartbeat(now_ns).map(done),
            DriveRequest::ListBuckets => self.list_buckets().map(DriveReply::Buckets),
            DriveRequest::MakeBucket { grant, bucket } => {
                self.make_bucket(&grant, &bucket).map(done)
            }
            DriveRequest::RemoveBucket { grant, bucket } => {
                self.remove_bucket(&grant, &bucket).map(done)
            }
            DriveRequest::ReadKey { target, inline, brief } => {
                self.read_key(&target, inline, brief).map(|copy| DriveReply::Key(Box::new(copy)))
            }
            DriveRequest::ReadShard { target, data_dir, part, offset, length } => {
                self.read_shard(&target, data_dir, part, offset, length).map(DriveReply::Bytes)
            }
            DriveRequest::StatParts { target, data_dir, parts } => {
                self.stat_parts(&target, data_dir, &parts).map(DriveReply::Lengths)
            }
            DriveRequest::Walk { bucket, prefix, after, limit } => {
                self.walk(&bucket, &prefix, &after, limit).map(DriveReply::Page)
            }
            DriveRequest::Append { staging, part, offset, bytes } => {
                self.append(staging, part, offset, &bytes).map(done)
            }
            DriveRequest::Seal { staging, target, kind } => {
                self.seal(staging, &target, kind).map(done)
            }
            DriveRequest::Discard { staging } => self.discard(staging).map(done),
            DriveRequest::DiscardOf { tag } => self.discard_of(tag).map(done),
            DriveRequest::Commit(commit) => self.commit(*commit).map(DriveReply::Committed),
            DriveRequest::Remove(remove) => self.remove(&remove).map(DriveReply::Removed),
            DriveRequest::Undo(undo) => self.undo(&undo).map(done),
            DriveRequest::Settle(settle) => self.settle(&settle).map(done),
            DriveRequest::Quarantine(quarantine) => {
                self.quarantine(&quarantine).map(DriveReply::Removed)
            }
            DriveRequest::CommitPart(commit) => self.commit_part(&commit).map(done),
            DriveRequest::ReadParts { upload, data_dir } => {
                self.read_parts(&upload, data_dir).map(DriveReply::Parts)
            }
            DriveRequest::RemoveUpload { grant, upload } => {
                self.remove_upload(&grant, &upload).map(done)
            }
            DriveRequest::QueuePut(entry) => self.queue_put(entry).map(done),
            DriveRequest::QueueRead { limit } => self.queue_read(limit).map(DriveReply::Queue),
            DriveRequest::QueueDone { ids } => self.queue_done(&ids).map(done),
            DriveRequest::RecordPut { name, bytes } => self.record_put(&name, &bytes).map(done),
            DriveRequest::RecordRead { name } => self.record_read(&name).map(DriveReply::Record),
            DriveRequest::RecordRemove { name } => self.record_remove(&name).map(done),
            DriveRequest::ReadReplacement => {
                self.read_replacement().map(|copy| DriveReply::Replacement(Box::new(copy)))
            }
            DriveRequest::TakeExecution { holder } => self.take_execution(holder).map(done),
            DriveRequest::EndExecution { holder } => {
                self.end_execution(holder);
                Ok(DriveReply::Done)
            }
            DriveRequest::MakeRecordFolder => self.make_record_folder().map(done),
            DriveRequest::Swap { path, expected, new } => self
                .swap(&path, expected.as_ref().map(|it| &***it), new.as_ref().map(|it| &***it))
                .map(DriveReply::Swapped),
            DriveRequest::Sweep { now_ns, grace_s } => self.sweep(now_ns, grace_s).map(done),
        }
    }
}

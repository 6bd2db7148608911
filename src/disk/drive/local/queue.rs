//! The durable queue of unfinished work, and small records of the healer.
//!
//! The queue is a file of lines, appended and flushed; taking an entry off appends a line too, unflushed:
//! an entry that comes back after a crash is done once more. A torn last line is cut off.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::errno::Errno;
use serde::Deserialize;
use serde::Serialize;
use serde_bytes::ByteBuf;
use uuid::Uuid;

use super::LocalDrive;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::QueueEntry;
use crate::disk::drive::error_at;
use crate::disk::layout;

const FOLDER: &str = ".rustfs.sys/buckets/.heal/firedrill";
const QUEUE: &str = ".rustfs.sys/buckets/.heal/firedrill/queue.jsonl";
pub(super) const RECORDS: &str = ".rustfs.sys/buckets/.heal/firedrill/records";
/// Lines without use after which the file is written anew.
const WASTE_MAX: usize = 4096;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Put { id: Uuid, body: String },
    Done { id: Uuid },
}

/// The queue as the file says it.
#[derive(Default)]
pub(crate) struct Queue {
    /// Entries by when they were put in.
    entries: BTreeMap<u64, QueueEntry>,
    by_id: BTreeMap<Uuid, u64>,
    next: u64,
    bytes: u64,
    waste: usize,
}

impl Queue {
    pub(super) fn load(drive: &LocalDrive) -> Result<Self, DriveError> {
        let bytes = drive.read_long(QUEUE)?;
        let queue = Self::read(&bytes);
        if queue.bytes < bytes.len() as u64 {
            match drive.files.truncate(QUEUE, queue.bytes) {
                Ok(()) | Err(Errno::EROFS) => {}
                Err(errno) => return Err(error_at(DriveStep::Write, QUEUE)(errno)),
            }
        }
        Ok(queue)
    }

    /// The queue that the file's whole lines tell, up to the first that cannot be read.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut queue = Self::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let parsed = line.ends_with(b"\n").then(|| serde_json::from_slice(line).ok());
            let Some(Some(line_read)) = parsed else { break };
            match line_read {
                Line::Put { id, body } => {
                    let Ok(body) = BASE64_STANDARD.decode(body) else { break };
                    queue.insert(QueueEntry { id, body });
                }
                Line::Done { id } => {
                    queue.waste += 2;
                    queue.remove(id);
                }
            }
            queue.bytes += line.len() as u64;
        }
        queue
    }

    /// Bytes of the file that are read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What stands in its entries.
    pub(crate) fn bodies(&self) -> Vec<&[u8]> {
        self.entries.values().map(|entry| entry.body.as_slice()).collect()
    }

    /// Entries that are in it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn insert(&mut self, entry: QueueEntry) {
        if self.by_id.insert(entry.id, self.next).is_none() {
            self.entries.insert(self.next, entry);
            self.next += 1;
        }
    }

    fn remove(&mut self, id: Uuid) -> bool {
        self.by_id.remove(&id).is_some_and(|at| self.entries.remove(&at).is_some())
    }
}

impl LocalDrive {
    pub(super) fn queue_put(&self, entry: QueueEntry) -> Result<(), DriveError> {
        self.guard_writes()?;
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.by_id.contains_key(&entry.id) {
            return Ok(());
        }
        let body = BASE64_STANDARD.encode(&entry.body);
        let line = line(&Line::Put { id: entry.id, body });
        let is_new = queue.bytes == 0;
        // What a failed append left is overwritten by the next one: it goes to the same place.
        self.files
            .write_at(QUEUE, queue.bytes, &line)
            .map_err(error_at(DriveStep::Write, QUEUE))?;
        self.sync_file(QUEUE, DriveStep::SyncStaged)?;
        if is_new {
            self.sync_directory(FOLDER, DriveStep::SyncPublished)?;
        }
        queue.bytes += line.len() as u64;
        queue.insert(entry);
        Ok(())
    }

    pub(super) fn queue_read(&self, limit: u32) -> Result<Vec<QueueEntry>, DriveError> {
        self.guard_reads()?;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(queue.entries.values().take(limit as usize).cloned().collect())
    }

    pub(super) fn queue_done(&self, ids: &[Uuid]) -> Result<(), DriveError> {
        self.guard_writes()?;
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for id in ids {
            if queue.remove(*id) {
                lines.extend_from_slice(&line(&Line::Done { id: *id }));
                queue.waste += 2;
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        if queue.entries.is_empty() || queue.waste > WASTE_MAX.max(queue.entries.len()) {
            return self.rewrite(&mut queue);
        }
        self.files
            .write_at(QUEUE, queue.bytes, &lines)
            .map_err(error_at(DriveStep::CleanUp, QUEUE))?;
        queue.bytes += lines.len() as u64;
        Ok(())
    }

    fn rewrite(&self, queue: &mut Queue) -> Result<(), DriveError> {
        let mut bytes = Vec::new();
        for entry in queue.entries.values() {
            let body = BASE64_STANDARD.encode(&entry.body);
            bytes.extend_from_slice(&line(&Line::Put { id: entry.id, body }));
        }
        let staged = format!("{}/{}", layout::TMP, Uuid::new_v4());
        self.write_file(&staged, &bytes, true)?;
        self.publish(&staged, QUEUE)?;
        self.sync_directory(FOLDER, DriveStep::SyncPublished)?;
        queue.bytes = bytes.len() as u64;
        queue.waste = 0;
        Ok(())
    }

    pub(super) fn record_put(&self, name: &str, bytes: &[u8]) -> Result<(), DriveError> {
        self.guard_writes()?;
        let path = record_path(name)?;
        let staged = format!("{}/{}", layout::TMP, Uuid::new_v4());
        self.write_file(&staged, bytes, true)?;
        self.publish(&staged, &path)?;
        self.sync_directory(RECORDS, DriveStep::SyncPublished)
    }

    pub(super) fn record_read(&self, name: &str) -> Result<Option<ByteBuf>, DriveError> {
        self.guard_reads()?;
        Ok(self.read_if_there(&record_path(name)?)?.map(ByteBuf::from))
    }

    pub(super) fn record_remove(&self, name: &str) -> Result<(), DriveError> {
        self.guard_writes()?;
        let path = record_path(name)?;
        match self.files.remove_file(&path) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(error_at(DriveStep::CleanUp, &path)(errno)),
        }
    }
}

fn line(line: &Line) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line has text keys only");
    bytes.push(b'\n');
    bytes
}

fn record_path(name: &str) -> Result<String, DriveError> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 200 || !name.bytes().all(legal) {
        return Err(DriveError::Illegal { why: format!("{name:?} is no name of a record") });
    }
    Ok(format!("{RECORDS}/{name}"))
}

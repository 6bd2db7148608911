//! The staging area: shards are written here, and put in order before every name that follows, before anyone can see
//! them.

use std::collections::HashSet;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use crate::disk::drive::BULK_BYTES_MAX;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Staging;
use crate::disk::drive::error_at;
use crate::disk::layout;
use crate::protocol::crash_point::CrashPoint;
use crate::value::ObjectKey;

impl LocalDrive {
    pub(super) fn append(
        &self,
        staging: Staging,
        part: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DriveError> {
        self.guard_writes()?;
        if bytes.len() > BULK_BYTES_MAX {
            return Err(DriveError::Illegal { why: format!("{} bytes at once", bytes.len()) });
        }
        let path = format!("{}/{}", staged_data(staging), layout::part_file(part as usize));
        self.state().staged.insert(staging.id, Instant::now());
        match self.files.write_at(&path, offset, bytes) {
            // A folder that is gone was thrown away; what comes late must not make it anew, with a hole.
            Err(Errno::ENOENT) if offset == 0 => {
                let folder = format!("{}/{}", staging.id, staging.data_dir.hyphenated());
                self.make_path(layout::TMP, &folder)?;
                self.files.write_at(&path, offset, bytes)
            }
            result => result,
        }
        .map_err(error_at(DriveStep::Write, &path))
    }

    pub(super) fn seal(
        &self,
        staging: Staging,
        target: &ObjectKey,
        kind: CommitKind,
    ) -> Result<(), DriveError> {
        self.guard_writes()?;
        if kind == CommitKind::Put {
            self.pass(CrashPoint::PutShardsStaged, target);
        }
        let folder = staged_data(staging);
        let entries = self.files.list(&folder).map_err(error_at(DriveStep::Stage, &folder))?;
        let files: Vec<_> = entries.iter().map(|it| format!("{folder}/{}", it.name)).collect();
        let files: Vec<_> = files.iter().map(String::as_str).collect();
        match self.syncs_names(&target.bucket, &target.key) {
            // They are flushed with the names that are yet to come.
            true => self.order(&files, &[&folder], DriveStep::SyncStaged)?,
            false => self.flush_each(&files, &[&folder], DriveStep::SyncStaged)?,
        }
        match kind {
            CommitKind::Put => self.pass(CrashPoint::PutShardsSynced, target),
            CommitKind::Heal => self.pass(CrashPoint::HealShardsStaged, target),
            CommitKind::Delete | CommitKind::Multipart | CommitKind::Quiet => {}
        }
        Ok(())
    }

    pub(super) fn discard(&self, staging: Staging) -> Result<(), DriveError> {
        self.guard_writes()?;
        self.state().staged.remove(&staging.id);
        self.throw_away(&staged(staging.id))
    }

    /// Removes folders of requests that have not been heard of for `idle`: whoever staged them died, or
    /// could not reach this drive to throw them away.
    pub(super) fn sweep_staging(&self, idle: Duration) -> Result<(), DriveError> {
        let now = Instant::now();
        let mut present = HashSet::new();
        for entry in self.list_or_nothing(layout::TMP)? {
            let Ok(id) = Uuid::try_parse(&entry.name) else { continue };
            present.insert(id);
            let heard_of = *self.state().staged.entry(id).or_insert(now);
            if now.duration_since(heard_of) >= idle {
                self.throw_away(&format!("{}/{}", layout::TMP, entry.name))?;
            }
        }
        // What was committed, or is gone now, needs no watching.
        self.state().staged.retain(|id, heard_of| present.contains(id) || *heard_of >= now);
        Ok(())
    }
}

impl LocalDrive {
    /// Throws away everything that one process staged.
    pub(super) fn discard_of(&self, tag: u64) -> Result<(), DriveError> {
        self.guard_writes()?;
        for entry in self.list_or_nothing(layout::TMP)? {
            let id = layout::parse_data_dir(&entry.name);
            if id.is_some_and(|id| id.as_u64_pair().0 == tag) {
                self.throw_away(&format!("{}/{}", layout::TMP, entry.name))?;
            }
        }
        Ok(())
    }
}

impl LocalDrive {
    /// Removes what was staged and will not be published.
    fn throw_away(&self, folder: &str) -> Result<(), DriveError> {
        // A planted defect: it stays, and nobody is told.
        if !self.seams.rules.discards_staging() {
            return Ok(());
        }
        self.remove_tree(folder)
    }
}

/// The folder of one request's staging.
pub(super) fn staged(id: Uuid) -> String {
    format!("{}/{}", layout::TMP, id.hyphenated())
}

/// The folder that becomes a data directory.
pub(super) fn staged_data(staging: Staging) -> String {
    format!("{}/{}", staged(staging.id), staging.data_dir.hyphenated())
}

//! Taking back, taking out, and clearing up after both.

use std::collections::BTreeSet;

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::base::directory_of;
use super::staging::staged;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Published;
use crate::disk::drive::Remove;
use crate::disk::drive::Removed;
use crate::disk::drive::Settle;
use crate::disk::drive::Undo;
use crate::disk::drive::error_at;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::protocol::crash_point::CrashPoint;
use crate::value::ObjectKey;

/// A version with its inline contents.
type Kept = (Version, Option<Vec<u8>>);

impl LocalDrive {
    pub(super) fn remove(&self, remove: &Remove) -> Result<Removed, DriveError> {
        self.guard_writes()?;
        let target = &remove.target;
        let directory = directory_of(target)?;
        let _key = self.lock_key(target);
        let _pin = self.pin(&remove.grant)?;
        let _pins = self.pin_all(&remove.under)?;
        let writer = self.flush.writer();
        let flushes = self.syncs_names(&target.bucket, &target.key);

        let path = format!("{directory}/{}", layout::META_FILE);
        let Some(bytes) = self.read_meta(&path)? else { return Ok(Removed::default()) };
        let mut meta = XlMeta::parse(&bytes).map_err(|error| DriveError::Corrupt {
            path: path.clone(),
            detail: error.to_string(),
        })?;
        let is_older = |version: &&Version| version.header().modtime_ns < remove.before_ns;
        if meta.find(remove.version).filter(is_older).is_none() {
            return Ok(Removed::default());
        }
        let removed = meta.remove(remove.version);
        self.back_up(target, &directory, remove.rollback)?;
        self.pass(CrashPoint::DeleteBackupWritten, target);
        let kept = format!("{directory}/{}", remove.rollback.hyphenated());
        self.guard_root()?;
        self.write_meta(target, &directory, &meta, flushes, &[&kept])?;
        self.pass(CrashPoint::DeleteMetaRenamed, target);
        if flushes {
            self.flush_names(&[&directory], Some(writer), DriveStep::SyncPublished)?;
        }
        Ok(Removed {
            found: true,
            old_data_dir: removed.and_then(|it| unused_data_dir(&it, &meta)),
        })
    }

    /// Publishes changed metadata, or none at all when no version is left. The key's directory stays. `before` are
    /// directories that have to be flushed before that.
    pub(super) fn write_meta(
        &self,
        target: &ObjectKey,
        directory: &str,
        meta: &XlMeta,
        flushes: bool,
        before: &[&str],
    ) -> Result<(), DriveError> {
        let path = format!("{directory}/{}", layout::META_FILE);
        if meta.is_empty() && meta.inline_entries().next().is_none() {
            let gone = format!("{}/{}", layout::TRASH, Uuid::new_v4());
            if flushes && !before.is_empty() {
                self.order(&[], before, DriveStep::Backup)?;
            }
            self.publish(&path, &gone)?;
            self.files.remove_file(&gone).ok();
            return Ok(());
        }
        let new = staged(Uuid::new_v4());
        let result = self
            .write_staged(&new, &meta.encode(), flushes)
            .and_then(|()| match flushes {
                true => self.order(&[], before, DriveStep::SyncStaged),
                false => Ok(()),
            })
            .and_then(|()| self.publish_meta(target, directory, &new));
        if result.is_err() {
            self.remove_tree(&new).ok();
        }
        result.map(drop)
    }

    pub(super) fn undo(&self, undo: &Undo) -> Result<(), DriveError> {
        self.guard_writes()?;
        let target = &undo.target;
        let directory = directory_of(target)?;
        let _key = self.lock_key(target);
        let _pin = self.pin(&undo.grant)?;
        let flushes = self.syncs_names(&target.bucket, &target.key);
        match undo.published {
            Some(published) => self.undo_commit(undo, published, &directory)?,
            None => self.undo_remove(undo, &directory)?,
        }
        if flushes && self.exists(&directory)? {
            self.flush_names(&[&directory], None, DriveStep::SyncPublished)?;
        }
        self.prune(&target.bucket, &directory);
        Ok(())
    }

    fn undo_commit(
        &self,
        undo: &Undo,
        published: Published,
        directory: &str,
    ) -> Result<(), DriveError> {
        let target = &undo.target;
        let flushes = self.syncs_names(&target.bucket, &target.key);
        let (mut meta, _) = self.meta_to_change(target, directory)?;
        if !meta.find(published.version).is_some_and(|found| is_the_write(found, published)) {
            // It never got here, or something else has taken its place; its contents may have come before it.
            return match (&undo.upload, published.data_dir) {
                (Some(upload), Some(data_dir)) if !meta.uses_data_dir(data_dir) => {
                    self.give_back(directory, upload, data_dir, flushes)
                }
                _ => Ok(()),
            };
        }
        let before = self.version_before(undo, published, directory)?;
        if undo.quarantine {
            let aside = self.quarantine_folder(target, "a write that never had its quorum")?;
            self.keep_meta(directory, &aside)?;
        }
        meta.remove(published.version);
        if let Some((version, inline)) = before {
            meta.insert(version, inline);
        }
        self.write_meta(target, directory, &meta, flushes, &[])?;
        if let Some(data_dir) = published.data_dir.filter(|it| !meta.uses_data_dir(*it)) {
            let from = format!("{directory}/{}", data_dir.hyphenated());
            match &undo.upload {
                Some(upload) => self.give_back(directory, upload, data_dir, flushes)?,
                None if undo.quarantine => self.set_aside(target, &from)?,
                None => {
                    self.trash(&from)?;
                }
            }
        }
        match undo.rollback {
            Some(rollback) => self.drop_rollback(directory, rollback, &meta),
            None => Ok(()),
        }
    }

    /// Moves a data directory from a key's directory back to its upload, beside what was uploaded since.
    fn give_back(
        &self,
        directory: &str,
        upload: &ObjectKey,
        data_dir: Uuid,
        flushes: bool,
    ) -> Result<(), DriveError> {
        let upload = directory_of(upload)?;
        let from = format!("{directory}/{}", data_dir.hyphenated());
        let to = format!("{upload}/{}", data_dir.hyphenated());
        if !self.exists(&from)? || !self.exists(&upload)? {
            return Ok(());
        }
        match self.files.rename(&from, &to) {
            Ok(()) => {}
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                // A part and its record belong together: never one of them beside a newer other.
                let part = |name: &str| name.strip_suffix(".meta").unwrap_or(name).to_owned();
                let there = self.list_or_nothing(&to)?;
                let there: BTreeSet<_> = there.iter().map(|entry| part(&entry.name)).collect();
                for entry in self.list_or_nothing(&from)? {
                    if !there.contains(&part(&entry.name)) {
                        let (old, new) = (&from, &to);
                        self.publish(
                            &format!("{old}/{}", entry.name),
                            &format!("{new}/{}", entry.name),
                        )?;
                    }
                }
                self.sync_directory(&to, DriveStep::SyncPublished)?;
                self.trash(&from)?;
            }
            Err(errno) => return Err(error_at(DriveStep::Publish, &to)(errno)),
        }
        match flushes {
            true => self.sync_directory(&upload, DriveStep::SyncPublished),
            false => Ok(()),
        }
    }

    /// The version that a write replaced, as the backup has it.
    fn version_before(
        &self,
        undo: &Undo,
        published: Published,
        directory: &str,
    ) -> Result<Option<Kept>, DriveError> {
        let Some(rollback) = undo.rollback else { return Ok(None) };
        let path = format!("{directory}/{}/{}", rollback.hyphenated(), layout::META_BACKUP);
        let bytes =
            self.read_meta(&path)?.ok_or_else(|| DriveError::NotFound { path: path.clone() })?;
        let backup = XlMeta::parse(&bytes)
            .map_err(|error| DriveError::Corrupt { path, detail: error.to_string() })?;
        Ok(backup
            .find(published.version)
            .map(|version| (version.clone(), backup.inline(published.version).map(<[u8]>::to_vec))))
    }

    fn undo_remove(&self, undo: &Undo, directory: &str) -> Result<(), DriveError> {
        let Some(rollback) = undo.rollback else { return Ok(()) };
        let folder = format!("{directory}/{}", rollback.hyphenated());
        let backup = format!("{folder}/{}", layout::META_BACKUP);
        if !self.exists(&backup)? {
            return Ok(());
        }
        self.publish_meta(&undo.target, directory, &backup)?;
        self.files.remove_directory(&folder).ok();
        Ok(())
    }

    pub(super) fn settle(&self, settle: &Settle) -> Result<(), DriveError> {
        self.guard_writes()?;
        let target = &settle.target;
        let directory = directory_of(target)?;
        let _key = self.lock_key(target);
        let _pin = self.pin(&settle.grant)?;
        let path = format!("{directory}/{}", layout::META_FILE);
        let meta = match self.read_meta(&path)? {
            None => XlMeta::default(),
            Some(bytes) => XlMeta::parse(&bytes)
                .map_err(|error| DriveError::Corrupt { path, detail: error.to_string() })?,
        };
        for rollback in &settle.rollbacks {
            self.drop_rollback(&directory, *rollback, &meta)?;
        }
        for data_dir in settle.data_dirs.iter().filter(|it| !meta.uses_data_dir(**it)) {
            self.trash_folder(&directory, *data_dir)?;
        }
        if let Some((data_dir, parts)) = &settle.parts {
            self.keep_parts(&directory, *data_dir, parts)?;
        }
        self.prune(&target.bucket, &directory);
        Ok(())
    }

    /// Removes a rollback directory; of one that is a data directory in use, the backup only.
    fn drop_rollback(
        &self,
        directory: &str,
        rollback: Uuid,
        meta: &XlMeta,
    ) -> Result<(), DriveError> {
        if !meta.uses_data_dir(rollback) {
            return self.trash_folder(directory, rollback);
        }
        let backup = format!("{directory}/{}/{}", rollback.hyphenated(), layout::META_BACKUP);
        match self.files.remove_file(&backup) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(error_at(DriveStep::CleanUp, &backup)(errno)),
        }
    }

    /// Removes a folder below a key, unless keys lie in it.
    fn trash_folder(&self, directory: &str, folder: Uuid) -> Result<(), DriveError> {
        let path = format!("{directory}/{}", folder.hyphenated());
        if super::keys::holds_keys(&self.list_or_nothing(&path)?) {
            return Ok(());
        }
        self.trash(&path).map(drop)
    }

    /// Removes from a data directory what belonged to the upload only.
    fn keep_parts(&self, directory: &str, data_dir: Uuid, parts: &[u32]) -> Result<(), DriveError> {
        let folder = format!("{directory}/{}", data_dir.hyphenated());
        for entry in self.list_or_nothing(&folder)? {
            let number = entry.name.strip_prefix("part.").and_then(|it| it.parse::<u32>().ok());
            let is_kept = number.is_none_or(|number| parts.contains(&number));
            let is_record = entry.name.starts_with("part.") && entry.name.ends_with(".meta");
            if !entry.is_directory && (!is_kept || is_record) {
                let path = format!("{folder}/{}", entry.name);
                self.files.remove_file(&path).map_err(error_at(DriveStep::CleanUp, &path))?;
            }
        }
        Ok(())
    }
}

/// The data directory of a version that is gone, when no other version uses it.
pub(super) fn unused_data_dir(version: &Version, meta: &XlMeta) -> Option<Uuid> {
    let object = version.as_object().filter(|object| !object.is_inline() && !object.is_remote())?;
    (!meta.uses_data_dir(object.data_dir)).then_some(object.data_dir)
}

/// Whether an entry is exactly this write of its version.
pub(super) fn is_the_write(found: &Version, published: Published) -> bool {
    found.header().modtime_ns == published.modtime_ns
        && found.as_object().map(|object| object.data_dir) == published.data_dir
}

//! Quarantine: what healing moves away lies here for another grace, with a note of where it came from.

use std::time::Duration;

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::base::directory_of;
use super::base::now_ns;
use super::keys::holds_keys;
use super::undo::is_the_write;
use super::undo::unused_data_dir;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Quarantine;
use crate::disk::drive::Removed;
use crate::disk::drive::error_at;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::value::ObjectKey;

const ORIGIN: &str = "origin.json";
/// How long a staging folder is kept that no request writes to: longer than any request may pause.
const STAGING_IDLE: Duration = Duration::from_secs(15 * 60);

impl LocalDrive {
    pub(super) fn quarantine(&self, quarantine: &Quarantine) -> Result<Removed, DriveError> {
        self.guard_writes()?;
        let target = &quarantine.target;
        let directory = directory_of(target)?;
        let _key = self.lock_key(target);
        let _pin = self.pin(&quarantine.grant)?;
        let flushes = self.syncs_names(&target.bucket, &target.key);
        let path = format!("{directory}/{}", layout::META_FILE);
        let mut removed = Removed::default();

        if quarantine.metadata {
            if self.exists(&path)? {
                self.set_aside(target, &path)?;
                removed.found = true;
            }
        } else if quarantine.version.is_some() || !quarantine.inline.is_empty() {
            removed = self.quarantine_versions(quarantine, &directory, flushes)?;
        }
        let used = match self.read_meta(&path)? {
            Some(bytes) => XlMeta::parse(&bytes)
                .map_err(|error| DriveError::Corrupt { path, detail: error.to_string() })?,
            None => XlMeta::default(),
        };
        for folder in &quarantine.directories {
            let path = format!("{directory}/{}", folder.hyphenated());
            // A directory that leads to another key is that key's, whatever its name looks like.
            if used.uses_data_dir(*folder) || holds_keys(&self.list_or_nothing(&path)?) {
                continue;
            }
            if self.exists(&path)? {
                self.set_aside(target, &path)?;
                removed.found = true;
            }
        }
        if flushes && self.exists(&directory)? {
            self.sync_directory(&directory, DriveStep::SyncPublished)?;
        }
        self.prune(&target.bucket, &directory);
        Ok(removed)
    }

    fn quarantine_versions(
        &self,
        quarantine: &Quarantine,
        directory: &str,
        flushes: bool,
    ) -> Result<Removed, DriveError> {
        let target = &quarantine.target;
        let path = format!("{directory}/{}", layout::META_FILE);
        let Some(bytes) = self.read_meta(&path)? else { return Ok(Removed::default()) };
        let mut meta = XlMeta::parse(&bytes)
            .map_err(|error| DriveError::Corrupt { path, detail: error.to_string() })?;
        let before = meta.clone();
        let mut old_data_dir = None;
        if let Some(published) = quarantine.version
            && meta.find(published.version).is_some_and(|found| is_the_write(found, published))
            && let Some(version) = meta.remove(published.version)
        {
            old_data_dir = unused_data_dir(&version, &meta);
        }
        for name in &quarantine.inline {
            if meta.ownerless_inline().contains(&name.as_str()) {
                meta.remove_inline(name);
            }
        }
        if meta == before {
            return Ok(Removed::default());
        }
        let aside = self.quarantine_folder(target, "below its quorum for the whole grace")?;
        self.keep_meta(directory, &aside)?;
        self.write_meta(target, directory, &meta, flushes, &[])?;
        if let Some(data_dir) = old_data_dir {
            let name = data_dir.hyphenated();
            self.move_to(&format!("{directory}/{name}"), &format!("{aside}/{name}"))?;
        }
        Ok(Removed { found: true, old_data_dir })
    }

    /// Makes a folder of its own for something from `target`.
    pub(super) fn quarantine_folder(
        &self,
        target: &ObjectKey,
        why: &str,
    ) -> Result<String, DriveError> {
        let folder = format!("{}-{}", now_ns(), Uuid::new_v4());
        self.make_path(layout::SYSTEM, &format!("quarantine/{folder}"))?;
        let folder = format!("{}/{folder}", layout::QUARANTINE);
        let origin = serde_json::json!({
            "format": 1, "bucket": target.bucket, "key": target.key, "why": why,
        });
        self.write_file(&format!("{folder}/{ORIGIN}"), origin.to_string().as_bytes(), false)?;
        Ok(folder)
    }

    /// Keeps a copy of a key's metadata in a quarantine folder.
    pub(super) fn keep_meta(&self, directory: &str, aside: &str) -> Result<(), DriveError> {
        let from = format!("{directory}/{}", layout::META_FILE);
        let to = format!("{aside}/{}", layout::META_FILE);
        match self.files.link(&from, &to) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(error_at(DriveStep::Backup, &to)(errno)),
        }
    }

    /// Moves a file or folder below a key into quarantine.
    pub(super) fn set_aside(&self, target: &ObjectKey, from: &str) -> Result<(), DriveError> {
        let folder = self.quarantine_folder(target, "no version uses it")?;
        let name = from.rsplit_once('/').map_or(from, |(_, name)| name);
        self.move_to(from, &format!("{folder}/{name}"))
    }

    fn move_to(&self, from: &str, to: &str) -> Result<(), DriveError> {
        match self.files.rename(from, to) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(error_at(DriveStep::CleanUp, from)(errno)),
        }
    }

    pub(super) fn sweep(&self, now_ns: i64, grace_s: u64) -> Result<(), DriveError> {
        self.guard_writes()?;
        self.sweep_staging(STAGING_IDLE)?;
        self.sweep_trash()?;
        let grace_ns = i64::try_from(grace_s).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        for entry in self.list_or_nothing(layout::QUARANTINE)? {
            let since = entry.name.split_once('-').and_then(|(since, _)| since.parse::<i64>().ok());
            if since.is_some_and(|since| now_ns.saturating_sub(since) >= grace_ns) {
                self.remove_tree(&format!("{}/{}", layout::QUARANTINE, entry.name))?;
            }
        }
        Ok(())
    }

    /// Removes what deletes left in the trash because removing it failed.
    pub(super) fn sweep_trash(&self) -> Result<(), DriveError> {
        for entry in self.list_or_nothing(layout::TRASH)? {
            self.remove_tree(&format!("{}/{}", layout::TRASH, entry.name))?;
        }
        Ok(())
    }
}

//! The commit of one version on one drive.
//!
//! ```text
//!  stage xl.meta ─▶ place data ─▶ back up ─▶ order ─▶ rename xl.meta ─▶ flush names
//!                             (overwrites only)        the commit point
//! ```
//!
//! Before the rename the drive reads as it did; after it, as new. What it replaces stays beside it until the
//! coordinator says that the write is decided.

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::base::directory_of;
use super::base::up_to;
use super::staging::staged;
use super::staging::staged_data;
use crate::disk::drive::Commit;
use crate::disk::drive::CommitKind;
use crate::disk::drive::Committed;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Shards;
use crate::disk::drive::error_at;
use crate::disk::drive::files::WHOLE_BYTES_MAX;
use crate::disk::drive::rollback_folder;
use crate::disk::format::xl_meta::VERSIONS_MAX;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::protocol::crash_point::CrashPoint;
use crate::value::ObjectKey;

impl LocalDrive {
    pub(super) fn commit(&self, commit: Commit) -> Result<Committed, DriveError> {
        self.guard_writes()?;
        let directory = directory_of(&commit.target)?;
        let version = Version::parse(&commit.header, &commit.body)
            .map_err(|error| DriveError::Illegal { why: error.to_string() })?;
        let _key = self.lock_key(&commit.target);
        let _pin = self.pin(&commit.grant)?;
        let _pins = self.pin_all(&commit.under)?;
        if !self.exists(&commit.target.bucket)? {
            return Err(DriveError::NoBucket { bucket: commit.target.bucket });
        }
        let staging = match &commit.shards {
            Shards::Staged(staging) => staging.id,
            Shards::None | Shards::Inline(_) | Shards::Upload { .. } | Shards::Kept => {
                Uuid::new_v4()
            }
        };
        let bucket = commit.target.bucket.clone();
        let mut progress = Progress::default();
        let has_folder = matches!(commit.shards, Shards::Staged(_));
        let result = self.commit_staged(commit, version, &directory, staging, &mut progress);
        let is_published = progress.is_published;
        if result.is_err() && !is_published && self.guard_writes().is_ok() {
            self.step_back(&bucket, &directory, progress);
        }
        // Whatever is left of the staging area is nobody's.
        let left = staged(staging);
        if has_folder && self.files.remove_directory(&left).is_err() || !has_folder && !is_published
        {
            self.remove_tree(&left).ok();
        }
        result
    }

    /// Clears up after a commit that failed before anyone could see it.
    fn step_back(&self, bucket: &str, directory: &str, progress: Progress) {
        if let Some((placed, from)) = progress.placed {
            match from {
                Some(upload) => drop(self.files.rename(&placed, &upload)),
                None => drop(self.trash(&placed)),
            }
        }
        if let Some(folder) = progress.backed_up {
            let folder = format!("{directory}/{}", folder.hyphenated());
            self.files.remove_file(&format!("{folder}/{}", layout::META_BACKUP)).ok();
            self.files.remove_directory(&folder).ok();
        }
        self.prune(bucket, directory);
    }

    fn commit_staged(
        &self,
        commit: Commit,
        version: Version,
        directory: &str,
        staging: Uuid,
        progress: &mut Progress,
    ) -> Result<Committed, DriveError> {
        let Commit { target, shards, kind, decided, .. } = commit;
        let flushes = self.syncs_names(&target.bucket, &target.key);
        let writer = self.flush.writer();
        let is_null = version.id().is_null();
        let id = version.id();
        let (mut meta, was_there) = self.meta_to_change(&target, directory)?;
        let before = meta.clone();

        let is_upload = matches!(shards, Shards::Upload { .. });
        let has_folder = matches!(shards, Shards::Staged(_));
        let (inline, source) = match shards {
            Shards::None => {
                (version.as_object().filter(|it| it.is_inline()).map(|_| Vec::new()), None)
            }
            Shards::Inline(bytes) => (Some(bytes), None),
            Shards::Staged(staging) => (None, Some((staged_data(staging), staging.data_dir))),
            Shards::Upload { upload, data_dir } => {
                let upload = directory_of(&upload)?;
                (None, Some((format!("{upload}/{}", data_dir.hyphenated()), data_dir)))
            }
            Shards::Kept => (kept_inline(&meta, &version)?, None),
        };
        let replaced = if is_null && !self.seams.rules.replaces_null_versions() {
            self.insert_beside(&mut meta, version, inline);
            None
        } else {
            meta.insert(version, inline)
        };

        let encoded = meta.encode();
        if meta.versions().len() > VERSIONS_MAX || encoded.len() as u64 > WHOLE_BYTES_MAX {
            // Nobody could read it again, and all the versions before would be lost with this one.
            let why = format!("{target} has as many versions as a key may have");
            return Err(DriveError::Illegal { why });
        }
        // Without shards beside it the metadata needs no folder of its own.
        let staged_meta = match has_folder {
            true => format!("{}/{}", staged(staging), layout::META_FILE),
            false => staged(staging),
        };
        if has_folder {
            self.make_path(layout::TMP, &staging.hyphenated().to_string())?;
        }
        self.write_staged(&staged_meta, &encoded, flushes)?;
        self.pass_put(kind, CrashPoint::PutMetaStaged, &target);

        if let Some((from, data_dir)) = &source {
            self.place_data(&target, directory, from, *data_dir)?;
            let placed = format!("{directory}/{}", data_dir.hyphenated());
            progress.placed = Some((placed, is_upload.then(|| from.clone())));
            self.pass_put(kind, CrashPoint::PutDataRenamed, &target);
        }
        let rollback = match &replaced {
            Some(replaced) if kind != CommitKind::Heal => {
                let folder = rollback_folder(replaced);
                progress.backed_up = Some(folder);
                self.back_up(&target, directory, folder)?;
                match kind {
                    CommitKind::Put => self.pass(CrashPoint::PutBackupWritten, &target),
                    CommitKind::Delete => self.pass(CrashPoint::DeleteBackupWritten, &target),
                    CommitKind::Multipart | CommitKind::Heal | CommitKind::Quiet => {}
                }
                Some(folder)
            }
            _ => None,
        };
        if flushes {
            // The data and the way back are there whenever the new metadata is, and it is whole.
            let kept = rollback.map(|folder| format!("{directory}/{}", folder.hyphenated()));
            let mut directories: Vec<&str> = kept.as_deref().into_iter().collect();
            if source.is_some() || rollback.is_some() {
                directories.push(directory);
            }
            self.order(&[], &directories, DriveStep::SyncStaged)?;
        }

        self.guard_root()?;
        progress.is_published = true;
        let is_new = self.publish_meta(&target, directory, &staged_meta)?;
        match kind {
            CommitKind::Put => self.pass(CrashPoint::PutMetaRenamed, &target),
            CommitKind::Delete => self.pass(CrashPoint::DeleteMetaRenamed, &target),
            CommitKind::Multipart => self.pass(CrashPoint::MultipartMetaRenamed, &target),
            CommitKind::Heal => self.pass(CrashPoint::HealMetaRenamed, &target),
            CommitKind::Quiet => {}
        }
        if flushes {
            let base = if was_there { directory } else { &target.bucket };
            let directories = up_to(base, directory);
            self.flush_names(&directories, Some(writer), DriveStep::SyncPublished)?;
            self.pass_put(kind, CrashPoint::PutDirectorySynced, &target);
        }

        // In a directory that was not there before there is nothing from before.
        if decided && !is_new {
            self.drop_older_backups(directory, &meta, &before, rollback)?;
        }
        let old_data_dir = replaced
            .as_ref()
            .and_then(Version::as_object)
            .filter(|object| !object.is_inline() && !meta.uses_data_dir(object.data_dir))
            .map(|object| object.data_dir);
        debug_assert!(meta.find(id).is_some(), "a version that was put in is there");
        Ok(Committed { rollback, old_data_dir, versions: digest_of(&meta) })
    }

    /// What a planted defect does: the id stands twice.
    fn insert_beside(&self, meta: &mut XlMeta, version: Version, inline: Option<Vec<u8>>) {
        let before = meta.remove(version.id());
        meta.insert(version, inline);
        if let Some(before) = before {
            meta.insert_twice(before);
        }
    }

    fn pass_put(&self, kind: CommitKind, point: CrashPoint, target: &ObjectKey) {
        if kind == CommitKind::Put {
            self.pass(point, target);
        }
    }

    /// The metadata that a step changes, and whether there was any. What cannot be read is put aside, so that
    /// healing can bring back what was in it.
    pub(super) fn meta_to_change(
        &self,
        target: &ObjectKey,
        directory: &str,
    ) -> Result<(XlMeta, bool), DriveError> {
        let path = format!("{directory}/{}", layout::META_FILE);
        let Some(bytes) = self.read_meta(&path)? else {
            return Ok((XlMeta::default(), false));
        };
        match XlMeta::parse(&bytes) {
            Ok(meta) => Ok((meta, true)),
            Err(error) => {
                let aside = self.quarantine_folder(target, &format!("unreadable: {error}"))?;
                let to = format!("{aside}/{}", layout::META_FILE);
                self.files.link(&path, &to).map_err(error_at(DriveStep::Backup, &path))?;
                Ok((XlMeta::default(), true))
            }
        }
    }

    /// Moves a folder of shards to where the version will look for it.
    fn place_data(
        &self,
        target: &ObjectKey,
        directory: &str,
        from: &str,
        data_dir: Uuid,
    ) -> Result<(), DriveError> {
        let to = format!("{directory}/{}", data_dir.hyphenated());
        self.below_parents(target, directory, || match self.files.rename(from, &to) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                self.trash(&to)?;
                Ok(self.files.rename(from, &to))
            }
            result => Ok(result),
        })?
        .map_err(error_at(DriveStep::PlaceData, &to))
        .map(drop)
    }

    /// Keeps the metadata that is about to be replaced, with a second name, which is not flushed yet.
    pub(super) fn back_up(
        &self,
        target: &ObjectKey,
        directory: &str,
        folder: Uuid,
    ) -> Result<(), DriveError> {
        let meta = format!("{directory}/{}", layout::META_FILE);
        let folder = format!("{directory}/{}", folder.hyphenated());
        let backup = format!("{folder}/{}", layout::META_BACKUP);
        self.below_parents(target, directory, || {
            match self.files.make_directory(&folder) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Ok(Err(errno)),
            }
            Ok(match self.files.link(&meta, &backup) {
                // What an earlier write left is the state before that write; the state before this one is
                // what counts, and the older one is contained in it or was decided.
                Err(Errno::EEXIST) => {
                    self.files.remove_file(&backup).and_then(|()| self.files.link(&meta, &backup))
                }
                result => result,
            })
        })?
        .map_err(error_at(DriveStep::Backup, &backup))
        .map(drop)
    }

    /// Puts staged metadata in place. Answers whether the key's directory was made for it.
    pub(super) fn publish_meta(
        &self,
        target: &ObjectKey,
        directory: &str,
        staged: &str,
    ) -> Result<bool, DriveError> {
        let to = format!("{directory}/{}", layout::META_FILE);
        self.below_parents(target, directory, || Ok(self.files.rename(staged, &to)))?
            .map_err(error_at(DriveStep::Publish, &to))
    }

    /// Does something in a key's directory, which is made if need be: others may remove it while it is empty. Answers
    /// whether it was made for that.
    fn below_parents(
        &self,
        target: &ObjectKey,
        directory: &str,
        mut step: impl FnMut() -> Result<Result<(), Errno>, DriveError>,
    ) -> Result<Result<bool, Errno>, DriveError> {
        const TRIES: usize = 1000;
        let path = &directory[target.bucket.len()..];
        let mut result = Ok(false);
        for _ in 0..TRIES {
            let was_made = self.make_path(&target.bucket, path)?;
            result = step()?.map(|()| was_made);
            if result != Err(Errno::ENOENT) || self.exists(directory)? {
                break;
            }
        }
        Ok(result)
    }

    /// Removes what earlier writes kept in case they had to be taken back.
    fn drop_older_backups(
        &self,
        directory: &str,
        meta: &XlMeta,
        before: &XlMeta,
        kept: Option<Uuid>,
    ) -> Result<(), DriveError> {
        for entry in self.list_or_nothing(directory)? {
            let Some(folder) = layout::parse_data_dir(&entry.name) else { continue };
            let path = format!("{directory}/{}", entry.name);
            let backup = format!("{path}/{}", layout::META_BACKUP);
            if !entry.is_directory || kept == Some(folder) || !self.exists(&backup)? {
                continue;
            }
            if meta.uses_data_dir(folder) || before.uses_data_dir(folder) {
                self.files.remove_file(&backup).map_err(error_at(DriveStep::CleanUp, &backup))?;
            } else {
                self.trash(&path)?;
            }
        }
        Ok(())
    }
}

/// The inline contents of the version that is about to be said something else of.
fn kept_inline(meta: &XlMeta, version: &Version) -> Result<Option<Vec<u8>>, DriveError> {
    let place = |version: &Version| {
        version
            .as_object()
            .map(|object| (object.data_dir, object.is_inline(), object.size, object.shard))
    };
    let held = meta.find(version.id()).filter(|held| place(held) == place(version));
    if held.is_none() || version.as_object().is_none() {
        return Err(DriveError::Illegal { why: "the drive does not hold the contents".to_owned() });
    }
    Ok(meta.inline(version.id()).map(<[u8]>::to_vec))
}

/// How far a commit has come, for stepping back.
#[derive(Default)]
struct Progress {
    /// The data directory, and the upload's to which it goes back.
    placed: Option<(String, Option<String>)>,
    backed_up: Option<Uuid>,
    is_published: bool,
}

/// A digest of which versions there are, in order.
fn digest_of(meta: &XlMeta) -> u64 {
    let mut bytes = Vec::new();
    for version in meta.versions() {
        bytes.extend_from_slice(&version.id().0);
        bytes.extend_from_slice(&version.header().modtime_ns.to_be_bytes());
        bytes.extend_from_slice(&version.header().signature);
    }
    xxhash_rust::xxh64::xxh64(&bytes, 0)
}

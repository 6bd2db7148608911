//! Parts of open uploads.

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::base::directory_of;
use super::staging::staged;
use super::staging::staged_data;
use crate::disk::drive::CommitPart;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Grant;
use crate::disk::drive::PartCopy;
use crate::disk::drive::error_at;
use crate::disk::layout;
use crate::value::ObjectKey;

impl LocalDrive {
    pub(super) fn commit_part(&self, commit: &CommitPart) -> Result<(), DriveError> {
        self.guard_writes()?;
        let upload = upload_directory(&commit.upload)?;
        let _key = self.lock_key(&commit.upload);
        let _pin = self.pin(&commit.grant)?;
        let result = self.commit_part_staged(commit, &upload);
        self.remove_tree(&staged(commit.staging.id)).ok();
        result
    }

    /// The record goes first and comes last, so that a part with a record is always that record's part.
    fn commit_part_staged(&self, commit: &CommitPart, upload: &str) -> Result<(), DriveError> {
        if !self.exists(&format!("{upload}/{}", layout::META_FILE))? {
            return Err(DriveError::NotFound { path: upload.to_owned() });
        }
        let flushes = self.syncs_names(&commit.upload.bucket, &commit.upload.key);
        let writer = self.flush.writer();
        let number = commit.part as usize;
        let data = commit.staging.data_dir.hyphenated();
        let folder = format!("{upload}/{data}");
        let part = format!("{folder}/{}", layout::part_file(number));
        let record = format!("{folder}/{}", layout::part_meta_file(number));
        let staged_part = format!("{}/{}", staged_data(commit.staging), layout::part_file(number));
        let staged_record =
            format!("{}/{}", staged(commit.staging.id), layout::part_meta_file(number));

        self.make_path(layout::TMP, &commit.staging.id.hyphenated().to_string())?;
        self.write_staged(&staged_record, &commit.meta, flushes)?;
        self.make_path(upload, &data.to_string())?;
        match self.files.remove_file(&record) {
            Ok(()) if flushes => self.order(&[], &[&folder], DriveStep::Publish)?,
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(error_at(DriveStep::Publish, &record)(errno)),
        }
        match self.files.rename(&staged_part, &part) {
            Ok(()) => {}
            // An empty part may have been staged without a file.
            Err(Errno::ENOENT) if !self.exists(&staged_part)? => {
                self.write_file(&part, &[], flushes)?;
            }
            Err(errno) => return Err(error_at(DriveStep::Publish, &part)(errno)),
        }
        self.guard_root()?;
        self.publish(&staged_record, &record)?;
        if flushes {
            self.flush_names(&[&folder, upload], Some(writer), DriveStep::SyncPublished)?;
        }
        Ok(())
    }

    pub(super) fn read_parts(
        &self,
        upload: &ObjectKey,
        data_dir: Uuid,
    ) -> Result<Vec<PartCopy>, DriveError> {
        self.guard_reads()?;
        let folder = format!("{}/{}", upload_directory(upload)?, data_dir.hyphenated());
        let mut parts = Vec::new();
        for entry in self.list_or_nothing(&folder)? {
            let number = entry.name.strip_prefix("part.").and_then(|it| it.strip_suffix(".meta"));
            let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
                continue;
            };
            let Some(meta) = self.read_if_there(&format!("{folder}/{}", entry.name))? else {
                continue;
            };
            let part = format!("{folder}/{}", layout::part_file(number as usize));
            match self.files.length(&part) {
                Ok(bytes) => parts.push(PartCopy { number, meta, bytes }),
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(error_at(DriveStep::Read, &part)(errno)),
            }
        }
        parts.sort_by_key(|part| part.number);
        Ok(parts)
    }

    pub(super) fn remove_upload(
        &self,
        grant: &Grant,
        upload: &ObjectKey,
    ) -> Result<(), DriveError> {
        self.guard_writes()?;
        let directory = upload_directory(upload)?;
        let _key = self.lock_key(upload);
        let _pin = self.pin(grant)?;
        if self.trash(&directory)? {
            let parent = directory.rsplit_once('/').map_or(layout::MULTIPART, |(parent, _)| parent);
            if self.syncs_names(&upload.bucket, &upload.key) && self.exists(parent)? {
                self.sync_directory(parent, DriveStep::SyncPublished)?;
            }
            self.prune(layout::MULTIPART, parent);
        }
        Ok(())
    }
}

/// The directory of an upload, after its name was checked.
fn upload_directory(upload: &ObjectKey) -> Result<String, DriveError> {
    let is_upload = upload.bucket == layout::SYSTEM && upload.key.split('/').nth(2).is_some();
    if !is_upload || !upload.key.starts_with("multipart/") {
        return Err(DriveError::Illegal { why: format!("{upload} is no upload") });
    }
    directory_of(upload)
}

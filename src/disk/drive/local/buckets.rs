//! Buckets: the directories at the top of a drive.

use nix::errno::Errno;

use super::LocalDrive;
use super::base::check_bucket;
use crate::disk::drive::BucketEntry;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Grant;
use crate::disk::drive::error_at;
use crate::disk::layout;

impl LocalDrive {
    pub(super) fn list_buckets(&self) -> Result<Vec<BucketEntry>, DriveError> {
        self.guard_reads()?;
        let entries = self.files.list("").map_err(error_at(DriveStep::Read, ""))?;
        let mut buckets = Vec::new();
        for entry in entries {
            if !entry.is_directory || layout::check_bucket(&entry.name).is_err() {
                continue;
            }
            match self.files.changed_ns(&entry.name) {
                Ok(changed_ns) => buckets.push(BucketEntry { name: entry.name, changed_ns }),
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(error_at(DriveStep::Read, &entry.name)(errno)),
            }
        }
        Ok(buckets)
    }

    pub(super) fn make_bucket(&self, grant: &Grant, bucket: &str) -> Result<(), DriveError> {
        self.guard_writes()?;
        check_bucket(bucket)?;
        let _pin = self.pin(grant)?;
        self.make_path("", bucket)?;
        self.sync_directory("", DriveStep::SyncPublished)
    }

    pub(super) fn remove_bucket(&self, grant: &Grant, bucket: &str) -> Result<(), DriveError> {
        self.guard_writes()?;
        check_bucket(bucket)?;
        let _pin = self.pin(grant)?;
        match self.remove_empty(bucket) {
            Ok(()) => {}
            Err(Removal::Missing) => return Ok(()),
            Err(Removal::NotEmpty(path)) => {
                return Err(DriveError::BucketNotEmpty { bucket: bucket.to_owned(), path });
            }
            Err(Removal::Failed(error)) => return Err(error),
        }
        self.sync_directory("", DriveStep::SyncPublished)
    }

    /// Removes a directory that holds nothing but empty directories.
    fn remove_empty(&self, path: &str) -> Result<(), Removal> {
        let failed = |errno| match errno {
            Errno::ENOENT => Removal::Missing,
            Errno::ENOTEMPTY | Errno::EEXIST => Removal::NotEmpty(path.to_owned()),
            errno => Removal::Failed(error_at(DriveStep::CleanUp, path)(errno)),
        };
        for entry in self.files.list(path).map_err(failed)? {
            let below = format!("{path}/{}", entry.name);
            if !entry.is_directory {
                return Err(Removal::NotEmpty(below));
            }
            match self.remove_empty(&below) {
                Ok(()) | Err(Removal::Missing) => {}
                Err(removal) => return Err(removal),
            }
        }
        self.files.remove_directory(path).map_err(failed)
    }
}

enum Removal {
    Missing,
    NotEmpty(String),
    Failed(DriveError),
}

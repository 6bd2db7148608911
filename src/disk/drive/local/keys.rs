//! Reading one key: its metadata, its folders, its shards.

use std::collections::BTreeSet;

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::base::directory_of;
use crate::disk::drive::BULK_BYTES_MAX;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Folder;
use crate::disk::drive::KeyCopy;
use crate::disk::drive::error_at;
use crate::disk::drive::files::Entry;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::value::ObjectKey;

/// Longer reads are left to threads of their own.
const AT_ONCE_BYTES_MAX: usize = 320 << 10;

impl LocalDrive {
    pub(super) fn read_key(
        &self,
        target: &ObjectKey,
        inline: bool,
        brief: bool,
    ) -> Result<KeyCopy, DriveError> {
        self.guard_reads()?;
        let directory = directory_of(target)?;
        let rebuilding = self.state().rebuilding;
        let meta = self.read_meta(&format!("{directory}/{}", layout::META_FILE))?;
        let meta = meta.map(|bytes| if inline { bytes } else { without_inline(bytes) });
        let bucket = meta.is_some() || self.exists(&target.bucket)?;
        let mut folders = if bucket { self.folders(&directory)? } else { Vec::new() };
        if brief {
            for folder in folders.extract_if(.., |folder| folder.backup.is_none()) {
                // Asked for by its name, it is known to the next reader who does not wait.
                let id = folder.id.hyphenated();
                let _ = self.files.length(&format!("{directory}/{id}/{}", layout::META_BACKUP));
            }
        }
        Ok(KeyCopy { meta, bucket, folders, rebuilding })
    }

    /// The answer to a read of which everything is in memory, by a drive that is ours and the one that was opened.
    pub(super) fn read_at_once(&self, request: &DriveRequest) -> Option<DriveReply> {
        let rebuilding = {
            let state = self.state.try_lock().ok()?;
            if state.lease.is_none() || state.swapped.is_some() {
                return None;
            }
            state.rebuilding
        };
        if !self.files.is_root_at_once() {
            return None;
        }
        match request {
            DriveRequest::ReadKey { target, inline, brief } => {
                let directory = directory_of(target).ok()?;
                let folders = |meta: &[u8]| if *brief { data_dirs(meta) } else { Vec::new() };
                let meta = self.files.read_beside_at_once(
                    &directory,
                    layout::META_FILE,
                    AT_ONCE_BYTES_MAX as u64,
                    &folders,
                    layout::META_BACKUP,
                )?;
                let meta = if *inline { meta } else { without_inline(meta) };
                let folders = Vec::new();
                let copy = KeyCopy { meta: Some(meta), bucket: true, folders, rebuilding };
                Some(DriveReply::Key(Box::new(copy)))
            }
            DriveRequest::ReadShard { target, data_dir, part, offset, length } => {
                let length = *length as usize;
                let path = part_path(target, *data_dir, *part).ok()?;
                (length <= AT_ONCE_BYTES_MAX)
                    .then(|| self.files.read_at_once(&path, *offset, length))?
                    .map(DriveReply::Bytes)
            }
            _ => None,
        }
    }

    /// The directories below a key that belong to it and are not keys themselves.
    fn folders(&self, directory: &str) -> Result<Vec<Folder>, DriveError> {
        let mut folders = Vec::new();
        // Of small objects there are none, and the directory itself says so.
        if self.files.has_no_directories(directory).unwrap_or(false) {
            return Ok(folders);
        }
        for entry in self.list_or_nothing(directory)? {
            let Some(id) =
                entry.is_directory.then(|| layout::parse_data_dir(&entry.name)).flatten()
            else {
                continue;
            };
            let path = format!("{directory}/{}", entry.name);
            let inside = self.list_or_nothing(&path)?;
            if holds_keys(&inside) {
                continue;
            }
            let mut folder = Folder { id, backup: None, files: Vec::new() };
            for file in inside {
                let path = format!("{path}/{}", file.name);
                if file.name == layout::META_BACKUP {
                    folder.backup = self.read_meta(&path)?;
                    continue;
                }
                match self.files.length(&path) {
                    Ok(length) => folder.files.push((file.name, length)),
                    Err(Errno::ENOENT) => {}
                    Err(errno) => return Err(error_at(DriveStep::Read, &path)(errno)),
                }
            }
            folders.push(folder);
        }
        Ok(folders)
    }

    /// Entries of a directory; none when it is not there.
    pub(super) fn list_or_nothing(&self, path: &str) -> Result<Vec<Entry>, DriveError> {
        match self.files.list(path) {
            Ok(entries) => Ok(entries),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(Vec::new()),
            Err(errno) => Err(error_at(DriveStep::Read, path)(errno)),
        }
    }

    pub(super) fn read_shard(
        &self,
        target: &ObjectKey,
        data_dir: Uuid,
        part: u32,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, DriveError> {
        self.guard_reads()?;
        let path = part_path(target, data_dir, part)?;
        let length = (length as usize).min(BULK_BYTES_MAX);
        self.files.read_at(&path, offset, length).map_err(error_at(DriveStep::Read, &path))
    }

    pub(super) fn stat_parts(
        &self,
        target: &ObjectKey,
        data_dir: Uuid,
        parts: &[u32],
    ) -> Result<Vec<Option<u64>>, DriveError> {
        self.guard_reads()?;
        let length = |part: &u32| {
            let path = part_path(target, data_dir, *part)?;
            match self.files.length(&path) {
                Ok(length) => Ok(Some(length)),
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EISDIR) => Ok(None),
                Err(errno) => Err(error_at(DriveStep::Read, &path)(errno)),
            }
        };
        parts.iter().map(length).collect()
    }
}

fn part_path(target: &ObjectKey, data_dir: Uuid, part: u32) -> Result<String, DriveError> {
    let directory = directory_of(target)?;
    Ok(format!("{directory}/{}/{}", data_dir.hyphenated(), layout::part_file(part as usize)))
}

/// Whether a directory whose name is a UUID is, or leads to, a key, and so belongs to nobody but that key.
pub(super) fn holds_keys(inside: &[Entry]) -> bool {
    inside.iter().any(|entry| entry.is_directory || entry.name == layout::META_FILE)
}

/// The data directories that should lie beside a metadata file, by their names.
fn data_dirs(meta: &[u8]) -> Vec<String> {
    let Ok(meta) = XlMeta::parse(meta) else { return Vec::new() };
    let outside = meta.versions().iter().filter(|version| meta.inline(version.id()).is_none());
    let ids = outside.filter_map(Version::as_object).map(|object| object.data_dir);
    let ids: BTreeSet<Uuid> = ids.collect();
    ids.iter().map(|id| id.hyphenated().to_string()).collect()
}

/// A metadata file cut behind the checksum of its metadata block.
pub(super) fn without_inline(mut bytes: Vec<u8>) -> Vec<u8> {
    const BLOCK: usize = 13;
    const CHECKSUM: usize = 5;
    let length = bytes.get(9..BLOCK).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    if let Some(length) = length {
        bytes.truncate((BLOCK + CHECKSUM).saturating_add(length as usize));
    }
    bytes
}

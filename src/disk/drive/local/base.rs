//! What every request needs: guards, flushes, paths, the trash.

use std::hash::BuildHasher as _;
use std::hash::BuildHasherDefault;
use std::hash::DefaultHasher;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use nix::errno::Errno;
use uuid::Uuid;

use super::LocalDrive;
use super::flush::Writer;
use crate::disk::drive::BULK_BYTES_MAX;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Grant;
use crate::disk::drive::error_at;
use crate::disk::drive::files::AfterWrite;
use crate::disk::layout;
use crate::protocol::config::Durability;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;
use crate::value::ObjectKey;

/// So much of an oversized metadata file tells that it is one of ours, and holds none of it.
const OVERSIZED_BYTES: usize = 8;
/// How often a path is made again when others keep removing its empty directories.
const REMAKES_MAX: usize = 1000;

impl LocalDrive {
    /// Refuses unless the drive is the one that was opened.
    pub(super) fn guard_root(&self) -> Result<(), DriveError> {
        let mut state = self.state();
        if state.swapped.is_none() {
            state.swapped = self.files.check_root().err();
        }
        match &state.swapped {
            None => Ok(()),
            Some((opened, found)) => Err(DriveError::Swapped {
                root: self.root_name(),
                opened: opened.clone(),
                found: found.clone(),
            }),
        }
    }

    /// Refuses reads of a drive that is not ours or not the one that was opened.
    pub(super) fn guard_reads(&self) -> Result<(), DriveError> {
        if self.state().lease.is_none() {
            return Err(DriveError::NotOwned);
        }
        self.guard_root()
    }

    /// Refuses writes to a drive that is not ours, not the one that was opened, or not to be trusted.
    pub(super) fn guard_writes(&self) -> Result<(), DriveError> {
        self.guard_reads()?;
        let state = self.state();
        match (&state.distrusted, &state.unprepared) {
            (Some(path), _) => Err(DriveError::Distrusted { path: path.clone() }),
            (None, Some(full)) => Err(full.clone()),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn root_name(&self) -> String {
        self.options.root.to_string_lossy().into_owned()
    }

    /// Pins the lock of a step.
    pub(super) fn pin(&self, grant: &Grant) -> Result<Box<dyn Send>, DriveError> {
        self.seams.fences.pin(&grant.resource, grant.lock).ok_or_else(|| DriveError::Fenced {
            resource: grant.resource.clone(),
            lock: grant.lock,
        })
    }

    /// Pins the other locks of a step.
    pub(super) fn pin_all(&self, grants: &[Grant]) -> Result<Vec<Box<dyn Send>>, DriveError> {
        grants.iter().map(|grant| self.pin(grant)).collect()
    }

    /// Keeps other steps on the same key away.
    pub(super) fn lock_key(&self, target: &ObjectKey) -> MutexGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(target);
        let index = (hash % self.keys.len() as u64) as usize;
        self.keys[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a crash point.
    pub(super) fn pass(&self, point: CrashPoint, target: &ObjectKey) {
        if !self.seams.passing.may_act() {
            return;
        }
        let drive = Some(self.options.name.clone());
        let place = Place { drive, bucket: target.bucket.clone(), key: target.key.clone() };
        self.seams.passing.pass(point, &place);
    }

    /// Whether names and metadata below this bucket are flushed.
    pub(super) fn syncs_names(&self, bucket: &str, key: &str) -> bool {
        let is_upload = bucket == layout::SYSTEM && key.starts_with("multipart/");
        self.options.durability == Durability::Strict || bucket == layout::SYSTEM && !is_upload
    }

    /// Flushes a directory. When that fails the drive is not trusted any more.
    pub(super) fn sync_directory(&self, path: &str, step: DriveStep) -> Result<(), DriveError> {
        if !self.seams.rules.syncs_directories() {
            return Ok(());
        }
        self.files.sync_directory(path).map_err(|errno| self.distrust(step, path, errno))
    }

    /// Flushes a file. When that fails the drive is not trusted any more.
    pub(super) fn sync_file(&self, path: &str, step: DriveStep) -> Result<(), DriveError> {
        self.files.sync_file(path).map_err(|errno| self.distrust(step, path, errno))
    }

    /// Sees to it that no name that is changed from now on is durable without these contents and names. A file system
    /// that is ordered needs no flush for that. When it fails the drive is not trusted any more.
    pub(super) fn order(
        &self,
        files: &[&str],
        directories: &[&str],
        step: DriveStep,
    ) -> Result<(), DriveError> {
        let files = if self.seams.rules.writes_contents_first() { files } else { &[] };
        match self.files.is_ordered() {
            true => self.write_back(files, step),
            false => self.flush_each(files, directories, step),
        }
    }

    /// Flushes names in directories, and what was put in order before them: where the file system is ordered, once for all
    /// who wait at the same time, whatever they wait for. When that fails the drive is not trusted any more.
    pub(super) fn flush_names(
        &self,
        directories: &[&str],
        writer: Option<Writer<'_>>,
        step: DriveStep,
    ) -> Result<(), DriveError> {
        // A planted defect leaves out directories, which the one flush would make good again.
        if !self.files.is_ordered() || !self.seams.rules.syncs_directories() {
            return self.flush_each(&[], directories, step);
        }
        let flushed = self.flush.take_part(writer, || self.files.sync_ordered(layout::TMP));
        let every = self.files.writes_per_checkpoint();
        if flushed.is_ok() && every.is_some_and(|writes| self.flush.is_nth(writes)) {
            self.files.begin_checkpoint();
        }
        let named = directories.last().copied().unwrap_or_default();
        flushed.map_err(|errno| self.distrust(step, named, errno))
    }

    /// Flushes contents of files and names in directories, one after the other.
    pub(super) fn flush_each(
        &self,
        files: &[&str],
        directories: &[&str],
        step: DriveStep,
    ) -> Result<(), DriveError> {
        files.iter().try_for_each(|path| self.sync_file(path, step))?;
        directories.iter().try_for_each(|path| self.sync_directory(path, step))
    }

    fn write_back(&self, files: &[&str], step: DriveStep) -> Result<(), DriveError> {
        files.iter().try_for_each(|path| {
            self.files.write_back(path).map_err(|errno| self.distrust(step, path, errno))
        })
    }

    /// Writes a whole file of the staging area, and flushes it when asked.
    pub(super) fn write_file(
        &self,
        path: &str,
        bytes: &[u8],
        flush: bool,
    ) -> Result<(), DriveError> {
        self.write_then(path, bytes, flush.then_some(AfterWrite::Sync))
    }

    /// Writes a whole file of the staging area, `first` so that no name that is changed from now on is durable without it.
    pub(super) fn write_staged(
        &self,
        path: &str,
        bytes: &[u8],
        first: bool,
    ) -> Result<(), DriveError> {
        let then = match self.files.is_ordered() {
            true => AfterWrite::WriteBack,
            false => AfterWrite::Sync,
        };
        let is_kept = first && self.seams.rules.writes_contents_first();
        self.write_then(path, bytes, is_kept.then_some(then))
    }

    fn write_then(
        &self,
        path: &str,
        bytes: &[u8],
        then: Option<AfterWrite>,
    ) -> Result<(), DriveError> {
        let mut written = false;
        let result = self.files.write(path, bytes, then.map(|then| (then, &mut written)));
        result.map_err(|errno| {
            if written {
                self.distrust(DriveStep::SyncStaged, path, errno)
            } else {
                error_at(DriveStep::Write, path)(errno)
            }
        })
    }

    fn distrust(&self, step: DriveStep, path: &str, errno: Errno) -> DriveError {
        self.state().distrusted.get_or_insert_with(|| path.to_owned());
        error_at(step, path)(errno)
    }

    /// A whole file, or `None` when there is none.
    pub(super) fn read_if_there(&self, path: &str) -> Result<Option<Vec<u8>>, DriveError> {
        match self.files.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            Err(errno) => Err(error_at(DriveStep::Read, path)(errno)),
        }
    }

    /// A metadata file, or `None` when there is none. Of one that is larger than any may be only the beginning comes
    /// back, which is no metadata file: it is put aside and healed like every other that cannot be read.
    pub(super) fn read_meta(&self, path: &str) -> Result<Option<Vec<u8>>, DriveError> {
        let read = match self.files.read(path) {
            Err(Errno::EFBIG) => self.files.read_at(path, 0, OVERSIZED_BYTES),
            read => read,
        };
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            Err(errno) => Err(error_at(DriveStep::Read, path)(errno)),
        }
    }

    /// A whole file that may be of any length; empty when there is none.
    pub(super) fn read_long(&self, path: &str) -> Result<Vec<u8>, DriveError> {
        let mut bytes = Vec::new();
        loop {
            match self.files.read_at(path, bytes.len() as u64, BULK_BYTES_MAX) {
                Ok(piece) if piece.is_empty() => return Ok(bytes),
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(bytes),
                Err(errno) => return Err(error_at(DriveStep::Read, path)(errno)),
            }
        }
    }

    /// Whether something is there.
    pub(super) fn exists(&self, path: &str) -> Result<bool, DriveError> {
        match self.files.changed_ns(path) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
            Err(errno) => Err(error_at(DriveStep::Open, path)(errno)),
        }
    }

    /// Makes the directories of `path` below `base`, which must be there. Answers whether any was missing.
    pub(super) fn make_path(&self, base: &str, path: &str) -> Result<bool, DriveError> {
        // Most often all of it is there, or all but the last.
        let all = match (base, path.trim_matches('/')) {
            ("", path) => path.to_owned(),
            (base, path) => format!("{base}/{path}"),
        };
        match self.files.make_directory(&all) {
            Ok(()) => return Ok(true),
            Err(Errno::EEXIST) => return Ok(false),
            Err(_) => {}
        }
        let mut made = false;
        'again: for _ in 0..REMAKES_MAX {
            let mut at = base.to_owned();
            for component in path.split('/').filter(|component| !component.is_empty()) {
                if !at.is_empty() {
                    at.push('/');
                }
                at.push_str(component);
                match self.files.make_directory(&at) {
                    Ok(()) => made = true,
                    Err(Errno::EEXIST) => {}
                    // Somebody removed the parent, which was empty until now.
                    Err(Errno::ENOENT) if self.exists(base)? => continue 'again,
                    Err(Errno::ENOENT) => {
                        return Err(DriveError::NoBucket { bucket: base.to_owned() });
                    }
                    Err(errno) => return Err(error_at(DriveStep::MakeParents, &at)(errno)),
                }
            }
            return Ok(made);
        }
        Err(error_at(DriveStep::MakeParents, path)(Errno::ENOENT))
    }

    /// Flushes every directory from `directory` up to `base`.
    pub(super) fn sync_up_to(&self, base: &str, directory: &str) -> Result<(), DriveError> {
        self.flush_names(&up_to(base, directory), None, DriveStep::SyncPublished)
    }

    /// Removes empty directories from `directory` upwards, as far as `base`, which stays.
    pub(super) fn prune(&self, base: &str, directory: &str) {
        let mut at = directory;
        while at != base && at.len() > base.len() {
            if self.files.remove_directory(at).is_err() {
                return;
            }
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return,
            }
        }
    }

    /// Moves something to the trash and removes it there as far as that works. Answers whether it was there.
    pub(super) fn trash(&self, path: &str) -> Result<bool, DriveError> {
        let to = format!("{}/{}", layout::TRASH, Uuid::new_v4());
        match self.files.rename(path, &to) {
            Ok(()) => {
                // What cannot be removed now is swept later.
                self.remove_tree(&to).ok();
                Ok(true)
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
            Err(errno) => Err(error_at(DriveStep::CleanUp, path)(errno)),
        }
    }

    /// Removes a file, or a directory with all that is in it.
    pub(super) fn remove_tree(&self, path: &str) -> Result<(), DriveError> {
        match self.files.remove_file(path) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            Err(Errno::EISDIR | Errno::EPERM) => {}
            Err(errno) => return Err(error_at(DriveStep::CleanUp, path)(errno)),
        }
        for entry in self.files.list(path).map_err(error_at(DriveStep::CleanUp, path))? {
            self.remove_tree(&format!("{path}/{}", entry.name))?;
        }
        match self.files.remove_directory(path) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(error_at(DriveStep::CleanUp, path)(errno)),
        }
    }

    /// Renames to a final name. Whatever goes wrong here, the effect is unknown.
    pub(super) fn publish(&self, from: &str, to: &str) -> Result<(), DriveError> {
        self.files.rename(from, to).map_err(error_at(DriveStep::Publish, to))
    }
}

/// Unix nanoseconds by the wall clock.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Every directory from `directory` up to `base`.
pub(super) fn up_to<'a>(base: &str, directory: &'a str) -> Vec<&'a str> {
    let mut all = vec![directory];
    let mut at = directory;
    while at != base
        && let Some((parent, _)) = at.rsplit_once('/')
    {
        all.push(parent);
        at = parent;
    }
    all
}

/// The directory of a key, after its names were checked.
pub(super) fn directory_of(target: &ObjectKey) -> Result<String, DriveError> {
    let illegal = |why: layout::IllegalName| DriveError::Illegal { why: why.to_string() };
    if target.bucket != layout::SYSTEM {
        layout::check_bucket(&target.bucket).map_err(illegal)?;
    }
    layout::check_key(&target.key).map_err(illegal)?;
    Ok(layout::key_dir(&target.bucket, &target.key))
}

/// A bucket's name, after it was checked.
pub(super) fn check_bucket(bucket: &str) -> Result<(), DriveError> {
    layout::check_bucket(bucket).map_err(|why| DriveError::Illegal { why: why.to_string() })
}

//! `replacement rearm`: gives an exhausted generation its whole failure budget back, after its cause was removed.
//!
//! What is written is the protocol's: the ledger is set back, then the record is saved one revision further. Asked
//! again after a failure it goes on where it was.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::fchown;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use nix::fcntl::OFlag;

use super::error::OperatorError;
use super::lease;
use super::lease::Hold;
use super::publish::give_to_owner;
use super::stopped;
use super::stopped::read_if_there;
use crate::harness::audit::DriveSource;
use crate::protocol::replacement::failure;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Write;

/// Which generation is to be re-armed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RearmRequest {
    /// The root of the survivor anchor.
    pub anchor: PathBuf,
    /// The generation, as typed.
    pub generation: String,
    /// Whether to write; otherwise it is only said what would be written.
    pub write: bool,
    /// Whether the operator asserts that every node is stopped.
    pub stopped_all_writers: bool,
}

/// Does what `request` asks for, and answers the writes in their order: each step's name and its path on the anchor.
/// None when the generation is not exhausted.
///
/// # Errors
///
/// [`OperatorError::Stops`] for a record that is refused; the others as they say. [`OperatorError::effect`] tells what
/// is left behind.
pub fn run(request: &RearmRequest) -> Result<Vec<(&'static str, String)>, OperatorError> {
    if request.write && !request.stopped_all_writers {
        return Err(OperatorError::NotAsserted);
    }
    let id: GenerationId = request.generation.parse().map_err(OperatorError::NotAnId)?;
    let root = &request.anchor;
    let name = root.to_string_lossy().into_owned();
    let mut drive = stopped::read_one(&DriveSource { name, root: root.clone() })?;
    if let Some(words) = drive.problems.first() {
        return Err(OperatorError::Unreadable { drive: root.clone(), words: words.clone() });
    }
    let held = lease::take(root, Hold::Alone).map_err(OperatorError::io("lock", root))?;
    let _held = held.ok_or_else(|| OperatorError::LeaseHeld { drive: root.clone() })?;
    let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let now = Now { time_s, ..Now::default() };
    let mut done = Vec::new();
    loop {
        let durable = Durable { files: drive.files.clone(), markers: Vec::new() };
        let Some(write) = failure::rearm(&durable, id, &now).map_err(OperatorError::Stops)? else {
            return Ok(done);
        };
        let Change::Swap { expected: Some(expected), new: Some(new) } = &write.change else {
            unreachable!("re-arming replaces records and does nothing else: {write:?}");
        };
        if request.write {
            swap(root, &write, expected, new).map_err(|error| match done.len() {
                0 => error,
                done => OperatorError::HalfWay { done, source: Box::new(error) },
            })?;
        }
        drive.files.bytes.insert(write.path.clone(), new.clone());
        done.push((write.step.name(), write.path));
    }
}

/// Replaces a record that still holds `expected`, under the lock of its folder.
fn swap(root: &Path, write: &Write, expected: &[u8], new: &[u8]) -> Result<(), OperatorError> {
    let path = root.join(&write.path);
    let folder = path.parent().unwrap_or(root);
    let lock = folder.join(names::SWAP_LOCK);
    let _locked = locked(&lock, folder).map_err(OperatorError::io("lock", &lock))?;
    let held = read_if_there(root, &write.path).map_err(OperatorError::io("read", &path))?;
    if held.as_deref() != Some(expected) {
        return Err(OperatorError::Changed { path });
    }
    let staged = folder.join(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let replaced = stage(&staged, &path, new).and_then(|()| fs::rename(&staged, &path));
    replaced.map_err(|source| {
        let _ = fs::remove_file(&staged);
        OperatorError::io("replace", &path)(source)
    })?;
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    flushed.map_err(|source| OperatorError::Unflushed { path: folder.to_owned(), source })
}

/// Takes the lock of compare-and-swap updates; the one file that is made when it is not there.
fn locked(path: &Path, folder: &Path) -> io::Result<Flock<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let file = match options.clone().create_new(true).open(path) {
        Ok(file) => {
            give_to_owner(&file, folder)?;
            file
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path)?,
        Err(error) => return Err(error),
    };
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Writes and flushes what is to take the place of `path`, for the same owner and with the same permissions.
fn stage(staged: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let facts = fs::metadata(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(staged)?;
    file.set_permissions(facts.permissions())?;
    fchown(&file, Some(facts.uid()), Some(facts.gid()))?;
    file.write_all(bytes)?;
    file.sync_all()
}

//! The registry of living testbeds: one locked file each under `/run/firedrill`.
//!
//! Its lock is held for the testbed's whole life and lost with the process that holds it, however that
//! ends. Whoever gets the lock of an entry may take away what its ledger names; nobody else may.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde::Deserialize;
use serde::Serialize;

use super::TestbedError;
use super::processes;
use super::processes::ProcessMark;

/// The format of a registry entry.
pub const REGISTRY_FORMAT: u32 = 1;

/// How the names of entries begin that have not come to be.
pub(super) const UNFINISHED: &str = ".entry-";

/// Where the registry and the mount points of all testbeds are.
pub fn root() -> &'static Path {
    Path::new("/run/firedrill")
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`REGISTRY_FORMAT`].
    pub format: u32,
    /// The testbed.
    pub testbed: String,
    /// The boot in which it lives: after another, nothing of it is left but files.
    pub boot_id: String,
    /// The PID namespace of its processes.
    pub pid_namespace: String,
    /// The harness, by its number in that namespace.
    pub pid: i32,
    /// When the harness was started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The tag of its loop devices.
    pub loop_tag: String,
    /// Its ledger, for `clean`.
    pub ledger: PathBuf,
}

/// An entry that is ours: locked, and gone when it is withdrawn.
#[derive(Debug)]
pub(super) struct Registration {
    path: PathBuf,
    _lock: Flock<File>,
}

/// The file of the testbed `name`.
fn entry_path(name: &str) -> PathBuf {
    root().join(format!("{name}.json"))
}

/// The folder on which the testbed `name` mounts everything of its own.
pub fn folder_of(name: &str) -> PathBuf {
    root().join(name)
}

/// The ledger that goes with the entry at `path`.
fn ledger_path(path: &Path) -> PathBuf {
    path.with_extension("ledger")
}

/// Removes an entry and its ledger, the ledger first: one without an entry would stay for ever.
pub(super) fn remove_entry(path: &Path) -> Result<(), TestbedError> {
    for path in [ledger_path(path), path.to_owned()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(TestbedError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens an entry's file and locks it; `None` when somebody else holds it.
pub(super) fn try_lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Keeps every other testbed, and `clean`, from entering the registry and from making or removing devices while
/// it lives.
pub(super) fn lock_out_others() -> Result<Flock<File>, TestbedError> {
    let path = lock_path();
    loop {
        let open = || OpenOptions::new().create(true).append(true).open(&path);
        let file = match open() {
            // The last testbed has just taken the registry away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(root()).map_err(TestbedError::io("create", root()))?;
                continue;
            }
            file => file.map_err(TestbedError::io("open", &path))?,
        };
        let lock = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| TestbedError::errno("lock", &path)(errno))?;
        // Whoever held it before may have removed the file: then it guards nothing.
        if is_still_there(&lock, &path) {
            return Ok(lock);
        }
    }
}

/// The file whose lock [`lock_out_others`] takes.
pub(super) fn lock_path() -> PathBuf {
    root().join("lock")
}

/// Whether `path` still names the file that is locked.
fn is_still_there(lock: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|facts| facts.ino()).ok();
    inode(lock.metadata()).is_some_and(|ours| inode(path.metadata()) == Some(ours))
}

impl Registration {
    /// Enters a testbed into the registry.
    ///
    /// The file appears under its name only when it is locked and whole, so that nobody ever finds an
    /// entry of a living testbed unlocked.
    pub(super) fn enter(name: &str, loop_tag: String) -> Result<Self, TestbedError> {
        let path = entry_path(name);
        let describe = || -> io::Result<Entry> {
            let mark = ProcessMark::of(std::process::id() as i32)?;
            Ok(Entry {
                format: REGISTRY_FORMAT,
                testbed: name.to_owned(),
                boot_id: processes::boot_id()?,
                pid_namespace: processes::pid_namespace("self")?,
                pid: mark.pid,
                start_ticks: mark.start_ticks,
                loop_tag,
                ledger: ledger_path(&path),
            })
        };
        let entry = describe().map_err(TestbedError::io("describe this process for", &path))?;
        let _others = lock_out_others()?;
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(root())
            .map_err(TestbedError::io("create", &path))?;
        let text = serde_json::to_vec(&entry).expect("an entry is plain data");
        file.write_all(&text).map_err(TestbedError::io("write", &path))?;
        let handle = file.reopen().map_err(TestbedError::io("open", &path))?;
        let lock = Flock::lock(handle, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| TestbedError::errno("lock", &path)(errno))?;
        file.persist_noclobber(&path)
            .map_err(|refused| TestbedError::io("enter", &path)(refused.error))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where its ledger is, for `clean`.
    pub(super) fn ledger(&self) -> PathBuf {
        ledger_path(&self.path)
    }

    /// Takes the entry out of the registry.
    pub(super) fn withdraw(&self) -> Result<(), TestbedError> {
        remove_entry(&self.path)
    }
}

//! The ledger of a testbed: everything that it makes outside its process, told before it is made.
//!
//! One JSON object a line, written twice: beside the registry entry for `clean`, which must find everything
//! after the harness was killed, and as `ledger.jsonl` in the run directory for whoever reads the report. A
//! torn last line is a thing that was not made.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::Deserialize;
use serde::Serialize;

use super::TestbedError;

/// The format of a ledger.
pub const LEDGER_FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerEntry {
    /// The first line.
    Header {
        /// [`LEDGER_FORMAT`].
        format: u32,
        /// The testbed's name.
        testbed: String,
    },
    /// A folder is about to be made.
    Folder {
        /// Where.
        path: PathBuf,
    },
    /// Something is about to be mounted, in namespaces of ours only.
    Mount {
        /// What.
        source: String,
        /// Where.
        path: PathBuf,
    },
    /// An image is about to be made; it lies on a tmpfs of ours.
    Image {
        /// Where.
        path: PathBuf,
    },
    /// A loop device is about to be made and to carry this image.
    Loop {
        /// Its number.
        number: u32,
        /// What the kernel will say of it, so that nobody else's is ever touched.
        tag: String,
        /// The image.
        image: PathBuf,
    },
    /// The loop device of this number was made by us.
    LoopMade {
        /// Its number.
        number: u32,
    },
    /// A file system is about to be frozen: it must be thawed before anything that hangs in it can die.
    Freeze {
        /// The loop device under it.
        number: u32,
    },
    /// It was thawed.
    Thawed {
        /// The loop device under it.
        number: u32,
    },
    /// A process was started.
    Process {
        /// What it is.
        role: String,
        /// Its number in the testbed's PID namespace.
        pid: i32,
        /// When it was started, in clock ticks since boot: tells it from another of that number.
        start_ticks: u64,
    },
    /// Everything above was taken away again.
    TornDown,
}

/// A ledger that is being written.
#[derive(Debug)]
pub struct Ledger {
    copies: Mutex<Vec<(PathBuf, File)>>,
}

impl Ledger {
    /// Begins a ledger, with a copy at each of `paths`.
    pub(super) fn create(paths: &[PathBuf], testbed: &str) -> Result<Self, TestbedError> {
        let create = |path: &PathBuf| {
            let file = File::create(path).map_err(TestbedError::io("create ledger", path))?;
            Ok((path.clone(), file))
        };
        let copies = paths.iter().map(create).collect::<Result<_, TestbedError>>()?;
        let ledger = Self { copies: Mutex::new(copies) };
        let testbed = testbed.to_owned();
        ledger.write(&LedgerEntry::Header { format: LEDGER_FORMAT, testbed })?;
        Ok(ledger)
    }

    /// Writes one line; it outlives this process when this returns.
    pub(super) fn write(&self, entry: &LedgerEntry) -> Result<(), TestbedError> {
        let mut line = serde_json::to_vec(entry).expect("a ledger entry is plain data");
        line.push(b'\n');
        let mut copies = self.copies.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (path, file) in copies.iter_mut() {
            file.write_all(&line).map_err(TestbedError::io("write ledger", path))?;
        }
        Ok(())
    }
}

/// Reads a ledger back. What follows the first line that cannot be read is left out.
///
/// # Errors
/// The file cannot be read, or is of a newer format.
pub fn read(path: &Path) -> io::Result<Vec<LedgerEntry>> {
    let text = fs::read_to_string(path)?;
    let entries: Vec<LedgerEntry> =
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    match entries.first() {
        Some(LedgerEntry::Header { format, .. }) if *format <= LEDGER_FORMAT => Ok(entries),
        None if text.is_empty() => Ok(entries),
        _ => {
            let words = format!("{} is no ledger that this version reads", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_costs_that_line_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let ledger = Ledger::create(std::slice::from_ref(&path), "t").unwrap();
        ledger.write(&LedgerEntry::LoopMade { number: 300 }).unwrap();
        ledger.write(&LedgerEntry::Freeze { number: 300 }).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 4]).unwrap();
        let entries = read(&path).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[1], LedgerEntry::LoopMade { number: 300 });
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        fs::write(&path, "{\"header\":{\"format\":2,\"testbed\":\"t\"}}\n").unwrap();
        assert!(read(&path).is_err());
    }
}

//! What a stopped drive holds of replacements: its records, its marker, its place. Read once, and only read.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;

use super::error::OperatorError;
use super::lease;
use super::lease::Hold;
use super::prepare::read;
use crate::disk::format::format_json::FormatJson;
use crate::harness::audit::DriveSource;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::status::DriveRecords;
use crate::protocol::replacement::store::Files;

/// A drive as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stopped {
    /// How the operator named it.
    pub name: String,
    /// Its set and slot by its own format, counting from 0; `None` when it is not formatted, or cannot be read.
    pub place: Option<(usize, usize)>,
    /// Its records.
    pub files: Files,
    /// What its marker holds; `None` when it has none.
    pub marker: Option<Vec<u8>>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

/// Reads the drives, in their order.
///
/// # Errors
///
/// [`OperatorError::NotADrive`], [`OperatorError::LeaseHeld`] and [`OperatorError::Io`] for a lease. Whatever cannot
/// be read below a root is one of the drive's [`problems`](Stopped::problems).
pub fn read_all(sources: &[DriveSource]) -> Result<Vec<Stopped>, OperatorError> {
    sources.iter().map(read_one).collect()
}

/// Reads one drive; errors as [`read_all`].
pub(super) fn read_one(source: &DriveSource) -> Result<Stopped, OperatorError> {
    let root = &source.root;
    if !root.is_dir() {
        return Err(OperatorError::NotADrive { path: source.name.clone().into() });
    }
    let held = lease::take(root, Hold::Shared).map_err(OperatorError::io("lock", root))?;
    if held.is_none() {
        return Err(OperatorError::LeaseHeld { drive: source.name.clone().into() });
    }
    let mut drive = Stopped { name: source.name.clone(), ..Stopped::default() };
    match read_if_there(root, names::FORMAT) {
        Ok(None) => drive.files.is_blank = true,
        Ok(Some(bytes)) => match FormatJson::parse(&bytes) {
            Ok(format) => drive.place = Some(format.place()),
            Err(error) => drive.problems.push(format!("{}: {error}", names::FORMAT)),
        },
        Err(error) => drive.problems.push(format!("{}: {error}", names::FORMAT)),
    }
    match read_if_there(root, names::MARKER) {
        Ok(marker) => drive.marker = marker,
        Err(error) => drive.problems.push(format!("{}: {error}", names::MARKER)),
    }
    for folder in [names::LEDGERS, names::FOLDER] {
        if let Err(error) = read_records(root, folder, &mut drive) {
            drive.problems.push(format!("{folder}: {error}"));
        }
    }
    Ok(drive)
}

/// Reads the files of `folder` that are records; others are nobody's business.
fn read_records(root: &Path, folder: &str, drive: &mut Stopped) -> io::Result<()> {
    for name in names_in(root, folder)? {
        let path = format!("{folder}/{name}");
        if names::parse(&path) == Name::Other {
            continue;
        }
        match read_if_there(root, &path) {
            Ok(Some(bytes)) => drop(drive.files.bytes.insert(path, bytes)),
            Ok(None) => {}
            Err(error) => drive.problems.push(format!("{path}: {error}")),
        }
    }
    Ok(())
}

/// The names in a folder of a drive, sorted; none when the folder is not there. A name that is no text is an error.
pub(super) fn names_in(root: &Path, folder: &str) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(unlinked(root, folder)?) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let name = |entry: fs::DirEntry| {
        let strange = |name| io::Error::new(ErrorKind::InvalidData, format!("{name:?} is no text"));
        entry.file_name().into_string().map_err(strange)
    };
    entries.map(|entry| name(entry?)).collect()
}

/// What a file of a drive holds; `None` when it is not there.
pub(super) fn read_if_there(root: &Path, path: &str) -> io::Result<Option<Vec<u8>>> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let file = unlinked(root, folder)?.join(name);
    match fs::symlink_metadata(&file) {
        Ok(facts) if facts.is_file() => read(&file).map(Some),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where `folder` lies, if no part of it below the root is a link.
fn unlinked(root: &Path, folder: &str) -> io::Result<PathBuf> {
    let mut path = root.to_owned();
    for part in folder.split('/').filter(|part| !part.is_empty()) {
        path.push(part);
        if path.is_symlink() {
            let words = format!("{part} is a symbolic link");
            return Err(io::Error::new(ErrorKind::InvalidInput, words));
        }
    }
    Ok(path)
}

impl Stopped {
    /// The intents of the drive, each as its reader took it.
    pub fn intents(&self) -> impl Iterator<Item = (GenerationId, Result<Intent, Refusal>)> {
        self.all(Record::Intent).map(|(id, bytes)| (id, Intent::read(id, bytes)))
    }

    /// Every record of one kind, by its generation.
    pub(super) fn all(&self, kind: Record) -> impl Iterator<Item = (GenerationId, &[u8])> {
        self.files.bytes.iter().filter_map(move |(path, bytes)| match names::parse(path) {
            Name::Record(record, id) if record == kind => Some((id, bytes.as_slice())),
            _ => None,
        })
    }

    /// The drive's records as the status reads them.
    pub fn records(&self) -> DriveRecords {
        let proofs = self.all(Record::Proof).map(|(id, bytes)| (id, Proof::read(id, bytes)));
        let blank = self.files.is_blank.then(|| format!("{} is not formatted", self.name));
        let unread = self.problems.first().map(|problem| format!("{}: {problem}", self.name));
        DriveRecords {
            intents: self.intents().collect(),
            proofs: proofs.collect(),
            error: unread.or(blank),
        }
    }

    /// The owner that the drive's marker names.
    ///
    /// # Errors
    ///
    /// [`Refusal::MarkerUnreadable`].
    pub fn owner(&self) -> Result<Option<&str>, Refusal> {
        marker::read(&self.name, self.marker.as_deref())
    }

    /// The generation that the drive's marker names, with its set.
    pub fn marked_by(&self) -> Option<(&str, GenerationId)> {
        let (set, _) = self.owner().ok()??.split_once(':')?;
        let id = marker::generation(set, self.owner().ok()??)?;
        Some((set, id))
    }
}

//! `replacement prepare-migration`: looks at the drives, proposes the approval, and publishes it when asked to.
//!
//! What is looked at and what is refused by which number is the protocol's; here it is read and written.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use nix::fcntl::OFlag;

use super::error::OperatorError;
use super::lease;
use super::lease::Hold;
use super::lease::Leases;
use super::publish;
pub use crate::protocol::replacement::prepare::Request;

use crate::protocol::replacement::prepare;
use crate::protocol::replacement::prepare::Arguments;
use crate::protocol::replacement::prepare::Entry;
use crate::protocol::replacement::prepare::Refused;
use crate::protocol::replacement::prepare::Seen;

/// No record that a server writes comes near this.
const BYTES_MAX: u64 = 64 << 20;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// The bytes that the approval would have; nothing was written.
    Proposed(Vec<u8>),
    /// Where the approval lies now, flushed.
    Published(PathBuf),
}

/// Does what `request` asks for. The leases that there are on the anchor and the targets are held while an approval is
/// written, and from before the drives are looked at.
///
/// # Errors
///
/// [`OperatorError::Refused`], and what publishing says; [`OperatorError::effect`] tells what is left behind.
pub fn run(request: &Request) -> Result<Prepared, OperatorError> {
    let mut arguments = prepare::arguments(request)?;
    for folder in arguments.targets.values_mut().chain([&mut arguments.anchor]) {
        // What cannot be resolved is refused as it was typed.
        let resolved = fs::canonicalize(&*folder).ok();
        if let Some(resolved) = resolved.as_deref().and_then(Path::to_str) {
            resolved.clone_into(folder);
        }
    }
    let mut seen = Seen::default();
    let _held = if arguments.write { hold(&arguments, &mut seen)? } else { Vec::new() };
    look(&arguments, &mut seen);
    let approval = prepare::proposal(&arguments, &seen)?;
    if arguments.write {
        publish::publish(Path::new(&arguments.anchor), &approval).map(Prepared::Published)
    } else {
        Ok(Prepared::Proposed(approval.encode_pretty()))
    }
}

/// Takes the leases of the targets in the order of their endpoints, then of the anchor, and notes who has one.
fn hold(arguments: &Arguments, seen: &mut Seen) -> Result<Vec<Leases>, Refused> {
    let mut held = Vec::new();
    for folder in arguments.targets.values().chain([&arguments.anchor]) {
        match lease::take(Path::new(folder), Hold::Alone) {
            Ok(Some(leases)) => held.push(leases),
            Ok(None) => drop(seen.leased.insert(folder.clone())),
            Err(error) => return Err(Refused { number: 20, words: format!("{folder}: {error}") }),
        }
    }
    Ok(held)
}

/// Looks at every path that the proposal asks about.
fn look(arguments: &Arguments, seen: &mut Seen) {
    for path in prepare::paths(arguments) {
        let is_root = path == arguments.anchor || arguments.targets.values().any(|it| *it == path);
        let entry = entry(Path::new(&path), is_root);
        seen.entries.insert(path, entry.unwrap_or_else(|error| Entry::Error(error.to_string())));
    }
}

/// What lies at `path`; a link at its end is followed by nobody. Of a root, only whether it is a directory is asked:
/// it may be an image of any size.
fn entry(path: &Path, is_root: bool) -> io::Result<Entry> {
    let kind = match fs::symlink_metadata(path) {
        Ok(facts) => facts.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entry::Missing),
        Err(error) => return Err(error),
    };
    if kind.is_dir() {
        return Ok(Entry::Folder);
    }
    if kind.is_symlink() {
        return Ok(Entry::Symlink);
    }
    if !kind.is_file() || is_root {
        return Ok(Entry::Other);
    }
    read(path).map(Entry::File)
}

/// What the regular file at `path` holds.
///
/// # Errors
///
/// What the operating system says; a link at the end of `path`, and a file that is too long to be a record.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "too long to be a record"));
    }
    Ok(bytes)
}

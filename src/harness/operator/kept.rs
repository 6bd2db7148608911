//! Files of a backup, of drives or of a catalog: written once, flushed with their names, and told by their digests.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptFile {
    /// Its path, relative to the drive's root and to the drive's folder in the backup.
    pub path: String,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// SHA-256 of what it holds, in hexadecimal.
    pub sha256: String,
}

/// Makes a folder and those above it, for its owner alone.
pub(super) fn make_folders(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a new file and flushes what it holds; its name is flushed with its folder.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Flushes the names in `folder` and in every folder below it.
pub(super) fn flush_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            flush_folders(&entry.path())?;
        }
    }
    flush(folder)
}

/// Flushes the names in `folder`.
pub(super) fn flush(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

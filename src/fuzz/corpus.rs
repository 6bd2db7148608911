//! The real files that cases are made from: `<corpus>/<target>/*`.

use std::fs;
use std::io;
use std::path::Path;

use super::CASE_BYTES_MAX;

/// The files of `target` below `folder`, in the order of their names.
///
/// # Errors
/// The folder cannot be read, holds nothing, or a file is larger than a case may be.
pub fn read(folder: &Path, target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = folder.join(target);
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let bytes = fs::read(&path)?;
        if bytes.len() > CASE_BYTES_MAX {
            let message = format!("{} is larger than a case may be", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        files.push(bytes);
    }
    if files.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the corpus is empty"));
    }
    Ok(files)
}

//! `replacement backup`: keeps the replacement records of the survivor anchor, and the targets' markers, before an
//! operator touches any of them.
//!
//! From the anchor: every file of the records' folder, the ledgers and flat records above it, its format and marker.
//! From a target: its marker and its format. Objects are not kept.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use super::error::OperatorError;
use super::kept::KeptFile;
use super::kept::flush;
use super::kept::flush_folders;
use super::kept::make_folders;
use super::kept::write;
use super::lease;
use super::lease::Hold;
use super::manifest;
use super::manifest::KeptDrive;
use super::manifest::Manifest;
use super::prepare::read;
use super::stopped::names_in;
use super::stopped::read_if_there;
use crate::disk::format::format_json::FormatJson;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::value::Digest;

/// What is to be kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    /// The root of the survivor anchor.
    pub anchor: PathBuf,
    /// The roots of the targets.
    pub targets: Vec<PathBuf>,
    /// The folder to be made.
    pub to: PathBuf,
}

/// Makes the backup, reads every byte of it again, and answers its manifest. The leases of all drives are held
/// meanwhile; the manifest is written last.
///
/// # Errors
///
/// As [`OperatorError`] has them. No drive is written to; the folder is removed again.
pub fn run(request: &BackupRequest) -> Result<Manifest, OperatorError> {
    let roots: Vec<_> = std::iter::once(&request.anchor).chain(&request.targets).collect();
    let mut held = Vec::new();
    let mut places = BTreeSet::new();
    for root in &roots {
        if !root.is_dir() {
            return Err(OperatorError::NotADrive { path: root.to_path_buf() });
        }
        let place = fs::canonicalize(root).map_err(OperatorError::io("find", root))?;
        if !places.insert(place) {
            return Err(OperatorError::NamedTwice { drive: root.to_path_buf() });
        }
        let leases = lease::take(root, Hold::Alone).map_err(OperatorError::io("lock", root))?;
        held.push(leases.ok_or_else(|| OperatorError::LeaseHeld { drive: root.to_path_buf() })?);
    }
    check_place(&request.to, &places)?;
    fs::DirBuilder::new().mode(0o700).create(&request.to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => OperatorError::Taken { path: request.to.clone() },
        _ => OperatorError::io("create", &request.to)(error),
    })?;
    keep_all(&request.to, &roots).inspect_err(|_| {
        // It is ours: it was not there before, and without a manifest it is no backup.
        let _ = fs::remove_dir_all(&request.to);
    })
}

/// Refuses a place that is taken, or lies on one of the drives, whose resolved roots these are.
fn check_place(to: &Path, roots: &BTreeSet<PathBuf>) -> Result<(), OperatorError> {
    if to.symlink_metadata().is_ok() {
        return Err(OperatorError::Taken { path: to.to_owned() });
    }
    let parent = parent(to);
    let parent = fs::canonicalize(parent).map_err(OperatorError::io("find", parent))?;
    match roots.iter().find(|root| parent.starts_with(root)) {
        Some(root) => {
            Err(OperatorError::OnTheDrive { path: to.to_owned(), drive: root.to_owned() })
        }
        None => Ok(()),
    }
}

/// The folder that `path` lies in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn keep_all(to: &Path, roots: &[&PathBuf]) -> Result<Manifest, OperatorError> {
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let mut drives = Vec::new();
    for (index, root) in roots.iter().enumerate() {
        let folder = match index {
            0 => "anchor".to_owned(),
            _ => format!("target-{}", index - 1),
        };
        let paths = if index == 0 { anchor_paths(root)? } else { target_paths() };
        drives.push(keep(root, &to.join(&folder), folder, paths)?);
    }
    let manifest = Manifest { format: 1, made_at, drives };
    verify(&manifest, to, roots)?;
    let mut bytes = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain JSON");
    bytes.push(b'\n');
    let path = to.join(manifest::NAME);
    write(&path, &bytes).map_err(OperatorError::io("write", &path))?;
    flush_folders(to).map_err(OperatorError::io("flush", to))?;
    let parent = parent(to);
    flush(parent).map_err(OperatorError::io("flush", parent))?;
    Ok(manifest)
}

fn target_paths() -> BTreeSet<String> {
    [names::FORMAT, names::MARKER].map(str::to_owned).into()
}

/// What is kept of the anchor: whatever lies in the records' folder, and the records above it.
fn anchor_paths(root: &Path) -> Result<BTreeSet<String>, OperatorError> {
    let list = |folder: &str| {
        let names = names_in(root, folder);
        names.map_err(OperatorError::io("list", &root.join(folder)))
    };
    let mut paths = target_paths();
    let all = list(names::FOLDER)?.into_iter().map(|name| format!("{}/{name}", names::FOLDER));
    paths.extend(all);
    let ledgers = list(names::LEDGERS)?.into_iter();
    let ledgers = ledgers.map(|name| format!("{}/{name}", names::LEDGERS));
    paths.extend(ledgers.filter(|path| names::parse(path) != Name::Other));
    if paths.len() == target_paths().len() {
        return Err(OperatorError::NoRecords { path: root.join(names::FOLDER) });
    }
    Ok(paths)
}

/// Copies what is there of `paths` from a drive.
fn keep(
    root: &Path,
    to: &Path,
    folder: String,
    paths: BTreeSet<String>,
) -> Result<KeptDrive, OperatorError> {
    let mut files = Vec::new();
    let mut format_id = None;
    for path in paths {
        let Some(bytes) = held(root, &path)? else {
            continue;
        };
        if path == names::FORMAT {
            format_id = FormatJson::parse(&bytes).ok().map(|format| format.xl.this.to_string());
        }
        let copy = to.join(&path);
        let made = copy.parent().map_or(Ok(()), make_folders);
        made.and_then(|()| write(&copy, &bytes)).map_err(OperatorError::io("write", &copy))?;
        let (length, sha256) = (bytes.len() as u64, Digest::of(&bytes).to_string());
        files.push(KeptFile { path, bytes: length, sha256 });
    }
    let has_marker = files.iter().any(|file| file.path == names::MARKER);
    let root = root.to_string_lossy().into_owned();
    Ok(KeptDrive { folder, root, format_id, has_marker, files })
}

fn held(root: &Path, path: &str) -> Result<Option<Vec<u8>>, OperatorError> {
    read_if_there(root, path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => OperatorError::NotAFile { path: root.join(path) },
        _ => OperatorError::io("read", &root.join(path))(error),
    })
}

/// Reads every copy again, and what it is a copy of.
fn verify(manifest: &Manifest, to: &Path, roots: &[&PathBuf]) -> Result<(), OperatorError> {
    for (drive, root) in manifest.drives.iter().zip(roots) {
        for file in &drive.files {
            let copy = to.join(&drive.folder).join(&file.path);
            let bytes = read(&copy).map_err(OperatorError::io("read", &copy))?;
            let original = held(root, &file.path)?;
            let is_same = Digest::of(&bytes).to_string() == file.sha256;
            if !is_same || original.as_ref() != Some(&bytes) {
                return Err(OperatorError::Changed { path: root.join(&file.path) });
            }
        }
        let has_marker = held(root, names::MARKER)?.is_some();
        if has_marker != drive.has_marker {
            return Err(OperatorError::Changed { path: root.join(names::MARKER) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a copy that is not what was read, and a drive that is not what it was, are both noticed.
    #[test]
    fn a_backup_that_is_not_what_the_drives_hold_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for drive in ["anchor", "target"] {
            fs::create_dir_all(path(drive).join(names::FOLDER)).unwrap();
            fs::write(path(drive).join(names::FOLDER).join("record"), "as it was").unwrap();
            fs::write(path(drive).join(names::MARKER), "owner").unwrap();
        }
        fs::create_dir(path("kept")).unwrap();
        let (anchor, target) = (path("anchor"), path("target"));
        let roots = [&anchor, &target];
        let manifest = keep_all(&path("kept"), &roots).unwrap();
        let record = Path::new(names::FOLDER).join("record");
        let files = [
            path("kept/anchor").join(&record),
            path("anchor").join(&record),
            path("kept/target-0").join(names::MARKER),
            path("target").join(names::MARKER),
        ];
        for file in files {
            let before = fs::read(&file).unwrap();
            fs::write(&file, "otherwise").unwrap();
            let error = verify(&manifest, &path("kept"), &roots).unwrap_err();
            assert!(matches!(error, OperatorError::Changed { .. }), "{error}");
            fs::write(&file, before).unwrap();
            verify(&manifest, &path("kept"), &roots).unwrap();
        }
        fs::remove_file(path("target").join(names::MARKER)).unwrap();
        assert!(verify(&manifest, &path("kept"), &roots).is_err(), "a marker that is gone");
    }
}

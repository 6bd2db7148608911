//! One drive's names: which directories hold keys, which hold shards, and what belongs to nobody.
//!
//! Only names, sizes and times are looked at; nothing is opened but directories. Links are not followed.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::DirEntry;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::census::Surplus;
use super::census::SurplusKind;
use crate::disk::layout;

/// Everything on one drive.
#[derive(Default)]
pub(super) struct Tree {
    /// Directories that hold a metadata file or shards, by bucket and path (a key in its encoded form).
    pub(super) dirs: BTreeMap<(String, String), Dir>,
    /// Bucket directories.
    pub(super) buckets: BTreeSet<String>,
    /// What belongs to nobody by its place alone; the drive's name is not filled in.
    pub(super) surplus: Vec<Surplus>,
    /// Directories that could not be read.
    pub(super) problems: Vec<String>,
}

/// One directory below a bucket.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Dir {
    /// Whether a metadata file is in it.
    pub(super) has_meta: bool,
    /// Directories of shards in it, by name.
    pub(super) data_dirs: BTreeMap<String, Vec<Named>>,
    /// Where all its files are, how long and how old: equal in two looks when nothing happened in between.
    pub(super) state: Vec<FileState>,
}

/// A file in a directory of shards.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// What changes when a file is written, replaced or removed.
#[derive(PartialEq, Eq)]
pub(super) struct FileState {
    name: String,
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

/// Folders of the system volume that hold no keys.
const APART: [(&str, SurplusKind); 4] = [
    (layout::TMP, SurplusKind::Temporary),
    (layout::TMP_OLD, SurplusKind::Temporary),
    (layout::MULTIPART, SurplusKind::OpenUpload),
    (layout::QUARANTINE, SurplusKind::Quarantined),
];

/// Files of the system volume that are no keys.
const SYSTEM_FILES: [&str; 4] = [layout::FORMAT, layout::LEASE, layout::HEALING, layout::UNCLEAN];

impl Tree {
    /// Walks a whole drive.
    pub(super) fn walk(root: &Path) -> Self {
        let mut tree = Self::default();
        let entries = tree.list(root, "");
        for (name, entry) in entries {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && name == layout::SYSTEM {
                tree.system(root);
            } else if kind.is_dir()
                && name.len() >= 3
                && !name.starts_with('.')
                && name != "lost+found"
            {
                tree.buckets.insert(name.clone());
                tree.below(root, &name, "");
            } else if name != "lost+found" && !layout::is_replacement(&name) {
                tree.stray(root, &name, SurplusKind::Unknown);
            }
        }
        tree
    }

    fn system(&mut self, root: &Path) {
        for (name, entry) in self.list(root, layout::SYSTEM) {
            let path = format!("{}/{name}", layout::SYSTEM);
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let Some((_, kind)) = APART.iter().find(|(folder, _)| *folder == path) {
                self.apart(root, &path, *kind);
            } else if is_dir {
                self.below(root, layout::SYSTEM, &name);
            } else if !SYSTEM_FILES.contains(&path.as_str()) && !layout::is_replacement(&path) {
                self.stray(root, &path, SurplusKind::Unknown);
            }
        }
    }

    /// A folder whose entries are surplus, each as a whole.
    fn apart(&mut self, root: &Path, folder: &str, kind: SurplusKind) {
        for (name, entry) in self.list(root, folder) {
            let path = format!("{folder}/{name}");
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if path == layout::TRASH {
                self.apart(root, &path, SurplusKind::Trash);
            } else if kind == SurplusKind::OpenUpload
                && is_dir
                && name.parse::<layout::UploadName>().is_err()
            {
                // A key's uploads, or a folder of uploads made by a data movement.
                self.apart(root, &path, kind);
            } else {
                self.stray(root, &path, kind);
            }
        }
    }

    /// Everything below one directory of a bucket.
    fn below(&mut self, root: &Path, bucket: &str, start: &str) {
        let mut open = vec![start.to_owned()];
        while let Some(path) = open.pop() {
            let folder = join(bucket, &path);
            let mut dir = Dir::default();
            let mut files = Vec::new();
            let mut has_dirs = false;
            for (name, entry) in self.list(root, &folder) {
                let Ok(facts) = entry.metadata() else {
                    self.problems.push(format!("{folder}/{name} vanished while it was looked at"));
                    continue;
                };
                if facts.is_dir() {
                    has_dirs = true;
                    // A healer's journals are its own business and hold no keys.
                    if join(&folder, &name) != layout::HEAL {
                        open.push(join(&path, &name));
                    }
                } else if name == layout::META_FILE && facts.is_file() && !path.is_empty() {
                    dir.has_meta = true;
                    dir.state.push(FileState::of(name, &facts));
                } else if !layout::is_replacement(&join(&folder, &name)) {
                    files.push((name, facts));
                }
            }
            let (parent, own_name) = path.rsplit_once('/').unwrap_or(("", &path));
            let holds_shards = !dir.has_meta && layout::parse_data_dir(own_name).is_some();
            if holds_shards && !path.is_empty() && (!files.is_empty() || !has_dirs) {
                let place = (bucket.to_owned(), parent.to_owned());
                let owner = self.dirs.entry(place).or_default();
                let named = files
                    .iter()
                    .map(|(name, facts)| Named { name: name.clone(), bytes: facts.len() });
                owner.data_dirs.insert(own_name.to_owned(), named.collect());
                let states = files
                    .into_iter()
                    .map(|(name, facts)| FileState::of(format!("{own_name}/{name}"), &facts));
                owner.state.extend(states);
            } else {
                for (name, facts) in files {
                    self.surplus.push(Surplus {
                        drive: String::new(),
                        kind: SurplusKind::Unknown,
                        path: format!("{folder}/{name}"),
                        bytes: facts.len(),
                    });
                }
            }
            if dir.has_meta {
                let known = self.dirs.entry((bucket.to_owned(), path)).or_default();
                known.has_meta = true;
                known.state.extend(dir.state);
            }
        }
    }

    /// Notes something as surplus, with everything below it.
    fn stray(&mut self, root: &Path, path: &str, kind: SurplusKind) {
        let bytes = bytes_below(&root.join(path));
        self.surplus.push(Surplus { drive: String::new(), kind, path: path.to_owned(), bytes });
    }

    fn list(&mut self, root: &Path, folder: &str) -> Vec<(String, DirEntry)> {
        match entries(&root.join(folder)) {
            Ok(entries) => {
                let mut named = Vec::with_capacity(entries.len());
                for entry in entries {
                    match entry.file_name().into_string() {
                        Ok(name) => named.push((name, entry)),
                        Err(name) => self.surplus.push(Surplus {
                            drive: String::new(),
                            kind: SurplusKind::Unknown,
                            path: format!("{folder}/{}", name.to_string_lossy()),
                            bytes: bytes_below(&entry.path()),
                        }),
                    }
                }
                named.sort_by(|one, other| one.0.cmp(&other.0));
                named
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                self.problems.push(format!("{folder} cannot be listed: {error}"));
                Vec::new()
            }
        }
    }

    /// Sorts the states, so that two looks compare.
    pub(super) fn settled(mut self) -> Self {
        for dir in self.dirs.values_mut() {
            dir.state.sort_by(|one, other| one.name.cmp(&other.name));
        }
        self
    }
}

impl FileState {
    fn of(name: String, facts: &Metadata) -> Self {
        Self {
            name,
            inode: facts.ino(),
            bytes: facts.len(),
            modified_s: facts.mtime(),
            modified_ns: facts.mtime_nsec(),
        }
    }
}

fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(folder)?.collect()
}

fn join(parent: &str, name: &str) -> String {
    match (parent, name) {
        ("", name) => name.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, name) => format!("{parent}/{name}"),
    }
}

fn bytes_below(path: &Path) -> u64 {
    let mut open = vec![PathBuf::from(path)];
    let mut bytes = 0;
    while let Some(path) = open.pop() {
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if !facts.is_dir() {
            bytes += facts.len();
            continue;
        }
        open.extend(entries(&path).unwrap_or_default().iter().map(DirEntry::path));
    }
    bytes
}

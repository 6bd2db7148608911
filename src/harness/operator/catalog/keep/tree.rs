//! Which files of a drive belong to a catalog, and what a drive is. Reads only.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use super::super::error::CatalogError;
use crate::disk::format::format_json::FormatJson;
use crate::disk::layout;
use crate::value::Digest;

/// The catalog's own tree, on a drive.
pub const CATALOG: &str = ".rustfs.sys/s3tables/catalog";
/// The folders of the table buckets below it.
pub(super) const TABLE_BUCKETS: &str = ".rustfs.sys/s3tables/catalog/table-buckets";
/// What of a table bucket only the catalog writes.
const RESERVED: &str = ".rustfs-table";

/// A drive and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where its root is, or that of its copy.
    pub root: PathBuf,
    /// Its set.
    pub set: usize,
    /// Its place in the set.
    pub slot: usize,
    /// Its id.
    pub id: String,
}

/// The drives of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drives {
    /// The deployment's id.
    pub deployment: String,
    /// Erasure sets.
    pub sets: usize,
    /// Drives of a set.
    pub set_drives: usize,
    /// The drives that are there, in order of set and slot.
    pub drives: Vec<Placed>,
}

/// Finds out what the drives at `roots` are.
///
/// # Errors
///
/// One is no formatted drive, is named twice, or belongs to another deployment.
pub fn open(roots: &[PathBuf]) -> Result<Drives, CatalogError> {
    let mut first: Option<FormatJson> = None;
    let mut places = BTreeMap::new();
    for root in roots {
        let path = root.join(layout::FORMAT);
        let bytes = fs::read(&path).map_err(CatalogError::io("read", &path))?;
        let format = FormatJson::parse(&bytes).map_err(|error| {
            CatalogError::Refused(format!("{} is no formatted drive: {error}", root.display()))
        })?;
        if let Some(first) = &first
            && !first.is_peer_of(&format)
        {
            let root = root.display();
            let words = format!("{root} belongs to another deployment than the first drive");
            return Err(CatalogError::Refused(words));
        }
        let (set, slot) = format.place();
        let id = format.xl.this.hyphenated().to_string();
        let placed = Placed { root: root.clone(), set, slot, id };
        if let Some(other) = places.insert((set, slot), placed) {
            let (one, other) = (root.display(), other.root.display());
            return Err(CatalogError::Refused(format!("{one} and {other} are one drive")));
        }
        first.get_or_insert(format);
    }
    let Some(format) = first else {
        return Err(CatalogError::Usage("no drive is named".to_owned()));
    };
    Ok(Drives {
        deployment: format.id.hyphenated().to_string(),
        sets: format.xl.sets.len(),
        set_drives: format.xl.sets.first().map_or(0, Vec::len),
        drives: places.into_values().collect(),
    })
}

/// The table buckets of a deployment: the buckets whose folders the catalog has.
///
/// # Errors
///
/// A folder cannot be listed; the catalog has a folder of a bucket that is not there.
pub fn table_buckets(drives: &Drives) -> Result<Vec<String>, CatalogError> {
    let mut buckets = BTreeMap::new();
    let mut folders = std::collections::BTreeSet::new();
    for drive in &drives.drives {
        for name in names(&drive.root)? {
            if !name.starts_with('.') {
                buckets.insert(Digest::of(name.as_bytes()).to_string(), name);
            }
        }
        for name in names(&drive.root.join(TABLE_BUCKETS))? {
            // A folder may outlive what was in it.
            if !list(&drive.root, &[format!("{TABLE_BUCKETS}/{name}")])?.is_empty() {
                folders.insert(name);
            }
        }
    }
    let mut found = Vec::new();
    for folder in folders {
        match buckets.get(&folder) {
            Some(name) => found.push(name.clone()),
            None => {
                let words = format!(
                    "the catalog has the table bucket {folder}, and no drive has a bucket of that name"
                );
                return Err(CatalogError::Refused(words));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The names of the folders in `folder`; none when it is not there.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, CatalogError> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(CatalogError::io("list", folder))?,
    };
    let mut names = Vec::new();
    for entry in listed {
        let entry = entry.map_err(CatalogError::io("list", folder))?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let (true, Ok(name)) = (is_dir, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The folders of a drive that belong to the catalog of these buckets.
pub fn folders(buckets: &[String]) -> Vec<String> {
    let mut folders = vec![CATALOG.to_owned()];
    for bucket in buckets {
        folders.push(format!("{}/{bucket}/.metadata.bin", layout::BUCKETS));
        folders.push(format!("{bucket}/{RESERVED}"));
    }
    folders
}

/// A file as it was seen: equal in two looks when nothing happened to it in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Every file of `root` below `folders`, by its path.
///
/// # Errors
///
/// Something cannot be listed, or is neither a file nor a folder.
pub fn list(root: &Path, folders: &[String]) -> Result<BTreeMap<String, Seen>, CatalogError> {
    let mut found = BTreeMap::new();
    for folder in folders {
        walk(root, folder, &mut found)?;
    }
    Ok(found)
}

fn walk(root: &Path, folder: &str, found: &mut BTreeMap<String, Seen>) -> Result<(), CatalogError> {
    let path = root.join(folder);
    let listed = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(CatalogError::io("list", &path))?,
    };
    for entry in listed {
        let entry = entry.map_err(CatalogError::io("list", &path))?;
        let Ok(name) = entry.file_name().into_string() else {
            let words = format!("{} has a name that is no text", path.display());
            return Err(CatalogError::Refused(words));
        };
        let below = format!("{folder}/{name}");
        let facts = match entry.metadata() {
            // It is removed while it is looked at: the second look will tell.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            facts => facts.map_err(CatalogError::io("look at", &entry.path()))?,
        };
        if facts.is_dir() {
            walk(root, &below, found)?;
        } else if facts.is_file() {
            let modified = (facts.mtime(), facts.mtime_nsec());
            let seen = Seen { inode: facts.ino(), bytes: facts.len(), modified };
            found.insert(below, seen);
        } else {
            let words = format!("{} is neither a file nor a folder", entry.path().display());
            return Err(CatalogError::Refused(words));
        }
    }
    Ok(())
}

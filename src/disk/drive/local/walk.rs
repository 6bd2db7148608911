//! Walking a bucket's keys in their order.
//!
//! A directory `a` stands for the key `a` and for all keys below `a/`; between the two come keys like `a-b`.
//! So each directory gives two places in the order, and both are visited where they belong.

use super::LocalDrive;
use super::base::check_bucket;
use super::keys::holds_keys;
use super::keys::without_inline;
use crate::disk::drive::DriveError;
use crate::disk::drive::WalkEntry;
use crate::disk::drive::WalkPage;
use crate::disk::drive::files::Entry;
use crate::disk::layout;

/// Keys of one page when more are asked for.
const PAGE_MAX: usize = 1000;
/// Bytes of metadata at which a page ends.
const PAGE_BYTES_MAX: usize = 2 << 20;

struct Walk<'a> {
    drive: &'a LocalDrive,
    bucket: &'a str,
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    bytes: usize,
    entries: Vec<WalkEntry>,
}

enum Place {
    /// The key itself.
    Key { directory: String, inside: Vec<Entry> },
    /// All keys below it.
    Below { directory: String, inside: Vec<Entry> },
}

impl Place {
    fn is_below(&self) -> bool {
        matches!(self, Self::Below { .. })
    }
}

impl LocalDrive {
    pub(super) fn walk(
        &self,
        bucket: &str,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<WalkPage, DriveError> {
        self.guard_reads()?;
        if bucket != layout::SYSTEM {
            check_bucket(bucket)?;
        }
        if !self.exists(bucket)? {
            return Err(DriveError::NoBucket { bucket: bucket.to_owned() });
        }
        let limit = (limit as usize).clamp(1, PAGE_MAX);
        let mut walk =
            Walk { drive: self, bucket, prefix, after, limit, bytes: 0, entries: Vec::new() };
        let inside = self.list_or_nothing(bucket)?;
        let complete = walk.below(bucket, "", &inside)?;
        let rebuilding = self.state().rebuilding;
        Ok(WalkPage { entries: walk.entries, complete, rebuilding })
    }
}

impl Walk<'_> {
    /// Visits all keys that begin with `base`, in order. Answers whether the page has room for all of them.
    fn below(&mut self, directory: &str, base: &str, inside: &[Entry]) -> Result<bool, DriveError> {
        let mut places = Vec::new();
        for entry in inside.iter().filter(|entry| entry.is_directory) {
            if self.bucket == layout::SYSTEM && base.is_empty() && is_scratch(&entry.name) {
                continue;
            }
            let key = format!("{base}{}", layout::decode_key(&entry.name));
            let below = format!("{key}/");
            // The key `a/` is a directory object, and not the empty name below `a`.
            let is_object = entry.name.ends_with(layout::DIRECTORY_SUFFIX);
            let wants_key = self.wants_key(&key) && (is_object || !key.ends_with('/'));
            // No key lies below a directory object.
            let wants_below = !is_object && self.wants_below(&below);
            if !wants_key && !wants_below {
                continue;
            }
            let directory = format!("{directory}/{}", entry.name);
            let inside = self.drive.list_or_nothing(&directory)?;
            if layout::parse_data_dir(&entry.name).is_some() && !holds_keys(&inside) {
                continue;
            }
            if wants_key {
                let place = Place::Key { directory: directory.clone(), inside: inside.clone() };
                places.push((key, place));
            }
            if wants_below && (self.drive.seams.rules.walks_below_keys() || !is_key(&inside)) {
                places.push((below, Place::Below { directory, inside }));
            }
        }
        // The key `a/` comes before every key below `a/`.
        places.sort_by(|one, other| {
            one.0.cmp(&other.0).then(one.1.is_below().cmp(&other.1.is_below()))
        });
        for (name, place) in places {
            let has_room = match place {
                Place::Key { directory, inside } => self.key(name, &directory, &inside)?,
                Place::Below { directory, inside } => self.below(&directory, &name, &inside)?,
            };
            if !has_room {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn key(&mut self, key: String, directory: &str, inside: &[Entry]) -> Result<bool, DriveError> {
        let has_meta = is_key(inside);
        let mut folders = Vec::new();
        for entry in inside.iter().filter(|entry| entry.is_directory) {
            let Some(id) = layout::parse_data_dir(&entry.name) else { continue };
            let below = self.drive.list_or_nothing(&format!("{directory}/{}", entry.name))?;
            if !holds_keys(&below) {
                folders.push(id);
            }
        }
        if !has_meta && folders.is_empty() {
            return Ok(true);
        }
        if self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX {
            return Ok(false);
        }
        let meta = if has_meta {
            let bytes = self.drive.read_meta(&format!("{directory}/{}", layout::META_FILE))?;
            bytes.map(without_inline)
        } else {
            None
        };
        self.bytes += key.len() + meta.as_ref().map_or(0, Vec::len);
        self.entries.push(WalkEntry { key, meta, folders });
        Ok(true)
    }

    fn wants_key(&self, key: &str) -> bool {
        key > self.after && key.starts_with(self.prefix)
    }

    /// Whether any key that begins with `below` can be wanted.
    fn wants_below(&self, below: &str) -> bool {
        let passed = self.after > below && !self.after.starts_with(below);
        !passed && (below.starts_with(self.prefix) || self.prefix.starts_with(below))
    }
}

/// Whether a directory with this inside is a key's.
fn is_key(inside: &[Entry]) -> bool {
    inside.iter().any(|entry| !entry.is_directory && entry.name == layout::META_FILE)
}

/// Folders of the system volume that hold no keys.
fn is_scratch(name: &str) -> bool {
    matches!(name, "tmp" | "tmp-old" | "quarantine" | "datausage")
}

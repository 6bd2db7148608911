//! Walking a bucket's keys in their order.
//!
//! A directory `a` stands for the key `a` and for all keys below `a/`; between the two come keys like `a-b`.
//! So each directory gives two places in the order, and both are visited where they belong. What a directory holds is
//! put in order once, and kept while the directory does not change: the pages of a listing begin where the last one
//! ended, and look at no place before it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::PoisonError;

use super::LocalDrive;
use super::base::check_bucket;
use super::base::now_ns;
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
/// Directories with fewer entries are read again each time.
const KEPT_ENTRIES_MIN: usize = 64;
/// Entries of all directories that are kept.
const KEPT_ENTRIES_MAX: usize = 1 << 18;
/// A directory that changed so short a time before it was read may change again without showing it: the kernel's clock
/// for such things goes in steps of up to 10 ms.
const STEADY_NS: i64 = 100_000_000;

/// What directories hold, in the order of keys, as long as they do not change.
#[derive(Debug, Default)]
pub(super) struct KeptDirectories {
    kept: VecDeque<(String, i64, Arc<Ordered>)>,
}

/// The places of one directory, in the order of keys.
#[derive(Debug, Default)]
struct Ordered {
    /// The key's part of each directory's name, and the name where that is another one.
    names: Vec<(String, Option<String>)>,
    /// Which name, and whether it is what lies below it.
    places: Vec<(u32, bool)>,
}

impl Ordered {
    fn of(entries: Vec<Entry>) -> Self {
        let directories = entries.into_iter().filter(|entry| entry.is_directory);
        let names: Vec<_> = directories
            .map(|entry| {
                let key = layout::decode_key(&entry.name);
                let is_other = key != entry.name;
                (key, is_other.then_some(entry.name))
            })
            .collect();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let mut places: Vec<_> = (0..count).flat_map(|it| [(it, false), (it, true)]).collect();
        let mut ordered = Self { names, places: Vec::new() };
        places.sort_by(|one, other| ordered.compare(*one, *other));
        ordered.places = places;
        ordered
    }

    /// The key `a/` comes before every key below `a/`.
    fn compare(&self, one: (u32, bool), other: (u32, bool)) -> Ordering {
        let (first, second) = (self.name(one), self.name(other));
        // Most differ here, and slices are compared much faster than chains.
        let common = first.len().min(second.len());
        let by_common = first[..common].cmp(&second[..common]);
        by_common
            .then_with(|| self.bytes(one, common).cmp(self.bytes(other, common)))
            .then(one.1.cmp(&other.1))
    }

    fn name(&self, (name, _): (u32, bool)) -> &[u8] {
        self.names[name as usize].0.as_bytes()
    }

    /// What a place's keys begin with, from one of its bytes on.
    fn bytes(&self, place: (u32, bool), from: usize) -> impl Iterator<Item = u8> {
        let slash = if place.1 { "/" } else { "" };
        self.name(place)[from..].iter().copied().chain(slash.bytes())
    }

    /// The first place that is not before `key`.
    fn position(&self, key: &str) -> usize {
        self.places.partition_point(|place| self.bytes(*place, 0).lt(key.bytes()))
    }
}

struct Walk<'a> {
    drive: &'a LocalDrive,
    bucket: &'a str,
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    bytes: usize,
    entries: Vec<WalkEntry>,
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
        let complete = walk.below(bucket, "")?;
        let rebuilding = self.state().rebuilding;
        Ok(WalkPage { entries: walk.entries, complete, rebuilding })
    }

    /// What a directory holds, in the order of keys.
    fn ordered(&self, directory: &str) -> Result<Arc<Ordered>, DriveError> {
        let changed_ns = self.files.changed_ns(directory).unwrap_or(i64::MAX);
        {
            let kept = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
            let found =
                kept.kept.iter().find(|(name, at, _)| name == directory && *at == changed_ns);
            if let Some((_, _, ordered)) = found {
                return Ok(Arc::clone(ordered));
            }
        }
        let is_steady = now_ns().saturating_sub(changed_ns) >= STEADY_NS;
        let ordered = Arc::new(Ordered::of(self.list_or_nothing(directory)?));
        let mut kept = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        kept.kept.retain(|(name, _, _)| name != directory);
        if is_steady && (KEPT_ENTRIES_MIN..=KEPT_ENTRIES_MAX).contains(&ordered.names.len()) {
            kept.kept.push_back((directory.to_owned(), changed_ns, Arc::clone(&ordered)));
            let count = |kept: &KeptDirectories| -> usize {
                kept.kept.iter().map(|(_, _, ordered)| ordered.names.len()).sum()
            };
            while count(&kept) > KEPT_ENTRIES_MAX {
                kept.kept.pop_front();
            }
        }
        Ok(ordered)
    }
}

impl Walk<'_> {
    /// Visits all keys that begin with `base`, in order. Answers whether the page has room for all of them.
    fn below(&mut self, directory: &str, base: &str) -> Result<bool, DriveError> {
        let ordered = self.drive.ordered(directory)?;
        // Directories that were visited as keys and hold nothing below.
        let mut leaves = BTreeSet::new();
        let mut at = self.first(&ordered, base);
        while let Some(&(name, is_below)) = ordered.places.get(at.next()) {
            let (key, stored) = &ordered.names[name as usize];
            let stored = stored.as_ref().unwrap_or(key);
            if self.bucket == layout::SYSTEM && base.is_empty() && is_scratch(stored) {
                continue;
            }
            let key = format!("{base}{key}");
            if !is_below && self.is_past(&key) {
                return Ok(true);
            }
            // The key `a/` is a directory object, and not the empty name below `a`; no key lies below one.
            let is_object = stored.ends_with(layout::DIRECTORY_SUFFIX);
            let path = || format!("{directory}/{stored}");
            if !is_below {
                if self.wants_key(&key) && (is_object || !key.ends_with('/')) {
                    let visited = self.visit(key, &path(), stored)?;
                    if visited == Visited::NoRoom {
                        return Ok(false);
                    }
                    if visited == Visited::Leaf {
                        leaves.insert(name);
                    }
                }
                continue;
            }
            let below = format!("{key}/");
            if is_object || leaves.remove(&name) || !self.wants_below(&below) {
                continue;
            }
            let (path, walks_on) = (path(), self.drive.seams.rules.walks_below_keys());
            if layout::parse_data_dir(stored).is_some() || !walks_on {
                let inside = self.drive.list_or_nothing(&path)?;
                let is_folder = layout::parse_data_dir(stored).is_some() && !holds_keys(&inside);
                if is_folder || is_key(&inside) && !walks_on {
                    continue;
                }
            }
            if !self.below(&path, &below)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where to begin in a directory whose keys begin with `base`.
    fn first(&self, ordered: &Ordered, base: &str) -> Cursor {
        let from = self.after.max(self.prefix);
        let Some(rest) = from.strip_prefix(base) else {
            return Cursor { before: None, at: if base < from { ordered.places.len() } else { 0 } };
        };
        let at = ordered.position(rest);
        // Keys that come behind it may lie below a directory that comes before it.
        let before = rest.split_once('/').and_then(|(first, _)| {
            let below = format!("{first}/");
            let before = ordered.position(&below);
            let is_it = |place: &&(u32, bool)| ordered.bytes(**place, 0).eq(below.bytes());
            let found = ordered.places[before..at].iter().rposition(|place| is_it(&place))?;
            Some(before + found)
        });
        Cursor { before, at }
    }

    /// Visits one key, if the directory is one.
    fn visit(&mut self, key: String, directory: &str, stored: &str) -> Result<Visited, DriveError> {
        let files = &self.drive.files;
        let leaf = files.has_no_directories(directory).unwrap_or(false);
        if leaf && layout::parse_data_dir(stored).is_none() {
            let meta = self.drive.read_meta(&format!("{directory}/{}", layout::META_FILE))?;
            let Some(meta) = meta else { return Ok(Visited::Leaf) };
            return Ok(match self.push(key, Some(without_inline(meta)), Vec::new()) {
                true => Visited::Leaf,
                false => Visited::NoRoom,
            });
        }
        let inside = self.drive.list_or_nothing(directory)?;
        if layout::parse_data_dir(stored).is_some() && !holds_keys(&inside) {
            return Ok(Visited::Leaf);
        }
        self.key(key, directory, &inside)
    }

    fn key(
        &mut self,
        key: String,
        directory: &str,
        inside: &[Entry],
    ) -> Result<Visited, DriveError> {
        let has_meta = is_key(inside);
        let mut folders = Vec::new();
        let mut visited = Visited::Leaf;
        for entry in inside.iter().filter(|entry| entry.is_directory) {
            let Some(id) = layout::parse_data_dir(&entry.name) else {
                visited = Visited::MayHoldMore;
                continue;
            };
            let below = self.drive.list_or_nothing(&format!("{directory}/{}", entry.name))?;
            if holds_keys(&below) {
                visited = Visited::MayHoldMore;
            } else {
                folders.push(id);
            }
        }
        if !has_meta && folders.is_empty() {
            return Ok(visited);
        }
        if self.is_full() {
            return Ok(Visited::NoRoom);
        }
        let meta = if has_meta {
            let bytes = self.drive.read_meta(&format!("{directory}/{}", layout::META_FILE))?;
            bytes.map(without_inline)
        } else {
            None
        };
        Ok(if self.push(key, meta, folders) { visited } else { Visited::NoRoom })
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }

    /// Puts a key on the page. False when there is no room.
    fn push(&mut self, key: String, meta: Option<Vec<u8>>, folders: Vec<uuid::Uuid>) -> bool {
        if self.is_full() {
            return false;
        }
        self.bytes += key.len() + meta.as_ref().map_or(0, Vec::len);
        self.entries.push(WalkEntry { key, meta, folders });
        true
    }

    /// Whether `key`, and all that comes behind it, comes behind all that begins with the prefix.
    fn is_past(&self, key: &str) -> bool {
        key > self.prefix && !key.starts_with(self.prefix)
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

/// Places of a directory that are still to be visited.
struct Cursor {
    /// One that comes before all others.
    before: Option<usize>,
    at: usize,
}

impl Cursor {
    fn next(&mut self) -> usize {
        self.before.take().unwrap_or_else(|| {
            self.at += 1;
            self.at - 1
        })
    }
}

/// What came of visiting a directory as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visited {
    /// No key lies below it.
    Leaf,
    /// Some may.
    MayHoldMore,
    /// The page is full.
    NoRoom,
}

/// Whether a directory with this inside is a key's.
fn is_key(inside: &[Entry]) -> bool {
    inside.iter().any(|entry| !entry.is_directory && entry.name == layout::META_FILE)
}

/// Folders of the system volume that hold no keys.
fn is_scratch(name: &str) -> bool {
    matches!(name, "tmp" | "tmp-old" | "quarantine" | "datausage")
}

//! Warehouse prefixes: which keys of a table bucket belong to which table.
//!
//! # Sources
//!
//! Specification of the catalog §3.8 (form, overlap, probes), M21 (no table inside the reserved prefix).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::record::check_version;
use crate::protocol::catalog::record::parse;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The most segments of a table's warehouse prefix.
pub const SEGMENTS_MAX: usize = 64;
/// The version of the index's readiness that is written, and the only one that may be ready.
pub const INDEX_STATE_VERSION: u32 = 2;

/// The prefix that a location names in `bucket`: ends in a slash, has no empty or dotted segment.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn of_view(bucket: &str, location: &str) -> Result<String, Refusal> {
    let refuse = |why: &str| Err(Class::Invalid.because(format!("location {location:?} {why}")));
    let Some(rest) = location.strip_prefix("s3://") else {
        return refuse("does not begin with s3://");
    };
    let Some(path) = rest.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('/')) else {
        return refuse(&format!("is not in bucket {bucket}"));
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.contains('\\') || path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return refuse("has an empty or dotted segment or a backslash");
    }
    Ok(format!("{path}/"))
}

/// The prefix that a table's location names: [`of_view`]'s, of at most [`SEGMENTS_MAX`] segments.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn of_table(bucket: &str, location: &str) -> Result<String, Refusal> {
    let prefix = of_view(bucket, location)?;
    if prefix.matches('/').count() > SEGMENTS_MAX {
        return Err(Class::Invalid
            .because(format!("location {location:?} has more than {SEGMENTS_MAX} segments")));
    }
    Ok(prefix)
}

/// The prefix of a *new* table: not inside what only the catalog writes (M21).
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn of_new_table(bucket: &str, location: &str) -> Result<String, Refusal> {
    let prefix = of_table(bucket, location)?;
    if keys::is_reserved(&prefix) {
        let text =
            format!("location {location:?} is inside {}, where nobody may write", keys::RESERVED);
        return Err(Class::Invalid.because(text));
    }
    Ok(prefix)
}

/// Whether one of two prefixes, each ending in a slash, contains the other.
pub fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The prefixes that may own `key`, deepest first: every part of its first 64 segments that ends in a slash.
pub fn probes(key: &str) -> Vec<&str> {
    let slashes = key.char_indices().filter(|(_, letter)| *letter == '/').take(SEGMENTS_MAX);
    let mut probes: Vec<&str> = slashes.map(|(index, _)| &key[..=index]).collect();
    probes.reverse();
    probes
}

/// Prefixes with their owners; finds overlaps in logarithmic time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixMap<T> {
    owners: BTreeMap<String, T>,
}

impl<T> Default for PrefixMap<T> {
    fn default() -> Self {
        Self { owners: BTreeMap::new() }
    }
}

impl<T> PrefixMap<T> {
    /// Adds a prefix, and says whose prefix it overlaps if it does; then it is not added.
    pub fn insert(&mut self, prefix: String, owner: T) -> Result<(), &T> {
        // Borrowing through the first look would outlive the insertion.
        if self.overlapping(&prefix).is_some() {
            return Err(self.overlapping(&prefix).expect("it was found a moment ago"));
        }
        self.owners.insert(prefix, owner);
        Ok(())
    }

    /// An owner whose prefix overlaps `prefix`.
    pub fn overlapping(&self, prefix: &str) -> Option<&T> {
        let above = probes(prefix).into_iter().find_map(|probe| self.owners.get(probe));
        let below = || {
            let (found, owner) = self.owners.range(prefix.to_owned()..).next()?;
            found.starts_with(prefix).then_some(owner)
        };
        above.or_else(below)
    }

    /// The owner of the deepest prefix of `key`.
    pub fn owner(&self, key: &str) -> Option<&T> {
        probes(key).into_iter().find_map(|probe| self.owners.get(probe))
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

/// One prefix of the object-backed index and the table that owns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexEntry {
    /// 1.
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// The owner's namespace, with dots.
    pub namespace: String,
    /// The owner's name.
    pub table: String,
    /// The owner's id.
    pub table_id: String,
    /// The prefix, with its slash.
    pub warehouse_object_prefix: String,
    /// Whether it is in use.
    pub state: State,
}

impl IndexEntry {
    /// The entry that reserves `prefix` for `table`.
    pub fn new(table: &TableEntry, prefix: &str) -> Self {
        Self {
            version: ENTRY_VERSION,
            table_bucket: table.table_bucket.clone(),
            namespace: table.namespace.clone(),
            table: table.table.clone(),
            table_id: table.table_id.clone(),
            warehouse_object_prefix: prefix.to_owned(),
            state: State::Active,
        }
    }

    /// Whether `table` is the owner that it names.
    pub fn is_owned_by(&self, table: &TableEntry) -> bool {
        self.namespace == table.namespace
            && self.table == table.table
            && self.table_id == table.table_id
    }

    /// The owner's name.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn identifier(&self) -> Result<Identifier, Refusal> {
        Identifier::from_record(&self.namespace, &self.table)
    }
}

impl Record for IndexEntry {
    const KIND: &'static str = "warehouse index entry";

    fn bucket(&self) -> Option<&str> {
        Some(&self.table_bucket)
    }

    fn key(&self, _bucket: &str) -> Result<String, Refusal> {
        Ok(keys::warehouse_index_entry(&self.table_bucket, &self.warehouse_object_prefix))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)?;
        self.identifier().map(drop)
    }
}

/// Whether the object-backed index has every table's prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexState {
    /// [`INDEX_STATE_VERSION`], or 1 of older servers, which is never ready.
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// Ready when active.
    pub state: State,
}

impl IndexState {
    /// Ready.
    pub fn ready(bucket: &str) -> Self {
        let version = INDEX_STATE_VERSION;
        Self { version, table_bucket: bucket.to_owned(), state: State::Active }
    }

    /// Whether it says so.
    pub fn is_ready(&self) -> bool {
        self.version == INDEX_STATE_VERSION && self.state == State::Active
    }

    /// The readiness that lies in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]: a version that is neither 1 nor 2, another bucket.
    pub fn decode(bucket: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let key = keys::warehouse_index_state(bucket);
        let state: Self = parse("warehouse index state", &key, bytes)?;
        if !(1..=INDEX_STATE_VERSION).contains(&state.version) || state.table_bucket != bucket {
            let (version, of) = (state.version, &state.table_bucket);
            return Err(Class::Invalid.because(format!(
                "the warehouse index state under {key} is of version {version} and bucket {of}"
            )));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_becomes_a_prefix_of_its_own_bucket() {
        assert_eq!(of_table("lake1", "s3://lake1/a/b").unwrap(), "a/b/");
        assert_eq!(of_table("lake1", "s3://lake1/a/b/").unwrap(), "a/b/");
        for bad in [
            "s3://lake1/",
            "s3://lake1",
            "s3://lake12/a",
            "gs://lake1/a",
            "s3://lake1/a//b",
            "s3://lake1/a/../b",
            "s3://lake1/./b",
            "s3://lake1/a\\b",
            "s3://lake1/a//",
        ] {
            assert_eq!(of_table("lake1", bad).unwrap_err().class, Class::Invalid, "{bad}");
        }
        let deep = format!("s3://lake1/{}", vec!["x"; 65].join("/"));
        assert!(of_table("lake1", &deep).is_err() && of_view("lake1", &deep).is_ok());
    }

    #[test]
    fn a_new_table_may_not_lie_where_nobody_may_write() {
        assert!(of_new_table("lake1", "s3://lake1/.rustfs-table/x").is_err());
        assert!(of_new_table("lake1", "s3://lake1/.rustfs-tables/x").is_ok());
        assert!(of_table("lake1", "s3://lake1/.rustfs-table/x").is_ok(), "older ones are read");
    }

    #[test]
    fn f20_only_nested_or_equal_prefixes_overlap() {
        assert!(overlap("a/b/", "a/b/") && overlap("a/", "a/b/") && overlap("a/b/", "a/"));
        assert!(!overlap("a/b/", "a/bc/"));
        let mut map = PrefixMap::default();
        for prefix in ["a/b/", "a/bc/", "c/d/e/"] {
            map.insert(prefix.to_owned(), prefix).unwrap();
        }
        for (prefix, owner) in
            [("a/b/", "a/b/"), ("a/", "a/b/"), ("a/bc/d/", "a/bc/"), ("c/", "c/d/e/")]
        {
            assert_eq!(map.overlapping(prefix), Some(&owner), "{prefix}");
            assert_eq!(map.insert(prefix.to_owned(), "new"), Err(&owner));
        }
        assert_eq!(map.overlapping("a/bd/"), None);
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn a_key_is_probed_deepest_first() {
        assert_eq!(probes("a/b/c.txt"), ["a/b/", "a/"]);
        assert!(probes("file").is_empty());
        assert_eq!(probes(&"x/".repeat(70)).len(), 64);
        let mut map = PrefixMap::default();
        map.insert("a/b/".to_owned(), 1).unwrap();
        assert_eq!(map.owner("a/b/c/d"), Some(&1));
        assert_eq!(map.owner("a/bx/c"), None);
        assert_eq!(map.owner("a/b"), None, "the folder's own key is not below it");
    }

    #[test]
    fn f8_only_two_versions_of_the_readiness_are_known() {
        let decode = |version: u32, state: &str| {
            let text =
                format!(r#"{{"version":{version},"table_bucket":"lake1","state":"{state}"}}"#);
            IndexState::decode("lake1", text.as_bytes())
        };
        assert!(decode(2, "ACTIVE").unwrap().is_ready());
        assert!(!decode(2, "DELETED").unwrap().is_ready());
        assert!(!decode(1, "ACTIVE").unwrap().is_ready());
        assert_eq!(decode(0, "ACTIVE").unwrap_err().class, Class::Invalid);
        assert_eq!(decode(3, "ACTIVE").unwrap_err().class, Class::Invalid);
    }
}

//! What drives hold of the table catalog, for a census. Reads only.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::super::error::CatalogError;
use super::contents;
use super::contents::Object;
use super::tree;
use super::tree::Drives;
use crate::disk::layout;
use crate::harness::audit::census::CatalogCensus;
use crate::value::Digest;

/// The folder of the strong snapshot.
const STRONG: &str = "strong-backing";
/// The folders of the fences: of the registry, and of each table bucket.
const MIGRATION: &str = "backing-migration";

/// The catalog on the drives at `roots`; `None` when none of them has one.
///
/// # Errors
///
/// The drives are not those of one deployment, or a folder cannot be listed.
pub fn held(roots: &[PathBuf]) -> Result<Option<CatalogCensus>, CatalogError> {
    if !roots.iter().any(|root| root.join(tree::CATALOG).is_dir()) {
        return Ok(None);
    }
    let drives = tree::open(roots)?;
    let mut census = CatalogCensus::default();
    let mut files = BTreeSet::new();
    each(&drives, &[tree::CATALOG.to_owned()], &mut census.unreadable, |object| {
        let text = String::from_utf8_lossy(&object.contents).into_owned();
        files.extend(named(&text));
        census.objects.insert(object.key, text);
    })?;
    let files: Vec<String> = files.into_iter().collect();
    each(&drives, &files, &mut census.unreadable, |object| {
        let text = String::from_utf8_lossy(&object.contents).into_owned();
        census.metadata.insert(format!("{}/{}", object.bucket, object.key), text);
    })?;
    Ok(Some(census))
}

/// What the drives at `roots` hold of the catalog and of its table buckets: the digest of each object's contents, by
/// bucket and key. What too few drives have for anybody to read it is none.
///
/// # Errors
///
/// As [`held`].
pub fn digests(roots: &[PathBuf]) -> Result<BTreeMap<String, Digest>, CatalogError> {
    let mut digests = BTreeMap::new();
    if !roots.iter().any(|root| root.join(tree::CATALOG).is_dir()) {
        return Ok(digests);
    }
    let drives = tree::open(roots)?;
    let buckets = tree::table_buckets(&drives)?;
    let marks = buckets.iter().map(|bucket| format!("{}/{bucket}", layout::BUCKETS));
    let mut folders: Vec<String> = marks.chain(buckets.iter().cloned()).collect();
    folders.push(tree::CATALOG.to_owned());
    contents::each_or_why(&drives.drives, drives.set_drives, &folders, |object| {
        if let Ok(Object { bucket, key, contents }) = object {
            digests.insert(format!("{bucket}/{key}"), Digest::of(&contents));
        }
        Ok(())
    })?;
    Ok(digests)
}

/// What the drives at `roots` hold of migrations and of the strong snapshot, and no metadata; `None` when none of them
/// has a catalog.
///
/// # Errors
///
/// As [`held`].
pub fn migrations(roots: &[PathBuf]) -> Result<Option<CatalogCensus>, CatalogError> {
    if !roots.iter().any(|root| root.join(tree::CATALOG).is_dir()) {
        return Ok(None);
    }
    let drives = tree::open(roots)?;
    let mut folders = BTreeSet::new();
    for root in roots {
        for bucket in tree::names(&root.join(tree::TABLE_BUCKETS))? {
            folders.insert(format!("{}/{bucket}/{MIGRATION}", tree::TABLE_BUCKETS));
        }
    }
    folders.extend([STRONG, MIGRATION].map(|name| format!("{}/{name}", tree::CATALOG)));
    let folders: Vec<String> = folders.into_iter().collect();
    let mut census = CatalogCensus::default();
    each(&drives, &folders, &mut census.unreadable, |object| {
        let text = String::from_utf8_lossy(&object.contents).into_owned();
        census.objects.insert(object.key, text);
    })?;
    Ok(Some(census))
}

/// Looks at every object below `folders`; notes those that cannot be read.
fn each(
    drives: &Drives,
    folders: &[String],
    unreadable: &mut Vec<String>,
    mut look: impl FnMut(Object),
) -> Result<(), CatalogError> {
    contents::each_or_why(&drives.drives, drives.set_drives, folders, |object| {
        match object {
            Ok(object) => look(object),
            Err(error) => unreadable.push(error.to_string()),
        }
        Ok(())
    })
}

/// The current metadata files that a record names, `bucket/key`: an entry's own, or those of a snapshot's tables.
fn named(text: &str) -> Vec<String> {
    let Ok(record) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let own = std::iter::once(&record);
    let tables = record.get("tables").and_then(Value::as_array).into_iter().flatten();
    let place = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        Some(format!("{}/{}", text("table_bucket")?, text("metadata_location")?))
    };
    own.chain(tables).filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_snapshots_name_the_files_that_are_current() {
        let entry = r#"{"table_bucket":"lake","metadata_location":"m/00002-x.metadata.json"}"#;
        assert_eq!(named(entry), ["lake/m/00002-x.metadata.json"]);
        assert_eq!(named(&format!(r#"{{"version":1,"tables":[{entry},{entry}]}}"#)).len(), 2);
        assert!(named(r#"{"version":1}"#).is_empty() && named("no JSON").is_empty());
    }

    #[test]
    fn drives_without_a_catalog_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let roots = [folder.path().to_owned()];
        assert_eq!(held(&roots).unwrap(), None);
        assert!(digests(&roots).unwrap().is_empty());
        assert_eq!(migrations(&roots).unwrap(), None);
    }
}

//! Whether a backup is what it says, and whether drives hold what it kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::super::error::CatalogError;
use super::super::facts::BackupFacts;
use super::contents;
use super::manifest::KeptPointer;
use super::manifest::Manifest;
use super::tree;
use super::tree::Placed;
use crate::value::Digest;

/// The copies of the drives in a backup.
pub(super) fn copies(folder: &Path, manifest: &Manifest) -> Vec<Placed> {
    let each = manifest.drives.iter().map(|drive| Placed {
        root: folder.join(&drive.folder),
        set: drive.set,
        slot: drive.slot,
        id: drive.format_id.clone(),
    });
    each.collect()
}

/// Reads every copy again.
///
/// # Errors
///
/// [`CatalogError::Broken`] when one is not what the manifest says.
pub(super) fn files(folder: &Path, manifest: &Manifest) -> Result<(), CatalogError> {
    for drive in &manifest.drives {
        for file in &drive.files {
            let path = folder.join(&drive.folder).join(&file.path);
            let bytes = fs::read(&path).map_err(CatalogError::io("read", &path))?;
            if Digest::of(&bytes).to_string() != file.sha256 {
                let words = format!("{} is not what was kept", path.display());
                return Err(CatalogError::Broken(words));
            }
        }
    }
    Ok(())
}

/// Verifies the backup in `folder`: every file, and every object that they decode to.
///
/// # Errors
///
/// It is none, or not what it says.
pub fn run(folder: &Path) -> Result<(Manifest, String), CatalogError> {
    let (manifest, digest) = Manifest::read(folder)?;
    files(folder, &manifest)?;
    let found = compare(&manifest, &copies(folder, &manifest))?;
    if !found.is_empty() {
        return Err(CatalogError::Broken(format!(
            "the copies decode otherwise: {}",
            found.join("; ")
        )));
    }
    Ok((manifest, digest))
}

/// As [`run`], and answers what a rehearsal wants to know.
///
/// # Errors
///
/// As [`run`].
pub fn facts(folder: &Path) -> Result<BackupFacts, CatalogError> {
    let (manifest, digest) = run(folder)?;
    let tokens = |of: fn(&super::manifest::KeptWarehouse) -> &BTreeMap<String, KeptPointer>| {
        let each = manifest.warehouses.iter().map(|(name, warehouse)| {
            let tables = of(warehouse).iter();
            let tokens = tables.map(|(table, it)| (table.clone(), it.version_token.clone()));
            (name.clone(), tokens.collect())
        });
        each.collect::<BTreeMap<String, BTreeMap<String, String>>>()
    };
    Ok(BackupFacts {
        digest,
        release: manifest.release.clone(),
        made_at: manifest.made_at,
        tokens: tokens(|it| &it.tables),
        strong_tokens: tokens(|it| &it.strong_tables),
    })
}

/// Whether the drives at `roots` hold what the backup in `folder` kept, and nothing else of the catalog; in words.
///
/// # Errors
///
/// [`CatalogError::Broken`] when they do not.
pub fn against(folder: &Path, roots: &[PathBuf]) -> Result<String, CatalogError> {
    let (manifest, _) = Manifest::read(folder)?;
    let drives = tree::open(roots)?;
    let found = compare(&manifest, &drives.drives)?;
    if found.is_empty() {
        let count = manifest.objects.len();
        return Ok(format!("{count} objects were decoded and are what was kept"));
    }
    Err(CatalogError::Broken(format!("the drives differ from the backup: {}", found.join("; "))))
}

/// What the drives have otherwise than the manifest, the first few of it.
fn compare(manifest: &Manifest, drives: &[Placed]) -> Result<Vec<String>, CatalogError> {
    const TOLD_MAX: usize = 10;
    let buckets: Vec<_> = manifest.warehouses.keys().cloned().collect();
    let mut left: BTreeMap<_, _> = manifest
        .objects
        .iter()
        .map(|it| ((it.bucket.clone(), it.key.clone()), &it.sha256))
        .collect();
    let mut found = Vec::new();
    contents::each(drives, manifest.set_drives, &tree::folders(&buckets), |object| {
        let digest = Digest::of(&object.contents).to_string();
        let place = format!("{}/{}", object.bucket, object.key);
        match left.remove(&(object.bucket, object.key)) {
            Some(kept) if *kept == digest => {}
            Some(_) => found.push(format!("{place} is another one")),
            None => found.push(format!("{place} was not there")),
        }
        Ok(())
    })?;
    found.extend(left.into_keys().map(|(bucket, key)| format!("{bucket}/{key} is missing")));
    let more = found.len().saturating_sub(TOLD_MAX);
    found.truncate(TOLD_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    Ok(found)
}

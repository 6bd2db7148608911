//! Restores a backup onto the drives of a stopped cluster.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use super::super::error::CatalogError;
use super::Release;
use super::manifest::KeptDrive;
use super::manifest::Manifest;
use super::tree;
use super::tree::Drives;
use super::tree::Placed;
use super::verify;
use crate::harness::operator::lease;
use crate::harness::operator::lease::Hold;

/// What is to be restored, and onto what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The backup.
    pub from: PathBuf,
    /// The digest that selects it.
    pub selected: String,
    /// The roots of the drives.
    pub drives: Vec<PathBuf>,
    /// What is to serve it.
    pub release: Release,
    /// A verified backup of what stands on the drives now; without it nothing of a catalog may stand there.
    pub replaced: Option<PathBuf>,
}

/// Restores the backup; answers its manifest.
///
/// # Errors
///
/// [`CatalogError::Refused`] leaves every drive as it was. After [`CatalogError::Unknown`] some files may be
/// written: the cluster must not be started before the restore was repeated.
pub fn run(request: &RestoreRequest) -> Result<Manifest, CatalogError> {
    let (manifest, digest) = verify::run(&request.from)?;
    if digest != request.selected {
        return Err(CatalogError::Refused(format!(
            "the backup in {} is {digest}, selected is {}",
            request.from.display(),
            request.selected
        )));
    }
    readable(&manifest, request.release)?;
    let drives = tree::open(&request.drives)?;
    fits(&manifest, &drives)?;
    let mut held = Vec::new();
    for drive in &drives.drives {
        let root = &drive.root;
        let leases = lease::take(root, Hold::Alone).map_err(CatalogError::io("lock", root))?;
        held.push(leases.ok_or_else(|| {
            CatalogError::Refused(format!("a node has {}: stop it", root.display()))
        })?);
    }
    let standing = standing(request, &manifest, &drives)?;
    write_all(&request.from, &manifest, &drives, &standing).map_err(|error| {
        let why = crate::harness::report::Chain(&error).to_string();
        CatalogError::Unknown(format!("{why}; do not start the cluster, restore again"))
    })?;
    Ok(manifest)
}

/// Whether `release` can read what was kept.
fn readable(manifest: &Manifest, release: Release) -> Result<(), CatalogError> {
    let most = release.snapshot_version_max();
    if let Some(snapshot) = &manifest.snapshot
        && snapshot.version > most
    {
        return Err(CatalogError::Refused(format!(
            "the snapshot is of version {}, the release reads up to {most}",
            snapshot.version
        )));
    }
    if release == Release::WithoutFences && !manifest.fences.is_empty() {
        return Err(CatalogError::Refused(format!(
            "fences stand in it ({}), and the release does not see them",
            manifest.fences.join(", ")
        )));
    }
    Ok(())
}

/// Whether the drives have the places that the copies came from.
fn fits(manifest: &Manifest, drives: &Drives) -> Result<(), CatalogError> {
    if (manifest.sets, manifest.set_drives) != (drives.sets, drives.set_drives) {
        return Err(CatalogError::Refused(format!(
            "the backup is of {} sets of {} drives, these are {} of {}",
            manifest.sets, manifest.set_drives, drives.sets, drives.set_drives
        )));
    }
    // Which set a key lies in follows from the deployment's id.
    if manifest.sets > 1 && manifest.deployment != drives.deployment {
        let words = "with more than one set, only the deployment itself can be restored: its id says where keys lie";
        return Err(CatalogError::Refused(words.to_owned()));
    }
    let missing = manifest.drives.iter().filter(|kept| target(kept, drives).is_none());
    let missing: Vec<_> = missing.map(|kept| format!("{}/{}", kept.set, kept.slot)).collect();
    if !missing.is_empty() {
        let places = missing.join(", ");
        let words = format!("no drive is named for these sets and slots: {places}");
        return Err(CatalogError::Refused(words));
    }
    Ok(())
}

fn target<'a>(kept: &KeptDrive, drives: &'a Drives) -> Option<&'a Placed> {
    drives.drives.iter().find(|drive| (drive.set, drive.slot) == (kept.set, kept.slot))
}

/// What of a catalog stands on the drives: it has to be nothing, or exactly what the other backup has.
fn standing(
    request: &RestoreRequest,
    manifest: &Manifest,
    drives: &Drives,
) -> Result<Vec<(PathBuf, Vec<String>)>, CatalogError> {
    let mut buckets: Vec<_> = manifest.warehouses.keys().cloned().collect();
    let other = request.replaced.as_ref().map(|folder| verify::run(folder)).transpose()?;
    if let Some((other, _)) = &other {
        buckets.extend(other.warehouses.keys().cloned());
    }
    buckets.sort();
    buckets.dedup();
    let folders = tree::folders(&buckets);
    let mut all = Vec::new();
    for drive in &drives.drives {
        let found = tree::list(&drive.root, &folders)?;
        let Some((other, _)) = &other else {
            if let Some(path) = found.keys().next() {
                return Err(CatalogError::Refused(format!(
                    "{} holds {path} already: restore into a fresh cluster, or take a backup of what stands there and name it with --replaced",
                    drive.root.display()
                )));
            }
            continue;
        };
        let kept = other.drives.iter().find(|it| (it.set, it.slot) == (drive.set, drive.slot));
        let kept: BTreeMap<_, _> =
            kept.iter().flat_map(|it| &it.files).map(|it| (&it.path, &it.sha256)).collect();
        for path in found.keys() {
            let file = drive.root.join(path);
            let bytes = fs::read(&file).map_err(CatalogError::io("read", &file))?;
            let digest = crate::value::Digest::of(&bytes).to_string();
            if kept.get(path) != Some(&&digest) {
                return Err(CatalogError::Refused(format!(
                    "{} is not in the backup that --replaced names: it would be lost",
                    file.display()
                )));
            }
        }
        all.push((drive.root.clone(), found.into_keys().collect()));
    }
    Ok(all)
}

fn write_all(
    from: &Path,
    manifest: &Manifest,
    drives: &Drives,
    standing: &[(PathBuf, Vec<String>)],
) -> Result<(), CatalogError> {
    for (root, paths) in standing {
        for path in paths {
            let path = root.join(path);
            fs::remove_file(&path).map_err(CatalogError::io("remove", &path))?;
            // Folders that have become empty go with it, up to the first that has not.
            let mut above = path.parent();
            while let Some(folder) = above.filter(|folder| *folder != root.as_path()) {
                if fs::remove_dir(folder).is_err() {
                    break;
                }
                above = folder.parent();
            }
        }
    }
    for kept in &manifest.drives {
        let Some(drive) = target(kept, drives) else { continue };
        for bucket in manifest.warehouses.keys() {
            let folder = drive.root.join(bucket);
            fs::create_dir_all(&folder).map_err(CatalogError::io("create", &folder))?;
        }
        for file in &kept.files {
            let source = from.join(&kept.folder).join(&file.path);
            let bytes = fs::read(&source).map_err(CatalogError::io("read", &source))?;
            let path = drive.root.join(&file.path);
            place(&drive.root, &path, &bytes).map_err(CatalogError::io("write", &path))?;
        }
        let flushed = File::open(&drive.root)
            .and_then(|root| nix::unistd::syncfs(root).map_err(io::Error::from));
        flushed.map_err(CatalogError::io("flush", &drive.root))?;
    }
    Ok(())
}

/// Writes a file whole.
fn place(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    let beside = folder.join(".firedrill-restore");
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

//! Takes a backup.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use super::super::error::CatalogError;
use super::contents;
use super::contents::Object;
use super::manifest;
use super::manifest::KeptDrive;
use super::manifest::KeptObject;
use super::manifest::KeptPointer;
use super::manifest::KeptSnapshot;
use super::manifest::KeptWarehouse;
use super::manifest::Manifest;
use super::tree;
use super::tree::Drives;
use super::tree::Placed;
use super::tree::Seen;
use crate::harness::operator::kept::KeptFile;
use crate::harness::operator::kept::flush;
use crate::harness::operator::kept::flush_folders;
use crate::harness::operator::kept::make_folders;
use crate::harness::operator::kept::write;
use crate::harness::operator::lease;
use crate::harness::operator::lease::Hold;
use crate::value::Digest;

/// How often everything is copied again because something changed meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// What is to be kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    /// The roots of the drives, best of all of them.
    pub drives: Vec<PathBuf>,
    /// The table buckets; all when none is named.
    pub warehouses: BTreeSet<String>,
    /// The folder to be made.
    pub to: PathBuf,
    /// Whether nodes may have the drives.
    pub live: bool,
    /// The release of the servers.
    pub release: String,
}

/// Makes the backup, reads every byte of it again, decodes every object from the copies alone, and answers its
/// manifest and the digest that selects it. The manifest is written last.
///
/// # Errors
///
/// As [`CatalogError`] has them. No drive is written to; the folder is removed again.
pub fn run(request: &BackupRequest) -> Result<(Manifest, String), CatalogError> {
    let drives = tree::open(&request.drives)?;
    let found = tree::table_buckets(&drives)?;
    if found.is_empty() {
        let words = "these drives hold no table bucket: there is nothing to keep";
        return Err(CatalogError::Refused(words.to_owned()));
    }
    if !request.warehouses.is_empty() {
        let named: Vec<_> = request.warehouses.iter().cloned().collect();
        if named != found {
            return Err(CatalogError::Refused(format!(
                "the drives hold the table buckets {}: a backup has all of them, since the snapshot has",
                found.join(", ")
            )));
        }
    }
    let mut held = Vec::new();
    for drive in &drives.drives {
        let root = &drive.root;
        let leases = lease::take(root, Hold::Shared).map_err(CatalogError::io("lock", root))?;
        match leases {
            Some(leases) if !request.live => held.push(leases),
            Some(_) => {}
            None if request.live => {}
            None => {
                let words = format!("a node has {}: stop it, or say --live", root.display());
                return Err(CatalogError::Refused(words));
            }
        }
    }
    let (to, drives_of) = (&request.to, &drives.drives);
    check_place(to, drives_of)?;
    fs::DirBuilder::new().mode(0o700).create(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => taken(to),
        _ => CatalogError::io("create", to)(error),
    })?;
    keep_all(request, &drives, &found).inspect_err(|_| {
        // It is ours: it was not there before, and without a manifest it is no backup.
        let _ = fs::remove_dir_all(to);
    })
}

fn taken(to: &Path) -> CatalogError {
    CatalogError::Refused(format!("{} is there already: a backup overwrites nothing", to.display()))
}

/// Refuses a place that is taken, or lies on one of the drives.
fn check_place(to: &Path, drives: &[Placed]) -> Result<(), CatalogError> {
    if to.symlink_metadata().is_ok() {
        return Err(taken(to));
    }
    let parent = to.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).map_err(CatalogError::io("find", parent))?;
    for drive in drives {
        let root = fs::canonicalize(&drive.root).map_err(CatalogError::io("find", &drive.root))?;
        if parent.starts_with(&root) {
            let (to, root) = (to.display(), root.display());
            return Err(CatalogError::Refused(format!("{to} lies on the drive {root}")));
        }
    }
    Ok(())
}

fn keep_all(
    request: &BackupRequest,
    drives: &Drives,
    buckets: &[String],
) -> Result<(Manifest, String), CatalogError> {
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let folders = tree::folders(buckets);
    let look = || {
        let each = drives.drives.iter().map(|drive| tree::list(&drive.root, &folders));
        each.collect::<Result<Vec<_>, _>>()
    };
    let mut before = look()?;
    for _ in 0..ATTEMPTS_MAX {
        let kept = copy(&request.to, drives, &before)?;
        let after = look()?;
        if after == before && kept.is_some() {
            let kept = kept.unwrap_or_default();
            return finish(request, drives, buckets, made_at, kept);
        }
        // Something happened in between: what was copied need not be of one moment.
        fs::remove_dir_all(request.to.join("drives"))
            .map_err(CatalogError::io("remove", &request.to))?;
        before = after;
    }
    Err(CatalogError::Unknown(format!(
        "the catalog changed during each of {ATTEMPTS_MAX} copies: keep writers out for a moment"
    )))
}

/// Copies every file; `None` when one is gone.
fn copy(
    to: &Path,
    drives: &Drives,
    lists: &[BTreeMap<String, Seen>],
) -> Result<Option<Vec<KeptDrive>>, CatalogError> {
    make_folders(&to.join("drives")).map_err(CatalogError::io("create", to))?;
    let mut kept = Vec::new();
    for (drive, files) in drives.drives.iter().zip(lists) {
        let Placed { root, set, slot, id } = drive;
        let folder = format!("drives/{set}-{slot}");
        let mut all = Vec::new();
        for path in files.keys() {
            let bytes = match fs::read(root.join(path)) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                read => read.map_err(CatalogError::io("read", &root.join(path)))?,
            };
            let copy = to.join(&folder).join(path);
            let made = copy.parent().map_or(Ok(()), make_folders);
            made.and_then(|()| write(&copy, &bytes)).map_err(CatalogError::io("write", &copy))?;
            let sha256 = Digest::of(&bytes).to_string();
            all.push(KeptFile { path: path.clone(), bytes: bytes.len() as u64, sha256 });
        }
        let (set, slot, format_id) = (*set, *slot, id.clone());
        kept.push(KeptDrive { folder, set, slot, format_id, files: all });
    }
    Ok(Some(kept))
}

/// Decodes the copies, writes the manifest, and flushes.
fn finish(
    request: &BackupRequest,
    drives: &Drives,
    buckets: &[String],
    made_at: u64,
    kept: Vec<KeptDrive>,
) -> Result<(Manifest, String), CatalogError> {
    let to = &request.to;
    let mut manifest = Manifest {
        format: manifest::FORMAT,
        made_at,
        release: request.release.clone(),
        made_by: env!("CARGO_PKG_VERSION").to_owned(),
        live: request.live,
        deployment: drives.deployment.clone(),
        sets: drives.sets,
        set_drives: drives.set_drives,
        is_cut_over: false,
        snapshot: None,
        fences: Vec::new(),
        warehouses: buckets.iter().map(|name| (name.clone(), KeptWarehouse::default())).collect(),
        objects: Vec::new(),
        drives: kept,
    };
    let copies = super::verify::copies(to, &manifest);
    contents::each(&copies, drives.set_drives, &tree::folders(buckets), |object| {
        note(&mut manifest, &object)
    })?;
    super::verify::files(to, &manifest)?;
    let mut bytes = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain JSON");
    bytes.push(b'\n');
    let path = to.join(manifest::NAME);
    write(&path, &bytes).map_err(CatalogError::io("write", &path))?;
    flush_folders(to).map_err(CatalogError::io("flush", to))?;
    let parent = to.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    flush(parent).map_err(CatalogError::io("flush", parent))?;
    Ok((manifest, Digest::of(&bytes).to_string()))
}

/// Enters an object into the manifest, with what it says of the catalog.
fn note(manifest: &mut Manifest, object: &Object) -> Result<(), CatalogError> {
    let Object { bucket, key, contents } = object;
    let sha256 = Digest::of(contents).to_string();
    let (bucket, key) = (bucket.clone(), key.clone());
    let bytes = contents.len() as u64;
    match key.rsplit('/').next() {
        Some("firedrill-cut-over.json") => manifest.is_cut_over = true,
        Some("durable-strong-fence.json" | "durable-strong-global-fence.json") => {
            manifest.fences.push(key.clone());
        }
        _ => {}
    }
    let json = || -> Result<Value, CatalogError> {
        serde_json::from_slice(contents)
            .map_err(|error| CatalogError::Broken(format!("{key} is no JSON: {error}")))
    };
    if key.ends_with("/strong-backing/snapshot.json") {
        let value = json()?;
        let version = value.get("version").and_then(Value::as_u64).unwrap_or_default();
        manifest.snapshot = Some(KeptSnapshot { version, bytes, sha256: sha256.clone() });
        for table in value.get("tables").and_then(Value::as_array).into_iter().flatten() {
            enter(manifest, table, true);
        }
    } else if key.ends_with("/table-entry.json") && bucket == ".rustfs.sys" {
        enter(manifest, &json()?, false);
    } else if key.ends_with("/view-entry.json") && bucket == ".rustfs.sys" {
        let value = json()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let warehouse = manifest.warehouses.entry(text("table_bucket").to_owned()).or_default();
        if is_active(&value) {
            warehouse.views.push(format!("{}.{}", text("namespace"), text("view")));
        }
    }
    manifest.objects.push(KeptObject { bucket, key, bytes, sha256 });
    Ok(())
}

/// Whether an entry says that what it names is in use.
fn is_active(entry: &Value) -> bool {
    entry.get("state").and_then(Value::as_str).is_none_or(|state| state == "ACTIVE")
}

/// Enters a table that is served; one that is not is kept like any object.
fn enter(manifest: &mut Manifest, table: &Value, is_strong: bool) {
    let text = |name: &str| table.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !is_active(table) {
        return;
    }
    let pointer = KeptPointer {
        table_id: text("table_id"),
        metadata_location: text("metadata_location"),
        version_token: text("version_token"),
        generation: table.get("generation").and_then(Value::as_u64).unwrap_or_default(),
    };
    let name = format!("{}.{}", text("namespace"), text("table"));
    let warehouse = manifest.warehouses.entry(text("table_bucket")).or_default();
    let tables = if is_strong { &mut warehouse.strong_tables } else { &mut warehouse.tables };
    tables.insert(name, pointer);
}

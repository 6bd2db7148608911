//! What lies in a key's directories and belongs to no version.

use std::collections::BTreeMap;

use super::census::Surplus;
use super::census::SurplusKind;
use super::key::Key;
use super::walk::Named;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::layout;

/// Everything in the key's directories that no version on any drive owns.
pub(super) fn of_key(key: &Key<'_>) -> Vec<Surplus> {
    let owners = owners(key);
    let mut surplus = Vec::new();
    for (slot, dir) in key.dirs.iter().enumerate() {
        let Some(dir) = dir.filter(|_| key.seats[slot].root.is_some()) else { continue };
        let mut add = |kind, path: String, bytes| {
            let drive = key.seats[slot].name.clone();
            surplus.push(Surplus { drive, kind, path, bytes });
        };
        for (name, files) in dir.data_dirs.iter().filter(|(_, files)| !files.is_empty()) {
            let folder = if key.path.is_empty() {
                format!("{}/{name}", key.bucket)
            } else {
                format!("{}/{}/{name}", key.bucket, key.path)
            };
            match owners.get(name) {
                Some(object) => {
                    for file in files {
                        if let Some(kind) = judge_file(object, &file.name) {
                            add(kind, format!("{folder}/{}", file.name), file.bytes);
                        }
                    }
                }
                None => add(judge_dir(files), folder, files.iter().map(|file| file.bytes).sum()),
            }
        }
    }
    for (slot, meta) in key.held() {
        for name in meta.ownerless_inline() {
            let value = meta.inline_entries().find(|(other, _)| *other == name);
            surplus.push(Surplus {
                drive: key.seats[slot].name.clone(),
                kind: SurplusKind::OrphanInline,
                path: key.meta_path(),
                bytes: value.map_or(0, |(_, value)| value.len() as u64),
            });
        }
    }
    surplus
}

/// Data directories by name, each with a version that keeps its shards there on some drive.
fn owners<'a>(key: &'a Key<'_>) -> BTreeMap<String, &'a ObjectBody> {
    let mut owners = BTreeMap::new();
    for (_, meta) in key.held() {
        let objects = meta.versions().iter().filter_map(|version| version.as_object());
        for object in objects.filter(|object| !object.is_inline() && !object.is_remote()) {
            owners.insert(object.data_dir.hyphenated().to_string(), object);
        }
    }
    owners
}

/// What a file in a version's data directory is, unless it belongs there.
fn judge_file(object: &ObjectBody, name: &str) -> Option<SurplusKind> {
    if is_transient(name) {
        return Some(SurplusKind::Transient);
    }
    let Some(rest) = name.strip_prefix("part.") else { return Some(SurplusKind::Unknown) };
    let (number, kind) = rest.split_once('.').unwrap_or((rest, ""));
    let Ok(number) = number.parse::<usize>() else { return Some(SurplusKind::Unknown) };
    let is_listed = object.parts.iter().any(|part| part.number == number);
    match kind {
        "" if is_listed => None,
        // A newer server's proofs of the shards of a part.
        _ if kind.starts_with("integrity.") && is_listed => None,
        "" | "meta" => Some(SurplusKind::UploadLeftover),
        _ => Some(SurplusKind::Unknown),
    }
}

/// What a directory is that no version owns.
fn judge_dir(files: &[Named]) -> SurplusKind {
    let is_deleted = files.iter().any(|file| file.name.starts_with(layout::DELETE_DATA));
    if is_deleted || files.iter().all(|file| is_transient(&file.name)) {
        SurplusKind::Transient
    } else {
        SurplusKind::OrphanDataDir
    }
}

/// Marks that a write or a delete leaves until it has its quorum.
fn is_transient(name: &str) -> bool {
    matches!(name, layout::META_BACKUP | layout::MARKER_ROLLBACK)
        || name.starts_with(layout::RESERVE_DELETE)
        || name.starts_with(layout::DELETE_DATA)
        || name == ".rustfs-old-data-cleanup-receipt.json"
}

//! The records of replacements on the drives, as faults need them: read from their JSON by the names of its
//! keys, and never through the code of the node.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::disk::layout;
use crate::harness::testbed::DrivePlace;

/// What the name of an intent ends with.
const INTENT: &str = "_ahm_replacement_intent.json";

/// An intent on a drive.
#[derive(Debug, Clone)]
pub(super) struct Intent {
    /// The drive, `node/slot`.
    pub(super) drive: String,
    /// Its path, relative to the drive's root.
    pub(super) path: String,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    json: Value,
}

impl Intent {
    fn text(&self, key: &str) -> String {
        self.json[key].as_str().unwrap_or_default().to_owned()
    }

    /// Whether it has neither stepped back nor come to its end.
    pub(super) fn is_open(&self) -> bool {
        self.text("replacement_phase") != "abandoned"
    }

    /// Its targets' endpoints.
    pub(super) fn targets(&self) -> Vec<String> {
        let targets = self.json["replacement_targets"].as_array().into_iter().flatten();
        targets.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    }

    /// Its set, as records spell it.
    pub(super) fn set(&self) -> String {
        self.text("set_disk_id")
    }

    /// Where its seal lies.
    pub(super) fn seal_path(&self) -> String {
        self.path.replace(INTENT, "_ahm_replacement_intent_seal")
    }
}

/// Every intent on the drives that are mounted and can be read. Bytes that are no JSON count as an empty record.
pub(super) fn intents(places: &[DrivePlace]) -> Vec<Intent> {
    let mut intents = Vec::new();
    for place in places.iter().filter(|place| place.mounted) {
        for (path, bytes) in read(&place.root).unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if !path.starts_with(layout::REPLACEMENT) || !name.ends_with(INTENT) {
                continue;
            }
            intents.push(Intent {
                drive: place.name.clone(),
                json: serde_json::from_slice(&bytes).unwrap_or_default(),
                path,
                bytes,
            });
        }
    }
    intents
}

/// Every record and marker of a drive by its path, with its bytes. Locks and temporary files are none.
pub(super) fn read(root: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for folder in [layout::REPLACEMENT, layout::BUCKETS] {
        let entries = match fs::read_dir(root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            let is_aside = name.starts_with('.') || path.ends_with(layout::SWAP_LOCK);
            if layout::is_replacement(&path) && !is_aside {
                found.extend(read_one(root, &path)?.map(|bytes| (path, bytes)));
            }
        }
    }
    let marker = layout::HEALING.to_owned();
    found.extend(read_one(root, &marker)?.map(|bytes| (marker, bytes)));
    Ok(found)
}

fn read_one(root: &Path, path: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(root.join(path)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

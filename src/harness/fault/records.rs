//! The records of replacements on the drives, as faults need them: read from their JSON by the names of its
//! keys, and never through the code of the node.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::disk::layout;
use crate::harness::audit::replacement;
use crate::harness::testbed::DrivePlace;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;

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

    /// Where its ledger lies.
    pub(super) fn ledger_path(&self) -> String {
        let name = beside(&self.path, Record::Checkpoint);
        let name = name.rsplit('/').next().unwrap_or_default();
        format!("{}/{name}", names::LEDGERS)
    }

    /// Where its seal lies.
    pub(super) fn seal_path(&self) -> String {
        beside(&self.path, Record::Seal)
    }
}

/// The path of another record of the generation whose intent lies at `path`.
pub(super) fn beside(path: &str, record: Record) -> String {
    path.replace(Record::Intent.ending(), record.ending())
}

/// Every intent on the drives that are mounted and can be read. Bytes that are no JSON count as an empty record.
pub(super) fn intents(places: &[DrivePlace]) -> Vec<Intent> {
    let mut intents = Vec::new();
    for place in places.iter().filter(|place| place.mounted) {
        for (path, bytes) in read(&place.root).unwrap_or_default() {
            let name = path.rsplit('/').next().unwrap_or_default();
            if !path.starts_with(layout::REPLACEMENT) || !name.ends_with(Record::Intent.ending()) {
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
    let mut found = replacement::read(root)?;
    found.retain(|path, _| !path.rsplit('/').next().unwrap_or_default().starts_with('.'));
    Ok(found)
}

//! What a backup says of itself: the last file of it that is written, without which it is none.

use serde::Deserialize;
use serde::Serialize;

use super::kept::KeptFile;

/// The manifest's name in the backup.
pub const NAME: &str = "manifest.json";

/// `manifest.json` of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// 1.
    pub format: u32,
    /// When it was begun: seconds since 1970.
    pub made_at: u64,
    /// The drives: the anchor first, then the targets in the order given.
    pub drives: Vec<KeptDrive>,
}

/// What was kept of one drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDrive {
    /// Its folder in the backup: `anchor`, `target-0`, and so on.
    pub folder: String,
    /// Where it was mounted.
    pub root: String,
    /// Its id by its own format; `None` when it has none.
    pub format_id: Option<String>,
    /// Whether it has a marker, which is among the files then.
    pub has_marker: bool,
    /// The files, in the order of their paths.
    pub files: Vec<KeptFile>,
}

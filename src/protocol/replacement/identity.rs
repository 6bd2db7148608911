//! What a mounted target is: the fingerprint that records carry, and our own note beside it.
//!
//! Kernels recycle mount ids and device numbers, so the fingerprint of a swapped drive can equal that of the
//! drive it replaced. The note holds what does not come back: the file system's UUID and the drive's format
//! id. It is a separate file beside the intent and never part of a link, a handoff or an approval, so that a
//! released server reads our records as its own. A target without a note is *unknown*, never *the same*.

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::replacement::ids::GenerationId;

/// The fingerprint of one mounted target. Any difference in any member is a changed mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The drive's address, as configured.
    pub endpoint: String,
    /// The real path of the drive's root.
    pub canonical_path: String,
    /// Names of the disks below the file system, sorted; `<major>:<minor>` where the kernel names none.
    pub physical_device_ids: Vec<String>,
    /// `<mount id>:<st_dev>:<st_ino>` of the root, in decimal.
    pub filesystem_identity: String,
}

/// What the note says of one target; a member that is `None` was not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotedTarget {
    /// The drive's address, as configured.
    pub endpoint: String,
    /// The UUID in the file system's superblock.
    pub filesystem_uuid: Option<String>,
    /// The drive's own id in its `format.json`; `None` while it was blank.
    pub format_id: Option<String>,
}

/// The side-file: what the targets of one generation were when it was bound to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The format of this file: 1.
    pub format: u32,
    /// The generation that it lies beside.
    pub generation: GenerationId,
    /// Its targets, in their order.
    pub targets: Vec<NotedTarget>,
}

impl Note {
    /// The only format there is.
    pub const FORMAT: u32 = 1;

    /// The note in `bytes`; `None` when they are not one of `generation`: then nothing is known.
    pub fn parse(generation: GenerationId, bytes: &[u8]) -> Option<Self> {
        let note: Self = serde_json::from_slice(bytes).ok()?;
        (note.format == Self::FORMAT && note.generation == generation).then_some(note)
    }

    /// The bytes of this note: compact JSON, keys in the order of the struct.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a note is plain JSON")
    }
}

/// One target as it is mounted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Its fingerprint.
    pub identity: Identity,
    /// The UUID of its file system; `None` when the file system has none.
    pub filesystem_uuid: Option<String>,
    /// The drive's own id in its `format.json`; `None` when it is blank.
    pub format_id: Option<String>,
}

impl Mounted {
    /// Whether nothing has been formatted here yet.
    pub fn is_blank(&self) -> bool {
        self.format_id.is_none()
    }

    /// What the note says of this target from now on.
    pub fn noted(&self) -> NotedTarget {
        NotedTarget {
            endpoint: self.identity.endpoint.clone(),
            filesystem_uuid: self.filesystem_uuid.clone(),
            format_id: self.format_id.clone(),
        }
    }
}

/// Whether a target is still what a generation was bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Continuity {
    /// Fingerprint and note agree with what is mounted.
    Same,
    /// The fingerprint agrees, but no note says more: it may be another drive under recycled numbers.
    Unknown,
    /// It is not the same, and this is why.
    Changed(String),
}

/// Compares one target with the fingerprint that is `recorded` and with the note, if there is one.
///
/// A file system without a UUID is judged by its format id alone. A note that was taken while the drive
/// was blank says nothing against a drive that has been formatted since.
pub fn continuity(recorded: &Identity, note: Option<&NotedTarget>, now: &Mounted) -> Continuity {
    if *recorded != now.identity {
        return Continuity::Changed(format!(
            "recorded {} on {:?} at {}, mounted {} on {:?} at {}",
            recorded.filesystem_identity,
            recorded.physical_device_ids,
            recorded.canonical_path,
            now.identity.filesystem_identity,
            now.identity.physical_device_ids,
            now.identity.canonical_path,
        ));
    }
    let Some(note) = note.filter(|note| note.endpoint == recorded.endpoint) else {
        return Continuity::Unknown;
    };
    match (&note.filesystem_uuid, &now.filesystem_uuid) {
        (Some(noted), Some(now)) if noted != now => {
            return Continuity::Changed(format!("file system {now}, noted {noted}"));
        }
        (Some(noted), None) => {
            return Continuity::Changed(format!("file system without UUID, noted {noted}"));
        }
        _ => {}
    }
    match (&note.format_id, &now.format_id) {
        (Some(noted), Some(now)) if noted != now => {
            Continuity::Changed(format!("drive {now}, noted {noted}"))
        }
        (Some(noted), None) => Continuity::Changed(format!("a blank drive, noted {noted}")),
        _ if note.filesystem_uuid.is_none() && note.format_id.is_none() => Continuity::Unknown,
        _ => Continuity::Same,
    }
}

/// Whether `now` is another drive than the one that was `recorded`, and not the same one emptied: its file system
/// is another, or nothing is known of file systems and the fingerprint differs.
pub fn is_another_drive(recorded: &Identity, note: Option<&NotedTarget>, now: &Mounted) -> bool {
    let noted = note.and_then(|note| note.filesystem_uuid.as_ref());
    match (noted, &now.filesystem_uuid) {
        (Some(noted), Some(now)) => noted != now,
        _ => *recorded != now.identity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(uuid: Option<&str>, format: Option<&str>) -> Mounted {
        Mounted {
            identity: Identity {
                endpoint: "/d".to_owned(),
                canonical_path: "/d".to_owned(),
                physical_device_ids: vec!["loop0".to_owned()],
                filesystem_identity: "69:1792:2".to_owned(),
            },
            filesystem_uuid: uuid.map(str::to_owned),
            format_id: format.map(str::to_owned),
        }
    }

    #[test]
    fn a_drive_under_recycled_numbers_is_noticed_by_its_file_system() {
        let old = mounted(Some("a"), Some("1"));
        let compare = |now: &Mounted| continuity(&old.identity, Some(&old.noted()), now);
        assert_eq!(compare(&old), Continuity::Same);
        for other in [
            mounted(Some("b"), Some("1")),
            mounted(None, Some("1")),
            mounted(Some("a"), Some("2")),
            mounted(Some("a"), None),
        ] {
            assert!(matches!(compare(&other), Continuity::Changed(_)), "{other:?}");
        }
        let mut moved = old.clone();
        moved.identity.filesystem_identity = "70:1792:2".to_owned();
        assert!(matches!(compare(&moved), Continuity::Changed(_)));
    }

    #[test]
    fn without_a_note_nothing_is_the_same() {
        let drive = mounted(Some("a"), Some("1"));
        assert_eq!(continuity(&drive.identity, None, &drive), Continuity::Unknown);
        let blank_note = mounted(None, None).noted();
        assert_eq!(continuity(&drive.identity, Some(&blank_note), &drive), Continuity::Unknown);
    }

    #[test]
    fn a_note_taken_of_a_blank_drive_stands_after_its_format() {
        let blank = mounted(Some("a"), None);
        let formatted = mounted(Some("a"), Some("1"));
        let same = continuity(&blank.identity, Some(&blank.noted()), &formatted);
        assert_eq!(same, Continuity::Same);
    }
}

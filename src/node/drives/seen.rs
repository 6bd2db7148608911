//! What a drive turned out to be, and whether it belongs where it is: pure.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::disk::format::format_json::FormatJson;

/// What was found at the mount point of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// Nobody could look: its node does not answer, or has not looked yet.
    Unknown,
    /// Nothing is mounted there, or it cannot be opened.
    Absent {
        /// Why.
        reason: String,
    },
    /// It is a drive without a format.
    Blank,
    /// Its format cannot be read.
    Unreadable {
        /// Why.
        reason: String,
    },
    /// It has a format.
    Formatted {
        /// The format.
        format: Box<FormatJson>,
        /// Whether it holds no bucket.
        is_empty: bool,
    },
}

impl Seen {
    /// Its format, if it has one.
    pub fn format(&self) -> Option<&FormatJson> {
        match self {
            Self::Formatted { format, .. } => Some(format),
            _ => None,
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not reached"),
            Self::Absent { reason } => write!(f, "absent: {reason}"),
            Self::Blank => f.write_str("blank"),
            Self::Unreadable { reason } => write!(f, "unreadable: {reason}"),
            Self::Formatted { format, .. } => {
                let (set, slot) = format.place();
                write!(f, "set {set} slot {slot} of deployment {}", format.id)
            }
        }
    }
}

/// Why a drive is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// It belongs to another deployment.
    #[error("drive {drive} belongs to deployment {found}, expected was {expected}")]
    Deployment {
        /// The drive.
        drive: String,
        /// The deployment that it names.
        found: uuid::Uuid,
        /// Ours.
        expected: uuid::Uuid,
    },
    /// It names our deployment but another layout of it.
    #[error(
        "drive {drive} names deployment {deployment} with another set of drives than the quorum"
    )]
    Layout {
        /// The drive.
        drive: String,
        /// The deployment.
        deployment: uuid::Uuid,
    },
    /// It sits in another slot than it should.
    #[error(
        "drive {drive} holds the drive of set {found_set} slot {found_slot}, expected was set {expected_set} slot {expected_slot}"
    )]
    Slot {
        /// The drive.
        drive: String,
        /// The set that it names.
        found_set: usize,
        /// The slot that it names.
        found_slot: usize,
        /// The set of its endpoint.
        expected_set: usize,
        /// The slot of its endpoint.
        expected_slot: usize,
    },
}

/// Whether a drive with `format`, found at `(set, slot)`, belongs there.
///
/// # Errors
/// [`Misplaced`], by name.
pub fn admit(
    drive: &str,
    format: &FormatJson,
    reference: &FormatJson,
    (set, slot): (usize, usize),
) -> Result<(), Misplaced> {
    let drive = drive.to_owned();
    if format.id != reference.id {
        let (found, expected) = (format.id, reference.id);
        return Err(Misplaced::Deployment { drive, found, expected });
    }
    if !format.is_peer_of(reference) {
        return Err(Misplaced::Layout { drive, deployment: format.id });
    }
    let (found_set, found_slot) = format.place();
    if (found_set, found_slot) != (set, slot) {
        return Err(Misplaced::Slot {
            drive,
            found_set,
            found_slot,
            expected_set: set,
            expected_slot: slot,
        });
    }
    Ok(())
}

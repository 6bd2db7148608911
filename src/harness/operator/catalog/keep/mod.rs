//! Backups of a table catalog, on drives: what is kept, how it is proved, and how it comes back.
//!
//! The catalog's state is not reachable through S3, so a backup is a copy at the level of storage: of every drive
//! the catalog's own tree (object-backed state, fences, the strong snapshot), the metadata files of every table
//! bucket, and the buckets' own metadata, shard by shard. The data files of the tables are not kept.
//! A [`manifest`] has the digest of every file and of every object that the files decode to; the digest of the
//! manifest selects the backup. Drives may be in use: then everything is copied between two equal looks.

pub mod contents;
pub mod held;
pub mod manifest;
pub mod restore;
pub mod serve;
pub mod take;
pub mod tree;
pub mod verify;

use std::str::FromStr;

#[cfg(test)]
mod tests;

/// What the release can read that is to serve a restored catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Release {
    /// Fences, and snapshots of versions 1 and 2.
    #[default]
    Current,
    /// Snapshots, but no fences.
    WithoutFences,
    /// Fences, but only snapshots of version 1.
    SnapshotV1,
}

impl Release {
    const ALL: [(Self, &str); 3] = [
        (Self::Current, "current"),
        (Self::WithoutFences, "without-fences"),
        (Self::SnapshotV1, "snapshot-v1"),
    ];

    /// The newest version of a snapshot that it reads.
    pub fn snapshot_version_max(self) -> u64 {
        if self == Self::SnapshotV1 { 1 } else { 2 }
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        let names = Self::ALL.map(|(_, name)| name).join(", ");
        found.map(|(it, _)| *it).ok_or_else(|| format!("{text:?} is none of {names}"))
    }
}

//! What can go wrong on a drive, and whether it may have taken effect all the same.

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

use crate::value::ObjectKey;

/// Why a request to a drive was not answered with what was asked for.
///
/// It crosses the wire between nodes, so that it carries the kernel's number and not its error value.
/// Every value answers the one question that a caller has to ask: [`DriveError::effect`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DriveError {
    /// A system call failed.
    #[error("cannot {step} {path}: {}", errno_text(*errno))]
    Io {
        /// What was being done.
        step: DriveStep,
        /// The file or directory, relative to the drive.
        path: String,
        /// What the kernel said.
        errno: i32,
    },
    /// No space or no inodes are left.
    #[error("cannot {step} {path}: the drive is full")]
    Full {
        /// What was being done.
        step: DriveStep,
        /// The file or directory, relative to the drive.
        path: String,
    },
    /// The file system takes no writes.
    #[error("cannot {step} {path}: the drive is read-only")]
    ReadOnly {
        /// What was being done.
        step: DriveStep,
        /// The file or directory, relative to the drive.
        path: String,
    },
    /// Nothing is mounted at the drive's mount point.
    #[error("nothing is mounted at {root}")]
    Absent {
        /// The mount point.
        root: String,
    },
    /// Something else lies at the mount point than what was opened there. Nothing more is written.
    #[error("{root} holds device {found}, but device {opened} was opened there")]
    Swapped {
        /// The mount point.
        root: String,
        /// `st_dev` and inode when it was opened.
        opened: String,
        /// The same now, or why there is none.
        found: String,
    },
    /// A flush failed earlier. What it was to flush may be lost, so that the drive takes no writes until it
    /// has been opened and identified anew.
    #[error("a flush of {path} failed; no writes until the drive is identified anew")]
    Distrusted {
        /// What could not be flushed, relative to the drive.
        path: String,
    },
    /// The lock under which the step was to be taken is no longer granted here.
    #[error("lock {lock} on {resource} is not granted any more")]
    Fenced {
        /// What was locked.
        resource: ObjectKey,
        /// The lock.
        lock: Uuid,
    },
    /// There is no such file, version or record.
    #[error("there is no {path}")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// The bucket's directory is missing.
    #[error("the drive has no bucket {bucket}")]
    NoBucket {
        /// The bucket.
        bucket: String,
    },
    /// The bucket still holds something.
    #[error("bucket {bucket} still holds {path}")]
    BucketNotEmpty {
        /// The bucket.
        bucket: String,
        /// The first thing found in it.
        path: String,
    },
    /// A file's bytes are not what was written.
    #[error("{path} is corrupt: {detail}")]
    Corrupt {
        /// The file, relative to the drive.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The drive carries no format yet.
    #[error("the drive is blank")]
    Blank,
    /// The drive already carries another format.
    #[error("the drive carries another format")]
    Formatted,
    /// Another process owns the drive.
    #[error("another process owns {root}")]
    Leased {
        /// The mount point.
        root: String,
    },
    /// Somebody else holds the lock that the request needs.
    #[error("somebody else holds {path}")]
    Busy {
        /// The lock, relative to the drive.
        path: String,
    },
    /// This node does not own the drive yet, or not any more.
    #[error("the drive is not owned")]
    NotOwned,
    /// A name that cannot be stored, or a request that makes no sense.
    #[error("the request cannot be meant: {why}")]
    Illegal {
        /// What is wrong with it.
        why: String,
    },
    /// The drive was not asked: it is offline, suspect, or its queue is full.
    #[error("the drive was not asked: {why}")]
    NotAsked {
        /// Why not.
        why: String,
    },
    /// It did not answer in time.
    #[error("no answer within {waited_ms} ms")]
    Deadline {
        /// How long was waited.
        waited_ms: u64,
    },
    /// Its node was asked, and no answer arrived.
    #[error("the answer did not arrive: {why}")]
    Unreachable {
        /// What happened.
        why: String,
    },
}

/// The steps of work on a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveStep {
    /// Open or look up a file or directory.
    Open,
    /// Read from it.
    Read,
    /// Create a file or directory in the staging area.
    Stage,
    /// Write to a file in the staging area.
    Write,
    /// Flush a staged file or directory.
    SyncStaged,
    /// Make directories on the way to a key.
    MakeParents,
    /// Keep a copy of what is about to be replaced.
    Backup,
    /// Move staged shards into place.
    PlaceData,
    /// Rename to the final name: the point of no return.
    Publish,
    /// Flush the directory that holds the final name.
    SyncPublished,
    /// Remove or move away what is no longer needed.
    CleanUp,
}

/// What a failed request left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The drive reads as if it had never been asked.
    None,
    /// It may or may not be there, now or after a restart.
    Unknown,
}

impl DriveError {
    /// Whether the request may have taken effect in spite of this error.
    ///
    /// Decided by the step that failed and not by the kernel's number: calling a harmless failure
    /// ambiguous weakens a check, calling an ambiguous one harmless makes it lie.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Io { step, .. } | Self::Full { step, .. } | Self::ReadOnly { step, .. } => {
                step.effect()
            }
            Self::Deadline { .. } | Self::Unreachable { .. } => Effect::Unknown,
            Self::Absent { .. }
            | Self::Swapped { .. }
            | Self::Distrusted { .. }
            | Self::Fenced { .. }
            | Self::NotFound { .. }
            | Self::NoBucket { .. }
            | Self::BucketNotEmpty { .. }
            | Self::Corrupt { .. }
            | Self::Blank
            | Self::Formatted
            | Self::Leased { .. }
            | Self::Busy { .. }
            | Self::NotOwned
            | Self::Illegal { .. }
            | Self::NotAsked { .. } => Effect::None,
        }
    }

    /// Whether the drive answered, and what it lacks is simply not there.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NoBucket { .. })
    }

    /// Whether the drive answered, and cannot read what it has.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Io { step, .. } => *step == DriveStep::Read,
            _ => false,
        }
    }

    /// An error of the kernel, by its meaning.
    pub fn from_errno(step: DriveStep, path: &str, errno: i32) -> Self {
        let path = path.to_owned();
        match nix::errno::Errno::from_raw(errno) {
            nix::errno::Errno::ENOSPC | nix::errno::Errno::EDQUOT => Self::Full { step, path },
            nix::errno::Errno::EROFS => Self::ReadOnly { step, path },
            nix::errno::Errno::ENOENT if matches!(step, DriveStep::Open | DriveStep::Read) => {
                Self::NotFound { path }
            }
            _ => Self::Io { step, path, errno },
        }
    }
}

impl DriveStep {
    /// What a failure of this step leaves behind.
    pub fn effect(self) -> Effect {
        match self {
            Self::Publish | Self::SyncPublished | Self::CleanUp => Effect::Unknown,
            Self::Open
            | Self::Read
            | Self::Stage
            | Self::Write
            | Self::SyncStaged
            | Self::MakeParents
            | Self::Backup
            | Self::PlaceData => Effect::None,
        }
    }
}

impl std::fmt::Display for DriveStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Stage => "create",
            Self::Write => "write",
            Self::SyncStaged => "flush",
            Self::MakeParents => "make the directories of",
            Self::Backup => "back up",
            Self::PlaceData => "move the shards to",
            Self::Publish => "publish",
            Self::SyncPublished => "flush the name of",
            Self::CleanUp => "remove",
        })
    }
}

fn errno_text(errno: i32) -> &'static str {
    nix::errno::Errno::from_raw(errno).desc()
}

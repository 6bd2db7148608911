//! Why an operator's tool stops.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::protocol::replacement::prepare::Refused;
use crate::protocol::replacement::refusal::Refusal;

/// What an error of a tool leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: every drive is as it was.
    None,
    /// Perhaps what was to be written, and nothing else: look before the next attempt.
    Unknown,
}

/// Why an operator's tool stops.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// An approval is refused by number.
    #[error("{}: {}", .0.number(), .0)]
    Refused(Refused),
    /// The record of a generation stops the tool, as it stops recovery.
    #[error("{}: {}; what to do: {}", .0.number(), .0, .0.remedy())]
    Stops(Refusal),
    /// What was typed names no generation.
    #[error("{0}")]
    NotAnId(String),
    /// Records were to be written without the operator's assertion.
    #[error("--write needs --stopped-all-writers: every node has to be down")]
    NotAsserted,
    /// A file of the drive's cannot be read.
    #[error("{} cannot be read whole: {words}", drive.display())]
    Unreadable {
        /// The drive's root.
        drive: PathBuf,
        /// Which, and why.
        words: String,
    },
    /// A node, or another tool, has the drive.
    #[error("somebody holds the lease of {}: stop every node", drive.display())]
    LeaseHeld {
        /// The drive's root.
        drive: PathBuf,
    },
    /// What was named as a drive is none.
    #[error(
        "{} is not a directory: mount the drive, and name its mount point",
        path.display()
    )]
    NotADrive {
        /// What was named.
        path: PathBuf,
    },
    /// Two drives are one.
    #[error("{} is named twice", drive.display())]
    NamedTwice {
        /// The drive's root.
        drive: PathBuf,
    },
    /// A file of the drive's is a link, a folder or a device.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// The anchor holds no record of any generation.
    #[error("{} holds no record of any replacement", path.display())]
    NoRecords {
        /// The folder that should.
        path: PathBuf,
    },
    /// The place of a backup is taken.
    #[error("{} is there already: a backup overwrites nothing", path.display())]
    Taken {
        /// The place.
        path: PathBuf,
    },
    /// A backup would lie on what it keeps.
    #[error("{} lies on the drive {}: keep it elsewhere", path.display(), drive.display())]
    OnTheDrive {
        /// The place.
        path: PathBuf,
        /// The drive.
        drive: PathBuf,
    },
    /// A file is not what it was a moment ago.
    #[error("{} changed meanwhile: is every node stopped?", path.display())]
    Changed {
        /// The file of the drive's.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {step} {}", path.display())]
    Io {
        /// What was being done.
        step: &'static str,
        /// To what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Some records were written, and the next could not be.
    #[error("{done} of the records were written: run it again")]
    HalfWay {
        /// How many.
        done: usize,
        /// Why not the next.
        source: Box<OperatorError>,
    },
    /// What was written may be lost at a loss of power, or may stay.
    #[error("whether what was written is durable is not known, cannot flush {}", path.display())]
    Unflushed {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl OperatorError {
    /// What the error leaves behind on the drives.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unflushed { .. } | Self::HalfWay { .. } => Effect::Unknown,
            _ => Effect::None,
        }
    }

    /// The names of those without a number.
    const NAMES: [&str; 14] = [
        "not_an_id",
        "not_asserted",
        "unreadable",
        "lease_held",
        "not_a_drive",
        "named_twice",
        "not_a_file",
        "no_records",
        "taken",
        "on_the_drive",
        "changed",
        "io",
        "half_way",
        "unflushed",
    ];

    /// Whether some error has this [`code`](Self::code).
    pub fn has_code(code: &str) -> bool {
        Self::NAMES.contains(&code)
            || Refusal::TABLE.iter().any(|row| row.1 == code)
            || Refused::NUMBERS.map(|number| format!("P{number}")).any(|number| number == code)
    }

    /// By what a caller tells it from others: its number, or its name where it has none.
    pub fn code(&self) -> String {
        let name = match self {
            Self::Refused(refused) => return refused.number(),
            Self::Stops(refusal) => return refusal.number().to_owned(),
            Self::NotAnId(_) => "not_an_id",
            Self::NotAsserted => "not_asserted",
            Self::Unreadable { .. } => "unreadable",
            Self::LeaseHeld { .. } => "lease_held",
            Self::NotADrive { .. } => "not_a_drive",
            Self::NamedTwice { .. } => "named_twice",
            Self::NotAFile { .. } => "not_a_file",
            Self::NoRecords { .. } => "no_records",
            Self::Taken { .. } => "taken",
            Self::OnTheDrive { .. } => "on_the_drive",
            Self::Changed { .. } => "changed",
            Self::Io { .. } => "io",
            Self::HalfWay { .. } => "half_way",
            Self::Unflushed { .. } => "unflushed",
        };
        debug_assert!(Self::NAMES.contains(&name), "{name} has to stand among the names");
        name.to_owned()
    }

    /// Wraps what the operating system said when it was told to do `step` to `path`.
    pub(super) fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { step, path: path.to_owned(), source }
    }
}

impl From<Refused> for OperatorError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

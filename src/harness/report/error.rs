//! What can go wrong with the files of a run.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::harness::workload::record::HistoryError;

/// Why a file of a run could not be written, read or rendered.
///
/// A file is written beside its name and renamed into place, so that after an error the name holds
/// what it held before.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody newer wrote it.
    #[error("{} has format {found}, newer than {newest}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is understood.
        newest: u32,
    },
    /// It does not hold what its name says.
    #[error("{}{} is malformed", path.display(), Line(*line))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The history is no history.
    #[error("cannot read the history in {}", path.display())]
    History {
        /// The directory of the run.
        path: PathBuf,
        /// Why.
        source: HistoryError,
    },
    /// The path holds no run.
    #[error("{} holds no run: neither a verdict.json nor a plan.json is in it or right below", path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
    },
    /// A run was recorded there before.
    #[error("{} already holds a run", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// A page could not be rendered: a mistake of ours.
    #[error("cannot render {page}")]
    Page {
        /// Which page.
        page: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ReportError {
    /// For `map_err` on what the operating system answers.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// A line number that is left out when there is none.
struct Line(u64);

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ":{}", self.0) }
    }
}

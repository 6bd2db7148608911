//! Why a tool of the catalog cannot do its work at all.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::harness::report::ReportError;

/// Why a tool of the catalog cannot do its work at all. That a server refuses is no error but a stop of a step.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A refusal: nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// Nobody can tell what was done.
    #[error("{0}")]
    Unknown(String),
    /// A promise is broken.
    #[error("{0}")]
    Broken(String),
    /// This machine, or the server, lacks what was asked for.
    #[error("{0}")]
    Lacking(String),
    /// Another process works in the run's folder.
    #[error("another rehearsal works in {}", path.display())]
    InUse {
        /// The folder.
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
    /// A file of the run could not be written or read.
    #[error(transparent)]
    File(#[from] ReportError),
}

impl CatalogError {
    /// Wraps what the operating system said when it was told to do `step` to `path`.
    pub fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { step, path: path.to_owned(), source }
    }
}

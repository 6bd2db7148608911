//! What can go wrong when the testbed acts on the machine.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Why the testbed could not do what it was asked.
///
/// Whatever had been made by then stands in the ledger and is undone by the teardown.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// This machine cannot do it. Nothing was made.
    #[error("this machine lacks {what}: {how}")]
    Lacking {
        /// What is missing.
        what: String,
        /// How to get it.
        how: String,
    },
    /// A system call failed.
    #[error("cannot {step} {}", path.display())]
    Io {
        /// What was being done.
        step: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A tool that we start failed.
    #[error("{tool} failed: {words}")]
    Tool {
        /// Its name.
        tool: &'static str,
        /// What it said.
        words: String,
    },
    /// A state that was waited for did not come.
    #[error("waited {} ms for {state}", waited.as_millis())]
    Late {
        /// The state.
        state: String,
        /// For how long.
        waited: Duration,
    },
    /// A node's process ended although nobody had asked it to.
    #[error("node {node} ended by itself ({status}); its last line: {last_line:?}")]
    NodeEnded {
        /// The node.
        node: usize,
        /// How it ended.
        status: String,
        /// The last line of its log.
        last_line: String,
    },
    /// The node does not run.
    #[error("node {node} does not run")]
    NotRunning {
        /// The node.
        node: usize,
    },
    /// The node runs already.
    #[error("node {node} runs already")]
    Running {
        /// The node.
        node: usize,
    },
    /// There is no such drive, or its slot is empty now.
    #[error("drive {drive} is not there: {reason}")]
    NoDrive {
        /// `node/slot`.
        drive: String,
        /// Why.
        reason: String,
    },
    /// Something else than planned stands where something of ours should be made.
    #[error("{} is taken: {reason}", path.display())]
    Taken {
        /// Where.
        path: PathBuf,
        /// By what.
        reason: String,
    },
}

impl TestbedError {
    /// For `map_err`: a failed system call.
    pub(crate) fn io(step: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { step, path, source }
    }

    /// For `map_err`: a failed call of `nix`.
    pub(crate) fn errno(
        step: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(nix::errno::Errno) -> Self {
        let path = path.as_ref().to_owned();
        move |errno| Self::Io { step, path, source: errno.into() }
    }
}

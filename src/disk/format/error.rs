//! Why bytes are not what they should be.

/// Why bytes do not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// They end too early.
    #[error("the bytes end at {at} where {what} should be")]
    Truncated {
        /// Offset in the decoded block.
        at: usize,
        /// What was being read.
        what: &'static str,
    },
    /// They are something else.
    #[error("byte {at} is not {what}")]
    Malformed {
        /// Offset in the decoded block.
        at: usize,
        /// What was being read.
        what: &'static str,
    },
    /// A checksum does not match.
    #[error("the checksum of {what} does not match")]
    Checksum {
        /// What it covers.
        what: &'static str,
    },
    /// The format is newer than we know.
    #[error("{what} has version {version}, which is not known")]
    Version {
        /// What is newer.
        what: &'static str,
        /// Its version.
        version: String,
    },
    /// The parts decode but do not fit each other.
    #[error("{what}")]
    Contradiction {
        /// Which rule is broken.
        what: String,
    },
}

impl FormatError {
    pub(crate) fn contradiction(what: impl Into<String>) -> Self {
        Self::Contradiction { what: what.into() }
    }
}

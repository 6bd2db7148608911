//! The census of existing drives: reads only, and shares only the format with the node.

pub mod census;

use std::path::PathBuf;

use crate::harness::audit::census::Census;

/// One drive to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveSource {
    /// How reports name it, `node/slot` or a path.
    pub name: String,
    /// Where its root is. A path that does not exist is a drive that is missing.
    pub root: PathBuf,
}

/// How closely to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOptions {
    /// Whether SHA-256 of every version's contents is computed.
    pub digests: bool,
    /// Whether contents are compared with the ETags and checksums stored with them.
    pub contents: bool,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { digests: true, contents: true, threads: 0 }
    }
}

/// Why no census could be taken.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// No drive was named.
    #[error("no drive was named")]
    NoDrives,
    /// No two drives belong to one deployment, or none is formatted.
    #[error("no drive carries a format.json that a majority of the drives agrees with")]
    NoDeployment,
}

/// Takes the census of one deployment. `drives` need not be in order; one that is missing, blank or foreign is
/// reported as such.
///
/// # Errors
///
/// See [`AuditError`]. What is wrong on a drive is no error but a part of the census.
pub fn take(drives: &[DriveSource], options: &AuditOptions) -> Result<Census, AuditError> {
    let _ = (drives, options);
    unimplemented!("being written")
}

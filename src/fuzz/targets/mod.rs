//! The targets: every decoder of ours that reads from a drive or from the network.
//!
//! Left out: what libraries decode before we see it (HTTP heads, the XML bodies of S3 requests, chunk framing; the
//! tests of a running node send those), and what reads a kernel's own files.

pub(super) mod access;
mod disk;
#[cfg(feature = "iceberg")]
mod iceberg;
pub(super) mod network;
pub(super) mod peer;
mod records;
mod replacement;
mod run_files;

use super::Target;

/// All of them.
pub fn all() -> Vec<Target> {
    [
        disk::TARGETS,
        records::TARGETS,
        replacement::TARGETS,
        peer::TARGETS,
        network::TARGETS,
        access::TARGETS,
        run_files::TARGETS,
        #[cfg(feature = "iceberg")]
        iceberg::TARGETS,
    ]
    .concat()
}

//! THE STORAGE NODE: the protocols and the drives, served over S3, an admin interface and peer RPC.
//!
//! `seams` has the few traits across which the parts meet: a drive that is asked and answers, a
//! lock that is held, a policy that a rehearsal may break.

pub mod control;
pub mod defects;
pub mod drives;
pub mod locks;
pub mod peer;
pub mod seams;
pub mod startup;
pub mod store;

use std::path::Path;
use std::process::ExitCode;

/// Runs one node until it is told to end; see `cli::node`.
pub fn run(config: &Path) -> ExitCode {
    let _ = config;
    ExitCode::FAILURE
}

//! `firedrill node`: one storage node, until it is told to end.
//!
//! The command line names one file and nothing else: secrets stand in files that the configuration
//! names, and what a rehearsal wants arrives over an inherited descriptor (`protocol::control`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Runs one storage node in the foreground; SIGTERM ends it cleanly.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    /// The node's configuration (YAML).
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Runs the node and answers its exit code: 0 after a clean end, 64 for a configuration that cannot be
/// used, 70 when the node failed.
///
/// It starts its own runtime: the caller must not be in one.
pub fn run(args: &NodeArgs) -> ExitCode {
    crate::node::run(&args.config)
}

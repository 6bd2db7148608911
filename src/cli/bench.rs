//! `firedrill bench`: the figures of this machine and this build, as a table.

use clap::Args;

use super::Exit;

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Figures; all when none is named
    pub names: Vec<String>,
}

/// Measures what `arguments` name.
pub fn run(arguments: &BenchArgs) -> Exit {
    let _ = arguments;
    Exit::Internal
}

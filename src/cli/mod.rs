//! The command line: one file a subcommand, and how a command ends.
//!
//! [`main`] is called by the binary after it has entered its namespaces, where
//! [`wants_namespaces`] asks for them. Nothing is decided here: a command parses its arguments, calls
//! the harness and prints what it is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Parser;
use clap::Subcommand;

use crate::out;

pub use exit::Exit;

pub mod audit;
pub mod bench;
pub mod catalog;
pub mod check;
pub mod clean;
pub mod doctor;
mod drives;
pub mod exit;
pub mod fuzz;
pub mod judge;
pub mod list;
pub mod node;
pub mod plan;
pub mod prove;
pub mod replacement;
pub mod report;
pub mod run;

/// Rehearses disasters on S3-compatible object storage and decides from outside whether every
/// promise to a client was kept.
#[derive(Debug, Clone, Parser)]
#[command(name = "firedrill", version, max_term_width = 100, after_help = EXITS)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The exit codes, as the help prints them.
const EXITS: &str = "Exit codes: 0 all held, 1 a promise was broken, 2 undecided, 3 a time objective \
was missed, 4 nothing matched or ran, 5 this machine lacks what was asked, 64 usage, 70 the harness \
failed, 75 something could not be cleaned up, 128+n a signal.";

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Rehearse scenarios (default: the quick suite, without canaries)
    Run(run::RunArgs),
    /// List the scenarios and their cases
    List(list::ListArgs),
    /// Validate scenarios without touching anything
    Check(check::CheckArgs),
    /// Print exactly what a run would create and destroy
    Plan(plan::PlanArgs),
    /// Take the census of existing drives, read-only
    Audit(audit::AuditArgs),
    /// Judge a finished run again from its files alone
    Judge(JudgeArgs),
    /// Run the canaries: each planted defect must be caught
    Prove(prove::ProveArgs),
    /// Render, merge or compare finished runs
    Report(report::ReportArgs),
    /// Operator tools of drive replacement, on the drives of a stopped cluster
    Replacement(replacement::ReplacementArgs),
    /// Operator tools of the table catalog: its cutover rehearsed, its steps one by one, backups
    Catalog(catalog::CatalogArgs),
    /// Enumerate crash states (not built yet)
    Explore(RestArgs),
    /// Measure this machine and this build
    Bench(bench::BenchArgs),
    /// Feed hostile bytes to every decoder that reads from a drive or the network
    Fuzz(fuzz::FuzzArgs),
    /// Say what this machine can rehearse, and what to install for the rest
    Doctor(doctor::DoctorArgs),
    /// Remove what killed runs left behind
    Clean(clean::CleanArgs),
    /// Run one storage node
    Node(node::NodeArgs),
}

/// Arguments of `judge`.
#[derive(Debug, Clone, Args)]
pub struct JudgeArgs {
    /// A run directory
    pub run: PathBuf,
}

/// Whatever follows a command that is not built yet.
#[derive(Debug, Clone, Args)]
pub struct RestArgs {
    /// Ignored
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub rest: Vec<OsString>,
}

/// Whether the command that `arguments` name (the program's name first) mounts drives or starts
/// nodes, so that it must run in mount and PID namespaces of its own.
///
/// Anything that does not parse needs none: [`main`] will say what is wrong with it.
pub fn wants_namespaces(arguments: &[OsString]) -> bool {
    let Ok(cli) = Cli::try_parse_from(arguments) else {
        return false;
    };
    match cli.command {
        Command::Run(_) | Command::Prove(_) | Command::Bench(_) => true,
        Command::Audit(arguments) => arguments.drives.iter().any(|drive| drive.is_file()),
        Command::Replacement(arguments) => arguments.names_images(),
        _ => false,
    }
}

/// Does what `arguments` (the program's name first) ask for.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Held };
            // Nothing is left to be told when the terminal is gone.
            let _ = error.print();
            return exit.into();
        }
    };
    let exit = match cli.command {
        Command::Node(arguments) => return node::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Judge(arguments) => judge::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Clean(arguments) => clean::run(&arguments),
        Command::Replacement(arguments) => replacement::run(&arguments),
        Command::Catalog(arguments) => catalog::run(&arguments),
        Command::Explore(_) => not_built("explore"),
    };
    // Whoever keeps what was printed has not got all of it.
    let is_whole = exit != Exit::Held || !out::has_failed();
    if is_whole { exit } else { Exit::Internal }.into()
}

/// Says that a command is a promise so far.
fn not_built(command: &str) -> Exit {
    eprintln!("firedrill {command}: not built yet in version {}", env!("CARGO_PKG_VERSION"));
    Exit::Lacking
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_commands_that_mount_or_start_nodes_want_namespaces() {
        let wants = |line: &str| {
            let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
            wants_namespaces(&arguments)
        };
        assert!(wants("firedrill run"));
        assert!(wants("firedrill prove --repeat 2"));
        assert!(wants("firedrill bench"));
        let quiet = [
            "list",
            "doctor",
            "clean",
            "fuzz --cases 1",
            "judge x",
            "node --config n.yaml",
            "replacement status drive",
            "catalog verify --backup kept",
            "run --nonsense",
        ];
        for line in quiet {
            assert!(!wants(&format!("firedrill {line}")), "{line}");
        }
    }
}

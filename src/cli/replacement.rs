//! `firedrill replacement`: the operator's tools of drive replacement, on the drives of a stopped cluster.
//!
//! Exit codes: 0 done, or everything was told; 2 something could not be read, or the status is not definitive, or
//! whether what was written is durable is not known; 64 a refusal, which left every drive as it was.

use std::io;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;

use super::Exit;
use super::drives;
use crate::harness::audit::DriveSource;
use crate::harness::operator::backup;
use crate::harness::operator::backup::BackupRequest;
use crate::harness::operator::error::Effect;
use crate::harness::operator::error::OperatorError;
use crate::harness::operator::generations;
use crate::harness::operator::manifest;
use crate::harness::operator::prepare;
use crate::harness::operator::prepare::Prepared;
use crate::harness::operator::rearm;
use crate::harness::operator::rearm::RearmRequest;
use crate::harness::operator::status;
use crate::harness::operator::stopped;
use crate::harness::report::Chain;

mod print;

/// Arguments of `replacement`.
#[derive(Debug, Clone, Args)]
pub struct ReplacementArgs {
    /// Which tool.
    #[command(subcommand)]
    pub tool: Tool,
}

/// The tools.
#[derive(Debug, Clone, Subcommand)]
pub enum Tool {
    /// Propose the approval that imports legacy records into one successor; with --write, publish it
    PrepareMigration(PrepareArgs),
    /// Keep the survivor's records and the targets' markers, with their digests
    Backup(BackupArgs),
    /// Give an exhausted generation its failure budget back, after its cause was removed
    Rearm(RearmArgs),
    /// List every generation by set and slot, and say which are orphaned
    Orphans(LookArgs),
    /// Say how each generation stands, what stops it, and what may be done
    Status(LookArgs),
}

/// Arguments of `replacement prepare-migration`.
#[derive(Debug, Clone, Args)]
pub struct PrepareArgs {
    /// The root of the survivor drive that holds the records
    #[arg(long, value_name = "DIR")]
    pub anchor: Option<String>,
    /// A legacy generation to be imported (again for each of them)
    #[arg(long = "source", value_name = "UUID")]
    pub sources: Vec<String>,
    /// A target's endpoint as the records have it, and where the drive is mounted (again for each of them)
    #[arg(long = "target", value_name = "ENDPOINT=DIR")]
    pub targets: Vec<String>,
    /// A fresh id for the generation that takes over
    #[arg(long, value_name = "UUID")]
    pub successor: Option<String>,
    /// Publish the approval; without it, it is only printed
    #[arg(long)]
    pub write: bool,
    /// You assert that every node of the cluster is stopped
    #[arg(long)]
    pub stopped_all_writers: bool,
}

/// Arguments of `replacement backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The root of the survivor drive that holds the records
    #[arg(long, value_name = "DIR")]
    pub anchor: PathBuf,
    /// The root of a target (again for each of them)
    #[arg(long = "target", value_name = "DIR", required = true)]
    pub targets: Vec<PathBuf>,
    /// The folder to be made; not on any of the drives
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// Arguments of `replacement rearm`.
#[derive(Debug, Clone, Args)]
pub struct RearmArgs {
    /// The root of the survivor drive that holds the record
    #[arg(long, value_name = "DIR")]
    pub anchor: PathBuf,
    /// The generation
    #[arg(long, value_name = "UUID")]
    pub generation: String,
    /// Save the record; without it, what would be written is only said
    #[arg(long)]
    pub write: bool,
    /// You assert that every node of the cluster is stopped
    #[arg(long)]
    pub stopped_all_writers: bool,
}

/// Arguments of the tools that only look.
#[derive(Debug, Clone, Args)]
pub struct LookArgs {
    /// Drive roots or image files, best every drive of the set
    #[arg(required = true)]
    pub drives: Vec<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

impl ReplacementArgs {
    /// Whether images have to be mounted.
    pub fn names_images(&self) -> bool {
        match &self.tool {
            Tool::Orphans(look) | Tool::Status(look) => {
                look.drives.iter().any(|drive| drive.is_file())
            }
            Tool::PrepareMigration(_) | Tool::Backup(_) | Tool::Rearm(_) => false,
        }
    }
}

/// Does what the tool does.
pub fn run(arguments: &ReplacementArgs) -> Exit {
    match &arguments.tool {
        Tool::PrepareMigration(arguments) => prepare_migration(arguments),
        Tool::Backup(arguments) => keep(arguments),
        Tool::Rearm(arguments) => give_back(arguments),
        Tool::Orphans(look) => drives::with_mounted("replacement orphans", &look.drives, |them| {
            orphans(look, them).unwrap_or_else(|error| told("orphans", &error))
        }),
        Tool::Status(look) => drives::with_mounted("replacement status", &look.drives, |them| {
            stand(look, them).unwrap_or_else(|error| told("status", &error))
        }),
    }
}

/// Tells why a tool stops.
fn told(tool: &str, error: &OperatorError) -> Exit {
    eprintln!("firedrill replacement {tool}: {}", Chain(error));
    match error.effect() {
        Effect::None => Exit::Usage,
        Effect::Unknown => Exit::Undecided,
    }
}

/// A reader who has seen enough is no failure.
fn printed(tool: &str, result: io::Result<()>, exit: Exit) -> Exit {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("firedrill replacement {tool}: cannot print: {error}");
            Exit::Internal
        }
        _ => exit,
    }
}

fn prepare_migration(arguments: &PrepareArgs) -> Exit {
    let request = prepare::Request {
        anchor: arguments.anchor.clone(),
        sources: arguments.sources.clone(),
        targets: arguments.targets.clone(),
        successor: arguments.successor.clone(),
        write: arguments.write,
        stopped_all_writers: arguments.stopped_all_writers,
    };
    let tool = "prepare-migration";
    match prepare::run(&request) {
        Ok(Prepared::Proposed(bytes)) => {
            printed(tool, io::stdout().lock().write_all(&bytes), Exit::Held)
        }
        Ok(Prepared::Published(path)) => {
            printed(tool, writeln!(io::stdout(), "{}", path.display()), Exit::Held)
        }
        Err(error) => told(tool, &error),
    }
}

fn keep(arguments: &BackupArgs) -> Exit {
    let request = BackupRequest {
        anchor: arguments.anchor.clone(),
        targets: arguments.targets.clone(),
        to: arguments.to.clone(),
    };
    let manifest = match backup::run(&request) {
        Ok(manifest) => manifest,
        Err(error) => return told("backup", &error),
    };
    let count: usize = manifest.drives.iter().map(|drive| drive.files.len()).sum();
    let path = arguments.to.join(manifest::NAME);
    let drives = manifest.drives.len();
    let line = writeln!(io::stdout(), "{count} files of {drives} drives kept: {}", path.display());
    printed("backup", line, Exit::Held)
}

fn give_back(arguments: &RearmArgs) -> Exit {
    let request = RearmRequest {
        anchor: arguments.anchor.clone(),
        generation: arguments.generation.clone(),
        write: arguments.write,
        stopped_all_writers: arguments.stopped_all_writers,
    };
    let steps = match rearm::run(&request) {
        Ok(steps) => steps,
        Err(error) => return told("rearm", &error),
    };
    let mut lines = match (steps.is_empty(), arguments.write) {
        (true, _) => "its budget is not exhausted: nothing to do\n".to_owned(),
        (false, true) => "re-armed; written were\n".to_owned(),
        (false, false) => {
            "nothing was written; with --write --stopped-all-writers would be\n".to_owned()
        }
    };
    for (step, path) in steps {
        lines += &format!("  {path} ({step})\n");
    }
    printed("rearm", io::stdout().lock().write_all(lines.as_bytes()), Exit::Held)
}

fn orphans(look: &LookArgs, sources: &[DriveSource]) -> Result<Exit, OperatorError> {
    let drives = stopped::read_all(sources)?;
    let found = generations::find(&drives);
    let result = if look.json { print::json(&found) } else { print::generations(&found) };
    let is_whole = drives.iter().all(|drive| drive.problems.is_empty());
    let exit = if is_whole { Exit::Held } else { Exit::Undecided };
    Ok(printed("orphans", result, exit))
}

fn stand(look: &LookArgs, sources: &[DriveSource]) -> Result<Exit, OperatorError> {
    let drives = stopped::read_all(sources)?;
    let status = status::status(&drives);
    let result = if look.json { print::json(&status) } else { print::status(&status) };
    let exit = if status.definitive { Exit::Held } else { Exit::Undecided };
    Ok(printed("status", result, exit))
}

//! `firedrill catalog`: the operator's tools of the table catalog.
//!
//! Exit codes: 0 it held, or everything was told; 1 a promise is broken; 2 it is not over, or whether something was
//! done is not known; 5 a check is missing that the rehearsal asks for; 64 a refusal, a blocker or another answer than
//! expected, after which nothing more was sent.

use std::io;
use std::io::Write as _;

use clap::Args;
use clap::Subcommand;

use super::Exit;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::single::Single;
use crate::harness::operator::catalog::turn::Stop;
use crate::harness::operator::catalog::turn::StopKind;
use crate::harness::report::Chain;

mod keep;
mod reach;
mod rehearse;
mod single;

/// Arguments of `catalog`.
#[derive(Debug, Clone, Args)]
pub struct CatalogArgs {
    /// Which tool.
    #[command(subcommand)]
    pub tool: Tool,
}

/// The tools.
#[derive(Debug, Clone, Subcommand)]
pub enum Tool {
    /// Go through the cutover's runbook, or another rehearsal, step by step; a dry run without --execute
    Rehearse(Box<rehearse::RehearseArgs>),
    /// Say what stands in the way of a migration
    Preflight(single::SingleArgs),
    /// Fence a warehouse and copy it into the strong snapshot
    Migrate(single::ConfirmedArgs),
    /// Take a migration back, as long as nothing has moved on
    Cancel(single::ConfirmedArgs),
    /// Say how every node and warehouse stands
    Status(single::SingleArgs),
    /// Open a durable strong catalog to writers
    Admit(single::SingleArgs),
    /// Make the warehouse prefix index whole
    Backfill(single::SingleArgs),
    /// Keep the catalog's state, with digests, from the drives
    Backup(keep::BackupArgs),
    /// Restore a backup onto the drives of a stopped cluster
    Restore(keep::RestoreArgs),
    /// Verify a backup; with drives, that they hold what it kept
    Verify(keep::VerifyArgs),
}

/// Does what the tool does.
pub fn run(arguments: &CatalogArgs) -> Exit {
    match &arguments.tool {
        Tool::Rehearse(arguments) => rehearse::run(arguments),
        Tool::Preflight(arguments) => single::run(Single::Preflight, arguments),
        Tool::Migrate(arguments) => single::confirmed(Single::Migrate, arguments),
        Tool::Cancel(arguments) => single::confirmed(Single::Cancel, arguments),
        Tool::Status(arguments) => single::run(Single::Status, arguments),
        Tool::Admit(arguments) => single::run(Single::Admit, arguments),
        Tool::Backfill(arguments) => single::run(Single::Backfill, arguments),
        Tool::Backup(arguments) => keep::backup(arguments),
        Tool::Restore(arguments) => keep::restore(arguments),
        Tool::Verify(arguments) => keep::verify(arguments),
    }
}

/// Tells why a tool cannot do its work.
fn failed(tool: &str, error: &CatalogError) -> Exit {
    eprintln!("firedrill catalog {tool}: {}", Chain(error));
    match error {
        CatalogError::Usage(_) | CatalogError::Refused(_) | CatalogError::InUse { .. } => {
            Exit::Usage
        }
        CatalogError::Unknown(_) | CatalogError::Io { .. } => Exit::Undecided,
        CatalogError::Broken(_) => Exit::Broken,
        CatalogError::Lacking(_) => Exit::Lacking,
        CatalogError::File(_) => Exit::Internal,
    }
}

/// How a stop ends the process.
fn exit_of(stop: &Stop) -> Exit {
    match stop.kind {
        StopKind::Broken => Exit::Broken,
        StopKind::Lost | StopKind::Operator => Exit::Undecided,
        StopKind::Asked => Exit::Held,
        StopKind::Precondition | StopKind::Blocked | StopKind::Unexpected => Exit::Usage,
    }
}

/// Prints lines. A reader who has seen enough is no failure.
fn print(tool: &str, text: &str, exit: Exit) -> Exit {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("firedrill catalog {tool}: cannot print: {error}");
            Exit::Internal
        }
        _ => exit,
    }
}

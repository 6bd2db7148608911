//! Backups: taking, restoring, verifying.

use std::path::PathBuf;

use clap::Args;

use super::failed;
use super::print;
use crate::cli::Exit;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::keep::Release;
use crate::harness::operator::catalog::keep::manifest::Manifest;
use crate::harness::operator::catalog::keep::restore;
use crate::harness::operator::catalog::keep::restore::RestoreRequest;
use crate::harness::operator::catalog::keep::take;
use crate::harness::operator::catalog::keep::take::BackupRequest;
use crate::harness::operator::catalog::keep::verify;

/// Arguments of `catalog backup`.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// The roots of the drives, best of all of them
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<PathBuf>,
    /// A table bucket (again for each of them): all are kept, and these have to be all
    #[arg(long = "warehouse", value_name = "NAME")]
    pub warehouses: Vec<String>,
    /// The folder to be made; not on any of the drives
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Nodes may have the drives: everything is copied between two equal looks
    #[arg(long)]
    pub live: bool,
    /// The release of the servers, to be written down
    #[arg(long, value_name = "NAME", default_value = "not told")]
    pub release: String,
}

/// Arguments of `catalog restore`.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// The roots of the drives of a stopped cluster, all that the backup has
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<PathBuf>,
    /// The backup
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The digest that selects it, as `catalog backup` and `catalog verify` print it
    #[arg(long, value_name = "DIGEST")]
    pub selected: String,
    /// The release that is to serve it
    #[arg(long, value_name = "current|without-fences|snapshot-v1", default_value = "current")]
    pub release: Release,
    /// A backup of what stands on the drives now: exactly that is replaced
    #[arg(long, value_name = "DIR")]
    pub replaced: Option<PathBuf>,
    /// You assert that every node of the cluster is stopped
    #[arg(long)]
    pub stopped_all_writers: bool,
}

/// Arguments of `catalog verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The roots of drives that are to be held against it
    #[arg(value_name = "DRIVE")]
    pub drives: Vec<PathBuf>,
    /// The backup
    #[arg(long, value_name = "DIR")]
    pub backup: PathBuf,
    /// The digest that it has to have
    #[arg(long, value_name = "DIGEST")]
    pub selected: Option<String>,
}

/// What a backup holds, in lines.
fn told(manifest: &Manifest, digest: &str) -> String {
    let files: usize = manifest.drives.iter().map(|drive| drive.files.len()).sum();
    let mut text = format!(
        "{digest}\n{files} files of {} drives, {} objects, release {}\n",
        manifest.drives.len(),
        manifest.objects.len(),
        manifest.release
    );
    for (name, warehouse) in &manifest.warehouses {
        let (tables, strong) = (warehouse.tables.len(), warehouse.strong_tables.len());
        let views = warehouse.views.len();
        text +=
            &format!("{name}: {tables} tables, {views} views; {strong} tables in the snapshot\n");
    }
    if let Some(snapshot) = &manifest.snapshot {
        text += &format!("snapshot of version {}, {} bytes\n", snapshot.version, snapshot.bytes);
    }
    for fence in &manifest.fences {
        text += &format!("a fence stands: {fence}\n");
    }
    text
}

/// Takes a backup.
pub fn backup(arguments: &BackupArgs) -> Exit {
    let request = BackupRequest {
        drives: arguments.drives.clone(),
        warehouses: arguments.warehouses.iter().cloned().collect(),
        to: arguments.to.clone(),
        live: arguments.live,
        release: arguments.release.clone(),
    };
    match take::run(&request) {
        Ok((manifest, digest)) => print("backup", &told(&manifest, &digest), Exit::Held),
        Err(error) => failed("backup", &error),
    }
}

/// Restores one.
pub fn restore(arguments: &RestoreArgs) -> Exit {
    if !arguments.stopped_all_writers {
        let words = "it needs --stopped-all-writers: every node has to be down";
        return failed("restore", &CatalogError::Refused(words.to_owned()));
    }
    let request = RestoreRequest {
        from: arguments.from.clone(),
        selected: arguments.selected.clone(),
        drives: arguments.drives.clone(),
        release: arguments.release,
        replaced: arguments.replaced.clone(),
    };
    let restored = restore::run(&request)
        .and_then(|manifest| Ok((manifest, verify::against(&request.from, &request.drives)?)));
    match restored {
        Ok((manifest, found)) => {
            let text = format!("{}{found}\n", told(&manifest, &request.selected));
            print("restore", &text, Exit::Held)
        }
        Err(error) => failed("restore", &error),
    }
}

/// Verifies one.
pub fn verify(arguments: &VerifyArgs) -> Exit {
    let verified = verify::run(&arguments.backup).and_then(|(manifest, digest)| {
        if arguments.selected.as_ref().is_some_and(|selected| *selected != digest) {
            return Err(CatalogError::Refused(format!("the backup is {digest}")));
        }
        let mut text = told(&manifest, &digest);
        if !arguments.drives.is_empty() {
            text += &format!("{}\n", verify::against(&arguments.backup, &arguments.drives)?);
        }
        Ok(text)
    });
    match verified {
        Ok(text) => print("verify", &text, Exit::Held),
        Err(error) => failed("verify", &error),
    }
}

//! `firedrill bench`: the figures of this machine and this build, as a table.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tokio::runtime;

use super::Exit;
use super::run;
use super::run::Refused;
use crate::harness::runner::bench;
use crate::harness::runner::bench::Figure;
use crate::harness::runner::bench::s3::Target;

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Figures; when none is named, all but `s3`, which takes minutes
    pub names: Vec<String>,
    /// Have `s3` measure the server at this address (127.0.0.1:PORT) in place of the embedded node
    #[arg(long, requires = "access_key", requires = "secret_file")]
    pub peer: Option<SocketAddr>,
    /// The access key of the peer
    #[arg(long, requires = "peer")]
    pub access_key: Option<String>,
    /// The file that holds the secret key of the peer
    #[arg(long, requires = "peer")]
    pub secret_file: Option<PathBuf>,
}

/// Measures what `arguments` name, and prints a table.
pub fn run(arguments: &BenchArgs) -> Exit {
    for name in &arguments.names {
        if !bench::NAMES.contains(&name.as_str()) {
            eprintln!("firedrill bench: there is no figure `{name}`: {}", bench::NAMES.join(", "));
            return Exit::Usage;
        }
    }
    let peer = match peer(arguments) {
        Ok(peer) => peer,
        Err(message) => {
            eprintln!("firedrill bench: {message}");
            return Exit::Usage;
        }
    };
    match measure(&arguments.names, peer.as_ref()) {
        Ok(figures) => {
            if cfg!(debug_assertions) {
                println!("This is a debug build: its figures mean nothing.");
            }
            for figure in figures {
                let aim = match figure.aim {
                    "" => String::new(),
                    aim => format!("   aim {aim}"),
                };
                println!("{:<56} {:>22}{aim}", figure.name, figure.value);
            }
            Exit::Held
        }
        Err((exit, message)) => {
            eprintln!("{message}");
            exit
        }
    }
}

/// The server that is measured in place of the node.
fn peer(arguments: &BenchArgs) -> Result<Option<Target>, String> {
    let (Some(address), Some(access_key), Some(file)) =
        (arguments.peer, &arguments.access_key, &arguments.secret_file)
    else {
        return Ok(None);
    };
    if !address.ip().is_loopback() {
        return Err(format!("--peer {address}: only a server on this machine is measured"));
    }
    if arguments.names != ["s3"] {
        return Err("--peer is for the figure `s3` alone".to_owned());
    }
    let secret = std::fs::read_to_string(file);
    let secret = secret.map_err(|error| format!("{}: {error}", file.display()))?;
    let (access_key, secret_key) = (access_key.clone(), secret.trim_end().to_owned());
    Ok(Some(Target { address, access_key, secret_key }))
}

fn measure(names: &[String], peer: Option<&Target>) -> Result<Vec<Figure>, Refused> {
    if peer.is_none() {
        run::needs_root("bench")?;
    }
    let failed = |message: String| (Exit::Internal, format!("firedrill bench: {message}"));
    let program = run::program()?;
    let directory = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    runtime.block_on(bench::measure(names, directory.path(), program, peer)).map_err(failed)
}

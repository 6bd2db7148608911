//! `firedrill bench`: the figures of this machine and this build, as a table.

use clap::Args;
use tokio::runtime;

use super::Exit;
use super::run;
use super::run::Refused;
use crate::harness::runner::bench;
use crate::harness::runner::bench::Figure;

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Figures; all when none is named
    pub names: Vec<String>,
}

/// Measures what `arguments` name, and prints a table.
pub fn run(arguments: &BenchArgs) -> Exit {
    for name in &arguments.names {
        if !bench::NAMES.contains(&name.as_str()) {
            eprintln!("firedrill bench: there is no figure `{name}`: {}", bench::NAMES.join(", "));
            return Exit::Usage;
        }
    }
    match measure(&arguments.names) {
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

fn measure(names: &[String]) -> Result<Vec<Figure>, Refused> {
    run::needs_root("bench")?;
    let failed = |message: String| (Exit::Internal, format!("firedrill bench: {message}"));
    let program = run::program()?;
    let directory = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    runtime.block_on(bench::measure(names, directory.path(), program)).map_err(failed)
}

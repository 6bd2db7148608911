//! `firedrill run`: rehearses, and prints a verdict for every case.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::runtime;
use tokio::signal::unix;
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;

use super::Exit;
use crate::harness::report::Chain;
use crate::harness::report::render;
use crate::harness::report::terminal;
use crate::harness::report::terminal::Terminal;
use crate::harness::runner;
use crate::harness::runner::clients::Clients;
use crate::harness::runner::selection;
use crate::harness::runner::selection::Selection;
use crate::harness::runner::selection::Wanted;
use crate::harness::runner::suite::Ended;
use crate::harness::runner::suite::RunError;
use crate::harness::runner::suite::RunOptions;
use crate::harness::scenario::clients::RealClient;
use crate::harness::scenario::form::Suite;
use crate::harness::scenario::parse::Case;
use crate::harness::scenario::plan;
use crate::harness::scenario::plan::Overrides;
use crate::harness::scenario::plan::Plan;
use crate::harness::scenario::plan::Rung;
use crate::out::sayln;
use crate::value::Seed;

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Scenario files, folders, names, or `name[case]`
    pub scenarios: Vec<String>,
    /// The suite to run
    #[arg(long, value_name = "quick|nightly|release")]
    pub suite: Option<String>,
    /// The seed; drawn and printed when absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run every case so many times
    #[arg(long, default_value_t = 1)]
    pub repeat: u32,
    /// Run so many cases at once
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Run one shard of all cases
    #[arg(long, value_name = "hash:M/N")]
    pub partition: Option<String>,
    /// Run on this rung at least
    #[arg(long)]
    pub rung: Option<String>,
    /// Do not fail because this machine lacks a rung
    #[arg(long, value_name = "RUNG")]
    pub allow_lacking: Vec<String>,
    /// Run the cases in which this real client takes part, and no others (again for each of them)
    #[arg(long = "clients", value_name = "pyiceberg")]
    pub clients: Vec<String>,
    /// The virtual environment of real clients, made where it is not there (default: one that goes with the run)
    #[arg(long, value_name = "DIR")]
    pub client_venv: Option<PathBuf>,
    /// Declare this durability instead of the scenarios' own
    #[arg(long, value_name = "strict|relaxed")]
    pub durability: Option<String>,
    /// Where run directories are made
    #[arg(long, default_value = "reports")]
    pub report_dir: PathBuf,
    /// Keep the drives, as images in `drives/` of each case: `firedrill audit` reads them
    #[arg(long)]
    pub keep: bool,
    /// Stop after the first case that does not hold
    #[arg(long)]
    pub fail_fast: bool,
    /// Also write all results to this JUnit file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Rehearses what `arguments` name.
pub fn run(arguments: &RunArgs) -> Exit {
    match prepare(arguments) {
        Ok(options) => rehearse(options, arguments),
        Err((exit, message)) => {
            eprintln!("{message}");
            exit
        }
    }
}

/// A refusal before anything is created: how the command ends, and why.
pub(super) type Refused = (Exit, String);

/// Selects and plans; touches nothing.
fn prepare(arguments: &RunArgs) -> Result<RunOptions, Refused> {
    let usage = |message: String| (Exit::Usage, format!("firedrill run: {message}"));
    let suite = arguments.suite.as_deref().map(str::parse::<Suite>).transpose().map_err(usage)?;
    let partition = arguments.partition.as_deref().map(selection::partition).transpose();
    let partition = partition.map_err(usage)?;
    let overrides = Overrides::read(arguments.durability.as_deref(), arguments.rung.as_deref());
    let overrides = overrides.map_err(usage)?;
    let allowed = arguments.allow_lacking.iter().map(|rung| rung.parse::<Rung>());
    let allowed: Vec<Rung> = allowed.collect::<Result<_, _>>().map_err(usage)?;
    if arguments.jobs == 0 || arguments.repeat == 0 {
        return Err(usage("--jobs and --repeat are at least 1".to_owned()));
    }
    let seed = arguments.seed.map_or_else(draw, Seed);
    let clients = arguments.clients.iter().map(|name| name.parse::<RealClient>());
    let clients = clients.collect::<Result<_, _>>().map_err(usage)?;
    let names = arguments.scenarios.clone();
    let wanted = Wanted { names, suite, canaries: false, clients, seed };
    let mut selection =
        selection::select(&wanted).map_err(|error| (Exit::Usage, error.to_string()))?;
    if let Some(partition) = partition {
        selection.keep_shard(partition);
    }
    if selection.cases.is_empty() {
        return Err((Exit::Nothing, "firedrill run: no case matches".to_owned()));
    }
    needs_root("run")?;
    let Selection { cases, drawn } = selection;
    let plans = plans(&cases, seed, arguments.repeat, overrides)?;
    fits(&plans, arguments.jobs)?;
    Ok(RunOptions {
        plans,
        seed,
        command: command(seed),
        partition,
        drawn,
        jobs: arguments.jobs,
        fail_fast: arguments.fail_fast,
        keep: arguments.keep,
        may_lack: allowed,
        report_dir: arguments.report_dir.clone(),
        program: program()?,
        clients: Arc::new(Clients::new(arguments.client_venv.clone())),
    })
}

/// A seed that a person can type.
pub(super) fn draw() -> Seed {
    Seed(u64::from(rand::random::<u32>()))
}

/// Plans `cases`, each `repeat` times; the seed of each further time is one higher.
///
/// # Errors
/// A case that is refused.
pub(super) fn plans(
    cases: &[Case],
    seed: Seed,
    repeat: u32,
    overrides: Overrides,
) -> Result<Vec<Plan>, Refused> {
    let mut plans = Vec::new();
    for turn in 0..u64::from(repeat) {
        for case in cases {
            let seed = Seed(seed.0.wrapping_add(turn));
            let planned = plan::plan(case, seed, overrides);
            plans.push(planned.map_err(|refusal| (Exit::Usage, refusal.to_string()))?);
        }
    }
    Ok(plans)
}

/// Whether the images of the cases that run at once fit into memory.
///
/// # Errors
/// The case that does not fit.
pub(super) fn fits(plans: &[Plan], jobs: usize) -> Result<(), Refused> {
    let Some(available_bytes) = available_bytes() else {
        return Ok(());
    };
    for plan in plans {
        plan.fits(available_bytes, jobs as u64)
            .map_err(|refusal| (Exit::Lacking, refusal.to_string()))?;
    }
    Ok(())
}

/// Memory that can be used without pushing anything out, as the kernel reckons.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// Whether we may mount drives at all.
///
/// # Errors
/// What is missing, and how to get it.
pub(super) fn needs_root(command: &str) -> Result<(), Refused> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let message = format!(
        "firedrill {command}: this needs root, to attach loop devices and mount drives: try \
         `sudo firedrill {command}`, or `firedrill doctor` for what this machine has"
    );
    Err((Exit::Lacking, message))
}

/// Our own program, which nodes are started from.
///
/// # Errors
/// The kernel does not tell.
pub(super) fn program() -> Result<PathBuf, Refused> {
    std::env::current_exe()
        .map_err(|error| (Exit::Internal, format!("firedrill: cannot find itself: {error}")))
}

/// The command that was given, with the seed that it did not state.
pub(super) fn command(seed: Seed) -> String {
    let mut words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word: OsString| word.to_string_lossy().into_owned())
        .collect();
    words.insert(0, "firedrill".to_owned());
    if !words.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    terminal::command(words.iter().map(String::as_str))
}

/// Runs the cases and tells what came of them.
fn rehearse(options: RunOptions, arguments: &RunArgs) -> Exit {
    let terminal = Terminal::detect();
    let (seed, report_dir) = (options.seed, options.report_dir.clone());
    sayln!("seed {seed}, {} cases", options.plans.len());
    let ended = match perform(options, terminal) {
        Ok(ended) => ended,
        Err((exit, message)) => {
            eprintln!("{message}");
            return exit;
        }
    };
    let page = ended.directory.path("report.html").display().to_string();
    sayln!("{}", terminal::summary(terminal, &ended.report, Some(&page)));
    sayln!("seed {seed}");
    let mut exit = Exit::from(ended.report.overall());
    if let Err(message) = publish(&ended, arguments.junit.as_deref()) {
        eprintln!("firedrill run: {message}");
        exit = exit.worst(Exit::Internal);
    }
    if let Err(error) = give_back(&report_dir) {
        eprintln!("firedrill run: {} stays root's: {error}", report_dir.display());
    }
    exit
}

/// Runs the cases of `options` on a runtime of their own.
///
/// # Errors
/// The run as such failed.
pub(super) fn perform(options: RunOptions, terminal: Terminal) -> Result<Ended, Refused> {
    let failed = |message: String| (Exit::Internal, format!("firedrill: {message}"));
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(format!("cannot start its threads: {error}")))?;
    let progress = Arc::new(terminal::progress(terminal, options.plans.len()));
    let ended = runtime.block_on(async {
        let signal = signals().map_err(|error| failed(format!("cannot hear signals: {error}")))?;
        let ended = runner::run(options, Arc::clone(&progress), signal).await;
        ended.map_err(|error: RunError| failed(Chain(&error).to_string()))
    });
    progress.finish();
    // Threads that hang in a file system of a case are left to the end of the process.
    runtime.shutdown_background();
    ended
}

/// Becomes the number of the first signal that asks us to end.
fn signals() -> std::io::Result<watch::Receiver<Option<i32>>> {
    let (sender, receiver) = watch::channel(None);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut stream = unix::signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            if stream.recv().await.is_some() {
                // Nobody listens any more when the run is over.
                let _ = sender.send(Some(kind.as_raw_value()));
            }
        });
    }
    Ok(receiver)
}

/// Writes what a CI server reads besides the run's folder.
fn publish(ended: &Ended, junit: Option<&Path>) -> Result<(), String> {
    if let Some(path) = junit {
        let from = ended.directory.path("junit.xml");
        std::fs::copy(from, path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    render::summarize(&ended.report, None).map_err(|error| Chain(&error).to_string())
}

/// Gives the reports back to the user who called us through sudo.
pub(super) fn give_back(report_dir: &Path) -> std::io::Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("SUDO_UID"), number("SUDO_GID")) {
        (Some(uid), Some(gid)) => give(report_dir, uid, gid),
        _ => Ok(()),
    }
}

/// Gives `path` and everything below it away, without following links.
fn give(path: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}

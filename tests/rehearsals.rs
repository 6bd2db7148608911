//! Every case of the quick suite as a trial, so that `cargo test NAME` and a runner's partitions work.
//!
//! A trial is the built binary, run on one case, as a user would run it: it enters its namespaces,
//! rehearses and judges. Where this machine cannot do that, trials are ignored, the reason is told,
//! and the last line counts them.

use std::collections::BTreeSet;
use std::process::Command;
use std::process::ExitCode;

use firedrill::harness::runner::selection;
use firedrill::harness::runner::selection::Wanted;
use firedrill::harness::scenario::form::Suite;
use firedrill::harness::scenario::plan::Rung;
use firedrill::harness::testbed::capability;
use firedrill::value::Seed;
use libtest_mimic::Arguments;
use libtest_mimic::Failed;
use libtest_mimic::Trial;

/// The built binary.
const FIREDRILL: &str = env!("CARGO_BIN_EXE_firedrill");
/// The seed of the trials: a test does the same every time.
const SEED: Seed = Seed(1);

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A case waits about half of its time for leases, faults and deadlines: two side by side, whatever the cores.
    arguments.test_threads.get_or_insert(2);
    let wanted = Wanted {
        names: Vec::new(),
        suite: Some(Suite::Quick),
        canaries: false,
        clients: BTreeSet::new(),
        seed: SEED,
    };
    let selection = match selection::select(&wanted) {
        Ok(selection) => selection,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let lacking = lacking();
    let trials = selection.cases.iter().map(|case| {
        let (family, name) = (case.family.clone(), case.name.clone());
        Trial::test(name.clone(), move || rehearse(&name))
            .with_kind(family)
            .with_ignored_flag(lacking.is_some())
    });
    let trials: Vec<Trial> = trials.collect();
    let count = trials.len();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        return conclusion.exit_code();
    }
    match lacking {
        Some(reason) => println!("{count} rehearsals were ignored: {reason}"),
        None => println!("0 rehearsals were ignored"),
    }
    conclusion.exit_code()
}

/// What this machine lacks for the trials, in a sentence.
fn lacking() -> Option<String> {
    let rungs = capability::rungs(&capability::probe());
    let rung = rungs.into_iter().find(|state| state.rung == Rung::Loop)?;
    rung.lacking
}

/// Runs one case, and fails with everything that it told unless everything held.
fn rehearse(case: &str) -> Result<(), Failed> {
    let reports = concat!(env!("CARGO_TARGET_TMPDIR"), "/rehearsals");
    let seed = SEED.to_string();
    let output = Command::new(FIREDRILL)
        .args(["run", case, "--seed", &seed, "--report-dir", reports])
        .env("NO_COLOR", "1")
        .env("CI", "1")
        .output()
        .map_err(|error| Failed::from(format!("the binary cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failed::from(format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}

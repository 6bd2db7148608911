//! The testbed on the real kernel: drives, every fault, and that nothing is left of either.
//!
//! Needs root and loop devices, and says so when it is skipped. It enters namespaces of its own before any
//! thread exists, as the binary does, so it brings its own `main`; started as a node, it is one.

#![expect(clippy::unwrap_used, reason = "a trial may stop at the first surprise")]

use std::path::Path;
use std::process::ExitCode;

use firedrill::harness::testbed::capability::probe;
use firedrill::harness::testbed::namespaces;
use firedrill::harness::testbed::namespaces::Entered;
use libtest_mimic::Arguments;
use libtest_mimic::Trial;

#[path = "testbed/bed.rs"]
mod bed;
#[path = "testbed/drive_faults.rs"]
mod drive_faults;
#[path = "testbed/drives.rs"]
mod drives;
#[path = "testbed/figures.rs"]
mod figures;
#[path = "testbed/journal.rs"]
mod journal;
#[path = "testbed/killed.rs"]
mod killed;
#[path = "testbed/node.rs"]
mod node;
#[path = "testbed/node_faults.rs"]
mod node_faults;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, command, flag, config] = words.as_slice()
        && (command.as_str(), flag.as_str()) == ("node", "--config")
    {
        node::serve(Path::new(config));
    }
    if killed::is_victim() {
        return killed::be_a_victim();
    }
    let mut arguments = Arguments::from_args();
    // Each trial has a machine's worth of mounts and devices; the machine has two processors.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let mut skipped = None;
    if !arguments.list {
        match namespaces::enter() {
            Ok(Entered::Inside) => {}
            Ok(Entered::Ended(code)) => return code,
            Err(error) => skipped = Some(error.to_string()),
        }
    }
    let trials = [
        drives::trials(),
        drive_faults::trials(),
        node_faults::trials(),
        killed::trials(),
        figures::trials(),
        journal::trials(),
    ];
    // A machine may do without xfs.
    let without_xfs = if arguments.list || skipped.is_some() { None } else { lacks_xfs() };
    let is_skipped = |trial: &Trial| {
        skipped.is_some() || without_xfs.is_some() && trial.name().ends_with("::xfs")
    };
    let trials = trials.into_iter().flatten().map(|trial| {
        let is_skipped = is_skipped(&trial);
        trial.with_ignored_flag(is_skipped)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Some(why) = skipped.or(without_xfs) {
        println!("skipped {} trials: {why}", conclusion.num_ignored);
    }
    conclusion.exit_code()
}

/// Why this machine has no xfs drives, if it has none.
fn lacks_xfs() -> Option<String> {
    let found = probe().into_iter().find(|capability| capability.name == "xfs drive")?;
    let why = found.found.err()?;
    Some(format!("no xfs drives: {why} ({})", found.how))
}

//! The testbed on the real kernel: drives, every fault, and that nothing is left of either.
//!
//! Needs root and loop devices, and says so when it is skipped. It enters namespaces of its own before any
//! thread exists, as the binary does, so it brings its own `main`; started as a node, it is one.

#![expect(clippy::unwrap_used, reason = "a trial may stop at the first surprise")]

use std::path::Path;
use std::process::ExitCode;

use firedrill::harness::testbed::namespaces;
use firedrill::harness::testbed::namespaces::Entered;
use libtest_mimic::Arguments;

#[path = "testbed/bed.rs"]
mod bed;
#[path = "testbed/drive_faults.rs"]
mod drive_faults;
#[path = "testbed/drives.rs"]
mod drives;
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
    let trials =
        [drives::trials(), drive_faults::trials(), node_faults::trials(), killed::trials()];
    let trials = trials.into_iter().flatten();
    let trials = trials.map(|trial| trial.with_ignored_flag(skipped.is_some())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(why) = skipped {
        println!("skipped {} trials: {why}", conclusion.num_ignored);
    }
    conclusion.exit_code()
}

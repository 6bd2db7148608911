//! The testbed on the real kernel: drives, faults of drives, and that nothing is left of either.
//!
//! Needs root and loop devices, and says so when it is skipped. It enters namespaces of its own before any
//! thread exists, as the binary does, so it brings its own `main`.

use std::process::ExitCode;

use firedrill::harness::testbed::namespaces;
use firedrill::harness::testbed::namespaces::Entered;
use libtest_mimic::Arguments;

#[path = "testbed/bed.rs"]
mod bed;
#[path = "testbed/drives.rs"]
mod drives;

fn main() -> ExitCode {
    if bed::is_victim() {
        return bed::be_a_victim();
    }
    let arguments = Arguments::from_args();
    let mut skipped = None;
    if !arguments.list {
        match namespaces::enter() {
            Ok(Entered::Inside) => {}
            Ok(Entered::Ended(code)) => return code,
            Err(error) => skipped = Some(error.to_string()),
        }
    }
    let trials = [drives::trials()].into_iter().flatten();
    let trials = trials.map(|trial| trial.with_ignored_flag(skipped.is_some())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(why) = skipped {
        println!("skipped {} trials: {why}", conclusion.num_ignored);
    }
    conclusion.exit_code()
}

//! A target in a process of its own: what it may take, and what became of it.
//!
//! The child tells the case that it is at in a file before it begins it, and its summary on its output. Memory
//! has a ceiling that the kernel holds (`RLIMIT_DATA`: a greedy allocation ends the child) and one that the child
//! looks at itself (`VmHWM`); a case that takes too long ends the child from outside. Whatever ends it, the file says
//! at which case.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sys::resource::Resource;
use nix::sys::resource::setrlimit;
use serde::Deserialize;
use serde::Serialize;

use super::MEMORY_BYTES_MAX;
use super::Target;
use super::corpus;
use super::course;
use super::course::Finding;
use super::course::Summary;
use crate::value::Seed;

/// A case may take as long as this on a busy machine; the slowest takes a hundredth of it.
const CASE_WAIT: Duration = Duration::from_secs(20);
/// Between two looks at a child.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Cases between two looks of the child at its own memory.
const CASES_PER_LOOK: u64 = 512;
/// The stack that decoders have on a node's threads.
const STACK_BYTES: usize = 2 << 20;
/// What the command line calls the file of the child.
pub const PROGRESS_OPTION: &str = "--progress";

/// What is asked of one target.
#[derive(Debug, Clone)]
pub struct Order {
    /// The folder of all corpora.
    pub corpus: PathBuf,
    /// What the cases follow from.
    pub seed: Seed,
    /// How many there are.
    pub cases: u64,
}

/// What became of a target.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its cases.
    pub summary: Summary,
    /// The most memory that its process had, in bytes; 0 when it did not live to tell.
    pub peak_bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The last line of a child.
#[derive(Serialize, Deserialize)]
struct Told {
    cases: u64,
    decoded: u64,
    findings: Vec<(u64, String)>,
    peak_bytes: u64,
}

/// Runs `target` in a child, which is `program` with the command `fuzz`, and waits for its end.
///
/// # Errors
/// The child cannot be started, or ended without a word before its first case.
pub fn watch(program: &Path, target: &Target, order: &Order) -> io::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let progress = folder.path().join("progress");
    fs::write(&progress, [])?;
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(["fuzz", target.name, PROGRESS_OPTION])
        .arg(&progress)
        .arg("--corpus")
        .arg(&order.corpus)
        .args(["--seed", &order.seed.0.to_string(), "--cases", &order.cases.to_string()])
        // What the allocator has in reserve would lie below the ceiling before anybody asked for it.
        .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut at, mut since) = (None, Instant::now());
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        let now = case_in(&progress);
        if now != at {
            (at, since) = (now, Instant::now());
        } else if since.elapsed() > CASE_WAIT {
            child.kill()?;
            child.wait()?;
            break Err(());
        }
        thread::sleep(LOOK_PERIOD);
    };
    let mut text = String::new();
    // The summary is a short line: a child that ends never waits for its reader.
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut text)?;
    }
    let told = text.lines().last().and_then(|line| serde_json::from_str::<Told>(line).ok());
    if let (Ok(_), Some(told)) = (&ended, told) {
        let finding = |(case, what)| Finding { case, what };
        let findings = told.findings.into_iter().map(finding).collect();
        let summary = Summary { cases: told.cases, decoded: told.decoded, findings };
        return Ok(Outcome { summary, peak_bytes: told.peak_bytes, took: began.elapsed() });
    }
    let Some(case) = case_in(&progress) else {
        let message = format!("the process of {} ended before its first case", target.name);
        return Err(io::Error::other(message));
    };
    let what = match ended {
        Err(()) => format!("no end after {} s", CASE_WAIT.as_secs()),
        Ok(status) => format!("its process ended ({status}): its memory, its stack, or an abort"),
    };
    let findings = vec![Finding { case, what }];
    let summary = Summary { cases: case, decoded: 0, findings };
    Ok(Outcome { summary, peak_bytes: 0, took: began.elapsed() })
}

/// Is the child: examines the cases of `target` under the ceiling and prints what came of them.
///
/// # Errors
/// The corpus or the file of the progress cannot be read, or the ceiling cannot be set.
pub fn be_watched(target: &Target, order: &Order, progress: &Path) -> io::Result<()> {
    let corpus = corpus::read(&order.corpus, target.name)?;
    let progress = File::options().write(true).open(progress)?;
    setrlimit(Resource::RLIMIT_DATA, MEMORY_BYTES_MAX, MEMORY_BYTES_MAX)?;
    course::keep_panics();
    let (target, order) = (*target, order.clone());
    let cases = move || {
        course::run(&target, &corpus, order.seed, order.cases, |case| {
            let told = progress.write_all_at(&case.to_le_bytes(), 0);
            told.map_err(|error| format!("the progress cannot be told: {error}"))?;
            if case % CASES_PER_LOOK == 0 && peak_bytes() > MEMORY_BYTES_MAX {
                return Err(format!("the cases before it took {} MiB", peak_bytes() >> 20));
            }
            Ok(())
        })
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(cases)?;
    let summary = thread.join().map_err(|_| io::Error::other("the cases' thread panicked"))?;
    let findings = summary.findings.into_iter().map(|finding| (finding.case, finding.what));
    let told = Told {
        cases: summary.cases,
        decoded: summary.decoded,
        findings: findings.collect(),
        peak_bytes: peak_bytes(),
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}

/// The case that the child is at; `None` before the first.
fn case_in(progress: &Path) -> Option<u64> {
    Some(u64::from_le_bytes(fs::read(progress).ok()?.try_into().ok()?))
}

/// The most memory that this process ever had resident, in bytes; 0 when the kernel does not say.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

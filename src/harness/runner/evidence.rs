//! Step 11: the exact bytes that findings are about, and what the machine says of the run.
//!
//! Taken after the nodes have stopped and before anything is torn down. What does not fit is named,
//! never left out in silence. It reads the drives and the kernel, and writes only below `evidence/`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use crate::disk::layout;
use crate::harness::check::Verdict;
use crate::harness::report::CaseReport;
use crate::harness::report::ReportError;
use crate::harness::report::RunDirectory;
use crate::harness::report::directory::LEDGER;
use crate::harness::report::evidence::Evidence;
use crate::harness::testbed::DrivePlace;

/// Keys whose bytes are kept.
const KEYS_MAX: usize = 16;
/// Files and folders of no key that are kept.
const PATHS_MAX: usize = 32;

/// Keeps what the findings of `report` are about.
///
/// # Errors
/// [`ReportError::Io`]: the evidence folder cannot be written. What cannot be read from a drive is
/// noted in `contents.txt`.
pub fn gather(
    report: &CaseReport,
    directory: &RunDirectory,
    drives: &[DrivePlace],
) -> Result<(), ReportError> {
    let findings = || {
        let all = report.judgements.iter().flat_map(|judgement| &judgement.findings);
        all.filter(|finding| finding.verdict == Verdict::Fail)
    };
    let targets: BTreeSet<&str> =
        findings().filter_map(|finding| finding.target.as_deref()).collect();
    let mut keeper = Keeper { evidence: directory.evidence(), notes: String::new() };
    for (number, target) in targets.iter().take(KEYS_MAX).enumerate() {
        let _ = writeln!(keeper.notes, "key-{number}: {target}");
        let Some((bucket, key)) = target.split_once('/') else {
            continue;
        };
        let relative = layout::key_dir(bucket, key);
        for drive in drives.iter().filter(|drive| drive.mounted) {
            let name = format!("key-{number}.{}", drive.name.replace('/', "-"));
            keeper.copy(&drive.root.join(&relative), &name, &drive.name)?;
        }
    }
    if targets.len() > KEYS_MAX {
        let _ = writeln!(keeper.notes, "{} more keys were left out", targets.len() - KEYS_MAX);
    }
    let places: BTreeSet<(&str, &str)> = findings()
        .filter(|finding| finding.target.is_none())
        .flat_map(|finding| &finding.evidence)
        .filter_map(|evidence| evidence.strip_prefix("drive ")?.split_once(": "))
        .collect();
    for (number, (name, path)) in places.iter().take(PATHS_MAX).enumerate() {
        let _ = writeln!(keeper.notes, "path-{number}: drive {name}: {path}");
        let Some(drive) = drives.iter().find(|drive| drive.name == *name && drive.mounted) else {
            continue;
        };
        let below = format!("path-{number}.{}", name.replace('/', "-"));
        match drive.root.join(path) {
            folder if folder.is_dir() => keeper.copy(&folder, &below, name)?,
            file => keeper.copy_file(&file, &below, name)?,
        }
    }
    if places.len() > PATHS_MAX {
        let _ = writeln!(keeper.notes, "{} more paths were left out", places.len() - PATHS_MAX);
    }
    let machine = machine(directory, drives);
    keeper.evidence.keep("machine.txt", machine.as_bytes())?;
    keeper.evidence.keep("contents.txt", keeper.notes.as_bytes())?;
    Ok(())
}

/// Copies files of drives under plain names.
struct Keeper {
    evidence: Evidence,
    notes: String,
}

impl Keeper {
    /// Copies the files in `from` and its data directories; other keys below it are left alone.
    fn copy(&mut self, from: &Path, name: &str, drive: &str) -> Result<(), ReportError> {
        let entries = match fs::read_dir(from) {
            Ok(entries) => entries,
            Err(error) => {
                let _ = writeln!(self.notes, "{drive}: {error}");
                return Ok(());
            }
        };
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            let below = format!("{name}.{last}");
            if is_folder && layout::parse_data_dir(&last).is_some() {
                self.copy(&path, &below, drive)?;
            } else if !is_folder {
                self.copy_file(&path, &below, drive)?;
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &Path, name: &str, drive: &str) -> Result<(), ReportError> {
        match fs::read(from) {
            Ok(bytes) => drop(self.evidence.keep(name, &bytes)?),
            Err(error) => drop(writeln!(self.notes, "{drive}: {name}: {error}")),
        }
        Ok(())
    }
}

/// What the machine says of what the ledger names: mounts, loop devices, processes, kernel lines.
fn machine(directory: &RunDirectory, drives: &[DrivePlace]) -> String {
    let mut text = String::from("# mounts of this run\n");
    let roots: Vec<String> = drives.iter().map(|drive| drive.root.display().to_string()).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = |line: &&str| roots.iter().any(|root| line.contains(root.as_str()));
    let lines: Vec<&str> = mounts.lines().filter(ours).collect();
    text.push_str(&lines.join("\n"));
    text.push_str("\n\n# loop devices of this run\n");
    for device in lines.iter().filter_map(|line| loop_of(line)) {
        let backing = format!("/sys/block/{device}/loop/backing_file");
        let backing = fs::read_to_string(backing).unwrap_or_else(|error| error.to_string());
        let _ = writeln!(text, "{device} {}", backing.trim());
    }
    text.push_str("\n# processes that the ledger names and that live\n");
    let ledger = fs::read_to_string(directory.path(LEDGER)).unwrap_or_default();
    let mut pids = BTreeSet::new();
    for line in ledger.lines() {
        if let Ok(entry) = serde_json::from_str::<serde_json::Value>(line) {
            collect_pids(&entry, &mut pids);
        }
    }
    for pid in pids {
        if let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
            let kept = status.lines().filter(|line| {
                ["Name:", "State:", "PPid:", "VmRSS:", "Threads:"]
                    .iter()
                    .any(|key| line.starts_with(key))
            });
            let _ = writeln!(text, "{pid} {}", kept.collect::<Vec<_>>().join(" "));
        }
    }
    let _ = writeln!(text, "\n# kernel lines of this run's time");
    text.push_str(&kernel_lines(directory));
    text
}

/// The loop device of a line of mountinfo.
fn loop_of(line: &str) -> Option<&str> {
    let source = line.split(" - ").nth(1)?.split(' ').nth(1)?;
    source.strip_prefix("/dev/").filter(|device| device.starts_with("loop"))
}

/// Every number under a key called `pid`.
fn collect_pids(value: &serde_json::Value, pids: &mut BTreeSet<u64>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                if key == "pid" {
                    pids.extend(value.as_u64());
                }
                collect_pids(value, pids);
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| collect_pids(value, pids));
        }
        _ => {}
    }
}

/// Kernel lines since the plan was written; why there are none, otherwise.
fn kernel_lines(directory: &RunDirectory) -> String {
    let plan = directory.path(crate::harness::report::directory::PLAN);
    let age = fs::metadata(plan)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|written| written.elapsed().ok())
        .unwrap_or_default();
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 =
        uptime.split(' ').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
    let since = Duration::from_secs_f64(uptime.max(0.0)).saturating_sub(age);
    let opened =
        fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg");
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return format!("cannot be read: {error}\n"),
    };
    let mut text = String::new();
    let mut record = [0; 8_192];
    loop {
        // One read is one record; a reader that was overtaken is told so and goes on.
        match file.read(&mut record) {
            Ok(0) => return text,
            Ok(length) => {
                let line = String::from_utf8_lossy(&record[..length]);
                let Some((head, message)) = line.split_once(';') else {
                    continue;
                };
                let at_us: u64 =
                    head.split(',').nth(2).and_then(|at| at.parse().ok()).unwrap_or_default();
                if Duration::from_micros(at_us) >= since {
                    let message = message.lines().next().unwrap_or_default();
                    let _ = writeln!(text, "[{:.6}] {message}", at_us as f64 / 1e6);
                }
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return text,
            Err(error) => return format!("{text}cannot be read further: {error}\n"),
        }
    }
}

//! Step 11: the exact bytes that findings are about, and what the machine says of the run.
//!
//! Taken after the nodes have stopped and before anything is torn down. What does not fit is named,
//! never left out in silence. It reads the drives and the kernel, and writes only below `evidence/`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::fs::File;
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
use crate::harness::report::directory::EVIDENCE;
use crate::harness::report::directory::LEDGER;
use crate::harness::report::recorded;
use crate::harness::testbed::DrivePlace;

/// Bytes of all evidence of a case.
const BYTES_MAX: u64 = 64 << 20;
/// Keys whose bytes are kept.
const KEYS_MAX: usize = 16;

/// Keeps what the findings of `report` are about.
///
/// # Errors
/// [`ReportError::Io`]: the evidence folder cannot be written. What cannot be read from a drive is
/// noted in `evidence/contents.txt`.
pub fn gather(
    report: &CaseReport,
    directory: &RunDirectory,
    drives: &[DrivePlace],
) -> Result<(), ReportError> {
    let findings = report.judgements.iter().flat_map(|judgement| &judgement.findings);
    let targets: BTreeSet<&str> = findings
        .filter(|finding| finding.verdict == Verdict::Fail)
        .filter_map(|finding| finding.target.as_deref())
        .collect();
    let mut keeper = Keeper { left: BYTES_MAX, notes: String::new() };
    for (number, target) in targets.iter().take(KEYS_MAX).enumerate() {
        let _ = writeln!(keeper.notes, "key-{number}: {target}");
        let Some((bucket, key)) = target.split_once('/') else {
            continue;
        };
        let relative = PathBuf::from(layout::key_dir(bucket, key));
        for drive in drives.iter().filter(|drive| drive.mounted) {
            let name = drive.name.replace('/', "-");
            let to = directory.path(EVIDENCE).join(format!("key-{number}")).join(name);
            keeper.copy(&drive.root.join(&relative), &to, &drive.name)?;
        }
    }
    if targets.len() > KEYS_MAX {
        let _ = writeln!(keeper.notes, "{} more keys were left out", targets.len() - KEYS_MAX);
    }
    let notes = format!("{BYTES_MAX} bytes at most are kept.\n{}", keeper.notes);
    recorded::write(&directory.path(EVIDENCE).join("contents.txt"), notes.as_bytes())?;
    let machine = machine(directory, drives);
    recorded::write(&directory.path(EVIDENCE).join("machine.txt"), machine.as_bytes())
}

/// Copies until the budget is used up.
struct Keeper {
    left: u64,
    notes: String,
}

impl Keeper {
    /// Copies the files below `from`, the folders of other keys excepted.
    fn copy(&mut self, from: &Path, to: &Path, drive: &str) -> Result<(), ReportError> {
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
            let name = path.file_name().unwrap_or_default();
            let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            let is_data_dir = uuid::Uuid::try_parse(&name.to_string_lossy()).is_ok();
            if is_folder && is_data_dir {
                self.copy(&path, &to.join(name), drive)?;
            } else if !is_folder {
                self.copy_file(&path, &to.join(name), drive)?;
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &Path, to: &Path, drive: &str) -> Result<(), ReportError> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let bytes = match File::open(from) {
            Ok(file) => {
                let mut bytes = Vec::new();
                let read = file.take(self.left).read_to_end(&mut bytes);
                if let Err(error) = read {
                    let _ = writeln!(self.notes, "{drive}: {name}: {error}");
                }
                bytes
            }
            Err(error) => {
                let _ = writeln!(self.notes, "{drive}: {name}: {error}");
                return Ok(());
            }
        };
        let whole = from.metadata().map_or(0, |metadata| metadata.len());
        if (bytes.len() as u64) < whole {
            let kept = bytes.len();
            let _ = writeln!(self.notes, "{drive}: {name}: cut, {kept} of {whole} bytes kept");
        }
        self.left -= bytes.len() as u64;
        let folder = to.parent().unwrap_or(to);
        fs::create_dir_all(folder).map_err(ReportError::io("create", folder))?;
        recorded::write(to, &bytes)
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

//! Records of drive replacements that released servers wrote, held against our readers and our decisions.
//!
//! Goal: every captured record comes back byte for byte and every digest recomputes; asked about each captured
//! state, the protocol names the write that came next in the capture, or says why it does not. The captures lie
//! in the folder that the variable FIREDRILL_GOLDEN names; without it, or without the program `zstd`, each trial
//! is ignored and the first line says so.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use firedrill::protocol::replacement::checkpoint;
use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Name;
use firedrill::protocol::replacement::names::Record;
use libtest_mimic::Arguments;
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;

#[expect(dead_code, reason = "other tests ask more of a node")]
#[path = "node/client.rs"]
mod client;
#[expect(dead_code, reason = "other tests ask more of a node")]
#[path = "node/process.rs"]
mod process;
mod replacement_capture;

use replacement_capture::legacy;
use replacement_capture::next;
use replacement_capture::upgrade;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let golden = golden();
    if let Err(reason) = &golden {
        eprintln!("replacement_golden: every trial is ignored, {reason}");
    }
    let mut trials = Vec::new();
    for (set, case) in cases(golden.as_deref().unwrap_or(Path::new(""))) {
        let folder = golden.clone().unwrap_or_default().join(set).join(&case);
        let at = folder.clone();
        trials.push(Trial::test(format!("bytes::{set}::{case}"), move || comes_back(&at)));
        let at = folder.clone();
        if set == "replacement101" {
            trials.push(Trial::test(format!("next::{case}"), move || next::is_named(&at)));
        } else if !case.starts_with("00") {
            trials.push(Trial::test(format!("legacy::{case}"), move || legacy::is_settled(&at)));
        }
        if set == "replacement" && upgrade::CASES.contains(&&*case) {
            let name = format!("upgrade::{case}");
            trials.push(Trial::test(name, move || upgrade::is_finished(&folder)));
        }
    }
    if golden.is_err() {
        trials.push(Trial::test("captures", || Ok(())));
    }
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(golden.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Where the captures are, or why nothing can be tried.
fn golden() -> Result<PathBuf, String> {
    let folder = env::var_os("FIREDRILL_GOLDEN").ok_or("FIREDRILL_GOLDEN is not set")?;
    let folder = PathBuf::from(folder);
    for set in ["replacement", "replacement101"] {
        if !folder.join(set).is_dir() {
            return Err(format!("{} has no folder `{set}`", folder.display()));
        }
    }
    let zstd = Command::new("zstd").arg("--version").stdout(Stdio::null()).status();
    if !zstd.is_ok_and(|status| status.success()) {
        return Err("the program `zstd` is not installed".to_owned());
    }
    Ok(folder)
}

fn cases(golden: &Path) -> Vec<(&'static str, String)> {
    let mut cases = Vec::new();
    for set in ["replacement", "replacement101"] {
        let Ok(entries) = fs::read_dir(golden.join(set)) else { continue };
        let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let names = folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        cases.extend(names.map(|name| (set, name)));
    }
    cases.sort();
    cases
}

/// One captured change of a file.
#[derive(Debug, Clone)]
pub struct Event {
    /// When it was seen, in seconds since the capture began.
    pub t: f64,
    /// The drive, as `node2/d1`.
    pub drive: String,
    /// The path, relative to the drive's root.
    pub path: String,
    /// What the file held then; `None` when it was gone.
    pub bytes: Option<Vec<u8>>,
}

/// One case, unpacked: every archive of it in a folder of its own.
pub struct Case {
    folder: TempDir,
    /// What the capture says of itself.
    pub expected: Value,
    /// Every captured change, in order.
    pub events: Vec<Event>,
}

impl Case {
    /// Unpacks the case that lies in `case`.
    pub fn unpack(case: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        for entry in fs::read_dir(case).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if let Some(name) = name.strip_suffix(".tar.zst") {
                let to = folder.path().join(name);
                fs::create_dir(&to).unwrap();
                unpack(&path, &to);
            }
        }
        let frames = folder.path().join("frames");
        let lines = decompressed(&case.join("timeline.jsonl.zst"));
        let events = lines.lines().map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let path = event["path"].as_str().unwrap().trim_start_matches("/srv/repl/").to_owned();
            let (drive, path) = path.split_at(path.match_indices('/').nth(1).unwrap().0);
            let frame = event["frame"].as_str().filter(|_| event["ev"] != "delete");
            Event {
                t: event["t"].as_f64().unwrap(),
                drive: drive.to_owned(),
                path: path[1..].to_owned(),
                bytes: frame.map(|frame| fs::read(frames.join(frame)).unwrap()),
            }
        });
        let events = events.collect();
        let expected = fs::read(case.join("expected.json")).unwrap_or_else(|_| b"{}".to_vec());
        Self { expected: serde_json::from_slice(&expected).unwrap(), events, folder }
    }

    /// Files of the archive `name` by drive and path.
    pub fn files(&self, name: &str) -> BTreeMap<(String, String), Vec<u8>> {
        let root = self.folder.path().join(name);
        let mut files = BTreeMap::new();
        collect(&root, &root, &mut files);
        files
    }

    /// Every file of every archive, and every frame under the path that it was seen at.
    fn everything(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            if name != "frames" {
                all.extend(self.files(&name).into_iter().map(|((_, path), bytes)| (path, bytes)));
            }
        }
        let events = self.events.iter();
        all.extend(events.filter_map(|event| Some((event.path.clone(), event.bytes.clone()?))));
        all
    }

    /// What is mounted at the target `node2/d1` since the beginning of the capture.
    pub fn mount(&self) -> Option<(String, String)> {
        let path = self.folder.path().join("final/state.json");
        let state: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let mount = state["mountinfo"].as_str()?;
        let (id, device) = (mount.split(' ').next()?, mount.split("/dev/").nth(1)?);
        let device = device.split(' ').next()?.to_owned();
        Some((device, format!("{id}:{}:{}", state["st_dev"], state["st_ino"])))
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<(String, String), Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let Some((at, _)) = name.match_indices('/').nth(1) else { continue };
            let (drive, path_in) = name.split_at(at);
            files.insert((drive.to_owned(), path_in[1..].to_owned()), fs::read(&path).unwrap());
        }
    }
}

fn unpack(archive: &Path, to: &Path) {
    let mut zstd =
        Command::new("zstd").arg("-qdc").arg(archive).stdout(Stdio::piped()).spawn().unwrap();
    let tar = Command::new("tar")
        .args(["-x", "--no-same-owner", "-C"])
        .arg(to)
        .stdin(zstd.stdout.take().unwrap())
        .status()
        .unwrap();
    assert!(tar.success() && zstd.wait().unwrap().success());
}

fn decompressed(path: &Path) -> String {
    let output = Command::new("zstd").arg("-qdc").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Every record of a case, and what is wrong with it.
fn comes_back(case: &Path) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let mut complaints = Vec::new();
    let mut examined: BTreeMap<String, usize> = BTreeMap::new();
    for (path, bytes) in case.everything() {
        let kind = match names::parse(&path) {
            Name::Record(record, id) => {
                if let Err(complaint) = replacement_capture::round_trip(record, id, &bytes) {
                    complaints.push(format!("{path}: {complaint}"));
                }
                if record == Record::Checkpoint {
                    complaints.extend(digest_of(&bytes).map(|it| format!("{path}: {it}")));
                }
                format!("{record:?}")
            }
            _ if path == names::MARKER => {
                let text = std::str::from_utf8(&bytes).unwrap();
                let set = case.expected["set_disk_id"].as_str().unwrap_or("pool_0_set_0");
                let id = firedrill::protocol::replacement::marker::generation(set, text);
                if bytes.len() != 49 || id.is_none() {
                    complaints.push(format!("{path}: {text:?}"));
                }
                "marker".to_owned()
            }
            _ if path == names::LEASE && !bytes.is_empty() => {
                complaints.push(format!("{path} is not empty"));
                "lease".to_owned()
            }
            _ => continue,
        };
        *examined.entry(kind).or_default() += 1;
    }
    println!("examined {examined:?}");
    if examined.is_empty() {
        complaints.push("no record was examined".to_owned());
    }
    conclude(&complaints)
}

/// What is wrong with the digest of a checkpoint that has one.
fn digest_of(bytes: &[u8]) -> Option<String> {
    let ledger = Checkpoint::parse(bytes).unwrap();
    if ledger.schema_version < checkpoint::SCHEMA {
        return None;
    }
    let digest = ledger.integrity_digest.clone().unwrap_or_default();
    (digest != ledger.digest()).then(|| format!("digest {digest}, not {}", ledger.digest()))
}

/// Fails with the first of the complaints, if there are any.
pub fn conclude(complaints: &[String]) -> Result<(), Failed> {
    if complaints.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = complaints.iter().take(20).map(String::as_str).collect();
    Err(format!("{} complaints:\n{}", complaints.len(), shown.join("\n")).into())
}

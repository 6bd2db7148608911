//! Goal: a run that is killed at any moment, in any of its processes, leaves nothing that `clean` does not remove,
//! and a run that lives is left alone by it.
//!
//! The victim is this program: it provisions, starts nodes, hangs a drive and tears down without end.

use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::harness::fault::Injector;
use firedrill::harness::fault::Progress;
use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::testbed::Testbed;
use firedrill::harness::testbed::bench::plan_of;
use firedrill::harness::testbed::ledger;
use firedrill::harness::testbed::ledger::LedgerEntry;
use firedrill::harness::testbed::namespaces;
use firedrill::harness::testbed::namespaces::Entered;
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::bed;
use crate::bed::Bed;
use crate::bed::PATIENCE;

/// Tells a process of this program that it is the victim, and where its run directory is.
const VICTIM_VARIABLE: &str = "FIREDRILL_TEST_VICTIM";

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a_run_killed_at_random_moments_leaves_nothing_after_clean", at_random_moments),
        Trial::test("clean_thaws_what_a_killed_reaper_left_frozen", a_frozen_drive),
        Trial::test("clean_leaves_a_living_testbed_alone", a_living_testbed),
    ]
}

/// Held by a trial that kills a victim and cleans up after it: `clean` takes what *any* dead run left, so one
/// trial's would take away what another is about to look at.
static CLEANING: Mutex<()> = Mutex::new(());

/// Waits for the other trials that clean.
fn alone() -> MutexGuard<'static, ()> {
    CLEANING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process is the victim.
pub fn is_victim() -> bool {
    env::var_os(VICTIM_VARIABLE).is_some()
}

/// The victim, until it is killed.
pub fn be_a_victim() -> ExitCode {
    match namespaces::enter() {
        Ok(Entered::Inside) => {}
        Ok(Entered::Ended(code)) => return code,
        Err(error) => panic!("{error}"),
    }
    let directory = PathBuf::from(env::var_os(VICTIM_VARIABLE).unwrap());
    let _ = bed::run(async {
        loop {
            let context = bed::context(&directory, &Arc::default());
            let plan = plan_of(2, 2, Filesystem::Ext4, 64);
            let testbed = Testbed::provision(&plan, &context).await.unwrap();
            testbed.start(0).await.unwrap();
            let injector = Injector::new(Arc::clone(&testbed), Arc::new(Progress::default()), 1);
            let hang = "hang_writes: { node: 0, drives: [0] }";
            let hang = firedrill::yaml::parse("fault", hang).unwrap();
            injector.strike(injector.prepare(&hang), PATIENCE).await.unwrap();
            // Told from outside by the file that stands while the drive is frozen.
            fs::write(directory.join("frozen"), "").unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            if !directory.join("stay").exists() {
                fs::remove_file(directory.join("frozen")).unwrap();
                injector.heal_all().await.unwrap();
                testbed.teardown().await.unwrap();
            }
        }
    });
    ExitCode::SUCCESS
}

/// A victim and what is its.
struct Victim {
    outer: Child,
    directory: tempfile::TempDir,
}

impl Victim {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let outer = Command::new(env::current_exe().unwrap())
            .env_remove("FIREDRILL_STAGE")
            .env(VICTIM_VARIABLE, directory.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { outer, directory }
    }

    /// Its processes by generation: outer, reaper, harness; fewer while they come to be.
    fn generations(&self) -> Vec<i32> {
        let mut line = vec![self.outer.id() as i32];
        while let Some(child) = children_of(line[line.len() - 1]).first() {
            line.push(*child);
            if line.len() == 3 {
                break;
            }
        }
        line
    }

    /// Kills one of its processes and waits until the outer one is gone.
    fn kill(&mut self, generation: usize) {
        let line = self.generations();
        let pid = line[generation.min(line.len() - 1)];
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }

    /// What carries its mark in the environment.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("{VICTIM_VARIABLE}={}", self.directory.path().display());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        })
        .collect()
    }

    /// Removes what is left with the command, and checks that nothing is.
    fn assert_nothing_left(mut self, what: &str) {
        let begun = Instant::now();
        loop {
            let clean = Command::new(env!("CARGO_BIN_EXE_firedrill"))
                .arg("clean")
                .env_remove("FIREDRILL_STAGE")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&clean.stdout).into_owned();
            let complained = String::from_utf8_lossy(&clean.stderr).into_owned();
            assert!(clean.status.success(), "{what}: {said}{complained}");
            let (left, running) = (left_of(self.directory.path()), self.processes());
            if left.is_empty() && running.is_empty() {
                break;
            }
            // The kernel ends a killed testbed by itself; nobody can clean what still lives.
            let late = begun.elapsed() > PATIENCE;
            assert!(!late, "{what}: {running:?} run, {left:?} is left; clean said {said}");
            thread::sleep(Duration::from_millis(20));
        }
        self.outer.wait().unwrap();
    }
}

fn children_of(pid: i32) -> Vec<i32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// What is left of the testbed whose ledger lies in `directory`, in words.
fn left_of(directory: &Path) -> Vec<String> {
    let ledger = ledger::read(&directory.join("ledger.jsonl")).unwrap_or_default();
    let mut left = Vec::new();
    for entry in &ledger {
        match entry {
            LedgerEntry::Header { testbed, .. } => {
                let folder = Path::new("/run/firedrill").join(testbed);
                let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
                let mounts = mounts.lines().filter(|line| line.contains(testbed.as_str()));
                left.extend(mounts.map(str::to_owned));
                let paths = [folder.with_extension("json"), folder];
                let paths = paths.iter().filter(|path| path.exists());
                left.extend(paths.map(|path| path.display().to_string()));
            }
            LedgerEntry::LoopMade { number } => {
                // The number may be somebody else's by now; then it carries somebody else's image.
                let device = format!("/sys/block/loop{number}");
                let backing = fs::read_to_string(format!("{device}/loop/backing_file"));
                let ours = |path: String| {
                    ledger.iter().any(|entry| match entry {
                        LedgerEntry::Loop { image, .. } => path.contains(&*image.to_string_lossy()),
                        _ => false,
                    })
                };
                if Path::new(&device).exists() && backing.map_or(true, ours) {
                    left.push(device);
                }
            }
            _ => {}
        }
    }
    left
}

fn at_random_moments() -> Result<(), Failed> {
    let _alone = alone();
    for round in 0..12_u64 {
        let mut victim = Victim::start();
        // Spread over provisioning, nodes, a frozen drive and teardown, of the first lives.
        let moment = Duration::from_millis(rand::random_range(10..900));
        thread::sleep(moment);
        victim.kill(2 - (round % 3) as usize);
        let what = format!("generation {} killed after {moment:?}", 2 - round % 3);
        victim.assert_nothing_left(&what);
    }
    Ok(())
}

fn a_frozen_drive() -> Result<(), Failed> {
    let _alone = alone();
    let mut victim = Victim::start();
    let directory = victim.directory.path().to_owned();
    fs::write(directory.join("stay"), "").unwrap();
    wait_for(&directory.join("frozen"));
    // With the reaper dies whoever would have thawed.
    victim.kill(1);
    thread::sleep(Duration::from_millis(300));
    let left = left_of(&directory);
    assert!(!left.is_empty(), "the frozen drive is not held: nothing is tried here");
    victim.assert_nothing_left("a killed reaper");
    Ok(())
}

fn a_living_testbed() -> Result<(), Failed> {
    let _alone = alone();
    bed::run(async {
        let bed = Bed::started(1, 2, Filesystem::Ext4).await;
        bed.work(0, "before").await;
        let identity = bed.testbed.identity("0/0").unwrap();
        let clean = Command::new(env!("CARGO_BIN_EXE_firedrill"))
            .arg("clean")
            .env_remove("FIREDRILL_STAGE")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&clean.stdout).into_owned();
        assert!(clean.status.success() && said.contains("was left alone"), "{said}");
        assert_eq!(identity, bed.testbed.identity("0/0").unwrap());
        bed.work(0, "after").await;
        bed.end().await;
    })
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < PATIENCE, "{} did not appear", path.display());
        thread::sleep(Duration::from_millis(2));
    }
}

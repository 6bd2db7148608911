//! Real clients: installed for a run, and sent through parts of their flows.
//!
//! A client is installed from its package index into a virtual environment, once a run; where that is not possible, its
//! cases are lacking and nothing is built for them. Its flow is a script that is built into this program and runs as a
//! process of its own, with nothing of the caller's environment that could lead it elsewhere. What it ends with is
//! written down; what its requests left is for the other witnesses to see.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time;

use super::life::Life;
use super::life::Trouble;
use crate::harness::scenario::clients::ClientStep;
use crate::harness::scenario::clients::RealClient;
use crate::harness::target::process::last_line;
use crate::harness::testbed::TestbedError;
use crate::harness::workload::history::ClientNote;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;

/// The folder of the case in which scripts and what they said are left.
const FOLDER: &str = "clients";
/// How folders of virtual environments begin that a run makes for itself.
const PREFIX: &str = "firedrill-clients-";
/// The file in such a folder that is locked for as long as its run lasts.
const LOCK: &str = "lock";
/// How long an installation may take.
const INSTALL_PATIENCE: Duration = Duration::from_secs(600);
/// How long one part of a flow may take.
const PART_PATIENCE: Duration = Duration::from_secs(300);
/// The exit code of a script whose client is not there.
const LACKING: i32 = 5;

/// What a client is installed from, and its flow.
struct Recipe {
    packages: &'static [&'static str],
    name: &'static str,
    script: &'static str,
}

fn recipe(client: RealClient) -> Recipe {
    match client {
        RealClient::Pyiceberg => Recipe {
            packages: &["pyiceberg[pyarrow]==0.12.0", "boto3"],
            name: "pyiceberg_flow.py",
            script: include_str!("../../../tests/clients/pyiceberg_flow.py"),
        },
    }
}

/// The clients of a run.
#[derive(Debug, Default)]
pub struct Clients {
    /// Where they are kept; a folder that goes with the run when there is none.
    keep: Option<PathBuf>,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// By client: the program that runs its script, or why there is none.
    pythons: BTreeMap<RealClient, Result<PathBuf, String>>,
    own: Option<Own>,
}

/// A folder that goes with the run.
#[derive(Debug)]
struct Own {
    folder: PathBuf,
    #[expect(dead_code, reason = "held, not looked at")]
    lock: Flock<File>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // What stays is removed by the next run that needs such a folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Own {
    fn make() -> io::Result<Self> {
        let place = std::env::temp_dir();
        remove_dead(&place);
        let folder = place.join(format!("{PREFIX}{}", hex::encode(rand::random::<[u8; 8]>())));
        fs::create_dir(&folder)?;
        let file = File::create(folder.join(LOCK))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        Ok(Self { folder, lock: lock.map_err(|(_, errno)| errno)? })
    }
}

/// Removes the folders of runs that were killed: those whose lock nobody holds.
fn remove_dead(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(file) = File::open(entry.path().join(LOCK)) else { continue };
        if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
            // It is nobody's; what cannot be removed now is tried again by the next run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Clients {
    /// Clients in the virtual environment `keep`, which is made where it is not there and stays; without one in a
    /// folder that goes with the run.
    pub fn new(keep: Option<PathBuf>) -> Self {
        Self { keep, made: Mutex::default() }
    }

    /// Installs `client`, unless that was tried before; answers the program that runs its script.
    ///
    /// # Errors
    /// Why it cannot be installed here, in words.
    pub async fn install(&self, client: RealClient) -> Result<PathBuf, String> {
        let mut made = self.made.lock().await;
        if let Some(known) = made.pythons.get(&client) {
            return known.clone();
        }
        let place = match (&self.keep, &made.own) {
            (Some(keep), _) => std::path::absolute(keep).map_err(|error| error.to_string()),
            (None, Some(own)) => Ok(own.folder.join("venv")),
            (None, None) => match Own::make() {
                Ok(own) => Ok(made.own.insert(own).folder.join("venv")),
                Err(error) => Err(format!("no folder for it: {error}")),
            },
        };
        let installed = match place {
            Ok(place) => installed("python3", &place, recipe(client).packages).await,
            Err(why) => Err(why),
        };
        let installed = installed.map_err(|why| format!("the client {client}: {why}"));
        made.pythons.insert(client, installed.clone());
        installed
    }
}

/// Makes the virtual environment `place` if it is not there, installs `packages` into it, and answers its Python.
async fn installed(python: &str, place: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let own = place.join("bin/python");
    if !own.exists() {
        let arguments = ["-m".as_ref(), "venv".as_ref(), place.as_os_str()];
        run(Path::new(python), &arguments).await?;
    }
    let mut arguments = ["-m", "pip", "install", "-q", "--disable-pip-version-check"].to_vec();
    arguments.extend(packages);
    let arguments: Vec<&OsStr> = arguments.into_iter().map(OsStr::new).collect();
    run(&own, &arguments).await?;
    Ok(own)
}

/// Runs a program of the installation to its end.
async fn run(program: &Path, arguments: &[&OsStr]) -> Result<(), String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let Ok(ended) = time::timeout(INSTALL_PATIENCE, command.output()).await else {
        return Err(format!("{name} did not end within {} s", INSTALL_PATIENCE.as_secs()));
    };
    let output = ended.map_err(|error| format!("{name} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{name} ended with {}: {last}", output.status))
}

/// Whether the part of a script that ended so was as it expects; `None` when that is not known.
fn passed(status: Option<ExitStatus>) -> Option<bool> {
    match status?.code()? {
        0 => Some(true),
        LACKING => None,
        _ => Some(false),
    }
}

impl Life<'_> {
    /// Sends a real client through a part of its flow, and writes down how it got through.
    pub(super) async fn visit(&self, index: usize, step: &ClientStep) -> Result<(), Trouble> {
        self.waiting.on_the_cluster(format!("{} to get through `{}`", step.name, step.part.name()));
        let (passed, words) = match self.clients.install(step.name).await {
            Ok(python) => self.conduct(index, step, &python).await?,
            Err(why) => (None, why),
        };
        let (client, part) = (step.name.to_string(), step.part.name().to_owned());
        let note = ClientNote { client, part, passed, words };
        self.recorder.record(Event::Noted(Note::Client(note)));
        Ok(())
    }

    async fn conduct(
        &self,
        index: usize,
        step: &ClientStep,
        python: &Path,
    ) -> Result<(Option<bool>, String), Trouble> {
        let recipe = recipe(step.name);
        let folder = self.testbed.context().directory.join(FOLDER);
        fs::create_dir_all(&folder).map_err(TestbedError::io("write", &folder))?;
        let script = folder.join(recipe.name);
        fs::write(&script, recipe.script).map_err(TestbedError::io("write", &script))?;
        let log = folder.join(format!("{index}-{}-{}.log", step.name, step.part.name()));
        let output = File::create(&log).map_err(TestbedError::io("write", &log))?;
        let errors = output.try_clone().map_err(TestbedError::io("write", &log))?;
        let nodes = 0..self.plan.testbed.nodes;
        let endpoints = nodes.map(|node| format!("http://{}", self.testbed.client_address(node)));
        let secrets = self.testbed.credentials();
        let mut command = Command::new(python);
        command
            .arg(&script)
            .arg(step.part.name())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("FIREDRILL_ENDPOINTS", endpoints.collect::<Vec<_>>().join(","))
            .env("FIREDRILL_WAREHOUSE", &step.warehouse)
            .env("FIREDRILL_ACCESS_KEY", &secrets.access_key)
            .env("FIREDRILL_SECRET_KEY", &secrets.secret_key)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(TestbedError::io("start", python))?;
        let Ok(ended) = time::timeout(PART_PATIENCE, child.wait()).await else {
            let words = format!("it did not end within {} s", PART_PATIENCE.as_secs());
            return Ok((None, words));
        };
        let status = ended.map_err(TestbedError::io("wait for", python))?;
        let words = format!("{} ({status})", last_line(&log));
        Ok((passed(Some(status)), words))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_a_script_that_ends_with_0_has_passed() {
        let exited = |code: i32| Some(ExitStatus::from_raw(code << 8));
        assert_eq!(passed(exited(0)), Some(true));
        assert_eq!(passed(exited(1)), Some(false), "an assertion that did not hold");
        assert_eq!(passed(exited(LACKING)), None, "the client is not there");
        assert_eq!(passed(Some(ExitStatus::from_raw(9))), None, "it was killed");
        assert_eq!(passed(None), None);
    }

    #[test]
    fn a_machine_that_cannot_install_says_why() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("venv");
        let why = runtime.block_on(installed("no-such-python", &place, &["nothing"])).unwrap_err();
        assert!(why.contains("no-such-python cannot be started"), "{why}");
        // A Python that is there and fails: nothing is taken for an installation.
        fs::create_dir_all(place.join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/false", place.join("bin/python")).unwrap();
        let why = runtime.block_on(installed("python3", &place, &["nothing"])).unwrap_err();
        assert!(why.contains("python ended with"), "{why}");
    }

    #[test]
    fn folders_of_dead_runs_go_and_those_of_live_ones_stay() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            (File::create(folder.join(LOCK)).unwrap(), folder)
        };
        let (_, dead) = make("firedrill-clients-dead");
        let (held, alive) = make("firedrill-clients-alive");
        let (_, other) = make("another");
        let lock = Flock::lock(held, FlockArg::LockExclusiveNonblock).unwrap();
        remove_dead(place.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
        drop(lock);
        remove_dead(place.path());
        assert!(!alive.exists());
    }
}

//! One life of a node: the process group, its log, its end.

use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::harness::testbed::processes;
use crate::protocol::control::CONTROL_FD_VARIABLE;
use crate::sys;
use crate::sys::ChildSetup;

/// Bytes of a log that are searched for its last line.
const LOG_TAIL_BYTES: u64 = 4096;

/// Everything that a node's process is started with.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its configuration.
    pub config: &'a Path,
    /// Where its output goes.
    pub log: &'a File,
    /// The mount namespace that it lives in; that of its parent when there is none.
    pub mounts: Option<OwnedFd>,
    /// Its end of the control channel.
    pub control: OwnedFd,
}

/// A process of ours, the first of its own group, reaped by a task of its own.
#[derive(Debug, Clone)]
pub struct NodeProcess {
    pid: i32,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl NodeProcess {
    /// Starts it. `on_end` is awaited once it was reaped, before anybody learns of it.
    ///
    /// # Errors
    /// As the kernel has them.
    pub fn start<F>(
        start: Start<'_>,
        on_end: impl FnOnce(ExitStatus) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut command = Command::new(start.program);
        command
            .arg("node")
            .arg("--config")
            .arg(start.config)
            .env_clear()
            .env("RUST_BACKTRACE", "1")
            .env("RUST_LOG", "info")
            .env(CONTROL_FD_VARIABLE, start.control.as_raw_fd().to_string())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(start.log.try_clone()?)
            .stderr(start.log.try_clone()?)
            .process_group(0);
        let setup = ChildSetup {
            join_mounts: start.mounts,
            keep: Some(start.control),
            ..ChildSetup::default()
        };
        sys::prepare_child(&mut command, setup);
        let mut child = tokio::process::Command::from(command).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| io::Error::other("the child has no number"))?;
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            let status = child.wait().await.expect("nobody else waits for this child");
            on_end(status).await;
            tell.send_replace(Some(status));
        });
        Ok(Self { pid, ended })
    }

    /// Its number, which is also its group's.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// How it ended; `None` while it lives.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Sends a signal to its whole group; nothing when it was reaped.
    ///
    /// # Errors
    /// As the kernel has them.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.status().is_some() {
            return Ok(());
        }
        match killpg(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether every thread of it is stopped, or hangs in the kernel where nothing can stop it.
    pub fn is_stopped(&self) -> bool {
        let states = processes::thread_states(self.pid).unwrap_or_default();
        !states.is_empty() && states.iter().all(|state| matches!(state, 'T' | 'D' | 'Z' | 'X'))
    }

    /// Waits until it was reaped; `None` when that took longer than `patience`.
    pub async fn ended(&self, patience: Duration) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        let waited = timeout(patience, ended.wait_for(Option::is_some)).await;
        waited.ok().and_then(Result::ok).and_then(|status| *status)
    }
}

/// The last line of a log that says anything.
pub fn last_line(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(String::from_utf8_lossy(&tail).into_owned())
    };
    let tail = read().unwrap_or_default();
    tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

//! Mount and PID namespaces of our own, entered by executing this program again.
//!
//! ```text
//! outer    what the user started: waits, passes signals on          its own namespaces
//!  └ reaper   first process of the new PID namespace: reaps, thaws   new mount and PID namespace
//!     └ harness  the command itself                                  the same
//!        └ nodes                                                     one mount namespace each
//! ```
//!
//! When the harness dies, the reaper ends; when the outer process dies, a pipe tells the reaper, and it ends;
//! when the reaper ends, however, the kernel ends every process of the namespace, and with the last of
//! them the mounts and loop devices go. Nothing hangs on parent-death signals, which follow a thread.
//!
//! Only [`enter`] is called from outside, before any thread exists.

use std::env;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::process::ExitCode;
use std::process::ExitStatus;

use nix::fcntl::OFlag;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use nix::sys::signal::SigSet;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signalfd::SfdFlags;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use nix::unistd::pipe2;

use super::TestbedError;
use super::capability;
use super::clean;
use super::mounts;
use super::registry;
use crate::sys;
use crate::sys::ChildSetup;

/// Tells a re-executed process which of the three it is.
const STAGE_VARIABLE: &str = "FIREDRILL_STAGE";
/// Signals that the outer processes pass on to the harness, which tears down and ends by itself.
const PASSED_ON: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Where a process that called [`enter`] finds itself.
#[derive(Debug)]
pub enum Entered {
    /// In namespaces of our own, as the harness: go on.
    Inside,
    /// The command was done by another process: end with this.
    Ended(ExitCode),
}

/// Enters mount and PID namespaces of our own, having removed what dead testbeds left.
///
/// Call it first thing in `main`: it executes this program again, with the same arguments, and in the
/// process that the user started it returns only when that has ended.
///
/// # Errors
/// [`TestbedError::Lacking`] when this machine cannot; nothing was made then.
pub fn enter() -> Result<Entered, TestbedError> {
    let Ok(stage) = env::var(STAGE_VARIABLE) else {
        capability::require_namespaces()?;
        let swept = clean::sweep();
        for line in swept.removed.iter().chain(&swept.problems) {
            eprintln!("firedrill: {line}");
        }
        return run_outer().map(|status| Entered::Ended(exit_code(status)));
    };
    let mut words = stage.split(' ');
    match (words.next(), words.next().and_then(|fd| fd.parse().ok()), words.next(), words.next()) {
        (Some("reaper"), Some(pipe), Some(mounts), Some(pids)) => {
            let pipe = sys::inherited_descriptor(pipe)
                .map_err(TestbedError::io("take over the pipe of", "the outer process"))?;
            run_reaper(pipe, &Parents { mounts: mounts.to_owned(), pids: pids.to_owned() })
        }
        (Some("harness"), ..) => Ok(Entered::Inside),
        _ => {
            let reason = format!("{STAGE_VARIABLE} is {stage:?}, which only this program sets");
            Err(TestbedError::Taken { path: STAGE_VARIABLE.into(), reason })
        }
    }
}

/// Whether this process is a harness inside its own namespaces.
pub(super) fn is_inside() -> bool {
    env::var(STAGE_VARIABLE).is_ok_and(|stage| stage.starts_with("harness"))
}

/// The namespaces of the outer process, which ours must differ from.
#[derive(Debug, PartialEq, Eq)]
struct Parents {
    mounts: String,
    pids: String,
}

impl Parents {
    fn of_this_process() -> io::Result<Self> {
        let read = |name: &str| -> io::Result<String> {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}"))?;
            Ok(link.to_string_lossy().into_owned())
        };
        Ok(Self { mounts: read("mnt")?, pids: read("pid")? })
    }
}

/// The same program with the same arguments, as another stage.
fn this_program(stage: &str) -> io::Result<Command> {
    let mut arguments = env::args_os();
    let name = arguments.next();
    let mut command = Command::new(env::current_exe()?);
    if let Some(name) = name {
        command.arg0(name);
    }
    command.args(arguments).env(STAGE_VARIABLE, stage);
    Ok(command)
}

/// Signals as a descriptor; they are blocked in this process from now on.
fn signals(and: &[Signal]) -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in PASSED_ON.iter().chain(and) {
        set.add(*signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)
}

/// The outer process: starts the reaper in new namespaces, passes signals on, waits.
fn run_outer() -> Result<ExitStatus, TestbedError> {
    let fail = |step| TestbedError::io(step, "the new namespaces");
    let parents = Parents::of_this_process().map_err(fail("read the links of"))?;
    let (theirs, ours) =
        pipe2(OFlag::O_CLOEXEC).map_err(TestbedError::errno("make the pipe of", "the reaper"))?;
    let signals = signals(&[Signal::SIGCHLD]).map_err(TestbedError::errno("block", "signals"))?;
    unshare_pids().map_err(fail("make"))?;
    let stage = format!("reaper {} {} {}", theirs.as_raw_fd(), parents.mounts, parents.pids);
    let mut command = this_program(&stage).map_err(fail("find the program for"))?;
    // Signals of the terminal reach the outer process alone, which passes each on once.
    command.process_group(0);
    let setup = ChildSetup { new_mounts: true, keep: Some(theirs), ..ChildSetup::default() };
    sys::prepare_child(&mut command, setup);
    let mut reaper = command.spawn().map_err(fail("start the reaper in"))?;
    drop(command);
    let pid = Pid::from_raw(reaper.id() as i32);
    let status = loop {
        if let Some(status) = reaper.try_wait().map_err(fail("wait for the reaper of"))? {
            break status;
        }
        let signal = signals.read_signal().map_err(TestbedError::errno("read", "signals"))?;
        let number = signal.map(|signal| signal.ssi_signo as i32);
        if let Some(signal) = number.and_then(|number| Signal::try_from(number).ok())
            && signal != Signal::SIGCHLD
        {
            // It may just have ended.
            let _ = kill(pid, signal);
        }
    };
    drop(ours);
    Ok(status)
}

/// Makes a PID namespace for the children to come. A thread that was joined a moment ago may still
/// count, so that the kernel refuses for an instant.
fn unshare_pids() -> io::Result<()> {
    for _ in 0..1000 {
        match unshare(CloneFlags::CLONE_NEWPID) {
            Err(nix::errno::Errno::EINVAL) => std::thread::yield_now(),
            other => return Ok(other?),
        }
    }
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// The first process of the PID namespace. Its end is everybody's end.
fn run_reaper(pipe: OwnedFd, parents: &Parents) -> Result<Entered, TestbedError> {
    let fail = |step| TestbedError::io(step, "the new namespaces");
    mounts::make_private().map_err(TestbedError::errno("make private", "/"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
        .map_err(TestbedError::errno("mount", "/proc"))?;
    assert_isolated(parents).map_err(fail("check"))?;
    let signals = signals(&[Signal::SIGCHLD]).map_err(TestbedError::errno("block", "signals"))?;
    let mut command = this_program("harness").map_err(fail("find the program for"))?;
    sys::prepare_child(&mut command, ChildSetup::default());
    let harness = command.spawn().map_err(fail("start the harness in"))?;
    let harness = Pid::from_raw(harness.id() as i32);
    loop {
        if let Some(status) = reap(harness) {
            thaw_everything();
            return Ok(Entered::Ended(exit_code(status)));
        }
        let mut waited_for = [
            PollFd::new(pipe.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waited_for, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(TestbedError::errno("wait for", "the harness")(errno)),
        }
        // Nobody ever writes to the pipe: anything on it means that the outer process is gone.
        if waited_for[0].any() == Some(true) {
            thaw_everything();
            sys::exit_now(128 + Signal::SIGKILL as i32);
        }
        if waited_for[1].any() == Some(true)
            && let Ok(Some(signal)) = signals.read_signal()
            && let Ok(signal) = Signal::try_from(signal.ssi_signo as i32)
            && signal != Signal::SIGCHLD
        {
            // It may just have ended.
            let _ = kill(harness, signal);
        }
    }
}

/// Reaps whatever has ended; answers the status of the harness if it was among them.
fn reap(harness: Pid) -> Option<ExitStatus> {
    let mut ended = None;
    loop {
        let (pid, raw) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, code << 8),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, signal as i32),
            Ok(WaitStatus::StillAlive) | Err(_) => return ended,
            Ok(_) => continue,
        };
        if pid == harness {
            ended = Some(ExitStatus::from_raw(raw));
        }
    }
}

/// Thaws every drive of ours: a process that hangs in a frozen one cannot be ended, not even by the kernel.
fn thaw_everything() {
    for line in mounts::table().unwrap_or_default() {
        if line.path.starts_with(registry::root())
            && let Ok(root) = File::open(&line.path)
        {
            // Most are not frozen, which is an error.
            let _ = sys::thaw(&root);
        }
    }
}

/// Checks that these namespaces are ours alone and that no mount of ours will appear anywhere else.
fn assert_isolated(parents: &Parents) -> io::Result<()> {
    let ours = Parents::of_this_process()?;
    assert_ne!(ours.mounts, parents.mounts, "the mount namespace is still the user's");
    assert_ne!(ours.pids, parents.pids, "the PID namespace is still the user's");
    assert_eq!(std::process::id(), 1, "the reaper is the first process of its namespace");
    let shared: Vec<_> = mounts::table()?.into_iter().filter(|line| line.is_shared).collect();
    assert!(shared.is_empty(), "mounts of ours would appear elsewhere: {shared:?}");
    Ok(())
}

/// How a process that waited for another ends in its place.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(70))
}

//! Processes as `/proc` tells of them: who they are, whether they are the ones we mean.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A process that can be told from another of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessMark {
    /// Its number in its own (innermost) PID namespace.
    pub pid: i32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl ProcessMark {
    /// The mark of a process that the caller's `/proc` shows under `pid`.
    ///
    /// # Errors
    /// There is none.
    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, start_ticks: stat(pid)?.start_ticks })
    }
}

/// What `/proc/<pid>/stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// Its process group.
    pub group: i32,
    /// Processor time used so far, in clock ticks.
    pub cpu_ticks: u64,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// Reads [`Stat`] of a process or, by its path, of a thread.
///
/// # Errors
/// It is gone.
pub fn stat(pid: i32) -> io::Result<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// Takes `/proc/<pid>/stat` apart; the name in it may hold anything, parentheses and blanks too.
fn parse_stat(text: &str) -> io::Result<Stat> {
    let refuse = || io::Error::new(io::ErrorKind::InvalidData, format!("no stat line: {text:?}"));
    let (_, rest) = text.rsplit_once(") ").ok_or_else(refuse)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The state is field 3 of the manual page.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let state = fields.first().and_then(|field| field.chars().next()).ok_or_else(refuse)?;
    let group = fields.get(2).and_then(|field| field.parse().ok()).ok_or_else(refuse)?;
    let used = number(14).zip(number(15)).ok_or_else(refuse)?;
    let start_ticks = number(22).ok_or_else(refuse)?;
    Ok(Stat { state, group, cpu_ticks: used.0 + used.1, start_ticks })
}

/// The states of all threads of a process.
///
/// # Errors
/// It is gone.
pub fn thread_states(pid: i32) -> io::Result<Vec<char>> {
    let mut states = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while we look.
        let Ok(text) = fs::read_to_string(thread?.path().join("stat")) else {
            continue;
        };
        states.push(parse_stat(&text)?.state);
    }
    Ok(states)
}

/// The PID namespace of a process, as the kernel writes it (`pid:[4026531836]`).
///
/// # Errors
/// It is gone, or is somebody else's.
pub fn pid_namespace(pid: &str) -> io::Result<String> {
    let link: PathBuf = fs::read_link(format!("/proc/{pid}/ns/pid"))?;
    Ok(link.to_string_lossy().into_owned())
}

/// The processes of a PID namespace that the caller's `/proc` shows: number here, and mark there.
///
/// # Errors
/// `/proc` cannot be read.
pub fn members_of(namespace: &str) -> io::Result<Vec<(i32, ProcessMark)>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Whatever ends while we look is no member any more.
        if pid_namespace(&pid.to_string()).is_ok_and(|found| found == namespace)
            && let Ok(inner) = inner_pid(pid)
            && let Ok(stat) = stat(pid)
        {
            members.push((pid, ProcessMark { pid: inner, start_ticks: stat.start_ticks }));
        }
    }
    Ok(members)
}

/// The number of a process in its innermost PID namespace.
fn inner_pid(pid: i32) -> io::Result<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let number = line.and_then(|numbers| numbers.split_ascii_whitespace().last()?.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no NSpid line"))
}

/// Whether a process that is still there has been killed: nothing can keep it any more.
pub fn is_dying(pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let has_line = |name: &str| status.lines().any(|line| line.starts_with(name));
    let pending = ["SigPnd:", "ShdPnd:"].into_iter().any(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
        set & SIGKILL_BIT != 0
    });
    // A process that is on its way out gives its memory back first.
    pending || !has_line("VmSize:")
}

/// SIGKILL in a set of signals.
const SIGKILL_BIT: u64 = 1 << 8;

/// The kernel's id of this boot.
///
/// # Errors
/// `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_in_its_namespace_with_its_mark() {
        let pid = std::process::id() as i32;
        let namespace = pid_namespace("self").unwrap();
        let mark = ProcessMark::of(pid).unwrap();
        assert!(mark.start_ticks > 0);
        assert!(members_of(&namespace).unwrap().contains(&(pid, mark)));
        assert!(!is_dying(pid));
        assert!(!members_of("pid:[1]").unwrap().iter().any(|(found, _)| *found == pid));
    }

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) b (c) S 1 9 9 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 4711 0 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { state: 'S', group: 9, cpu_ticks: 7, start_ticks: 4711 });
    }
}

//! Takes away what dead testbeds left: only theirs, and only what their ledgers name.
//!
//! A testbed is dead when the lock of its registry entry is free. Its processes are ended first (by PID
//! namespace, number *and* start time), after its frozen file systems were thawed, because whatever hangs in
//! one cannot die. The kernel then drops the namespaces, mounts and loop devices by itself; what it has
//! not dropped after a while is taken away by tag.

use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::fcntl::Flock;
use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount2;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::TestbedError;
use super::ledger;
use super::ledger::LedgerEntry;
use super::loops;
use super::mounts;
use super::processes;
use super::processes::ProcessMark;
use super::registry;
use super::registry::Entry;
use super::registry::REGISTRY_FORMAT;
use crate::harness::report::Chain;
use crate::sys;

/// How long processes and devices of a dead testbed may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often they are looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// What was removed, a line each.
    pub removed: Vec<String>,
    /// Testbeds that live and were left alone.
    pub alive: Vec<String>,
    /// What could not be removed, a line each (exit 75).
    pub problems: Vec<String>,
}

/// Takes away what every dead testbed left. Must run outside the namespaces of any testbed.
pub fn sweep() -> Swept {
    let mut swept = Swept::default();
    let files = match fs::read_dir(registry::root()) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return swept,
        Err(error) => {
            swept.problems.push(format!("cannot read {}: {error}", registry::root().display()));
            return swept;
        }
    };
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "json")) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match sweep_one(path) {
            Ok(None) => swept.alive.push(name),
            Ok(Some(words)) => swept.removed.push(format!("testbed {name}: {words}")),
            Err(error) => {
                let why = Chain(&error);
                swept.problems.push(format!("testbed {name} cannot be cleaned up: {why}"));
            }
        }
    }
    if let Err(error) = remove_unfinished(&paths) {
        swept.problems.push(Chain(&error).to_string());
    }
    remove_if_unused();
    swept
}

/// Removes entries of testbeds that were killed while they entered the registry.
fn remove_unfinished(paths: &[PathBuf]) -> Result<(), TestbedError> {
    let is_unfinished = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(registry::UNFINISHED)
    };
    let unfinished: Vec<&PathBuf> = paths.iter().filter(is_unfinished).collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    // Nobody is entering while we hold this.
    let _others = registry::lock_out_others()?;
    for path in unfinished {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(TestbedError::io("remove", path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes the registry itself away when nobody uses it.
pub(super) fn remove_if_unused() {
    let lock_path = registry::lock_path();
    // Whoever holds the lock is about to make something.
    if let Ok(Some(_lock)) = registry::try_lock(&lock_path) {
        let has_entries = fs::read_dir(registry::root())
            .is_ok_and(|files| files.flatten().any(|file| file.path() != lock_path));
        if !has_entries {
            // Whoever waits for the lock sees that its file is gone, and makes a new one.
            let _ = fs::remove_file(&lock_path);
        }
    }
    // Fails when somebody has an entry, as it should.
    let _ = fs::remove_dir(registry::root());
}

/// Cleans up after one testbed; `None` when it lives.
fn sweep_one(path: &Path) -> Result<Option<String>, TestbedError> {
    let lock = match lock_unless_alive(path) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(None),
        // It ended properly while we looked.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TestbedError::io("lock", path)(error)),
    };
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(path).map_err(TestbedError::io("read", path))?;
    let entry: Entry = serde_json::from_slice(&text)
        .map_err(|error| TestbedError::io("read", path)(error.into()))?;
    if entry.format > REGISTRY_FORMAT {
        let reason = format!("format {} of a newer version", entry.format);
        return Err(TestbedError::Taken { path: path.to_owned(), reason });
    }
    let boot_id = processes::boot_id().map_err(TestbedError::io("read", "/proc"))?;
    let words = if entry.boot_id == boot_id {
        sweep_machine(&entry)?
    } else {
        "was lost with the machine's last boot".to_owned()
    };
    let folder = registry::folder_of(&entry.testbed);
    match fs::remove_dir(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(TestbedError::io("remove", &folder)(error)),
    }
    registry::remove_entry(path)?;
    drop(lock);
    Ok(Some(words))
}

/// Locks an entry; `None` when its testbed lives. A harness that was killed a moment ago may hold the lock
/// for as long as the kernel takes to end it.
fn lock_unless_alive(path: &Path) -> io::Result<Option<Flock<File>>> {
    let begun = Instant::now();
    loop {
        if let Some(lock) = registry::try_lock(path)? {
            return Ok(Some(lock));
        }
        let entry = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let is_dying = entry.is_some_and(|entry: Entry| has_dying_harness(&entry));
        if !is_dying || begun.elapsed() > PATIENCE {
            return Ok(None);
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// Whether the harness of an entry has been killed and is still there.
fn has_dying_harness(entry: &Entry) -> bool {
    let mark = ProcessMark { pid: entry.pid, start_ticks: entry.start_ticks };
    let members = processes::members_of(&entry.pid_namespace).unwrap_or_default();
    let found = members.iter().find(|(_, found)| *found == mark);
    found.is_some_and(|(pid, _)| processes::is_dying(*pid))
}

/// Ends the processes and devices of a testbed of this boot.
fn sweep_machine(entry: &Entry) -> Result<String, TestbedError> {
    // A testbed that was killed before it had a ledger made nothing but its entry.
    let entries = ledger::read(&entry.ledger).unwrap_or_default();
    let frozen = frozen_devices(&entries, &entry.loop_tag);
    for number in &frozen {
        thaw_unless_gone(*number, &entry.loop_tag)
            .map_err(TestbedError::io("thaw the file system on", loops::device_path(*number)))?;
    }
    let ended = end_processes(entry, &entries)?;
    let mut made: Vec<u32> = entries
        .iter()
        .filter_map(|entry| match entry {
            LedgerEntry::LoopMade { number } => Some(*number),
            _ => None,
        })
        .collect();
    made.extend(ours_by_tag(&entry.loop_tag));
    made.sort_unstable();
    made.dedup();
    for number in &made {
        detach(*number, &entry.loop_tag)?;
    }
    let control = loops::control()?;
    let _others = registry::lock_out_others()?;
    loops::remove_each(&control, &made).into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(format!(
        "{ended} processes ended, {} file systems thawed, {} loop devices removed",
        frozen.len(),
        made.len()
    ))
}

/// Devices of this tag that the ledger calls frozen.
fn frozen_devices(entries: &[LedgerEntry], tag: &str) -> Vec<u32> {
    let mut frozen = Vec::new();
    for entry in entries {
        match entry {
            LedgerEntry::Freeze { number } => frozen.push(*number),
            LedgerEntry::Thawed { number } => frozen.retain(|other| other != number),
            _ => {}
        }
    }
    frozen.retain(|number| is_ours(*number, tag));
    frozen
}

/// Whether the device of this number carries an image under this tag.
fn is_ours(number: u32, tag: &str) -> bool {
    loops::tag_at(number).is_ok_and(|found| found.as_deref() == Some(tag))
}

/// The devices that carry an image under this tag.
fn ours_by_tag(tag: &str) -> Vec<u32> {
    let Ok(devices) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let numbers = devices.flatten().filter_map(|device| {
        device.file_name().to_str()?.strip_prefix("loop")?.parse::<u32>().ok()
    });
    numbers.filter(|number| loops::may_be_ours(*number) && is_ours(*number, tag)).collect()
}

/// Thaws the file system on a device of ours, unless the kernel takes the device away while we try: the reaper
/// may have thawed it, and its last user may just be leaving.
fn thaw_unless_gone(number: u32, tag: &str) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        let thawed = thaw_orphan(number);
        if thawed.is_ok() || !is_ours(number, tag) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return thawed;
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// Thaws the file system on a device that nobody can reach any more, by mounting the device once more: the
/// kernel hands out the file system that it still holds.
fn thaw_orphan(number: u32) -> io::Result<()> {
    mounts::on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mounts::make_private()?;
        let folder = tempfile::tempdir()?;
        let device = loops::device_path(number);
        for kind in ["ext4", "xfs"] {
            let options = (kind == "xfs").then_some("nouuid");
            let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
            if mount(Some(&device), folder.path(), Some(kind), flags, options).is_err() {
                continue;
            }
            let thawed = File::open(folder.path()).and_then(|root| sys::thaw(&root));
            umount2(folder.path(), MntFlags::MNT_DETACH)?;
            return match thawed {
                // Thawed already.
                Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => Ok(()),
                other => other,
            };
        }
        Err(io::Error::other("it cannot be mounted"))
    })
}

/// Ends the processes that the testbed's ledger names and that still are the same.
fn end_processes(entry: &Entry, entries: &[LedgerEntry]) -> Result<usize, TestbedError> {
    let mut marks = vec![ProcessMark { pid: entry.pid, start_ticks: entry.start_ticks }];
    marks.extend(entries.iter().filter_map(|entry| match entry {
        LedgerEntry::Process { pid, start_ticks, .. } => {
            Some(ProcessMark { pid: *pid, start_ticks: *start_ticks })
        }
        _ => None,
    }));
    let begun = Instant::now();
    let mut ended = std::collections::BTreeSet::new();
    loop {
        let members = processes::members_of(&entry.pid_namespace)
            .map_err(TestbedError::io("list the processes of", "/proc"))?;
        let left: Vec<_> = members.into_iter().filter(|(_, mark)| marks.contains(mark)).collect();
        if left.is_empty() {
            return Ok(ended.len());
        }
        for (pid, mark) in left {
            // It may have gone since; its number cannot have been given away again within this loop's
            // period unless the whole range was used up.
            if kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() {
                ended.insert(mark);
            }
        }
        if begun.elapsed() > PATIENCE {
            let state = format!("the processes of testbed {} to end", entry.testbed);
            return Err(TestbedError::Late { state, waited: PATIENCE });
        }
        thread::sleep(LOOK_PERIOD);
    }
}

/// Waits until a device of ours has lost its image; in the end tells the kernel to take it.
fn detach(number: u32, tag: &str) -> Result<(), TestbedError> {
    let begun = Instant::now();
    while is_ours(number, tag) {
        if begun.elapsed() > PATIENCE {
            let path = loops::device_path(number);
            let device = File::open(&path).map_err(TestbedError::io("open", &path))?;
            sys::loop_clear(&device).map_err(TestbedError::io("detach", &path))?;
            drop(device);
            return loops::wait_detached(number);
        }
        thread::sleep(LOOK_PERIOD);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_thawed_again_is_not_frozen() {
        let entries = [
            LedgerEntry::Freeze { number: 900_001 },
            LedgerEntry::Freeze { number: 900_002 },
            LedgerEntry::Thawed { number: 900_001 },
        ];
        // No such device exists, so that none of them is ours.
        assert!(frozen_devices(&entries, "firedrill:x").is_empty());
    }
}

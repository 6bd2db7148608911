//! What this machine can do, found out by doing it and never by a name or a version.
//!
//! Every probe undoes itself. `firedrill doctor` prints them; a run asks only for what it needs.

use std::env;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;

use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount2;
use nix::sched::CloneFlags;
use nix::sched::unshare;
use serde::Serialize;
use uuid::Uuid;

use super::TestbedError;
use super::image::Images;
use super::ledger::Ledger;
use super::loops::Loops;
use super::mounts;
use super::registry;
use crate::harness::report::Chain;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::Rung;
use crate::sys;
use crate::sys::ChildSetup;

/// One thing that a machine can do or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Its name.
    pub name: &'static str,
    /// What it is needed for.
    pub needed_for: &'static str,
    /// What was seen when it was tried.
    pub found: Result<String, String>,
    /// How to get it; empty when it is there.
    pub how: String,
}

/// A rung of the ladder, and whether this machine and this version have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RungState {
    /// The rung.
    pub rung: Rung,
    /// Why not; `None` when it is there.
    pub lacking: Option<String>,
}

/// The bit of `CAP_SYS_ADMIN` in a capability set.
const CAP_SYS_ADMIN: u64 = 1 << 21;
/// Size of throwaway images.
const PROBE_MIB: u64 = 16;
/// The smallest xfs that its tools make even when told that it is unsupported, with room to spare.
const PROBE_XFS_MIB: u64 = 64;
/// How packages are installed on the systems that we know.
const INSTALL: &str = "apt-get install";

fn is_root() -> Result<String, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    if !nix::unistd::geteuid().is_root() {
        return Err(format!("user {} is not root", nix::unistd::geteuid()));
    }
    if effective & CAP_SYS_ADMIN == 0 {
        return Err("root without CAP_SYS_ADMIN".to_owned());
    }
    Ok("root with CAP_SYS_ADMIN".to_owned())
}

/// Whether a child can have mount and PID namespaces of its own.
fn has_namespaces() -> Result<String, String> {
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let setup = ChildSetup { new_mounts: true, new_pids: true, ..ChildSetup::default() };
    sys::prepare_child(&mut command, setup);
    match command.status() {
        Ok(status) if status.success() => Ok("a child got its own".to_owned()),
        Ok(status) => Err(format!("a child in its own ended with {status}")),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

/// What a throwaway drive told.
struct DriveFacts {
    has_direct_io: bool,
    tells_uuid: bool,
    tells_unique_mounts: bool,
    dies_on_shutdown: bool,
}

/// Makes a drive, attaches, mounts and shuts it down, in a mount namespace of its own.
fn try_drive(filesystem: Filesystem, mib: u64) -> Result<DriveFacts, String> {
    let act = || -> io::Result<Result<DriveFacts, TestbedError>> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mounts::make_private()?;
        let folder = tempfile::tempdir()?;
        let none = None::<&str>;
        mount(Some("firedrill"), folder.path(), Some("tmpfs"), MsFlags::empty(), none)?;
        let facts = try_drive_in(folder.path(), filesystem, mib);
        umount2(folder.path(), MntFlags::MNT_DETACH)?;
        Ok(facts)
    };
    let had_registry = registry::root().exists();
    fs::create_dir_all(registry::root()).map_err(|error| error.to_string())?;
    let tried = mounts::on_a_thread(act);
    if !had_registry {
        super::clean::remove_if_unused();
    }
    match tried {
        Ok(Ok(facts)) => Ok(facts),
        Ok(Err(error)) => Err(Chain(&error).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn try_drive_in(
    folder: &Path,
    filesystem: Filesystem,
    mib: u64,
) -> Result<DriveFacts, TestbedError> {
    let images = Images::new(filesystem, mib, folder)?;
    let ledger = Arc::new(Ledger::create(&[folder.join("ledger.jsonl")], "doctor")?);
    let loops = Loops::new(ledger, &format!("doctor-{}", std::process::id()));
    let path = images.path("probe");
    images.make(&path, Uuid::from_u128(0x4000_8000_0000_0000_0001))?;
    let device = loops.attach_fresh(&path)?;
    let root = folder.join("root");
    fs::create_dir(&root).map_err(TestbedError::io("create", &root))?;
    let has_direct_io = fs::read_to_string(format!("/sys/block/loop{}/loop/dio", device.number()))
        .is_ok_and(|text| text.trim() == "1");
    let kind = match filesystem {
        Filesystem::Ext4 => "ext4",
        Filesystem::Xfs => "xfs",
    };
    let none = None::<&str>;
    let mounted = mount(Some(&device.path()), &root, Some(kind), MsFlags::empty(), none);
    let facts = mounted.map_err(TestbedError::errno("mount", &root)).and_then(|()| {
        let facts = look_at_drive(&root, has_direct_io);
        umount2(&root, MntFlags::empty()).map_err(TestbedError::errno("unmount", &root))?;
        facts.map_err(TestbedError::io("try", &root))
    });
    device.detach()?;
    loops.remove_all()?;
    facts
}

fn look_at_drive(root: &Path, has_direct_io: bool) -> io::Result<DriveFacts> {
    use std::os::fd::AsFd;
    let directory = File::open(root)?;
    let tells_uuid = sys::file_system_uuid(directory.as_fd()).is_ok();
    let tells_unique_mounts = sys::mount_facts(root)?.mount_unique.is_some();
    let mut file = File::create(root.join("probe"))?;
    let is_shut_down = sys::shut_down_file_system(&directory).is_ok();
    let dies_on_shutdown =
        is_shut_down && file.write_all(b"x").and_then(|()| file.sync_all()).is_err();
    Ok(DriveFacts { has_direct_io, tells_uuid, tells_unique_mounts, dies_on_shutdown })
}

/// Whether drives of this kind can be made, mounted and shut down here.
fn has_drives(filesystem: Filesystem, mib: u64) -> Result<String, String> {
    let facts = try_drive(filesystem, mib)?;
    if !facts.dies_on_shutdown {
        return Err("the file system cannot be shut down".to_owned());
    }
    let say = |is: bool, word: &'static str| if is { word } else { "" };
    let words = [
        "made, mounted, shut down",
        say(facts.has_direct_io, "direct I/O"),
        say(facts.tells_uuid, "tells its UUID"),
        say(facts.tells_unique_mounts, "unique mount ids"),
    ];
    Ok(words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", "))
}

/// Whether a tool can be started.
fn has_tool(tool: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(tool).arg(argument).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{tool}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(said.lines().find(|line| !line.trim().is_empty()).unwrap_or(tool).trim().to_owned())
}

/// Tries one thing and says how to get it when it is not there.
fn tried(
    name: &'static str,
    needed_for: &'static str,
    how: &str,
    found: Result<String, String>,
) -> Capability {
    let how = if found.is_ok() { String::new() } else { how.to_owned() };
    Capability { name, needed_for, found, how }
}

/// Tries everything.
pub fn probe() -> Vec<Capability> {
    let root = tried("root", "everything but reading", "run it through sudo", is_root());
    let may = root.found.is_ok();
    let as_root = |probe: &dyn Fn() -> Result<String, String>| {
        if may { probe() } else { Err("not tried without root".to_owned()) }
    };
    let loop_how = "modprobe loop; a container needs --privileged and /dev/loop-control";
    let e2fsprogs = format!("{INSTALL} e2fsprogs");
    let xfsprogs = format!("{INSTALL} xfsprogs");
    vec![
        root,
        tried(
            "namespaces",
            "rung loop: nothing of ours is seen by others, nothing outlives us",
            "a kernel with CONFIG_NAMESPACES and CONFIG_PID_NS; a container needs --privileged",
            as_root(&has_namespaces),
        ),
        tried(
            "loop",
            "rung loop: drives",
            loop_how,
            File::open("/dev/loop-control")
                .map(|_| "/dev/loop-control opens".to_owned())
                .map_err(|error| format!("/dev/loop-control: {error}")),
        ),
        tried("mkfs.ext4", "rung loop: ext4 drives", &e2fsprogs, has_tool("mkfs.ext4", "-V")),
        tried(
            "ext4 drive",
            "rung loop: all faults of ext4 drives",
            &format!("{loop_how}; {e2fsprogs}"),
            as_root(&|| has_drives(Filesystem::Ext4, PROBE_MIB)),
        ),
        tried("mkfs.xfs", "xfs drives", &xfsprogs, has_tool("mkfs.xfs", "-V")),
        tried(
            "xfs drive",
            "all faults of xfs drives",
            &format!("{loop_how}; {xfsprogs}; a kernel with xfs"),
            as_root(&|| has_drives(Filesystem::Xfs, PROBE_XFS_MIB)),
        ),
        tried(
            "fuse",
            "rung block (not built in this version)",
            "modprobe fuse; a container needs --device /dev/fuse",
            File::options()
                .read(true)
                .write(true)
                .open("/dev/fuse")
                .map(|_| "/dev/fuse opens".to_owned())
                .map_err(|error| format!("/dev/fuse: {error}")),
        ),
        tried(
            "qemu",
            "rung vm (not built in this version)",
            &format!("{INSTALL} qemu-system-x86"),
            has_tool("qemu-system-x86_64", "--version"),
        ),
    ]
}

/// What is missing for drives of this kind among what was probed; empty when nothing is.
fn missing<'a>(found: &'a [Capability], names: &[&str]) -> Vec<&'a Capability> {
    found.iter().filter(|one| names.contains(&one.name) && one.found.is_err()).collect()
}

/// Which rungs this machine and this version have.
pub fn rungs(found: &[Capability]) -> Vec<RungState> {
    let lacking = missing(found, &["root", "namespaces", "loop", "mkfs.ext4", "ext4 drive"]);
    let words: Vec<&str> = lacking.iter().map(|one| one.name).collect();
    let not_built = || Some("not built in this version".to_owned());
    vec![
        RungState { rung: Rung::Memory, lacking: not_built() },
        RungState {
            rung: Rung::Loop,
            lacking: (!words.is_empty()).then(|| format!("lacks {}", words.join(", "))),
        },
        RungState { rung: Rung::Block, lacking: not_built() },
        RungState { rung: Rung::Vm, lacking: not_built() },
    ]
}

/// Fails, having made nothing, unless namespaces and drives can be had here.
pub(super) fn require_namespaces() -> Result<(), TestbedError> {
    let lacking = |what: &str, how: &str| TestbedError::Lacking {
        what: what.to_owned(),
        how: how.to_owned(),
    };
    is_root().map_err(|why| lacking(&format!("root ({why})"), "run it through sudo"))?;
    let control = File::open("/dev/loop-control");
    control.map_err(|error| {
        let how = "modprobe loop; a container needs --privileged and /dev/loop-control";
        lacking(&format!("loop devices (/dev/loop-control: {error})"), how)
    })?;
    has_tool("mkfs.ext4", "-V").map_err(|why| lacking(&why, &format!("{INSTALL} e2fsprogs")))?;
    has_namespaces()
        .map(drop)
        .map_err(|why| lacking(&format!("namespaces ({why})"), "a container needs --privileged"))
}

/// Fails, having made nothing, unless drives of this kind can be made here.
pub(super) fn require_filesystem(filesystem: Filesystem) -> Result<(), TestbedError> {
    let (tool, package) = match filesystem {
        Filesystem::Ext4 => ("mkfs.ext4", "e2fsprogs"),
        Filesystem::Xfs => ("mkfs.xfs", "xfsprogs"),
    };
    // Looked for and not started: this stands before every provisioning.
    let folders = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&folders).any(|folder| folder.join(tool).is_file()) {
        return Ok(());
    }
    Err(TestbedError::Lacking { what: tool.to_owned(), how: format!("{INSTALL} {package}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_lacks_what_its_probes_lack() {
        let mut found = vec![tried("root", "", "sudo", Err("not root".to_owned()))];
        let loop_rung = |found: &[Capability]| rungs(found)[1].lacking.clone();
        assert_eq!(loop_rung(&found).as_deref(), Some("lacks root"));
        found[0].found = Ok(String::new());
        assert_eq!(loop_rung(&found), None);
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        assert!(has_tool("firedrill-no-such-tool", "-V").unwrap_err().contains("no-such-tool"));
    }
}

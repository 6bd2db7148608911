//! System calls that no crate offers safely: the only `unsafe` there is.
//!
//! Every block says in a `SAFETY` line what makes it sound. A wrapper does one call and decides nothing;
//! what an error means is for its caller to say.
//!
//! # Sources
//! `loop(4)`, `ioctl_fsfreeze(2)`, `statx(2)`, `copy_file_range(2)`, and the kernel's `uapi/linux/loop.h` and
//! `uapi/linux/fs.h` for the numbers.
#![expect(unsafe_code, reason = "this is the one file that may")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use nix::libc;

/// Takes over a descriptor that this process inherited, and closes it for its own children.
///
/// Call it once for a number, before anything else opens descriptors: whoever calls it again, or with
/// a number that the program opened itself, closes somebody else's file.
///
/// # Errors
/// The number is not an open descriptor; nothing is taken over.
pub fn inherited_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_SETFD takes no pointers; a bad number gives EBADF.
    let done = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open (fcntl has just accepted it), and by this function's contract
    // nothing else in the process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has the kernel begin to write what of a file lies dirty in memory from `offset` on, and waits for nothing: no promise,
/// but less to wait for when it is flushed.
///
/// # Errors
/// The file system does not know how.
pub fn begin_writeback(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    let range = i64::try_from(offset).and_then(|offset| Ok((offset, i64::try_from(length)?)));
    let (offset, length) = range.map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: sync_file_range takes no pointers; the descriptor lives over the call.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) }).map(drop)
}

/// Writes what of a file lies dirty in memory to its device, and waits until that took it: it is not flushed.
///
/// # Errors
/// The device did not take it, or what was written before, or the file system does not know how.
pub fn write_back(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: sync_file_range takes no pointers; the descriptor lives over the call.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) }).map(drop)
}

/// Ends the process at once: no unwinding, no destructors, no waiting for threads.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes no pointers and does not return.
    unsafe { libc::_exit(code) }
}

/// What a child gets besides its command, between fork and exec.
#[derive(Debug, Default)]
pub struct ChildSetup {
    /// The mount namespace to join.
    pub join_mounts: Option<OwnedFd>,
    /// Whether to make a mount namespace of its own (a copy of the parent's).
    pub new_mounts: bool,
    /// Whether the child's own children get a PID namespace of their own.
    pub new_pids: bool,
    /// The one descriptor that stays open over the exec, under its number.
    pub keep: Option<OwnedFd>,
}

/// Has `command` do what `setup` says before it executes, and unblock every signal; `setup` lives as long as
/// the command does.
pub fn prepare_child(command: &mut Command, setup: ChildSetup) {
    let before_exec = move || {
        // The child starts without blocked signals, whatever its parent waits for.
        // SAFETY: all zeros is an empty set, and it lives over the call.
        let none: libc::sigset_t = unsafe { mem::zeroed() };
        let pointer = ptr::from_ref(&none);
        // SAFETY: sigprocmask reads one set; the old one is not asked for.
        check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, pointer, ptr::null_mut()) })?;
        if let Some(space) = &setup.join_mounts {
            // SAFETY: setns takes no pointers; the descriptor lives in the closure.
            check(unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNS) })?;
        }
        if setup.new_mounts {
            // SAFETY: unshare takes no pointers; the child has one thread.
            check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        }
        if setup.new_pids {
            // SAFETY: unshare takes no pointers; the child has one thread.
            check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
        }
        if let Some(keep) = &setup.keep {
            // SAFETY: fcntl with F_SETFD takes no pointers; the descriptor lives in the closure.
            check(unsafe { libc::fcntl(keep.as_raw_fd(), libc::F_SETFD, 0) })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only (sigprocmask, setns, unshare, fcntl): it
    // neither allocates nor takes locks, so that a fork in a process with threads is harmless.
    unsafe { command.pre_exec(before_exec) };
}

/// Turns the answer of a system call into a result.
fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// An ioctl whose argument is a number, or none.
fn ioctl_number(file: &File, request: u64, argument: u64) -> io::Result<i32> {
    // SAFETY: every caller names a request whose argument is passed by value.
    check(unsafe { libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, argument) })
}

const LOOP_CLR_FD: u64 = 0x4C01;
const LOOP_SET_STATUS64: u64 = 0x4C04;
const LOOP_GET_STATUS64: u64 = 0x4C05;
const LOOP_CONFIGURE: u64 = 0x4C0A;
const LOOP_CTL_ADD: u64 = 0x4C80;
const LOOP_CTL_REMOVE: u64 = 0x4C81;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Bytes of a loop device's tag ([`LoopStatus::tag`]), its terminating zero included.
const LOOP_TAG_BYTES: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LOOP_TAG_BYTES],
    crypt_name: [u8; LOOP_TAG_BYTES],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// What a loop device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStatus {
    /// The free text that was given to it: who made it.
    pub tag: Vec<u8>,
    /// Bytes of the image that it shows; 0 for all.
    pub size_limit: u64,
    /// Inode of the image.
    pub inode: u64,
}

/// How an image is attached.
#[derive(Debug, Clone, Copy)]
pub struct LoopOptions<'a> {
    /// Free text of at most 63 bytes.
    pub tag: &'a [u8],
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Makes the loop device of this number. `control` is `/dev/loop-control`.
///
/// # Errors
/// `EEXIST`: there is one already, whoever made it.
pub fn loop_add(control: &File, number: u32) -> io::Result<()> {
    ioctl_number(control, LOOP_CTL_ADD, number.into()).map(drop)
}

/// Removes the loop device of this number; `EBUSY` while it is attached or open.
///
/// # Errors
/// As the kernel has them.
pub fn loop_remove(control: &File, number: u32) -> io::Result<()> {
    ioctl_number(control, LOOP_CTL_REMOVE, number.into()).map(drop)
}

/// Attaches an image for direct I/O, to be detached by the kernel when the last user is gone (the open
/// `device` counts as one).
///
/// # Errors
/// `EBUSY`: the device carries an image already.
pub fn loop_configure(device: &File, image: &File, options: LoopOptions<'_>) -> io::Result<()> {
    // SAFETY: the structure is made of integers and arrays of them; all zeros is a value.
    let mut config: LoopConfig = unsafe { mem::zeroed() };
    config.fd = image.as_raw_fd() as u32;
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if options.read_only {
        config.info.flags |= LO_FLAGS_READ_ONLY;
    }
    let tag = &options.tag[..options.tag.len().min(LOOP_TAG_BYTES - 1)];
    config.info.file_name[..tag.len()].copy_from_slice(tag);
    let pointer = ptr::from_ref(&config);
    // SAFETY: LOOP_CONFIGURE reads one `loop_config`, which lives over the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as libc::Ioctl, pointer) })
        .map(drop)
}

/// Reads `struct loop_info64`.
fn loop_info(device: &File) -> io::Result<LoopInfo64> {
    // SAFETY: the structure is made of integers and arrays of them; all zeros is a value.
    let mut info: LoopInfo64 = unsafe { mem::zeroed() };
    let pointer = ptr::from_mut(&mut info);
    // SAFETY: LOOP_GET_STATUS64 writes one `loop_info64`, which lives over the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as libc::Ioctl, pointer) })?;
    Ok(info)
}

/// What a loop device says of itself.
///
/// # Errors
/// `ENXIO`: it carries no image.
pub fn loop_status(device: &File) -> io::Result<LoopStatus> {
    let info = loop_info(device)?;
    let tag = info.file_name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    Ok(LoopStatus { tag, size_limit: info.size_limit, inode: info.inode })
}

/// Shows only the first `bytes` of the image from now on; 0 shows all of it again. Users of the device
/// stay; what they ask for past the limit fails with an I/O error.
///
/// # Errors
/// As the kernel has them.
pub fn loop_set_size_limit(device: &File, bytes: u64) -> io::Result<()> {
    let mut info = loop_info(device)?;
    info.size_limit = bytes;
    let pointer = ptr::from_ref(&info);
    // SAFETY: LOOP_SET_STATUS64 reads one `loop_info64`, which lives over the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64 as libc::Ioctl, pointer) })
        .map(drop)
}

/// Detaches the image as soon as the last user is gone.
///
/// # Errors
/// `ENXIO`: it carries no image.
pub fn loop_clear(device: &File) -> io::Result<()> {
    ioctl_number(device, LOOP_CLR_FD, 0).map(drop)
}

const FIFREEZE: u64 = 0xC004_5877;
const FITHAW: u64 = 0xC004_5878;
const FS_IOC_SHUTDOWN: u64 = 0x8004_587D;
const FS_IOC_GETFSUUID: u64 = 0x8011_1500;
/// Shut down without writing the log: what was not committed is lost.
const SHUTDOWN_WITHOUT_LOG: u32 = 2;

/// Freezes the file system of `file`: writers hang in the kernel until [`thaw`].
///
/// # Errors
/// `EBUSY`: it is frozen already.
pub fn freeze(file: &File) -> io::Result<()> {
    ioctl_number(file, FIFREEZE, 0).map(drop)
}

/// Lets the writers of a frozen file system go on.
///
/// # Errors
/// `EINVAL`: it is not frozen.
pub fn thaw(file: &File) -> io::Result<()> {
    ioctl_number(file, FITHAW, 0).map(drop)
}

/// Shuts the file system of `file` down without flushing its log: everything that was not committed is
/// lost, and every later request fails. Nothing but a new mount brings it back.
///
/// # Errors
/// `ENOTTY`: this kind of file system cannot.
pub fn shut_down_file_system(file: &File) -> io::Result<()> {
    let pointer = ptr::from_ref(&SHUTDOWN_WITHOUT_LOG);
    // SAFETY: FS_IOC_SHUTDOWN reads one u32, which lives over the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SHUTDOWN as libc::Ioctl, pointer) })
        .map(drop)
}

/// UUID of the file system of `file`.
///
/// # Errors
/// `ENOTTY`: this kind of file system does not tell.
pub fn file_system_uuid(file: BorrowedFd<'_>) -> io::Result<[u8; 16]> {
    /// `struct fsuuid2`.
    #[repr(C)]
    struct Uuid2 {
        length: u8,
        uuid: [u8; 16],
    }
    let mut answer = Uuid2 { length: 0, uuid: [0; 16] };
    let pointer = ptr::from_mut(&mut answer);
    // SAFETY: FS_IOC_GETFSUUID writes one `fsuuid2`, which lives over the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFSUUID as libc::Ioctl, pointer) })?;
    if answer.length != 16 {
        return Err(io::Error::from_raw_os_error(libc::ENODATA));
    }
    Ok(answer.uuid)
}

/// What `statx` tells of a path and the mount it lies on. The last component is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountFacts {
    /// `st_dev`.
    pub st_dev: u64,
    /// `st_ino`.
    pub st_ino: u64,
    /// The mount id, as in `/proc/self/mountinfo`; the kernel uses it again.
    pub mount_id: u64,
    /// The mount id that is never used again; `None` before Linux 6.8.
    pub mount_unique: Option<u64>,
}

/// Reads [`MountFacts`] of a path.
///
/// # Errors
/// As `statx(2)` has them.
pub fn mount_facts(path: &Path) -> io::Result<MountFacts> {
    let plain = statx(path, libc::STATX_BASIC_STATS | libc::STATX_MNT_ID)?;
    let unique = statx(path, libc::STATX_BASIC_STATS | STATX_MNT_ID_UNIQUE)?;
    let told = unique.stx_mask & STATX_MNT_ID_UNIQUE != 0;
    Ok(MountFacts {
        st_dev: libc::makedev(plain.stx_dev_major, plain.stx_dev_minor),
        st_ino: plain.stx_ino,
        mount_id: plain.stx_mnt_id,
        mount_unique: told.then_some(unique.stx_mnt_id),
    })
}

const STATX_MNT_ID_UNIQUE: u32 = 0x4000;

/// `statx(2)` on a path, without following its last component.
fn statx(path: &Path, mask: u32) -> io::Result<libc::statx> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the structure is made of integers; all zeros is a value.
    let mut answer: libc::statx = unsafe { mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_STATX_SYNC_AS_STAT;
    let pointer = ptr::from_mut(&mut answer);
    // SAFETY: the path ends in a zero byte, and `answer` is writable; both live over the call.
    check(unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, mask, pointer) })?;
    Ok(answer)
}

//! System calls that no crate offers safely: the only `unsafe` there is.
//!
//! Every block says in a `SAFETY` line what makes it sound.
#![expect(unsafe_code, reason = "this is the one file that may")]

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::fd::BorrowedFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
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

/// Ends the process at once: no unwinding, no destructors, no waiting for threads.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes no pointers and does not return.
    unsafe { libc::_exit(code) }
}

const FS_IOC_GETFSUUID: u64 = 0x8011_1500;

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
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFSUUID as libc::Ioctl, pointer) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    if answer.length != 16 {
        return Err(io::Error::from_raw_os_error(libc::ENODATA));
    }
    Ok(answer.uuid)
}

//! Duplicating a descriptor to a number that one chooses.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A duplicate of `fd`, close-on-exec, with the lowest free number from `least` on.
pub(crate) fn duplicate_from(fd: BorrowedFd<'_>, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let number = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

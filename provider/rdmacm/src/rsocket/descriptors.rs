//! Waiting at a socket's own descriptors.

use crate::device::last_error;
use ferroce_abi::errno::Errno;
use libc::{c_int, pollfd};

/// Waits until one of the descriptors is readable; those that are -1 never are.
pub(super) fn wait(fds: [c_int; 2]) -> Result<(), Errno> {
    let mut fds = fds.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: an array of ours.
    if unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) } < 0 { Err(last_error()) } else { Ok(()) }
}

/// Whether it is readable now.
pub(super) fn is_readable(fd: c_int) -> bool {
    let mut fd = pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: a structure of ours.
    unsafe { libc::poll(&raw mut fd, 1, 0) > 0 }
}

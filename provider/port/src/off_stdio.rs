//! Descriptors that keep off the numbers of the standard streams.
//!
//! A process that has closed one of them, as daemons do, gets its number for the next descriptor that is made. What it
//! prints then must not go into a socket or shared memory of ours.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::sys::descriptor::duplicate_from;

/// `fd`, or a duplicate of it (close-on-exec) in its place if it has the number of a standard stream.
///
/// # Errors
/// `fcntl(2)`'s, when there are no more descriptors.
pub fn off_stdio(fd: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let fd = fd.into();
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { duplicate_from(fd.as_fd(), FIRST) }
}

const FIRST: RawFd = libc::STDERR_FILENO + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stay_as_they_are() {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let number = fd.as_raw_fd();
        assert_eq!(off_stdio(fd).unwrap().as_raw_fd(), number);
    }
}

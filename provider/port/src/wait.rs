//! Waiting for several descriptors, for those who wait for few and seldom.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{pollfd, timespec};

use crate::sys::process::ppoll;

/// Waits until one of `fds` is readable, hung up or in error, `timeout` has passed (`None`: never), or a signal came.
/// Returns the positions in `fds` of those that are ready; a read on them does not block.
///
/// # Errors
/// The system's: more descriptors than the limit of open files, or no memory.
pub fn readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<usize>> {
    let mut polled: Vec<pollfd> =
        fds.iter().map(|fd| pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let timeout = timeout.map(|timeout| timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match ppoll(&mut polled, timeout.as_ref()) {
        Ok(_) => Ok(polled.iter().enumerate().filter(|(_, fd)| fd.revents != 0).map(|(at, _)| at).collect()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn those_with_bytes_and_those_hung_up_are_ready() {
        let (quiet, _open) = std::io::pipe().unwrap();
        let (filled, mut writer) = std::io::pipe().unwrap();
        let (hung_up, gone) = std::io::pipe().unwrap();
        let fds = [quiet.as_fd(), filled.as_fd(), hung_up.as_fd()];
        assert!(readable(&fds, Some(Duration::ZERO)).unwrap().is_empty());
        writer.write_all(b"x").unwrap();
        drop(gone);
        assert_eq!(readable(&fds, None).unwrap(), [1, 2]);
    }
}

//! `sendmsg` and `recvmsg` with one buffer and control messages, for Unix sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_void, iovec, msghdr};

use super::control::Control;

/// Sends `bytes` with control messages; the kernel takes all of them or nothing on a seqpacket socket.
pub(crate) fn send<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    control: &Control<WORDS>,
) -> io::Result<usize> {
    let mut part = iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    let mut header = empty_header();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if control.len() > 0 {
        header.msg_control = control.bytes().as_ptr().cast_mut().cast::<c_void>();
        header.msg_controllen = control.len();
    }
    // SAFETY: the header points at `part`, `bytes` and `control`, which outlive the call and are only read.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// What [`receive`] got.
pub(crate) struct Received {
    /// Bytes written to the buffer.
    pub(crate) len: usize,
    /// `MSG_TRUNC`, `MSG_CTRUNC`.
    pub(crate) flags: i32,
}

/// Receives into `bytes` and `control`; descriptors are close-on-exec from the start.
pub(crate) fn receive<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut Control<WORDS>,
) -> io::Result<Received> {
    let mut part = iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
    let mut header = empty_header();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    let room = control.room();
    header.msg_control = room.as_mut_ptr().cast::<c_void>();
    header.msg_controllen = room.len();
    // SAFETY: the header points at `part`, `bytes` and `control`, which outlive the call and which nobody else uses
    // meanwhile.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let len = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    control.filled(header.msg_controllen);
    Ok(Received { len, flags: header.msg_flags })
}

/// Takes over a descriptor that the kernel has just put into this process with `SCM_RIGHTS`.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: called once for each descriptor of a message that `receive` returned; nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn empty_header() -> msghdr {
    // SAFETY: all fields of a msghdr are integers or pointers, for which zero is a valid value.
    unsafe { std::mem::zeroed() }
}

//! Bytes and file descriptors over a Unix socket (unix(7), `SCM_RIGHTS`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::off_stdio;
use crate::sys::control::{Control, space};
use crate::sys::unix_message;

/// The most descriptors that one message carries (the kernel's `SCM_MAX_FD`). More go in several messages.
pub const MAX_FDS_PER_MESSAGE: usize = 253;

/// Why [`receive`] failed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The system call failed; `WouldBlock` on a non-blocking socket with nothing waiting.
    #[error("receiving from a Unix socket: {0}")]
    Socket(#[from] io::Error),
    /// The message was longer than the buffer (seqpacket and datagram sockets).
    #[error("a message is longer than the {0} bytes provided for it")]
    MessageTooLong(usize),
    /// The kernel could not install all descriptors, usually because this process has too many open.
    #[error("descriptors were lost on the way; raise the limit of open files (ulimit -n)")]
    FdsLost,
}

/// Sends `bytes` and duplicates of `fds`; returns the number of bytes sent, which is all of them on a seqpacket
/// socket. At least one byte is needed to carry descriptors.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if fds.len() > MAX_FDS_PER_MESSAGE || (bytes.is_empty() && !fds.is_empty()) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut control = FdControl::new();
    if !fds.is_empty() {
        let mut numbers = [0; MAX_FDS_PER_MESSAGE * FD_LEN];
        for (room, fd) in numbers.chunks_exact_mut(FD_LEN).zip(fds) {
            room.copy_from_slice(&fd.as_raw_fd().to_ne_bytes());
        }
        control.push(libc::SOL_SOCKET, libc::SCM_RIGHTS, &numbers[..fds.len() * FD_LEN]);
    }
    unix_message::send(socket.as_fd(), bytes, &control)
}

/// Receives one message into `bytes`, with its descriptors (close-on-exec). Zero bytes: the peer closed.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), ReceiveError> {
    let room = bytes.len();
    let mut control = FdControl::new();
    let received = unix_message::receive(socket.as_fd(), bytes, &mut control)?;
    // First take over whatever came, so that nothing leaks on the way out.
    let mut fds = Vec::new();
    for message in control.iter().filter(|m| m.level == libc::SOL_SOCKET && m.kind == libc::SCM_RIGHTS) {
        for number in message.value.as_chunks::<FD_LEN>().0 {
            fds.push(unix_message::adopt(RawFd::from_ne_bytes(*number)));
        }
    }
    if received.flags & libc::MSG_TRUNC != 0 {
        return Err(ReceiveError::MessageTooLong(room));
    }
    if received.flags & libc::MSG_CTRUNC != 0 {
        return Err(ReceiveError::FdsLost);
    }
    let fds = fds.into_iter().map(off_stdio).collect::<io::Result<_>>().map_err(|_| ReceiveError::FdsLost)?;
    Ok((received.len, fds))
}

const FD_LEN: usize = size_of::<RawFd>();
type FdControl = Control<{ space(MAX_FDS_PER_MESSAGE * FD_LEN) / 8 }>;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        assert_eq!(send(&a, b"hello", &[writer.as_fd(), null.as_fd()]).unwrap(), 5);
        drop(writer);
        let mut room = [0; 16];
        let (len, mut fds) = receive(&b, &mut room).unwrap();
        assert_eq!((&room[..len], fds.len()), (&b"hello"[..], 2));
        let mut copy = File::from(fds.remove(0));
        copy.write_all(b"x").unwrap();
        drop(copy);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn received_descriptors_close_on_exec() {
        let (a, b) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        send(&a, b"1", &[null.as_fd()]).unwrap();
        let (_, fds) = receive(&b, &mut [0; 1]).unwrap();
        let line = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fds[0].as_raw_fd())).unwrap();
        let flags = line.lines().find_map(|l| l.strip_prefix("flags:")).unwrap().trim();
        assert_ne!(i32::from_str_radix(flags, 8).unwrap() & libc::O_CLOEXEC, 0);
    }

    #[test]
    fn a_full_message_of_descriptors_fits_and_one_more_is_refused() {
        let (a, b) = UnixStream::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let fds = vec![null.as_fd(); MAX_FDS_PER_MESSAGE + 1];
        assert_eq!(send(&a, b"1", &fds).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        send(&a, b"1", &fds[1..]).unwrap();
        assert_eq!(receive(&b, &mut [0; 1]).unwrap().1.len(), MAX_FDS_PER_MESSAGE);
    }

    #[test]
    fn the_peers_close_is_zero_bytes() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(a);
        let (len, fds) = receive(&b, &mut [0; 8]).unwrap();
        assert_eq!((len, fds.len()), (0, 0));
    }
}

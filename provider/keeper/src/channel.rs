//! One control connection: messages of [`crate::protocol`] with their descriptors, both ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use ferroce_port::abstract_socket::{self, PeerCredentials};
use ferroce_port::fd_passing::{self, ReceiveError};
use ferroce_port::process::effective_uid;
use thiserror::Error;

use crate::protocol::{MESSAGE_MAX, Message, ProtocolError};

/// A connection of which both ends belong to the same user.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    peer: PeerCredentials,
    /// How long a send or a receive may take. Zero: they never block.
    timeout: Duration,
}

/// Why a connection gave no message.
#[derive(Debug, Error)]
pub(crate) enum ChannelError {
    /// The other end is gone.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing came within the time, or (non-blocking) nothing waits.
    #[error("nothing came in time")]
    Silent,
    /// The other end is another user's.
    #[error("the other end belongs to user id {theirs}, not to ours ({ours})")]
    WrongUser { theirs: u32, ours: u32 },
    /// Not a message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Descriptors were lost, or the message was too long.
    #[error(transparent)]
    Message(ReceiveError),
    /// The system call failed.
    #[error("{0}")]
    Io(io::Error),
}

/// A message and what came with it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Channel {
    /// Connects to the keeper behind the abstract `name`; sends and receives are bounded by `timeout`.
    pub(crate) fn connect(name: &str, timeout: Duration) -> Result<Channel, ChannelError> {
        let stream = uninterrupted(timeout, || Ok(abstract_socket::connect(name, timeout)?))?;
        Channel::checked(stream, timeout)
    }

    /// Accepts a waiting connection; its sends and receives never block.
    pub(crate) fn accept(listener: &UnixListener) -> Result<Channel, ChannelError> {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Channel::checked(stream, Duration::ZERO)
    }

    fn checked(stream: UnixStream, timeout: Duration) -> Result<Channel, ChannelError> {
        // Of a listener the kernel tells who called listen, of a client who called connect (unix(7), SO_PEERCRED).
        // Abstract names have no permissions; this check is the only one.
        let peer = abstract_socket::peer_credentials(&stream)?;
        let ours = effective_uid();
        if peer.uid != ours {
            return Err(ChannelError::WrongUser { theirs: peer.uid, ours });
        }
        Ok(Channel { stream, peer, timeout })
    }

    /// The peer's process id, or `claimed` where the kernel shows none: the peer is in another PID namespace.
    pub(crate) fn peer_pid(&self, claimed: u32) -> u32 {
        u32::try_from(self.peer.pid).ok().filter(|&pid| pid != 0).unwrap_or(claimed)
    }

    pub(crate) fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let record = message.encode();
        uninterrupted(self.timeout, || {
            fd_passing::send(&self.stream, &record, fds)?;
            Ok(())
        })
    }

    pub(crate) fn receive(&self) -> Result<Received, ChannelError> {
        uninterrupted(self.timeout, || self.receive_once())
    }

    fn receive_once(&self) -> Result<Received, ChannelError> {
        let mut record = [0; MESSAGE_MAX];
        match fd_passing::receive(&self.stream, &mut record) {
            // Nobody sends an empty record: it is the end.
            Ok((0, _)) => Err(ChannelError::Closed),
            Ok((length, fds)) => Ok(Received { message: Message::decode(&record[..length])?, fds }),
            Err(ReceiveError::Socket(error)) => Err(error.into()),
            Err(error) => Err(ChannelError::Message(error)),
        }
    }
}

/// Repeats a call that a signal of the application's interrupts, until `timeout` has passed over all attempts: on a
/// socket with a timeout it is never restarted by itself (signal(7)).
fn uninterrupted<T>(
    timeout: Duration,
    mut call: impl FnMut() -> Result<T, ChannelError>,
) -> Result<T, ChannelError> {
    let until = Instant::now() + timeout;
    loop {
        match call() {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
        if Instant::now() >= until {
            return Err(ChannelError::Silent);
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> ChannelError {
        match error.kind() {
            // ConnectionReset: closed with a message of ours unread.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ChannelError::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ChannelError::Silent,
            _ => ChannelError::Io(error),
        }
    }
}

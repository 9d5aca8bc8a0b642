//! Unix sockets with an abstract name: no file, gone with their last holder, one name space per network namespace.
//!
//! The sockets are of type seqpacket: a message sent is a message received, and a close is seen as an empty one. The
//! standard library's types serve them as they are.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::off_stdio;
use crate::sys::option;

/// Who is at the other end of a Unix socket, as of its connect or listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// Process id; 0 when it is not visible from our pid namespace.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Listens on the abstract `name`. `AddrInUse` when somebody else does.
pub fn listen(name: &str) -> io::Result<UnixListener> {
    let socket = seqpacket()?;
    socket.bind(&address(name)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

/// Connects to the abstract `name`, and leaves `timeout` on the socket for reads and writes. `ConnectionRefused` when
/// nobody listens; `WouldBlock` when the backlog stays full for `timeout`.
pub fn connect(name: &str, timeout: Duration) -> io::Result<UnixStream> {
    let socket = seqpacket()?;
    // The send timeout bounds the connect too (unix(7) is silent; socket(7) says so of SO_SNDTIMEO).
    socket.set_write_timeout(Some(timeout))?;
    socket.set_read_timeout(Some(timeout))?;
    socket.connect(&address(name)?)?;
    Ok(UnixStream::from(OwnedFd::from(socket)))
}

/// Who connected to us, or who listens where we connected.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    let libc::ucred { pid, uid, gid } = option::peer_credentials(socket.as_fd())?;
    Ok(PeerCredentials { pid, uid, gid })
}

fn seqpacket() -> io::Result<Socket> {
    off_stdio(Socket::new(Domain::UNIX, Type::SEQPACKET, None)?).map(Socket::from)
}

fn address(name: &str) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0{name}"))
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn unique(name: &str) -> String {
        format!("ferroce-test-{}-{name}", std::process::id())
    }

    #[test]
    fn messages_keep_their_bounds_and_the_peer_is_known() {
        let name = unique("bounds");
        let listener = listen(&name).unwrap();
        let mut client = connect(&name, LONG).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"one").unwrap();
        client.write_all(b"two").unwrap();
        let mut room = [0; 16];
        assert_eq!(server.read(&mut room).unwrap(), 3);
        assert_eq!(&room[..3], b"one");
        let peer = peer_credentials(&server).unwrap();
        assert_eq!(peer.pid, std::process::id() as i32);
        assert_eq!(peer_credentials(&client).unwrap(), peer);
        drop(client);
        assert_eq!(server.read(&mut room).unwrap(), 3);
        assert_eq!(server.read(&mut room).unwrap(), 0);
    }

    #[test]
    fn one_listener_per_name_until_it_is_dropped() {
        let name = unique("single");
        assert_eq!(connect(&name, LONG).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let first = listen(&name).unwrap();
        assert_eq!(listen(&name).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        listen(&name).unwrap();
    }
}

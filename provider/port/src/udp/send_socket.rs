//! Sockets for sending: one for each address family and UDP source port.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET};
use socket2::{Domain, Socket, Type};

use crate::off_stdio;
use crate::sys::option::{attach_program, set_int, statement};

/// The sockets opened so far.
#[derive(Default)]
pub(super) struct SendSockets {
    sockets: Vec<SendSocket>,
}

struct SendSocket {
    family: Family,
    /// The source port that was asked for.
    wanted: u16,
    /// The source port that packets carry.
    port: u16,
    socket: Socket,
}

/// Address family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// One of [`SendSockets`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SendSocketId(usize);

impl SendSockets {
    /// The socket for packets from port `wanted`, or from another port when that one is taken, or when no socket more can
    /// be had: no receiver checks it (IBTA A17). Opens it unless it is there.
    pub(super) fn open(&mut self, family: Family, wanted: u16) -> io::Result<SendSocketId> {
        if let Some(index) = self.sockets.iter().position(|s| s.family == family && s.wanted == wanted) {
            return Ok(SendSocketId(index));
        }
        let of_family = self.sockets.iter().position(|s| s.family == family);
        if let (true, Some(index)) = (self.sockets.len() >= MAX_SEND_SOCKETS, of_family) {
            return Ok(SendSocketId(index));
        }
        match SendSocket::open(family, wanted) {
            Ok(socket) => {
                self.sockets.push(socket);
                Ok(SendSocketId(self.sockets.len() - 1))
            }
            Err(error) => of_family.map(SendSocketId).ok_or(error),
        }
    }

    /// The source port of what a socket sends.
    pub(super) fn port(&self, id: SendSocketId) -> u16 {
        self.sockets[id.0].port
    }

    /// The socket itself.
    pub(super) fn fd(&self, id: SendSocketId) -> BorrowedFd<'_> {
        self.sockets[id.0].socket.as_fd()
    }
}

impl SendSocket {
    fn open(family: Family, wanted: u16) -> io::Result<SendSocket> {
        let socket = unbound(family)?;
        let port = bind_near(&socket, family, wanted)?;
        Ok(SendSocket { family, wanted, port, socket })
    }
}

/// A socket whose IPv4 packets have identification 0: it forbids fragmentation and is not to be connected.
pub(crate) fn unbound(family: Family) -> io::Result<Socket> {
    let domain = if family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::from(off_stdio(Socket::new(domain, Type::DGRAM, None)?)?);
    if family == Family::V4 {
        set_int(&socket, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        set_int(&socket, IPPROTO_IP, libc::IP_TTL, DEFAULT_HOP_LIMIT.into())?;
    } else {
        set_int(&socket, IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        set_int(&socket, IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
        set_int(&socket, IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, DEFAULT_HOP_LIMIT.into())?;
    }
    // The UDP checksum is left to the kernel, although 0 would be usual (IBTA A17): SO_NO_CHECK makes segmentation fail
    // with EINVAL, and saves nothing measurable, as network devices compute checksums and loopback has none.
    // All processes of the host that do the same share these ports, since nothing is received through them.
    set_int(&socket, SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    attach_program(&socket, libc::SO_ATTACH_FILTER, &[statement(libc::BPF_RET | libc::BPF_K, 0)])?;
    if set_int(&socket, SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
        set_int(&socket, SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    Ok(socket)
}

/// From now on, whatever is sent through `socket` leaves in packets of `bytes` each, the last shorter.
///
/// # Errors
/// On Linux before 4.18, which cannot segment UDP.
pub fn set_segment_size(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Binds to `wanted` or one of the next ports, or to any free one.
fn bind_near(socket: &Socket, family: Family, wanted: u16) -> io::Result<u16> {
    let candidates = (0..BIND_ATTEMPTS).map(|i| wanted.wrapping_add(i)).chain([0]);
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in candidates {
        let address: SocketAddr = match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        };
        match socket.bind(&address.into()) {
            Ok(()) => {
                let bound = socket.local_addr()?.as_socket().map_or(port, |address| address.port());
                if bound != wanted {
                    tracing::debug!(wanted, bound, "UDP source port taken; using another");
                }
                return Ok(bound);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// TTL or hop limit of unicast packets that do not ask for another.
pub(super) const DEFAULT_HOP_LIMIT: u8 = 64;

/// More source ports than this share a socket. Our own come from a set of 16.
const MAX_SEND_SOCKETS: usize = 64;

/// Ports tried after the one that was wanted.
const BIND_ATTEMPTS: u16 = 16;

/// Send buffer asked for, in bytes; the kernel doubles it for its own overhead.
const SEND_BUFFER: i32 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_source_port_has_one_socket_per_family() {
        let mut sockets = SendSockets::default();
        let a = sockets.open(Family::V4, 0xf123).unwrap();
        assert_eq!(sockets.open(Family::V4, 0xf123).unwrap(), a);
        assert_ne!(sockets.open(Family::V6, 0xf123).unwrap(), a);
        assert_ne!(sockets.open(Family::V4, 0xf124).unwrap(), a);
        assert_eq!(sockets.port(a), 0xf123);
    }

    #[test]
    fn processes_share_a_source_port() {
        let (mut one, mut other) = (SendSockets::default(), SendSockets::default());
        let a = one.open(Family::V4, 0xf133).unwrap();
        let b = other.open(Family::V4, 0xf133).unwrap();
        assert_eq!(one.port(a), other.port(b));
    }

    #[test]
    fn a_taken_source_port_is_replaced_and_remembered() {
        let rival = UdpSocket::bind("0.0.0.0:0").unwrap();
        let taken = rival.local_addr().unwrap().port();
        let mut sockets = SendSockets::default();
        let a = sockets.open(Family::V4, taken).unwrap();
        assert_ne!(sockets.port(a), taken);
        assert_eq!(sockets.open(Family::V4, taken).unwrap(), a);
    }

    #[test]
    fn the_number_of_sockets_is_bounded() {
        let mut sockets = SendSockets::default();
        for port in 0..2 * MAX_SEND_SOCKETS as u16 {
            sockets.open(Family::V4, 0xf200 + port).unwrap();
        }
        assert_eq!(sockets.sockets.len(), MAX_SEND_SOCKETS);
    }
}

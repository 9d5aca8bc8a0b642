//! The sockets that receive RoCEv2: opening them, and steering packets between those that share the port.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};
use socket2::{Domain, Socket, Type};

use crate::holder::{Holder, who_holds};
use crate::off_stdio;
use crate::sys::option::{attach_program, int, jump, set_int, statement};

/// Whether other sockets may be bound to the same port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// `SO_REUSEPORT`: one of a group. Packets are spread by [`steer_by_qpn`]'s program, or by a hash without it.
    Group,
    /// The port for us alone; fails when anybody else has it, and makes all others fail.
    Exclusive,
}

/// Why a receiving socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveSocketError {
    /// Somebody else holds the port.
    #[error("UDP port {port} is taken: {holder}")]
    InUse {
        /// The port.
        port: u16,
        /// Who it is, as far as it can be seen.
        holder: Holder,
    },
    /// Something else failed.
    #[error("opening a socket for UDP port {port}: {step}: {source}")]
    System {
        /// The port.
        port: u16,
        /// What was tried.
        step: &'static str,
        /// How it failed.
        source: io::Error,
    },
}

/// Opens a non-blocking UDP socket on `port` (0: any free one) of all addresses, IPv6 and IPv4, with all that
/// our UDP port wants to know about a packet switched on.
///
/// A host without IPv6 gets an IPv4 socket. The receive buffer is as large as we are permitted to make it.
pub fn open_receive_socket(port: u16, sharing: Sharing) -> Result<OwnedFd, ReceiveSocketError> {
    let socket = match bound_socket(Domain::IPV6, port, sharing) {
        Err(Failure { source, .. }) if is_without_ipv6(&source) => bound_socket(Domain::IPV4, port, sharing),
        other => other,
    };
    match socket {
        Ok(socket) => Ok(socket.into()),
        Err(Failure { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
            Err(ReceiveSocketError::InUse { port, holder: who_holds(port) })
        }
        Err(Failure { step, source }) => Err(ReceiveSocketError::System { port, step, source }),
    }
}

/// Steers the packets of a reuseport group by the top byte of their destination QPN: to the socket of that index, in
/// the order in which the sockets were bound, or to the first when the group has only `sockets_in_group` and that is
/// not enough.
///
/// `socket` is any member; the program is the whole group's and replaces an earlier one. It is to be attached again
/// after a socket has joined. No privilege is needed.
pub fn steer_by_qpn(socket: impl AsFd, sockets_in_group: u16) -> io::Result<()> {
    use libc::{BPF_ABS, BPF_B, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
    // The kernel runs a reuseport program at the UDP payload. A load beyond the packet's end gives index 0.
    const RETURN_A: u32 = 0x10; // BPF_A of linux/filter.h
    let program = [
        statement(BPF_LD | BPF_B | BPF_ABS, DESTINATION_QPN_AT),
        jump(BPF_JMP | BPF_JGE | BPF_K, sockets_in_group.into(), 0, 1),
        statement(BPF_RET | BPF_K, 0),
        statement(BPF_RET | RETURN_A, 0),
    ];
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

struct Failure {
    step: &'static str,
    source: io::Error,
}

trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, Failure>;
}

impl<T> Step<T> for io::Result<T> {
    fn step(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|source| Failure { step, source })
    }
}

fn bound_socket(domain: Domain, port: u16, sharing: Sharing) -> Result<Socket, Failure> {
    let socket = Socket::new(domain, Type::DGRAM, None).and_then(off_stdio).step("socket")?;
    let socket = Socket::from(socket);
    socket.set_nonblocking(true).step("O_NONBLOCK")?;
    if sharing == Sharing::Group {
        set_int(&socket, SOL_SOCKET, libc::SO_REUSEPORT, 1).step("SO_REUSEPORT")?;
    }
    let address: SocketAddr = if domain == Domain::IPV6 {
        set_int(&socket, IPPROTO_IPV6, libc::IPV6_V6ONLY, 0).step("IPV6_V6ONLY")?;
        (Ipv6Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, port).into()
    };
    // Before bind, so that no packet comes without them.
    ask_for_facts(&socket, domain)?;
    enlarge_buffer(&socket);
    socket.bind(&address.into()).step("bind")?;
    Ok(socket)
}

/// Destination address and traffic class of each packet, packets in bundles, and packets without a UDP checksum.
fn ask_for_facts(socket: &Socket, domain: Domain) -> Result<(), Failure> {
    set_int(socket, IPPROTO_IP, libc::IP_RECVTOS, 1).step("IP_RECVTOS")?;
    if domain == Domain::IPV6 {
        // On such a socket this tells an IPv4 packet's destination too, as a mapped address.
        set_int(socket, IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1).step("IPV6_RECVPKTINFO")?;
        set_int(socket, IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1).step("IPV6_RECVTCLASS")?;
        // Kernel rxe and cards send UDP checksum 0 (IBTA A17); Linux drops that over IPv6 otherwise.
        set_int(socket, SOL_UDP, libc::UDP_NO_CHECK6_RX, 1).step("UDP_NO_CHECK6_RX")?;
    } else {
        set_int(socket, IPPROTO_IP, libc::IP_PKTINFO, 1).step("IP_PKTINFO")?;
    }
    // Linux before 5.0 has no UDP_GRO; packets then come one by one.
    if let Err(error) = set_int(socket, SOL_UDP, libc::UDP_GRO, 1) {
        tracing::info!(%error, "the kernel has no UDP_GRO: packets are received one by one");
    }
    Ok(())
}

/// Asks for a large receive buffer; what we get is not worth an error.
fn enlarge_buffer(socket: &Socket) {
    // Beyond net.core.rmem_max with CAP_NET_ADMIN, up to it without.
    if set_int(socket, SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
        let _ = set_int(socket, SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER);
    }
    if let Ok(bytes) = int(socket, SOL_SOCKET, libc::SO_RCVBUF) {
        tracing::debug!(bytes, "receive buffer");
    }
}

fn is_without_ipv6(error: &io::Error) -> bool {
    // No IPv6 in the kernel; or none in this network namespace (disable_ipv6).
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// Byte 5 of the BTH: the most significant of the destination QPN.
const DESTINATION_QPN_AT: u32 = 5;

/// Receive buffer asked for, in bytes; the kernel doubles it for its own overhead.
const RECEIVE_BUFFER: i32 = 16 << 20;

#[cfg(test)]
mod tests;

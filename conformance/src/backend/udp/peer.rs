//! The raw peer: UDP sockets on other addresses of the loopback interface, with the same port.
//!
//! The library's sockets are bound to all addresses; these are bound to one each, so the kernel gives them the packets to
//! that one. They see no IP headers: over IPv4 an ICRC is right if it is so for any identification.

use super::{namespace, sentinel};
use crate::fabric::{Envelope, IpVersion, RawPacket, RawReceived, RawSource, Unable};
use crate::needs::Need;
use ferroce_wire::ROCE_UDP_PORT;
use ferroce_wire::icrc::{self, IpContext};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

/// The raw peer.
#[derive(Debug)]
pub(super) struct UdpPeer {
    socket: UdpSocket,
    /// Where the loopback interface has an address for it.
    ipv6: Option<UdpSocket>,
    inbox: VecDeque<RawReceived>,
}

impl UdpPeer {
    /// Its address over IPv4.
    pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 47, 91, 2);
    const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 47, 91, 3);

    pub(super) fn open(with_ipv6: bool) -> Result<UdpPeer, String> {
        let open = |address: IpAddr| {
            bind(address, ROCE_UDP_PORT).map_err(|error| {
                format!("cannot bind {address}, port {ROCE_UDP_PORT}, for the raw peer: {error}")
            })
        };
        let ipv6 = with_ipv6.then(|| open(namespace::PEER.into())).transpose()?;
        Ok(UdpPeer { socket: open(Self::ADDRESS.into())?, ipv6, inbox: VecDeque::new() })
    }

    pub(super) fn has_ipv6(&self) -> bool {
        self.ipv6.is_some()
    }

    pub(super) fn send(&self, packet: &RawPacket) -> Result<(), Unable> {
        if packet.envelope != Envelope::True {
            return Err(Unable(Need::RawHeaders));
        }
        let socket = match packet.version {
            IpVersion::V4 => &self.socket,
            IpVersion::V6 => self.ipv6.as_ref().ok_or(Unable(Need::RawPeerIpv6))?,
        };
        let src = source(packet);
        let dst = if packet.to_group { RawPacket::group(packet.version) } else { here(packet.version) };
        let source_port = packet.source_port.unwrap_or(ROCE_UDP_PORT);
        let mut payload = packet.payload.clone();
        if packet.seal {
            icrc::seal(&icrc_context(src, dst, source_port), &mut payload);
        }
        let sent = if packet.from == RawSource::Peer && source_port == ROCE_UDP_PORT {
            send_from(socket, dst, packet.traffic_class, &payload)
        } else {
            bind(src, source_port).and_then(|socket| send_from(&socket, dst, packet.traffic_class, &payload))
        };
        sent.map_err(|_| Unable(Need::RawHeaders))
    }

    /// The next packet, but for those that belong to a [`sentinel`].
    pub(super) fn receive(&mut self, start: Instant) -> Option<RawReceived> {
        while let Some(received) = self.read(start) {
            if !sentinel::is_for_peer(&received.payload) {
                self.inbox.push_back(received);
            }
        }
        self.inbox.pop_front()
    }

    /// Reads until a sentinel's answer comes; whether it did. What else comes is kept.
    pub(super) fn take_sentinel(&mut self, start: Instant) -> bool {
        while let Some(received) = self.read(start) {
            if sentinel::is_for_peer(&received.payload) {
                return true;
            }
            self.inbox.push_back(received);
        }
        false
    }

    /// A packet over either version of IP; that over IPv6 first, as a sentinel's answer comes over IPv4.
    fn read(&self, start: Instant) -> Option<RawReceived> {
        let mut bytes = [0; MAX_DATAGRAM];
        let sockets = self.ipv6.iter().chain([&self.socket]);
        // An error is EWOULDBLOCK, or the kernel's word about a packet that nobody took.
        let (len, from) = sockets.into_iter().find_map(|socket| socket.recv_from(&mut bytes).ok())?;
        let payload = bytes[..len].to_vec();
        Some(RawReceived {
            at_ns: start.elapsed().as_nanos() as u64,
            sealed: is_sealed(from, &payload),
            traffic_class: None,
            payload,
        })
    }
}

/// Where the endpoints are.
pub(super) const fn here(version: IpVersion) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

/// More than any packet has.
pub(super) const MAX_DATAGRAM: usize = 8192;

/// Who a packet says that it comes from.
fn source(packet: &RawPacket) -> IpAddr {
    match (packet.from, packet.version) {
        (RawSource::Peer, IpVersion::V4) => UdpPeer::ADDRESS.into(),
        (RawSource::Peer, IpVersion::V6) => namespace::PEER.into(),
        (RawSource::Stranger, IpVersion::V4) => UdpPeer::STRANGER.into(),
        (RawSource::Stranger, IpVersion::V6) => namespace::STRANGER.into(),
    }
}

/// What the ICRC covers of the headers of what [`bind`]'s sockets send.
pub(super) fn icrc_context(src: IpAddr, dst: IpAddr, source_port: u16) -> IpContext {
    match (src, dst) {
        // An unconnected socket that forbids fragments sends the identification 0.
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpContext::V4 { src: src.octets(), dst: dst.octets(), id: 0, source_port }
        }
        (src, dst) => IpContext::V6 { src: octets(src), dst: octets(dst), source_port },
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A socket that gets what is sent to that address, and not what is sent to all.
pub(super) fn bind(address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        // See `namespace`.
        socket.set_freebind_v6(true)?;
    }
    socket.bind(&address.into())?;
    if address.is_ipv4() {
        // Don't fragment, and with it the identification 0.
        sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
        // Where groups are.
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    } else {
        socket.set_multicast_if_v6(LOOPBACK_INDEX)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The loopback interface is the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

pub(super) fn send_from(
    socket: &UdpSocket,
    dst: IpAddr,
    traffic_class: u8,
    payload: &[u8],
) -> io::Result<()> {
    let options = SockRef::from(socket);
    match dst {
        IpAddr::V4(_) => options.set_tos_v4(traffic_class.into())?,
        IpAddr::V6(_) => options.set_tclass_v6(traffic_class.into())?,
    }
    socket.send_to(payload, (dst, ROCE_UDP_PORT)).map(|_| ())
}

fn is_sealed(from: SocketAddr, payload: &[u8]) -> bool {
    match from.ip() {
        IpAddr::V4(src) => {
            let dst = UdpPeer::ADDRESS.octets();
            icrc::verify_hidden_id(src.octets(), dst, from.port(), 0, payload).is_ok()
        }
        src => icrc::verify(&icrc_context(src, namespace::PEER.into(), from.port()), payload).is_ok(),
    }
}

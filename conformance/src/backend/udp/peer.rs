//! The raw peer: a UDP socket on another address of the loopback interface, with the same port.
//!
//! The library's sockets are bound to all addresses; this one is bound to one, so the kernel gives it the packets to
//! that one. It sees no IP headers: an ICRC is right if it is so for any IPv4 identification.

use super::sentinel;
use crate::fabric::{Envelope, IpVersion, RawPacket, RawReceived, RawSource, Unable};
use crate::needs::Need;
use ferroce_wire::ROCE_UDP_PORT;
use ferroce_wire::icrc::{self, IpContext};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Instant;

/// The raw peer.
#[derive(Debug)]
pub(super) struct UdpPeer {
    socket: UdpSocket,
    inbox: VecDeque<RawReceived>,
}

impl UdpPeer {
    /// Its address.
    pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 47, 91, 2);
    const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 47, 91, 3);

    pub(super) fn open() -> Result<UdpPeer, String> {
        let socket = bind(Self::ADDRESS, ROCE_UDP_PORT).map_err(|error| {
            format!("cannot bind {}:{ROCE_UDP_PORT} for the raw peer: {error}", Self::ADDRESS)
        })?;
        Ok(UdpPeer { socket, inbox: VecDeque::new() })
    }

    pub(super) fn send(&self, packet: &RawPacket) -> Result<(), Unable> {
        if packet.version == IpVersion::V6 {
            return Err(Unable(Need::RawPeerIpv6));
        }
        if packet.envelope != Envelope::True {
            return Err(Unable(Need::RawHeaders));
        }
        let src = match packet.from {
            RawSource::Peer => Self::ADDRESS,
            RawSource::Stranger => Self::STRANGER,
        };
        let dst = match (packet.to_group, RawPacket::group(packet.version)) {
            (true, IpAddr::V4(group)) => group,
            _ => HERE,
        };
        let source_port = packet.source_port.unwrap_or(ROCE_UDP_PORT);
        let mut payload = packet.payload.clone();
        if packet.seal {
            // An unconnected socket that forbids fragments sends the identification 0.
            let ip = IpContext::V4 { src: src.octets(), dst: dst.octets(), id: 0, source_port };
            icrc::seal(&ip, &mut payload);
        }
        let sent = if packet.from == RawSource::Peer && source_port == ROCE_UDP_PORT {
            send_from(&self.socket, dst, packet.traffic_class, &payload)
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

    fn read(&self, start: Instant) -> Option<RawReceived> {
        let mut bytes = [0; MAX_DATAGRAM];
        // An error is EWOULDBLOCK, or the kernel's word about a packet that nobody took.
        let (len, from) = self.socket.recv_from(&mut bytes).ok()?;
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
pub(super) const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// More than any packet has.
pub(super) const MAX_DATAGRAM: usize = 8192;

pub(super) fn bind(address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddrV4::new(address, port).into())?;
    // Don't fragment, and with it the identification 0.
    sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
    // Where groups are.
    socket.set_multicast_if_v4(&HERE)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

pub(super) fn send_from(
    socket: &UdpSocket,
    dst: Ipv4Addr,
    traffic_class: u8,
    payload: &[u8],
) -> io::Result<()> {
    SockRef::from(socket).set_tos_v4(traffic_class.into())?;
    socket.send_to(payload, SocketAddrV4::new(dst, ROCE_UDP_PORT)).map(|_| ())
}

fn is_sealed(from: SocketAddr, payload: &[u8]) -> bool {
    let SocketAddr::V4(from) = from else { return false };
    let (src, dst) = (from.ip().octets(), UdpPeer::ADDRESS.octets());
    icrc::verify_hidden_id(src, dst, from.port(), 0, payload).is_ok()
}

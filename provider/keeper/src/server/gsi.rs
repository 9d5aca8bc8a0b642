//! QP 1: management datagrams as packets.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use ferroce_cm::Route;
use ferroce_core::{PacketMeta, Path, TransmitSink, check_icrc};
use ferroce_port::{Port, UdpOptions, UdpPort, UdpPortError, interfaces, source_port};
use ferroce_wire::mad::Mad;
use ferroce_wire::{DEFAULT_PKEY, GSI_QKEY, Opcode, Packet, PacketHeader, Psn, Qpn};
use zerocopy::IntoBytes;

/// The general services interface of this host.
pub(super) struct Gsi {
    port: UdpPort,
    psn: Psn,
    dropped: u64,
}

impl Gsi {
    /// Receives on `socket` what comes for UDP port `port`.
    pub(super) fn new(socket: OwnedFd, port: u16) -> Result<Gsi, UdpPortError> {
        let options = UdpOptions { receive_messages: 1, destination_port: port, ..UdpOptions::default() };
        Ok(Gsi { port: UdpPort::new(socket, options)?, psn: Psn::default(), dropped: 0 })
    }

    /// What becomes readable with packets.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.port.fds()
    }

    /// Puts a datagram into the batch; [`Gsi::flush`] sends it.
    pub(super) fn send(&mut self, route: &Route, mad: &Mad) {
        let header = PacketHeader::new(Opcode::UD_SEND_ONLY, Qpn::GSI, self.psn).deth(GSI_QKEY, Qpn::GSI);
        let len = header.packet_len(Mad::LEN);
        let path = path(route);
        // Full, or another path of the batch is: what is there goes first.
        if self.port.reserve(&path, len).is_none() {
            self.port.flush();
        }
        let Some(room) = self.port.reserve(&path, len) else { return };
        header.write(room, Mad::LEN).copy_from_slice(mad.as_bytes());
        self.port.commit();
        self.psn = self.psn.plus(1);
    }

    pub(super) fn flush(&mut self) {
        self.port.flush();
    }

    /// Takes the datagrams of one batch; whether there may be more.
    pub(super) fn receive(&mut self, datagrams: &mut Vec<(Route, Box<Mad>)>) -> bool {
        let dropped = &mut self.dropped;
        let received = self.port.receive(&mut |meta, packet| match datagram(meta, packet) {
            Some(datagram) => datagrams.push(datagram),
            None => *dropped += 1,
        });
        if *dropped >= DROPS_PER_LINE {
            tracing::debug!(
                dropped = *dropped,
                "packets to QP 1 that are no management datagrams were dropped"
            );
            *dropped = 0;
        }
        received > 0
    }
}

/// A packet to QP 1, checked. What is wrong with it is nobody's business but the counter's.
fn datagram(meta: &PacketMeta, bytes: &[u8]) -> Option<(Route, Box<Mad>)> {
    let packet = Packet::parse(bytes).ok()?;
    let deth = packet.deth()?;
    let is_for_us = packet.opcode() == Opcode::UD_SEND_ONLY
        && packet.bth().dest_qpn() == Qpn::GSI
        && packet.bth().pkey() | FULL_MEMBER == DEFAULT_PKEY
        && (deth.qkey(), deth.source_qpn()) == (GSI_QKEY, Qpn::GSI);
    if !is_for_us {
        return None;
    }
    let mad = Mad::parse(packet.payload()).ok()?;
    check_icrc(meta, bytes)?;
    let (local, peer) = (meta.dst.to_canonical(), meta.src.to_canonical());
    let route = Route { local, peer, interface: interface(local, peer), traffic_class: meta.traffic_class };
    Some((route, Box::new(*mad)))
}

fn path(route: &Route) -> Path {
    let interface = match route.interface {
        0 => interface(route.local, route.peer),
        interface => interface,
    };
    Path {
        src: route.local,
        dst: route.peer,
        interface,
        traffic_class: route.traffic_class,
        hop_limit: HOP_LIMIT,
        flow_label: 0,
        source_port: source_port(0, Qpn::GSI.value(), Qpn::GSI.value()),
        receiver: None,
    }
}

/// The interface that a link-local peer is behind: the one with our address; 0 where the address says enough.
fn interface(local: IpAddr, peer: IpAddr) -> u32 {
    let is_link_local = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if !is_link_local(peer) {
        return 0;
    }
    let all = interfaces::list().unwrap_or_default();
    all.iter().find(|interface| interface.addrs.contains(&local)).map_or(0, |interface| interface.index)
}

/// The membership bit of a P_Key; the default partition has full and limited members.
const FULL_MEMBER: u16 = 0x8000;
const HOP_LIMIT: u8 = 64;
/// Dropped packets between two lines of the log.
const DROPS_PER_LINE: u64 = 1_000;

//! The raw peer of a simulated fabric: a bare host.

use crate::fabric::{Envelope, IpVersion, RawPacket, RawReceived, RawSource, Unable};
use crate::needs::Need;
use ferroce_core::{Ipv4Id, PacketMeta, Path};
use ferroce_emulator::{Datagram, Fabric as Network, HostId};
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{Ipv4Header, UdpHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

/// Sends `packet` from the bare host `raw` to `target`.
pub(super) fn send(
    network: &mut Network,
    raw: HostId,
    target: HostId,
    packet: &RawPacket,
) -> Result<(), Unable> {
    let ipv6 = packet.version == IpVersion::V6;
    let src = match packet.from {
        RawSource::Peer => network.address(raw, ipv6),
        RawSource::Stranger if ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x99)),
        RawSource::Stranger => IpAddr::V4(Ipv4Addr::new(10, 0, 0, 99)),
    };
    let path = Path {
        src,
        dst: if packet.to_group { RawPacket::group(packet.version) } else { network.address(target, ipv6) },
        interface: 0,
        traffic_class: packet.traffic_class,
        hop_limit: 64,
        flow_label: 0,
        source_port: packet.source_port.unwrap_or(SOURCE_PORT),
        receiver: None,
    };
    if packet.envelope == Envelope::True {
        network.network.send_datagram(raw, &path, &packet.payload, packet.seal);
        return Ok(());
    }
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (path.src, path.dst) else {
        return Err(Unable(Need::RawHeaders));
    };
    let datagram = false_datagram(src, dst, path.source_port, packet);
    network.network.send_ip_datagram(raw, path.dst, &datagram);
    Ok(())
}

/// An IPv4 datagram whose headers are not as they should be. Its ICRC is the one that the packet would have behind true
/// headers, so that it is not the ICRC for which it is dropped.
fn false_datagram(src: Ipv4Addr, dst: Ipv4Addr, source_port: u16, packet: &RawPacket) -> Vec<u8> {
    let mut payload = packet.payload.clone();
    if packet.seal {
        icrc::seal(&IpContext::V4 { src: src.octets(), dst: dst.octets(), id: 0, source_port }, &mut payload);
    }
    let mut udp = UdpHeader::new(source_port, payload.len() as u16).as_bytes().to_vec();
    let datagram_len = (udp.len() + payload.len()) as u16;
    let mut ip =
        Ipv4Header::new(src.octets(), dst.octets(), datagram_len).with_checksum().as_bytes().to_vec();
    match packet.envelope {
        Envelope::True => {}
        Envelope::IpOptions => {
            // Four no-operations.
            ip.extend([1; 4]);
            ip[0] = 0x46;
            ip[2..4].copy_from_slice(&(datagram_len + 24).to_be_bytes());
            ip[10..12].fill(0);
            let checksum = ip_checksum(&ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Envelope::UdpLength(by) => {
            let len = datagram_len.wrapping_add_signed(by);
            udp[4..6].copy_from_slice(&len.to_be_bytes());
        }
    }
    [ip, udp, payload].concat()
}

/// RFC 1071.
fn ip_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(folded as u16).wrapping_add((folded >> 16) as u16)
}

/// The next packet that came to the bare host.
pub(super) fn receive(network: &mut Network, raw: HostId) -> Option<RawReceived> {
    let Datagram { at, meta, payload } = network.network.poll_datagram(raw)?;
    Some(RawReceived {
        at_ns: at,
        sealed: icrc::verify(&icrc_context(&meta), &payload).is_ok(),
        traffic_class: Some(meta.traffic_class),
        payload: payload.to_vec(),
    })
}

/// What a packet's ICRC covers of its headers.
pub(in crate::backend) fn icrc_context(meta: &PacketMeta) -> IpContext {
    let source_port = meta.source_port;
    match (meta.src, meta.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (Ipv4Id::Seen(id) | Ipv4Id::Guessed(id)) = meta.ip_id;
            IpContext::V4 { src: src.octets(), dst: dst.octets(), id, source_port }
        }
        (src, dst) => IpContext::V6 { src: octets(src), dst: octets(dst), source_port },
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The port that the peer sends from unless a script says otherwise.
const SOURCE_PORT: u16 = 0xd00d;

//! The raw peer of a simulated fabric: a bare host.

use crate::fabric::{Envelope, IpVersion, RawPacket, RawReceived, RawSource, Unable};
use crate::needs::Need;
use ferroce_core::{Ipv4Id, PacketMeta, Path};
use ferroce_emulator::{Datagram, Fabric as Network, HostId};
use ferroce_wire::frame::Network as Headers;
use ferroce_wire::icrc::{self, IpContext};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Sends `packet` from the bare host `raw` to `target`.
pub(super) fn send(
    network: &mut Network,
    raw: HostId,
    target: HostId,
    packet: &RawPacket,
) -> Result<(), Unable> {
    if packet.envelope != Envelope::True {
        return Err(Unable(Need::RawHeaders));
    }
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
    network.network.send_datagram(raw, &path, &packet.payload, packet.seal);
    Ok(())
}

/// The next packet that came to the bare host.
pub(super) fn receive(network: &mut Network, raw: HostId) -> Option<RawReceived> {
    let Datagram { at, meta, payload } = network.network.poll_datagram(raw)?;
    Some(RawReceived {
        at_ns: at,
        sealed: icrc::verify(&context(&meta), &payload).is_ok(),
        traffic_class: Some(meta.traffic_class),
        payload: payload.to_vec(),
    })
}

fn context(meta: &PacketMeta) -> IpContext {
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

/// Source address and traffic class of a packet.
pub(super) fn source(headers: &Headers<'_>) -> (IpAddr, u8) {
    match headers {
        Headers::Ipv4(ip, _) => (ip.source().into(), ip.tos()),
        Headers::Ipv6(ip, _) => (ip.source().into(), ip.traffic_class()),
        Headers::RoceV1(grh) => (grh.sgid().into(), 0),
    }
}

/// The port that the peer sends from unless a script says otherwise.
const SOURCE_PORT: u16 = 0xd00d;

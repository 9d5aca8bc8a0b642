//! The 40 bytes in front of a received datagram's payload (W-21): where a card of InfiniBand puts the GRH, RoCEv2 puts
//! the IP header.

use crate::PacketMeta;
use ferroce_wire::{ICRC_LEN, Ipv4Header, Ipv6Header, Packet, UdpHeader};
use std::net::IpAddr;
use zerocopy::IntoBytes;

/// Bytes of the area, which a receive WQE must have room for besides the payload.
pub(super) const GRH_LEN: usize = 40;

/// The area: an IPv6 header whole, an IPv4 header in the last 20 bytes behind zeros.
///
/// What a socket does not tell is as usual senders have it: time to live 64, flow label 0.
pub(super) fn grh_area(meta: &PacketMeta, packet: &Packet<'_>) -> [u8; GRH_LEN] {
    let covered = packet.opcode().header_len() + packet.payload().len() + usize::from(packet.pad_count());
    // It came in one datagram, so its length fits 16 bits.
    let udp_len = (UdpHeader::LEN + covered + ICRC_LEN) as u16;
    let mut area = [0; GRH_LEN];
    match (meta.src.to_canonical(), meta.dst.to_canonical()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header::new(src.octets(), dst.octets(), udp_len)
                .with_tos(meta.traffic_class)
                .with_id(meta.ip_id.value())
                .with_checksum();
            area[GRH_LEN - Ipv4Header::LEN..].copy_from_slice(header.as_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header =
                Ipv6Header::new(src.octets(), dst.octets(), udp_len).with_traffic_class(meta.traffic_class);
            area.copy_from_slice(header.as_bytes());
        }
        // No packet has addresses of two families.
        _ => {}
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ipv4Id;
    use ferroce_wire::{Opcode, PacketHeader, Psn, Qpn};

    fn area(src: &str, dst: &str, payload_len: usize) -> [u8; GRH_LEN] {
        let header = PacketHeader::new(Opcode::UD_SEND_ONLY, Qpn::new(0x11), Psn::new(1));
        let mut bytes = vec![0; header.packet_len(payload_len)];
        header.write(&mut bytes, payload_len);
        let meta = PacketMeta {
            src: src.parse().expect("an address"),
            dst: dst.parse().expect("an address"),
            source_port: 0xc000,
            traffic_class: 0x6a,
            icrc_checked: true,
            ip_id: Ipv4Id::Seen(0x1234),
            continues: false,
        };
        grh_area(&meta, &Packet::parse(&bytes).expect("a packet"))
    }

    #[test]
    fn an_ipv4_header_stands_at_offset_20() {
        let area = area("10.0.0.1", "10.0.0.2", 5);
        assert_eq!(area[..20], [0; 20]);
        // IP 20, UDP 8, BTH 12, DETH 8, payload 5, pad 3, ICRC 4: 60 bytes. The checksum was computed apart.
        let expected: [u8; 20] = [
            0x45, 0x6a, 0x00, 0x3c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x14, 0x11, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        assert_eq!(area[20..], expected);
    }

    #[test]
    fn an_ipv6_header_fills_the_area() {
        let area = area("fd00::1", "fd00::2", 4);
        // UDP 8, BTH 12, DETH 8, payload 4, ICRC 4: 36 bytes.
        assert_eq!(area[..8], [0x66, 0xa0, 0x00, 0x00, 0x00, 36, 17, 64]);
        assert_eq!((area[8], area[23], area[24], area[39]), (0xfd, 1, 0xfd, 2));
    }
}

//! Checking the ICRC of a packet with what the port saw around it.

use crate::{Ipv4Id, PacketMeta};
use ferroce_wire::icrc::{self, IpContext};
use std::net::IpAddr;

/// Checks the ICRC of a UDP payload, unless the port did; the identification with which it is right.
pub fn check(meta: &PacketMeta, udp_payload: &[u8]) -> Option<Ipv4Id> {
    if meta.icrc_checked {
        return Some(meta.ip_id);
    }
    let source_port = meta.source_port;
    match (meta.src.to_canonical(), meta.dst.to_canonical()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => match meta.ip_id {
            Ipv4Id::Seen(id) => {
                let ip = IpContext::V4 { src: src.octets(), dst: dst.octets(), id, source_port };
                icrc::verify(&ip, udp_payload).ok().map(|()| meta.ip_id)
            }
            Ipv4Id::Guessed(id) => {
                icrc::verify_hidden_id(src.octets(), dst.octets(), source_port, id, udp_payload)
                    .ok()
                    .map(Ipv4Id::Guessed)
            }
        },
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = IpContext::V6 { src: src.octets(), dst: dst.octets(), source_port };
            icrc::verify(&ip, udp_payload).ok().map(|()| meta.ip_id)
        }
        // Addresses of two families are on no packet.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const SOURCE_PORT: u16 = 0xf123;

    fn meta(address: IpAddr, ip_id: Ipv4Id) -> PacketMeta {
        let (src, dst) = (address, address);
        PacketMeta {
            src,
            dst,
            source_port: SOURCE_PORT,
            traffic_class: 0,
            icrc_checked: false,
            ip_id,
            continues: false,
        }
    }

    /// A packet from and to `address` with that identification.
    fn sealed(address: IpAddr, id: u16) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..40).collect();
        let ip = match address {
            IpAddr::V4(address) => {
                IpContext::V4 { src: address.octets(), dst: address.octets(), id, source_port: SOURCE_PORT }
            }
            IpAddr::V6(address) => {
                IpContext::V6 { src: address.octets(), dst: address.octets(), source_port: SOURCE_PORT }
            }
        };
        icrc::seal(&ip, &mut packet);
        packet
    }

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    /// Kernel rxe numbers its packets; and a run that the kernel cut up keeps its numbers.
    #[test]
    fn an_identification_that_was_guessed_wrong_does_not_matter() {
        for id in [0, 1, 0x1234, u16::MAX] {
            let found = check(&meta(V4, Ipv4Id::Guessed(0)), &sealed(V4, id));
            assert_eq!(found, Some(Ipv4Id::Guessed(id)), "{id:#x}");
        }
    }

    #[test]
    fn an_identification_that_was_seen_has_to_be_right() {
        assert_eq!(check(&meta(V4, Ipv4Id::Seen(7)), &sealed(V4, 7)), Some(Ipv4Id::Seen(7)));
        assert_eq!(check(&meta(V4, Ipv4Id::Seen(0)), &sealed(V4, 7)), None);
    }

    #[test]
    fn over_ipv6_there_is_none() {
        assert_eq!(check(&meta(V6, Ipv4Id::Seen(9)), &sealed(V6, 0)), Some(Ipv4Id::Seen(9)));
    }

    #[test]
    fn damage_is_seen() {
        for (address, ip_id) in [(V4, Ipv4Id::Seen(0)), (V4, Ipv4Id::Guessed(0)), (V6, Ipv4Id::Guessed(0))] {
            // The ICRC leaves out the byte with FECN and BECN.
            for bit in (0..8 * 36).filter(|bit| bit / 8 != 4) {
                let mut packet = sealed(address, 0);
                packet[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(check(&meta(address, ip_id), &packet), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_packet_between_the_families_is_wrong() {
        let mixed = PacketMeta { dst: V6, ..meta(V4, Ipv4Id::Seen(0)) };
        assert_eq!(check(&mixed, &sealed(V4, 0)), None);
    }
}

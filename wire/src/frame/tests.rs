use std::format;
use std::vec::Vec;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::{Opcode, PacketHeader, Psn, Qpn};

const MAC_A: [u8; 6] = [2, 0x77, 0, 0, 0, 2];
const MAC_B: [u8; 6] = [2, 0x77, 0, 0, 0, 3];

fn gid(last: u8) -> [u8; 16] {
    let mut gid = [0; 16];
    (gid[0], gid[15]) = (0xfd, last);
    gid
}

/// An unsealed RC SEND of five bytes: BTH, payload, pad, four zeros.
fn transport() -> Vec<u8> {
    let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(0x11), Psn::new(7)).mig_req(false);
    let mut bytes = std::vec![0; header.packet_len(5)];
    header.write(&mut bytes, 5).copy_from_slice(b"hello");
    bytes
}

fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let icrc = Frame::parse_ethernet(&frame).expect("well formed").compute_icrc();
    let end = frame.len() - ICRC_LEN;
    frame[end..].copy_from_slice(&icrc);
    frame
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ipv4_frame() -> Vec<u8> {
    let transport = transport();
    let udp = UdpHeader::new(0xc001, transport.len() as u16);
    let ip = Ipv4Header::new([10, 77, 0, 2], [10, 77, 0, 3], udp.datagram_len()).with_id(99).with_checksum();
    let ethernet = EthernetHeader::new(MAC_B, MAC_A, EthernetHeader::IPV4);
    sealed(join(&[ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &transport]))
}

fn ipv6_frame() -> Vec<u8> {
    let transport = transport();
    let udp = UdpHeader::new(0xc001, transport.len() as u16);
    let ip = Ipv6Header::new(gid(2), gid(3), udp.datagram_len()).with_flow_label(5);
    let ethernet = EthernetHeader::new(MAC_B, MAC_A, EthernetHeader::VLAN);
    let vlan = VlanTag::new(3, 100, EthernetHeader::IPV6);
    sealed(join(&[ethernet.as_bytes(), vlan.as_bytes(), ip.as_bytes(), udp.as_bytes(), &transport]))
}

fn rocev1_frame() -> Vec<u8> {
    let transport = transport();
    let grh = Grh::new(gid(2), gid(3), transport.len() as u16);
    let ethernet = EthernetHeader::new(MAC_B, MAC_A, EthernetHeader::ROCEV1);
    sealed(join(&[ethernet.as_bytes(), grh.as_bytes(), &transport]))
}

#[test]
fn each_kind_of_frame_is_taken_apart_and_printed() {
    let lines = [
        (
            ipv4_frame(),
            "IP 10.77.0.2.49153 > 10.77.0.3.4791: RC_SEND_ONLY qpn 0x000011 psn 7, length 5 pad 3",
        ),
        (
            ipv6_frame(),
            "vlan 100 p 3, IP6 fd00::2.49153 > fd00::3.4791: RC_SEND_ONLY qpn 0x000011 psn 7, length 5 pad 3",
        ),
        (rocev1_frame(), "GRH fd00::2 > fd00::3: RC_SEND_ONLY qpn 0x000011 psn 7, length 5 pad 3"),
    ];
    for (bytes, line) in lines {
        let frame = Frame::parse_ethernet(&bytes).expect("well formed");
        assert_eq!(format!("{frame}"), line);
        assert_eq!(frame.packet().expect("well formed").payload(), b"hello");
        assert_eq!(frame.verify_icrc(), Ok(()));
        assert_eq!(frame.ethernet().map(EthernetHeader::source), Some(MAC_A));
    }
}

#[test]
fn a_datagram_without_ethernet_is_taken_apart() {
    let bytes = ipv4_frame();
    let frame = Frame::parse_ip(&bytes[EthernetHeader::LEN..]).expect("well formed");
    assert_eq!((frame.ethernet(), frame.verify_icrc()), (None, Ok(())));
    let bytes = ipv6_frame();
    let frame = Frame::parse_ip(&bytes[EthernetHeader::LEN + VlanTag::LEN..]).expect("well formed");
    assert_eq!(frame.verify_icrc(), Ok(()));
    assert_eq!(Frame::parse_ip(&[0x50; 60]), Err(FrameError::IpVersion(5)));
    assert!(matches!(Frame::parse_ip(&[]), Err(FrameError::TooShort { .. })));
}

#[test]
fn padding_of_short_frames_is_ignored() {
    for bytes in [ipv4_frame(), ipv6_frame(), rocev1_frame()] {
        let mut padded = bytes.clone();
        padded.extend([0xaa; 18]);
        let (frame, same) = (Frame::parse_ethernet(&padded), Frame::parse_ethernet(&bytes));
        assert_eq!(frame, same);
    }
}

#[test]
fn a_frame_cut_anywhere_is_refused() {
    for bytes in [ipv4_frame(), ipv6_frame(), rocev1_frame()] {
        for len in 0..bytes.len() {
            assert!(
                matches!(Frame::parse_ethernet(&bytes[..len]), Err(FrameError::TooShort { .. })),
                "{len} of {} bytes",
                bytes.len()
            );
        }
    }
}

#[test]
fn the_icrc_leaves_out_what_routers_change() {
    // Ethernet 14, then type of service, time to live, checksum, then the UDP checksum, then BTH byte 4.
    let free_v4 = [15, 22, 24, 25, 40, 41, 46];
    // Ethernet and tag 18; traffic class and flow label share the first four bytes with the version.
    let free_v6 = [19, 20, 21, 25, 64, 65, 70];
    let free_v1 = [15, 16, 17, 21, 58];
    for (good, free, start) in
        [(ipv4_frame(), &free_v4[..], 14), (ipv6_frame(), &free_v6, 18), (rocev1_frame(), &free_v1, 14)]
    {
        for byte in start..good.len() {
            let mut changed = good.clone();
            changed[byte] ^= 0x04;
            // The first byte holds four free bits, of the traffic class, in version 6 only.
            let is_free = free.contains(&byte) || (byte == start && good[start] >> 4 == 6);
            // Lengths, protocol and destination port make it no frame at all.
            if let Ok(frame) = Frame::parse_ethernet(&changed) {
                assert_eq!(frame.verify_icrc().is_ok(), is_free, "byte {byte} of {frame}");
            } else {
                assert!(!is_free, "byte {byte}");
            }
        }
    }
}

#[test]
fn flags_and_lengths_count_as_sent() {
    let mut bytes = ipv4_frame();
    bytes[20] = 0; // don't-fragment clear
    assert!(Frame::parse_ethernet(&bytes).expect("still RoCE").verify_icrc().is_err());
    let bytes = sealed(bytes);
    assert_eq!(Frame::parse_ethernet(&bytes).expect("still RoCE").verify_icrc(), Ok(()));
}

#[test]
fn what_is_no_roce_says_why() {
    let change = |at: usize, value: u8| {
        let mut bytes = ipv4_frame();
        bytes[at] = value;
        Frame::parse_ethernet(&bytes).map(|_| ()).expect_err("no RoCE")
    };
    assert_eq!(change(13, 0x06), FrameError::Ethertype(0x0806));
    assert_eq!(change(14, 0x65), FrameError::IpVersion(6));
    assert_eq!(change(14, 0x46), FrameError::IpOptions { header_len: 24 });
    assert_eq!(change(14, 0x44), FrameError::IpOptions { header_len: 16 });
    assert_eq!(change(20, 0x20), FrameError::Fragment);
    assert_eq!(change(21, 0x01), FrameError::Fragment);
    assert_eq!(change(23, 6), FrameError::Protocol(6));
    assert_eq!(change(37, 0xb8), FrameError::DestinationPort(4792));
    assert_eq!(change(39, 20), FrameError::UdpLength { udp: 20, ip: 32 });
    assert!(FrameError::DestinationPort(53).is_other_protocol());
    assert!(!FrameError::Fragment.is_other_protocol());
}

proptest! {
    #[test]
    fn any_bytes_parse_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..120), ethertype in 0usize..5) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(12..14) {
            place.copy_from_slice(&[0x0800u16, 0x86dd, 0x8915, 0x8100, 0x0806][ethertype].to_be_bytes());
        }
        if let Ok(frame) = Frame::parse_ethernet(&bytes) {
            let line = format!("{frame}");
            prop_assert!(!line.contains('\n'));
            let _ = (frame.verify_icrc(), frame.compute_icrc());
        }
        let _ = Frame::parse_ip(&bytes);
    }
}

//! Every packet of every capture of Linux rxe is understood, has a right ICRC, and comes out of our writer as the same
//! bytes.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use ferroce_wire::frame::{Frame, Network};
use ferroce_wire::icrc::{self, IpContext};
use ferroce_wire::{EthernetHeader, Ipv4Header, Ipv6Header, Packet, PacketHeader, PayloadRule, UdpHeader};
use support::pcap::frames;
use support::{capture_folder, captures};
use zerocopy::IntoBytes;

/// RoCEv2 packets in all captures together.
const TOTAL_PACKETS: usize = 1082;

/// Calls `check` with a name and each RoCE frame, and returns how many there were.
fn for_each_frame(mut check: impl FnMut(&str, &[u8], &Frame<'_>)) -> usize {
    let mut count = 0;
    for (name, file) in captures() {
        for (index, bytes) in frames(&file).into_iter().enumerate() {
            match Frame::parse_ethernet(bytes) {
                Ok(frame) => {
                    check(&format!("{name} #{index}"), bytes, &frame);
                    count += 1;
                }
                Err(error) => assert!(error.is_other_protocol(), "{name} #{index}: {error}"),
            }
        }
    }
    count
}

#[test]
fn each_capture_holds_the_packets_it_is_said_to_hold() {
    let mut found = String::new();
    for (name, file) in captures() {
        let mut opcodes = BTreeMap::new();
        let (mut packets, mut others) = (0, 0);
        for bytes in frames(&file) {
            let Ok(frame) = Frame::parse_ethernet(bytes) else {
                others += 1;
                continue;
            };
            let packet = frame.packet().unwrap_or_else(|error| panic!("{name}: {frame}: {error}"));
            packets += 1;
            *opcodes.entry(packet.opcode().name()).or_insert(0) += 1;
        }
        write!(found, "{name} {packets} {others}").expect("a string takes everything");
        for (opcode, count) in opcodes {
            write!(found, " {opcode}:{count}").expect("a string takes everything");
        }
        found.push('\n');
    }
    let expected = fs::read_to_string(capture_folder().join("counts.txt")).expect("a file of the repository");
    assert_eq!(found, expected);
}

#[test]
fn every_icrc_is_right() {
    let count = for_each_frame(|name, _, frame| {
        frame.verify_icrc().unwrap_or_else(|error| panic!("{name}: {frame}: {error}"));
    });
    assert_eq!(count, TOTAL_PACKETS);
}

#[test]
fn every_icrc_is_right_for_a_receiver_that_knows_addresses_only() {
    for_each_frame(|name, _, frame| {
        let verdict = icrc::verify(&context(frame), frame.transport());
        assert_eq!(verdict, Ok(()), "{name}: {frame}");
        if let Network::Ipv4(ip, udp) = frame.network() {
            let (source, destination, port) = (ip.source(), ip.destination(), udp.source_port());
            for guess in [0, ip.id(), ip.id().wrapping_sub(1)] {
                let found = icrc::verify_hidden_id(source, destination, port, guess, frame.transport());
                assert_eq!(found, Ok(ip.id()), "{name}: {frame}");
            }
        }
    });
}

#[test]
fn every_frame_is_written_again_byte_for_byte() {
    let count = for_each_frame(|name, bytes, frame| {
        assert_eq!(rewritten(frame), bytes, "{name}: {frame}");
    });
    assert_eq!(count, TOTAL_PACKETS);
}

/// rxe keeps to the rules of length and pad, within a path MTU of 4096.
#[test]
fn every_payload_has_a_length_that_its_opcode_allows() {
    const MAX_MTU: usize = 4096;
    for_each_frame(|name, _, frame| {
        let packet = frame.packet().expect("checked elsewhere");
        let len = packet.payload().len();
        let mtu = match packet.opcode().payload_rule() {
            PayloadRule::FullMtu => len,
            _ => MAX_MTU,
        };
        assert!(packet.opcode().payload_rule().allows(len, mtu), "{name}: {frame}");
        assert_eq!(usize::from(packet.pad_count()), len.wrapping_neg() % 4, "{name}: {frame}");
        assert!(len <= MAX_MTU, "{name}: {frame}");
    });
}

#[test]
fn every_packet_cut_short_is_refused_or_has_less_payload() {
    for_each_frame(|name, _, frame| {
        let transport = frame.transport();
        for len in 0..transport.len().min(80) {
            if let Ok(cut) = Packet::parse(&transport[..len]) {
                assert!(cut.opcode().header_len() + cut.payload().len() < len, "{name}");
            }
        }
    });
}

/// What the sender would have told the ICRC.
fn context(frame: &Frame<'_>) -> IpContext {
    match frame.network() {
        Network::Ipv4(ip, udp) => IpContext::V4 {
            src: ip.source(),
            dst: ip.destination(),
            id: ip.id(),
            source_port: udp.source_port(),
        },
        Network::Ipv6(ip, udp) => {
            IpContext::V6 { src: ip.source(), dst: ip.destination(), source_port: udp.source_port() }
        }
        Network::RoceV1(_) => panic!("the captures hold RoCEv2 only"),
    }
}

/// The frame made anew out of what the accessors say.
fn rewritten(frame: &Frame<'_>) -> Vec<u8> {
    let packet = frame.packet().expect("checked elsewhere");
    let payload = packet.payload();
    let header = header_of(&packet);
    let mut transport = vec![0; header.packet_len(payload.len())];
    header.write(&mut transport, payload.len()).copy_from_slice(payload);
    icrc::seal(&context(frame), &mut transport);

    let old = frame.ethernet().expect("parsed from Ethernet");
    let ethernet = EthernetHeader::new(old.destination(), old.source(), old.ethertype());
    let udp = |old: &UdpHeader| {
        UdpHeader::new(old.source_port(), transport.len() as u16).with_checksum(old.checksum())
    };
    match frame.network() {
        Network::Ipv4(old, old_udp) => {
            let udp = udp(old_udp);
            let ip = Ipv4Header::new(old.source(), old.destination(), udp.datagram_len())
                .with_tos(old.tos())
                .with_id(old.id())
                .with_ttl(old.ttl())
                .with_checksum();
            [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &transport].concat()
        }
        Network::Ipv6(old, old_udp) => {
            let udp = udp(old_udp);
            let ip = Ipv6Header::new(old.source(), old.destination(), udp.datagram_len())
                .with_traffic_class(old.traffic_class())
                .with_flow_label(old.flow_label())
                .with_hop_limit(old.hop_limit());
            [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &transport].concat()
        }
        Network::RoceV1(_) => panic!("the captures hold RoCEv2 only"),
    }
}

fn header_of(packet: &Packet<'_>) -> PacketHeader {
    let bth = packet.bth();
    let mut header = PacketHeader::new(packet.opcode(), bth.dest_qpn(), bth.psn())
        .pkey(bth.pkey())
        .solicited(bth.solicited())
        .mig_req(bth.mig_req())
        .ack_req(bth.ack_req())
        .fecn(bth.fecn())
        .becn(bth.becn());
    if let Some(deth) = packet.deth() {
        header = header.deth(deth.qkey(), deth.source_qpn());
    }
    if let Some(reth) = packet.reth() {
        header = header.reth(reth.va(), reth.rkey(), reth.dma_length());
    }
    if let Some(atomic) = packet.atomic_eth() {
        header = header.atomic_eth(atomic.va(), atomic.rkey(), atomic.swap_or_add(), atomic.compare());
    }
    if let Some(aeth) = packet.aeth() {
        header = header.aeth(aeth.syndrome(), aeth.msn());
    }
    if let Some(answer) = packet.atomic_ack_eth() {
        header = header.atomic_ack_eth(answer.original());
    }
    if let Some(imm) = packet.imm() {
        header = header.imm(imm);
    }
    if let Some(ieth) = packet.ieth() {
        header = header.ieth(ieth.rkey());
    }
    header
}

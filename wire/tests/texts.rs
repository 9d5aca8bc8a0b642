//! What people read: errors and packets as one line each.

use ferroce_wire::cm::{
    AprStatus, CmError, CmaError, PrivateDataTooLong, RejectReason, ServiceId, SidrStatus,
};
use ferroce_wire::frame::{Frame, FrameError};
use ferroce_wire::icrc::IcrcError;
use ferroce_wire::mad::{Mad, MadError};
use ferroce_wire::{
    AtomicEth, Bth, Deth, EthernetHeader, Feth, Header, Ipv4Header, Opcode, Packet, PacketHeader, ParseError,
    Psn, Qpn, Rdeth, Reth, UdpHeader,
};
use zerocopy::IntoBytes;

#[test]
fn an_error_says_what_was_found_and_what_there_should_be() {
    let texts = [
        ParseError::TooShort { len: 15, need: 16 }.to_string(),
        ParseError::TransportVersion(3).to_string(),
        ParseError::UnknownOpcode(0xff).to_string(),
        ParseError::PadExceedsPayload { pad: 3, room: 2 }.to_string(),
        FrameError::TooShort { what: "UDP header", len: 3, need: 8 }.to_string(),
        FrameError::Ethertype(0x0806).to_string(),
        FrameError::IpVersion(5).to_string(),
        FrameError::Protocol(6).to_string(),
        FrameError::DestinationPort(53).to_string(),
        FrameError::IpOptions { header_len: 24 }.to_string(),
        FrameError::Fragment.to_string(),
        FrameError::UdpLength { udp: 40, ip: 36 }.to_string(),
        IcrcError::TooShort { len: 3 }.to_string(),
        IcrcError::Mismatch { computed: [1, 2, 3, 4], received: [0xa, 0xb, 0xc, 0xd] }.to_string(),
        MadError::Length(255).to_string(),
        MadError::BaseVersion(2).to_string(),
        CmError::Class(3).to_string(),
        CmError::ClassVersion(1).to_string(),
        CmError::Method(1).to_string(),
        CmError::Attribute(0x99).to_string(),
        CmaError::TooShort(35).to_string(),
        CmaError::Version(1).to_string(),
        CmaError::IpVersion(5).to_string(),
        PrivateDataTooLong { len: 93, room: 92 }.to_string(),
    ];
    let expected = [
        "15 bytes, where headers and ICRC take 16",
        "transport header version 3, where only 0 exists",
        "unknown opcode 0xff",
        "pad count 3, where only 2 bytes lie between headers and ICRC",
        "UDP header of 8 bytes ends after 3",
        "not RoCE: ethertype 0x0806",
        "IP version 5",
        "not RoCE: IP protocol 6",
        "not RoCE: UDP port 53, where RoCE has 4791",
        "IPv4 header of 24 bytes, where RoCE allows no options",
        "an IPv4 fragment, which RoCE does not allow",
        "UDP length 40, where IP carries 36 bytes",
        "3 bytes are too few to hold an ICRC",
        "ICRC 0a0b0c0d, computed 01020304: the packet is corrupt or its IP addresses and ports were changed",
        "255 bytes, where a management datagram has 256",
        "MAD base version 2, where only 1 exists",
        "management class 0x3 is not communication management",
        "communication management version 1, where only 2 exists",
        "method 0x1, where messages are sent with Send",
        "attribute 0x0099 is no message",
        "35 bytes, where the RDMA CM's header has 36",
        "RDMA CM header version 1, where only 0 exists",
        "IP version 5 in the RDMA CM's header",
        "93 bytes of private data, where the message has room for 92",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn numbers_have_names_where_there_are_some() {
    let texts = [
        AprStatus::LOADED.to_string(),
        AprStatus::INVALID_COMM_ID.to_string(),
        AprStatus::REJECTED.to_string(),
        SidrStatus::from_u8(4).to_string(),
        SidrStatus::from_u8(5).to_string(),
        ServiceId(0x0000_0000_0106_1234).to_string(),
        ServiceId((0x0002u64) << 16 | 0x1234).to_string(),
        ServiceId(0x0000_0000_013f_0012).to_string(),
        format!("{:?}", ServiceId(7)),
        format!("{:?}", RejectReason(28)),
        format!("{:?} {:?}", Psn::new(0x12), Qpn::new(0xabcdef)),
        format!("{:?}", Opcode::RC_SEND_ONLY),
        format!("{:?}", Opcode::UD_SEND_ONLY_IMM.headers()),
    ];
    let expected = [
        "0 (path loaded)",
        "1 (invalid communication ID)",
        "3 (rejected)",
        "redirected",
        "class version not supported",
        "tcp/4660",
        "ipoib/4660",
        "ib/18",
        "ServiceId(0x0000000000000007)",
        "RejectReason(28 (rejected by the application))",
        "Psn(0x000012) Qpn(0xabcdef)",
        "RC_SEND_ONLY(0x04)",
        "{Deth, ImmDt}",
    ];
    assert_eq!(texts, expected);
    let statuses = (0..7).map(SidrStatus::from_u8);
    assert!(statuses.clone().map(SidrStatus::as_u8).eq(0..7));
    let texts: Vec<String> = statuses.map(|status| status.to_string()).collect();
    assert_eq!(texts[..4], ["valid", "service ID not supported", "rejected by the service", "no queue pair"]);
    assert_eq!(texts[6], "status 6");
}

#[test]
fn every_opcode_prints_its_extended_headers() {
    for opcode in Opcode::all() {
        let header = PacketHeader::new(opcode, Qpn::new(0x11), Psn::new(5));
        let payload = if opcode.name().contains("ATOMIC_WRITE") { 8 } else { 0 };
        let mut bytes = vec![0; header.packet_len(payload)];
        header.write(&mut bytes, payload);
        let packet = Packet::parse(&bytes).expect("it was just made");
        let line = packet.to_string();
        assert_eq!(format!("{packet:?}"), format!("Packet({line})"));
        assert!(line.starts_with(opcode.name()), "{line}");
        assert!(format!("{header:?}").starts_with("PacketHeader("));
        let shown = line.matches(", ").count();
        let extended = opcode.headers().iter().filter(|header| *header != Header::CnpReserved).count();
        // Each extended header has at least one part, and the length comes last.
        assert!(shown > extended, "{line}");
    }
}

#[test]
fn headers_know_their_lengths() {
    let lengths =
        [Header::Rdeth, Header::Deth, Header::AtomicEth, Header::Reth, Header::Feth].map(Header::byte_len);
    assert_eq!(lengths, [Rdeth::LEN, Deth::LEN, AtomicEth::LEN, Reth::LEN, Feth::LEN]);
}

#[test]
fn a_header_can_be_sent_to_another_qp_with_another_psn() {
    let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(1), Psn::new(2));
    let mut bytes = vec![0; header.packet_len(0)];
    header.write(&mut bytes, 0);
    let mut bth = *Packet::parse(&bytes).expect("a packet").bth();
    bth.set_dest_qpn(Qpn::new(0x123456));
    bth.set_psn(Psn::new(0x654321));
    assert_eq!((bth.dest_qpn(), bth.psn()), (Qpn::new(0x123456), Psn::new(0x654321)));
    assert_eq!(bth.as_bytes().len(), Bth::LEN);
}

#[test]
fn a_frame_is_one_line_even_if_its_packet_is_none() {
    let payload = [0xff; 20];
    let udp = UdpHeader::new(0xc000, payload.len() as u16);
    let ip = Ipv4Header::new([10, 0, 0, 1], [10, 0, 0, 2], udp.datagram_len()).with_checksum();
    let ethernet = EthernetHeader::new([2; 6], [1; 6], EthernetHeader::IPV4);
    let bytes = [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &payload].concat();
    let frame = Frame::parse_ethernet(&bytes).expect("a frame");
    assert!(frame.vlan().is_none());
    let line = frame.to_string();
    assert!(line.starts_with("IP 10.0.0.1.49152 > 10.0.0.2.4791: malformed: "), "{line}");
    assert_eq!(format!("{frame:?}"), format!("Frame({line})"));
}

#[test]
fn a_mad_shows_its_header_and_in_debug_its_body() {
    let mut bytes = [0; Mad::LEN];
    bytes[0] = 1;
    bytes[1] = 7;
    // A status of its own.
    bytes[5] = 4;
    let mad = Mad::parse(&bytes).expect("a MAD");
    assert!(
        mad.to_string().starts_with("MAD class 0x7 ") && mad.to_string().ends_with(" status 0x4"),
        "{mad}"
    );
    assert!(format!("{mad:?}").contains("body [00, "));
}

use std::format;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::{NakCode, PacketHeader, Psn, Qpn, Syndrome};

/// A packet of `opcode` with `payload_len` bytes and zeros for an ICRC.
fn packet(opcode: Opcode, payload_len: usize) -> Vec<u8> {
    let header = PacketHeader::new(opcode, Qpn::new(0x11), Psn::new(0xc11e));
    let mut bytes = vec![0; header.packet_len(payload_len)];
    header.write(&mut bytes, payload_len).fill(0xd0);
    bytes
}

#[test]
fn every_opcode_is_refused_when_cut_below_its_headers_and_icrc() {
    for opcode in Opcode::all() {
        for payload_len in [0, 1, 5, 8] {
            let bytes = packet(opcode, payload_len);
            let pad = usize::from(Packet::parse(&bytes).expect("whole").pad_count());
            for len in 0..=bytes.len() {
                let need = opcode.header_len() + ICRC_LEN;
                match Packet::parse(&bytes[..len]) {
                    Ok(cut) => {
                        assert!(len >= need + pad, "{opcode} of {len} bytes");
                        assert_eq!(cut.payload().len(), len - need - pad);
                    }
                    Err(ParseError::TooShort { len: found, need: wanted }) => {
                        assert_eq!(found, len);
                        assert_eq!(wanted, if len < Bth::LEN { Packet::MIN_LEN } else { need });
                        assert!(len < need);
                    }
                    Err(ParseError::PadExceedsPayload { pad: found, room }) => {
                        assert_eq!((usize::from(found), room), (pad, len - need));
                        assert!(room < pad);
                    }
                    Err(other) => panic!("{opcode} of {len} bytes: {other}"),
                }
            }
        }
    }
}

#[test]
fn bytes_without_meaning_are_no_opcode() {
    for byte in 0..=u8::MAX {
        let mut bytes = [0; 64];
        bytes[0] = byte;
        match Opcode::from_u8(byte) {
            Some(opcode) => assert_eq!(Packet::parse(&bytes).expect("long enough").opcode(), opcode),
            None => assert_eq!(Packet::parse(&bytes).err(), Some(ParseError::UnknownOpcode(byte))),
        }
    }
}

#[test]
fn an_unknown_opcode_is_named_even_where_nothing_follows() {
    let mut bytes = [0; Bth::LEN];
    bytes[0] = 0xff;
    assert_eq!(Packet::parse(&bytes).err(), Some(ParseError::UnknownOpcode(0xff)));
}

#[test]
fn other_transport_versions_are_refused() {
    for version in 1..=15 {
        let mut bytes = packet(Opcode::RC_SEND_ONLY, 4);
        bytes[1] |= version;
        assert_eq!(Packet::parse(&bytes).err(), Some(ParseError::TransportVersion(version)));
    }
}

#[test]
fn each_header_is_there_exactly_where_the_opcode_says() {
    for opcode in Opcode::all() {
        let bytes = packet(opcode, 8);
        let packet = Packet::parse(&bytes).expect("whole");
        assert_eq!(packet.rdeth().is_some(), opcode.has(Header::Rdeth), "{opcode}");
        assert_eq!(packet.deth().is_some(), opcode.has_deth(), "{opcode}");
        assert_eq!(packet.xrceth().is_some(), opcode.has_xrceth(), "{opcode}");
        assert_eq!(packet.feth().is_some(), opcode.has_feth(), "{opcode}");
        assert_eq!(packet.reth().is_some(), opcode.has_reth(), "{opcode}");
        assert_eq!(packet.atomic_eth().is_some(), opcode.has_atomic_eth(), "{opcode}");
        assert_eq!(packet.aeth().is_some(), opcode.has_aeth(), "{opcode}");
        assert_eq!(packet.atomic_ack_eth().is_some(), opcode.has_atomic_ack_eth(), "{opcode}");
        assert_eq!(packet.imm().is_some(), opcode.has_imm(), "{opcode}");
        assert_eq!(packet.ieth().is_some(), opcode.has_ieth(), "{opcode}");
        assert_eq!(packet.is_cnp(), opcode == Opcode::CNP, "{opcode}");
    }
}

#[test]
fn a_write_with_immediate_data_is_taken_apart() {
    let bytes = [
        0x0b, 0x70, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0xc1, 0x1e, // BTH, pad 3
        0, 0, 0x7f, 0, 0, 0, 0x10, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 1, // RETH
        0x1b, 0xad, 0xca, 0xfe, // ImmDt
        0x55, 0, 0, 0, // payload, pad
        0xde, 0xad, 0xbe, 0xef, // ICRC
    ];
    let packet = Packet::parse(&bytes).expect("well formed");
    assert_eq!(packet.opcode(), Opcode::RC_WRITE_ONLY_IMM);
    assert_eq!(packet.reth(), Some(&Reth::new(0x7f00_0000_1000, 0x1234, 1)));
    assert_eq!(packet.imm(), Some([0x1b, 0xad, 0xca, 0xfe]));
    assert_eq!(packet.payload(), [0x55]);
    assert_eq!(packet.pad_count(), 3);
    assert_eq!(packet.icrc(), [0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(
        format!("{packet}"),
        "RC_WRITE_ONLY_IMM qpn 0x000011 psn 49438 ackreq mig, va 0x7f0000001000 rkey 0x1234 dmalen 1, \
         imm 0x1badcafe, length 1 pad 3"
    );
}

#[test]
fn nak_and_notification_print_on_one_line() {
    let header = PacketHeader::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x17), Psn::new(5))
        .mig_req(false)
        .aeth(Syndrome::Nak(NakCode::RemoteAccessError), 3);
    let mut bytes = [0; 20];
    header.write(&mut bytes, 0);
    assert_eq!(
        format!("{}", Packet::parse(&bytes).expect("whole")),
        "RC_ACKNOWLEDGE qpn 0x000017 psn 5, nak remote access error msn 3, length 0"
    );
    let bytes = packet(Opcode::CNP, 0);
    assert_eq!(bytes.len(), 32);
    assert_eq!(format!("{}", Packet::parse(&bytes).expect("whole")), "CNP qpn 0x000011 psn 49438, length 0");
}

use std::vec;

use proptest::prelude::*;

use super::*;
use crate::{FlushSelectivity, NakCode};

fn any_opcode() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(Opcode::all().collect::<std::vec::Vec<_>>())
}

#[test]
fn a_send_of_one_byte_is_these_bytes() {
    let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(0x010203), Psn::new(0x0a0b0c))
        .ack_req(true)
        .solicited(true)
        .mig_req(false);
    let mut buffer = [0xee; 24];
    assert_eq!(header.packet_len(1), 20);
    header.write(&mut buffer, 1).copy_from_slice(&[0x42]);
    assert_eq!(
        buffer,
        [
            0x04, 0xb0, 0xff, 0xff, 0, 1, 2, 3, 0x80, 0x0a, 0x0b, 0x0c, // BTH
            0x42, 0, 0, 0, // payload, pad
            0xee, 0xee, 0xee, 0xee, // the ICRC is left to its own function
            0xee, 0xee, 0xee, 0xee, // beyond the packet
        ]
    );
}

#[test]
fn pad_fills_up_to_four() {
    let header = PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(1), Psn::new(2));
    for (payload, len, pad) in [(0, 16, 0), (1, 20, 3), (2, 20, 2), (3, 20, 1), (4, 20, 0), (5, 24, 3)] {
        let mut buffer = vec![0xff; len];
        assert_eq!(header.packet_len(payload), len);
        assert_eq!(header.write(&mut buffer, payload).len(), payload);
        let packet = Packet::parse(&buffer).expect("just written");
        assert_eq!((packet.payload().len(), packet.pad_count()), (payload, pad));
        assert!(buffer[12 + payload..len - 4].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn headers_that_the_opcode_lacks_are_left_out() {
    let header = PacketHeader::new(Opcode::RC_WRITE_MIDDLE, Qpn::new(1), Psn::new(2));
    assert_eq!(header.reth(1, 2, 3).imm([1; 4]).aeth(Syndrome::ACK, 1), header);
    assert_eq!(header.header_len(), 12);
}

#[test]
fn a_notification_is_32_bytes_with_everything_clear() {
    let header = PacketHeader::new(Opcode::CNP, Qpn::new(0xd2), Psn::new(0)).becn(true);
    let mut buffer = [0xff; 32];
    header.write(&mut buffer, 0);
    let mut expected = [0; 32];
    expected[..8].copy_from_slice(&[0x81, 0, 0xff, 0xff, 0x40, 0, 0, 0xd2]);
    expected[28..].fill(0xff);
    assert_eq!(buffer, expected);
}

#[test]
#[should_panic(expected = "range end index")]
fn a_buffer_that_is_too_short_is_the_callers_mistake() {
    PacketHeader::new(Opcode::RC_SEND_ONLY, Qpn::new(1), Psn::new(2)).write(&mut [0; 19], 1);
}

proptest! {
    /// Values to bytes to values.
    #[test]
    fn what_is_set_is_what_is_parsed(
        opcode in any_opcode(),
        (qpn, psn, pkey) in (0u32..1 << 24, 0u32..1 << 24, any::<u16>()),
        flags: [bool; 5],
        (a, b, c, d) in (any::<u64>(), any::<u32>(), any::<u32>(), any::<u64>()),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let (low, syndrome) = (b & 0xff_ffff, Syndrome::from_u8(c as u8));
        let feth = Feth::new(FlushSelectivity::MemoryRegion, flags[0], flags[1]);
        let header = PacketHeader::new(opcode, Qpn::new(qpn), Psn::new(psn))
            .pkey(pkey).solicited(flags[0]).mig_req(flags[1]).ack_req(flags[2]).fecn(flags[3]).becn(flags[4])
            .rdeth(low).deth(c, Qpn::new(low)).xrceth(low).feth(feth).reth(a, b, c).atomic_eth(a, b, d, a ^ d)
            .aeth(syndrome, low).atomic_ack_eth(d).imm(c.to_be_bytes()).ieth(b);
        let mut bytes = vec![0x77; header.packet_len(payload.len())];
        header.write(&mut bytes, payload.len()).copy_from_slice(&payload);

        let packet = Packet::parse(&bytes).expect("just written");
        let bth = packet.bth();
        prop_assert_eq!((packet.opcode(), bth.dest_qpn(), bth.psn()), (opcode, Qpn::new(qpn), Psn::new(psn)));
        prop_assert_eq!(bth.pkey(), pkey);
        prop_assert_eq!([bth.solicited(), bth.mig_req(), bth.ack_req(), bth.fecn(), bth.becn()], flags);
        prop_assert_eq!(packet.rdeth().is_none_or(|h| *h == Rdeth::new(low)), true);
        prop_assert_eq!(packet.deth().is_none_or(|h| *h == Deth::new(c, Qpn::new(low))), true);
        prop_assert_eq!(packet.xrceth().is_none_or(|h| *h == Xrceth::new(low)), true);
        prop_assert_eq!(packet.feth().is_none_or(|h| *h == feth), true);
        prop_assert_eq!(packet.reth().is_none_or(|h| *h == Reth::new(a, b, c)), true);
        prop_assert_eq!(packet.atomic_eth().is_none_or(|h| *h == AtomicEth::new(a, b, d, a ^ d)), true);
        prop_assert_eq!(packet.aeth().is_none_or(|h| *h == Aeth::new(syndrome, low)), true);
        prop_assert_eq!(packet.atomic_ack_eth().is_none_or(|h| *h == AtomicAckEth::new(d)), true);
        prop_assert_eq!(packet.imm().is_none_or(|imm| imm == c.to_be_bytes()), true);
        prop_assert_eq!(packet.ieth().is_none_or(|h| *h == Ieth::new(b)), true);
        prop_assert_eq!(packet.payload(), payload);
    }

    /// Bytes to values to bytes, reserved bits and all.
    #[test]
    fn what_parses_is_written_again_byte_for_byte(
        opcode in any_opcode(),
        mut bytes in proptest::collection::vec(any::<u8>(), 56..100),
    ) {
        bytes[0] = opcode.as_u8();
        bytes[1] &= 0xf0;
        let Ok(packet) = Packet::parse(&bytes) else { return Ok(()) };
        let payload_len = packet.payload().len();
        let header = PacketHeader::from(&packet);
        // A pad that does not fit its length cannot be written: the writer computes it.
        prop_assume!(header.packet_len(payload_len) == bytes.len());
        let mut again = bytes.clone();
        let pad_and_icrc = opcode.header_len() + payload_len..;
        header.write(&mut again, payload_len);
        prop_assert_eq!(&again[..pad_and_icrc.start], &bytes[..pad_and_icrc.start]);
        prop_assert!(again[pad_and_icrc.start..bytes.len() - ICRC_LEN].iter().all(|pad| *pad == 0));
        prop_assert_eq!(&again[bytes.len() - ICRC_LEN..], packet.icrc());
    }

    /// No bytes make the parser panic, and none print on more than one line.
    #[test]
    fn any_bytes_parse_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(packet) = Packet::parse(&bytes) {
            let line = std::format!("{packet} {packet:?}");
            prop_assert!(!line.contains('\n'));
        }
    }
}

#[test]
fn a_nak_is_these_bytes() {
    let header = PacketHeader::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x12), Psn::new(0x345678))
        .aeth(Syndrome::Nak(NakCode::PsnSequenceError), 0x9abcde);
    let mut buffer = [0; 20];
    header.write(&mut buffer, 0);
    assert_eq!(
        buffer[..16],
        [0x11, 0x40, 0xff, 0xff, 0, 0, 0, 0x12, 0, 0x34, 0x56, 0x78, 0x60, 0x9a, 0xbc, 0xde]
    );
}

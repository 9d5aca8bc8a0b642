use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SRC: [u8; 4] = [192, 168, 0, 2];
const DST: [u8; 4] = [192, 168, 0, 3];

fn v4(id: u16) -> IpContext {
    IpContext::V4 { src: SRC, dst: DST, id, source_port: 0xc123 }
}

fn v6() -> IpContext {
    let mut src = [0; 16];
    src[..2].copy_from_slice(&[0xfd, 0x77]);
    src[15] = 2;
    let mut dst = src;
    dst[15] = 3;
    IpContext::V6 { src, dst, source_port: 0xc123 }
}

/// A packet of `len` bytes that holds its right ICRC.
fn sealed(ip: &IpContext, len: usize) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|i| (i * 31 + 7) as u8).collect();
    seal(ip, &mut packet);
    packet
}

/// The rule spelled out, one byte after another, with another library's CRC.
fn oracle(ip: &IpContext, covered: &[u8]) -> [u8; 4] {
    let udp_len = (8 + covered.len() + 4) as u16;
    let mut bytes = vec![0xff; 8];
    let port = match ip {
        IpContext::V4 { src, dst, id, source_port } => {
            bytes.extend([0x45, 0xff]);
            bytes.extend((udp_len + 20).to_be_bytes());
            bytes.extend(id.to_be_bytes());
            bytes.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
            bytes.extend(src);
            bytes.extend(dst);
            source_port
        }
        IpContext::V6 { src, dst, source_port } => {
            bytes.extend([0x6f, 0xff, 0xff, 0xff]);
            bytes.extend(udp_len.to_be_bytes());
            bytes.extend([17, 0xff]);
            bytes.extend(src);
            bytes.extend(dst);
            source_port
        }
    };
    bytes.extend(port.to_be_bytes());
    bytes.extend(4791u16.to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0xff, 0xff]);
    let bth = bytes.len();
    bytes.extend(covered);
    if let Some(byte) = bytes.get_mut(bth + 4) {
        *byte = 0xff;
    }
    crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&bytes).to_le_bytes()
}

#[test]
fn agrees_with_another_crc_at_every_length() {
    for len in (0..300).chain([1024, 4096 + 44]) {
        for ip in [v4(0), v4(0xbeef), v6()] {
            let packet: Vec<u8> = (0..len).map(|i| (i * 13 + 5) as u8).collect();
            assert_eq!(compute(&ip, &packet), oracle(&ip, &packet), "{len} bytes, {ip:?}");
        }
    }
}

#[test]
fn the_absent_local_route_header_is_eight_bytes_of_ones() {
    assert_eq!(crc32fast::hash(&[0xff; 8]), CRC_OF_MASKED_LRH);
}

#[test]
fn congestion_bits_may_change_on_the_way_and_nothing_else() {
    for ip in [v4(7), v6()] {
        let packet = sealed(&ip, 60);
        for bit in 0..8 * packet.len() {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&ip, &changed).is_ok(), bit / 8 == MASKED_BTH_BYTE, "bit {bit}");
        }
    }
}

#[test]
fn addresses_ports_and_identification_are_covered() {
    let packet = sealed(&v4(7), 60);
    let wrong = [
        v4(8),
        IpContext::V4 { src: DST, dst: DST, id: 7, source_port: 0xc123 },
        IpContext::V4 { src: SRC, dst: SRC, id: 7, source_port: 0xc123 },
        IpContext::V4 { src: SRC, dst: DST, id: 7, source_port: 0xc122 },
        v6(),
    ];
    assert_eq!(verify(&v4(7), &packet), Ok(()));
    for ip in wrong {
        assert!(matches!(verify(&ip, &packet), Err(IcrcError::Mismatch { .. })), "{ip:?}");
    }
}

#[test]
fn fewer_than_four_bytes_are_no_packet() {
    for len in 0..4 {
        assert_eq!(verify(&v6(), &[0; 4][..len]), Err(IcrcError::TooShort { len }));
        assert_eq!(hidden(0, &[0; 4][..len]), Err(IcrcError::TooShort { len }));
    }
}

fn hidden(guess: u16, packet: &[u8]) -> Result<u16, IcrcError> {
    verify_hidden_id(SRC, DST, 0xc123, guess, packet)
}

#[test]
fn a_hidden_identification_is_found_whatever_the_guess() {
    for len in [16, 20, 21, 64, 1028, 1052, 4136, 65_507] {
        for id in [0, 1, 0x80, 0x100, 0x1234, 0xffff] {
            let packet = sealed(&v4(id), len);
            for guess in [0, 1, id, id.wrapping_sub(1), 0xa5a5] {
                assert_eq!(hidden(guess, &packet), Ok(id), "{len} bytes, guess {guess}");
            }
        }
    }
}

#[test]
fn a_sender_without_dont_fragment_is_accepted() {
    let mut packet = sealed(&v4(0x4321), 60);
    let end = packet.len() - ICRC_LEN;
    let with_df = u32::from_le_bytes(oracle(&v4(0x4321), &packet[..end]));
    // The flags byte lies 14 + 8 bytes before the packet: the difference it makes is the difference of the CRCs of
    // two strings that differ there only.
    let mut difference = vec![0; end + 14 + 8];
    let zeros = crc32fast::hash(&difference);
    difference[0] = 0x40;
    let without_df = with_df ^ zeros ^ crc32fast::hash(&difference);
    packet[end..].copy_from_slice(&without_df.to_le_bytes());
    assert_eq!(hidden(0, &packet), Ok(0x4321));
}

/// What a fault in the packet looks like to someone who solves for the identification: the difference it makes, taken
/// back to where the identification lies. A fault that stays hidden has only ID bits (and perhaps DF) set there.
fn is_hidden_by_nature(fault: u32, len: usize) -> bool {
    let before_id = register::retreat(fault, 24 + len - ICRC_LEN);
    matches!(before_id >> 16, 0 | 0x40)
}

/// The only single bits of a packet of up to 26 kB whose change equals another identification: both together with a
/// cleared don't-fragment. (Byte of the packet, bit of the byte.)
const HIDDEN_SINGLE_BITS: [(usize, usize); 2] = [(173, 3), (1834, 6)];

#[test]
fn every_single_bit_fault_is_found_but_for_two_that_equal_another_identification() {
    for len in [16, 20, 28, 40, 64, 288, 1040, 1052, 4112, 4140, 9000] {
        let packet = sealed(&v4(0x1234), len);
        for (byte, bit) in
            (0..8 * len).map(|bit| (bit / 8, bit % 8)).filter(|(byte, _)| *byte != MASKED_BTH_BYTE)
        {
            let mut corrupt = packet.clone();
            corrupt[byte] ^= 1 << bit;
            let hides = byte < len - ICRC_LEN && HIDDEN_SINGLE_BITS.contains(&(byte, bit));
            assert_eq!(hidden(0x1234, &corrupt).is_ok(), hides, "bit {bit} of byte {byte} of {len}");
        }
    }
}

#[test]
fn every_two_bit_fault_is_found_unless_it_equals_another_identification() {
    let packet = sealed(&v4(0x1234), 28);
    let good = oracle(&v4(0x1234), &packet[..24]);
    let bits: Vec<usize> = (0..8 * packet.len()).filter(|bit| bit / 8 != MASKED_BTH_BYTE).collect();
    let mut by_nature = 0;
    for (i, first) in bits.iter().enumerate() {
        for second in &bits[..i] {
            let mut corrupt = packet.clone();
            corrupt[first / 8] ^= 1 << (first % 8);
            corrupt[second / 8] ^= 1 << (second % 8);
            let (covered, icrc) = corrupt.split_last_chunk::<4>().expect("28 bytes");
            let fault = u32::from_le_bytes(oracle(&v4(0x1234), covered)) ^ u32::from_le_bytes(*icrc);
            assert_ne!(fault, 0, "bits {first} and {second} of a packet with ICRC {good:02x?}");
            let by_its_nature = is_hidden_by_nature(fault, packet.len());
            by_nature += u32::from(by_its_nature);
            assert_eq!(hidden(0x1234, &corrupt).is_ok(), by_its_nature, "bits {first} and {second}");
        }
    }
    assert!(by_nature <= 4, "{by_nature} of {} pairs are hidden", bits.len() * (bits.len() - 1) / 2);
}

proptest! {
    #[test]
    fn whatever_is_sealed_verifies(
        mut packet in proptest::collection::vec(any::<u8>(), 16..2000),
        src: [u8; 4],
        dst: [u8; 4],
        id: u16,
        guess: u16,
        source_port: u16,
    ) {
        let ip = IpContext::V4 { src, dst, id, source_port };
        seal(&ip, &mut packet);
        prop_assert_eq!(verify(&ip, &packet), Ok(()));
        prop_assert_eq!(verify_hidden_id(src, dst, source_port, guess, &packet), Ok(id));
    }
}

//! A reader of classic pcap files: enough for our own captures.

/// The frames of `file`, in order.
///
/// # Panics
/// If it is no whole classic pcap of Ethernet frames.
pub fn frames(file: &[u8]) -> Vec<&[u8]> {
    let (header, mut rest) = file.split_at_checked(FILE_HEADER_LEN).expect("a pcap file header");
    let word: fn(&[u8]) -> u32 = match header[..4].try_into().expect("four bytes") {
        MICROSECONDS_LITTLE | NANOSECONDS_LITTLE => |bytes| u32::from_le_bytes(four(bytes)),
        MICROSECONDS_BIG | NANOSECONDS_BIG => |bytes| u32::from_be_bytes(four(bytes)),
        magic => panic!("{magic:02x?} is no classic pcap"),
    };
    assert_eq!(word(&header[20..]), LINK_TYPE_ETHERNET, "link type");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (record, behind) = rest.split_at_checked(RECORD_HEADER_LEN).expect("a whole record header");
        let (captured, original) = (word(&record[8..]), word(&record[12..]));
        assert_eq!(captured, original, "frame {} was cut when it was captured", frames.len());
        let (frame, behind) = behind.split_at_checked(captured as usize).expect("a whole frame");
        frames.push(frame);
        rest = behind;
    }
    frames
}

fn four(bytes: &[u8]) -> [u8; 4] {
    *bytes.first_chunk().expect("four bytes")
}

const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;
const LINK_TYPE_ETHERNET: u32 = 1;
const MICROSECONDS_LITTLE: [u8; 4] = [0xd4, 0xc3, 0xb2, 0xa1];
const MICROSECONDS_BIG: [u8; 4] = [0xa1, 0xb2, 0xc3, 0xd4];
const NANOSECONDS_LITTLE: [u8; 4] = [0x4d, 0x3c, 0xb2, 0xa1];
const NANOSECONDS_BIG: [u8; 4] = [0xa1, 0xb2, 0x3c, 0x4d];

//! The pcapng file format, as far as a simulation needs it: one section, an interface for each link, and packets
//! with nanosecond timestamps and a comment.

use ferroce_core::Nanos;

/// A file being written, in memory.
#[derive(Debug)]
pub(crate) struct PcapNg {
    bytes: Vec<u8>,
    interfaces: u32,
}

impl PcapNg {
    /// A file with a section and nothing in it.
    pub(crate) fn new() -> PcapNg {
        let mut file = PcapNg { bytes: Vec::new(), interfaces: 0 };
        let mut body = Vec::new();
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        // The section's length is not given.
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, SHB_USERAPPL, b"ferroce emulator");
        end_of_options(&mut body);
        file.block(SECTION_HEADER, &body);
        file
    }

    /// Describes an Ethernet interface; its number.
    pub(crate) fn interface(&mut self, name: &str, rate_bps: u64) -> u32 {
        let mut body = Vec::new();
        body.extend(LINKTYPE_ETHERNET.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        // No limit to the length of packets.
        body.extend(0u32.to_le_bytes());
        option(&mut body, IF_NAME, name.as_bytes());
        option(&mut body, IF_SPEED, &rate_bps.to_le_bytes());
        option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
        end_of_options(&mut body);
        self.block(INTERFACE_DESCRIPTION, &body);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Adds a packet.
    pub(crate) fn packet(&mut self, interface: u32, at: Nanos, bytes: &[u8], comment: &str) {
        let len = bytes.len() as u32;
        let mut body = Vec::with_capacity(64 + bytes.len() + comment.len());
        for word in [interface, (at >> 32) as u32, at as u32, len, len] {
            body.extend(word.to_le_bytes());
        }
        body.extend(bytes);
        pad(&mut body);
        option(&mut body, COMMENT, comment.as_bytes());
        end_of_options(&mut body);
        self.block(ENHANCED_PACKET, &body);
    }

    /// What was written since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let len = (body.len() + BLOCK_OVERHEAD) as u32;
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(len.to_le_bytes());
        self.bytes.extend(body);
        self.bytes.extend(len.to_le_bytes());
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // A value's length has 16 bits; comments are far shorter.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// Everything in a block begins at a multiple of four.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
/// Timestamps count 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Type and length before, length behind.
const BLOCK_OVERHEAD: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_bytes() {
        let mut file = PcapNg::new();
        assert_eq!(file.interface("a-b", 1_000_000_000), 0);
        file.packet(0, 0x1_0000_0002, &[0xaa; 5], "hi");
        let bytes = file.take();
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let text = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let section = [SECTION_HEADER, 52, BYTE_ORDER_MAGIC, 1, u32::MAX, u32::MAX, 16 << 16 | 4];
        assert_eq!(words[..7], section);
        assert_eq!(&bytes[28..44], b"ferroce emulator");
        assert_eq!(words[11..13], [0, 52]);
        let interface =
            [1, 52, 1, 0, 3 << 16 | 2, text(72), 8 << 16 | 8, 1_000_000_000, 0, 1 << 16 | 9, 9, 0, 52];
        assert_eq!(words[13..26], interface);
        assert_eq!(&bytes[72..76], b"a-b\0");
        let hi = u32::from(b'h') | u32::from(b'i') << 8;
        let packet = [6, 52, 0, 1, 2, 5, 5, 0xaaaa_aaaa, 0xaa, 2 << 16 | 1, hi, 0, 52];
        assert_eq!(words[26..], packet);
        assert_eq!(file.take(), []);
    }
}

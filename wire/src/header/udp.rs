//! The UDP header.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ROCE_UDP_PORT;

/// UDP header, 8 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    source_port: U16,
    destination_port: U16,
    len: U16,
    checksum: U16,
}

impl UdpHeader {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// A header to the RoCE port, without a checksum, as rxe and hardware send it. `payload_len` counts from the BTH to
    /// the ICRC and must fit a datagram.
    pub const fn new(source_port: u16, payload_len: u16) -> Self {
        UdpHeader {
            source_port: U16::new(source_port),
            destination_port: U16::new(ROCE_UDP_PORT),
            len: U16::new(payload_len.wrapping_add(Self::LEN as u16)),
            checksum: U16::new(0),
        }
    }

    /// Sets the destination port.
    #[must_use]
    pub const fn with_destination_port(mut self, port: u16) -> Self {
        self.destination_port = U16::new(port);
        self
    }

    /// Sets the checksum.
    #[must_use]
    pub const fn with_checksum(mut self, checksum: u16) -> Self {
        self.checksum = U16::new(checksum);
        self
    }

    /// Source port; any value is right.
    pub const fn source_port(&self) -> u16 {
        self.source_port.get()
    }

    /// Destination port.
    pub const fn destination_port(&self) -> u16 {
        self.destination_port.get()
    }

    /// Length of header and payload in bytes, as sent.
    pub const fn datagram_len(&self) -> u16 {
        self.len.get()
    }

    /// Length of the payload in bytes, `None` if the header says less than its own length.
    pub const fn payload_len(&self) -> Option<u16> {
        self.len.get().checked_sub(Self::LEN as u16)
    }

    /// Checksum; 0 is none.
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// As the ICRC sees it: the checksum is ones (CA17-22), so any checksum is right.
    pub(crate) const fn masked(mut self) -> Self {
        self.checksum = U16::new(0xffff);
        self
    }
}

impl fmt::Display for UdpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} > {}, length {}", self.source_port(), self.destination_port(), self.datagram_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_eight_known_bytes() {
        assert_header(UdpHeader::new(0xc123, 20), &[0xc1, 0x23, 0x12, 0xb7, 0, 28, 0, 0]);
    }

    #[test]
    fn a_length_below_the_header_is_no_length() {
        for len in 0..8u8 {
            let header = UdpHeader::read_from_bytes(&[0, 0, 0, 0, 0, len, 0, 0]).expect("8 bytes");
            assert_eq!(header.payload_len(), None);
        }
        assert_eq!(UdpHeader::new(1, 0).payload_len(), Some(0));
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<UdpHeader>(&[0xff; 8], |udp| {
            UdpHeader::new(udp.source_port(), udp.datagram_len().wrapping_sub(8))
                .with_destination_port(udp.destination_port())
                .with_checksum(udp.checksum())
        });
    }
}

//! The IPv6 header. RoCEv2 has UDP directly behind it.

use core::fmt;
use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PROTOCOL_UDP;

/// IPv6 header, 40 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    version_class_label: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

impl Ipv6Header {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();
    /// Hop limit of a header that was not told another one.
    pub const DEFAULT_HOP_LIMIT: u8 = 64;

    const VERSION_6: u32 = 6;
    const VERSION_SHIFT: u32 = 28;
    const CLASS_SHIFT: u32 = 20;
    const LABEL_MASK: u32 = 0x000f_ffff;

    /// A header in front of a UDP datagram of `udp_len` bytes (header included).
    pub const fn new(source: [u8; 16], destination: [u8; 16], udp_len: u16) -> Self {
        Ipv6Header {
            version_class_label: U32::new(Self::VERSION_6 << Self::VERSION_SHIFT),
            payload_len: U16::new(udp_len),
            next_header: PROTOCOL_UDP,
            hop_limit: Self::DEFAULT_HOP_LIMIT,
            source,
            destination,
        }
    }

    /// Sets the traffic class: DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub const fn with_traffic_class(mut self, class: u8) -> Self {
        let others = self.version_class_label.get() & !(0xff << Self::CLASS_SHIFT);
        self.version_class_label = U32::new(others | (class as u32) << Self::CLASS_SHIFT);
        self
    }

    /// Sets the flow label, of which the low 20 bits count.
    #[must_use]
    pub const fn with_flow_label(mut self, label: u32) -> Self {
        let others = self.version_class_label.get() & !Self::LABEL_MASK;
        self.version_class_label = U32::new(others | label & Self::LABEL_MASK);
        self
    }

    /// Sets the hop limit.
    #[must_use]
    pub const fn with_hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = hop_limit;
        self
    }

    /// Version, 6.
    pub const fn version(&self) -> u8 {
        (self.version_class_label.get() >> Self::VERSION_SHIFT) as u8
    }

    /// Traffic class.
    pub const fn traffic_class(&self) -> u8 {
        (self.version_class_label.get() >> Self::CLASS_SHIFT) as u8
    }

    /// Flow label, 20 bits.
    pub const fn flow_label(&self) -> u32 {
        self.version_class_label.get() & Self::LABEL_MASK
    }

    /// Length of what follows, in bytes.
    pub const fn payload_len(&self) -> u16 {
        self.payload_len.get()
    }

    /// What follows.
    pub const fn next_header(&self) -> u8 {
        self.next_header
    }

    /// Hop limit.
    pub const fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Source address.
    pub const fn source(&self) -> [u8; 16] {
        self.source
    }

    /// Destination address.
    pub const fn destination(&self) -> [u8; 16] {
        self.destination
    }

    /// As the ICRC sees it: traffic class, flow label and hop limit are ones, the version is not (CA17-22).
    pub(crate) const fn masked(mut self) -> Self {
        let version = self.version_class_label.get() >> Self::VERSION_SHIFT << Self::VERSION_SHIFT;
        self.version_class_label = U32::new(version | !(u32::MAX << Self::VERSION_SHIFT));
        self.hop_limit = 0xff;
        self
    }
}

impl fmt::Display for Ipv6Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP6 {} > {}, class {:#x}, flowlabel {:#x}, hlim {}",
            Ipv6Addr::from(self.source),
            Ipv6Addr::from(self.destination),
            self.traffic_class(),
            self.flow_label(),
            self.hop_limit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_forty_known_bytes() {
        let (mut from, mut to) = ([0; 16], [0; 16]);
        (from[0], from[15], to[0], to[15]) = (0xfd, 2, 0xfe, 3);
        let header = Ipv6Header::new(from, to, 0x0120)
            .with_traffic_class(0x6a)
            .with_flow_label(0xf1_2345)
            .with_hop_limit(7);
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&[0x66, 0xa1, 0x23, 0x45, 0x01, 0x20, 17, 7]);
        (bytes[8], bytes[23], bytes[24], bytes[39]) = (0xfd, 2, 0xfe, 3);
        assert_header(header, &bytes);
    }

    #[test]
    fn round_trips_all_but_version_and_next_header() {
        let mut mask = [0xff; 40];
        (mask[0], mask[6]) = (0x0f, 0);
        assert_round_trip::<Ipv6Header>(&mask, |header| {
            let mut copy = Ipv6Header::new(header.source(), header.destination(), header.payload_len())
                .with_traffic_class(header.traffic_class())
                .with_flow_label(header.flow_label())
                .with_hop_limit(header.hop_limit());
            assert_eq!((copy.version(), copy.next_header()), (6, 17));
            copy.version_class_label = U32::new(copy.version_class_label.get() & 0x0fff_ffff);
            copy.next_header = 0;
            copy
        });
    }
}

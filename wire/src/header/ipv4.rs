//! The IPv4 header. RoCEv2 knows it without options only (CA17-3).

use core::fmt;
use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PROTOCOL_UDP;

/// IPv4 header without options, 20 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    version_and_len: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

impl Ipv4Header {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();
    /// Time to live of a header that was not told another one.
    pub const DEFAULT_TTL: u8 = 64;

    const VERSION_4_WITHOUT_OPTIONS: u8 = 0x45;
    const DONT_FRAGMENT: u16 = 0x4000;
    const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;

    /// A header in front of a UDP datagram of `udp_len` bytes (header included): don't-fragment set, identification 0,
    /// checksum 0. See [`Ipv4Header::with_checksum`].
    pub const fn new(source: [u8; 4], destination: [u8; 4], udp_len: u16) -> Self {
        Ipv4Header {
            version_and_len: Self::VERSION_4_WITHOUT_OPTIONS,
            tos: 0,
            total_len: U16::new(udp_len.wrapping_add(Self::LEN as u16)),
            id: U16::new(0),
            fragment: U16::new(Self::DONT_FRAGMENT),
            ttl: Self::DEFAULT_TTL,
            protocol: PROTOCOL_UDP,
            checksum: U16::new(0),
            source,
            destination,
        }
    }

    /// Sets the type of service: DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub const fn with_tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Sets the identification. The ICRC covers it.
    #[must_use]
    pub const fn with_id(mut self, id: u16) -> Self {
        self.id = U16::new(id);
        self
    }

    /// Sets don't-fragment, the other flag and the fragment offset being clear.
    #[must_use]
    pub const fn with_dont_fragment(mut self, on: bool) -> Self {
        self.fragment = U16::new(if on { Self::DONT_FRAGMENT } else { 0 });
        self
    }

    /// Sets the time to live.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Computes and sets the header checksum: the last step, after all other fields.
    #[must_use]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = U16::new(0);
        self.checksum = U16::new(!self.sum());
        self
    }

    /// Version, 4 if this is IPv4 at all.
    pub const fn version(&self) -> u8 {
        self.version_and_len >> 4
    }

    /// Length of the header as sent, in bytes: more than [`Ipv4Header::LEN`] with options.
    pub const fn header_len(&self) -> usize {
        (self.version_and_len & 0x0f) as usize * 4
    }

    /// Type of service.
    pub const fn tos(&self) -> u8 {
        self.tos
    }

    /// Length from this header to the ICRC, in bytes.
    pub const fn total_len(&self) -> u16 {
        self.total_len.get()
    }

    /// Identification.
    pub const fn id(&self) -> u16 {
        self.id.get()
    }

    /// Don't-fragment.
    pub const fn dont_fragment(&self) -> bool {
        self.fragment.get() & Self::DONT_FRAGMENT != 0
    }

    /// Whether it is a piece of a larger datagram, which RoCEv2 does not have (CA17-8).
    pub const fn is_fragment(&self) -> bool {
        self.fragment.get() & Self::MORE_FRAGMENTS_AND_OFFSET != 0
    }

    /// Time to live.
    pub const fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Protocol of what follows.
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether the header checksum is right.
    pub fn is_checksum_right(&self) -> bool {
        self.sum() == u16::MAX
    }

    /// Source address.
    pub const fn source(&self) -> [u8; 4] {
        self.source
    }

    /// Destination address.
    pub const fn destination(&self) -> [u8; 4] {
        self.destination
    }

    /// As the ICRC sees it: type of service, time to live and checksum are ones (CA17-22).
    pub(crate) const fn masked(mut self) -> Self {
        self.tos = 0xff;
        self.ttl = 0xff;
        self.checksum = U16::new(0xffff);
        self
    }

    /// The ones' complement sum of all 16-bit words.
    fn sum(&self) -> u16 {
        let words =
            self.as_bytes().chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        // Ten words make at most four bits of carry, and adding those makes at most one more.
        let folded = (sum & 0xffff) + (sum >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
    }
}

impl fmt::Display for Ipv4Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP {} > {}, tos {:#x}, ttl {}, id {}",
            Ipv4Addr::from(self.source),
            Ipv4Addr::from(self.destination),
            self.tos,
            self.ttl,
            self.id()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_twenty_known_bytes() {
        let header = Ipv4Header::new([10, 77, 0, 2], [10, 77, 0, 3], 40)
            .with_tos(0x6a)
            .with_id(0x1234)
            .with_ttl(63)
            .with_checksum();
        assert_header(
            header,
            &[0x45, 0x6a, 0, 60, 0x12, 0x34, 0x40, 0, 63, 17, 0x14, 0x75, 10, 77, 0, 2, 10, 77, 0, 3],
        );
        assert!(header.is_checksum_right());
        assert!(!header.with_ttl(62).is_checksum_right());
    }

    #[test]
    fn options_and_fragments_are_seen() {
        let plain = Ipv4Header::new([0; 4], [0; 4], 8);
        assert_eq!((plain.version(), plain.header_len(), plain.is_fragment()), (4, 20, false));
        for (byte, value) in [(6, 0x20), (6, 0x01), (7, 0x01)] {
            let mut bytes = [0; 20];
            bytes.copy_from_slice(plain.as_bytes());
            bytes[byte] |= value;
            assert!(Ipv4Header::read_from_bytes(&bytes).expect("20 bytes").is_fragment());
        }
        assert!(plain.dont_fragment() && !plain.with_dont_fragment(false).dont_fragment());
        let with_options = Ipv4Header { version_and_len: 0x46, ..plain };
        assert_eq!(with_options.header_len(), 24);
    }

    #[test]
    fn round_trips_what_roce_may_vary() {
        let mut mask = [0xff; 20];
        mask[0] = 0; // version and length
        mask[6] = 0x40; // don't-fragment
        mask[7] = 0;
        mask[9] = 0; // protocol
        mask[10] = 0; // checksum
        mask[11] = 0;
        assert_round_trip::<Ipv4Header>(&mask, |ip| {
            let mut copy = Ipv4Header::new(
                ip.source(),
                ip.destination(),
                ip.total_len().wrapping_sub(Ipv4Header::LEN as u16),
            )
            .with_tos(ip.tos())
            .with_id(ip.id())
            .with_dont_fragment(ip.dont_fragment())
            .with_ttl(ip.ttl());
            assert_eq!((copy.version_and_len, copy.protocol), (0x45, 17));
            (copy.version_and_len, copy.protocol) = (0, 0);
            copy
        });
    }
}

//! Which extended headers a packet carries. Their order on the wire is fixed, so a set says everything.

use core::fmt;

use crate::{Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, Rdeth, Reth, Xrceth};

/// One kind of extended header, in the order in which they follow the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Header {
    /// Reliable datagram.
    Rdeth,
    /// Datagram.
    Deth,
    /// Extended reliable connection.
    Xrceth,
    /// Flush.
    Feth,
    /// RDMA.
    Reth,
    /// Atomic.
    AtomicEth,
    /// Acknowledge.
    Aeth,
    /// Atomic acknowledge.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// Invalidate.
    Ieth,
    /// The 16 reserved bytes of a congestion notification packet (Annex A17, CA17-44).
    CnpReserved,
}

impl Header {
    /// All of them, in the order on the wire.
    pub const ALL: [Header; 11] = [
        Header::Rdeth,
        Header::Deth,
        Header::Xrceth,
        Header::Feth,
        Header::Reth,
        Header::AtomicEth,
        Header::Aeth,
        Header::AtomicAckEth,
        Header::ImmDt,
        Header::Ieth,
        Header::CnpReserved,
    ];

    /// Length in bytes.
    pub const fn byte_len(self) -> usize {
        match self {
            Header::Rdeth => Rdeth::LEN,
            Header::Deth => Deth::LEN,
            Header::Xrceth => Xrceth::LEN,
            Header::Feth => Feth::LEN,
            Header::Reth => Reth::LEN,
            Header::AtomicEth => AtomicEth::LEN,
            Header::Aeth => Aeth::LEN,
            Header::AtomicAckEth => AtomicAckEth::LEN,
            Header::ImmDt => ImmDt::LEN,
            Header::Ieth => Ieth::LEN,
            Header::CnpReserved => CNP_RESERVED_LEN,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

const CNP_RESERVED_LEN: usize = 16;

/// A set of extended headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Headers(u16);

impl Headers {
    /// No extended header.
    pub const EMPTY: Headers = Headers(0);

    /// The set with these members.
    pub const fn of(headers: &[Header]) -> Headers {
        let mut set = Headers::EMPTY;
        let mut i = 0;
        while i < headers.len() {
            set = set.with(headers[i]);
            i += 1;
        }
        set
    }

    /// The set with one member more.
    #[must_use]
    pub const fn with(self, header: Header) -> Headers {
        Headers(self.0 | header.bit())
    }

    /// Whether `header` is a member.
    pub const fn contains(self, header: Header) -> bool {
        self.0 & header.bit() != 0
    }

    /// Length of all members in bytes.
    pub const fn byte_len(self) -> usize {
        let mut bits = self.0;
        let mut len = 0;
        while bits != 0 {
            len += Header::ALL[bits.trailing_zeros() as usize].byte_len();
            bits &= bits - 1;
        }
        len
    }

    /// Where `header` begins, counted from the end of the BTH, if it is a member.
    pub const fn offset_of(self, header: Header) -> Option<usize> {
        if !self.contains(header) {
            return None;
        }
        Some(Headers(self.0 & (header.bit() - 1)).byte_len())
    }

    /// The members in the order on the wire.
    pub fn iter(self) -> impl Iterator<Item = Header> {
        Header::ALL.into_iter().filter(move |header| self.contains(*header))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_headers_is_order_of_bits() {
        for (index, header) in Header::ALL.into_iter().enumerate() {
            assert_eq!(header as usize, index);
        }
    }

    #[test]
    fn offsets_add_up() {
        let headers = Headers::of(&[Header::ImmDt, Header::Reth, Header::Xrceth]);
        assert_eq!(headers.offset_of(Header::Xrceth), Some(0));
        assert_eq!(headers.offset_of(Header::Reth), Some(4));
        assert_eq!(headers.offset_of(Header::ImmDt), Some(20));
        assert_eq!(headers.offset_of(Header::Aeth), None);
        assert_eq!(headers.byte_len(), 24);
        assert!(headers.iter().eq([Header::Xrceth, Header::Reth, Header::ImmDt]));
    }
}

//! The atomic acknowledge extended transport header: what the memory held before.

use core::fmt;

use zerocopy::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Atomic acknowledge extended transport header, 8 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AtomicAckEth {
    original: U64,
}

impl AtomicAckEth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The answer that the memory held `original`.
    pub const fn new(original: u64) -> Self {
        AtomicAckEth { original: U64::new(original) }
    }

    /// The value before the operation.
    pub const fn original(&self) -> u64 {
        self.original.get()
    }
}

impl fmt::Display for AtomicAckEth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "original {:#x}", self.original())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_eight_known_bytes() {
        assert_header(AtomicAckEth::new(0x0102_0304_0506_0708), &[1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<AtomicAckEth>(&[0xff; 8], |eth| AtomicAckEth::new(eth.original()));
    }
}

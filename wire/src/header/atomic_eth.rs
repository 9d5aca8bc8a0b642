//! The atomic extended transport header: what a COMPARE_SWAP or FETCH_ADD does, and where.
//!
//! It is 28 bytes, so its 64-bit fields lie on 4-byte boundaries only.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Atomic extended transport header, 28 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AtomicEth {
    va: U64,
    rkey: U32,
    swap_or_add: U64,
    compare: U64,
}

impl AtomicEth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// An operation on the 8 bytes at `va` under `rkey`; a FETCH_ADD has 0 in `compare`.
    pub const fn new(va: u64, rkey: u32, swap_or_add: u64, compare: u64) -> Self {
        AtomicEth {
            va: U64::new(va),
            rkey: U32::new(rkey),
            swap_or_add: U64::new(swap_or_add),
            compare: U64::new(compare),
        }
    }

    /// Virtual address in the responder's region.
    pub const fn va(&self) -> u64 {
        self.va.get()
    }

    /// Remote key.
    pub const fn rkey(&self) -> u32 {
        self.rkey.get()
    }

    /// What a COMPARE_SWAP stores, or what a FETCH_ADD adds.
    pub const fn swap_or_add(&self) -> u64 {
        self.swap_or_add.get()
    }

    /// What a COMPARE_SWAP compares with.
    pub const fn compare(&self) -> u64 {
        self.compare.get()
    }
}

impl fmt::Display for AtomicEth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "va {:#x} rkey {:#x} swap/add {:#x} compare {:#x}",
            self.va(),
            self.rkey(),
            self.swap_or_add(),
            self.compare()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_twenty_eight_known_bytes() {
        assert_header(
            AtomicEth::new(0x0102_0304_0506_0708, 0x1112_1314, 0x2122_2324_2526_2728, 0x3132_3334_3536_3738),
            &[
                1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27,
                0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
            ],
        );
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<AtomicEth>(&[0xff; 28], |eth| {
            AtomicEth::new(eth.va(), eth.rkey(), eth.swap_or_add(), eth.compare())
        });
    }
}

//! The reliable datagram extended transport header: the end-to-end context.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;

/// Reliable datagram extended transport header, 4 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rdeth {
    reserved: u8,
    ee_context: U24,
}

impl Rdeth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// A header with the low 24 bits of `ee_context`.
    pub const fn new(ee_context: u32) -> Self {
        Rdeth { reserved: 0, ee_context: U24::new(ee_context) }
    }

    /// End-to-end context number, 24 bits.
    pub const fn ee_context(&self) -> u32 {
        self.ee_context.get()
    }
}

impl fmt::Display for Rdeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eecn {:#x}", self.ee_context())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_known_bytes() {
        assert_header(Rdeth::new(0xff01_0203), &[0, 1, 2, 3]);
    }

    #[test]
    fn round_trips_all_but_the_reserved_byte() {
        assert_round_trip::<Rdeth>(&[0, 0xff, 0xff, 0xff], |header| Rdeth::new(header.ee_context()));
    }
}

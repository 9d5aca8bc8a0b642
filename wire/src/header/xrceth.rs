//! The XRC extended transport header: which shared receive queue a request is for.
//!
//! Only requests carry it.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;

/// XRC extended transport header, 4 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Xrceth {
    reserved: u8,
    srqn: U24,
}

impl Xrceth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// A header with the low 24 bits of `srqn`.
    pub const fn new(srqn: u32) -> Self {
        Xrceth { reserved: 0, srqn: U24::new(srqn) }
    }

    /// Shared receive queue number, 24 bits.
    pub const fn srqn(&self) -> u32 {
        self.srqn.get()
    }
}

impl fmt::Display for Xrceth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "srqn {:#x}", self.srqn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_known_bytes() {
        assert_header(Xrceth::new(0xff01_0203), &[0, 1, 2, 3]);
    }

    #[test]
    fn round_trips_all_but_the_reserved_byte() {
        assert_round_trip::<Xrceth>(&[0, 0xff, 0xff, 0xff], |header| Xrceth::new(header.srqn()));
    }
}

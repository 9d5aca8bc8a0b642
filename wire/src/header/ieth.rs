//! The invalidate extended transport header: the R_Key that a SEND with invalidate revokes.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Invalidate extended transport header, 4 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ieth {
    rkey: U32,
}

impl Ieth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// Asks the responder to invalidate `rkey`.
    pub const fn new(rkey: u32) -> Self {
        Ieth { rkey: U32::new(rkey) }
    }

    /// The key to invalidate.
    pub const fn rkey(&self) -> u32 {
        self.rkey.get()
    }
}

impl fmt::Display for Ieth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inv {:#x}", self.rkey())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_known_bytes() {
        assert_header(Ieth::new(0x0102_0304), &[1, 2, 3, 4]);
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<Ieth>(&[0xff; 4], |ieth| Ieth::new(ieth.rkey()));
    }
}

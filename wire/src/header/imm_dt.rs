//! Immediate data: four bytes for the receiver's completion.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Immediate data, 4 bytes, opaque: the completion gets them in the order they were sent.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ImmDt {
    bytes: [u8; 4],
}

impl ImmDt {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The bytes as they go on the wire; `ibv_send_wr.imm_data` holds them in this order.
    pub const fn new(bytes: [u8; 4]) -> Self {
        ImmDt { bytes }
    }

    /// The bytes as they came.
    pub const fn bytes(&self) -> [u8; 4] {
        self.bytes
    }
}

impl fmt::Display for ImmDt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "imm {:#010x}", u32::from_be_bytes(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_bytes_in_order() {
        assert_header(ImmDt::new([1, 2, 3, 4]), &[1, 2, 3, 4]);
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<ImmDt>(&[0xff; 4], |imm| ImmDt::new(imm.bytes()));
    }
}

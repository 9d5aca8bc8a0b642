//! A 24-bit big-endian field, as QPNs, PSNs and MSNs are carried.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Three bytes in network order.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct U24([u8; 3]);

impl U24 {
    /// The field that holds the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        let [_, high, middle, low] = value.to_be_bytes();
        U24([high, middle, low])
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

impl core::fmt::Debug for U24 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#08x}", self.get())
    }
}

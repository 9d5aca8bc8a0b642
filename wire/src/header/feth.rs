//! The flush extended transport header: how far a FLUSH pushes the data (Annex A19, memory placement extensions).

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Flush extended transport header, 4 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Feth {
    bits: U32,
}

/// What a FLUSH covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushSelectivity {
    /// The range the RETH names.
    Range,
    /// The whole memory region; address and length of the RETH do not count.
    MemoryRegion,
    /// 2 or 3, which nothing defines.
    Reserved(u8),
}

impl Feth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    const GLOBAL_VISIBILITY: u32 = 1;
    const PERSISTENCE: u32 = 1 << 1;
    const PLACEMENT_MASK: u32 = 0x0f;
    const SELECTIVITY_SHIFT: u32 = 4;

    /// A flush of `selectivity` to global visibility, persistence or both.
    pub const fn new(selectivity: FlushSelectivity, global_visibility: bool, persistence: bool) -> Self {
        let mut bits = (selectivity.as_u8() as u32) << Self::SELECTIVITY_SHIFT;
        if global_visibility {
            bits |= Self::GLOBAL_VISIBILITY;
        }
        if persistence {
            bits |= Self::PERSISTENCE;
        }
        Feth { bits: U32::new(bits) }
    }

    /// The whole placement type field, 4 bits, of which two are defined.
    pub const fn placement_type(&self) -> u8 {
        (self.bits.get() & Self::PLACEMENT_MASK) as u8
    }

    /// Whether earlier data shall be visible to everyone on the responder's host.
    pub const fn global_visibility(&self) -> bool {
        self.bits.get() & Self::GLOBAL_VISIBILITY != 0
    }

    /// Whether earlier data shall survive a loss of power.
    pub const fn persistence(&self) -> bool {
        self.bits.get() & Self::PERSISTENCE != 0
    }

    /// What is to be flushed.
    pub const fn selectivity(&self) -> FlushSelectivity {
        FlushSelectivity::from_u8((self.bits.get() >> Self::SELECTIVITY_SHIFT) as u8)
    }
}

impl FlushSelectivity {
    const MASK: u8 = 0x03;

    /// What the two low bits of `value` say.
    pub const fn from_u8(value: u8) -> Self {
        match value & Self::MASK {
            0 => FlushSelectivity::Range,
            1 => FlushSelectivity::MemoryRegion,
            other => FlushSelectivity::Reserved(other),
        }
    }

    /// The value of the field.
    pub const fn as_u8(self) -> u8 {
        match self {
            FlushSelectivity::Range => 0,
            FlushSelectivity::MemoryRegion => 1,
            FlushSelectivity::Reserved(value) => value & Self::MASK,
        }
    }
}

impl fmt::Display for Feth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flush")?;
        match self.selectivity() {
            FlushSelectivity::Range => write!(f, " range")?,
            FlushSelectivity::MemoryRegion => write!(f, " mr")?,
            FlushSelectivity::Reserved(value) => write!(f, " sel {value}")?,
        }
        if self.global_visibility() {
            write!(f, " global")?;
        }
        if self.persistence() {
            write!(f, " persistent")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_known_bytes() {
        assert_header(Feth::new(FlushSelectivity::MemoryRegion, true, true), &[0, 0, 0, 0x13]);
        assert_header(Feth::new(FlushSelectivity::Range, false, true), &[0, 0, 0, 0x02]);
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        assert_round_trip::<Feth>(&[0, 0, 0, 0x33], |feth| {
            Feth::new(feth.selectivity(), feth.global_visibility(), feth.persistence())
        });
    }
}

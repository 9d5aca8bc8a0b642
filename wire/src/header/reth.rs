//! The RDMA extended transport header: where a WRITE or READ acts in the responder's memory.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// RDMA extended transport header, 16 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Reth {
    va: U64,
    rkey: U32,
    dma_length: U32,
}

impl Reth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// An access of `dma_length` bytes at `va` under `rkey`.
    pub const fn new(va: u64, rkey: u32, dma_length: u32) -> Self {
        Reth { va: U64::new(va), rkey: U32::new(rkey), dma_length: U32::new(dma_length) }
    }

    /// Virtual address in the responder's region.
    pub const fn va(&self) -> u64 {
        self.va.get()
    }

    /// Remote key.
    pub const fn rkey(&self) -> u32 {
        self.rkey.get()
    }

    /// Length of the whole message in bytes, not of this packet.
    pub const fn dma_length(&self) -> u32 {
        self.dma_length.get()
    }
}

impl fmt::Display for Reth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va {:#x} rkey {:#x} dmalen {}", self.va(), self.rkey(), self.dma_length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_sixteen_known_bytes() {
        assert_header(
            Reth::new(0x0102_0304_0506_0708, 0x1112_1314, 0x2122_2324),
            &[1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24],
        );
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<Reth>(&[0xff; 16], |reth| Reth::new(reth.va(), reth.rkey(), reth.dma_length()));
    }
}

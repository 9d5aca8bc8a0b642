//! The datagram extended transport header: who sent a UD (or RD) packet, and the key to its queue.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Qpn;
use crate::u24::U24;

/// The Q_Key of QP 1, the general services interface.
pub const GSI_QKEY: u32 = 0x8001_0000;

/// Datagram extended transport header, 8 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Deth {
    qkey: U32,
    reserved: u8,
    source_qpn: U24,
}

impl Deth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// A datagram from `source_qpn` to a queue guarded by `qkey`.
    pub const fn new(qkey: u32, source_qpn: Qpn) -> Self {
        Deth { qkey: U32::new(qkey), reserved: 0, source_qpn: U24::new(source_qpn.value()) }
    }

    /// Queue key.
    pub const fn qkey(&self) -> u32 {
        self.qkey.get()
    }

    /// The sending queue pair.
    pub const fn source_qpn(&self) -> Qpn {
        Qpn::new(self.source_qpn.get())
    }
}

impl fmt::Display for Deth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qkey {:#x} srcqp {}", self.qkey(), self.source_qpn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_eight_known_bytes() {
        assert_header(Deth::new(GSI_QKEY, Qpn::new(0x010203)), &[0x80, 1, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn round_trips_all_but_the_reserved_byte() {
        let mask = [0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff];
        assert_round_trip::<Deth>(&mask, |deth| Deth::new(deth.qkey(), deth.source_qpn()));
    }
}

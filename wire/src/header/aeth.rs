//! The ACK extended transport header: the verdict and the number of messages done.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Syndrome;
use crate::u24::U24;

/// ACK extended transport header, 4 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Aeth {
    syndrome: u8,
    msn: U24,
}

impl Aeth {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// `syndrome` with the low 24 bits of `msn`.
    pub const fn new(syndrome: Syndrome, msn: u32) -> Self {
        Aeth { syndrome: syndrome.as_u8(), msn: U24::new(msn) }
    }

    /// ACK, RNR NAK or NAK, and which.
    pub const fn syndrome(&self) -> Syndrome {
        Syndrome::from_u8(self.syndrome)
    }

    /// Message sequence number, 24 bits: how many messages the responder has finished.
    pub const fn msn(&self) -> u32 {
        self.msn.get()
    }
}

impl fmt::Display for Aeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} msn {}", self.syndrome(), self.msn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NakCode;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_four_known_bytes() {
        assert_header(Aeth::new(Syndrome::Ack { credits: 31 }, 0x0102_0304), &[0x1f, 2, 3, 4]);
        assert_header(Aeth::new(Syndrome::Nak(NakCode::RemoteAccessError), 1), &[0x62, 0, 0, 1]);
    }

    #[test]
    fn round_trips_any_syndrome() {
        assert_round_trip::<Aeth>(&[0xff; 4], |aeth| Aeth::new(aeth.syndrome(), aeth.msn()));
    }
}

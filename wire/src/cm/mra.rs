//! MRA: a message arrived, and its answer will take a while.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Subject;

/// Message receipt acknowledgement, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Mra {
    local_comm_id: U32,
    remote_comm_id: U32,
    subject: u8,
    timeout: u8,
    private_data: [u8; 222],
}

message!(Mra, attribute 0x0011, private data 222);

accessors! { Mra:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
    /// How long the answer may take: 4.096 µs · 2^code, 5 bits.
    service_timeout, with_service_timeout => timeout[7:3]: u8;
}

impl Mra {
    const SUBJECT_SHIFT: u32 = 6;

    /// Which message arrived.
    pub fn subject(&self) -> Subject {
        Subject::from_u8(self.subject >> Self::SUBJECT_SHIFT)
    }

    /// Sets which message arrived.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Self {
        self.subject = subject.as_u8() << Self::SUBJECT_SHIFT;
        self
    }
}

impl fmt::Display for Mra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MRA comm {:#x} > {:#x} of {} timeout {}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.subject(),
            self.service_timeout()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::testing::{assert_message, mask_without};
    use crate::header::testing::assert_round_trip;

    #[test]
    fn fields_lie_where_they_belong() {
        let message = Mra::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_subject(Subject::Rep)
            .with_service_timeout(24)
            .with_private_data(&[0xaa; 222])
            .expect("just fits");
        assert_message(
            message,
            &[(0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x40, 0xc0]), (10, &[0xaa; 222])],
        );
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        assert_round_trip::<Mra>(&mask_without(&[(8, 0x3f), (9, 0x07)]), |message| {
            Mra::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_subject(message.subject())
                .with_service_timeout(message.service_timeout())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

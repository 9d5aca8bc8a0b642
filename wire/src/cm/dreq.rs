//! DREQ: one side ends the connection.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;

/// Request for disconnection, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Dreq {
    local_comm_id: U32,
    remote_comm_id: U32,
    remote_qpn: U24,
    reserved: u8,
    private_data: [u8; 220],
}

message!(Dreq, attribute 0x0015, private data 220);

accessors! { Dreq:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
    /// The receiver's queue pair, 24 bits.
    remote_qpn, with_remote_qpn => remote_qpn: u32;
}

impl fmt::Display for Dreq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DREQ comm {:#x} > {:#x} remote qpn {:#08x}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.remote_qpn()
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
        let message = Dreq::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_remote_qpn(0xff21_2223)
            .with_private_data(&[0xaa; 220])
            .expect("just fits");
        assert_message(
            message,
            &[(0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0]), (12, &[0xaa; 220])],
        );
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        assert_round_trip::<Dreq>(&mask_without(&[(11, 0xff)]), |message| {
            Dreq::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_remote_qpn(message.remote_qpn())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

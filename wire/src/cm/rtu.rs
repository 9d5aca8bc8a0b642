//! RTU: the active side has taken the REP and may send.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Ready to use, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rtu {
    local_comm_id: U32,
    remote_comm_id: U32,
    private_data: [u8; 224],
}

message!(Rtu, attribute 0x0014, private data 224);

accessors! { Rtu:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
}

impl fmt::Display for Rtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RTU comm {:#x} > {:#x}", self.local_comm_id(), self.remote_comm_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::testing::{assert_message, mask_without};
    use crate::header::testing::assert_round_trip;

    #[test]
    fn fields_lie_where_they_belong() {
        let message = Rtu::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_private_data(&[0xaa; 224])
            .expect("just fits");
        assert_message(message, &[(0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]), (8, &[0xaa; 224])]);
    }

    #[test]
    fn round_trips() {
        assert_round_trip::<Rtu>(&mask_without(&[]), |message| {
            Rtu::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

//! APR: the answer to a LAP.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::fields::{PrivateDataTooLong, fill};

/// Alternate path response, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Apr {
    local_comm_id: U32,
    remote_comm_id: U32,
    information_len: u8,
    status: u8,
    reserved: U16,
    information: [u8; Apr::INFORMATION_LEN],
    private_data: [u8; 148],
}

message!(Apr, attribute 0x001a, private data 148);

accessors! { Apr:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
}

impl Apr {
    /// Room for additional information in bytes.
    pub const INFORMATION_LEN: usize = 72;

    /// Whether the path is loaded.
    pub fn status(&self) -> AprStatus {
        AprStatus(self.status)
    }

    /// Sets whether the path is loaded.
    #[must_use]
    pub fn with_status(mut self, status: AprStatus) -> Self {
        self.status = status.0;
        self
    }

    /// What the status means to add. A length beyond its room counts as all of it.
    pub fn information(&self) -> &[u8] {
        &self.information[..usize::from(self.information_len).min(Self::INFORMATION_LEN)]
    }

    /// Sets the additional information and its length.
    ///
    /// # Errors
    /// `information` is longer than [`Apr::INFORMATION_LEN`].
    pub fn with_information(mut self, information: &[u8]) -> Result<Self, PrivateDataTooLong> {
        fill(&mut self.information, information)?;
        self.information_len = information.len() as u8;
        Ok(self)
    }
}

/// The outcome of a LAP. (Annex A17: 7, a bad LID, is not used in RoCE.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AprStatus(pub u8);

impl AprStatus {
    /// The path is loaded.
    pub const LOADED: AprStatus = AprStatus(0);
    /// No such connection.
    pub const INVALID_COMM_ID: AprStatus = AprStatus(1);
    /// Alternate paths are not supported.
    pub const NOT_SUPPORTED: AprStatus = AprStatus(2);
    /// The application does not want it.
    pub const REJECTED: AprStatus = AprStatus(3);
}

impl fmt::Display for AprStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AprStatus::LOADED => write!(f, "0 (path loaded)"),
            AprStatus::INVALID_COMM_ID => write!(f, "1 (invalid communication ID)"),
            AprStatus::NOT_SUPPORTED => write!(f, "2 (not supported)"),
            AprStatus::REJECTED => write!(f, "3 (rejected)"),
            AprStatus(other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for Apr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "APR comm {:#x} > {:#x} status {}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.status()
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
        let message = Apr::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_status(AprStatus::NOT_SUPPORTED)
            .with_information(&[0xbb; 72])
            .and_then(|message| message.with_private_data(&[0xaa; 148]))
            .expect("both just fit");
        assert_message(
            message,
            &[(0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 72, 2]), (12, &[0xbb; 72]), (84, &[0xaa; 148])],
        );
    }

    #[test]
    fn a_length_of_information_beyond_its_room_is_all_of_it() {
        let message = Apr { information_len: 0xff, ..Apr::default() };
        assert_eq!(message.information().len(), 72);
        assert!(message.with_information(&[0; 73]).is_err());
    }

    #[test]
    fn round_trips_all_but_reserved_bits_and_information() {
        let mut mask = mask_without(&[(8, 0xff), (10, 0xff), (11, 0xff)]);
        mask[12..84].fill(0);
        assert_round_trip::<Apr>(&mask, |message| {
            Apr::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_status(message.status())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

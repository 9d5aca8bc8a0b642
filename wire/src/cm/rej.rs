//! REJ: no connection, and why.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Subject;
use super::fields::{PrivateDataTooLong, fill};

/// Reject, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rej {
    local_comm_id: U32,
    remote_comm_id: U32,
    subject: u8,
    information_len: u8,
    reason: U16,
    information: [u8; Rej::INFORMATION_LEN],
    private_data: [u8; 148],
}

message!(Rej, attribute 0x0012, private data 148);

accessors! { Rej:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
}

impl Rej {
    /// Room for additional information in bytes.
    pub const INFORMATION_LEN: usize = 72;

    const SUBJECT_SHIFT: u32 = 6;
    const INFORMATION_LEN_SHIFT: u32 = 1;

    /// Which message is rejected.
    pub fn subject(&self) -> Subject {
        Subject::from_u8(self.subject >> Self::SUBJECT_SHIFT)
    }

    /// Sets which message is rejected.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Self {
        self.subject = subject.as_u8() << Self::SUBJECT_SHIFT;
        self
    }

    /// Why.
    pub fn reason(&self) -> RejectReason {
        RejectReason(self.reason.get())
    }

    /// Sets why.
    #[must_use]
    pub fn with_reason(mut self, reason: RejectReason) -> Self {
        self.reason = U16::new(reason.0);
        self
    }

    /// What the reason means to add, such as the value that would have been right. A length beyond its room counts as
    /// all of it.
    pub fn information(&self) -> &[u8] {
        let len = usize::from(self.information_len >> Self::INFORMATION_LEN_SHIFT);
        &self.information[..len.min(Self::INFORMATION_LEN)]
    }

    /// Sets the additional information and its length.
    ///
    /// # Errors
    /// `information` is longer than [`Rej::INFORMATION_LEN`].
    pub fn with_information(mut self, information: &[u8]) -> Result<Self, PrivateDataTooLong> {
        fill(&mut self.information, information)?;
        self.information_len = (information.len() as u8) << Self::INFORMATION_LEN_SHIFT;
        Ok(self)
    }
}

/// A reject reason. Any number is one; those with a meaning have a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RejectReason(pub u16);

macro_rules! reasons {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl RejectReason {
            $(#[doc = concat!($value, ": ", $text, ".")] pub const $name: RejectReason = RejectReason($value);)*

            /// The meaning, if there is one.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    NO_QP = 1, "no queue pair";
    NO_EEC = 2, "no end-to-end context";
    NO_RESOURCES = 3, "no resources";
    TIMEOUT = 4, "timeout";
    UNSUPPORTED = 5, "unsupported request";
    INVALID_COMM_ID = 6, "invalid communication ID";
    INVALID_COMM_INSTANCE = 7, "invalid communication instance";
    INVALID_SERVICE_ID = 8, "invalid service ID";
    INVALID_TRANSPORT_TYPE = 9, "invalid transport type";
    STALE_CONNECTION = 10, "stale connection";
    RDC_DOES_NOT_EXIST = 11, "RDC does not exist";
    INVALID_GID = 12, "invalid GID";
    INVALID_LID = 13, "invalid LID";
    INVALID_SL = 14, "invalid service level";
    INVALID_TRAFFIC_CLASS = 15, "invalid traffic class";
    INVALID_HOP_LIMIT = 16, "invalid hop limit";
    INVALID_PACKET_RATE = 17, "invalid packet rate";
    INVALID_ALTERNATE_GID = 18, "invalid alternate GID";
    INVALID_ALTERNATE_LID = 19, "invalid alternate LID";
    INVALID_ALTERNATE_SL = 20, "invalid alternate service level";
    INVALID_ALTERNATE_TRAFFIC_CLASS = 21, "invalid alternate traffic class";
    INVALID_ALTERNATE_HOP_LIMIT = 22, "invalid alternate hop limit";
    INVALID_ALTERNATE_PACKET_RATE = 23, "invalid alternate packet rate";
    PORT_AND_CM_REDIRECTION = 24, "port and CM redirection";
    PORT_REDIRECTION = 25, "port redirection";
    INVALID_PATH_MTU = 26, "invalid path MTU";
    INSUFFICIENT_RESPONDER_RESOURCES = 27, "insufficient responder resources";
    CONSUMER_DEFINED = 28, "rejected by the application";
    INVALID_RNR_RETRY_COUNT = 29, "invalid RNR retry count";
    DUPLICATE_COMM_ID = 30, "duplicate communication ID";
    INVALID_CLASS_VERSION = 31, "invalid class version";
    INVALID_FLOW_LABEL = 32, "invalid flow label";
    INVALID_ALTERNATE_FLOW_LABEL = 33, "invalid alternate flow label";
    VENDOR_OPTION_NOT_SUPPORTED = 35, "vendor option not supported";
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{} ({text})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RejectReason({self})")
    }
}

impl fmt::Display for Rej {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "REJ comm {:#x} > {:#x} of {} reason {}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.subject(),
            self.reason()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::cm::testing::{assert_message, mask_without};
    use crate::header::testing::assert_round_trip;

    #[test]
    fn fields_lie_where_they_belong() {
        let message = Rej::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_subject(Subject::Other)
            .with_reason(RejectReason::CONSUMER_DEFINED)
            .with_information(&[0xbb; 72])
            .and_then(|message| message.with_private_data(&[0xaa; 148]))
            .expect("both just fit");
        assert_message(
            message,
            &[
                (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x80, 144, 0, 28]),
                (12, &[0xbb; 72]),
                (84, &[0xaa; 148]),
            ],
        );
        assert_eq!(
            message.to_string(),
            "REJ comm 0x1020304 > 0x11121314 of other reason 28 (rejected by the application)"
        );
    }

    #[test]
    fn a_length_of_information_beyond_its_room_is_all_of_it() {
        let message = Rej { information_len: 0xff, ..Rej::default() };
        assert_eq!(message.information().len(), 72);
        assert!(message.with_information(&[0; 73]).is_err());
        let short = message.with_information(&[1, 2]).expect("two bytes");
        assert_eq!(short.information(), [1, 2]);
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        let mut mask = mask_without(&[(8, 0x3f), (9, 0xff)]);
        mask[12..84].fill(0);
        assert_round_trip::<Rej>(&mask, |message| {
            Rej::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_subject(message.subject())
                .with_reason(message.reason())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

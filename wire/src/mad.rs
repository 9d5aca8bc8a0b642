//! Management datagrams: 256 bytes that travel as the payload of a UD SEND_ONLY to QP 1.

use core::fmt;

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A management datagram, 256 bytes: a common header and what its class makes of the rest.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Mad {
    header: MadHeader,
    body: [u8; Mad::BODY_LEN],
}

/// The header that all management classes share, 24 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct MadHeader {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    transaction_id: U64,
    attribute_id: U16,
    reserved: U16,
    attribute_modifier: U32,
}

impl Mad {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();
    /// Bytes behind the header.
    pub const BODY_LEN: usize = 232;

    /// A datagram of these parts.
    pub const fn new(header: MadHeader, body: [u8; Self::BODY_LEN]) -> Self {
        Mad { header, body }
    }

    /// Looks at the payload of a datagram to QP 1.
    ///
    /// # Errors
    /// It is not 256 bytes long, or of another base version.
    pub fn parse(payload: &[u8]) -> Result<&Mad, MadError> {
        let mad = Mad::ref_from_bytes(payload).map_err(|_| MadError::Length(payload.len()))?;
        if mad.header.base_version != MadHeader::BASE_VERSION {
            return Err(MadError::BaseVersion(mad.header.base_version));
        }
        Ok(mad)
    }

    /// The common header.
    pub const fn header(&self) -> &MadHeader {
        &self.header
    }

    /// What is behind it.
    pub const fn body(&self) -> &[u8; Self::BODY_LEN] {
        &self.body
    }
}

impl MadHeader {
    /// Length in bytes.
    pub const LEN: usize = size_of::<Self>();
    /// The only base version.
    pub const BASE_VERSION: u8 = 1;
    /// Class of performance management.
    pub const CLASS_PERFORMANCE: u8 = 0x04;
    /// Class of communication management.
    pub const CLASS_CM: u8 = 0x07;
    /// Method Get.
    pub const METHOD_GET: u8 = 0x01;
    /// Method Send: nothing answers it as such.
    pub const METHOD_SEND: u8 = 0x03;

    /// A header with status, class-specific field and attribute modifier 0.
    pub const fn new(
        class: u8,
        class_version: u8,
        method: u8,
        transaction_id: u64,
        attribute_id: u16,
    ) -> Self {
        MadHeader {
            base_version: Self::BASE_VERSION,
            class,
            class_version,
            method,
            status: U16::new(0),
            class_specific: U16::new(0),
            transaction_id: U64::new(transaction_id),
            attribute_id: U16::new(attribute_id),
            reserved: U16::new(0),
            attribute_modifier: U32::new(0),
        }
    }

    /// Sets the status.
    #[must_use]
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = U16::new(status);
        self
    }

    /// Sets the field that each class uses in its own way.
    #[must_use]
    pub const fn with_class_specific(mut self, value: u16) -> Self {
        self.class_specific = U16::new(value);
        self
    }

    /// Sets the attribute modifier.
    #[must_use]
    pub const fn with_attribute_modifier(mut self, modifier: u32) -> Self {
        self.attribute_modifier = U32::new(modifier);
        self
    }

    /// Version of the header.
    pub const fn base_version(&self) -> u8 {
        self.base_version
    }

    /// Management class.
    pub const fn class(&self) -> u8 {
        self.class
    }

    /// Version of the class.
    pub const fn class_version(&self) -> u8 {
        self.class_version
    }

    /// Method; bit 7 is set in responses.
    pub const fn method(&self) -> u8 {
        self.method
    }

    /// Status.
    pub const fn status(&self) -> u16 {
        self.status.get()
    }

    /// The field that each class uses in its own way.
    pub const fn class_specific(&self) -> u16 {
        self.class_specific.get()
    }

    /// Transaction: a response, and every repetition of a request, has the one of its request.
    pub const fn transaction_id(&self) -> u64 {
        self.transaction_id.get()
    }

    /// Attribute: what the rest is.
    pub const fn attribute_id(&self) -> u16 {
        self.attribute_id.get()
    }

    /// Attribute modifier.
    pub const fn attribute_modifier(&self) -> u32 {
        self.attribute_modifier.get()
    }
}

/// Why a payload is no management datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MadError {
    /// It has this many bytes instead of 256.
    Length(usize),
    /// Another base version than 1.
    BaseVersion(u8),
}

impl fmt::Display for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadError::Length(len) => write!(f, "{len} bytes, where a management datagram has {}", Mad::LEN),
            MadError::BaseVersion(version) => {
                write!(f, "MAD base version {version}, where only {} exists", MadHeader::BASE_VERSION)
            }
        }
    }
}

impl core::error::Error for MadError {}

impl fmt::Display for MadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MAD class {:#x} method {:#x} attr {:#06x} tid {:#x}",
            self.class,
            self.method,
            self.attribute_id(),
            self.transaction_id()
        )?;
        if self.status() != 0 {
            write!(f, " status {:#x}", self.status())?;
        }
        Ok(())
    }
}

impl fmt::Display for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)
    }
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mad({}, body {:02x?})", self.header, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn header_is_twenty_four_known_bytes() {
        let header =
            MadHeader::new(MadHeader::CLASS_CM, 2, MadHeader::METHOD_SEND, 0x0102_0304_0506_0708, 0x0010)
                .with_status(0x1112)
                .with_class_specific(0x2122)
                .with_attribute_modifier(0x3132_3334);
        assert_header(
            header,
            &[
                1, 7, 2, 3, 0x11, 0x12, 0x21, 0x22, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0, 0x31, 0x32, 0x33,
                0x34,
            ],
        );
    }

    #[test]
    fn header_round_trips_all_but_the_reserved_field() {
        let mut mask = [0xff; 24];
        mask[18..20].fill(0);
        assert_round_trip::<MadHeader>(&mask, |header| {
            let mut copy = MadHeader::new(
                header.class(),
                header.class_version(),
                header.method(),
                header.transaction_id(),
                header.attribute_id(),
            )
            .with_status(header.status())
            .with_class_specific(header.class_specific())
            .with_attribute_modifier(header.attribute_modifier());
            copy.base_version = header.base_version();
            copy
        });
    }

    #[test]
    fn a_datagram_has_256_bytes_and_version_1() {
        let mut bytes = [0; 257];
        bytes[0] = 1;
        for len in (0..256).chain([257]) {
            assert_eq!(Mad::parse(&bytes[..len]), Err(MadError::Length(len)));
        }
        assert!(Mad::parse(&bytes[..256]).is_ok());
        bytes[0] = 2;
        assert_eq!(Mad::parse(&bytes[..256]), Err(MadError::BaseVersion(2)));
    }
}

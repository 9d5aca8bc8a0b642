//! SIDR_REP: the queue pair that serves a service, or why there is none.

use core::fmt;

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ServiceId;
use super::fields::{PrivateDataTooLong, fill};
use crate::u24::U24;

/// Reply to a service ID resolution request, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SidrRep {
    request_id: U32,
    status: u8,
    information_len: u8,
    vendor_id_high: U16,
    qpn: U24,
    vendor_id_low: u8,
    service_id: U64,
    qkey: U32,
    information: [u8; SidrRep::INFORMATION_LEN],
    private_data: [u8; 136],
}

message!(SidrRep, attribute 0x0018, private data 136);

accessors! { SidrRep:
    /// The number of the request.
    request_id, with_request_id => request_id: u32;
    /// The queue pair that serves, 24 bits.
    qpn, with_qpn => qpn: u32;
    /// Its Q_Key.
    qkey, with_qkey => qkey: u32;
}

impl SidrRep {
    /// Room for additional information in bytes.
    pub const INFORMATION_LEN: usize = 72;

    /// Whether the service is there.
    pub fn status(&self) -> SidrStatus {
        SidrStatus::from_u8(self.status)
    }

    /// Sets whether the service is there.
    #[must_use]
    pub fn with_status(mut self, status: SidrStatus) -> Self {
        self.status = status.as_u8();
        self
    }

    /// The service that was asked for.
    pub fn service_id(&self) -> ServiceId {
        ServiceId(self.service_id.get())
    }

    /// Sets the service that was asked for.
    #[must_use]
    pub fn with_service_id(mut self, service_id: ServiceId) -> Self {
        self.service_id = U64::new(service_id.0);
        self
    }

    /// The vendor whose options the sender offers, 24 bits; 0 for none.
    pub fn vendor_id(&self) -> u32 {
        u32::from(self.vendor_id_high.get()) << 8 | u32::from(self.vendor_id_low)
    }

    /// Sets the low 24 bits of the vendor's number.
    #[must_use]
    pub fn with_vendor_id(mut self, vendor_id: u32) -> Self {
        self.vendor_id_high = U16::new((vendor_id >> 8) as u16);
        self.vendor_id_low = vendor_id as u8;
        self
    }

    /// What the status means to add. A length beyond its room counts as all of it.
    pub fn information(&self) -> &[u8] {
        &self.information[..usize::from(self.information_len).min(Self::INFORMATION_LEN)]
    }

    /// Sets the additional information and its length.
    ///
    /// # Errors
    /// `information` is longer than [`SidrRep::INFORMATION_LEN`].
    pub fn with_information(mut self, information: &[u8]) -> Result<Self, PrivateDataTooLong> {
        fill(&mut self.information, information)?;
        self.information_len = information.len() as u8;
        Ok(self)
    }
}

/// The outcome of a service ID resolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SidrStatus {
    /// 0: queue pair and Q_Key are those of the service.
    Valid,
    /// 1: nobody serves it.
    ServiceNotSupported,
    /// 2: the service does not want to.
    Rejected,
    /// 3: no queue pair.
    NoQp,
    /// 4: elsewhere.
    Redirect,
    /// 5: the class version is not supported.
    VersionNotSupported,
    /// 6 and up.
    Reserved(u8),
}

impl SidrStatus {
    /// The meaning of `value`.
    pub const fn from_u8(value: u8) -> Self {
        match value {
            0 => SidrStatus::Valid,
            1 => SidrStatus::ServiceNotSupported,
            2 => SidrStatus::Rejected,
            3 => SidrStatus::NoQp,
            4 => SidrStatus::Redirect,
            5 => SidrStatus::VersionNotSupported,
            other => SidrStatus::Reserved(other),
        }
    }

    /// The byte on the wire.
    pub const fn as_u8(self) -> u8 {
        match self {
            SidrStatus::Valid => 0,
            SidrStatus::ServiceNotSupported => 1,
            SidrStatus::Rejected => 2,
            SidrStatus::NoQp => 3,
            SidrStatus::Redirect => 4,
            SidrStatus::VersionNotSupported => 5,
            SidrStatus::Reserved(value) => value,
        }
    }
}

impl fmt::Display for SidrStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SidrStatus::Valid => write!(f, "valid"),
            SidrStatus::ServiceNotSupported => write!(f, "service ID not supported"),
            SidrStatus::Rejected => write!(f, "rejected by the service"),
            SidrStatus::NoQp => write!(f, "no queue pair"),
            SidrStatus::Redirect => write!(f, "redirected"),
            SidrStatus::VersionNotSupported => write!(f, "class version not supported"),
            SidrStatus::Reserved(value) => write!(f, "status {value}"),
        }
    }
}

impl fmt::Display for SidrRep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SIDR_REP request {:#x} service {} {} qpn {:#08x} qkey {:#x}",
            self.request_id(),
            self.service_id(),
            self.status(),
            self.qpn(),
            self.qkey()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::PortSpace;
    use crate::cm::testing::{assert_message, mask_without};
    use crate::header::testing::assert_round_trip;

    #[test]
    fn fields_lie_where_they_belong() {
        let message = SidrRep::default()
            .with_request_id(0x0102_0304)
            .with_status(SidrStatus::NoQp)
            .with_vendor_id(0x0031_3233)
            .with_qpn(0x0011_1213)
            .with_service_id(ServiceId::of_port(PortSpace::Udp, 0x2122))
            .with_qkey(0x0123_4567)
            .with_information(&[0xbb; 72])
            .and_then(|message| message.with_private_data(&[0xaa; 136]))
            .expect("both just fit");
        assert_message(
            message,
            &[
                (0, &[1, 2, 3, 4, 3, 72, 0x31, 0x32, 0x11, 0x12, 0x13, 0x33]),
                (12, &[0, 0, 0, 0, 0x01, 0x11, 0x21, 0x22, 0x01, 0x23, 0x45, 0x67]),
                (24, &[0xbb; 72]),
                (96, &[0xaa; 136]),
            ],
        );
    }

    #[test]
    fn a_length_of_information_beyond_its_room_is_all_of_it() {
        let message = SidrRep { information_len: 73, ..SidrRep::default() };
        assert_eq!(message.information().len(), 72);
        assert!(message.with_information(&[0; 73]).is_err());
    }

    #[test]
    fn round_trips_all_but_information() {
        let mut mask = mask_without(&[(5, 0xff)]);
        mask[24..96].fill(0);
        assert_round_trip::<SidrRep>(&mask, |message| {
            SidrRep::default()
                .with_request_id(message.request_id())
                .with_status(message.status())
                .with_vendor_id(message.vendor_id())
                .with_qpn(message.qpn())
                .with_service_id(message.service_id())
                .with_qkey(message.qkey())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

//! SIDR_REQ: which queue pair serves this service, for datagrams?

use core::fmt;

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ServiceId;

/// Service ID resolution request, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SidrReq {
    request_id: U32,
    pkey: U16,
    reserved: U16,
    service_id: U64,
    private_data: [u8; 216],
}

message!(SidrReq, attribute 0x0017, private data 216);

accessors! { SidrReq:
    /// The sender's number for this request.
    request_id, with_request_id => request_id: u32;
    /// Partition key.
    pkey, with_pkey => pkey: u16;
}

impl SidrReq {
    /// What is asked for.
    pub fn service_id(&self) -> ServiceId {
        ServiceId(self.service_id.get())
    }

    /// Sets what is asked for.
    #[must_use]
    pub fn with_service_id(mut self, service_id: ServiceId) -> Self {
        self.service_id = U64::new(service_id.0);
        self
    }
}

impl fmt::Display for SidrReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SIDR_REQ request {:#x} service {} pkey {:#06x}",
            self.request_id(),
            self.service_id(),
            self.pkey()
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
        let message = SidrReq::default()
            .with_request_id(0x0102_0304)
            .with_pkey(0x1112)
            .with_service_id(ServiceId::of_port(PortSpace::Udp, 0x2122))
            .with_private_data(&[0xaa; 216])
            .expect("just fits");
        assert_message(
            message,
            &[(0, &[1, 2, 3, 4, 0x11, 0x12]), (8, &[0, 0, 0, 0, 0x01, 0x11, 0x21, 0x22]), (16, &[0xaa; 216])],
        );
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        assert_round_trip::<SidrReq>(&mask_without(&[(6, 0xff), (7, 0xff)]), |message| {
            SidrReq::default()
                .with_request_id(message.request_id())
                .with_pkey(message.pkey())
                .with_service_id(message.service_id())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

//! LAP: the active side offers another alternate path. (The kernel does not do it over RoCE.)

use core::fmt;
use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::u24::U24;

/// Load alternate path, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Lap {
    local_comm_id: U32,
    remote_comm_id: U32,
    reserved_8: U32,
    remote_qpn: U24,
    response_timeout: u8,
    reserved_16: U32,
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    label_and_class: U32,
    hop_limit: u8,
    packet_rate: u8,
    level: u8,
    timeout: u8,
    private_data: [u8; 168],
}

message!(Lap, attribute 0x0019, private data 168);

accessors! { Lap:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The receiver's communication ID, 0 if the sender does not know it.
    remote_comm_id, with_remote_comm_id => remote_comm_id: u32;
    /// The receiver's queue pair, 24 bits.
    remote_qpn, with_remote_qpn => remote_qpn: u32;
    /// How long the receiver may take to answer: 4.096 µs · 2^code, 5 bits.
    remote_response_timeout, with_remote_response_timeout => response_timeout[7:3]: u8;
    /// LID of the sender's port; reserved in RoCE (Annex A17).
    local_lid, with_local_lid => local_lid: u16;
    /// LID of the receiver's port; reserved in RoCE (Annex A17).
    remote_lid, with_remote_lid => remote_lid: u16;
    /// GID of the sender's port.
    local_gid, with_local_gid => local_gid: [u8; 16];
    /// GID of the receiver's port.
    remote_gid, with_remote_gid => remote_gid: [u8; 16];
    /// Hop limit.
    hop_limit, with_hop_limit => hop_limit: u8;
    /// Packet rate, 6 bits (`ibv_rate`).
    packet_rate, with_packet_rate => packet_rate[5:0]: u8;
    /// Service level, 4 bits.
    service_level, with_service_level => level[7:4]: u8;
    /// Whether both ends are in one subnet.
    subnet_local, with_subnet_local => level[3]: bool;
    /// How long the sender waits for an ACK: 4.096 µs · 2^code, 5 bits.
    local_ack_timeout, with_local_ack_timeout => timeout[7:3]: u8;
}

impl Lap {
    const LABEL_SHIFT: u32 = 12;

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.label_and_class.get() >> Self::LABEL_SHIFT
    }

    /// Sets the flow label, of which the low 20 bits count.
    #[must_use]
    pub fn with_flow_label(mut self, label: u32) -> Self {
        let others = self.label_and_class.get() & !(u32::MAX << Self::LABEL_SHIFT);
        self.label_and_class = U32::new(others | label << Self::LABEL_SHIFT);
        self
    }

    const CLASS_MASK: u32 = 0xff;

    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        (self.label_and_class.get() & Self::CLASS_MASK) as u8
    }

    /// Sets the traffic class.
    #[must_use]
    pub fn with_traffic_class(mut self, class: u8) -> Self {
        let others = self.label_and_class.get() & !Self::CLASS_MASK;
        self.label_and_class = U32::new(others | u32::from(class));
        self
    }
}

impl fmt::Display for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LAP comm {:#x} > {:#x} remote qpn {:#08x} path {} > {}",
            self.local_comm_id(),
            self.remote_comm_id(),
            self.remote_qpn(),
            Ipv6Addr::from(self.local_gid),
            Ipv6Addr::from(self.remote_gid)
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
        let message = Lap::default()
            .with_local_comm_id(0x0102_0304)
            .with_remote_comm_id(0x1112_1314)
            .with_remote_qpn(0x0021_2223)
            .with_remote_response_timeout(0x1f)
            .with_local_lid(0x3132)
            .with_remote_lid(0x3334)
            .with_local_gid([0x41; 16])
            .with_remote_gid([0x42; 16])
            .with_flow_label(0x000f_2345)
            .with_traffic_class(0x51)
            .with_hop_limit(0x52)
            .with_packet_rate(0x3f)
            .with_service_level(0x0f)
            .with_subnet_local(true)
            .with_local_ack_timeout(0x1f)
            .with_private_data(&[0xaa; 168])
            .expect("just fits");
        assert_message(
            message,
            &[
                (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]),
                (12, &[0x21, 0x22, 0x23, 0xf8]),
                (20, &[0x31, 0x32, 0x33, 0x34]),
                (24, &[0x41; 16]),
                (40, &[0x42; 16]),
                (56, &[0xf2, 0x34, 0x50, 0x51, 0x52, 0x3f, 0xf8, 0xf8]),
                (64, &[0xaa; 168]),
            ],
        );
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        let mut mask = mask_without(&[(15, 0x07), (58, 0x0f), (61, 0xc0), (62, 0x07), (63, 0x07)]);
        mask[8..12].fill(0);
        mask[16..20].fill(0);
        assert_round_trip::<Lap>(&mask, |message| {
            Lap::default()
                .with_local_comm_id(message.local_comm_id())
                .with_remote_comm_id(message.remote_comm_id())
                .with_remote_qpn(message.remote_qpn())
                .with_remote_response_timeout(message.remote_response_timeout())
                .with_local_lid(message.local_lid())
                .with_remote_lid(message.remote_lid())
                .with_local_gid(message.local_gid())
                .with_remote_gid(message.remote_gid())
                .with_flow_label(message.flow_label())
                .with_traffic_class(message.traffic_class())
                .with_hop_limit(message.hop_limit())
                .with_packet_rate(message.packet_rate())
                .with_service_level(message.service_level())
                .with_subnet_local(message.subnet_local())
                .with_local_ack_timeout(message.local_ack_timeout())
                .with_private_data(message.private_data())
                .expect("as long as its room")
        });
    }
}

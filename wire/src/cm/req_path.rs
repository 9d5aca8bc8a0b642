//! A path in a REQ: the primary one, and the alternate one if there is one.

use core::fmt;
use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A path, 44 bytes. All zeros: no path.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ReqPath {
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    label_and_rate: U32,
    traffic_class: u8,
    hop_limit: u8,
    level: u8,
    timeout: u8,
}

accessors! { ReqPath:
    /// LID of the sender's port; reserved in RoCE (Annex A17).
    local_lid, with_local_lid => local_lid: u16;
    /// LID of the receiver's port; reserved in RoCE (Annex A17).
    remote_lid, with_remote_lid => remote_lid: u16;
    /// GID of the sender's port.
    local_gid, with_local_gid => local_gid: [u8; 16];
    /// GID of the receiver's port.
    remote_gid, with_remote_gid => remote_gid: [u8; 16];
    /// Traffic class.
    traffic_class, with_traffic_class => traffic_class: u8;
    /// Hop limit.
    hop_limit, with_hop_limit => hop_limit: u8;
    /// Service level, 4 bits.
    service_level, with_service_level => level[7:4]: u8;
    /// Whether both ends are in one subnet.
    subnet_local, with_subnet_local => level[3]: bool;
    /// How long the sender waits for an ACK: 4.096 µs · 2^code, 5 bits.
    local_ack_timeout, with_local_ack_timeout => timeout[7:3]: u8;
}

impl ReqPath {
    const LABEL_SHIFT: u32 = 12;

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.label_and_rate.get() >> Self::LABEL_SHIFT
    }

    /// Sets the flow label, of which the low 20 bits count.
    #[must_use]
    pub fn with_flow_label(mut self, label: u32) -> Self {
        let others = self.label_and_rate.get() & !(u32::MAX << Self::LABEL_SHIFT);
        self.label_and_rate = U32::new(others | label << Self::LABEL_SHIFT);
        self
    }

    const RATE_MASK: u32 = 0x3f;

    /// Packet rate, 6 bits (`ibv_rate`).
    pub fn packet_rate(&self) -> u8 {
        (self.label_and_rate.get() & Self::RATE_MASK) as u8
    }

    /// Sets the packet rate, of which the low six bits count.
    #[must_use]
    pub fn with_packet_rate(mut self, rate: u8) -> Self {
        let others = self.label_and_rate.get() & !Self::RATE_MASK;
        self.label_and_rate = U32::new(others | u32::from(rate) & Self::RATE_MASK);
        self
    }
}

impl Default for ReqPath {
    fn default() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }
}

impl fmt::Display for ReqPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} class {:#x} hlim {} sl {} ack timeout {}",
            Ipv6Addr::from(self.local_gid),
            Ipv6Addr::from(self.remote_gid),
            self.traffic_class(),
            self.hop_limit(),
            self.service_level(),
            self.local_ack_timeout()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::testing::{assert_header, assert_round_trip};

    #[test]
    fn is_forty_four_known_bytes() {
        let path = ReqPath::default()
            .with_local_lid(0x0102)
            .with_remote_lid(0x0304)
            .with_local_gid([0x11; 16])
            .with_remote_gid([0x22; 16])
            .with_flow_label(0xfff1_2345)
            .with_packet_rate(0xff)
            .with_traffic_class(0x31)
            .with_hop_limit(0x32)
            .with_service_level(0x0f)
            .with_subnet_local(true)
            .with_local_ack_timeout(0x1f);
        let mut bytes = [0; 44];
        bytes[..4].copy_from_slice(&[1, 2, 3, 4]);
        bytes[4..20].fill(0x11);
        bytes[20..36].fill(0x22);
        bytes[36..].copy_from_slice(&[0x12, 0x34, 0x50, 0x3f, 0x31, 0x32, 0xf8, 0xf8]);
        assert_header(path, &bytes);
    }

    #[test]
    fn round_trips_all_but_reserved_bits() {
        let mut mask = [0xff; 44];
        (mask[38], mask[39], mask[42], mask[43]) = (0xf0, 0x3f, 0xf8, 0xf8);
        assert_round_trip::<ReqPath>(&mask, |path| {
            ReqPath::default()
                .with_local_lid(path.local_lid())
                .with_remote_lid(path.remote_lid())
                .with_local_gid(path.local_gid())
                .with_remote_gid(path.remote_gid())
                .with_flow_label(path.flow_label())
                .with_packet_rate(path.packet_rate())
                .with_traffic_class(path.traffic_class())
                .with_hop_limit(path.hop_limit())
                .with_service_level(path.service_level())
                .with_subnet_local(path.subnet_local())
                .with_local_ack_timeout(path.local_ack_timeout())
        });
    }
}

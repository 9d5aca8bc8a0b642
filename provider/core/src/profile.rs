//! What may differ from card to card: limits and habits on the wire.

use crate::{Dcqcn, Type2};

/// Limits and habits of a device. The default is a card like most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Longest message in bytes (`max_msg_sz`). At an MTU of 256 a longer READ would not fit the PSN window.
    pub max_message: u32,
    /// Most READs, atomics, FLUSHes and atomic writes outstanding on a QP, in either direction.
    pub max_rd_atomic: u8,
    /// Most request packets of one QP in flight; READ requests do not count.
    pub window_packets: u32,
    /// Request packets in flight before anything is known about the path.
    pub first_window_packets: u32,
    /// Whether a loss makes the window smaller. Cards do not: they have buffers of their own, and congestion control.
    pub window_shrinks: bool,
    /// Whether QPs may repeat selectively with peers that do as well; see [`Device::repeat_selectively`].
    ///
    /// [`Device::repeat_selectively`]: crate::Device::repeat_selectively
    pub selective_repeat: bool,
    /// Longest run of request packets without AckReq.
    pub ack_req_interval: u32,
    /// The M bit of every packet. ConnectX sends 1; a 0 makes one take its slow path.
    pub mig_req: bool,
    /// What type 2 memory windows belong to.
    pub type_2_windows: Type2,
    /// Congestion control.
    pub dcqcn: Dcqcn,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            max_message: 1 << 30,
            max_rd_atomic: 16,
            window_packets: 512,
            first_window_packets: 32,
            window_shrinks: true,
            selective_repeat: false,
            ack_req_interval: 64,
            mig_req: true,
            type_2_windows: Type2::B,
            dcqcn: Dcqcn::default(),
        }
    }
}

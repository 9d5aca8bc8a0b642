//! What callers say about connections, and what they get to know to set up their queue pairs.

use ferroce_core::Nanos;
use ferroce_wire::cm::{ServiceId, Transport};
use std::net::IpAddr;

/// The kernel's packet lifetime on RoCE, as a time code (`CMA_IBOE_PACKET_LIFETIME` of Linux 6.1): 1.1 s.
pub const PACKET_LIFETIME: u8 = 18;
/// The kernel's time for an answer (`CMA_CM_RESPONSE_TIMEOUT`), as a time code: 4.3 s.
pub const RESPONSE_TIMEOUT: u8 = 20;
/// How often the kernel repeats a message (`CMA_MAX_CM_RETRIES`).
pub(crate) const MAX_RETRIES: u8 = 15;
/// How long the kernel asks for patience with an MRA (`CMA_CM_MRA_SETTING`), as a time code: 69 s.
pub(crate) const MRA_TIMEOUT: u8 = 24;
/// How long a card of ours takes for an acknowledgement, as a time code.
pub(crate) const ACK_DELAY: u8 = 15;

/// The time of a code: 4.096 µs · 2^code; only the low five bits count.
pub fn duration_ns(code: u8) -> Nanos {
    4_096 << (code & 0x1f)
}

/// The local ACK timeout for a path: twice the packet lifetime, and what the peer takes for an ACK; a time code, 31 at
/// most (the kernel's `cm_ack_timeout`).
pub fn ack_timeout(ack_delay: u8, packet_lifetime: u8) -> u8 {
    let round_trip = packet_lifetime + 1;
    let sum = match round_trip >= ack_delay {
        true => round_trip + u8::from(ack_delay + 1 >= round_trip),
        false => ack_delay + u8::from(round_trip + 1 >= ack_delay),
    };
    sum.min(31)
}

/// Between which addresses datagrams go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// Our address.
    pub local: IpAddr,
    /// The peer's.
    pub peer: IpAddr,
    /// Interface index for IPv6 link-local addresses; 0 otherwise.
    pub interface: u32,
    /// The whole TOS byte or traffic class.
    pub traffic_class: u8,
}

/// A connection to be asked for.
#[derive(Clone, Debug)]
pub struct ConnectParams {
    /// From where to where.
    pub route: Route,
    /// The service wanted.
    pub service: ServiceId,
    /// GUID of our device.
    pub ca_guid: u64,
    /// RC, UC or XRC.
    pub transport: Transport,
    /// Our queue pair, 24 bits.
    pub qpn: u32,
    /// First PSN that the peer shall send, 24 bits: our `rq_psn`.
    pub starting_psn: u32,
    /// RDMA READs and atomics that we answer at once.
    pub responder_resources: u8,
    /// RDMA READs and atomics that we will have under way.
    pub initiator_depth: u8,
    /// Whether we count credits.
    pub flow_control: bool,
    /// Retries that both sides shall make, 0 to 7.
    pub retry_count: u8,
    /// RNR retries that the peer shall make, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether our queue pair has a shared receive queue.
    pub srq: bool,
    /// Path MTU code: 1 is 256 bytes, 5 is 4096.
    pub path_mtu: u8,
    /// Partition key.
    pub pkey: u16,
    /// Packet lifetime of the path as a time code, [`PACKET_LIFETIME`] unless somebody knows better.
    pub packet_lifetime: u8,
    /// Private data, at most 92 bytes, the RDMA CM's header included.
    pub private_data: Vec<u8>,
}

/// How a request is accepted.
#[derive(Clone, Debug, Default)]
pub struct AcceptParams {
    /// GUID of our device.
    pub ca_guid: u64,
    /// Our queue pair, 24 bits.
    pub qpn: u32,
    /// First PSN that the peer shall send, 24 bits: our `rq_psn`.
    pub starting_psn: u32,
    /// RDMA READs and atomics that we answer at once.
    pub responder_resources: u8,
    /// RDMA READs and atomics that we will have under way.
    pub initiator_depth: u8,
    /// Whether we count credits.
    pub flow_control: bool,
    /// RNR retries that the peer shall make, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether our queue pair has a shared receive queue.
    pub srq: bool,
    /// Private data, at most 196 bytes.
    pub private_data: Vec<u8>,
}

/// A datagram service to be looked up.
#[derive(Clone, Debug)]
pub struct LookupParams {
    /// From where to where.
    pub route: Route,
    /// The service wanted.
    pub service: ServiceId,
    /// Partition key.
    pub pkey: u16,
    /// Private data, at most 216 bytes, the RDMA CM's header included.
    pub private_data: Vec<u8>,
}

/// The answer to a lookup.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The queue pair that serves.
    Served {
        /// Its number.
        qpn: u32,
        /// Its Q_Key.
        qkey: u32,
        /// Private data, at most 136 bytes.
        private_data: Vec<u8>,
    },
    /// The service does not want to.
    Rejected {
        /// Private data, at most 136 bytes.
        private_data: Vec<u8>,
    },
}

/// An established connection of a process that is gone, to be ended in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its communication ID.
    pub local_comm_id: u32,
    /// The peer's.
    pub remote_comm_id: u32,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// Between which addresses.
    pub route: Route,
}

/// What a queue pair of a connection has to be told, under the names of `struct ibv_qp_attr`. The address vector follows
/// from the route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSettings {
    /// Between which addresses.
    pub route: Route,
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// First PSN to expect.
    pub rq_psn: u32,
    /// First PSN to send.
    pub sq_psn: u32,
    /// Path MTU code.
    pub path_mtu: u8,
    /// Local ACK timeout, a time code.
    pub timeout: u8,
    /// Retries.
    pub retry_count: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RDMA READs and atomics under way at once.
    pub max_rd_atomic: u8,
    /// RDMA READs and atomics answered at once.
    pub max_dest_rd_atomic: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_double_four_microseconds() {
        assert_eq!(duration_ns(0), 4_096);
        assert_eq!(duration_ns(20), 4_294_967_296);
        assert_eq!(duration_ns(32 + 1), 8_192);
    }

    /// 19 is what the captures of rxe have, with a delay of 15 and a lifetime of 18.
    #[test]
    fn the_ack_timeout_covers_a_round_trip_and_the_delay() {
        assert_eq!(ack_timeout(15, 18), 19);
        assert_eq!(ack_timeout(15, 14), 16);
        assert_eq!(ack_timeout(15, 15), 17);
        assert_eq!(ack_timeout(15, 3), 15);
        assert_eq!(ack_timeout(0, 31), 31);
    }
}

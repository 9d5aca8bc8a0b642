//! What happens to IDs.

use super::CmId;
use crate::ah::AhAttr;

/// What an event says; the values are those of `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are rdma_get_cm_event(3)'s own")]
pub enum CmEventKind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    AddrinfoResolved = 16,
    AddrinfoError = 17,
    User = 18,
    Internal = 19,
}

/// Something that happened to an ID.
#[derive(Debug)]
pub struct CmEvent {
    /// What the ID's owner calls it; of a request the listener's.
    pub cookie: u64,
    /// What happened.
    pub kind: CmEventKind,
    /// 0; or why it failed: a negative error number, the reason of a reject, the status of a lookup.
    pub status: i32,
    /// Of a request: the new ID. Dropping it refuses the request.
    pub request: Option<CmId>,
    /// What the peer said about the connection.
    pub conn: ConnParam,
    /// Of datagram services: how they are reached.
    pub ud: Option<UdParam>,
    /// Of an event that the application wrote itself: what it wrote.
    pub arg: u64,
}

/// Parameters of a connection, under the names of `struct rdma_conn_param`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnParam {
    /// The application's bytes: up to 56 with a request, 196 with an acceptance, 148 with a refusal; 180 and 136 with a
    /// lookup and its answer.
    pub private_data: Vec<u8>,
    /// RDMA READs and atomics that are answered at once.
    pub responder_resources: u8,
    /// RDMA READs and atomics that are under way at once.
    pub initiator_depth: u8,
    /// Whether credits are counted.
    pub flow_control: bool,
    /// Retries, 0 to 7.
    pub retry_count: u8,
    /// RNR retries, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// The queue pair.
    pub qp_num: u32,
}

/// How a datagram service is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdParam {
    /// For an address handle.
    pub ah: AhAttr,
    /// The queue pair.
    pub qp_num: u32,
    /// Its Q_Key.
    pub qkey: u32,
}

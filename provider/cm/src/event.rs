//! What a connection manager has to say.

use crate::{CommId, ListenerId, Orphan, Route};
use ferroce_wire::cm::{RejectReason, ServiceId, SidrStatus, Transport};

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer wants a connection (REQ): [`Cm::accept`](crate::Cm::accept) or [`Cm::reject`](crate::Cm::reject).
    Request {
        /// Which listener it reached.
        listener: ListenerId,
        /// The new connection.
        id: CommId,
        /// What it wants.
        request: Box<Request>,
    },
    /// The peer accepts (REP): [`Cm::establish`](crate::Cm::establish) or [`Cm::reject`](crate::Cm::reject).
    Reply {
        /// The connection.
        id: CommId,
        /// What it says.
        reply: Box<Reply>,
    },
    /// The peer is ready, too (RTU).
    Established {
        /// The connection.
        id: CommId,
        /// Private data, 224 bytes.
        private_data: Vec<u8>,
    },
    /// The peer does not want (REJ).
    Rejected {
        /// The connection, which has ended.
        id: CommId,
        /// Why.
        reason: RejectReason,
        /// Private data, 148 bytes.
        private_data: Vec<u8>,
    },
    /// The peer does not answer. The connection, or lookup, has ended.
    Unreachable {
        /// Which one.
        id: CommId,
    },
    /// The connection ends: the peer asked for it (DREQ), answered our asking (DREP), or did not.
    Disconnected {
        /// The connection.
        id: CommId,
        /// Whether the peer left our asking unanswered.
        timed_out: bool,
    },
    /// No packet of the connection is under way any more: its queue pair may be used for another.
    TimewaitExit {
        /// The connection.
        id: CommId,
    },
    /// A peer looks for a datagram service (SIDR_REQ): [`Cm::answer`](crate::Cm::answer).
    Lookup {
        /// Which listener it reached.
        listener: ListenerId,
        /// The lookup.
        id: CommId,
        /// What it says.
        lookup: Box<Lookup>,
    },
    /// The answer to our lookup (SIDR_REP).
    Found {
        /// The lookup.
        id: CommId,
        /// What it says.
        datagram: Box<Datagram>,
    },
}

/// What somebody has to know who ends connections in the place of a process that dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The peer may take this connection for established.
    Connected(Orphan),
    /// The peer does not take the connection of this ID for established any more.
    Ended(CommId),
}

/// A request for a connection, as the side sees it that got it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Between which addresses.
    pub route: Route,
    /// The service wanted.
    pub service: ServiceId,
    /// RC, UC or XRC.
    pub transport: Transport,
    /// GUID of the peer's device.
    pub remote_ca_guid: u64,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// RDMA READs and atomics that the peer will have under way, and that we are to answer at once.
    pub responder_resources: u8,
    /// RDMA READs and atomics that the peer answers at once, and that we may have under way.
    pub initiator_depth: u8,
    /// Whether the peer counts credits.
    pub flow_control: bool,
    /// Retries to make.
    pub retry_count: u8,
    /// RNR retries to make.
    pub rnr_retry_count: u8,
    /// Whether the peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// Path MTU code.
    pub path_mtu: u8,
    /// Partition key.
    pub pkey: u16,
    /// Private data, 92 bytes, the RDMA CM's header included.
    pub private_data: Vec<u8>,
}

/// An acceptance, as the side sees it that asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// GUID of the peer's device.
    pub remote_ca_guid: u64,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// RDMA READs and atomics that the peer will have under way.
    pub responder_resources: u8,
    /// RDMA READs and atomics that the peer answers at once.
    pub initiator_depth: u8,
    /// Whether the peer counts credits.
    pub flow_control: bool,
    /// RNR retries to make.
    pub rnr_retry_count: u8,
    /// Whether the peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// Private data, 196 bytes.
    pub private_data: Vec<u8>,
}

/// A lookup of a datagram service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// Between which addresses.
    pub route: Route,
    /// The service wanted.
    pub service: ServiceId,
    /// Partition key.
    pub pkey: u16,
    /// Private data, 216 bytes, the RDMA CM's header included.
    pub private_data: Vec<u8>,
}

/// What became of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Whether the service is there.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
    /// Private data, 136 bytes.
    pub private_data: Vec<u8>,
}

//! REQ: the active side wants a connection.

use core::fmt;

use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ReqPath, ServiceId};
use crate::u24::U24;

/// Request for communication, 232 bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Req {
    local_comm_id: U32,
    reserved_4: u8,
    vendor_id: U24,
    service_id: U64,
    local_ca_guid: U64,
    reserved_24: U32,
    local_qkey: U32,
    local_qpn: U24,
    responder_resources: u8,
    local_eecn: U24,
    initiator_depth: u8,
    remote_eecn: U24,
    timeout_and_transport: u8,
    starting_psn: U24,
    timeout_and_retry: u8,
    pkey: U16,
    mtu_and_rnr_retry: u8,
    cm_retries_and_srq: u8,
    primary_path: ReqPath,
    alternate_path: ReqPath,
    private_data: [u8; 92],
}

message!(Req, attribute 0x0010, private data 92);

accessors! { Req:
    /// The sender's communication ID.
    local_comm_id, with_local_comm_id => local_comm_id: u32;
    /// The vendor whose options the sender offers, 24 bits; 0 for none.
    vendor_id, with_vendor_id => vendor_id: u32;
    /// GUID of the sender's channel adapter.
    local_ca_guid, with_local_ca_guid => local_ca_guid: u64;
    /// Q_Key of the sender's queue pair; not for RC and UC.
    local_qkey, with_local_qkey => local_qkey: u32;
    /// The sender's queue pair, 24 bits.
    local_qpn, with_local_qpn => local_qpn: u32;
    /// RDMA READs and atomics that the sender answers at once.
    responder_resources, with_responder_resources => responder_resources: u8;
    /// The sender's end-to-end context, 24 bits; RD only.
    local_eecn, with_local_eecn => local_eecn: u32;
    /// RDMA READs and atomics that the sender will have under way.
    initiator_depth, with_initiator_depth => initiator_depth: u8;
    /// The receiver's end-to-end context, 24 bits; RD only.
    remote_eecn, with_remote_eecn => remote_eecn: u32;
    /// How long the receiver may take to answer: 4.096 µs · 2^code, 5 bits.
    remote_response_timeout, with_remote_response_timeout => timeout_and_transport[7:3]: u8;
    /// Whether the sender counts credits.
    end_to_end_flow_control, with_end_to_end_flow_control => timeout_and_transport[0]: bool;
    /// First PSN that the receiver shall send, 24 bits: the sender's `rq_psn`.
    starting_psn, with_starting_psn => starting_psn: u32;
    /// How long the sender may take to answer: 4.096 µs · 2^code, 5 bits.
    local_response_timeout, with_local_response_timeout => timeout_and_retry[7:3]: u8;
    /// Retries that the receiver shall make, 0 to 7.
    retry_count, with_retry_count => timeout_and_retry[2:0]: u8;
    /// Partition key.
    pkey, with_pkey => pkey: u16;
    /// Path MTU code, 4 bits: 1 is 256 bytes, 5 is 4096.
    path_mtu, with_path_mtu => mtu_and_rnr_retry[7:4]: u8;
    /// Whether a reliable datagram channel exists already.
    rdc_exists, with_rdc_exists => mtu_and_rnr_retry[3]: bool;
    /// RNR retries that the receiver shall make, 0 to 7; 7 is for ever.
    rnr_retry_count, with_rnr_retry_count => mtu_and_rnr_retry[2:0]: u8;
    /// How often a message of the connection manager is repeated, 0 to 15.
    max_cm_retries, with_max_cm_retries => cm_retries_and_srq[7:4]: u8;
    /// Whether the sender's queue pair has a shared receive queue.
    srq, with_srq => cm_retries_and_srq[3]: bool;
}

impl Req {
    const TRANSPORT_SHIFT: u32 = 1;
    const TRANSPORT_MASK: u8 = 0b11 << Self::TRANSPORT_SHIFT;
    const EXTENDED_TRANSPORT_MASK: u8 = 0b111;

    /// What the sender wants to connect to.
    pub fn service_id(&self) -> ServiceId {
        ServiceId(self.service_id.get())
    }

    /// Sets what the sender wants to connect to.
    #[must_use]
    pub fn with_service_id(mut self, service_id: ServiceId) -> Self {
        self.service_id = U64::new(service_id.0);
        self
    }

    /// The transport service of the connection.
    pub fn transport(&self) -> Transport {
        let kind = (self.timeout_and_transport & Self::TRANSPORT_MASK) >> Self::TRANSPORT_SHIFT;
        Transport::from_bits(kind, self.cm_retries_and_srq & Self::EXTENDED_TRANSPORT_MASK)
    }

    /// Sets the transport service of the connection.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        let (kind, extended) = transport.to_bits();
        self.timeout_and_transport =
            self.timeout_and_transport & !Self::TRANSPORT_MASK | kind << Self::TRANSPORT_SHIFT;
        self.cm_retries_and_srq = self.cm_retries_and_srq & !Self::EXTENDED_TRANSPORT_MASK | extended;
        self
    }

    /// The path to use.
    pub fn primary_path(&self) -> &ReqPath {
        &self.primary_path
    }

    /// Sets the path to use.
    #[must_use]
    pub fn with_primary_path(mut self, path: ReqPath) -> Self {
        self.primary_path = path;
        self
    }

    /// Another path to fall back to; all zeros for none.
    pub fn alternate_path(&self) -> &ReqPath {
        &self.alternate_path
    }

    /// Sets the path to fall back to.
    #[must_use]
    pub fn with_alternate_path(mut self, path: ReqPath) -> Self {
        self.alternate_path = path;
        self
    }
}

/// Transport services a REQ can ask for. Two fields say it: a type, and for the extended type which one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Extended reliable connection.
    Xrc,
    /// Anything else: the type (2 bits) and the extended type (3 bits).
    Reserved {
        /// Transport service type.
        kind: u8,
        /// Extended transport type.
        extended: u8,
    },
}

impl Transport {
    const KIND_EXTENDED: u8 = 3;
    const EXTENDED_XRC: u8 = 1;

    const fn from_bits(kind: u8, extended: u8) -> Self {
        match (kind, extended) {
            (0, 0) => Transport::Rc,
            (1, 0) => Transport::Uc,
            (2, 0) => Transport::Rd,
            (Self::KIND_EXTENDED, Self::EXTENDED_XRC) => Transport::Xrc,
            (kind, extended) => Transport::Reserved { kind, extended },
        }
    }

    const fn to_bits(self) -> (u8, u8) {
        match self {
            Transport::Rc => (0, 0),
            Transport::Uc => (1, 0),
            Transport::Rd => (2, 0),
            Transport::Xrc => (Self::KIND_EXTENDED, Self::EXTENDED_XRC),
            Transport::Reserved { kind, extended } => (kind & 3, extended & 7),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Rc => write!(f, "RC"),
            Transport::Uc => write!(f, "UC"),
            Transport::Rd => write!(f, "RD"),
            Transport::Xrc => write!(f, "XRC"),
            Transport::Reserved { kind, extended } => write!(f, "transport {kind}/{extended}"),
        }
    }
}

impl fmt::Display for Req {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "REQ comm {:#x} service {} {} qpn {:#08x} psn {} mtu code {} rd {}/{} retry {} rnr retry {}",
            self.local_comm_id(),
            self.service_id(),
            self.transport(),
            self.local_qpn(),
            self.starting_psn(),
            self.path_mtu(),
            self.responder_resources(),
            self.initiator_depth(),
            self.retry_count(),
            self.rnr_retry_count()
        )?;
        if self.srq() {
            write!(f, " srq")?;
        }
        write!(f, ", {}", self.primary_path())
    }
}

#[cfg(test)]
mod tests;

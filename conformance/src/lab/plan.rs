//! How the QPs of a case are made and connected.

use crate::fabric::IpVersion;
use ferroce_core::{AccessFlags, PathMtu, QpCaps, QpType};

/// What an end of a connection is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Service type.
    pub qp_type: QpType,
    /// Path MTU.
    pub mtu: PathMtu,
    /// Over which IP.
    pub version: IpVersion,
    /// Sizes of the work queues.
    pub caps: QpCaps,
    /// Entries of each of its CQs.
    pub cqe: u32,
    /// Whether every send WR makes a completion.
    pub sq_sig_all: bool,
    /// What the peer may do to the QP.
    pub access: AccessFlags,
    /// Rights of its buffer.
    pub buffer_access: AccessFlags,
    /// Bytes of its buffer.
    pub buffer_len: usize,
    /// First PSN that it sends.
    pub psn: u32,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// RNR NAK timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics as requester.
    pub max_rd_atomic: u8,
    /// READs and atomics as responder.
    pub max_dest_rd_atomic: u8,
    /// Q_Key.
    pub qkey: u32,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Whether it receives from an SRQ, of as many work requests as its receive queue would have.
    pub on_srq: bool,
}

/// Everything that a peer can do.
pub const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

impl Plan {
    /// A plan for QPs of that type with which nothing goes wrong by itself. There is no ACK timeout: what a loaded
    /// machine makes late is not lost.
    pub fn new(qp_type: QpType) -> Plan {
        Plan {
            qp_type,
            mtu: PathMtu::Mtu1024,
            version: IpVersion::V4,
            caps: QpCaps {
                max_send_wr: 64,
                max_recv_wr: 64,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 64,
            },
            cqe: 256,
            sq_sig_all: false,
            access: ALL_ACCESS,
            buffer_access: ALL_ACCESS,
            buffer_len: 64 << 10,
            psn: 0x12_3456,
            timeout: 0,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            qkey: 0x1111_1111,
            traffic_class: 0,
            on_srq: false,
        }
    }

    /// RC.
    pub fn rc() -> Plan {
        Plan::new(QpType::Rc)
    }

    /// UC.
    pub fn uc() -> Plan {
        Plan::new(QpType::Uc)
    }

    /// UD.
    pub fn ud() -> Plan {
        Plan::new(QpType::Ud)
    }
}

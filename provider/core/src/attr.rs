//! QP attributes, as the verbs set and report them.

use crate::{CqId, Path, PdId, Srqn, XrcdId};
use ferroce_wire::{Psn, Qpn, Service};
use std::fmt;

/// Service type of a QP; the values are those of `enum ibv_qp_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// XRC initiator.
    XrcIni = 9,
    /// XRC target.
    XrcTgt = 10,
}

impl QpType {
    /// The service that its packets belong to.
    pub const fn service(self) -> Service {
        match self {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcIni | QpType::XrcTgt => Service::Xrc,
        }
    }
}

/// State of a QP; the values are those of `enum ibv_qp_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are ibv_modify_qp(3)'s own")]
pub enum QpState {
    Reset = 0,
    Init = 1,
    Rtr = 2,
    Rts = 3,
    Sqd = 4,
    Sqe = 5,
    Err = 6,
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpType::Rc => "RC",
            QpType::Uc => "UC",
            QpType::Ud => "UD",
            QpType::XrcIni => "XRC_INI",
            QpType::XrcTgt => "XRC_TGT",
        })
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
        })
    }
}

/// Largest payload of one packet; the values are those of `enum ibv_mtu`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the number is the size in bytes")]
pub enum PathMtu {
    Mtu256 = 1,
    Mtu512 = 2,
    Mtu1024 = 3,
    Mtu2048 = 4,
    Mtu4096 = 5,
}

impl PathMtu {
    /// All of them, smallest first.
    pub const ALL: [PathMtu; 5] =
        [PathMtu::Mtu256, PathMtu::Mtu512, PathMtu::Mtu1024, PathMtu::Mtu2048, PathMtu::Mtu4096];

    /// Size in bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u8
    }

    /// The MTU with the encoded `value` of `enum ibv_mtu`.
    pub fn from_code(value: u32) -> Option<PathMtu> {
        Self::ALL.into_iter().find(|mtu| *mtu as u32 == value)
    }

    /// The largest MTU whose frames fit a link of `link_mtu` bytes, leaving 80 bytes for headers as rxe does;
    /// `None` if not even 256 fits.
    pub fn fitting(link_mtu: u32) -> Option<PathMtu> {
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() + 80 <= link_mtu)
    }
}

bitflags::bitflags! {
    /// Access rights of regions, windows and QPs; the bits are those of `enum ibv_access_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AccessFlags: u32 {
        /// Local write.
        const LOCAL_WRITE = 1;
        /// Remote write.
        const REMOTE_WRITE = 2;
        /// Remote read.
        const REMOTE_READ = 4;
        /// Remote atomics.
        const REMOTE_ATOMIC = 8;
        /// Windows may be bound.
        const MW_BIND = 16;
        /// Remote addresses count from 0.
        const ZERO_BASED = 32;
        /// On-demand paging.
        const ON_DEMAND = 64;
        /// Huge pages.
        const HUGETLB = 128;
        /// FLUSH to global visibility.
        const FLUSH_GLOBAL = 256;
        /// FLUSH to persistence.
        const FLUSH_PERSISTENT = 512;
        /// Relaxed ordering (optional: a device may ignore it).
        const RELAXED_ORDERING = 1 << 20;
    }
}

bitflags::bitflags! {
    /// Which fields of [`QpAttr`] a modify sets; the bits are those of `enum ibv_qp_attr_mask`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct QpAttrMask: u32 {
        /// The state to go to.
        const STATE = 1;
        /// The state it is assumed to be in.
        const CUR_STATE = 1 << 1;
        /// Whether draining raises an event.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// What the peer may do.
        const ACCESS_FLAGS = 1 << 3;
        /// Index into the P_Key table.
        const PKEY_INDEX = 1 << 4;
        /// The port.
        const PORT = 1 << 5;
        /// The Q_Key.
        const QKEY = 1 << 6;
        /// The primary path.
        const AV = 1 << 7;
        /// Largest payload of one packet.
        const PATH_MTU = 1 << 8;
        /// Local ACK timeout.
        const TIMEOUT = 1 << 9;
        /// Transport retries.
        const RETRY_CNT = 1 << 10;
        /// RNR retries.
        const RNR_RETRY = 1 << 11;
        /// PSN expected first.
        const RQ_PSN = 1 << 12;
        /// READs and atomics outstanding as requester (`max_rd_atomic`).
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// The alternate path.
        const ALT_PATH = 1 << 14;
        /// RNR NAK timer code.
        const MIN_RNR_TIMER = 1 << 15;
        /// PSN sent first.
        const SQ_PSN = 1 << 16;
        /// READs and atomics outstanding as responder.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Path migration state.
        const PATH_MIG_STATE = 1 << 18;
        /// Sizes of the work queues.
        const CAP = 1 << 19;
        /// The peer's QPN.
        const DEST_QPN = 1 << 20;
        /// Rate limit for packet pacing.
        const RATE_LIMIT = 1 << 25;
    }
}

/// Sizes of a QP's work queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCaps {
    /// Send WRs outstanding.
    pub max_send_wr: u32,
    /// Receive WRs outstanding.
    pub max_recv_wr: u32,
    /// Elements of a send WR's list.
    pub max_send_sge: u32,
    /// Elements of a receive WR's list.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
}

/// What a QP is created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInit {
    /// Service type.
    pub qp_type: QpType,
    /// Protection domain. A target has none, and nobody looks at it.
    pub pd: PdId,
    /// Where send completions go.
    pub send_cq: CqId,
    /// Where receive completions go.
    pub recv_cq: CqId,
    /// The domain whose SRQs it receives for: XRC_TGT, and no other.
    pub xrcd: Option<XrcdId>,
    /// The SRQ that it takes receive WQEs from, instead of a receive queue of its own: not XRC.
    pub srq: Option<Srqn>,
    /// Queue sizes; the owner of the rings enforces them.
    pub caps: QpCaps,
    /// Whether every send WR makes a completion.
    pub sq_sig_all: bool,
    /// Whether multicast packets that it sent itself are kept from it (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`); UD only.
    pub block_self_mcast: bool,
    /// The port's `active_mtu`, which bounds `path_mtu`.
    pub active_mtu: PathMtu,
}

impl QpInit {
    /// A QP with queues of no size and nothing special.
    pub fn new(qp_type: QpType, pd: PdId, send_cq: CqId, recv_cq: CqId, active_mtu: PathMtu) -> QpInit {
        QpInit {
            qp_type,
            pd,
            send_cq,
            recv_cq,
            xrcd: None,
            srq: None,
            caps: QpCaps::default(),
            sq_sig_all: false,
            block_self_mcast: false,
            active_mtu,
        }
    }
}

/// An address vector (`ibv_create_ah(3)`), with the path it resolved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressVector {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Index of the source GID.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Port number, from 1.
    pub port_num: u8,
    /// The IP level that these resolve to.
    pub path: Path,
}

/// Attributes of a QP (`ibv_modify_qp(3)`, `ibv_query_qp(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttr {
    /// State to go to; the state it is in, on query.
    pub qp_state: QpState,
    /// State it is assumed to be in.
    pub cur_qp_state: QpState,
    /// Largest payload of one packet.
    pub path_mtu: PathMtu,
    /// Path migration state as the verbs number it: MIGRATED 0, REARM 1, ARMED 2.
    pub path_mig_state: u32,
    /// Q_Key (datagram QPs).
    pub qkey: u32,
    /// PSN expected first; the one expected next, on query.
    pub rq_psn: Psn,
    /// PSN sent first; the one after the highest that was sent, on query.
    pub sq_psn: Psn,
    /// The peer's QPN.
    pub dest_qpn: Qpn,
    /// What the peer may do.
    pub access: AccessFlags,
    /// Primary path.
    pub av: Option<AddressVector>,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Raise SQ_DRAINED when the transition to SQD is over.
    pub en_sqd_async_notify: bool,
    /// Whether the send queue is draining (query only).
    pub sq_draining: bool,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: u8,
    /// READs and atomics outstanding as responder.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer code, 0 to 31.
    pub min_rnr_timer: u8,
    /// Port number, from 1.
    pub port_num: u8,
    /// Local ACK timeout: 4.096 µs · 2^timeout; 0 is infinite.
    pub timeout: u8,
    /// Transport retries, 0 to 7.
    pub retry_cnt: u8,
    /// RNR retries, 0 to 6; 7 is for ever.
    pub rnr_retry: u8,
}

impl Default for QpAttr {
    fn default() -> Self {
        QpAttr {
            qp_state: QpState::Reset,
            cur_qp_state: QpState::Reset,
            path_mtu: PathMtu::Mtu256,
            path_mig_state: 0,
            qkey: 0,
            rq_psn: Psn::default(),
            sq_psn: Psn::default(),
            dest_qpn: Qpn::default(),
            access: AccessFlags::default(),
            av: None,
            pkey_index: 0,
            en_sqd_async_notify: false,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port_num: 1,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
        }
    }
}

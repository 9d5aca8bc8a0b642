//! The verbs, one call for each, as every backend answers them.
//!
//! Objects are handles: small numbers that mean something to the fabric which gave them out. What a backend calls
//! its objects by is its own affair.

use ferroce_core::{
    AccessFlags, MwBind, MwType, QpAttr, QpAttrMask, QpCaps, QpType, RecvWr, SendFlags, SendOp, Sge, Srqn, Wc,
};
use ferroce_wire::Qpn;
use smallvec::SmallVec;
use std::fmt;
use thiserror::Error;

pub use ferroce::{AhAttr, AsyncEventKind, Gid};

/// One of a fabric's endpoints, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Endpoint(pub usize);

/// Declares the handles.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
            pub struct $name {
                /// Where it is.
                pub at: Endpoint,
                /// Its number among its kind there.
                pub number: usize,
            }
        )*
    };
}

handles! {
    /// A protection domain.
    Pd;
    /// A completion queue.
    Cq;
    /// A queue pair.
    Qp;
    /// An address handle.
    Ah;
    /// A shared receive queue.
    Srq;
    /// An XRC domain.
    Xrcd;
}

/// A memory region and its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mr {
    /// Where it is.
    pub at: Endpoint,
    /// Its number among the regions there.
    pub number: usize,
    /// Its local key.
    pub lkey: u32,
    /// Its remote key.
    pub rkey: u32,
}

/// A memory window, and the R_Key that it was made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mw {
    /// Where it is.
    pub at: Endpoint,
    /// Its number among the windows there.
    pub number: usize,
    /// Its first R_Key.
    pub rkey: u32,
}

/// Memory to register (`ibv_reg_mr_iova(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrSpec {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// What the key's users call the first address.
    pub iova: u64,
    /// Rights.
    pub access: AccessFlags,
}

/// What to change of a region (`ibv_rereg_mr(3)`); the rest stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MrChange {
    /// Another protection domain.
    pub pd: Option<Pd>,
    /// Other memory: its address, which its users call it by, and its bytes.
    pub memory: Option<(u64, u64)>,
    /// Other rights.
    pub access: Option<AccessFlags>,
}

/// What a QP is made with (`ibv_create_qp(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// Service type.
    pub qp_type: QpType,
    /// Where send completions go.
    pub send_cq: Cq,
    /// Where receive completions go.
    pub recv_cq: Cq,
    /// Where receive work requests come from, instead of a receive queue of its own.
    pub srq: Option<Srq>,
    /// Sizes of the work queues.
    pub caps: QpCaps,
    /// Whether every send WR makes a completion.
    pub sq_sig_all: bool,
}

/// What an SRQ is made with (`ibv_create_srq_ex(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqSpec {
    /// Work requests it holds at most.
    pub max_wr: u32,
    /// Elements of a work request's list.
    pub max_sge: u32,
    /// What makes it an XRC SRQ: its domain, and where its work requests complete.
    pub xrc: Option<(Xrcd, Cq)>,
}

/// What an SRQ is (`ibv_query_srq(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are ibv_query_srq(3)'s own")]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// A send work request (`ibv_post_send(3)`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// The consumer's number.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Its flags; INLINE follows from `data`.
    pub flags: SendFlags,
    /// The local side's data.
    pub data: Data,
    /// Whom it is for.
    pub to: To,
}

/// What a send work request sends, or where an answer goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// A list.
    Sges(SmallVec<[Sge; 2]>),
    /// Bytes that are copied when they are posted.
    Inline(Vec<u8>),
}

/// Whom a send work request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// The QP's peer.
    Peer,
    /// Anybody, on a UD QP.
    Datagram(Datagram),
    /// An SRQ behind the QP's peer, on an XRC initiator.
    Srq(Srqn),
}

/// Whom a datagram is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Where it is.
    pub ah: Ah,
    /// Its QPN.
    pub qpn: Qpn,
    /// Its Q_Key.
    pub qkey: u32,
}

/// What the device allows (`ibv_query_device(3)`), as far as cases ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are ibv_query_device(3)'s own")]
pub struct DeviceLimits {
    pub max_qp_wr: u32,
    pub max_sge: u32,
    pub max_cqe: u32,
    pub max_srq_wr: u32,
    pub max_qp_rd_atom: u8,
    pub max_msg_sz: u32,
}

/// An asynchronous event (`ibv_get_async_event(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: AsyncEventKind,
    /// The number of the QP, CQ or SRQ that it is about.
    pub number: usize,
}

/// Why a call was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{errno}: {reason}")]
pub struct Refused {
    /// What kind of refusal it is.
    pub errno: Errno,
    /// The sentence that goes with it, for people.
    pub reason: String,
}

/// Why a list of work requests was not posted to its end.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("work request {index}: {refused}")]
pub struct PostRefused {
    /// The first that was not posted (`bad_wr`), counted from 0.
    pub index: usize,
    /// Why.
    pub refused: Refused,
}

/// The errors that verbs return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are errno(3)'s own")]
pub enum Errno {
    EINVAL,
    ENOMEM,
    EFAULT,
    EBUSY,
    EOPNOTSUPP,
    ENODATA,
    EIO,
    /// Another one.
    Other(i32),
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Errno::Other(number) => write!(f, "errno {number}"),
            named => write!(f, "{named:?}"),
        }
    }
}

/// The CQ was overrun (`ibv_poll_cq(3)` returns a negative number).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the CQ was overrun")]
pub struct CqOverrun;

/// The verbs of all endpoints of a fabric.
///
/// The calls never wait; [`crate::Fabric::wait`] lets things happen. What a man page says of a call holds here.
#[expect(missing_docs, reason = "each call is the verb of its name")]
pub trait Verbs {
    fn query_device(&mut self, at: Endpoint) -> DeviceLimits;
    /// The largest path MTU of the port.
    fn active_mtu(&mut self, at: Endpoint) -> ferroce_core::PathMtu;
    /// A zero GID where the table is empty.
    fn query_gid(&mut self, at: Endpoint, index: u32) -> Result<Gid, Refused>;

    /// Bytes of an endpoint's memory, zero and aligned to a page; they stay until the fabric is closed.
    fn alloc(&mut self, at: Endpoint, len: usize) -> u64;
    /// Writes to memory that [`Verbs::alloc`] gave.
    fn write_memory(&mut self, at: Endpoint, addr: u64, bytes: &[u8]);
    /// Reads from memory that [`Verbs::alloc`] gave.
    fn read_memory(&mut self, at: Endpoint, addr: u64, len: usize) -> Vec<u8>;

    fn alloc_pd(&mut self, at: Endpoint) -> Result<Pd, Refused>;
    fn dealloc_pd(&mut self, pd: Pd) -> Result<(), Refused>;
    fn reg_mr(&mut self, pd: Pd, spec: &MrSpec) -> Result<Mr, Refused>;
    fn dereg_mr(&mut self, mr: Mr) -> Result<(), Refused>;
    fn rereg_mr(&mut self, mr: Mr, change: &MrChange) -> Result<(), Refused>;
    fn alloc_null_mr(&mut self, pd: Pd) -> Result<Mr, Refused>;

    fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Result<Mw, Refused>;
    /// Posts the bind of a type 1 window; the R_Key that this gives it. Type 2 windows are bound by [`SendOp::BindMw`].
    fn bind_mw(
        &mut self,
        qp: Qp,
        mw: Mw,
        wr_id: u64,
        flags: SendFlags,
        bind: MwBind,
    ) -> Result<u32, PostRefused>;
    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), Refused>;

    fn create_cq(&mut self, at: Endpoint, cqe: u32) -> Result<Cq, Refused>;
    fn resize_cq(&mut self, cq: Cq, cqe: u32) -> Result<(), Refused>;
    fn destroy_cq(&mut self, cq: Cq) -> Result<(), Refused>;
    fn poll_cq(&mut self, cq: Cq, max: usize) -> Result<Vec<Wc>, CqOverrun>;
    fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), Refused>;
    /// Takes and acknowledges an event of the CQ's completion channel, if there is one.
    fn take_cq_event(&mut self, cq: Cq) -> bool;

    fn create_qp(&mut self, pd: Pd, spec: &QpSpec) -> Result<Qp, Refused>;
    /// An XRC target, which belongs to a domain and to no PD (`ibv_create_qp_ex(3)`).
    fn create_xrc_target(&mut self, xrcd: Xrcd) -> Result<Qp, Refused>;
    /// `attr.av` is not looked at: where `mask` has AV, it is `ah`.
    fn modify_qp(
        &mut self,
        qp: Qp,
        attr: &QpAttr,
        ah: Option<&AhAttr>,
        mask: QpAttrMask,
    ) -> Result<(), Refused>;
    fn query_qp(&mut self, qp: Qp) -> Result<QpAttr, Refused>;
    fn destroy_qp(&mut self, qp: Qp) -> Result<(), Refused>;
    fn qpn(&mut self, qp: Qp) -> Qpn;
    fn post_send(&mut self, qp: Qp, wrs: Vec<SendWr>) -> Result<(), PostRefused>;
    fn post_recv(&mut self, qp: Qp, wrs: Vec<RecvWr>) -> Result<(), PostRefused>;

    fn create_srq(&mut self, pd: Pd, spec: &SrqSpec) -> Result<Srq, Refused>;
    /// The number that requests to XRC targets name.
    fn srqn(&mut self, srq: Srq) -> Srqn;
    fn query_srq(&mut self, srq: Srq) -> Result<SrqAttr, Refused>;
    fn modify_srq(&mut self, srq: Srq, max_wr: Option<u32>, srq_limit: Option<u32>) -> Result<(), Refused>;
    fn destroy_srq(&mut self, srq: Srq) -> Result<(), Refused>;
    fn post_srq_recv(&mut self, srq: Srq, wrs: Vec<RecvWr>) -> Result<(), PostRefused>;
    /// A domain without a file.
    fn open_xrcd(&mut self, at: Endpoint) -> Result<Xrcd, Refused>;
    fn close_xrcd(&mut self, xrcd: Xrcd) -> Result<(), Refused>;

    fn create_ah(&mut self, pd: Pd, attr: &AhAttr) -> Result<Ah, Refused>;
    fn attach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused>;
    fn detach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), Refused>;

    /// Takes and acknowledges an asynchronous event, if there is one.
    fn take_async_event(&mut self, at: Endpoint) -> Option<AsyncEvent>;
}

//! Completions, as an application polls them.

use crate::Srqn;
use ferroce_wire::Qpn;

/// The caller's name for a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub u32);

/// Which work queue a completion belongs to: one of the QP's, or an SRQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Recv,
    /// An SRQ.
    Srq(Srqn),
}

/// A completion on its way to a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The queue it goes to.
    pub cq: CqId,
    /// The work queue it comes from.
    pub queue: Queue,
    /// How many work requests of that work queue it retires: itself and the unsignaled ones before it.
    /// The queue's room comes back when the completion is polled, as on a card.
    pub retires: u32,
    /// Whether a CQ armed for solicited events only fires on it (IBTA 11.4.2.2): the SE bit, or an error.
    pub solicited: bool,
    /// What the application sees.
    pub wc: Wc,
}

/// A work completion (`ibv_poll_cq(3)`).
///
/// When `status` is not [`WcStatus::Success`] only `wr_id`, `status`, `vendor_err` and `qpn` mean anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wc {
    /// The work request's number.
    pub wr_id: u64,
    /// How it went.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// A reason code of ours behind an error; 0 without one.
    pub vendor_err: u32,
    /// Bytes received, or read, or 8 for an atomic.
    pub byte_len: u32,
    /// Immediate data as on the wire (big-endian), or the invalidated R_Key, as `flags` say.
    pub imm: [u8; 4],
    /// The R_Key that was invalidated, when `flags` has [`WcFlags::WITH_INV`].
    pub invalidated_rkey: u32,
    /// The local QP.
    pub qpn: Qpn,
    /// The remote QP (datagrams only).
    pub src_qp: Qpn,
    /// Which fields are valid.
    pub flags: WcFlags,
}

bitflags::bitflags! {
    /// Which optional fields of a completion hold something; the bits are those of `enum ibv_wc_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct WcFlags: u32 {
        /// A GRH (or an IP header) is in the first 40 bytes of the buffer.
        const GRH = 1;
        /// `imm` holds immediate data.
        const WITH_IMM = 2;
        /// `invalidated_rkey` holds the key that was invalidated.
        const WITH_INV = 8;
    }
}

/// Status of a completion; the values are those of `enum ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are ibv_wc_status(3)'s own")]
pub enum WcStatus {
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocEecOpErr = 3,
    LocProtErr = 4,
    WrFlushErr = 5,
    MwBindErr = 6,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    LocRddViolErr = 14,
    RemInvRdReqErr = 15,
    RemAbortErr = 16,
    InvEecnErr = 17,
    InvEecStateErr = 18,
    FatalErr = 19,
    RespTimeoutErr = 20,
    GeneralErr = 21,
}

/// Opcode of a completion; the values are those of `enum ibv_wc_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are ibv_poll_cq(3)'s own")]
pub enum WcOpcode {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompSwap = 3,
    FetchAdd = 4,
    BindMw = 5,
    LocalInv = 6,
    Flush = 8,
    AtomicWrite = 9,
    Recv = 128,
    RecvRdmaWithImm = 129,
}

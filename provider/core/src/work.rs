//! Work requests, as an application posts them.

use crate::request::opcode;
use crate::{AddressVector, MwBind, PdId, QpType, Srqn};
use ferroce_wire::{Position, Qpn};
use smallvec::SmallVec;
use std::sync::Arc;

bitflags::bitflags! {
    /// Flags of a send work request (`ibv_post_send(3)`); the bits are those of `enum ibv_send_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SendFlags: u32 {
        /// Wait for all READs, atomics, FLUSHes and atomic writes before it (IBTA 10.8.3.3).
        const FENCE = 1;
        /// Make a completion when it succeeds.
        const SIGNALED = 2;
        /// Set the solicited event bit in the last packet.
        const SOLICITED = 4;
        /// The data was copied when the request was posted.
        const INLINE = 8;
        /// Offload of IP checksums; means nothing on RoCE and is accepted only on UD and raw packet QPs.
        const IP_CSUM = 16;
    }
}

/// A piece of local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Virtual address in the region's address space (its iova).
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// What a send work request sends, or where the answer of a READ or an atomic goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Scatter/gather elements, read (or written) when the packets are made (or arrive).
    Sges(SmallVec<[Sge; 2]>),
    /// Bytes copied when the request was posted.
    Inline(SmallVec<[u8; 40]>),
}

/// The operation of a send work request.
///
/// `va` is the remote virtual address and `rkey` the key that covers it (or the key to invalidate or to bind); `imm` is
/// immediate data as it stands on the wire, big-endian; `compare`, `swap` and `add` are in host byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are documented once, above")]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm { imm: [u8; 4] },
    /// SEND with invalidate.
    SendInv { rkey: u32 },
    /// RDMA WRITE.
    Write { va: u64, rkey: u32 },
    /// RDMA WRITE with immediate.
    WriteImm { va: u64, rkey: u32, imm: [u8; 4] },
    /// RDMA READ.
    Read { va: u64, rkey: u32 },
    /// 64-bit compare and swap.
    CompareSwap { va: u64, rkey: u32, compare: u64, swap: u64 },
    /// 64-bit fetch and add.
    FetchAdd { va: u64, rkey: u32, add: u64 },
    /// RDMA FLUSH of what earlier requests of the connection wrote (Annex A19).
    Flush { va: u64, rkey: u32, flush: Flush },
    /// Atomic write of the payload's 8 bytes to an aligned address (Annex A19).
    AtomicWrite { va: u64, rkey: u32 },
    /// Invalidate a local key.
    LocalInv { rkey: u32 },
    /// Bind the memory window whose number `rkey` has, and give it this R_Key.
    BindMw { rkey: u32, bind: MwBind },
}

/// What a FLUSH is to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flush {
    /// How far; at least one.
    pub placement: FlushPlacement,
    /// Bytes from the address on; `None`: all that the key covers.
    pub length: Option<u32>,
}

bitflags::bitflags! {
    /// How far a FLUSH pushes data; the bits are those of `enum ibv_placement_type`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlushPlacement: u8 {
        /// Everyone on the responder's host sees it.
        const GLOBAL = 1;
        /// It survives a loss of power.
        const PERSISTENT = 2;
    }
}

impl SendOp {
    /// What people call it.
    pub const fn name(&self) -> &'static str {
        match self {
            SendOp::Send => "SEND",
            SendOp::SendImm { .. } => "SEND with immediate",
            SendOp::SendInv { .. } => "SEND with invalidate",
            SendOp::Write { .. } => "RDMA WRITE",
            SendOp::WriteImm { .. } => "RDMA WRITE with immediate",
            SendOp::Read { .. } => "RDMA READ",
            SendOp::CompareSwap { .. } => "compare and swap",
            SendOp::FetchAdd { .. } => "fetch and add",
            SendOp::Flush { .. } => "RDMA FLUSH",
            SendOp::AtomicWrite { .. } => "atomic write",
            SendOp::LocalInv { .. } => "local invalidate",
            SendOp::BindMw { .. } => "bind memory window",
        }
    }

    /// Whether it is done on this side alone and sends nothing.
    pub const fn is_local(&self) -> bool {
        matches!(self, SendOp::LocalInv { .. } | SendOp::BindMw { .. })
    }

    /// Whether QPs of `qp_type` do it (ibv_post_send(3)).
    ///
    /// On UC the man page also has SEND with invalidate, for which the service has no opcode (IBTA 9.2, table 35).
    pub fn is_sent_by(&self, qp_type: QpType) -> bool {
        match (qp_type, self) {
            (QpType::XrcTgt, _) => false,
            (_, op) if op.is_local() => qp_type != QpType::Ud,
            _ => opcode(self, Position::Only).in_service(qp_type.service()).is_some(),
        }
    }
}

/// Whom a send work request is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Remote {
    /// The QP's peer, on a connected QP.
    #[default]
    Peer,
    /// An SRQ behind the QP's peer, on an XRC initiator.
    Srq(Srqn),
    /// A UD QP.
    Datagram {
        /// The address handle: where it is.
        ah: Arc<AddressVector>,
        /// The protection domain of the address handle, which must be the QP's.
        pd: PdId,
        /// Its number; [`Qpn::MULTICAST`] with the address of a group.
        qpn: Qpn,
        /// Its Q_Key; with the top bit set, the sending QP's own is sent (IBTA 10.2.5).
        qkey: u32,
        /// UDP source port, which the address handle alone does not settle.
        source_port: u16,
        /// As in [`Path::receiver`](crate::Path::receiver).
        receiver: Option<u8>,
    },
}

/// A send work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendWr {
    /// The consumer's own number, handed back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Its flags.
    pub flags: SendFlags,
    /// The local side's data.
    pub payload: Payload,
    /// Whom it is for.
    pub remote: Remote,
}

/// A receive work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// The consumer's own number, handed back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: SmallVec<[Sge; 2]>,
}

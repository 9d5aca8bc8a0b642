//! Request packets: how a WQE's message is cut into them, and what is in each.
//!
//! Opcodes are RC's; [`Context::header`] makes them those of the QP's service.

use crate::context::Context;
use crate::fault::{RequesterFault, SgeFault};
use crate::gather::gather;
use crate::send_queue::Wqe;
use crate::{Flush, FlushPlacement, Memory, Payload, Remote, SendFlags, SendOp};
use ferroce_wire::{Feth, FlushSelectivity, Opcode, PacketHeader, Position, Psn, Qpn};

/// One request packet of a WQE.
pub(crate) struct Shape {
    pub(crate) opcode: Opcode,
    /// Where in the message it begins.
    pub(crate) offset: u64,
    pub(crate) payload_len: u32,
    /// PSNs it takes.
    pub(crate) psns: u32,
    /// Whether it is the WQE's last.
    pub(crate) ends: bool,
}

impl Shape {
    /// The packet of a begun `wqe` with the PSN `psn`.
    pub(crate) fn of(wqe: &Wqe, psn: Psn, mtu: u32) -> Shape {
        // `psn` lies in the WQE, so neither difference is negative.
        let index = psn.distance_from(wqe.first_psn) as u32;
        let left = wqe.psns - index;
        let offset = u64::from(index) * u64::from(mtu);
        if wqe.is_read() {
            return Shape { opcode: Opcode::RC_READ_REQUEST, offset, payload_len: 0, psns: left, ends: true };
        }
        let ends = left == 1;
        let position = match (index == 0, ends) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        let is_empty = wqe.is_atomic() || wqe.is_flush();
        let payload_len = if is_empty { 0 } else { (wqe.length - offset).min(u64::from(mtu)) as u32 };
        Shape { opcode: opcode(&wqe.wr.op, position), offset, payload_len, psns: 1, ends }
    }

    /// Its headers. The opcode decides which of them it has.
    pub(crate) fn header(&self, ctx: &Context<'_>, dest: Qpn, wqe: &Wqe, psn: Psn) -> PacketHeader {
        let header = ctx
            .header(self.opcode, dest, psn)
            .xrceth(srqn(wqe))
            .solicited(self.ends && self.is_solicitable() && wqe.wr.flags.contains(SendFlags::SOLICITED));
        match wqe.wr.op {
            SendOp::Send | SendOp::LocalInv { .. } | SendOp::BindMw { .. } => header,
            SendOp::SendImm { imm } => header.imm(imm),
            SendOp::SendInv { rkey } => header.ieth(rkey),
            SendOp::Write { va, rkey } => header.reth(va, rkey, wqe.length as u32),
            SendOp::WriteImm { va, rkey, imm } => header.reth(va, rkey, wqe.length as u32).imm(imm),
            // A READ that is resumed asks for the rest only.
            SendOp::Read { va, rkey } => {
                header.reth(va.wrapping_add(self.offset), rkey, (wqe.length - self.offset) as u32)
            }
            SendOp::Flush { va, rkey, flush: Flush { placement, length } } => {
                let [global, persistent] =
                    [FlushPlacement::GLOBAL, FlushPlacement::PERSISTENT].map(|kind| placement.contains(kind));
                let selectivity = match length {
                    Some(_) => FlushSelectivity::Range,
                    None => FlushSelectivity::MemoryRegion,
                };
                let feth = Feth::new(selectivity, global, persistent);
                header.feth(feth).reth(va, rkey, length.unwrap_or(0))
            }
            SendOp::AtomicWrite { va, rkey } => header.reth(va, rkey, wqe.length as u32),
            SendOp::CompareSwap { va, rkey, compare, swap } => header.atomic_eth(va, rkey, swap, compare),
            SendOp::FetchAdd { va, rkey, add } => header.atomic_eth(va, rkey, add, 0),
        }
    }

    /// Its payload: copies it into `room`.
    pub(crate) fn fill(
        &self,
        ctx: &Context<'_>,
        wqe: &Wqe,
        room: &mut [u8],
        memory: &impl Memory,
    ) -> Result<(), SgeFault> {
        match &wqe.wr.payload {
            _ if room.is_empty() => Ok(()),
            Payload::Sges(sges) => gather(ctx.local(sges), self.offset, room, memory),
            Payload::Inline(bytes) => {
                // The length of the WQE is the length of these bytes.
                let start = self.offset as usize;
                room.copy_from_slice(&bytes[start..start + room.len()]);
                Ok(())
            }
        }
    }

    /// SE belongs to messages that consume a receive WQE.
    fn is_solicitable(&self) -> bool {
        self.opcode.has_imm() || self.opcode.operation() == ferroce_wire::Operation::Send
    }
}

/// The SRQ that an XRC request names.
fn srqn(wqe: &Wqe) -> u32 {
    match wqe.wr.remote {
        Remote::Srq(srqn) => srqn.value(),
        _ => 0,
    }
}

/// The opcode of an operation's packet.
pub(crate) fn opcode(op: &SendOp, position: Position) -> Opcode {
    let [first, middle, last, only] = match op {
        SendOp::Send | SendOp::LocalInv { .. } | SendOp::BindMw { .. } => {
            [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST, Opcode::RC_SEND_ONLY]
        }
        SendOp::SendImm { .. } => [
            Opcode::RC_SEND_FIRST,
            Opcode::RC_SEND_MIDDLE,
            Opcode::RC_SEND_LAST_IMM,
            Opcode::RC_SEND_ONLY_IMM,
        ],
        SendOp::SendInv { .. } => [
            Opcode::RC_SEND_FIRST,
            Opcode::RC_SEND_MIDDLE,
            Opcode::RC_SEND_LAST_INV,
            Opcode::RC_SEND_ONLY_INV,
        ],
        SendOp::Write { .. } => {
            [Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST, Opcode::RC_WRITE_ONLY]
        }
        SendOp::WriteImm { .. } => [
            Opcode::RC_WRITE_FIRST,
            Opcode::RC_WRITE_MIDDLE,
            Opcode::RC_WRITE_LAST_IMM,
            Opcode::RC_WRITE_ONLY_IMM,
        ],
        SendOp::Read { .. } => [Opcode::RC_READ_REQUEST; 4],
        SendOp::Flush { .. } => [Opcode::RC_FLUSH; 4],
        SendOp::AtomicWrite { .. } => [Opcode::RC_ATOMIC_WRITE; 4],
        SendOp::CompareSwap { .. } => [Opcode::RC_COMPARE_SWAP; 4],
        SendOp::FetchAdd { .. } => [Opcode::RC_FETCH_ADD; 4],
    };
    match position {
        Position::First => first,
        Position::Middle => middle,
        Position::Last => last,
        Position::Only => only,
    }
}

/// Does what `op` is, if it sends nothing; whether that was so.
pub(crate) fn execute_local(ctx: &mut Context<'_>, op: &SendOp) -> Result<bool, RequesterFault> {
    match op {
        SendOp::LocalInv { rkey } => ctx.invalidate(ctx.init.pd, *rkey)?,
        SendOp::BindMw { rkey, bind } => ctx.shared.regions.bind(ctx.key_user(ctx.init.pd), *rkey, bind)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks a WQE's length; the PSNs it takes.
pub(crate) fn check_length(ctx: &Context<'_>, wqe: &Wqe) -> Result<u32, RequesterFault> {
    if wqe.is_flush() {
        return Ok(1);
    }
    if wqe.is_atomic() || matches!(wqe.wr.op, SendOp::AtomicWrite { .. }) {
        let length = wqe.length;
        return if length == 8 { Ok(1) } else { Err(RequesterFault::AtomicLength { length }) };
    }
    let max = ctx.shared.profile.max_message;
    if wqe.length > u64::from(max) {
        return Err(RequesterFault::TooLong { length: wqe.length, max });
    }
    Ok((wqe.length as u32).div_ceil(ctx.mtu()).max(1))
}

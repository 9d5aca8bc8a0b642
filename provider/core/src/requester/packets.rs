//! Request packets, one at a time: which one is next, whether it may go, and what is in it.

use super::Requester;
use super::queue::Wqe;
use crate::context::{Context, Sent};
use crate::counters::Counter;
use crate::fault::{RequesterFault, SgeFault};
use crate::gather::{check_readable, gather};
use crate::{Memory, Payload, QpState, SendFlags, SendOp, TransmitSink};
use ferroce_wire::{Opcode, PacketHeader, Position, Psn};

impl Requester {
    /// Sends the next request packet, if there is one and it may go.
    ///
    /// # Errors
    /// The oldest WQE cannot be done; the QP is to go to the error state.
    pub(crate) fn next_packet<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Result<Sent, RequesterFault> {
        if !self.may_send(ctx.attr.qp_state) {
            return Ok(Sent::Nothing);
        }
        // Each round but the last completes a LOCAL_INV, so the queue's length bounds them.
        while self.cursor == self.queue.begun() {
            match self.begin(ctx) {
                Ok(Begin::Begun) => break,
                Ok(Begin::Invalidated) => continue,
                Ok(Begin::Wait) => return Ok(Sent::Nothing),
                Err(fault) => return self.stall(fault),
            }
        }
        match self.send_packet(ctx, memory, sink) {
            Ok(sent) => Ok(sent),
            Err(fault) => self.stall(RequesterFault::Local(fault)),
        }
    }

    /// The WQE at the cursor cannot go on: it fails at once if it is the oldest, else when it has become that.
    fn stall(&mut self, fault: RequesterFault) -> Result<Sent, RequesterFault> {
        self.stalled = Some(fault);
        self.check_stalled()?;
        Ok(Sent::Nothing)
    }

    /// Whether the WQE that cannot go on has become the oldest.
    pub(super) fn check_stalled(&mut self) -> Result<(), RequesterFault> {
        if self.cursor != self.queue.head() {
            return Ok(());
        }
        match self.stalled.take() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Gives the next WQE its PSNs, if it may begin.
    fn begin(&mut self, ctx: &mut Context<'_>) -> Result<Begin, RequesterFault> {
        let sequence = self.queue.begun();
        let Some(wqe) = self.queue.get(sequence) else { return Ok(Begin::Wait) };
        // in SQD what was begun is finished and nothing more begun.
        if ctx.attr.qp_state != QpState::Rts {
            return Ok(Begin::Wait);
        }
        // a fence waits for READs and atomics alone.
        if wqe.wr.flags.contains(SendFlags::FENCE) && self.reads_outstanding > 0 {
            return Ok(Begin::Wait);
        }
        if let SendOp::LocalInv { rkey } = wqe.wr.op {
            return self.invalidate(ctx, rkey);
        }
        if wqe.is_read_or_atomic() {
            if ctx.attr.max_rd_atomic == 0 {
                return Err(RequesterFault::NoReadAtomic);
            }
            // at the limit the queue waits, and nothing overtakes.
            if self.reads_outstanding >= u32::from(ctx.attr.max_rd_atomic) {
                return Ok(Begin::Wait);
            }
        }
        let psns = check_length(ctx, wqe)?;
        if !self.has_psns(psns) {
            return Ok(Begin::Wait);
        }
        // A single packet finds out by itself; of several none may go if the last cannot.
        if let (Payload::Sges(sges), true) = (&wqe.wr.payload, psns > 1 && !wqe.is_read()) {
            check_readable(ctx.local(sges))?;
        }
        self.reads_outstanding += u32::from(wqe.is_read_or_atomic());
        let first_psn = self.next;
        if let Some(wqe) = self.queue.get_mut(sequence) {
            wqe.first_psn = first_psn;
            wqe.psns = psns;
        }
        self.queue.begin();
        Ok(Begin::Begun)
    }

    /// A LOCAL_INV is done when every WQE before it is complete, and sends nothing.
    fn invalidate(&mut self, ctx: &mut Context<'_>, rkey: u32) -> Result<Begin, RequesterFault> {
        if self.queue.begun() != self.queue.head() {
            return Ok(Begin::Wait);
        }
        ctx.shared.regions.invalidate(ctx.init.pd, rkey)?;
        self.complete_oldest(ctx);
        Ok(Begin::Invalidated)
    }

    /// Whether `count` PSNs more stay in the half of the circle that the responder takes for new.
    fn has_psns(&self, count: u32) -> bool {
        let outstanding = self.next.distance_from(self.unacked);
        i64::from(outstanding) + i64::from(count) <= MAX_OUTSTANDING_PSNS
    }

    /// Sends the packet of the WQE at the cursor that `next` names.
    fn send_packet<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Result<Sent, SgeFault> {
        let Some(wqe) = self.queue.get(self.cursor) else { return Ok(Sent::Nothing) };
        let counts = !wqe.is_read_or_atomic();
        if counts && self.in_flight >= self.window.size() {
            return Ok(Sent::Nothing);
        }
        let shape = Shape::of(wqe, self.next, ctx.mtu());
        let ack_req = shape.ends || self.must_ask(ctx);
        let header = shape.header(ctx, wqe, self.next).ack_req(ack_req);
        let sent = ctx.send(sink, &header, shape.payload_len, |ctx, room| match &wqe.wr.payload {
            _ if room.is_empty() => Ok(()),
            Payload::Sges(sges) => gather(ctx.local(sges), shape.offset, room, memory),
            Payload::Inline(bytes) => {
                // The length of the WQE is the length of these bytes.
                let start = shape.offset as usize;
                room.copy_from_slice(&bytes[start..start + room.len()]);
                Ok(())
            }
        })?;
        if let Sent::Packet(_) = sent {
            self.advance(ctx, &shape, ack_req, counts);
        }
        Ok(sent)
    }

    /// Whether a packet in the middle of a message must ask for an acknowledgement: several times in a
    /// window, lest the sender wait with a full window for an answer that nobody owes it.
    fn must_ask(&self, ctx: &Context<'_>) -> bool {
        let interval = (self.window.size() / ASKS_PER_WINDOW).min(ctx.shared.profile.ack_req_interval).max(1);
        self.since_ack_req + 1 >= interval || self.in_flight + 1 >= self.window.size()
    }

    /// The packet is on its way.
    fn advance(&mut self, ctx: &mut Context<'_>, shape: &Shape, ack_req: bool, counts: bool) {
        let repeated = self.next.is_before(self.high);
        self.next = self.next.plus(shape.psns);
        if self.next.is_after(self.high) {
            self.high = self.next;
        }
        if repeated {
            ctx.count(Counter::RetransmittedPackets);
            if let Some(wqe) = self.queue.get_mut(self.cursor) {
                wqe.repeated = true;
            }
        }
        self.in_flight += u32::from(counts);
        self.since_ack_req = if ack_req { 0 } else { self.since_ack_req + 1 };
        if shape.ends {
            self.cursor += 1;
        }
        self.restart_timer(ctx);
    }
}

/// What came of an attempt to begin a WQE.
enum Begin {
    /// It has PSNs.
    Begun,
    /// It was a LOCAL_INV and is complete.
    Invalidated,
    /// It has to wait for others.
    Wait,
}

/// One request packet of a WQE.
struct Shape {
    opcode: Opcode,
    /// Where in the message it begins.
    offset: u64,
    payload_len: u32,
    /// PSNs it takes.
    psns: u32,
    /// Whether it is the WQE's last.
    ends: bool,
}

impl Shape {
    /// The packet of a begun `wqe` with the PSN `psn`.
    fn of(wqe: &Wqe, psn: Psn, mtu: u32) -> Shape {
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
        let payload_len = if wqe.is_atomic() { 0 } else { (wqe.length - offset).min(u64::from(mtu)) as u32 };
        Shape { opcode: opcode(&wqe.wr.op, position), offset, payload_len, psns: 1, ends }
    }

    /// Its headers. The opcode decides which of them it has.
    fn header(&self, ctx: &Context<'_>, wqe: &Wqe, psn: Psn) -> PacketHeader {
        let header = ctx
            .header(self.opcode, psn)
            .solicited(self.ends && self.is_solicitable() && wqe.wr.flags.contains(SendFlags::SOLICITED));
        match wqe.wr.op {
            SendOp::Send | SendOp::LocalInv { .. } => header,
            SendOp::SendImm { imm } => header.imm(imm),
            SendOp::SendInv { rkey } => header.ieth(rkey),
            SendOp::Write { va, rkey } => header.reth(va, rkey, wqe.length as u32),
            SendOp::WriteImm { va, rkey, imm } => header.reth(va, rkey, wqe.length as u32).imm(imm),
            // A READ that is resumed asks for the rest only.
            SendOp::Read { va, rkey } => {
                header.reth(va.wrapping_add(self.offset), rkey, (wqe.length - self.offset) as u32)
            }
            SendOp::CompareSwap { va, rkey, compare, swap } => header.atomic_eth(va, rkey, swap, compare),
            SendOp::FetchAdd { va, rkey, add } => header.atomic_eth(va, rkey, add, 0),
        }
    }

    /// SE belongs to messages that consume a receive WQE.
    fn is_solicitable(&self) -> bool {
        self.opcode.has_imm() || self.opcode.operation() == ferroce_wire::Operation::Send
    }
}

/// The opcode of an operation's packet.
fn opcode(op: &SendOp, position: Position) -> Opcode {
    let [first, middle, last, only] = match op {
        SendOp::Send | SendOp::LocalInv { .. } => {
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

/// Checks a WQE's length; the PSNs it takes.
fn check_length(ctx: &Context<'_>, wqe: &Wqe) -> Result<u32, RequesterFault> {
    if wqe.is_atomic() {
        let length = wqe.length;
        return if length == 8 { Ok(1) } else { Err(RequesterFault::AtomicLength { length }) };
    }
    let max = ctx.shared.profile.max_message;
    if wqe.length > u64::from(max) {
        return Err(RequesterFault::TooLong { length: wqe.length, max });
    }
    Ok((wqe.length as u32).div_ceil(ctx.mtu()).max(1))
}

/// Half the circle, less one.
const MAX_OUTSTANDING_PSNS: i64 = (Psn::MODULUS / 2 - 1) as i64;

/// How often in a window an acknowledgement is asked for.
const ASKS_PER_WINDOW: u32 = 4;

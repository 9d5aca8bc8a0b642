//! Request packets, one at a time: which one is next, whether it may go, and what is in it.

use super::Requester;
use super::repair::MAX_IN_FLIGHT;
use crate::context::{Context, Sent};
use crate::counters::Counter;
use crate::fault::{RequesterFault, SgeFault};
use crate::gather::check_readable;
use crate::request::{Shape, check_length, execute_local};
use crate::xrc::check_send;
use crate::{Memory, Payload, QpState, SendFlags, SendOp, TransmitSink};
use ferroce_wire::Psn;

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
        if let Some(sent) = self.send_lost(ctx, memory, sink) {
            return Ok(sent);
        }
        if !self.may_go_on() {
            return Ok(Sent::Nothing);
        }
        // Each round but the last completes a WQE that sends nothing, so the queue's length bounds them.
        while self.cursor == self.queue.begun() {
            match self.begin(ctx) {
                Ok(Begin::Begun) => break,
                Ok(Begin::Done) => continue,
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
        // a fence waits for what has responses of its own, and for nothing else.
        if wqe.wr.flags.contains(SendFlags::FENCE) && self.reads_outstanding > 0 {
            return Ok(Begin::Wait);
        }
        check_send(ctx, wqe)?;
        if wqe.wr.op.is_local() {
            let op = wqe.wr.op;
            return self.execute(ctx, &op);
        }
        if wqe.has_response() {
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
        self.reads_outstanding += u32::from(wqe.has_response());
        let first_psn = self.next;
        if let Some(wqe) = self.queue.get_mut(sequence) {
            wqe.first_psn = first_psn;
            wqe.psns = psns;
        }
        self.queue.begin();
        Ok(Begin::Begun)
    }

    /// What sends nothing is done when every WQE before it is complete.
    fn execute(&mut self, ctx: &mut Context<'_>, op: &SendOp) -> Result<Begin, RequesterFault> {
        if self.queue.begun() != self.queue.head() {
            return Ok(Begin::Wait);
        }
        execute_local(ctx, op)?;
        self.complete_oldest(ctx);
        Ok(Begin::Done)
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
        let counts = !wqe.has_response();
        if counts && (self.on_their_way() >= self.window.size() || self.has_filled_span()) {
            return Ok(Sent::Nothing);
        }
        let shape = Shape::of(wqe, self.next, ctx.mtu());
        let ack_req = self.asks(ctx, wqe, shape.ends);
        let header = shape.header(ctx, ctx.attr.dest_qpn, wqe, self.next).ack_req(ack_req);
        let sent =
            ctx.send(sink, &header, shape.payload_len, |ctx, room| shape.fill(ctx, wqe, room, memory))?;
        if let Sent::Packet(_) = sent {
            self.advance(ctx, &shape, ack_req, counts);
        }
        Ok(sent)
    }

    /// Whether the responder might not be able to keep one packet more behind a gap.
    fn has_filled_span(&self) -> bool {
        self.repair.is_some() && self.in_flight >= MAX_IN_FLIGHT
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
    /// It sends nothing and is complete.
    Done,
    /// It has to wait for others.
    Wait,
}

/// Half the circle, less one.
const MAX_OUTSTANDING_PSNS: i64 = (Psn::MODULUS / 2 - 1) as i64;

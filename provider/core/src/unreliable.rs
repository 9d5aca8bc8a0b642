//! The requester of the unreliable services: each packet is sent once, nothing is waited for, and a WQE is complete
//! when its last packet has left.

use crate::context::{Context, Sent};
use crate::fault::RequesterFault;
use crate::gather::check_readable;
use crate::request::{Shape, execute_local};
use crate::send_queue::{SendQueue, Wqe};
use crate::{Memory, Path, Payload, QpAttr, QpState, SendWr, TransmitSink};
use ferroce_wire::{Psn, Qpn};

/// What an unreliable service does in its own way when it sends.
pub(crate) trait Unreliable: Default + std::fmt::Debug {
    /// Checks a WQE that is to begin; the packets it takes.
    fn check(ctx: &Context<'_>, wqe: &Wqe) -> Result<u32, RequesterFault>;

    /// Most payload bytes of a packet.
    fn mtu(ctx: &Context<'_>) -> u32;

    /// Where the packets of a WQE that was checked go.
    fn destination(&mut self, ctx: &Context<'_>, wqe: &Wqe) -> Option<Destination>;
}

/// Where a packet goes.
pub(crate) struct Destination {
    pub(crate) path: Path,
    pub(crate) qpn: Qpn,
    /// What its DETH says, where it has one.
    pub(crate) qkey: u32,
}

/// The sending half of a QP of the service `S`.
#[derive(Default, Debug)]
pub(crate) struct Requester<S> {
    queue: SendQueue,
    /// The PSN sent next.
    next: Psn,
    service: S,
}

impl<S: Unreliable> Requester<S> {
    /// RTR→RTS: messages may be sent, from `sq_psn` on.
    pub(crate) fn start(&mut self, attr: &QpAttr) {
        self.next = attr.sq_psn;
    }

    /// The PSN of the next packet.
    pub(crate) fn next_psn(&self) -> Psn {
        self.next
    }

    /// What its service keeps of what was sent.
    pub(crate) fn service(&self) -> &S {
        &self.service
    }

    /// Takes a send WR. In the states that flush, the caller flushes next.
    pub(crate) fn post(&mut self, wr: SendWr) {
        self.queue.push(wr);
    }

    /// Whether there is something to send.
    pub(crate) fn may_send(&self, state: QpState) -> bool {
        match state {
            QpState::Rts => self.queue.head() < self.queue.tail(),
            // what was begun is finished and nothing more begun.
            QpState::Sqd => !self.is_drained(),
            _ => false,
        }
    }

    /// The number of the WR that has `psn` among its PSNs.
    pub(crate) fn wr_at(&self, psn: Psn) -> Option<u64> {
        self.queue.holder(psn).map(|wqe| wqe.wr.wr_id)
    }

    /// Whether every WQE that was begun is complete.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.head() == self.queue.begun()
    }

    /// Sends the next packet, if there is one.
    ///
    /// # Errors
    /// The oldest WQE cannot be done; the QP is to go to SQE.
    pub(crate) fn next_packet<T: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut T,
    ) -> Result<Sent, RequesterFault> {
        // Each round but the last completes a WQE that sends nothing, so the queue's length bounds them.
        while self.may_send(ctx.attr.qp_state) {
            if self.is_drained() && self.begin(ctx)? == Begin::Done {
                continue;
            }
            return self.send_packet(ctx, memory, sink);
        }
        Ok(Sent::Nothing)
    }

    /// Gives the oldest WQE its PSNs, or does what needs no packet.
    fn begin(&mut self, ctx: &mut Context<'_>) -> Result<Begin, RequesterFault> {
        let Some(wqe) = self.queue.get_mut(self.queue.head()) else { return Ok(Begin::Done) };
        if !wqe.wr.op.is_sent_by(ctx.init.qp_type) {
            return Err(RequesterFault::NotInService { op: wqe.wr.op.name(), qp_type: ctx.init.qp_type });
        }
        if execute_local(ctx, &wqe.wr.op)? {
            self.complete_oldest(ctx);
            return Ok(Begin::Done);
        }
        wqe.psns = S::check(ctx, wqe)?;
        wqe.first_psn = self.next;
        // A single packet finds out by itself; of several none may go if the last cannot.
        if let (Payload::Sges(sges), true) = (&wqe.wr.payload, wqe.psns > 1) {
            check_readable(ctx.local(sges))?;
        }
        self.queue.begin();
        Ok(Begin::Begun)
    }

    /// Sends the packet of the oldest WQE that `next` names.
    fn send_packet<T: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut T,
    ) -> Result<Sent, RequesterFault> {
        let Some(wqe) = self.queue.oldest_begun() else { return Ok(Sent::Nothing) };
        let shape = Shape::of(wqe, self.next, S::mtu(ctx));
        let Some(to) = self.service.destination(ctx, wqe) else { return Ok(Sent::Nothing) };
        let header = shape.header(ctx, to.qpn, wqe, self.next).deth(to.qkey, ctx.qpn);
        let sent = ctx.send_on(&to.path, sink, &header, shape.payload_len, |ctx, room| {
            shape.fill(ctx, wqe, room, memory)
        })?;
        if let Sent::Packet(_) = sent {
            self.next = self.next.plus(1);
            if shape.ends {
                self.complete_oldest(ctx);
            }
        }
        Ok(sent)
    }

    fn complete_oldest(&mut self, ctx: &mut Context<'_>) {
        self.queue.complete_oldest(ctx);
        self.queue.rest(ctx);
    }

    /// The oldest WQE fails.
    pub(crate) fn fail_oldest(&mut self, ctx: &mut Context<'_>, fault: RequesterFault) {
        self.queue.fail_oldest(ctx, fault.status(), fault.code());
    }

    /// Flushes what is left.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.queue.flush(ctx);
        ctx.clear_deadline();
    }

    /// Empties the queue without completions (S-5).
    pub(crate) fn reset(&mut self, ctx: &mut Context<'_>) {
        *self = Requester::default();
        ctx.clear_deadline();
    }

    /// The QP's deadline has come, which is that of a long rest.
    pub(crate) fn handle_deadline(&mut self) {
        self.queue.shrink();
    }
}

/// What came of an attempt to begin a WQE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begin {
    /// It has PSNs.
    Begun,
    /// It is complete.
    Done,
}

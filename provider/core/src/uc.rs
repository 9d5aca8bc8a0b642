//! Unreliable connection (IBTA 9.8.2): messages of one peer in order, without acknowledgement. A message of which a
//! packet is lost is lost whole.

use crate::context::Context;
use crate::counters::Counter;
use crate::fault::{RequesterFault, ResponderFault};
use crate::halves::Handled;
use crate::inbound::{Inbound, check_enabled, check_rkey};
use crate::request::check_length;
use crate::send_queue::Wqe;
use crate::srq::Srqs;
use crate::unreliable::{Destination, Unreliable};
use crate::{Memory, QpAttr, RecvWr};
use ferroce_wire::{Packet, Psn};

/// How a UC QP sends.
#[derive(Default, Debug)]
pub(crate) struct Uc;

impl Unreliable for Uc {
    fn check(ctx: &Context<'_>, wqe: &Wqe) -> Result<u32, RequesterFault> {
        check_length(ctx, wqe)
    }

    fn mtu(ctx: &Context<'_>) -> u32 {
        ctx.mtu()
    }

    fn destination(&mut self, ctx: &Context<'_>, _: &Wqe) -> Option<Destination> {
        Some(Destination { path: *ctx.path()?, qpn: ctx.attr.dest_qpn, qkey: 0 })
    }
}

/// A UC QP's receiving half.
///
/// It never answers. Whatever is wrong with a message, its packets are dropped until the next one begins; only a
/// fault of a receive WQE's own list takes the QP to the error state.
#[derive(Default, Debug)]
pub(crate) struct Responder {
    inbound: Inbound,
    /// The PSN expected next.
    expected: Psn,
}

impl Responder {
    /// INIT→RTR: messages are expected from `rq_psn` on.
    pub(crate) fn start(&mut self, attr: &QpAttr) {
        self.expected = attr.rq_psn;
    }

    /// The PSN of the packet that continues, or follows, what has come.
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// Takes a receive WR. In the error state the caller flushes next.
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.inbound.receives.post(wr);
    }

    /// Takes a request.
    pub(crate) fn handle_request(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Handled {
        self.check_psn(ctx, packet.bth().psn());
        // P-29: whatever came before, a message may begin at any time; its receive WQE is the one of the last that
        // was lost.
        if packet.opcode().starts_message() {
            self.inbound.give_up(ctx);
        }
        match self.execute(ctx, packet, memory) {
            Ok(()) => Handled::Done,
            Err(fault) => self.fail(ctx, fault),
        }
    }

    /// A gap ends the message under way. The PSN after this one is expected next in any case.
    fn check_psn(&mut self, ctx: &mut Context<'_>, psn: Psn) {
        let expected = std::mem::replace(&mut self.expected, psn.plus(1));
        if psn == expected {
            return;
        }
        ctx.count(Counter::OutOfSequence);
        ctx.shared.output.explain(
            ctx.qpn,
            &format_args!(
                "PSN {psn} arrived where {expected} was expected: packets were lost or reordered, and what they \
                 belong to is dropped"
            ),
        );
        self.inbound.give_up(ctx);
    }

    fn execute(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let pd = ctx.init.pd;
        self.inbound.check_opcode_sequence(packet.opcode())?;
        check_enabled(ctx, packet)?;
        self.inbound.check_receive(ctx, packet, ctx.init.srq)?;
        self.inbound.check_length(ctx, packet)?;
        check_rkey(ctx, packet, pd)?;
        self.inbound.place(ctx, packet, pd, memory)?;
        if packet.opcode().ends_message() { self.inbound.deliver(ctx, packet, pd) } else { Ok(()) }
    }

    /// Drops the message (class D), unless the fault is this side's (class A).
    fn fail(&mut self, ctx: &mut Context<'_>, fault: ResponderFault) -> Handled {
        match fault {
            ResponderFault::Recv(_) => {
                ctx.shared.output.explain(ctx.qpn, &fault);
                if let Some(held) = self.inbound.take_held() {
                    held.fail(ctx, fault.recv_status(), fault.code());
                }
                return Handled::Failed;
            }
            // The rest of a message that has been given up.
            ResponderFault::Sequence { .. } => {}
            _ => ctx.shared.output.explain(ctx.qpn, &fault),
        }
        match fault {
            ResponderFault::NotReady { .. } => ctx.count(Counter::OutOfBuffer),
            ResponderFault::RecvTooSmall { .. } => ctx.count(Counter::RespLocalLengthError),
            _ => {}
        }
        ctx.count(Counter::DropUcMessage);
        self.inbound.give_up(ctx);
        Handled::Done
    }

    /// The QP is reset or destroyed: what it took from an SRQ goes back.
    pub(crate) fn release(&mut self, srqs: &mut Srqs) {
        self.inbound.release(srqs);
    }

    /// Flushes the receive queue.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.inbound.flush(ctx);
    }
}

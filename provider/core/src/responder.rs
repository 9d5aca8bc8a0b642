//! The responder: executes request packets in PSN order and answers them.
//!
//! A request passes through a fixed sequence of steps ([`steps`]): PSN → opcode sequence → operation → resources →
//! length → R_Key → execute → acknowledge. Each step lets it through or ends in a fault whose class says what
//! follows. Duplicates are answered from [`replay`], and what is to be sent waits in [`answers`].

mod answers;
mod duplicates;
mod hold;
mod placement;
mod replay;
mod steps;

use crate::context::Context;
use crate::counters::Counter;
use crate::fault::{Class, ResponderFault};
use crate::inbound::Inbound;
use crate::srq::Srqs;
use crate::{AsyncEvent, QpAttr, RecvWr, ResponderSnapshot};
use answers::Answer;
pub(crate) use answers::AnswerFault;
use ferroce_wire::{Psn, Qpn};
use hold::Hold;
use replay::Replay;

/// One QP's receiving half.
#[derive(Default, Debug)]
pub(crate) struct Responder {
    inbound: Inbound,
    /// The PSN expected next (P-3).
    expected: Psn,
    /// Messages completed, 24 bits (P-8).
    msn: u32,
    replay: Replay,
    /// What is to be sent after the answers of READs and atomics.
    answer: Option<Answer>,
    /// A NAK for a gap, or an RNR NAK, is out, and `expected` has not come since (P-6, P-7).
    nak_outstanding: bool,
    /// What came behind a gap, if both ends repeat selectively.
    hold: Option<Box<Hold>>,
}

impl Responder {
    /// INIT→RTR: requests are expected from `rq_psn` on.
    pub(crate) fn start(&mut self, attr: &QpAttr) {
        self.expected = attr.rq_psn;
        self.msn = 0;
        self.nak_outstanding = false;
        self.silence();
        self.replay.clear();
    }

    /// From now on, until the QP is reset, what comes behind a gap is kept.
    pub(crate) fn repeat_selectively(&mut self) {
        self.hold.get_or_insert_default();
    }

    /// Takes a receive WR. In the error state the caller flushes next.
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.inbound.receives.post(wr);
    }

    pub(crate) fn snapshot(&self) -> ResponderSnapshot {
        ResponderSnapshot { expected: self.expected, msn: self.msn }
    }

    /// What the fault of a request does: the answer it calls for, and the receive WQE or the event that carries it
    /// (P table 3.5). Whether the QP is to go to the error state.
    fn fail(&mut self, ctx: &mut Context<'_>, fault: ResponderFault, psn: Psn) -> bool {
        ctx.shared.output.explain(ctx.qpn, &fault);
        match fault.class() {
            Class::B => {
                ctx.count(Counter::OutOfBuffer);
                self.nak_outstanding = true;
                self.answer = Some(Answer::RnrNak);
                return false;
            }
            // The data was delivered, so the message is acknowledged; the error stays on this side.
            Class::J => self.answer = Some(Answer::Ack),
            Class::A | Class::C => self.answer = Some(Answer::Nak { psn, code: fault.nak_code() }),
        }
        match self.inbound.take_held() {
            Some(held) => held.fail(ctx, fault.recv_status(), fault.code()),
            None => ctx.shared.output.raise(event(ctx.qpn, fault)),
        }
        count(ctx, fault);
        true
    }

    /// The answer to the READ with `psn` cannot be sent. The message under way has nothing to do with it.
    pub(crate) fn fail_answer(&mut self, ctx: &mut Context<'_>, fault: ResponderFault, psn: Psn) {
        ctx.shared.output.explain(ctx.qpn, &fault);
        self.answer = Some(Answer::Nak { psn, code: fault.nak_code() });
        ctx.shared.output.raise(event(ctx.qpn, fault));
        count(ctx, fault);
    }

    /// The QP is reset or destroyed: what it took from an SRQ goes back.
    pub(crate) fn release(&mut self, srqs: &mut Srqs) {
        self.inbound.release(srqs);
    }

    /// Flushes the receive queue.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        if let Some(hold) = &mut self.hold {
            hold.clear();
        }
        self.inbound.flush(ctx);
    }

    /// Nothing more is answered.
    pub(crate) fn silence(&mut self) {
        self.answer = None;
        self.replay.stop();
    }
}

/// The event of a fault that no receive WQE can carry.
fn event(qpn: Qpn, fault: ResponderFault) -> AsyncEvent {
    match fault {
        ResponderFault::RemoteKey { .. } | ResponderFault::OtherXrcd { .. } => AsyncEvent::QpAccessErr(qpn),
        _ if fault.class() == Class::C => AsyncEvent::QpReqErr(qpn),
        _ => AsyncEvent::QpFatal(qpn),
    }
}

fn count(ctx: &mut Context<'_>, fault: ResponderFault) {
    match fault {
        ResponderFault::RemoteKey { .. } => ctx.count(Counter::RespRemoteAccessErrors),
        ResponderFault::RecvTooSmall { .. } => ctx.count(Counter::RespLocalLengthError),
        _ => {}
    }
}

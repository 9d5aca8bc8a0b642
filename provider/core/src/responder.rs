//! The responder: executes request packets in PSN order and answers them.
//!
//! A request passes through a fixed sequence of steps ([`steps`]): PSN → opcode sequence → operation → resources →
//! length → R_Key → execute → acknowledge. Each step lets it through or ends in a fault whose class says what
//! follows. Duplicates are answered from [`replay`], and what is to be sent waits in [`answers`].

mod answers;
mod duplicates;
mod replay;
mod steps;

use crate::context::{Context, WorkDone};
use crate::counters::Counter;
use crate::fault::{Class, ResponderFault};
use crate::{AsyncEvent, QpAttr, RecvWr, WcOpcode, WcStatus};
use answers::Answer;
pub(crate) use answers::AnswerFault;
use ferroce_wire::{Psn, Qpn};
use replay::Replay;
use std::collections::VecDeque;
pub(crate) use steps::Handled;

/// One QP's receiving half.
#[derive(Default, Debug)]
pub(crate) struct Responder {
    queue: VecDeque<RecvWr>,
    /// Most receive WQEs at once since the queue was last empty.
    peak: usize,
    /// The receive WQE that the message under way holds.
    held: Option<RecvWr>,
    /// The message under way: some packets of it were executed, the last one was not.
    message: Option<Message>,
    /// The PSN expected next (P-3).
    expected: Psn,
    /// Messages completed, 24 bits (P-8).
    msn: u32,
    replay: Replay,
    /// What is to be sent after the answers of READs and atomics.
    answer: Option<Answer>,
    /// A NAK for a gap, or an RNR NAK, is out, and `expected` has not come since (P-6, P-7).
    nak_outstanding: bool,
}

/// A message of several packets that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    /// A SEND; bytes received.
    Send { received: u32 },
    /// A WRITE; its RETH, and bytes written.
    Write { va: u64, rkey: u32, length: u32, written: u32 },
}

impl Responder {
    /// INIT→RTR: requests are expected from `rq_psn` on.
    pub(crate) fn start(&mut self, attr: &QpAttr) {
        self.expected = attr.rq_psn;
        self.msn = 0;
        self.message = None;
        self.nak_outstanding = false;
        self.silence();
        self.replay.clear();
    }

    /// Takes a receive WR. In the error state the caller flushes next.
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.queue.push_back(wr);
        self.peak = self.peak.max(self.queue.len());
    }

    /// The next receive WQE.
    fn take_receive(&mut self) -> Option<RecvWr> {
        let wr = self.queue.pop_front()?;
        if self.queue.is_empty() {
            // Give memory back after a burst, but not in the steady state of a deep queue.
            if self.queue.capacity() > IDLE_WQES && self.peak <= self.queue.capacity() / 4 {
                self.queue.shrink_to(self.peak.max(IDLE_WQES));
            }
            self.peak = 0;
        }
        Some(wr)
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
        match self.held.take() {
            Some(wr) => {
                let done = WorkDone::new(wr.wr_id, fault.recv_status(), WcOpcode::Recv);
                ctx.complete_recv(WorkDone { vendor_err: fault.code(), ..done });
            }
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

    /// Flushes the receive queue in order, beginning with the WQE of a message half received (P-24).
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.message = None;
        let held = self.held.take();
        for wr in held.into_iter().chain(std::mem::take(&mut self.queue)) {
            ctx.complete_recv(WorkDone::new(wr.wr_id, WcStatus::WrFlushErr, WcOpcode::Recv));
        }
        self.peak = 0;
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
        ResponderFault::RemoteKey { .. } => AsyncEvent::QpAccessErr(qpn),
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

/// Receive WQEs that an idle queue may keep room for.
const IDLE_WQES: usize = 8;

//! The two halves of a QP, sending and receiving, by service: the one place where the services are told apart.

use crate::context::{Context, Sent};
use crate::fault::RequesterFault;
use crate::requester::Requester;
use crate::responder::{AnswerFault, Responder};
use crate::srq::Srqs;
use crate::uc::{self, Uc};
use crate::ud::{self, Ud};
use crate::{
    Memory, PacketMeta, Profile, QpAttr, QpSnapshot, QpState, QpType, RecvWr, SendWr, TransmitSink,
    unreliable,
};
use ferroce_wire::{Packet, Psn, Qpn};

/// A requester and a responder.
#[derive(Debug)]
pub(crate) enum Halves {
    /// RC and XRC.
    Reliable(Requester, Responder),
    /// UC.
    Uc(unreliable::Requester<Uc>, uc::Responder),
    /// UD.
    Ud(unreliable::Requester<Ud>, ud::Responder),
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handled {
    /// It was executed, answered again, or dropped; whatever is to be sent waits.
    Done,
    /// The QP is to go to the error state; a NAK may wait to be sent.
    Failed,
}

/// Where a QP stands in the PSNs of both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NextPsns {
    pub(crate) sent: Psn,
    pub(crate) expected: Psn,
}

/// Calls the same method of a half, whatever its service.
macro_rules! each {
    ($halves:expr, ($requester:pat, $responder:pat) => $call:expr) => {
        match $halves {
            Halves::Reliable($requester, $responder) => $call,
            Halves::Uc($requester, $responder) => $call,
            Halves::Ud($requester, $responder) => $call,
        }
    };
}

impl Halves {
    pub(crate) fn new(qp_type: QpType, profile: &Profile) -> Halves {
        match qp_type {
            QpType::Rc | QpType::XrcIni | QpType::XrcTgt => {
                Halves::Reliable(Requester::new(profile), Responder::default())
            }
            QpType::Uc => Halves::Uc(Default::default(), Default::default()),
            QpType::Ud => Halves::Ud(Default::default(), Default::default()),
        }
    }

    /// INIT→RTR.
    pub(crate) fn start_responder(&mut self, attr: &QpAttr) {
        each!(self, (_, responder) => responder.start(attr));
    }

    /// RTR→RTS.
    pub(crate) fn start_requester(&mut self, attr: &QpAttr) {
        each!(self, (requester, _) => requester.start(attr));
    }

    /// From now on lost requests are repeated selectively, if the service repeats at all.
    pub(crate) fn repeat_selectively(&mut self) {
        if let Halves::Reliable(requester, responder) = self {
            requester.repeat_selectively();
            responder.repeat_selectively();
        }
    }

    /// Retries are counted from the beginning again, from what the attributes allow now.
    pub(crate) fn restore_retries(&mut self, attr: &QpAttr) {
        if let Halves::Reliable(requester, _) = self {
            requester.restore_retries(attr);
        }
    }

    /// Before the QP is reset or destroyed: what it took from an SRQ goes back.
    pub(crate) fn release(&mut self, srqs: &mut Srqs) {
        match self {
            Halves::Reliable(_, responder) => responder.release(srqs),
            Halves::Uc(_, responder) => responder.release(srqs),
            Halves::Ud(..) => {}
        }
    }

    /// To RESET: both queues are emptied without completions (S-5).
    pub(crate) fn reset(&mut self, ctx: &mut Context<'_>) {
        self.release(&mut ctx.shared.srqs);
        each!(self, (requester, responder) => {
            requester.reset(ctx);
            *responder = Default::default();
        });
    }

    pub(crate) fn post_send(&mut self, wr: SendWr) {
        each!(self, (requester, _) => requester.post(wr));
    }

    pub(crate) fn post_recv(&mut self, wr: RecvWr) {
        each!(self, (_, responder) => responder.post(wr));
    }

    /// Takes a packet of the service.
    ///
    /// # Errors
    /// It is a response that ends the oldest send WQE.
    #[inline]
    pub(crate) fn handle_packet(
        &mut self,
        ctx: &mut Context<'_>,
        meta: &PacketMeta,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<Handled, RequesterFault> {
        match self {
            Halves::Reliable(requester, _) if packet.opcode().is_response() => {
                requester.handle_response(ctx, packet, memory).map(|()| Handled::Done)
            }
            Halves::Reliable(_, responder) => Ok(responder.handle_request(ctx, packet, memory)),
            Halves::Uc(_, responder) => Ok(responder.handle_request(ctx, packet, memory)),
            Halves::Ud(requester, _) if is_own_multicast(ctx, meta, packet, requester.service()) => {
                Ok(Handled::Done)
            }
            Halves::Ud(_, responder) => Ok(responder.handle_datagram(ctx, meta, packet, memory)),
        }
    }

    /// The QP's deadline has come.
    pub(crate) fn handle_deadline(&mut self, ctx: &mut Context<'_>) -> Result<(), RequesterFault> {
        match self {
            Halves::Reliable(requester, _) => requester.handle_deadline(ctx),
            Halves::Uc(requester, _) => {
                requester.handle_deadline();
                Ok(())
            }
            Halves::Ud(requester, _) => {
                requester.handle_deadline();
                Ok(())
            }
        }
    }

    /// Whether a turn might send a request in `state`. It may say yes without need, but never no.
    pub(crate) fn may_request(&self, state: QpState) -> bool {
        each!(self, (requester, _) => requester.may_send(state))
    }

    /// Whether there is something to answer.
    pub(crate) fn has_answer(&self) -> bool {
        match self {
            Halves::Reliable(_, responder) => responder.has_answer(),
            Halves::Uc(..) | Halves::Ud(..) => false,
        }
    }

    /// Whether what is answered next is data, which is sent at the QP's rate, and what it is followed by waits as well.
    pub(crate) fn answers_with_data(&self) -> bool {
        match self {
            Halves::Reliable(_, responder) => responder.answers_with_data(),
            Halves::Uc(..) | Halves::Ud(..) => false,
        }
    }

    /// Sends the next request packet.
    ///
    /// # Errors
    /// The oldest send WQE cannot be done.
    #[inline]
    pub(crate) fn next_request<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Result<Sent, RequesterFault> {
        each!(self, (requester, _) => requester.next_packet(ctx, memory, sink))
    }

    /// Sends the next answer.
    ///
    /// # Errors
    /// The memory of a READ is not to be had any more.
    #[inline]
    pub(crate) fn next_answer<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Result<Sent, AnswerFault> {
        match self {
            Halves::Reliable(_, responder) => responder.next_answer(ctx, memory, sink),
            Halves::Uc(..) | Halves::Ud(..) => Ok(Sent::Nothing),
        }
    }

    /// An answer cannot be sent.
    pub(crate) fn fail_answer(&mut self, ctx: &mut Context<'_>, fault: AnswerFault) {
        if let Halves::Reliable(_, responder) = self {
            responder.fail_answer(ctx, fault.fault, fault.psn);
        }
    }

    /// Nothing more is answered.
    pub(crate) fn silence(&mut self) {
        if let Halves::Reliable(_, responder) = self {
            responder.silence();
        }
    }

    /// The PSN after the highest that was sent, and the one that is expected, as devices report them. Datagram QPs
    /// expect none.
    pub(crate) fn next_psns(&self) -> NextPsns {
        match self {
            Halves::Reliable(requester, responder) => {
                NextPsns { sent: requester.snapshot().high, expected: responder.snapshot().expected }
            }
            Halves::Uc(requester, responder) => {
                NextPsns { sent: requester.next_psn(), expected: responder.expected() }
            }
            Halves::Ud(requester, _) => NextPsns { sent: requester.next_psn(), expected: Psn::default() },
        }
    }

    pub(crate) fn snapshot(&self, state: QpState, rate_bps: Option<u64>) -> QpSnapshot {
        let (requester, responder) = match self {
            Halves::Reliable(requester, responder) => {
                (Some(requester.snapshot()), Some(responder.snapshot()))
            }
            Halves::Uc(..) | Halves::Ud(..) => (None, None),
        };
        QpSnapshot { state, rate_bps, requester, responder }
    }

    /// The number of the send WR that has `psn` among its PSNs.
    pub(crate) fn wr_at(&self, psn: Psn) -> Option<u64> {
        each!(self, (requester, _) => requester.wr_at(psn))
    }

    /// Whether every send WQE that was begun is complete.
    pub(crate) fn is_drained(&self) -> bool {
        each!(self, (requester, _) => requester.is_drained())
    }

    /// The oldest send WQE fails; the state that this takes the QP to (IBTA 10.7.2.2): of the reliable services to
    /// the error state, of the others to SQE (S-2).
    pub(crate) fn fail_oldest(&mut self, ctx: &mut Context<'_>, fault: RequesterFault) -> QpState {
        each!(self, (requester, _) => requester.fail_oldest(ctx, fault));
        match self {
            Halves::Reliable(..) => QpState::Err,
            Halves::Uc(..) | Halves::Ud(..) => QpState::Sqe,
        }
    }

    pub(crate) fn flush_send(&mut self, ctx: &mut Context<'_>) {
        each!(self, (requester, _) => requester.flush(ctx));
    }

    pub(crate) fn flush_recv(&mut self, ctx: &mut Context<'_>) {
        each!(self, (_, responder) => responder.flush(ctx));
    }
}

/// Whether a multicast packet is one that this QP sent, and does not want back.
fn is_own_multicast(ctx: &Context<'_>, meta: &PacketMeta, packet: &Packet<'_>, sender: &Ud) -> bool {
    ctx.init.block_self_mcast
        && packet.bth().dest_qpn() == Qpn::MULTICAST
        && packet.deth().is_some_and(|deth| deth.source_qpn() == ctx.qpn)
        && sender.multicast_source == Some(meta.src)
}

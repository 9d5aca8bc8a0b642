//! What a responder has to send: READ data and atomics' values in PSN order, and after them one ACK or NAK.
//!
//! An ACK is made when it is sent, so it covers every request executed until then (P-9); and it is sent after
//! the answers of all READs and atomics, because overtaking one would tell the requester that it was lost (P-10).

use super::Responder;
use super::replay::{Kind, Resource, Span};
use crate::context::{Context, Sent};
use crate::counters::Counter;
use crate::fault::ResponderFault;
use crate::inbound::{address_fault, remote};
use crate::sack::Bitmap;
use crate::{Memory, TransmitSink};
use ferroce_wire::{NakCode, Opcode, Psn, Syndrome};

/// The answer that comes last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Everything before the expected PSN is executed.
    Ack,
    /// The expected PSN did not come.
    SequenceNak,
    /// The expected PSN found no receive WQE.
    RnrNak,
    /// The request with this PSN failed, and with it the QP.
    Nak { psn: Psn, code: NakCode },
}

/// Why an answer could not be sent.
pub(crate) struct AnswerFault {
    /// The response that is missing.
    pub(crate) psn: Psn,
    pub(crate) fault: ResponderFault,
}

impl Responder {
    /// Whether there is something to send.
    pub(crate) fn has_answer(&self) -> bool {
        self.answer.is_some() || self.replay.is_answering()
    }

    /// Whether the next answer belongs to a READ or atomic.
    pub(crate) fn answers_with_data(&self) -> bool {
        self.replay.is_answering()
    }

    /// Sends the next answer.
    ///
    /// # Errors
    /// The memory of a READ is not to be had any more. The QP is to fail; what was left to answer is forgotten.
    pub(crate) fn next_answer<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Result<Sent, AnswerFault> {
        if let Some(resource) = self.replay.oldest_answering() {
            let (psn, result) = send_response(ctx, resource, memory, sink);
            let finished = resource.answer.is_none_or(|span| span.next >= end_packet(ctx, resource, span));
            if finished {
                self.replay.finish_oldest();
            }
            return result.map_err(|fault| {
                self.replay.stop();
                AnswerFault { psn, fault }
            });
        }
        let Some(answer) = self.answer else { return Ok(Sent::Nothing) };
        let sent = self.send_acknowledge(ctx, answer, sink);
        if let Sent::Packet(_) = sent {
            self.answer = None;
        }
        Ok(sent)
    }

    fn send_acknowledge<S: TransmitSink>(&self, ctx: &mut Context<'_>, answer: Answer, sink: &mut S) -> Sent {
        let (psn, syndrome, counter) = match answer {
            // The newest PSN executed; READs count (C9-105; rxe forgets them).
            Answer::Ack => (self.expected.minus(1), Syndrome::ACK, Some(Counter::AcksSent)),
            Answer::SequenceNak => {
                (self.expected, Syndrome::Nak(NakCode::PsnSequenceError), Some(Counter::SeqNaksSent))
            }
            Answer::RnrNak => {
                (self.expected, Syndrome::RnrNak { timer: ctx.attr.min_rnr_timer }, Some(Counter::SendRnrErr))
            }
            Answer::Nak { psn, code } => (psn, Syndrome::Nak(code), None),
        };
        let header = ctx.header(Opcode::RC_ACKNOWLEDGE, ctx.attr.dest_qpn, psn).aeth(syndrome, self.msn);
        // A requester that repeats selectively is told what came behind the gap.
        let held = match (&self.hold, answer) {
            (Some(hold), Answer::SequenceNak) => hold.bitmap(self.expected),
            _ => Bitmap::new(),
        };
        let fill = |_: &Context<'_>, room: &mut [u8]| {
            room.copy_from_slice(&held);
            Ok::<_, std::convert::Infallible>(())
        };
        let sent = match ctx.send(sink, &header, held.len() as u32, fill) {
            Ok(sent) => sent,
            Err(never) => match never {},
        };
        if let (Sent::Packet(_), Some(counter)) = (sent, counter) {
            ctx.count(counter);
        }
        sent
    }
}

/// Sends the next packet of a resource's answer, and moves its span on. Also the PSN it has.
fn send_response<S: TransmitSink>(
    ctx: &mut Context<'_>,
    resource: &mut Resource,
    memory: &impl Memory,
    sink: &mut S,
) -> (Psn, Result<Sent, ResponderFault>) {
    let Some(span) = resource.answer else { return (resource.first_psn, Ok(Sent::Nothing)) };
    let psn = resource.first_psn.plus(span.next);
    let result = match resource.kind {
        Kind::Atomic { original, .. } => {
            let header = ctx
                .header(Opcode::RC_ATOMIC_ACK, ctx.attr.dest_qpn, psn)
                .aeth(Syndrome::ACK, resource.msn)
                .atomic_ack_eth(original);
            ctx.send(sink, &header, 0, |_, _| Ok(()))
        }
        Kind::Placement { .. } => {
            let header = ctx
                .header(Opcode::RC_READ_RESP_ONLY, ctx.attr.dest_qpn, psn)
                .aeth(Syndrome::ACK, resource.msn);
            ctx.send(sink, &header, 0, |_, _| Ok(()))
        }
        Kind::Read { pd, va, rkey, .. } => {
            let offset = span.next * ctx.mtu();
            let length = (span.end_byte - offset).min(ctx.mtu());
            let opcode =
                response_opcode(span.next == span.start, span.next + 1 >= end_packet(ctx, resource, span));
            let header = ctx.header(opcode, ctx.attr.dest_qpn, psn).aeth(Syndrome::ACK, resource.msn);
            ctx.send(sink, &header, length, |ctx, room| {
                if room.is_empty() {
                    return Ok(());
                }
                // Once more for every packet: the region may have gone since the request.
                let va = va.wrapping_add(u64::from(offset));
                let place = remote(ctx, pd, Opcode::RC_READ_REQUEST, rkey, va, room.len() as u32)?;
                memory.read(place, room).map_err(|fault| address_fault(Opcode::RC_READ_REQUEST, fault))
            })
        }
    };
    if let Ok(Sent::Packet(_)) = result {
        resource.answer = Some(Span { next: span.next + 1, ..span });
    }
    (psn, result)
}

/// The packet, counted from the resource's first, after the last one of an answer.
fn end_packet(ctx: &Context<'_>, resource: &Resource, span: Span) -> u32 {
    match resource.kind {
        Kind::Atomic { .. } | Kind::Placement { .. } => 1,
        Kind::Read { .. } => span.end_byte.div_ceil(ctx.mtu()).max(span.start + 1),
    }
}

fn response_opcode(first: bool, last: bool) -> Opcode {
    match (first, last) {
        (true, true) => Opcode::RC_READ_RESP_ONLY,
        (true, false) => Opcode::RC_READ_RESP_FIRST,
        (false, true) => Opcode::RC_READ_RESP_LAST,
        (false, false) => Opcode::RC_READ_RESP_MIDDLE,
    }
}

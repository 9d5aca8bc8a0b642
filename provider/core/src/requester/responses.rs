//! What the requester makes of responses: acknowledgements, NAKs, READ data and atomics' original values.

use super::Requester;
use crate::context::Context;
use crate::counters::Counter;
use crate::fault::{BadResponse, RequesterFault};
use crate::gather::scatter;
use crate::{Memory, Payload};
use ferroce_wire::{NakCode, Operation, Packet, Psn, Syndrome};

impl Requester {
    /// Takes a response.
    ///
    /// # Errors
    /// The oldest WQE failed; the QP is to go to the error state.
    pub(crate) fn handle_response(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), RequesterFault> {
        let psn = packet.bth().psn();
        // Q table 2.3: outside [unacked, high) it answers nothing that is open.
        if psn.is_before(self.unacked) {
            ctx.count(Counter::DropStaleResponse);
            return Ok(());
        }
        if !psn.is_before(self.high) {
            ctx.count(Counter::DropGhostAck);
            return Ok(());
        }
        match packet.opcode().operation() {
            Operation::Acknowledge => self.handle_acknowledge(ctx, packet),
            Operation::AtomicAcknowledge => self.handle_atomic_response(ctx, packet, memory),
            _ => self.handle_read_response(ctx, packet, memory),
        }?;
        self.check_stalled()
    }

    fn handle_acknowledge(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), RequesterFault> {
        let psn = packet.bth().psn();
        // An opcode with an AETH parsed, so it is there.
        let Some(syndrome) = packet.aeth().map(|aeth| aeth.syndrome()) else { return Ok(()) };
        match syndrome {
            Syndrome::Ack { .. } => match self.acknowledge_before(ctx, psn.plus(1)) {
                Reached::All => Ok(()),
                Reached::Unanswered => self.handle_implied_nak(ctx),
            },
            Syndrome::RnrNak { timer } => match self.acknowledge_before(ctx, psn) {
                Reached::All => self.handle_rnr_nak(ctx, timer),
                Reached::Unanswered => self.handle_implied_nak(ctx),
            },
            Syndrome::Nak(NakCode::PsnSequenceError) => match self.acknowledge_before(ctx, psn) {
                Reached::All => self.handle_gap_report(ctx, packet.payload()),
                Reached::Unanswered => self.handle_implied_nak(ctx),
            },
            Syndrome::Nak(
                code @ (NakCode::InvalidRequest
                | NakCode::RemoteAccessError
                | NakCode::RemoteOperationalError),
            ) => {
                let reached = self.acknowledge_before(ctx, psn);
                // a NAK in the middle of a READ ends it.
                if reached == Reached::Unanswered && !self.oldest_holds(psn) {
                    return self.handle_implied_nak(ctx);
                }
                match code {
                    NakCode::InvalidRequest => ctx.count(Counter::ReqRemoteInvalidRequest),
                    NakCode::RemoteAccessError => ctx.count(Counter::ReqRemoteAccessErrors),
                    _ => {}
                }
                Err(RequesterFault::Remote { psn, code })
            }
            Syndrome::Nak(_) | Syndrome::Reserved(_) => {
                self.acknowledge_before(ctx, psn);
                Err(bad(psn, BadResponse::Syndrome { syndrome: syndrome.as_u8() }))
            }
        }
    }

    /// Completes everything with a PSN before `end`, up to a READ or atomic that has no response yet.
    fn acknowledge_before(&mut self, ctx: &mut Context<'_>, end: Psn) -> Reached {
        let before = self.unacked;
        let mut reached = Reached::All;
        // Each round takes a WQE off the queue.
        while let Some(wqe) = self.queue.oldest_begun() {
            if !wqe.first_psn.is_before(end) {
                break;
            }
            if wqe.has_response() {
                // A READ that has answers up to `end` is not in want of any.
                reached = if self.unacked.is_before(end) { Reached::Unanswered } else { Reached::All };
                break;
            }
            let end_psn = wqe.end_psn();
            if end.is_before(end_psn) {
                self.move_unacked(end);
                break;
            }
            self.move_unacked(end_psn);
            self.complete_oldest(ctx);
        }
        self.note_progress(ctx, before);
        reached
    }

    /// `unacked` moves forward over packets of SENDs and WRITEs to `to`.
    fn move_unacked(&mut self, to: Psn) {
        if !to.is_after(self.unacked) {
            return;
        }
        let sent = if to.is_after(self.next) { self.next } else { to };
        let acked = sent.distance_from(self.unacked).max(0) as u32;
        self.in_flight = self.in_flight.saturating_sub(acked);
        self.window.grow(acked);
        self.unacked = to;
    }

    /// If `unacked` has moved from `before`: forward progress.
    fn note_progress(&mut self, ctx: &mut Context<'_>, before: Psn) {
        if !self.unacked.is_after(before) {
            return;
        }
        if self.next.is_before(self.unacked) {
            // Answers came to packets that were about to be sent again.
            self.rewind();
        }
        if let Some(repair) = &mut self.repair {
            repair.forget_before(self.unacked);
        }
        self.lost_at = None;
        self.rnr_waiting = false;
        self.restore_retries(ctx.attr);
        self.restart_timer(ctx);
    }

    fn oldest_holds(&self, psn: Psn) -> bool {
        self.queue.oldest_begun().is_some_and(|wqe| wqe.holds(psn))
    }

    fn handle_atomic_response(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), RequesterFault> {
        let psn = packet.bth().psn();
        if self.acknowledge_before(ctx, psn) == Reached::Unanswered {
            return self.handle_implied_nak(ctx);
        }
        let (Some(wqe), Some(response)) = (self.queue.oldest_begun(), packet.atomic_ack_eth()) else {
            return Ok(());
        };
        if !wqe.is_atomic() {
            return Err(bad(psn, BadResponse::Opcode { opcode: packet.opcode().name() }));
        }
        check_syndrome(packet)?;
        if let Payload::Sges(sges) = &wqe.wr.payload {
            scatter(ctx.local(sges), 0, &response.original().to_ne_bytes(), memory)?;
        }
        self.answer_oldest(ctx);
        Ok(())
    }

    fn handle_read_response(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), RequesterFault> {
        let psn = packet.bth().psn();
        if self.acknowledge_before(ctx, psn) == Reached::Unanswered {
            // Either an earlier READ or atomic was not answered, or this one has a hole.
            return self.handle_implied_nak(ctx);
        }
        let Some(wqe) = self.queue.oldest_begun() else { return Ok(()) };
        let index = psn.distance_from(wqe.first_psn).max(0) as u32;
        let last = index + 1 == wqe.psns;
        let opcode = packet.opcode();
        // A READ that was resumed begins anew where it was resumed.
        let begins_rightly = match index {
            0 => opcode.starts_message(),
            _ => !opcode.starts_message() || wqe.repeated,
        };
        let is_expected = wqe.is_read() || wqe.is_placement();
        if !is_expected || opcode.ends_message() != last || !begins_rightly {
            return Err(bad(psn, BadResponse::Opcode { opcode: opcode.name() }));
        }
        check_syndrome(packet)?;
        let offset = u64::from(index) * u64::from(ctx.mtu());
        let length = if wqe.is_read() { wqe.length } else { 0 };
        let expected = (length - offset).min(u64::from(ctx.mtu())) as usize;
        let got = packet.payload().len();
        if got != expected {
            return Err(bad(psn, BadResponse::Length { opcode: opcode.name(), got, expected }));
        }
        if let Payload::Sges(sges) = &wqe.wr.payload {
            scatter(ctx.local(sges), offset, packet.payload(), memory)?;
        }
        if last {
            self.answer_oldest(ctx);
        } else {
            self.unacked = psn.plus(1);
            self.note_progress(ctx, psn);
        }
        Ok(())
    }

    /// The oldest WQE, a READ or an atomic, has its last response.
    fn answer_oldest(&mut self, ctx: &mut Context<'_>) {
        let Some(wqe) = self.queue.oldest_begun() else { return };
        let before = self.unacked;
        self.unacked = wqe.end_psn();
        self.complete_oldest(ctx);
        self.note_progress(ctx, before);
    }

    /// Takes the oldest WQE off the queue as done.
    pub(super) fn complete_oldest(&mut self, ctx: &mut Context<'_>) {
        let Some(wqe) = self.queue.complete_oldest(ctx) else { return };
        self.reads_outstanding -= u32::from(wqe.has_response());
        // A WQE that was acknowledged while it was to be sent again needs no further sending.
        self.cursor = self.cursor.max(self.queue.head());
    }
}

/// How far an acknowledgement reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// To the PSN it named.
    All,
    /// To a READ or atomic whose response must have been lost.
    Unanswered,
}

/// A response that carries data may say nothing but ACK.
fn check_syndrome(packet: &Packet<'_>) -> Result<(), RequesterFault> {
    match packet.aeth().map(|aeth| aeth.syndrome()) {
        None | Some(Syndrome::Ack { .. }) => Ok(()),
        Some(other) => Err(bad(packet.bth().psn(), BadResponse::Syndrome { syndrome: other.as_u8() })),
    }
}

fn bad(psn: Psn, fault: BadResponse) -> RequesterFault {
    RequesterFault::BadResponse { psn, fault }
}

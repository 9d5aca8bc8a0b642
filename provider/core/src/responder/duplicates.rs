//! Requests that were executed before and come again (P-11 to P-16).

use super::Responder;
use super::answers::Answer;
use super::replay::{Kind, Span};
use crate::context::Context;
use crate::counters::Counter;
use ferroce_wire::{Operation, Packet};

impl Responder {
    /// Answers a duplicate without executing it, but for a READ, which is read again.
    pub(super) fn handle_duplicate(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>) {
        ctx.count(Counter::DuplicateRequest);
        let psn = packet.bth().psn();
        match packet.opcode().operation() {
            Operation::Send | Operation::Write => {
                // C9-105: the newest PSN executed, in one answer for however many come. A NAK that waits says as
                // much.
                self.answer.get_or_insert(Answer::Ack);
            }
            Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Flush
            | Operation::AtomicWrite => match self.find_again(ctx, packet) {
                Some(span) => self.replay.answer_again(psn, span),
                None => ctx.count(Counter::DropDuplicate),
            },
            _ => ctx.count(Counter::DropDuplicate),
        }
    }

    /// What a duplicate READ or atomic asks for, if it is a part of what is kept, or all of it.
    fn find_again(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Option<Span> {
        let psn = packet.bth().psn();
        let resource = self.replay.find(psn)?;
        // `psn` lies in the resource, so the difference is not negative.
        let start = psn.distance_from(resource.first_psn) as u32;
        match resource.kind {
            Kind::Read { va, rkey, length, .. } => {
                let reth = packet.reth()?;
                let skipped = start.checked_mul(ctx.mtu())?;
                let same = reth.rkey() == rkey && reth.va() == va.wrapping_add(u64::from(skipped));
                let end_byte = skipped.checked_add(reth.dma_length())?;
                (same && end_byte <= length).then_some(Span { start, next: start, end_byte })
            }
            Kind::Placement { va, rkey, opcode } => {
                let reth = packet.reth()?;
                let same = packet.opcode().as_u8() == opcode && reth.rkey() == rkey && reth.va() == va;
                same.then_some(Span { start: 0, next: 0, end_byte: 0 })
            }
            Kind::Atomic { va, rkey, opcode, .. } => {
                let atomic = packet.atomic_eth()?;
                let same = packet.opcode().as_u8() == opcode && atomic.rkey() == rkey && atomic.va() == va;
                same.then_some(Span { start: 0, next: 0, end_byte: 0 })
            }
        }
    }
}

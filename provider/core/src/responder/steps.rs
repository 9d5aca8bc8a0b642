//! The steps of a request, in order. Each lets the request through or ends in a fault.

use super::answers::Answer;
use super::replay::{Kind, Resource, Span};
use super::{Responder, placement};
use crate::context::Context;
use crate::counters::Counter;
use crate::fault::ResponderFault;
use crate::halves::Handled;
use crate::inbound::{ATOMIC_LEN, address_fault, check_enabled, check_max, check_rkey, remote};
use crate::xrc::Target;
use crate::{Memory, PdId, Srqn};
use ferroce_wire::{Opcode, Operation, Packet};

impl Responder {
    /// Takes a request, and what it was in want of if a gap is closed.
    pub(crate) fn handle_request(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Handled {
        let mut handled = self.check_psn(ctx, packet, memory);
        // Each round takes a packet out of those that are held.
        while handled == Handled::Done && self.answer != Some(Answer::RnrNak) {
            let Some(bytes) = self.hold.as_mut().and_then(|hold| hold.take(self.expected)) else { break };
            // It was one when it came.
            let Ok(packet) = Packet::parse(&bytes) else { break };
            handled = self.check_psn(ctx, &packet, memory);
        }
        self.report_gap();
        handled
    }

    /// A requester that repeats selectively hears of a gap as long as there is one.
    fn report_gap(&mut self) {
        let Some(hold) = &self.hold else { return };
        match self.answer {
            None | Some(Answer::Ack) if !hold.is_empty() => self.answer = Some(Answer::SequenceNak),
            Some(Answer::SequenceNak) if hold.is_empty() && !self.nak_outstanding => {
                self.answer = Some(Answer::Ack);
            }
            _ => {}
        }
    }

    /// Step 1: the PSN (P-3, P-4, P-6).
    fn check_psn(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>, memory: &impl Memory) -> Handled {
        let psn = packet.bth().psn();
        if psn.is_before(self.expected) {
            self.handle_duplicate(ctx, packet);
            return Handled::Done;
        }
        if psn.is_after(self.expected) {
            self.handle_gap(ctx, packet);
            return Handled::Done;
        }
        match self.answer {
            // Not sent yet, and what came after the gap was dropped: it will name the next PSN then.
            Some(Answer::SequenceNak) => {}
            // Not sent yet, and out of date.
            Some(Answer::RnrNak) => {
                self.answer = None;
                self.nak_outstanding = false;
            }
            _ => self.nak_outstanding = false,
        }
        match self.execute_request(ctx, packet, memory) {
            Ok(()) => Handled::Done,
            Err(fault) => match self.fail(ctx, fault, psn) {
                true => Handled::Failed,
                false => Handled::Done,
            },
        }
    }

    /// A request before this one was lost: one NAK says so, the rest is dropped until it comes. If both ends repeat
    /// selectively, the rest is kept, and each NAK says what there is.
    fn handle_gap(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>) {
        let is_known = self.hold.as_ref().is_some_and(|hold| !hold.is_empty());
        let is_held = self.hold.as_mut().is_some_and(|hold| hold.insert(self.expected, packet));
        if is_held && is_known {
            return;
        }
        if !is_held && self.nak_outstanding {
            ctx.count(Counter::DropOutOfSequence);
            return;
        }
        ctx.count(Counter::OutOfSequence);
        if !is_held {
            self.nak_outstanding = true;
            self.answer = Some(Answer::SequenceNak);
        }
        let (got, expected) = (packet.bth().psn(), self.expected);
        ctx.shared.output.explain(
            ctx.qpn,
            &format_args!("PSN {got} arrived where {expected} was expected: packets were lost or reordered"),
        );
    }

    /// Steps 2 to 8, after the PSN's.
    fn execute_request(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let opcode = packet.opcode();
        self.inbound.check_opcode_sequence(opcode)?;
        check_operation(ctx, packet)?;
        let Target { pd, srq } = Target::of(ctx, packet)?;
        self.check_resources(ctx, packet, srq)?;
        self.check_length(ctx, packet)?;
        check_rkey(ctx, packet, pd)?;
        match opcode.operation() {
            Operation::Send | Operation::Write => self.execute_message(ctx, packet, pd, memory)?,
            Operation::ReadRequest => self.execute_read(ctx, packet, pd),
            Operation::Flush | Operation::AtomicWrite => self.execute_placement(ctx, packet, pd, memory)?,
            _ => self.execute_atomic(ctx, packet, pd, memory)?,
        }
        self.acknowledge(ctx, packet);
        Ok(())
    }

    /// Step 8: an ACK, if the packet asks for one, unless the request has an answer of its own.
    fn acknowledge(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>) {
        if !packet.bth().ack_req() || has_response(packet.opcode()) {
            return;
        }
        match self.answer {
            None => self.answer = Some(Answer::Ack),
            Some(_) => ctx.count(Counter::AckDeferred),
        }
    }

    /// Step 4: a receive WQE for a message that consumes one, a place for a READ or atomic (P-20, P-14, P-15).
    fn check_resources(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        srq: Option<Srqn>,
    ) -> Result<(), ResponderFault> {
        let opcode = packet.opcode();
        self.inbound.check_receive(ctx, packet, srq)?;
        if has_response(opcode) {
            let limit = ctx.attr.max_dest_rd_atomic;
            if !self.replay.has_room(usize::from(limit)) {
                return Err(ResponderFault::TooManyReadAtomics { opcode: opcode.name(), limit });
            }
        }
        Ok(())
    }

    /// Step 5: lengths, also that of what a READ asks for.
    fn check_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        self.inbound.check_length(ctx, packet)?;
        match (packet.opcode().operation(), packet.reth()) {
            (Operation::ReadRequest, Some(reth)) => {
                check_max(ctx, packet.opcode().name(), reth.dma_length().into())
            }
            (Operation::AtomicWrite, Some(reth)) => placement::check_length(packet, reth),
            _ => Ok(()),
        }
    }

    /// Step 7 for a packet of a SEND or WRITE.
    fn execute_message(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        self.inbound.place(ctx, packet, pd, memory)?;
        self.expected = self.expected.plus(1);
        if packet.opcode().ends_message() {
            self.count_message();
            self.inbound.deliver(ctx, packet, pd)?;
        }
        Ok(())
    }

    /// Step 7 for a READ request: its answer is sent packet by packet, each read from memory when it is sent.
    fn execute_read(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>, pd: PdId) {
        let Some(reth) = packet.reth() else { return };
        ctx.count(Counter::RxReadRequests);
        let length = reth.dma_length();
        let psns = length.div_ceil(ctx.mtu()).max(1);
        self.keep(ctx, psns, Kind::Read { pd, va: reth.va(), rkey: reth.rkey(), length }, length);
    }

    /// Step 7 for an atomic.
    fn execute_atomic(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let Some(atomic) = packet.atomic_eth() else { return Ok(()) };
        let opcode = packet.opcode();
        let place = remote(ctx, pd, opcode, atomic.rkey(), atomic.va(), ATOMIC_LEN)?;
        let original = match opcode.operation() {
            Operation::CompareSwap => memory.compare_swap(place, atomic.compare(), atomic.swap_or_add()),
            _ => memory.fetch_add(place, atomic.swap_or_add()),
        }
        .map_err(|fault| address_fault(opcode, fault))?;
        ctx.count(Counter::RxAtomicRequests);
        let kind = Kind::Atomic { va: atomic.va(), rkey: atomic.rkey(), opcode: opcode.as_u8(), original };
        self.keep(ctx, 1, kind, 0);
        Ok(())
    }

    /// Keeps a request to be answered, and counts it as a message (P-8).
    pub(super) fn keep(&mut self, ctx: &Context<'_>, psns: u32, kind: Kind, end_byte: u32) {
        let first_psn = self.expected;
        self.count_message();
        let answer = Some(Span { start: 0, next: 0, end_byte });
        let resource = Resource { first_psn, psns, kind, msn: self.msn, answer, answered: false };
        self.replay.push(resource, usize::from(ctx.attr.max_dest_rd_atomic));
        self.expected = first_psn.plus(psns);
        // Its answer acknowledges what came before.
        if self.answer == Some(Answer::Ack) {
            self.answer = None;
        }
    }

    /// One more message is complete (P-8).
    fn count_message(&mut self) {
        self.msn = (self.msn + 1) & MSN_MASK;
    }
}

/// Step 3: the device does the operation, the QP allows it (P-17), an atomic's address is aligned (P-19).
fn check_operation(ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
    let opcode = packet.opcode();
    placement::check_flush_type(packet)?;
    check_enabled(ctx, packet)?;
    let word = match (opcode.operation(), packet.reth()) {
        (Operation::AtomicWrite, Some(reth)) => Some(reth.va()),
        _ => packet.atomic_eth().map(|atomic| atomic.va()),
    };
    match word {
        Some(va) if !va.is_multiple_of(u64::from(ATOMIC_LEN)) => {
            Err(ResponderFault::Misaligned { opcode: opcode.name(), va })
        }
        _ => Ok(()),
    }
}

/// Whether it has an answer of its own.
fn has_response(opcode: Opcode) -> bool {
    matches!(
        opcode.operation(),
        Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Flush
            | Operation::AtomicWrite
    )
}

/// MSNs count in 24 bits.
const MSN_MASK: u32 = 0xff_ffff;

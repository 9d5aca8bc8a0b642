//! The steps of a request, in order. Each lets the request through or ends in a fault.

use super::answers::Answer;
use super::replay::{Kind, Resource, Span};
use super::{Message, Responder};
use crate::context::{Context, WorkDone};
use crate::counters::Counter;
use crate::fault::ResponderFault;
use crate::gather::{scatter, total_length};
use crate::{AccessFlags, Memory, WcFlags, WcOpcode, WcStatus};
use ferroce_wire::{Opcode, Operation, Packet, Psn};

/// What became of a request packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handled {
    /// It was executed, answered again, or dropped; whatever is to be sent waits.
    Done,
    /// The QP is to go to the error state; the NAK waits to be sent.
    Failed,
}

impl Responder {
    /// Step 1: the PSN (P-3, P-4, P-6).
    pub(crate) fn handle_request(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Handled {
        let psn = packet.bth().psn();
        if psn.is_before(self.expected) {
            self.handle_duplicate(ctx, packet);
            return Handled::Done;
        }
        if psn.is_after(self.expected) {
            self.handle_gap(ctx, psn);
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

    /// A request before this one was lost: one NAK says so, the rest is dropped until it comes.
    fn handle_gap(&mut self, ctx: &mut Context<'_>, got: Psn) {
        if self.nak_outstanding {
            ctx.count(Counter::DropOutOfSequence);
            return;
        }
        ctx.count(Counter::OutOfSequence);
        self.nak_outstanding = true;
        self.answer = Some(Answer::SequenceNak);
        let expected = self.expected;
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
        self.check_opcode_sequence(opcode)?;
        check_operation(ctx, packet)?;
        self.check_resources(ctx, packet)?;
        self.check_length(ctx, packet)?;
        self.check_rkey(ctx, packet)?;
        match opcode.operation() {
            Operation::Send => self.execute_send(ctx, packet, memory)?,
            Operation::Write => self.execute_write(ctx, packet, memory)?,
            Operation::ReadRequest => self.execute_read(ctx, packet),
            _ => self.execute_atomic(ctx, packet, memory)?,
        }
        self.acknowledge(ctx, packet);
        Ok(())
    }

    /// Step 8: an ACK, if the packet asks for one. READs and atomics have answers of their own.
    fn acknowledge(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>) {
        if !packet.bth().ack_req() || is_read_or_atomic(packet.opcode()) {
            return;
        }
        match self.answer {
            None => self.answer = Some(Answer::Ack),
            Some(_) => ctx.count(Counter::AckDeferred),
        }
    }

    /// Step 2: the opcode fits the message under way (P-5).
    fn check_opcode_sequence(&self, opcode: Opcode) -> Result<(), ResponderFault> {
        let (operation, expected) = match self.message {
            None if opcode.starts_message() => return Ok(()),
            None => {
                return Err(ResponderFault::Sequence {
                    opcode: opcode.name(),
                    expected: "no message was under way",
                });
            }
            Some(Message::Send { .. }) => (Operation::Send, "a SEND was under way"),
            Some(Message::Write { .. }) => (Operation::Write, "an RDMA WRITE was under way"),
        };
        if opcode.operation() == operation && !opcode.starts_message() {
            return Ok(());
        }
        Err(ResponderFault::Sequence { opcode: opcode.name(), expected })
    }

    /// Step 4: a receive WQE for a message that consumes one, a place for a READ or atomic (P-20, P-14, P-15).
    fn check_resources(&mut self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let opcode = packet.opcode();
        if opcode.consumes_receive() {
            self.held = self.take_receive();
            if self.held.is_none() {
                return Err(ResponderFault::NotReady { opcode: opcode.name(), psn: packet.bth().psn() });
            }
        }
        if is_read_or_atomic(opcode) {
            let limit = ctx.attr.max_dest_rd_atomic;
            if !self.replay.has_room(usize::from(limit)) {
                return Err(ResponderFault::TooManyReadAtomics { opcode: opcode.name(), limit });
            }
        }
        Ok(())
    }

    /// Step 5: the packet's length, and the message's against what was announced or posted (W-28, W-36).
    fn check_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let opcode = packet.opcode().name();
        let (got, pad, mtu) = (packet.payload().len(), packet.pad_count(), ctx.mtu());
        if !packet.opcode().payload_rule().allows(got, mtu as usize) {
            return Err(ResponderFault::PacketLength { opcode, got, mtu });
        }
        if !(got + usize::from(pad)).is_multiple_of(PAD_ALIGN) {
            return Err(ResponderFault::Pad { opcode, got, pad });
        }
        match packet.opcode().operation() {
            Operation::Send => self.check_send_length(ctx, packet),
            Operation::Write => self.check_write_length(ctx, packet),
            Operation::ReadRequest => match packet.reth() {
                Some(reth) => check_max(ctx, opcode, reth.dma_length().into()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn check_send_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let received = match self.message {
            Some(Message::Send { received }) => u64::from(received),
            _ => 0,
        };
        let got = received + packet.payload().len() as u64;
        check_max(ctx, packet.opcode().name(), got)?;
        let room = self.held.as_ref().map_or(0, |wr| total_length(&wr.sges));
        if got > room {
            return Err(ResponderFault::RecvTooSmall { got, room });
        }
        Ok(())
    }

    fn check_write_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let opcode = packet.opcode().name();
        let (announced, written) = match (self.message, packet.reth()) {
            (Some(Message::Write { length, written, .. }), _) => (length, written),
            (_, Some(reth)) => (reth.dma_length(), 0),
            // A WRITE without either would have failed in step 2.
            _ => return Ok(()),
        };
        check_max(ctx, opcode, announced.into())?;
        let got = u64::from(written) + packet.payload().len() as u64;
        let fits = match packet.opcode().ends_message() {
            true => got == u64::from(announced),
            // There must be something left for the LAST.
            false => got < u64::from(announced),
        };
        if fits { Ok(()) } else { Err(ResponderFault::DmaLength { opcode, announced, got }) }
    }

    /// Step 6: the R_Key, once for the whole message (P-18). Zero bytes need no key; the key
    /// table sees to that.
    fn check_rkey(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let (va, rkey, length) = match (packet.reth(), packet.atomic_eth()) {
            (Some(reth), _) => (reth.va(), reth.rkey(), reth.dma_length()),
            (_, Some(atomic)) => (atomic.va(), atomic.rkey(), ATOMIC_LEN),
            _ => return Ok(()),
        };
        remote(ctx, packet.opcode(), rkey, va, length).map(|_| ())
    }

    /// Step 7 for a SEND packet.
    fn execute_send(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let payload = packet.payload();
        let received = match self.message {
            Some(Message::Send { received }) => received,
            _ => 0,
        };
        if let Some(wr) = &self.held {
            scatter(ctx.local(&wr.sges), u64::from(received), payload, memory)?;
        }
        self.expected = self.expected.plus(1);
        let received = received + payload.len() as u32;
        if !packet.opcode().ends_message() {
            self.message = Some(Message::Send { received });
            return Ok(());
        }
        self.end_message();
        if let Some(ieth) = packet.ieth() {
            ctx.shared.regions.invalidate(ctx.init.pd, ieth.rkey())?;
        }
        self.complete_receive(ctx, packet, WcOpcode::Recv, received);
        Ok(())
    }

    /// Step 7 for a WRITE packet.
    fn execute_write(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let payload = packet.payload();
        let (va, rkey, length, written) = match (self.message, packet.reth()) {
            (Some(Message::Write { va, rkey, length, written }), _) => (va, rkey, length, written),
            (_, Some(reth)) => (reth.va(), reth.rkey(), reth.dma_length(), 0),
            _ => return Ok(()),
        };
        if packet.opcode().starts_message() {
            ctx.count(Counter::RxWriteRequests);
        }
        if !payload.is_empty() {
            // The region may have gone since the first packet.
            let va = va.wrapping_add(u64::from(written));
            let addr = remote(ctx, packet.opcode(), rkey, va, payload.len() as u32)?;
            memory.write(addr, payload).map_err(|fault| address_fault(packet.opcode(), fault))?;
        }
        self.expected = self.expected.plus(1);
        let written = written + payload.len() as u32;
        if !packet.opcode().ends_message() {
            self.message = Some(Message::Write { va, rkey, length, written });
            return Ok(());
        }
        self.end_message();
        if packet.opcode().has_imm() {
            self.complete_receive(ctx, packet, WcOpcode::RecvRdmaWithImm, length);
        }
        Ok(())
    }

    /// Step 7 for a READ request: its answer is sent packet by packet, each read from memory when it is sent.
    fn execute_read(&mut self, ctx: &mut Context<'_>, packet: &Packet<'_>) {
        let Some(reth) = packet.reth() else { return };
        ctx.count(Counter::RxReadRequests);
        let length = reth.dma_length();
        let psns = length.div_ceil(ctx.mtu()).max(1);
        self.keep(ctx, psns, Kind::Read { va: reth.va(), rkey: reth.rkey(), length }, length);
    }

    /// Step 7 for an atomic.
    fn execute_atomic(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let Some(atomic) = packet.atomic_eth() else { return Ok(()) };
        let opcode = packet.opcode();
        let addr = remote(ctx, opcode, atomic.rkey(), atomic.va(), ATOMIC_LEN)?;
        let original = match opcode.operation() {
            Operation::CompareSwap => memory.compare_swap(addr, atomic.compare(), atomic.swap_or_add()),
            _ => memory.fetch_add(addr, atomic.swap_or_add()),
        }
        .map_err(|fault| address_fault(opcode, fault))?;
        ctx.count(Counter::RxAtomicRequests);
        let kind = Kind::Atomic { va: atomic.va(), rkey: atomic.rkey(), opcode: opcode.as_u8(), original };
        self.keep(ctx, 1, kind, 0);
        Ok(())
    }

    /// Keeps a READ or atomic to be answered, and counts it as a message (P-8).
    fn keep(&mut self, ctx: &Context<'_>, psns: u32, kind: Kind, end_byte: u32) {
        let first_psn = self.expected;
        self.end_message();
        let answer = Some(Span { start: 0, next: 0, end_byte });
        let resource = Resource { first_psn, psns, kind, msn: self.msn, answer, answered: false };
        self.replay.push(resource, usize::from(ctx.attr.max_dest_rd_atomic));
        self.expected = first_psn.plus(psns);
        // Its answer acknowledges what came before.
        if self.answer == Some(Answer::Ack) {
            self.answer = None;
        }
    }

    fn end_message(&mut self) {
        self.message = None;
        self.msn = (self.msn + 1) & MSN_MASK;
    }

    /// Completes the receive WQE of a message that is done.
    fn complete_receive(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        opcode: WcOpcode,
        byte_len: u32,
    ) {
        let Some(wr) = self.held.take() else { return };
        let mut done = WorkDone::new(wr.wr_id, WcStatus::Success, opcode);
        done.byte_len = byte_len;
        done.solicited = packet.bth().solicited();
        if let Some(imm) = packet.imm() {
            done.imm = imm;
            done.flags |= WcFlags::WITH_IMM;
        }
        if let Some(ieth) = packet.ieth() {
            done.invalidated_rkey = ieth.rkey();
            done.flags |= WcFlags::WITH_INV;
        }
        ctx.complete_recv(done);
    }
}

/// Step 3: the device does the operation, the QP allows it (P-17), an atomic's address is aligned (P-19).
fn check_operation(ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
    let opcode = packet.opcode();
    if matches!(opcode.operation(), Operation::Flush | Operation::AtomicWrite) {
        return Err(ResponderFault::Unsupported { opcode: opcode.name() });
    }
    let missing = needed_access(opcode).difference(ctx.attr.access);
    if !missing.is_empty() {
        return Err(ResponderFault::NotEnabled { opcode: opcode.name(), missing });
    }
    match packet.atomic_eth() {
        Some(atomic) if !atomic.va().is_multiple_of(u64::from(ATOMIC_LEN)) => {
            Err(ResponderFault::Misaligned { opcode: opcode.name(), va: atomic.va() })
        }
        _ => Ok(()),
    }
}

/// The right that an operation needs, of the QP and of the region.
pub(super) fn needed_access(opcode: Opcode) -> AccessFlags {
    match opcode.operation() {
        Operation::Write => AccessFlags::REMOTE_WRITE,
        Operation::ReadRequest | Operation::ReadResponse => AccessFlags::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => AccessFlags::REMOTE_ATOMIC,
        _ => AccessFlags::empty(),
    }
}

/// Looks a remote range up; the host address of its first byte.
pub(super) fn remote(
    ctx: &Context<'_>,
    opcode: Opcode,
    rkey: u32,
    va: u64,
    length: u32,
) -> Result<u64, ResponderFault> {
    ctx.shared
        .regions
        .check_remote(ctx.init.pd, rkey, va, length, needed_access(opcode))
        .map_err(|fault| ResponderFault::RemoteKey { opcode: opcode.name(), fault })
}

pub(super) fn address_fault(opcode: Opcode, fault: crate::BadAddress) -> ResponderFault {
    ResponderFault::RemoteAddress { opcode: opcode.name(), fault }
}

pub(super) fn is_read_or_atomic(opcode: Opcode) -> bool {
    matches!(opcode.operation(), Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd)
}

fn check_max(ctx: &Context<'_>, opcode: &'static str, length: u64) -> Result<(), ResponderFault> {
    let max = ctx.shared.profile.max_message;
    if length > u64::from(max) { Err(ResponderFault::TooLong { opcode, length, max }) } else { Ok(()) }
}

/// MSNs count in 24 bits.
const MSN_MASK: u32 = 0xff_ffff;

/// Bytes of an atomic's operand, and its alignment.
const ATOMIC_LEN: u32 = 8;

/// Payload and pad together are a multiple of this.
const PAD_ALIGN: usize = 4;

//! A message on its way in: the steps of a SEND or WRITE that the responders of all connected services have in
//! common. What is done about a lost packet or a fault is theirs.

use crate::context::{Context, WorkDone};
use crate::counters::Counter;
use crate::fault::ResponderFault;
use crate::gather::{Local, scatter, total_length};
use crate::receive_queue::{Receive, ReceiveQueue};
use crate::srq::Srqs;
use crate::{AccessFlags, Memory, PdId, Place, Srqn, WcFlags, WcOpcode, WcStatus};
use ferroce_wire::{Feth, Opcode, Operation, Packet};

/// The receive queue, and the message that is being received.
#[derive(Default, Debug)]
pub(crate) struct Inbound {
    pub(crate) receives: ReceiveQueue,
    /// The receive WQE that the message under way holds.
    held: Option<Receive>,
    /// The message under way: some packets of it were executed, the last one was not.
    message: Option<Message>,
}

/// A message of several packets that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    /// A SEND; bytes received.
    Send { received: u32 },
    /// A WRITE; its RETH, and bytes written.
    Write { va: u64, rkey: u32, length: u32, written: u32 },
}

impl Inbound {
    /// Gives the message under way up. The receive WQE that it held stays for the next one, unless it came from an
    /// SRQ: then it completes with an error (class E).
    pub(crate) fn give_up(&mut self, ctx: &mut Context<'_>) {
        self.message = None;
        if let Some(held) = self.held.take_if(|held| held.is_shared()) {
            held.fail(ctx, WcStatus::RemInvReqErr, MESSAGE_LOST);
        }
    }

    /// The QP is reset or destroyed: what it took from an SRQ goes back.
    pub(crate) fn release(&mut self, srqs: &mut Srqs) {
        if let Some(held) = self.held.take() {
            held.put_back(srqs);
        }
    }

    /// The receive WQE of a message that failed.
    pub(crate) fn take_held(&mut self) -> Option<Receive> {
        self.held.take()
    }

    /// Flushes the receive queue in order, beginning with the WQE of a message half received (P-24).
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.message = None;
        if let Some(held) = self.held.take() {
            held.flush(ctx);
        }
        self.receives.flush(ctx);
    }

    /// The opcode fits the message under way (P-5).
    pub(crate) fn check_opcode_sequence(&self, opcode: Opcode) -> Result<(), ResponderFault> {
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

    /// Takes a receive WQE for a message that consumes one (P-20), unless a message that was given up left its own.
    pub(crate) fn check_receive(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        srq: Option<Srqn>,
    ) -> Result<(), ResponderFault> {
        let opcode = packet.opcode();
        if !opcode.consumes_receive() || self.held.is_some() {
            return Ok(());
        }
        self.held = self.receives.take(ctx, srq);
        match self.held {
            Some(_) => Ok(()),
            None => Err(ResponderFault::NotReady { opcode: opcode.name(), psn: packet.bth().psn() }),
        }
    }

    /// The packet's length, and the message's against what was announced or posted (W-28, W-36).
    pub(crate) fn check_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
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
            _ => Ok(()),
        }
    }

    fn check_send_length(&self, ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
        let got = u64::from(self.received()) + packet.payload().len() as u64;
        check_max(ctx, packet.opcode().name(), got)?;
        let room = self.held.as_ref().map_or(0, |held| total_length(&held.wr.sges));
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
            // A WRITE without either would have failed at the sequence.
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

    /// Puts the payload of a SEND or WRITE packet where it belongs.
    pub(crate) fn place(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        match packet.opcode().operation() {
            Operation::Send => self.place_send(ctx, packet, memory),
            _ => self.place_write(ctx, packet, pd, memory),
        }
    }

    fn place_send(
        &mut self,
        ctx: &Context<'_>,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let (payload, received) = (packet.payload(), self.received());
        if let Some(held) = &self.held {
            let target = Local { regions: &ctx.shared.regions, pd: held.home.pd, sges: &held.wr.sges };
            scatter(target, u64::from(received), payload, memory)?;
        }
        self.message = Some(Message::Send { received: received + payload.len() as u32 });
        Ok(())
    }

    fn place_write(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
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
            let place = remote(ctx, pd, packet.opcode(), rkey, va, payload.len() as u32)?;
            memory.write(place, payload).map_err(|fault| address_fault(packet.opcode(), fault))?;
        }
        self.message = Some(Message::Write { va, rkey, length, written: written + payload.len() as u32 });
        Ok(())
    }

    /// The last packet of a message is in place: invalidates what it asks for, and completes its receive WQE.
    pub(crate) fn deliver(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
    ) -> Result<(), ResponderFault> {
        let (opcode, byte_len) = match self.message.take() {
            Some(Message::Send { received }) => (WcOpcode::Recv, received),
            Some(Message::Write { length, .. }) => (WcOpcode::RecvRdmaWithImm, length),
            None => return Ok(()),
        };
        if let Some(ieth) = packet.ieth() {
            ctx.invalidate(pd, ieth.rkey())?;
        }
        if opcode == WcOpcode::Recv || packet.opcode().has_imm() {
            self.complete_receive(ctx, packet, opcode, byte_len);
        }
        Ok(())
    }

    fn complete_receive(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        opcode: WcOpcode,
        byte_len: u32,
    ) {
        let Some(held) = self.held.take() else { return };
        let mut done = WorkDone::new(held.wr.wr_id, WcStatus::Success, opcode);
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
        ctx.complete_recv(held.home, done);
    }

    /// Bytes of the SEND under way.
    fn received(&self) -> u32 {
        match self.message {
            Some(Message::Send { received }) => received,
            _ => 0,
        }
    }
}

/// The QP allows the operation (P-17).
pub(crate) fn check_enabled(ctx: &Context<'_>, packet: &Packet<'_>) -> Result<(), ResponderFault> {
    let opcode = packet.opcode();
    let needed = packet.feth().map_or(needed_access(opcode), flush_access);
    let missing = needed.difference(ctx.attr.access);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(ResponderFault::NotEnabled { opcode: opcode.name(), missing })
    }
}

/// The R_Key, once for the whole message (P-18). Zero bytes need no key; the key table sees to that.
pub(crate) fn check_rkey(ctx: &Context<'_>, packet: &Packet<'_>, pd: PdId) -> Result<(), ResponderFault> {
    let (va, rkey, length) = match (packet.reth(), packet.atomic_eth()) {
        // What a FLUSH reaches is its own affair, and is looked up when it is executed.
        _ if packet.feth().is_some() => return Ok(()),
        (Some(reth), _) => (reth.va(), reth.rkey(), reth.dma_length()),
        (_, Some(atomic)) => (atomic.va(), atomic.rkey(), ATOMIC_LEN),
        _ => return Ok(()),
    };
    remote(ctx, pd, packet.opcode(), rkey, va, length).map(|_| ())
}

/// Looks a remote range up; where it is.
pub(crate) fn remote(
    ctx: &Context<'_>,
    pd: PdId,
    opcode: Opcode,
    rkey: u32,
    va: u64,
    length: u32,
) -> Result<Place, ResponderFault> {
    ctx.shared
        .regions
        .check_remote(ctx.key_user(pd), rkey, va, length, needed_access(opcode))
        .map_err(|fault| ResponderFault::RemoteKey { opcode: opcode.name(), fault })
}

pub(crate) fn address_fault(opcode: Opcode, fault: crate::BadAddress) -> ResponderFault {
    ResponderFault::RemoteAddress { opcode: opcode.name(), fault }
}

pub(crate) fn check_max(ctx: &Context<'_>, opcode: &'static str, length: u64) -> Result<(), ResponderFault> {
    let max = ctx.shared.profile.max_message;
    if length > u64::from(max) { Err(ResponderFault::TooLong { opcode, length, max }) } else { Ok(()) }
}

/// The right that an operation needs, of the QP and of the region.
fn needed_access(opcode: Opcode) -> AccessFlags {
    match opcode.operation() {
        Operation::Write | Operation::AtomicWrite => AccessFlags::REMOTE_WRITE,
        Operation::ReadRequest | Operation::ReadResponse => AccessFlags::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => AccessFlags::REMOTE_ATOMIC,
        _ => AccessFlags::empty(),
    }
}

/// The rights that a FLUSH needs.
pub(crate) fn flush_access(feth: &Feth) -> AccessFlags {
    let mut needed = AccessFlags::empty();
    needed.set(AccessFlags::FLUSH_GLOBAL, feth.global_visibility());
    needed.set(AccessFlags::FLUSH_PERSISTENT, feth.persistence());
    needed
}

/// Bytes of an atomic's operand, and its alignment.
pub(crate) const ATOMIC_LEN: u32 = 8;

/// The `vendor_err` of a receive WQE whose UC message was lost in part or refused.
const MESSAGE_LOST: u32 = 0x3a;

/// Payload and pad together are a multiple of this.
pub(crate) const PAD_ALIGN: usize = 4;

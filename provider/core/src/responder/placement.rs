//! The memory placement extensions (Annex A19): FLUSH and ATOMIC_WRITE. Both are answered like a READ of no bytes (W-53, W-54)
//! and kept for duplicates like one.

use super::Responder;
use super::replay::Kind;
use crate::context::Context;
use crate::counters::Counter;
use crate::fault::ResponderFault;
use crate::inbound::{ATOMIC_LEN, address_fault, flush_access, remote};
use crate::{Memory, PdId};
use ferroce_wire::{Feth, FlushSelectivity, Packet, Reth};

/// A FLUSH asks for something, and for nothing that is not defined.
pub(super) fn check_flush_type(packet: &Packet<'_>) -> Result<(), ResponderFault> {
    let Some(feth) = packet.feth() else { return Ok(()) };
    let (placement, selectivity) = (feth.placement_type(), feth.selectivity());
    match selectivity {
        FlushSelectivity::Range | FlushSelectivity::MemoryRegion if matches!(placement, 1..=3) => Ok(()),
        _ => Err(ResponderFault::FlushType { placement, selectivity: selectivity.as_u8() }),
    }
}

/// An atomic write announces the 8 bytes that it brings; rxe stored what it found elsewhere (linux-rdma 0dddafcdb).
pub(super) fn check_length(packet: &Packet<'_>, reth: &Reth) -> Result<(), ResponderFault> {
    let announced = reth.dma_length();
    if announced == ATOMIC_LEN {
        return Ok(());
    }
    let (opcode, got) = (packet.opcode().name(), packet.payload().len() as u64);
    Err(ResponderFault::DmaLength { opcode, announced, got })
}

impl Responder {
    /// Executes a request that has been checked in all but a FLUSH's key.
    pub(super) fn execute_placement(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &Packet<'_>,
        pd: PdId,
        memory: &impl Memory,
    ) -> Result<(), ResponderFault> {
        let Some(reth) = packet.reth() else { return Ok(()) };
        let (va, rkey, opcode) = (reth.va(), reth.rkey(), packet.opcode());
        match packet.feth() {
            Some(feth) => flush(ctx, packet, reth, feth, pd, memory)?,
            None => {
                let place = remote(ctx, pd, opcode, rkey, va, ATOMIC_LEN)?;
                let value = packet.payload().try_into().map_or(0, u64::from_ne_bytes);
                memory.store(place, value).map_err(|fault| address_fault(opcode, fault))?;
                ctx.count(Counter::RxAtomicRequests);
            }
        }
        self.keep(ctx, 1, Kind::Placement { va, rkey, opcode: opcode.as_u8() }, 0);
        Ok(())
    }
}

fn flush(
    ctx: &Context<'_>,
    packet: &Packet<'_>,
    reth: &Reth,
    feth: &Feth,
    pd: PdId,
    memory: &impl Memory,
) -> Result<(), ResponderFault> {
    let range = match feth.selectivity() {
        FlushSelectivity::Range => Some((reth.va(), reth.dma_length())),
        _ => None,
    };
    let (user, opcode) = (ctx.key_user(pd), packet.opcode());
    let checked = ctx.shared.regions.check_flush(user, reth.rkey(), range, flush_access(feth));
    let (place, length) =
        checked.map_err(|fault| ResponderFault::RemoteKey { opcode: opcode.name(), fault })?;
    memory.flush(place, length, feth.persistence()).map_err(|fault| address_fault(opcode, fault))
}

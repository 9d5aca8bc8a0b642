//! Unreliable datagram (IBTA 9.8.3): one packet to whomever the work request names, and from anybody who knows the
//! Q_Key.

mod grh;

use crate::context::{Context, WorkDone};
use crate::counters::Counter;
use crate::fault::{RequesterFault, ResponderFault};
use crate::gather::{Local, scatter};
use crate::halves::Handled;
use crate::inbound::PAD_ALIGN;
use crate::receive_queue::{Receive, ReceiveQueue};
use crate::send_queue::Wqe;
use crate::unreliable::{Destination, Unreliable};
use crate::{Memory, PacketMeta, QpAttr, RecvWr, Remote, WcFlags, WcOpcode, WcStatus};
use ferroce_wire::{Packet, Qpn};
use grh::{GRH_LEN, grh_area};
use std::net::IpAddr;

/// How a UD QP sends.
#[derive(Default, Debug)]
pub(crate) struct Ud {
    /// Where it last sent a multicast packet from: by this it knows its own when they come back.
    pub(crate) multicast_source: Option<IpAddr>,
}

impl Unreliable for Ud {
    fn check(ctx: &Context<'_>, wqe: &Wqe) -> Result<u32, RequesterFault> {
        match wqe.wr.remote {
            Remote::Datagram { pd, .. } if pd == ctx.init.pd => {}
            Remote::Datagram { pd, .. } => return Err(RequesterFault::AddressHandleOfOtherPd { pd }),
            _ => return Err(RequesterFault::NoAddressHandle),
        }
        // W-23: as a card does; others send nothing and say nothing.
        let mtu = Self::mtu(ctx);
        if wqe.length > u64::from(mtu) {
            return Err(RequesterFault::DatagramTooLong { length: wqe.length, mtu });
        }
        Ok(1)
    }

    fn mtu(ctx: &Context<'_>) -> u32 {
        ctx.init.active_mtu.bytes()
    }

    fn destination(&mut self, ctx: &Context<'_>, wqe: &Wqe) -> Option<Destination> {
        let Remote::Datagram { ah, qpn, qkey, source_port, receiver, .. } = &wqe.wr.remote else {
            return None;
        };
        let path = crate::Path { source_port: *source_port, receiver: *receiver, ..ah.path };
        if *qpn == Qpn::MULTICAST {
            self.multicast_source = Some(path.src);
        }
        // W-22: a Q_Key with the top bit set is not the application's to choose.
        let qkey = if qkey & CONTROLLED_QKEY == 0 { *qkey } else { ctx.attr.qkey };
        Some(Destination { path, qpn: *qpn, qkey })
    }
}

/// A UD QP's receiving half. Whatever is wrong with a datagram, it is dropped without a word; only a fault of a
/// receive WQE's own list takes the QP to the error state.
#[derive(Default, Debug)]
pub(crate) struct Responder {
    receives: ReceiveQueue,
}

impl Responder {
    /// INIT→RTR.
    pub(crate) fn start(&mut self, _: &QpAttr) {}

    /// Takes a receive WR. In the error state the caller flushes next.
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.receives.post(wr);
    }

    /// Takes a datagram.
    pub(crate) fn handle_datagram(
        &mut self,
        ctx: &mut Context<'_>,
        meta: &PacketMeta,
        packet: &Packet<'_>,
        memory: &impl Memory,
    ) -> Handled {
        let fault = match self.check(ctx, meta, packet) {
            Ok(received) => match place(ctx, meta, packet, &received, memory) {
                Ok(()) => {
                    complete(ctx, packet, received);
                    return Handled::Done;
                }
                Err(fault) => {
                    ctx.shared.output.explain(ctx.qpn, &fault);
                    received.fail(ctx, fault.recv_status(), fault.code());
                    return Handled::Failed;
                }
            },
            Err(fault) => fault,
        };
        ctx.shared.output.explain(ctx.qpn, &fault);
        ctx.count(match fault {
            ResponderFault::QKey { .. } => Counter::DropQkey,
            ResponderFault::NotMulticast { .. } => Counter::DropAddress,
            ResponderFault::NotReady { .. } => Counter::OutOfBuffer,
            ResponderFault::RecvTooSmall { .. } => Counter::RespLocalLengthError,
            _ => Counter::DropDatagram,
        });
        Handled::Done
    }

    /// Everything that may be wrong with a datagram, before a receive WQE is taken for it.
    fn check(
        &mut self,
        ctx: &mut Context<'_>,
        meta: &PacketMeta,
        packet: &Packet<'_>,
    ) -> Result<Receive, ResponderFault> {
        let opcode = packet.opcode().name();
        let is_group = meta.dst.to_canonical().is_multicast();
        if is_group != (packet.bth().dest_qpn() == Qpn::MULTICAST) {
            return Err(ResponderFault::NotMulticast { dst: meta.dst, qpn: packet.bth().dest_qpn() });
        }
        // Of the opcodes that come here each has a DETH.
        let qkey = packet.deth().map_or(0, |deth| deth.qkey());
        if qkey != ctx.attr.qkey {
            return Err(ResponderFault::QKey { opcode, got: qkey });
        }
        let (len, pad, mtu) = (packet.payload().len(), packet.pad_count(), ctx.init.active_mtu.bytes());
        if !packet.opcode().payload_rule().allows(len, mtu as usize) {
            return Err(ResponderFault::PacketLength { opcode, got: len, mtu });
        }
        if !(len + usize::from(pad)).is_multiple_of(PAD_ALIGN) {
            return Err(ResponderFault::Pad { opcode, got: len, pad });
        }
        let not_ready = ResponderFault::NotReady { opcode, psn: packet.bth().psn() };
        let room = self.receives.next_room(ctx, ctx.init.srq).ok_or(not_ready)?;
        // W-24: a WQE that is too small stays for another datagram.
        let got = (GRH_LEN + len) as u64;
        if got > room {
            return Err(ResponderFault::RecvTooSmall { got, room });
        }
        self.receives.take(ctx, ctx.init.srq).ok_or(not_ready)
    }

    /// Flushes the receive queue.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.receives.flush(ctx);
    }
}

fn place(
    ctx: &Context<'_>,
    meta: &PacketMeta,
    packet: &Packet<'_>,
    receive: &Receive,
    memory: &impl Memory,
) -> Result<(), ResponderFault> {
    let target = Local { regions: &ctx.shared.regions, pd: receive.home.pd, sges: &receive.wr.sges };
    scatter(target, 0, &grh_area(meta, packet), memory)?;
    scatter(target, GRH_LEN as u64, packet.payload(), memory)?;
    Ok(())
}

fn complete(ctx: &mut Context<'_>, packet: &Packet<'_>, receive: Receive) {
    let mut done = WorkDone::new(receive.wr.wr_id, WcStatus::Success, WcOpcode::Recv);
    done.byte_len = (GRH_LEN + packet.payload().len()) as u32;
    done.solicited = packet.bth().solicited();
    done.src_qp = packet.deth().map(|deth| deth.source_qpn()).unwrap_or_default();
    done.flags = WcFlags::GRH;
    if let Some(imm) = packet.imm() {
        done.imm = imm;
        done.flags |= WcFlags::WITH_IMM;
    }
    ctx.complete_recv(receive.home, done);
}

/// The bit of Q_Keys that only the QP's own attribute can have (IBTA 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

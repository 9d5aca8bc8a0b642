//! What the two halves of a QP work with besides their own state.

use crate::counters::{Counter, Counters};
use crate::gather::Local;
use crate::output::Output;
use crate::receive_queue::Home;
use crate::regions::Regions;
use crate::srq::Srqs;
use crate::timers::Deadlines;
use crate::{
    Completion, CqId, InvalidateFault, KeyUser, Nanos, Path, PdId, Profile, QpAttr, QpInit, Queue, Sge,
    TransmitSink, Wc, WcFlags, WcOpcode, WcStatus,
};
use ferroce_wire::{ICRC_LEN, Opcode, PacketHeader, Psn, Qpn, Service};

/// What all QPs of a device share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) profile: Profile,
    pub(crate) regions: Regions,
    pub(crate) counters: Counters,
    /// The deadline of each QP, by its index; a QP waits for one thing at a time.
    pub(crate) deadlines: Deadlines<u32>,
    /// When a QP that is held back by its rate may send again, by its index.
    pub(crate) pacing: Deadlines<u32>,
    pub(crate) output: Output,
    pub(crate) srqs: Srqs,
}

/// One call into a QP: the time, the QP's fixed facts, and what it shares with the others.
pub(crate) struct Context<'a> {
    pub(crate) now: Nanos,
    pub(crate) qpn: Qpn,
    /// The QP's index, under which its deadline is kept.
    pub(crate) index: u32,
    pub(crate) init: &'a QpInit,
    pub(crate) attr: &'a QpAttr,
    /// The time between full packets, in nanoseconds, of a QP that congestion control holds back.
    pub(crate) gap_ns: Option<Nanos>,
    pub(crate) shared: &'a mut Shared,
}

/// What came of an attempt to send a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// A packet with this many payload bytes is in the batch.
    Packet(u32),
    /// There is nothing to send, or nothing that may be sent now.
    Nothing,
    /// The sink took nothing; the packet is still to be sent.
    Refused,
}

impl<'a> Context<'a> {
    pub(crate) fn count(&mut self, counter: Counter) {
        self.shared.counters.add(counter, 1);
    }

    /// Path MTU in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.attr.path_mtu.bytes()
    }

    /// The path to the peer. Only a QP that has been given one gets as far as sending.
    pub(crate) fn path(&self) -> Option<&'a Path> {
        self.attr.av.as_ref().map(|av| &av.path)
    }

    /// A list in the QP's protection domain.
    pub(crate) fn local<'b>(&'b self, sges: &'b [Sge]) -> Local<'b> {
        Local { regions: &self.shared.regions, pd: self.init.pd, sges }
    }

    /// The QP as a user of R_Keys in a protection domain.
    pub(crate) fn key_user(&self, pd: PdId) -> KeyUser {
        KeyUser { pd, qpn: self.qpn }
    }

    /// Invalidates an R_Key of a protection domain.
    pub(crate) fn invalidate(&mut self, pd: PdId, rkey: u32) -> Result<(), InvalidateFault> {
        let belongs_to = self.shared.profile.type_2_windows;
        self.shared.regions.invalidate(self.key_user(pd), belongs_to, rkey)
    }

    /// The header of a packet whose opcode is the one that does in the QP's service what `opcode` does in RC.
    pub(crate) fn header(&self, opcode: Opcode, dest: Qpn, psn: Psn) -> PacketHeader {
        let opcode = match self.init.qp_type.service() {
            Service::Rc => opcode,
            // What a service does not have was refused before it came here.
            service => opcode.in_service(service).unwrap_or(opcode),
        };
        PacketHeader::new(opcode, dest, psn).mig_req(self.shared.profile.mig_req)
    }

    /// Puts one packet to the peer into the batch.
    pub(crate) fn send<S, E>(
        &mut self,
        sink: &mut S,
        header: &PacketHeader,
        payload_len: u32,
        fill: impl FnOnce(&Self, &mut [u8]) -> Result<(), E>,
    ) -> Result<Sent, E>
    where
        S: TransmitSink,
    {
        let Some(path) = self.path() else { return Ok(Sent::Nothing) };
        self.send_on(path, sink, header, payload_len, fill)
    }

    /// Puts one packet on `path` into the batch: the header, and what `fill` writes as payload.
    ///
    /// If `fill` fails nothing is sent.
    #[inline]
    pub(crate) fn send_on<S, E>(
        &mut self,
        path: &Path,
        sink: &mut S,
        header: &PacketHeader,
        payload_len: u32,
        fill: impl FnOnce(&Self, &mut [u8]) -> Result<(), E>,
    ) -> Result<Sent, E>
    where
        S: TransmitSink,
    {
        let len = header.packet_len(payload_len as usize);
        let Some(room) = sink.reserve(path, len) else {
            self.count(Counter::PortXmitWait);
            return Ok(Sent::Refused);
        };
        fill(self, header.write(room, payload_len as usize))?;
        sink.commit();
        self.count(Counter::PortXmitPackets);
        self.shared.counters.add(Counter::PortXmitData, (len / BYTES_PER_WORD) as u64);
        debug_assert!(len >= ICRC_LEN);
        Ok(Sent::Packet(payload_len))
    }

    /// Moves the QP's deadline.
    pub(crate) fn set_deadline(&mut self, at: Nanos) {
        self.shared.deadlines.set(self.index, at);
    }

    pub(crate) fn clear_deadline(&mut self) {
        self.shared.deadlines.clear(self.index);
    }

    /// Makes a send completion.
    pub(crate) fn complete_send(&mut self, wc: WorkDone, retires: u32) {
        match wc.status {
            WcStatus::Success => {}
            WcStatus::WrFlushErr => self.count(Counter::ReqCqeFlushError),
            _ => self.count(Counter::ReqCqeError),
        }
        self.complete(self.init.send_cq, Queue::Send, wc, retires);
    }

    /// Makes a receive completion.
    pub(crate) fn complete_recv(&mut self, home: Home, wc: WorkDone) {
        match wc.status {
            WcStatus::Success => self.count(Counter::RdmaRecvs),
            WcStatus::WrFlushErr => self.count(Counter::RespCqeFlushError),
            _ => self.count(Counter::RespCqeError),
        }
        self.complete(home.cq, home.queue, wc, 1);
    }

    fn complete(&mut self, cq: CqId, queue: Queue, done: WorkDone, retires: u32) {
        // An error fires a CQ that waits for solicited events too.
        let solicited = done.solicited || done.status != WcStatus::Success;
        let wc = Wc {
            wr_id: done.wr_id,
            status: done.status,
            opcode: done.opcode,
            vendor_err: done.vendor_err,
            byte_len: done.byte_len,
            imm: done.imm,
            invalidated_rkey: done.invalidated_rkey,
            qpn: self.qpn,
            src_qp: done.src_qp,
            flags: done.flags,
        };
        self.shared.output.complete(Completion { cq, queue, retires, solicited, wc });
    }
}

/// What a completion says, less what the QP knows by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkDone {
    pub(crate) wr_id: u64,
    pub(crate) status: WcStatus,
    pub(crate) opcode: WcOpcode,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm: [u8; 4],
    pub(crate) invalidated_rkey: u32,
    pub(crate) src_qp: Qpn,
    pub(crate) flags: WcFlags,
    pub(crate) solicited: bool,
}

impl WorkDone {
    pub(crate) fn new(wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Self {
        WorkDone {
            wr_id,
            status,
            opcode,
            vendor_err: 0,
            byte_len: 0,
            imm: [0; 4],
            invalidated_rkey: 0,
            src_qp: Qpn::default(),
            flags: WcFlags::empty(),
            solicited: false,
        }
    }
}

/// IB counts data in words of four bytes.
const BYTES_PER_WORD: usize = 4;

//! The device: its QPs, its regions, and the calls that its owner makes.

use crate::context::Shared;
use crate::counters::{Counter, Counters};
use crate::icrc_check;
use crate::multicast::{Groups, McastError, group_of};
use crate::output::Output;
use crate::qp::Qp;
use crate::regions::{
    AllocMwError, DeregisterError, KeyFault, LocalFault, LocalUse, MwType, RegionChange, RegionKeys,
    RegionSpec, Regions, RegisterError, ReregisterError,
};
use crate::schedule::{MAX_REFUSALS, Schedule, Turn};
use crate::srq::{CreateSrqError, DestroySrqError, SrqInit, Srqn, Srqs, UnknownSrq};
use crate::table::QpTable;
use crate::timers::Deadlines;
use crate::{
    Completion, CqId, Event, Memory, ModifyQpError, Nanos, PacketMeta, PdId, Place, Profile, QpAttr,
    QpAttrMask, QpInit, QpSnapshot, QpState, QpType, RecvWr, SendWr, Sge, TransmitSink,
};
use ferroce_wire::{Packet, ParseError, Psn, Qpn};
use smallvec::SmallVec;
use std::net::IpAddr;
use thiserror::Error;

/// A RoCEv2 device without IO.
///
/// Its owner hands in packets, work requests and the time, and fetches packets, completions, events and the next
/// deadline. Every call does bounded work, and the same calls give the same results.
#[derive(Debug)]
pub struct Device {
    shared: Shared,
    qps: QpTable,
    groups: Groups,
    schedule: Schedule,
}

/// What a device is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceConfig {
    /// First QPN of the device.
    pub qpn_base: u32,
    /// QPNs it may use from there on.
    pub qpn_count: u32,
    /// From this follow the first QPN and all keys.
    pub seed: u64,
    /// Limits and habits.
    pub profile: Profile,
}

/// What [`Device::poll_transmit`] ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// Nothing is left to send.
    Idle,
    /// The sink refused; there is more to send when it has room again.
    Blocked,
}

impl Device {
    /// A device without QPs and regions.
    pub fn new(config: DeviceConfig) -> Device {
        Device {
            shared: Shared {
                profile: config.profile,
                regions: Regions::new(config.seed),
                counters: Counters::new(),
                deadlines: Deadlines::new(),
                pacing: Deadlines::new(),
                output: Output::default(),
                srqs: Srqs::new(),
            },
            qps: QpTable::new(config.qpn_base, config.qpn_count, config.seed),
            groups: Groups::default(),
            schedule: Schedule::default(),
        }
    }

    /// Registers memory; see [`RegionSpec`].
    pub fn register(&mut self, spec: RegionSpec) -> Result<RegionKeys, RegisterError> {
        self.shared.regions.register(spec)
    }

    /// Makes a region with nothing behind its addresses (`ibv_alloc_null_mr(3)`).
    pub fn register_null(&mut self, pd: PdId) -> Result<RegionKeys, RegisterError> {
        self.shared.regions.register_null(pd)
    }

    /// Changes a region (`ibv_rereg_mr(3)`), all or nothing. What was answered in part is answered from what it is now.
    pub fn reregister(&mut self, lkey: u32, change: &RegionChange) -> Result<(), ReregisterError> {
        self.shared.regions.reregister(lkey, change)
    }

    /// Where the memory of `sge` is, and whether a QP of `pd` may use it so.
    pub fn check_local(&self, pd: PdId, sge: &Sge, usage: LocalUse) -> Result<Place, LocalFault> {
        self.shared.regions.check_local(pd, sge, usage)
    }

    /// Takes a region out. No packet handled or made after this call touches its memory. Fails while windows are bound to it.
    pub fn deregister(&mut self, lkey: u32) -> Result<(), DeregisterError> {
        self.shared.regions.deregister(lkey)
    }

    /// Takes a region out as [`Device::deregister`] does, and unbinds the windows that are bound to it.
    pub fn revoke(&mut self, lkey: u32) -> Result<(), KeyFault> {
        self.shared.regions.revoke(lkey)
    }

    /// Makes a memory window that is not bound (`ibv_alloc_mw(3)`); its R_Key.
    pub fn alloc_mw(&mut self, pd: PdId, mw_type: MwType) -> Result<u32, AllocMwError> {
        self.shared.regions.alloc_window(pd, mw_type)
    }

    /// Takes a window out, bound or not (`ibv_dealloc_mw(3)`). Of `rkey`, which may be any that it has had, the number
    /// counts.
    pub fn dealloc_mw(&mut self, rkey: u32) -> Result<(), KeyFault> {
        self.shared.regions.dealloc_window(rkey)
    }

    /// Creates a QP in RESET.
    pub fn create_qp(&mut self, init: QpInit) -> Result<Qpn, CreateQpError> {
        let full = CreateQpError::TooManyQps { used: self.qps.len(), max: self.qps.capacity() };
        let qpn = self.qps.free_qpn().ok_or(full)?;
        let index = self.qps.index_of(qpn).ok_or(full)?;
        check_init(&init)?;
        if let Some(srqn) = init.srq
            && !self.shared.srqs.add_user(srqn)?
        {
            return Err(CreateQpError::XrcSrq { srqn });
        }
        let qp = Qp::new(qpn, index, init, &self.shared);
        self.qps.insert(index, Box::new(qp));
        Ok(qpn)
    }

    /// Destroys a QP. Nothing of it is heard of afterwards: no completion, no event, no packet.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), UnknownQp> {
        let index = self.qps.index_of(qpn).ok_or(UnknownQp { qpn })?;
        let mut qp = self.qps.remove(index).ok_or(UnknownQp { qpn })?;
        qp.release(&mut self.shared.srqs);
        if qp.scheduled {
            self.schedule.forget(index);
        }
        if let Some(srqn) = qp.init().srq {
            self.shared.srqs.remove_user(srqn);
        }
        self.groups.forget(index);
        self.shared.regions.unbind_all_of(qpn);
        self.shared.deadlines.clear(index);
        self.shared.pacing.clear(index);
        self.shared.output.forget(qpn);
        Ok(())
    }

    /// Creates an SRQ, empty and with no limit armed.
    pub fn create_srq(&mut self, init: SrqInit) -> Result<Srqn, CreateSrqError> {
        self.shared.srqs.create(init)
    }

    /// Destroys an SRQ that no QP uses, and the WQEs in it without completions.
    pub fn destroy_srq(&mut self, srqn: Srqn) -> Result<(), DestroySrqError> {
        self.shared.srqs.destroy(srqn)?;
        self.shared.output.forget_srq(srqn);
        Ok(())
    }

    /// Arms an SRQ's limit (`ibv_modify_srq(3)`), or disarms it with 0: when fewer WQEs than that are left, one
    /// event says so.
    pub fn arm_srq(&mut self, srqn: Srqn, limit: u32) -> Result<(), UnknownSrq> {
        self.shared.srqs.arm(srqn, limit)
    }

    /// The limit of an SRQ (`ibv_query_srq(3)`); 0 when it is not armed, or was reached.
    pub fn srq_limit(&self, srqn: Srqn) -> Result<u32, UnknownSrq> {
        self.shared.srqs.limit(srqn)
    }

    /// Posts a receive WR to an SRQ. The caller has seen to the room in it.
    pub fn post_srq_recv(&mut self, srqn: Srqn, wr: RecvWr) -> Result<(), UnknownSrq> {
        self.shared.srqs.post(srqn, wr)
    }

    /// `ibv_modify_qp(3)`: all of it, or nothing and the reason.
    pub fn modify_qp(
        &mut self,
        now: Nanos,
        qpn: Qpn,
        attr: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<(), ModifyQpError> {
        self.with_qp(qpn, |qp, shared| qp.modify(now, attr, mask, shared))
            .unwrap_or(Err(ModifyQpError::UnknownQp { qpn }))
    }

    /// Lets an RC or XRC QP repeat lost requests selectively, until it is reset: the responder keeps what comes behind a
    /// gap and says what that is, and the requester sends again only what is missing.
    ///
    /// This is ours alone, and no other card understands it. The owners of the two QPs have to know, from whatever they
    /// exchange QPNs with, that both ends do it; then both call this before the QPs go to RTR. A QP for which it is not
    /// called sends what it would send if this did not exist.
    ///
    /// # Errors
    /// The profile does not have it, the QP's type does not repeat at all, or the QP has been connected already.
    pub fn repeat_selectively(&mut self, qpn: Qpn) -> Result<(), SelectiveRepeatError> {
        if !self.shared.profile.selective_repeat {
            return Err(SelectiveRepeatError::Off);
        }
        let index = self.qps.index_of(qpn).ok_or(SelectiveRepeatError::UnknownQp { qpn })?;
        let qp = self.qps.get_mut(index).ok_or(SelectiveRepeatError::UnknownQp { qpn })?;
        match (qp.init().qp_type, qp.state()) {
            (qp_type @ (QpType::Uc | QpType::Ud), _) => {
                return Err(SelectiveRepeatError::Unreliable { qp_type });
            }
            (_, QpState::Reset | QpState::Init) => {}
            (_, state) => return Err(SelectiveRepeatError::Connected { state }),
        }
        qp.repeat_selectively();
        Ok(())
    }

    /// `ibv_query_qp(3)`.
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpAttr, UnknownQp> {
        self.qp(qpn).map(Qp::query).ok_or(UnknownQp { qpn })
    }

    /// Attaches a UD QP to the multicast group `gid`, whose packets it receives from now on
    /// (`ibv_attach_mcast(3)`). The owner sees to it that they come. Twice is as good as once.
    ///
    /// # Errors
    /// A QP of another type; a GID that is no multicast address.
    pub fn attach_mcast(&mut self, qpn: Qpn, gid: [u8; 16]) -> Result<(), McastError> {
        let (group, index) = self.check_mcast(qpn, gid)?;
        self.groups.attach(group, index);
        Ok(())
    }

    /// Detaches a QP from a multicast group.
    ///
    /// # Errors
    /// Those of [`Device::attach_mcast`]; it is not attached.
    pub fn detach_mcast(&mut self, qpn: Qpn, gid: [u8; 16]) -> Result<(), McastError> {
        let (group, index) = self.check_mcast(qpn, gid)?;
        if self.groups.detach(group, index) { Ok(()) } else { Err(McastError::NotAttached { qpn, gid }) }
    }

    fn check_mcast(&self, qpn: Qpn, gid: [u8; 16]) -> Result<(IpAddr, u32), McastError> {
        let qp = self.qp(qpn).ok_or(McastError::UnknownQp { qpn })?;
        let index = self.qps.index_of(qpn).ok_or(McastError::UnknownQp { qpn })?;
        if qp.init().qp_type != QpType::Ud {
            return Err(McastError::NotUd { qpn });
        }
        Ok((group_of(gid).ok_or(McastError::NotMulticast { gid })?, index))
    }

    /// The state of a QP.
    pub fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.qp(qpn).map(Qp::state)
    }

    /// What a QP is doing.
    pub fn snapshot(&self, qpn: Qpn) -> Option<QpSnapshot> {
        self.qp(qpn).map(Qp::snapshot)
    }

    /// The number of the send WR, begun and not complete, that has `psn` among its PSNs.
    pub fn wr_at(&self, qpn: Qpn, psn: Psn) -> Option<u64> {
        self.qp(qpn)?.wr_at(psn)
    }

    /// Posts a send WR. The caller has seen to the state and the room in the queue; in ERR it is flushed at once,
    /// and before RTS it waits.
    pub fn post_send(&mut self, now: Nanos, qpn: Qpn, wr: SendWr) -> Result<(), UnknownQp> {
        self.with_qp(qpn, |qp, shared| qp.post_send(now, wr, shared)).ok_or(UnknownQp { qpn })
    }

    /// Posts a receive WR. The caller has seen to the state and the room in the queue, and that the QP has one and
    /// not an SRQ; in ERR it is flushed at once.
    pub fn post_recv(&mut self, now: Nanos, qpn: Qpn, wr: RecvWr) -> Result<(), UnknownQp> {
        self.with_qp(qpn, |qp, shared| qp.post_recv(now, wr, shared)).ok_or(UnknownQp { qpn })
    }

    /// The CQ has overrun: every QP that completes to it goes to the error state (class G, S-12), and XRC SRQs that do
    /// are dead.
    pub fn cq_overrun(&mut self, now: Nanos, cq: CqId) {
        self.shared.srqs.cq_overrun(cq, &mut self.shared.output);
        let users: Vec<u32> = self.qps.indexes().collect();
        for index in users {
            let Some(qp) = self.qps.get_mut(index) else { continue };
            let uses = qp.init().send_cq == cq || qp.init().recv_cq == cq;
            if !uses || matches!(qp.state(), QpState::Reset | QpState::Err) {
                continue;
            }
            qp.fail(now, &"the completion queue has overrun", &mut self.shared);
        }
    }

    /// Takes a UDP payload that came to the RoCE port.
    ///
    /// Whatever is wrong with it is counted, and answered only where the specification wants an answer.
    pub fn handle_packet(&mut self, now: Nanos, meta: &PacketMeta, udp_payload: &[u8], memory: &impl Memory) {
        let counters = &mut self.shared.counters;
        counters.incr(Counter::PortRcvPackets);
        counters.add(Counter::PortRcvData, (udp_payload.len() / 4) as u64);
        let packet = match Packet::parse(udp_payload) {
            Ok(packet) => packet,
            Err(error) => return counters.incr(parse_counter(&error)),
        };
        let seen;
        let meta = match icrc_check::check(meta, udp_payload) {
            Some(ip_id) if ip_id == meta.ip_id => meta,
            Some(ip_id) => {
                seen = PacketMeta { ip_id, ..*meta };
                &seen
            }
            None => return counters.incr(Counter::DropIcrc),
        };
        if packet.is_cnp() {
            return self.handle_cnp(now, meta, &packet);
        }
        if meta.ecn() == crate::Ecn::Ce {
            counters.incr(Counter::NpEcnMarkedRocePackets);
        }
        if packet.bth().dest_qpn() == Qpn::MULTICAST {
            return self.handle_multicast(now, meta, &packet, memory);
        }
        let handled = self.with_qp(packet.bth().dest_qpn(), |qp, shared| {
            qp.handle_packet(now, meta, &packet, memory, shared);
        });
        if handled.is_none() {
            self.shared.counters.incr(Counter::DropUnknownQpn);
        }
    }

    /// A CNP slows its QP down, and does nothing else (W-47).
    fn handle_cnp(&mut self, now: Nanos, meta: &PacketMeta, packet: &Packet<'_>) {
        let handled = self
            .qps
            .index_of(packet.bth().dest_qpn())
            .and_then(|index| self.qps.get_mut(index))
            .is_some_and(|qp| qp.handle_cnp(now, meta, packet, &self.shared.profile.dcqcn));
        let counter = if handled { Counter::RpCnpHandled } else { Counter::RpCnpIgnored };
        self.shared.counters.incr(counter);
    }

    /// Every QP attached to the group gets a copy (IBTA 10.5.2).
    fn handle_multicast(&mut self, now: Nanos, meta: &PacketMeta, packet: &Packet<'_>, memory: &impl Memory) {
        let members: SmallVec<[u32; 8]> = self.groups.members(meta.dst).into();
        if members.is_empty() {
            self.shared.counters.incr(Counter::DropMulticast);
        }
        for index in members {
            self.with_index(index, |qp, shared| qp.handle_packet(now, meta, packet, memory, shared));
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        // A deadline set here lies after `now`, unless its time is 0; each QP has one, so this ends. Asking once more
        // than there are QPs takes out what destroyed ones left, or `poll_timeout` would name it for ever.
        let mut left = self.qps.len() + 1;
        while left > 0 {
            let Some(index) = self.shared.deadlines.pop_due(now) else { break };
            self.with_index(index, |qp, shared| qp.handle_deadline(now, shared));
            left -= 1;
        }
        // Ends when all are out: only sending sets such a deadline.
        while let Some(index) = self.shared.pacing.pop_due(now) {
            self.with_index(index, |_, _| ());
        }
    }

    /// Writes packets into `sink` until nothing is left to send or it takes no more.
    pub fn poll_transmit(
        &mut self,
        now: Nanos,
        memory: &impl Memory,
        sink: &mut impl TransmitSink,
    ) -> Transmit {
        // The QPs before `place` were refused in this call. Each round sends a burst, takes a QP out, or moves
        // `place` on, so it ends when the sink is full.
        let mut place = 0;
        while let Some(index) = self.schedule.at(place) {
            let Some(qp) = self.qps.get_mut(index) else {
                self.schedule.remove(place);
                continue;
            };
            match qp.transmit(now, memory, sink, &mut self.shared) {
                Turn::Idle => {
                    qp.scheduled = false;
                    self.schedule.remove(place);
                }
                Turn::Spent | Turn::CutShort => self.schedule.move_to_end(place),
                Turn::Refused => place += 1,
            }
            if place > MAX_REFUSALS {
                // So that those behind have a chance next time.
                self.schedule.rotate(place);
                return Transmit::Blocked;
            }
        }
        if place > 0 { Transmit::Blocked } else { Transmit::Idle }
    }

    /// The next completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.shared.output.poll_completion()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.output.poll_event()
    }

    /// When to call [`Device::handle_timeout`] next, unless something happens before.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let (waits, paced) = (self.shared.deadlines.next(), self.shared.pacing.next());
        waits.into_iter().chain(paced).min()
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    fn qp(&self, qpn: Qpn) -> Option<&Qp> {
        self.qps.get(self.qps.index_of(qpn)?)
    }

    /// Calls into a QP, and gives it a turn if it has something to send then.
    fn with_qp<T>(&mut self, qpn: Qpn, call: impl FnOnce(&mut Qp, &mut Shared) -> T) -> Option<T> {
        self.with_index(self.qps.index_of(qpn)?, call)
    }

    fn with_index<T>(&mut self, index: u32, call: impl FnOnce(&mut Qp, &mut Shared) -> T) -> Option<T> {
        let qp = self.qps.get_mut(index)?;
        let result = call(qp, &mut self.shared);
        if !qp.scheduled && qp.may_send() {
            qp.scheduled = true;
            self.schedule.push(index);
        }
        Some(result)
    }
}

/// Whether a QP can be made of this, as far as its type decides.
fn check_init(init: &QpInit) -> Result<(), CreateQpError> {
    let qp_type = init.qp_type;
    match qp_type {
        QpType::XrcIni | QpType::XrcTgt if init.srq.is_some() => Err(CreateQpError::UnwantedSrq { qp_type }),
        QpType::XrcTgt if init.xrcd.is_none() => Err(CreateQpError::NoXrcd),
        QpType::XrcTgt => Ok(()),
        _ if init.xrcd.is_some() => Err(CreateQpError::UnwantedXrcd { qp_type }),
        _ => Ok(()),
    }
}

fn parse_counter(error: &ParseError) -> Counter {
    match error {
        ParseError::TransportVersion(_) => Counter::DropTransportVersion,
        ParseError::UnknownOpcode(_) => Counter::DropUnknownOpcode,
        ParseError::TooShort { .. } | ParseError::PadExceedsPayload { .. } => Counter::DropMalformed,
    }
}

/// Why a QP was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CreateQpError {
    /// An XRC target without a domain.
    #[error("an XRC_TGT QP receives for the SRQs of an XRC domain, and none was given")]
    NoXrcd,
    /// A domain for another QP.
    #[error("only an XRC_TGT QP has an XRC domain, and this is {qp_type}")]
    UnwantedXrcd {
        /// The type asked for.
        qp_type: QpType,
    },
    /// An SRQ for an XRC QP.
    #[error("a QP of type {qp_type} is not made with an SRQ: requests name the SRQ")]
    UnwantedSrq {
        /// The type asked for.
        qp_type: QpType,
    },
    /// An XRC SRQ for another QP.
    #[error("SRQ {srqn} is an XRC SRQ, with which no QP is made")]
    XrcSrq {
        /// The SRQ.
        srqn: Srqn,
    },
    /// No such SRQ.
    #[error(transparent)]
    Srq(#[from] UnknownSrq),
    /// All QPNs are in use.
    #[error("all of the device's QPs are in use ({used}, at most {max}): destroy some first")]
    TooManyQps {
        /// QPs there are.
        used: u32,
        /// QPNs there are.
        max: u32,
    },
}

/// Why a QP does not repeat selectively.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SelectiveRepeatError {
    /// The device does not do it.
    #[error("selective repeat is off: set it in the device's profile")]
    Off,
    /// No such QP.
    #[error("there is no QP {qpn}")]
    UnknownQp {
        /// The QPN asked for.
        qpn: Qpn,
    },
    /// A service that repeats nothing.
    #[error("a QP of type {qp_type} repeats nothing")]
    Unreliable {
        /// The QP's type.
        qp_type: QpType,
    },
    /// It is too late to agree.
    #[error("the QP is in {state}: selective repeat is agreed upon before RTR")]
    Connected {
        /// The QP's state.
        state: QpState,
    },
}

/// There is no such QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("there is no QP {qpn}")]
pub struct UnknownQp {
    /// The QPN asked for.
    pub qpn: Qpn,
}

//! QPs whose peer is the host without a card, which sends them whatever there is. They may end in any way; but what
//! they complete they complete once and in order, they touch no memory but their own, and nobody else notices.

use super::Fault;
use super::apply::attributes_of;
use super::attack::Aim;
use super::ledger::{Place, Use};
use super::plan::{self, Expose, Service};
use super::world::World;
use crate::chance::Chance;
use crate::fabric::{self, TRANSITIONS};
use ferroce_core::{
    AccessFlags, AddressVector, Completion, CqId, PathMtu, Payload, PdId, QpAttr, QpAttrMask, QpInit,
    QpState, QpType, Queue, RecvWr, Remote, SendFlags, SendOp, SendWr, SrqInit, Srqn, WcOpcode, WcStatus,
    XrcSrq, XrcdId,
};
use ferroce_wire::{Psn, Qpn};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// An exposed QP.
#[derive(Debug)]
pub(super) struct Prey {
    pub(super) plan: Expose,
    pub(super) host: usize,
    pub(super) qpn: Qpn,
    exists: bool,
    cqs: [CqId; 2],
    srqn: Option<Srqn>,
    /// Work requests that are not complete, oldest first.
    sends: VecDeque<Outstanding>,
    receives: VecDeque<Outstanding>,
    /// Where its peer is.
    aim: Aim,
}

/// A work request, and the memory that it may write.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    wr_id: u64,
    place: Option<Place>,
}

impl Prey {
    fn qp_type(&self) -> QpType {
        self.plan.service.qp_type(self.plan.side)
    }

    fn pd(&self) -> PdId {
        PdId(FIRST_PD + self.plan.number)
    }

    fn fault(&self, rule: &'static str, text: impl std::fmt::Display) -> Fault {
        Fault::new(rule, format!("exposed {} ({}): {text}", self.plan.number, self.qpn))
    }
}

impl World {
    /// Makes an exposed QP, with work and memory of its own.
    pub(super) fn expose(&mut self, expose: &Expose) {
        let host = usize::from(expose.host);
        let is_known = self.prey.iter().any(|prey| prey.plan.number == expose.number);
        if host >= self.hosts.len() || is_known {
            return;
        }
        let qp_type = expose.service.qp_type(expose.side);
        let pd = PdId(FIRST_PD + expose.number);
        let xrcd = XrcdId(FIRST_XRCD + expose.number);
        let first_cq = FIRST_CQ + 2 * self.prey.len() as u32;
        let cqs = [CqId(first_cq), CqId(first_cq + 1)];
        let id = self.hosts[host].id;
        let srqn = (qp_type == QpType::XrcTgt).then(|| {
            let init = SrqInit { pd, xrc: Some(XrcSrq { xrcd, cq: cqs[1] }) };
            let created = self.fabric.network.call(id, |device, _, _| device.create_srq(init));
            created.expect("a card has more SRQs than a plan")
        });
        let active_mtu = self.fabric.network.active_mtu(id);
        let init = QpInit {
            sq_sig_all: true,
            xrcd: srqn.is_some().then_some(xrcd),
            ..QpInit::new(qp_type, pd, cqs[0], cqs[1], active_mtu)
        };
        let qpn = self.fabric.network.create_qp(id, init).expect("a card has more QPNs than a plan has QPs");
        let region = self.place(host, (pd, ALL_ACCESS), REGION_LEN);
        let region = Place { len: (region.region_end - region.addr) as u32, ..region };
        self.hosts[host].ledger.open(&region, Use::Any);
        self.is_calm = false;
        self.tally.exposed += 1;
        self.prey.push(Prey {
            plan: *expose,
            host,
            qpn,
            exists: true,
            cqs,
            srqn,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            aim: Aim::new(region),
        });
        let index = self.prey.len() - 1;
        if expose.selective && expose.service.is_reliable() {
            let agreed = self.fabric.network.call(id, |device, _, _| device.repeat_selectively(qpn));
            agreed.expect("the profile has it, and the QP is in RESET");
        }
        for (state, mask) in TRANSITIONS {
            let attr = QpAttr { qp_state: state, ..self.prey_attributes(index) };
            let mask = attributes_of(qp_type, state, mask).union(QpAttrMask::STATE);
            let result = self.fabric.network.modify_qp(id, qpn, &attr, mask);
            result.expect("a transition with the attributes it needs");
        }
        for _ in 0..expose.work[1] {
            self.feed_prey(index);
        }
        for number in 0..expose.work[0] {
            self.work_prey(index, number);
        }
    }

    /// The address of the host without a card, and of a host.
    fn prey_way(&self, host: usize, ipv6: bool) -> [IpAddr; 2] {
        let bare = self.fabric.endpoint(self.hosts.len());
        [self.fabric.address(bare, ipv6), self.hosts[host].addresses[usize::from(ipv6)]]
    }

    fn prey_vector(&self, index: usize) -> AddressVector {
        let Prey { plan, host, .. } = &self.prey[index];
        let [bare, own] = self.prey_way(*host, plan.ipv6);
        fabric::Connection::default().address_vector(own, bare)
    }

    fn prey_attributes(&self, index: usize) -> QpAttr {
        let Prey { plan, .. } = &self.prey[index];
        QpAttr {
            access: ALL_ACCESS,
            path_mtu: plan::path_mtu(plan.mtu),
            dest_qpn: PEER_QPN,
            rq_psn: Psn::new(plan.psns[1]),
            sq_psn: Psn::new(plan.psns[0]),
            av: Some(self.prey_vector(index)),
            max_rd_atomic: plan.rd_atomic[0],
            max_dest_rd_atomic: plan.rd_atomic[1],
            min_rnr_timer: 1,
            timeout: plan.timeout,
            retry_cnt: plan.retry_cnt,
            rnr_retry: 7,
            qkey: qkey(plan.number),
            ..QpAttr::default()
        }
    }

    /// Posts a receive work request to an exposed QP.
    fn feed_prey(&mut self, index: usize) {
        let Prey { host, qpn, srqn, receives, plan, .. } = &self.prey[index];
        let (host, qpn, srqn, pd) = (*host, *qpn, *srqn, self.prey[index].pd());
        if plan.service == Service::Xrc && srqn.is_none() || receives.len() >= MAX_WORK {
            return;
        }
        let usage = if plan.service == Service::Uc { Use::Restartable } else { Use::Once };
        let wr_id = self.number();
        let len = RECEIVE_LENS[wr_id as usize % RECEIVE_LENS.len()];
        let place = self.place(host, (pd, AccessFlags::LOCAL_WRITE), len);
        self.hosts[host].ledger.open(&place, usage);
        self.prey[index].receives.push_back(Outstanding { wr_id, place: Some(place) });
        let wr = RecvWr { wr_id, sges: place.list(2, place.keys.lkey).into() };
        let id = self.hosts[host].id;
        match srqn {
            None => self.fabric.network.post_recv(id, qpn, wr).expect("the QP exists"),
            Some(srqn) => {
                let posted = self.fabric.network.call(id, |device, _, _| device.post_srq_recv(srqn, wr));
                posted.expect("the SRQ exists");
            }
        }
    }

    /// Posts a send work request to an exposed QP, whose answer its peer makes up.
    fn work_prey(&mut self, index: usize, number: u8) {
        let Prey { host, qpn, plan, .. } = self.prey[index];
        if !plan.service.sends(plan.side) || self.prey[index].sends.len() >= MAX_WORK {
            return;
        }
        let (va, rkey, pd) = (0x1000, 0x55, self.prey[index].pd());
        let op = match (plan.service, number % 5) {
            (Service::Rc | Service::Xrc, 0 | 3) => SendOp::Read { va, rkey },
            (Service::Rc | Service::Xrc, 1) => SendOp::FetchAdd { va, rkey, add: 1 },
            (Service::Ud, _) | (_, 2) => SendOp::Send,
            _ => SendOp::Write { va, rkey },
        };
        let (len, is_answered) = match op {
            SendOp::Read { .. } => (plan.mtu * 2 + 100, true),
            SendOp::FetchAdd { .. } => (8, true),
            _ if plan.service == Service::Ud => (100, false),
            _ => (plan.mtu + 7, false),
        };
        let place = self.place(host, (pd, AccessFlags::LOCAL_WRITE), len);
        if is_answered {
            self.hosts[host].ledger.open(&place, Use::Once);
        }
        let remote = match plan.service {
            Service::Rc | Service::Uc => Remote::Peer,
            Service::Xrc => Remote::Srq(Srqn::new(1)),
            Service::Ud => {
                let ah = self.prey_vector(index);
                let source_port = ah.path.source_port;
                let qkey = qkey(plan.number);
                Remote::Datagram { ah: Arc::new(ah), pd, qpn: PEER_QPN, qkey, source_port, receiver: None }
            }
        };
        let wr_id = self.number();
        self.prey[index].sends.push_back(Outstanding { wr_id, place: is_answered.then_some(place) });
        let payload = Payload::Sges(place.list(1, place.keys.lkey).into());
        let wr = SendWr { wr_id, op, flags: SendFlags::SIGNALED, payload, remote };
        self.fabric.network.post_send(self.hosts[host].id, qpn, wr).expect("the QP exists");
    }

    /// The peer of an exposed QP sends it some packets.
    pub(super) fn attack(&mut self, number: u32, packets: u8, salt: u32) {
        let Some(index) = self.prey_numbered(number) else { return };
        let Prey { host, qpn, plan, srqn, .. } = self.prey[index];
        let mut chance = Chance::of_part(self.seed, ATTACK_PART + u64::from(salt));
        let [bare, own] = self.prey_way(host, plan.ipv6);
        let path = fabric::Connection::default().address_vector(bare, own).path;
        let id = self.fabric.endpoint(self.hosts.len());
        let mtu = plan::path_mtu(plan.mtu).bytes() as usize;
        let device = self.fabric.network.nic(self.hosts[host].id).map(|nic| nic.device());
        let snapshot = device.and_then(|device| device.snapshot(qpn));
        let aim = &mut self.prey[index].aim;
        aim.qpn = qpn;
        aim.service = plan.service.qp_type(plan.side).service();
        aim.mtu = mtu;
        aim.qkey = qkey(plan.number);
        aim.srqn = srqn.map_or(0, Srqn::value);
        aim.look(snapshot.as_ref(), plan.psns[1]);
        for _ in 0..packets {
            let bytes = aim.packet(&mut chance, &self.overheard);
            let is_sealed = !chance.one_in(20);
            self.tally.attacks += 1;
            self.fabric.network.send_datagram(id, &path, &bytes, is_sealed);
        }
        // Its queues are seldom empty.
        if chance.one_in(2) {
            self.feed_prey(index);
        }
        let takes = matches!(self.prey_state(index), Some(QpState::Rts | QpState::Sqd));
        if takes && chance.one_in(3) {
            self.work_prey(index, chance.bits() as u8);
        }
    }

    /// Keeps the last packets that came to the host without a card, to be sent back changed.
    pub(super) fn overhear(&mut self) {
        let bare = self.fabric.endpoint(self.hosts.len());
        while let Some(datagram) = self.fabric.network.poll_datagram(bare) {
            if self.overheard.len() == OVERHEARD {
                self.overheard.pop_front();
            }
            self.overheard.push_back(datagram.payload);
        }
    }

    /// Modifies an exposed QP somehow: refused, it is as it was.
    pub(super) fn twist(&mut self, number: u32, salt: u32) -> Result<(), Fault> {
        let Some(index) = self.prey_numbered(number) else { return Ok(()) };
        let mut chance = Chance::of_part(self.seed, TWIST_PART + u64::from(salt));
        let (qp_state, mask) = self.draw_change(index, &mut chance);
        let usual = self.prey_attributes(index);
        let mut few = |usual: u8, most: u64| if chance.one_in(4) { chance.below(most) as u8 } else { usual };
        let attr = QpAttr {
            qp_state,
            cur_qp_state: self.prey_state(index).unwrap_or(QpState::Reset),
            retry_cnt: few(usual.retry_cnt, 10),
            rnr_retry: few(usual.rnr_retry, 10),
            min_rnr_timer: few(1, 33),
            max_rd_atomic: few(usual.max_rd_atomic, 20),
            max_dest_rd_atomic: few(usual.max_dest_rd_atomic, 20),
            pkey_index: few(0, 3).into(),
            port_num: few(1, 4),
            // Not so long that nothing comes to an end.
            timeout: if few(0, 2) == 1 { 32 } else { usual.timeout },
            path_mtu: *chance.pick(&PathMtu::ALL),
            access: AccessFlags::from_bits_truncate(chance.bits() as u32 & 0xf),
            rq_psn: Psn::new(chance.below(1 << 24) as u32),
            sq_psn: Psn::new(chance.below(1 << 24) as u32),
            ..usual
        };
        let Prey { host, qpn, .. } = self.prey[index];
        let id = self.hosts[host].id;
        let query = |world: &mut World| world.fabric.network.call(id, |device, _, _| device.query_qp(qpn));
        let before = query(self);
        let result = self.fabric.network.modify_qp(id, qpn, &attr, mask);
        if result.is_err() && query(self) != before {
            return Err(self.prey[index].fault("state", "a modify that was refused changed it"));
        }
        if result.is_ok() && self.prey_state(index) == Some(QpState::Reset) {
            self.forget_work(index);
        }
        Ok(())
    }

    /// A state and a mask: a way back to RTS mostly, or anything.
    fn draw_change(&self, index: usize, chance: &mut Chance) -> (QpState, QpAttrMask) {
        let state = self.prey_state(index).unwrap_or(QpState::Reset);
        if state == QpState::Err && chance.below(4) > 0 {
            return (QpState::Reset, QpAttrMask::STATE);
        }
        let next = match state {
            QpState::Reset => Some(0),
            QpState::Init => Some(1),
            QpState::Rtr => Some(2),
            _ => None,
        };
        if let Some((to, mask)) = next.map(|next: usize| TRANSITIONS[next])
            && chance.below(4) > 0
        {
            return (to, attributes_of(self.prey[index].qp_type(), to, mask).union(QpAttrMask::STATE));
        }
        const STATES: [QpState; 8] = [
            QpState::Reset,
            QpState::Init,
            QpState::Rtr,
            QpState::Rts,
            QpState::Sqd,
            QpState::Sqe,
            QpState::Err,
            QpState::Rts,
        ];
        let to = *chance.pick(&STATES);
        // Few bits, or all of them would be refused.
        let bits = chance.bits() as u32 & chance.bits() as u32 & chance.bits() as u32 & 0x3ff_ffff;
        let mask = if chance.one_in(2) { QpAttrMask::empty() } else { QpAttrMask::from_bits_truncate(bits) };
        (to, if chance.one_in(8) { mask } else { mask.union(QpAttrMask::STATE) })
    }

    /// It was reset: what was posted to its own queues is gone.
    fn forget_work(&mut self, index: usize) {
        let prey = &mut self.prey[index];
        let host = prey.host;
        let mut gone: Vec<_> = prey.sends.drain(..).collect();
        if prey.srqn.is_none() {
            gone.extend(prey.receives.drain(..));
        }
        prey.aim.message = None;
        for place in gone.into_iter().filter_map(|work| work.place) {
            self.hosts[host].ledger.close(place.addr);
        }
    }

    /// The index of an exposed QP that a step names.
    fn prey_numbered(&self, number: u32) -> Option<usize> {
        self.prey.iter().position(|prey| prey.plan.number == number && prey.exists)
    }

    /// The index of the exposed QP with this number.
    pub(super) fn prey_at(&self, host: usize, qpn: Qpn) -> Option<usize> {
        self.prey.iter().position(|prey| (prey.host, prey.qpn) == (host, qpn) && prey.exists)
    }

    fn prey_state(&self, index: usize) -> Option<QpState> {
        let Prey { host, qpn, .. } = self.prey[index];
        self.fabric.network.nic(self.hosts[host].id)?.device().qp_state(qpn)
    }

    /// A completion of an exposed QP: of the oldest work request, whatever became of it.
    pub(super) fn prey_completed(&mut self, index: usize, completion: &Completion) -> Result<(), Fault> {
        let Completion { wc, queue, retires, cq, .. } = completion;
        let prey = &mut self.prey[index];
        let (host, is_send) = (prey.host, *queue == Queue::Send);
        let expected_cq = prey.cqs[usize::from(!is_send)];
        let expected = if is_send { prey.sends.pop_front() } else { prey.receives.pop_front() };
        let wr_id = expected.map(|work| work.wr_id);
        if (wr_id, *retires, *cq) != (Some(wc.wr_id), 1, expected_cq) {
            let text = format!("wr {} completed in {cq:?} for {retires}, and {wr_id:?} was next", wc.wr_id);
            return Err(prey.fault("completion", text));
        }
        if wc.status == WcStatus::WrFlushErr
            && !matches!(self.prey_state(index), Some(QpState::Err | QpState::Sqe))
        {
            return Err(self.prey[index].fault("status", format!("wr {} flushed", wc.wr_id)));
        }
        let Some(place) = expected.and_then(|work| work.place) else { return Ok(()) };
        let written = self.hosts[host].ledger.written(place.addr);
        self.hosts[host].ledger.close(place.addr);
        // A message that was given up on UC may have left its beginning.
        let is_exact = self.prey[index].plan.service != Service::Uc;
        let due = match wc.opcode {
            _ if wc.status != WcStatus::Success => return Ok(()),
            WcOpcode::RecvRdmaWithImm => 0,
            _ => wc.byte_len,
        };
        if due > place.len || written < due || (is_exact && written != due) {
            let text = format!("wr {} succeeded with {due} bytes, and {written} were written", wc.wr_id);
            return Err(self.prey[index].fault("data", text));
        }
        Ok(())
    }

    /// What flushes has nothing left in its queues.
    pub(super) fn check_prey(&self) -> Result<(), Fault> {
        for (index, prey) in self.prey.iter().enumerate().filter(|(_, prey)| prey.exists) {
            let Some(state) = self.prey_state(index) else {
                return Err(prey.fault("state", "the QP is not there"));
            };
            let flushes = matches!(state, QpState::Err | QpState::Sqe);
            let has_receives = prey.srqn.is_none() && !prey.receives.is_empty();
            if (flushes && !prey.sends.is_empty()) || (state == QpState::Err && has_receives) {
                return Err(prey.fault("completion", format!("not everything was flushed in {state}")));
            }
        }
        Ok(())
    }

    /// The process on a host died.
    pub(super) fn lose_prey(&mut self, host: usize) {
        for prey in self.prey.iter_mut().filter(|prey| prey.host == host) {
            prey.exists = false;
        }
    }

    /// The longest timeout and the most retries among exposed QPs.
    pub(super) fn prey_patience(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        // Any number of retries may have been set meanwhile.
        self.prey.iter().map(|prey| (prey.plan.timeout, MAX_RETRIES))
    }

    /// All exposed QPs go to ERR, which flushes what is left, and are destroyed.
    pub(super) fn free_prey(&mut self) -> Result<(), Fault> {
        for index in 0..self.prey.len() {
            if !self.prey[index].exists {
                continue;
            }
            let Prey { host, qpn, srqn, .. } = self.prey[index];
            let id = self.hosts[host].id;
            if self.prey_state(index) != Some(QpState::Reset) {
                let attr = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
                let result = self.fabric.network.modify_qp(id, qpn, &attr, QpAttrMask::STATE);
                result.map_err(|error| self.prey[index].fault("state", error))?;
                self.look()?;
            }
            self.fabric.network.destroy_qp(id, qpn).expect("the QP exists");
            self.prey[index].exists = false;
            if let Some(srqn) = srqn {
                let destroyed = self.fabric.network.call(id, |device, _, _| device.destroy_srq(srqn));
                destroyed.map_err(|error| self.prey[index].fault("state", error))?;
            }
        }
        Ok(())
    }
}

fn qkey(number: u32) -> u32 {
    0x7e57_0000 | number
}

/// Whom exposed QPs take for their peer.
const PEER_QPN: Qpn = Qpn::new(0x4321);
/// Domains of their own, so that a packet to one can have nothing to do with another QP.
const FIRST_PD: u32 = 1_000;
const FIRST_XRCD: u32 = 1_000;
const FIRST_CQ: u32 = 1 << 21;
/// Memory that the peer may use: so much that no other place is in the same region.
const REGION_LEN: u32 = 16 << 10;
/// Lengths of receive buffers.
const RECEIVE_LENS: [u32; 4] = [10_000, 10_000, 2_000, 300];
/// Work requests of a queue.
const MAX_WORK: usize = 12;
/// Packets kept to be sent back.
const OVERHEARD: usize = 8;
/// Most that `retry_cnt` can be.
const MAX_RETRIES: u8 = 7;
/// Parts of the simulation that draw attacks and changes.
const ATTACK_PART: u64 = 1 << 36;
const TWIST_PART: u64 = 1 << 37;
const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

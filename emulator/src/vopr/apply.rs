//! Steps, applied to the network and to the model alike. A step that does not fit is skipped.

use super::Fault;
use super::attack::change_bits;
use super::ends::{Connection, End, PoolKind};
use super::ledger::pattern;
use super::plan::{self, Connect, Guise, Modify, Noise, Step};
use super::pools::XRCD;
use super::world::World;
use crate::chance::Chance;
use crate::fabric::{self, TRANSITIONS};
use ferroce_core::{
    AccessFlags, AddressVector, CqId, Nanos, PdId, QpAttr, QpAttrMask, QpInit, QpState, QpType,
};
use ferroce_wire::{Bth, ICRC_LEN, Psn, Qpn};
use zerocopy::IntoBytes;

impl World {
    /// Applies a step.
    pub(super) fn apply(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Wait { ns } => return self.wait(*ns),
            Step::Connect(connect) => self.connect(connect),
            Step::Send(send) => self.send(send),
            Step::Receive(receive) => self.receive(receive),
            Step::Modify { end, to } => {
                if let Some(index) = self.find(*end) {
                    self.modify(index, *to)?;
                }
            }
            Step::Deregister { host, pick } => self.deregister(usize::from(*host), *pick),
            Step::Restart { host } => self.restart(usize::from(*host)),
            Step::Faults(faults) => self.wire.borrow_mut().faults = *faults,
            Step::Link { host, up } => self.set_link(usize::from(*host), *up),
            Step::Overrun { end, receive } => {
                if let Some(index) = self.find(*end) {
                    self.overrun(index, *receive);
                }
            }
            Step::Limit { end, limit } => self.arm_limit(*end, *limit),
            Step::Noise(noise) => self.noise(noise),
            Step::Expose(expose) => self.expose(expose),
            Step::Attack { prey, packets, salt } => self.attack(*prey, *packets, *salt),
            Step::Twist { prey, salt } => return self.twist(*prey, *salt),
        }
        Ok(())
    }

    fn connect(&mut self, connect: &Connect) {
        let exists = |host: &u8| usize::from(*host) < self.hosts.len();
        if self.connections.contains_key(&connect.number) || !connect.hosts.iter().all(exists) {
            return;
        }
        self.tally.connections += 1;
        let is_troubled = connect.hosts.iter().any(|host| !self.hosts[usize::from(*host)].is_up);
        let connection = Connection {
            plan: *connect,
            psns: connect.psns,
            is_tainted: false,
            lost_memory: false,
            is_gone: false,
            is_troubled,
            was_starved: false,
        };
        self.connections.insert(connect.number, connection);
        for side in 0..2 {
            self.create_end(connect, side);
        }
        self.establish(self.ends.len() - 2);
    }

    fn create_end(&mut self, connect: &Connect, side: u8) {
        let index = self.ends.len();
        let host = usize::from(connect.hosts[usize::from(side)]);
        let [send_cq, recv_cq] = [0, 1].map(|queue| CqId(2 * index as u32 + queue));
        let pd = PdId(u32::from(connect.pd));
        let id = self.hosts[host].id;
        let active_mtu = self.fabric.network.active_mtu(id);
        let pool = self.pool_for(connect, side);
        let srq = pool.map(|pool| self.pools[pool].kind);
        let qp_type = connect.service.qp_type(side);
        let init = QpInit {
            sq_sig_all: connect.sig_all[usize::from(side)],
            srq: match srq {
                Some(PoolKind::Srq(_, srqn)) => Some(srqn),
                _ => None,
            },
            xrcd: (qp_type == QpType::XrcTgt).then_some(XRCD),
            ..QpInit::new(qp_type, pd, send_cq, recv_cq, active_mtu)
        };
        if let Some(pool) = pool {
            self.pools[pool].users.push(index);
        }
        let qpn = self.fabric.network.create_qp(id, init).expect("a card has more QPNs than a plan has QPs");
        self.by_qpn.insert((host, qpn), index);
        self.ends.push(End {
            name: plan::End { connection: connect.number, side },
            host,
            qpn,
            pd,
            service: connect.service,
            sig_all: init.sq_sig_all,
            send_cq,
            recv_cq,
            exists: true,
            state: QpState::Reset,
            cause: None,
            silent: None,
            messages: Vec::new(),
            completed: 0,
            delivered: 0,
            pool,
            is_last_wqe_said: false,
            word: None,
            sqd_begun: None,
            is_draining: false,
            windows: Vec::new(),
            local: [0, 0],
        });
    }

    /// Takes both ends from RESET to where they are to be; `first` is the first of the two.
    fn establish(&mut self, first: usize) {
        let late = self.connection(first).plan.late;
        self.inherit(first);
        for index in [first, first + 1] {
            let Connect { selective, service, .. } = self.connection(first).plan;
            if selective && service.is_reliable() {
                let End { host, qpn, .. } = self.ends[index];
                let id = self.hosts[host].id;
                let agreed = self.fabric.network.call(id, |device, _, _| device.repeat_selectively(qpn));
                agreed.expect("the profile has it, and the QP is in RESET");
            }
            let steps = if late && index > first { 2 } else { 3 };
            for (state, mask) in &TRANSITIONS[..steps] {
                self.step_to(index, *state, *mask);
            }
            let End { host, qpn, .. } = self.ends[index];
            let connection = self.connection(first);
            let (addresses, mut wire) = (self.hosts[host].addresses, self.wire.borrow_mut());
            wire.watch(addresses, qpn, &connection.plan);
            if connection.is_troubled {
                wire.trouble(addresses, qpn);
            }
        }
    }

    /// What was wrong with an SRQ before is wrong with a new connection, too.
    fn inherit(&mut self, first: usize) {
        for index in [first, first + 1] {
            let Some(pool) = self.pool_of(index).filter(|pool| pool.kind != PoolKind::Own) else { continue };
            let is_tainted = pool.posted.iter().any(|posted| posted.bad_lkey);
            let lost_memory = self.hosts[pool.host].lost_memory;
            let connection = self.connection_mut(index);
            connection.is_tainted |= is_tainted;
            connection.lost_memory |= lost_memory;
        }
    }

    /// One transition of an end towards RTS.
    fn step_to(&mut self, index: usize, qp_state: QpState, mask: QpAttrMask) {
        let attr = QpAttr { qp_state, ..self.attributes(index) };
        let End { host, qpn, service, name, .. } = self.ends[index];
        let mask = attributes_of(service.qp_type(name.side), qp_state, mask);
        let id = self.hosts[host].id;
        let result = self.fabric.network.modify_qp(id, qpn, &attr, mask.union(QpAttrMask::STATE));
        result.expect("a transition with the attributes it needs");
        self.ends[index].state = qp_state;
    }

    /// The way from an end to its peer.
    pub(super) fn address_vector(&self, index: usize) -> AddressVector {
        let plan = &self.connection(index).plan;
        let [src, dst] = [index, self.peer(index)]
            .map(|end| self.hosts[self.ends[end].host].addresses[usize::from(plan.ipv6)]);
        let route = fabric::Connection { traffic_class: plan.traffic_class, ..fabric::Connection::default() };
        route.address_vector(src, dst)
    }

    fn attributes(&self, index: usize) -> QpAttr {
        let Connection { plan, psns, .. } = self.connection(index);
        let (side, peer) = (usize::from(self.ends[index].name.side), self.peer(index));
        QpAttr {
            access: ALL_ACCESS,
            path_mtu: plan::path_mtu(plan.mtu),
            dest_qpn: self.ends[peer].qpn,
            rq_psn: Psn::new(psns[1 - side]),
            sq_psn: Psn::new(psns[side]),
            av: Some(self.address_vector(index)),
            max_rd_atomic: plan.rd_atomic[side],
            max_dest_rd_atomic: plan.rd_atomic[1 - side],
            min_rnr_timer: plan.min_rnr_timer,
            timeout: plan.timeout,
            retry_cnt: plan.retry_cnt,
            rnr_retry: plan.rnr_retry,
            qkey: qkey(self.ends[index].qpn),
            ..QpAttr::default()
        }
    }

    /// Modifies or destroys a QP, where its state allows it.
    pub(super) fn modify(&mut self, index: usize, to: Modify) -> Result<(), Fault> {
        let end = &self.ends[index];
        if !end.exists {
            return Ok(());
        }
        match (to, end.state) {
            (Modify::Error, QpState::Reset) => {}
            (Modify::Error, _) => {
                self.depart(index);
                self.set_state(index, QpState::Err, QpAttrMask::STATE);
                self.ends[index].doubt_windows();
                self.ends[index].cause.get_or_insert("the plan says so".into());
            }
            (Modify::Drain, QpState::Rts) => {
                self.ends[index].is_draining = true;
                self.set_state(index, QpState::Sqd, QpAttrMask::STATE.union(QpAttrMask::EN_SQD_ASYNC_NOTIFY));
            }
            (Modify::Resume, QpState::Sqd | QpState::Sqe) => {
                self.ends[index].is_draining = false;
                self.ends[index].cause = None;
                self.set_state(index, QpState::Rts, QpAttrMask::STATE);
            }
            (Modify::Resume, QpState::Rtr) => {
                let (state, mask) = TRANSITIONS[2];
                self.step_to(index, state, mask);
            }
            (Modify::Reset, _) => {
                self.depart(index);
                self.set_state(index, QpState::Reset, QpAttrMask::STATE);
                self.ends[index].abandon();
                self.empty_own_pool(index);
            }
            (Modify::Reconnect, _) => self.reconnect(index)?,
            (Modify::Destroy, _) => self.destroy(index),
            (Modify::Nonsense, _) => {
                // SQE is entered by hardware alone (S-2); a timeout has five bits (S-4).
                let mask = QpAttrMask::TIMEOUT.union(QpAttrMask::SQ_PSN);
                self.refuse(index, QpState::Sqe, QpAttrMask::empty())?;
                self.refuse(index, QpState::Rts, mask)?;
            }
            (Modify::Leap { to, mask }, from) => {
                let to = STATES[usize::from(to) % STATES.len()];
                if !leads(from, to) {
                    self.refuse(index, to, QpAttrMask::from_bits_truncate(mask))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn set_state(&mut self, index: usize, qp_state: QpState, mask: QpAttrMask) {
        let attr = QpAttr { qp_state, en_sqd_async_notify: true, ..QpAttr::default() };
        let End { host, qpn, .. } = self.ends[index];
        let result = self.fabric.network.modify_qp(self.hosts[host].id, qpn, &attr, mask);
        result.expect("a transition that the state allows");
        self.ends[index].state = qp_state;
    }

    /// An end will not answer any more.
    fn depart(&mut self, index: usize) {
        self.is_calm = false;
        self.connection_mut(index).is_gone = true;
    }

    /// Both ends to RESET and back, with PSNs that nothing still on its way can have. The unreliable
    /// services take whatever begins a message, so there nothing may be on its way.
    fn reconnect(&mut self, index: usize) -> Result<(), Fault> {
        let first = index.min(self.peer(index));
        let both_exist = [first, first + 1].iter().all(|end| self.ends[*end].exists);
        if !both_exist {
            return Ok(());
        }
        self.is_calm = false;
        for end in [first, first + 1] {
            self.set_state(end, QpState::Reset, QpAttrMask::STATE);
            self.ends[end].begin_anew();
            self.empty_own_pool(end);
        }
        if !self.ends[first].service.is_reliable() {
            self.wait(LONGEST_TRAVEL_NS)?;
        }
        let connection = self.connection_mut(first);
        connection.psns = connection.psns.map(|psn| psn.wrapping_add(PSN_JUMP) % Psn::MODULUS);
        connection.is_tainted = false;
        connection.is_gone = false;
        connection.was_starved = false;
        self.establish(first);
        Ok(())
    }

    fn destroy(&mut self, index: usize) {
        self.depart(index);
        let End { host, qpn, .. } = self.ends[index];
        self.fabric.network.destroy_qp(self.hosts[host].id, qpn).expect("the QP exists");
        self.lose(index);
    }

    /// An end is not there any more.
    fn lose(&mut self, index: usize) {
        let end = &mut self.ends[index];
        end.exists = false;
        end.abandon();
        let (host, qpn) = (end.host, end.qpn);
        self.by_qpn.remove(&(host, qpn));
        self.empty_own_pool(index);
        self.wire.borrow_mut().forget(self.hosts[host].addresses, qpn);
    }

    /// A modify that no state allows, and that changes nothing.
    fn refuse(&mut self, index: usize, qp_state: QpState, mask: QpAttrMask) -> Result<(), Fault> {
        let End { host, qpn, .. } = self.ends[index];
        let id = self.hosts[host].id;
        let query = |world: &mut World| world.fabric.network.call(id, |device, _, _| device.query_qp(qpn));
        let before = query(self);
        let attr = QpAttr { qp_state, timeout: 32, ..self.attributes(index) };
        if self.fabric.network.modify_qp(id, qpn, &attr, mask.union(QpAttrMask::STATE)).is_ok() {
            return Err(self.ends[index].fault("state", format!("went to {qp_state} against all rules")));
        }
        if query(self) != before {
            return Err(self.ends[index].fault("state", "a modify that was refused changed it"));
        }
        Ok(())
    }

    fn deregister(&mut self, host: usize, pick: u32) {
        let Some(model) = self.hosts.get_mut(host) else { return };
        let Some(lkey) = model.ledger.deregister(pick) else { return };
        model.lost_memory = true;
        self.fabric.network.deregister(model.id, lkey).expect("the region exists");
        self.is_calm = false;
        for index in 0..self.ends.len() {
            if self.ends[index].host == host {
                self.connection_mut(index).lost_memory = true;
            }
        }
    }

    fn restart(&mut self, host: usize) {
        let Some(model) = self.hosts.get_mut(host) else { return };
        model.epoch += 1;
        model.lost_memory = false;
        model.ledger.clear();
        self.fabric.network.restart(model.id);
        self.tally.deaths += 1;
        self.lose_prey(host);
        for pool in &mut self.pools {
            pool.exists &= pool.host != host;
        }
        for index in 0..self.ends.len() {
            if self.ends[index].host == host && self.ends[index].exists {
                self.depart(index);
                self.lose(index);
            }
        }
    }

    /// Pulls a host's plug, or puts it back.
    pub(super) fn set_link(&mut self, host: usize, up: bool) {
        let Some(model) = self.hosts.get_mut(host) else { return };
        if model.is_up == up {
            return;
        }
        model.is_up = up;
        let link = self.fabric.link(host);
        self.fabric.network.set_link_up(link, up);
        self.is_calm = false;
        for index in 0..self.ends.len() {
            if self.ends[index].host == host {
                self.connection_mut(index).is_troubled = true;
                let End { qpn, .. } = self.ends[index];
                self.wire.borrow_mut().trouble(self.hosts[host].addresses, qpn);
            }
        }
    }

    fn overrun(&mut self, index: usize, receive: bool) {
        let end = &mut self.ends[index];
        if !end.exists || matches!(end.state, QpState::Reset | QpState::Err) {
            return;
        }
        let cq = if receive { end.recv_cq } else { end.send_cq };
        end.cause = Some("a CQ overran".into());
        let id = self.hosts[end.host].id;
        self.depart(index);
        self.fabric.network.call(id, |device, now, _| device.cq_overrun(now, cq));
    }

    /// What was posted to an end's own receive queue is gone, without completions.
    fn empty_own_pool(&mut self, index: usize) {
        let Some(pool) = self.ends[index].pool.map(|pool| &mut self.pools[pool]) else { return };
        if pool.kind == PoolKind::Own {
            pool.posted.clear();
        }
    }

    /// A packet that means nothing to anybody.
    fn noise(&mut self, noise: &Noise) {
        self.is_calm = false;
        match noise.guise {
            Guise::Copy | Guise::ForgedCopy => self.copy_noise(noise),
            Guise::Stranger | Guise::Forged | Guise::Partition => self.fresh_noise(noise),
        }
    }

    fn fresh_noise(&mut self, noise: &Noise) {
        let Some(index) = self.find(noise.end) else { return };
        let peer = self.peer(index);
        let bare = self.fabric.endpoint(self.hosts.len());
        let end = &self.ends[index];
        let ipv6 = usize::from(self.connection(index).plan.ipv6);
        let dst = self.hosts[end.host].addresses[ipv6];
        let src = match noise.guise {
            Guise::Stranger => self.fabric.address(bare, ipv6 == 1),
            _ => self.hosts[self.ends[peer].host].addresses[ipv6],
        };
        let path = fabric::Connection::default().address_vector(src, dst).path;
        let expected = self.connection(index).psns[usize::from(1 - end.name.side)];
        let psn = Psn::new(expected.wrapping_add_signed(noise.psn));
        let content = self.seed ^ u64::from(noise.len);
        let mut bth = Bth::new(noise.opcode, end.qpn, psn);
        if noise.guise == Guise::Partition {
            bth.set_pkey(OTHER_PARTITION);
        }
        let mut bytes = bth.as_bytes().to_vec();
        bytes.extend(pattern(content, u32::from(noise.len)));
        bytes.extend([0; ICRC_LEN]);
        self.fabric.network.send_datagram(bare, &path, &bytes, noise.guise != Guise::Forged);
    }

    /// A changed copy of something that was just on the wire.
    fn copy_noise(&mut self, noise: &Noise) {
        let mut chance = Chance::of_part(self.seed, COPIES_PART + u64::from(noise.len));
        let copied = self.wire.borrow().copy_of_recent(noise.len.into());
        let Some((src, dst, mut bytes)) = copied else { return };
        let bare = self.fabric.endpoint(self.hosts.len());
        change_bits(&mut bytes, &mut chance);
        let is_forged = noise.guise == Guise::ForgedCopy;
        if is_forged {
            // Bytes that no ICRC covers may be all that was changed.
            if let Some(last) = bytes.last_mut() {
                *last ^= 0xff;
            }
        } else if let Some(qkey) = bytes.get_mut(Bth::LEN..Bth::LEN + size_of::<u32>()) {
            // If it is a datagram: not that of any QP there is.
            qkey.copy_from_slice(&NO_QKEY.to_be_bytes());
        }
        let src = if is_forged { src } else { self.fabric.address(bare, dst.is_ipv6()) };
        let path = fabric::Connection::default().address_vector(src, dst).path;
        self.fabric.network.send_datagram(bare, &path, &bytes, !is_forged);
    }
}

/// Whether a modify leads from a state to another (IBTA 10.3.1).
fn leads(from: QpState, to: QpState) -> bool {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    matches!(
        (from, to),
        (_, Reset | Err)
            | (Reset | Init, Init)
            | (Init, Rtr)
            | (Rtr | Rts | Sqd | Sqe, Rts)
            | (Rts | Sqd, Sqd)
    )
}

/// The attributes of a step towards RTS that a QP of this type takes.
pub(super) fn attributes_of(qp_type: QpType, to: QpState, rc: QpAttrMask) -> QpAttrMask {
    const RESPONDER: QpAttrMask = QpAttrMask::MAX_DEST_RD_ATOMIC.union(QpAttrMask::MIN_RNR_TIMER);
    const REQUESTER: QpAttrMask =
        QpAttrMask::RETRY_CNT.union(QpAttrMask::RNR_RETRY).union(QpAttrMask::MAX_QP_RD_ATOMIC);
    match (qp_type, to) {
        (QpType::Rc, _) => rc,
        (QpType::Uc, _) => rc.difference(RESPONDER.union(REQUESTER).union(QpAttrMask::TIMEOUT)),
        (QpType::XrcIni, _) => rc.difference(RESPONDER),
        (QpType::XrcTgt, _) => rc.difference(REQUESTER),
        (QpType::Ud, QpState::Init) => QpAttrMask::PKEY_INDEX.union(QpAttrMask::PORT).union(QpAttrMask::QKEY),
        (QpType::Ud, QpState::Rts) => QpAttrMask::SQ_PSN,
        (QpType::Ud, _) => QpAttrMask::empty(),
    }
}

/// The Q_Key of a QP, which its peer knows.
pub(super) fn qkey(qpn: Qpn) -> u32 {
    // The top bit belongs to privileged ones.
    (qpn.value() * 5) & 0x7fff_ffff
}

/// All states, as the verbs number them.
const STATES: [QpState; 7] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];
const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);
/// A partition that no host is in.
const OTHER_PARTITION: u16 = 0x1234;
/// A Q_Key that no QP has: they have those of [`qkey`], multiples of 5 below 2^27, or the exposed ones'.
const NO_QKEY: u32 = 0x7fff_fffe;
/// The part of the simulation that draws what is changed in copies.
const COPIES_PART: u64 = 1 << 38;
/// How far the PSNs of a new connection lie from those of the one before.
const PSN_JUMP: u32 = 0x30_0001;
/// No packet is on its way for longer: the longest delay of a fault, and queues.
const LONGEST_TRAVEL_NS: Nanos = 10_000_000;

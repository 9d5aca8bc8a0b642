//! Steps, applied to the network and to the model alike. A step that does not fit is skipped.

use super::Fault;
use super::ends::{Connection, End, Message, Posted, Word};
use super::ledger::{Place, Use, pattern};
use super::plan::{self, Connect, Flaw, Modify, Noise, Op, Service, Step};
use super::world::World;
use crate::fabric::{self, TRANSITIONS};
use ferroce_core::{
    AccessFlags, CqId, Nanos, Payload, PdId, QpAttr, QpAttrMask, QpInit, QpState, RecvWr, Remote, SendFlags,
    SendOp, SendWr,
};
use ferroce_wire::{Bth, ICRC_LEN, Psn};
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
            Step::Noise(noise) => self.noise(noise),
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
        let init = QpInit {
            sq_sig_all: connect.sig_all[usize::from(side)],
            ..QpInit::new(connect.service.qp_type(), pd, send_cq, recv_cq, active_mtu)
        };
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
            receives: Default::default(),
            word: None,
            sqd_begun: None,
            is_draining: false,
        });
    }

    /// Takes both ends from RESET to where they are to be; `first` is the first of the two.
    fn establish(&mut self, first: usize) {
        let late = self.connection(first).plan.late;
        for index in [first, first + 1] {
            let steps = if late && index > first { 2 } else { 3 };
            for (state, mask) in &TRANSITIONS[..steps] {
                self.step_to(index, *state, *mask);
            }
            let End { host, qpn, .. } = self.ends[index];
            self.wire.borrow_mut().watch(self.hosts[host].addresses, qpn, &self.connection(first).plan);
        }
    }

    /// One transition of an end towards RTS.
    fn step_to(&mut self, index: usize, qp_state: QpState, mask: QpAttrMask) {
        let attr = QpAttr { qp_state, ..self.attributes(index) };
        // UC takes less than RC.
        let mask = match self.ends[index].service {
            Service::Rc => mask,
            Service::Uc => mask.intersection(UC_ATTRIBUTES),
        };
        let End { host, qpn, .. } = self.ends[index];
        let id = self.hosts[host].id;
        let result = self.fabric.network.modify_qp(id, qpn, &attr, mask.union(QpAttrMask::STATE));
        result.expect("a transition with the attributes it needs");
        self.ends[index].state = qp_state;
    }

    fn attributes(&self, index: usize) -> QpAttr {
        let Connection { plan, psns, .. } = self.connection(index);
        let (side, peer) = (usize::from(self.ends[index].name.side), self.peer(index));
        let [src, dst] =
            [index, peer].map(|end| self.hosts[self.ends[end].host].addresses[usize::from(plan.ipv6)]);
        let route = fabric::Connection { traffic_class: plan.traffic_class, ..fabric::Connection::default() };
        QpAttr {
            access: ALL_ACCESS,
            path_mtu: plan.path_mtu(),
            dest_qpn: self.ends[peer].qpn,
            rq_psn: Psn::new(psns[1 - side]),
            sq_psn: Psn::new(psns[side]),
            av: Some(route.address_vector(src, dst)),
            max_rd_atomic: plan.rd_atomic[side],
            max_dest_rd_atomic: plan.rd_atomic[1 - side],
            min_rnr_timer: plan.min_rnr_timer,
            timeout: plan.timeout,
            retry_cnt: plan.retry_cnt,
            rnr_retry: plan.rnr_retry,
            ..QpAttr::default()
        }
    }

    fn send(&mut self, send: &plan::Send) {
        let Some(index) = self.find(send.end) else { return };
        let end = &self.ends[index];
        let has_op = end.service == Service::Rc || !send.op.is_answered();
        if !end.takes_sends() || end.outstanding() >= MAX_WRS || !has_op {
            return;
        }
        let message = self.compose(index, send);
        let wr = work_request(send, &message);
        let peer = self.peer(index);
        let has_receive = self.ends[index].undelivered() < self.ends[peer].receives.len();
        let connection = self.connection_mut(index);
        connection.was_starved |= message.op.consumes_receive() && !has_receive;
        connection.is_tainted |= !matches!(message.flaw, Flaw::None | Flaw::BadLkey);
        self.is_calm &= message.flaw.is_none();
        let End { host, qpn, .. } = self.ends[index];
        self.ends[index].messages.push(message);
        let posted = self.fabric.network.post_send(self.hosts[host].id, qpn, wr);
        posted.expect("the QP exists");
    }

    /// The message of a send step, and its places in memory.
    fn compose(&mut self, index: usize, send: &plan::Send) -> Message {
        let len = if send.op.is_atomic() { 8 } else { send.len.min(MAX_MESSAGE) };
        let (wr_id, content) = (self.number(), self.number());
        let is_inline = send.sges == 0 && len <= MAX_INLINE && !send.op.is_answered();
        let flaw = applicable(send, len, is_inline);
        let End { host, pd, .. } = self.ends[index];
        let local = (!is_inline).then(|| {
            let access = if send.op.is_answered() { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() };
            self.place(host, (pd, access), len)
        });
        let peer = self.peer(index);
        // A flaw of its own list does not keep a request from being carried out.
        let remote_flaw = if flaw == Flaw::BadLkey { Flaw::None } else { flaw };
        let remote =
            send.op.is_remote().then(|| self.remote_place(index, send.op, len, (remote_flaw, content)));
        match local {
            Some(place) if !send.op.is_answered() => self.put(host, &place, content),
            Some(place) if flaw != Flaw::BadLkey => self.hosts[host].ledger.open(&place, Use::Once),
            _ => {}
        }
        let original = match (send.op.is_atomic(), remote_flaw) {
            (true, Flaw::None) => self.extend_word(index, send.op, content),
            _ => 0,
        };
        Message {
            wr_id,
            op: send.op,
            len,
            imm: (content as u32).to_be_bytes(),
            signaled: send.signaled,
            fence: send.fence,
            solicited: send.solicited && send.op.consumes_receive(),
            content,
            local,
            remote,
            original,
            flaw,
            epoch: self.hosts[self.ends[peer].host].epoch,
            is_void: false,
            is_received: false,
        }
    }

    /// Where an operation goes in the peer's memory.
    fn remote_place(&mut self, index: usize, op: Op, len: u32, (flaw, content): (Flaw, u64)) -> Place {
        let peer = self.peer(index);
        let End { host, pd, .. } = self.ends[peer];
        let right = match op {
            Op::Read => AccessFlags::REMOTE_READ,
            Op::FetchAdd | Op::CompareSwap => AccessFlags::REMOTE_ATOMIC.union(AccessFlags::LOCAL_WRITE),
            _ => AccessFlags::REMOTE_WRITE.union(AccessFlags::LOCAL_WRITE),
        };
        let (pd, right) = match flaw {
            Flaw::NoRight => (pd, AccessFlags::LOCAL_WRITE),
            Flaw::OtherPd => (PdId(pd.0 + 10), right),
            _ => (pd, right),
        };
        if op.is_atomic() && flaw.is_none() {
            return self.word(index, host, (pd, right));
        }
        let place = self.place(host, (pd, right), len);
        if op == Op::Read {
            self.put(host, &place, content);
        } else if flaw.is_none() {
            let usage = if self.ends[index].service == Service::Uc { Use::Restartable } else { Use::Once };
            self.hosts[host].ledger.open(&place, usage);
        }
        place
    }

    /// The word that an end's atomics change; made when it is first needed.
    fn word(&mut self, index: usize, host: usize, rights: (PdId, AccessFlags)) -> Place {
        if let Some(word) = &self.ends[index].word {
            return word.place;
        }
        let place = self.place(host, rights, 8);
        self.hosts[host].ledger.open(&place, Use::Word);
        self.ends[index].word = Some(Word { place, values: vec![0] });
        place
    }

    /// Notes the value of the word after an atomic; the value before it.
    fn extend_word(&mut self, index: usize, op: Op, content: u64) -> u64 {
        let Some(word) = &mut self.ends[index].word else { return 0 };
        let before = word.values.last().copied().unwrap_or(0);
        word.values.push(match op {
            Op::FetchAdd => before.wrapping_add(content),
            _ if compares_equal(content) => content,
            _ => before,
        });
        before
    }

    /// Posts a receive work request, where the state and the room in the queue allow it.
    pub(super) fn receive(&mut self, receive: &plan::Receive) {
        let Some(index) = self.find(receive.end) else { return };
        let end = &self.ends[index];
        if !end.takes_receives() || end.receives.len() >= MAX_WRS {
            return;
        }
        let (host, qpn, service) = (end.host, end.qpn, end.service);
        let len = receive.len.min(MAX_MESSAGE);
        let place = self.place(host, (end.pd, AccessFlags::LOCAL_WRITE), len);
        let lkey = if receive.bad_lkey { wrong(place.keys.lkey) } else { place.keys.lkey };
        if !receive.bad_lkey {
            let usage = if service == Service::Uc { Use::Restartable } else { Use::Once };
            self.hosts[host].ledger.open(&place, usage);
        }
        self.is_calm &= !receive.bad_lkey;
        self.connection_mut(index).is_tainted |= receive.bad_lkey;
        let wr_id = self.number();
        self.ends[index].receives.push_back(Posted { wr_id, place, bad_lkey: receive.bad_lkey });
        let wr = RecvWr { wr_id, sges: place.list(receive.sges, lkey).into() };
        self.fabric.network.post_recv(self.hosts[host].id, qpn, wr).expect("the QP exists");
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
            }
            (Modify::Reconnect, _) => self.reconnect(index)?,
            (Modify::Destroy, _) => self.destroy(index),
            (Modify::Nonsense, _) => self.nonsense(index)?,
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

    /// Both ends to RESET and back, with PSNs that nothing still on its way can have. UC takes whatever begins a message,
    /// so there nothing may be on its way.
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
        }
        if self.ends[first].service == Service::Uc {
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
        self.wire.borrow_mut().forget(self.hosts[host].addresses, qpn);
    }

    /// A modify that no state allows, and that changes nothing.
    fn nonsense(&mut self, index: usize) -> Result<(), Fault> {
        let End { host, qpn, .. } = self.ends[index];
        let id = self.hosts[host].id;
        let query = |world: &mut World| world.fabric.network.call(id, |device, _, _| device.query_qp(qpn));
        let before = query(self);
        // SQE is entered by hardware alone (S-2); a timeout has five bits (S-4).
        for (qp_state, timeout) in [(QpState::Sqe, 0), (QpState::Rts, 32)] {
            let attr = QpAttr { qp_state, timeout, ..QpAttr::default() };
            let mask = QpAttrMask::STATE.union(QpAttrMask::TIMEOUT).union(QpAttrMask::SQ_PSN);
            if self.fabric.network.modify_qp(id, qpn, &attr, mask).is_ok() {
                return Err(self.ends[index].fault("state", format!("went to {qp_state} against all rules")));
            }
        }
        if query(self) != before {
            return Err(self.ends[index].fault("state", "a modify that was refused changed it"));
        }
        Ok(())
    }

    fn deregister(&mut self, host: usize, pick: u32) {
        let Some(model) = self.hosts.get_mut(host) else { return };
        let Some(lkey) = model.ledger.deregister(pick) else { return };
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
        model.ledger.clear();
        self.fabric.network.restart(model.id);
        self.tally.deaths += 1;
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

    /// A packet that means nothing to anybody: its sender is not the peer, or its ICRC is wrong.
    fn noise(&mut self, noise: &Noise) {
        let Some(index) = self.find(noise.end) else { return };
        let peer = self.peer(index);
        let bare = self.fabric.endpoint(self.hosts.len());
        let end = &self.ends[index];
        let dst = self.hosts[end.host].addresses[0];
        let src = if noise.forged {
            self.hosts[self.ends[peer].host].addresses[0]
        } else {
            self.fabric.address(bare, false)
        };
        let path = fabric::Connection::default().address_vector(src, dst).path;
        let expected = self.connection(index).psns[usize::from(1 - end.name.side)];
        let psn = Psn::new(expected.wrapping_add_signed(noise.psn));
        let content = self.seed ^ u64::from(noise.len);
        let mut bytes = Bth::new(noise.opcode, end.qpn, psn).as_bytes().to_vec();
        bytes.extend(pattern(content, u32::from(noise.len)));
        bytes.extend([0; ICRC_LEN]);
        self.is_calm = false;
        self.fabric.network.send_datagram(bare, &path, &bytes, !noise.forged);
    }

    /// Room in a host's memory.
    fn place(&mut self, host: usize, rights: (PdId, AccessFlags), len: u32) -> Place {
        let model = &mut self.hosts[host];
        model.ledger.place(&mut self.fabric.network, model.id, rights, len)
    }

    /// Puts a message's bytes to its place.
    fn put(&self, host: usize, place: &Place, content: u64) {
        let memory = self.fabric.network.memory(self.hosts[host].id);
        memory.put(place.addr, &pattern(content, place.len)).expect("the place exists");
    }
}

/// The work request of a message.
fn work_request(send: &plan::Send, message: &Message) -> SendWr {
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::SIGNALED, send.signaled);
    flags.set(SendFlags::FENCE, send.fence);
    flags.set(SendFlags::SOLICITED, send.solicited);
    flags.set(SendFlags::INLINE, message.local.is_none());
    let payload = match &message.local {
        None => Payload::Inline(pattern(message.content, message.len).as_slice().into()),
        Some(place) => {
            let lkey = if message.flaw == Flaw::BadLkey { wrong(place.keys.lkey) } else { place.keys.lkey };
            Payload::Sges(place.list(send.sges, lkey).into())
        }
    };
    let (va, rkey) = match &message.remote {
        None => (0, 0),
        Some(place) => match message.flaw {
            Flaw::BadRkey => (place.addr, wrong(place.keys.rkey)),
            Flaw::OutOfRange if message.op.is_atomic() => (place.region_end, place.keys.rkey),
            Flaw::OutOfRange => (place.region_end - u64::from(message.len) / 2, place.keys.rkey),
            Flaw::Misaligned => (place.addr + 4, place.keys.rkey),
            _ => (place.addr, place.keys.rkey),
        },
    };
    let (imm, content) = (message.imm, message.content);
    let compare = if compares_equal(content) { message.original } else { message.original.wrapping_add(1) };
    let op = match message.op {
        Op::Send => SendOp::Send,
        Op::SendImm => SendOp::SendImm { imm },
        Op::Write => SendOp::Write { va, rkey },
        Op::WriteImm => SendOp::WriteImm { va, rkey, imm },
        Op::Read => SendOp::Read { va, rkey },
        Op::FetchAdd => SendOp::FetchAdd { va, rkey, add: content },
        Op::CompareSwap => SendOp::CompareSwap { va, rkey, compare, swap: content },
    };
    SendWr { wr_id: message.wr_id, op, flags, payload, remote: Remote::Peer }
}

/// The flaw of a send step, where it makes a difference.
fn applicable(send: &plan::Send, len: u32, is_inline: bool) -> Flaw {
    let applies = match send.flaw {
        Flaw::None => true,
        Flaw::BadLkey => len > 0 && !is_inline,
        Flaw::Misaligned => send.op.is_atomic(),
        // Zero bytes need no key.
        _ => len > 0 && send.op.is_remote(),
    };
    if applies { send.flaw } else { Flaw::None }
}

/// Whether a compare and swap with this content finds what it compares with.
fn compares_equal(content: u64) -> bool {
    content & 4 == 0
}

/// Another key, which leads nowhere.
fn wrong(key: u32) -> u32 {
    key ^ 0xff
}

/// What UC takes of the attributes on the way to RTS.
const UC_ATTRIBUTES: QpAttrMask = QpAttrMask::PKEY_INDEX
    .union(QpAttrMask::PORT)
    .union(QpAttrMask::ACCESS_FLAGS)
    .union(QpAttrMask::AV)
    .union(QpAttrMask::PATH_MTU)
    .union(QpAttrMask::DEST_QPN)
    .union(QpAttrMask::RQ_PSN)
    .union(QpAttrMask::SQ_PSN);
const ALL_ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);
/// Work requests of a queue that are not complete.
const MAX_WRS: usize = 24;
/// Longest message.
const MAX_MESSAGE: u32 = 1 << 20;
/// Longest inline data.
const MAX_INLINE: u32 = 64;
/// How far the PSNs of a new connection lie from those of the one before.
const PSN_JUMP: u32 = 0x30_0001;
/// No packet is on its way for longer: the longest delay of a fault, and queues.
const LONGEST_TRAVEL_NS: Nanos = 10_000_000;

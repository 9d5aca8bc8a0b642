//! Send work requests: the message, its places in memory, and what the model will want to know of it.

use super::apply::qkey;
use super::ends::{End, Message, Word};
use super::ledger::{Place, Use, pattern};
use super::plan::{self, Flaw, Op, Service};
use super::world::World;
use ferroce_core::{AccessFlags, Payload, PdId, Remote, SendFlags, SendOp, SendWr};
use std::sync::Arc;

impl World {
    /// Posts a send work request, where the state and the room in the queue allow it.
    pub(super) fn send(&mut self, send: &plan::Send) {
        let Some(index) = self.find(send.end) else { return };
        let end = &self.ends[index];
        let has_op = end.service.has(send.op) && end.service.sends(end.name.side);
        if !end.takes_sends() || end.outstanding() >= MAX_WRS || !has_op {
            return;
        }
        let key = self.window_for(index, send.op);
        if send.op.is_of_window() && key.is_none() {
            return;
        }
        let mut message = self.compose(index, send);
        message.key = key.unwrap_or(0);
        let remote = self.remote(index, message.flaw);
        let mut wr = SendWr { remote, ..work_request(send, &message) };
        if let Some(op) = self.window_op(index, &message) {
            wr.op = op;
        }
        let peer = self.peer(index);
        let connection = self.connection_mut(index);
        connection.is_tainted |= !matches!(message.flaw, Flaw::None | Flaw::BadLkey | Flaw::BadQkey);
        self.is_calm &= message.flaw.is_none();
        let End { host, qpn, .. } = self.ends[index];
        self.ends[index].local[0] += usize::from(message.op.is_local());
        self.ends[index].messages.push(message);
        if let Some(pool) = self.ends[peer].pool {
            self.note_demand(pool);
        }
        let posted = self.fabric.network.post_send(self.hosts[host].id, qpn, wr);
        posted.expect("the QP exists");
    }

    /// The message of a send step, and its places in memory.
    fn compose(&mut self, index: usize, send: &plan::Send) -> Message {
        let len = match self.ends[index].service {
            _ if send.op.is_atomic() => 8,
            _ if send.op.is_local() => 0,
            Service::Ud => send.len.min(MAX_DATAGRAM),
            _ => send.len.min(MAX_MESSAGE),
        };
        let (wr_id, content) = (self.number(), self.number());
        let fits_inline = send.sges == 0 && len <= MAX_INLINE && !send.op.is_answered();
        let is_inline = fits_inline || send.op.is_local();
        let mut flaw = applicable(send, len, (is_inline, self.ends[index].service));
        if flaw == Flaw::Unbound && self.room_nowhere(index, len).is_none() {
            flaw = Flaw::None;
        }
        let End { host, pd, .. } = self.ends[index];
        let local = (!is_inline).then(|| {
            let access = if send.op.is_answered() { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() };
            self.place(host, (pd, access), len)
        });
        let peer = self.peer(index);
        // A flaw of its own list does not keep a request from being carried out.
        let remote_flaw = if flaw == Flaw::BadLkey { Flaw::None } else { flaw };
        let remote = send.op.is_remote().then(|| self.remote_place(index, send, len, (remote_flaw, content)));
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
            // A READ that is repeated when its key has been taken back finds nothing any more.
            fence: send.fence || send.op == Op::SendInvalidate,
            solicited: send.solicited && send.op.consumes_receive(),
            content,
            local,
            remote,
            original,
            key: 0,
            flaw,
            epoch: self.hosts[self.ends[peer].host].epoch,
            is_void: flaw == Flaw::BadQkey,
            is_received: false,
        }
    }

    /// Where an operation goes in the peer's memory.
    fn remote_place(
        &mut self,
        index: usize,
        send: &plan::Send,
        len: u32,
        (flaw, content): (Flaw, u64),
    ) -> Place {
        let (op, peer) = (send.op, self.peer(index));
        if let (Flaw::Unbound, Some(place)) = (flaw, self.room_nowhere(index, len)) {
            return place;
        }
        let End { host, service, .. } = self.ends[peer];
        let pd = match (service, self.pool_of(peer)) {
            // W-56: keys are those of the SRQ's domain.
            (Service::Xrc, Some(pool)) => pool.pd,
            _ => self.ends[peer].pd,
        };
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
        let through_window = send.window && matches!(flaw, Flaw::None | Flaw::OutOfRange);
        let window = if through_window { self.room_in_window(index, len) } else { None };
        let place = window.unwrap_or_else(|| self.place(host, (pd, right), len));
        if op == Op::Read {
            self.put(host, &place, content);
        } else if flaw.is_none() {
            let usage = if self.ends[index].service == Service::Uc { Use::Restartable } else { Use::Once };
            self.hosts[host].ledger.open(&place, usage);
        }
        place
    }

    /// Whom a work request is for.
    fn remote(&self, index: usize, flaw: Flaw) -> Remote {
        let peer = self.peer(index);
        match self.ends[index].service {
            Service::Rc | Service::Uc => Remote::Peer,
            Service::Xrc => {
                let srqn = self.ends[peer].pool.and_then(|pool| self.pools[pool].srqn());
                srqn.map_or(Remote::Peer, Remote::Srq)
            }
            Service::Ud => {
                let ah = self.address_vector(index);
                let qpn = self.ends[peer].qpn;
                let qkey = if flaw == Flaw::BadQkey { qkey(qpn) ^ 1 } else { qkey(qpn) };
                let source_port = ah.path.source_port;
                let pd = self.ends[index].pd;
                Remote::Datagram { ah: Arc::new(ah), pd, qpn, qkey, source_port, receiver: None }
            }
        }
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

    /// Room in a host's memory.
    pub(super) fn place(&mut self, host: usize, rights: (PdId, AccessFlags), len: u32) -> Place {
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
    flags.set(SendFlags::FENCE, message.fence);
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
        // Those about a memory window are made elsewhere.
        Op::Send | Op::SendInvalidate | Op::Bind | Op::LocalInvalidate => SendOp::Send,
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
fn applicable(send: &plan::Send, len: u32, (is_inline, service): (bool, Service)) -> Flaw {
    let applies = match send.flaw {
        Flaw::None => true,
        Flaw::BadLkey => len > 0 && !is_inline,
        Flaw::Misaligned => send.op.is_atomic(),
        Flaw::BadQkey => service == Service::Ud,
        Flaw::Unbound => len > 0 && send.op.is_remote() && !send.op.is_atomic(),
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

/// Work requests of a queue that are not complete.
const MAX_WRS: usize = 24;
/// Longest datagram: what the link takes.
const MAX_DATAGRAM: u32 = 4096;
/// Longest message.
const MAX_MESSAGE: u32 = 1 << 20;
/// Longest inline data.
const MAX_INLINE: u32 = 64;

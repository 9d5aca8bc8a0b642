//! Receive queues: a QP's own, SRQs that several QPs share, and the SRQs of XRC domains.

use super::Fault;
use super::ends::{End, Pool, PoolKind, Posted};
use super::ledger::Use;
use super::plan::{self, Connect, Service};
use super::world::World;
use ferroce_core::{AccessFlags, CqId, PdId, QpState, RecvWr, SrqInit, Srqn, XrcSrq, XrcdId};

impl World {
    /// The pool that an end which is being made will take from.
    pub(super) fn pool_for(&mut self, connect: &Connect, side: u8) -> Option<usize> {
        if !connect.service.receives(side) {
            return None;
        }
        let host = usize::from(connect.hosts[usize::from(side)]);
        let number = connect.srq[usize::from(side)];
        let is_xrc = connect.service == Service::Xrc;
        if number == 0 && !is_xrc {
            return Some(self.add_pool(host, PoolKind::Own, PdId(u32::from(connect.pd))));
        }
        let is_it = |pool: &Pool| {
            pool.exists
                && pool.host == host
                && match pool.kind {
                    PoolKind::Own => false,
                    PoolKind::Srq(known, _) => known == number && !is_xrc,
                    PoolKind::Xrc(known, ..) => known == number && is_xrc,
                }
        };
        let known = self.pools.iter().position(is_it);
        Some(known.unwrap_or_else(|| self.create_srq(host, number, is_xrc)))
    }

    fn create_srq(&mut self, host: usize, number: u8, is_xrc: bool) -> usize {
        // Seldom that of the QPs, which need not have the same.
        let pd = PdId(u32::from(number % 2) + 1);
        let cq = CqId(XRC_CQS + self.pools.len() as u32);
        let init = SrqInit { pd, xrc: is_xrc.then_some(XrcSrq { xrcd: XRCD, cq }) };
        let id = self.hosts[host].id;
        let created = self.fabric.network.call(id, |device, _, _| device.create_srq(init));
        let srqn = created.expect("a card has more SRQs than a plan");
        let kind = if is_xrc { PoolKind::Xrc(number, srqn, cq) } else { PoolKind::Srq(number, srqn) };
        self.add_pool(host, kind, pd)
    }

    fn add_pool(&mut self, host: usize, kind: PoolKind, pd: PdId) -> usize {
        let pool = Pool {
            host,
            kind,
            pd,
            posted: Default::default(),
            users: Vec::new(),
            exists: true,
            limit: 0,
            shortest: u32::MAX,
        };
        self.pools.push(pool);
        self.pools.len() - 1
    }

    /// The pool of an end, while both exist.
    pub(super) fn pool_of(&self, index: usize) -> Option<&Pool> {
        self.ends[index].pool.map(|pool| &self.pools[pool]).filter(|pool| pool.exists)
    }

    /// Messages that are on their way to a pool's users, or will be.
    fn demand(&self, pool: usize) -> usize {
        let users = self.pools[pool].users.iter();
        users.map(|user| self.ends[self.peer(*user)].undelivered()).sum()
    }

    /// A message was posted to an end that has this pool: notes the connections that may not find a WQE now.
    pub(super) fn note_demand(&mut self, pool: usize) {
        if self.demand(pool) <= self.pools[pool].posted.len() {
            return;
        }
        for user in self.pools[pool].users.clone() {
            self.connection_mut(user).was_starved = true;
        }
    }

    /// Posts a receive work request, where the state and the room in the queue allow it.
    pub(super) fn receive(&mut self, receive: &plan::Receive) {
        let Some(index) = self.find(receive.end) else { return };
        let Some(pool) = self.ends[index].pool else { return };
        let end = &self.ends[index];
        let is_own = self.pools[pool].kind == PoolKind::Own;
        let takes = if is_own { end.exists && end.state != QpState::Reset } else { self.pools[pool].exists };
        if !takes || self.pools[pool].posted.len() >= MAX_RECEIVES {
            return;
        }
        // Datagrams have an IP header in front.
        let header = if end.service == Service::Ud { GRH_LEN } else { 0 };
        let len = (receive.len + header).min(MAX_RECEIVE);
        let (host, pd, service) = (self.pools[pool].host, self.pools[pool].pd, end.service);
        let place = self.place(host, (pd, AccessFlags::LOCAL_WRITE), len);
        let lkey = if receive.bad_lkey { place.keys.lkey ^ 0xff } else { place.keys.lkey };
        if !receive.bad_lkey {
            // A WQE of a message that was given up serves another one.
            let usage = if service == Service::Uc || !is_own { Use::Restartable } else { Use::Once };
            self.hosts[host].ledger.open(&place, usage);
        }
        let wr_id = self.number();
        self.is_calm &= !receive.bad_lkey;
        for user in self.pools[pool].users.clone() {
            self.connection_mut(user).is_tainted |= receive.bad_lkey;
        }
        self.pools[pool].shortest = self.pools[pool].shortest.min(len);
        self.pools[pool].posted.push_back(Posted { wr_id, place, bad_lkey: receive.bad_lkey });
        let wr = RecvWr { wr_id, sges: place.list(receive.sges, lkey).into() };
        let id = self.hosts[host].id;
        let qpn = self.ends[index].qpn;
        match self.pools[pool].srqn() {
            None => self.fabric.network.post_recv(id, qpn, wr).expect("the QP exists"),
            Some(srqn) => {
                let posted = self.fabric.network.call(id, |device, _, _| device.post_srq_recv(srqn, wr));
                posted.expect("the SRQ exists");
            }
        }
    }

    /// Arms the limit of the SRQ that an end takes from.
    pub(super) fn arm_limit(&mut self, end: plan::End, limit: u8) {
        let Some(pool) = self.find(end).and_then(|index| self.ends[index].pool) else { return };
        let (Some(srqn), true) = (self.pools[pool].srqn(), self.pools[pool].exists) else { return };
        self.pools[pool].limit = limit;
        let id = self.hosts[self.pools[pool].host].id;
        let armed = self.fabric.network.call(id, |device, _, _| device.arm_srq(srqn, u32::from(limit)));
        armed.expect("the SRQ exists");
    }

    /// SRQ_LIMIT_REACHED: it was armed, and there are fewer left than the limit, but for those that messages hold.
    pub(super) fn limit_reached(&mut self, host: usize, srqn: Srqn) -> Result<(), Fault> {
        let is_it = |pool: &Pool| pool.exists && pool.host == host && pool.srqn() == Some(srqn);
        let Some(pool) = self.pools.iter_mut().find(|pool| is_it(pool)) else {
            return Err(Fault::new(
                "event",
                format!("the limit of SRQ {srqn}, which is not there, was reached"),
            ));
        };
        let limit = usize::from(std::mem::take(&mut pool.limit));
        if limit == 0 || pool.posted.len() >= limit + pool.users.len() {
            let left = pool.posted.len();
            let text = format!("SRQ {srqn} said that its limit of {limit} was reached, with {left} left");
            return Err(Fault::new("event", text));
        }
        Ok(())
    }

    /// Takes a receive work request off its pool because it has completed. Those of a QP's own queue complete in order.
    /// An SRQ's are taken in order, and complete when their messages end: not before older ones, but for those that
    /// other QPs hold.
    pub(super) fn take_posted(&mut self, index: usize, wr_id: u64) -> Result<Posted, Fault> {
        let Some(pool) = self.ends[index].pool else {
            return Err(
                self.ends[index].fault("completion", "a receive completion, and it takes no receives")
            );
        };
        let pool = &mut self.pools[pool];
        let reach = if pool.kind == PoolKind::Own { 1 } else { pool.users.len() };
        let place = pool.posted.iter().take(reach).position(|posted| posted.wr_id == wr_id);
        match place.and_then(|place| pool.posted.remove(place)) {
            Some(posted) => Ok(posted),
            None => {
                let next: Vec<_> = pool.posted.iter().take(reach).map(|posted| posted.wr_id).collect();
                let text = format!("receive wr {wr_id} completed, and {next:?} were next");
                Err(self.ends[index].fault("completion", text))
            }
        }
    }

    /// Receives for whatever is still to come.
    pub(super) fn feed(&mut self) -> Result<(), Fault> {
        for pool in 0..self.pools.len() {
            let Some(user) = self.pools[pool].users.iter().copied().find(|user| self.ends[*user].exists)
            else {
                continue;
            };
            // As many as may be held for messages that never end come on top.
            let held = if self.pools[pool].kind == PoolKind::Own { 0 } else { self.pools[pool].users.len() };
            let needed = (self.demand(pool) + held).saturating_sub(self.pools[pool].posted.len());
            let messages =
                self.pools[pool].users.iter().flat_map(|user| &self.ends[self.peer(*user)].messages);
            let len = messages.map(|message| message.len).max().unwrap_or(0);
            let End { name: end, .. } = self.ends[user];
            for _ in 0..needed {
                self.receive(&plan::Receive { end, len, sges: 1, bad_lkey: false });
            }
            self.look()?;
        }
        Ok(())
    }
}

/// The only XRC domain.
pub(super) const XRCD: XrcdId = XrcdId(1);
/// What stands in front of a datagram (W-21).
pub(super) const GRH_LEN: u32 = 40;
/// CQs of XRC SRQs begin here; QPs have lower ones.
const XRC_CQS: u32 = 1 << 20;
/// Work requests of a pool that are not complete, until the faults end.
const MAX_RECEIVES: usize = 400;
/// Longest receive buffer.
const MAX_RECEIVE: u32 = 1 << 20;

//! States, events and numbers: nothing changes without a reason, and both ends of a connection fit together.

use super::Fault;
use super::ends::PoolKind;
use super::world::World;
use ferroce_core::{AsyncEvent, QpState, RequesterSnapshot, ResponderSnapshot};

impl World {
    /// QPs change their state by themselves only for a reason, and have nothing in their queues in the states that
    /// flush.
    pub(super) fn check_states(&mut self) -> Result<(), Fault> {
        for index in 0..self.ends.len() {
            if !self.ends[index].exists {
                continue;
            }
            let Some(state) = self.device_state(index) else {
                return Err(self.ends[index].fault("state", "the QP is not there"));
            };
            if state != self.ends[index].state {
                self.check_change(index, state)?;
            }
            let end = &self.ends[index];
            let pool = self.pool_of(index);
            let has_receives = pool.is_some_and(|pool| pool.kind == PoolKind::Own && !pool.posted.is_empty());
            if (matches!(state, QpState::Err | QpState::Sqe) && !end.is_all_silent())
                || (state == QpState::Err && has_receives)
            {
                return Err(end.fault("completion", "not everything was flushed"));
            }
            // P-27.
            let is_shared = pool.is_some_and(|pool| pool.kind != PoolKind::Own);
            if state == QpState::Err && is_shared && !end.is_last_wqe_said {
                return Err(end.fault("event", "in ERR with an SRQ, and QP_LAST_WQE_REACHED did not come"));
            }
        }
        Ok(())
    }

    fn check_change(&mut self, index: usize, state: QpState) -> Result<(), Fault> {
        let connection = self.connection(index);
        let may_refuse = connection.is_tainted || connection.lost_memory;
        let end = &self.ends[index];
        let is_legal = match (end.state, state) {
            (QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe, QpState::Err) => {
                end.cause.is_some() || may_refuse
            }
            // S-2: of the unreliable services alone.
            (QpState::Rts | QpState::Sqd, QpState::Sqe) => !end.service.is_reliable() && end.cause.is_some(),
            _ => false,
        };
        if !is_legal {
            return Err(end.fault("state", format!("went to {state} by itself")));
        }
        self.ends[index].state = state;
        self.ends[index].is_draining = false;
        self.is_calm = false;
        self.connection_mut(index).is_gone |= state == QpState::Err;
        Ok(())
    }

    /// An asynchronous event.
    pub(super) fn event(&mut self, host: usize, event: AsyncEvent) -> Result<(), Fault> {
        if let AsyncEvent::SrqLimitReached(srqn) = event {
            return self.limit_reached(host, srqn);
        }
        if event.qpn().is_some_and(|qpn| self.prey_at(host, qpn).is_some()) {
            return Ok(());
        }
        let Some(index) = event.qpn().and_then(|qpn| self.by_qpn.get(&(host, qpn)).copied()) else {
            return Err(Fault::new("event", format!("about a QP that is not there: {event:?}")));
        };
        let connection = self.connection(index);
        let may_refuse = connection.is_tainted || connection.lost_memory;
        let (is_late, end) = (connection.plan.late, &mut self.ends[index]);
        let has_cause = match event {
            AsyncEvent::CommEst(_) => is_late && end.name.side == 1 && end.state == QpState::Rtr,
            AsyncEvent::SqDrained(_) => std::mem::take(&mut end.is_draining),
            AsyncEvent::QpLastWqeReached(_) => !std::mem::replace(&mut end.is_last_wqe_said, true),
            _ => may_refuse || end.cause.is_some(),
        };
        if has_cause { Ok(()) } else { Err(end.fault("event", format!("{event:?} without a cause"))) }
    }

    /// The PSNs and limits of connections whose both ends are well.
    pub(super) fn check_numbers(&mut self) -> Result<(), Fault> {
        for index in 0..self.ends.len() {
            let end = &self.ends[index];
            if !end.service.is_reliable() || !end.exists || !matches!(end.state, QpState::Rts | QpState::Sqd)
            {
                continue;
            }
            let Some(requester) = self.snapshot(index).and_then(|snapshot| snapshot.requester) else {
                continue;
            };
            self.check_requester(index, &requester)?;
            let end = &mut self.ends[index];
            end.silent = Some(end.outstanding() - requester.wqes);
            end.sqd_begun = (end.state == QpState::Sqd).then_some(requester.begun);
            let peer = self.peer(index);
            if !self.ends[peer].answers() || self.connection(index).is_gone {
                continue;
            }
            if let Some(responder) = self.snapshot(peer).and_then(|snapshot| snapshot.responder) {
                self.check_responder(index, &requester, &responder)?;
            }
        }
        Ok(())
    }

    fn snapshot(&self, index: usize) -> Option<ferroce_core::QpSnapshot> {
        let end = &self.ends[index];
        self.fabric.network.nic(self.hosts[end.host].id)?.device().snapshot(end.qpn)
    }

    fn check_requester(&self, index: usize, requester: &RequesterSnapshot) -> Result<(), Fault> {
        let end = &self.ends[index];
        let RequesterSnapshot { unacked, next, high, .. } = *requester;
        if next.is_before(unacked) || high.is_before(next) {
            return Err(
                end.fault("psn", format!("unacked {unacked}, next {next}, high {high} are out of order"))
            );
        }
        let plan = &self.connection(index).plan;
        let most = u32::from(plan.rd_atomic[usize::from(end.name.side)]);
        if requester.reads_outstanding > most {
            let text =
                format!("{} READs and atomics outstanding, at most {most}", requester.reads_outstanding);
            return Err(end.fault("psn", text));
        }
        // Who repeats selectively does not go back when the window is cut, and has more in flight for a while.
        if requester.in_flight > requester.window && !plan.selective {
            let text =
                format!("{} packets in flight, and a window of {}", requester.in_flight, requester.window);
            return Err(end.fault("psn", text));
        }
        // what was begun is finished, and nothing more begun.
        let is_more = end.sqd_begun.is_some_and(|begun| requester.begun > begun);
        if is_more && end.state == QpState::Sqd {
            return Err(end
                .fault("order", format!("{} requests under way in SQD, more than before", requester.begun)));
        }
        // Those that are done, and say so with the next that makes a completion.
        let silent = end.outstanding().checked_sub(requester.wqes);
        if !silent.is_some_and(|silent| end.are_silent(silent)) {
            let text = format!("{} WQEs in the queue, {} outstanding", requester.wqes, end.outstanding());
            return Err(end.fault("completion", text));
        }
        // a fence waits for the READs and atomics before it.
        let oldest = end.messages.len() - requester.wqes;
        let begun = &end.messages[oldest..oldest + requester.begun];
        let first_answered = begun.iter().position(|message| message.op.is_answered());
        let last_fenced = begun.iter().rposition(|message| message.fence);
        if first_answered < last_fenced && first_answered.is_some() {
            return Err(end.fault("order", "a request with a fence has overtaken a READ or an atomic"));
        }
        Ok(())
    }

    fn check_responder(
        &self,
        index: usize,
        requester: &RequesterSnapshot,
        responder: &ResponderSnapshot,
    ) -> Result<(), Fault> {
        let end = &self.ends[index];
        let (expected, unacked, high) = (responder.expected, requester.unacked, requester.high);
        if expected.is_before(unacked) || expected.is_after(high) {
            let text = format!("the peer expects {expected}; {unacked} is not acknowledged, {high} is next");
            return Err(end.fault("psn", text));
        }
        let done = (end.completed - end.local[1]) as u32;
        let posted = (end.messages.len() - end.local[0]) as u32;
        if responder.msn < done || responder.msn > posted {
            let text =
                format!("the peer's MSN is {}; {done} of {posted} requests are complete", responder.msn);
            return Err(end.fault("psn", text));
        }
        Ok(())
    }

    /// Words that atomics changed have the value of some of them, in order, and of all that completed.
    pub(super) fn check_words(&self) -> Result<(), Fault> {
        for index in 0..self.ends.len() {
            let (end, peer) = (&self.ends[index], &self.ends[self.peer(index)]);
            let Some(word) = &end.word else { continue };
            let host = &self.hosts[peer.host];
            let epoch =
                end.messages.iter().find(|message| message.op.is_atomic()).map(|message| message.epoch);
            if epoch != Some(host.epoch) {
                continue;
            }
            let memory = self.fabric.network.memory(host.id);
            let Ok(bytes) = memory.get(word.place.addr, size_of::<u64>()) else { continue };
            let executed = host.ledger.written(word.place.addr) as usize;
            if word.values.get(executed).is_none_or(|value| value.to_ne_bytes() != bytes[..]) {
                let text =
                    format!("after {executed} of {} atomics the word is {bytes:?}", word.values.len() - 1);
                return Err(end.fault("once", text));
            }
        }
        Ok(())
    }
}

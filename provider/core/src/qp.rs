//! A queue pair: its two halves, its state and the way between them.

use crate::congestion::Congestion;
use crate::context::{Context, Sent, Shared};
use crate::counters::Counter;
use crate::fault::RequesterFault;
use crate::halves::{Halves, Handled};
use crate::path::ecn_capable;
use crate::pkey;
use crate::schedule::{BURST_BYTES, BURST_PACKETS, Turn};
use crate::srq::Srqs;
use crate::state::{self, Limits};
use crate::xrc;
use crate::{
    AsyncEvent, Dcqcn, Ecn, Memory, ModifyQpError, Nanos, PacketMeta, QpAttr, QpAttrMask, QpInit, QpSnapshot,
    QpState, QpType, RecvWr, SendWr, TransmitSink,
};
use ferroce_wire::{Packet, Psn, Qpn};

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    qpn: Qpn,
    index: u32,
    init: QpInit,
    attr: QpAttr,
    halves: Halves,
    congestion: Congestion,
    /// A packet has come since the QP went to RTR (S-8).
    established: bool,
    /// SQD was entered and what had been begun is not finished.
    draining: bool,
    /// The error state was entered by a request's fault: the NAK, and the answers before it, are still to be sent.
    closing: bool,
    /// It is in the schedule.
    pub(crate) scheduled: bool,
}

impl Qp {
    pub(crate) fn new(qpn: Qpn, index: u32, init: QpInit, shared: &Shared) -> Self {
        Qp {
            qpn,
            index,
            init,
            attr: QpAttr::default(),
            halves: Halves::new(init.qp_type, &shared.profile),
            congestion: Congestion::default(),
            established: false,
            draining: false,
            closing: false,
            scheduled: false,
        }
    }

    pub(crate) fn init(&self) -> &QpInit {
        &self.init
    }

    pub(crate) fn state(&self) -> QpState {
        self.attr.qp_state
    }

    pub(crate) fn query(&self) -> QpAttr {
        state::query(&self.attr, self.halves.next_psns(), self.draining)
    }

    pub(crate) fn snapshot(&self) -> QpSnapshot {
        self.halves.snapshot(self.attr.qp_state, self.congestion.rate_bps())
    }

    pub(crate) fn wr_at(&self, psn: Psn) -> Option<u64> {
        self.halves.wr_at(psn)
    }

    /// `ibv_modify_qp(3)`: all of it, or nothing and the reason.
    pub(crate) fn modify(
        &mut self,
        now: Nanos,
        attr: &QpAttr,
        mask: QpAttrMask,
        shared: &mut Shared,
    ) -> Result<(), ModifyQpError> {
        let from = self.attr.qp_state;
        let limits = Limits {
            active_mtu: self.init.active_mtu,
            max_qp_rd_atomic: shared.profile.max_rd_atomic,
            max_dest_rd_atomic: shared.profile.max_rd_atomic,
            pkey_tbl_len: 1,
            port_count: 1,
        };
        let to = state::check_modify(self.init.qp_type, from, attr, mask, &limits)?;
        if to == QpState::Err {
            state::apply(&mut self.attr, attr, mask);
            // ERR→ERR changes nothing.
            self.attr.qp_state = from;
            self.enter_error(now, shared);
            return Ok(());
        }
        state::apply(&mut self.attr, attr, mask);
        self.mark_ecn_capable(&shared.profile.dcqcn);
        let (mut ctx, halves, congestion) = self.parts(now, shared);
        match (from, to) {
            (_, QpState::Reset) => {
                halves.reset(&mut ctx);
                *congestion = Congestion::default();
                self.established = false;
                self.draining = false;
                self.closing = false;
            }
            (QpState::Init, QpState::Rtr) => halves.start_responder(ctx.attr),
            (QpState::Rtr, QpState::Rts) => halves.start_requester(ctx.attr),
            (QpState::Rts, QpState::Sqd) => {
                self.draining = true;
                self.check_drained(shared);
            }
            (QpState::Sqd, QpState::Rts) => self.draining = false,
            // Among what may change here are the retry counts.
            (QpState::Sqd, QpState::Sqd) => halves.restore_retries(ctx.attr),
            _ => {}
        }
        Ok(())
    }

    /// A QP that reacts to marks says so in its packets, or no switch would mark them.
    fn mark_ecn_capable(&mut self, settings: &Dcqcn) {
        if let Some(av) = self.attr.av.as_mut().filter(|av| settings.reacts.on(&av.path)) {
            av.path.traffic_class = ecn_capable(av.path.traffic_class);
        }
    }

    /// From now on, until it is reset, lost requests are repeated selectively. The caller has seen to the state.
    pub(crate) fn repeat_selectively(&mut self) {
        self.halves.repeat_selectively();
    }

    /// Before it is destroyed: what it took from an SRQ goes back.
    pub(crate) fn release(&mut self, srqs: &mut Srqs) {
        self.halves.release(srqs);
    }

    pub(crate) fn post_send(&mut self, now: Nanos, wr: SendWr, shared: &mut Shared) {
        let (mut ctx, halves, _) = self.parts(now, shared);
        halves.post_send(wr);
        if matches!(ctx.attr.qp_state, QpState::Sqe | QpState::Err) {
            halves.flush_send(&mut ctx);
        }
    }

    pub(crate) fn post_recv(&mut self, now: Nanos, wr: RecvWr, shared: &mut Shared) {
        let (mut ctx, halves, _) = self.parts(now, shared);
        halves.post_recv(wr);
        if ctx.attr.qp_state == QpState::Err {
            halves.flush_recv(&mut ctx);
        }
    }

    /// Takes a packet whose ICRC is right and whose destination this is.
    pub(crate) fn handle_packet(
        &mut self,
        now: Nanos,
        meta: &PacketMeta,
        packet: &Packet<'_>,
        memory: &impl Memory,
        shared: &mut Shared,
    ) {
        if let Err(drop) = self.check_packet(meta, packet) {
            shared.counters.add(drop, 1);
            return;
        }
        if meta.ecn() == Ecn::Ce && self.is_connected() {
            self.congestion.notification.note_mark(now, packet.bth().pkey(), &shared.profile.dcqcn);
        }
        if !self.established && self.attr.qp_state == QpState::Rtr && self.is_connected() {
            shared.output.raise(AsyncEvent::CommEst(self.qpn));
        }
        self.established = true;
        let (mut ctx, halves, _) = self.parts(now, shared);
        match halves.handle_packet(&mut ctx, meta, packet, memory) {
            Ok(Handled::Done) => self.check_drained(shared),
            Ok(Handled::Failed) => self.close(now, shared),
            Err(fault) => self.fail_request(now, fault, shared),
        }
    }

    /// What is dropped without a word (P-2); the counter that says why.
    fn check_packet(&self, meta: &PacketMeta, packet: &Packet<'_>) -> Result<(), Counter> {
        let (qp_type, opcode) = (self.init.qp_type, packet.opcode());
        if opcode.service() != qp_type.service() || !xrc::takes(qp_type, opcode) {
            return Err(Counter::DropService);
        }
        let takes = match self.attr.qp_state {
            QpState::Rts | QpState::Sqd => true,
            QpState::Rtr | QpState::Sqe => opcode.is_request(),
            QpState::Reset | QpState::Init | QpState::Err => false,
        };
        if !takes {
            return Err(Counter::DropState);
        }
        self.check_peer(meta, packet)
    }

    /// It comes from the peer, as far as P_Key and addresses tell.
    fn check_peer(&self, meta: &PacketMeta, packet: &Packet<'_>) -> Result<(), Counter> {
        if !pkey::matches(pkey::DEFAULT_PKEY, packet.bth().pkey()) {
            return Err(Counter::DropPkey);
        }
        if !self.is_connected() {
            return Ok(());
        }
        // CA17-40, CA17-41: the addresses are those of the QP's path. The UDP source port may be anything (W-12).
        let path = self.attr.av.as_ref().map(|av| &av.path).ok_or(Counter::DropAddress)?;
        if meta.src.to_canonical() != path.dst.to_canonical()
            || meta.dst.to_canonical() != path.src.to_canonical()
        {
            return Err(Counter::DropAddress);
        }
        Ok(())
    }

    /// Takes a CNP; whether the QP slows down.
    pub(crate) fn handle_cnp(
        &mut self,
        now: Nanos,
        meta: &PacketMeta,
        packet: &Packet<'_>,
        settings: &Dcqcn,
    ) -> bool {
        let reacts = self.is_connected()
            && matches!(self.attr.qp_state, QpState::Rtr | QpState::Rts | QpState::Sqd)
            && self.attr.av.as_ref().is_some_and(|av| settings.reacts.on(&av.path))
            && self.check_peer(meta, packet).is_ok();
        if reacts {
            self.congestion.handle_cnp(now, settings);
        }
        reacts
    }

    /// Whether a CNP is owed, and may be sent.
    fn owes_cnp(&self) -> bool {
        self.congestion.notification.is_due()
            && matches!(self.attr.qp_state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
    }

    fn is_connected(&self) -> bool {
        self.init.qp_type != QpType::Ud
    }

    /// The QP's deadline has come.
    pub(crate) fn handle_deadline(&mut self, now: Nanos, shared: &mut Shared) {
        let (mut ctx, halves, _) = self.parts(now, shared);
        if let Err(fault) = halves.handle_deadline(&mut ctx) {
            self.fail_request(now, fault, shared);
        }
    }

    /// Whether a turn might send something. It may say yes without need, but never no.
    pub(crate) fn may_send(&self) -> bool {
        let answers = match self.attr.qp_state {
            QpState::Rtr | QpState::Rts | QpState::Sqd => true,
            QpState::Err => self.closing,
            _ => false,
        };
        (answers && self.halves.has_answer())
            || self.halves.may_request(self.attr.qp_state)
            || self.owes_cnp()
    }

    /// One turn: a CNP that is owed, a burst of requests, then a burst of answers, so that a short SEND and an ACK can
    /// leave together.
    pub(crate) fn transmit<S: TransmitSink>(
        &mut self,
        now: Nanos,
        memory: &impl Memory,
        sink: &mut S,
        shared: &mut Shared,
    ) -> Turn {
        if self.owes_cnp() {
            let (mut ctx, _, congestion) = self.parts(now, shared);
            if congestion.send_cnp(&mut ctx, sink) == Sent::Refused {
                return Turn::Refused;
            }
        }
        let requests = self.send_burst(shared, |qp, shared| qp.send_request(now, memory, sink, shared));
        self.check_drained(shared);
        if requests.ended == Sent::Refused {
            return if requests.packets > 0 { Turn::CutShort } else { Turn::Refused };
        }
        let answers = self.send_burst(shared, |qp, shared| qp.send_answer(now, memory, sink, shared));
        if answers.ended == Sent::Refused {
            return if requests.packets + answers.packets > 0 { Turn::CutShort } else { Turn::Refused };
        }
        if requests.ended == Sent::Nothing && answers.ended == Sent::Nothing {
            Turn::Idle
        } else {
            Turn::Spent
        }
    }

    /// Sends until nothing is left, the sink refuses, or the burst is used up.
    fn send_burst(
        &mut self,
        shared: &mut Shared,
        mut send: impl FnMut(&mut Self, &mut Shared) -> Sent,
    ) -> Burst {
        let mut burst = Burst { packets: 0, bytes: 0, ended: Sent::Packet(0) };
        while burst.packets < BURST_PACKETS && burst.bytes < BURST_BYTES {
            burst.ended = send(self, shared);
            let Sent::Packet(bytes) = burst.ended else { break };
            burst.packets += 1;
            burst.bytes += bytes;
        }
        burst
    }

    fn send_request<S: TransmitSink>(
        &mut self,
        now: Nanos,
        memory: &impl Memory,
        sink: &mut S,
        shared: &mut Shared,
    ) -> Sent {
        if !self.halves.may_request(self.attr.qp_state) || self.is_held_back(now, shared) {
            return Sent::Nothing;
        }
        let (mut ctx, halves, congestion) = self.parts(now, shared);
        match halves.next_request(&mut ctx, memory, sink) {
            Ok(sent) => {
                congestion.note_sent(now, sent, &ctx.shared.profile.dcqcn);
                sent
            }
            Err(fault) => {
                self.fail_request(now, fault, shared);
                Sent::Nothing
            }
        }
    }

    fn send_answer<S: TransmitSink>(
        &mut self,
        now: Nanos,
        memory: &impl Memory,
        sink: &mut S,
        shared: &mut Shared,
    ) -> Sent {
        let is_data = self.halves.answers_with_data();
        if is_data && self.is_held_back(now, shared) {
            return Sent::Nothing;
        }
        let (mut ctx, halves, congestion) = self.parts(now, shared);
        match halves.next_answer(&mut ctx, memory, sink) {
            Ok(sent) => {
                if is_data {
                    congestion.note_sent(now, sent, &ctx.shared.profile.dcqcn);
                }
                sent
            }
            Err(fault) => {
                halves.fail_answer(&mut ctx, fault);
                self.close(now, shared);
                // Only the NAK is left to send, which cannot fail.
                self.send_answer(now, memory, sink, shared)
            }
        }
    }

    /// Whether its rate holds the next packet of data back.
    fn is_held_back(&mut self, now: Nanos, shared: &mut Shared) -> bool {
        self.congestion.is_held_back(now, self.index, shared)
    }

    /// The oldest send WQE fails, and the QP leaves its state for the one that its service has for that.
    fn fail_request(&mut self, now: Nanos, fault: RequesterFault, shared: &mut Shared) {
        shared.output.explain(self.qpn, &fault);
        let (mut ctx, halves, _) = self.parts(now, shared);
        if halves.fail_oldest(&mut ctx, fault) == QpState::Sqe {
            halves.flush_send(&mut ctx);
            self.leave_for(QpState::Sqe);
        } else {
            self.enter_error(now, shared);
        }
    }

    /// SQD: everything begun may be complete now.
    fn check_drained(&mut self, shared: &mut Shared) {
        if !self.draining || !self.halves.is_drained() {
            return;
        }
        self.draining = false;
        if self.attr.en_sqd_async_notify {
            shared.output.raise(AsyncEvent::SqDrained(self.qpn));
        }
    }

    /// To the error state, silently: nothing more is sent (S-9).
    fn enter_error(&mut self, now: Nanos, shared: &mut Shared) {
        if self.attr.qp_state != QpState::Err {
            self.halves.silence();
        }
        self.flush(now, shared);
    }

    /// To the error state by a fault that no completion can carry.
    pub(crate) fn fail(&mut self, now: Nanos, reason: &dyn std::fmt::Display, shared: &mut Shared) {
        shared.output.explain(self.qpn, reason);
        shared.output.raise(AsyncEvent::QpFatal(self.qpn));
        self.enter_error(now, shared);
    }

    /// To the error state because of a request, which is still to be answered with a NAK.
    fn close(&mut self, now: Nanos, shared: &mut Shared) {
        self.closing = true;
        self.flush(now, shared);
    }

    /// The two halves and the congestion control, and what they work with.
    fn parts<'a>(
        &'a mut self,
        now: Nanos,
        shared: &'a mut Shared,
    ) -> (Context<'a>, &'a mut Halves, &'a mut Congestion) {
        let ctx = Context {
            now,
            qpn: self.qpn,
            index: self.index,
            init: &self.init,
            attr: &self.attr,
            gap_ns: self.congestion.gap_ns(self.attr.path_mtu),
            shared,
        };
        (ctx, &mut self.halves, &mut self.congestion)
    }

    fn flush(&mut self, now: Nanos, shared: &mut Shared) {
        let entered = self.attr.qp_state != QpState::Err;
        self.leave_for(QpState::Err);
        let (mut ctx, halves, _) = self.parts(now, shared);
        halves.flush_send(&mut ctx);
        halves.flush_recv(&mut ctx);
        // P-27: after the completion of the WQE that a message half received held.
        if entered && self.receives_through_srq() {
            shared.output.raise(AsyncEvent::QpLastWqeReached(self.qpn));
        }
    }

    fn receives_through_srq(&self) -> bool {
        self.init.srq.is_some() || self.init.xrcd.is_some()
    }

    /// A fault, not a modify, changes the state.
    fn leave_for(&mut self, state: QpState) {
        self.attr.qp_state = state;
        self.attr.cur_qp_state = state;
        self.draining = false;
    }
}

/// What a burst came to.
struct Burst {
    packets: u32,
    bytes: u32,
    /// How the last attempt ended.
    ended: Sent,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An application may have hundreds of thousands of idle QPs.
    #[test]
    fn an_idle_qp_costs_less_than_a_kilobyte() {
        assert!(size_of::<Qp>() <= 1024, "{} bytes", size_of::<Qp>());
    }
}

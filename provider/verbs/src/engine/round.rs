//! Rounds: what the holder of the engine's lock does.

use super::hold::{HoldingSink, Intake};
use super::queues::Posted;
use super::{Bell, Inner, QpShared, State};
use crate::cq::Delivered;
use crate::events::AsyncEventKind;
use ferroce_core::{
    AsyncEvent, Completion, Counter, CqId, Device, Event, Nanos, QpState, Queue, Srqn, Transmit, WcStatus,
};
use ferroce_port::{Port, PortCounters};
use ferroce_wire::Qpn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches transmitted in one round, at most, so that receiving gets its turn.
const BATCHES_PER_ROUND: usize = 4;
/// Rounds that receive what has come, at most: somebody may be sending all the time.
const ROUNDS_TO_EMPTY: u32 = 256;
/// How long polling finds nothing before each poll also yields the processor, in nanoseconds. Two processes
/// that poll on one processor would otherwise wait for each other's time slices.
const YIELD_AFTER_NS: Nanos = 30_000;
/// How often the counters are copied to the board, in nanoseconds.
const SHOW_EVERY_NS: Nanos = 1_000_000;

/// What a round did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moved {
    /// Packets received.
    pub(super) received: usize,
    /// Completions delivered.
    pub(super) delivered: usize,
    /// Whether packets are left that could not be sent for now.
    pub(super) blocked: bool,
}

impl Moved {
    fn anything(self) -> bool {
        self.received > 0 || self.delivered > 0
    }
}

impl Inner {
    /// Something was posted to `qp`: the next round takes it.
    pub(crate) fn ring(&self, qp: &Arc<QpShared>) {
        if qp.set_rung() {
            self.bells.push(Bell::Qp(Arc::clone(qp)));
        }
    }

    /// Lets what was posted leave: in this thread if the engine is free; whoever holds it answers otherwise.
    pub(crate) fn kick(&self) {
        if !self.assisted {
            self.progress.wake();
            return;
        }
        self.answer_late_bells();
    }

    /// An application polls an empty CQ: run a round for it. `is_empty` tells whether it got what it wants.
    pub(crate) fn assist(&self, is_empty: impl Fn() -> bool) {
        if !self.assisted {
            std::thread::yield_now();
            return;
        }
        let Some(mut state) = self.state.try_lock() else {
            // Another thread moves the packets, and is done in a moment unless it waits for this processor.
            if self.progress.note_locked_out(self.now()) > YIELD_AFTER_NS {
                std::thread::yield_now();
            }
            return;
        };
        if self.progress.take_deferred() {
            self.transmit(&mut state);
        }
        let mut moved = self.receive(&mut state);
        let found = !is_empty();
        if found && self.progress.may_defer() {
            // The application gets its completion before the acknowledgement is sent: what it posts next goes
            // out in the same system call. The engine's thread is due soon, should it never come back.
            self.progress.set_deferred();
        } else {
            moved.blocked = self.transmit(&mut state);
        }
        let now = self.now();
        self.progress.note_assist(now);
        moved.delivered += self.deliver(&mut state, now);
        let idle = self.note_activity(&mut state, moved, now);
        // What could not be sent is tried again when the application polls again. A thread that naps looks after it
        // soon enough, should it not.
        let left_to_polling = moved.blocked && self.progress.may_defer();
        self.plan(&state, Moved { blocked: moved.blocked && !left_to_polling, ..moved }, now);
        drop(state);
        self.answer_late_bells();
        if !found && idle > YIELD_AFTER_NS {
            std::thread::yield_now();
        }
    }

    /// The application is about to wait for an event, so the engine's thread has to watch the network.
    pub(crate) fn will_block(&self) {
        self.progress.note_armed(self.now());
        if self.progress.is_deferred() {
            self.move_packets(&mut self.state.lock(), false);
        }
    }

    /// Receives (if asked) and transmits; a full round.
    pub(super) fn move_packets(&self, state: &mut State, receive: bool) -> Moved {
        self.progress.take_deferred();
        let mut moved = if receive { self.receive(state) } else { Moved::default() };
        let now = self.now();
        self.answer_bells(&mut state.device, now);
        moved.blocked = self.transmit(state);
        moved.delivered += self.deliver(state, now);
        self.note_activity(state, moved, now);
        self.plan(state, moved, now);
        moved
    }

    /// Rounds without receiving, while bells ring that nobody answers. Whoever lets go of the lock calls it,
    /// since a bell may have been rung while it was held.
    pub(super) fn answer_late_bells(&self) {
        while !self.bells.is_empty() {
            let Some(mut state) = self.state.try_lock() else { return };
            self.move_packets(&mut state, false);
        }
    }

    /// Receives one batch and hands it to the transport; times out what is due; delivers.
    fn receive(&self, state: &mut State) -> Moved {
        let now = self.now();
        let State { device, port, memory, overdue, socket_holds, .. } = state;
        let record = self.board.slot(self.slot);
        let mut intake = record.map(Intake::begin);
        let mut first = true;
        let received = port.receive(&mut |meta, payload| {
            if let Some(intake) = &mut intake {
                intake.add(meta, payload.len());
            }
            if first {
                // After the packet was received: what was posted before it was sent is seen.
                self.answer_bells(device, now);
                first = false;
            }
            device.handle_packet(now, meta, payload, memory);
        });
        if let (Some(intake), Some(record)) = (intake, record) {
            intake.end(record, received);
        }
        if first {
            self.answer_bells(device, now);
        }
        let has_come = device.poll_timeout().is_some_and(|at| at <= now);
        if overdue.acts(has_come, received, *socket_holds) {
            device.handle_timeout(now);
        }
        Moved { received, delivered: self.deliver(state, now), blocked: false }
    }

    /// Handles the packets that have come. A card would have handled them when they came.
    pub(super) fn receive_arrived(&self, state: &mut State) {
        // Bounded: somebody may be sending all the time.
        for _ in 0..ROUNDS_TO_EMPTY {
            if self.receive(state).received == 0 {
                return;
            }
        }
    }

    /// Hands over what was posted to the QPs and SRQs that rang.
    pub(super) fn answer_bells(&self, device: &mut Device, now: Nanos) {
        // Bounded by those that rang before; who rings later is answered later. What was destroyed with something
        // posted has nowhere to put it: that is no error.
        for _ in 0..self.bells.len() {
            match self.bells.pop() {
                Some(Bell::Qp(qp)) => {
                    qp.clear_rung();
                    let qpn = qp.qpn();
                    qp.drain(|posted| {
                        let _ = match posted {
                            Posted::Recv(wr) => device.post_recv(now, qpn, wr),
                            Posted::Send(wr) => device.post_send(now, qpn, wr),
                        };
                    });
                }
                Some(Bell::Srq(srq)) => {
                    srq.clear_rung();
                    srq.drain(|wr| {
                        let _ = device.post_srq_recv(srq.srqn(), wr);
                    });
                }
                None => return,
            }
        }
    }

    /// Transmits what is ready. Whether something is left.
    pub(super) fn transmit(&self, state: &mut State) -> bool {
        let now = self.now();
        let State { device, port, memory, hold, .. } = state;
        for _ in 0..BATCHES_PER_ROUND {
            let mut sink = HoldingSink { sink: port, hold, board: &self.board, now };
            let outcome = device.poll_transmit(now, memory, &mut sink);
            port.flush();
            if outcome == Transmit::Idle {
                return false;
            }
        }
        true
    }

    /// Delivers completions to their CQs and events to the application. How many completions there were.
    pub(super) fn deliver(&self, state: &mut State, now: Nanos) -> usize {
        let mut delivered = 0;
        loop {
            let before = delivered;
            while let Some(completion) = state.device.poll_completion() {
                delivered += 1;
                if let Some(overrun) = deliver_one(state, &completion, now) {
                    state.device.cq_overrun(now, overrun);
                }
            }
            while let Some(event) = state.device.poll_event() {
                report(state, &event);
            }
            // An overrun flushes QPs, whose completions go to other CQs; each CQ is overrun once.
            if delivered == before {
                raise_due(state, now);
                return delivered;
            }
        }
    }

    /// Remembers that something moved; for how long nothing has.
    fn note_activity(&self, state: &mut State, moved: Moved, now: Nanos) -> Nanos {
        if moved.anything() {
            state.busy_at = now;
        }
        if now.saturating_sub(state.shown_at) > SHOW_EVERY_NS {
            self.show_counters(state, now);
        }
        now.saturating_sub(state.busy_at)
    }

    /// Copies the counters to this process's record on the board.
    pub(super) fn show_counters(&self, state: &mut State, now: Nanos) {
        state.shown_at = now;
        let Some(record) = self.board.slot(self.slot) else { return };
        let port = state.port.counters();
        for (cell, (counter, value)) in record.counters().iter().zip(state.device.counters().iter()) {
            cell.store(value + counted_by_port(&port, counter), Ordering::Relaxed);
        }
    }

    /// Makes sure that the engine's thread wakes in time for the next deadline.
    fn plan(&self, state: &State, moved: Moved, now: Nanos) {
        let held = state.held_events.iter().map(|(due, _)| *due);
        let deadline = held.chain(state.device.poll_timeout()).min().unwrap_or(Nanos::MAX);
        self.progress.wake_by(if moved.blocked { now } else { deadline });
    }
}

/// What the port adds to a counter: packets that the transport does not know to be lost, or never saw.
fn counted_by_port(port: &PortCounters, counter: Counter) -> u64 {
    match counter {
        Counter::SendErr => port.tx_refused + port.tx_no_room,
        Counter::DropMalformed => port.rx_malformed,
        _ => 0,
    }
}

/// Puts a completion into its CQ; the CQ's name if that overran it.
fn deliver_one(state: &mut State, completion: &Completion, now: Nanos) -> Option<CqId> {
    let cq = state.objects.cq(completion.cq)?;
    let qp = state.objects.qp(completion.wc.qpn)?;
    if completion.wc.status != WcStatus::Success {
        note_state(state, completion.wc.qpn);
    }
    let srq = match completion.queue {
        Queue::Srq(srqn) => state.objects.srq(srqn).cloned(),
        _ => None,
    };
    match cq.push(completion, Arc::clone(qp), srq, now) {
        Delivered::Queued | Delivered::Lost => None,
        Delivered::Held(due) => {
            match state.held_events.iter_mut().find(|(_, held)| Arc::ptr_eq(held, cq)) {
                Some(held) => held.0 = due,
                None => state.held_events.push((due, Arc::clone(cq))),
            }
            None
        }
        Delivered::Overrun => {
            cq.report_overrun();
            Some(completion.cq)
        }
    }
}

/// Raises the events of CQs that have been held for long enough.
fn raise_due(state: &mut State, now: Nanos) {
    // One for each CQ whose event is held, so there are few.
    state.held_events.retain(|(due, cq)| {
        let is_due = *due <= now;
        if is_due {
            cq.raise_due(now);
        }
        !is_due
    });
}

/// The transport moved a QP to another state by itself: posting has to know.
fn note_state(state: &State, qpn: Qpn) {
    if let Some(qp) = state.objects.qp(qpn) {
        qp.set_state(state.device.qp_state(qpn).unwrap_or(QpState::Err));
    }
}

/// Hands an event to the application or to the log.
fn report(state: &State, event: &Event) {
    let (qpn, kind) = match event {
        Event::Reason { qpn, text } => {
            tracing::info!(%qpn, "{text}");
            return;
        }
        Event::Async(AsyncEvent::CommEst(qpn)) => (*qpn, AsyncEventKind::CommEst),
        Event::Async(AsyncEvent::SqDrained(qpn)) => (*qpn, AsyncEventKind::SqDrained),
        Event::Async(AsyncEvent::QpFatal(qpn)) => (*qpn, AsyncEventKind::QpFatal),
        Event::Async(AsyncEvent::QpReqErr(qpn)) => (*qpn, AsyncEventKind::QpReqErr),
        Event::Async(AsyncEvent::QpAccessErr(qpn)) => (*qpn, AsyncEventKind::QpAccessErr),
        Event::Async(AsyncEvent::QpLastWqeReached(qpn)) => (*qpn, AsyncEventKind::QpLastWqeReached),
        Event::Async(AsyncEvent::SrqLimitReached(srqn)) => {
            return report_of_srq(state, *srqn, AsyncEventKind::SrqLimitReached);
        }
        Event::Async(AsyncEvent::SrqErr(srqn)) => {
            return report_of_srq(state, *srqn, AsyncEventKind::SrqErr);
        }
    };
    note_state(state, qpn);
    if let Some(qp) = state.objects.qp(qpn) {
        qp.report(kind);
    }
}

fn report_of_srq(state: &State, srqn: Srqn, kind: AsyncEventKind) {
    if let Some(srq) = state.objects.srq(srqn) {
        srq.report(kind);
    }
}

//! The part of a QP that application threads and the engine share: work requests on their way to the engine,
//! and how much room its work queues have.

use crate::acks::Acks;
use crate::cq::CqShared;
use crate::error::PostCause;
use crate::events::{AsyncEventKind, AsyncEvents};
use ferroce_core::{QpState, Queue, RecvWr, SendWr};
use ferroce_wire::Qpn;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// A QP, as application threads and the engine share it.
#[derive(Debug)]
pub(crate) struct QpShared {
    qpn: Qpn,
    cookie: u64,
    /// Send CQ and receive CQ.
    cqs: [Arc<CqShared>; 2],
    send: WorkQueue<SendWr>,
    recv: WorkQueue<RecvWr>,
    /// Whether the engine has been told that something was posted.
    rung: AtomicBool,
    state: AtomicU8,
    async_events: Acks,
    context_events: Arc<AsyncEvents>,
}

/// A work request on its way to the engine.
#[derive(Debug)]
pub(crate) enum Posted {
    /// For the receive queue.
    Recv(RecvWr),
    /// For the send queue.
    Send(SendWr),
}

/// Work requests posted and not yet taken by the engine, and how many are not yet retired.
#[derive(Debug)]
struct WorkQueue<T> {
    posted: Mutex<VecDeque<T>>,
    outstanding: AtomicU32,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        WorkQueue { posted: Mutex::new(VecDeque::new()), outstanding: AtomicU32::new(0) }
    }
}

/// A work queue held for posting; requests of one call stay together.
pub(crate) struct Poster<'a, T> {
    posted: MutexGuard<'a, VecDeque<T>>,
    outstanding: &'a AtomicU32,
    state: QpState,
    first_state: QpState,
    queue: &'static str,
}

impl<T> Poster<'_, T> {
    /// Whether the state allows `count` more work requests and there is room for them within `limit`.
    pub(crate) fn check_room(&self, limit: u32, count: usize) -> Result<(), PostCause> {
        if (self.state as u32) < self.first_state as u32 {
            return Err(PostCause::WrongState { state: self.state, queue: self.queue });
        }
        let outstanding = self.outstanding.load(Ordering::Acquire) as usize;
        if outstanding + count > limit as usize { Err(PostCause::QueueFull { limit }) } else { Ok(()) }
    }

    /// Adds a work request, if the state allows it and there is room within `limit`.
    pub(crate) fn push(&mut self, limit: u32, wr: T) -> Result<(), PostCause> {
        self.check_room(limit, 1)?;
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        self.posted.push_back(wr);
        Ok(())
    }
}

impl QpShared {
    pub(crate) fn new(
        qpn: Qpn,
        cookie: u64,
        cqs: [Arc<CqShared>; 2],
        context_events: Arc<AsyncEvents>,
    ) -> QpShared {
        for cq in &cqs {
            cq.count_qp(true);
        }
        QpShared {
            qpn,
            cookie,
            cqs,
            send: WorkQueue::default(),
            recv: WorkQueue::default(),
            rung: AtomicBool::new(false),
            state: AtomicU8::new(QpState::Reset as u8),
            async_events: Acks::default(),
            context_events,
        }
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(crate) fn async_events(&self) -> &Acks {
        &self.async_events
    }

    /// The state as the engine last reported it.
    pub(crate) fn state(&self) -> QpState {
        const STATES: [QpState; 7] = [
            QpState::Reset,
            QpState::Init,
            QpState::Rtr,
            QpState::Rts,
            QpState::Sqd,
            QpState::Sqe,
            QpState::Err,
        ];
        STATES.get(usize::from(self.state.load(Ordering::Acquire))).copied().unwrap_or(QpState::Err)
    }

    /// The engine reports the state.
    pub(crate) fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Holds the send queue for posting; it takes requests from RTS on (transport.md 4.2).
    pub(crate) fn send_queue(&self) -> Poster<'_, SendWr> {
        self.poster(&self.send, QpState::Rts, "a send")
    }

    /// Holds the receive queue for posting; it takes requests from INIT on.
    pub(crate) fn recv_queue(&self) -> Poster<'_, RecvWr> {
        self.poster(&self.recv, QpState::Init, "a receive")
    }

    fn poster<'a, T>(
        &'a self,
        work_queue: &'a WorkQueue<T>,
        first_state: QpState,
        queue: &'static str,
    ) -> Poster<'a, T> {
        Poster {
            posted: work_queue.posted.lock(),
            outstanding: &work_queue.outstanding,
            state: self.state(),
            first_state,
            queue,
        }
    }

    /// Hands what was posted to the engine, receives first, so that a peer answered by a send finds them.
    pub(crate) fn drain(&self, mut take: impl FnMut(Posted)) {
        self.recv.posted.lock().drain(..).for_each(|wr| take(Posted::Recv(wr)));
        self.send.posted.lock().drain(..).for_each(|wr| take(Posted::Send(wr)));
    }

    /// A completion was polled that retires `count` work requests.
    pub(crate) fn retire(&self, queue: Queue, count: u32) {
        let outstanding = match queue {
            Queue::Send => &self.send.outstanding,
            Queue::Recv | Queue::Srq(_) => &self.recv.outstanding,
        };
        let left = |now: u32| Some(now.saturating_sub(count));
        // A RESET may have emptied the queue in between, so it stops at zero.
        let _ = outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
    }

    /// Empties its queues without a completion, in the work queues and in the CQs (transport.md S-5).
    pub(crate) fn forget_work(self: &Arc<Self>) {
        for cq in &self.cqs {
            cq.forget_qp(self);
        }
        self.send.posted.lock().clear();
        self.recv.posted.lock().clear();
        self.send.outstanding.store(0, Ordering::Release);
        self.recv.outstanding.store(0, Ordering::Release);
    }

    /// Lets go of its CQs when it is destroyed.
    pub(crate) fn release_cqs(&self) {
        for cq in &self.cqs {
            cq.count_qp(false);
        }
    }

    /// Marks it as rung; whether it was not before.
    pub(crate) fn set_rung(&self) -> bool {
        !self.rung.swap(true, Ordering::AcqRel)
    }

    /// The engine comes to look.
    pub(crate) fn clear_rung(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Tells the application of an asynchronous event.
    pub(crate) fn report(&self, kind: AsyncEventKind) {
        self.context_events.raise(&self.async_events, self.cookie, kind);
    }
}

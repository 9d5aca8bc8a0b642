//! The part of a QP that application threads and the engine share: work requests on their way to the engine,
//! and how much room its work queues have.

use super::SrqShared;
use crate::cq::CqShared;
use crate::error::PostCause;
use crate::events::{AsyncEventKind, Listener};
use ferroce_core::{QpInit, QpState, Queue, RecvWr, SendWr};
use ferroce_wire::Qpn;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// A QP, as application threads and the engine share it.
#[derive(Debug)]
pub(crate) struct QpShared {
    qpn: Qpn,
    init: QpInit,
    /// Send CQ and receive CQ; none where its type has none.
    cqs: Cqs,
    send: WorkQueue<SendWr>,
    recv: WorkQueue<RecvWr>,
    /// Times that its queues were emptied without a completion: completions of an earlier life are nobody's.
    life: AtomicU32,
    /// Completions of this life in its CQs, of the send queue and of receives. Changed under the CQ's lock.
    waiting: [AtomicUsize; 2],
    /// Whether the engine has been told that something was posted.
    rung: AtomicBool,
    state: AtomicU8,
    /// One for each handle to it. Only an XRC target has several.
    listeners: Mutex<SmallVec<[Arc<Listener>; 1]>>,
}

/// The CQs of a QP: for sends and for receives, or none.
pub(crate) type Cqs = SmallVec<[Arc<CqShared>; 2]>;

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
pub(super) struct WorkQueue<T> {
    posted: Mutex<VecDeque<T>>,
    outstanding: AtomicU32,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        WorkQueue { posted: Mutex::new(VecDeque::new()), outstanding: AtomicU32::new(0) }
    }
}

impl<T> WorkQueue<T> {
    /// Holds it for posting.
    pub(super) fn poster(&self) -> Poster<'_, T> {
        Poster { posted: self.posted.lock(), outstanding: &self.outstanding }
    }

    /// Hands what was posted to the engine.
    pub(super) fn drain(&self, take: impl FnMut(T)) {
        self.posted.lock().drain(..).for_each(take);
    }

    /// A completion was polled that retires `count` work requests.
    pub(super) fn retire(&self, count: u32) {
        let left = |now: u32| Some(now.saturating_sub(count));
        // A RESET may have emptied the queue in between, so it stops at zero.
        let _ = self.outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
    }

    fn clear(&self) {
        self.posted.lock().clear();
        self.outstanding.store(0, Ordering::Release);
    }
}

/// A work queue held for posting; requests of one call stay together.
pub(crate) struct Poster<'a, T> {
    posted: MutexGuard<'a, VecDeque<T>>,
    outstanding: &'a AtomicU32,
}

impl<T> Poster<'_, T> {
    /// Work requests posted and not retired.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Acquire)
    }

    /// Whether there is room for `count` more work requests within `limit`.
    pub(crate) fn check_room(&self, limit: u32, count: usize) -> Result<(), PostCause> {
        let fits = self.outstanding() as usize + count <= limit as usize;
        if fits { Ok(()) } else { Err(PostCause::QueueFull { limit }) }
    }

    /// Adds a work request, if there is room within `limit`.
    pub(crate) fn push(&mut self, limit: u32, wr: T) -> Result<(), PostCause> {
        self.check_room(limit, 1)?;
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        self.posted.push_back(wr);
        Ok(())
    }
}

impl QpShared {
    pub(crate) fn new(qpn: Qpn, init: QpInit, cqs: Cqs, listener: Arc<Listener>) -> QpShared {
        for cq in &cqs {
            cq.count_user(true);
        }
        QpShared {
            qpn,
            init,
            cqs,
            send: WorkQueue::default(),
            recv: WorkQueue::default(),
            life: AtomicU32::new(0),
            waiting: Default::default(),
            rung: AtomicBool::new(false),
            state: AtomicU8::new(QpState::Reset as u8),
            listeners: Mutex::new(SmallVec::from_iter([listener])),
        }
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// What it was made with.
    pub(crate) fn init(&self) -> &QpInit {
        &self.init
    }

    /// One more handle to it; `false` if the last one has just gone.
    pub(crate) fn add_listener(&self, listener: Arc<Listener>) -> bool {
        let mut listeners = self.listeners.lock();
        if listeners.is_empty() {
            return false;
        }
        listeners.push(listener);
        true
    }

    /// A handle goes; whether it was the last.
    pub(crate) fn remove_listener(&self, listener: &Arc<Listener>) -> bool {
        let mut listeners = self.listeners.lock();
        listeners.retain(|it| !Arc::ptr_eq(it, listener));
        listeners.is_empty()
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
    pub(crate) fn send_queue(&self) -> Result<Poster<'_, SendWr>, PostCause> {
        let poster = self.send.poster();
        self.check_state(QpState::Rts, "a send").map(|()| poster)
    }

    /// Holds the receive queue for posting; it takes requests from INIT on.
    pub(crate) fn recv_queue(&self) -> Result<Poster<'_, RecvWr>, PostCause> {
        let poster = self.recv.poster();
        self.check_state(QpState::Init, "a receive").map(|()| poster)
    }

    fn check_state(&self, first: QpState, queue: &'static str) -> Result<(), PostCause> {
        let state = self.state();
        if (state as u32) < first as u32 { Err(PostCause::WrongState { state, queue }) } else { Ok(()) }
    }

    /// Hands what was posted to the engine, receives first, so that a peer answered by a send finds them.
    pub(crate) fn drain(&self, mut take: impl FnMut(Posted)) {
        self.recv.drain(|wr| take(Posted::Recv(wr)));
        self.send.drain(|wr| take(Posted::Send(wr)));
    }

    /// A completion was polled that retires `count` work requests of one of its own queues.
    pub(crate) fn retire(&self, queue: Queue, count: u32) {
        match queue {
            Queue::Send => self.send.retire(count),
            Queue::Recv => self.recv.retire(count),
            // The SRQ's own affair.
            Queue::Srq(_) => {}
        }
    }

    /// How often it was emptied.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Ordering::Acquire)
    }

    /// A completion of one of its queues goes into a CQ, or is polled. The caller holds the CQ's lock.
    pub(crate) fn count_completion(&self, queue: Queue, comes: bool) {
        let waiting = &self.waiting[usize::from(queue != Queue::Send)];
        if comes {
            waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Empties its queues without a completion, in the work queues and in the CQs (transport.md S-5). In the SRQ, if it
    /// has one, there is room again.
    pub(crate) fn forget_work(&self, srq: Option<&SrqShared>) {
        self.life.fetch_add(1, Ordering::AcqRel);
        for (side, cq) in self.cqs.iter().enumerate() {
            cq.forget(|| {
                let count = self.waiting[side].swap(0, Ordering::Relaxed);
                if let (1, Some(srq)) = (side, srq) {
                    srq.retire(count as u32);
                }
                count
            });
        }
        self.send.clear();
        self.recv.clear();
    }

    /// Lets go of its CQs when it is destroyed.
    pub(crate) fn release_cqs(&self) {
        for cq in &self.cqs {
            cq.count_user(false);
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

    /// Tells the application of an asynchronous event, at every handle.
    pub(crate) fn report(&self, kind: AsyncEventKind) {
        for listener in &*self.listeners.lock() {
            listener.raise(kind);
        }
    }
}

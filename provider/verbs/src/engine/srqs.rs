//! The part of an SRQ that application threads and the engine share, and the verbs on it.

use super::queues::{Poster, WorkQueue};
use super::{Bell, Inner};
use crate::cq::CqShared;
use crate::error::Error;
use crate::events::{AsyncEventKind, Listener};
use ferroce_core::{RecvWr, SrqInit, Srqn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// An SRQ, as application threads and the engine share it.
#[derive(Debug)]
pub(crate) struct SrqShared {
    srqn: Srqn,
    queue: WorkQueue<RecvWr>,
    /// Work requests it holds at most.
    max_wr: AtomicU32,
    /// Whether the engine has been told that something was posted.
    rung: AtomicBool,
    /// QPs that were made with it.
    users: AtomicUsize,
    /// The CQ of an XRC SRQ.
    cq: Option<Arc<CqShared>>,
    listener: Listener,
}

impl SrqShared {
    pub(crate) fn srqn(&self) -> Srqn {
        self.srqn
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Holds it for posting.
    pub(crate) fn queue(&self) -> Poster<'_, RecvWr> {
        self.queue.poster()
    }

    /// Hands what was posted to the engine.
    pub(super) fn drain(&self, take: impl FnMut(RecvWr)) {
        self.queue.drain(take);
    }

    /// A completion was polled (or forgotten) that retires `count` work requests.
    pub(crate) fn retire(&self, count: u32) {
        self.queue.retire(count);
    }

    /// Whether it has a CQ of its own.
    pub(crate) fn is_xrc(&self) -> bool {
        self.cq.is_some()
    }

    pub(crate) fn max_wr(&self) -> u32 {
        self.max_wr.load(Ordering::Acquire)
    }

    /// Changes how many work requests it holds at most, but not below what it holds.
    pub(crate) fn resize(&self, max_wr: u32) -> Result<(), Error> {
        // Nobody posts meanwhile.
        let queue = self.queue();
        let held = queue.outstanding();
        if max_wr < held {
            return Err(Error::SrqTooSmall { asked: max_wr, held });
        }
        self.max_wr.store(max_wr, Ordering::Release);
        Ok(())
    }

    /// A QP is made with it, or one that was is gone.
    pub(crate) fn count_user(&self, comes: bool) {
        if comes {
            self.users.fetch_add(1, Ordering::AcqRel);
        } else {
            self.users.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn users(&self) -> usize {
        self.users.load(Ordering::Acquire)
    }

    /// Marks it as rung; whether it was not before.
    fn set_rung(&self) -> bool {
        !self.rung.swap(true, Ordering::AcqRel)
    }

    /// The engine comes to look.
    pub(super) fn clear_rung(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    pub(super) fn report(&self, kind: AsyncEventKind) {
        self.listener.raise(kind);
    }
}

impl Inner {
    /// Makes an SRQ.
    pub(crate) fn create_srq(
        &self,
        init: SrqInit,
        max_wr: u32,
        cq: Option<Arc<CqShared>>,
        listener: Listener,
    ) -> Result<Arc<SrqShared>, Error> {
        let mut state = self.state.lock();
        let srqn = state.device.create_srq(init)?;
        if let Some(cq) = &cq {
            cq.count_user(true);
        }
        let srq = Arc::new(SrqShared {
            srqn,
            queue: WorkQueue::default(),
            max_wr: AtomicU32::new(max_wr),
            rung: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            cq,
            listener,
        });
        state.objects.add_srq(Arc::clone(&srq));
        Ok(srq)
    }

    /// Destroys an SRQ that no QP uses; does nothing the second time.
    pub(crate) fn destroy_srq(&self, srq: &SrqShared) {
        self.with_state(|inner, state, now| {
            if !state.objects.remove_srq(srq.srqn) {
                return;
            }
            inner.answer_bells(&mut state.device, now);
            inner.deliver(state, now);
            if let Err(error) = state.device.destroy_srq(srq.srqn) {
                tracing::error!(%error, "destroying an SRQ");
            }
            if let Some(cq) = &srq.cq {
                cq.count_user(false);
            }
        });
    }

    /// Arms the limit.
    pub(crate) fn arm_srq(&self, srqn: Srqn, limit: u32) -> Result<(), Error> {
        self.with_state(|inner, state, now| {
            // What was posted before the call counts.
            inner.answer_bells(&mut state.device, now);
            Ok(state.device.arm_srq(srqn, limit)?)
        })
    }

    /// The limit, 0 once it was reached.
    pub(crate) fn srq_limit(&self, srqn: Srqn) -> Result<u32, Error> {
        Ok(self.state.lock().device.srq_limit(srqn)?)
    }

    /// Something was posted to an SRQ: the next round takes it.
    pub(crate) fn ring_srq(&self, srq: &Arc<SrqShared>) {
        if srq.set_rung() {
            self.bells.push(Bell::Srq(Arc::clone(srq)));
        }
    }
}

//! Where receive WQEs wait until a message takes them: a QP's own receive queue or an SRQ.

use crate::context::{Context, WorkDone};
use crate::gather::total_length;
use crate::srq::Srqs;
use crate::{CqId, PdId, QpInit, Queue, RecvWr, Srqn, WcOpcode, WcStatus};
use std::collections::VecDeque;

/// Receive WQEs that no message has taken yet, oldest first.
#[derive(Default, Debug)]
pub(crate) struct ReceiveQueue {
    wrs: VecDeque<RecvWr>,
    /// Most WQEs at once since the queue was last empty.
    peak: usize,
}

/// A receive WQE that a message has taken.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) wr: RecvWr,
    pub(crate) home: Home,
}

/// Whose keys the list of a receive WQE has, and where the WQE completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub(crate) pd: PdId,
    pub(crate) cq: CqId,
    pub(crate) queue: Queue,
}

impl Home {
    /// That of a QP's own receive queue.
    fn of_qp(init: &QpInit) -> Home {
        Home { pd: init.pd, cq: init.recv_cq, queue: Queue::Recv }
    }
}

impl ReceiveQueue {
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.wrs.push_back(wr);
        self.peak = self.peak.max(self.wrs.len());
    }

    /// A WQE that was taken, and not used, is the oldest again.
    pub(crate) fn put_back(&mut self, wr: RecvWr) {
        self.wrs.push_front(wr);
        self.peak = self.peak.max(self.wrs.len());
    }

    /// Takes the oldest WQE.
    pub(crate) fn pop(&mut self) -> Option<RecvWr> {
        let wr = self.wrs.pop_front()?;
        if self.wrs.is_empty() {
            // Give memory back after a burst, but not in the steady state of a deep queue.
            if self.wrs.capacity() > IDLE_WQES && self.peak <= self.wrs.capacity() / 4 {
                self.wrs.shrink_to(self.peak.max(IDLE_WQES));
            }
            self.peak = 0;
        }
        Some(wr)
    }

    /// Bytes that the oldest WQE has room for.
    pub(crate) fn room(&self) -> Option<u64> {
        self.wrs.front().map(|wr| total_length(&wr.sges))
    }

    pub(crate) fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Flushes all of it, in order.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        let home = Home::of_qp(ctx.init);
        for wr in std::mem::take(&mut self.wrs) {
            Receive { wr, home }.flush(ctx);
        }
        self.peak = 0;
    }

    /// The WQE for the next message of a QP whose own queue this is: from `srq` if that is given.
    #[inline]
    pub(crate) fn take(&mut self, ctx: &mut Context<'_>, srq: Option<Srqn>) -> Option<Receive> {
        match srq {
            None => self.pop().map(|wr| Receive { wr, home: Home::of_qp(ctx.init) }),
            Some(srqn) => {
                let shared = &mut *ctx.shared;
                shared.srqs.take(srqn, ctx.init.recv_cq, &mut shared.output)
            }
        }
    }

    /// Bytes that this WQE has room for.
    pub(crate) fn next_room(&self, ctx: &Context<'_>, srq: Option<Srqn>) -> Option<u64> {
        match srq {
            None => self.room(),
            Some(srqn) => ctx.shared.srqs.next_room(srqn),
        }
    }
}

impl Receive {
    /// Whether it came from an SRQ, to which it cannot go back.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.home.queue, Queue::Srq(_))
    }

    /// The QP that took it is no more: gives it back to the SRQ it came from.
    pub(crate) fn put_back(self, srqs: &mut Srqs) {
        if let Queue::Srq(srqn) = self.home.queue {
            srqs.put_back(srqn, self.wr);
        }
    }

    /// Completes it with an error or as flushed.
    pub(crate) fn fail(self, ctx: &mut Context<'_>, status: WcStatus, vendor_err: u32) {
        let done = WorkDone::new(self.wr.wr_id, status, WcOpcode::Recv);
        ctx.complete_recv(self.home, WorkDone { vendor_err, ..done });
    }

    pub(crate) fn flush(self, ctx: &mut Context<'_>) {
        self.fail(ctx, WcStatus::WrFlushErr, 0);
    }
}

/// Receive WQEs that an idle queue may keep room for.
const IDLE_WQES: usize = 8;

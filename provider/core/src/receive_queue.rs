//! The receive queue: receive WQEs from posting until a message takes them.

use crate::context::{Context, WorkDone};
use crate::gather::total_length;
use crate::{CqId, PdId, QpInit, Queue, RecvWr, WcOpcode, WcStatus};
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
    pub(crate) fn of_qp(init: &QpInit) -> Home {
        Home { pd: init.pd, cq: init.recv_cq, queue: Queue::Recv }
    }
}

impl ReceiveQueue {
    pub(crate) fn post(&mut self, wr: RecvWr) {
        self.wrs.push_back(wr);
        self.peak = self.peak.max(self.wrs.len());
    }

    /// Bytes that the next WQE has room for.
    pub(crate) fn next_room(&self) -> Option<u64> {
        self.wrs.front().map(|wr| total_length(&wr.sges))
    }

    /// The next WQE.
    pub(crate) fn take(&mut self, ctx: &Context<'_>) -> Option<Receive> {
        let wr = self.wrs.pop_front()?;
        if self.wrs.is_empty() {
            // Give memory back after a burst, but not in the steady state of a deep queue.
            if self.wrs.capacity() > IDLE_WQES && self.peak <= self.wrs.capacity() / 4 {
                self.wrs.shrink_to(self.peak.max(IDLE_WQES));
            }
            self.peak = 0;
        }
        Some(Receive { wr, home: Home::of_qp(ctx.init) })
    }

    /// Flushes all of it, in order.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        let home = Home::of_qp(ctx.init);
        for wr in std::mem::take(&mut self.wrs) {
            Receive { wr, home }.flush(ctx);
        }
        self.peak = 0;
    }
}

impl Receive {
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

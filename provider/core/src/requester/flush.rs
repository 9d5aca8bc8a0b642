//! The end of a send queue: one WQE fails, the others are flushed.

use super::Requester;
use super::responses::wc_opcode;
use crate::WcStatus;
use crate::context::{Context, WorkDone};
use crate::fault::RequesterFault;

impl Requester {
    /// The oldest WQE fails; an error completion is made whether it asked for one or not.
    pub(crate) fn fail_oldest(&mut self, ctx: &mut Context<'_>, fault: RequesterFault) {
        ctx.shared.output.explain(ctx.qpn, &fault);
        self.finish_oldest(ctx, fault.status(), fault.code());
    }

    /// Flushes what is left, in the order of posting, and forgets what was under way.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        // Each round takes a WQE off the queue.
        while self.finish_oldest(ctx, WcStatus::WrFlushErr, 0) {}
        self.abandon(ctx);
    }

    /// Empties the queue without completions (S-5).
    pub(crate) fn reset(&mut self, ctx: &mut Context<'_>) {
        self.queue.clear();
        *self = Requester { queue: std::mem::take(&mut self.queue), ..Requester::new(&ctx.shared.profile) };
        self.abandon(ctx);
    }

    fn abandon(&mut self, ctx: &mut Context<'_>) {
        self.unacked = self.high;
        self.reads_outstanding = 0;
        self.rnr_waiting = false;
        self.lost_at = None;
        self.rewind();
        ctx.clear_deadline();
    }

    fn finish_oldest(&mut self, ctx: &mut Context<'_>, status: WcStatus, vendor_err: u32) -> bool {
        let Some(wqe) = self.queue.pop() else { return false };
        let done = WorkDone { vendor_err, ..WorkDone::new(wqe.wr.wr_id, status, wc_opcode(&wqe.wr.op)) };
        ctx.complete_send(done, self.silent + 1);
        self.silent = 0;
        true
    }
}

//! The end of a send queue: one WQE fails, the others are flushed.

use super::Requester;
use crate::context::Context;
use crate::fault::RequesterFault;

impl Requester {
    /// The oldest WQE fails.
    pub(crate) fn fail_oldest(&mut self, ctx: &mut Context<'_>, fault: RequesterFault) {
        self.queue.fail_oldest(ctx, fault.status(), fault.code());
    }

    /// Flushes what is left, and forgets what was under way.
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        self.queue.flush(ctx);
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
}

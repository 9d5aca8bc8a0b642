//! Loss and its repair: timeouts, sequence NAKs, implied NAKs, RNR NAKs, and going back.

use super::Requester;
use crate::context::Context;
use crate::counters::Counter;
use crate::fault::{Loss, RequesterFault};
use ferroce_wire::rnr_timer_ns;

impl Requester {
    /// The QP's deadline has come: the local ACK timeout, the end of an RNR wait, or that of a long rest.
    ///
    /// # Errors
    /// The retries are used up; the QP is to go to the error state.
    pub(crate) fn handle_deadline(&mut self, ctx: &mut Context<'_>) -> Result<(), RequesterFault> {
        if self.rnr_waiting {
            self.rnr_waiting = false;
            return Ok(());
        }
        if !self.is_waiting() {
            self.queue.shrink();
            return Ok(());
        }
        ctx.count(Counter::LocalAckTimeoutErr);
        self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
        self.retry(ctx, Loss::Timeout)?;
        // What comes back from the repetition is news again.
        self.lost_at = None;
        Ok(())
    }

    /// The responder misses `unacked`.
    pub(super) fn handle_sequence_nak(&mut self, ctx: &mut Context<'_>) -> Result<(), RequesterFault> {
        ctx.count(Counter::PacketSeqErr);
        // While an RNR wait lasts the same packet is waited for (rxe sends both NAKs).
        if self.rnr_waiting {
            return Ok(());
        }
        self.retry_once(ctx, Loss::SequenceNak)
    }

    /// A response to something later than `unacked` came, so the response to `unacked` was lost.
    ///
    /// For a READ this asks for the rest at once, as ConnectX does, and does not wait for the timeout as rxe does.
    pub(super) fn handle_implied_nak(&mut self, ctx: &mut Context<'_>) -> Result<(), RequesterFault> {
        // It is about to be asked again anyway; this is an answer to the first asking.
        if !self.unacked.is_before(self.next) {
            return Ok(());
        }
        if self.lost_at != Some(self.unacked) {
            ctx.count(Counter::ImpliedNakSeqErr);
        }
        self.retry_once(ctx, Loss::ImpliedNak)
    }

    /// The responder had no receive WQE for `unacked`.
    pub(super) fn handle_rnr_nak(&mut self, ctx: &mut Context<'_>, timer: u8) -> Result<(), RequesterFault> {
        if self.rnr_waiting {
            return Ok(());
        }
        ctx.count(Counter::RnrNakRetryErr);
        if ctx.attr.rnr_retry != RNR_RETRY_FOREVER {
            if self.rnr_retries_left == 0 {
                ctx.count(Counter::ReqRnrRetriesExceeded);
                // On RC every error completion takes the QP to the error state (IBTA 10.7.2.2); ConnectX was seen
                // to leave it in RTS here, which nothing in the specification allows.
                return Err(RequesterFault::RnrRetriesExceeded {
                    psn: self.unacked,
                    rnr_retry: ctx.attr.rnr_retry,
                });
            }
            self.rnr_retries_left -= 1;
        }
        ctx.count(Counter::CompleterRetryErr);
        self.recover_to = self.high;
        self.go_back(ctx);
        self.rnr_waiting = true;
        ctx.set_deadline(ctx.now.saturating_add(rnr_timer_ns(timer)));
        Ok(())
    }

    /// Retries, unless that was done for the same loss already.
    fn retry_once(&mut self, ctx: &mut Context<'_>, loss: Loss) -> Result<(), RequesterFault> {
        if self.lost_at == Some(self.unacked) {
            return Ok(());
        }
        self.retry(ctx, loss)?;
        self.lost_at = Some(self.unacked);
        Ok(())
    }

    fn retry(&mut self, ctx: &mut Context<'_>, cause: Loss) -> Result<(), RequesterFault> {
        self.take_retry(ctx, cause)?;
        self.note_loss(ctx);
        if cause == Loss::Timeout && self.repair.is_some() && self.next == self.high {
            self.repair_all();
            ctx.clear_deadline();
        } else {
            self.go_back(ctx);
        }
        Ok(())
    }

    /// Something was lost.
    pub(super) fn note_loss(&mut self, ctx: &mut Context<'_>) {
        ctx.count(Counter::CompleterRetryErr);
        // The window shrinks once for all that was under way together.
        if !self.unacked.is_before(self.recover_to) {
            self.window.halve();
        }
        self.recover_to = self.high;
    }

    fn take_retry(&mut self, ctx: &mut Context<'_>, cause: Loss) -> Result<(), RequesterFault> {
        if self.retries_left == 0 {
            ctx.count(Counter::ReqTransportRetriesExceeded);
            return Err(RequesterFault::RetriesExceeded {
                psn: self.unacked,
                retry_cnt: ctx.attr.retry_cnt,
                cause,
            });
        }
        self.retries_left -= 1;
        Ok(())
    }

    /// Begins again with the oldest unanswered packet. The timer starts with the first packet sent.
    fn go_back(&mut self, ctx: &mut Context<'_>) {
        self.rewind();
        ctx.clear_deadline();
    }

    /// The next packet is the one with the PSN `unacked`.
    pub(super) fn rewind(&mut self) {
        self.next = self.unacked;
        self.cursor = self.queue.head();
        self.in_flight = 0;
        self.since_ack_req = 0;
        self.stalled = None;
        if let Some(repair) = &mut self.repair {
            repair.clear(self.unacked);
        }
    }
}

/// An `rnr_retry` that never runs out. (A `retry_cnt` of 7 is just seven.)
const RNR_RETRY_FOREVER: u8 = 7;

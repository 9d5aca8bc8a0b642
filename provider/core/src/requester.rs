//! The requester: turns send WQEs into request packets, and responses into completions.
//!
//! Three PSNs describe what is under way, in this order around the circle:
//! `unacked`, the oldest PSN that has not been answered; `next`, the PSN to be sent next; `high`, the PSN after
//! the highest ever sent. In the steady state `next` and `high` are one; after a loss the requester *goes back*:
//! `next` becomes `unacked`, and everything up to `high` is sent again.
//!
//! The oldest WQE in the queue is always the one that holds `unacked`, so going back means to begin again there,
//! in the middle of a READ if need be.

mod ack_timeout;
mod asking;
mod flush;
mod packets;
mod repair;
mod responses;
mod retry;
mod window;

use crate::context::Context;
use crate::fault::RequesterFault;
use crate::send_queue::SendQueue;
use crate::{Profile, QpAttr, QpState, RequesterSnapshot, SendWr};
use ack_timeout::ack_timeout_ns;
use ferroce_wire::Psn;
use repair::Repair;
use window::Window;

/// One QP's sending half.
#[derive(Debug)]
pub(crate) struct Requester {
    queue: SendQueue,
    /// The WQE whose packet is sent next, by its number.
    cursor: u64,
    unacked: Psn,
    next: Psn,
    high: Psn,
    /// READs and others with responses of their own that were begun and are not complete.
    reads_outstanding: u32,
    /// SEND and WRITE packets between `unacked` and `next`.
    in_flight: u32,
    /// Request packets sent since the last one with AckReq.
    since_ack_req: u32,
    window: Window,
    retries_left: u8,
    rnr_retries_left: u8,
    /// Timeouts since the last forward progress.
    timeouts_in_a_row: u8,
    /// The PSN at which a loss was last acted on; more news of the same loss changes nothing.
    lost_at: Option<Psn>,
    /// What was under way when the requester last went back ends here.
    recover_to: Psn,
    /// The QP's deadline is the end of an RNR wait, during which no request is sent.
    rnr_waiting: bool,
    /// Why the WQE at the cursor cannot go on. It fails when those before it are complete.
    stalled: Option<RequesterFault>,
    /// What is known behind a gap, if both ends repeat selectively.
    repair: Option<Box<Repair>>,
}

impl Requester {
    pub(crate) fn new(profile: &Profile) -> Self {
        Requester {
            queue: SendQueue::default(),
            cursor: 0,
            unacked: Psn::default(),
            next: Psn::default(),
            high: Psn::default(),
            reads_outstanding: 0,
            in_flight: 0,
            since_ack_req: 0,
            window: Window::new(profile),
            retries_left: 0,
            rnr_retries_left: 0,
            timeouts_in_a_row: 0,
            lost_at: None,
            recover_to: Psn::default(),
            rnr_waiting: false,
            stalled: None,
            repair: None,
        }
    }

    /// RTR→RTS: requests may be sent, from `sq_psn` on.
    pub(crate) fn start(&mut self, attr: &QpAttr) {
        self.unacked = attr.sq_psn;
        self.next = attr.sq_psn;
        self.high = attr.sq_psn;
        self.recover_to = attr.sq_psn;
        if let Some(repair) = &mut self.repair {
            repair.clear(attr.sq_psn);
        }
        self.restore_retries(attr);
    }

    /// Takes a send WR. In the error state the caller flushes next.
    pub(crate) fn post(&mut self, wr: SendWr) {
        self.queue.push(wr);
    }

    /// Forward progress gives the retries back.
    pub(crate) fn restore_retries(&mut self, attr: &QpAttr) {
        self.retries_left = attr.retry_cnt;
        self.rnr_retries_left = attr.rnr_retry;
        self.timeouts_in_a_row = 0;
    }

    /// Whether a turn might send something. It may say yes without need, but never no.
    pub(crate) fn may_send(&self, state: QpState) -> bool {
        let allowed = matches!(state, QpState::Rts | QpState::Sqd);
        allowed && !self.rnr_waiting && (self.may_go_on() || self.has_lost())
    }

    /// Whether the packet at `next` might be sent.
    fn may_go_on(&self) -> bool {
        self.stalled.is_none() && self.cursor < self.queue.tail()
    }

    /// Whether a packet is to be repeated selectively.
    fn has_lost(&self) -> bool {
        self.repair.as_ref().is_some_and(|repair| repair.has_lost())
    }

    /// SEND and WRITE packets that may be on their way: those in flight, less those that are known to have arrived.
    fn on_their_way(&self) -> u32 {
        self.in_flight.saturating_sub(self.repair.as_ref().map_or(0, |repair| repair.held_count()))
    }

    /// Whether every WQE that was begun is complete.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.head() == self.queue.begun()
    }

    pub(crate) fn snapshot(&self) -> RequesterSnapshot {
        RequesterSnapshot {
            unacked: self.unacked,
            next: self.next,
            high: self.high,
            wqes: self.queue.len(),
            begun: (self.queue.begun() - self.queue.head()) as usize,
            reads_outstanding: self.reads_outstanding,
            in_flight: self.on_their_way(),
            window: self.window.size(),
            rnr_waiting: self.rnr_waiting,
        }
    }

    /// The number of the WR that has `psn` among its PSNs.
    pub(crate) fn wr_at(&self, psn: Psn) -> Option<u64> {
        self.queue.holder(psn).map(|wqe| wqe.wr.wr_id)
    }

    /// Whether something was sent, since the requester last went back, and not answered.
    fn is_waiting(&self) -> bool {
        self.unacked.is_before(self.next)
    }

    /// Starts the local ACK timeout anew, or ends it if nothing is outstanding.
    fn restart_timer(&self, ctx: &mut Context<'_>) {
        if self.is_waiting() {
            match ack_timeout_ns(ctx.attr.timeout, self.timeouts_in_a_row) {
                Some(timeout) => ctx.set_deadline(ctx.now.saturating_add(timeout)),
                None => ctx.clear_deadline(),
            }
        } else {
            self.queue.rest(ctx);
        }
    }
}

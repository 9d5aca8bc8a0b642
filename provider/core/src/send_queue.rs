//! The send queue: WQEs from posting to completion.
//!
//! ```text
//!    oldest                                                     newest
//!    | begun: have PSNs, packets sent or being sent | not begun yet |
//!    ^ head                                         ^ begun         ^ tail
//! ```
//! WQEs are named by a sequence number that counts from the QP's first; indices into the queue never leave
//! this file.

use crate::context::{Context, WorkDone};
use crate::counters::Counter;
use crate::gather::total_length;
use crate::{Nanos, Payload, SendFlags, SendOp, SendWr, WcOpcode, WcStatus};
use ferroce_wire::Psn;
use std::collections::VecDeque;

/// A send WR in the queue.
#[derive(Debug)]
pub(crate) struct Wqe {
    pub(crate) wr: SendWr,
    /// Bytes of the message; an impossible list may exceed what any message can have.
    pub(crate) length: u64,
    /// PSN of its first packet, once begun.
    pub(crate) first_psn: Psn,
    /// PSNs it takes, once begun: one for each packet, for a READ one for each response.
    pub(crate) psns: u32,
    /// A packet of it was sent more than once, so a READ response may begin anew in the middle (Q-10).
    pub(crate) repeated: bool,
}

impl Wqe {
    fn new(wr: SendWr) -> Self {
        let length = match &wr.payload {
            Payload::Sges(sges) => total_length(sges),
            Payload::Inline(bytes) => bytes.len() as u64,
        };
        Wqe { wr, length, first_psn: Psn::default(), psns: 0, repeated: false }
    }

    /// The PSN after its last.
    pub(crate) fn end_psn(&self) -> Psn {
        self.first_psn.plus(self.psns)
    }

    /// Whether `psn` is one of its PSNs.
    pub(crate) fn holds(&self, psn: Psn) -> bool {
        !psn.is_before(self.first_psn) && psn.is_before(self.end_psn())
    }

    /// Whether it is completed by its own response, and not by an acknowledgement.
    pub(crate) fn has_response(&self) -> bool {
        self.is_read() || self.is_atomic() || self.is_placement()
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.wr.op, SendOp::Read { .. })
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.wr.op, SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
    }

    /// Whether it is one of the memory placement extensions, which are answered like a READ of no bytes (W-53, W-54).
    pub(crate) fn is_placement(&self) -> bool {
        self.is_flush() || matches!(self.wr.op, SendOp::AtomicWrite { .. })
    }

    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.wr.op, SendOp::Flush { .. })
    }

    /// Whether its success makes a completion.
    pub(crate) fn is_signaled(&self, ctx: &Context<'_>) -> bool {
        ctx.init.sq_sig_all || self.wr.flags.contains(SendFlags::SIGNALED)
    }
}

/// The WQEs, oldest first.
#[derive(Default, Debug)]
pub(crate) struct SendQueue {
    wqes: VecDeque<Wqe>,
    head: u64,
    begun: u64,
    /// WQEs that completed without a completion since the last one that had one.
    silent: u32,
}

impl SendQueue {
    pub(crate) fn push(&mut self, wr: SendWr) {
        self.wqes.push_back(Wqe::new(wr));
    }

    /// The oldest WQE is done: takes it off, with a completion if it asked for one.
    pub(crate) fn complete_oldest(&mut self, ctx: &mut Context<'_>) -> Option<Wqe> {
        let wqe = self.pop()?;
        if matches!(wqe.wr.op, SendOp::Send | SendOp::SendImm { .. } | SendOp::SendInv { .. }) {
            ctx.count(Counter::RdmaSends);
        }
        if !wqe.is_signaled(ctx) {
            self.silent += 1;
            return Some(wqe);
        }
        let brings = wqe.is_read() || wqe.is_atomic();
        let byte_len = if brings { wqe.length as u32 } else { 0 };
        self.finish(ctx, WorkDone { byte_len, ..done(&wqe, WcStatus::Success) });
        Some(wqe)
    }

    /// The oldest WQE ends with an error, which makes a completion whether it asked for one or not (Q-20). `false` if
    /// there is none.
    pub(crate) fn fail_oldest(&mut self, ctx: &mut Context<'_>, status: WcStatus, vendor_err: u32) -> bool {
        let Some(wqe) = self.pop() else { return false };
        self.finish(ctx, WorkDone { vendor_err, ..done(&wqe, status) });
        true
    }

    /// Flushes what is left, in the order of posting (Q-27).
    pub(crate) fn flush(&mut self, ctx: &mut Context<'_>) {
        // Each round takes a WQE off the queue.
        while self.fail_oldest(ctx, WcStatus::WrFlushErr, 0) {}
    }

    fn finish(&mut self, ctx: &mut Context<'_>, done: WorkDone) {
        ctx.complete_send(done, self.silent + 1);
        self.silent = 0;
    }

    fn pop(&mut self) -> Option<Wqe> {
        let wqe = self.wqes.pop_front()?;
        self.head += 1;
        self.begun = self.begun.max(self.head);
        Some(wqe)
    }

    /// Plans to give memory back once the queue has been empty for long, or clears the QP's deadline.
    pub(crate) fn rest(&self, ctx: &mut Context<'_>) {
        if self.is_oversized() {
            // Memory of a burst is given back, but not between the bursts of a busy QP.
            ctx.set_deadline(ctx.now.saturating_add(SHRINK_AFTER_NS));
        } else {
            ctx.clear_deadline();
        }
    }

    /// Whether it is empty and keeps more memory than it should for long.
    fn is_oversized(&self) -> bool {
        self.wqes.is_empty() && self.wqes.capacity() > IDLE_WQES
    }

    /// Gives memory back, if the queue is empty.
    pub(crate) fn shrink(&mut self) {
        if self.is_oversized() {
            self.wqes.shrink_to(IDLE_WQES);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = SendQueue { head: self.head, begun: self.head, ..SendQueue::default() };
    }

    /// The next WQE to begin now has its PSNs.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.begun < self.tail());
        self.begun += 1;
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Wqe> {
        self.wqes.get(sequence.checked_sub(self.head)? as usize)
    }

    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut Wqe> {
        self.wqes.get_mut(sequence.checked_sub(self.head)? as usize)
    }

    /// The oldest WQE, if it has been begun.
    pub(crate) fn oldest_begun(&self) -> Option<&Wqe> {
        if self.head < self.begun { self.wqes.front() } else { None }
    }

    /// The WQE that has been begun with `psn` among its PSNs.
    pub(crate) fn holder(&self, psn: Psn) -> Option<&Wqe> {
        self.wqes.iter().take((self.begun - self.head) as usize).find(|wqe| wqe.holds(psn))
    }

    /// The same, to change it.
    pub(crate) fn holder_mut(&mut self, psn: Psn) -> Option<&mut Wqe> {
        self.wqes.iter_mut().take((self.begun - self.head) as usize).find(|wqe| wqe.holds(psn))
    }

    /// WQEs in it.
    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    /// Number of the oldest WQE.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Number of the first WQE that has not been begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Number of the next WQE to be posted.
    pub(crate) fn tail(&self) -> u64 {
        self.head + self.wqes.len() as u64
    }
}

fn done(wqe: &Wqe, status: WcStatus) -> WorkDone {
    WorkDone::new(wqe.wr.wr_id, status, wc_opcode(&wqe.wr.op))
}

/// What a send operation's completion is called.
fn wc_opcode(op: &SendOp) -> WcOpcode {
    match op {
        SendOp::Send | SendOp::SendImm { .. } | SendOp::SendInv { .. } => WcOpcode::Send,
        SendOp::Write { .. } | SendOp::WriteImm { .. } => WcOpcode::RdmaWrite,
        SendOp::Read { .. } => WcOpcode::RdmaRead,
        SendOp::CompareSwap { .. } => WcOpcode::CompSwap,
        SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
        SendOp::Flush { .. } => WcOpcode::Flush,
        SendOp::AtomicWrite { .. } => WcOpcode::AtomicWrite,
        SendOp::LocalInv { .. } => WcOpcode::LocalInv,
        SendOp::BindMw { .. } => WcOpcode::BindMw,
    }
}

/// How long an empty queue keeps the memory of its busy times.
const SHRINK_AFTER_NS: Nanos = 1_000_000_000;

/// WQEs that an idle queue may keep room for.
const IDLE_WQES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remote;

    fn wr(wr_id: u64) -> SendWr {
        let payload = Payload::Inline(Default::default());
        SendWr { wr_id, op: SendOp::Send, flags: SendFlags::empty(), payload, remote: Remote::Peer }
    }

    #[test]
    fn numbers_stay_while_the_queue_moves() {
        let mut queue = SendQueue::default();
        for wr_id in 0..5 {
            queue.push(wr(wr_id));
        }
        assert!(queue.oldest_begun().is_none());
        queue.begin();
        queue.begin();
        assert_eq!(queue.pop().map(|wqe| wqe.wr.wr_id), Some(0));
        assert_eq!((queue.head(), queue.begun(), queue.tail()), (1, 2, 5));
        assert_eq!(queue.get(3).map(|wqe| wqe.wr.wr_id), Some(3));
        assert!(queue.get(0).is_none() && queue.get(5).is_none());
        queue.clear();
        assert_eq!((queue.head(), queue.begun(), queue.tail()), (1, 1, 1));
    }

    #[test]
    fn an_empty_queue_gives_its_memory_back_when_told() {
        let mut queue = SendQueue::default();
        for wr_id in 0..1000 {
            queue.push(wr(wr_id));
        }
        assert!(!queue.is_oversized());
        while queue.pop().is_some() {}
        assert!(queue.is_oversized());
        queue.shrink();
        assert!(!queue.is_oversized());
        assert_eq!(queue.tail(), 1000);
    }
}

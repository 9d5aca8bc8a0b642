//! Selective repeat: only what was lost is sent again.
//!
//! The responder keeps what arrives behind a gap and says so in a bitmap ([`crate::sack`]). A packet is taken for lost once
//! the responder holds one that was sent some packets later; one that was sent again is taken for lost again by the same
//! reasoning. What neither finds, the local ACK timeout does. READ responses go back N as ever, and so does an RNR wait.

use super::Requester;
use crate::context::{Context, Sent};
use crate::counters::Counter;
use crate::fault::RequesterFault;
use crate::request::Shape;
use crate::sack::{SPAN, places};
use crate::{Memory, TransmitSink};
use ferroce_wire::Psn;
use std::collections::VecDeque;

/// What is known about the packets behind `unacked`.
#[derive(Default, Debug)]
pub(super) struct Repair {
    /// The PSN that `held` begins with: `unacked`.
    base: Psn,
    /// Whether the responder has the packet; the last one is one that it has.
    held: VecDeque<bool>,
    held_count: u32,
    /// Before this PSN each packet is held, or was taken for lost once.
    judged: Psn,
    /// To be sent again, in this order.
    lost: VecDeque<Psn>,
    /// Sent again and not heard of, each with the PSN that was to be sent next then.
    resent: VecDeque<(Psn, Psn)>,
}

impl Repair {
    /// Nothing is known about the packets from `unacked` on.
    pub(super) fn clear(&mut self, unacked: Psn) {
        *self = Repair { base: unacked, judged: unacked, ..Repair::default() };
    }

    /// Everything before `unacked` is acknowledged.
    pub(super) fn forget_before(&mut self, unacked: Psn) {
        let passed = unacked.distance_from(self.base);
        if passed <= 0 {
            return;
        }
        let known = self.held.len().min(passed as usize);
        self.held_count -= self.held.drain(..known).filter(|held| *held).count() as u32;
        self.base = unacked;
        if self.judged.is_before(unacked) {
            self.judged = unacked;
        }
        self.lost.retain(|psn| !psn.is_before(unacked));
        self.resent.retain(|(psn, _)| !psn.is_before(unacked));
    }

    /// Packets behind `unacked` that have arrived.
    pub(super) fn held_count(&self) -> u32 {
        self.held_count
    }

    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    fn is_held(&self, psn: Psn) -> bool {
        usize::try_from(psn.distance_from(self.base)).is_ok_and(|place| self.held.get(place) == Some(&true))
    }

    /// The PSN after the last one that is held.
    fn end(&self) -> Psn {
        self.base.plus(self.held.len() as u32)
    }

    /// The responder has not the first one, whatever it said: it may have kept it, found no receive WQE when its turn came,
    /// and said so in a NAK that was lost.
    fn miss_first(&mut self) {
        if let Some(held) = self.held.front_mut() {
            self.held_count -= u32::from(std::mem::take(held));
        }
    }

    /// Takes in what the responder has of the packets before `next`.
    fn learn(&mut self, bitmap: &[u8], next: Psn) {
        let sent = next.distance_from(self.base).max(0) as usize;
        for place in places(bitmap).take_while(|place| *place < sent) {
            if self.held.len() <= place {
                self.held.resize(place + 1, false);
            }
            self.held_count += u32::from(!self.held[place]);
            self.held[place] = true;
        }
        let Repair { base, held, lost, .. } = self;
        let is_held = |psn: &Psn| held.get(psn.distance_from(*base).max(0) as usize) == Some(&true);
        lost.retain(|psn| !is_held(psn));
    }

    /// Moves those that were lost when they were sent again back to the lost ones.
    ///
    /// A packet is, if one that was sent again after it has arrived, or one that was first sent `patience` packets later.
    fn find_lost_again(&mut self, patience: u32) {
        let last_arrived = self.resent.iter().rposition(|(psn, _)| self.is_held(*psn));
        let end = self.end();
        let resent = std::mem::take(&mut self.resent);
        for (place, (psn, next)) in resent.into_iter().enumerate() {
            if self.is_held(psn) {
                continue;
            }
            let overtaken = last_arrived.is_some_and(|last| place < last);
            if overtaken || next.plus(patience).is_before(end) {
                self.lost.push_back(psn);
            } else {
                self.resent.push_back((psn, next));
            }
        }
    }
}

impl Requester {
    /// From now on, until the QP is reset, lost requests are repeated selectively.
    pub(crate) fn repeat_selectively(&mut self) {
        self.repair.get_or_insert_default().clear(self.unacked);
    }

    /// The responder misses `unacked`, and has what `bitmap` says behind it.
    pub(super) fn handle_gap_report(
        &mut self,
        ctx: &mut Context<'_>,
        bitmap: &[u8],
    ) -> Result<(), RequesterFault> {
        if self.repair.is_none() || bitmap.is_empty() {
            return self.handle_sequence_nak(ctx);
        }
        ctx.count(Counter::PacketSeqErr);
        // In an RNR wait the same packet is waited for; and what is being gone through anew needs no repair. It may have
        // been sent before the responder got any of that, so it costs no retry.
        if self.rnr_waiting || self.next != self.high {
            return Ok(());
        }
        let patience = if self.cursor < self.queue.tail() { REORDER_PACKETS } else { 0 };
        let Some(repair) = &mut self.repair else { return Ok(()) };
        repair.learn(bitmap, self.next);
        let known = repair.lost.len();
        repair.find_lost_again(patience);
        let until = repair.end().minus(patience);
        self.judge(until);
        // The responder goes on receiving, so this costs no retry; a packet that never arrives stops it, and then the
        // timeout comes.
        if self.repair.as_ref().is_some_and(|repair| repair.lost.len() > known) {
            self.note_loss(ctx);
        }
        Ok(())
    }

    /// Whatever was sent and is not known to have arrived is sent again.
    pub(super) fn repair_all(&mut self) {
        let (unacked, next) = (self.unacked, self.next);
        if let Some(repair) = &mut self.repair {
            repair.miss_first();
            repair.lost.clear();
            repair.resent.clear();
            repair.judged = unacked;
        }
        self.judge(next);
        // All of it has arrived, and the acknowledgement was lost: a duplicate brings it back.
        if let Some(repair) = self.repair.as_mut().filter(|repair| repair.lost.is_empty()) {
            repair.lost.push_back(unacked);
        }
    }

    /// Takes the packets before `until` for lost that are not held, unless they were before.
    fn judge(&mut self, until: Psn) {
        let Some(repair) = &mut self.repair else { return };
        let mut psn = repair.judged;
        // Each round goes on by a packet, of the window's at most.
        while psn.is_before(until) {
            let Some(wqe) = self.queue.holder(psn) else { break };
            // A READ's request has its first PSN. The others are those of responses, but for the first that is missing.
            let is_request = !wqe.is_read() || psn == wqe.first_psn || psn == self.unacked;
            if is_request && !repair.is_held(psn) {
                repair.lost.push_back(psn);
            }
            psn = if wqe.is_read() { wqe.end_psn() } else { psn.plus(1) };
        }
        if repair.judged.is_before(psn) {
            repair.judged = psn;
        }
    }

    /// Sends the next lost packet again, if there is one; `None` if not.
    pub(super) fn send_lost<S: TransmitSink>(
        &mut self,
        ctx: &mut Context<'_>,
        memory: &impl Memory,
        sink: &mut S,
    ) -> Option<Sent> {
        let repair = self.repair.as_mut()?;
        let psn = *repair.lost.front()?;
        if repair.resent.len() >= self.window.size() as usize {
            return Some(Sent::Nothing);
        }
        let wqe = self.queue.holder_mut(psn)?;
        wqe.repeated = true;
        let wqe = &*wqe;
        let shape = Shape::of(wqe, psn, ctx.mtu());
        let header = shape.header(ctx, ctx.attr.dest_qpn, wqe, psn).ack_req(true);
        let fill = |ctx: &Context<'_>, room: &mut [u8]| shape.fill(ctx, wqe, room, memory);
        match ctx.send(sink, &header, shape.payload_len, fill) {
            Ok(Sent::Packet(bytes)) => {
                repair.lost.pop_front();
                repair.resent.push_back((psn, self.next));
                ctx.count(Counter::RetransmittedPackets);
                self.restart_timer(ctx);
                Some(Sent::Packet(bytes))
            }
            Ok(other) => Some(other),
            Err(_) => {
                // The memory is gone. Whoever goes back finds out when the WQE has become the oldest.
                self.rewind();
                None
            }
        }
    }
}

/// Packets that may overtake one before it is taken for lost (RFC 5681 and RFC 9002 have the same).
const REORDER_PACKETS: u32 = 3;

/// Request packets in flight when the responder has to keep what is behind a gap.
pub(super) const MAX_IN_FLIGHT: u32 = SPAN;

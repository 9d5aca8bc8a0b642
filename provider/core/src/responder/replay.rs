//! The responder's memory of requests with answers of their own (READs, atomics, FLUSHes, atomic writes): those being answered, and those that may have to be answered
//! again.
//!
//! Exactly the newest `max_dest_rd_atomic` requests are kept (P-14), in PSN order. A requester that keeps to the
//! limit always finds its duplicates here.

use crate::PdId;
use ferroce_wire::Psn;
use std::collections::VecDeque;

/// A request that was executed, or is being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    pub(super) first_psn: Psn,
    /// PSNs of its responses.
    pub(super) psns: u32,
    pub(super) kind: Kind,
    /// The MSN its answers carry.
    pub(super) msn: u32,
    /// What is still to be sent of the answer.
    pub(super) answer: Option<Span>,
    /// All of it was sent once.
    pub(super) answered: bool,
}

/// What a resource answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A READ of `length` bytes.
    Read { pd: PdId, va: u64, rkey: u32, length: u32 },
    /// A FLUSH or an atomic write.
    Placement { va: u64, rkey: u32, opcode: u8 },
    /// An atomic, with the value that was there before it.
    Atomic { va: u64, rkey: u32, opcode: u8, original: u64 },
}

/// Packets of an answer, counted from the resource's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Where this answer began: there it has a FIRST or ONLY.
    pub(super) start: u32,
    /// The packet to be sent next.
    pub(super) next: u32,
    /// The byte of the READ after the last one asked for.
    pub(super) end_byte: u32,
}

impl Resource {
    /// Whether `psn` is one of its PSNs.
    fn holds(&self, psn: Psn) -> bool {
        !psn.is_before(self.first_psn) && psn.is_before(self.first_psn.plus(self.psns))
    }
}

/// The newest resources, oldest first.
#[derive(Default, Debug)]
pub(super) struct Replay {
    ring: VecDeque<Resource>,
    /// How many of them are being answered.
    answering: usize,
}

impl Replay {
    /// Keeps a new request in the place of the oldest.
    pub(super) fn push(&mut self, resource: Resource, limit: usize) {
        debug_assert!(self.has_room(limit));
        while self.ring.len() >= limit.max(1) {
            let oldest = self.ring.pop_front();
            self.answering -= usize::from(oldest.is_some_and(|oldest| oldest.answer.is_some()));
        }
        self.answering += usize::from(resource.answer.is_some());
        self.ring.push_back(resource);
    }

    /// Whether one more request stays within the limit of `limit` outstanding ones.
    ///
    /// What was answered once is not outstanding: a requester that goes on has the answer, even if a duplicate of the
    /// request, late on its way, has it sent again.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        let surplus = (self.ring.len() + 1).saturating_sub(limit);
        limit > 0 && self.ring.iter().take(surplus).all(|resource| resource.answered)
    }

    /// The resource with `psn` among its PSNs; of two the newer, since the circle may have come round.
    pub(super) fn find(&self, psn: Psn) -> Option<&Resource> {
        self.ring.iter().rev().find(|resource| resource.holds(psn))
    }

    /// Answers the resource of `psn` once more. PSN order holds, whatever else is being answered (P-10).
    pub(super) fn answer_again(&mut self, psn: Psn, answer: Span) {
        if let Some(resource) = self.ring.iter_mut().rev().find(|resource| resource.holds(psn)) {
            self.answering += usize::from(resource.answer.is_none());
            resource.answer = Some(answer);
        }
    }

    /// The oldest resource that is being answered.
    pub(super) fn oldest_answering(&mut self) -> Option<&mut Resource> {
        if self.answering == 0 {
            return None;
        }
        // At most max_dest_rd_atomic steps.
        self.ring.iter_mut().find(|resource| resource.answer.is_some())
    }

    /// The answer of the oldest resource that is being answered is complete.
    pub(super) fn finish_oldest(&mut self) {
        if let Some(resource) = self.oldest_answering() {
            resource.answer = None;
            resource.answered = true;
            self.answering -= 1;
        }
    }

    pub(super) fn is_answering(&self) -> bool {
        self.answering > 0
    }

    /// Nothing is to be answered any more.
    pub(super) fn stop(&mut self) {
        for resource in &mut self.ring {
            resource.answer = None;
        }
        self.answering = 0;
    }

    pub(super) fn clear(&mut self) {
        *self = Replay::default();
    }
}

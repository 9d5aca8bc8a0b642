//! Whose turn it is to send: a fair round robin among the QPs that have something to send.
//!
//! A turn is a burst, because a run of packets of one size on one path leaves as one system call. A QP whose turn
//! the sink cut short goes to the back; one that the sink refused outright keeps its place, and others are tried.

use std::collections::VecDeque;

/// QPs, by index, that may have something to send, each at most once; next turn first.
#[derive(Default, Debug)]
pub(crate) struct Schedule {
    ready: VecDeque<u32>,
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing is left to send.
    Idle,
    /// The burst is used up and there may be more.
    Spent,
    /// The sink refused a packet after it took some.
    CutShort,
    /// The sink refused the first packet.
    Refused,
}

impl Schedule {
    /// Puts a QP at the end. The caller knows that it is not in the schedule.
    pub(crate) fn push(&mut self, index: u32) {
        self.ready.push_back(index);
    }

    /// The QP at `place`.
    pub(crate) fn at(&self, place: usize) -> Option<u32> {
        self.ready.get(place).copied()
    }

    /// Takes the QP at `place` out.
    pub(crate) fn remove(&mut self, place: usize) {
        self.ready.remove(place);
        if self.ready.is_empty() && self.ready.capacity() > IDLE_CAPACITY {
            self.ready.shrink_to(IDLE_CAPACITY);
        }
    }

    /// The QP at `place` goes to the end.
    pub(crate) fn move_to_end(&mut self, place: usize) {
        if let Some(index) = self.ready.remove(place) {
            self.ready.push_back(index);
        }
    }

    /// The first `count` QPs go to the end, in their order.
    pub(crate) fn rotate(&mut self, count: usize) {
        self.ready.rotate_left(count.min(self.ready.len()));
    }

    /// Takes a QP out, wherever it is.
    pub(crate) fn forget(&mut self, index: u32) {
        self.ready.retain(|ready| *ready != index);
    }
}

/// Payload bytes of a burst: fifteen packets of 4096 bytes, which fit one GSO message of 64 KiB with their
/// headers, and as many of 1024 as GSO takes.
pub(crate) const BURST_BYTES: u32 = 60 * 1024;

/// Packets of a burst; Linux takes 64 segments in a GSO message.
pub(crate) const BURST_PACKETS: u32 = 64;

/// QPs tried in one call after the sink has begun to refuse.
pub(crate) const MAX_REFUSALS: usize = 64;

/// Entries that an empty schedule may keep room for.
const IDLE_CAPACITY: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_around_the_one_that_moves() {
        let mut schedule = Schedule::default();
        for index in [5, 6, 7, 8] {
            schedule.push(index);
        }
        schedule.move_to_end(1);
        assert_eq!(schedule.ready, [5, 7, 8, 6]);
        schedule.rotate(2);
        assert_eq!(schedule.ready, [8, 6, 5, 7]);
        schedule.remove(0);
        schedule.forget(5);
        assert_eq!(schedule.ready, [6, 7]);
        assert_eq!(schedule.at(1), Some(7));
        assert_eq!(schedule.at(2), None);
    }
}

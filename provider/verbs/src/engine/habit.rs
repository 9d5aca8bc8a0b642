//! How the engine's thread decides between watching the network and napping beside an application that polls.
//!
//! What tells the two apart is who takes the packets. A nap that ends with packets waiting was a mistake: the
//! application polls memory instead of a CQ, say. Or it was only off the processor for a moment, so the first
//! mistake costs little and each further one in a row doubles it. A watch that wakes for packets which the
//! application has taken already was a mistake, too, and a few of them in a row end it.

use ferroce_core::Nanos;

/// Length of a nap, in nanoseconds: what a deferred acknowledgement waits at most.
pub(super) const NAP_NS: Nanos = 500_000;
/// How long it watches after the first nap that ended with packets waiting, and at most after many in a row.
const WATCH_AFTER_MISTAKE_NS: std::ops::RangeInclusive<Nanos> = 1_000_000..=100_000_000;
/// How long it watches after a CQ was armed: the application is about to block.
const WATCH_AFTER_ARM_NS: Nanos = 10_000_000;
/// An application that polled so long ago, at most, at the end of a nap is polling still: one that polls memory in between
/// has been waiting for most of the nap.
const STILL_POLLING_NS: Nanos = 200_000;
/// An application that has not polled for so long leaves the network to the thread: it waits for an event, or is a
/// passive peer.
const PASSIVE_AFTER_NS: Nanos = 1_000_000;
/// How long the thread looks for the next packet before it sleeps, when the application is passive: about what falling
/// asleep and being woken costs.
const SPIN_NS: Nanos = 20_000;
/// Wakes in vain after which a watch ends.
const WAKES_IN_VAIN: u32 = 4;

/// How the thread decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Habit {
    assists_seen: u64,
    napped: bool,
    watch_until: Nanos,
    /// How long the last mistaken nap made it watch; 0 after a nap that was right.
    watch_for: Nanos,
    /// Wakes in a row for packets that somebody else had taken.
    in_vain: u32,
}

/// What the thread found after its last sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Packets that were waiting for it.
    pub(super) received: usize,
    /// Whether a packet woke it, if it watched.
    pub(super) woken_by_packet: bool,
    /// Rounds that application threads have run so far.
    pub(super) assists: u64,
    /// When a CQ was last armed; 0 for never.
    pub(super) armed_at: Nanos,
}

/// Whether an application that last polled at `assisted_at` is at it still, so that the packets are better left to it.
pub(super) fn is_polling(now: Nanos, assisted_at: Nanos) -> bool {
    assisted_at != 0 && now.saturating_sub(assisted_at) < STILL_POLLING_NS
}

/// Whether to look again for packets before sleeping, as the last came at `received_at` and the application last polled
/// at `assisted_at`. One that polls now and then may need this processor to see what has come.
pub(super) fn spins(now: Nanos, received_at: Nanos, assisted_at: Nanos) -> bool {
    received_at != 0
        && now.saturating_sub(received_at) < SPIN_NS
        && now.saturating_sub(assisted_at) >= PASSIVE_AFTER_NS
}

impl Habit {
    /// Whether the last sleep was a nap.
    pub(super) fn has_napped(&self) -> bool {
        self.napped
    }

    /// Whether to nap now.
    pub(super) fn naps(&mut self, now: Nanos, found: Found) -> bool {
        let polls = found.assists != self.assists_seen;
        self.assists_seen = found.assists;
        if self.napped {
            self.judge_nap(now, found.received);
        } else {
            self.judge_watch(now, found, polls);
        }
        let armed_lately = found.armed_at != 0 && now.saturating_sub(found.armed_at) < WATCH_AFTER_ARM_NS;
        self.napped = polls && !armed_lately && now >= self.watch_until;
        self.napped
    }

    fn judge_nap(&mut self, now: Nanos, received: usize) {
        if received == 0 {
            self.watch_for = 0;
            return;
        }
        let (least, most) = WATCH_AFTER_MISTAKE_NS.into_inner();
        self.watch_for = (self.watch_for * 2).clamp(least, most);
        self.watch_until = now + self.watch_for;
    }

    fn judge_watch(&mut self, now: Nanos, found: Found, polls: bool) {
        if found.received > 0 {
            self.in_vain = 0;
        } else if polls && found.woken_by_packet {
            self.in_vain += 1;
            if self.in_vain >= WAKES_IN_VAIN {
                self.in_vain = 0;
                self.watch_until = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Found = Found { received: 0, woken_by_packet: false, assists: 0, armed_at: 0 };

    /// A nap that ends with packets waiting; how long the watch after it lasts.
    fn mistaken_nap(habit: &mut Habit, now: &mut Nanos, assists: &mut u64) -> Nanos {
        *assists += 1;
        assert!(habit.naps(*now, Found { assists: *assists, ..QUIET }), "the application polls");
        *now += NAP_NS;
        let start = *now;
        let mut received = 1;
        loop {
            *assists += 1;
            if habit.clone().naps(*now, Found { received, assists: *assists, ..QUIET }) {
                return *now - start;
            }
            habit.naps(*now, Found { received, assists: *assists, ..QUIET });
            received = 0;
            *now += 100_000;
        }
    }

    #[test]
    fn it_spins_after_a_packet_for_a_passive_application_only() {
        let now = 10 * PASSIVE_AFTER_NS;
        assert!(spins(now, now - SPIN_NS + 1, now - PASSIVE_AFTER_NS));
        assert!(!spins(now, now - SPIN_NS, now - PASSIVE_AFTER_NS));
        assert!(!spins(now, now - SPIN_NS + 1, now - PASSIVE_AFTER_NS + 1));
        assert!(!spins(SPIN_NS / 2, 0, 0), "nothing has ever come");
    }

    #[test]
    fn nobody_polls_and_it_watches() {
        let mut habit = Habit::default();
        for now in [0, NAP_NS, 10 * NAP_NS] {
            assert!(!habit.naps(now, QUIET));
        }
    }

    #[test]
    fn it_naps_while_the_application_polls() {
        let mut habit = Habit::default();
        for assists in 1..10 {
            assert!(habit.naps(assists * NAP_NS, Found { assists, ..QUIET }));
        }
        assert!(!habit.naps(10 * NAP_NS, Found { assists: 9, ..QUIET }), "it no longer polls");
    }

    #[test]
    fn a_cq_armed_lately_keeps_it_awake() {
        let mut habit = Habit::default();
        let armed_at = 5;
        assert!(!habit.naps(6, Found { assists: 1, armed_at, ..QUIET }));
        assert!(habit.naps(5 + WATCH_AFTER_ARM_NS, Found { assists: 2, armed_at, ..QUIET }));
    }

    #[test]
    fn mistaken_naps_in_a_row_make_it_watch_longer_and_longer() {
        let (mut habit, mut now, mut assists) = (Habit::default(), 0, 0);
        let watches: Vec<_> = (0..9).map(|_| mistaken_nap(&mut habit, &mut now, &mut assists)).collect();
        let milliseconds: Vec<_> = watches.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(milliseconds, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn a_nap_that_was_right_makes_the_next_mistake_cheap() {
        let (mut habit, mut now, mut assists) = (Habit::default(), 0, 0);
        for _ in 0..4 {
            mistaken_nap(&mut habit, &mut now, &mut assists);
        }
        for _ in 0..2 {
            assists += 1;
            assert!(habit.naps(now, Found { assists, ..QUIET }));
            now += NAP_NS;
        }
        assert_eq!(mistaken_nap(&mut habit, &mut now, &mut assists), 1_000_000);
    }

    #[test]
    fn wakes_for_packets_that_the_application_took_end_a_watch() {
        let (mut habit, mut now, mut assists) = (Habit::default(), 0, 0);
        for _ in 0..8 {
            mistaken_nap(&mut habit, &mut now, &mut assists);
        }
        assists += 1;
        habit.naps(now, Found { assists, ..QUIET });
        now += NAP_NS;
        assert!(!habit.naps(now, Found { received: 1, assists, ..QUIET }));
        let naps: Vec<_> = (0..WAKES_IN_VAIN)
            .map(|_| {
                now += 5_000;
                assists += 1;
                habit.naps(now, Found { woken_by_packet: true, assists, ..QUIET })
            })
            .collect();
        assert_eq!(naps, [false, false, false, true]);
    }
}

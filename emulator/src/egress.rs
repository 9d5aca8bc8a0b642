//! The sending side of a port: eight queues, one transmitter, strict priority, pauses, and ECN marks.

use crate::chance::{Chance, PPM};
use crate::frame::{Frame, PRIORITIES};
use ferroce_core::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// ECN marks by the length of the queue a frame joins: none below `kmin_bytes`, every frame from `kmax_bytes` on, in
/// between a chance that rises to `pmax_ppm`. Frames that are not ECN-capable are left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EcnMarking {
    /// Below this queue length nothing is marked.
    pub kmin_bytes: u64,
    /// From this queue length on everything is.
    pub kmax_bytes: u64,
    /// Chance just below `kmax_bytes`, in parts of a million.
    pub pmax_ppm: u32,
}

impl EcnMarking {
    /// The chance of a mark at a queue length, in parts of a million.
    fn chance_ppm(&self, queue_bytes: u64) -> u32 {
        if queue_bytes >= self.kmax_bytes {
            return PPM;
        }
        match queue_bytes.checked_sub(self.kmin_bytes) {
            // kmin is below kmax here.
            Some(over) => {
                (u128::from(over) * u128::from(self.pmax_ppm) / u128::from(self.kmax_bytes - self.kmin_bytes))
                    as u32
            }
            None => 0,
        }
    }
}

/// A frame in a queue, and the port that it came in by.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) frame: Frame,
    pub(crate) from_port: Option<usize>,
}

/// A frame that has begun to leave.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) frame: Frame,
    pub(crate) from_port: Option<usize>,
    /// When its last bit has left.
    pub(crate) ends_at_ps: u64,
}

/// One port's sending side.
#[derive(Debug)]
pub(crate) struct Egress {
    rate_bps: u64,
    /// Bytes that each queue holds.
    limit_bytes: u64,
    ecn: Option<EcnMarking>,
    queues: [VecDeque<Queued>; PRIORITIES],
    bytes: [u64; PRIORITIES],
    /// MAC control frames, which leave before all others and know no pause.
    control: VecDeque<Frame>,
    paused_until: [Nanos; PRIORITIES],
    is_sending: bool,
    free_at_ps: u64,
    stats: EgressStats,
}

/// What a port's sending side has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EgressStats {
    /// Frames sent, pause frames left out.
    pub frames: u64,
    /// Their bytes on the wire: with padding, FCS, preamble and gap.
    pub bytes: u64,
    /// Frames that got the ECN mark here.
    pub marked: u64,
    /// Frames dropped because their queue was full.
    pub dropped: u64,
    /// Pause frames received that stop something.
    pub pauses_received: u64,
    /// Pause frames sent that stop something.
    pub pauses_sent: u64,
    /// Most bytes that a queue held.
    pub longest_queue_bytes: u64,
}

impl Egress {
    pub(crate) fn new(rate_bps: u64, limit_bytes: u64, ecn: Option<EcnMarking>) -> Egress {
        Egress {
            rate_bps: rate_bps.max(1),
            limit_bytes,
            ecn,
            queues: Default::default(),
            bytes: [0; PRIORITIES],
            control: VecDeque::new(),
            paused_until: [0; PRIORITIES],
            is_sending: false,
            free_at_ps: 0,
            stats: EgressStats::default(),
        }
    }

    /// Whether a frame of `wire_len` bytes has room in the queue of `priority`. An empty queue takes any frame.
    pub(crate) fn has_room(&self, priority: usize, wire_len: u64) -> bool {
        self.bytes[priority] == 0 || self.bytes[priority] + wire_len <= self.limit_bytes
    }

    /// Puts a frame into its queue, with a mark if the queue is long. The caller has seen to the room.
    pub(crate) fn push(&mut self, frame: Frame, from_port: Option<usize>, chance: &mut Chance) {
        let priority = frame.priority();
        let marked = match self.ecn {
            Some(ecn) if chance.ppm(ecn.chance_ppm(self.bytes[priority])) => frame.marked(false),
            _ => None,
        };
        self.stats.marked += u64::from(marked.is_some());
        let frame = marked.unwrap_or(frame);
        self.bytes[priority] += frame.wire_len();
        self.stats.longest_queue_bytes = self.stats.longest_queue_bytes.max(self.bytes[priority]);
        self.queues[priority].push_back(Queued { frame, from_port });
    }

    /// A frame found its queue full.
    pub(crate) fn count_drop(&mut self) {
        self.stats.dropped += 1;
    }

    /// Puts a MAC control frame before everything.
    pub(crate) fn push_control(&mut self, frame: Frame, stops: bool) {
        self.stats.pauses_sent += u64::from(stops);
        self.control.push_back(frame);
    }

    /// The neighbour says that `priority` is to stop until `until`.
    pub(crate) fn pause(&mut self, now: Nanos, priority: usize, until: Nanos) {
        self.stats.pauses_received += u64::from(until > now);
        self.paused_until[priority] = until;
    }

    /// Whether `priority` is paused.
    pub(crate) fn is_paused(&self, now: Nanos, priority: usize) -> bool {
        self.paused_until[priority] > now
    }

    /// Begins to send the next frame, if the transmitter is free and something may leave.
    pub(crate) fn start(&mut self, now: Nanos) -> Option<Departure> {
        if self.is_sending {
            return None;
        }
        let queued = self.next(now)?;
        self.is_sending = true;
        // The moment at which the last frame ended lies up to a nanosecond before its event.
        let now_ps = now.saturating_mul(PS_PER_NS);
        let begins_at_ps =
            if now_ps.saturating_sub(self.free_at_ps) < PS_PER_NS { self.free_at_ps } else { now_ps };
        self.free_at_ps = begins_at_ps + transmission_ps(queued.frame.wire_len(), self.rate_bps);
        Some(Departure { frame: queued.frame, from_port: queued.from_port, ends_at_ps: self.free_at_ps })
    }

    fn next(&mut self, now: Nanos) -> Option<Queued> {
        if let Some(frame) = self.control.pop_front() {
            return Some(Queued { frame, from_port: None });
        }
        let priority =
            (0..PRIORITIES).rev().find(|at| !self.queues[*at].is_empty() && !self.is_paused(now, *at))?;
        let queued = self.queues[priority].pop_front()?;
        self.bytes[priority] -= queued.frame.wire_len();
        self.stats.frames += 1;
        self.stats.bytes += queued.frame.wire_len();
        Some(queued)
    }

    /// The frame begun last has left.
    pub(crate) fn finish(&mut self) {
        self.is_sending = false;
    }

    /// Everything that waits goes; the frame that is leaving still leaves.
    pub(crate) fn clear(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.bytes = [0; PRIORITIES];
    }

    /// From the next frame on.
    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = rate_bps.max(1);
    }

    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    pub(crate) fn queue_bytes(&self, priority: usize) -> u64 {
        self.bytes[priority]
    }

    pub(crate) fn stats(&self) -> EgressStats {
        self.stats
    }
}

/// Picoseconds that `bytes` take at `rate_bps`.
pub(crate) fn transmission_ps(bytes: u64, rate_bps: u64) -> u64 {
    (u128::from(bytes) * 8 * PS_PER_SECOND).div_ceil(u128::from(rate_bps)) as u64
}

/// The event's moment for a point of time that lies between two nanoseconds.
pub(crate) fn to_ns(ps: u64) -> Nanos {
    ps.div_ceil(PS_PER_NS)
}

/// Time of transmission is counted finer than events, or a stream of short frames at 400 Gb/s would lose a tenth of
/// its rate to rounding.
const PS_PER_NS: u64 = 1000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// 84 bytes on the wire: the least frame.
    fn frame(priority: u8) -> Frame {
        let mut bytes = vec![0; 60];
        bytes[0] = priority;
        Frame::with_priority(bytes, priority)
    }

    fn egress(rate_bps: u64) -> Egress {
        Egress::new(rate_bps, 1000, None)
    }

    #[test]
    fn transmission_takes_bytes_over_rate() {
        let mut egress = egress(100_000_000_000);
        let mut chance = Chance::new(0);
        for _ in 0..1000 {
            egress.push(frame(0), None, &mut chance);
        }
        let mut now = 0;
        for _ in 0..1000 {
            let departure = egress.start(now).expect("there is one");
            assert!(egress.start(now).is_none(), "one at a time");
            now = to_ns(departure.ends_at_ps);
            egress.finish();
        }
        assert_eq!(now, 6720, "1000 times 84 bytes at 100 Gb/s, without rounding for each");
    }

    #[test]
    fn higher_priorities_go_first_and_pauses_hold_only_their_own() {
        let mut egress = egress(1_000_000_000);
        let mut chance = Chance::new(0);
        for priority in [1, 6, 3] {
            egress.push(frame(priority), None, &mut chance);
        }
        egress.push_control(frame(7), true);
        egress.pause(0, 6, 5_000);
        let mut order = Vec::new();
        let mut now = 0;
        while let Some(departure) = egress.start(now) {
            order.push(departure.frame.bytes()[0]);
            now = to_ns(departure.ends_at_ps);
            egress.finish();
        }
        assert_eq!(order, [7, 3, 1]);
        assert!(egress.start(4_999).is_none());
        assert_eq!(egress.start(5_000).map(|it| it.frame.bytes()[0]), Some(6));
        assert_eq!((egress.stats().frames, egress.stats().bytes, egress.stats().pauses_sent), (3, 252, 1));
    }

    #[test]
    fn room_is_counted_by_queue() {
        let mut egress = egress(1);
        let mut chance = Chance::new(0);
        assert!(egress.has_room(0, 1_000_000), "an empty queue takes anything");
        for _ in 0..11 {
            assert!(egress.has_room(0, 84));
            egress.push(frame(0), None, &mut chance);
        }
        assert!(!egress.has_room(0, 84), "12 of 84 bytes are more than 1000");
        assert!(egress.has_room(1, 84));
        egress.clear();
        assert!(egress.has_room(0, 1000));
    }

    #[test]
    fn marks_follow_the_queue() {
        let ecn = EcnMarking { kmin_bytes: 1000, kmax_bytes: 3000, pmax_ppm: 200_000 };
        let chances = [0, 999, 1000, 2000, 2999, 3000, 9000].map(|bytes| ecn.chance_ppm(bytes));
        assert_eq!(chances, [0, 0, 0, 100_000, 199_900, PPM, PPM]);
        let step = EcnMarking { kmin_bytes: 1000, kmax_bytes: 1000, pmax_ppm: 0 };
        assert_eq!([999, 1000].map(|bytes| step.chance_ppm(bytes)), [0, PPM]);
    }
}

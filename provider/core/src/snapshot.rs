//! What a QP is doing at a moment, for captures, inspectors and tests. Looking changes nothing.

use crate::QpState;
use ferroce_wire::Psn;

/// A QP's inner numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSnapshot {
    /// Its state.
    pub state: QpState,
    /// The rate that congestion control allows it, in bits per second; `None` while nothing holds it back.
    pub rate_bps: Option<u64>,
    /// The sending half, of the services that wait for answers.
    pub requester: Option<RequesterSnapshot>,
    /// The receiving half, of the services that answer.
    pub responder: Option<ResponderSnapshot>,
}

/// The sending half. Around the circle `unacked` ≤ `next` ≤ `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequesterSnapshot {
    /// The oldest PSN that has not been answered.
    pub unacked: Psn,
    /// The PSN that is sent next; before `high` while packets are sent again.
    pub next: Psn,
    /// The PSN after the highest ever sent.
    pub high: Psn,
    /// WQEs in the send queue.
    pub wqes: usize,
    /// Those of them that have PSNs.
    pub begun: usize,
    /// READs and atomics begun and not complete; never more than `max_rd_atomic`.
    pub reads_outstanding: u32,
    /// SEND and WRITE packets between `unacked` and `next`, less those that are known to have arrived; never more than
    /// `window`, but for a QP that repeats selectively while its window has just shrunk.
    pub in_flight: u32,
    /// Most SEND and WRITE packets that may be in flight now.
    pub window: u32,
    /// Whether it waits for the end of an RNR timer.
    pub rnr_waiting: bool,
}

/// The receiving half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponderSnapshot {
    /// The PSN expected next.
    pub expected: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
}

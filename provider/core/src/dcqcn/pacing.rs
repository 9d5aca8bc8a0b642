//! Spacing of packets: when the next one may leave.

use crate::Nanos;

/// The pace of one QP. Each packet is a debt, which is paid off at the rate of the moment; while there is one nothing
/// leaves. A rate that rises shortens the wait of a packet that waits already.
#[derive(Debug)]
pub(super) struct Pacer {
    /// In units of 10⁻⁹ bits, so that rate times nanoseconds is a whole number. Below zero: time that may be made up for.
    debt: i128,
    as_of: Nanos,
}

impl Pacer {
    /// The next packet may leave at once.
    pub(super) fn new(now: Nanos) -> Pacer {
        Pacer { debt: 0, as_of: now }
    }

    /// The rate was `rate_bps` until `now`. Up to `late_ns` of unused time is kept, and what the clock rounds off.
    pub(super) fn pay(&mut self, now: Nanos, rate_bps: u64, late_ns: Nanos) {
        let Some(passed) = now.checked_sub(self.as_of) else { return };
        self.as_of = now;
        let paid = i128::from(rate_bps) * i128::from(passed);
        let kept = i128::from(rate_bps) * (i128::from(late_ns) + 1) - 1;
        self.debt = (self.debt - paid).max(-kept);
    }

    /// A packet of `bytes` has left.
    pub(super) fn owe(&mut self, bytes: u32) {
        self.debt += i128::from(bytes) * 8 * UNITS_PER_BIT;
    }

    /// When the next packet may leave, if the rate stays at `rate_bps`; `None`: at once.
    pub(super) fn ready_at(&self, rate_bps: u64) -> Option<Nanos> {
        let debt = u128::try_from(self.debt).ok().filter(|debt| *debt > 0)?;
        let wait = debt.div_ceil(u128::from(rate_bps.max(1)));
        Some(self.as_of.saturating_add(wait.try_into().unwrap_or(Nanos::MAX)))
    }
}

const UNITS_PER_BIT: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_carried_along() {
        let mut pacer = Pacer::new(7);
        assert_eq!(pacer.ready_at(1), None);
        // 1000 bytes at 3 Gb/s take 2666.67 ns.
        for at in [7 + 2_667, 7 + 5_334, 7 + 8_000] {
            pacer.owe(1000);
            assert_eq!(pacer.ready_at(3_000_000_000), Some(at));
            pacer.pay(at, 3_000_000_000, 0);
            assert_eq!(pacer.ready_at(3_000_000_000), None);
        }
    }

    #[test]
    fn time_that_was_not_used_is_lost_but_for_a_little() {
        let next = |late_ns| {
            let mut pacer = Pacer::new(0);
            pacer.pay(10_000, 8_000_000_000, late_ns);
            pacer.owe(1000);
            pacer.ready_at(8_000_000_000)
        };
        assert_eq!(next(0), Some(11_000));
        assert_eq!(next(600), Some(10_400));
        assert_eq!(next(1_000_000), None);
    }

    #[test]
    fn a_higher_rate_shortens_a_wait() {
        let mut pacer = Pacer::new(0);
        pacer.owe(1000);
        assert_eq!(pacer.ready_at(1_000_000), Some(8_000_000));
        pacer.pay(4_000_000, 1_000_000, 0);
        assert_eq!(pacer.ready_at(8_000_000_000), Some(4_000_500));
    }
}

//! The reaction point: the rate of a QP that CNPs have come for.
//!
//! Alpha is a moving average of how often CNPs come. A CNP makes the rate fall by half of alpha. In
//! the time without CNPs it rises in steps, one for each stretch of time and one for each amount of bytes: first half of
//! the way back to the *target*, the rate before the cut; then the target rises, too, a little with each step; then more.
//! The state lives from the first CNP until the rate is the line's again.

use super::pacing::Pacer;
use crate::{Dcqcn, Nanos};

/// The reaction point of one QP that has been slowed down.
#[derive(Debug)]
pub(crate) struct ReactionPoint {
    rate_bps: u64,
    target_bps: u64,
    /// In parts of 1024 · 2^20: with ten bits alone, what is rounded off in each period would outweigh rare CNPs.
    alpha: u64,
    /// A CNP has come in alpha's period under way, which ends at `alpha_at`.
    notified: bool,
    alpha_at: Nanos,
    /// The rate is not cut again before.
    cut_again_at: Nanos,
    /// Steps by time and by bytes since the last CNP, when the next one by time is, and how far it is to the next by bytes.
    time_steps: u32,
    byte_steps: u32,
    time_step_at: Nanos,
    bytes_left: u32,
    pacer: Pacer,
}

impl ReactionPoint {
    /// The first CNP has come.
    pub(crate) fn new(now: Nanos, settings: &Dcqcn) -> ReactionPoint {
        let mut point = ReactionPoint {
            rate_bps: settings.line_rate_bps,
            target_bps: settings.line_rate_bps,
            alpha: scaled(settings.initial_alpha),
            notified: true,
            alpha_at: now.saturating_add(settings.dce_tcp_rtt_ns),
            cut_again_at: now,
            time_steps: 0,
            byte_steps: 0,
            time_step_at: now,
            bytes_left: 0,
            pacer: Pacer::new(now),
        };
        match settings.rate_to_set_on_first_cnp_bps {
            Some(rate_bps) => {
                point.rate_bps = rate_bps.clamp(settings.rpg_min_rate_bps, settings.line_rate_bps);
                point.target_bps = point.rate_bps;
                point.begin_again(now, settings);
            }
            None => point.cut(now, settings),
        }
        point
    }

    /// One more CNP has come.
    pub(crate) fn handle_cnp(&mut self, now: Nanos, settings: &Dcqcn) {
        self.advance(now, settings);
        self.notified = true;
        if now >= self.cut_again_at {
            self.cut(now, settings);
        }
    }

    /// A packet of `bytes` has left.
    pub(crate) fn note_sent(&mut self, now: Nanos, bytes: u32, settings: &Dcqcn) {
        self.advance(now, settings);
        self.pacer.owe(bytes);
        if bytes < self.bytes_left {
            self.bytes_left -= bytes;
            return;
        }
        // A packet is shorter than the usual amount, so at most one step follows.
        self.bytes_left = settings.rpg_byte_reset.max(1);
        self.byte_steps = self.byte_steps.saturating_add(1);
        self.rise(settings);
    }

    /// When to ask again whether the next packet may leave; `None`: it may.
    pub(crate) fn held_until(&mut self, now: Nanos, settings: &Dcqcn) -> Option<Nanos> {
        self.advance(now, settings);
        // The rate rises before that, maybe.
        Some(self.pacer.ready_at(self.rate_bps)?.min(self.time_step_at))
    }

    /// The present rate in bits per second.
    pub(crate) fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Whether the rate is the line's again, so that there is nothing left to hold back.
    pub(crate) fn is_over(&self, settings: &Dcqcn) -> bool {
        self.rate_bps >= settings.line_rate_bps
    }

    fn cut(&mut self, now: Nanos, settings: &Dcqcn) {
        let has_risen =
            self.byte_steps > 0 || (settings.clamp_tgt_rate_after_time_inc && self.time_steps > 0);
        if settings.clamp_tgt_rate || has_risen {
            self.target_bps = self.rate_bps;
        }
        let shift = FRACTION_BITS + settings.rpg_gd.min(MAX_GD);
        let lost = (u128::from(self.rate_bps) * u128::from(self.alpha)) >> shift;
        let least = u128::from(self.rate_bps) * u128::from(settings.rpg_min_dec_fac.min(100)) / 100;
        // What is left of a rate is no more than that.
        let left = u128::from(self.rate_bps).saturating_sub(lost).max(least) as u64;
        self.rate_bps = left.max(settings.rpg_min_rate_bps.min(self.rate_bps));
        self.begin_again(now, settings);
    }

    /// The steps count from this CNP on.
    fn begin_again(&mut self, now: Nanos, settings: &Dcqcn) {
        self.cut_again_at = now.saturating_add(settings.rate_reduce_monitor_period_ns);
        self.time_steps = 0;
        self.byte_steps = 0;
        self.time_step_at = now.saturating_add(settings.rpg_time_reset_ns);
        self.bytes_left = settings.rpg_byte_reset.max(1);
    }

    /// Does what time has brought about since it was last asked.
    fn advance(&mut self, now: Nanos, settings: &Dcqcn) {
        self.advance_alpha(now, settings);
        let period = settings.rpg_time_reset_ns.max(1);
        for _ in 0..MAX_STEPS_APART {
            if now < self.time_step_at {
                break;
            }
            self.pacer.pay(self.time_step_at, self.rate_bps, settings.late_ns);
            self.time_steps = self.time_steps.saturating_add(1);
            self.time_step_at = self.time_step_at.saturating_add(period);
            self.rise(settings);
        }
        self.pacer.pay(now, self.rate_bps, settings.late_ns);
        // A QP that was silent for long: from now on the rate keeps its distance from the target.
        if let Some(late) = now.checked_sub(self.time_step_at) {
            let steps = late / period + 1;
            self.time_step_at = self.time_step_at.saturating_add(steps.saturating_mul(period));
            self.time_steps = self.time_steps.saturating_add(steps.try_into().unwrap_or(u32::MAX));
            let rise = self.step_bps(settings).saturating_mul(steps);
            self.target_bps = self.target_bps.saturating_add(rise).min(settings.line_rate_bps);
            self.rate_bps = self.rate_bps.saturating_add(rise).min(self.target_bps);
        }
    }

    fn advance_alpha(&mut self, now: Nanos, settings: &Dcqcn) {
        let period = settings.dce_tcp_rtt_ns.max(1);
        let g = u64::from(settings.dce_tcp_g.min(ONE - 1));
        // Without a CNP alpha falls in each period, so this ends when it is 0: with the usual g after 4,000 periods.
        while self.alpha_at <= now && (self.alpha > 0 || self.notified) {
            let fresh =
                if std::mem::take(&mut self.notified) { scaled(ONE) - (g << FRACTION_BITS) } else { 0 };
            self.alpha = (self.alpha * g / u64::from(ONE) + fresh).min(scaled(ONE));
            self.alpha_at += period;
        }
        if self.alpha_at <= now {
            self.alpha_at += (now - self.alpha_at) / period * period + period;
        }
    }

    /// One step up.
    fn rise(&mut self, settings: &Dcqcn) {
        let target = self.target_bps.saturating_add(self.step_bps(settings));
        self.target_bps = target.min(settings.line_rate_bps);
        // Rounded up, so that it gets there.
        self.rate_bps = (self.rate_bps + self.target_bps).div_ceil(2);
    }

    /// What the target rises by in a step.
    fn step_bps(&self, settings: &Dcqcn) -> u64 {
        let (fewer, more) = (self.time_steps.min(self.byte_steps), self.time_steps.max(self.byte_steps));
        if fewer > settings.rpg_threshold {
            settings.rpg_hai_rate_bps
        } else if more > settings.rpg_threshold {
            settings.rpg_ai_rate_bps
        } else {
            0
        }
    }
}

/// `alpha` of the settings with more fraction bits.
fn scaled(alpha: u32) -> u64 {
    u64::from(alpha.min(ONE)) << FRACTION_BITS
}

/// Alpha's unit in the settings.
const ONE: u32 = 1024;
/// Bits that it has besides.
const FRACTION_BITS: u32 = 20;
/// A cut that is divided by more is none.
const MAX_GD: u32 = 64;
/// Steps after which the rate has come as near to the target as it can: it has 64 bits.
const MAX_STEPS_APART: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const GBPS: u64 = 1_000_000_000;

    fn settings() -> Dcqcn {
        Dcqcn::default()
    }

    #[test]
    fn the_first_cnp_halves_the_rate() {
        let point = ReactionPoint::new(0, &settings());
        // alpha is 1023/1024 of one half.
        assert_eq!(point.rate_bps(), 100 * GBPS - 100 * GBPS * 1023 / 2048);
        assert!(!point.is_over(&settings()));
        let to_set = Dcqcn { rate_to_set_on_first_cnp_bps: Some(10 * GBPS), ..settings() };
        assert_eq!(ReactionPoint::new(0, &to_set).rate_bps(), 10 * GBPS);
    }

    #[test]
    fn cuts_keep_their_distance() {
        let mut point = ReactionPoint::new(0, &settings());
        let first = point.rate_bps();
        point.handle_cnp(3_999, &settings());
        assert_eq!(point.rate_bps(), first);
        point.handle_cnp(4_000, &settings());
        assert!(point.rate_bps() < first && point.rate_bps() >= first / 2);
    }

    #[test]
    fn no_cut_goes_below_the_least_rate() {
        let mut point = ReactionPoint::new(0, &settings());
        for cnp in 1..1_000 {
            point.handle_cnp(cnp * 4_000, &settings());
        }
        assert_eq!(point.rate_bps(), 1_000_000);
    }

    #[test]
    fn a_cut_leaves_what_it_has_to() {
        let gentle = Dcqcn { rpg_min_dec_fac: 90, ..settings() };
        assert_eq!(ReactionPoint::new(0, &gentle).rate_bps(), 90 * GBPS);
        let steep = Dcqcn { rpg_gd: 10, ..settings() };
        assert_eq!(ReactionPoint::new(0, &steep).rate_bps(), 50 * GBPS, "not all of it");
    }

    /// NVIDIA's formulas: alpha = alpha · g / 1024 (+ 1024 - g in a period with a CNP).
    #[test]
    fn alpha_follows_how_often_cnps_come() {
        let mut point = ReactionPoint::new(0, &settings());
        let mut alpha = (1023 << 20) * 1019 / 1024 + (5 << 20);
        point.advance_alpha(1_000, &settings());
        assert_eq!(point.alpha, alpha);
        for _ in 0..9 {
            alpha = alpha * 1019 / 1024;
        }
        point.advance_alpha(10_500, &settings());
        assert_eq!((point.alpha, point.alpha_at), (alpha, 11_000));
        point.advance_alpha(Nanos::MAX / 2, &settings());
        assert_eq!(point.alpha, 0);
        point.notified = true;
        let at = point.alpha_at;
        point.advance_alpha(at, &settings());
        assert_eq!((point.alpha, point.alpha_at), (5 << 20, at + 1_000));
    }

    #[test]
    fn recovery_is_fast_then_additive_then_hyper() {
        let mut point = ReactionPoint::new(0, &settings());
        let cut = point.rate_bps();
        point.target_bps = 60 * GBPS;
        // One step by time: half of the way.
        point.advance(300_000, &settings());
        assert_eq!((point.rate_bps, point.target_bps), ((cut + 60 * GBPS).div_ceil(2), 60 * GBPS));
        point.advance(600_000, &settings());
        assert_eq!(point.target_bps, 60 * GBPS + 5_000_000);
        // The first amount of bytes is no hyper increase yet, since both must have passed the threshold.
        point.note_sent(600_000, 32_767, &settings());
        assert_eq!(point.target_bps, 60 * GBPS + 10_000_000);
        point.note_sent(600_000, 32_767, &settings());
        assert_eq!(point.target_bps, 60 * GBPS + 60_000_000);
    }

    #[test]
    fn the_target_falls_after_a_rise_only() {
        let mut at_rest = ReactionPoint::new(0, &settings());
        at_rest.handle_cnp(20_000, &settings());
        assert_eq!(at_rest.target_bps, 100 * GBPS);
        let mut by_bytes = ReactionPoint::new(0, &settings());
        by_bytes.note_sent(10_000, 32_767, &settings());
        let risen = by_bytes.rate_bps;
        by_bytes.handle_cnp(20_000, &settings());
        assert!(by_bytes.target_bps == risen && risen > by_bytes.rate_bps);
        let not_by_time = Dcqcn { clamp_tgt_rate_after_time_inc: false, ..settings() };
        for (settings, falls) in [(settings(), true), (not_by_time, false)] {
            let mut by_time = ReactionPoint::new(0, &settings);
            by_time.handle_cnp(300_000, &settings);
            assert_eq!(by_time.target_bps < 100 * GBPS, falls);
        }
        let clamped = Dcqcn { clamp_tgt_rate: true, ..settings() };
        let mut always = ReactionPoint::new(0, &clamped);
        let rate = always.rate_bps();
        always.handle_cnp(20_000, &clamped);
        assert_eq!(always.target_bps, rate);
    }

    #[test]
    fn silence_ends_it_however_long_it_was() {
        for silent_ns in [10_000_000_000, Nanos::MAX / 2] {
            let mut point = ReactionPoint::new(0, &settings());
            point.handle_cnp(10_000, &settings());
            point.advance(silent_ns, &settings());
            assert!(point.is_over(&settings()), "{} b/s after {silent_ns} ns", point.rate_bps());
        }
    }

    #[test]
    fn steps_made_at_once_are_those_made_apart() {
        let run = |nap: Nanos| {
            let mut point = ReactionPoint::new(0, &settings());
            point.target_bps = point.rate_bps;
            for at in (0..=60_000_000).step_by(nap as usize) {
                point.advance(at, &settings());
            }
            (point.target_bps, point.rate_bps)
        };
        let (apart, at_once) = (run(300_000), run(60_000_000));
        assert_eq!(apart.0, at_once.0);
        assert!(apart.1.abs_diff(at_once.1) < 10, "{apart:?} {at_once:?}");
    }
}

//! Numbers of several rounds in one.

use serde::Serialize;

use super::figure::{Aim, Figure};

/// A figure and its limit, measured one right after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The figure.
    pub ferroce: f64,
    /// What raw UDP does.
    pub limit: f64,
    /// The figure divided by the limit.
    pub ratio: f64,
}

/// Where several numbers lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are above, half below.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

/// A figure after all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Which.
    pub figure: Figure,
    /// Of figure and limit.
    pub unit: &'static str,
    /// The limit's packets, in bytes of UDP payload.
    pub packet_len: u32,
    /// Bytes of them that count as payload.
    pub payload_len: u32,
    /// The figure.
    pub ferroce: Spread,
    /// What raw UDP does.
    pub limit: Spread,
    /// Of the rounds' ratios: a machine that is busy in one round is so for both.
    pub ratio: Spread,
    /// The best of the figure divided by the best of the limit, of whatever rounds.
    pub ratio_of_bests: f64,
    /// What the ratio is meant to be.
    pub aim: Aim,
    /// Whether the ratios' median is that.
    pub is_met: bool,
    /// All of them, in order.
    pub rounds: Vec<Round>,
}

impl Round {
    /// A round with its ratio.
    pub fn new(ferroce: f64, limit: f64) -> Round {
        Round { ferroce, limit, ratio: ferroce / limit }
    }
}

impl Spread {
    /// Of at least one number.
    fn of(numbers: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = numbers.collect();
        sorted.sort_by(f64::total_cmp);
        let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Spread { median: (below + above) / 2.0, min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

impl Outcome {
    /// Sums up at least one round.
    pub fn new(figure: Figure, rounds: Vec<Round>) -> Outcome {
        let ferroce = Spread::of(rounds.iter().map(|round| round.ferroce));
        let limit = Spread::of(rounds.iter().map(|round| round.limit));
        let ratio = Spread::of(rounds.iter().map(|round| round.ratio));
        let best = |spread: Spread| figure.kind().better(spread.min, spread.max);
        Outcome {
            figure,
            unit: figure.kind().unit(),
            packet_len: figure.packet_len(),
            payload_len: figure.payload_len(),
            ferroce,
            limit,
            ratio,
            ratio_of_bests: best(ferroce) / best(limit),
            aim: figure.aim(),
            is_met: figure.aim().is_met(ratio.median),
            rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(numbers: &[f64]) -> (f64, f64, f64) {
        let Spread { median, min, max } = Spread::of(numbers.iter().copied());
        (min, median, max)
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(spread(&[5.0]), (5.0, 5.0, 5.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), (1.0, 2.0, 9.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 9.0]), (1.0, 3.0, 9.0));
    }

    #[test]
    fn ratios_are_formed_within_a_round() {
        // A machine that was busy in the second round: the ratio of the medians would be 0.25.
        let rounds = vec![Round::new(3.0, 4.0), Round::new(0.75, 1.0), Round::new(1.0, 4.0)];
        let outcome = Outcome::new(Figure::Write1m, rounds);
        assert_eq!((outcome.ferroce.median, outcome.limit.median), (1.0, 4.0));
        assert_eq!(outcome.ratio, Spread { median: 0.75, min: 0.25, max: 0.75 });
        assert!(outcome.is_met);
    }

    #[test]
    fn the_best_bandwidth_is_the_highest_and_the_best_latency_the_lowest() {
        let rounds = || vec![Round::new(3.0, 4.0), Round::new(1.0, 5.0), Round::new(2.0, 2.0)];
        assert_eq!(Outcome::new(Figure::Write64k, rounds()).ratio_of_bests, 3.0 / 5.0);
        assert_eq!(Outcome::new(Figure::SendLat, rounds()).ratio_of_bests, 1.0 / 2.0);
    }
}

//! Chance from a seed: the same seed gives the same answers on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random decisions (xoshiro256++).
///
/// What it answers is part of what a seed means: a change here changes every recorded run.
#[derive(Clone, Debug)]
pub struct Chance(Xoshiro256PlusPlus);

/// Parts of a million: the chance of something, without floating point.
pub const PPM: u32 = 1_000_000;

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Chance {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The stream of a part of the simulation. Parts do not disturb each other: one that asks more often than
    /// before leaves the others' streams as they were.
    pub fn of_part(seed: u64, part: u64) -> Chance {
        let mut mixer = Chance::new(seed);
        Chance::new(mixer.bits() ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is below `bound` in 2^64.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// True once in `n` times on average; always if `n` is 0 or 1.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True with a chance of `ppm` parts of a million.
    pub fn ppm(&mut self, ppm: u32) -> bool {
        // A chance of nothing asks nothing, so that switching a fault on later is all that changes a run.
        ppm > 0 && self.below(u64::from(PPM)) < u64::from(ppm)
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut chance = Chance::new(1);
        let first: Vec<_> = (0..3).map(|_| chance.bits()).collect();
        assert_eq!(first, [0xcfc5_d07f_6f03_c29b, 0xbf42_4132_963f_e08d, 0x19a3_7d57_57aa_f520]);
        assert_ne!(Chance::of_part(1, 0).bits(), Chance::of_part(1, 1).bits());
        assert_ne!(Chance::of_part(1, 0).bits(), Chance::of_part(2, 0).bits());
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut chance = Chance::new(7);
        let hits = (0..100_000).filter(|_| chance.ppm(10_000)).count();
        assert!((900..1100).contains(&hits), "{hits} of 100,000 at 1 %");
        assert!((0..1000).all(|_| !chance.ppm(0)));
        assert!((0..1000).all(|_| chance.ppm(PPM)));
        let dice: Vec<_> = (0..1000).map(|_| chance.between(1, 6)).collect();
        assert!((1..=6).all(|face| dice.contains(&face)) && dice.iter().all(|face| (1..=6).contains(face)));
    }
}

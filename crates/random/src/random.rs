//! Randomness with a seed: each part of the world draws from a stream of its own, so that adding a
//! part leaves the draws of the others alone.
//!
//! Logarithms come from the `libm` crate: those of the system differ in the last bit from one C
//! library and processor to the next, and results must not.

use candor_time::Nanos;
use rand_core::Rng;
use rand_pcg::Pcg32;

/// A stream of random numbers (PCG-XSH-RR 64/32).
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// The stream number `stream` of `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg32::new(seed, stream))
    }

    /// The same after so many draws, at once.
    #[must_use]
    pub(crate) fn after(seed: u64, stream: u64, draws: u64) -> Self {
        let mut random = Self::new(seed, stream);
        // A draw of 64 bits is two steps of the generator.
        random.0.advance(draws.wrapping_mul(2));
        random
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `from..=to`; `from` if the range is empty.
    pub fn nanos(&mut self, from: Nanos, to: Nanos) -> Nanos {
        let span = (to - from).as_nanos();
        if span == 0 {
            return from;
        }
        // The high half of a 64 x 64 bit product: biased by less than 2^-32 for any span met here.
        let scaled = (u128::from(self.0.next_u64()) * (u128::from(span) + 1)) >> 64;
        from + Nanos::from_nanos(scaled as u64)
    }

    /// Exponential with this mean: the distance between events that come at random.
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        let factor = -libm::log(1.0 - self.unit());
        Nanos::from_nanos((mean.as_nanos() as f64 * factor) as u64)
    }

    /// How many trials pass before one of `probability` succeeds; `u64::MAX` if it never does.
    pub fn geometric(&mut self, probability: f64) -> u64 {
        if probability <= 0.0 {
            return u64::MAX;
        }
        let trials = libm::log(1.0 - self.unit()) / libm::log1p(-probability);
        if trials.is_finite() { trials as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn draws_stay_in_range_and_repeat() {
        let (mut a, mut b) = (Random::new(7, 1), Random::new(7, 1));
        let (from, to) = (Nanos::from_nanos(5), Nanos::from_nanos(9));
        let drawn: Vec<_> = (0..200).map(|_| a.nanos(from, to)).collect();
        assert!(drawn.iter().all(|&nanos| from <= nanos && nanos <= to));
        assert!((5..=9).all(|nanos| drawn.contains(&Nanos::from_nanos(nanos))));
        assert_eq!(drawn, (0..200).map(|_| b.nanos(from, to)).collect::<Vec<_>>());
    }

    #[test]
    fn bits_are_all_there() {
        let (mut a, mut b) = (Random::new(7, 1), Random::new(7, 1));
        let drawn: Vec<_> = (0..100).map(|_| a.bits()).collect();
        assert_eq!(drawn, (0..100).map(|_| b.bits()).collect::<Vec<_>>());
        let (ones, zeros) =
            drawn.iter().fold((0, 0), |(ones, zeros), bits| (ones | bits, zeros | !bits));
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }

    #[test]
    fn draws_can_be_skipped() {
        let mut one = Random::new(7, 3);
        for draws in 0..20 {
            assert_eq!(Random::after(7, 3, draws).bits(), one.bits(), "{draws}");
        }
    }

    #[test]
    fn means_are_as_asked() {
        let mut random = Random::new(1, 1);
        let mean = |sum: u64| sum as f64 / 20_000.0;
        let waits =
            (0..20_000).map(|_| random.exponential(Nanos::from_nanos(1_000)).as_nanos()).sum();
        assert!((950.0..1_050.0).contains(&mean(waits)));
        let trials = (0..20_000).map(|_| random.geometric(0.01)).sum();
        assert!((94.0..104.0).contains(&mean(trials)));
        assert_eq!(random.geometric(0.0), u64::MAX);
        assert_eq!(random.geometric(1.0), 0);
    }
}

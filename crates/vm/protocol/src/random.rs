//! Random numbers for testers, from the seed of the order.

/// SplitMix64 (Steele, Lea, Flood 2014): the state counts, a mixing function makes it random.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Evenly from `shortest..=longest`; `shortest` if the range is empty.
    pub const fn between(&mut self, shortest: u64, longest: u64) -> u64 {
        let span = longest.saturating_sub(shortest) as u128 + 1;
        shortest + ((self.bits() as u128 * span) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = Random::new(1_234_567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_reach_both_ends_and_no_further() {
        let mut random = Random::new(1);
        let drawn: Vec<_> = (0..200).map(|_| random.between(5, 9)).collect();
        assert!(drawn.iter().all(|draw| (5..=9).contains(draw)));
        assert!((5..=9).all(|number| drawn.contains(&number)));
        assert_eq!(random.between(7, 7), 7);
        assert_eq!(random.between(7, 3), 7);
        assert!(Random::new(0).between(0, u64::MAX) > 0);
    }
}

//! When a figure that several boots have is other than before.
//!
//! Boots of equal kernels are draws of one urn: every order of the values of both sides is as likely as any other. With five
//! boots on each side, all values of one side are beyond all of the other in 2 of the 252 orders. That is too often for a
//! verdict, so what is between the two sides has to be wider than each of them as well. Of draws from a normal, an even, an
//! exponential or a Cauchy distribution, fewer than 3 in 10,000 are so far apart (a test below).
//!
//! What boots move in steps can have one value on all boots of a side by chance: a hash table that is searched in this order or
//! that. The steps of 210 boots of Linux 6.12 and 6.12-rt were up to 4 instructions (`tests/verdicts`, can-gw and a loop of `read`
//! and `write`), and those of 5 boots of 6.12-rt with the live gateway up to 8; so differences up to [`BOOT_INSTRUCTIONS`] are
//! none, however narrow the ranges are.

use crate::group::Range;

/// Boots on each side from which there is a verdict.
pub const ENOUGH_BOOTS: usize = 5;

/// Instructions by which boots of one kernel may move a latency in a step.
pub(super) const BOOT_INSTRUCTIONS: f64 = 10.0;

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No difference that other boots and seeds do not explain.
    Same,
    /// Less: faster, or fewer frames lost.
    Faster,
    /// More.
    Slower,
    /// A side has too few boots to tell a difference from that between two boots.
    TooFewBoots,
}

impl Verdict {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Same, Self::Faster, Self::Slower, Self::TooFewBoots];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::TooFewBoots => "too few boots",
        }
    }
}

/// The values of a figure on one side: one, or one for each boot and seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// From the smallest to the largest.
    pub range: Range,
    /// The median, of an even number the lower one in the middle.
    pub median: f64,
}

impl Sample {
    /// Of these values; `None` if there are none.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let median = *values.get(values.len().checked_sub(1)? / 2)?;
        Some(Self { range: Range::from_values(values)?, median })
    }

    /// Whether what lies between two samples is wider than each of them.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        judge(self, other, self.spread().max(other.spread())) != Verdict::Same
    }

    /// From the smallest to the largest value.
    pub(super) fn spread(&self) -> f64 {
        self.range.most - self.range.least
    }
}

/// The same, faster or slower, if differences up to `resolution` are none. Values in one range are none either.
pub(super) fn judge(before: &Sample, after: &Sample, resolution: f64) -> Verdict {
    let (before, after) = (&before.range, &after.range);
    if after.least - before.most > resolution {
        Verdict::Slower
    } else if before.least - after.most > resolution {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

#[cfg(test)]
mod tests {
    use candor_protocol::random::Random;

    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn what_is_between_the_sides_is_wider_than_each() {
        for (before, after, verdict) in [
            (&[1.0, 2.0, 3.0][..], &[3.0, 4.0][..], Verdict::Same),
            (&[1.0, 2.0, 3.0], &[5.0, 6.0], Verdict::Same),
            (&[1.0, 2.0, 3.0], &[5.5, 6.0], Verdict::Slower),
            (&[5.5, 6.0], &[1.0, 2.0, 3.0], Verdict::Faster),
            (&[5.0], &[5.0], Verdict::Same),
            (&[5.0], &[5.1], Verdict::Slower),
        ] {
            let (before, after) = (sample(before), sample(after));
            let resolution = before.spread().max(after.spread());
            assert_eq!(judge(&before, &after, resolution), verdict, "{before:?} {after:?}");
        }
        assert_eq!(Sample::new([]), None);
        assert_eq!(sample(&[4.0, 1.0, 3.0, 2.0]).median, 2.0);
    }

    /// From 0 to 1, both not included.
    fn even(random: &mut Random) -> f64 {
        ((random.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    #[test]
    fn equal_kernels_are_rarely_far_apart_and_far_shifts_are_seen() {
        const WORLDS: usize = 40_000;
        let mut random = Random::new(57);
        let normal = |random: &mut Random| {
            // Box and Muller (1958).
            (-2.0 * even(random).ln()).sqrt() * (std::f64::consts::TAU * even(random)).cos()
        };
        type Draw<'a> = &'a dyn Fn(&mut Random) -> f64;
        let draws: [(&str, Draw<'_>); 4] = [
            ("even", &even),
            ("normal", &normal),
            ("exponential", &|random| -even(random).ln()),
            ("Cauchy", &|random| (std::f64::consts::PI * (even(random) - 0.5)).tan()),
        ];
        for (name, draw) in draws {
            let mut side = |shift: f64| {
                let values: Vec<_> = (0..ENOUGH_BOOTS).map(|_| draw(&mut random) + shift).collect();
                sample(&values)
            };
            let mut wrong = 0;
            for _ in 0..WORLDS {
                let (before, after) = (side(0.0), side(0.0));
                let resolution = before.spread().max(after.spread());
                wrong += usize::from(judge(&before, &after, resolution) != Verdict::Same);
                // As far away as three times what the boots move it.
                let far = side(3.0 * before.spread() + before.range.most);
                if far.range.least - before.range.most > before.spread().max(far.spread()) {
                    let resolution = before.spread().max(far.spread());
                    assert_eq!(judge(&before, &far, resolution), Verdict::Slower);
                }
            }
            assert!(wrong * 10_000 < 3 * WORLDS, "{name}: {wrong} of {WORLDS}");
        }
    }
}

use crate::Random;

/// Which bits of the frames on a CAN bus are destroyed: each with the same probability, whatever happened to the others.
///
/// The number of good bits before a bad one is then geometric, so that one draw is needed for each error and none for a
/// frame without one. A frame ends with its first bad bit, and counting begins anew with the next: the law has no memory.
///
/// Plain data of a fixed size: it can lie in memory that is saved and restored.
#[derive(Clone, Copy, Debug)]
pub struct BitErrors {
    seed: u64,
    stream: u64,
    /// How many numbers of the stream were taken.
    draws: u64,
    /// Probability, 0 to 1.
    rate: f64,
    /// Good bits before the next bad one; `u64::MAX` if there is none.
    until_next: u64,
}

impl BitErrors {
    /// The number of the first stream of a seed that buses draw from.
    const STREAMS: u64 = 1 << 32;

    /// Those of bus number `bus`, from 0, of a world with this seed. `rate` is the probability of each bit, 0 to 1.
    #[must_use]
    pub fn of_bus(seed: u64, bus: u32, rate: f64) -> Self {
        let mut errors =
            Self { seed, stream: Self::STREAMS + u64::from(bus), draws: 0, rate, until_next: 0 };
        errors.draw_next();
        errors
    }

    fn draw_next(&mut self) {
        self.until_next = Random::after(self.seed, self.stream, self.draws).geometric(self.rate);
        self.draws += 1;
    }

    /// The same law, with so many good bits before the next bad one.
    #[must_use]
    pub fn with_next(self, good_bits: u64) -> Self {
        Self { until_next: good_bits, ..self }
    }

    /// A frame of so many bits begins, stuff bits counted and its intermission not: which of them, from 0, is destroyed.
    #[inline]
    pub fn draw(&mut self, bits: u32) -> Option<u32> {
        if self.until_next < u64::from(bits) {
            let at = self.until_next as u32;
            self.draw_next();
            return Some(at);
        }
        if self.until_next != u64::MAX {
            self.until_next -= u64::from(bits);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_over_frames() {
        for (until_next, hit, left) in [
            (0, Some(0), u64::MAX),
            (9, Some(9), u64::MAX),
            (10, None, 0),
            (u64::MAX, None, u64::MAX),
        ] {
            let mut errors = BitErrors::of_bus(1, 0, 0.0).with_next(until_next);
            assert_eq!(errors.draw(10), hit, "{until_next}");
            assert_eq!(errors.until_next, left, "{until_next}");
        }
    }

    /// Each bit of a frame is hit as often as the bits before it let through: rate x (1 - rate)^bit.
    #[test]
    fn bit_errors_are_as_frequent_as_their_rate() {
        let (rate, bits, frames) = (0.01, 100, 100_000);
        let mut errors = BitErrors::of_bus(7, 1, rate);
        let mut hits = [0_u32; 100];
        for _ in 0..frames {
            if let Some(at) = errors.draw(bits) {
                hits[at as usize] += 1;
            }
        }
        for (bit, &hits) in hits.iter().enumerate() {
            let expected = f64::from(frames) * rate * libm::pow(1.0 - rate, bit as f64);
            // Six standard deviations of a count.
            assert!(
                (f64::from(hits) - expected).abs() < 6.0 * libm::sqrt(expected),
                "{bit}: {hits}"
            );
        }
        let mut streams = [BitErrors::of_bus(7, 0, rate), BitErrors::of_bus(7, 1, rate)];
        let [first, second] = streams.each_mut().map(|it| it.draw(u32::MAX));
        assert_ne!(first, second);
    }
}

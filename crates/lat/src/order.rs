//! [`Sequence`]: how the numbered frames of a stream came: in order, behind a later one, twice, or not at all.

use std::collections::BTreeMap;

/// How a frame stands to those that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None with a greater number came before it.
    Latest,
    /// Its number is below the greatest so far (RFC 4737, section 3.3, Type-P-Reordered).
    Reordered,
    /// It came before, as far as that is known. RFC 4737 counts no duplicates, and in RFC 7679 the first copy has the delay.
    Duplicate,
}

/// The numbers of a stream that have come.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The smallest and the greatest.
    span: Option<(u64, u64)>,
    /// Numbers between them that have not come: the first and the last of each run of them, of the [`MOST_GAPS`] greatest.
    gaps: BTreeMap<u64, u64>,
    /// Smaller ones are not known one by one.
    known_from: u64,
    missing: u64,
}

/// So many runs of missing numbers are remembered: 65,536 losses ago, nobody can tell a late frame from a duplicate.
const MOST_GAPS: usize = 1 << 16;

/// Where numbers of 32 bits begin to be counted on, so that those before the first one have a place.
const MIDDLE: u64 = 1 << 63;

impl Sequence {
    /// A frame with this number came.
    pub fn add(&mut self, number: u64) -> Order {
        let Some((first, greatest)) = self.span else {
            self.span = Some((number, number));
            return Order::Latest;
        };
        if number > greatest {
            self.miss(greatest + 1, number);
            self.span = Some((first, number));
            return Order::Latest;
        }
        if number < first {
            self.miss(number + 1, first);
            self.span = Some((number, greatest));
            return Order::Reordered;
        }
        if number < self.known_from {
            return Order::Reordered;
        }
        let gap = self.gaps.range(..=number).next_back().map(|(from, to)| (*from, *to));
        match gap.filter(|(_, to)| number <= *to) {
            Some((from, to)) => {
                self.gaps.remove(&from);
                self.missing -= to - from + 1;
                self.miss(from, number);
                self.miss(number + 1, to + 1);
                Order::Reordered
            }
            None => Order::Duplicate,
        }
    }

    /// The number behind one of 32 bits that begin at 0 again: the nearest to the greatest so far.
    #[must_use]
    pub fn count_on(&self, sequence: u32) -> u64 {
        match self.span {
            None => MIDDLE + u64::from(sequence),
            Some((_, greatest)) => {
                let distance = sequence.wrapping_sub(greatest as u32).cast_signed();
                greatest.saturating_add_signed(distance.into())
            }
        }
    }

    fn miss(&mut self, from: u64, end: u64) {
        if from < end {
            self.gaps.insert(from, end - 1);
            self.missing += end - from;
        }
        if self.gaps.len() > MOST_GAPS
            && let Some((_, to)) = self.gaps.pop_first()
        {
            self.known_from = to + 1;
        }
    }

    /// How many numbers between the smallest and the greatest have not come.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_is_reordered_if_its_number_is_below_the_greatest_so_far() {
        use Order::{Duplicate, Latest, Reordered};
        for (numbers, orders, missing) in [
            (&[0, 1, 2][..], &[Latest; 3][..], 0),
            (&[0, 5, 3, 4], &[Latest, Latest, Reordered, Reordered], 2),
            (&[0, 5, 3, 3, 5], &[Latest, Latest, Reordered, Duplicate, Duplicate], 3),
            (&[7, 2, 4], &[Latest, Reordered, Reordered], 3),
        ] {
            let mut it = Sequence::default();
            let found: Vec<_> = numbers.iter().map(|&number| it.add(number)).collect();
            assert_eq!((&found[..], it.missing()), (orders, missing), "{numbers:?}");
        }
    }

    #[test]
    fn numbers_of_32_bits_are_counted_on_across_their_end() {
        for start in [0, 1, 1_000, u32::MAX - 2, u32::MAX, 0x7FFF_FFFE] {
            let mut it = Sequence::default();
            let mut add = |number: u32| {
                let order = it.add(it.count_on(start.wrapping_add(number)));
                (order, it.missing())
            };
            assert_eq!(add(0), (Order::Latest, 0));
            assert_eq!(add(1), (Order::Latest, 0));
            assert_eq!(add(5), (Order::Latest, 3));
            assert_eq!(add(3), (Order::Reordered, 2));
            assert_eq!(add(3), (Order::Duplicate, 2));
            assert_eq!(add(6), (Order::Latest, 2));
            assert_eq!(add(2), (Order::Reordered, 1));
            assert_eq!(add(4), (Order::Reordered, 0));
            assert_eq!(add(0), (Order::Duplicate, 0));
            assert_eq!(add(u32::MAX - 1), (Order::Reordered, 1), "from before the first");
            assert_eq!(add(u32::MAX), (Order::Reordered, 0));
        }
    }

    #[test]
    fn old_gaps_are_forgotten_but_stay_missing() {
        let mut it = Sequence::default();
        let gaps = MOST_GAPS as u64 + 10;
        for number in 0..=gaps {
            it.add(2 * number);
        }
        assert_eq!((it.gaps.len(), it.missing()), (MOST_GAPS, gaps));
        // 1 to 19 are not known any more, one by one.
        assert_eq!(
            (it.add(19), it.add(21), it.add(21)),
            (Order::Reordered, Order::Reordered, Order::Duplicate)
        );
        assert_eq!((it.add(18), it.missing()), (Order::Reordered, gaps - 1));
    }

    proptest! {
        /// Against the definitions, by all numbers that have come.
        #[test]
        fn orders_are_those_of_the_definitions(numbers in prop::collection::vec(0..60_u64, 1..80)) {
            let (mut it, mut seen) = (Sequence::default(), BTreeSet::new());
            for number in numbers {
                let expected = match seen.last() {
                    _ if seen.contains(&number) => Order::Duplicate,
                    Some(&greatest) if number < greatest => Order::Reordered,
                    _ => Order::Latest,
                };
                prop_assert_eq!(it.add(number), expected);
                seen.insert(number);
                let span = seen.last().zip(seen.first()).map_or(0, |(last, first)| last - first + 1);
                prop_assert_eq!(it.missing(), span - seen.len() as u64);
            }
        }
    }
}

//! [`Bands`]: several queues, the most urgent one first.

use alloc::vec::Vec;

use crate::{Fifo, Policy};

/// The most bands: one bit each in a word.
pub const MOST_BANDS: usize = 32;

/// Up to 32 [`Fifo`]s. Band 0 is the most urgent: what waits there leaves before everything else. Within
/// a band, order is kept. Every operation takes constant time, since one word says which bands have items.
#[derive(Clone, Debug)]
pub struct Bands<T> {
    bands: Vec<Fifo<T>>,
    /// Bit `n`: something waits in band `n`.
    occupied: u32,
}

impl<T> Bands<T> {
    /// As many bands as `bands` says, at most [`MOST_BANDS`], of `depth` items each, allocated now.
    #[must_use]
    pub fn new(bands: usize, depth: usize, policy: Policy) -> Self {
        let band = |_| Fifo::with_policy(depth, policy);
        Self { bands: (0..bands.min(MOST_BANDS)).map(band).collect(), occupied: 0 }
    }

    /// Appends `item` to a band.
    ///
    /// # Errors
    /// Gives back the item that is lost, and counts it, if the band is full; this one if there is no
    /// such band, uncounted.
    #[inline]
    pub fn push(&mut self, band: usize, item: T) -> Result<(), T> {
        let Some(queue) = self.bands.get_mut(band) else { return Err(item) };
        let outcome = queue.push(item);
        self.occupied |= u32::from(!queue.is_empty()) << band;
        outcome
    }

    /// Takes the oldest item of the most urgent band that has one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let band = self.occupied.trailing_zeros();
        let queue = self.bands.get_mut(band as usize)?;
        let item = queue.pop();
        if queue.is_empty() {
            self.occupied &= !(1 << band);
        }
        item
    }

    /// How many items wait in a band; none in one that does not exist.
    #[must_use]
    pub fn len(&self, band: usize) -> usize {
        self.bands.get(band).map_or(0, Fifo::len)
    }

    /// Whether nothing waits in any band.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// How many were lost because a band was full.
    #[must_use]
    pub fn lost(&self, band: usize) -> u64 {
        self.bands.get(band).map_or(0, Fifo::lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    #[test]
    fn urgent_items_overtake_and_others_keep_their_order() {
        let mut bands = Bands::new(3, 2, Policy::RefuseNewest);
        for (band, item) in [(2, 'a'), (1, 'b'), (2, 'c'), (0, 'd'), (1, 'e')] {
            assert_eq!(bands.push(band, item), Ok(()));
        }
        assert_eq!((bands.push(2, 'f'), bands.push(3, 'g')), (Err('f'), Err('g')));
        assert_eq!(
            [0, 1, 2, 3].map(|band| (bands.len(band), bands.lost(band))),
            [(1, 0), (2, 0), (2, 1), (0, 0)]
        );
        assert!(core::iter::from_fn(|| bands.pop()).eq("dbeac".chars()));
        assert!(bands.is_empty());
        assert_eq!(Bands::new(0, 2, Policy::RefuseNewest).push(0, 'a'), Err('a'));
        let mut many = Bands::new(99, 1, Policy::RefuseNewest);
        assert_eq!(
            (many.push(31, 'a'), many.push(32, 'b'), many.pop()),
            (Ok(()), Err('b'), Some('a'))
        );
    }

    proptest! {
        #[test]
        fn each_band_is_a_fifo(
            overwrites in any::<bool>(),
            depth in 0..5_usize,
            steps in prop::collection::vec(prop::option::weighted(0.6, 0..4_usize), 0..120),
        ) {
            let policy = if overwrites { Policy::OverwriteOldest } else { Policy::RefuseNewest };
            let mut queue = Bands::new(4, depth, policy);
            let mut model: [VecDeque<usize>; 4] = Default::default();
            let mut pushed = [0; 4];
            let mut popped = [0; 4];
            for (number, band) in steps.into_iter().enumerate() {
                match band {
                    Some(band) => {
                        model[band].push_back(number);
                        let lost = match (model[band].len() > depth, policy) {
                            (false, _) => None,
                            (true, Policy::RefuseNewest) => model[band].pop_back(),
                            (true, Policy::OverwriteOldest) => model[band].pop_front(),
                        };
                        prop_assert_eq!(queue.push(band, number).err(), lost);
                        pushed[band] += 1;
                    }
                    None => {
                        let first = (0..4).find(|&band| !model[band].is_empty());
                        let expected = first.and_then(|band| {
                            popped[band] += 1;
                            model[band].pop_front()
                        });
                        prop_assert_eq!(queue.pop(), expected);
                    }
                }
                for band in 0..4 {
                    let sum = popped[band] + queue.lost(band) + queue.len(band) as u64;
                    prop_assert_eq!(pushed[band], sum);
                }
                prop_assert_eq!(queue.is_empty(), model.iter().all(VecDeque::is_empty));
            }
        }
    }
}

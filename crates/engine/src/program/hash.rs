//! [`Hash`]: numbers by identifier word, in two reads.

use alloc::boxed::Box;

/// A value of a [`Hash`]: zero stands for none.
pub(crate) trait HashValue: Copy + Default + core::ops::BitOr<Output = Self> {
    /// Itself or zero, without a branch.
    fn if_true(self, condition: bool) -> Self;
}

impl HashValue for u32 {
    #[inline]
    fn if_true(self, condition: bool) -> Self {
        self & Self::from(condition).wrapping_neg()
    }
}

impl HashValue for u64 {
    #[inline]
    fn if_true(self, condition: bool) -> Self {
        self & Self::from(condition).wrapping_neg()
    }
}

/// Numbers by the bits of an identifier word under a mask: a cuckoo hash table. A key stands in one
/// of two slots, so that a look-up is two reads and no loop, whether it finds something or not.
#[derive(Clone, Debug)]
pub(crate) struct Hash<V> {
    pub(crate) mask: u32,
    pub(crate) shift: u32,
    /// Key and value. The word of an extended identifier never is [`Hash::FREE`], so that marks a
    /// free slot.
    pub(crate) slots: Box<[(u32, V)]>,
}

impl<V: HashValue> Hash<V> {
    pub(crate) const FREE: u32 = 0;
    /// Odd multipliers (Fibonacci hashing: 2^32 over the golden ratio, and another of no relation)
    /// whose products' high bits choose the slots.
    pub(crate) const MULTIPLIERS: [u32; 2] = [0x9E37_79B9, 0x85EB_CA6B];

    /// A table for `entries`, whose keys are distinct and extended.
    pub(crate) fn new(mask: u32, entries: &[(u32, V)]) -> Self {
        // At most half full at first; larger where the keys cannot be placed. A table of 2^32 slots
        // places every key, so this ends.
        let mut bits = (entries.len() * 2).next_power_of_two().ilog2().max(1);
        loop {
            if let Some(slots) = Self::place(entries, 32 - bits) {
                return Self { mask, shift: 32 - bits, slots };
            }
            bits += 1;
        }
    }

    /// Places the entries, each pushing out another where it must; `None` if they go in circles.
    fn place(entries: &[(u32, V)], shift: u32) -> Option<Box<[(u32, V)]>> {
        const MOST_MOVES: usize = 500;
        let mut slots =
            alloc::vec![(Self::FREE, V::default()); 1 << (32 - shift)].into_boxed_slice();
        for &entry in entries {
            let mut homeless = entry;
            let mut slot = Self::slot(homeless.0, 0, shift);
            let mut moves = 0;
            loop {
                core::mem::swap(&mut homeless, &mut slots[slot]);
                if homeless.0 == Self::FREE {
                    break;
                }
                moves += 1;
                if moves > MOST_MOVES {
                    return None;
                }
                // Off to its other slot.
                let first = Self::slot(homeless.0, 0, shift);
                slot = if slot == first { Self::slot(homeless.0, 1, shift) } else { first };
            }
        }
        Some(slots)
    }

    #[inline]
    pub(crate) const fn slot(key: u32, which: usize, shift: u32) -> usize {
        (key.wrapping_mul(Self::MULTIPLIERS[which]) >> shift) as usize
    }

    /// The value for an identifier word, 0 if there is none.
    ///
    /// Which of the two slots it is cannot be predicted, so it is selected by arithmetic.
    #[inline]
    pub(crate) fn find(&self, can_id: u32) -> V {
        let key = can_id & self.mask;
        let value = |which| {
            let slot = self.slots.get(Self::slot(key, which, self.shift));
            slot.map_or(V::default(), |&(found, value)| value.if_true(found == key))
        };
        value(0) | value(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use candor_wire::can::frame::EFF_FLAG;

    /// Keys that go in circles in a table of the first size: three of them, and two slots.
    #[test]
    fn a_hash_grows_until_every_key_has_a_place() {
        let shift = 29;
        let slots = |&key: &u32| {
            let mut slots = [0, 1].map(|which| Hash::<u64>::slot(key, which, shift));
            slots.sort_unstable();
            slots
        };
        let first = EFF_FLAG | 1;
        let keys: Vec<u32> = (first..).filter(|key| slots(key) == slots(&first)).take(3).collect();
        let entries: Vec<_> = keys.iter().copied().zip(1_u64..).collect();
        assert!(Hash::place(&entries, shift).is_none());

        let hash = Hash::new(u32::MAX, &entries);
        assert!(hash.shift < shift);
        for (key, value) in entries {
            assert_eq!(hash.find(key), value);
        }
        assert_eq!(hash.find(EFF_FLAG), 0);
    }

    /// Each key that finds its slot taken pushes out the other, which has a second one.
    #[test]
    fn a_hash_may_be_a_third_full() {
        let key = |index: u32| EFF_FLAG | (index.wrapping_mul(0x2545_F491) >> 3);
        let entries: Vec<_> = (0..700).map(|index| (key(index), 1_u64)).collect();
        assert_eq!(Hash::new(u32::MAX, &entries).slots.len(), 2_048);
    }
}

//! The statistics of each identifier of each bus, found fast.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use candor_wire::can::{Frame, Id};

use super::{IdStatistics, MAX_IDS};
use crate::record::InterfaceIndex;

/// The binary logarithm of how many identifiers are remembered.
const RECENT_BITS: u32 = 11;
/// No entry: the remote bit of a key is 0.
const NONE: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(super) struct Ids {
    list: Vec<(InterfaceIndex, Id, IdStatistics)>,
    /// The places in the list by [`key`].
    places: BTreeMap<u64, u16>,
    /// Places asked for before, at the hashes of their keys: `key << 16 | place`. Where two collide, the later one stands.
    recent: Vec<u64>,
}

/// Interface and identifier in 48 bits, ordered by the interface and by what wins arbitration.
#[inline]
fn key(interface: InterfaceIndex, frame: &Frame) -> u64 {
    let remote = if frame.is_extended() { 1 } else { 1 << 20 };
    u64::from(interface.0) << 32 | u64::from(frame.arbitration_key() & !remote)
}

impl Ids {
    /// The statistics of the frame's identifier. `None` if it is new and there are [`MAX_IDS`].
    #[inline]
    pub(super) fn of(
        &mut self,
        interface: InterfaceIndex,
        frame: &Frame,
    ) -> Option<&mut IdStatistics> {
        let key = key(interface, frame);
        // Multiplicative hashing with the golden ratio.
        let hash = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT_BITS)) as usize;
        let place = match self.recent.get(hash) {
            Some(&entry) if entry >> 16 == key => entry as u16,
            _ => {
                let place = self.find(key, interface, frame)?;
                self.recent.resize(1 << RECENT_BITS, NONE);
                self.recent[hash] = key << 16 | u64::from(place);
                place
            }
        };
        self.list.get_mut(usize::from(place)).map(|(.., statistics)| statistics)
    }

    #[cold]
    fn find(&mut self, key: u64, interface: InterfaceIndex, frame: &Frame) -> Option<u16> {
        match self.places.entry(key) {
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(_) if self.list.len() == MAX_IDS => None,
            Entry::Vacant(place) => {
                let place = *place.insert(self.list.len() as u16);
                self.list.push((interface, frame.id(), IdStatistics::default()));
                Some(place)
            }
        }
    }

    /// All of them, by bus and the highest priority first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, Id, &IdStatistics)> {
        let entries = self.places.values().filter_map(|&place| self.list.get(usize::from(place)));
        entries.map(|(interface, id, statistics)| (*interface, *id, statistics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// As many frames of each identifier as a map counts that remembers nothing.
        #[test]
        fn each_frame_is_counted_at_its_identifier(
            // Few and clustered, or all over the place.
            drawn in proptest::collection::vec((0..3_u16, 0..40_u32, proptest::bool::ANY, 0..1_u32 << 18), 1..9_000),
        ) {
            let mut ids = Ids::default();
            let mut expected = BTreeMap::new();
            for (interface, low, is_extended, high) in drawn {
                let text = if is_extended { format!("{:08X}#", high << 6 | low) } else { format!("{low:03X}#") };
                let frame: Frame = text.parse().unwrap();
                let interface = InterfaceIndex(interface);
                ids.of(interface, &frame).unwrap().frames += 1;
                *expected.entry((interface, frame.id())).or_insert(0) += 1;
            }
            let counted: Vec<_> = ids.iter().map(|(interface, id, it)| ((interface, id), it.frames)).collect();
            proptest::prop_assert_eq!(counted, Vec::from_iter(expected));
        }
    }
}

//! What was found for a frame, and how long the kernel's lists are.

use core::cmp::Ordering;
use core::fmt;

use crate::table::List;

/// A rule that matched, and where the kernel would have found it. The order is that of firing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Match {
    pub(crate) rule: u32,
    /// The list in the upper bits, the position in the others.
    pub(crate) place: u32,
}

impl Match {
    pub(crate) const POSITION_BITS: u32 = 29;
    pub(crate) const LISTS: [List; 6] =
        [List::Error, List::All, List::Masked, List::Inverted, List::Extended, List::Standard];

    pub(crate) fn new(list: List, rule: u32, position: u32) -> Self {
        let position = position.min((1 << Self::POSITION_BITS) - 1);
        Self { rule, place: (list as u32) << Self::POSITION_BITS | position }
    }

    /// The receive list of the matching filter; the first in the kernel's order if several match.
    #[must_use]
    pub fn list(self) -> List {
        let list = self.place >> Self::POSITION_BITS;
        Self::LISTS.get(list as usize).copied().unwrap_or(List::Standard)
    }

    /// The rule's place in its table.
    #[must_use]
    pub const fn rule(self) -> u32 {
        self.rule
    }

    /// How many filters of that list stand before the matching one.
    #[must_use]
    pub const fn position(self) -> u32 {
        self.place & ((1 << Self::POSITION_BITS) - 1)
    }
}

impl Ord for Match {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |found: &Self| (found.list(), found.rule, found.position());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Match {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} at {:?} {}", self.rule, self.list(), self.position())
    }
}

/// How many filters of a bus stand in each of the kernel's receive lists: what a frame costs there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListLengths {
    /// Filters without a mask.
    pub all: u32,
    /// Masked filters, walked one by one.
    pub masked: u32,
    /// Inverted filters, walked one by one.
    pub inverted: u32,
    /// Single extended identifiers.
    pub extended: u32,
    /// Single standard identifiers.
    pub standard: u32,
}

impl ListLengths {
    pub(crate) fn counter(&mut self, list: List) -> Option<&mut u32> {
        match list {
            List::Error => None,
            List::All => Some(&mut self.all),
            List::Masked => Some(&mut self.masked),
            List::Inverted => Some(&mut self.inverted),
            List::Extended => Some(&mut self.extended),
            List::Standard => Some(&mut self.standard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_have_the_order_of_the_kernels_lists() {
        let ordered = [
            Match::new(List::All, 7, 0),
            Match::new(List::Masked, 2, 3),
            Match::new(List::Masked, 5, 1),
            Match::new(List::Standard, 0, 0),
            Match::new(List::Standard, 0, 4),
        ];
        assert!(ordered.is_sorted_by(|earlier, later| earlier < later));
        assert_eq!(alloc::format!("{:?}", ordered[1]), "rule 2 at Masked 3");
    }
}

//! [`Matcher`]: the rules of one bus, found by the identifier word of a frame.

use alloc::boxed::Box;

use candor_wire::can::frame::{RTR_FLAG, SFF_MASK};

use super::found::{ListLengths, Match};
use super::hash::Hash;
use crate::table::Filter;

/// The rules of one bus.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    /// For each standard identifier, data then remote: its list.
    pub(crate) standard: Box<[ShortRef]>,
    /// Match lists, each once; the first is empty.
    pub(crate) lists: Box<[ListRef]>,
    pub(crate) matches: Box<[Match]>,
    /// Filters for extended identifiers.
    pub(crate) clusters: Box<[Cluster]>,
    /// Filters that every frame with an extended identifier must be held against.
    pub(crate) inverted: Box<[(Filter, Match)]>,
    pub(crate) errors: Box<[(Filter, Match)]>,
    pub(crate) lengths: ListLengths,
}

/// A list of matches: a stretch of [`Matcher::matches`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListRef {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl ListRef {
    #[inline]
    pub(crate) fn get(self, matches: &[Match]) -> &[Match] {
        matches
            .get(self.start as usize..)
            .and_then(|rest| rest.get(..self.len as usize))
            .unwrap_or(&[])
    }
}

/// A [`ListRef`] in half the room, for the array that is looked at with every frame: the place of a
/// list of one match, which is the usual one, or the number of any other list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortRef(pub(crate) u32);

impl ShortRef {
    /// Set for the place of a single match.
    pub(crate) const SINGLE: u32 = 1 << 31;

    pub(crate) const fn new(number: u32, list: ListRef) -> Self {
        if list.len == 1 && list.start < Self::SINGLE {
            Self(list.start | Self::SINGLE)
        } else {
            Self(number)
        }
    }

    #[inline]
    pub(crate) fn get(self, matcher: &Matcher) -> &[Match] {
        if self.0 & Self::SINGLE == 0 {
            return matcher.list(self.0);
        }
        let found = matcher.matches.get((self.0 & !Self::SINGLE) as usize);
        found.map_or(&[], core::slice::from_ref)
    }
}

/// Filters for extended identifiers with at most [`Cluster::MOST`] different masks.
///
/// Looking at every mask would cost a frame a look-up each. The bits that all masks have in common
/// tell beforehand which of them can match at all, in one look-up: usually one, or none.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// By the common bits of an identifier: which of `groups` may match, as bits.
    pub(crate) candidates: Hash<u64>,
    /// For each mask, by the bits of the identifier under it: a [`ShortRef`].
    pub(crate) groups: Box<[Hash<u32>]>,
}

impl Cluster {
    /// As many as there are bits in a set of candidates.
    pub(crate) const MOST: usize = u64::BITS as usize;

    /// The lists of this cluster for an identifier word.
    #[inline]
    pub(super) fn find(&self, can_id: u32, mut found: impl FnMut(u32)) {
        if let [group] = &*self.groups {
            return found(group.find(can_id));
        }
        let mut candidates = self.candidates.find(can_id);
        while candidates != 0 {
            if let Some(group) = self.groups.get(candidates.trailing_zeros() as usize) {
                found(group.find(can_id));
            }
            candidates &= candidates - 1;
        }
    }
}

pub(crate) const STANDARD_IDS: usize = 2 * (SFF_MASK as usize + 1);

/// Where a standard identifier stands in [`Matcher::standard`]: remote frames in the upper half.
#[inline]
pub(crate) const fn standard_slot(can_id: u32) -> usize {
    (can_id & SFF_MASK | (can_id & RTR_FLAG) >> 19) as usize
}

const _: () = assert!(standard_slot(RTR_FLAG | SFF_MASK) == STANDARD_IDS - 1);

impl Matcher {
    /// The list of that number.
    #[inline]
    pub(crate) fn list(&self, number: u32) -> &[Match] {
        self.lists.get(number as usize).map_or(&[], |list| list.get(&self.matches))
    }
}

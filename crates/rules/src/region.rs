//! [`Cube`]: sets of identifier words, for reasoning about filters.
//!
//! A filter, an exclusion, the identifiers after an edit: all are cubes, words of which some bits
//! are known and the others free. Rules overlap, never match or run in circles if cubes meet, so
//! checks need no sampling and are exact. Error reports are apart: they match by shared bits.

use alloc::vec::Vec;

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use candor_engine::edit::{Edit, Operands, Operator};
use candor_engine::extension::action::{Action, Remap};
use candor_engine::{Filter, Gate, Rule};

/// All identifier words whose `known` bits are those of `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cube {
    pub(crate) value: u32,
    pub(crate) known: u32,
}

/// The bits of an identifier word that is no error report.
const ALL_BITS: u32 = EFF_FLAG | RTR_FLAG | EFF_MASK;
/// The words of standard frames: the upper 18 bits are zero.
const STANDARD: Cube = Cube { value: 0, known: EFF_FLAG | (EFF_MASK & !SFF_MASK) };
/// The words of extended frames.
const EXTENDED: Cube = Cube { value: EFF_FLAG, known: EFF_FLAG };

impl Cube {
    /// The words in both, if there are any.
    pub(crate) const fn meet(self, other: Self) -> Option<Self> {
        if (self.value ^ other.value) & self.known & other.known != 0 {
            return None;
        }
        Some(Self { value: self.value | other.value, known: self.known | other.known })
    }

    /// The words of this cube that are not in `hole`, as cubes that do not overlap.
    fn without(self, hole: Self) -> Vec<Self> {
        if self.meet(hole).is_none() {
            return [self].into();
        }
        let mut rest = self;
        let mut pieces = Vec::new();
        for bit in bits(hole.known & !self.known) {
            let known = rest.known | bit;
            pieces.push(Self { value: rest.value | !hole.value & bit, known });
            rest = Self { value: rest.value | hole.value & bit, known };
        }
        pieces
    }

    /// A filter that takes exactly these words. Only for cubes of standard or of extended frames.
    pub(crate) const fn filter(self) -> Filter {
        let mask = if self.value & EFF_FLAG == 0 {
            self.known & !STANDARD.known | EFF_FLAG
        } else {
            self.known
        };
        Filter { can_id: self.value, mask, inverted: false }
    }

    /// One word of the cube.
    pub(crate) const fn example(self) -> u32 {
        self.value
    }
}

/// The single bits of a word, from the highest.
fn bits(word: u32) -> impl Iterator<Item = u32> {
    (0..32).rev().map(|shift| 1 << shift).filter(move |bit| word & bit != 0)
}

/// The words that a filter takes, error reports left aside; the cubes do not overlap.
fn cubes_of(filter: Filter) -> Vec<Cube> {
    if filter.mask & ERR_FLAG != 0 {
        return Vec::new();
    }
    let Filter { can_id, mask, inverted } = filter.normalized();
    let known = mask & ALL_BITS;
    let cube = Cube { value: can_id & known, known };
    let halves = [STANDARD, EXTENDED];
    if inverted {
        halves.iter().flat_map(|half| half.without(cube)).collect()
    } else {
        halves.iter().filter_map(|half| half.meet(cube)).collect()
    }
}

/// A bound on the number of cubes that a question may take, so that no file takes forever.
#[derive(Debug)]
pub(crate) struct Budget(pub(crate) usize);

impl Budget {
    /// Takes `cost`; false once it is used up.
    pub(crate) const fn take(&mut self, cost: usize) -> bool {
        self.0 = self.0.saturating_sub(cost);
        self.0 > 0
    }
}

/// `cubes` without the words of `holes`; `None` if the budget does not suffice.
pub(crate) fn subtract(cubes: Vec<Cube>, holes: &[Cube], budget: &mut Budget) -> Option<Vec<Cube>> {
    let mut left = cubes;
    for &hole in holes {
        if !budget.take(left.len() + 1) {
            return None;
        }
        left = left.into_iter().flat_map(|cube| cube.without(hole)).collect();
    }
    Some(left)
}

/// The frames that a rule takes, error reports left aside.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// What the filters take; may overlap.
    pub(crate) taken: Vec<Cube>,
    /// What the exclusions take away again.
    pub(crate) holes: Vec<Cube>,
}

impl Region {
    pub(crate) fn from_rule(rule: &Rule) -> Self {
        let any = [Filter::ANY];
        let filters = if rule.filters.is_empty() { &any[..] } else { &rule.filters };
        let data_only = Cube { value: 0, known: RTR_FLAG };
        let is_fd = rule.gate == Gate::Fd;
        Self {
            taken: filters
                .iter()
                .flat_map(|&filter| cubes_of(filter))
                .filter_map(|cube| if is_fd { cube.meet(data_only) } else { Some(cube) })
                .collect(),
            holes: rule.except.iter().flat_map(|&filter| cubes_of(filter)).collect(),
        }
    }

    /// Some part of `cube` that the rule takes. If the budget is used up, the answer is a part
    /// that the filters take, whatever the exclusions say.
    pub(crate) fn part_in(&self, cube: Cube, budget: &mut Budget) -> Option<Cube> {
        let met = self.taken.iter().filter_map(|taken| taken.meet(cube));
        met.filter_map(|part| match subtract([part].into(), &self.holes, budget) {
            Some(left) => left.first().copied(),
            None => Some(part),
        })
        .next()
    }

    /// Whether the rule takes no frame at all.
    pub(crate) fn is_empty(&self, budget: &mut Budget) -> bool {
        let everything = Cube { value: 0, known: 0 };
        self.part_in(everything, budget).is_none()
    }

    /// The same frames as cubes that do not overlap; `None` if that takes more than the budget.
    pub(crate) fn disjoint(&self, budget: &mut Budget) -> Option<Vec<Cube>> {
        let mut parts: Vec<Cube> = Vec::new();
        for &cube in &self.taken {
            let new = subtract([cube].into(), &parts, budget)?;
            parts.extend(new);
        }
        subtract(parts, &self.holes, budget)
    }
}

/// The words that a rule makes of a cube, or more; `None` if that takes more than the budget.
pub(crate) fn rewritten(rule: &Rule, cube: Cube, budget: &mut Budget) -> Option<Vec<Cube>> {
    let mut cubes = Vec::from([cube]);
    for action in &rule.extension.actions {
        match action {
            Action::Operate(operator, operands) => {
                for cube in &mut cubes {
                    *cube = tidied(operated(*operator, operands, *cube));
                }
            }
            Action::Message(message) => {
                cubes = [tidied(Cube { value: message.can_id, known: u32::MAX })].into();
            }
            Action::Remap(remap) => {
                let mut after = Vec::new();
                for cube in cubes {
                    if !budget.take(remap.pairs().len() + 1) {
                        return None;
                    }
                    after.extend(remapped(remap, cube));
                }
                cubes = after;
            }
            _ => {}
        }
    }
    for cube in &mut cubes {
        *cube = edited(&rule.edit, *cube);
    }
    Some(cubes)
}

/// The words that a table of identifiers makes of a cube, or more.
fn remapped(remap: &Remap, cube: Cube) -> Vec<Cube> {
    let mut after = Vec::new();
    let mut is_all = false;
    for &(from, to) in remap.pairs() {
        // The table is about identifiers; remote frames stay such.
        let word = Cube { value: from, known: ALL_BITS & !RTR_FLAG };
        let Some(met) = word.meet(cube) else { continue };
        is_all |= cube.known & !RTR_FLAG == word.known;
        let (value, known) = (met.value & RTR_FLAG, met.known & RTR_FLAG);
        let known = if to & RTR_FLAG != 0 { ALL_BITS } else { ALL_BITS & !RTR_FLAG | known };
        after.push(tidied(Cube { value: to | value, known }));
    }
    if remap.keeps_others && !is_all {
        after.push(cube);
    }
    after
}

/// The words that an operator makes of a cube.
fn operated(operator: Operator, operands: &Operands, cube: Cube) -> Cube {
    let Some(operand) = operands.can_id else { return cube };
    match operator {
        Operator::And => Cube { value: cube.value & operand, known: cube.known | !operand },
        Operator::Or => Cube { value: cube.value | operand, known: cube.known | operand },
        Operator::Xor => Cube { value: (cube.value ^ operand) & cube.known, ..cube },
        Operator::Set => Cube { value: operand, known: u32::MAX },
    }
}

/// The words that an edit makes of a cube.
pub(crate) fn edited(edit: &Edit, cube: Cube) -> Cube {
    let operate = |cube, operator: Operator| operated(operator, edit.operands(operator), cube);
    tidied(Operator::ALL.into_iter().fold(cube, operate))
}

/// A cube of words that frames have.
fn tidied(mut cube: Cube) -> Cube {
    let standard = cube.known & EFF_FLAG != 0 && cube.value & EFF_FLAG == 0;
    if standard {
        cube.known |= STANDARD.known;
        cube.value &= !STANDARD.known;
    }
    Cube { value: cube.value & ALL_BITS, known: cube.known & ALL_BITS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_engine::{BusIndex, Extension, Rule};
    use candor_wire::can::Frame;
    use proptest::prelude::*;

    impl Cube {
        fn contains(self, word: u32) -> bool {
            (word ^ self.value) & self.known == 0
        }
    }

    fn words() -> impl Strategy<Value = u32> {
        let id = prop_oneof![0..16_u32, 0x7F8..=0x7FF_u32, 0..=EFF_MASK];
        (id, 0..4_u32).prop_map(|(id, flags)| {
            let id = if flags & 2 != 0 { id } else { id & SFF_MASK };
            id | flags << 30
        })
    }

    fn filters() -> impl Strategy<Value = Filter> {
        let mask = prop_oneof![
            Just(0xC000_07FF_u32),
            Just(0xDFFF_FFFF),
            Just(0x7FF),
            Just(0),
            Just(0x8000_000C),
            any::<u32>().prop_map(|mask| mask & !ERR_FLAG),
        ];
        (words(), mask, prop::bool::weighted(0.3)).prop_map(|(can_id, mask, inverted)| Filter {
            can_id,
            mask,
            inverted,
        })
    }

    #[test]
    fn where_both_kinds_are_taken_a_table_makes_both() {
        let both = Cube { value: 0x001, known: ALL_BITS & !RTR_FLAG };
        for (to, after) in [
            (0x002, Cube { value: 0x002, ..both }),
            (0x002 | RTR_FLAG, Cube { value: 0x002 | RTR_FLAG, known: ALL_BITS }),
        ] {
            let remap = Remap::new([(0x001, to)].into(), true);
            assert_eq!(remapped(&remap, both), [after]);
        }
    }

    #[test]
    fn a_standard_identifier_has_no_upper_bits_and_others_may() {
        let standard = Cube { value: EFF_MASK, known: ALL_BITS };
        assert_eq!(tidied(standard), Cube { value: SFF_MASK, known: ALL_BITS });
        for cube in [
            Cube { value: 0x001, known: SFF_MASK },
            Cube { value: EFF_FLAG | EFF_MASK, known: ALL_BITS },
            Cube { value: EFF_MASK, known: EFF_MASK },
        ] {
            assert_eq!(tidied(cube), cube);
        }
    }

    #[test]
    fn an_identifier_that_a_table_maps_does_not_stay() {
        let known = ALL_BITS & !RTR_FLAG;
        let of = |word| cubes_of(Filter { can_id: word, mask: 0xC000_07FF, inverted: false });
        for (keeps_others, from, expected) in [
            (true, 0x001, &[0x002][..]),
            (false, 0x001, &[0x002]),
            (true, 0x003, &[0x003]),
            (false, 0x003, &[]),
        ] {
            let remap = Remap::new([(0x001, 0x002)].into(), keeps_others);
            let [cube] = of(from)[..] else { panic!() };
            let after = remapped(&remap, cube);
            assert!(after.iter().all(|cube| cube.known & known == known), "{after:x?}");
            let words: Vec<_> = after.iter().map(|cube| cube.value).collect();
            assert_eq!(words, expected, "{from:x} {keeps_others}");
        }

        // What becomes of data frames and of remote frames, by what the table says.
        let remote = Remap::new([(0x001, 0x002), (0x003, 0x004 | RTR_FLAG)].into(), false);
        for (from, to) in [
            (0x001, 0x002),
            (0x001 | RTR_FLAG, 0x002 | RTR_FLAG),
            (0x003, 0x004 | RTR_FLAG),
            (0x003 | RTR_FLAG, 0x004 | RTR_FLAG),
        ] {
            let expected = [Cube { value: to, known: ALL_BITS }];
            assert_eq!(remapped(&remote, of(from)[0]), expected, "{from:x}");
        }
    }

    proptest! {
        #[test]
        fn cubes_take_what_the_filter_takes(filter in filters(), word in words()) {
            let cubes = cubes_of(filter);
            let containing = cubes.iter().filter(|cube| cube.contains(word)).count();
            prop_assert_eq!(containing, usize::from(filter.matches(word)));
            for cube in cubes {
                prop_assert_eq!(cube.filter().matches(word), cube.contains(word));
            }
        }

        #[test]
        fn disjoint_cubes_take_what_the_rule_takes(
            filters in prop::collection::vec(filters(), 0..4),
            except in prop::collection::vec(filters(), 0..3),
            word in words(),
        ) {
            let rule = Rule { filters, except, ..Rule::new("", BusIndex(0), BusIndex(1)) };
            let frame = Frame::from_parts(word, &[], None).unwrap();
            let region = Region::from_rule(&rule);
            let cubes = region.disjoint(&mut Budget(1_000_000)).unwrap();
            let containing = cubes.iter().filter(|cube| cube.contains(word)).count();
            prop_assert_eq!(containing, usize::from(rule.matches(&frame)));
            prop_assert_eq!(region.is_empty(&mut Budget(1_000_000)), cubes.is_empty());
        }

        #[test]
        fn tables_map_cubes_as_they_map_frames(
            filter in filters(),
            word in words(),
            pairs in prop::collection::vec((words(), words()), 0..8),
            keeps_others in any::<bool>(),
        ) {
            let pairs = pairs.into_iter().map(|(from, to)| (from & !RTR_FLAG, to)).collect();
            let remap = Remap::new(pairs, keeps_others);
            let after = remap.find(word).or(keeps_others.then_some(word));
            let actions = [Action::Remap(remap)].into();
            let extension = Extension { actions, ..Extension::default() };
            let rule = Rule { extension, ..Rule::new("", BusIndex(0), BusIndex(1)) };
            for cube in cubes_of(filter).into_iter().filter(|cube| cube.contains(word)) {
                let cubes = rewritten(&rule, cube, &mut Budget(1_000)).unwrap();
                if let Some(after) = after {
                    prop_assert!(cubes.iter().any(|cube| cube.contains(after)), "{:x?}", cubes);
                }
                let is_one = cube.known == ALL_BITS;
                prop_assert!(!is_one || cubes.len() == usize::from(after.is_some()), "{:x?}", cubes);
            }
        }

        #[test]
        fn edits_map_cubes_as_they_map_frames(
            filter in filters(),
            word in words(),
            operands in prop::array::uniform4(prop::option::of(any::<u32>())),
        ) {
            let mut edit = Edit::default();
            for (operator, operand) in Operator::ALL.into_iter().zip(operands) {
                let can_id = operand.map(|word| word & !ERR_FLAG);
                *edit.operands_mut(operator) = Operands { can_id, ..Operands::default() };
            }
            let frame = Frame::from_parts(word, &[], None).unwrap();
            let after = edit.apply(&frame).unwrap().can_id();
            for cube in cubes_of(filter).into_iter().filter(|cube| cube.contains(word)) {
                prop_assert!(edited(&edit, cube).contains(after));
            }
        }
    }
}

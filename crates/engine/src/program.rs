//! [`Program`]: a table compiled so that deciding about a frame costs nearly the same for one rule
//! and for thousands.
//!
//! - A *standard* identifier has 2 x 2048 values (data and remote), so each bus has an array that
//!   gives the complete list of matching rules, whatever masks, ranges and exclusions they were
//!   written with. One look-up, always.
//! - For *extended* identifiers the filters of each distinct mask have a hash table (single
//!   identifiers are the mask of all bits). One look-up by the bits that the masks have in common
//!   tells which of these tables can match at all, usually one. Only masks with nothing in common
//!   cost a look-up each.
//! - *Inverted* filters match nearly everything, so they are walked one by one, as the kernel does.
//! - *Error reports* meet only the filters made for them.
//!
//! Compiling costs about 4096 comparisons per masked filter, which a swap of rules pays, not a
//! frame.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use candor_wire::Frame;
use candor_wire::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use crate::table::{Bus, BusIndex, Filter, Gate, List, Rule, Table};
use crate::{Edit, Extension};

/// A table compiled for deciding. Immutable; counters live in the engine.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) buses: Box<[Bus]>,
    pub(crate) rules: Box<[Compiled]>,
    /// Where the copies of each job go; apart from the jobs, so that a decision touches few bytes.
    pub(crate) targets: Box<[BusIndex]>,
    pub(crate) max_hops: u8,
    /// By rule.
    edits: Box<[Option<Box<Edit>>]>,
    /// By rule: what the kernel cannot do.
    extension: Box<[Option<Box<Extension>>]>,
    jobs: Box<[Job]>,
    /// Exclusions, rule by rule; standard identifiers have them worked in.
    except: Box<[Box<[Filter]>]>,
    matchers: Box<[Matcher]>,
}

/// A rule as the hot path needs it: in eight bytes, so that thousands fit the nearest cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled {
    first_job: u32,
    job_count: u16,
    /// 0 for none.
    pub(crate) limit_hops: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Compiled>() == 8);

impl Compiled {
    const CLASSICAL: u8 = 1;
    const FD: u8 = 2;
    const ECHO: u8 = 4;
    const KEEP_TIMESTAMP: u8 = 8;
    const ALLOW_RETURN: u8 = 16;
    /// [`Program::except`] has filters of it.
    const EXCEPT: u8 = 32;
    /// [`Program::edits`] has its edit; else frames pass as they are.
    const EDIT: u8 = 64;
    /// [`Program::extension`] has something for it.
    const EXTENSION: u8 = 128;

    fn new(rule: &Rule, jobs: core::ops::Range<usize>) -> Self {
        let gate = match rule.gate {
            Gate::Classical => Self::CLASSICAL,
            Gate::Fd => Self::FD,
            Gate::Any => Self::CLASSICAL | Self::FD,
        };
        let flags = [
            (rule.echo, Self::ECHO),
            (rule.keep_timestamp, Self::KEEP_TIMESTAMP),
            (rule.allow_return, Self::ALLOW_RETURN),
            (!rule.except.is_empty(), Self::EXCEPT),
            (rule.edit.modifies(), Self::EDIT),
            (!rule.extension.is_empty(), Self::EXTENSION),
        ];
        Self {
            first_job: jobs.start as u32,
            job_count: jobs.len() as u16,
            limit_hops: rule.limit_hops.unwrap_or(0),
            flags: flags.iter().filter(|(set, _)| *set).fold(gate, |all, (_, flag)| all | flag),
        }
    }

    #[inline]
    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) const fn takes(self, frame: &Frame) -> bool {
        self.has(if frame.is_fd() { Self::FD } else { Self::CLASSICAL })
    }

    #[inline]
    pub(crate) const fn echo(self) -> bool {
        self.has(Self::ECHO)
    }

    #[inline]
    pub(crate) const fn keep_timestamp(self) -> bool {
        self.has(Self::KEEP_TIMESTAMP)
    }

    #[inline]
    pub(crate) const fn allow_return(self) -> bool {
        self.has(Self::ALLOW_RETURN)
    }

    /// Its job, if it passes frames as they are to a single destination.
    #[inline]
    pub(crate) fn only_job(self) -> Option<u32> {
        let is_plain = self.job_count == 1 && self.flags & (Self::EDIT | Self::EXTENSION) == 0;
        is_plain.then_some(self.first_job)
    }

    #[inline]
    pub(crate) const fn is_extended(self) -> bool {
        self.has(Self::EXTENSION)
    }

    /// Its jobs, one per destination.
    #[inline]
    pub(crate) fn jobs(self) -> core::ops::Range<u32> {
        self.first_job..self.first_job + u32::from(self.job_count)
    }
}

/// One destination of a rule: what the kernel calls a job, with counters of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The rule's name.
    pub rule: String,
    /// The rule's place in its table.
    pub rule_index: u32,
    /// Where frames come from.
    pub from: BusIndex,
    /// Where copies go.
    pub to: BusIndex,
    /// Whether the rule rewrites the frame.
    pub modifies: bool,
}

/// Which job of a program; see [`Program::jobs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobIndex(pub u32);

/// A rule that matched, and where the kernel would have found it. The order is that of firing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Match {
    rule: u32,
    /// The list in the upper bits, the position in the others.
    place: u32,
}

impl Match {
    const POSITION_BITS: u32 = 29;
    const LISTS: [List; 6] =
        [List::Error, List::All, List::Masked, List::Inverted, List::Extended, List::Standard];

    fn new(list: List, rule: u32, position: u32) -> Self {
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
    fn counter(&mut self, list: List) -> Option<&mut u32> {
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

/// The rules of one bus.
#[derive(Clone, Debug)]
struct Matcher {
    /// For each standard identifier, data then remote: its list.
    standard: Box<[ShortRef]>,
    /// Match lists, each once; the first is empty.
    lists: Box<[ListRef]>,
    matches: Box<[Match]>,
    /// Filters for extended identifiers.
    clusters: Box<[Cluster]>,
    /// Filters that every frame with an extended identifier must be held against.
    inverted: Box<[(Filter, Match)]>,
    errors: Box<[(Filter, Match)]>,
    lengths: ListLengths,
}

/// A list of matches: a stretch of [`Matcher::matches`].
#[derive(Clone, Copy, Debug, Default)]
struct ListRef {
    start: u32,
    len: u32,
}

impl ListRef {
    #[inline]
    fn of(self, matches: &[Match]) -> &[Match] {
        matches
            .get(self.start as usize..)
            .and_then(|rest| rest.get(..self.len as usize))
            .unwrap_or(&[])
    }
}

/// A [`ListRef`] in half the room, for the array that is looked at with every frame: the place of a
/// list of one match, which is the usual one, or the number of any other list.
#[derive(Clone, Copy, Debug)]
struct ShortRef(u32);

impl ShortRef {
    /// Set for the place of a single match.
    const SINGLE: u32 = 1 << 31;

    const fn new(number: u32, list: ListRef) -> Self {
        if list.len == 1 && list.start < Self::SINGLE {
            Self(list.start | Self::SINGLE)
        } else {
            Self(number)
        }
    }

    #[inline]
    fn of(self, matcher: &Matcher) -> &[Match] {
        if self.0 & Self::SINGLE == 0 {
            return matcher.list(self.0);
        }
        let found = matcher.matches.get((self.0 & !Self::SINGLE) as usize);
        found.map_or(&[], core::slice::from_ref)
    }
}

/// Interns match lists while compiling.
struct ListBuilder {
    lists: Vec<ListRef>,
    matches: Vec<Match>,
    known: BTreeMap<Vec<Match>, u32>,
}

impl ListBuilder {
    /// Only the empty list, which is number 0.
    fn new() -> Self {
        let known = BTreeMap::from([(Vec::new(), 0)]);
        Self { lists: [ListRef::default()].into(), matches: Vec::new(), known }
    }

    /// The number of a list.
    fn intern(&mut self, mut list: Vec<Match>) -> u32 {
        list.sort_unstable();
        if let Some(&known) = self.known.get(&list) {
            return known;
        }
        let number = self.lists.len() as u32;
        self.lists.push(ListRef { start: self.matches.len() as u32, len: list.len() as u32 });
        self.matches.extend_from_slice(&list);
        self.known.insert(list, number);
        number
    }

    fn short(&mut self, list: Vec<Match>) -> ShortRef {
        let number = self.intern(list);
        let list = self.lists.get(number as usize).copied().unwrap_or_default();
        ShortRef::new(number, list)
    }
}

/// Filters for extended identifiers with at most [`Cluster::MOST`] different masks.
///
/// Looking at every mask would cost a frame a look-up each. The bits that all masks have in common
/// tell beforehand which of them can match at all, in one look-up: usually one, or none.
#[derive(Clone, Debug)]
struct Cluster {
    /// By the common bits of an identifier: which of `groups` may match, as bits.
    candidates: Hash<u64>,
    /// For each mask, by the bits of the identifier under it: a [`ShortRef`].
    groups: Box<[Hash<u32>]>,
}

impl Cluster {
    /// As many as there are bits in a set of candidates.
    const MOST: usize = u64::BITS as usize;

    fn new(groups: &[(u32, Vec<(u32, u32)>)]) -> Self {
        let common = groups.iter().fold(u32::MAX, |common, (mask, _)| common & mask);
        let mut candidates: BTreeMap<u32, u64> = BTreeMap::new();
        for (bit, (_, entries)) in groups.iter().enumerate() {
            for &(key, _) in entries {
                *candidates.entry(key & common).or_default() |= 1 << bit;
            }
        }
        let candidates: Vec<_> = candidates.into_iter().collect();
        Self {
            candidates: Hash::new(common, &candidates),
            groups: groups.iter().map(|(mask, entries)| Hash::new(*mask, entries)).collect(),
        }
    }

    /// The lists of this cluster for an identifier word.
    #[inline]
    fn find(&self, can_id: u32, mut found: impl FnMut(u32)) {
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

/// A value of a [`Hash`]: zero stands for none.
trait Number: Copy + Default + core::ops::BitOr<Output = Self> {
    /// Itself or zero, without a branch.
    fn if_true(self, condition: bool) -> Self;
}

impl Number for u32 {
    #[inline]
    fn if_true(self, condition: bool) -> Self {
        self & Self::from(condition).wrapping_neg()
    }
}

impl Number for u64 {
    #[inline]
    fn if_true(self, condition: bool) -> Self {
        self & Self::from(condition).wrapping_neg()
    }
}

/// Numbers by the bits of an identifier word under a mask: a cuckoo hash table. A key stands in one
/// of two slots, so that a look-up is two reads and no loop, whether it finds something or not.
#[derive(Clone, Debug)]
struct Hash<V> {
    mask: u32,
    shift: u32,
    /// Key and value. The word of an extended identifier never is [`Hash::FREE`], so that marks a
    /// free slot.
    slots: Box<[(u32, V)]>,
}

impl<V: Number> Hash<V> {
    const FREE: u32 = 0;
    /// Odd multipliers (Fibonacci hashing: 2^32 over the golden ratio, and another of no relation)
    /// whose products' high bits choose the slots.
    const MULTIPLIERS: [u32; 2] = [0x9E37_79B9, 0x85EB_CA6B];

    /// A table for `entries`, whose keys are distinct and extended.
    fn new(mask: u32, entries: &[(u32, V)]) -> Self {
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
    const fn slot(key: u32, which: usize, shift: u32) -> usize {
        (key.wrapping_mul(Self::MULTIPLIERS[which]) >> shift) as usize
    }

    /// The value for an identifier word, 0 if there is none.
    ///
    /// Which of the two slots it is cannot be predicted, so it is selected by arithmetic.
    #[inline]
    fn find(&self, can_id: u32) -> V {
        let key = can_id & self.mask;
        let value = |which| {
            let slot = self.slots.get(Self::slot(key, which, self.shift));
            slot.map_or(V::default(), |&(found, value)| value.if_true(found == key))
        };
        value(0) | value(1)
    }
}

const STANDARD_IDS: usize = 2 * (SFF_MASK as usize + 1);

/// Where a standard identifier stands in [`Matcher::standard`]: remote frames in the upper half.
#[inline]
const fn standard_slot(can_id: u32) -> usize {
    (can_id & SFF_MASK | (can_id & RTR_FLAG) >> 19) as usize
}

impl Matcher {
    /// The list of that number.
    #[inline]
    fn list(&self, number: u32) -> &[Match] {
        self.lists.get(number as usize).map_or(&[], |list| list.of(&self.matches))
    }

    fn new(rules: &[(u32, &Rule)]) -> Self {
        let mut lengths = ListLengths::default();
        let mut standard: Vec<Vec<Match>> = alloc::vec![Vec::new(); STANDARD_IDS];
        let mut extended: BTreeMap<u32, BTreeMap<u32, Vec<Match>>> = BTreeMap::new();
        let (mut inverted, mut errors) = (Vec::new(), Vec::new());

        for &(index, rule) in rules {
            let any = [Filter::ANY];
            let filters = if rule.filters.is_empty() { &any[..] } else { &rule.filters };
            for filter in filters.iter().map(|filter| filter.normalized()) {
                let list = filter.list();
                let mut position = 0;
                if let Some(counter) = lengths.counter(list) {
                    position = *counter;
                    *counter += 1;
                }
                let found = Match::new(list, index, position);
                match list {
                    List::Error => {
                        errors.push((filter, found));
                        continue;
                    }
                    List::Standard => {
                        add(
                            &mut standard[standard_slot(filter.can_id)],
                            found,
                            rule,
                            filter.can_id,
                        );
                        continue;
                    }
                    _ => {}
                }
                if list != List::Extended {
                    for (slot, matches) in standard.iter_mut().enumerate() {
                        let can_id = slot as u32 & SFF_MASK | (slot as u32 & !SFF_MASK) << 19;
                        if filter.matches(can_id) {
                            add(matches, found, rule, can_id);
                        }
                    }
                }
                if filter.inverted {
                    inverted.push((filter, found));
                } else if filter.mask & EFF_FLAG == 0 || filter.can_id & EFF_FLAG != 0 {
                    // The frames looked up here all have the flag, so comparing it is free and
                    // masks that differ only there share a table.
                    let matches = extended
                        .entry(filter.mask | EFF_FLAG)
                        .or_default()
                        .entry(filter.can_id | EFF_FLAG)
                        .or_default();
                    keep_first(matches, found);
                }
            }
        }

        let mut lists = ListBuilder::new();
        let standard = standard.into_iter().map(|matches| lists.short(matches)).collect();
        // In the order of the masks, so that those of a cluster have much in common.
        let groups: Vec<(u32, Vec<_>)> = extended
            .into_iter()
            .map(|(mask, entries)| {
                let short = |(key, matches)| (key, lists.short(matches).0);
                (mask, entries.into_iter().map(short).collect())
            })
            .collect();
        Self {
            standard,
            lists: lists.lists.into(),
            matches: lists.matches.into(),
            clusters: groups.chunks(Cluster::MOST).map(Cluster::new).collect(),
            inverted: inverted.into(),
            errors: errors.into(),
            lengths,
        }
    }
}

/// Adds a match for a standard identifier unless the rule excludes it.
fn add(matches: &mut Vec<Match>, found: Match, rule: &Rule, can_id: u32) {
    if !rule.except.iter().any(|filter| filter.matches(can_id)) {
        keep_first(matches, found);
    }
}

/// A rule fires once per frame, from the first list in which it is found.
fn keep_first(matches: &mut Vec<Match>, found: Match) {
    match matches.iter_mut().find(|earlier| earlier.rule == found.rule) {
        Some(earlier) => *earlier = (*earlier).min(found),
        None => matches.push(found),
    }
}

impl Program {
    /// Compiles `table`. Indices of buses that the table does not have are taken as buses without
    /// rules; destinations that do not exist are left out.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        let (mut jobs, mut edits) = (Vec::new(), Vec::new());
        let mut rules = Vec::with_capacity(table.rules.len());
        for (index, rule) in table.rules.iter().enumerate() {
            let first_job = jobs.len();
            let known = rule.to.iter().filter(|to| usize::from(to.0) < table.buses.len());
            let known = known.take(usize::from(u16::MAX));
            jobs.extend(known.map(|&to| Job {
                rule: rule.name.clone(),
                rule_index: index as u32,
                from: rule.from,
                to,
                modifies: rule.edit.modifies() || !rule.extension.actions.is_empty(),
            }));
            rules.push(Compiled::new(rule, first_job..jobs.len()));
            edits.push(rule.edit.modifies().then(|| Box::new(rule.edit.clone())));
        }
        let matchers = (0..table.buses.len())
            .map(|bus| {
                let of_bus: Vec<_> = (0_u32..)
                    .zip(&table.rules)
                    .filter(|(_, rule)| usize::from(rule.from.0) == bus)
                    .collect();
                Matcher::new(&of_bus)
            })
            .collect();
        Self {
            buses: table.buses.clone().into(),
            rules: rules.into(),
            targets: jobs.iter().map(|job: &Job| job.to).collect(),
            jobs: jobs.into(),
            edits: edits.into(),
            extension: table
                .rules
                .iter()
                .map(|rule| {
                    let mut extension = rule.extension.clone();
                    extension.pace.ids = rule.remembered_ids();
                    (!rule.extension.is_empty()).then(|| Box::new(extension))
                })
                .collect(),
            except: table.rules.iter().map(|rule| rule.except.clone().into()).collect(),
            max_hops: table.effective_max_hops(),
            matchers,
        }
    }

    /// The buses, in the order of [`BusIndex`].
    #[must_use]
    pub fn buses(&self) -> &[Bus] {
        &self.buses
    }

    /// The destinations of all rules; counters have the same order.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How long the kernel's receive lists of `bus` would be with these rules.
    #[must_use]
    pub fn list_lengths(&self, bus: BusIndex) -> ListLengths {
        self.matchers.get(usize::from(bus.0)).map_or_else(ListLengths::default, |m| m.lengths)
    }

    /// The rules whose filters match a frame with this identifier word on `bus`, in the order in
    /// which the kernel would fire them. `scratch` lends room and must have the capacity of
    /// [`Program::scratch`].
    #[inline]
    pub(crate) fn matches<'a>(
        &'a self,
        bus: BusIndex,
        can_id: u32,
        scratch: &'a mut Vec<Match>,
    ) -> &'a [Match] {
        let Some(matcher) = self.matchers.get(usize::from(bus.0)) else { return &[] };
        if can_id & (EFF_FLAG | ERR_FLAG) == 0 {
            let list = matcher.standard.get(standard_slot(can_id));
            return list.map_or(&[], |list| list.of(matcher));
        }
        self.extended_matches(matcher, can_id, scratch)
    }

    fn extended_matches<'a>(
        &'a self,
        matcher: &'a Matcher,
        can_id: u32,
        scratch: &'a mut Vec<Match>,
    ) -> &'a [Match] {
        scratch.clear();
        if can_id & ERR_FLAG != 0 {
            let reports = matcher.errors.iter().filter(|(filter, _)| filter.matches(can_id));
            scratch.extend(reports.map(|(_, found)| *found));
        } else {
            let mut only: &[Match] = &[];
            for cluster in &matcher.clusters {
                cluster.find(can_id, |number| {
                    let list = ShortRef(number).of(matcher);
                    if only.is_empty() {
                        only = list;
                    } else {
                        scratch.extend_from_slice(list);
                    }
                });
            }
            let inverted = matcher.inverted.iter().filter(|(filter, _)| filter.matches(can_id));
            scratch.extend(inverted.map(|(_, found)| *found));
            // The common case needs no copy: one table matched and nothing is excluded.
            let excludes = |found: &Match| {
                self.rules.get(found.rule as usize).is_some_and(|rule| rule.has(Compiled::EXCEPT))
            };
            if scratch.is_empty() && !only.iter().any(excludes) {
                return only;
            }
            scratch.extend_from_slice(only);
        }
        scratch.retain(|found| {
            self.except
                .get(found.rule as usize)
                .is_some_and(|except| !except.iter().any(|filter| filter.matches(can_id)))
        });
        scratch.sort_unstable();
        // A rule found in several tables fires once, from the first.
        let mut kept = 0;
        for index in 0..scratch.len() {
            let found = scratch[index];
            if !scratch[..kept].iter().any(|earlier| earlier.rule == found.rule) {
                scratch[kept] = found;
                kept += 1;
            }
        }
        scratch.truncate(kept);
        scratch
    }

    /// The edit of a rule.
    #[inline]
    pub(crate) fn edit(&self, rule: u32) -> Option<&Edit> {
        let is_edited = self.rules.get(rule as usize).is_some_and(|rule| rule.has(Compiled::EDIT));
        if is_edited { self.edits.get(rule as usize)?.as_deref() } else { None }
    }

    /// The bus that a rule takes frames from; nothing if it has no destination.
    pub(crate) fn source(&self, rule: u32) -> Option<BusIndex> {
        let job = self.rules.get(rule as usize)?.jobs().next()?;
        self.jobs.get(job as usize).map(|job| job.from)
    }

    /// Whether rules for the frames of `bus` need to know the time.
    #[must_use]
    pub fn needs_time(&self, bus: BusIndex) -> bool {
        let of_bus = (0..self.rules.len() as u32).filter(|&rule| self.source(rule) == Some(bus));
        of_bus.filter_map(|rule| self.extension(rule)).any(|extension| extension.pace.needs_time())
    }

    /// What a rule does that the kernel cannot.
    pub(crate) fn extension(&self, rule: u32) -> Option<&Extension> {
        self.extension.get(rule as usize)?.as_deref()
    }

    /// Room for the matches of any one frame.
    #[must_use]
    pub(crate) fn scratch(&self) -> Vec<Match> {
        let most = |matcher: &Matcher| {
            let longest = |group: &Hash<u32>| {
                let lists = group.slots.iter().map(|&(_, list)| ShortRef(list).of(matcher).len());
                lists.max().unwrap_or(0)
            };
            let groups = matcher.clusters.iter().flat_map(|cluster| &cluster.groups);
            let of_groups: usize = groups.map(longest).sum();
            of_groups + matcher.inverted.len() + matcher.errors.len()
        };
        Vec::with_capacity(self.matchers.iter().map(most).max().unwrap_or(0))
    }
}

const _: () = assert!(standard_slot(RTR_FLAG | SFF_MASK) == STANDARD_IDS - 1);
const _: () = assert!(EFF_MASK & EFF_FLAG == 0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::pace::{OnChange, Pace};
    use crate::{Bus, Extension, Rule};

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

    #[test]
    fn the_time_is_needed_where_rules_depend_on_it() {
        let [a, b, c, d] = [0, 1, 2, 3].map(BusIndex);
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let paced = |pace| Extension { pace, ..Extension::default() };
        let on_change = |at_least_every_ns| {
            let change = OnChange { mask: Box::new([0xFF; 64]), at_least_every_ns };
            paced(Pace { on_change: Some(change), ..Pace::default() })
        };
        let rules = [
            Rule { extension: paced(Pace { every: 2, ..Pace::default() }), ..Rule::new("", a, b) },
            Rule {
                extension: paced(Pace { interval_ns: 5, ..Pace::default() }),
                ..Rule::new("", b, a)
            },
            Rule { extension: on_change(0), ..Rule::new("", c, a) },
            Rule { extension: on_change(1), ..Rule::new("", d, a) },
        ];
        let buses = [bus("a"), bus("b"), bus("c"), bus("d")].into();
        let table = Table { buses, rules: rules.into(), ..Table::default() };
        let program = Program::new(&table);
        assert_eq!([a, b, c, d].map(|bus| program.needs_time(bus)), [false, true, false, true]);
    }

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

//! [`diff`]: which frames of two recordings are the same, and how far their clocks run apart.
//!
//! ```text
//!  A: frames --+   Stream, one by interface                             +-- both: offsets of B's clock from A's -> Clocks
//!              +-> align: in their order -> place: by their times,  ----+
//!  B: frames --+   where order does not tell -> displaced: nearby       +-- only in A, only in B
//! ```
//!
//! A key is what is the same in both: interface, identifier, kind, flags and data. The order of frames decides which are the same, within an
//! interface, since nothing that delays a bus, a recorder or its clock changes it. Times tell only which of equal frames are missing, and
//! which recording is behind where nothing else is in common.

mod align;
mod clocks;
mod place;
mod start;
mod stream;

use std::collections::{BTreeMap, HashSet, VecDeque};

use candor_wire::can::frame::ERR_FLAG;
use candor_wire::can::{Frame, Kind};

pub use self::clocks::Clocks;
use self::clocks::Follower;
pub use self::start::{HEAD_FRAMES, START_SPREAD_NS};
use self::stream::{Stream, Told};
use crate::record::{Direction, InterfaceIndex};

/// So many frames of each recording wait for those of the other at most.
pub const MAX_PENDING: usize = 65_536;
/// So many frames of an interface may stand between the places of a frame in both recordings if its order is another one: 2 s of a bus with
/// 500 kbit/s that is always busy.
pub(crate) const MAX_DISPLACEMENT: u64 = 8_192;

/// One of two recordings that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first one, whose clock is the reference.
    A,
    /// The second one.
    B,
}

impl Side {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The one that it is not.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The letter for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// A frame as one of the recordings has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which of the frames of its recording it is; they count from 1.
    pub number: u64,
    /// Its stamp, in nanoseconds.
    pub time_ns: u64,
    /// Its interface, in a numbering that both recordings share.
    pub interface: InterfaceIndex,
    /// Which way it went, which is not compared.
    pub direction: Option<Direction>,
    /// The frame.
    pub frame: Frame,
}

/// How recordings are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Frames are late whose times are farther apart, in nanoseconds, besides what the clocks differ by; nothing: none is.
    pub within_ns: Option<u64>,
    /// What B's clock shows when A's shows 0, in nanoseconds; nothing: it is found by frames at the start of both.
    pub offset_ns: Option<i64>,
    /// Whether frames of different interfaces may be the same.
    pub any_interface: bool,
    /// Whether error reports say only that there was an error.
    pub any_report: bool,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Frames that both recordings have.
    pub both: u64,
    /// Frames that only A, only B has.
    pub only: [u64; 2],
    /// Those of both that come in another order.
    pub displaced: u64,
    /// Those of both whose times are farther apart than may be.
    pub late: u64,
    /// Frames that only one has, as far as was looked: they were given up because too many waited ([`MAX_PENDING`]).
    pub crowded_out: [u64; 2],
    /// Whether the starts have frames in common, but no name of an interface.
    pub has_other_names: bool,
    /// Frames that are stamped earlier than the one before.
    pub backwards: [u64; 2],
    /// Whether the starts did not tell the offset of the clocks, and they were taken to show the same.
    pub is_unsynchronised: bool,
    /// How the clocks run, by the frames that both have.
    pub clocks: Clocks,
}

impl Differences {
    /// Whether both recordings have the same frames, and none is late.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.only[0] == 0 && self.only[1] == 0 && self.late == 0
    }
}

/// Compares two recordings; `only` is told each frame that one has and the other has not, in order of time as far as they are.
///
/// In memory are up to [`MAX_PENDING`] frames of each that wait for the other one, so many that both have, and as many that only one has.
///
/// # Errors
/// That of a recording, or of `only`.
pub fn diff<E>(
    a: impl Iterator<Item = Result<Sighting, E>>,
    b: impl Iterator<Item = Result<Sighting, E>>,
    comparison: Comparison,
    mut only: impl FnMut(Side, &Sighting) -> Result<(), E>,
) -> Result<Differences, E> {
    let (mut a, mut b) = (a, b);
    let mut heads = [VecDeque::new(), VecDeque::new()];
    for _ in 0..HEAD_FRAMES {
        let (next_a, next_b) = (a.next().transpose()?, b.next().transpose()?);
        if next_a.is_none() && next_b.is_none() {
            break;
        }
        heads[0].extend(next_a);
        heads[1].extend(next_b);
    }
    let mut matcher = Matcher::new(comparison, &heads);
    while let Some(side) = matcher.next_side() {
        let next = match heads[side as usize].pop_front() {
            Some(sighting) => Some(sighting),
            None if side == Side::A => a.next().transpose()?,
            None => b.next().transpose()?,
        };
        match next {
            Some(sighting) => matcher.take(side, sighting),
            None => matcher.end(side),
        }
        while let Some((side, sighting)) = matcher.results.pop_lost() {
            only(side, &sighting)?;
        }
    }
    Ok(matcher.results.found)
}

/// What is the same in both recordings.
type Key = (InterfaceIndex, Frame);

impl Comparison {
    fn key(&self, sighting: &Sighting) -> Key {
        let interface = if self.any_interface { InterfaceIndex(0) } else { sighting.interface };
        let frame = match sighting.frame.kind() {
            Kind::Error if self.any_report => Frame::from_parts(ERR_FLAG, &[0; 8], None),
            _ => Ok(sighting.frame),
        };
        (interface, frame.unwrap_or(sighting.frame))
    }
}

/// What is known of one recording.
#[derive(Default)]
struct Half {
    is_over: bool,
    /// How many frames were read.
    read: u64,
    /// How many of them wait for the other recording.
    waiting: usize,
    /// The stamp of the newest frame.
    latest_ns: Option<u64>,
}

struct Matcher {
    comparison: Comparison,
    halves: [Half; 2],
    /// What the clocks differ by at the start.
    clock: Follower,
    /// By interface.
    streams: BTreeMap<InterfaceIndex, Stream>,
    results: Results,
}

impl Matcher {
    fn new(comparison: Comparison, heads: &[VecDeque<Sighting>; 2]) -> Self {
        let start = start::offset(heads, |sighting| comparison.key(sighting));
        let given = comparison.offset_ns.map(|offset_ns| (offset_ns.into(), true));
        let offset = given.or(start);
        let (offset_ns, is_exact) = offset.unwrap_or_default();
        let found = Differences {
            is_unsynchronised: offset.is_none(),
            has_other_names: !comparison.any_interface && has_other_names(heads),
            ..Differences::default()
        };
        Self {
            comparison,
            halves: Default::default(),
            clock: Follower::new(offset_ns, is_exact),
            streams: BTreeMap::new(),
            results: Results {
                within_ns: comparison.within_ns,
                found,
                lost: BTreeMap::new(),
                known: (i128::MIN, 0),
            },
        }
    }

    /// The recording that is to be read on: of which fewer frames wait. Nothing if both have ended.
    fn next_side(&self) -> Option<Side> {
        let is_open = |side: &Side| !self.halves[*side as usize].is_over;
        Side::ALL.into_iter().filter(is_open).min_by_key(|&side| self.halves[side as usize].waiting)
    }

    fn take(&mut self, side: Side, sighting: Sighting) {
        let half = &mut self.halves[side as usize];
        let is_back = half.latest_ns.is_some_and(|latest| sighting.time_ns < latest);
        self.results.found.backwards[side as usize] += u64::from(is_back);
        half.latest_ns = Some(sighting.time_ns);
        half.read += 1;
        half.waiting += 1;
        let (interface, _) = self.comparison.key(&sighting);
        let clock = self.clock;
        let stream = self.streams.entry(interface).or_insert_with(|| Stream::new(clock));
        stream.take(side, sighting);
        self.advance(interface, Stream::advance);
        while let Some(interface) = self.crowded() {
            self.advance(interface, Stream::decide);
        }
        self.results.known.1 += 1;
        if self.results.known.1 > MAX_PENDING / 64 {
            let earliest = self.streams.values().filter_map(Stream::earliest).min();
            self.results.known = (earliest.unwrap_or(i128::MIN), 0);
        }
    }

    /// The interface whose frames wait longest, if no more can wait of the recordings that go on.
    fn crowded(&self) -> Option<InterfaceIndex> {
        let next = self.next_side()?;
        if self.halves[next as usize].waiting < MAX_PENDING {
            return None;
        }
        let age = |stream: &Stream| {
            let ages = Side::ALL
                .map(|side| Some(self.halves[side as usize].read - stream.first_number(side)?));
            ages.into_iter().max().flatten()
        };
        let oldest = self.streams.iter().max_by_key(|(_, stream)| age(stream));
        oldest.map(|(&interface, _)| interface)
    }

    fn advance(
        &mut self,
        interface: InterfaceIndex,
        how: impl FnOnce(&mut Stream, [bool; 2], &Comparison),
    ) {
        let kept = MAX_PENDING / self.streams.len().max(1);
        let is_over = self.halves.each_ref().map(|half| half.is_over);
        let Some(stream) = self.streams.get_mut(&interface) else { return };
        let before = stream.waiting();
        how(stream, is_over, &self.comparison);
        let after = stream.waiting();
        for (place, half) in self.halves.iter_mut().enumerate() {
            half.waiting -= before[place] - after[place];
        }
        stream.drain(kept, &self.comparison, &mut |told| self.results.take(told));
    }

    fn end(&mut self, side: Side) {
        self.halves[side as usize].is_over = true;
        let interfaces: Vec<_> = self.streams.keys().copied().collect();
        interfaces.into_iter().for_each(|interface| self.advance(interface, Stream::advance));
        if self.halves.iter().any(|half| !half.is_over) {
            return;
        }
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            stream.finish(&self.comparison, &mut |told| self.results.take(told));
            if stream.is_seen == [true; 2] {
                let counts = self.results.found.crowded_out.iter_mut().zip(stream.crowded_out);
                counts.for_each(|(all, count)| *all += count);
            }
        }
        self.results.known.0 = i128::MAX;
    }
}

/// Whether both have the same frames, but none on an interface of the same name.
fn has_other_names(heads: &[VecDeque<Sighting>; 2]) -> bool {
    let names =
        heads.each_ref().map(|head| head.iter().map(|it| it.interface).collect::<HashSet<_>>());
    let frames =
        heads.each_ref().map(|head| head.iter().map(|it| it.frame).collect::<HashSet<_>>());
    names[0].is_disjoint(&names[1]) && !frames[0].is_disjoint(&frames[1])
}

struct Results {
    within_ns: Option<u64>,
    found: Differences,
    /// Frames that only one has, by time of A's clock, recording and number, until no earlier one is found.
    lost: BTreeMap<(i128, u8, u64), (Side, Sighting)>,
    /// The time of A's clock before which all of them are known, and how many frames ago that was found out.
    known: (i128, usize),
}

impl Results {
    fn take(&mut self, told: Told) {
        let found = &mut self.found;
        match told {
            Told::Both { a, b, off_ns, is_displaced } => {
                found.both += 1;
                found.displaced += u64::from(is_displaced);
                let is_late = |within: u64| off_ns.unsigned_abs() > u128::from(within);
                found.late += u64::from(self.within_ns.is_some_and(is_late));
                found.clocks.add(a.time_ns, clocks::offset_ns(&a, &b));
            }
            Told::Only { side, sighting, on_a_ns } => {
                found.only[side as usize] += 1;
                self.lost.insert((on_a_ns, side as u8, sighting.number), (side, sighting));
            }
        }
    }

    /// The earliest frame that only one has, unless an earlier one may still be found.
    fn pop_lost(&mut self) -> Option<(Side, Sighting)> {
        let (&(time, ..), _) = self.lost.first_key_value()?;
        let is_sure = time < self.known.0 || self.lost.len() > MAX_PENDING;
        is_sure.then(|| self.lost.pop_first().map(|(_, lost)| lost))?
    }
}

#[cfg(test)]
mod tests;

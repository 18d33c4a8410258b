//! [`diff`]: which frames of two recordings are the same, and how far their clocks run apart.
//!
//! ```text
//!  A: frames in order of time --+                +-- both: offsets of B's clock from A's -> Clocks
//!                               +-> by key, in --+
//!  B: the same, on A's clock  --+   a window     +-- only in A, only in B
//! ```
//!
//! A key is what is the same in both: interface, identifier, kind, flags and data. Of each key the frames of A and of B are
//! aligned in their order; if one of them lacks some, those are taken to lack that make the times of the others agree best.

mod align;
mod clocks;
mod start;

use std::collections::{BTreeMap, HashMap, VecDeque};

use candor_wire::can::frame::ERR_FLAG;
use candor_wire::can::{Frame, Kind};

use self::align::{Decision, Fronts, decide};
pub use self::clocks::Clocks;
pub use self::start::{HEAD_FRAMES, START_SPREAD_NS};
use crate::record::{Direction, InterfaceIndex};

/// So many frames of each recording wait for those of the other at most, whatever the window.
pub const MAX_PENDING: usize = 65_536;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How far the times of the same frame may be apart, in nanoseconds, once the clocks were set by the frames before.
    pub within_ns: u64,
    /// What B's clock shows when A's shows 0, in nanoseconds; nothing: it is found by frames at the start of both.
    pub offset_ns: Option<i64>,
    /// Whether frames of different interfaces may be the same.
    pub any_interface: bool,
    /// Whether error reports say only that there was an error.
    pub any_report: bool,
}

impl Default for Comparison {
    /// Within 1 s.
    fn default() -> Self {
        let (any_interface, any_report) = (false, false);
        Self { within_ns: 1_000_000_000, offset_ns: None, any_interface, any_report }
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Frames that both recordings have.
    pub both: u64,
    /// Frames that only A, only B has.
    pub only: [u64; 2],
    /// Those of them that were given up because too many waited ([`MAX_PENDING`]).
    pub crowded_out: [u64; 2],
    /// Frames that are stamped earlier than the one before.
    pub backwards: [u64; 2],
    /// Whether the starts did not tell the offset of the clocks, and they were taken to show the same.
    pub is_unsynchronised: bool,
    /// How the clocks run, by the frames that both have.
    pub clocks: Clocks,
}

impl Differences {
    /// Whether both recordings have the same frames.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.only[0] == 0 && self.only[1] == 0
    }
}

/// Compares two recordings; `only` is told each frame that one has and the other has not, in order of time.
///
/// At the start up to [`HEAD_FRAMES`] frames of each are in memory; then up to [`MAX_PENDING`] of each that wait, and as many that only
/// one has. Both recordings should be in order
/// of time; where they are not, frames may be missed.
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
    let mut matcher = Matcher::new(comparison);
    if comparison.offset_ns.is_none() {
        for _ in 0..HEAD_FRAMES {
            let (next_a, next_b) = (a.next().transpose()?, b.next().transpose()?);
            if next_a.is_none() && next_b.is_none() {
                break;
            }
            heads[0].extend(next_a);
            heads[1].extend(next_b);
        }
        let found = start::offset(&heads, |sighting| comparison.key(sighting));
        matcher.offset_ns = found.unwrap_or(0);
        matcher.found.is_unsynchronised = found.is_none();
    }
    while let Some(side) = matcher.next_side() {
        let next = match heads[side as usize].pop_front() {
            Some(sighting) => Some(sighting),
            None if side == Side::A => a.next().transpose()?,
            None => b.next().transpose()?,
        };
        match next {
            Some(sighting) => matcher.take(side, sighting),
            None => matcher.halves[side as usize].is_over = true,
        }
        matcher.advance();
        while let Some((side, sighting)) = matcher.pop_lost() {
            only(side, &sighting)?;
        }
    }
    Ok(matcher.found)
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

/// Frames with one key that wait, by recording.
#[derive(Default)]
struct Waiting {
    queues: [VecDeque<Sighting>; 2],
    /// Where it stands in [`Matcher::due`].
    due: Option<(i128, u64)>,
}

/// What is known of one recording.
#[derive(Default)]
struct Half {
    is_over: bool,
    /// The stamp of the newest frame.
    latest_ns: Option<u64>,
    /// All frames that wait, by stamp and number.
    order: BTreeMap<(u64, u64), Key>,
}

/// Times are those of A's clock unless they are stamps.
struct Matcher {
    comparison: Comparison,
    /// By how much B's clock is ahead now.
    offset_ns: i128,
    halves: [Half; 2],
    waiting: HashMap<Key, Waiting>,
    /// When which frames can be decided on, and a number that makes it unique.
    due: BTreeMap<(i128, u64), Key>,
    serial: u64,
    /// Frames that only one has, by time, recording and number, until no earlier one is found.
    lost: BTreeMap<(i128, u8, u64), (Side, Sighting)>,
    found: Differences,
}

impl Matcher {
    fn new(comparison: Comparison) -> Self {
        Self {
            comparison,
            offset_ns: comparison.offset_ns.map_or(0, i128::from),
            halves: Default::default(),
            waiting: HashMap::new(),
            due: BTreeMap::new(),
            serial: 0,
            lost: BTreeMap::new(),
            found: Differences::default(),
        }
    }

    fn on_a(&self, side: Side, stamp_ns: u64) -> i128 {
        i128::from(stamp_ns) - if side == Side::B { self.offset_ns } else { 0 }
    }

    /// How far a recording was read.
    fn progress(&self, side: Side) -> i128 {
        let half = &self.halves[side as usize];
        match half.latest_ns {
            _ if half.is_over => i128::MAX,
            Some(stamp_ns) => self.on_a(side, stamp_ns),
            None => i128::MIN,
        }
    }

    /// How far both were read.
    fn now(&self) -> i128 {
        self.progress(Side::A).min(self.progress(Side::B))
    }

    /// The recording that is to be read on.
    fn next_side(&self) -> Option<Side> {
        let [a, b] = Side::ALL.map(|side| self.progress(side));
        if a == i128::MAX && b == i128::MAX {
            return None;
        }
        Some(if a <= b { Side::A } else { Side::B })
    }

    fn take(&mut self, side: Side, sighting: Sighting) {
        let place = side as usize;
        let key = self.comparison.key(&sighting);
        let half = &mut self.halves[place];
        let is_back = half.latest_ns.is_some_and(|latest| sighting.time_ns < latest);
        self.found.backwards[place] += u64::from(is_back);
        half.latest_ns = Some(sighting.time_ns);
        half.order.insert((sighting.time_ns, sighting.number), key);
        self.waiting.entry(key).or_default().queues[place].push_back(sighting);
        self.settle(&key, usize::MAX, self.now());
        while self.halves[place].order.len() > MAX_PENDING {
            let before = self.found.only[place];
            let Some((_, &key)) = self.halves[place].order.first_key_value() else { break };
            self.settle(&key, 1, i128::MAX);
            self.found.crowded_out[place] += self.found.only[place] - before;
        }
    }

    /// Decides on all that can be decided on by now.
    fn advance(&mut self) {
        let now = self.now();
        while let Some((&(at, _), &key)) = self.due.first_key_value()
            && at <= now
        {
            self.settle(&key, usize::MAX, now);
        }
        for side in Side::ALL {
            while let Some((&first, &key)) = self.halves[side as usize].order.first_key_value()
                && self.on_a(side, first.0) + i128::from(self.comparison.within_ns) < now
            {
                self.settle(&key, usize::MAX, now);
                let next = self.halves[side as usize].order.first_key_value();
                if next.is_some_and(|(&next, _)| next == first) {
                    break;
                }
            }
        }
    }

    /// Makes so many decisions about the frames with a key, as far as that can be done when both recordings were read up to `now`.
    fn settle(&mut self, key: &Key, decisions: usize, now: i128) {
        let Some(mut waiting) = self.waiting.remove(key) else { return };
        if let Some(due) = waiting.due.take() {
            self.due.remove(&due);
        }
        for _ in 0..decisions {
            let [a, b] = &waiting.queues;
            let fronts = Fronts {
                a,
                b,
                offset_ns: self.offset_ns,
                within_ns: self.comparison.within_ns.into(),
                now,
            };
            let Some(decision) = decide(&fronts) else { break };
            match decision {
                Decision::Wait(at) => {
                    self.serial += 1;
                    waiting.due = Some((at, self.serial));
                    self.due.insert((at, self.serial), *key);
                    break;
                }
                Decision::Only(side) => {
                    if let Some(lost) = self.pop(&mut waiting, side) {
                        self.found.only[side as usize] += 1;
                        let place = (self.on_a(side, lost.time_ns), side as u8, lost.number);
                        self.lost.insert(place, (side, lost));
                    }
                }
                Decision::Both => {
                    let both = Side::ALL.map(|side| self.pop(&mut waiting, side));
                    if let [Some(a), Some(b)] = both {
                        self.match_up(&a, &b);
                    }
                }
            }
        }
        if waiting.queues.iter().any(|queue| !queue.is_empty()) {
            self.waiting.insert(*key, waiting);
        }
    }

    fn pop(&mut self, waiting: &mut Waiting, side: Side) -> Option<Sighting> {
        let sighting = waiting.queues[side as usize].pop_front()?;
        self.halves[side as usize].order.remove(&(sighting.time_ns, sighting.number));
        Some(sighting)
    }

    /// The earliest frame that only one has, unless an earlier one may still be found.
    fn pop_lost(&mut self) -> Option<(Side, Sighting)> {
        let (&(time, ..), _) = self.lost.first_key_value()?;
        // That the last ones are the same is told after twice the window at most.
        let is_sure = time + 3 * i128::from(self.comparison.within_ns) < self.now();
        match is_sure || self.lost.len() > MAX_PENDING {
            true => self.lost.pop_first().map(|(_, lost)| lost),
            false => None,
        }
    }

    fn match_up(&mut self, a: &Sighting, b: &Sighting) {
        /// One frame that came late must not move the clock.
        const SMOOTHING: i128 = 8;
        const MAX_STEP_NS: i128 = 1_000_000;
        let offset_ns = i128::from(b.time_ns) - i128::from(a.time_ns);
        let step_ns = (offset_ns - self.offset_ns) / SMOOTHING;
        self.offset_ns += step_ns.clamp(-MAX_STEP_NS, MAX_STEP_NS);
        self.found.both += 1;
        self.found.clocks.add(a.time_ns, offset_ns);
    }
}

#[cfg(test)]
mod tests;

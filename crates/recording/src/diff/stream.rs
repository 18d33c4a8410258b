//! The frames of one interface in both recordings.

use std::collections::{HashMap, VecDeque};

use super::align::{Step, align, in_order, unique};
use super::clocks::Follower;
use super::place::{Found, Tail};
use super::{Comparison, Key, MAX_DISPLACEMENT, MAX_PENDING, Side, Sighting};

/// Where order tells nothing, recordings whose times are so far apart, in nanoseconds, show different parts of a drive.
const APART_NS: i128 = 1_000_000_000;

/// Many frames come in another order if so many steps have a quarter of frames that only A, and a quarter that only B has.
const NEWEST: usize = 64;

/// Frames of one interface wait here for those of the other recording.
pub(super) struct Stream {
    waiting: [VecDeque<Sighting>; 2],
    tail: Tail,
    displaced: Displaced,
    /// Frames of each recording that were given up because too many waited.
    pub(super) crowded_out: [u64; 2],
    /// Whether each recording had frames.
    pub(super) is_seen: [bool; 2],
}

impl Stream {
    /// A stream whose clocks differ by so much at the start.
    pub(super) fn new(clock: Follower) -> Self {
        Self {
            waiting: Default::default(),
            tail: Tail::new(clock),
            displaced: Displaced::new(clock),
            crowded_out: [0; 2],
            is_seen: [false; 2],
        }
    }

    pub(super) fn take(&mut self, side: Side, sighting: Sighting) {
        self.is_seen[side as usize] = true;
        self.waiting[side as usize].push_back(sighting);
    }

    /// How many frames of each recording wait.
    pub(super) fn waiting(&self) -> [usize; 2] {
        self.waiting.each_ref().map(VecDeque::len)
    }

    /// The number of the frame that waits longest.
    pub(super) fn first_number(&self, side: Side) -> Option<u64> {
        self.waiting[side as usize].front().map(|first| first.number)
    }

    /// Decides on all frames that are known well enough: where both go on alike, or so many wait that no more come.
    pub(super) fn advance(&mut self, is_over: [bool; 2], comparison: &Comparison) {
        loop {
            while let [Some(&a), Some(&b)] = self.fronts()
                && comparison.key(&a) == comparison.key(&b)
            {
                self.step(Step::Both);
            }
            let mut known = self.waiting().into_iter().zip(is_over);
            let is_known = known.all(|(waiting, is_over)| is_over || waiting >= MAX_PENDING);
            if !is_known || self.fronts() == [None; 2] {
                return;
            }
            self.decide(is_over, comparison);
        }
    }

    /// Decides on some frames at least, by what is known.
    pub(super) fn decide(&mut self, is_over: [bool; 2], comparison: &Comparison) {
        for side in Side::ALL {
            if self.waiting()[side.other() as usize] == 0 {
                let count = match is_over[side.other() as usize] {
                    true => self.waiting()[side as usize],
                    false => {
                        self.crowded_out[side as usize] += 1;
                        1
                    }
                };
                (0..count).for_each(|_| self.step(Step::Only(side)));
                return;
            }
        }
        let mut known = HashMap::new();
        let items = self.waiting.each_ref().map(|waiting| {
            let numbered = waiting.iter().take(MAX_PENDING).map(|sighting| {
                let next = known.len() as u32;
                *known.entry(comparison.key(sighting)).or_insert(next)
            });
            numbered.collect::<Vec<u32>>()
        });
        let is_all = is_over == [true; 2] && self.waiting.iter().all(|it| it.len() <= MAX_PENDING);
        // What is all there is needs no times.
        if let Some((side, count)) = self.apart(&items).filter(|_| !is_all) {
            return (0..count).for_each(|_| self.step(Step::Only(side)));
        }
        let enough = Side::ALL.map(|side| match is_all || is_over[side as usize] {
            true => usize::MAX,
            false => items[side as usize].len().div_ceil(2),
        });
        let steps = align(&items[0], &items[1], enough);
        steps.into_iter().for_each(|step| self.step(step));
    }

    /// The recording whose next frames are earlier than all of the other one, and how many of them can be passed, if the frames tell nothing:
    /// of those that occur once, which data or a counter sets apart, hardly any are in both in the same order. That is so where one
    /// recording lacks nearly as many frames as are looked at.
    fn apart(&self, [a, b]: &[Vec<u32>; 2]) -> Option<(Side, usize)> {
        const FEW: usize = 8;
        let (pairs, counts) = unique(a, b);
        if in_order(&pairs).len() * FEW >= counts[0].min(counts[1]) {
            return None;
        }
        let time = |side: Side, sighting: &Sighting| self.tail.clock().on_a(side, sighting.time_ns);
        let [first_a, first_b] = self.fronts();
        let starts = [time(Side::A, first_a?), time(Side::B, first_b?)];
        let side = if starts[0] < starts[1] { Side::A } else { Side::B };
        let until = starts[side.other() as usize] - APART_NS;
        let is_earlier = |sighting: &&Sighting| time(side, sighting) < until;
        let waiting = &self.waiting[side as usize];
        let most = [a, b][side as usize].len().div_ceil(2);
        let count = waiting.iter().take(most).take_while(is_earlier).count();
        (count > 0).then_some((side, count))
    }

    fn fronts(&self) -> [Option<&Sighting>; 2] {
        self.waiting.each_ref().map(VecDeque::front)
    }

    fn step(&mut self, step: Step) {
        let found = match step {
            Step::Both => match self.waiting.each_mut().map(VecDeque::pop_front) {
                [Some(a), Some(b)] => Some(Found::Both(a, b)),
                _ => None,
            },
            Step::Only(side) => {
                self.waiting[side as usize].pop_front().map(|it| Found::Only(side, it))
            }
        };
        found.into_iter().for_each(|found| self.tail.push(found));
    }

    /// Tells what cannot change any more, while more than so many are kept.
    pub(super) fn drain(
        &mut self,
        kept: usize,
        comparison: &Comparison,
        tell: &mut impl FnMut(Told),
    ) {
        while self.tail.len() > kept {
            let Some(found) = self.tail.pop() else { break };
            self.displaced.take(found, comparison, tell);
        }
    }

    /// Tells all.
    pub(super) fn finish(&mut self, comparison: &Comparison, tell: &mut impl FnMut(Told)) {
        self.tail.settle();
        self.drain(0, comparison, tell);
        self.displaced.expire(u64::MAX, tell);
    }

    /// The times of A's clock from which on frames are not told yet.
    pub(super) fn earliest(&self) -> Option<i128> {
        let on_a = |side: Side, it: &Sighting| self.tail.clock().on_a(side, it.time_ns);
        let waiting = Side::ALL.map(|side| Some(on_a(side, self.waiting[side as usize].front()?)));
        let tail = self.tail.first().map(|found| match found {
            Found::Both(a, _) => on_a(Side::A, a),
            Found::Only(side, it) => on_a(*side, it),
        });
        let displaced = self.displaced.first().map(|(side, it)| on_a(side, it));
        waiting.into_iter().chain([tail, displaced]).flatten().min()
    }
}

/// What became of a frame.
pub(super) enum Told {
    Both {
        a: Sighting,
        b: Sighting,
        /// By how much more B's clock was ahead than for the frames before, in nanoseconds.
        off_ns: i128,
        /// Whether the order is another one.
        is_displaced: bool,
    },
    Only {
        side: Side,
        sighting: Sighting,
        /// Its time on A's clock, in nanoseconds.
        on_a_ns: i128,
    },
}

/// Frames that one recording has where the other has none: those that the other has nearby come in another order.
///
/// Equal frames cannot be told apart, so none overtakes another: one that both have in order ends the search for those before it. Only where
/// many frames come in another order, the n-th of A is the n-th of B, whatever came in order.
struct Displaced {
    waiting: HashMap<Key, (Side, VecDeque<(u64, Sighting)>)>,
    /// Where frames wait, the oldest first; some wait no longer.
    places: VecDeque<(u64, Key)>,
    place: u64,
    /// The newest steps, and how many frames only A, only B has among them.
    steps: VecDeque<Step>,
    alone: [usize; 2],
    /// The clocks by the frames that were told.
    clock: Follower,
}

impl Displaced {
    fn new(clock: Follower) -> Self {
        let (waiting, places, steps) = Default::default();
        Self { waiting, places, place: 0, steps, alone: [0; 2], clock }
    }

    fn take(&mut self, found: Found, comparison: &Comparison, tell: &mut impl FnMut(Told)) {
        self.place += 1;
        self.steps.push_back(found.step());
        let left = if self.steps.len() > NEWEST { self.steps.pop_front() } else { None };
        for side in Side::ALL {
            let count = |step| usize::from(step == Some(Step::Only(side)));
            let alone = &mut self.alone[side as usize];
            *alone = *alone + count(Some(found.step())) - count(left);
        }
        match found {
            Found::Both(a, b) => self.take_both(a, b, comparison, tell),
            Found::Only(side, sighting) => self.take_only(side, sighting, comparison, tell),
        }
        self.expire(self.place.saturating_sub(MAX_DISPLACEMENT), tell);
    }

    fn take_both(
        &mut self,
        a: Sighting,
        b: Sighting,
        comparison: &Comparison,
        tell: &mut impl FnMut(Told),
    ) {
        let key = comparison.key(&a);
        let is_disordered = self.alone.iter().all(|&alone| alone >= NEWEST / 4);
        match self.waiting.get_mut(&key) {
            None => tell(self.both(a, b, false)),
            Some((side, waiting)) if is_disordered => {
                let side = *side;
                let (own, other) = if side == Side::A { (a, b) } else { (b, a) };
                waiting.push_back((self.place, own));
                self.places.push_back((self.place, key));
                if let Some((_, first)) = waiting.pop_front() {
                    self.tell_displaced(side, first, other, tell);
                }
            }
            Some((side, waiting)) => {
                let (side, lost) = (*side, std::mem::take(waiting));
                self.waiting.remove(&key);
                lost.into_iter().for_each(|(_, sighting)| tell(self.only(side, sighting)));
                tell(self.both(a, b, false));
            }
        }
    }

    fn take_only(
        &mut self,
        side: Side,
        sighting: Sighting,
        comparison: &Comparison,
        tell: &mut impl FnMut(Told),
    ) {
        let key = comparison.key(&sighting);
        let known = self.waiting.entry(key).or_insert_with(|| (side, VecDeque::new()));
        if known.0 == side {
            known.1.push_back((self.place, sighting));
            self.places.push_back((self.place, key));
        } else if let Some((_, other)) = known.1.pop_front() {
            if known.1.is_empty() {
                self.waiting.remove(&key);
            }
            self.tell_displaced(side, sighting, other, tell);
        }
    }

    fn tell_displaced(
        &mut self,
        side: Side,
        own: Sighting,
        other: Sighting,
        tell: &mut impl FnMut(Told),
    ) {
        let (a, b) = if side == Side::A { (own, other) } else { (other, own) };
        tell(self.both(a, b, true));
    }

    fn both(&mut self, a: Sighting, b: Sighting, is_displaced: bool) -> Told {
        let off_ns = self.clock.follow(&a, &b);
        Told::Both { a, b, off_ns, is_displaced }
    }

    fn only(&self, side: Side, sighting: Sighting) -> Told {
        Told::Only { side, sighting, on_a_ns: self.clock.on_a(side, sighting.time_ns) }
    }

    /// Gives up those that wait since a place before this one.
    fn expire(&mut self, place: u64, tell: &mut impl FnMut(Told)) {
        while let Some((_, key)) = self.places.pop_front_if(|it| it.0 < place) {
            let Some((side, waiting)) = self.waiting.get_mut(&key) else { continue };
            let (side, mut lost) = (*side, Vec::new());
            while let Some((_, sighting)) = waiting.pop_front_if(|it| it.0 < place) {
                lost.push(sighting);
            }
            if waiting.is_empty() {
                self.waiting.remove(&key);
            }
            lost.into_iter().for_each(|sighting| tell(self.only(side, sighting)));
        }
    }

    /// The one that waits longest.
    fn first(&self) -> Option<(Side, &Sighting)> {
        let mut waiting = self.places.iter().map(|(place, key)| (place, self.waiting.get(key)));
        waiting.find_map(|(place, waiting)| {
            let (side, waiting) = waiting?;
            waiting.front().filter(|first| first.0 == *place).map(|(_, first)| (*side, first))
        })
    }
}

//! What two ports have seen of the same frames, and in which order frames came.
//!
//! [`Join`] joins what a port before a network has seen with what a port behind it has: by run, stream and sequence.
//! [`Sequences`] tells frames that are missing, came twice, or came behind a later one. Neither has a clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use candor_time::{Instant, Nanos, Realtime};
use candor_wire::eth::tte::Measurement;

/// Frames that are waited for at most.
const MOST: usize = 1 << 20;

/// Which frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run of the program that sent it.
    pub run: u32,
    /// The stream in it.
    pub stream: u16,
    /// The number in that.
    pub sequence: u32,
}

impl From<&Measurement> for Key {
    fn from(it: &Measurement) -> Self {
        Self { run: it.run, stream: it.stream, sequence: it.sequence }
    }
}

/// What has become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both ports have seen it.
    Arrived {
        /// Which.
        key: Key,
        /// When the port before had it.
        before: Instant<Realtime>,
        /// When the port behind had it.
        behind: Instant<Realtime>,
    },
    /// It was not seen behind the network in time.
    Lost(Key),
    /// It was seen behind the network only.
    Unmatched(Key),
}

#[derive(Clone, Copy, Default)]
struct Entry {
    before: Option<Instant<Realtime>>,
    behind: Option<Instant<Realtime>>,
}

/// Joins what two ports have seen.
pub struct Join {
    patience: Nanos,
    entries: HashMap<Key, Entry>,
    order: VecDeque<(Instant<Realtime>, Key)>,
    waiting: usize,
}

impl Join {
    /// A frame may be under way for `patience`.
    #[must_use]
    pub fn new(patience: Nanos) -> Self {
        Self { patience, entries: HashMap::new(), order: VecDeque::new(), waiting: 0 }
    }

    /// The port before the network had a frame.
    pub fn before(&mut self, key: Key, stamp: Instant<Realtime>) -> Option<Outcome> {
        self.seen(key, stamp, |entry| &mut entry.before)
    }

    /// The port behind the network had a frame.
    pub fn behind(&mut self, key: Key, stamp: Instant<Realtime>) -> Option<Outcome> {
        self.seen(key, stamp, |entry| &mut entry.behind)
    }

    fn seen(
        &mut self,
        key: Key,
        stamp: Instant<Realtime>,
        side: fn(&mut Entry) -> &mut Option<Instant<Realtime>>,
    ) -> Option<Outcome> {
        let is_new = !self.entries.contains_key(&key);
        let entry = self.entries.entry(key).or_default();
        let place = side(entry);
        if place.is_some() {
            return None;
        }
        *place = Some(stamp);
        if is_new {
            self.order.push_back((stamp, key));
            self.waiting += 1;
            return None;
        }
        self.waiting -= 1;
        let (before, behind) = entry.before.zip(entry.behind)?;
        Some(Outcome::Arrived { key, before, behind })
    }

    /// Whether a port has seen a frame.
    #[must_use]
    pub fn is_known(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether the port before the network has seen a frame.
    #[must_use]
    pub fn was_before(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.before.is_some())
    }

    /// Frames that one port has seen and the other has not yet.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives up those that are under way for too long at `now`. All that the ports had before must have been told.
    pub fn expire(&mut self, now: Instant<Realtime>, tell: &mut dyn FnMut(Outcome)) {
        while let Some(&(at, key)) = self.order.front() {
            if self.order.len() <= MOST && now.since(at) <= self.patience {
                break;
            }
            self.give_up(key, tell);
        }
    }

    /// Gives up all.
    pub fn finish(&mut self, tell: &mut dyn FnMut(Outcome)) {
        while let Some(&(_, key)) = self.order.front() {
            self.give_up(key, tell);
        }
    }

    fn give_up(&mut self, key: Key, tell: &mut dyn FnMut(Outcome)) {
        self.order.pop_front();
        let Some(entry) = self.entries.remove(&key) else { return };
        let outcome = match (entry.before, entry.behind) {
            (Some(_), None) => Outcome::Lost(key),
            (None, Some(_)) => Outcome::Unmatched(key),
            _ => return,
        };
        self.waiting -= 1;
        tell(outcome);
    }
}

/// How a frame stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is the latest.
    Latest,
    /// A later one came before it (RFC 4737, type-P-reordered).
    Reordered,
    /// It came before.
    Duplicate,
}

/// The numbers of the frames of a stream, which begin at 0 again behind the largest.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    /// The earliest and the latest, counted on across the end of the numbers.
    span: Option<(i64, i64)>,
    /// Numbers between them that have not come: the first of each run of them, and the last.
    missing: BTreeMap<i64, i64>,
    count: u64,
}

impl Sequences {
    /// A frame with this number came.
    pub fn add(&mut self, sequence: u32) -> Order {
        let Some((first, last)) = self.span else {
            let number = i64::from(sequence);
            self.span = Some((number, number));
            return Order::Latest;
        };
        // Numbers below zero are those before the first one.
        let last_sequence = (last & 0xFFFF_FFFF) as u32;
        let number = last + i64::from(Measurement::sequence_distance(last_sequence, sequence));
        if number > last {
            self.miss(last + 1, number - 1);
            self.span = Some((first, number));
            return Order::Latest;
        }
        if number < first {
            self.miss(number + 1, first - 1);
            self.span = Some((number, last));
            return Order::Reordered;
        }
        let gap = self.missing.range(..=number).next_back().map(|(from, to)| (*from, *to));
        match gap.filter(|(_, to)| *to >= number) {
            Some((from, to)) => {
                self.missing.remove(&from);
                self.count -= (to - from + 1).unsigned_abs();
                self.miss(from, number - 1);
                self.miss(number + 1, to);
                Order::Reordered
            }
            None => Order::Duplicate,
        }
    }

    fn miss(&mut self, from: i64, to: i64) {
        if from <= to {
            self.missing.insert(from, to);
            self.count += (to - from + 1).unsigned_abs();
        }
    }

    /// How many numbers between the earliest and the latest have not come.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant<Realtime> {
        Instant::from_nanos(ns)
    }

    fn key(sequence: u32) -> Key {
        Key { run: 7, stream: 1, sequence }
    }

    #[test]
    fn frames_are_joined_whichever_port_is_read_first() {
        let mut join = Join::new(Nanos::from_nanos(100));
        let arrived = |sequence, before, behind| {
            Some(Outcome::Arrived { key: key(sequence), before: at(before), behind: at(behind) })
        };
        assert_eq!(join.before(key(1), at(10)), None);
        assert_eq!(join.behind(key(1), at(15)), arrived(1, 10, 15));
        assert_eq!(join.behind(key(2), at(25)), None);
        assert!(join.is_known(&key(2)) && !join.was_before(&key(2)));
        assert_eq!(join.before(key(2), at(20)), arrived(2, 20, 25));
        assert_eq!(join.behind(key(1), at(30)), None, "a duplicate");
        let other = Key { run: 8, ..key(1) };
        assert_eq!(join.behind(other, at(40)), None);
        assert_eq!(join.before(key(3), at(50)), None);
        assert_eq!(join.waiting(), 2);
        let mut told = Vec::new();
        join.expire(at(140), &mut |it| told.push(it));
        assert_eq!(told, []);
        join.expire(at(151), &mut |it| told.push(it));
        assert_eq!(told, [Outcome::Unmatched(other), Outcome::Lost(key(3))]);
        assert_eq!(join.waiting(), 0);
    }

    #[test]
    fn frames_may_come_in_any_order_across_the_end_of_the_numbers() {
        for start in [0, 1, 1_000, u32::MAX - 2, u32::MAX, 0x7FFF_FFFE] {
            let mut it = Sequences::default();
            let mut add = |number: u32| (it.add(start.wrapping_add(number)), it.missing());
            assert_eq!(add(0), (Order::Latest, 0));
            assert_eq!(add(1), (Order::Latest, 0));
            assert_eq!(add(5), (Order::Latest, 3));
            assert_eq!(add(3), (Order::Reordered, 2));
            assert_eq!(add(3), (Order::Duplicate, 2));
            assert_eq!(add(6), (Order::Latest, 2));
            assert_eq!(add(2), (Order::Reordered, 1));
            assert_eq!(add(4), (Order::Reordered, 0));
            assert_eq!(add(0), (Order::Duplicate, 0));
            assert_eq!(add(u32::MAX - 1), (Order::Reordered, 1), "from before the first");
            assert_eq!(add(u32::MAX), (Order::Reordered, 0));
        }
    }
}

//! What two ports have seen of the same frames.
//!
//! [`Join`] joins what a port before a network has seen with what a port behind it has: by run, stream and sequence. It has
//! no clock.

use std::collections::{HashMap, VecDeque};

use candor_time::{Instant, Nanos, Realtime};
use candor_wire::eth::tte::Measurement;

/// Frames that are waited for at most.
const MOST: usize = 1 << 20;

/// Which frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The run of the program that sent it.
    pub run: u32,
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
}

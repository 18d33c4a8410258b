//! Queues with a bound, filled once and never grown.
//!
//! Every queue of Candor has a depth and gives back what it refuses; nothing is lost in silence.
//!
//! | queue | what leaves first | when it is full | time |
//! |---|---|---|---|
//! | [`Fifo`] | the oldest: as the Linux `pfifo` and the receive buffers of controllers | refuses the newest, or overwrites the oldest | constant |
//! | [`Bands`] | the oldest of the most urgent band: as the Linux `prio` and the 8 priorities of Ethernet | the same, by band | constant |
//! | [`User`] | one `Fifo` for what a user receives, `Bands` for what it sends, chosen by acceptance masks: as in LinCAN | the same | constant |
//! | [`spsc`] | the oldest; between two threads, or an interrupt handler and a program, without a lock | the same | constant |
//! | [`ByPriority`] | the smallest key; equal keys keep their order | refuses the newest | logarithmic |
//! | [`Egress`] | that with deadlines | gives up its least urgent item | logarithmic |
//!
//! Which to use: a FIFO in front of a CAN controller makes urgent frames wait behind others
//! (priority inversion), so egress wants [`ByPriority`] or [`Egress`], or [`Bands`] if a few priorities are
//! enough; a FIFO is right where order is meaning, such as between a controller and its driver.
//!
//! The gateway keeps [`Egress`] and simulated controllers keep [`ByPriority`]: there the order is that of arbitration,
//! over all identifiers, which bands do not keep. An insert and an extract together cost 49 to 114 ns with the three heaps
//! of `Egress`, and 10 to 13 ns with `Bands` (`benches/queues.rs`); a frame of the live gateway costs 150 ns and more,
//! and passes the queue only if its bus has no room.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bands;
pub mod egress;
mod fifo;
pub mod spsc;
pub mod user;

use alloc::vec::Vec;

pub use bands::Bands;
pub use egress::Egress;
pub use fifo::{DEFAULT_SLOTS, Fifo, Policy};
pub use user::{Acceptance, User};

/// The order in which frames leave a transmit queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out: urgent frames wait behind others.
    Fifo,
    /// The frame that would win arbitration leaves first.
    Priority,
}

impl Discipline {
    pub const ALL: [Self; 2] = [Self::Fifo, Self::Priority];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
        }
    }
}

/// The smallest key first, equal keys in their order, at most so many. `push` and `pop` take
/// logarithmic time.
#[derive(Clone, Debug)]
pub struct ByPriority<T> {
    /// A binary heap: no parent is greater than its children.
    heap: Vec<(u32, u64, T)>,
    depth: usize,
    /// Items that were taken out and still have their place.
    taken: usize,
    arrivals: u64,
    refused: u64,
}

impl<T> ByPriority<T> {
    /// A queue of `depth` items, allocated now.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self { heap: Vec::with_capacity(depth), depth, taken: 0, arrivals: 0, refused: 0 }
    }

    /// Adds `item` with its `key`; smaller is more urgent.
    ///
    /// # Errors
    /// Gives it back, and counts it, if the queue is full.
    pub fn push(&mut self, key: u32, item: T) -> Result<(), T> {
        if self.is_full() {
            self.refused += 1;
            return Err(item);
        }
        self.insert((key, self.arrivals, item));
        self.arrivals += 1;
        Ok(())
    }

    /// Takes the most urgent item out, to be put back if need be: its place stays taken until
    /// [`ByPriority::put_back`] or [`ByPriority::give_up`].
    pub fn take(&mut self) -> Option<Taken<T>> {
        let (key, arrival) = (!self.heap.is_empty()).then(|| self.rank(0))?;
        let item = self.pop()?;
        self.taken += 1;
        Some(Taken { key, arrival, item })
    }

    /// Puts back what was taken out, before equal keys that came later.
    pub fn put_back(&mut self, taken: Taken<T>) {
        self.give_up();
        self.insert((taken.key, taken.arrival, taken.item));
    }

    /// What was taken out will not be put back.
    pub fn give_up(&mut self) {
        debug_assert!(self.taken > 0, "nothing is taken out");
        self.taken = self.taken.saturating_sub(1);
    }

    fn insert(&mut self, entry: (u32, u64, T)) {
        self.heap.push(entry);
        self.rise(self.heap.len() - 1);
    }

    /// Lets an item rise to its place.
    fn rise(&mut self, mut child: usize) {
        if child >= self.heap.len() {
            return;
        }
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.rank(parent) <= self.rank(child) {
                break;
            }
            self.heap.swap(parent, child);
            child = parent;
        }
    }

    /// Takes the most urgent item.
    pub fn pop(&mut self) -> Option<T> {
        if self.heap.is_empty() {
            return None;
        }
        let (_, _, item) = self.heap.swap_remove(0);
        let mut parent = 0;
        loop {
            let children = [2 * parent + 1, 2 * parent + 2];
            let present = children.into_iter().filter(|&child| child < self.heap.len());
            match present.min_by_key(|&child| self.rank(child)) {
                Some(child) if self.rank(child) < self.rank(parent) => {
                    self.heap.swap(parent, child);
                    parent = child;
                }
                _ => return Some(item),
            }
        }
    }

    /// The most urgent item and its key.
    #[must_use]
    pub fn peek(&self) -> Option<(u32, &T)> {
        self.heap.first().map(|(key, _, item)| (*key, item))
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// How many places are in use: by what waits, and by what was taken out and may be put back.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.heap.len() + self.taken
    }

    /// Whether another would be refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.in_use() >= self.depth
    }

    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn rank(&self, index: usize) -> (u32, u64) {
        (self.heap[index].0, self.heap[index].1)
    }
}

/// An item taken out of a [`ByPriority`], with its place.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    key: u32,
    arrival: u64,
    pub item: T,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_taken_out_keeps_its_place() {
        let mut queue = ByPriority::new(3);
        let state = |queue: &ByPriority<char>| {
            (queue.is_empty(), queue.len(), queue.in_use(), queue.is_full(), queue.refused())
        };
        assert_eq!(state(&queue), (true, 0, 0, false, 0));
        for (key, item) in [(5, 'a'), (5, 'b'), (2, 'c')] {
            queue.push(key, item).unwrap();
        }
        assert_eq!(state(&queue), (false, 3, 3, true, 0));
        let (first, second) = (queue.take().unwrap(), queue.take().unwrap());
        assert_eq!((first.item, second.item), ('c', 'a'));
        assert_eq!(state(&queue), (false, 1, 3, true, 0));
        assert_eq!((queue.push(1, 'd'), queue.push(1, 'e')), (Err('d'), Err('e')));
        assert_eq!(state(&queue), (false, 1, 3, true, 2));
        queue.put_back(second);
        queue.give_up();
        assert_eq!(state(&queue), (false, 2, 2, false, 2));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some('a'), Some('b'), None));
        assert_eq!((state(&queue), queue.take().is_none()), ((true, 0, 0, false, 2), true));
    }

    #[test]
    fn a_queue_of_nothing_refuses_everything() {
        assert_eq!(ByPriority::new(0).push(1, 1), Err(1));
    }

    proptest! {
        #[test]
        fn priorities_leave_in_order_and_equals_in_theirs(
            keys in prop::collection::vec(prop::option::weighted(0.7, 0..5_u32), 0..60),
        ) {
            // `Some` pushes, `None` pops; a sorted list is the reference.
            let mut queue = ByPriority::new(10);
            let mut reference: Vec<(u32, usize)> = Vec::new();
            for (arrival, key) in keys.into_iter().enumerate() {
                match key {
                    Some(key) => {
                        let accepted = queue.push(key, arrival).is_ok();
                        prop_assert_eq!(accepted, reference.len() < 10);
                        if accepted {
                            reference.push((key, arrival));
                            reference.sort_unstable();
                        }
                    }
                    None => {
                        let expected = (!reference.is_empty()).then(|| reference.remove(0));
                        prop_assert_eq!(queue.peek().map(|(key, &item)| (key, item)), expected);
                        prop_assert_eq!(queue.pop(), expected.map(|(_, item)| item));
                    }
                }
                prop_assert_eq!(queue.len(), reference.len());
            }
        }

        #[test]
        fn what_is_put_back_has_its_place_again(
            keys in prop::collection::vec(prop::option::weighted(0.8, 0..9_u32), 0..80),
        ) {
            let mut queue = ByPriority::new(7);
            let mut reference: Vec<(u32, usize)> = Vec::new();
            for (arrival, key) in keys.into_iter().enumerate() {
                let Some(key) = key else {
                    // Out and back in is nothing; then out.
                    if let Some(taken) = queue.take() {
                        queue.put_back(taken);
                    }
                    let expected = (!reference.is_empty()).then(|| reference.remove(0));
                    prop_assert_eq!(queue.pop(), expected.map(|(_, item)| item));
                    continue;
                };
                let expected = if reference.len() < 7 { Ok(()) } else { Err(arrival) };
                if expected.is_ok() {
                    reference.push((key, arrival));
                    reference.sort_unstable();
                }
                prop_assert_eq!(queue.push(key, arrival), expected);
            }
        }
    }
}

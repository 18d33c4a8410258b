//! A queue between two threads, or between an interrupt handler and what it interrupts: one puts, one
//! takes, and neither has a lock or waits for the other.
//!
//! Items are a fixed number of 32-bit words, which every target can read and write as a whole: a classical CAN
//! frame is 4 of them, a CAN FD frame 18. So an item may be read while it is overwritten, without
//! undefined behaviour; what was read then is thrown away.
//!
//! # Memory order
//!
//! ```text
//!  head: the position of the oldest item      tail: the position of the next one
//!   v                                          v
//!  [ oldest | ... | newest | free ...         ]     positions count up; a slot is the lowest bits of one
//! ```
//!
//! Only the producer changes `tail`. It writes the words of an item, then stores `tail` with Release. The
//! consumer loads `tail` with Acquire, so it sees the words of every item before it.
//!
//! The consumer reads the words of an item, then moves `head` past it with Release. The producer loads `head` with
//! Acquire before it writes to that slot again, so what it writes there is never read as the old item.
//!
//! A producer that overwrites moves `head`, too: past the oldest item, before it writes to its slot. Then both
//! move `head` by compare-and-swap from the position that they know. If the consumer succeeds, the producer had not
//! given up the item when the consumer had read it, and the words are whole. If it fails, the item is lost;
//! the consumer throws the words away and tries the next one. The swap of the producer is Release as well, and the consumer
//! loads `head` with Acquire before `tail`: so it never sees a `head` that is beyond the `tail` it sees.
//!
//! `./test --only loom` tries interleavings of small cases: all of the smallest, those of up to three preemptions of the others.
//! loom never lets a load see a store that comes later in its execution. So the tests do not show
//! that the consumer must move `head` with Release, and the producer load it with Acquire; the argument above does.
//!
//! The producer does a bounded number of steps. With [`Policy::OverwriteOldest`], the consumer tries again as often
//! as the producer overwrites what it reads. A position may stay the same for a stalled consumer only if
//! exactly 2^32 items pass between two of its steps.

use alloc::boxed::Box;

#[cfg(not(all(loom, test)))]
use alloc::sync::Arc;
#[cfg(not(all(loom, test)))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(all(loom, test))]
use loom::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crate::Policy;

/// An item.
pub type Words<const WORDS: usize> = [u32; WORDS];

/// An item was lost because the queue was full: the one that came or the oldest, as its policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// In a cache line of its own, so that the threads do not take it from each other for nothing.
#[repr(align(64))]
#[derive(Debug)]
struct CachePadded<T>(T);

#[derive(Debug)]
struct Slot<const WORDS: usize> {
    /// How many items were put or refused before this one.
    ordinal: AtomicU32,
    words: [AtomicU32; WORDS],
}

#[derive(Debug)]
struct Shared<const WORDS: usize> {
    head: CachePadded<AtomicU32>,
    tail: CachePadded<AtomicU32>,
    /// A power of two, at least `depth`.
    slots: Box<[Slot<WORDS>]>,
    depth: u32,
    policy: Policy,
}

impl<const WORDS: usize> Shared<WORDS> {
    fn slot(&self, position: u32) -> &Slot<WORDS> {
        // The length is a power of two.
        &self.slots[position as usize & (self.slots.len() - 1)]
    }
}

/// The half that puts.
#[derive(Debug)]
pub struct Producer<const WORDS: usize> {
    shared: Arc<Shared<WORDS>>,
    tail: u32,
    /// `head`, as it was seen last.
    head: u32,
    ordinal: u32,
    lost: u64,
}

/// The half that takes.
#[derive(Debug)]
pub struct Consumer<const WORDS: usize> {
    shared: Arc<Shared<WORDS>>,
    head: u32,
    /// `tail`, as it was seen last.
    tail: u32,
    ordinal: u32,
    missed: u64,
}

/// A queue of `depth` items, 1 to 2^31, allocated now.
#[must_use]
pub fn queue<const WORDS: usize>(depth: u32, policy: Policy) -> (Producer<WORDS>, Consumer<WORDS>) {
    let depth = depth.clamp(1, 1 << 31);
    let slot =
        |_| Slot { ordinal: AtomicU32::new(0), words: core::array::from_fn(|_| AtomicU32::new(0)) };
    let shared = Arc::new(Shared {
        head: CachePadded(AtomicU32::new(0)),
        tail: CachePadded(AtomicU32::new(0)),
        slots: (0..depth.next_power_of_two()).map(slot).collect(),
        depth,
        policy,
    });
    (
        Producer { shared: Arc::clone(&shared), tail: 0, head: 0, ordinal: 0, lost: 0 },
        Consumer { shared, head: 0, tail: 0, ordinal: 0, missed: 0 },
    )
}

impl<const WORDS: usize> Producer<WORDS> {
    /// Appends an item.
    ///
    /// # Errors
    /// An item was lost, and is counted. With [`Policy::OverwriteOldest`] this one is in the queue.
    #[inline]
    pub fn push(&mut self, words: &Words<WORDS>) -> Result<(), Lost> {
        let outcome = self.make_room();
        let ordinal = self.ordinal;
        self.ordinal = ordinal.wrapping_add(1);
        if outcome.is_err() {
            self.lost += 1;
            if self.shared.policy == Policy::RefuseNewest {
                return outcome;
            }
        }
        let slot = self.shared.slot(self.tail);
        slot.ordinal.store(ordinal, Ordering::Relaxed);
        for (to, &word) in slot.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        outcome
    }

    /// Says if an item must be given up for the next one, and gives it up if that is the oldest.
    fn make_room(&mut self) -> Result<(), Lost> {
        let Shared { head, depth, policy, .. } = &*self.shared;
        if self.tail.wrapping_sub(self.head) < *depth {
            return Ok(());
        }
        self.head = head.0.load(Ordering::Acquire);
        if self.tail.wrapping_sub(self.head) < *depth {
            return Ok(());
        }
        if *policy == Policy::RefuseNewest {
            return Err(Lost);
        }
        let next = self.head.wrapping_add(1);
        match head.0.compare_exchange(self.head, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.head = next;
                Err(Lost)
            }
            // The consumer has just taken it.
            Err(head) => {
                self.head = head;
                Ok(())
            }
        }
    }

    /// How many items were lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

impl<const WORDS: usize> Consumer<WORDS> {
    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<Words<WORDS>> {
        let Shared { head, tail, policy, .. } = &*self.shared;
        let overwrites = *policy == Policy::OverwriteOldest;
        if overwrites {
            self.head = head.0.load(Ordering::Acquire);
        }
        loop {
            // The producer may have moved `head` beyond the `tail` that was seen last.
            if self.tail.wrapping_sub(self.head).wrapping_sub(1) >= 1 << 31 {
                self.tail = tail.0.load(Ordering::Acquire);
                if self.tail == self.head {
                    return None;
                }
            }
            let slot = self.shared.slot(self.head);
            let ordinal = slot.ordinal.load(Ordering::Relaxed);
            let words = core::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
            let next = self.head.wrapping_add(1);
            if overwrites {
                let swapped =
                    head.0.compare_exchange(self.head, next, Ordering::Release, Ordering::Acquire);
                if let Err(head) = swapped {
                    self.head = head;
                    continue;
                }
            } else {
                head.0.store(next, Ordering::Release);
            }
            self.head = next;
            self.missed += u64::from(ordinal.wrapping_sub(self.ordinal));
            self.ordinal = ordinal.wrapping_add(1);
            return Some(words);
        }
    }

    /// How many items were lost before the one that was taken last.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Fifo;
    use proptest::prelude::*;
    use std::thread;

    const POLICIES: [Policy; 2] = [Policy::RefuseNewest, Policy::OverwriteOldest];

    proptest! {
        /// Positions and ordinals begin near their greatest value in half of the cases.
        #[test]
        fn it_is_a_fifo(
            overwrites in any::<bool>(),
            wraps in any::<bool>(),
            depth in 1..9_u32,
            steps in prop::collection::vec(prop::bool::weighted(0.6), 0..120),
        ) {
            let policy = POLICIES[usize::from(overwrites)];
            let (mut producer, mut consumer) = queue::<2>(depth, policy);
            if wraps {
                let near = u32::MAX - 9;
                producer.shared.head.0.store(near, Ordering::Relaxed);
                producer.shared.tail.0.store(near, Ordering::Relaxed);
                (producer.tail, producer.head, producer.ordinal) = (near, near, near);
                (consumer.tail, consumer.head, consumer.ordinal) = (near, near, near);
            }
            let mut model = Fifo::with_policy(depth as usize, policy);
            let (mut pushed, mut popped) = (0, 0);
            for is_push in steps {
                if is_push {
                    let expected = model.push(pushed).map_err(|_| Lost);
                    prop_assert_eq!(producer.push(&[pushed, !pushed]), expected);
                    pushed += 1;
                } else {
                    let item = consumer.pop();
                    prop_assert_eq!(item, model.pop().map(|number| [number, !number]));
                    if let Some([number, _]) = item {
                        popped += 1;
                        prop_assert_eq!(consumer.missed(), u64::from(number + 1) - popped);
                    }
                }
                prop_assert_eq!(producer.lost(), model.lost());
                prop_assert_eq!(u64::from(pushed), popped + producer.lost() + model.len() as u64);
            }
        }
    }

    #[test]
    fn a_queue_has_one_slot_at_least() {
        for policy in POLICIES {
            let (mut producer, mut consumer) = queue(0, policy);
            assert_eq!(
                (producer.push(&[1]), consumer.pop(), consumer.pop()),
                (Ok(()), Some([1]), None)
            );
        }
    }

    #[test]
    fn two_threads_lose_nothing_in_silence() {
        const ITEMS: u32 = 200_000;
        for policy in POLICIES {
            let (mut producer, mut consumer) = queue::<4>(8, policy);
            let putting = thread::spawn(move || {
                for number in 0..ITEMS {
                    let _ = producer.push(&[number; 4]);
                }
                producer.lost()
            });
            let (mut popped, mut next) = (0, 0);
            loop {
                // Looked at before the queue, so that nothing comes afterwards.
                let is_over = putting.is_finished();
                match consumer.pop() {
                    Some(words) => {
                        assert!(words.iter().all(|&word| word == words[0]), "torn: {words:?}");
                        assert!(words[0] >= next, "out of order");
                        next = words[0] + 1;
                        popped += 1;
                        assert_eq!(u64::from(next), popped + consumer.missed());
                    }
                    None if is_over => break,
                    None => thread::yield_now(),
                }
            }
            assert_eq!(u64::from(ITEMS), popped + putting.join().unwrap());
        }
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use alloc::vec::Vec;
    use loom::thread;

    /// One thread puts `puts` items, another one takes `takes` times; then what is left is taken. Every item
    /// must be whole, in order, and either taken or counted. An item is one word: that a mixture of two items was
    /// taken would show in its ordinal.
    fn try_all(depth: u32, policy: Policy, puts: u32, takes: u32, preemptions: Option<usize>) {
        let mut tried = loom::model::Builder::new();
        tried.preemption_bound = preemptions;
        tried.check(move || {
            let (mut producer, mut consumer) = queue::<1>(depth, policy);
            let putting = thread::spawn(move || {
                for number in 1..=puts {
                    let _ = producer.push(&[number]);
                }
                producer.lost()
            });
            let mut taken: Vec<u32> = Vec::new();
            let mut take = |consumer: &mut Consumer<1>| {
                let Some([number]) = consumer.pop() else { return false };
                assert!(taken.last().is_none_or(|&last| last < number), "out of order");
                taken.push(number);
                assert_eq!(u64::from(number), taken.len() as u64 + consumer.missed());
                true
            };
            for _ in 0..takes {
                take(&mut consumer);
            }
            let lost = putting.join().unwrap();
            while take(&mut consumer) {}
            assert_eq!(u64::from(puts), taken.len() as u64 + lost);
            if policy == Policy::OverwriteOldest {
                assert_eq!(taken.last(), Some(&puts), "the newest is there");
            }
        });
    }

    #[test]
    fn a_queue_that_refuses() {
        try_all(1, Policy::RefuseNewest, 3, 2, None);
        try_all(2, Policy::RefuseNewest, 3, 3, None);
    }

    #[test]
    fn a_queue_that_overwrites() {
        try_all(1, Policy::OverwriteOldest, 2, 1, None);
        try_all(1, Policy::OverwriteOldest, 3, 2, Some(3));
        try_all(2, Policy::OverwriteOldest, 3, 2, Some(3));
        try_all(2, Policy::OverwriteOldest, 4, 2, Some(3));
    }
}

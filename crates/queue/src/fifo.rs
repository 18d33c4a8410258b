//! [`Fifo`]: first in, first out, with a bound.

use alloc::collections::VecDeque;

/// How many slots a queue has unless somebody says otherwise.
pub const DEFAULT_SLOTS: usize = 64;

/// Which item a full queue gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The one that comes. What waits is never lost.
    #[default]
    RefuseNewest,
    /// The one that has waited longest, for readers who want the present state.
    OverwriteOldest,
}

/// First in, first out, at most so many. Every operation takes constant time.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    items: VecDeque<T>,
    depth: usize,
    policy: Policy,
    lost: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self::new(DEFAULT_SLOTS)
    }
}

impl<T> Fifo<T> {
    /// A queue of `depth` items, allocated now, that refuses the newest when it is full.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self::with_policy(depth, Policy::RefuseNewest)
    }

    /// The same with either policy.
    #[must_use]
    pub fn with_policy(depth: usize, policy: Policy) -> Self {
        Self { items: VecDeque::with_capacity(depth), depth, policy, lost: 0 }
    }

    /// Appends `item`.
    ///
    /// # Errors
    /// Gives back the item that is lost, and counts it, if the queue is full: this one or the
    /// oldest, as its policy says.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.items.len() < self.depth {
            self.items.push_back(item);
            return Ok(());
        }
        self.lost += 1;
        match self.policy {
            Policy::RefuseNewest => Err(item),
            Policy::OverwriteOldest => match self.items.pop_front() {
                None => Err(item),
                Some(oldest) => {
                    self.items.push_back(item);
                    Err(oldest)
                }
            },
        }
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The oldest item.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.items.front()
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether another would cost one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.depth
    }

    /// How many it holds at most.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// How many were lost because it was full.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_fifo_loses_by_its_policy_and_counts() {
        let cases = [
            (Policy::RefuseNewest, [Ok(()), Ok(()), Err('c'), Err('d')], "ab"),
            (Policy::OverwriteOldest, [Ok(()), Ok(()), Err('a'), Err('b')], "cd"),
        ];
        for (policy, outcomes, left) in cases {
            let mut queue = Fifo::with_policy(2, policy);
            assert_eq!(['a', 'b', 'c', 'd'].map(|item| queue.push(item)), outcomes, "{policy:?}");
            assert_eq!((queue.lost(), queue.len()), (2, 2));
            assert!(core::iter::from_fn(|| queue.pop()).eq(left.chars()), "{policy:?}");
            let mut nothing = Fifo::with_policy(0, policy);
            assert_eq!((nothing.push(1), nothing.lost(), nothing.pop()), (Err(1), 1, None));
        }
        assert_eq!(Fifo::<u8>::default().depth(), 64);
    }

    #[test]
    fn a_fifo_says_how_full_it_is() {
        let mut queue = Fifo::new(2);
        let state = |queue: &Fifo<u8>| (queue.is_empty(), queue.len(), queue.is_full());
        assert_eq!((queue.depth(), state(&queue), queue.peek()), (2, (true, 0, false), None));
        queue.push(1).unwrap();
        assert_eq!((state(&queue), queue.peek()), ((false, 1, false), Some(&1)));
        queue.push(2).unwrap();
        assert_eq!((state(&queue), queue.peek(), queue.lost()), ((false, 2, true), Some(&1), 0));
        assert_eq!((queue.push(3), queue.push(4), queue.lost()), (Err(3), Err(4), 2));
        queue.pop();
        assert_eq!((queue.depth(), state(&queue), queue.peek()), (2, (false, 1, false), Some(&2)));
    }

    proptest! {
        #[test]
        fn pushed_is_popped_and_lost_and_waiting(
            overwrites in any::<bool>(),
            depth in 0..9_usize,
            steps in prop::collection::vec(prop::bool::weighted(0.6), 0..120),
        ) {
            let policy = if overwrites { Policy::OverwriteOldest } else { Policy::RefuseNewest };
            let mut queue = Fifo::with_policy(depth, policy);
            let mut model = VecDeque::new();
            let (mut pushed, mut popped) = (0, 0);
            for is_push in steps {
                if is_push {
                    // The model holds one too many for a moment.
                    model.push_back(pushed);
                    let lost = match (model.len() > depth, policy) {
                        (false, _) => None,
                        (true, Policy::RefuseNewest) => model.pop_back(),
                        (true, Policy::OverwriteOldest) => model.pop_front(),
                    };
                    prop_assert_eq!(queue.push(pushed).err(), lost);
                    pushed += 1;
                } else {
                    prop_assert_eq!(queue.peek(), model.front());
                    let item = queue.pop();
                    popped += u64::from(item.is_some());
                    prop_assert_eq!(item, model.pop_front());
                }
                prop_assert_eq!(pushed, popped + queue.lost() + queue.len() as u64);
            }
        }
    }
}

//! [`Egress`]: what waits for room at a destination: by priority, with deadlines, a full queue gives
//! up its least urgent item.

use alloc::vec::Vec;

/// A place that no heap has.
const ABSENT: u32 = u32::MAX;

/// The order of a heap: the smallest first.
type Rank = (u64, u64);

/// A binary heap of slots that knows where each slot is, so that any of them can be taken out.
#[derive(Clone, Debug)]
struct Heap {
    entries: Vec<(Rank, u32)>,
    /// By slot.
    places: Vec<u32>,
}

impl Heap {
    fn new(depth: usize) -> Self {
        Self { entries: Vec::with_capacity(depth), places: alloc::vec![ABSENT; depth] }
    }

    fn first(&self) -> Option<(Rank, u32)> {
        self.entries.first().copied()
    }

    fn insert(&mut self, rank: Rank, slot: u32) {
        self.entries.push((rank, slot));
        self.rise(self.entries.len() - 1);
    }

    /// Takes a slot out, if it is in.
    fn remove(&mut self, slot: u32) {
        let place = core::mem::replace(&mut self.places[slot as usize], ABSENT);
        if place == ABSENT {
            return;
        }
        let place = place as usize;
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.sink(place);
            self.rise(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= self.entries[place] {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        self.places[self.entries[place].1 as usize] = place as u32;
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let present = children.into_iter().filter(|&child| child < self.entries.len());
            match present.min_by_key(|&child| self.entries[child]) {
                Some(child) if self.entries[child] < self.entries[place] => {
                    self.swap(child, place);
                    place = child;
                }
                _ => break,
            }
        }
        self.places[self.entries[place].1 as usize] = place as u32;
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        for place in [one, other] {
            self.places[self.entries[place].1 as usize] = place as u32;
        }
    }
}

/// A queue with a bound in front of a destination. The item with the smallest key leaves first, equal
/// keys keep their order. An item may have a deadline, in whatever unit the caller counts. All memory
/// is allocated at the start; every operation takes logarithmic time.
#[derive(Clone, Debug)]
pub struct Egress<T> {
    items: Vec<Option<(Place, T)>>,
    free: Vec<u32>,
    urgent: Heap,
    least_urgent: Heap,
    due: Heap,
    depth: usize,
    /// Items that were taken out and still have their place.
    taken: usize,
    arrivals: u64,
}

/// Where an item stands in the order.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u32,
    arrival: u64,
    deadline: Option<u64>,
}

/// An item taken out of an [`Egress`], with its place.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    place: Place,
    pub item: T,
}

impl<T> Egress<T> {
    /// A queue of `depth` items, at most `u32::MAX - 1`.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.min(ABSENT as usize - 1);
        // An item that is put back has a slot beside those of a full queue.
        let slots = depth + 1;
        Self {
            items: (0..slots).map(|_| None).collect(),
            free: (0..slots as u32).rev().collect(),
            urgent: Heap::new(slots),
            least_urgent: Heap::new(slots),
            due: Heap::new(slots),
            depth,
            taken: 0,
            arrivals: 0,
        }
    }

    /// Adds `item` with its `key`; smaller is more urgent. A full queue gives up its least urgent item
    /// for a more urgent one.
    ///
    /// # Errors
    /// Gives back whichever found no place.
    pub fn push(&mut self, key: u32, deadline: Option<u64>, item: T) -> Result<(), T> {
        let mut evicted = None;
        if self.in_use() >= self.depth {
            match self.least_urgent.first() {
                Some((_, slot)) if self.key_of(slot).is_some_and(|last| last > key) => {
                    evicted = self.remove(slot);
                }
                _ => return Err(item),
            }
        }
        let place = Place { key, arrival: self.arrivals, deadline };
        self.arrivals += 1;
        self.insert(place, item);
        match evicted {
            None => Ok(()),
            Some((_, evicted)) => Err(evicted),
        }
    }

    /// Takes the most urgent item.
    pub fn pop(&mut self) -> Option<T> {
        let (_, slot) = self.urgent.first()?;
        self.remove(slot).map(|(_, item)| item)
    }

    /// Takes an item whose deadline is before `now`, the most overdue one first.
    pub fn pop_overdue(&mut self, now: u64) -> Option<T> {
        let ((deadline, _), slot) = self.due.first()?;
        if deadline >= now {
            return None;
        }
        self.remove(slot).map(|(_, item)| item)
    }

    /// The earliest deadline of all that wait.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.due.first().map(|((deadline, _), _)| deadline)
    }

    /// Takes the most urgent item out, to be put back if need be: its place stays taken until
    /// [`Egress::put_back`] or [`Egress::give_up`]. One at a time.
    pub fn take(&mut self) -> Option<Taken<T>> {
        debug_assert!(self.taken == 0, "one is taken out already");
        let (_, slot) = self.urgent.first()?;
        let (place, item) = self.remove(slot)?;
        self.taken += 1;
        Some(Taken { place, item })
    }

    /// Puts back what was taken out, before equal keys that came later.
    pub fn put_back(&mut self, taken: Taken<T>) {
        self.give_up();
        self.insert(taken.place, taken.item);
    }

    /// What was taken out will not be put back.
    pub fn give_up(&mut self) {
        debug_assert!(self.taken > 0, "nothing is taken out");
        self.taken = self.taken.saturating_sub(1);
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.urgent.entries.is_empty()
    }

    /// How many places are in use: by what waits, and by what was taken out and may be put back.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.urgent.entries.len() + self.taken
    }

    fn key_of(&self, slot: u32) -> Option<u32> {
        self.items.get(slot as usize)?.as_ref().map(|(place, _)| place.key)
    }

    fn insert(&mut self, place: Place, item: T) {
        let Some(slot) = self.free.pop() else { return };
        self.items[slot as usize] = Some((place, item));
        let (key, arrival) = (u64::from(place.key), place.arrival);
        self.urgent.insert((key, arrival), slot);
        self.least_urgent.insert((!key, !arrival), slot);
        if let Some(deadline) = place.deadline {
            self.due.insert((deadline, arrival), slot);
        }
    }

    fn remove(&mut self, slot: u32) -> Option<(Place, T)> {
        let item = self.items.get_mut(slot as usize)?.take()?;
        for heap in [&mut self.urgent, &mut self.least_urgent, &mut self.due] {
            heap.remove(slot);
        }
        self.free.push(slot);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What may be done to a queue.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push {
            key: u32,
            deadline: Option<u64>,
        },
        Pop,
        /// Out and back in, with something pushed meanwhile.
        Hesitate {
            key: u32,
        },
        GiveUp,
        Expire {
            now: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..6_u32, prop::option::of(0..20_u64))
                .prop_map(|(key, deadline)| Step::Push { key, deadline }),
            2 => Just(Step::Pop),
            2 => (0..6_u32).prop_map(|key| Step::Hesitate { key }),
            1 => Just(Step::GiveUp),
            1 => (0..20_u64).prop_map(|now| Step::Expire { now }),
        ]
    }

    /// A sorted list: key, arrival, deadline.
    #[derive(Default)]
    struct Reference {
        items: Vec<(u32, usize, Option<u64>)>,
        arrivals: usize,
    }

    impl Reference {
        fn push(&mut self, key: u32, deadline: Option<u64>, depth: usize) -> Result<(), usize> {
            let arrival = self.arrivals;
            self.arrivals += 1;
            self.items.push((key, arrival, deadline));
            self.items.sort_unstable();
            match self.items.len() > depth {
                true => Err(self.items.pop().map_or(0, |(_, arrival, _)| arrival)),
                false => Ok(()),
            }
        }

        fn pop(&mut self) -> Option<usize> {
            (!self.items.is_empty()).then(|| self.items.remove(0).1)
        }

        fn expire(&mut self, now: u64) -> Vec<usize> {
            let is_over = |deadline: Option<u64>| deadline.is_some_and(|deadline| deadline < now);
            let mut over: Vec<_> =
                self.items.iter().filter(|(.., deadline)| is_over(*deadline)).copied().collect();
            over.sort_unstable_by_key(|&(_, arrival, deadline)| (deadline, arrival));
            self.items.retain(|(.., deadline)| !is_over(*deadline));
            over.into_iter().map(|(_, arrival, _)| arrival).collect()
        }
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_list_with_a_bound(
            depth in 1..9_usize,
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let (mut queue, mut reference) = (Egress::new(depth), Reference::default());
            for step in steps {
                match step {
                    Step::Push { key, deadline } => {
                        let number = reference.arrivals;
                        let expected = reference.push(key, deadline, depth);
                        prop_assert_eq!(queue.push(key, deadline, number), expected);
                    }
                    Step::Pop => prop_assert_eq!(queue.pop(), reference.pop()),
                    Step::GiveUp => {
                        let taken = queue.take().map(|taken| taken.item);
                        prop_assert_eq!(taken, reference.pop());
                        if taken.is_some() {
                            queue.give_up();
                        }
                    }
                    Step::Hesitate { key } => {
                        let Some(taken) = queue.take() else { continue };
                        let first = reference.items.remove(0);
                        prop_assert_eq!(taken.item, first.1);
                        // Its place is kept, so there is room for one less.
                        let number = reference.arrivals;
                        let expected = reference.push(key, None, depth - 1);
                        prop_assert_eq!(queue.push(key, None, number), expected);
                        queue.put_back(taken);
                        reference.items.push(first);
                        reference.items.sort_unstable();
                    }
                    Step::Expire { now } => {
                        let over = core::iter::from_fn(|| queue.pop_overdue(now));
                        let over: Vec<_> = over.collect();
                        prop_assert_eq!(over, reference.expire(now));
                    }
                }
                prop_assert_eq!(queue.in_use(), reference.items.len());
                prop_assert_eq!(queue.is_empty(), reference.items.is_empty());
                let earliest = reference.items.iter().filter_map(|item| item.2).min();
                prop_assert_eq!(queue.next_deadline(), earliest);
            }
        }
    }

    #[test]
    fn a_queue_of_nothing_refuses_everything() {
        assert_eq!(Egress::new(0).push(1, None, 'a'), Err('a'));
    }
}

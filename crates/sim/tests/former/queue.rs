//! Transmit queues: first in, first out, or by priority.

use candor_queue::{ByPriority, Discipline, Fifo, Taken};

/// The frames that wait in front of the wire. A frame on the wire leaves its place to another; if it
/// is destroyed, it comes back to where it was, even if the queue has filled up meanwhile.
pub enum Queue<T> {
    Fifo {
        waiting: Fifo<(u32, T)>,
        /// Came back, and is first again.
        again: Option<(u32, T)>,
    },
    Priority {
        /// With one place more than `depth`, for the frame that is on the wire.
        waiting: ByPriority<T>,
        depth: usize,
    },
}

/// A frame taken out of its queue to be sent.
pub struct Sending<T> {
    key: u32,
    pub item: T,
    /// Its place, in a queue by priority.
    place: Option<Taken<T>>,
}

impl<T: Copy> Queue<T> {
    pub fn new(discipline: Discipline, depth: usize) -> Self {
        match discipline {
            Discipline::Fifo => Self::Fifo { waiting: Fifo::new(depth), again: None },
            Discipline::Priority => Self::Priority { waiting: ByPriority::new(depth + 1), depth },
        }
    }

    #[inline]
    pub fn push(&mut self, key: u32, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        match self {
            Self::Fifo { waiting, .. } => waiting.push((key, item)).map_err(|(_, item)| item),
            Self::Priority { waiting, .. } => waiting.push(key, item),
        }
    }

    /// Takes the first frame, to send it or for good.
    #[inline]
    pub fn take(&mut self) -> Option<Sending<T>> {
        match self {
            Self::Fifo { waiting, again } => {
                let (key, item) = again.take().or_else(|| waiting.pop())?;
                Some(Sending { key, item, place: None })
            }
            Self::Priority { waiting, .. } => {
                let (key, _) = waiting.peek()?;
                let place = waiting.take()?;
                Some(Sending { key, item: place.item, place: Some(place) })
            }
        }
    }

    /// A frame was destroyed and waits again, before those that came after it.
    #[inline]
    pub fn put_back(&mut self, sending: Sending<T>) {
        match (self, sending.place) {
            (Self::Fifo { again, .. }, _) => *again = Some((sending.key, sending.item)),
            (Self::Priority { waiting, .. }, Some(place)) => waiting.put_back(place),
            (Self::Priority { .. }, None) => debug_assert!(false, "it came out of another queue"),
        }
    }

    /// A frame that was taken does not come back.
    #[inline]
    pub fn release(&mut self, sending: &Sending<T>) -> T {
        if let Self::Priority { waiting, .. } = self {
            waiting.give_up();
        }
        sending.item
    }

    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let taken = self.take()?;
        Some(self.release(&taken))
    }

    /// The arbitration key of the first frame.
    #[inline]
    pub fn head(&self) -> Option<u32> {
        match self {
            Self::Fifo { waiting, again } => {
                again.as_ref().or_else(|| waiting.peek()).map(|&(key, _)| key)
            }
            Self::Priority { waiting, .. } => waiting.peek().map(|(key, _)| key),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Fifo { waiting, again } => waiting.len() + usize::from(again.is_some()),
            Self::Priority { waiting, .. } => waiting.len(),
        }
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Fifo { waiting, .. } => self.len() >= waiting.depth(),
            Self::Priority { depth, .. } => self.len() >= *depth,
        }
    }
}

//! [`User`]: the queues of one who has a bus open, as in LinCAN.

use alloc::vec::Vec;

use crate::{Bands, DEFAULT_SLOTS, Fifo, Policy};

/// Which keys a queue takes: those that equal `code` in every bit that `mask` has.
///
/// The key of a CAN frame is its identifier word. The bits of `mask` mean what they do in SocketCAN and
/// LinCAN; in the registers of an SJA1000 they are inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// The bits to compare with.
    pub code: u32,
    /// The bits that are compared.
    pub mask: u32,
}

impl Acceptance {
    /// Takes every key.
    pub const ALL: Self = Self { code: 0, mask: 0 };

    /// Whether it takes `key`.
    #[must_use]
    #[inline]
    pub const fn accepts(self, key: u32) -> bool {
        (key ^ self.code) & self.mask == 0
    }
}

/// Why an item is not in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected<T> {
    /// No queue accepts its key.
    Unwanted(T),
    /// The queue was full and gave up this item: the one that came or the oldest, as its policy says.
    Lost(T),
}

/// How many slots the queues of a user have, and what they accept.
#[derive(Clone, Debug)]
pub struct Config {
    pub receive: Acceptance,
    pub receive_slots: usize,
    /// What a full receive queue gives up.
    pub receive_policy: Policy,
    /// What each transmit queue takes, the most urgent queue first; at most
    /// [`MOST_BANDS`](crate::bands::MOST_BANDS). An item goes to the first queue that accepts it.
    pub transmit: Vec<Acceptance>,
    /// The slots of each transmit queue. A full one refuses, since its user can try again.
    pub transmit_slots: usize,
}

impl Default for Config {
    /// One transmit queue, everything accepted, [`DEFAULT_SLOTS`] each; the newest is refused.
    fn default() -> Self {
        Self {
            receive: Acceptance::ALL,
            receive_slots: DEFAULT_SLOTS,
            receive_policy: Policy::RefuseNewest,
            transmit: alloc::vec![Acceptance::ALL],
            transmit_slots: DEFAULT_SLOTS,
        }
    }
}

/// The queues of one user: one for what it receives, and several by priority for what it sends. No
/// operation allocates. Receiving takes constant time; so does sending, for a given number of queues.
#[derive(Clone, Debug)]
pub struct User<T> {
    receive: Acceptance,
    received: Fifo<T>,
    transmit: Vec<Acceptance>,
    sent: Bands<T>,
    unwanted: u64,
}

impl<T> User<T> {
    /// Queues as `config` says, allocated now.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            receive: config.receive,
            received: Fifo::with_policy(config.receive_slots, config.receive_policy),
            transmit: config.transmit.clone(),
            sent: Bands::new(config.transmit.len(), config.transmit_slots, Policy::RefuseNewest),
            unwanted: 0,
        }
    }

    /// From the bus: puts `item` into the receive queue, if that accepts `key`.
    ///
    /// # Errors
    /// The item that found no place.
    #[inline]
    pub fn deliver(&mut self, key: u32, item: T) -> Result<(), Rejected<T>> {
        if !self.receive.accepts(key) {
            self.unwanted += 1;
            return Err(Rejected::Unwanted(item));
        }
        self.received.push(item).map_err(Rejected::Lost)
    }

    /// By the user: takes the oldest item that was received.
    #[inline]
    pub fn receive(&mut self) -> Option<T> {
        self.received.pop()
    }

    /// By the user: puts `item` into the most urgent transmit queue that accepts `key`.
    ///
    /// # Errors
    /// The item that found no place.
    #[inline]
    pub fn send(&mut self, key: u32, item: T) -> Result<(), Rejected<T>> {
        match self.transmit.iter().position(|queue| queue.accepts(key)) {
            None => {
                self.unwanted += 1;
                Err(Rejected::Unwanted(item))
            }
            Some(band) => self.sent.push(band, item).map_err(Rejected::Lost),
        }
    }

    /// To the bus: takes the item to transmit next.
    #[inline]
    pub fn next_to_transmit(&mut self) -> Option<T> {
        self.sent.pop()
    }

    /// What waits for the user.
    #[must_use]
    pub const fn received(&self) -> &Fifo<T> {
        &self.received
    }

    /// What waits for the bus.
    #[must_use]
    pub const fn sent(&self) -> &Bands<T> {
        &self.sent
    }

    /// How many items no queue accepted.
    #[must_use]
    pub const fn unwanted(&self) -> u64 {
        self.unwanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_which_bits_count() {
        let cases = [
            (Acceptance::ALL, 0x7FF, true),
            (Acceptance { code: 0x100, mask: 0x700 }, 0x1FF, true),
            (Acceptance { code: 0x100, mask: 0x700 }, 0x2FF, false),
            (Acceptance { code: 0x1FF, mask: 0x700 }, 0x100, true),
            (Acceptance { code: 0, mask: u32::MAX }, 1, false),
        ];
        for (acceptance, key, accepts) in cases {
            assert_eq!(acceptance.accepts(key), accepts, "{acceptance:?} {key:#x}");
        }
    }

    #[test]
    fn urgent_items_of_a_user_overtake() {
        let urgent = Acceptance { code: 0, mask: 0x700 };
        let other = Acceptance { code: 0, mask: 0x400 };
        let config =
            Config { transmit: alloc::vec![urgent, other], transmit_slots: 2, ..Config::default() };
        let mut user = User::new(&config);
        let outcomes = [0x300, 0x200, 0x0FF, 0x100, 0x400].map(|key| user.send(key, key));
        let (lost, unwanted) = (Err(Rejected::Lost(0x100)), Err(Rejected::Unwanted(0x400)));
        assert_eq!(outcomes, [Ok(()), Ok(()), Ok(()), lost, unwanted]);
        assert_eq!((user.sent().lost(0), user.sent().lost(1), user.unwanted()), (0, 1, 1));
        let left: Vec<_> = core::iter::from_fn(|| user.next_to_transmit()).collect();
        assert_eq!(left, [0x0FF, 0x300, 0x200]);
    }

    #[test]
    fn a_user_receives_what_it_accepts() {
        let config = Config {
            receive: Acceptance { code: 0x100, mask: 0x700 },
            receive_slots: 2,
            receive_policy: Policy::OverwriteOldest,
            ..Config::default()
        };
        let mut user = User::new(&config);
        let outcomes = [0x101, 0x201, 0x102, 0x103].map(|key| user.deliver(key, key));
        let (unwanted, lost) = (Err(Rejected::Unwanted(0x201)), Err(Rejected::Lost(0x101)));
        assert_eq!(outcomes, [Ok(()), unwanted, Ok(()), lost]);
        assert_eq!((user.unwanted(), user.received().lost()), (1, 1));
        assert_eq!([(); 3].map(|()| user.receive()), [Some(0x102), Some(0x103), None]);
    }
}

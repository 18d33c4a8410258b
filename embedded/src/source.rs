//! [`Source`]: the frames, always the same ones.

use candor_queue::spsc::{Producer, Words};
use candor_wire::can::frame::EFF_FLAG;

/// The longest burst.
const LONGEST: u32 = 16;

/// Where identifiers begin, and how many there are from there: those of the rules, and all standard ones.
const IDENTIFIERS: [(u32, u32); 7] = [
    (0x000, 0x800),
    (0x201, 1),
    (0x210, 16),
    (0x300, 16),
    (0x330, 1),
    (0x7DF, 33),
    (EFF_FLAG | 0x18FE_F100, 16),
];

/// Puts bursts of frames into the receive ring, as the interrupt handler of a controller does.
#[derive(Debug)]
pub(crate) struct Source {
    ring: Producer<4>,
    state: u32,
    sent: u32,
}

impl Source {
    pub(crate) const fn new(ring: Producer<4>) -> Self {
        Self { ring, state: 0x2545_F491, sent: 0 }
    }

    /// Puts 1 to 16 frames.
    pub(crate) fn burst(&mut self) {
        for _ in 0..=self.next() % LONGEST {
            let frame = self.frame();
            // The ring counts what it loses.
            let _ = self.ring.push(&frame);
            self.sent += 1;
        }
    }

    pub(crate) const fn sent(&self) -> u32 {
        self.sent
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.ring.lost()
    }

    /// Identifier word, bus and length, data.
    fn frame(&mut self) -> Words<4> {
        let (first, count) = IDENTIFIERS[self.next() as usize % IDENTIFIERS.len()];
        let can_id = first + self.next() % count;
        let (bus, len) = (self.next() % 3, self.next() % 9);
        [can_id, bus << 8 | len, self.next(), self.next()]
    }

    /// xorshift32 by Marsaglia; the high bits are the better ones.
    fn next(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.state >> 4
    }
}

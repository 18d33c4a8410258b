//! Which bits are inverted on a bus, for all its nodes.

use candor_random::BitErrors;

use crate::node::NodeId;

/// How many faults [`TimedFaults`] hold at a time.
pub const MOST_FAULTS: usize = 32;

/// Decides which bit of a frame is inverted. `()` inverts none.
pub trait Faults {
    /// Frame number `number` that begins on the bus, from 0, has so many bits, stuff bits counted and its intermission
    /// not: which of them, from 0, is inverted. It is asked once for each frame. `sender` is the first of those that send
    /// it.
    fn draw(&mut self, number: u64, sender: NodeId, bits: u32) -> Option<u32>;
}

impl Faults for () {
    #[inline]
    fn draw(&mut self, _: u64, _: NodeId, _: u32) -> Option<u32> {
        None
    }
}

/// A bit that is inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which frame that begins on the bus, counted from 0.
    pub frame: u64,
    /// At which of its bits, from 0, stuff bits counted. A frame that ends before has none.
    pub bit: u32,
}

/// Bits that are destroyed by a law of chance, and single ones that were told.
#[derive(Clone, Copy, Debug)]
pub struct TimedFaults {
    by_law: Option<BitErrors>,
    told: [Option<Fault>; MOST_FAULTS],
    has_told: bool,
}

impl TimedFaults {
    /// No bit is inverted.
    pub const NONE: Self = Self { by_law: None, told: [None; MOST_FAULTS], has_told: false };

    /// Bits are destroyed by this law from now on.
    pub const fn set_bit_errors(&mut self, bit_errors: BitErrors) {
        self.by_law = Some(bit_errors);
    }

    /// A bit of a frame to come is inverted. Whether there is room for so many faults.
    pub fn add(&mut self, fault: Fault) -> bool {
        let free = self.told.iter_mut().find(|it| it.is_none());
        self.has_told = true;
        free.map(|free| *free = Some(fault)).is_some()
    }

    fn draw_told(&mut self, number: u64, bits: u32) -> Option<u32> {
        let mut first = None;
        for slot in &mut self.told {
            let due = slot.take_if(|it| it.frame <= number).filter(|it| it.frame == number);
            let bit = due.map(|it| it.bit).filter(|&bit| bit < bits);
            first = first.into_iter().chain(bit).min();
        }
        self.has_told = self.told.iter().any(Option::is_some);
        first
    }
}

impl Faults for TimedFaults {
    #[inline]
    fn draw(&mut self, number: u64, _: NodeId, bits: u32) -> Option<u32> {
        let fault = self.by_law.as_mut().and_then(|it| it.draw(bits));
        if self.has_told {
            self.draw_told(number, bits).into_iter().chain(fault).min()
        } else {
            fault
        }
    }
}

//! Counting stuff bits eight bits at a time.
//!
//! The state between two bytes is the last bit on the wire and how many equal ones it ends, 1 to 4:
//! a fifth makes a stuff bit, which begins a new run of one. That makes eight states, and a table
//! of 8 x 256 entries gives the stuff bits within a byte and the state after it.

/// A bit and the length of the run it ends: `value * 4 + run - 1`.
type State = u8;

/// A recessive bit that stands alone: what the idle bus or an alternating prefix leaves behind.
const AFTER_RECESSIVE: State = 4;

const fn step(state: State, bit: bool) -> (State, bool) {
    let (last, run) = (state >> 2 != 0, (state & 3) + 1);
    if last != bit {
        ((bit as u8) << 2, false)
    } else if run < 4 {
        ((bit as u8) << 2 | run, false)
    } else {
        ((!bit as u8) << 2, true)
    }
}

/// For each state and byte (`state << 8 | byte`): the next state (high byte) and the stuff bits (low byte).
static TABLE: [u16; 8 << 8] = {
    let mut table = [0; 8 << 8];
    let mut index = 0;
    while index < table.len() {
        let (mut state, mut count, mut bit) = ((index >> 8) as State, 0, 8);
        while bit > 0 {
            bit -= 1;
            let (after, stuffed) = step(state, index >> bit & 1 != 0);
            state = after;
            count += stuffed as u16;
        }
        table[index] = (state as u16) << 8 | count;
        index += 1;
    }
    table
};

/// Counts the stuff bits of what is sent, from SOF on.
#[derive(Clone, Copy)]
pub(super) struct StuffCounter {
    /// The last entry of the table.
    entry: u16,
    /// The sum of the entries. No frame has more than 255 stuff bits, so their number is the low byte.
    sum: u32,
}

impl StuffCounter {
    /// After the `count` (at most 120) low bits of `bits`. The byte that they leave incomplete on the left is filled with
    /// alternating bits that end recessive, so that they make no stuff bit and leave the first bit (dominant SOF) alone.
    #[inline]
    pub(super) fn new(bits: u128, count: u32) -> Self {
        let bytes = (bits | 0x55 << count).to_be_bytes();
        let mut counter = Self { entry: u16::from(AFTER_RECESSIVE) << 8, sum: 0 };
        counter.add(&bytes[16 - count.div_ceil(8) as usize..]);
        counter
    }

    /// Eight more bits each.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.entry = TABLE[usize::from(self.entry & 0x700 | u16::from(byte))];
            self.sum += u32::from(self.entry);
        }
    }

    /// The stuff bits so far, one that follows the last bit included.
    #[inline]
    pub(super) const fn closed(self) -> u32 {
        self.sum & 0xFF
    }

    /// The same without one that follows the last bit, whose value is given: only a stuff bit leaves the other one.
    #[inline]
    pub(super) const fn open(self, last_bit: bool) -> u32 {
        self.closed() - ((self.entry >> 10 & 1 != 0) != last_bit) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuff_bit_counts_in_the_next_run() {
        // 00000(1)1111(0): the stuff bit is the first of five ones.
        let count = |bits, count| StuffCounter::new(bits, count).closed();
        assert_eq!(count(0b0_0000_1111, 9), 2);
        assert_eq!(count(0b0000_0111, 8), 1);
        assert_eq!(count(0, 5), 1);
        assert_eq!(count(0, 4), 0);
        assert_eq!(count(0, 20), 4 + 1 - 1);
    }

    #[test]
    fn an_open_end_takes_none() {
        let open = |bits, count| StuffCounter::new(bits, count).open(bits & 1 != 0);
        assert_eq!(open(0, 5), 0);
        assert_eq!(open(0b0101_0101_0001_1111, 16), 0);
        assert_eq!(open(0b0101_0101_0011_1110, 16), 1);
        assert_eq!(open(0b0_0000_1111, 9), 1);
    }
}

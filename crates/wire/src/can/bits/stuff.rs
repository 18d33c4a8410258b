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

/// For each state and byte: the stuff bits (high nibble) and the next state (low nibble). With
/// `OPEN`, a stuff bit after the last bit of the byte is not counted.
const fn table<const OPEN: bool>() -> [[u8; 256]; 8] {
    let mut table = [[0; 256]; 8];
    let mut state = 0;
    while state < 8 {
        let mut byte = 0;
        while byte < 256 {
            let (mut next, mut count, mut bit) = (state as State, 0, 8);
            while bit > 0 {
                bit -= 1;
                let (after, stuffed) = step(next, byte >> bit & 1 != 0);
                next = after;
                if stuffed && !(OPEN && bit == 0) {
                    count += 1;
                }
            }
            table[state][byte] = count << 4 | next;
            byte += 1;
        }
        state += 1;
    }
    table
}

static CLOSED: [[u8; 256]; 8] = table::<false>();
static OPEN: [[u8; 256]; 8] = table::<true>();

#[inline]
fn look_up(table: &[[u8; 256]; 8], state: State, byte: u8) -> (u32, State) {
    let entry = table[usize::from(state & 7)][usize::from(byte)];
    (u32::from(entry >> 4), entry & 0xF)
}

/// Fills the byte that `count` bits leave incomplete on the left with alternating bits that end
/// recessive, so that they make no stuff bit and leave the first bit (dominant SOF) alone.
#[inline]
const fn padded(bits: u128, count: u32) -> (u128, usize) {
    (bits | 0x55 << count, count.div_ceil(8) as usize)
}

/// Stuff bits of the `count` (at most 120) low bits of `bits`, one after the last bit included.
#[inline]
pub(super) fn count(bits: u128, count: u32) -> u32 {
    let (bits, len) = padded(bits, count);
    let bytes = bits.to_be_bytes();
    let (mut state, mut total) = (AFTER_RECESSIVE, 0);
    for &byte in &bytes[16 - len..] {
        let (stuffed, next) = look_up(&CLOSED, state, byte);
        total += stuffed;
        state = next;
    }
    total
}

/// Stuff bits of a header of `count` bits followed by `data`, one after the last bit excluded.
#[inline]
pub(super) fn count_open(header: u64, count: u32, data: &[u8]) -> u32 {
    let (header, len) = padded(u128::from(header), count);
    let header = header.to_be_bytes();
    let header = &header[16 - len..];
    let (mut state, mut total) = (AFTER_RECESSIVE, 0);
    let (all_but_last, last) = match data.split_last() {
        Some((last, rest)) => ((header, rest), *last),
        None => ((&header[..len - 1], data), header[len - 1]),
    };
    for &byte in all_but_last.0.iter().chain(all_but_last.1) {
        let (stuffed, next) = look_up(&CLOSED, state, byte);
        total += stuffed;
        state = next;
    }
    total + look_up(&OPEN, state, last).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stuff_bit_counts_in_the_next_run() {
        // 00000(1)1111(0): the stuff bit is the first of five ones.
        assert_eq!(count(0b0_0000_1111, 9), 2);
        assert_eq!(count(0b0000_0111, 8), 1);
        assert_eq!(count(0, 5), 1);
        assert_eq!(count(0, 4), 0);
        assert_eq!(count(0, 20), 4 + 1 - 1);
    }

    #[test]
    fn an_open_end_takes_none() {
        assert_eq!(count_open(0, 5, &[]), 0);
        assert_eq!(count_open(0b0101_0101, 8, &[0xF8 >> 3]), 0);
        assert_eq!(count_open(0b0101_0101, 8, &[0x1F]), 0);
        assert_eq!(count_open(0b0101_0101, 8, &[0x3E]), 1);
    }
}

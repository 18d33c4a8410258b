//! [`Circle`]: recognises frames that go round between gateways.
//!
//! Two gateways with two tunnels between them, and rules that pass everything on, are a ring: a frame
//! that gets in never gets out. No format of CAN in UDP or TCP says how often a frame was passed on,
//! and the identifier of a frame has no room for it, so a ring can only be detected by what it does:
//!
//! - The same frame, to the last bit, comes again and again, far more often than anybody sends it.
//! - Where a rule of the ring changes each frame, such as by a counter, no frame comes twice. But more
//!   frames of one identifier come than a bus can carry.

use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

/// More of one frame in a second than a sender has a use for: one each 0.5 ms.
const MOST_OF_ONE: u32 = 2_000;
/// More repeated frames in a second than three full buses of 1 Mbit/s carry.
const MOST_REPEATS: u32 = 30_000;
/// More of one identifier in a second than a bus of 1 Mbit/s carries: 21,276 classical frames of 47
/// bits, or 29,300 frames of CAN FD with a byte of data, at 8 Mbit/s. Those without data do not differ.
const MOST_OF_AN_ID: u32 = 30_000;
/// Frames between two looks at the clock.
const CLOCK_EVERY: u32 = 256;
/// Different frames, and different identifiers, that are distinguished. Those that share a place count against each other, and the
/// one that comes most often stays.
const PLACES: usize = 1_024;

/// A frame or an identifier, and how often it came.
#[derive(Clone, Copy, Default)]
struct Place {
    print: u64,
    count: u32,
}

impl Place {
    /// Counts one that belongs here. How often it came, or 0 if another one has this place.
    fn count(&mut self, print: u64) -> u32 {
        if self.print == print {
            self.count += 1;
            return self.count;
        }
        match self.count {
            0 | 1 => *self = Self { print, count: 1 },
            _ => self.count -= 1,
        }
        0
    }
}

/// What came on one bus in the last second.
pub(crate) struct Circle {
    places: Box<[Place; PLACES]>,
    ids: Box<[Place; PLACES]>,
    repeats: u32,
    since: Instant<Monotonic>,
    until_clock: u32,
}

impl Circle {
    pub(crate) fn new() -> Self {
        let places = || Box::new([Place::default(); PLACES]);
        Self {
            places: places(),
            ids: places(),
            repeats: 0,
            since: clock::now(),
            until_clock: CLOCK_EVERY,
        }
    }

    /// Notes a frame. True if it comes as often as only frames do that go round.
    pub(crate) fn note(&mut self, frame: &Frame) -> bool {
        self.note_at(frame, clock::now)
    }

    fn note_at(&mut self, frame: &Frame, now: impl Fn() -> Instant<Monotonic>) -> bool {
        self.until_clock -= 1;
        if self.until_clock == 0 {
            self.look(now());
        }
        let is_round = self.count(frame);
        // Since the last look more than a second may have passed.
        if is_round && self.look(now()) {
            return self.count(frame);
        }
        is_round
    }

    /// After a second everything begins anew: whether it does.
    fn look(&mut self, now: Instant<Monotonic>) -> bool {
        self.until_clock = CLOCK_EVERY;
        let is_over = now - self.since >= Nanos::from_secs(1);
        if is_over {
            self.places.fill(Place::default());
            self.ids.fill(Place::default());
            (self.repeats, self.since) = (0, now);
        }
        is_over
    }

    fn count(&mut self, frame: &Frame) -> bool {
        let of_one = count_in(&mut self.places, print(frame));
        let of_id = count_in(&mut self.ids, spread(u64::from(frame.can_id())));
        self.repeats += u32::from(of_one > 0);
        of_one > MOST_OF_ONE || self.repeats > MOST_REPEATS || of_id > MOST_OF_AN_ID
    }
}

fn count_in(places: &mut [Place; PLACES], print: u64) -> u32 {
    places.get_mut(print as usize % PLACES).map_or(0, |place| place.count(print))
}

/// A number for the frame, to the last bit.
fn print(frame: &Frame) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |print: u64, more: u64| (print.rotate_left(5) ^ more).wrapping_mul(FACTOR);
    let head = u64::from(frame.can_id()) | (frame.len() as u64) << 32;
    let print = mix(u64::from(frame.is_fd()), head);
    let print = frame.data().chunks(8).fold(print, |print, chunk| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(chunk).for_each(|(byte, &from)| *byte = from);
        mix(print, u64::from_le_bytes(bytes))
    });
    spread(print)
}

/// Every bit of a number in every bit of another one (the last step of MurmurHash3). Zero stands for an
/// empty place.
fn spread(print: u64) -> u64 {
    let print = (print ^ print >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let print = (print ^ print >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (print ^ print >> 33) | 1 << 63
}

#[cfg(test)]
mod tests {
    use candor_wire::can::StandardId;

    use super::*;

    fn frame(id: u16, number: u64) -> Frame {
        Frame::new(StandardId::new(id).unwrap(), &number.to_be_bytes()).unwrap()
    }

    #[test]
    fn a_frame_that_goes_round_is_reported_and_others_are_not() {
        let mut circle = Circle::new();
        let mut reported = 0;
        for number in 0..u64::from(MOST_OF_ONE) * 3 {
            // A bus: counters that go on, states that stay, and one frame that goes round.
            for id in 0x200..0x205 {
                assert!(!circle.count(&frame(id, number)), "a counter");
            }
            if number % 10 == 0 {
                assert!(!circle.count(&frame(0x300, 7)), "a state");
            }
            reported += u32::from(circle.count(&frame(0x100, 1)));
        }
        // Some of its places are shared, which costs it a part of its count.
        assert!((MOST_OF_ONE..=MOST_OF_ONE * 2).contains(&reported), "{reported}");
    }

    #[test]
    fn many_frames_that_go_round_slowly_are_reported_too() {
        let mut circle = Circle::new();
        let mut reported = 0_u32;
        for _ in 0..200 {
            for number in 0..500 {
                reported += u32::from(circle.count(&frame(0x100, number)));
            }
        }
        assert!(reported > 10_000, "{reported}");
    }

    #[test]
    fn a_ring_that_changes_each_frame_is_reported_and_a_full_bus_is_not() {
        // All that CAN FD carries in a second and the time until the clock is read, beside others.
        let mut circle = Circle::new();
        for number in 0..29_300 + u64::from(CLOCK_EVERY) {
            assert!(!circle.count(&frame(0x100, number)), "a full bus, frame {number}");
        }
        // One more identifier, and another tunnel, make no difference to it.
        for number in 0..29_300 {
            assert!(!circle.count(&frame(0x101, number)), "another one, frame {number}");
        }
        let mut circle = Circle::new();
        let mut reported = 0;
        for number in 0..u64::from(MOST_OF_AN_ID) * 2 {
            reported += u32::from(circle.count(&frame(0x100, number)));
            if number % 10 == 0 {
                assert!(!circle.count(&frame(0x200, number)), "an honest one beside it");
            }
        }
        assert!((MOST_OF_AN_ID * 8 / 10..=MOST_OF_AN_ID).contains(&reported), "{reported}");
    }

    #[test]
    fn the_rate_decides_whatever_comes_beside() {
        // One frame so often in a second, and so many others; how many of it are reported in 20 s.
        for (rate, others, expected) in [
            (1_800, 0, 0..=0),
            (1_999, 0, 0..=0),
            (1_999, 37, 0..=0),
            (2_200, 0, 20 * 190..=20 * 200),
        ] {
            let mut circle = Circle::new();
            let begin = circle.since;
            let at =
                |number: u64, rate: u64| begin + Nanos::from_nanos(number * 1_000_000_000 / rate);
            let mut other = 0;
            let mut reported = 0_u64;
            for number in 1..=20 * rate {
                while others > 0 && at(other, others) < at(number, rate) {
                    assert!(!circle.note_at(&frame(0x200, other), || at(other, others)));
                    other += 1;
                }
                reported += u64::from(circle.note_at(&frame(0x100, 1), || at(number, rate)));
            }
            assert!(expected.contains(&reported), "{rate} and {others} in a second: {reported}");
        }
    }

    #[test]
    fn a_second_later_it_begins_anew() {
        let mut circle = Circle::new();
        let begin = circle.since;
        let round = |circle: &mut Circle| {
            (0..=MOST_OF_ONE).map(|_| circle.count(&frame(0x100, 1))).filter(|&is| is).count()
        };
        assert_eq!(round(&mut circle), 1);
        circle.look(begin + Nanos::from_millis(999));
        assert_eq!(round(&mut circle), MOST_OF_ONE as usize + 1);
        circle.look(begin + Nanos::from_secs(1));
        assert_eq!(round(&mut circle), 1);
    }

    #[test]
    fn frames_that_differ_in_a_bit_are_different() {
        let texts = ["100#", "100#00", "100#R", "100##0", "100##1", "101#", "00000100#", "100#01"];
        let mut prints: Vec<_> = texts.iter().map(|text| print(&text.parse().unwrap())).collect();
        prints.sort_unstable();
        prints.dedup();
        // The flags of CAN FD change on the way, and do not count.
        assert_eq!(prints.len(), texts.len() - 1);
    }
}

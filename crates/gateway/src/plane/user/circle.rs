//! [`Circle`]: recognises frames that go round between gateways.
//!
//! Two gateways with two tunnels between them, and rules that pass everything on, are a ring: a frame
//! that gets in never gets out. No format of CAN in UDP or TCP says how often a frame was passed on,
//! and the identifier of a frame has no room for it, so a ring can only be detected by what it does:
//!
//! - The same frame, to the last bit, comes again and again, far more often than anybody sends it.
//! - Where a rule of the ring changes each frame, such as by a counter, no frame comes twice. But more
//!   frames of one identifier come than a bus can carry.
//!
//! How often is counted in windows of a second at least. Frames wait in the kernel while this process does not run, such as between
//! SIGSTOP and SIGCONT, and are received in one go when it runs again. They are to be judged by the time in which they came, not by
//! the time in which they were received:
//!
//! - A window begins at an instant `b` at which nothing waited: what is counted in it came after `b`.
//! - Hence of a sender of `r` frames in a second at most `r * (t - b)` and one are counted until `t`, however long this process
//!   stood still in between. A frame is taken for one that goes round if it was counted more than `MOST * max(1 s, t - b)` times, so
//!   a sender of at most `MOST` a second never is.
//! - A window ends at the first instant after a second at which nothing waits. Only then the next one can begin.
//!
//! To find that instant, who receives asks once without waiting when [`Circle::is_over`]; that is one more call in a second. In a
//! ring that is so fast that frames always wait, no window ends, but a frame comes more often than `MOST` a second in that window,
//! too. Frames that come after silence find an old window, in which much is allowed: until one call finds nothing, and for
//! [`LONGEST`] at most.

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
/// A window counts as so long at most: this process stands still for a shorter time, or the kernel has no room for what comes.
const LONGEST: Nanos = Nanos::from_secs(30);
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

/// How often frames come at most that do not go round, or came.
#[derive(Clone, Copy)]
struct Counts {
    of_one: u32,
    repeats: u32,
    of_an_id: u32,
}

impl Counts {
    /// In a window of that length.
    fn most(window: Nanos) -> Self {
        let window = u128::from(window.clamp(Nanos::from_secs(1), LONGEST).as_nanos());
        let second = u128::from(Nanos::from_secs(1).as_nanos());
        // `LONGEST` keeps them far below `u32::MAX`.
        let most = |in_a_second: u32| (u128::from(in_a_second) * window / second) as u32;
        Self {
            of_one: most(MOST_OF_ONE),
            repeats: most(MOST_REPEATS),
            of_an_id: most(MOST_OF_AN_ID),
        }
    }

    fn exceed(self, most: Self) -> bool {
        self.of_one > most.of_one || self.repeats > most.repeats || self.of_an_id > most.of_an_id
    }
}

/// What came on one bus in a window of a second or more.
pub(crate) struct Circle {
    places: Box<[Place; PLACES]>,
    ids: Box<[Place; PLACES]>,
    repeats: u32,
    /// Nothing waited then that came before.
    since: Instant<Monotonic>,
    /// For the window as long as it was at the last look at the clock.
    most: Counts,
    is_over: bool,
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
            most: Counts::most(Nanos::ZERO),
            is_over: false,
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
        let counts = self.count(frame);
        if !counts.exceed(self.most) {
            return false;
        }
        // The window may have become longer since the last look.
        self.look(now());
        counts.exceed(self.most)
    }

    /// Whether the window ends as soon as nothing waits to be received.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Everything begins anew. Nothing waits that came before `since`.
    pub(crate) fn begin(&mut self, since: Instant<Monotonic>) {
        self.places.fill(Place::default());
        self.ids.fill(Place::default());
        (self.repeats, self.since) = (0, since);
        self.look(since);
    }

    fn look(&mut self, now: Instant<Monotonic>) {
        self.until_clock = CLOCK_EVERY;
        let window = now - self.since;
        self.is_over = window >= Nanos::from_secs(1);
        self.most = Counts::most(window);
    }

    fn count(&mut self, frame: &Frame) -> Counts {
        let of_one = count_in(&mut self.places, print(frame));
        let of_an_id = count_in(&mut self.ids, spread(u64::from(frame.can_id())));
        self.repeats += u32::from(of_one > 0);
        Counts { of_one, repeats: self.repeats, of_an_id }
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

    /// Notes a frame in the first second of a window.
    fn note(circle: &mut Circle, frame: &Frame) -> bool {
        let since = circle.since;
        circle.note_at(frame, || since)
    }

    #[test]
    fn a_frame_that_goes_round_is_reported_and_others_are_not() {
        let mut circle = Circle::new();
        let mut reported = 0;
        for number in 0..u64::from(MOST_OF_ONE) * 3 {
            // A bus: counters that go on, states that stay, and one frame that goes round.
            for id in 0x200..0x205 {
                assert!(!note(&mut circle, &frame(id, number)), "a counter");
            }
            if number % 10 == 0 {
                assert!(!note(&mut circle, &frame(0x300, 7)), "a state");
            }
            reported += u32::from(note(&mut circle, &frame(0x100, 1)));
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
                reported += u32::from(note(&mut circle, &frame(0x100, number)));
            }
        }
        assert!(reported > 10_000, "{reported}");
    }

    #[test]
    fn a_ring_that_changes_each_frame_is_reported_and_a_full_bus_is_not() {
        // All that CAN FD carries in a second and the time until the clock is read, beside others.
        let mut circle = Circle::new();
        for number in 0..29_300 + u64::from(CLOCK_EVERY) {
            assert!(!note(&mut circle, &frame(0x100, number)), "a full bus, frame {number}");
        }
        // One more identifier, and another tunnel, make no difference to it.
        for number in 0..29_300 {
            assert!(!note(&mut circle, &frame(0x101, number)), "another one, frame {number}");
        }
        let mut circle = Circle::new();
        let mut reported = 0;
        for number in 0..u64::from(MOST_OF_AN_ID) * 2 {
            reported += u32::from(note(&mut circle, &frame(0x100, number)));
            if number % 10 == 0 {
                assert!(!note(&mut circle, &frame(0x200, number)), "an honest one beside it");
            }
        }
        assert!((MOST_OF_AN_ID * 8 / 10..=MOST_OF_AN_ID).contains(&reported), "{reported}");
    }

    /// Frames of one identifier that come `rate` times in a second from `begin` on: so many different ones, in turn.
    struct Sender {
        id: u16,
        rate: u64,
        kinds: u64,
        begin: Nanos,
    }

    impl Sender {
        fn always(id: u16, rate: u64) -> Self {
            Self { id, rate, kinds: 1, begin: Nanos::ZERO }
        }
    }

    /// What a worker does in virtual time: it receives at most `batch` frames at once, takes `each` for one of them, and stands still
    /// during `pauses`. Gives when the first `most` frames were taken for such that go round, and how many of the first sender had come.
    fn work(
        senders: &[Sender],
        (batch, each): (usize, Nanos),
        pauses: &[(Nanos, Nanos)],
        (seconds, most): (u64, usize),
    ) -> Vec<(Nanos, u64)> {
        let mut sent = vec![0; senders.len()];
        let mut arrivals = std::iter::from_fn(|| {
            let at = |index: usize, sender: &Sender| {
                sender.begin + Nanos::from_nanos(sent[index] * 1_000_000_000 / sender.rate)
            };
            let all = senders.iter().enumerate().map(|(index, it)| (at(index, it), index));
            let (at, index) = all.min()?;
            sent[index] += 1;
            (at < Nanos::from_secs(seconds)).then_some((at, index, sent[index] - 1))
        })
        .peekable();
        let mut circle = Circle::new();
        let begin = circle.since;
        let running = |at: Nanos| {
            pauses.iter().find(|(from, to)| (*from..*to).contains(&at)).map_or(at, |pause| pause.1)
        };
        let (mut now, mut waiting) = (Nanos::ZERO, Vec::new());
        let mut round = Vec::new();
        while let Some(&(first, ..)) = arrivals.peek() {
            now = running(now);
            while waiting.len() < batch
                && let Some(arrival) = arrivals.next_if(|it| it.0 <= now)
            {
                waiting.push(arrival);
            }
            match (waiting.is_empty(), circle.is_over()) {
                (true, true) => circle.begin(begin + now),
                (true, false) => now = first,
                _ => {}
            }
            for (_, index, number) in waiting.drain(..) {
                now = running(now + each);
                let sender = &senders[index];
                let frame = frame(sender.id, number % sender.kinds);
                if circle.note_at(&frame, || begin + now) {
                    // Of many frames that go round slowly it is not known which they are.
                    assert!(index == 0 || senders[0].kinds > 1, "{:x} at {now:?}", sender.id);
                    round.push((now, number + 1));
                    if round.len() == most {
                        return round;
                    }
                }
            }
        }
        round
    }

    /// Random numbers below `most`.
    fn below(state: &mut u64, most: u64) -> u64 {
        *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (*state >> 33) % most
    }

    #[test]
    fn a_pause_makes_no_sender_a_ring() {
        let none: &[(Nanos, Nanos)] = &[];
        let how = (64, Nanos::from_micros(5));
        assert_eq!(work(&[Sender::always(0x100, 1_999)], how, none, (10, 1)), []);
        for seed in 1..=12_u64 {
            let mut state = seed;
            let mut pauses = Vec::new();
            let mut at = Nanos::ZERO;
            while at < Nanos::from_secs(10) {
                at += Nanos::from_millis(below(&mut state, 2_500));
                let length = Nanos::from_millis(100 + below(&mut state, 1_901));
                pauses.push((at, at + length));
                at += length;
            }
            let mut senders = vec![Sender::always(0x100, 1_800)];
            for id in 0..below(&mut state, 4) as u16 {
                let rate = 1 + below(&mut state, 1_000);
                senders.push(Sender { kinds: 1 << (id * 4), ..Sender::always(0x200 + id, rate) });
            }
            // With a receiver that hands over one frame at a time, too.
            let how = ([1, 64, 256][seed as usize % 3], Nanos::from_micros(1 + seed % 20));
            assert_eq!(work(&senders, how, &pauses, (10, 1)), [], "seed {seed}");
        }
    }

    #[test]
    fn a_ring_is_found_soon_whatever_comes_beside() {
        for seed in 1..=8_u64 {
            let mut state = seed;
            let begin = Nanos::from_millis(below(&mut state, 1_500));
            let pause = Nanos::from_millis(below(&mut state, 1_000));
            let pauses = [(begin - begin.min(pause), begin + pause)];
            let others = below(&mut state, 5) as usize;
            for (rate, kinds) in [(5_000, 1), (100_000, 1), (50_000, 500)] {
                let mut senders = vec![Sender { id: 0x100, rate, kinds, begin }];
                senders.extend(
                    [(0x200, 1_800), (0x201, 1), (0x202, 10), (0x203, 400)]
                        .map(|(id, rate)| Sender::always(id, rate)),
                );
                senders.truncate(1 + others);
                // A fast one comes faster than its frames are taken.
                let each = Nanos::from_micros(if rate == 100_000 { 11 } else { 3 });
                let how = ([1, 64, 256][seed as usize % 3], each);
                let first = |pauses| work(&senders, how, pauses, (4, 1)).first().copied();
                let context = format!("seed {seed}, {rate} in a second from {begin} on, {pause}");
                // At worst a window ends just before it is found, and 30,000 of 50,000 in a second take 0.6 s.
                let soon = begin + Nanos::from_millis(if kinds > 1 { 1_250 } else { 1_100 });
                let (at, _) = first(&pauses).unwrap_or_else(|| panic!("{context}"));
                assert!(at < soon + pause, "{context}: found at {at}");
                let (at, passes) = first(&[]).unwrap_or_else(|| panic!("{context}"));
                assert!(at < soon, "{context}: found at {at}");
                // What comes beside it ends windows, in time.
                let is_at_once = rate < 100_000 || others == 0 || passes < 2_400;
                assert!(is_at_once, "{context}: found after {passes} passes");
            }
        }
    }

    #[test]
    fn a_ring_goes_on_being_reported() {
        let how = (64, Nanos::from_micros(5));
        for (rate, expected) in [(2_200, 190..=410), (5_000, 2_500..=3_400)] {
            let round = work(&[Sender::always(0x100, rate)], how, &[], (20, usize::MAX));
            let seconds = 1..20;
            for second in seconds {
                let second = Nanos::from_secs(second)..Nanos::from_secs(second + 1);
                let count = round.iter().filter(|(at, _)| second.contains(at)).count();
                assert!(expected.contains(&count), "{rate}: {count} in {second:?}");
            }
        }
    }

    #[test]
    fn after_silence_a_ring_that_lets_nothing_drain_is_found_too() {
        let mut circle = Circle::new();
        let hour = circle.since + Nanos::from_secs(3_600);
        let at = |number: u64| hour + Nanos::from_nanos(number * 10_000);
        let is_round = |number: &u64| circle.note_at(&frame(0x100, 1), || at(*number));
        let found = (1..).find(is_round).unwrap();
        // That is 0.6 s.
        assert_eq!(found, u64::from(MOST_OF_ONE) * LONGEST.as_nanos() / 1_000_000_000 + 1);
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

//! [`Pairing`]: which frame behind the gateway is which frame before it.
//!
//! As on the papers' test bed, the first two data bytes of every test frame hold a number that no
//! rule may change. A monitor on the source bus reports each number when the frame was really
//! sent, a receiver on the target bus when it arrived, both stamped by one clock. The number is an
//! index into a table of 65,536 places, so that pairing costs the same for every frame and does
//! not care whether frames were modified, lost or overtaken.
//!
//! A frame that does not arrive within the timeout, 1 s unless told otherwise, is lost. The
//! timeout is also what allows more than 65,536 frames: by the time a number comes back, its
//! former bearer has been paired or is given up. (A classical frame with two data bytes has at least
//! 63 bits, so that at 1 Mbit/s a number comes back after 4 s at the earliest.)
//!
//! Events are handed in ordered by their time stamps, the two buses merged. Stamps are not
//! perfect: a frame may seem to arrive before it was sent. Such a pair is accepted, with a
//! negative latency, up to [`Limits::slack_ns`]. Events out of order do no harm beyond wrong
//! outcomes: the laws hold in any case.
//!
//! After [`Pairing::finish`], `sent = paired + lost` and
//! `received = paired + duplicated + unknown`.
//!
//! ```
//! use candor_lat::pairing::{Outcome, Pairing};
//! let mut pairing = Pairing::default();
//! let mut latencies_ns = Vec::new();
//! let mut note = |outcome| {
//!     if let Outcome::Paired(pair) = outcome {
//!         latencies_ns.push(pair.latency_ns());
//!     }
//! };
//! pairing.sent(1, 1_000, &mut note);
//! pairing.sent(2, 9_000, &mut note);
//! pairing.received(2, 59_000, &mut note);
//! pairing.finish(&mut note);
//! assert_eq!(latencies_ns, [50_000]);
//! assert_eq!(pairing.counts().lost, 1);
//! ```

/// The number in the first two data bytes, most significant byte first; `None` for shorter data.
#[must_use]
pub fn number_of(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|&bytes| u16::from_be_bytes(bytes))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A frame that arrives later than this after it was sent is lost.
    pub timeout_ns: u64,
    /// A frame may be stamped this much earlier behind the gateway than before it.
    pub slack_ns: u64,
}

/// The papers' timeout of 1 s, and a slack of 1 ms.
impl Default for Limits {
    fn default() -> Self {
        Self { timeout_ns: 1_000_000_000, slack_ns: 1_000_000 }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent and received.
    Paired(Pair),
    /// It was sent and not received in time.
    Lost { number: u16, sent_ns: u64 },
    /// It was received once more.
    Duplicated {
        number: u16,
        /// When this copy was received.
        received_ns: u64,
    },
    /// It was received without having been sent, or after it was given up.
    Unknown { number: u16, received_ns: u64 },
}

/// A frame that was sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub number: u16,
    /// When the monitor saw it on the source bus.
    pub sent_ns: u64,
    /// When it was received on the target bus.
    pub received_ns: u64,
}

impl Pair {
    /// The time between: negative if the stamps are inaccurate.
    #[must_use]
    pub const fn latency_ns(&self) -> i64 {
        // The limits of a pairing keep the distance far below the ends of `i64`.
        self.received_ns.wrapping_sub(self.sent_ns) as i64
    }
}

/// How many frames had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames seen on the source bus.
    pub sent: u64,
    /// Frames seen on the target bus, copies included.
    pub received: u64,
    /// Frames with both.
    pub paired: u64,
    /// Frames that did not arrive in time.
    pub lost: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Received frames that nobody sent, or that came too late.
    pub unknown: u64,
}

/// The table of numbers under way.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// One place per number.
    places: Vec<Place>,
    limits: Limits,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    /// Seen by the monitor at this time, not yet received.
    Sent(u64),
    /// Received at this time, not yet seen by the monitor.
    Early(u64),
    /// Paired; seen by the monitor at this time.
    Paired(u64),
}

/// How the two stamps of a number lie to each other.
enum StampFit {
    /// Received before it can have been sent.
    TooEarly,
    InTime,
    TooLate,
}

impl Limits {
    fn fit(&self, sent_ns: u64, received_ns: u64) -> StampFit {
        if received_ns.saturating_add(self.slack_ns) < sent_ns {
            StampFit::TooEarly
        } else if received_ns.saturating_sub(sent_ns) > self.timeout_ns {
            StampFit::TooLate
        } else {
            StampFit::InTime
        }
    }
}

impl Pairing {
    /// Nothing is under way.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { places: vec![Place::Free; 1 << u16::BITS], limits, counts: Counts::default() }
    }

    /// The monitor saw a frame on the source bus. Tells `note` what is now known, at most two
    /// outcomes.
    pub fn sent(&mut self, number: u16, sent_ns: u64, mut note: impl FnMut(Outcome)) {
        self.counts.sent += 1;
        let place = match self.places[usize::from(number)] {
            Place::Free | Place::Paired(_) => Place::Sent(sent_ns),
            Place::Sent(former_ns) => {
                self.lose(number, former_ns, &mut note);
                Place::Sent(sent_ns)
            }
            Place::Early(received_ns) => match self.limits.fit(sent_ns, received_ns) {
                StampFit::InTime => self.pair(number, sent_ns, received_ns, &mut note),
                StampFit::TooEarly | StampFit::TooLate => {
                    self.disown(number, received_ns, &mut note);
                    Place::Sent(sent_ns)
                }
            },
        };
        self.places[usize::from(number)] = place;
    }

    /// A frame was received on the target bus. Tells `note` what is now known, at most one
    /// outcome.
    pub fn received(&mut self, number: u16, received_ns: u64, mut note: impl FnMut(Outcome)) {
        self.counts.received += 1;
        let place = match self.places[usize::from(number)] {
            Place::Free => Place::Early(received_ns),
            Place::Sent(sent_ns) => match self.limits.fit(sent_ns, received_ns) {
                StampFit::InTime => self.pair(number, sent_ns, received_ns, &mut note),
                StampFit::TooEarly => {
                    self.disown(number, received_ns, &mut note);
                    Place::Sent(sent_ns)
                }
                StampFit::TooLate => {
                    self.lose(number, sent_ns, &mut note);
                    Place::Early(received_ns)
                }
            },
            Place::Paired(sent_ns) => match self.limits.fit(sent_ns, received_ns) {
                StampFit::InTime => {
                    self.counts.duplicated += 1;
                    note(Outcome::Duplicated { number, received_ns });
                    Place::Paired(sent_ns)
                }
                StampFit::TooEarly => {
                    self.disown(number, received_ns, &mut note);
                    Place::Paired(sent_ns)
                }
                StampFit::TooLate => Place::Early(received_ns),
            },
            Place::Early(former_ns) => {
                self.disown(number, former_ns, &mut note);
                Place::Early(received_ns)
            }
        };
        self.places[usize::from(number)] = place;
    }

    /// Nothing more will come: what is still under way is lost, in the order of the numbers.
    pub fn finish(&mut self, mut note: impl FnMut(Outcome)) {
        for number in 0..=u16::MAX {
            match core::mem::replace(&mut self.places[usize::from(number)], Place::Free) {
                Place::Sent(sent_ns) => self.lose(number, sent_ns, &mut note),
                Place::Early(received_ns) => self.disown(number, received_ns, &mut note),
                Place::Free | Place::Paired(_) => {}
            }
        }
    }

    /// The outcomes so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    fn pair(
        &mut self,
        number: u16,
        sent_ns: u64,
        received_ns: u64,
        note: &mut impl FnMut(Outcome),
    ) -> Place {
        self.counts.paired += 1;
        note(Outcome::Paired(Pair { number, sent_ns, received_ns }));
        Place::Paired(sent_ns)
    }

    fn lose(&mut self, number: u16, sent_ns: u64, note: &mut impl FnMut(Outcome)) {
        self.counts.lost += 1;
        note(Outcome::Lost { number, sent_ns });
    }

    fn disown(&mut self, number: u16, received_ns: u64, note: &mut impl FnMut(Outcome)) {
        self.counts.unknown += 1;
        note(Outcome::Unknown { number, received_ns });
    }
}

impl Default for Pairing {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Runs a script of `s NUMBER MILLISECONDS` (sent) and `r NUMBER MILLISECONDS` (received) and
    /// returns the outcomes in the same spirit.
    fn run(script: &str) -> String {
        let mut pairing = Pairing::default();
        let mut outcomes = Vec::new();
        let mut note = |outcome| {
            outcomes.push(match outcome {
                Outcome::Paired(pair) => {
                    format!("{} {}ms", pair.number, pair.latency_ns() as f64 / 1e6)
                }
                Outcome::Lost { number, .. } => format!("{number} lost"),
                Outcome::Duplicated { number, .. } => format!("{number} again"),
                Outcome::Unknown { number, .. } => format!("{number} unknown"),
            });
        };
        for event in script.split(',') {
            let mut words = event.split_whitespace();
            let kind = words.next().unwrap();
            let number = words.next().unwrap().parse().unwrap();
            let time_ns = (words.next().unwrap().parse::<f64>().unwrap() * 1e6) as u64;
            match kind {
                "s" => pairing.sent(number, time_ns, &mut note),
                _ => pairing.received(number, time_ns, &mut note),
            }
        }
        pairing.finish(&mut note);
        let counts = pairing.counts();
        assert_eq!(counts.sent, counts.paired + counts.lost, "{script}");
        assert_eq!(counts.received, counts.paired + counts.duplicated + counts.unknown, "{script}");
        outcomes.join(", ")
    }

    #[test]
    fn scripts() {
        for (script, outcomes) in [
            ("s 1 10, r 1 12", "1 2ms"),
            ("s 1 10", "1 lost"),
            ("r 1 10", "1 unknown"),
            ("s 1 10, s 2 11, r 2 12, r 1 13", "2 1ms, 1 3ms"),
            ("s 1 10, r 1 12, r 1 13, r 1 14", "1 2ms, 1 again, 1 again"),
            // The timeout: the last moment, and one beyond it.
            ("s 1 10, r 1 1010", "1 1000ms"),
            ("s 1 10, r 1 1010.1", "1 lost, 1 unknown"),
            // Stamps that are slightly wrong, and ones that are not believed.
            ("r 1 9.5, s 1 10", "1 -0.5ms"),
            ("s 1 10, r 1 9.5", "1 -0.5ms"),
            ("r 1 8, s 1 10, r 1 11", "1 unknown, 1 1ms"),
            ("s 1 10, r 1 8, r 1 11", "1 unknown, 1 1ms"),
            // A number comes back: after a pair, after a loss, and with a stamp slightly wrong.
            ("s 1 10, r 1 12, s 1 5000, r 1 5003", "1 2ms, 1 3ms"),
            ("s 1 10, s 1 5000, r 1 5003", "1 lost, 1 3ms"),
            ("s 1 10, r 1 12, r 1 4999.5, s 1 5000", "1 2ms, 1 -0.5ms"),
            ("s 1 10, r 1 12, r 1 3000, s 1 5000, r 1 5003", "1 2ms, 1 unknown, 1 3ms"),
            // Nonsense stays countable.
            ("r 1 10, r 1 11", "1 unknown, 1 unknown"),
            ("s 1 5000, r 1 5001, r 1 10", "1 1ms, 1 unknown"),
        ] {
            assert_eq!(run(script), outcomes, "{script}");
        }
    }

    #[test]
    fn numbers_are_the_first_two_bytes() {
        assert_eq!(number_of(&[0x12, 0x34, 0x56]), Some(0x1234));
        assert_eq!(number_of(&[0x12]), None);
    }

    #[test]
    fn the_numbers_wrap_around() {
        let mut pairing = Pairing::default();
        let frames = 3 * 65_536_u64;
        for frame in 0..frames {
            // 50 us apart, each received 40 us later, every 1000th lost.
            let (number, sent_ns) = (frame as u16, frame * 50_000);
            pairing.sent(number, sent_ns, |_| {});
            if frame % 1000 != 999 {
                pairing.received(number, sent_ns + 40_000, |_| {});
            }
        }
        pairing.finish(|_| {});
        let counts = pairing.counts();
        assert_eq!((counts.sent, counts.lost), (frames, frames / 1000));
        assert_eq!((counts.duplicated, counts.unknown), (0, 0));
    }

    /// A frame of the world that the property test draws: lost, or delayed, perhaps doubled.
    #[derive(Clone, Debug)]
    struct Fate {
        gap_ns: u64,
        delays_ns: Vec<u64>,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        let delay = 0..200 * MS;
        (1..20 * MS, prop::collection::vec(delay, 0..3))
            .prop_map(|(gap_ns, delays_ns)| Fate { gap_ns, delays_ns })
    }

    proptest! {
        /// Against the obvious way: look at all events with hindsight.
        #[test]
        fn pairing_agrees_with_hindsight(fates in prop::collection::vec(fate(), 1..200)) {
            let mut events = Vec::new();
            let mut now_ns = 0;
            for (number, fate) in fates.iter().enumerate() {
                now_ns += fate.gap_ns;
                events.push((now_ns, number, true));
                events.extend(fate.delays_ns.iter().map(|delay_ns| (now_ns + delay_ns, number, false)));
            }
            // Of equal times the sending comes first.
            events.sort_by_key(|&(time_ns, number, is_sent)| (time_ns, !is_sent, number));

            let mut pairing = Pairing::default();
            let mut pairs = Vec::new();
            for &(time_ns, number, is_sent) in &events {
                let note = |outcome| {
                    if let Outcome::Paired(pair) = outcome {
                        pairs.push(pair);
                    }
                };
                if is_sent {
                    pairing.sent(number as u16, time_ns, note);
                } else {
                    pairing.received(number as u16, time_ns, note);
                }
            }
            pairing.finish(|_| {});

            let arrived = fates.iter().filter(|fate| !fate.delays_ns.is_empty()).count();
            let copies: usize = fates.iter().map(|fate| fate.delays_ns.len()).sum();
            let counts = pairing.counts();
            prop_assert_eq!(counts.sent, fates.len() as u64);
            prop_assert_eq!(counts.lost, (fates.len() - arrived) as u64);
            prop_assert_eq!(counts.paired, arrived as u64);
            prop_assert_eq!(counts.duplicated, (copies - arrived) as u64);
            prop_assert_eq!(counts.unknown, 0);
            for pair in &pairs {
                let shortest_ns = fates[usize::from(pair.number)].delays_ns.iter().min();
                prop_assert_eq!(Some(&(pair.latency_ns() as u64)), shortest_ns);
            }
        }

        /// Whatever is handed in, in whatever order.
        #[test]
        fn the_laws_hold_for_any_events(
            events in prop::collection::vec((any::<bool>(), 0..4_u16, 0..5_000 * MS), 0..100),
        ) {
            let mut pairing = Pairing::default();
            let mut outcomes = 0;
            for (is_sent, number, time_ns) in events {
                if is_sent {
                    pairing.sent(number, time_ns, |_| outcomes += 1);
                } else {
                    pairing.received(number, time_ns, |_| outcomes += 1);
                }
            }
            pairing.finish(|_| outcomes += 1);
            let Counts { sent, received, paired, lost, duplicated, unknown, .. } = pairing.counts();
            prop_assert_eq!(sent, paired + lost);
            prop_assert_eq!(received, paired + duplicated + unknown);
            prop_assert_eq!(outcomes, paired + lost + duplicated + unknown);
        }
    }
}

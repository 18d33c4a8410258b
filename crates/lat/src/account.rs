//! [`Account`]: what became of frames, and how late they were.
//!
//! Whoever sees frames end, in a simulation, in a guest or on a real port, says of each [`End`] which frame it was, when
//! it passed which taps, and how it ended. What follows from many of them is decided here and nowhere else:
//!
//! | word | meaning | source |
//! |---|---|---|
//! | reordered | its number is below the greatest of its stream so far | RFC 4737, section 3.3 |
//! | duplicated | it had arrived before; the first copy has the latency | RFC 7679, section 3.8.2 |
//! | late | it arrived, and its main latency is above [`Terms::late_after_ns`] | |
//! | delay variation | the latency of a frame less that of the one numbered before it in its stream, without the sign; of first copies | RFC 3393, section 2 |
//!
//! Frames are given in the order of their ends.
//!
//! ```
//! use candor_causes::Cause;
//! use candor_lat::account::{Account, End, Terms};
//! use candor_lat::{Metric, Tap, TapPath, Taps};
//!
//! let mut account = Account::new(Terms::new(TapPath::SIGNAL_SERVICE));
//! for (number, delivered_ns) in [(0, 500), (2, 2_700), (1, 2_900)] {
//!     let taps = Taps::new(TapPath::SIGNAL_SERVICE).with(Tap::Queued, number * 1_000);
//!     account.end(&End::received(number, &taps.with(Tap::Delivered, delivered_ns)));
//! }
//! account.end(&End::stopped(3, &Taps::new(TapPath::SIGNAL_SERVICE), Cause::QueueFull));
//! let counts = account.counts();
//! assert_eq!((counts.sent, counts.received, counts.lost, counts.reordered), (4, 3, 1, 1));
//! assert_eq!(account.figures(Metric::Delivery).unwrap().max_ns, 1_900);
//! ```

use std::collections::BTreeMap;

use candor_causes::{Cause, Ending, Endings};

use crate::figures::Figures;
use crate::latencies::Latencies;
use crate::metrics::Metric;
use crate::order::{Order, Sequence};
use crate::path::TapPath;
use crate::times::Taps;

/// The end of a frame, or of a copy of it.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Whose order it is part of: where a gateway makes several copies of a frame, each of them is of a stream of its own.
    /// Streams are counted from 0. `None` if it is of none: then its order and its copies are not known.
    pub stream: Option<u32>,
    /// Which frame.
    pub number: u64,
    /// When it passed which taps.
    pub taps: &'a Taps,
    /// What is known of it before it is sent, as [`Metric::value`] wants it.
    pub known_ns: u64,
    /// What stopped it, if something did.
    pub stopped_by: Option<Cause>,
}

impl<'a> End<'a> {
    /// A frame of the only stream arrived.
    #[must_use]
    pub const fn received(number: u64, taps: &'a Taps) -> Self {
        Self { stream: Some(0), number, taps, known_ns: 0, stopped_by: None }
    }

    /// A frame was stopped.
    #[must_use]
    pub const fn stopped(number: u64, taps: &'a Taps, cause: Cause) -> Self {
        Self { stream: None, number, taps, known_ns: 0, stopped_by: Some(cause) }
    }

    #[must_use]
    pub fn ending(&self) -> Ending {
        self.stopped_by.map_or(Ending::Received, Cause::ending)
    }
}

/// What an account is about.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The way of the frames.
    pub path: &'static TapPath,
    /// Whether latencies are kept one by one ([`Latencies`]).
    pub is_exact: bool,
    /// Whether delay variation is of interest.
    pub has_variation: bool,
    /// What arrives with a main latency above this is late.
    pub late_after_ns: Option<i64>,
    /// Which frames end in several streams.
    pub copies: Copies,
}

impl Terms {
    /// Frames on that path, in streams of their own, their latencies counted.
    #[must_use]
    pub const fn new(path: &'static TapPath) -> Self {
        Self {
            path,
            is_exact: false,
            has_variation: false,
            late_after_ns: None,
            copies: Copies::None,
        }
    }
}

/// How a frame ends that has copies in several streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// None has, and how each frame has ended is not remembered: the memory that an account needs does not grow with the
    /// frames that come in order. Each frame ends once, copies of what had arrived aside.
    None,
    /// It is received if any copy arrived, else lost if any was lost, else refused if any was refused. One byte for each frame.
    Any,
    /// It is received if every copy arrived, one in each stream. One byte for each frame.
    Every,
}

/// How the ends of frames, and of their copies, add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// Frames sent: `received + not_routed + refused + lost`.
    pub sent: u64,
    /// Frames of which a copy arrived.
    pub received: u64,
    /// Frames that no rule took.
    pub not_routed: u64,
    /// Frames that the rules refused.
    pub refused: u64,
    /// Frames that a rule took, or that never got to the rules, and that did not arrive.
    pub lost: u64,
    /// Further copies of frames that arrived.
    pub duplicated: u64,
    /// Copies whose number was below the greatest that had arrived in their stream (RFC 4737).
    pub reordered: u64,
    /// Of the received ones, those that came too late.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub late: u64,
}

#[cfg(feature = "serde")]
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// Those of frames that ended so.
    #[must_use]
    pub fn from_endings(endings: &Endings) -> Self {
        Self {
            sent: endings.total(),
            received: endings.count(Ending::Received),
            not_routed: endings.count(Ending::NotRouted),
            refused: endings.count(Ending::Refused),
            lost: endings.count(Ending::Lost),
            ..Self::default()
        }
    }

    /// How many frames ended in this way.
    #[must_use]
    pub const fn ended(&self, ending: Ending) -> u64 {
        match ending {
            Ending::Received => self.received,
            Ending::NotRouted => self.not_routed,
            Ending::Refused => self.refused,
            Ending::Lost => self.lost,
        }
    }
}

/// What an [`End`] was to its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How the frame had ended before, if another copy had.
    pub before: Option<Ending>,
    pub now: Ending,
    /// How it stands to those of its stream, if it arrived.
    pub order: Option<Order>,
}

/// Takes the ends of frames.
#[derive(Clone, Debug)]
pub struct Account {
    terms: Terms,
    metrics: Vec<Metric>,
    /// By metric.
    latencies: Vec<Latencies>,
    variation: Latencies,
    /// By their numbers.
    streams: Vec<Stream>,
    /// How each frame has ended, if that is remembered.
    frames: Vec<Option<Ending>>,
    endings: Endings,
    stopped: BTreeMap<(Option<u32>, Cause), u64>,
    duplicated: u64,
    reordered: u64,
    late: u64,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    sequence: Sequence,
    /// The latencies of the latest frames, by number: each has a place by the rest of its number.
    recent: Vec<(u64, i64)>,
}

/// Delay variation is known between two frames of which the second comes while the first is among so many.
const RECENT: u64 = 1 << 10;

impl Stream {
    /// How much the latency of a frame differs from those of its neighbours that have come.
    fn vary(&mut self, number: u64, latency_ns: i64, mut tell: impl FnMut(i64)) {
        // A number that no frame has, in the place of another one.
        self.recent.resize_with(RECENT as usize, || (u64::MAX, 0));
        for neighbour in [number.checked_sub(1), number.checked_add(1)].into_iter().flatten() {
            let (known, other_ns) = self.recent[(neighbour % RECENT) as usize];
            if known == neighbour {
                tell(latency_ns.saturating_sub(other_ns).saturating_abs());
            }
        }
        self.recent[(number % RECENT) as usize] = (number, latency_ns);
    }
}

impl Account {
    /// Nothing has ended yet.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        let metrics: Vec<_> = terms.path.metrics().collect();
        Self {
            latencies: metrics.iter().map(|_| Latencies::new(terms.is_exact)).collect(),
            variation: Latencies::new(terms.is_exact || !terms.has_variation),
            terms,
            metrics,
            streams: Vec::new(),
            frames: Vec::new(),
            endings: Endings::default(),
            stopped: BTreeMap::new(),
            duplicated: 0,
            reordered: 0,
            late: 0,
        }
    }

    /// From now on, what arrives with a main latency above this is late.
    pub const fn set_late_after(&mut self, bound_ns: Option<i64>) {
        self.terms.late_after_ns = bound_ns;
    }

    /// The way of the frames.
    #[must_use]
    pub const fn path(&self) -> &'static TapPath {
        self.terms.path
    }

    /// A frame, or a copy of it, has ended.
    pub fn end(&mut self, end: &End<'_>) -> Taken {
        let ending = end.ending();
        if let Some(cause) = end.stopped_by {
            *self.stopped.entry((end.stream, cause)).or_default() += 1;
        }
        let order = match end.stopped_by {
            None => self.arrive(end),
            Some(_) => None,
        };
        let (before, now) = match self.terms.copies {
            Copies::None if order == Some(Order::Duplicate) => (Some(Ending::Received), ending),
            Copies::None => {
                self.endings.add(ending, 1);
                (None, ending)
            }
            Copies::Any | Copies::Every => self.end_of_frame(end.number, ending),
        };
        let is_again = (before, ending) == (Some(Ending::Received), Ending::Received);
        self.duplicated += u64::from(is_again && self.terms.copies != Copies::Every);
        Taken { before, now, order }
    }

    fn arrive(&mut self, end: &End<'_>) -> Option<Order> {
        let order = end.stream.map(|stream| self.stream(stream).sequence.add(end.number));
        self.reordered += u64::from(order == Some(Order::Reordered));
        if order != Some(Order::Duplicate) {
            self.measure(end);
        }
        order
    }

    /// Counts the latencies of a frame that has arrived. Only for those of which a tap was not known when it ended: it had no
    /// latency then.
    pub fn measure(&mut self, end: &End<'_>) {
        for (metric, latencies) in self.metrics.iter().zip(&mut self.latencies) {
            if let Some(latency_ns) = metric.value(end.taps, end.known_ns) {
                latencies.record(latency_ns);
            }
        }
        let Terms { path, late_after_ns, has_variation, .. } = self.terms;
        if late_after_ns.is_none() && !has_variation {
            return;
        }
        let main = path.main_metric().and_then(|metric| metric.value(end.taps, end.known_ns));
        if let Some(latency_ns) = main {
            self.late += u64::from(late_after_ns.is_some_and(|bound_ns| latency_ns > bound_ns));
            if let Some(stream) = end.stream.filter(|_| has_variation) {
                self.stream(stream);
                let (streams, variation) = (&mut self.streams, &mut self.variation);
                streams[stream as usize].vary(end.number, latency_ns, |it| variation.record(it));
            }
        }
    }

    fn stream(&mut self, stream: u32) -> &mut Stream {
        let index = stream as usize;
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// How the frame had ended before, and how it has now.
    fn end_of_frame(&mut self, number: u64, ending: Ending) -> (Option<Ending>, Ending) {
        let index = number as usize;
        if index >= self.frames.len() {
            self.frames.resize(index + 1, None);
        }
        let before = self.frames[index];
        let now = match (before, self.terms.copies) {
            (None, _) => ending,
            (Some(before), Copies::Every) => before.min(ending),
            (Some(before), _) => before.max(ending),
        };
        self.frames[index] = Some(now);
        (before, now)
    }

    /// Nothing more ends. `sent` frames were sent; those without an end are lost, and how many they are is the answer. Only
    /// where copies are remembered.
    pub fn close(&mut self, sent: u64) -> u64 {
        let mut frames = std::mem::take(&mut self.frames);
        frames.resize(sent.max(frames.len() as u64) as usize, None);
        let mut unexplained = 0;
        for ending in frames {
            unexplained += u64::from(ending.is_none());
            self.endings.add(ending.unwrap_or(Ending::Lost), 1);
        }
        unexplained
    }

    /// How the ends add up, after [`Account::close`] where copies are remembered.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            duplicated: self.duplicated,
            reordered: self.reordered,
            late: self.late,
            ..Counts::from_endings(&self.endings)
        }
    }

    /// What was stopped, by stream and cause.
    #[must_use]
    pub const fn stopped(&self) -> &BTreeMap<(Option<u32>, Cause), u64> {
        &self.stopped
    }

    /// The metrics of the path with their latencies.
    pub fn metrics(&self) -> impl Iterator<Item = (Metric, &Latencies)> {
        self.metrics.iter().copied().zip(&self.latencies)
    }

    /// The latencies of a metric, if it is on the path.
    #[must_use]
    pub fn latencies(&self, metric: Metric) -> Option<&Latencies> {
        self.metrics().find(|(it, _)| *it == metric).map(|(_, latencies)| latencies)
    }

    /// What is said of a metric, without its profile; `None` if no frame has it.
    #[must_use]
    pub fn figures(&self, metric: Metric) -> Option<Figures> {
        self.latencies(metric)?.figures()
    }

    /// The delay variation; `None` if no two frames that follow one another arrived.
    #[must_use]
    pub fn variation(&self) -> Option<Figures> {
        self.variation.figures()
    }

    /// Numbers between the smallest and the greatest of each stream that have not come.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.streams.iter().map(|stream| stream.sequence.missing()).sum()
    }

    /// The number behind one of 32 bits in that stream ([`Sequence::count_on`]).
    #[must_use]
    pub fn count_on(&self, stream: u32, sequence: u32) -> u64 {
        match self.streams.get(stream as usize) {
            Some(stream) => stream.sequence.count_on(sequence),
            None => Sequence::default().count_on(sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::taps::Tap;
    use proptest::prelude::*;

    const PATH: &TapPath = TapPath::SIGNAL_SERVICE;

    fn taps(latency_ns: i64) -> Taps {
        Taps::new(PATH)
            .with(Tap::Queued, 1_000)
            .with(Tap::Delivered, 1_000_u64.saturating_add_signed(latency_ns))
    }

    fn account(terms: Terms, ends: &[(u32, u64, Result<i64, Cause>)]) -> Account {
        let mut account = Account::new(terms);
        for &(stream, number, outcome) in ends {
            let taps = taps(outcome.unwrap_or(0));
            let stopped_by = outcome.err();
            account.end(&End {
                stream: Some(stream),
                number,
                taps: &taps,
                known_ns: 0,
                stopped_by,
            });
        }
        account
    }

    #[test]
    fn the_first_copy_has_the_latency_and_the_order() {
        let ends = [(0, 0, Ok(5)), (0, 2, Ok(6)), (0, 1, Ok(9)), (0, 2, Ok(99)), (0, 1, Ok(98))];
        let account = account(Terms { late_after_ns: Some(8), ..Terms::new(PATH) }, &ends);
        let expected = Counts {
            sent: 3,
            received: 3,
            duplicated: 2,
            reordered: 1,
            late: 1,
            ..Counts::default()
        };
        assert_eq!(account.counts(), expected);
        assert_eq!(account.figures(Metric::Delivery).unwrap().max_ns, 9);
        assert_eq!(account.missing(), 0);
    }

    #[test]
    fn delay_variation_is_of_frames_that_follow_one_another_in_whatever_order_they_came() {
        let terms = Terms { has_variation: true, is_exact: true, ..Terms::new(PATH) };
        for (ends, expected) in [
            (&[(0, 5), (1, 9), (2, 8)][..], &[1, 4][..]),
            (&[(1, 9), (0, 5), (2, 8)], &[1, 4]),
            // Frame 1 is lost.
            (&[(0, 5), (2, 8), (3, 8)], &[0]),
            // The second copy of frame 0 has no latency.
            (&[(0, 5), (0, 50), (1, 6)], &[1]),
        ] {
            let ends: Vec<_> = ends.iter().map(|&(number, ns)| (0, number, Ok(ns))).collect();
            let Latencies::Exact(mut found) = account(terms, &ends).variation else { panic!() };
            found.sort_unstable();
            assert_eq!(found, expected, "{ends:?}");
        }
        let two = [(0, 0, Ok(5)), (1, 1, Ok(9))];
        assert_eq!(account(terms, &two).variation(), None, "of two streams");
    }

    #[test]
    fn a_frame_with_copies_is_received_if_any_or_every_one_is() {
        let lost = Err(Cause::QueueFull);
        let ends =
            [(0, 0, Ok(1)), (1, 0, lost), (0, 1, Ok(1)), (1, 1, Ok(1)), (0, 3, Err(Cause::Rate))];
        for (copies, expected) in [
            (
                Copies::Any,
                Counts { received: 2, refused: 1, lost: 1, duplicated: 1, ..Counts::default() },
            ),
            (Copies::Every, Counts { received: 1, refused: 1, lost: 2, ..Counts::default() }),
        ] {
            let mut account = account(Terms { copies, ..Terms::new(PATH) }, &ends);
            assert_eq!(account.close(4), 1, "number 2 has no end");
            assert_eq!(account.counts(), Counts { sent: 4, ..expected });
            let stopped =
                BTreeMap::from([((Some(1), Cause::QueueFull), 1), ((Some(0), Cause::Rate), 1)]);
            assert_eq!(account.stopped(), &stopped);
        }
    }

    proptest! {
        /// Whatever ends, and in whatever order.
        #[test]
        fn sums_hold(
            ends in prop::collection::vec((0..3_u32, 0..20_u64, prop::option::of(0..50_i64)), 0..200),
            copies in prop_oneof![Just(Copies::Any), Just(Copies::Every)],
        ) {
            let ends: Vec<_> = ends
                .into_iter()
                .map(|(stream, number, latency)| (stream, number, latency.ok_or(Cause::Rate)))
                .collect();
            let mut account = account(Terms { copies, has_variation: true, ..Terms::new(PATH) }, &ends);
            let unexplained = account.close(20);
            let counts = account.counts();
            prop_assert_eq!(counts.sent, 20);
            prop_assert_eq!(counts.sent, counts.received + counts.refused + counts.lost);
            prop_assert_eq!(counts.lost, unexplained);
            let first_copies: std::collections::BTreeSet<_> =
                ends.iter().filter(|(.., it)| it.is_ok()).map(|(stream, number, _)| (stream, number)).collect();
            let measured = account.figures(Metric::Delivery).map_or(0, |it| it.count);
            prop_assert_eq!(measured, first_copies.len() as u64);
            if copies == Copies::Any {
                let arrived = ends.iter().filter(|(.., it)| it.is_ok()).count() as u64;
                prop_assert_eq!(counts.received + counts.duplicated, arrived);
            }
        }
    }
}

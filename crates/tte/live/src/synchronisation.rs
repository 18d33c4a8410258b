//! [`Synchronisation`]: when cycles begin, from protocol control frames that a switch sends.
//!
//! A switch sends one at the begin of each cycle (SAE AS6802: an integration frame, IN). From the stamp of the kernel go the
//! time on the link and the delay that the frame says it has had (its transparent clock). What is left is when the cycle
//! began. Of the last frames the median counts, so one that is late changes nothing.
//!
//! ```text
//!  none --frame--> listening --4 frames in a row--> synchronised --none for 3 cycles--> none
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use candor_time::{Instant, Nanos, Realtime};
use candor_wire::eth::tte::{CriticalTraffic, Pcf, PcfKind};
use candor_wire::eth::{Frame, ether_type};

use crate::Epoch;

/// Frames that make synchronised.
const ENOUGH: usize = 4;
/// Frames of which the median counts.
const KEPT: usize = 8;
/// Cycles without a frame, and it is no longer synchronised.
const SILENCE: u64 = 3;
/// A frame may be so much of a cycle, as a divisor, away from where it is to come.
const ACCEPTANCE: i64 = 8;
/// Why a protocol control frame does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It belongs to another virtual link.
    OtherLink,
    /// It is too short.
    Truncated,
    /// It is of no known kind, or not of kind integration.
    Kind,
    /// It says that it was under way for a cycle or longer.
    TransparentClock,
    /// The number of its cycle is not that of the last frame and the cycles since.
    CycleNumber,
    /// It is too far away from where it was to come.
    OutOfSchedule,
    /// The kernel gave it no stamp.
    NoStamp,
}

impl Refusal {
    pub const ALL: [Self; 7] = [
        Self::OtherLink,
        Self::Truncated,
        Self::Kind,
        Self::TransparentClock,
        Self::CycleNumber,
        Self::OutOfSchedule,
        Self::NoStamp,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherLink => "of another virtual link",
            Self::Truncated => "truncated",
            Self::Kind => "of another kind",
            Self::TransparentClock => "with an impossible transparent clock",
            Self::CycleNumber => "with a cycle number that does not follow",
            Self::OutOfSchedule => "out of schedule",
            Self::NoStamp => "without a stamp",
        })
    }
}

/// What a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A protocol control frame that counts.
    Accepted,
    /// One that does not.
    Refused(Refusal),
    /// Something else.
    Stranger,
}

/// What has become of the synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Synchronised,
    /// No frame came for three cycles.
    Lost,
}

/// When cycles begin.
#[derive(Debug)]
pub struct Synchronisation {
    cycle: Nanos,
    critical: CriticalTraffic,
    id: u16,
    /// From the begin of a cycle until its frame is here.
    way: Nanos,
    /// When a cycle began.
    begin_ns: u64,
    /// How much later than that the last frames say, by their own.
    offsets: VecDeque<i64>,
    /// The last frame that counts: its number, and the begin of the cycle that it says.
    last: Option<(u32, u64)>,
    is_synchronised: bool,
    changes: VecDeque<Change>,
    accepted: u64,
    refused: BTreeMap<Refusal, u64>,
}

impl Synchronisation {
    /// For cycles of a length, by the frames of the virtual link `id` that come `way` behind the begin of a cycle.
    #[must_use]
    pub fn new(cycle: Nanos, critical: CriticalTraffic, id: u16, way: Nanos) -> Self {
        Self {
            cycle,
            critical,
            id,
            way,
            begin_ns: 0,
            offsets: VecDeque::with_capacity(KEPT + 1),
            last: None,
            is_synchronised: false,
            changes: VecDeque::new(),
            accepted: 0,
            refused: BTreeMap::new(),
        }
    }

    /// A frame came, without its check sequence.
    pub fn hear(&mut self, bytes: &[u8], stamp: Option<Instant<Realtime>>) -> Heard {
        let Ok(frame) = Frame::parse(bytes) else { return Heard::Stranger };
        if frame.header.ether_type != ether_type::TTETHERNET_PCF {
            return Heard::Stranger;
        }
        match self.take(&frame, stamp) {
            Ok(()) => {
                self.accepted += 1;
                Heard::Accepted
            }
            Err(refusal) => {
                *self.refused.entry(refusal).or_default() += 1;
                Heard::Refused(refusal)
            }
        }
    }

    fn take(&mut self, frame: &Frame<'_>, stamp: Option<Instant<Realtime>>) -> Result<(), Refusal> {
        if self.critical.id_of(&frame.header.destination) != Some(self.id) {
            return Err(Refusal::OtherLink);
        }
        let pcf = Pcf::parse(frame.payload).map_err(|error| match error {
            candor_wire::eth::tte::PcfError::TooShort { .. } => Refusal::Truncated,
            candor_wire::eth::tte::PcfError::Kind(_) => Refusal::Kind,
        })?;
        if pcf.kind != PcfKind::Integration {
            return Err(Refusal::Kind);
        }
        if pcf.transparent_clock_ns() >= self.cycle.as_nanos() {
            return Err(Refusal::TransparentClock);
        }
        let stamp = stamp.ok_or(Refusal::NoStamp)?;
        self.look(stamp);
        let under_way = self.way.as_nanos() + pcf.transparent_clock_ns();
        let said_ns = stamp.as_nanos().saturating_sub(under_way);
        let Some((number, last_ns)) = self.last else {
            self.begin_ns = said_ns;
            self.offsets.push_back(0);
            self.last = Some((pcf.integration_cycle, said_ns));
            return Ok(());
        };
        let step = pcf.integration_cycle.wrapping_sub(number).cast_signed();
        let cycles = self.nearest(said_ns.wrapping_sub(last_ns).cast_signed());
        if step <= 0 || i64::from(step) != cycles {
            return Err(Refusal::CycleNumber);
        }
        let cycle_ns = self.cycle.as_nanos().cast_signed();
        let since = said_ns.wrapping_sub(self.begin_ns).cast_signed();
        let begin = self.nearest(since) * cycle_ns;
        let offset = since - begin;
        if offset.abs() > cycle_ns / ACCEPTANCE {
            return Err(Refusal::OutOfSchedule);
        }
        self.last = Some((pcf.integration_cycle, said_ns));
        self.offsets.push_back(offset);
        if self.offsets.len() > KEPT {
            self.offsets.pop_front();
        }
        let middle = self.median();
        self.begin_ns = self.begin_ns.wrapping_add_signed(begin + middle);
        self.offsets.iter_mut().for_each(|it| *it -= middle);
        if !self.is_synchronised && self.offsets.len() >= ENOUGH {
            self.is_synchronised = true;
            self.changes.push_back(Change::Synchronised);
        }
        Ok(())
    }

    /// How many cycles a time is nearest to.
    fn nearest(&self, time_ns: i64) -> i64 {
        let cycle_ns = self.cycle.as_nanos().cast_signed().max(1);
        (time_ns + cycle_ns / 2).div_euclid(cycle_ns)
    }

    fn median(&self) -> i64 {
        let mut sorted: Vec<_> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
        (sorted[low] + sorted[high]) / 2
    }

    /// Every frame that came before `now` was heard.
    pub fn look(&mut self, now: Instant<Realtime>) {
        let patience = SILENCE * self.cycle.as_nanos() + self.cycle.as_nanos() / 2;
        let Some((_, last_ns)) = self.last else { return };
        if now.as_nanos().saturating_sub(last_ns) <= patience + self.way.as_nanos() {
            return;
        }
        self.last = None;
        self.offsets.clear();
        if std::mem::take(&mut self.is_synchronised) {
            self.changes.push_back(Change::Lost);
        }
    }

    /// What has changed since this was last asked, in the order of time.
    pub fn next_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Whether it is synchronised.
    #[must_use]
    pub const fn is_synchronised(&self) -> bool {
        self.is_synchronised
    }

    /// When a cycle began; of no meaning before the first frame.
    #[must_use]
    pub const fn begin(&self) -> Epoch {
        Epoch(Instant::from_nanos(self.begin_ns))
    }

    /// How far the last frames are apart in what they say. Zero without any.
    #[must_use]
    pub fn precision(&self) -> Nanos {
        let spread = self.offsets.iter().max().zip(self.offsets.iter().min());
        Nanos::from_nanos(spread.map_or(0, |(most, least)| most.abs_diff(*least)))
    }

    /// How many frames counted.
    #[must_use]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// How many did not, and why.
    #[must_use]
    pub const fn refused(&self) -> &BTreeMap<Refusal, u64> {
        &self.refused
    }
}

#[cfg(test)]
mod tests {
    use candor_tte::frames::{Frames, PCF_ID, integration};
    use candor_wire::eth::Address;

    use super::*;

    const CYCLE: Nanos = Nanos::from_millis(1);
    const WAY: Nanos = Nanos::from_nanos(5_125);
    const SOURCE: Address = Address([2, 0, 0, 0, 0, 1]);
    const BEGIN_NS: u64 = 1_700_000_000_000_123_456;

    fn stamp(number: u32, late_ns: i64) -> Option<Instant<Realtime>> {
        let at = BEGIN_NS + u64::from(number) * CYCLE.as_nanos() + WAY.as_nanos();
        Some(Instant::from_nanos(at.wrapping_add_signed(late_ns)))
    }

    fn frame(number: u32, delay_ns: u64) -> Vec<u8> {
        let pcf = integration(number, Nanos::from_nanos(delay_ns));
        Frames::default().pcf(SOURCE, PCF_ID, &pcf).to_vec()
    }

    fn fresh() -> Synchronisation {
        Synchronisation::new(CYCLE, CriticalTraffic::default(), PCF_ID, WAY)
    }

    fn run(it: &mut Synchronisation, numbers: std::ops::Range<u32>) {
        for number in numbers {
            assert_eq!(it.hear(&frame(number, 0), stamp(number, 0)), Heard::Accepted, "{number}");
        }
    }

    #[test]
    fn four_frames_synchronise_and_three_cycles_without_end_it() {
        let mut it = fresh();
        run(&mut it, 10..13);
        assert_eq!((it.next_change(), it.is_synchronised()), (None, false));
        run(&mut it, 13..14);
        assert_eq!(it.next_change(), Some(Change::Synchronised));
        assert_eq!(it.begin().0.as_nanos(), BEGIN_NS + 13 * CYCLE.as_nanos());
        assert_eq!(it.precision(), Nanos::ZERO);
        it.look(stamp(16, 0).unwrap());
        assert_eq!(it.next_change(), None);
        it.look(stamp(17, 0).unwrap());
        assert_eq!(it.next_change(), Some(Change::Lost));
        it.look(stamp(20, 0).unwrap());
        assert_eq!(it.next_change(), None, "it is said once");
        // It returns, and counts from 0.
        for number in 0..4 {
            assert_eq!(it.hear(&frame(number, 0), stamp(number + 30, 77_000)), Heard::Accepted);
        }
        assert_eq!(it.next_change(), Some(Change::Synchronised));
        assert_eq!(it.begin().0.as_nanos(), BEGIN_NS + 33 * CYCLE.as_nanos() + 77_000);
    }

    #[test]
    fn late_frames_change_nothing_and_delays_that_they_tell_are_taken_off() {
        let mut it = fresh();
        run(&mut it, 0..6);
        assert_eq!(it.hear(&frame(6, 0), stamp(6, 90_000)), Heard::Accepted);
        assert_eq!(it.hear(&frame(7, 300_000), stamp(7, 300_000)), Heard::Accepted);
        assert_eq!(it.begin().0.as_nanos(), BEGIN_NS + 7 * CYCLE.as_nanos());
        assert_eq!(it.precision(), Nanos::from_micros(90));
    }

    #[test]
    fn the_number_of_the_cycle_goes_on_behind_its_largest_value() {
        let mut it = fresh();
        for step in 0..6_u32 {
            let number = (u32::MAX - 2).wrapping_add(step);
            assert_eq!(it.hear(&frame(number, 0), stamp(step, 0)), Heard::Accepted);
        }
        assert!(it.is_synchronised());
    }

    #[test]
    fn forged_frames_are_refused() {
        let mut it = fresh();
        run(&mut it, 100..108);
        let with = |change: fn(&mut Vec<u8>)| {
            let mut bytes = frame(108, 0);
            change(&mut bytes);
            bytes
        };
        for (bytes, late_ns, refusal) in [
            (with(|it| it[28] = 0x4), 0, Refusal::Kind),
            (with(|it| it[28] = 0x3), 0, Refusal::Kind),
            (with(|it| it.truncate(41)), 0, Refusal::Truncated),
            (with(|it| it.truncate(14)), 0, Refusal::Truncated),
            (with(|it| it[5] = 7), 0, Refusal::OtherLink),
            (with(|it| it[0] = 7), 0, Refusal::OtherLink),
            (frame(108, CYCLE.as_nanos()), 0, Refusal::TransparentClock),
            (with(|it| it[34..42].fill(0xFF)), 0, Refusal::TransparentClock),
            (frame(107, 0), 0, Refusal::CycleNumber),
            (frame(3, 0), 0, Refusal::CycleNumber),
            (frame(109, 0), 0, Refusal::CycleNumber),
            (frame(u32::MAX, 0), 0, Refusal::CycleNumber),
            (frame(108, 0), 130_000, Refusal::OutOfSchedule),
            (frame(108, 0), -130_000, Refusal::OutOfSchedule),
        ] {
            let heard = it.hear(&bytes, stamp(108, late_ns));
            assert_eq!(heard, Heard::Refused(refusal), "{refusal}: {bytes:02x?}");
        }
        assert_eq!(it.hear(&frame(108, 0), None), Heard::Refused(Refusal::NoStamp));
        assert_eq!(it.hear(&with(|it| it[12] = 0x08), stamp(108, 0)), Heard::Stranger);
        assert_eq!(it.hear(&[1, 2, 3], stamp(108, 0)), Heard::Stranger);
        run(&mut it, 108..110);
        assert!(it.is_synchronised());
        assert_eq!(it.refused().values().sum::<u64>(), 15);
    }
}

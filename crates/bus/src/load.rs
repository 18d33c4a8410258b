//! [`Meter`]: how busy a bus is, by the exact length of every frame.
//!
//! A frame counts in the interval in which it ended, which is when it is received. The time that it
//! took counts where it lies: of a frame that was under way when an interval began, one part belongs to
//! the interval before. So no interval has more than 100 %, however short it is, unless the bit rate is
//! wrong or stamps are. The bits are those on the wire: stuff bits, the two rates of CAN FD and the
//! intermission included. What disturbed frames took, and what error reports tell of, is on no list of
//! frames and not counted.

use std::collections::BTreeMap;

use candor_time::{Instant, Nanos, Realtime};
use candor_wire::can::frame::BRS;
use candor_wire::can::{Bitrate, ExtendedId, Frame, Kind, Timing, bits};

/// After a silence of more intervals than that, only the last one is reported.
const MOST_EMPTY: u64 = 60;
/// Identifiers that are distinguished; further ones count in the sums only.
const MAX_IDS: usize = 65_536;

/// Bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// At the nominal bit rate.
    pub nominal: u64,
    /// At the data bit rate of CAN FD.
    pub data: u64,
}

impl Bits {
    #[must_use]
    pub const fn total(self) -> u64 {
        self.nominal + self.data
    }

    fn add(&mut self, more: Self) {
        self.nominal += more.nominal;
        self.data += more.data;
    }

    /// The share of `time` that they take, in percent.
    #[must_use]
    pub fn percent(self, timing: Timing, time: Nanos) -> f64 {
        let busy =
            |bits: u64, rate: Bitrate| bits as f64 * 100.0 / f64::from(rate.bits_per_second());
        let busy = busy(self.nominal, timing.nominal) + busy(self.data, timing.data);
        if time == Nanos::ZERO { 0.0 } else { busy / time.as_secs_f64() }
    }

    /// How long they take.
    #[must_use]
    pub fn time(self, timing: Timing) -> Nanos {
        let time = |bits: u64, rate: Bitrate| {
            u128::from(bits) * 1_000_000_000 / u128::from(rate.bits_per_second())
        };
        let time = time(self.nominal, timing.nominal) + time(self.data, timing.data);
        Nanos::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// What was on the bus in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// When it began.
    pub from: Instant<Realtime>,
    /// How long it was.
    pub time: Nanos,
    /// Frames that ended in it.
    pub frames: u64,
    /// Error reports of the controller.
    pub error_reports: u64,
    /// The bits of the frames.
    pub bits: Bits,
    /// How long frames took within it; zero if no bit rate is known.
    pub busy: Nanos,
}

impl Stretch {
    #[must_use]
    pub fn frames_per_second(&self) -> f64 {
        self.per_second(self.frames)
    }

    #[must_use]
    pub fn bits_per_second(&self) -> f64 {
        self.per_second(self.bits.total())
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.time == Nanos::ZERO { 0.0 } else { count as f64 / self.time.as_secs_f64() }
    }

    /// How busy the bus was, in percent; zero if no bit rate is known.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.time == Nanos::ZERO {
            return 0.0;
        }
        self.busy.as_nanos() as f64 * 100.0 / self.time.as_nanos() as f64
    }

    /// How much of a frame lies in it.
    fn part_of(&self, on_wire: OnWire) -> Nanos {
        let end = self.from + self.time;
        on_wire.end.min(end).since(on_wire.begin.max(self.from))
    }
}

/// What one identifier had of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdLoad {
    /// SocketCAN's identifier word, without the flag of remote frames.
    pub can_id: u32,
    pub frames: u64,
    pub bits: Bits,
}

/// When a frame was on the wire.
#[derive(Clone, Copy, Debug)]
struct OnWire {
    begin: Instant<Realtime>,
    end: Instant<Realtime>,
}

/// Measures the load of one bus.
#[derive(Clone, Debug)]
pub struct Meter {
    interval: Nanos,
    timing: Option<Timing>,
    /// The longest that a frame takes.
    longest: Nanos,
    current: Option<Stretch>,
    /// When the last frame ended.
    last: Instant<Realtime>,
    total: Stretch,
    /// The highest load of an interval: in percent, or bits per second if no bit rate is known.
    peak: f64,
    ids: BTreeMap<u32, IdLoad>,
}

impl Meter {
    /// Per `interval`, which must not be zero.
    #[must_use]
    pub fn new(interval: Nanos, timing: Option<Timing>) -> Self {
        Self {
            interval: interval.max(Nanos::from_nanos(1)),
            timing,
            longest: timing.map_or(Nanos::ZERO, longest_frame),
            current: None,
            last: Instant::ZERO,
            total: Stretch::default(),
            peak: 0.0,
            ids: BTreeMap::new(),
        }
    }

    /// How long intervals are.
    #[must_use]
    pub const fn interval(&self) -> Nanos {
        self.interval
    }

    /// The bit rates of the bus, if they are known.
    #[must_use]
    pub const fn timing(&self) -> Option<Timing> {
        self.timing
    }

    /// The highest load of an interval so far: in percent, or in bits per second if no bit rate is
    /// known.
    #[must_use]
    pub const fn peak(&self) -> f64 {
        self.peak
    }

    /// Everything up to the end of the last interval that is over.
    #[must_use]
    pub const fn total(&self) -> Stretch {
        self.total
    }

    /// The identifiers with the most bits, the highest first.
    #[must_use]
    pub fn top(&self, count: usize) -> Vec<IdLoad> {
        let mut ids: Vec<_> = self.ids.values().copied().collect();
        let weight = |id: &IdLoad| match self.timing {
            Some(timing) => id.bits.percent(timing, Nanos::from_secs(1)),
            None => id.bits.total() as f64,
        };
        ids.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        ids.truncate(count);
        ids
    }

    /// Says that it is `now`, and tells of the intervals that are over: so long ago that no frame is to
    /// come that was under way in them.
    pub fn advance(&mut self, now: Instant<Realtime>, tell: impl FnMut(&Stretch)) {
        self.current.get_or_insert(Stretch { from: now, ..Stretch::default() });
        let settled = Instant::from_nanos(now.as_nanos().saturating_sub(self.longest.as_nanos()));
        self.close_until(settled, None, tell);
    }

    /// Closes the intervals that are over at `now`, with the parts of a frame that lie in them.
    fn close_until(
        &mut self,
        now: Instant<Realtime>,
        on_wire: Option<OnWire>,
        mut tell: impl FnMut(&Stretch),
    ) {
        let current = self.current.get_or_insert(Stretch { from: now, ..Stretch::default() });
        let begun = (now - current.from).as_nanos() / self.interval.as_nanos();
        if begun == 0 {
            return;
        }
        let mut from = current.from;
        for number in 0..begun.min(MOST_EMPTY) {
            // Of a long silence only the last one is reported; those in between are part of the sums.
            let is_skipped = number + 1 == MOST_EMPTY && begun > MOST_EMPTY;
            let passed = if is_skipped { begun - number } else { 1 };
            let over = self.current.take().unwrap_or(Stretch { from, ..Stretch::default() });
            let mut over = Stretch { time: self.interval * passed, ..over };
            over.busy += on_wire.map_or(Nanos::ZERO, |on_wire| over.part_of(on_wire));
            from = over.from + over.time;
            self.close(&over);
            tell(&over);
        }
        self.current = Some(Stretch { from, ..Stretch::default() });
    }

    /// Counts a frame that ended at `time`, and tells of the intervals that are over. A frame that
    /// is earlier than the one before counts as if it came now.
    pub fn add(&mut self, time: Instant<Realtime>, frame: &Frame, tell: impl FnMut(&Stretch)) {
        let took = self.timing.zip(bits::length(frame).ok());
        let took_ns = took.map_or(0, |(timing, length)| timing.duration_ns(length));
        let end = self.last.max(time);
        let begin = Instant::from_nanos(end.as_nanos().saturating_sub(took_ns));
        // What is measured begins with the beginning of the first frame.
        self.current.get_or_insert(Stretch { from: begin, ..Stretch::default() });
        let on_wire = OnWire { begin, end };
        // A frame that ends with an interval belongs to it.
        let from = self.current.map_or(end, |current| current.from);
        let before_end = Instant::from_nanos(end.as_nanos().saturating_sub(1)).max(from);
        self.close_until(before_end, Some(on_wire), tell);
        self.last = end;
        let Some(current) = &mut self.current else { return };
        let so_far = Stretch { time: end.since(current.from), ..*current };
        current.busy += so_far.part_of(on_wire);
        if frame.kind() == Kind::Error {
            current.error_reports += 1;
            return;
        }
        // Only error reports have no length.
        let Ok(length) = bits::length(frame) else { return };
        let bits = Bits { nominal: length.nominal.into(), data: length.data.into() };
        current.frames += 1;
        current.bits.add(bits);
        let can_id = frame.can_id() & !candor_wire::can::frame::RTR_FLAG;
        if self.ids.len() < MAX_IDS || self.ids.contains_key(&can_id) {
            let id = self.ids.entry(can_id).or_insert(IdLoad { can_id, ..IdLoad::default() });
            id.frames += 1;
            id.bits.add(bits);
        }
    }

    /// Ends the interval that is not over: at `end`, or without one, as of a recording, with the
    /// last frame. Tells of it unless it is empty. It is a peak only if there is no whole one.
    pub fn finish(&mut self, end: Option<Instant<Realtime>>, mut tell: impl FnMut(&Stretch)) {
        if let Some(end) = end {
            self.close_until(end, None, &mut tell);
        }
        let Some(rest) = self.current.take() else { return };
        if rest.frames + rest.error_reports == 0 {
            return;
        }
        let has_whole = self.total.time > Nanos::ZERO;
        let passed = end.unwrap_or(self.last) - rest.from;
        let is_instant = passed == Nanos::ZERO && !has_whole;
        let rest = Stretch { time: if is_instant { self.interval } else { passed }, ..rest };
        self.sum_up(&rest);
        if !has_whole {
            self.peak = self.load(&rest);
        }
        tell(&rest);
    }

    fn close(&mut self, over: &Stretch) {
        self.peak = self.peak.max(self.load(over));
        self.sum_up(over);
    }

    fn load(&self, stretch: &Stretch) -> f64 {
        match self.timing {
            Some(_) => stretch.percent(),
            None => stretch.bits_per_second(),
        }
    }

    fn sum_up(&mut self, over: &Stretch) {
        if self.total.time == Nanos::ZERO {
            self.total.from = over.from;
        }
        self.total.time += over.time;
        self.total.frames += over.frames;
        self.total.error_reports += over.error_reports;
        self.total.bits.add(over.bits);
        self.total.busy += over.busy;
    }
}

/// The longest frame of a bus: 64 bytes and an extended identifier, with or without bit rate switch.
fn longest_frame(timing: Timing) -> Nanos {
    let length = |flags| {
        let frame = Frame::fd(ExtendedId::ZERO, flags, &[0; 64]).ok()?;
        bits::worst_length(&frame).ok()
    };
    let lengths = [length(0), length(BRS)].into_iter().flatten();
    Nanos::from_nanos(lengths.map(|length| timing.duration_ns(length)).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(millis: u64) -> Instant<Realtime> {
        Instant::from_nanos(1_700_000_000 * SECOND + millis * 1_000_000)
    }

    fn classical() -> Option<Timing> {
        Some(Timing::classical("500k".parse().unwrap()))
    }

    /// Adds frames at their milliseconds; the intervals that were reported.
    fn reported(meter: &mut Meter, frames: &[(u64, &str)]) -> Vec<Stretch> {
        let mut reported = Vec::new();
        for &(millis, frame) in frames {
            meter.add(at(millis), &frame.parse().unwrap(), |stretch| reported.push(*stretch));
        }
        reported
    }

    #[test]
    fn load_is_counted_by_the_bit() {
        let mut meter = Meter::new(Nanos::from_secs(1), classical());
        // 112 bits each.
        let frame = "123#1122334455667788";
        let frames: Vec<_> = (0..1_000).map(|millis| (millis, frame)).collect();
        assert_eq!(reported(&mut meter, &frames), []);
        let mut reported = Vec::new();
        // A frame that is under way at the end of the second would come later.
        meter.advance(at(1_000), |stretch| reported.push(*stretch));
        assert_eq!(reported, []);
        meter.advance(at(1_002), |stretch| reported.push(*stretch));
        let [second] = reported[..] else { panic!("{reported:?}") };
        assert_eq!((second.frames, second.bits.nominal), (1_000, 112_000));
        assert_eq!(second.percent(), 22.4);
        assert_eq!((second.frames_per_second(), second.bits_per_second()), (1_000.0, 112_000.0));
        assert_eq!(meter.peak(), 22.4);
        assert_eq!(meter.total(), second);
        assert_eq!(
            meter.top(5),
            [IdLoad { can_id: 0x123, frames: 1_000, bits: Bits { nominal: 112_000, data: 0 } }]
        );
    }

    #[test]
    fn a_bus_that_is_never_idle_has_a_load_of_100_percent() {
        // 112 bits at 1 Mbit/s, one behind the other.
        let timing = Timing::classical("1M".parse().unwrap());
        let mut meter = Meter::new(Nanos::from_millis(5), Some(timing));
        let frame = "123#1122334455667788".parse().unwrap();
        let start = at(0);
        for number in 0..100 {
            meter.add(start + Nanos::from_micros(112) * number, &frame, |_| ());
        }
        meter.finish(None, |_| ());
        assert!((meter.total().percent() - 100.0).abs() < 1e-9);
        assert_eq!((meter.total().frames, meter.total().time), (100, Nanos::from_micros(11_200)));
    }

    #[test]
    fn no_interval_is_more_than_full_however_short() {
        // Frames of 112 us back to back; intervals end within them, and the last one lasts 12 us.
        let timing = Timing::classical("1M".parse().unwrap());
        let frame = "123#1122334455667788".parse().unwrap();
        for interval_us in [100, 500, 1_118] {
            let mut meter = Meter::new(Nanos::from_micros(interval_us), Some(timing));
            let mut reported: Vec<Stretch> = Vec::new();
            for number in 0..100 {
                let end = at(0) + Nanos::from_micros(112) * number;
                meter.add(end, &frame, |stretch| reported.push(*stretch));
            }
            meter.finish(None, |stretch| reported.push(*stretch));
            for stretch in &reported {
                assert!((stretch.percent() - 100.0).abs() < 1e-9, "{interval_us}: {stretch:?}");
            }
            let busy: u64 = reported.iter().map(|stretch| stretch.busy.as_nanos()).sum();
            assert_eq!(busy, 100 * 112_000);
            assert_eq!(meter.total().busy.as_nanos(), busy);
        }
    }

    #[test]
    fn an_interval_is_open_until_its_last_frame_has_come() {
        // A frame of 224 us ends 100 us behind the interval in which it began.
        let mut meter = Meter::new(Nanos::from_millis(10), classical());
        meter.advance(at(0), |_| ());
        let frame = "123#1122334455667788".parse().unwrap();
        let mut reported = Vec::new();
        meter.advance(at(10), |stretch| reported.push(*stretch));
        assert_eq!(reported, []);
        meter.add(at(10) + Nanos::from_micros(100), &frame, |stretch| reported.push(*stretch));
        meter.advance(at(20), |stretch| reported.push(*stretch));
        meter.finish(Some(at(20)), |stretch| reported.push(*stretch));
        let seen: Vec<_> = reported.iter().map(|s| (s.frames, s.busy.as_nanos())).collect();
        assert_eq!(seen, [(0, 124_000), (1, 100_000)]);
    }

    #[test]
    fn both_rates_of_can_fd_count() {
        let timing = Timing { nominal: "500k".parse().unwrap(), data: "2M".parse().unwrap() };
        let frame: Frame = "123##1AABB".parse().unwrap();
        let length = bits::length(&frame).unwrap();
        let mut meter = Meter::new(Nanos::from_millis(100), Some(timing));
        let reported = reported(&mut meter, &[(0, "123##1AABB"), (100, "123##1AABB")]);
        let busy_ns = timing.duration_ns(length) as f64;
        assert!((reported[0].percent() - busy_ns / 1e8 * 100.0).abs() < 1e-9);
        assert!(reported[0].bits.data > 0);
    }

    #[test]
    fn silence_is_reported_but_not_for_ever() {
        let mut meter = Meter::new(Nanos::from_secs(1), classical());
        let loads = reported(&mut meter, &[(0, "001#"), (3_500, "001#")]);
        assert_eq!(loads.iter().map(|stretch| stretch.frames).collect::<Vec<_>>(), [1, 0, 0]);
        // Fifty years.
        let far = reported(&mut meter, &[(50 * 365 * 86_400_000, "001#")]);
        assert_eq!(far.len() as u64, MOST_EMPTY);
        assert_eq!(meter.total().time, Nanos::from_secs(50 * 365 * 86_400));
        assert_eq!(meter.total().frames, 2);
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_frame() {
        let mut meter = Meter::new(Nanos::from_secs(1), classical());
        assert_eq!(reported(&mut meter, &[(5_000, "001#"), (10, "001#")]), []);
        let mut rest = Vec::new();
        meter.finish(Some(at(5_500)), |stretch| rest.push((stretch.frames, stretch.time)));
        // The first frame began 100 us before.
        assert_eq!(rest, [(2, Nanos::from_micros(500_100))]);
    }

    #[test]
    fn errors_are_counted_apart() {
        let mut meter = Meter::new(Nanos::from_secs(1), None);
        reported(&mut meter, &[(0, "20000004#00"), (1, "001#")]);
        let mut rest = Vec::new();
        meter.finish(None, |stretch| rest.push(*stretch));
        assert_eq!((rest[0].frames, rest[0].error_reports), (1, 1));
        assert_eq!(rest[0].time, Nanos::from_millis(1));
        let bits = bits::length(&"001#".parse().unwrap()).unwrap().total();
        assert_eq!(meter.peak(), f64::from(bits) * 1_000.0, "bits per second");
    }

    #[test]
    fn the_busiest_come_first() {
        let mut meter = Meter::new(Nanos::from_secs(1), classical());
        let frames = [(0, "100#"), (0, "00000100#00"), (0, "100#R"), (0, "101#1122334455667788")];
        reported(&mut meter, &frames);
        let top: Vec<_> = meter.top(2).iter().map(|id| (id.can_id, id.frames)).collect();
        assert_eq!(top, [(0x101, 1), (0x100, 2)]);
    }
}

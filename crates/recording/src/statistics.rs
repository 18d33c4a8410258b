//! What a recording says about its buses and links, in one pass.

mod ethernet;
mod ids;
mod peak;

use std::collections::BTreeMap;

use candor_wire::can::{Id, Kind, Timing, bits};

pub use self::ethernet::{
    EthernetStatistics, LinkStatistics, MAX_STREAMS, Stream, StreamStatistics,
};
use self::ids::Ids;
pub use self::peak::PEAK_WINDOWS_NS;
use self::peak::Peak;
use crate::record::{AnyRecord, InterfaceIndex, Packet, Record};

/// How many different identifiers get statistics of their own; frames of further ones are only
/// counted ([`Statistics::unlisted_frames`]).
pub const MAX_IDS: usize = 65_536;

/// The statistics of a recording. Memory grows with the number of different identifiers only, up
/// to [`MAX_IDS`].
///
/// Time stamps are taken to be of one and the same instant of each frame, usually the end of its
/// reception. The time from the first stamp to the last then holds every frame but the first, and
/// rates and loads leave that one out: a saturated bus has a load of exactly 100 %.
#[derive(Debug, Default)]
pub struct Statistics {
    /// The bit rates of the buses, which their peaks need.
    timing: Option<Timing>,
    /// How many CAN frames there are, error reports not counted.
    pub frames: u64,
    /// How many error reports of drivers there are.
    pub error_reports: u64,
    /// How many records are earlier than the one before them.
    pub out_of_order: u64,
    /// How many frames have none of the first [`MAX_IDS`] different identifiers.
    pub unlisted_frames: u64,
    span: Span,
    latest_ns: Option<u64>,
    /// The longest time from one record to the next: long if the recorder stopped for a while or
    /// its clock was set, which makes all means doubtful.
    pub longest_pause: Option<Pause>,
    buses: BTreeMap<InterfaceIndex, BusStatistics>,
    ids: Ids,
    /// What the recording says about its Ethernet links.
    pub ethernet: EthernetStatistics,
}

/// The time from one record to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The time of the record before it.
    pub from_ns: u64,
    /// How long it lasts in nanoseconds.
    pub duration_ns: u64,
}

/// The first and the last time seen.
#[derive(Clone, Copy, Debug, Default)]
struct Span(Option<(u64, u64)>);

impl Span {
    fn add(&mut self, time_ns: u64) {
        let (first, last) = self.0.unwrap_or((time_ns, time_ns));
        self.0 = Some((first.min(time_ns), last.max(time_ns)));
    }

    fn duration_ns(self) -> u64 {
        self.0.map_or(0, |(first, last)| last - first)
    }
}

impl Statistics {
    /// With the bit rates of the buses, and so with their peak loads.
    #[must_use]
    pub fn with_timing(timing: Option<Timing>) -> Self {
        Self { timing, ..Self::default() }
    }

    /// Counts one record of either kind in.
    pub fn add_any(&mut self, record: &AnyRecord<'_>) {
        match record {
            AnyRecord::Can(record) => self.add(record),
            AnyRecord::Ethernet(record) => self.add_ethernet(record),
        }
    }

    /// Counts one Ethernet frame in.
    pub fn add_ethernet(&mut self, record: &Record<Packet<'_>>) {
        self.add_time(record.time_ns);
        self.ethernet.add(record);
    }

    /// Counts one CAN frame in.
    pub fn add(&mut self, record: &Record) {
        let time_ns = record.time_ns;
        self.add_time(time_ns);
        let bus = self.buses.entry(record.interface).or_default();
        bus.span.add(time_ns);
        let Ok(length) = bits::length(&record.frame) else {
            self.error_reports += 1;
            bus.error_reports += 1;
            return;
        };
        self.frames += 1;
        bus.frames += 1;
        if bus.frames == 1 {
            bus.first_frame = length.into();
        }
        bus.busy.add(length);
        if let Some(timing) = self.timing {
            bus.add_to_peaks(time_ns, timing.duration_ns(length));
        }
        match self.ids.of(record.interface, &record.frame) {
            Some(id) => id.add(record, length),
            None => self.unlisted_frames += 1,
        }
    }

    fn add_time(&mut self, time_ns: u64) {
        self.span.add(time_ns);
        let Some(from_ns) = self.latest_ns.replace(time_ns) else {
            return;
        };
        let Some(duration_ns) = time_ns.checked_sub(from_ns) else {
            self.out_of_order += 1;
            return;
        };
        if self.longest_pause.is_none_or(|longest| longest.duration_ns < duration_ns) {
            self.longest_pause = Some(Pause { from_ns, duration_ns });
        }
    }

    /// The earliest and the latest time in nanoseconds, unless the recording is empty.
    #[must_use]
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.span.0
    }

    /// The time from the earliest record to the latest in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.span.duration_ns()
    }

    /// CAN frames per second, if the recording lasts at all.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        rate(self.frames, self.duration_ns())
    }

    /// The buses in the order of their first frames.
    pub fn buses(&self) -> impl Iterator<Item = (InterfaceIndex, &BusStatistics)> {
        self.buses.iter().map(|(&interface, bus)| (interface, bus))
    }

    /// The identifiers of each bus, the highest priority first.
    pub fn ids(&self) -> impl Iterator<Item = (InterfaceIndex, Id, &IdStatistics)> {
        self.ids.iter()
    }

    /// The part of the time its bus is busy that frames of `id` take, in percent.
    #[must_use]
    pub fn share_percent(
        &self,
        interface: InterfaceIndex,
        id: &IdStatistics,
        timing: Timing,
    ) -> Option<f64> {
        let bus = self.buses.get(&interface)?;
        Some(percent(id.busy.duration_ns(timing), bus.busy.duration_ns(timing)))
    }
}

fn rate(frames: u64, duration_ns: u64) -> Option<f64> {
    (duration_ns > 0).then(|| frames.saturating_sub(1) as f64 * 1e9 / duration_ns as f64)
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// The statistics of one bus of a recording.
#[derive(Debug, Default)]
pub struct BusStatistics {
    /// How many frames there are, error reports not counted.
    pub frames: u64,
    /// How many error reports of drivers there are.
    pub error_reports: u64,
    span: Span,
    busy: BusyBits,
    first_frame: BusyBits,
    /// As many as [`PEAK_WINDOWS_NS`], if the bit rates are known.
    peaks: Vec<Peak>,
}

impl BusStatistics {
    fn add_to_peaks(&mut self, end_ns: u64, busy_ns: u64) {
        if self.peaks.is_empty() {
            self.peaks = PEAK_WINDOWS_NS.map(Peak::new).into();
        }
        self.peaks.iter_mut().for_each(|peak| peak.add(end_ns, busy_ns));
    }

    /// The highest load within 10 ms, 100 ms and 1 s ([`PEAK_WINDOWS_NS`]), wherever in the recording
    /// they begin, in percent. `None` if the bit rates are not known or the recording is shorter.
    ///
    /// More than 100 if the bit rate is too low to be true, or if stamps are coarser than that.
    #[must_use]
    pub fn peaks_percent(&self) -> [Option<f64>; 3] {
        let duration_ns = self.span.duration_ns();
        let peak = |index: usize| {
            let peak = self.peaks.get(index)?;
            (duration_ns >= PEAK_WINDOWS_NS[index]).then(|| peak.percent())
        };
        [peak(0), peak(1), peak(2)]
    }

    /// Frames per second, if the recording lasts at all.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        rate(self.frames, self.span.duration_ns())
    }

    /// The part of the time that this bus is busy at these bit rates, in percent: exact bits,
    /// stuffing and intermission included. More than 100 if the bit rate is too low to be true.
    #[must_use]
    pub fn load_percent(&self, timing: Timing) -> Option<f64> {
        let duration_ns = self.span.duration_ns();
        let busy_ns = self.busy.duration_ns(timing) - self.first_frame.duration_ns(timing);
        (duration_ns > 0).then(|| percent(busy_ns, duration_ns as f64))
    }
}

/// Bits on the wire, intermission included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyBits {
    /// Bits at the nominal bit rate.
    pub nominal: u64,
    /// Bits at the data bit rate of CAN FD.
    pub data: u64,
}

impl BusyBits {
    fn add(&mut self, length: bits::Length) {
        self.nominal += u64::from(length.nominal);
        self.data += u64::from(length.data);
    }

    /// How long they take in nanoseconds.
    #[must_use]
    pub fn duration_ns(self, timing: Timing) -> f64 {
        let nominal = self.nominal as f64 * 1e9 / f64::from(timing.nominal.bits_per_second());
        let data = self.data as f64 * 1e9 / f64::from(timing.data.bits_per_second());
        nominal + data
    }
}

impl From<bits::Length> for BusyBits {
    fn from(length: bits::Length) -> Self {
        Self { nominal: length.nominal.into(), data: length.data.into() }
    }
}

/// The statistics of one identifier on one bus.
#[derive(Debug, Default)]
pub struct IdStatistics {
    /// How many frames there are, remote frames included.
    pub frames: u64,
    /// How many of them are remote frames.
    pub remote_frames: u64,
    /// How many of them are CAN FD frames.
    pub fd_frames: u64,
    /// The shortest data in bytes; of a remote frame, the number asked for.
    pub len_min: usize,
    /// The longest data in bytes.
    pub len_max: usize,
    /// The bits of all frames.
    pub busy: BusyBits,
    /// The times between one frame and the next.
    pub period: PeriodStatistics,
}

impl IdStatistics {
    fn add(&mut self, record: &Record, length: bits::Length) {
        let len = record.frame.len();
        self.len_min = if self.frames == 0 { len } else { self.len_min.min(len) };
        self.len_max = self.len_max.max(len);
        self.frames += 1;
        self.remote_frames += u64::from(record.frame.kind() == Kind::Remote);
        self.fd_frames += u64::from(record.frame.is_fd());
        self.busy.add(length);
        self.period.add(record.time_ns);
    }
}

/// The times between each frame and the next one. Steps back in time are left out.
#[derive(Debug, Default)]
pub struct PeriodStatistics {
    latest_ns: Option<u64>,
    count: u64,
    min_ns: u64,
    max_ns: u64,
    mean_ns: f64,
    /// The sum of the squared distances from the mean, kept by Welford's method.
    squares: f64,
}

impl PeriodStatistics {
    fn add(&mut self, time_ns: u64) {
        let latest = self.latest_ns.replace(time_ns);
        let Some(period_ns) = latest.and_then(|latest| time_ns.checked_sub(latest)) else {
            return;
        };
        self.min_ns = if self.count == 0 { period_ns } else { self.min_ns.min(period_ns) };
        self.max_ns = self.max_ns.max(period_ns);
        self.count += 1;
        let distance = period_ns as f64 - self.mean_ns;
        self.mean_ns += distance / self.count as f64;
        self.squares += distance * (period_ns as f64 - self.mean_ns);
    }

    /// The shortest in nanoseconds, if there is any.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The longest in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean_ns)
    }

    /// Their standard deviation in nanoseconds: the root of the mean square of their distances from the mean.
    #[must_use]
    pub fn stddev_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_wire::can::Frame;

    fn timing() -> Timing {
        Timing::classical("500k".parse().unwrap())
    }

    fn statistics(records: &[(u64, u16, &str)]) -> Statistics {
        let mut statistics = Statistics::default();
        for &(time_ns, interface, text) in records {
            statistics.add(&record(time_ns, interface, text.parse().unwrap()));
        }
        statistics
    }

    fn record(time_ns: u64, interface: u16, frame: Frame) -> Record {
        Record { time_ns, interface: InterfaceIndex(interface), direction: None, frame }
    }

    /// 112 bits, 224 us at 500 kbit/s.
    const FRAME: &str = "123#1122334455667788";

    #[test]
    fn a_saturated_bus_has_a_load_of_100_percent() {
        let records: Vec<_> = (0..10).map(|n| (n * 224_000, 0, FRAME)).collect();
        let statistics = statistics(&records);
        let (_, bus) = statistics.buses().next().unwrap();
        assert_eq!(bus.load_percent(timing()), Some(100.0));
        assert_eq!(bus.busy, BusyBits { nominal: 1_120, data: 0 });
        assert_eq!(statistics.rate(), Some(1e9 / 224_000.0));
    }

    #[test]
    fn each_bus_has_its_load_and_each_id_its_share() {
        let statistics = statistics(&[
            (0, 0, FRAME),
            (0, 1, FRAME),
            (448_000, 0, FRAME),
            (896_000, 1, FRAME),
            (896_000, 0, "124#1122334455667788"),
        ]);
        let loads: Vec<_> = statistics
            .buses()
            .map(|(_, bus)| bus.load_percent(timing()).unwrap().round())
            .collect();
        assert_eq!(loads, [50.0, 25.0]);
        let shares: Vec<_> = statistics
            .ids()
            .map(|(bus, _, id)| statistics.share_percent(bus, id, timing()).unwrap().round())
            .collect();
        assert_eq!(shares, [66.0, 34.0, 100.0]);
    }

    #[test]
    fn the_two_rates_of_fd_count_apart() {
        let statistics = statistics(&[(0, 0, FRAME), (1_000_000, 0, "123##11122334455667788")]);
        let (_, bus) = statistics.buses().next().unwrap();
        let frame = bits::length(&"123##11122334455667788".parse().unwrap()).unwrap();
        let fast = Timing { data: "2M".parse().unwrap(), ..timing() };
        let expected = fast.duration_ns(frame) as f64 / 1_000_000.0 * 100.0;
        assert!((bus.load_percent(fast).unwrap() - expected).abs() < 1e-9);
    }

    #[test]
    fn periods_and_their_deviation() {
        // Periods 8, 12, 8, 12: mean 10, each 2 off the mean.
        let times = [0, 8, 20, 28, 40];
        let statistics = statistics(&times.map(|time_ns| (time_ns, 0, FRAME)));
        let (_, id, of_id) = statistics.ids().next().unwrap();
        assert_eq!(id, "123#".parse::<Frame>().unwrap().id());
        let period = &of_id.period;
        assert_eq!((period.min_ns(), period.max_ns()), (Some(8), Some(12)));
        assert_eq!((period.mean_ns(), period.stddev_ns()), (Some(10.0), Some(2.0)));
        assert_eq!((of_id.frames, of_id.len_min, of_id.len_max), (5, 8, 8));
    }

    #[test]
    fn steps_back_are_counted_and_make_no_period() {
        let statistics =
            statistics(&[(50, 0, FRAME), (60, 0, FRAME), (10, 0, FRAME), (40, 0, FRAME)]);
        assert_eq!((statistics.out_of_order, statistics.span_ns()), (1, Some((10, 60))));
        assert_eq!(statistics.longest_pause, Some(Pause { from_ns: 10, duration_ns: 30 }));
        let (.., id) = statistics.ids().next().unwrap();
        assert_eq!((id.period.min_ns(), id.period.max_ns()), (Some(10), Some(30)));
    }

    #[test]
    fn error_reports_are_no_frames() {
        let statistics = statistics(&[(0, 0, "20000004#00"), (9, 0, "123#R4"), (9, 0, "123#")]);
        assert_eq!((statistics.frames, statistics.error_reports), (2, 1));
        let ids: Vec<_> = statistics.ids().collect();
        assert_eq!(ids.len(), 1);
        assert_eq!((ids[0].2.remote_frames, ids[0].2.len_min, ids[0].2.len_max), (1, 0, 4));
    }

    #[test]
    fn nothing_has_no_rate() {
        let empty = Statistics::default();
        assert_eq!((empty.span_ns(), empty.rate(), empty.duration_ns()), (None, None, 0));
        let one = statistics(&[(5, 0, FRAME)]);
        assert_eq!((one.rate(), one.duration_ns()), (None, 0));
        assert_eq!(one.buses().next().unwrap().1.load_percent(timing()), None);
    }

    #[test]
    fn the_number_of_ids_is_bounded() {
        let mut statistics = Statistics::default();
        for id in 0..MAX_IDS as u32 + 10 {
            let id = candor_wire::can::ExtendedId::new(id).unwrap();
            statistics.add(&record(0, 0, Frame::new(id, &[]).unwrap()));
        }
        statistics.add(&record(0, 0, "00000001#".parse().unwrap()));
        assert_eq!(statistics.ids().count(), MAX_IDS);
        assert_eq!((statistics.frames, statistics.unlisted_frames), (65_547, 10));
    }
}

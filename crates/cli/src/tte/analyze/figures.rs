//! What `candor tte analyze` takes down of a flow, and how it is shown.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use candor_causes::Cause;
use candor_lat::account::{Account, Counts, End, Terms};
use candor_lat::order::Order;
use candor_lat::{Metric, Tap, TapPath, Taps, quantile};
use candor_time::Nanos;
use candor_tte_live::join::Key;

use crate::json::lines;
use crate::output::{duration_or_dash, interval_line, table, thousands};

/// Runs of generators whose frames are looked at, of each flow.
const MOST_RUNS: usize = 64;

/// Which port has seen a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// That before the network.
    Before,
    /// That behind it.
    Behind,
}

/// Frames of all flows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

/// What was measured of a flow.
pub(super) struct Figures {
    account: Account,
    /// The runs of generators, each a stream.
    runs: BTreeMap<u32, u32>,
    /// Frames that only the port behind the network has seen.
    pub(super) unmatched: u64,
    /// The latency that follows from the schedule, if there is one.
    model_ns: Option<i64>,
    /// The distance of two frames, if they are time-triggered.
    period_ns: Option<i64>,
}

impl Figures {
    pub(super) fn new(period_ns: Option<i64>) -> Self {
        let terms = Terms { has_variation: true, ..Terms::new(TapPath::TIME_TRIGGERED) };
        let (runs, unmatched, model_ns) = (BTreeMap::new(), 0, None);
        Self { account: Account::new(terms), runs, unmatched, model_ns, period_ns }
    }

    /// The latency that follows from the schedule: what comes half a period later or more came with the next cycle.
    pub(super) fn set_model(&mut self, model_ns: Option<i64>) {
        let bound_ns = |(model_ns, period_ns): (i64, i64)| model_ns.saturating_add(period_ns / 2);
        self.model_ns = model_ns;
        self.account.set_late_after(model_ns.zip(self.period_ns).map(bound_ns));
    }

    /// The end of a frame. It is of no stream if it is of one run too many.
    fn end<'a>(&mut self, key: Key, taps: &'a Taps, stopped_by: Option<Cause>) -> End<'a> {
        let next = self.runs.len() as u32;
        let is_full = self.runs.len() >= MOST_RUNS && !self.runs.contains_key(&key.run);
        let stream = (!is_full).then(|| *self.runs.entry(key.run).or_insert(next));
        let number = stream.map_or(0, |stream| self.account.count_on(stream, key.sequence));
        End { stream, number, taps, known_ns: 0, stopped_by }
    }

    /// A frame came; whether it had come before.
    pub(super) fn came(&mut self, key: Key) -> bool {
        let taps = Taps::new(TapPath::TIME_TRIGGERED);
        let end = self.end(key, &taps, None);
        self.account.end(&end).order == Some(Order::Duplicate)
    }

    /// The latency of a frame that came is known.
    pub(super) fn measured(&mut self, key: Key, before_ns: u64, behind_ns: u64) {
        let taps = Taps::new(TapPath::TIME_TRIGGERED).with(Tap::Dispatched, before_ns);
        let taps = taps.with(Tap::Arrived, behind_ns);
        let end = self.end(key, &taps, None);
        self.account.measure(&end);
    }

    /// The port before the network saw a frame, and that behind it did not.
    pub(super) fn lost(&mut self, key: Key) {
        let taps = Taps::new(TapPath::TIME_TRIGGERED);
        let end = self.end(key, &taps, Some(Cause::Unexplained));
        self.account.end(&end);
    }

    pub(super) fn totals(&self, is_two_ports: bool) -> Totals {
        let Counts { received, lost, duplicated, reordered, .. } = self.account.counts();
        let lost = if is_two_ports { lost } else { self.account.missing() };
        Totals { received, lost, duplicated, reordered }
    }

    /// Whether anything is known of it.
    pub(super) fn is_any(&self, is_two_ports: bool) -> bool {
        let Totals { received, lost, .. } = self.totals(is_two_ports);
        received + lost + self.unmatched > 0
    }
}

/// What an interval has brought.
pub(crate) struct Interval<'a> {
    /// Its end, since the begin.
    pub(crate) time: Nanos,
    pub(crate) totals: Totals,
    /// At its begin.
    pub(crate) last: Totals,
    /// Sorted.
    pub(crate) latencies_ns: &'a [i64],
}

impl Interval<'_> {
    pub(crate) fn quantile(&self, hundredths: u64) -> Option<i64> {
        quantile(self.latencies_ns, hundredths, 100)
    }

    pub(crate) fn lost(&self) -> i64 {
        self.totals.lost.wrapping_sub(self.last.lost).cast_signed()
    }

    pub(super) fn line(&self, with_head: bool) -> String {
        let names = ["time", "received", "lost", "twice", "reordered", "min", "p50", "p99", "max"];
        let head = match with_head {
            true => interval_line(&names.map(str::to_owned)),
            false => String::new(),
        };
        let (totals, last) = (self.totals, self.last);
        head + &interval_line(&[
            format!("{:.0} s", self.time.as_secs_f64()),
            thousands(totals.received - last.received),
            self.lost().to_string(),
            thousands(totals.duplicated - last.duplicated),
            thousands(totals.reordered - last.reordered),
            duration_or_dash(self.latencies_ns.first().copied()),
            duration_or_dash(self.quantile(50)),
            duration_or_dash(self.quantile(99)),
            duration_or_dash(self.latencies_ns.last().copied()),
        ])
    }
}

/// A flow in the summary.
pub(crate) struct Row<'a> {
    pub(crate) flow: &'a str,
    pub(crate) totals: Totals,
    pub(crate) unmatched: u64,
    pub(crate) latency: Option<candor_lat::Figures>,
    pub(crate) ipdv: Option<candor_lat::Figures>,
    pub(crate) model_ns: Option<i64>,
    /// Frames that came with the next cycle.
    pub(crate) late: Option<u64>,
}

impl<'a> Row<'a> {
    pub(super) fn new(flow: &'a str, figures: &Figures, is_two_ports: bool) -> Self {
        let Figures { account, unmatched, model_ns, period_ns, .. } = figures;
        let latency = account.figures(Metric::NetworkLatency);
        let is_judged = latency.is_some() && model_ns.is_some() && period_ns.is_some();
        Self {
            flow,
            totals: figures.totals(is_two_ports),
            unmatched: *unmatched,
            late: is_judged.then(|| account.counts().late),
            latency,
            ipdv: account.variation(),
            model_ns: *model_ns,
        }
    }

    pub(crate) fn residual_ns(&self) -> Option<i64> {
        Some(self.latency.as_ref()?.p50_ns - self.model_ns?)
    }
}

/// All at the end, for people.
pub(super) fn text(rows: &[Row<'_>]) -> String {
    let head = [
        "flow",
        ">received",
        ">lost",
        ">twice",
        ">reordered",
        ">min",
        ">mean",
        ">p50",
        ">p90",
        ">p99",
        ">p99.9",
        ">max",
        ">jitter",
    ];
    let cells = |row: &Row<'_>| {
        let totals = row.totals;
        let ns =
            |of: fn(&candor_lat::Figures) -> i64| duration_or_dash(row.latency.as_ref().map(of));
        let mut cells = vec![row.flow.to_owned()];
        cells.extend(
            [totals.received, totals.lost, totals.duplicated, totals.reordered].map(thousands),
        );
        cells.extend([
            ns(|it| it.min_ns),
            ns(|it| it.mean_ns as i64),
            ns(|it| it.p50_ns),
            ns(|it| it.p90_ns),
            ns(|it| it.p99_ns),
            ns(|it| it.p999_ns),
            ns(|it| it.max_ns),
            ns(|it| it.jitter_ns() as i64),
        ]);
        cells
    };
    let first = table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    let head = [
        "flow",
        ">model",
        ">residual p50",
        ">late",
        ">IPDV p50",
        ">IPDV p99",
        ">IPDV max",
        ">unmatched",
    ];
    let cells = |row: &Row<'_>| {
        let ns = |of: fn(&candor_lat::Figures) -> i64| duration_or_dash(row.ipdv.as_ref().map(of));
        vec![
            row.flow.to_owned(),
            duration_or_dash(row.model_ns),
            duration_or_dash(row.residual_ns()),
            row.late.map_or_else(|| "-".to_owned(), thousands),
            ns(|it| it.p50_ns),
            ns(|it| it.p99_ns),
            ns(|it| it.max_ns),
            thousands(row.unmatched),
        ]
    };
    let second = table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    format!("{first}\n{second}")
}

/// All at the end, as JSON Lines.
pub(super) fn json(
    rows: &[Row<'_>],
    interface: &str,
    from: Option<&str>,
) -> Result<String, String> {
    lines(rows.iter().map(|row| (row, interface, from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_across_the_end_of_the_numbers_are_told_from_lost_ones() {
        let mut it = Figures::new(Some(24));
        it.set_model(Some(90));
        let numbers = [u32::MAX - 1, u32::MAX, 0, 3, 1, 1];
        for (number, latency_ns) in numbers.into_iter().zip([100, 110, 90, 95, 100, 0]) {
            let key = Key { run: 1, stream: 0, sequence: number };
            if !it.came(key) {
                it.measured(key, 1_000, 1_000 + latency_ns);
            }
        }
        let Totals { received, lost, duplicated, reordered } = it.totals(false);
        assert_eq!([received, lost, duplicated, reordered], [5, 1, 1, 1]);
        let row = Row::new("f", &it, false);
        let (latency, ipdv) = (row.latency.as_ref().unwrap(), row.ipdv.as_ref().unwrap());
        assert_eq!((latency.min_ns, latency.max_ns, latency.p50_ns), (90, 110, 100));
        // Of 0 and the one before it, of that and the one before, and of 0 and 1.
        assert_eq!((ipdv.count, ipdv.min_ns, ipdv.max_ns), (3, 10, 20));
        assert_eq!((row.residual_ns(), row.late), (Some(10), Some(1)));
        // Of another run, 1 is no duplicate.
        assert!(!it.came(Key { run: 2, stream: 0, sequence: 1 }));
    }
}

//! What `candor tte analyze` takes down of a flow, and how it is shown.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use candor_lat::{Histogram, Summary};
use candor_time::Nanos;
use candor_tte_live::join::{Key, Order, Sequences};

use crate::json::tte_interval::TteInterval;
use crate::json::tte_measured::TteMeasured;
use crate::json::{line, lines};
use crate::output::{duration_or_dash, interval_line, quantile, table, thousands};

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
pub(super) struct Totals {
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
    }
}

/// A run of a generator.
#[derive(Default)]
struct Run {
    sequences: Sequences,
    /// The last frame with a latency.
    last: Option<(u32, i64)>,
}

/// What was measured of a flow.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) received: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    /// Frames that a port before the network saw, and that behind it did not.
    pub(super) lost: u64,
    pub(super) unmatched: u64,
    /// Whether the latency begins with the last bit of the frame on the first link.
    pub(super) begins_with_last_bit: bool,
    runs: BTreeMap<u32, Run>,
    latency: Option<Box<Histogram>>,
    /// By how much the latencies of frames in a row differ.
    ipdv: Option<Box<Histogram>>,
}

impl Figures {
    /// A frame came. `None` if it is of one run too many.
    pub(super) fn add(&mut self, key: Key) -> Option<Order> {
        let is_full = self.runs.len() >= MOST_RUNS && !self.runs.contains_key(&key.run);
        let run = (!is_full).then(|| self.runs.entry(key.run).or_default());
        let order = run.map(|run| run.sequences.add(key.sequence));
        match order {
            Some(Order::Duplicate) => self.duplicated += 1,
            Some(Order::Reordered) => {
                self.received += 1;
                self.reordered += 1;
            }
            _ => self.received += 1,
        }
        order
    }

    /// The latency of a frame is known.
    pub(super) fn measured(&mut self, key: Key, latency_ns: i64) {
        self.latency.get_or_insert_default().record(latency_ns);
        let Some(run) = self.runs.get_mut(&key.run) else { return };
        if let Some((sequence, last_ns)) = run.last
            && sequence.wrapping_add(1) == key.sequence
        {
            let difference = latency_ns.abs_diff(last_ns);
            let ipdv = self.ipdv.get_or_insert_default();
            ipdv.record(i64::try_from(difference).unwrap_or(i64::MAX));
        }
        run.last = Some((key.sequence, latency_ns));
    }

    pub(super) fn totals(&self, is_two_ports: bool) -> Totals {
        let missing = || self.runs.values().map(|run| run.sequences.missing()).sum();
        let lost = if is_two_ports { self.lost } else { missing() };
        let Self { received, duplicated, reordered, .. } = *self;
        Totals { received, lost, duplicated, reordered }
    }
}

/// What an interval has brought.
pub(super) struct Interval<'a> {
    /// Its end, since the begin.
    pub(super) time: Nanos,
    pub(super) totals: Totals,
    /// At its begin.
    pub(super) last: Totals,
    /// Sorted.
    pub(super) latencies_ns: &'a [i64],
}

impl Interval<'_> {
    fn quantile(&self, hundredths: usize) -> Option<i64> {
        quantile(self.latencies_ns, hundredths)
    }

    fn lost(&self) -> i64 {
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

    pub(super) fn json(&self) -> Result<String, String> {
        line(&TteInterval {
            time_ns: self.time.as_nanos(),
            received: self.totals.received - self.last.received,
            lost: self.lost(),
            duplicated: self.totals.duplicated - self.last.duplicated,
            reordered: self.totals.reordered - self.last.reordered,
            latency_ns_min: self.latencies_ns.first().copied(),
            latency_ns_p50: self.quantile(50),
            latency_ns_p99: self.quantile(99),
            latency_ns_max: self.latencies_ns.last().copied(),
        })
    }
}

/// A flow in the summary.
pub(super) struct Row<'a> {
    pub(super) flow: &'a str,
    pub(super) figures: &'a Figures,
    pub(super) model_ns: Option<i64>,
    /// The distance of two frames, if they are time-triggered.
    pub(super) period_ns: Option<i64>,
    pub(super) is_two_ports: bool,
}

impl Row<'_> {
    fn latency(&self) -> Option<Summary> {
        self.figures.latency.as_ref()?.summary()
    }

    fn ipdv(&self) -> Option<Summary> {
        self.figures.ipdv.as_ref()?.summary()
    }

    fn residual_ns(&self) -> Option<i64> {
        Some(self.latency()?.p50_ns - self.model_ns?)
    }

    /// Frames that came half a period late or more: with the next cycle.
    fn late(&self) -> Option<u64> {
        let bound_ns = self.model_ns? + self.period_ns? / 2;
        let profile = self.figures.latency.as_ref()?.profile();
        Some(profile.iter().find(|(ns, _)| *ns > bound_ns).map_or(0, |(_, frames)| *frames))
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
        let totals = row.figures.totals(row.is_two_ports);
        let latency = row.latency();
        let ns = |of: fn(&Summary) -> i64| duration_or_dash(latency.as_ref().map(of));
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
            ns(|it| it.max_ns - it.min_ns),
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
        let ipdv = row.ipdv();
        let ns = |of: fn(&Summary) -> i64| duration_or_dash(ipdv.as_ref().map(of));
        vec![
            row.flow.to_owned(),
            duration_or_dash(row.model_ns),
            duration_or_dash(row.residual_ns()),
            row.late().map_or_else(|| "-".to_owned(), thousands),
            ns(|it| it.p50_ns),
            ns(|it| it.p99_ns),
            ns(|it| it.max_ns),
            thousands(row.figures.unmatched),
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
    lines(rows.iter().map(|row| {
        let (latency, ipdv) = (row.latency(), row.ipdv());
        let totals = row.figures.totals(row.is_two_ports);
        TteMeasured {
            flow: row.flow,
            interface,
            from,
            received: totals.received,
            lost: totals.lost,
            duplicated: totals.duplicated,
            reordered: totals.reordered,
            unmatched: row.figures.unmatched,
            latency_ns_min: latency.map(|it| it.min_ns),
            latency_ns_mean: latency.map(|it| it.mean_ns),
            latency_ns_p50: latency.map(|it| it.p50_ns),
            latency_ns_p90: latency.map(|it| it.p90_ns),
            latency_ns_p99: latency.map(|it| it.p99_ns),
            latency_ns_p999: latency.map(|it| it.p999_ns),
            latency_ns_max: latency.map(|it| it.max_ns),
            jitter_ns: latency.map(|it| it.max_ns - it.min_ns),
            ipdv_ns_p50: ipdv.map(|it| it.p50_ns),
            ipdv_ns_p99: ipdv.map(|it| it.p99_ns),
            ipdv_ns_max: ipdv.map(|it| it.max_ns),
            model_ns: row.model_ns,
            residual_ns_p50: row.residual_ns(),
            late: row.late(),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_across_the_end_of_the_numbers_are_told_from_lost_ones() {
        let mut it = Figures::default();
        let numbers = [u32::MAX - 1, u32::MAX, 0, 3, 1, 1];
        for (number, latency_ns) in numbers.into_iter().zip([100, 110, 90, 95, 100, 0]) {
            let key = Key { run: 1, stream: 0, sequence: number };
            if it.add(key) != Some(Order::Duplicate) {
                it.measured(key, latency_ns);
            }
        }
        let Totals { received, lost, duplicated, reordered } = it.totals(false);
        assert_eq!([received, lost, duplicated, reordered], [5, 1, 1, 1]);
        let (model_ns, period_ns) = (Some(90), Some(24));
        let row = Row { flow: "f", figures: &it, model_ns, period_ns, is_two_ports: false };
        let (latency, ipdv) = (row.latency().unwrap(), row.ipdv().unwrap());
        assert_eq!((latency.min_ns, latency.max_ns, latency.p50_ns), (90, 110, 100));
        assert_eq!((ipdv.count, ipdv.min_ns, ipdv.max_ns), (2, 10, 20));
        assert_eq!((row.residual_ns(), row.late()), (Some(10), Some(1)));
        // Of another run, 1 is no duplicate.
        assert_eq!(it.add(Key { run: 2, stream: 0, sequence: 1 }), Some(Order::Latest));
    }
}

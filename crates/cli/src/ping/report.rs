//! What `candor ping` tells: a line for each interval, and everything at the end.

use std::fmt::Write as _;

use candor_lat::text::{self, Canvas, Charset, Scale, Series};
use candor_lat::{Figures, Histogram, quantile};
use candor_ping::{Counts, Master};
use candor_time::Nanos;
use candor_wire::can::Timing;
use clap::ValueEnum;

use crate::bus::live::hex_word;
use crate::json;
use crate::output::{duration, duration_or_dash, interval_line, table, thousands};

/// The most points of a profile in JSON.
const MOST_POINTS: usize = 200;
const BINS: usize = 60;

/// What is drawn at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Draw {
    /// How many round trips are at least as long, on a logarithmic axis
    Profile,
    /// How many round trips are so long
    Histogram,
    /// Nothing
    None,
}

/// Round trips compared with the shortest that the bus allows.
pub(super) struct Measured {
    /// By track, with that of all behind them.
    tracks: Vec<Wire>,
}

#[derive(Clone, Default)]
struct Wire {
    /// The shortest and the longest that the bus allows.
    range: Option<(u64, u64)>,
    /// By how much round trips exceed it.
    above: Option<Box<Histogram>>,
}

impl Measured {
    pub(super) fn new(tracks: usize) -> Self {
        Self { tracks: vec![Wire::default(); tracks + 1] }
    }

    pub(super) fn add(&mut self, track: usize, round_trip_ns: i64, wire: Nanos) {
        let wire_ns = wire.as_nanos();
        let above_ns = round_trip_ns.saturating_sub(wire_ns.try_into().unwrap_or(i64::MAX));
        let all = self.tracks.len() - 1;
        for place in [track, all] {
            let Some(wire) = self.tracks.get_mut(place) else { continue };
            let (least, most) = wire.range.unwrap_or((wire_ns, wire_ns));
            wire.range = Some((least.min(wire_ns), most.max(wire_ns)));
            wire.above.get_or_insert_default().record(above_ns);
        }
    }

    fn of(&self, track: Option<usize>) -> Option<&Wire> {
        self.tracks.get(track.unwrap_or(self.tracks.len() - 1))
    }
}

/// An interval.
pub(crate) struct Tick<'a> {
    /// Its end, since the start.
    pub(crate) time: Nanos,
    pub(crate) counts: Counts,
    /// At its beginning.
    pub(crate) last: Counts,
    /// Sorted.
    pub(crate) round_trips_ns: &'a [i64],
}

impl Tick<'_> {
    pub(crate) fn quantile(&self, hundredths: u64) -> Option<i64> {
        quantile(self.round_trips_ns, hundredths, 100)
    }

    pub(super) fn line(&self, with_head: bool) -> String {
        let Counts { sent, answered, late, lost, .. } = self.counts;
        let last = self.last;
        let mut out = String::new();
        if with_head {
            let names = ["time", "sent", "answered", "late", "lost", "min", "p50", "p99", "max"];
            out.push_str(&interval_line(&names.map(str::to_owned)));
        }
        let ns = duration_or_dash;
        out.push_str(&interval_line(&[
            format!("{:.0} s", self.time.as_secs_f64()),
            thousands(sent - last.sent),
            thousands(answered - last.answered),
            thousands(late - last.late),
            (lost as i64 - last.lost as i64).to_string(),
            ns(self.round_trips_ns.first().copied()),
            ns(self.quantile(50)),
            ns(self.quantile(99)),
            ns(self.round_trips_ns.last().copied()),
        ]));
        out
    }
}

/// What is waited for: neither answered nor lost.
pub(crate) const fn waiting(counts: &Counts) -> u64 {
    counts.sent - counts.answered - counts.late - counts.lost
}

/// All at the end, for people.
pub(super) fn text(
    master: &Master,
    pairs: &[(u32, u32)],
    measured: &Measured,
    timing: Option<Timing>,
    draw: Draw,
) -> String {
    let round_trips = master.round_trips(None);
    let counts = master.counts(None);
    let mut out = String::new();
    let mut rows = Vec::new();
    let places = (0..pairs.len()).map(Some).filter(|_| pairs.len() > 1);
    for place in places.chain([None]) {
        let name = match place.and_then(|place| pairs.get(place)) {
            Some((request, answer)) => format!("{} -> {}", hex_word(*request), hex_word(*answer)),
            None => "all".into(),
        };
        let counts = master.counts(place);
        let summary = master.round_trips(place).figures();
        let mut cells = vec![name];
        cells.extend([counts.sent, counts.answered, counts.late, counts.lost].map(thousands));
        cells.extend(figures(summary.as_ref()));
        rows.push(cells);
    }
    let head = [
        "round trips",
        ">sent",
        ">answered",
        ">late",
        ">lost",
        ">min",
        ">p50",
        ">p90",
        ">p99",
        ">p99.9",
        ">max",
    ];
    out.push_str(&table(&head, &rows));
    if let (Some(timing), Some(wire)) = (timing, measured.of(None))
        && let (Some((least, most)), Some(above)) = (wire.range, &wire.above)
        && let Some(above) = above.figures()
    {
        let _ = writeln!(
            out,
            "the bus at {}bit/s allows {} to {}; above that: p50 {}, p99 {}, max {}",
            timing.nominal,
            duration(least as f64),
            duration(most as f64),
            duration(above.p50_ns as f64),
            duration(above.p99_ns as f64),
            duration(above.max_ns as f64),
        );
    }
    let more = [
        (waiting(&counts), "still waited for its answer at the end"),
        (counts.duplicates, "answers to what was answered already"),
        (counts.strange, "frames with the identifier of an answer and other data than any request"),
    ];
    for (count, what) in more.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(out, "{}: {what}", thousands(count));
    }
    if let Some(lateness) = master.lateness().figures() {
        let (p50, max) = (duration(lateness.p50_ns as f64), duration(lateness.max_ns as f64));
        let _ = writeln!(out, "requests were sent {p50} after they were due (p50), {max} at most");
    }
    if round_trips.count() > 0 && draw != Draw::None {
        out.push('\n');
        out.push_str(&drawn(&round_trips, draw));
    }
    out
}

fn drawn(round_trips: &Histogram, draw: Draw) -> String {
    let time = if draw == Draw::Histogram { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { width: 80, height: 16, time, charset: Charset::Unicode };
    if draw == Draw::Histogram {
        return text::histogram("round trip", &round_trips.classic(BINS), canvas);
    }
    let profile = round_trips.profile();
    text::profile("round trip", &[Series { name: "round trips", profile: &profile }], canvas)
}

fn figures(summary: Option<&Figures>) -> [String; 6] {
    let of = |of: fn(&Figures) -> i64| {
        summary.map_or_else(|| "-".to_owned(), |summary| duration(of(summary) as f64))
    };
    [
        of(|it| it.min_ns),
        of(|it| it.p50_ns),
        of(|it| it.p90_ns),
        of(|it| it.p99_ns),
        of(|it| it.p999_ns),
        of(|it| it.max_ns),
    ]
}

/// How the requests of one ping fared, or those of all.
pub(crate) struct RoundTrips {
    /// `None`: all pings.
    pub(crate) pair: Option<(u32, u32)>,
    pub(crate) counts: Counts,
    pub(crate) summary: Option<Figures>,
    pub(crate) lateness: Option<Figures>,
    /// What the bus allows.
    pub(crate) range: Option<(u64, u64)>,
    /// By how much round trips exceed it.
    pub(crate) above: Option<Figures>,
    pub(crate) profile: Vec<(i64, u64)>,
}

/// All at the end, as JSON Lines: each ping, and all of them.
pub(super) fn json(
    master: &Master,
    pairs: &[(u32, u32)],
    measured: &Measured,
) -> Result<String, String> {
    let objects = (0..pairs.len()).map(Some).chain([None]).map(|place| {
        let (round_trips, wire) = (master.round_trips(place), measured.of(place));
        RoundTrips {
            pair: place.and_then(|place| pairs.get(place)).copied(),
            counts: master.counts(place),
            summary: round_trips.figures(),
            lateness: master.lateness().figures(),
            range: wire.and_then(|wire| wire.range),
            above: wire.and_then(|wire| wire.above.as_ref()?.figures()),
            profile: round_trips.profile_thinned(MOST_POINTS),
        }
    });
    json::lines(objects)
}

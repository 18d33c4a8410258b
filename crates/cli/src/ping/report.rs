//! What `candor ping` tells: a line for each interval, and everything at the end.

use candor_lat::result::{PROFILE_POINTS, ResultFile};
use candor_lat::section::Sections;
use candor_lat::sections::PING;
use candor_lat::text::{self, Canvas, Charset, Scale, Series};
use candor_lat::{self as lat, Figures, Metric, quantile};
use candor_ping::{Counts, Master, Wire, section};
use candor_time::Nanos;
use clap::ValueEnum;

use crate::output::{duration_or_dash, interval_line, thousands};
use crate::result::stopped;

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

impl Measured {
    pub(super) fn new(tracks: usize) -> Self {
        Self { tracks: vec![Wire::default(); tracks + 1] }
    }

    pub(super) fn add(&mut self, track: usize, round_trip: Nanos, wire: Nanos) {
        let all = self.tracks.len() - 1;
        for place in [track, all] {
            if let Some(it) = self.tracks.get_mut(place) {
                it.add(round_trip, wire);
            }
        }
    }

    fn of(&self, track: Option<usize>) -> &Wire {
        &self.tracks[track.unwrap_or(self.tracks.len() - 1)]
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
    /// Requests that were lost, less those of them that were answered late.
    pub(crate) const fn lost(&self) -> i64 {
        self.counts.lost as i64 - self.last.lost as i64
    }

    pub(crate) fn quantile(&self, hundredths: u64) -> Option<i64> {
        quantile(self.round_trips_ns, hundredths, 100)
    }

    pub(super) fn line(&self, with_head: bool) -> String {
        let Counts { sent, answered, late, .. } = self.counts;
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
            self.lost().to_string(),
            ns(self.round_trips_ns.first().copied()),
            ns(self.quantile(50)),
            ns(self.quantile(99)),
            ns(self.round_trips_ns.last().copied()),
        ]));
        out
    }
}

/// The result of a ping, or of all.
pub(super) fn result(
    master: &Master,
    place: Option<usize>,
    measured: &Measured,
    empty: ResultFile,
) -> ResultFile {
    let counts = master.counts(place);
    let round_trips = master.round_trips(place);
    let row = section(master, place, measured.of(place));
    let lost = counts.lost + counts.waiting();
    let metrics = round_trips.figures().map(|figures| {
        let profile = round_trips.profile_thinned(PROFILE_POINTS);
        (Metric::RoundTrip.key().to_owned(), Figures { profile, ..figures })
    });
    ResultFile {
        counts: lat::Counts {
            sent: counts.sent,
            received: counts.answered + counts.late,
            lost,
            duplicated: counts.duplicates,
            reordered: counts.reordered,
            late: counts.late,
            ..lat::Counts::default()
        },
        stopped: stopped(lost),
        metrics: metrics.into_iter().collect(),
        sections: Sections::default().with_one(&PING, row),
        ..empty
    }
}

/// The round trips of all pings, drawn; nothing if there are none.
pub(super) fn drawn(master: &Master, draw: Draw) -> String {
    let round_trips = master.round_trips(None);
    if round_trips.count() == 0 || draw == Draw::None {
        return String::new();
    }
    let time = if draw == Draw::Histogram { Scale::Linear } else { Scale::Logarithmic };
    let canvas = Canvas { width: 80, height: 16, time, charset: Charset::Unicode };
    let profile = round_trips.profile();
    let text = match draw {
        Draw::Histogram => text::histogram("round trip", &round_trips.classic(BINS), canvas),
        _ => text::profile(
            "round trip",
            &[Series { name: "round trips", profile: &profile }],
            canvas,
        ),
    };
    format!("\n{text}")
}

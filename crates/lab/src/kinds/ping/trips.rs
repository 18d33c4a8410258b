//! What became of the requests of round trips, in any testbed; and the master that sends them where it is a program of this
//! process.

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_lat::account::{End, Terms};
use candor_lat::section::Sections;
use candor_lat::{Tap, TapPath, Taps};
use candor_ping::run::{self as programs, Observer};
use candor_ping::{Master, Pace, Pair, Plan, Track, Wire, section, shortest};
use candor_port::{Port, Receiver, Transmitter};
use candor_time::{Instant, Monotonic, Nanos};

use super::Ping;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::error::Error;
use crate::experiment::{Experiment, Run};
use crate::result::{ResultFile, Stopped};
use crate::sections::PING;
use crate::watch::Watch;

const SIGHT: Sight = Sight { taps: TapPath::ROUND_TRIP.taps(), has_rules: false };
/// Round trips that are kept one by one.
const MOST_EXACT: u64 = 2_000_000;
/// How long late answers are waited for, after the last timeout and after each of them: as by `candor ping`.
pub(super) const LINGER: Nanos = Nanos::from_secs(1);
/// How long, behind a timeout and two periods, nothing may be sent or answered before the measurement is over.
const SILENCE: Nanos = Nanos::from_secs(1);

/// A request; instants in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    /// Which, from 0.
    pub(crate) number: u64,
    /// When the master handed it to its port.
    pub(crate) queued_ns: u64,
    /// When the master had the answer, if it came.
    pub(crate) answered_ns: Option<u64>,
}

impl Trip {
    fn taps(&self) -> Taps {
        let taps = Taps::new(TapPath::ROUND_TRIP).with(Tap::Queued, self.queued_ns);
        self.answered_ns.map_or(taps, |at_ns| taps.with(Tap::Answered, at_ns))
    }
}

/// The result of `experiment`, without what its testbed knows besides. `trips` are in the order of their numbers; `lines` takes
/// a line of CSV per request.
pub(crate) fn evaluate(
    run: Run<'_>,
    ping: &Ping,
    mut trips: Vec<Trip>,
) -> Result<ResultFile, Error> {
    let terms = Terms {
        is_exact: run.experiment.count <= MOST_EXACT,
        late_after_ns: Some(i64::try_from(ping.timeout.as_nanos()).unwrap_or(i64::MAX)),
        ..Terms::new(TapPath::ROUND_TRIP)
    };
    let mut builder = ResultBuilder::new(terms, SIGHT, run);
    for trip in &trips {
        builder.line(&Copied {
            end: end_of(trip, &trip.taps()),
            sent: None,
            received: trip.answered_ns.is_some().then_some(&"answer"),
            passed: "delivered",
            rule: "",
        });
    }
    // The account takes them in the order of their ends.
    trips.sort_by_key(|trip| trip.answered_ns);
    for trip in &trips {
        builder.account.end(&end_of(trip, &trip.taps()));
    }
    let counts = builder.account.counts();
    let mut stopped = vec![Stopped::new("", "", Cause::Unexplained, counts.lost)];
    stopped.retain(|stopped| stopped.frames > 0);
    let mut notes = Vec::new();
    if counts.late > 0 {
        let answers = counted(counts.late, "answer");
        notes.push(format!("{answers} came later than {}; they count", ping.timeout));
    }
    Ok(ResultFile { stopped, notes, ..builder.finish()? })
}

/// How a request has ended.
const fn end_of<'a>(trip: &Trip, taps: &'a Taps) -> End<'a> {
    match trip.answered_ns {
        Some(_) => End::received(trip.number, taps),
        None => End::stopped(trip.number, taps, Cause::Unexplained),
    }
}

/// Both halves of a port.
pub(crate) type Halves = (Box<dyn Receiver>, Box<dyn Transmitter>);

/// The halves of a port that has both.
pub(crate) fn halves(port: Port) -> Result<Halves, Error> {
    let both = port.receiver.zip(port.transmitter);
    both.ok_or_else(|| Error::Other("a port for round trips has only one half".into()))
}

/// What a master has measured.
pub(crate) struct Measured {
    master: Master,
    trips: Vec<Trip>,
    wire: Wire,
    /// How long it took.
    pub(crate) duration: Nanos,
}

/// Lets a master send the requests of `experiment` over a port, and measures until all are answered or lost.
pub(crate) fn measure(
    experiment: &Experiment,
    (ping, pair): (&Ping, Pair),
    (receiver, transmitter): (&mut dyn Receiver, &mut dyn Transmitter),
    now: &dyn Fn() -> Instant<Monotonic>,
    watch: &dyn Watch,
) -> Result<Measured, Error> {
    let plan = Plan {
        tracks: vec![Track { pair, period: ping.period }],
        length: ping.length.into(),
        is_fd: false,
        pace: if ping.is_open_loop { Pace::OpenLoop } else { Pace::OneAtATime },
        count: Some(experiment.count),
        timeout: ping.timeout,
        linger: LINGER,
        seed: experiment.seed,
    };
    let failed = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    let start = now();
    let mut master = Master::new(plan, start).map_err(|error| failed(error.to_string()))?;
    let mut follower = Follower {
        ping,
        pair,
        watch,
        start,
        trips: Vec::new(),
        wire: Wire::default(),
        moved: (0, start),
        is_interrupted: false,
    };
    let ran = programs::master(&mut master, receiver, transmitter, now, &mut follower);
    let Follower { mut trips, wire, is_interrupted, .. } = follower;
    if is_interrupted {
        return Err(Error::Interrupted);
    }
    ran.map_err(|error| failed(error.to_string()))?;
    // What was answered is told before what was lost.
    trips.sort_by_key(|trip| trip.number);
    Ok(Measured { master, trips, wire, duration: now().since(start) })
}

impl Measured {
    /// The result, without what the testbed knows besides.
    pub(crate) fn evaluate(self, run: Run<'_>, ping: &Ping) -> Result<ResultFile, Error> {
        let wanted = run.experiment.count;
        let Self { master, trips, wire, duration } = self;
        let row = section(&master, Some(0), &wire);
        let sent = master.counts(None).sent;
        let mut result = evaluate(run, ping, trips)?;
        result.counts.duplicated = master.counts(None).duplicates;
        if sent < wanted {
            result.notes.push(format!(
                "{} of {} could be sent: nothing more came through the bus",
                sent,
                counted(wanted, "request")
            ));
        }
        Ok(ResultFile {
            duration_ns: duration.as_nanos(),
            sections: Sections::default().with_one(&PING, row),
            ..result
        })
    }
}

/// Takes down what becomes of requests.
struct Follower<'a> {
    ping: &'a Ping,
    pair: Pair,
    watch: &'a dyn Watch,
    start: Instant<Monotonic>,
    trips: Vec<Trip>,
    wire: Wire,
    /// How much was sent and answered when that last changed, and when that was.
    moved: (u64, Instant<Monotonic>),
    is_interrupted: bool,
}

impl Observer for Follower<'_> {
    fn trip(&mut self, trip: &candor_ping::Trip) {
        let round_trip = trip.outcome.round_trip();
        let queued = trip.sent.since(self.start);
        self.trips.push(Trip {
            number: trip.number,
            queued_ns: queued.as_nanos(),
            answered_ns: round_trip.map(|time| (queued + time).as_nanos()),
        });
        let answer = self.pair.answer_to(&trip.request);
        let shortest = answer.and_then(|it| shortest(&trip.request, &it, self.ping.bus.timing));
        if let Some((round_trip, shortest)) = round_trip.zip(shortest) {
            self.wire.add(round_trip, shortest);
        }
    }

    fn goes_on(&mut self, master: &Master, now: Instant<Monotonic>) -> bool {
        let counts = master.counts(None);
        self.is_interrupted |= !self.watch.proceed(now.since(self.start), counts.sent);
        let moves = counts.sent + counts.answered + counts.late;
        if moves != self.moved.0 {
            self.moved = (moves, now);
        }
        let Ping { timeout, period, .. } = *self.ping;
        let is_silent = now.since(self.moved.1) > timeout + period + period + SILENCE;
        !self.is_interrupted && !is_silent
    }
}

//! Round trips: the order that makes a guest measure them, and the result in its report.
//!
//! ```text
//!  queued                                      answered
//!    |  round_trip --------------------------->  |
//!  master (can2) -- request --> bus -- answer --> master
//!                     slave (can3)
//! ```
//!
//! Both programs and both controllers are of the guest; the bus takes its time to the bit. Times are those of the guest.

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_engine::Table;
use candor_lat::account::{End, Terms};
use candor_lat::{Tap, TapPath, Taps};
use candor_ping::Pair;
use candor_protocol::Report;
use candor_protocol::order::{Measurement, Pace, Tester, Traffic};

use super::Ping;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::error::Error;
use crate::experiment::{Experiment, Run};
use crate::result::{Machine, ResultFile, Stopped};
use crate::sections::{self, BUSES};
use crate::vm::evaluate::{conditions, counts_of, refuse_failures, with_machine};
use crate::vm::order::timing;

const SIGHT: Sight = Sight { taps: TapPath::ROUND_TRIP.taps(), has_rules: false };

/// The order for `experiment`.
pub(super) fn order(experiment: &Experiment, ping: &Ping) -> Measurement {
    let Ping { bus, length, period, is_open_loop, timeout, is_virtual, vm } = ping;
    let pace = Pace::RoundTrips {
        period_ns: period.as_nanos(),
        is_open_loop: *is_open_loop,
        timeout_ns: timeout.as_nanos(),
        is_virtual: *is_virtual,
    };
    let can_ids = vec![Pair::DEFAULT.request(), Pair::DEFAULT.answer()];
    let traffic = Traffic { can_ids, length: *length, ..Traffic::new(pace, experiment.count) };
    Measurement {
        tester: Tester::Master,
        driver: vm.driver.of_order(),
        source: timing(bus),
        target: timing(bus),
        load: vm.load,
        settings: vm.settings.clone(),
        seed: experiment.seed,
        wants_frames: false,
        ..Measurement::new(vm.gateway.clone(), Table::default(), traffic)
    }
}

/// The result of `experiment` in a guest's report.
pub(super) fn evaluate(
    run: Run<'_>,
    (ping, machine): (&Ping, Machine),
    report: &Report,
) -> Result<ResultFile, Error> {
    let Run { experiment, command, lines, .. } = run;
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    refuse_failures(report).map_err(reported)?;
    let terms = Terms {
        is_exact: true,
        late_after_ns: Some(i64::try_from(ping.timeout.as_nanos()).unwrap_or(i64::MAX)),
        ..Terms::new(TapPath::ROUND_TRIP)
    };
    let mut builder = ResultBuilder::new(terms, SIGHT, lines);
    let mut answers = vec![None; 1 << 16];
    for stamp in &report.received {
        answers[usize::from(stamp.number)] = Some(stamp.time_ns);
    }
    let trips = report.sent.iter().map(|stamp| {
        let answered = answers[usize::from(stamp.number)];
        let taps = Taps::new(TapPath::ROUND_TRIP).with(Tap::Queued, stamp.time_ns);
        (stamp.number.into(), answered.map_or(taps, |at_ns| taps.with(Tap::Answered, at_ns)))
    });
    let mut trips: Vec<_> = trips.collect();
    for (number, taps) in &trips {
        builder.line(&Copied {
            end: end_of(*number, taps),
            sent: None,
            received: taps.at(Tap::Answered).is_some().then_some(&"answer"),
            passed: "delivered",
            rule: "",
        });
    }
    // The account takes them in the order of their ends.
    trips.sort_by_key(|(_, taps)| taps.at(Tap::Answered));
    for (number, taps) in &trips {
        builder.account.end(&end_of(*number, taps));
    }
    let counts = builder.account.counts();
    let mut stopped = vec![Stopped::new("", "", Cause::Unexplained, counts.lost)];
    stopped.retain(|stopped| stopped.frames > 0);
    // Nothing is on the bus outside if both are on a virtual device.
    let duration_ns = match (ping.is_virtual, &report.sent[..]) {
        (true, [first, .., last]) => last.time_ns - first.time_ns,
        _ => report.totals.duration_ns,
    };
    let wire = report.wire.iter().filter(|_| !ping.is_virtual);
    let bus = wire.flat_map(|wire| &wire.buses).take(1);
    let buses = bus.map(|count| sections::bus(&ping.bus, &counts_of(count), duration_ns));
    let mut notes = report.notes.clone();
    if counts.late > 0 {
        let timeout = ping.timeout;
        notes.push(format!(
            "{} came later than {timeout}; they count",
            counted(counts.late, "answer")
        ));
    }
    Ok(ResultFile {
        conditions: conditions(&machine, &ping.vm),
        duration_ns,
        stopped,
        notes,
        sections: with_machine(&machine, report, counts.received, 0).with(&BUSES, buses.collect()),
        ..builder.finish(experiment, command)?
    })
}

/// How a request has ended.
const fn end_of(number: u64, taps: &Taps) -> End<'_> {
    match taps.at(Tap::Answered) {
        Some(_) => End::received(number, taps),
        None => End::stopped(number, taps, Cause::Unexplained),
    }
}

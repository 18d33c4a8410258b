//! Round trips: the order that makes a guest measure them, and the result in its report.
//!
//! ```text
//!  queued                                      answered
//!    |  round_trip --------------------------->  |
//!  master (can2) -- request --> bus -- answer --> master
//!                     slave (can3)
//! ```
//!
//! Both programs and both controllers are of the guest, or the slave is a node outside of it that answers at once; the bus
//! takes its time to the bit. Times are those of the guest.

use candor_engine::Table;
use candor_ping::Pair;
use candor_protocol::Report;
use candor_protocol::order::{Measurement, Pace, Tester, Traffic};
use candor_time::Nanos;
use candor_wire::can::{Frame, StandardId, bits};

use super::trips::{self, Trip};
use super::{Partner, Ping, PingWorld};
use crate::buses::{counts_of, timing};
use crate::error::Error;
use crate::experiment::{Experiment, Run, Vm};
use crate::result::{Machine, ResultFile};
use crate::sections::{self, BUSES};
use crate::vm::report::{conditions_with, refuse_failures, with_machine};

/// Whether master and slave are on one virtual device.
const fn is_virtual(ping: &Ping) -> bool {
    matches!(ping.world, PingWorld::Vm { is_virtual: true, .. })
}

/// How long late answers are waited for: as everywhere, and until the bus has carried what may wait in front of it, each request
/// with its answer.
fn linger(experiment: &Experiment, ping: &Ping, vm: &Vm) -> Nanos {
    let waiting = experiment.count.min(vm.settings.tx_queue.into());
    let frame = Frame::new(StandardId::MAX, &[0; 8]).ok();
    let bits = frame.and_then(|frame| bits::worst_length(&frame).ok());
    let longest_ns = bits.map_or(0, |bits| ping.bus.timing.duration_ns(bits));
    Nanos::from_nanos(waiting.saturating_mul(2 * longest_ns)) + trips::LINGER
}

/// The order for `experiment`.
pub(super) fn order(experiment: &Experiment, ping: &Ping, vm: &Vm) -> Measurement {
    let Ping { bus, length, period, is_open_loop, timeout, .. } = ping;
    let pace = Pace::RoundTrips {
        period_ns: period.as_nanos(),
        is_open_loop: *is_open_loop,
        timeout_ns: timeout.as_nanos(),
        linger_ns: linger(experiment, ping, vm).as_nanos(),
        is_virtual: is_virtual(ping),
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
    (ping, vm, machine): (&Ping, &Vm, Machine),
    report: &Report,
) -> Result<ResultFile, Error> {
    let experiment = run.experiment;
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    refuse_failures(report).map_err(reported)?;
    let mut answers = vec![None; 1 << 16];
    for stamp in &report.received {
        answers[usize::from(stamp.number)] = Some(stamp.time_ns);
    }
    let trips = report.sent.iter().map(|stamp| Trip {
        number: stamp.number.into(),
        queued_ns: stamp.time_ns,
        answered_ns: answers[usize::from(stamp.number)],
    });
    let result = trips::evaluate(run, ping, trips.collect())?;
    // Nothing is on the bus outside if both are on a virtual device.
    let duration_ns = match (is_virtual(ping), &report.sent[..]) {
        (true, [first, .., last]) => last.time_ns - first.time_ns,
        _ => report.totals.duration_ns,
    };
    let wire = report.wire.iter().filter(|_| !is_virtual(ping));
    let bus = wire.flat_map(|wire| &wire.buses).take(1);
    let buses = bus.map(|count| sections::bus(&ping.bus, &counts_of(count), duration_ns));
    let received = result.counts.received;
    let who = match ping.world {
        PingWorld::Vm { partner: Partner::Outside, .. } => {
            "timed bus, master inside, partner outside"
        }
        _ => "master and slave inside",
    };
    Ok(ResultFile {
        conditions: conditions_with(&machine, vm, who),
        duration_ns,
        notes: [&report.notes[..], &result.notes].concat(),
        sections: with_machine(&machine, report, received, 0).with(&BUSES, buses.collect()),
        ..result
    })
}

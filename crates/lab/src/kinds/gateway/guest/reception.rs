//! A program that reads: how long after the interrupt of its controller it has each frame.
//!
//! ```text
//!                    interrupt          delivered
//!                        |  reception ---->  |
//!  tester -- frame --> controller --> driver --> reader (can2)
//! ```
//!
//! An SJA1000 raises its receive interrupt in the last bit but one of the end of frame, so the interrupt is one bit before the
//! end of the frame on the bus. The tester outside sees that end; the program reads the time stamp counter, which in these
//! machines is the same clock.

use candor_causes::Cause;
use candor_lat::account::{End, Terms};
use candor_lat::{Tap, TapPath, Taps};
use candor_protocol::Report;

use super::super::settings::{CanGateway, Traffic};
use super::evaluate::{bus_rows, conditions};
use super::journey::Journeys;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::buses::counts_of;
use crate::error::Error;
use crate::experiment::{Run, Vm};
use crate::result::{Machine, ResultFile, Stopped};
use crate::sections::BUSES;
use crate::vm::report::{refuse_failures, with_machine};

const SIGHT: Sight = Sight { taps: TapPath::RECEPTION.taps(), has_rules: false };
const TERMS: Terms = Terms { is_exact: true, ..Terms::new(TapPath::RECEPTION) };

/// The result of `experiment` in a guest's report; `frames` takes a line of CSV per frame.
pub(super) fn evaluate(
    run: Run<'_>,
    (can, settings, machine): (&CanGateway, &Vm, Machine),
    report: &Report,
) -> Result<ResultFile, Error> {
    let experiment = run.experiment;
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    let (Traffic::Numbered { frames: numbered, .. }, Some(source)) =
        (&can.traffic, can.network.buses.first())
    else {
        return Err(reported("a reader needs a bus with numbered frames".into()));
    };
    refuse_failures(report).map_err(reported)?;
    let mut journeys = Journeys::new(&report.sent, &report.due).map_err(reported)?;
    journeys.watch(&report.monitored).map_err(reported)?;
    let bit_ns = source.timing.nominal.duration_ns(1);
    let mut builder = ResultBuilder::new(TERMS, SIGHT, run);
    let mut delivered = report.delivered.iter().peekable();
    for journey in &journeys.0 {
        let sent = numbered.frame(journey.number);
        let taps = Taps::new(TapPath::RECEPTION);
        let interrupt_ns = journey.monitored.map(|end_ns| end_ns.saturating_sub(bit_ns));
        let taps = interrupt_ns.map_or(taps, |at_ns| taps.with(Tap::Interrupt, at_ns));
        // One bus keeps the order of frames, and so does a reader: what is next is of this frame or of a later one.
        let read = delivered.next_if(|stamp| {
            stamp.number == journey.number as u16
                && interrupt_ns.is_some_and(|at_ns| at_ns <= stamp.time_ns)
        });
        let taps = read.map_or(taps, |stamp| taps.with(Tap::Delivered, stamp.time_ns));
        builder.add(&Copied {
            end: match read {
                Some(_) => End::received(journey.number, &taps),
                None => End::stopped(journey.number, &taps, Cause::Unexplained),
            },
            sent: sent.as_ref().map(|sent| sent as _),
            received: read.and(sent.as_ref()).map(|sent| sent as _),
            passed: "delivered",
            rule: "",
        });
    }
    let counts = builder.account.counts();
    let mut stopped = vec![Stopped::new("", "", Cause::Unexplained, counts.lost)];
    stopped.retain(|stopped| stopped.frames > 0);
    let unknown = delivered.count() as u64;
    let duration_ns = report.totals.duration_ns;
    let wire = report.wire.iter().flat_map(|wire| &wire.buses);
    let buses: Vec<_> = wire.map(counts_of).collect();
    Ok(ResultFile {
        conditions: conditions(&machine, settings),
        duration_ns,
        stopped,
        notes: report.notes.clone(),
        sections: with_machine(&machine, report, counts.received, unknown)
            .with(&BUSES, bus_rows(can, &buses, duration_ns)),
        ..builder.finish()?
    })
}

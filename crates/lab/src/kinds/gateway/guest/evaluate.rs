//! What a guest reported, as a result.
//!
//! ```text
//!  queued            source_end                        target_end
//!    │                   │ total_latency ───────────────►  │
//!  sent by the tester  stamped at the monitor          stamped at the receiver
//!  (can0)              (can1)                          (can4; can2 without a gateway)
//! ```
//!
//! With a tester inside, the emulated bus hands a frame over at once, so there is no transmission to take off: the
//! gateway latency is the total latency. The load of a bus is what the exact bits of its frames would occupy.
//!
//! A tester outside stamps on the wire, where transmissions take their time, and knows more: when frames began
//! (`source_start`, `target_start`) and when the gateway's driver asked its controller to send (`loaded`).

use std::fmt::Display;

use candor_causes::{Cause, Ending};
use candor_diagnostics::{by_count, counted, noun};
use candor_lat::account::{Account, Copies, End, Terms};
use candor_lat::section::Row;
use candor_lat::{Metric, Tap, Taps};
use candor_protocol::Report;
use candor_protocol::order::Gateway;
use candor_protocol::report::{StationCount, Ways};
use candor_time::Nanos;
use candor_vm::BusTime;
use candor_wire::can::{Frame, bits, socketcan};

use super::super::doubt;
use super::super::messages::Messages;
use super::super::settings::{CanGateway, Pace, Traffic};
use super::super::sources::{Numbered, Offers};
use super::expect::Expected;
use super::journey::Journeys;
use super::order::offers;
use super::stopped::{Missed, missing_on_target, rules, stopped};
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::buses::counts_of;
use crate::error::Error;
use crate::experiment::{Experiment, Run, Vm};
use crate::result::{Counts, Machine, ResultFile};
use crate::sections::{self, BUSES, BusCounts, COLD, MESSAGES, RULES};
use crate::vm::report::{conditions_with, refuse_failures, with_machine};

/// A full bus, with the gap behind the last frame, which no longer counts.
const FULL_PERCENT: f64 = 105.0;

/// What a tester inside sees.
const INSIDE: Sight =
    Sight { taps: &[Tap::Queued, Tap::SourceEnd, Tap::TargetEnd], has_rules: false };
/// What a tester outside sees.
const OUTSIDE: Sight = Sight {
    taps: &[
        Tap::Queued,
        Tap::SourceStart,
        Tap::SourceEnd,
        Tap::Loaded,
        Tap::TargetStart,
        Tap::TargetEnd,
    ],
    ..INSIDE
};

/// The result of `experiment` in a guest's report; `frames` takes a line of CSV per frame.
pub(super) fn evaluate(
    run: Run<'_>,
    (can, settings, machine): (&CanGateway, &Vm, Machine),
    report: &Report,
) -> Result<ResultFile, Error> {
    let experiment = run.experiment;
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    let sent = Sent::of(experiment, can)?;
    refuse_failures(report).map_err(reported)?;
    let mut journeys = Journeys::new(&report.sent, &report.due).map_err(reported)?;
    journeys.watch(&report.monitored).map_err(reported)?;
    if let Some(wire) = &report.wire {
        journeys.begin(wire);
    }
    let unknown = journeys.pair(&report.monitored, &report.received);
    let arrived = decoded(report).map_err(reported)?;
    let missing = missing_on_target(can, settings, report);
    refuse_unseen(settings, report, &journeys, missing).map_err(reported)?;

    let evaluation = Evaluation { can, settings, report, sent: &sent, arrived: &arrived };
    // Further copies that arrive are of streams of their own.
    let terms = Terms {
        is_exact: true,
        copies: Copies::Any,
        late_after_ns: can.late_after_ns(),
        ..Terms::new(experiment.path())
    };
    let sight = if report.wire.is_some() { OUTSIDE } else { INSIDE };
    let mut builder = ResultBuilder::new(terms, sight, run);
    let mut messages = Messages::new(can);
    let altered = evaluation.follow(&journeys, &mut builder, &mut messages);
    builder.account.close(journeys.0.len() as u64);
    let missed = Missed::of(&builder.account);
    let stopped = stopped(can, report, &missed);
    // What bus-off took behind the gateway has its cause.
    let at_bus_off = stopped.iter().filter(|it| it.cause == Cause::BusOff.name());
    let missing = missing.saturating_sub(at_bus_off.map(|it| it.frames).sum());
    let mut endings = missed.endings(&stopped);
    endings.add(Ending::Received, journeys.0.len() as u64 - endings.total());
    // What the gateway counts says more of how frames ended than where they were last seen.
    let Counts { duplicated, reordered, late, .. } = builder.account.counts();
    let counts = Counts { duplicated, reordered, late, ..Counts::from_endings(&endings) };
    let buses = evaluation.buses(&journeys);
    let figures = builder.account.figures(Metric::GatewayLatency);
    let is_early = figures.is_some_and(|figures| figures.min_ns < 0);
    let sections = with_machine(&machine, report, counts.received, unknown);
    let sections = match &report.cold {
        Some(ways) => sections.with_one(&COLD, cold(ways, terms, settings).map_err(reported)?),
        None => sections,
    };
    let sections = sections
        .with(&BUSES, bus_rows(can, &buses, report.totals.duration_ns))
        .with(&RULES, rules(can, settings, report))
        .with(&MESSAGES, messages.rows());
    Ok(ResultFile {
        conditions: conditions(&machine, settings),
        duration_ns: report.totals.duration_ns,
        counts,
        stopped,
        notes: evaluation.notes(missing, altered, journeys.unmonitored(), is_early, &buses),
        sections,
        ..builder.finish()?
    })
}

/// What became of the frames of the warm-up.
fn cold(ways: &Ways, terms: Terms, settings: &Vm) -> Result<Row, String> {
    let mut journeys = Journeys::new(&ways.sent, &ways.due)?;
    journeys.watch(&ways.monitored)?;
    journeys.pair(&ways.monitored, &ways.received);
    let is_delivered = settings.gateway == Gateway::None;
    let mut account = Account::new(terms);
    for journey in &journeys.0 {
        let Some(&arrival) = journey.arrivals.first() else { continue };
        let end_ns = ways.received[arrival].time_ns;
        let on_wire = ways.target.get(arrival).filter(|_| !is_delivered);
        let known_ns = on_wire.map_or(0, |it| end_ns.saturating_sub(it.started_ns));
        let taps = &journey.taps().with(Tap::TargetEnd, end_ns);
        let (stream, number) = (Some(0), journey.number);
        account.end(&End { stream, number, taps, known_ns, stopped_by: None });
    }
    let frames = journeys.0.len() as u64;
    account.close(frames);
    let latency = account.figures(Metric::GatewayLatency);
    Ok(COLD.row([frames.into(), account.counts().received.into(), latency.into()]))
}

/// Of a frame that neither the tester nor a counter saw, nothing is known. `missing` are those that
/// the gateway forwarded and the tester did not receive.
fn refuse_unseen(
    settings: &Vm,
    report: &Report,
    journeys: &Journeys,
    missing: u64,
) -> Result<(), String> {
    // On a bus that takes its time, frames can be lost behind the queue: when the controller goes bus-off.
    let is_certain = settings.gateway == Gateway::Kernel && report.wire.is_none();
    // A tester outside sees all that passes.
    let stayed = match report.wire {
        Some(_) => 0,
        None => journeys.unmonitored().saturating_sub(report.totals.refused_by_sender),
    };
    match stayed + if is_certain { missing } else { 0 } {
        0 => Ok(()),
        unseen => Err(format!(
            "{} {} lost before {} reached the tester, because it shares the machine's receive \
             queue, so the result would be invalid; send fewer frames, or set a higher vm.mips",
            counted(unseen, "frame"),
            by_count(unseen, "was", "were"),
            by_count(unseen, "it", "they")
        )),
    }
}

/// The frames of an experiment, by number.
enum Sent<'a> {
    /// Of one sender.
    Numbered(&'a Numbered, Pace),
    /// Of several nodes, or of a recording.
    Offered(Offers),
}

impl<'a> Sent<'a> {
    fn of(experiment: &Experiment, can: &'a CanGateway) -> Result<Self, Error> {
        Ok(match &can.traffic {
            Traffic::Numbered { frames, pace, .. } => Self::Numbered(frames, *pace),
            Traffic::Periodic | Traffic::Replay { .. } => Self::Offered(offers(experiment, can)?),
        })
    }

    fn frame(&self, number: u64) -> Option<Frame> {
        match self {
            Self::Numbered(frames, _) => frames.frame(number),
            Self::Offered(offers) => offers.all.get(number as usize).map(|it| it.frame),
        }
    }

    fn sender(&self, number: u64) -> u32 {
        match self {
            Self::Numbered(..) => 0,
            Self::Offered(offers) => offers.all.get(number as usize).map_or(0, |it| it.sender),
        }
    }
}

/// A run in a guest, and what it is about.
struct Evaluation<'a> {
    can: &'a CanGateway,
    settings: &'a Vm,
    report: &'a Report,
    /// The frames that were sent.
    sent: &'a Sent<'a>,
    /// The frames that the receiver got, in the order of `report.received`.
    arrived: &'a [Frame],
}

impl Evaluation<'_> {
    /// Whether the receiver is on the source bus, too.
    fn is_delivered(&self) -> bool {
        self.settings.gateway == Gateway::None
    }

    /// Follows each frame. How many arrived different from what the rules produce.
    fn follow(
        &self,
        journeys: &Journeys,
        builder: &mut ResultBuilder<'_>,
        messages: &mut Messages,
    ) -> u64 {
        let Self { can, settings, report, sent: frames, arrived } = self;
        let mut expected = Expected::new(can, &settings.gateway);
        let passed = if self.is_delivered() { "delivered" } else { "forwarded" };
        let mut altered = 0;
        let stays = match journeys.unmonitored() == report.totals.refused_by_sender {
            _ if report.wire.is_some() => Cause::Unfinished,
            true => Cause::SenderQueueFull,
            false => Cause::Unexplained,
        };
        let follows_rules = settings.gateway.follows_rules();
        // In the order in which they arrived, for the account.
        let mut arrivals = Vec::with_capacity(report.received.len());
        for journey in &journeys.0 {
            let sent = frames.frame(journey.number);
            let fate = sent.zip(journey.monitored).map(|(sent, at_ns)| {
                let now = Nanos::from_nanos(at_ns);
                expected.fate(now, &sent)
            });
            let shown = sent.as_ref().map(|sent| sent as &dyn Display);
            if let Some(sent) = &sent {
                let first = journey.arrivals.first();
                let arrived = first.map(|&arrival| self.arrive(journey.taps(), arrival));
                let (taps, transmission_ns) = arrived.unwrap_or((journey.taps(), 0));
                let sender = (frames.sender(journey.number), sent.can_id());
                messages.note_frame(sender, first.is_some(), &taps, transmission_ns);
            }
            for (stream, &arrival) in (0..).zip(&journey.arrivals) {
                let (taps, known_ns) = self.arrive(journey.taps(), arrival);
                let received = &arrived[arrival];
                let is_altered = fate.as_ref().is_some_and(|fate| !fate.holds(received));
                altered += u64::from(is_altered);
                let end = End {
                    stream: Some(stream),
                    number: journey.number,
                    taps: &taps,
                    known_ns,
                    stopped_by: None,
                };
                let received: Option<&dyn Display> = Some(received);
                builder.line(&Copied { end, sent: shown, received, passed, rule: "" });
                arrivals.push((taps.at(Tap::TargetEnd), stream, journey.number, taps, known_ns));
            }
            if journey.arrivals.is_empty() {
                let by_rules = fate.as_ref().filter(|_| follows_rules);
                let by_rules = by_rules.and_then(|fate| fate.stopped_by);
                let cause = match journey.monitored {
                    None => stays,
                    Some(_) => by_rules.unwrap_or(Cause::Unexplained),
                };
                let taps = journey.taps();
                let end = End::stopped(journey.number, &taps, cause);
                builder.add(&Copied { end, sent: shown, received: None, passed, rule: "" });
            }
        }
        arrivals.sort_by_key(|&(at, ..)| at);
        for (_, stream, number, taps, known_ns) in &arrivals {
            let (stream, number, known_ns) = (Some(*stream), *number, *known_ns);
            builder.account.end(&End { stream, number, taps, known_ns, stopped_by: None });
        }
        altered
    }

    /// The taps of a frame that arrived, and how long it was on the target bus.
    fn arrive(&self, taps: Taps, arrival: usize) -> (Taps, u64) {
        let end_ns = self.report.received[arrival].time_ns;
        let taps = taps.with(Tap::TargetEnd, end_ns);
        let wire = self.report.wire.as_ref().filter(|_| !self.is_delivered());
        match wire.and_then(|wire| wire.target.get(arrival)) {
            None => (taps, 0),
            Some(on_wire) => {
                let taps = taps.with(Tap::Loaded, on_wire.requested_ns);
                let taps = taps.with(Tap::TargetStart, on_wire.started_ns);
                (taps, end_ns.saturating_sub(on_wire.started_ns))
            }
        }
    }

    fn buses(&self, journeys: &Journeys) -> Vec<BusCounts> {
        if let Some(wire) = &self.report.wire {
            return wire.buses.iter().map(counts_of).collect();
        }
        let on_source = journeys.0.iter().filter(|journey| journey.monitored.is_some());
        let on_source = on_source.filter_map(|journey| self.sent.frame(journey.number));
        let on_target = if self.is_delivered() { &[][..] } else { self.arrived };
        buses(&self.can.network.buses, on_source, on_target)
    }

    /// What makes the figures doubtful.
    fn notes(
        &self,
        missing: u64,
        altered: u64,
        unsent: u64,
        is_early: bool,
        buses: &[BusCounts],
    ) -> Vec<String> {
        let mut notes = self.report.notes.clone();
        if let Sent::Offered(Offers { left_out: left_out @ 1.., .. }) = self.sent {
            notes.push(format!(
                "{} of the traffic {} not sent: the number of a frame takes two bytes of classical data",
                counted(*left_out, "frame"),
                by_count(*left_out, "was", "were")
            ));
        }
        if missing > 0 {
            notes.push(format!(
                "the gateway counts {missing} more forwarded {} than arrived on the target bus",
                noun(missing, "frame")
            ));
        }
        if altered > 0 {
            let frames = counted(altered, "frame");
            notes.push(format!("{frames} arrived different from what the rules produce"));
        }
        if let Some(wire) = &self.report.wire {
            let buses = &self.can.network.buses;
            let senders = match &self.can.traffic {
                Traffic::Periodic => "the senders",
                Traffic::Replay { .. } => "the sender of the recording",
                Traffic::Numbered { .. } => "the sender",
            };
            notes.extend(buses.first().filter(|_| is_early).map(|bus| {
                format!(
                    "some gateway latencies are negative: the gateway has a frame one bit before its end, {} on bus {}",
                    Nanos::from_nanos(bus.timing.nominal.duration_ns(1)),
                    bus.name
                )
            }));
            let restart = self.settings.faults.first().and_then(|it| it.restart);
            notes.extend(restart.filter(|_| unsent > 0).map(|_| {
                format!(
                    "{} never got through: errors destroyed everything for 10 s and twice `restart`, and the run was ended; \
                     lower `bit_error_rate`",
                    counted(unsent, "frame")
                )
            }));
            notes.extend(doubt::left_in_guest(buses, &self.settings.faults, wire, senders));
            let station = wire.station.as_ref().filter(|it| it.refused > 0);
            notes.extend(station.map(|StationCount { refused, frames, .. }| {
                format!("the network card had no room for {refused} of {frames} frames of the Ethernet load")
            }));
            return notes;
        }
        let latest_ns = self.report.totals.latest_departure_ns;
        let load = |bus: &BusCounts| bus.load_percent(self.report.totals.duration_ns);
        let source_load = buses.first().map(load);
        if let Sent::Numbered(numbered, pace) = self.sent {
            notes.extend(lateness(self.can, numbered, *pace, source_load, latest_ns));
        }
        let loads = self.can.network.buses.iter().zip(buses.iter().map(load));
        let too_much = loads.filter(|(_, load_percent)| *load_percent > FULL_PERCENT);
        notes.extend(too_much.map(|(bus, load_percent)| {
            format!(
                "bus {} would have had a load of {load_percent:.1} %: here buses take no time, so no frame \
                 waited for the bus",
                bus.name
            )
        }));
        notes
    }
}

/// World and conditions, with the machine as it turned out to be.
pub(super) fn conditions(machine: &Machine, settings: &Vm) -> String {
    let buses = match machine.bus {
        BusTime::Instant => "instant buses, tester inside",
        BusTime::Timed => "timed buses, tester outside",
    };
    conditions_with(machine, settings, buses)
}

/// The buses, as far as they were counted.
pub(super) fn bus_rows(can: &CanGateway, counts: &[BusCounts], duration_ns: u64) -> Vec<Row> {
    let counted = can.network.buses.iter().zip(counts);
    counted.map(|(bus, counts)| sections::bus(bus, counts, duration_ns)).collect()
}

/// The frames that the receiver got, as its socket gave them.
fn decoded(report: &Report) -> Result<Vec<Frame>, String> {
    if report.frames.len() != report.received.len() {
        return Err("the guest reported different numbers of frames and stamps".into());
    }
    let decode = |bytes: &Vec<u8>| socketcan::decode(bytes, socketcan::IdOrder::LittleEndian);
    let frames: Result<_, _> = report.frames.iter().map(decode).collect();
    frames.map_err(|error| format!("the guest reported an invalid frame: {error}"))
}

/// The buses, with the load that the exact bits of their frames make.
fn buses(
    settings: &[candor_network::Bus],
    on_source: impl Iterator<Item = Frame>,
    on_target: &[Frame],
) -> Vec<BusCounts> {
    let busy = |bus: &candor_network::Bus, frames: &mut dyn Iterator<Item = Frame>| {
        frames.fold((0, 0), |(count, busy_ns), frame| {
            let own_ns = bits::length(&frame).map_or(0, |length| bus.timing.duration_ns(length));
            (count + 1, busy_ns + own_ns)
        })
    };
    let mut on_source = on_source;
    settings
        .iter()
        .enumerate()
        .map(|(index, bus)| {
            let (frames, busy_ns) = match index {
                0 => busy(bus, &mut on_source),
                _ => busy(bus, &mut on_target.iter().copied()),
            };
            BusCounts { frames, busy_ns, ..BusCounts::default() }
        })
        .collect()
}

/// A sender that could not keep its times: then the traffic was another than was wanted, and what
/// made it late is in `end_to_end` alone.
fn lateness(
    can: &CanGateway,
    numbered: &Numbered,
    pace: Pace,
    load_percent: Option<f64>,
    latest_ns: u64,
) -> Option<String> {
    let source = can.network.buses.first()?;
    let length = bits::length(&numbered.frame(0)?).ok()?;
    let load = match pace {
        Pace::OneAtATime { .. } | Pace::OpenLoop { .. } => String::new(),
        Pace::Half | Pace::Flood { .. } => {
            format!("; the load of the bus was {:.1} %", load_percent?)
        }
    };
    (latest_ns > source.timing.duration_ns(length)).then(|| {
        format!(
            "frames left up to {} late, because the sender shares the processor with the gateway; \
             gateway_latency does not include this, end_to_end does{load}",
            Nanos::from_nanos(latest_ns)
        )
    })
}

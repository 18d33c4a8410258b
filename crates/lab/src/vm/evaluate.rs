//! What a guest reported, as a result.
//!
//! ```text
//!  queued            source_end                        target_end
//!    │                   │ total_latency ───────────────►  │
//!  sent by the tester  stamped at the monitor          stamped at the receiver
//!  (can0)              (can1)                          (can4; can2 without a gateway)
//! ```
//!
//! Frames are paired by the number in their first two bytes, never by their order. The emulated bus
//! hands a frame over at once, so there is no transmission to take off: the gateway latency is the
//! total latency. The load of a bus is what the exact bits of its frames would occupy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use candor_bed::Report;
use candor_bed::order::Gateway;
use candor_bed::report::{JobCount, Stamp};
use candor_lat::cause::{self, Ending};
use candor_lat::pairing::{Limits, Outcome, Pairing};
use candor_lat::{Endings, Metric, Tap, Taps};
use candor_route::counters::Cause;
use candor_time::Nanos;
use candor_wire::{Frame, bits, socketcan};

use super::expect::{Expected, PACED};
use crate::error::Error;
use crate::experiment::Vm;
use crate::experiment::{Bus as BusSettings, Experiment, Pace, Traffic};
use crate::result::{
    Bus, Counts, Effort, Figures, LATENCIES, Machine, ResultFile, RuleCounts, Stopped,
};
use crate::traffic::Numbered;

/// The taps that a test bed of real controllers has.
const TAPS: [Tap; 3] = [Tap::Queued, Tap::SourceEnd, Tap::TargetEnd];
/// The emulated bus takes no time.
const TRANSMISSION_NS: u64 = 0;
/// A full bus, with the gap behind the last frame, which no longer counts.
const FULL_PERCENT: f64 = 105.0;
/// Numbers come back after so many frames.
const NUMBERS: u64 = 1 << 16;

/// The result of `experiment` in a guest's report; `frames` takes a line of CSV per frame.
pub(super) fn evaluate(
    experiment: &Experiment,
    settings: &Vm,
    machine: Machine,
    report: &Report,
    command: String,
    frames: Option<&mut dyn Write>,
) -> Result<ResultFile, Error> {
    let reported = |reason: String| Error::Other(format!("{}: {reason}", experiment.name));
    let Traffic::Numbered { frames: numbered, pace, timeout } = &experiment.traffic else {
        return Err(reported("the vm testbed sends numbered frames only".into()));
    };
    if let Some(reason) = &report.failure {
        return Err(reported(format!("the guest reports: {reason}")));
    }
    let totals = &report.totals;
    if totals.overflow_of_tester > 0 {
        return Err(reported(format!(
            "the tester itself lost {} frames, so the result would be invalid; send fewer frames, \
             set a higher vm.mips, or use a shorter gateway.gather",
            totals.overflow_of_tester
        )));
    }
    let is_delivered = settings.gateway == Gateway::None;
    let mut journeys = Journeys::new(&report.sent, &report.due).map_err(reported)?;
    journeys.watch(&report.monitored).map_err(reported)?;
    let limits = Limits { timeout_ns: timeout.as_nanos(), ..Limits::default() };
    let paired = journeys.pair(&report.monitored, &report.received, limits);
    let arrived = decoded(&report.frames).map_err(reported)?;
    if arrived.len() != report.received.len() {
        return Err(reported("the guest reported different numbers of frames and stamps".into()));
    }

    let mut expected = Expected::new(experiment, &settings.gateway);
    let mut altered = 0_u64;
    let mut latencies: Vec<_> = Metric::ALL.iter().map(|_| Vec::new()).collect();
    let mut lines = Lines::new(frames, is_delivered)?;
    let mut missed = Missed::default();
    // A frame that the monitor did not see never left, usually because the sender's queue was full.
    let stayed = journeys.0.iter().filter(|journey| journey.monitored.is_none()).count() as u64;
    let missing = missing_on_target(experiment, settings, report);
    let is_certain = settings.gateway == Gateway::Kernel;
    let unseen =
        stayed.saturating_sub(totals.refused_by_sender) + if is_certain { missing } else { 0 };
    if unseen > 0 {
        return Err(reported(format!(
            "{unseen} frames were lost before they reached the tester, because it shares the \
             machine's receive queue, so the result would be invalid; send fewer frames, or set a \
             higher vm.mips"
        )));
    }
    let stays = match stayed == totals.refused_by_sender {
        true => cause::SENDER_QUEUE_FULL,
        false => cause::UNEXPLAINED,
    };
    let follows_rules = settings.gateway.follows_rules();
    for journey in &journeys.0 {
        let sent = numbered.frame(journey.number);
        let fate = sent.zip(journey.monitored).map(|(sent, at_ns)| {
            let now = Nanos::from_nanos(at_ns);
            expected.fate(now, &sent)
        });
        for &arrival in &journey.arrivals {
            let taps = journey.taps().with(Tap::TargetEnd, report.received[arrival].time_ns);
            for (metric, latencies) in Metric::ALL.iter().zip(&mut latencies) {
                latencies.extend(metric.value(&taps, TRANSMISSION_NS));
            }
            let received = &arrived[arrival];
            altered += u64::from(fate.as_ref().is_some_and(|fate| !fate.holds(received)));
            lines.arrived(journey.number, sent.as_ref(), received, &taps)?;
        }
        if journey.arrivals.is_empty() {
            let by_rules = fate.as_ref().filter(|_| follows_rules).and_then(|fate| fate.stopped_by);
            let cause = match journey.monitored {
                None => stays,
                Some(_) => by_rules.unwrap_or(cause::UNEXPLAINED),
            };
            missed.add(cause);
            lines.missed(journey.number, sent.as_ref(), cause, &journey.taps())?;
        }
    }

    let rules = rules(experiment, settings, report);
    let stopped = stopped(experiment, report, &missed);
    let mut endings = missed.endings(&stopped);
    let sent = journeys.0.len() as u64;
    endings.add(Ending::Received, sent - endings.total());
    let counts = Counts {
        duplicated: paired.duplicated,
        reordered: paired.reordered,
        ..Counts::of(&endings)
    };
    let on_source = journeys.0.iter().filter(|journey| journey.monitored.is_some());
    let on_source = on_source.filter_map(|journey| numbered.frame(journey.number));
    let on_target = if is_delivered { &[][..] } else { &arrived };
    let buses = buses(&experiment.buses, totals.duration_ns, on_source, on_target);
    let metrics = Metric::ALL.iter().zip(latencies).filter_map(|(metric, latencies)| {
        Some((metric.key().to_owned(), Figures::exact(latencies)?))
    });
    let mut notes = report.notes.clone();
    if missing > 0 {
        notes.push(format!(
            "the gateway counts {missing} more forwarded frames than arrived on the target bus"
        ));
    }
    if altered > 0 {
        notes.push(format!("{altered} frames arrived different from what the rules produce"));
    }
    notes.extend(lateness(experiment, numbered, *pace, &buses, totals.latest_departure_ns));
    let too_much = buses.iter().filter(|bus| bus.load_percent > FULL_PERCENT);
    notes.extend(too_much.map(|bus| {
        format!(
            "bus {} would have had a load of {:.1} %: here buses take no time, so no frame waited \
             for the bus",
            bus.name, bus.load_percent
        )
    }));
    let effort = effort(report, &machine, counts.received, paired.unknown);
    Ok(ResultFile {
        conditions: conditions(&machine, settings),
        machine: Some(machine),
        duration_ns: totals.duration_ns,
        counts,
        stopped,
        buses,
        rules,
        metrics: metrics.collect(),
        notes,
        effort: Some(effort),
        ..ResultFile::of(experiment, command)
    })
}

/// World and conditions, with the machine as it turned out to be.
fn conditions(machine: &Machine, settings: &Vm) -> String {
    let Machine { release, qemu, shift, mips, .. } = machine;
    let package =
        machine.package.as_ref().map_or(String::new(), |package| format!(" (package {package})"));
    format!(
        "Linux {release}{package}, QEMU {qemu}, instruction time, shift {shift} ({mips} MIPS): \
         path lengths, not a forecast for a board; {}",
        settings.description
    )
}

/// The way of one frame, as far as it was seen.
struct Journey {
    /// Counted from 0, without an end.
    number: u64,
    queued_ns: u64,
    monitored: Option<u64>,
    /// Places in the list of received frames; further ones are copies.
    arrivals: Vec<usize>,
}

impl Journey {
    fn taps(&self) -> Taps {
        let taps = Taps::default().with(Tap::Queued, self.queued_ns);
        self.monitored.map_or(taps, |at| taps.with(Tap::SourceEnd, at))
    }
}

/// The frames that were to be sent, in order.
struct Journeys(Vec<Journey>);

/// What pairing counted.
struct Paired {
    duplicated: u64,
    reordered: u64,
    unknown: u64,
}

impl Journeys {
    /// A frame is queued when it is due: a sender on a machine of its own would have sent it then.
    fn new(sent: &[Stamp], due: &[u64]) -> Result<Self, String> {
        if !due.is_empty() && due.len() != sent.len() {
            return Err(format!(
                "the guest sent {} frames, but {} were due",
                sent.len(),
                due.len()
            ));
        }
        let mut due = due.iter();
        let mut journey = |(number, stamp): (u64, &Stamp)| {
            if stamp.number != number as u16 {
                return Err(format!("the guest sent number {} as frame {number}", stamp.number));
            }
            let queued_ns = due.next().map_or(stamp.time_ns, |&due| due.min(stamp.time_ns));
            Ok(Journey { number, queued_ns, monitored: None, arrivals: Vec::new() })
        };
        Ok(Self((0..).zip(sent).map(&mut journey).collect::<Result<_, _>>()?))
    }

    /// Notes what the monitor saw. A stamp belongs to the latest frame of its number that had been
    /// sent by then.
    fn watch(&mut self, monitored: &[Stamp]) -> Result<(), String> {
        let mut by_number: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, journey) in self.0.iter().enumerate() {
            by_number.entry((journey.number % NUMBERS) as u16).or_default().push(index);
        }
        for stamp in monitored {
            let bearers = by_number.get(&stamp.number).map_or(&[][..], Vec::as_slice);
            let until = bearers.partition_point(|&index| self.0[index].queued_ns <= stamp.time_ns);
            let Some(&index) = until.checked_sub(1).and_then(|last| bearers.get(last)) else {
                return Err(format!(
                    "the monitor saw a frame with the number {} that was not sent",
                    stamp.number
                ));
            };
            self.0[index].monitored = Some(stamp.time_ns);
        }
        Ok(())
    }

    /// Pairs what the monitor saw with what was received.
    fn pair(&mut self, monitored: &[Stamp], received: &[Stamp], limits: Limits) -> Paired {
        let bearers: BTreeMap<(u64, u16), usize> = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(index, journey)| {
                Some(((journey.monitored?, (journey.number % NUMBERS) as u16), index))
            })
            .collect();
        let places: BTreeMap<(u64, u16), usize> = received
            .iter()
            .enumerate()
            .map(|(index, stamp)| ((stamp.time_ns, stamp.number), index))
            .collect();
        let mut latest: BTreeMap<u16, usize> = BTreeMap::new();
        let mut note = |outcome| match outcome {
            Outcome::Paired(pair) => {
                let bearer = bearers.get(&(pair.sent_ns, pair.number));
                let place = places.get(&(pair.received_ns, pair.number));
                if let (Some(&bearer), Some(&place)) = (bearer, place) {
                    self.0[bearer].arrivals.push(place);
                    latest.insert(pair.number, bearer);
                }
            }
            Outcome::Duplicated { number, received_ns } => {
                let place = places.get(&(received_ns, number));
                if let (Some(&bearer), Some(&place)) = (latest.get(&number), place) {
                    self.0[bearer].arrivals.push(place);
                }
            }
            Outcome::Lost { .. } | Outcome::Unknown { .. } => {}
        };
        let mut events: Vec<_> = monitored.iter().map(|stamp| (stamp, true)).collect();
        events.extend(received.iter().map(|stamp| (stamp, false)));
        // Of equal times the monitor comes first; the sort keeps the order of equals.
        events.sort_by_key(|(stamp, is_monitor)| (stamp.time_ns, !is_monitor));
        let mut pairing = Pairing::new(limits);
        for (stamp, is_monitor) in events {
            if is_monitor {
                pairing.sent(stamp.number, stamp.time_ns, &mut note);
            } else {
                pairing.received(stamp.number, stamp.time_ns, &mut note);
            }
        }
        pairing.finish(&mut note);
        let counts = pairing.counts();
        Paired {
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            unknown: counts.unknown,
        }
    }
}

/// Frames as sockets gave them.
fn decoded(frames: &[Vec<u8>]) -> Result<Vec<Frame>, String> {
    let decode = |bytes: &Vec<u8>| socketcan::decode(bytes, socketcan::IdOrder::LittleEndian);
    let frames: Result<_, _> = frames.iter().map(decode).collect();
    frames.map_err(|error| format!("the guest reported an invalid frame: {error}"))
}

/// Frames that did not arrive, by what should have stopped them.
#[derive(Default)]
struct Missed(BTreeMap<&'static str, u64>);

impl Missed {
    fn add(&mut self, cause: &'static str) {
        *self.0.entry(cause).or_default() += 1;
    }

    fn of(&self, cause: &str) -> u64 {
        self.0.get(cause).copied().unwrap_or(0)
    }

    /// How these frames ended. What the rules refuse at any time is known frame by frame; of what
    /// they refuse for its time, the gateway's counters say how much it was.
    fn endings(&self, stopped: &[Stopped]) -> Endings {
        let is_paced = |name: &str| PACED.iter().any(|cause| cause.name() == name);
        let is_open = |name: &str| is_paced(name) || name == cause::UNEXPLAINED;
        let sum = |is_wanted: &dyn Fn(&str) -> bool| {
            self.0.iter().filter(|(name, _)| is_wanted(name)).map(|(_, count)| count).sum::<u64>()
        };
        let counted = stopped.iter().filter(|stopped| is_paced(&stopped.cause));
        let open = sum(&is_open);
        let paced = counted.map(|stopped| stopped.frames).sum::<u64>().min(open);
        let known = self.0.iter().filter(|(name, _)| !is_open(name));
        let mut endings: Endings = known.map(|(name, count)| (*name, *count)).collect();
        endings.add(Ending::Refused, paced);
        endings.add(Ending::Lost, open - paced);
        endings
    }
}

/// Frames that rules have put on the target bus and that the tester did not see. can-gw counts what
/// the interface took; a process counts what it could send, which may be lost behind that.
fn missing_on_target(experiment: &Experiment, settings: &Vm, report: &Report) -> u64 {
    let target = experiment.buses.get(1).map(|bus| bus.name.as_str());
    let rules = rules(experiment, settings, report);
    let on_target = rules.iter().filter(|rule| Some(rule.to.as_str()) == target);
    let handled: u64 = on_target.map(|rule| rule.handled).sum();
    handled.saturating_sub(report.received.len() as u64)
}

/// What the rules counted, in their order.
fn rules(experiment: &Experiment, settings: &Vm, report: &Report) -> Vec<RuleCounts> {
    let follows_rules = settings.gateway.follows_rules();
    let Some(table) = experiment.rules.as_ref().filter(|_| follows_rules) else {
        return Vec::new();
    };
    let destinations = table.rules.iter().flat_map(|rule| rule.to.iter().map(move |to| (rule, to)));
    destinations
        .zip(&report.jobs)
        .map(|((rule, to), count)| {
            let endings: Endings = causes(count, &Missed::default()).collect();
            RuleCounts {
                name: rule.name.clone(),
                to: table.buses.get(usize::from(to.0)).map_or("", |bus| &bus.name).to_owned(),
                handled: count.handled,
                refused: endings.of(Ending::Refused),
                lost: endings.of(Ending::Lost),
            }
        })
        .collect()
}

/// What a rule stopped, by cause. can-gw counts two kinds: `dropped` is what the queue of the
/// destination refused, `deleted` what was over the hop limit or too long after its edit.
fn causes<'a>(
    count: &'a JobCount,
    missed: &Missed,
) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
    let is_too_long = missed.of(Cause::TooLong.name()) > missed.of(cause::HOP_LIMIT);
    let deleted = if is_too_long { Cause::TooLong.name() } else { cause::HOP_LIMIT };
    let of_kernel = [(cause::QUEUE_FULL, count.dropped), (deleted, count.deleted)];
    let knows_causes = !count.causes.is_empty();
    let of_user = count.causes.iter().map(|(cause, count)| (cause.as_str(), *count));
    of_user.chain(of_kernel.into_iter().filter(move |_| !knows_causes)).filter(|(_, n)| *n > 0)
}

/// Frames and copies that got no further, by cause. What nobody counted is unexplained.
fn stopped(experiment: &Experiment, report: &Report, missed: &Missed) -> Vec<Stopped> {
    let totals = &report.totals;
    let at_gateway = |cause, frames| Stopped::new("gateway", "", cause, frames);
    let table = experiment.rules.as_ref();
    let names = table.iter().flat_map(|table| &table.rules);
    let names = names.flat_map(|rule| rule.to.iter().map(|_| rule.name.as_str()));
    let of_rules: Vec<_> = names
        .zip(&report.jobs)
        .flat_map(|(rule, count)| {
            causes(count, missed)
                .map(move |(cause, count)| Stopped::new("rule", rule, cause, count))
        })
        .collect();
    let by_rules = |name: &str| -> u64 {
        of_rules.iter().filter(|stopped| stopped.cause == name).map(|stopped| stopped.frames).sum()
    };
    // can-gw counts what a queue refuses too.
    let queue_full = totals.overflow_of_queue.saturating_sub(by_rules(cause::QUEUE_FULL));
    let mut stopped = vec![
        Stopped::new("sender", "", cause::SENDER_QUEUE_FULL, totals.refused_by_sender),
        at_gateway(cause::RX_OVERFLOW, totals.overflow_of_controller),
        at_gateway(cause::BACKLOG_FULL, totals.overflow_of_backlog),
        at_gateway(cause::SOCKET_FULL, totals.overflow_of_gateway),
        at_gateway(cause::QUEUE_FULL, queue_full),
    ];
    // What the rules say of a frame and no counter does: those that no rule takes, and `returning`,
    // which can-gw does not count.
    let of_frames = missed.0.iter().filter(|(name, _)| {
        cause::ending(name) != Ending::Lost && !PACED.iter().any(|cause| cause.name() == **name)
    });
    stopped.extend(
        of_frames.map(|(name, &count)| at_gateway(name, count.saturating_sub(by_rules(name)))),
    );
    stopped.extend(of_rules);
    let endings = missed.endings(&stopped);
    let explained: Endings =
        stopped.iter().map(|stopped| (stopped.cause.as_str(), stopped.frames)).collect();
    let unexplained = endings.of(Ending::Lost).saturating_sub(explained.of(Ending::Lost));
    stopped.push(at_gateway(cause::UNEXPLAINED, unexplained));
    stopped.retain(|stopped| stopped.frames > 0);
    stopped
}

/// The buses, with the load that the exact bits of their frames make.
fn buses(
    settings: &[BusSettings],
    duration_ns: u64,
    on_source: impl Iterator<Item = Frame>,
    on_target: &[Frame],
) -> Vec<Bus> {
    let busy = |bus: &BusSettings, frames: &mut dyn Iterator<Item = Frame>| {
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
            let load = match duration_ns {
                0 => 0.0,
                duration_ns => busy_ns as f64 / duration_ns as f64 * 100.0,
            };
            Bus {
                name: bus.name.clone(),
                bitrate: bus.timing.nominal.bits_per_second(),
                data_bitrate: bus.timing.data.bits_per_second(),
                frames,
                load_percent: (load * 1_000.0).round() / 1_000.0,
                error_frames: 0,
                bus_offs: 0,
                id_collisions: 0,
            }
        })
        .collect()
}

/// A sender that could not keep its times: then the traffic was another than was wanted, and what
/// made it late is in `end_to_end` alone.
fn lateness(
    experiment: &Experiment,
    numbered: &Numbered,
    pace: Pace,
    buses: &[Bus],
    latest_ns: u64,
) -> Option<String> {
    let source = experiment.buses.first()?;
    let length = bits::length(&numbered.frame(0)?).ok()?;
    let load = match pace {
        Pace::OneAtATime { .. } => String::new(),
        Pace::Half | Pace::Flood => {
            format!("; the load of the bus was {:.1} %", buses.first()?.load_percent)
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

fn effort(report: &Report, machine: &Machine, received: u64, unknown: u64) -> Effort {
    let totals = &report.totals;
    let (gateway_waits, gateway_preemptions) = totals.gateway_switches;
    let instructions = (totals.gateway_cpu_ns >> machine.shift) as f64;
    let has_process = totals.gateway_cpu_ns > 0 && received > 0;
    let per_frame = instructions / received as f64;
    Effort {
        gateway_cpu_ns: totals.gateway_cpu_ns,
        gateway_instructions_per_frame: has_process
            .then_some((per_frame * 1_000.0).round() / 1_000.0),
        gateway_waits,
        gateway_preemptions,
        sender_cpu_ns: totals.sender_cpu_ns,
        latest_departure_ns: totals.latest_departure_ns,
        ping_replies: totals.ping_replies,
        hackbench_messages: totals.hackbench_messages,
        unknown,
    }
}

/// The lines per frame, if they are wanted.
struct Lines<'a> {
    out: Option<&'a mut dyn Write>,
    arrived: &'static str,
    line: String,
}

impl<'a> Lines<'a> {
    fn new(out: Option<&'a mut dyn Write>, is_delivered: bool) -> Result<Self, Error> {
        let arrived = if is_delivered { "delivered" } else { "forwarded" };
        let mut lines = Self { out, arrived, line: String::new() };
        let taps = TAPS.map(|tap| format!("{}_ns", tap.name())).join(",");
        let [total, gateway] = LATENCIES.map(Metric::key);
        lines.line = format!("number,sent,received,outcome,{taps},{total}_ns,{gateway}_ns");
        lines.end()?;
        Ok(lines)
    }

    fn missed(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        outcome: &str,
        taps: &Taps,
    ) -> Result<(), Error> {
        self.write(number, sent, None, outcome, taps)
    }

    fn arrived(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        received: &Frame,
        taps: &Taps,
    ) -> Result<(), Error> {
        self.write(number, sent, Some(received), self.arrived, taps)
    }

    fn write(
        &mut self,
        number: u64,
        sent: Option<&Frame>,
        received: Option<&Frame>,
        outcome: &str,
        taps: &Taps,
    ) -> Result<(), Error> {
        if self.out.is_none() {
            return Ok(());
        }
        let line = &mut self.line;
        let frame = |frame: Option<&Frame>| frame.map_or(String::new(), ToString::to_string);
        // Writing to a string does not fail.
        let _ = write!(line, "{number},{},{},{outcome}", frame(sent), frame(received));
        for tap in TAPS {
            line.push(',');
            if let Some(at) = taps.at(tap) {
                let _ = write!(line, "{at}");
            }
        }
        for metric in LATENCIES {
            line.push(',');
            if let Some(value) = metric.value(taps, TRANSMISSION_NS) {
                let _ = write!(line, "{value}");
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.line.push('\n');
        if let Some(out) = &mut self.out {
            out.write_all(self.line.as_bytes()).map_err(Error::lines)?;
        }
        self.line.clear();
        Ok(())
    }
}

//! The tester outside of a guest: what it is to do, as a plan for the library of the timed buses
//! (`plugins/timed-bus`), and what it saw, from the library's records.
//!
//! ```text
//!  Measurement -- plan --> file --> library in QEMU -- records --> file -- add_to --> Report
//! ```

use std::collections::{BTreeMap, HashSet};

use candor_protocol::departures::{Departures, frame};
use candor_protocol::order::{self, BusTiming, Datagrams, EthernetLoad, Measurement, WarmUp};
use candor_protocol::report::{BusCount, OnWire, Stamp, StationCount, Ways, Wire};
use candor_protocol::{Report, Tester, meeting};
use candor_test_bed::datagram::{Endpoint, Kind};
use candor_test_bed::{
    Answer, BusPlan, Contents, Event, MOST_ANSWERS, Pace, Plan, RECORD_BYTES, Record, SenderPlan,
    StationPace, StationPlan, Step,
};
use candor_wire::can::{Frame, socketcan};
use candor_wire::eth::{Address, LinkSpeed};

use crate::error::Error;
use crate::options::{TESTER_DONE, option};
use crate::plugin;
use crate::qemu::Qemu;
use crate::scratch::Scratch;

/// The buses of the machine, by number.
const BUSES: [&str; 2] = ["source", "target"];
/// The cable of the guest's network card, which is card 0.
const CABLE: &str = "cable0";
/// How many nodes outside can send what counts: one more warms up.
pub const MOST_SENDERS: usize = candor_test_bed::MOST_SENDERS - 1;
/// A flood ping goes on after so long without an answer.
const PING_PERIOD_NS: u64 = 10_000_000;
/// From the start to the first frame: the guest comes to rest.
const LEAD_NS: u64 = 10_000_000;

impl Qemu {
    /// Whether a tester can be outside of the guests of this QEMU.
    ///
    /// # Errors
    /// It cannot: reason and remedy.
    pub fn hosts_tester_outside(&self) -> Result<(), Error> {
        library(self).map(|_| ())
    }
}

/// The library, if it can work in this QEMU.
///
/// # Errors
/// The QEMU has another interface, or lacks functions that the library needs.
pub(crate) fn library(qemu: &Qemu) -> Result<Vec<u8>, Error> {
    let unsuited = |reason: String| {
        Error::Other(format!(
            "{reason}, or set vm.tester = \"inside\", with buses that take no time"
        ))
    };
    let library = plugin::TIMED_BUS.for_qemu(&qemu.version).map_err(unsuited)?;
    let missing = qemu.missing_symbols(&library)?;
    match missing.as_slice() {
        [] => Ok(library),
        [first, ..] => Err(unsuited(format!(
            "QEMU {} lacks functions that a tester outside needs, such as {first}: it was built without \
             modules; use another one, such as Debian's",
            qemu.version,
        ))),
    }
}

/// The options that load the library, with a plan or without.
pub(crate) fn options(
    library: &[u8],
    scratch: &mut Scratch,
    plan: Option<&[u8]>,
) -> Result<Vec<String>, Error> {
    let path = scratch.put("timed-bus.so", library)?;
    let mut text = option(&path.display().to_string());
    for bus in BUSES {
        text += &format!(",bus={bus}");
    }
    text += &format!(",cable={CABLE},done={TESTER_DONE}");
    if let Some(plan) = plan {
        let path = scratch.put("plan", plan)?;
        text += &format!(",plan={}", option(&path.display().to_string()));
        let path = scratch.keep_records()?;
        text += &format!(",records={}", option(&path.display().to_string()));
    }
    Ok(vec!["-plugin".into(), text])
}

/// What the tester does for a measurement.
///
/// # Errors
/// The traffic cannot be: reason and remedy.
pub(crate) fn plan(measurement: &Measurement) -> Result<Vec<u8>, Error> {
    let refused = |reason: String| Error::Other(format!("traffic: {reason}"));
    let (timings, way) = (timings(measurement), MeasuredWay::of(measurement));
    let buses = timings.iter().zip(measurement.faults).map(|(bus, faults)| {
        let bit_error_rate = faults.bit_error_rate.clamp(0.0, 1.0);
        let restart_ns = faults.restart_ns;
        bus.timing().map(|timing| BusPlan { timing, bit_error_rate, restart_ns })
    });
    let buses = buses.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let (mut senders, mut steps) = match (measurement.tester, measurement.traffic.pace) {
        (Tester::Master, _) => (answering(measurement, &way), Vec::new()),
        (_, order::Pace::Offered { .. }) => offered(measurement, &way).map_err(refused)?,
        _ => numbered(measurement, &way, timings[usize::from(way.from)]).map_err(refused)?,
    };
    if let Some(warm_up) = measurement.warm_up.filter(|_| measurement.has_warm_up()) {
        senders.iter_mut().for_each(|it| it.round = 1);
        let first = steps.len() as u32;
        steps.extend(cold(measurement, &warm_up).map_err(refused)?);
        let pace = Pace::AfterArrival { bus: way.to, timeout_ns: warm_up.timeout_ns };
        let count = steps.len() as u32 - first;
        senders.push(SenderPlan { bus: way.from, round: 0, pace, first, count });
    }
    let stations: Vec<_> =
        measurement.load.ethernet.map(station).transpose()?.into_iter().collect();
    let bytes = candor_test_bed::write(&Contents {
        buses: &buses,
        senders: &senders,
        seed: measurement.seed,
        timeout_ns: measurement.timeout_ns,
        stations: &stations,
        steps: &steps,
    });
    // As the library will read it.
    Plan::read(&bytes).map_err(|error| Error::Other(format!("{error}; please report it")))?;
    Ok(bytes)
}

/// The senders of a plan, and the steps of all of them.
type Sends = (Vec<SenderPlan>, Vec<Step>);

/// The first frames of a traffic, before it.
fn cold(measurement: &Measurement, warm_up: &WarmUp) -> Result<Vec<Step>, String> {
    let Measurement { traffic, offers, seed, .. } = measurement;
    let whiles = warm_up.whiles(*seed).into_iter().zip(0..);
    let step = |(at_ns, number): (u64, u64)| {
        let frame = match traffic.pace {
            order::Pace::Offered { .. } => {
                let offer = offers.get(number as usize)?;
                Frame::from_parts(offer.can_id, &offer.data, None).map_err(|it| it.to_string())
            }
            _ => frame(traffic, number),
        };
        let at_ns = if number == 0 { at_ns.saturating_add(LEAD_NS) } else { at_ns };
        Some(frame.map(|frame| Step { at_ns, frame }))
    };
    whiles.map_while(step).collect()
}

/// The sender of numbered frames.
fn numbered(measurement: &Measurement, way: &MeasuredWay, bus: BusTiming) -> Result<Sends, String> {
    let Measurement { traffic, seed, .. } = measurement;
    let departures = Departures::new(traffic, bus, *seed)?;
    let (pace, times) = match (departures, traffic.pace) {
        (Departures::AfterArrival(whiles), order::Pace::OneAtATime { timeout_ns, .. }) => {
            (Pace::AfterArrival { bus: way.to, timeout_ns }, whiles)
        }
        (Departures::AfterArrival(times) | Departures::At(times), _) => (Pace::Timed, times),
    };
    let is_timed = pace == Pace::Timed;
    let steps = (0..).zip(times).map(|(number, at_ns)| {
        let lead_ns = if is_timed || number == 0 { LEAD_NS } else { 0 };
        Ok(Step { at_ns: at_ns.saturating_add(lead_ns), frame: frame(traffic, number)? })
    });
    let steps = steps.collect::<Result<Vec<_>, String>>()?;
    let sender = SenderPlan { bus: way.from, round: 0, pace, first: 0, count: steps.len() as u32 };
    Ok((vec![sender], steps))
}

/// The senders of offers.
fn offered(measurement: &Measurement, way: &MeasuredWay) -> Result<Sends, String> {
    let offers = &measurement.offers;
    let count = offers.iter().map(|it| it.sender + 1).max().unwrap_or(0);
    if usize::from(count) > MOST_SENDERS {
        return Err(format!("there are {count} senders; {MOST_SENDERS} can be outside of a guest"));
    }
    let (mut senders, mut steps) = (Vec::new(), Vec::with_capacity(offers.len()));
    for sender in 0..count {
        let first = steps.len() as u32;
        for offer in offers.iter().filter(|it| it.sender == sender) {
            let frame = Frame::from_parts(offer.can_id, &offer.data, None)
                .map_err(|error| format!("sender {sender}: {error}; send classical data frames"))?;
            steps.push(Step { at_ns: offer.at_ns.saturating_add(LEAD_NS), frame });
        }
        let count = steps.len() as u32 - first;
        senders.push(SenderPlan { bus: way.from, round: 0, pace: Pace::Timed, first, count });
    }
    Ok((senders, steps))
}

/// A partner outside, if nobody in the guest answers its master.
fn answering(measurement: &Measurement, way: &MeasuredWay) -> Vec<SenderPlan> {
    match (&measurement.gateway, &measurement.traffic.can_ids[..]) {
        (order::Gateway::None, &[request, answer]) => {
            let pace = Pace::Answer(Answer { request, answer });
            vec![SenderPlan { bus: way.from, round: 0, pace, first: 0, count: 0 }]
        }
        _ => Vec::new(),
    }
}

/// The bit rates of the buses, by number.
fn timings(measurement: &Measurement) -> [BusTiming; BUSES.len()] {
    [measurement.source, measurement.target]
}

/// The way of the frames that are measured, by the numbers of buses.
struct MeasuredWay {
    /// Where the tester sends them.
    from: u8,
    /// Where it sees them arrive.
    to: u8,
    /// Whether the guest sends them there.
    by_guest: bool,
}

impl MeasuredWay {
    fn of(measurement: &Measurement) -> Self {
        let by_guest = measurement.gateway.passes_on();
        Self { from: 0, to: by_guest.into(), by_guest }
    }
}

/// The station that loads the guest over Ethernet.
fn station(load: EthernetLoad) -> Result<StationPlan, Error> {
    let (kind, pace) = match load.datagrams {
        Datagrams::Ping => (Kind::Echo, StationPace::Answered(PING_PERIOD_NS)),
        Datagrams::Echo { period_ns } => (Kind::Echo, StationPace::Every(period_ns)),
        Datagrams::Udp { period_ns } => (Kind::Udp, StationPace::Every(period_ns)),
    };
    let no_speed = || Error::Other("load: a link cannot have 0 bit/s".into());
    let (station, (_, card, ip)) = (meeting::STATION, meeting::CARD);
    Ok(StationPlan {
        card: 0,
        speed: LinkSpeed::new(load.link_bits_per_second).ok_or_else(no_speed)?,
        kind,
        data_bytes: load.data_bytes,
        pace,
        station: Endpoint { card: Address(station.0), ip: station.1 },
        guest: Endpoint { card: Address(card), ip },
    })
}

/// Adds what the tester saw to the report of the guest.
///
/// # Errors
/// The records are damaged, or say that the guest did something that a test bed cannot do.
pub(crate) fn add_to(
    report: &mut Report,
    measurement: &Measurement,
    records: &[u8],
) -> Result<(), Error> {
    let broken = |reason: &str| {
        Error::Other(format!(
            "the records of the tester {reason}: the disk may be full; free space for temporary files"
        ))
    };
    let (records, rest) = records.as_chunks::<RECORD_BYTES>();
    let records: Result<Vec<_>, _> = records.iter().map(Record::from_bytes).collect();
    let records = records.map_err(|_| broken("are damaged"))?;
    let starts = records.iter().enumerate().filter(|(_, it)| it.event == Event::Started);
    let starts: Vec<_> = starts.map(|(at, record)| (at, record.at_ns)).collect();
    let is_done = records.last().is_some_and(|it| it.event == Event::Done);
    let rounds = 1 + usize::from(measurement.has_warm_up());
    let (Some(&(from, start_ns)), [], true, true) =
        (starts.last(), rest, is_done, starts.len() == rounds)
    else {
        return Err(broken("are not complete"));
    };
    let see = |records: &[Record], start_ns: u64| -> Result<Seen, Error> {
        let mut seen = Seen { start_ns, ..Seen::default() };
        for record in records {
            seen.take(record, &timings(measurement))?;
        }
        Ok(seen)
    };
    // What controllers did before the first start is of the first round, such as a bit rate that the bus does not have.
    let (seen, cold) = match starts[..] {
        [(_, first_ns), _] => {
            let cold = see(&records[..from], first_ns)?;
            (see(&records[from..], start_ns)?, Some(cold))
        }
        _ => (see(&records, start_ns)?, None),
    };
    refuse_empty_buses(&seen.wire.buses, measurement)?;
    refuse_unanswered(seen.unanswered)?;
    let plan = plan(measurement)?;
    let plan = Plan::read(&plan).map_err(|_| broken("are of no plan"))?;
    let way = MeasuredWay::of(measurement);
    report.cold = cold.map(|mut cold| {
        cold.forget_repeated(&way);
        cold.ways(&way, &plan, 0)
    });
    seen.put_into(report, measurement, &plan);
    Ok(())
}

/// Without a frame on any bus nothing was measured, unless the frames stay on a virtual device.
fn refuse_empty_buses(buses: &[BusCount], measurement: &Measurement) -> Result<(), Error> {
    let is_virtual =
        matches!(measurement.traffic.pace, order::Pace::RoundTrips { is_virtual: true, .. });
    if is_virtual || buses.iter().any(|bus| bus.frames > 0) {
        return Ok(());
    }
    let reason = match measurement.tester {
        // Bit errors destroyed each one.
        _ if buses.iter().any(|bus| bus.error_frames > 0) => return Ok(()),
        Tester::Master => "the guest sent none of its requests",
        _ => "the tester sent none of its frames",
    };
    Err(Error::Other(format!("no frame passed on a bus: {reason}; please report it")))
}

/// A partner that could not answer was the limit, and not the guest.
fn refuse_unanswered(count: u64) -> Result<(), Error> {
    match count {
        0 => Ok(()),
        count => Err(Error::Other(format!(
            "the partner outside of the guest did not answer {count} of the requests: {MOST_ANSWERS} answers waited for \
             the bus, which requests filled; use a longer ping.period, or paced = false"
        ))),
    }
}

/// A frame that got through.
struct Passed {
    bus: u8,
    is_guest: bool,
    frame: Frame,
    number: u16,
    on_wire: OnWire,
    ended_ns: u64,
}

impl Passed {
    const fn stamp(&self, time_ns: u64) -> Stamp {
        Stamp { number: self.number, time_ns }
    }
}

/// What records say.
#[derive(Default)]
struct Seen {
    start_ns: u64,
    passed: Vec<Passed>,
    wire: Wire,
    overruns: BTreeMap<u8, u64>,
    /// Requests that a partner outside did not answer: too many answers waited for the bus.
    unanswered: u64,
    /// When controllers of the guest were bus-off: from, to and on which bus.
    off: Vec<(u64, u64, u8)>,
    round_trips_ns: Vec<u64>,
    /// From the first frame on any bus to the end of the last one, error frames and intermission included, or to when the last
    /// frame was due, in ns.
    busy: Option<(u64, u64)>,
}

impl Seen {
    fn take(&mut self, record: &Record, timings: &[BusTiming]) -> Result<(), Error> {
        let since = |at_ns: u64| at_ns.saturating_sub(self.start_ns);
        let &Record { at_ns, bus, is_guest, .. } = record;
        match record.event {
            Event::Passed { frame, requested_ns, started_ns } => {
                // Its number is its first two bytes.
                let Some(number) = frame.data().first_chunk() else { return Ok(()) };
                let on_wire =
                    OnWire { requested_ns: since(requested_ns), started_ns: since(started_ns) };
                let (number, ended_ns) = (u16::from_be_bytes(*number), since(at_ns));
                self.passed.push(Passed { bus, is_guest, frame, number, on_wire, ended_ns });
            }
            Event::OtherBitrate(rate) => return Err(other_bitrate(bus, rate, timings)),
            Event::Overrun(count) if !is_guest => self.unanswered += count,
            Event::Overrun(count) => *self.overruns.entry(record.node).or_default() += count,
            Event::Statistics(it) => {
                if it.last_ns > 0 {
                    let (first_ns, last_ns) = self.busy.unwrap_or((it.first_ns, it.last_ns));
                    self.busy = Some((first_ns.min(it.first_ns), last_ns.max(it.last_ns)));
                }
                self.wire.buses.push(BusCount {
                    frames: it.frames,
                    error_frames: it.error_frames,
                    bus_offs: it.bus_offs,
                    busy_ns: it.busy_ns,
                    off: Vec::new(),
                });
            }
            Event::Answer { requested_ns } => {
                self.round_trips_ns.push(at_ns.saturating_sub(requested_ns));
            }
            Event::Station(it) if it.frames > 0 && it.refused == it.frames => {
                return Err(Error::Other(
                    "the network card of the guest took none of the frames of the Ethernet load; please report it"
                        .into(),
                ));
            }
            Event::Station(it) => {
                self.wire.station = Some(StationCount {
                    datagrams: it.datagrams,
                    answers: it.answers,
                    frames: it.frames,
                    refused: it.refused,
                    received: it.received,
                    round_trips_ns: std::mem::take(&mut self.round_trips_ns),
                });
            }
            Event::BusOff if is_guest => self.off.push((since(at_ns), u64::MAX, bus)),
            Event::TakesPart if is_guest => {
                let mut of_bus = self.off.iter_mut().filter(|it| it.2 == bus);
                if let Some((_, to, _)) = of_bus.find(|it| it.1 == u64::MAX) {
                    *to = since(at_ns);
                }
            }
            Event::Failed { .. }
            | Event::BusOff
            | Event::TakesPart
            | Event::Started
            | Event::Done => {}
        }
        Ok(())
    }

    /// The frames that the guest, or the tester, sent on a bus.
    fn on(&self, bus: u8, is_guest: bool) -> impl Iterator<Item = &Passed> {
        self.passed.iter().filter(move |it| (it.bus, it.is_guest) == (bus, is_guest))
    }

    /// What passes again after an error in its last bit was there the first time.
    fn forget_repeated(&mut self, way: &MeasuredWay) {
        let mut seen = HashSet::new();
        self.passed.retain(|it| {
            let is_sent = (it.bus, it.is_guest) == (way.from, false);
            !is_sent || seen.insert((it.number, it.on_wire.requested_ns))
        });
    }

    /// The ways of the frames of a round.
    fn ways(&self, way: &MeasuredWay, plan: &Plan<'_>, round: u8) -> Ways {
        let &MeasuredWay { from, to, by_guest } = way;
        let (on_source, on_target) = (|| self.on(from, false), || self.on(to, by_guest));
        let passed = by_number(on_source());
        let mut sent: Vec<_> = passed.iter().map(|it| it.stamp(it.on_wire.requested_ns)).collect();
        let unsent = unsent(plan, round, &passed);
        if !unsent.is_empty() {
            sent.extend(unsent);
            sent.sort_by_key(|it| it.number);
        }
        Ways {
            due: sent.iter().map(|it| it.time_ns).collect(),
            sent,
            monitored: on_source().map(|it| it.stamp(it.ended_ns)).collect(),
            received: on_target().map(|it| it.stamp(it.ended_ns)).collect(),
            target: on_target().map(|it| it.on_wire).collect(),
        }
    }

    fn put_into(mut self, report: &mut Report, measurement: &Measurement, plan: &Plan<'_>) {
        let way = MeasuredWay::of(measurement);
        let MeasuredWay { from, to, by_guest } = way;
        for (from_ns, to_ns, bus) in std::mem::take(&mut self.off) {
            if let Some(bus) = self.wire.buses.get_mut(usize::from(bus)) {
                bus.off.push((from_ns, to_ns));
            }
        }
        self.forget_repeated(&way);
        self.wire.source = by_number(self.on(from, false)).iter().map(|it| it.on_wire).collect();
        self.wire.target = self.on(to, by_guest).map(|it| it.on_wire).collect();
        // Drivers of Linux count interrupts, several frames of which may be lost.
        report.totals.overflow_of_controller = self.overruns.values().sum();
        let mut busy = self.busy;
        // A master knows itself what it has sent and received.
        if measurement.tester != Tester::Master {
            let passed = by_number(self.on(from, false));
            let unsent = unsent(plan, plan.rounds() - 1, &passed);
            if let Some(due_ns) = unsent.iter().map(|it| it.time_ns).max() {
                let until_ns = self.start_ns.saturating_add(due_ns);
                busy = busy.map(|(first_ns, last_ns)| (first_ns, last_ns.max(until_ns)));
            }
            let Ways { sent, due, monitored, received, .. } =
                self.ways(&way, plan, plan.rounds() - 1);
            (report.sent, report.due) = (sent, due);
            (report.monitored, report.received) = (monitored, received);
            let received = || self.on(to, by_guest);
            report.frames = received().map(|it| encoded(&it.frame)).collect();
        }
        for stamp in &mut report.delivered {
            stamp.time_ns = stamp.time_ns.saturating_sub(self.start_ns);
        }
        report.totals.duration_ns = busy.map_or(0, |(first_ns, last_ns)| last_ns - first_ns);
        report.totals.ping_replies = self.wire.station.as_ref().map_or(0, |it| it.answers);
        report.wire = Some(self.wire);
    }
}

/// The frames of a round of a plan that did not get through, each when it was due. Their senders went bus-off for good: each is due behind
/// the one before it, which was given up. Or nothing of theirs got through for long, and the run was ended before they were due.
fn unsent(plan: &Plan<'_>, round: u8, sent: &[&Passed]) -> Vec<Stamp> {
    let ends: BTreeMap<u16, u64> = sent.iter().map(|it| (it.number, it.ended_ns)).collect();
    let mut unsent = Vec::new();
    for sender in plan.senders().filter(|it| it.round == round) {
        let bus = plan.buses().nth(sender.bus.into());
        let is_ended_early = bus.is_some_and(|it| it.restart_ns.is_some());
        let mut given_up_ns = 0;
        for step in (0..sender.count).filter_map(|step| plan.step(sender.first + step)) {
            let Some(number) = step.frame.data().first_chunk() else { continue };
            let number = u16::from_be_bytes(*number);
            let end_ns = ends.get(&number).copied();
            let due_ns = match sender.pace {
                Pace::AfterArrival { .. } if is_ended_early => given_up_ns,
                Pace::AfterArrival { .. } => step.at_ns.saturating_add(given_up_ns),
                Pace::Timed | Pace::Answer(_) => step.at_ns,
            };
            given_up_ns = match (sender.pace, end_ns) {
                (_, Some(end_ns)) => end_ns,
                (Pace::AfterArrival { timeout_ns, .. }, None) if !is_ended_early => {
                    due_ns.saturating_add(timeout_ns)
                }
                _ => due_ns,
            };
            if end_ns.is_none() {
                unsent.push(Stamp { number, time_ns: due_ns });
            }
        }
    }
    unsent
}

/// Frames in the order of their numbers, which come back after 65,536: several senders get their frames through in the order of
/// their identifiers.
fn by_number<'a>(frames: impl Iterator<Item = &'a Passed>) -> Vec<&'a Passed> {
    let mut rounds: BTreeMap<u16, u64> = BTreeMap::new();
    let mut placed: Vec<_> = frames
        .map(|it| {
            let round = rounds.entry(it.number).or_default();
            *round += 1;
            ((*round, it.number), it)
        })
        .collect();
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, it)| it).collect()
}

/// The bytes of a frame, as the kernel has them.
fn encoded(frame: &Frame) -> Vec<u8> {
    let (bytes, _) = socketcan::encode(frame, socketcan::IdOrder::LittleEndian);
    bytes[..socketcan::HEADER_LEN + frame.len()].into()
}

/// That the guest has another bit rate than a bus.
fn other_bitrate(bus: u8, rate: u32, timings: &[BusTiming]) -> Error {
    let mut buses = BUSES.iter().zip(timings).skip(bus.into());
    let (name, of_bus) = buses.next().map_or(("?", 0), |(name, timing)| (*name, timing.bitrate));
    Error::Other(format!(
        "a controller of the guest has {rate} bit/s on the bus \"{name}\" of {of_bus} bit/s; use the bit \
         rate of the bus, or one that an SJA1000 with 8 MHz can have"
    ))
}

/// What the guest writes to and reads from is where the library has it.
const _: () = {
    assert!(meeting::TESTER_PORT == candor_test_bed::port::TESTER);
    assert!(meeting::TESTER_START == candor_test_bed::port::START);
    assert!(meeting::TESTER_OVER == candor_test_bed::port::OVER);
    assert!(meeting::TESTER_IS_THERE == candor_test_bed::port::NOT_DONE);
};

#[cfg(test)]
mod tests {
    use candor_can::Statistics;
    use candor_engine::Table;
    use candor_protocol::order::{Gateway, Offer, Traffic};

    use super::*;

    const SOURCE: u8 = 0;
    const TARGET: u8 = 1;

    fn measurement(pace: order::Pace, gateway: Gateway) -> Measurement {
        let bus = |bitrate| BusTiming { bitrate, data_bitrate: None };
        let traffic = Traffic { can_ids: vec![0x123, 0x456], ..Traffic::new(pace, 3) };
        Measurement {
            tester: Tester::Outside,
            source: bus(500_000),
            target: bus(250_000),
            ..Measurement::new(gateway, Table::default(), traffic)
        }
    }

    const ONE_AT_A_TIME: order::Pace =
        order::Pace::OneAtATime { shortest_ns: 10, longest_ns: 20, timeout_ns: 1_000 };
    const FLOOD: order::Pace = order::Pace::Paced { period_percent: 100, gap_ns: 0 };

    #[test]
    fn a_plan_says_what_the_measurement_wants() {
        for (pace, gateway, expected) in [
            (FLOOD, Gateway::Kernel, Pace::Timed),
            (ONE_AT_A_TIME, Gateway::Kernel, Pace::AfterArrival { bus: TARGET, timeout_ns: 1_000 }),
            (ONE_AT_A_TIME, Gateway::None, Pace::AfterArrival { bus: SOURCE, timeout_ns: 1_000 }),
            (ONE_AT_A_TIME, Gateway::Reader, Pace::AfterArrival { bus: SOURCE, timeout_ns: 1_000 }),
        ] {
            let measurement = measurement(pace, gateway);
            let bytes = plan(&measurement).unwrap();
            let plan = Plan::read(&bytes).unwrap();
            let senders: Vec<_> = plan.senders().collect();
            assert_eq!(
                senders,
                [SenderPlan { bus: SOURCE, round: 0, pace: expected, first: 0, count: 3 }]
            );
            let rates: Vec<_> =
                plan.buses().map(|bus| bus.timing.nominal.bits_per_second()).collect();
            assert_eq!(rates, [500_000, 250_000]);
            let steps: Vec<_> = (0..3).filter_map(|step| plan.step(step)).collect();
            let frames: Vec<_> = steps.iter().map(|step| step.frame.to_string()).collect();
            let expected = ["123#0000555555555555", "456#0001555555555555", "123#0002555555555555"];
            assert_eq!(frames, expected);
            let times: Vec<_> = steps.iter().map(|step| step.at_ns).collect();
            match pace {
                // A frame of 8 bytes takes 222 to 270 us.
                order::Pace::Paced { .. } => {
                    assert!((LEAD_NS..LEAD_NS + 4_000_000).contains(&times[0]), "{times:?}");
                    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
                    assert!(gaps.into_iter().all(|gap| (222_000..270_000).contains(&gap)));
                }
                order::Pace::OneAtATime { .. } => {
                    assert!((LEAD_NS + 10..=LEAD_NS + 20).contains(&times[0]), "{times:?}");
                    assert!(times[1..].iter().all(|at| (10..=20).contains(at)), "{times:?}");
                }
                order::Pace::OpenLoop { .. }
                | order::Pace::RoundTrips { .. }
                | order::Pace::Offered { .. } => {
                    panic!("no such pace is in the list")
                }
            }
        }
        // A master is in the guest: nobody outside sends.
        let pace = order::Pace::RoundTrips {
            period_ns: 0,
            is_open_loop: false,
            timeout_ns: 1,
            linger_ns: 0,
            is_virtual: false,
        };
        let ping = Measurement { tester: Tester::Master, ..measurement(pace, Gateway::Slave) };
        let bytes = plan(&ping).unwrap();
        assert_eq!(Plan::read(&bytes).unwrap().senders().count(), 0);
        // Or only its partner is outside.
        let bytes = plan(&Measurement { gateway: Gateway::None, ..ping }).unwrap();
        let answer = Answer { request: 0x123, answer: 0x456 };
        let partner =
            SenderPlan { bus: SOURCE, round: 0, pace: Pace::Answer(answer), first: 0, count: 0 };
        assert_eq!(Plan::read(&bytes).unwrap().senders().collect::<Vec<_>>(), [partner]);
        let mut impossible = measurement(FLOOD, Gateway::Kernel);
        impossible.traffic.length = 9;
        let reason = plan(&impossible).unwrap_err().to_string();
        assert!(reason.starts_with("traffic: the identifiers, the length"), "{reason}");
    }

    /// A warm-up is a round of its own before the traffic, and what was seen then is apart.
    #[test]
    fn a_warm_up_comes_before_and_counts_nowhere() {
        let warm_up = WarmUp { frames: 2, shortest_ns: 5, longest_ns: 9, timeout_ns: 700 };
        let measurement =
            Measurement { warm_up: Some(warm_up), ..measurement(FLOOD, Gateway::Kernel) };
        let bytes = plan(&measurement).unwrap();
        let plan = Plan::read(&bytes).unwrap();
        let pace = Pace::AfterArrival { bus: TARGET, timeout_ns: 700 };
        let senders: Vec<_> = plan.senders().collect();
        assert_eq!(
            senders,
            [
                SenderPlan { bus: SOURCE, round: 1, pace: Pace::Timed, first: 0, count: 3 },
                SenderPlan { bus: SOURCE, round: 0, pace, first: 3, count: 2 },
            ]
        );
        let cold: Vec<_> = (3..5).filter_map(|step| plan.step(step)).collect();
        let frames: Vec<_> = cold.iter().map(|it| it.frame.to_string()).collect();
        assert_eq!(frames, ["123#0000555555555555", "456#0001555555555555"]);
        assert!((LEAD_NS + 5..=LEAD_NS + 9).contains(&cold[0].at_ns));
        assert!((5..=9).contains(&cold[1].at_ns));
        // One of two came through; then all three that count.
        let record = |at_ns, bus, is_guest, event| Record { at_ns, bus, node: 0, is_guest, event };
        let passed = |at_ns: u64, bus, number: u16| {
            let frame = Frame::from_parts(0x123, &number.to_be_bytes(), None).unwrap();
            let event = Event::Passed { frame, requested_ns: at_ns - 40, started_ns: at_ns - 30 };
            record(at_ns, bus, bus == TARGET, event)
        };
        let done = |at_ns: u64, frames: u64| {
            let count = Statistics {
                frames,
                first_ns: at_ns - 90,
                last_ns: at_ns,
                ..Statistics::default()
            };
            let of = |bus| record(at_ns, bus, false, Event::Statistics(count));
            [of(SOURCE), of(TARGET), record(at_ns, 0, false, Event::Done)]
        };
        let mut records = vec![record(100, 0, false, Event::Started)];
        records.extend([passed(200, SOURCE, 0), passed(260, TARGET, 0), passed(400, SOURCE, 1)]);
        records.extend(done(500, 2));
        records.push(record(1_000, 0, false, Event::Started));
        for number in 0..3 {
            let at_ns = 2_000 + u64::from(number) * 100;
            records.extend([passed(at_ns, SOURCE, number), passed(at_ns + 50, TARGET, number)]);
        }
        records.extend(done(3_000, 3));
        let bytes: Vec<u8> = records.iter().flat_map(Record::to_bytes).collect();
        let mut report = Report::default();
        add_to(&mut report, &measurement, &bytes).unwrap();
        let ways = report.cold.take().unwrap();
        let stamp = |number, time_ns| Stamp { number, time_ns };
        assert_eq!(ways.monitored, [stamp(0, 100), stamp(1, 300)]);
        assert_eq!((ways.received, ways.sent.len()), (vec![stamp(0, 160)], 2));
        assert_eq!(report.sent, [stamp(0, 960), stamp(1, 1_060), stamp(2, 1_160)]);
        assert_eq!(report.received, [stamp(0, 1_050), stamp(1, 1_150), stamp(2, 1_250)]);
        assert_eq!(report.wire.unwrap().buses[0].frames, 3);
        // A controller with another bit rate says so before the tester is started.
        let event = Event::OtherBitrate(125_000);
        let before = [vec![record(50, TARGET, true, event)], records.clone()].concat();
        let before: Vec<u8> = before.iter().flat_map(Record::to_bytes).collect();
        let reason = add_to(&mut Report::default(), &measurement, &before).unwrap_err();
        assert!(reason.to_string().contains("125000 bit/s"), "{reason}");
        // Without the second part the records are cut.
        let first = records.iter().take(7).flat_map(Record::to_bytes).collect::<Vec<_>>();
        let reason = add_to(&mut Report::default(), &measurement, &first).unwrap_err().to_string();
        assert!(reason.contains("are not complete"), "{reason}");
    }

    #[test]
    fn each_sender_of_offers_has_its_frames() {
        let offer = |(number, &(sender, can_id)): (u8, &(u8, u32))| Offer {
            sender,
            at_ns: u64::from(number) * 500,
            can_id,
            data: vec![0, number, 7],
        };
        let of = [(1, 0x20), (0, 0x10), (1, 0x21), (1, 0x20)];
        let mut measurement =
            measurement(order::Pace::Offered { lasts_ns: 1_500 }, Gateway::Kernel);
        measurement.offers = (0..).zip(&of).map(offer).collect();
        let bytes = plan(&measurement).unwrap();
        let plan_read = Plan::read(&bytes).unwrap();
        let sender =
            |first, count| SenderPlan { bus: SOURCE, round: 0, pace: Pace::Timed, first, count };
        assert_eq!(plan_read.senders().collect::<Vec<_>>(), [sender(0, 1), sender(1, 3)]);
        let steps = (0..4).filter_map(|step| plan_read.step(step));
        let steps: Vec<_> = steps.map(|it| (it.at_ns - LEAD_NS, it.frame.to_string())).collect();
        let expected =
            [(500, "010#000107"), (0, "020#000007"), (1_000, "021#000207"), (1_500, "020#000307")];
        assert!(steps.iter().map(|(at, frame)| (*at, frame.as_str())).eq(expected), "{steps:?}");
        assert!(matches!(
            candor_protocol::Order::Measure(Box::new(measurement.clone())).for_guest(),
            candor_protocol::Order::Measure(order) if order.offers.is_empty()
        ));
        measurement.offers[0].sender = 8;
        let reason = plan(&measurement).unwrap_err().to_string();
        assert!(reason.contains("there are 9 senders; 8 can be"), "{reason}");
    }

    /// The more urgent frame of another sender gets through first.
    #[test]
    fn frames_that_overtake_keep_their_numbers() {
        let mut order = measurement(FLOOD, Gateway::None);
        order.traffic.count = 2;
        let mut records = records();
        records.swap(2, 6);
        records.retain(|it| it.at_ns != 2_200);
        let mut report = Report::default();
        add_to(&mut report, &order, &bytes(&records[1..])).unwrap();
        let numbers = |stamps: &[Stamp]| stamps.iter().map(|it| it.number).collect::<Vec<_>>();
        assert_eq!((numbers(&report.sent), numbers(&report.monitored)), (vec![0, 1], vec![1, 0]));
        assert_eq!(report.due, [890, 1_890]);
        let starts: Vec<_> = report.wire.unwrap().source.iter().map(|it| it.started_ns).collect();
        assert_eq!(starts, [900, 1_900]);
    }

    /// A frame that passed from 100 ns before `at_ns` on, wanted 10 ns before that.
    fn passed(bus: u8, is_guest: bool, at_ns: u64, frame: &str) -> Record {
        let (requested_ns, started_ns) = (at_ns - 110, at_ns - 100);
        let event = Event::Passed { frame: frame.parse().unwrap(), requested_ns, started_ns };
        Record { at_ns, bus, node: 0, is_guest, event }
    }

    fn other(bus: u8, event: Event) -> Record {
        Record { at_ns: 0, bus, node: 1, is_guest: true, event }
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(Record::to_bytes).collect()
    }

    fn records() -> Vec<Record> {
        let started = Record { at_ns: 1_000, ..other(0, Event::Started) };
        let count = |frames, busy_ns| {
            let (first_ns, last_ns) = (1_900, 1_900 + 10 * busy_ns);
            let (error_frames, bus_offs) = (1, 2);
            let it = Statistics {
                frames,
                error_frames,
                bus_offs,
                busy_ns,
                first_ns,
                last_ns,
                ..Statistics::default()
            };
            Event::Statistics(it)
        };
        vec![
            passed(SOURCE, false, 900, "123#FFFF"),
            started,
            passed(SOURCE, false, 2_000, "123#0000"),
            // An error in its last bit had it sent again.
            Record { at_ns: 2_200, ..passed(SOURCE, false, 2_000, "123#0000") },
            passed(TARGET, true, 2_500, "123#0000"),
            other(SOURCE, Event::BusOff),
            passed(SOURCE, false, 3_000, "456#0001"),
            other(SOURCE, Event::Overrun(7)),
            other(SOURCE, count(2, 200)),
            other(TARGET, count(1, 100)),
            other(SOURCE, Event::Done),
        ]
    }

    #[test]
    fn frames_are_seen_on_any_bus() {
        let mut seen = Seen { start_ns: 1_000, ..Seen::default() };
        for record in [
            passed(2, true, 2_000, "123#0007"),
            passed(5, true, 3_000, "123#0007"),
            passed(2, false, 4_000, "123#0008"),
            passed(2, true, 5_000, "123#09"),
            passed(2, true, 6_000, "123#000A"),
        ] {
            seen.take(&record, &[]).unwrap();
        }
        let ends = |bus, is_guest| -> Vec<_> {
            seen.on(bus, is_guest).map(|it| (it.number, it.ended_ns)).collect()
        };
        assert_eq!(ends(2, true), [(7, 1_000), (10, 5_000)], "one has no number");
        assert_eq!((ends(5, true), ends(2, false)), (vec![(7, 2_000)], vec![(8, 3_000)]));
        assert_eq!(ends(0, true), []);
    }

    #[test]
    fn a_report_gets_what_the_tester_saw() {
        let mut order = measurement(FLOOD, Gateway::Kernel);
        order.traffic.count = 2;
        let mut report = Report::default();
        add_to(&mut report, &order, &bytes(&records()[1..])).unwrap();
        let stamp = |number, time_ns| Stamp { number, time_ns };
        assert_eq!(report.sent, [stamp(0, 890), stamp(1, 1_890)]);
        assert_eq!(report.due, [890, 1_890]);
        assert_eq!(report.monitored, [stamp(0, 1_000), stamp(1, 2_000)]);
        assert_eq!(report.received, [stamp(0, 1_500)]);
        assert_eq!(report.frames, [vec![0x23, 1, 0, 0, 2, 0, 0, 0, 0, 0]]);
        assert_eq!(report.totals.overflow_of_controller, 7);
        // The source is busy for longest.
        assert_eq!(report.totals.duration_ns, 2_000);
        let wire = report.wire.unwrap();
        assert_eq!(wire.target, [OnWire { requested_ns: 1_390, started_ns: 1_400 }]);
        assert_eq!((wire.source.len(), wire.buses.len()), (2, 2));
        let expected =
            BusCount { frames: 1, error_frames: 1, bus_offs: 2, busy_ns: 100, off: vec![] };
        assert_eq!(wire.buses[1], expected);
        assert_eq!(wire.buses[0].off, [(0, u64::MAX)]);

        // Without a gateway the tester receives what it has sent.
        let mut report = Report::default();
        let order = Measurement { gateway: Gateway::None, ..order };
        add_to(&mut report, &order, &bytes(&records()[1..])).unwrap();
        assert_eq!(report.received, report.monitored);

        // What a reader notes is in the virtual clock, which does not begin with the tester.
        let mut report = Report { delivered: vec![stamp(0, 2_008)], ..Report::default() };
        let order = Measurement { gateway: Gateway::Reader, ..order };
        add_to(&mut report, &order, &bytes(&records()[1..])).unwrap();
        assert_eq!(report.delivered, [stamp(0, 1_008)]);
        assert_eq!(report.received, report.monitored);
    }

    #[test]
    fn buses_that_saw_nothing_are_refused() {
        let round_trips = |is_virtual| order::Pace::RoundTrips {
            period_ns: 0,
            is_open_loop: false,
            timeout_ns: 1,
            linger_ns: 0,
            is_virtual,
        };
        let master = |is_virtual| Measurement {
            tester: Tester::Master,
            ..measurement(round_trips(is_virtual), Gateway::Slave)
        };
        let count = |frames, error_frames| {
            let it = Statistics { frames, error_frames, ..Statistics::default() };
            other(SOURCE, Event::Statistics(it))
        };
        for (order, frames, errors, says) in [
            (master(false), 0, 0, Some("the guest sent none")),
            (master(false), 0, 9, None),
            (master(false), 1, 9, None),
            (master(true), 0, 0, None),
            (measurement(FLOOD, Gateway::Kernel), 0, 0, Some("the tester sent none")),
            (measurement(ONE_AT_A_TIME, Gateway::Kernel), 1, 0, None),
        ] {
            let records = [
                other(0, Event::Started),
                count(frames, errors),
                count(0, 0),
                other(0, Event::Done),
            ];
            let outcome = add_to(&mut Report::default(), &order, &bytes(&records));
            let reason = outcome.err().map(|it| it.to_string());
            match says {
                Some(says) => assert!(reason.as_ref().unwrap().contains(says), "{reason:?}"),
                None => assert_eq!(reason, None),
            }
        }
    }

    #[test]
    fn a_partner_that_could_not_answer_is_refused() {
        let mut records = records();
        records.insert(9, Record { is_guest: false, ..other(SOURCE, Event::Overrun(2)) });
        let order = measurement(FLOOD, Gateway::None);
        let error = add_to(&mut Report::default(), &order, &bytes(&records)).unwrap_err();
        let says = "the partner outside of the guest did not answer 2 of the requests: 64 answers";
        assert!(error.to_string().starts_with(says), "{error}");
    }

    /// Its sender went bus-off: each is due behind the one before it, which was given up.
    #[test]
    fn what_a_sender_could_not_send_was_due() {
        let stamp = |number, time_ns| Stamp { number, time_ns };
        for pace in [FLOOD, ONE_AT_A_TIME] {
            let order = measurement(pace, Gateway::Kernel);
            let mut records = records();
            records.remove(6);
            let mut report = Report::default();
            add_to(&mut report, &order, &bytes(&records[1..])).unwrap();
            let numbers = report.sent.iter().map(|it| it.number);
            assert!(numbers.eq(0..3), "{report:?}");
            assert_eq!(report.monitored, [stamp(0, 1_000)]);
            let bytes = plan(&order).unwrap();
            let of_plan = Plan::read(&bytes).unwrap();
            let [second, third] = [1, 2].map(|step| of_plan.step(step).unwrap().at_ns);
            let due = match pace {
                FLOOD => [second, third],
                // The first ended at 1,000 ns, and the timeout is 1,000 ns.
                _ => [1_000 + second, 2_000 + second + third],
            };
            assert_eq!(report.due, [890, due[0], due[1]]);
        }
    }

    #[test]
    fn records_that_are_not_whole_are_refused() {
        let order = measurement(FLOOD, Gateway::Kernel);
        let refused = |records: &[u8]| {
            add_to(&mut Report::default(), &order, records).unwrap_err().to_string()
        };
        let whole = bytes(&records());
        for (records, says) in [
            (&[][..], "are not complete"),
            (&whole[..RECORD_BYTES * 5], "are not complete"),
            (&whole[..whole.len() - RECORD_BYTES], "are not complete"),
            (&whole[..whole.len() - 1], "are not complete"),
            (&whole[RECORD_BYTES * 2..], "are not complete"),
        ] {
            assert!(refused(records).contains(says), "{}", refused(records));
        }
        let mut damaged = whole;
        damaged[8] = 200;
        assert!(refused(&damaged).contains("are damaged"), "{}", refused(&damaged));
        // Before the tester is started, and behind it.
        for at in [0, 2] {
            let mut records = records();
            records.insert(at, other(TARGET, Event::OtherBitrate(125_000)));
            let reason = refused(&bytes(&records));
            let expected =
                "a controller of the guest has 125000 bit/s on the bus \"target\" of 250000 bit/s";
            assert!(reason.starts_with(expected), "{reason}");
        }
    }

    #[test]
    fn a_qemu_without_the_functions_is_refused() {
        let library = plugin::TIMED_BUS.for_qemu("7.2.22").unwrap();
        let needs = plugin::symbols_of_qemu(&library);
        assert!(needs.iter().any(|name| name == "pci_set_irq"), "{needs:?}");
        assert!(!needs.iter().any(|name| name == "calloc"), "{needs:?}");
        assert_eq!(plugin::symbols_of_qemu(b"no library"), [""; 0]);
    }
}

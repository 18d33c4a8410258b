//! Time-triggered Ethernet on this machine: real frames over pairs of virtual interfaces, in a network namespace that the
//! thread of the experiment makes and that ends with it.
//!
//! ```text
//!  Generator (thread) --> veth pair --> Switch (thread) --> veth pair --> analyze (thread)
//!           stamp of the kernel ^                                ^ stamp of the kernel
//! ```
//!
//! Before the experiment, frames go over a pair without a switch: what the stamps differ by is the bias of the
//! instrument, and is taken off every latency; and how long a frame takes from a program to its interface, by which
//! frames are handed over earlier. A frame is marked when the thread that sends or relays it was stopped
//! meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_lat::section::{Cell, Row};
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::realtime::{self, Policy, Task};
use candor_linux::{Sent, clock};
use candor_time::{Instant, Nanos, Realtime};
use candor_tte::{Network, Role, Traffic};
use candor_tte_live::analyzer::{Arrivals, analyze};
use candor_tte_live::generator::{Advance, Cycles, Departure, Generator, News};
use candor_tte_live::switch::{Switch, Switched};
use candor_tte_live::{Epoch, Stops, Warmer};

use crate::error::Error;
use crate::experiment::{Experiment, Run};
use crate::machine::{HostMachine, NO_REAL_TIME, Stopping, Watched};
use crate::result::{ResultFile, row_of};
use crate::sections::{CLOCKS, HOST, INSTRUMENT, UNMARKED};
use crate::watch::Watch;

use super::TimeTriggered;
use super::flow::{Flow, Seen};

/// How often is looked whether the user wants to stop.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);
/// Frames before those that count: kernels begin to stamp some time after they are asked to, and threads learn how long
/// frames take.
const WARM_UP: u64 = 40;
/// Frames by which the instrument is calibrated.
const CALIBRATION: u32 = 100;
/// How long before it sends a thread that calibrates is awake, as those of the experiment are.
const AWAKE: Nanos = Nanos::from_micros(500);
/// Frames of the calibration are no further apart.
const MOST_DISTANCE: Nanos = Nanos::from_millis(10);
/// From when all is set up to the first cycle.
const LEAD: Nanos = Nanos::from_millis(200);
/// How long a frame may be under way after the last one was sent.
const LAST_FRAME_TIMEOUT: Nanos = Nanos::from_millis(100);
/// SCHED_FIFO of the threads that send and relay.
const PRIORITY: u8 = 60;
/// Bytes of the receive buffers.
const RECEIVE_BUFFER: u32 = 8 << 20;
/// More marked frames than this, in percent, and there is no verdict.
const MOST_MARKED_PERCENT: f64 = 25.0;

/// What the thread that sends has done.
struct SentFrames {
    /// Frames of the flow that is measured, in their order, and whether the thread was stopped meanwhile.
    frames: Vec<(Departure, bool)>,
    /// When the thread was stopped.
    stops: Stops,
}

/// What the threads have seen.
struct Measured {
    calibration: Calibration,
    sent: SentFrames,
    switched: Vec<Switched>,
    arrivals: Arrivals,
    machine: HostMachine,
    duration: Nanos,
    is_real_time: bool,
}

/// Runs one experiment.
pub(super) fn run<'a>(settings: &'a TimeTriggered, run: Run<'a>) -> Result<ResultFile, Error> {
    let Run { experiment, watch, .. } = run;
    let body = || Bed { experiment, settings, watch }.measure();
    // The thread takes the namespace, with all interfaces in it, along when it ends.
    let measured = thread::scope(|scope| scope.spawn(body).join());
    evaluate(run, settings, &measured.map_err(|_| panicked())??)
}

/// An experiment at work.
struct Bed<'a> {
    experiment: &'a Experiment,
    settings: &'a TimeTriggered,
    watch: &'a dyn Watch,
}

/// An error of the system, in words.
fn system(error: candor_linux::Error) -> Error {
    Error::Other(error.to_string())
}

/// The interface of a link at one of its ends.
fn interface(link: usize, end: usize) -> String {
    format!("l{link}{}", if end == 0 { "a" } else { "b" })
}

fn open(name: &str) -> Result<EthernetSocket, Error> {
    let options = Options { receive_buffer: Some(RECEIVE_BUFFER), ..Options::default() };
    EthernetSocket::open(name, options).map_err(system)
}

impl Bed<'_> {
    fn measure(&self) -> Result<Measured, Error> {
        let network = &self.settings.network;
        Namespace::unshare().map_err(system)?;
        // Interfaces that come up would send frames of their own. Kernels without IPv6 have no such file.
        for name in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        let mut netlink = Netlink::open().map_err(system)?;
        let mut pair = |one: &str, other: &str| -> Result<(), candor_linux::Error> {
            netlink.create_veth(one, other)?;
            netlink.set_up(one, true)?;
            netlink.set_up(other, true)
        };
        for link in 0..network.links.len() {
            pair(&interface(link, 0), &interface(link, 1)).map_err(system)?;
        }
        pair("cal0", "cal1").map_err(system)?;
        pair("warm0", "warm1").map_err(system)?;
        let is_real_time = realtime::set_policy(Task::This, Policy::Fifo(PRIORITY)).is_ok();
        let period = network.flows[self.settings.flow].period().unwrap_or(network.cycle);
        let (one, other) = (open("cal0")?, open("cal1")?);
        // One for each thread, by node, and one to calibrate: only one thread may send over a socket.
        let warm =
            (0..=network.nodes.len()).map(|_| open("warm0")).collect::<Result<Vec<_>, _>>()?;
        let (calibrates, warm) = warm.split_last().ok_or_else(panicked)?;
        let sockets = self.sockets()?;
        let watched = Watched::begin();
        let stop = AtomicBool::new(false);
        let (calibration, epoch, measured) = thread::scope(|scope| {
            // However this ends, the threads end.
            let _guard = Stopping(&stop);
            let cpus = realtime::affinity(Task::This).unwrap_or_default();
            for cpu in cpus.into_iter().filter(|_| !never_sleeps(network)) {
                let stop = &stop;
                scope.spawn(move || keep_awake(cpu, stop));
            }
            let calibrating =
                scope.spawn(|| calibrate(&one, &other, Warmer::new(calibrates), period)).join();
            let calibration = calibrating.map_err(|_| panicked())??;
            let epoch = Epoch(clock::now::<Realtime>() + LEAD);
            let measured =
                self.run_threads(scope, &sockets, (epoch, calibration.advance, warm), &stop)?;
            Ok::<_, Error>((calibration, epoch, measured))
        })?;
        let (sent, switched, arrivals) = measured;
        let duration = clock::now::<Realtime>() - epoch.0;
        let machine = watched.end();
        Ok(Measured { calibration, sent, switched, arrivals, machine, duration, is_real_time })
    }

    /// A socket at each end of each link: by link and end. Switches take those of their own later.
    fn sockets(&self) -> Result<BTreeMap<(usize, usize), EthernetSocket>, Error> {
        let mut sockets = BTreeMap::new();
        for link in 0..self.settings.network.links.len() {
            for end in 0..2 {
                sockets.insert((link, end), open(&interface(link, end))?);
            }
        }
        Ok(sockets)
    }

    fn run_threads<'scope, 'env>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, 'env>,
        sockets: &'scope BTreeMap<(usize, usize), EthernetSocket>,
        (epoch, advance, warm): (Epoch, Nanos, &'scope [EthernetSocket]),
        stop: &'scope AtomicBool,
    ) -> Result<(SentFrames, Vec<Switched>, Arrivals), Error> {
        let TimeTriggered { ref network, flow, receiver, .. } = *self.settings;
        let nowhere = || Error::Other("an end system has no link".into());
        let switches = network.nodes.iter().enumerate().filter_map(|(node, its)| {
            let Role::Switch(_) = its.role else { return None };
            let ports = ports_of(network, sockets, node).collect();
            let warmer = warm.get(node).map(Warmer::new);
            let switch = Switch { network, node, ports, epoch, advance, warmer };
            Some(scope.spawn(move || {
                settle(PRIORITY, true);
                switch.run(stop)
            }))
        });
        let switches: Vec<_> = switches.collect();
        let (_, socket) = ports_of(network, sockets, receiver).next().ok_or_else(nowhere)?;
        let run = self.experiment.seed as u32;
        let receiving = scope.spawn(move || {
            settle(0, false);
            analyze(socket, run, stop)
        });
        let generator = self.generator(sockets, (epoch, advance, warm)).ok_or_else(nowhere)?;
        let main = scope.spawn(move || {
            settle(PRIORITY, false);
            send(&generator, flow, stop)
        });
        let period = network.flows[flow].period().unwrap_or(network.cycle);
        self.attend(epoch, period, &|| {
            main.is_finished()
                || receiving.is_finished()
                || switches.iter().any(ScopedJoinHandle::is_finished)
        })?;
        let relays_ns: u64 =
            network.flows[flow].hops.iter().map(|hop| hop.relay_delay.as_nanos()).sum();
        let rest = LAST_FRAME_TIMEOUT + period + Nanos::from_nanos(relays_ns);
        let _ = clock::sleep_until(clock::now::<Realtime>() + rest);
        stop.store(true, Ordering::Relaxed);
        let sent = joined(main)?;
        let arrivals = joined(receiving)?;
        let switched = switches.into_iter().map(joined).collect::<Result<Vec<_>, _>>()?;
        Ok((sent, switched, arrivals))
    }

    /// What sends the frames of the sender, and those of all other end systems that have flows.
    fn generator<'a>(
        &'a self,
        sockets: &'a BTreeMap<(usize, usize), EthernetSocket>,
        (epoch, advance, warm): (Epoch, Nanos, &'a [EthernetSocket]),
    ) -> Option<Generator<'a>> {
        let TimeTriggered { ref network, flow, .. } = *self.settings;
        let sender = network.flows[flow].from;
        let sends = |node: &usize| network.flows.iter().any(|it| it.from == *node);
        let others = (0..network.nodes.len()).filter(|&node| node != sender).filter(sends);
        let socket = |node| Some((node, ports_of(network, sockets, node).next()?.1));
        Some(Generator {
            network,
            nodes: [socket(sender)?].into_iter().chain(others.filter_map(socket)).collect(),
            cycles: Cycles::From(epoch),
            run: self.experiment.seed as u32,
            seed: self.experiment.seed,
            advance: Advance::Learned(advance),
            warmer: warm.get(sender).map(Warmer::new),
            count: Some((vec![flow], self.experiment.count + WARM_UP)),
            most_late: None,
        })
    }

    /// Waits until a thread has ended, and tells how far the experiment is.
    fn attend(
        &self,
        epoch: Epoch,
        period: Nanos,
        has_ended: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        while !has_ended() {
            let now = clock::now::<Realtime>();
            let passed = epoch.since(now);
            let sent = (passed.as_nanos() / period.as_nanos().max(1)).min(self.experiment.count);
            if !self.watch.proceed(passed, sent) {
                return Err(Error::Interrupted);
            }
            let _ = clock::sleep_until(now + STOP_CHECK_INTERVAL);
        }
        Ok(())
    }
}

/// The links of a node, each with the socket at its end of it.
fn ports_of<'a>(
    network: &'a Network,
    sockets: &'a BTreeMap<(usize, usize), EthernetSocket>,
    node: usize,
) -> impl Iterator<Item = (usize, &'a EthernetSocket)> {
    network.links_of(node).filter_map(move |link| {
        let end = usize::from(network.links[link].ends[0] != node);
        Some((link, sockets.get(&(link, end))?))
    })
}

/// What a thread has seen.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, candor_linux::Error>>) -> Result<T, Error> {
    let ended = thread.join();
    ended.map_err(|_| panicked())?.map_err(system)
}

/// Sends, and keeps the frames of a flow.
fn send(
    generator: &Generator<'_>,
    flow: usize,
    stop: &AtomicBool,
) -> Result<SentFrames, candor_linux::Error> {
    let count = generator.count.as_ref().map_or(0, |(_, count)| *count);
    let mut frames = Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(1 << 24));
    let (sent, ended) = generator.run(stop, &mut |news| match news {
        News::Sent { departure, is_marked, .. } if departure.flow == flow => {
            frames.push((departure, is_marked));
        }
        _ => {}
    });
    ended?;
    // One that the interface did not take is told before those that wait for their stamps.
    frames.sort_by_key(|(departure, _)| departure.number);
    Ok(SentFrames { frames, stops: sent.stops })
}

/// Whether the threads that send and relay never sleep, since best-effort frames are close together. Nobody needs to keep their
/// processors awake then; and somebody who wanted to would get them for 50 ms of each second (the kernel's fair server,
/// `kernel/sched/deadline.c`).
fn never_sleeps(network: &Network) -> bool {
    network.flows.iter().any(|flow| match (flow.traffic, flow.hops.first()) {
        (Traffic::BestEffort { load }, Some(hop)) => {
            network.links[hop.link].occupation(flow.size).as_nanos() as f64
                <= load * AWAKE.as_nanos() as f64
        }
        _ => false,
    })
}

/// Keeps a processor from sleeping while nobody else wants it: one of a virtual machine that sleeps is given to others,
/// and comes back when the hypervisor likes.
fn keep_awake(cpu: usize, stop: &AtomicBool) {
    let is_mine = realtime::set_policy(Task::This, Policy::Idle)
        .and_then(|()| realtime::set_affinity(Task::This, &[cpu]));
    while is_mine.is_ok() && !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn panicked() -> Error {
    Error::Other("a thread of the bench panicked".into())
}

/// The calling thread takes its priority and its processor: switches have the last one for themselves. What is not
/// permitted stays as it is; the result says so.
fn settle(priority: u8, is_switch: bool) {
    let policy = if priority == 0 { Policy::Other } else { Policy::Fifo(priority) };
    let _ = realtime::set_policy(Task::This, policy);
    let _ = realtime::set_timer_slack(1);
    let Ok(cpus) = realtime::affinity(Task::This) else { return };
    let Some((&last, others)) = cpus.split_last() else { return };
    if !others.is_empty() {
        let _ = match is_switch {
            true => realtime::set_affinity(Task::This, &[last]),
            false => realtime::set_affinity(Task::This, others),
        };
    }
}

/// What the instrument itself takes, as medians.
#[derive(Clone, Copy, Debug)]
struct Calibration {
    /// By how much the stamps at both ends of a pair of interfaces differ.
    bias: Nanos,
    /// From the last look at the clock to the stamp of the sent frame.
    advance: Nanos,
}

impl Calibration {
    /// From what single frames took, in nanoseconds: between the stamps at both ends, and to the first of them.
    fn of(times: Vec<i64>, ways: Vec<i64>) -> Result<Self, Error> {
        if times.len() < CALIBRATION as usize / 2 {
            return Err(Error::Other(
                "the kernel does not stamp the frames of virtual interfaces; Linux 4.20 or newer is needed"
                    .into(),
            ));
        }
        let median = |mut times: Vec<i64>| {
            times.sort_unstable();
            Nanos::from_nanos(times[times.len() / 2].max(0).unsigned_abs())
        };
        Ok(Self { bias: median(times), advance: median(ways) })
    }
}

/// Sends frames over a pair of interfaces without a switch, from the processor of the switches and as far apart as the
/// frames of the experiment: what a processor has just slept through takes longer.
fn calibrate(
    one: &EthernetSocket,
    other: &EthernetSocket,
    mut warmer: Warmer<'_>,
    period: Nanos,
) -> Result<Calibration, Error> {
    settle(PRIORITY, true);
    let distance = period.min(MOST_DISTANCE);
    let mut next = clock::now::<Realtime>();
    let mut frame = [0; 60];
    frame[..6].fill(0xFF);
    frame[12..14].copy_from_slice(&candor_wire::eth::ether_type::EXPERIMENTAL.to_be_bytes());
    let mut bytes = [0; 128];
    let (mut times, mut ways) = (Vec::new(), Vec::new());
    for number in 0..CALIBRATION {
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        next += distance;
        let _ =
            clock::sleep_until(Instant::<Realtime>::from_nanos(next.as_nanos() - AWAKE.as_nanos()));
        let mut begin = clock::now::<Realtime>();
        while begin < next {
            warmer.warm(begin, next);
            begin = clock::now::<Realtime>();
        }
        if one.send(&frame).map_err(system)? != Sent::Taken {
            continue;
        }
        let mut left: Option<Instant<Realtime>> = None;
        one.transmit_stamps(&mut |_, stamp| left = Some(stamp)).map_err(system)?;
        let mut came = None;
        while let Some(received) = other.receive(&mut bytes).map_err(system)? {
            if bytes[14..18] == number.to_be_bytes() {
                came = received.stamp;
            }
        }
        ways.extend(left.map(|left| left.signed_nanos_since(begin)));
        times.extend(left.zip(came).map(|(left, came)| came.signed_nanos_since(left)));
    }
    Calibration::of(times, ways)
}

/// What switches did with a frame.
#[derive(Default)]
struct SwitchSteps {
    /// Whether one of them was stopped meanwhile.
    is_marked: bool,
    received: Vec<Instant<Realtime>>,
    left: Vec<Instant<Realtime>>,
}

impl SwitchSteps {
    /// Whether the thread that sent was stopped between its two stamps. The kernel hands a frame over in
    /// the same call in which it stamps it on the way out.
    fn was_stopped_between(&self, sent: Instant<Realtime>, copies: &[Option<u64>]) -> bool {
        let threshold = Stops::THRESHOLD.as_nanos();
        let is_far = |left: Instant<Realtime>, came_ns: u64| {
            came_ns.saturating_sub(left.as_nanos()) > threshold
        };
        // From a node to the next: the first stamp in that is not before the stamp out.
        let next = |left: Instant<Realtime>| {
            let later = self
                .received
                .iter()
                .map(|it| it.as_nanos())
                .chain(copies.iter().flatten().copied());
            later.filter(|&came| came >= left.as_nanos()).min()
        };
        let all = self.left.iter().copied().chain([sent]);
        all.filter_map(|left| Some((left, next(left)?))).any(|(left, came)| is_far(left, came))
    }
}

/// What the switches did with the frames of a flow, by sequence number; and why they dropped those that they dropped.
fn relayed(measured: &Measured, flow: usize) -> (BTreeMap<u32, SwitchSteps>, BTreeMap<u64, Cause>) {
    let (mut relayed, mut dropped) = (BTreeMap::<_, SwitchSteps>::new(), BTreeMap::new());
    for switched in &measured.switched {
        let of_flow = switched.dropped.iter().filter(|(of, ..)| *of == flow);
        dropped.extend(of_flow.map(|&(_, number, cause)| (number, cause)));
        for step in switched.relayed.iter().filter(|it| it.measurement.stream == flow as u16) {
            let is_marked = switched.stops.delayed(step.due, step.done)
                || step.noticed > step.ready
                    && switched.stops.overlaps(step.received, step.noticed);
            let steps = relayed.entry(step.measurement.sequence).or_default();
            steps.is_marked |= is_marked;
            steps.received.push(step.received);
            steps.left.push(step.done);
        }
    }
    (relayed, dropped)
}

/// What became of each frame of a flow, in the order of their ends; and how many of them have no stamp of the kernel.
fn seen(measured: &Measured, flow: usize) -> (Vec<Seen>, u64) {
    let mut arrived: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
    for arrival in &measured.arrivals.frames {
        if arrival.measurement.stream == flow as u16 {
            let stamp = arrival.stamp.map(Instant::as_nanos);
            arrived.entry(arrival.measurement.sequence).or_default().push(stamp);
        }
    }
    let (mut relayed, dropped) = relayed(measured, flow);
    let bias_ns = measured.calibration.bias.as_nanos();
    let mut ended = Vec::with_capacity(measured.sent.frames.len());
    let mut unstamped = 0;
    for (frame, is_marked) in &measured.sent.frames {
        let Some(number) = frame.number.checked_sub(WARM_UP) else { continue };
        let sequence = frame.number as u32;
        let left = frame.stamp.unwrap_or(frame.due);
        let steps = relayed.remove(&sequence).unwrap_or_default();
        let copies = arrived.get(&sequence).map_or(&[][..], Vec::as_slice);
        let is_marked = *is_marked || steps.is_marked || steps.was_stopped_between(left, copies);
        let seen = |fate| Seen {
            number,
            due_ns: frame.due.as_nanos(),
            dispatched_ns: frame.stamp.map(Instant::as_nanos),
            fate,
            is_marked,
        };
        for copy in copies {
            unstamped += u64::from(copy.is_none() || frame.stamp.is_none());
            let at_ns = copy.map(|at_ns| at_ns.saturating_sub(bias_ns));
            ended.push(seen(at_ns.ok_or(Cause::Unexplained)));
        }
        if copies.is_empty() {
            let cause = match frame.is_taken {
                false => Cause::SenderQueueFull,
                true => dropped.get(&frame.number).copied().unwrap_or(Cause::Unexplained),
            };
            ended.push(seen(Err(cause)));
        }
    }
    ended.sort_by_key(|seen| seen.fate.unwrap_or(seen.due_ns));
    (ended, unstamped)
}

fn instrument(measured: &Measured, flow: &Flow<'_>, unstamped: u64) -> Row {
    let stops = |stops: &Stops| (stops.count(), stops.longest().as_nanos());
    let (send_stops, send_longest_stop_ns) = stops(&measured.sent.stops);
    let relays = measured.switched.iter().map(|it| stops(&it.stops));
    let (relay_stops, relay_longest_stop_ns) =
        relays.fold((0, 0), |(count, most), (its, longest)| (count + its, most.max(longest)));
    let others: u64 = measured.switched.iter().map(|it| it.others).sum();
    INSTRUMENT.row([
        measured.calibration.bias.as_nanos().into(),
        measured.calibration.advance.as_nanos().into(),
        flow.marked().into(),
        send_stops.into(),
        send_longest_stop_ns.into(),
        relay_stops.into(),
        relay_longest_stop_ns.into(),
        unstamped.into(),
        others.into(),
    ])
}

/// What makes the figures doubtful.
fn notes(measured: &Measured, marked_percent: f64, unstamped: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if marked_percent > MOST_MARKED_PERCENT {
        notes.push(format!(
            "no verdict: {marked_percent:.0} % of the frames are marked, because the machine stopped the threads \
             that send and relay; run it again on a quiet machine"
        ));
    }
    if !measured.is_real_time {
        notes.push(NO_REAL_TIME.to_owned());
    }
    if unstamped > 0 {
        notes.push(format!("{} has no time stamp of the kernel", counted(unstamped, "frame")));
    }
    let strangers: u64 = measured.switched.iter().map(|it| it.strangers).sum();
    let strangers = strangers + measured.arrivals.strangers;
    if strangers > 0 {
        notes.push(format!("{} belonged to no flow", counted(strangers, "frame")));
    }
    notes
}

/// Makes the result.
fn evaluate<'a>(
    run: Run<'a>,
    settings: &'a TimeTriggered,
    measured: &Measured,
) -> Result<ResultFile, Error> {
    let count = run.experiment.count;
    let mut flow = Flow::new(settings, run)?;
    let (ended, unstamped) = seen(measured, settings.flow);
    ended.iter().for_each(|seen| flow.add(seen));
    let (instrument, unmarked) = (instrument(measured, &flow, unstamped), flow.unmarked());
    let marked_percent = flow.marked() as f64 / count.max(1) as f64 * 100.0;
    let mut result = flow.finish(measured.duration, Vec::new())?;
    result.notes.extend(notes(measured, marked_percent, unstamped));
    let precision = settings.network.precision.as_nanos();
    result.sections = result
        .sections
        .with_one(&CLOCKS, CLOCKS.row([Cell::Empty, precision.into()]))
        .with_one(&UNMARKED, unmarked)
        .with_one(&INSTRUMENT, instrument)
        .with_one(&HOST, row_of(&measured.machine));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candor_lat::Metric;
    use candor_tte_live::analyzer::Arrival;
    use candor_tte_live::switch::Relayed;
    use candor_wire::eth::tte::Measurement;

    use super::*;
    use crate::campaign::{self, Options};
    use crate::watch::Unwatched;

    const COUNT: u64 = 20;
    const NETWORK: &str = r#"
        kind = "time-triggered"
        count = 20
        [network]
        cycle = "3ms"
        end_system = { server = {}, analyzer = {} }
        switch.switch.processing = "5us"
        link.in = { between = ["server", "switch"] }
        link.out = { between = ["switch", "analyzer"] }
        [network.flow.measured]
        class = "tt"
        id = 1
        from = "server"
        to = "analyzer"
        send = "800us"
        relay_delay = "350us"
    "#;
    const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
    const PERIOD_NS: u64 = 3_000_000;
    /// From the stamp of the sent frame to that at the switch, and from that of the relayed frame to the last one.
    const WIRE_NS: u64 = 1_000;
    /// From the stamp at the switch to when it relays.
    const RELAY_NS: u64 = 355_000;

    fn at(ns: u64) -> Instant<Realtime> {
        Instant::from_nanos(EPOCH_NS + ns)
    }

    /// The first frame that counts leaves here.
    fn left_ns(number: u64) -> u64 {
        number * PERIOD_NS + 800_000
    }

    /// Those of a thread that read the clock at these times.
    fn stops(readings: &[u64]) -> Stops {
        let mut stops = Stops::default();
        readings.iter().for_each(|&reading| stops.tick(at(reading)));
        stops
    }

    /// What threads see of frames that all take the same time, those of the warm-up included.
    fn recorded(bias_ns: u64) -> Measured {
        let measurement = |number: u64| Measurement {
            run: 1,
            stream: 0,
            sequence: number as u32,
            scheduled_ns: 0,
            sent_ns: 0,
        };
        let numbers = 0..WARM_UP + COUNT;
        let departure = |number: u64| {
            let due = at(left_ns(number));
            let stamp = Some(due);
            (Departure { flow: 0, number, due, stamp, is_taken: true }, false)
        };
        let relayed = |number: u64| {
            let received = left_ns(number) + WIRE_NS;
            Relayed {
                measurement: measurement(number),
                due: at(received + RELAY_NS),
                done: at(received + RELAY_NS),
                received: at(received),
                noticed: at(received + 2_000),
                ready: at(received + 10_000),
            }
        };
        let arrival = |number: u64| {
            let stamp = Some(at(left_ns(number) + WIRE_NS + RELAY_NS + WIRE_NS));
            Arrival { measurement: measurement(number), stamp, size: 64 }
        };
        Measured {
            calibration: Calibration { bias: Nanos::from_nanos(bias_ns), advance: Nanos::ZERO },
            sent: SentFrames {
                frames: numbers.clone().map(departure).collect(),
                stops: Stops::default(),
            },
            switched: vec![Switched {
                relayed: numbers.clone().map(relayed).collect(),
                ..Switched::default()
            }],
            arrivals: Arrivals { frames: numbers.map(arrival).collect(), ..Arrivals::default() },
            machine: HostMachine::default(),
            duration: Nanos::from_secs(1),
            is_real_time: true,
        }
    }

    fn evaluated(measured: &Measured) -> ResultFile {
        let campaign = campaign::parse("t.toml", NETWORK, Path::new("."), &Options::default());
        let campaign = campaign.unwrap_or_else(|error| panic!("{error}"));
        let experiment = &campaign.experiments[0];
        let settings = experiment.of::<TimeTriggered>().unwrap();
        let run = Run { experiment, command: String::new(), lines: None, watch: &Unwatched };
        evaluate(run, settings, measured).unwrap()
    }

    fn marked(result: &ResultFile) -> u64 {
        result.sections.number(&INSTRUMENT, "marked").unwrap() as u64
    }

    #[test]
    fn the_bias_is_the_median_of_what_frames_took_without_a_switch() {
        let enough = CALIBRATION as usize / 2;
        let of = |times: &[i64], ways: &[i64]| {
            let repeated = |it: &[i64]| it.iter().copied().cycle().take(enough + 1).collect();
            Calibration::of(repeated(times), repeated(ways)).map(|it| [it.bias, it.advance])
        };
        let nanos = |values: [u64; 2]| values.map(Nanos::from_nanos);
        assert_eq!(of(&[900, 700, 90_000], &[3_000, 1, 2_000]).unwrap(), nanos([900, 2_000]));
        // Stamps that are the wrong way round say nothing.
        assert_eq!(of(&[-5], &[-7]).unwrap(), nanos([0, 0]));
        assert!(Calibration::of(vec![900; enough], vec![0]).is_ok());
        let few = Calibration::of(vec![900; enough - 1], vec![0; enough]).unwrap_err();
        assert!(few.to_string().contains("does not stamp"), "{few}");
    }

    #[test]
    fn the_bias_is_taken_off_each_latency() {
        for bias_ns in [0, 1, 700, 40_000] {
            let result = evaluated(&recorded(bias_ns));
            let latency = result.metric(Metric::NetworkLatency).unwrap();
            let expected = (RELAY_NS + 2 * WIRE_NS - bias_ns) as i64;
            assert_eq!((latency.min_ns, latency.max_ns), (expected, expected), "{bias_ns}");
            assert_eq!(result.sections.number(&INSTRUMENT, "bias_ns"), Some(bias_ns as f64));
            let unmarked = result.sections.cell(&UNMARKED, "network_latency").unwrap();
            let unmarked = unmarked.figures().unwrap();
            assert_eq!((unmarked.min_ns, unmarked.count), (expected, COUNT));
            assert_eq!((result.counts.sent, result.counts.received), (COUNT, COUNT));
            assert!(result.notes.is_empty(), "{:?}", result.notes);
        }
    }

    #[test]
    fn with_more_than_a_quarter_of_the_frames_marked_there_is_no_verdict() {
        for (count, percent) in [(0, None), (5, None), (6, Some("30 %")), (20, Some("100 %"))] {
            let mut measured = recorded(0);
            // Those of the warm-up do not count.
            let frames = measured.sent.frames.iter_mut().take(WARM_UP as usize + count);
            frames.for_each(|(_, is_marked)| *is_marked = true);
            let result = evaluated(&measured);
            assert_eq!(marked(&result), count as u64);
            let notes: Vec<_> = result.notes.iter().map(|it| it.split(" of the").next()).collect();
            let expected = percent.map(|percent| format!("no verdict: {percent}"));
            assert_eq!(notes, Vec::from_iter(expected.as_deref().map(Some)), "{count}");
        }
    }

    #[test]
    fn a_frame_is_marked_if_a_thread_was_stopped_when_it_mattered() {
        let left = left_ns(WARM_UP);
        let received = left + WIRE_NS;
        let done = received + RELAY_NS;
        type Change = fn(&mut Measured, u64);
        let late: Change = |it, ns| {
            let step = &mut it.switched[0].relayed[WARM_UP as usize];
            step.done += Nanos::from_nanos(ns);
            let arrival = &mut it.arrivals.frames[WARM_UP as usize];
            arrival.stamp = arrival.stamp.map(|stamp| stamp + Nanos::from_nanos(ns));
        };
        let noticed: Change = |it, ns| {
            let step = &mut it.switched[0].relayed[WARM_UP as usize];
            step.noticed = step.received + Nanos::from_nanos(ns);
        };
        let first_wire: Change = |it, ns| {
            it.switched[0].relayed[WARM_UP as usize].received = at(left_ns(WARM_UP) + ns);
        };
        let last_wire: Change = |it, ns| {
            let step = it.switched[0].relayed[WARM_UP as usize];
            let stamp = step.done + Nanos::from_nanos(ns);
            it.arrivals.frames[WARM_UP as usize].stamp = Some(stamp);
        };
        let threshold = Stops::THRESHOLD.as_nanos();
        for (what, change, ns, readings, expected) in [
            ("nothing", late, 0, &[][..], 0),
            ("late without a stop", late, 50_000, &[], 0),
            ("stopped when it was due", late, 50_000, &[done, done + 50_000], 1),
            ("stopped later", late, 0, &[done + 100_000, done + 200_000], 0),
            (
                "stopped, and noticed early enough",
                noticed,
                10_000,
                &[received, received + 30_000],
                0,
            ),
            ("stopped, and noticed late", noticed, 10_001, &[received, received + 30_000], 1),
            ("noticed late without a stop", noticed, 10_001, &[], 0),
            ("in between on the first wire", first_wire, threshold + 1, &[], 1),
            ("not yet on the first wire", first_wire, threshold, &[], 0),
            ("in between on the last wire", last_wire, threshold + 1, &[], 1),
            ("not yet on the last wire", last_wire, threshold, &[], 0),
        ] {
            let mut measured = recorded(0);
            change(&mut measured, ns);
            measured.switched[0].stops = stops(readings);
            assert_eq!(marked(&evaluated(&measured)), expected, "{what}");
        }
    }

    #[test]
    fn frames_without_a_stamp_and_frames_that_do_not_arrive_have_no_latency() {
        let mut measured = recorded(0);
        let frames = &mut measured.arrivals.frames;
        frames[WARM_UP as usize].stamp = None;
        frames.remove(WARM_UP as usize + 1);
        frames.remove(WARM_UP as usize + 1);
        measured.sent.frames[WARM_UP as usize + 2].0.is_taken = false;
        frames.remove(WARM_UP as usize + 1);
        measured.switched[0].dropped = vec![(0, WARM_UP + 3, Cause::Overwritten)];
        let result = evaluated(&measured);
        let stopped: Vec<_> = result.stopped.iter().map(|it| (&*it.cause, it.frames)).collect();
        let expected = [("overwritten", 1), ("sender_queue_full", 1), ("unexplained", 2)];
        assert_eq!(BTreeMap::from_iter(stopped), BTreeMap::from(expected));
        assert_eq!(result.metric(Metric::NetworkLatency).unwrap().count, COUNT - 4);
        assert_eq!(result.notes, ["1 frame has no time stamp of the kernel"]);
    }
}

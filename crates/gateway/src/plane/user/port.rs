//! [`OpenPort`]: the port of a bus, with the threads that work on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use candor_drivers::lasting::LastingReceiver;
use candor_engine::counters::BusCounters;
use candor_engine::table::List;
use candor_engine::{Bus, BusIndex, Table};
use candor_linux::realtime::{self, Policy, Task};
use candor_linux::wake::Wake;
use candor_linux::{clock, quick};
use candor_port::{Address, Endpoint, Handover, Medium, Message, Receiver, Transmitter, Wanted};
#[cfg(feature = "daemon")]
use candor_rules::file::BadPort;
use candor_time::{Monotonic, Nanos};

use super::load::Load;
use super::output::Output;
use super::worker::{Loops, SharedPort, StampSource, Worker};
use crate::lock::lock;
use crate::snapshot::PortSnapshot;
use crate::{Config, Error};

/// How many frames an egress queue holds unless the port says otherwise (`?queue=`).
const QUEUE_DEPTH: usize = 256;
/// The most that may be asked for.
const MOST_QUEUE_DEPTH: usize = 65_536;
/// The stack of a worker, several times what it needs: with locked memory all of it is resident.
const STACK_BYTES: usize = 512 << 10;

/// A port of a bus, and what the gateway itself wants to know of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) address: Address,
    queue_depth: usize,
}

/// Reads the name of a port; or reason and remedy.
pub(super) fn named(bus: &Bus) -> Result<Named, (String, String)> {
    let mut address: Address = bus.port.parse().map_err(|error: candor_port::AddressError| {
        (error.reason().to_owned(), error.remedy().to_owned())
    })?;
    let queue_depth = match address.take_option("queue") {
        None => QUEUE_DEPTH,
        Some(text) => {
            let depth = text.parse().ok().filter(|depth| (1..=MOST_QUEUE_DEPTH).contains(depth));
            depth.ok_or_else(|| {
                let remedy = format!("the length must be 1 to {MOST_QUEUE_DEPTH} frames");
                (format!("`queue={text}` is not a queue length"), remedy)
            })?
        }
    };
    Ok(Named { address, queue_depth })
}

/// The ports that a gateway cannot use for these rules, on whichever machine.
#[cfg(feature = "daemon")]
pub(crate) fn bad_ports(table: &Table) -> Vec<BadPort> {
    let check = |(index, bus)| {
        let (reason, remedy) = check_port(table, index, bus).err()?;
        Some(BadPort { bus: index, reason, remedy })
    };
    (0..=u16::MAX).map(BusIndex).zip(&table.buses).filter_map(check).collect()
}

/// What is wrong with a port, and what to do.
#[cfg(feature = "daemon")]
fn check_port(table: &Table, index: BusIndex, bus: &Bus) -> Result<(), (String, String)> {
    let named = named(bus)?;
    let wanted = wanted(table, index, &named, true);
    match candor_drivers::check(&named.address, wanted) {
        Ok(()) => Ok(()),
        // What no rule uses is not opened.
        Err(_) if !wanted.receiver && !wanted.transmitter => Ok(()),
        Err(error) => {
            let remedy = error.remedy().unwrap_or("`candor bus list` shows the kinds of ports");
            Err((error.reason().to_owned(), remedy.to_owned()))
        }
    }
}

/// What the rules of a table want of a port. A port of the network is opened whole if it is used at all: one
/// of its halves could not be opened later beside the other.
pub(super) fn wanted(table: &Table, bus: BusIndex, named: &Named, measures: bool) -> Wanted {
    let rules = || table.rules.iter();
    let receives = |rule: &candor_engine::Rule| rule.from == bus;
    let takes_errors = |rule: &candor_engine::Rule| {
        receives(rule) && rule.filters.iter().any(|it| it.list() == List::Error)
    };
    let receiver = rules().any(receives);
    let transmitter = rules().any(|rule| rule.to.contains(&bus));
    let is_whole = candor_drivers::medium(&named.address) == Some(Medium::Network)
        && (receiver || transmitter);
    Wanted {
        receiver: receiver || is_whole,
        transmitter: transmitter || is_whole,
        // A whole port hands them over in any case, so that it stays open when a rule for them comes
        // or goes: a connection would break.
        error_reports: is_whole || rules().any(takes_errors),
        own_frames: false,
        stamps: measures,
        sparse_stamps: true,
        // A worker blocks in the call that reads, which is the fastest way; a signal ends that.
        waker: false,
        recorded: None,
    }
}

/// A bus whose port is open.
pub(super) struct OpenPort {
    /// Of a bus and those that replace it, whatever they are called.
    pub(super) id: PortId,
    pub(super) bus: Bus,
    pub(super) named: Named,
    pub(super) wanted: Wanted,
    message: Message,
    pub(super) endpoint: Option<Endpoint>,
    /// It is not there yet.
    pub(super) is_absent: bool,
    pub(super) shared: Arc<SharedPort>,
    threads: Vec<JoinHandle<()>>,
    pub(super) load: Load,
    reported: Reported,
}

/// What was reported of a bus last.
#[derive(Debug, Default)]
struct Reported {
    trouble: Option<String>,
    looping: u64,
    is_looping: bool,
    displaced: u64,
}

/// What counters of a bus are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortId(pub(super) u64);

impl OpenPort {
    /// What has gone wrong since this was asked last, and what is right again.
    pub(super) fn news(&mut self, stops_loops: bool, news: &mut Vec<String>) {
        let looping = self.shared.looping.load(Ordering::Relaxed);
        let more = looping - std::mem::replace(&mut self.reported.looping, looping);
        let was_looping = std::mem::replace(&mut self.reported.is_looping, more > 0);
        let name = &self.bus.name;
        match (was_looping, more) {
            (false, 1..) => news.push(format!(
                "bus `{name}`: frames arrive again and again, {more} in a second: gateways \
                 seem to forward them in a loop; {}",
                match stops_loops {
                    true => "this gateway refuses them, as `hop_limit`; remove one of the rules",
                    false => "remove one of the rules, or run this gateway with --stop-loops",
                }
            )),
            (true, 0) => news.push(format!("bus `{name}`: no more frames run in a loop")),
            _ => {}
        }
        // Of interfaces that were there others tell.
        if self.interface().is_some() && !self.is_absent {
            return;
        }
        let displaced = self.shared.reception.totals().displaced;
        if displaced > std::mem::replace(&mut self.reported.displaced, displaced) {
            news.push(format!(
                "bus `{}`: a connected client that was silent for 10 s made way for another one that \
                 greeted; if that comes again and again, let in a single host with peer=HOST",
                self.bus.name
            ));
        }
        let trouble = self.trouble();
        if trouble != self.reported.trouble {
            news.push(match &trouble {
                Some(trouble) => format!("bus `{name}`: {trouble}"),
                None => format!("bus `{name}` works again"),
            });
            self.reported.trouble = trouble;
        }
    }

    /// The interface that it is, if it is one.
    pub(super) fn interface(&self) -> Option<&str> {
        candor_drivers::interface(&self.named.address)
    }

    /// Whether a recording is replayed.
    pub(super) fn is_replay(&self) -> bool {
        let medium = candor_drivers::medium(&self.named.address);
        self.wanted.receiver && medium == Some(Medium::Recording)
    }

    /// Opens it again, after its interface was made anew.
    pub(super) fn reopen(&mut self) {
        let halves = open_port(&self.bus, &self.named.address, self.wanted, &Handover::default());
        if let Ok(halves) = halves {
            self.put(halves);
        }
    }

    /// Goes on with other halves.
    pub(super) fn put(&mut self, halves: Halves) {
        (self.endpoint, self.message) = (halves.endpoint, halves.message);
        self.is_absent = false;
        if let Some(receiver) = halves.receiver {
            // A port leaves its endpoint as a whole.
            self.shared.reopen((receiver, None));
        }
        if let (Some(transmitter), Some(output)) = (halves.transmitter, &self.shared.output) {
            output.reopen(transmitter);
        }
    }

    /// What it has done so far.
    pub(super) fn snapshot(
        &self,
        refuses_unmatched: bool,
        buses: &BTreeMap<PortId, BusCounters>,
    ) -> PortSnapshot {
        let received = self.shared.reception.totals();
        let output = self.shared.output.as_ref();
        let sent = output.map(|output| output.counts()).unwrap_or_default();
        let (is_frame, is_datagram) =
            (self.message == Message::Frame, self.message == Message::Datagram);
        let only = |is_so: bool, count: u64| if is_so { count } else { 0 };
        let mut port = PortSnapshot {
            bus: self.bus.name.clone(),
            port: self.bus.port.clone(),
            trouble: self.trouble(),
            refuses_unmatched,
            error_reports: received.error_reports,
            malformed_frames: only(is_frame, received.malformed) + received.malformed_frames,
            overflow_frames: only(is_frame, received.overflow),
            received_datagrams: received.datagrams,
            malformed_datagrams: only(is_datagram, received.malformed),
            overflow_datagrams: only(is_datagram, received.overflow),
            missing_datagrams: received.missing,
            out_of_order_datagrams: received.out_of_order,
            foreign: received.foreign,
            looping: self.shared.looping.load(Ordering::Relaxed),
            transmitted: sent.transmitted,
            transmitted_datagrams: only(is_datagram, sent.datagrams),
            full: sent.full,
            lost: sent.lost + self.load.lost,
            queued: sent.queued,
            most_queued: sent.most_queued,
            queue_depth: sent.depth,
            reopened: self.shared.reception.reopened(),
            least_load_percent: self.load.percent,
            ..PortSnapshot::default()
        };
        port.count(buses.get(&self.id).copied().unwrap_or_default());
        let idle = self.shared.idle.load(Ordering::Relaxed);
        port.count(BusCounters { received: idle, unmatched: idle });
        port
    }

    /// Why it does not work, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        let shared = &self.shared;
        let output = shared.output.as_ref();
        let of_receiver = shared.reception.trouble();
        of_receiver.or_else(|| output.and_then(|output| output.counts().trouble)).or_else(|| {
            let is_closed = output.is_some_and(|output| !output.is_open());
            is_closed.then(|| "the interface does not exist".into())
        })
    }
}

/// A port that was just opened. Its threads wait for the word to begin; if it never comes they end.
pub(super) struct New {
    port: OpenPort,
    go: Vec<mpsc::Sender<()>>,
}

impl New {
    /// The port, and the words to its threads.
    pub(super) fn into_parts(self) -> (OpenPort, Vec<mpsc::Sender<()>>) {
        (self.port, self.go)
    }

    /// Closes what was opened for nothing, before this returns.
    pub(super) fn abandon(self) {
        let Self { mut port, go } = self;
        drop(go);
        for thread in port.threads.drain(..) {
            let _ = thread.join();
        }
    }

    /// Opens the port of a bus. Its threads wait for the word to begin.
    pub(super) fn open(
        config: &Config,
        id: PortId,
        bus: &Bus,
        named: Named,
        wanted: Wanted,
        handover: &Handover,
        waits: bool,
    ) -> Result<Self, Error> {
        let (halves, is_absent) = match open_port(bus, &named.address, wanted, handover) {
            Err(Error::Port(_, error))
                if waits && candor_drivers::may_come(&named.address, &error) =>
            {
                (Halves::of(candor_drivers::absent(&error, wanted)), true)
            }
            halves => (halves?, false),
        };
        let transmitter = halves.transmitter;
        let output =
            transmitter.map(|transmitter| Arc::new(Output::new(transmitter, named.queue_depth)));
        let port = OpenPort {
            id,
            bus: bus.clone(),
            named,
            wanted,
            message: halves.message,
            endpoint: halves.endpoint,
            is_absent,
            shared: Arc::new(SharedPort::new(output)),
            threads: Vec::new(),
            load: Load::default(),
            reported: Reported::default(),
        };
        let mut new = Self { port, go: Vec::new() };
        match new.start_threads(config, halves.receiver) {
            Ok(()) => Ok(new),
            Err(error) => {
                new.abandon();
                Err(error)
            }
        }
    }

    /// Starts the threads of a bus, which do nothing until they are started.
    fn start_threads(
        &mut self,
        config: &Config,
        receiver: Option<Box<dyn Receiver>>,
    ) -> Result<(), Error> {
        let wake = Wake::new()?;
        if let Some(output) = &self.port.shared.output {
            let output = Arc::clone(output);
            self.start_thread(config, "out", move || output.drain())?;
        }
        let Some(receiver) = receiver else { return Ok(()) };
        // Stamps of other ports are those of a recording or a sender, by another clock.
        let medium = candor_drivers::medium(&self.port.named.address);
        let stamps = match medium {
            _ if !config.measures => StampSource::Unwanted,
            Some(Medium::Interface | Medium::Device) => StampSource::OfKernel,
            _ => StampSource::Own,
        };
        let loops = match medium {
            // A bus bounds what goes round on it, and a recording does not.
            Some(Medium::Interface | Medium::Device | Medium::Recording) => Loops::Ignored,
            _ if config.stops_loops => Loops::Stopped,
            _ => Loops::Reported,
        };
        let shared = Arc::clone(&self.port.shared);
        let reception = Arc::clone(&shared.reception);
        let receiver = LastingReceiver::known_as(reception, (receiver, None), None);
        let worker = Worker { shared, receiver, stamps, loops };
        self.start_thread(config, "in", move || {
            *lock(&worker.shared.sleeper) = Some(wake.thread());
            worker.work();
        })
    }

    fn start_thread(
        &mut self,
        config: &Config,
        role: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        // The kernel shows 15 bytes of a thread's name.
        let name = format!("{role}/{}", self.port.bus.name).chars().take(15).collect();
        let (go, reported) = mpsc::channel();
        let config = config.clone();
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            set_up_thread(&config);
            if reported.recv().is_ok() {
                work();
            }
        });
        let fail =
            |error: std::io::Error| Error::Other(format!("no thread can be started: {error}"));
        self.port.threads.push(thread.map_err(fail)?);
        self.go.push(go);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Halves {
    receiver: Option<Box<dyn Receiver>>,
    transmitter: Option<Box<dyn Transmitter>>,
    message: Message,
    endpoint: Option<Endpoint>,
}

impl Halves {
    fn of(port: candor_port::Port) -> Self {
        Self {
            receiver: port.receiver,
            transmitter: port.transmitter,
            message: port.capabilities.message,
            endpoint: port.endpoint,
        }
    }
}

pub(super) fn open_port(
    bus: &Bus,
    address: &Address,
    wanted: Wanted,
    handover: &Handover,
) -> Result<Halves, Error> {
    if !wanted.receiver && !wanted.transmitter {
        return Ok(Halves::default());
    }
    let fail = |error| Error::Port(bus.name.clone(), error);
    let port = candor_drivers::open_after(address, wanted, handover).map_err(fail)?;
    let lacks = |half: &str| {
        let reason = format!("this port has no {half}");
        let error = candor_port::Error::new(address.to_string(), reason);
        fail(error.with_remedy("use another port, or remove the rules that need this"))
    };
    if wanted.receiver && port.receiver.is_none() {
        return Err(lacks("receiver"));
    }
    if wanted.transmitter && port.transmitter.is_none() {
        return Err(lacks("transmitter"));
    }
    Ok(Halves::of(port))
}

/// Gives a thread of the data path its priority and CPUs. What is not permitted was reported when the
/// gateway started.
fn set_up_thread(config: &Config) {
    if let Some(priority) = config.priority {
        let _ = realtime::set_policy(Task::This, Policy::Fifo(priority));
    }
    if !config.cpus.is_empty() {
        let _ = realtime::set_affinity(Task::This, &config.cpus);
    }
    let _ = realtime::set_timer_slack(1);
    // Less to do for the kernel whenever the thread wakes up.
    let _ = quick::leave_restartable_sequences();
}

/// Ends the threads of buses, all at once: first those that receive, so that what they have still
/// leaves, then those that transmit. Then the buses have no rules any more.
pub(super) fn end(ports: &mut [OpenPort]) {
    for port in &mut *ports {
        port.shared.is_ending.store(true, Ordering::Relaxed);
    }
    wait_until(|| {
        let mut are_over = true;
        for port in &*ports {
            let is_over = port.shared.has_left.load(Ordering::Relaxed)
                || port.threads.iter().all(JoinHandle::is_finished);
            if !is_over {
                port.shared.kick();
            }
            are_over &= is_over;
        }
        are_over
    });
    for port in &*ports {
        if let Some(output) = &port.shared.output {
            output.end();
        }
    }
    wait_until(|| {
        let mut threads = ports.iter().flat_map(|port| &port.threads);
        threads.all(JoinHandle::is_finished)
    });
    for thread in ports.iter_mut().flat_map(|port| port.threads.drain(..)) {
        // One that panicked has said so.
        let _ = thread.join();
    }
    for port in &*ports {
        // Rules know all buses, this one too: as long as it had them, nothing of both would be freed.
        drop(port.shared.change(None, |_, _| {}));
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1));
    }
}

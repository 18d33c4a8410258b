//! [`Gateway`]: ports opened, workers at work, rules changed between two frames.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use candor_engine::counters::{BusCounters, Counters, JobCounters};
use candor_engine::program::Program;
use candor_engine::table::List;
use candor_engine::{Bus, BusIndex, Table};
use candor_engine::{Engine, Succession};
use candor_linux::clock;
use candor_linux::netlink::{Link, Netlink};
use candor_linux::quick;
use candor_linux::realtime::{self, Policy, Task};
use candor_linux::wake::Wake;
use candor_port::{Address, Endpoint, Estate, Medium, Message, Receiver, Transmitter, Wanted};
#[cfg(feature = "service")]
use candor_rules::file::BadPort;
use candor_time::{Instant, Monotonic, Nanos};

use crate::Error;
#[cfg(feature = "service")]
use crate::control::PlanLine;
use crate::kernel::Jobs;
use crate::latency::Latency;
use crate::output::Output;
use crate::plan::{self, Doer, Plane, Planned};
use crate::retired::{Key, Retired};
use crate::snapshot::{PortSnapshot, RuleSnapshot, Snapshot};
use crate::worker::{Lane, Loops, Routes, Stamps, Station, Worker, lock};

/// How many frames an egress queue holds unless the port says otherwise (`?queue=`).
const QUEUE_DEPTH: usize = 256;
/// The most that may be asked for.
const MOST_QUEUE_DEPTH: usize = 65_536;
/// The stack of a worker, several times what it needs: with locked memory all of it is resident.
const STACK_BYTES: usize = 512 << 10;

/// How a gateway runs.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The rule file.
    pub file: PathBuf,
    /// Who runs the rules.
    pub plane: Plane,
    /// The real-time priority of workers, 1 to 99.
    pub priority: Option<u8>,
    /// The CPUs of workers.
    pub cpus: Vec<usize>,
    /// Whether latencies are measured.
    pub measures: bool,
    /// Whether frames are refused that go round between gateways.
    pub stops_loops: bool,
}

/// Rules that were read and checked.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules.
    pub table: Table,
    /// What is suspicious about them.
    pub warnings: String,
    /// The files that they name, beside the rule file.
    pub included: Vec<String>,
}

/// A port of a bus, and what the gateway itself wants to know of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    address: Address,
    queue_depth: usize,
}

/// Reads the name of a port; or reason and remedy.
fn named(bus: &Bus) -> Result<Named, (String, String)> {
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
#[cfg(feature = "service")]
pub(crate) fn bad_ports(table: &Table) -> Vec<BadPort> {
    let planned = plan::plan(table, Plane::User).unwrap_or_default();
    let check = |(index, bus)| {
        let (reason, remedy) = check_port(table, &planned, index, bus).err()?;
        Some(BadPort { bus: index, reason, remedy })
    };
    (0..=u16::MAX).map(BusIndex).zip(&table.buses).filter_map(check).collect()
}

/// What is wrong with a port, and what to do.
#[cfg(feature = "service")]
fn check_port(
    table: &Table,
    planned: &[Planned],
    index: BusIndex,
    bus: &Bus,
) -> Result<(), (String, String)> {
    let named = named(bus)?;
    let wanted = wanted(table, planned, index, &named, true);
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

/// What the rules want of a port. A port of the network is opened whole if it is used at all: one of
/// its halves could not be opened later beside the other.
fn wanted(
    table: &Table,
    planned: &[Planned],
    bus: BusIndex,
    named: &Named,
    measures: bool,
) -> Wanted {
    let rules = || {
        let of_user = planned.iter().filter(|planned| planned.doer == Doer::User);
        of_user.filter_map(|planned| table.rules.get(planned.rule))
    };
    let receives = |rule: &candor_engine::Rule| rule.from == bus;
    let takes_errors = |rule: &candor_engine::Rule| {
        receives(rule)
            && rule.filters.iter().any(|it| it.list() == candor_engine::table::List::Error)
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
    }
}

/// A bus that is open.
struct Line {
    /// Of a bus and those that replace it, whatever they are called.
    id: LineId,
    bus: Bus,
    named: Named,
    wanted: Wanted,
    message: Message,
    endpoint: Option<Endpoint>,
    station: Arc<Station>,
    threads: Vec<JoinHandle<()>>,
    load: Load,
    reported: Reported,
}

/// What was told of a bus last.
#[derive(Debug, Default)]
struct Reported {
    trouble: Option<String>,
    looping: u64,
    is_looping: bool,
}

/// What counters of a bus are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LineId(u64);

/// How busy the bus of an interface is, and what the kernel lost behind our back.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// What the interface had dropped when it was last looked at (`tx_dropped`).
    dropped: Option<u64>,
    /// What it has dropped since the port was opened.
    lost: u64,
    /// Bits that were counted last, and when.
    last: Option<(u64, Instant<Monotonic>)>,
    percent: Option<f64>,
}

impl Load {
    /// A second later; `link` is the interface if there is one.
    fn tick(&mut self, link: Option<&Link>, now: Instant<Monotonic>) {
        // SOF to the intermission of a frame with a standard identifier, without data and stuff bits
        // (ISO 11898-1). With two bit rates packets and bytes do not tell how long frames take.
        const BITS_PER_FRAME: u64 = 47;
        // An interface that is being taken down still takes frames, and drops them.
        if let Some(now) = link.map(|link| link.statistics.tx_dropped) {
            let before = self.dropped.replace(now).unwrap_or(now);
            // One that was made anew begins at zero.
            self.lost += if now < before { now } else { now - before };
        }
        let can = link.and_then(|link| Some((link.can?, &link.statistics)));
        let Some((can, counted)) = can.filter(|(can, _)| can.bitrate > 0 && can.data_bitrate == 0)
        else {
            (self.last, self.percent) = (None, None);
            return;
        };
        let frames = counted.rx_packets + counted.tx_packets;
        let bits = frames * BITS_PER_FRAME + (counted.rx_bytes + counted.tx_bytes) * 8;
        if let Some((before, then)) = self.last.replace((bits, now)) {
            let seconds = (now - then).as_secs_f64();
            let more = bits.saturating_sub(before) as f64;
            let percent = more / seconds.max(1e-3) / f64::from(can.bitrate) * 100.0;
            self.percent = Some((percent * 100.0).round() / 100.0);
        }
    }
}

/// A set of rules that is or was in use.
struct Generation {
    program: Arc<Program>,
    counters: Counters,
    /// Whose the counters of its buses are.
    lines: Vec<LineId>,
    is_current: bool,
}

/// A gateway at work. Dropping it ends it.
pub struct Gateway {
    config: Config,
    table: Table,
    planned: Vec<Planned>,
    lines: Vec<Line>,
    generations: Vec<Generation>,
    /// What rules and buses counted in generations that are over.
    rule_sums: Retired<JobCounters>,
    bus_sums: BTreeMap<LineId, BusCounters>,
    latencies: BTreeMap<(String, String), Arc<Latency>>,
    jobs: Option<Jobs>,
    /// To ask about interfaces.
    netlink: Option<Netlink>,
    started: Instant<Monotonic>,
    changes: u64,
    last_id: u64,
    rejected: Option<String>,
    wake: Wake,
}

impl Gateway {
    /// Opens the ports of the rules and starts to work.
    ///
    /// # Errors
    /// A port cannot be opened, a rule cannot be done by whom it shall be done, a priority cannot be
    /// had.
    pub fn start(config: Config, rules: Rules) -> Result<Self, Error> {
        let mut gateway = Self {
            config,
            table: Table::default(),
            planned: Vec::new(),
            lines: Vec::new(),
            generations: Vec::new(),
            rule_sums: Retired::default(),
            bus_sums: BTreeMap::new(),
            latencies: BTreeMap::new(),
            jobs: None,
            netlink: None,
            started: clock::now::<Monotonic>(),
            changes: 0,
            last_id: 0,
            rejected: None,
            wake: Wake::new()?,
        };
        gateway.change(rules.table)?;
        gateway.changes = 0;
        Ok(gateway)
    }

    /// Puts other rules into place, each bus between two of its frames. On an error everything stays
    /// as it was.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub fn load(&mut self, rules: Rules) -> Result<(), Error> {
        match self.change(rules.table) {
            Ok(()) => {
                self.rejected = None;
                Ok(())
            }
            Err(error) => {
                self.reject(&error);
                Err(error)
            }
        }
    }

    /// Notes that the rules on disk are not those in use, and why.
    pub fn reject(&mut self, error: &Error) {
        self.rejected = Some(error.to_string());
    }

    /// How often the rules were changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The rules in use.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Who does which rule.
    #[must_use]
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    fn change(&mut self, table: Table) -> Result<(), Error> {
        let planned = plan::plan(&table, self.config.plane)
            .map_err(|refused| Error::plane(&table, refused))?;
        let user = user_table(&table, &planned);
        let program = Arc::new(Program::new(&user));
        let counters = Counters::new(&program);

        // First everything that may fail.
        let opened = self.open_lines(&table, &planned)?;
        if let Err(error) = self.change_jobs(&table, &planned) {
            abandon(opened);
            return Err(error);
        }

        // From here on nothing fails.
        self.changes += 1;
        let mut old_lines: Vec<_> = std::mem::take(&mut self.lines).into_iter().map(Some).collect();
        let mut waiting = Vec::new();
        for (source, bus) in opened.into_iter().zip(&table.buses) {
            match source {
                Source::Kept(index) => {
                    let line = old_lines.get_mut(index).and_then(Option::take);
                    self.lines.extend(line.map(|line| Line { bus: bus.clone(), ..line }));
                }
                Source::New(new) => {
                    let New { line, go } = *new;
                    waiting.extend(go);
                    self.lines.push(line);
                }
            }
        }
        let routes = Arc::new(self.routes(&user));
        let succession =
            self.generations.last().map(|earlier| Succession::new(&earlier.program, &program));
        let takes_errors = |bus: BusIndex| {
            let mut rules = user.rules.iter().filter(|rule| rule.from == bus);
            rules.any(|rule| rule.filters.iter().any(|filter| filter.list() == List::Error))
        };
        let lane = |bus: BusIndex| {
            let is_source = user.rules.iter().any(|rule| rule.from == bus);
            let counters = counters.clone();
            is_source.then(|| Lane {
                engine: Engine::of(Arc::clone(&program), counters.clone(), Some(bus)),
                counters,
                bus,
                needs_time: program.needs_time(bus),
                takes_errors: takes_errors(bus),
                routes: Arc::clone(&routes),
            })
        };
        let lanes: Vec<_> = (0..self.lines.len() as u16).map(BusIndex).map(lane).collect();
        let mut over = Vec::with_capacity(lanes.len());
        let urgent = Urgent::begin(self.config.priority);
        for (line, lane) in self.lines.iter().zip(lanes) {
            over.push(line.station.change(lane, |new, old| {
                if let Some(succession) = &succession {
                    new.engine.succeed(&mut old.engine, succession);
                }
            }));
        }
        drop(urgent);
        // What was replaced is freed here, not by a worker.
        drop(over);
        let mut old_lines: Vec<_> = old_lines.into_iter().flatten().collect();
        end(&mut old_lines);
        for old in &old_lines {
            if let Some(line) = self.lines.iter().find(|line| line.id == old.id) {
                line.station.inherit(&old.station);
            }
        }
        for generation in &mut self.generations {
            generation.is_current = false;
        }
        let lines = self.lines.iter().map(|line| line.id).collect();
        self.generations.push(Generation { program, counters, lines, is_current: true });
        self.table = table;
        self.planned = planned;
        // What has arrived meanwhile waits in the sockets.
        for go in waiting {
            let _ = go.send(());
        }
        Ok(())
    }

    /// What becomes of each bus: a port that stays as it is is kept, whatever its bus is called now.
    /// Others are opened, with threads that wait for the word to begin.
    fn open_lines(&mut self, table: &Table, planned: &[Planned]) -> Result<Vec<Source>, Error> {
        let mut needs = Vec::with_capacity(table.buses.len());
        for (index, bus) in (0_u16..).zip(&table.buses) {
            let named = named(bus).map_err(|(reason, remedy)| {
                Error::Other(format!("bus `{}`: {reason}; {remedy}", bus.name))
            })?;
            let wanted = wanted(table, planned, BusIndex(index), &named, self.config.measures);
            needs.push((bus, named, wanted));
        }
        let mut is_used = vec![false; self.lines.len()];
        let mut kept = vec![None; needs.len()];
        // Under its own name first: two buses may be on one interface.
        for by_name in [true, false] {
            for (kept, (bus, named, wanted)) in kept.iter_mut().zip(&needs) {
                let is_same = |(place, line): &(usize, &Line)| {
                    line.named == *named
                        && line.wanted == *wanted
                        && is_used.get(*place) == Some(&false)
                        && (!by_name || line.bus.name == bus.name)
                };
                if kept.is_none()
                    && let Some((place, _)) = self.lines.iter().enumerate().find(is_same)
                {
                    (*kept, is_used[place]) = (Some(place), true);
                }
            }
        }
        let leaving = || self.lines.iter().zip(&is_used).filter(|(_, is_used)| !**is_used);
        let estate = leaving().filter_map(|(line, _)| line.endpoint.clone()).collect();
        let estate = Estate::new(estate);
        let of = |line: &Line| (line.id, line.bus.name.clone(), line.named.address.clone());
        let mut ids: Vec<_> = leaving().map(|(line, _)| of(line)).collect();
        let mut opened = Vec::with_capacity(needs.len());
        for (kept, (bus, named, wanted)) in kept.into_iter().zip(needs) {
            if let Some(place) = kept {
                opened.push(Source::Kept(place));
                continue;
            }
            // Its counters go on under its name, or else at its place.
            let place = named.address.place();
            let earlier = ids
                .iter()
                .position(|(_, name, _)| *name == bus.name)
                .or_else(|| ids.iter().position(|(.., address)| address.place() == place));
            let id = match earlier {
                Some(earlier) => ids.swap_remove(earlier).0,
                None => {
                    self.last_id += 1;
                    LineId(self.last_id)
                }
            };
            match self.open(id, bus, named, wanted, &estate) {
                Ok(new) => opened.push(Source::New(Box::new(new))),
                Err(error) => {
                    abandon(opened);
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    fn change_jobs(&mut self, table: &Table, planned: &[Planned]) -> Result<(), Error> {
        let of_kernel: Vec<_> = planned
            .iter()
            .filter(|planned| planned.doer == Doer::Kernel)
            .map(|planned| planned.rule)
            .collect();
        if of_kernel.is_empty() && self.jobs.is_none() {
            return Ok(());
        }
        match &mut self.jobs {
            Some(jobs) => jobs.change(table, &of_kernel),
            None => {
                let mut jobs = Jobs::new()?;
                jobs.change(table, &of_kernel)?;
                self.jobs = Some(jobs);
                Ok(())
            }
        }
    }

    fn open(
        &self,
        id: LineId,
        bus: &Bus,
        named: Named,
        wanted: Wanted,
        estate: &Estate,
    ) -> Result<New, Error> {
        let halves = open_port(bus, &named.address, wanted, estate)?;
        let transmitter = halves.transmitter;
        let output =
            transmitter.map(|transmitter| Arc::new(Output::new(transmitter, named.queue_depth)));
        let line = Line {
            id,
            bus: bus.clone(),
            named,
            wanted,
            message: halves.message,
            endpoint: halves.endpoint,
            station: Arc::new(Station::new(output)),
            threads: Vec::new(),
            load: Load::default(),
            reported: Reported::default(),
        };
        let mut new = New { line, go: Vec::new() };
        match self.start_threads(&mut new, halves.receiver) {
            Ok(()) => Ok(new),
            Err(error) => {
                abandon(vec![Source::New(Box::new(new))]);
                Err(error)
            }
        }
    }

    fn routes(&mut self, table: &Table) -> Routes {
        let stations: Vec<_> = self.lines.iter().map(|line| Arc::clone(&line.station)).collect();
        let name = |bus: usize| table.buses.get(bus).map_or("", |bus| bus.name.as_str());
        let mut latencies = Vec::with_capacity(stations.len() * stations.len());
        for from in 0..stations.len() {
            for to in 0..stations.len() {
                let is_used = self.config.measures && is_linked(table, from, to);
                latencies.push(is_used.then(|| {
                    let key = (name(from).to_owned(), name(to).to_owned());
                    Arc::clone(self.latencies.entry(key).or_default())
                }));
            }
        }
        Routes { generation: self.changes, stations, latencies }
    }

    /// Starts the threads of a bus, which do nothing until they are told to go.
    fn start_threads(
        &self,
        new: &mut New,
        receiver: Option<Box<dyn Receiver>>,
    ) -> Result<(), Error> {
        let wake = self.wake;
        if let Some(output) = &new.line.station.output {
            let output = Arc::clone(output);
            self.start_thread("out", new, move || output.drain())?;
        }
        let Some(receiver) = receiver else { return Ok(()) };
        // Stamps of other ports are those of a recording or a sender, by another clock.
        let medium = candor_drivers::medium(&new.line.named.address);
        let stamps = match medium {
            _ if !self.config.measures => Stamps::Unwanted,
            Some(Medium::Interface) => Stamps::OfKernel,
            _ => Stamps::Own,
        };
        let loops = match medium {
            // A bus bounds what goes round on it, and a recording does not.
            Some(Medium::Interface | Medium::Recording) => Loops::Ignored,
            _ if self.config.stops_loops => Loops::Stopped,
            _ => Loops::Reported,
        };
        let worker = Worker { station: Arc::clone(&new.line.station), receiver, stamps, loops };
        self.start_thread("in", new, move || {
            *lock(&worker.station.sleeper) = Some(wake.thread());
            worker.work();
        })
    }

    fn start_thread(
        &self,
        role: &str,
        new: &mut New,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        // The kernel shows 15 bytes of a thread's name.
        let name = format!("{role}/{}", new.line.bus.name).chars().take(15).collect();
        let (go, reported) = mpsc::channel();
        let config = self.config.clone();
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(move || {
            set_up_thread(&config);
            if reported.recv().is_ok() {
                work();
            }
        });
        let fail =
            |error: std::io::Error| Error::Other(format!("no thread can be started: {error}"));
        new.line.threads.push(thread.map_err(fail)?);
        new.go.push(go);
        Ok(())
    }

    /// To be called every second: latencies of the last second, counters of the kernel, generations
    /// that are over.
    pub fn tick(&mut self) {
        for latency in self.latencies.values() {
            latency.tick();
        }
        let now = clock::now::<Monotonic>();
        for line in &mut self.lines {
            let Some(name) = candor_drivers::interface(&line.named.address) else { continue };
            // One by one: a kernel that is not preemptible does nothing else while it answers, and a
            // list of all interfaces takes it 150 us.
            if self.netlink.is_none() {
                self.netlink = Netlink::open().ok();
            }
            let link = self.netlink.as_mut().and_then(|netlink| netlink.link(name).ok());
            line.load.tick(link.as_ref(), now);
        }
        if let Some(jobs) = &mut self.jobs {
            // What cannot be read now is read next time.
            let _ = jobs.count();
        }
        self.fold();
    }

    /// What has gone wrong with ports since this was asked last, and what is right again: a line for
    /// each. To be called every second. Of interfaces others tell.
    pub fn news(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        for line in &mut self.lines {
            let looping = line.station.looping.load(Ordering::Relaxed);
            let more = looping - std::mem::replace(&mut line.reported.looping, looping);
            let was_looping = std::mem::replace(&mut line.reported.is_looping, more > 0);
            let name = &line.bus.name;
            match (was_looping, more) {
                (false, 1..) => news.push(format!(
                    "bus `{name}`: the same frames arrive again and again, {more} in a second: \
                     gateways seem to forward them in a loop; remove one of the rules, or run \
                     this gateway with --stop-loops"
                )),
                (true, 0) => news.push(format!("bus `{name}`: no more frames run in a loop")),
                _ => {}
            }
            if candor_drivers::interface(&line.named.address).is_some() {
                continue;
            }
            let trouble = trouble_of(line);
            if trouble != line.reported.trouble {
                news.push(match &trouble {
                    Some(trouble) => format!("bus `{name}`: {trouble}"),
                    None => format!("bus `{name}` works again"),
                });
                line.reported.trouble = trouble;
            }
        }
        news
    }

    /// Adds up generations of which no copy is pending any more.
    fn fold(&mut self) {
        let (rule_sums, bus_sums) = (&mut self.rule_sums, &mut self.bus_sums);
        rule_sums.begin();
        self.generations.retain(|generation| {
            let jobs = generation.counters.jobs();
            if generation.is_current || jobs.iter().any(|job| job.pending > 0) {
                return true;
            }
            for (key, counted) in keys(&generation.program).zip(jobs) {
                *rule_sums.entry(key) += counted;
            }
            for (&line, counted) in generation.lines.iter().zip(generation.counters.buses()) {
                *bus_sums.entry(line).or_default() += counted;
            }
            false
        });
        self.forget();
    }

    /// Bounds what is kept of rules, buses and pairs of buses that are not in use any more.
    fn forget(&mut self) {
        let current = self.generations.iter().filter(|generation| generation.is_current);
        let in_use: BTreeSet<Key> = current.flat_map(|it| keys(&it.program)).collect();
        self.rule_sums.prune(|key| in_use.contains(key));
        let in_kernel = self.kernel_keys();
        if let Some(jobs) = &mut self.jobs {
            jobs.forget(&in_kernel);
        }
        let is_there = |name: &String| self.table.buses.iter().any(|bus| bus.name == *name);
        self.bus_sums.retain(|id, _| self.lines.iter().any(|line| line.id == *id));
        self.latencies.retain(|(from, to), _| is_there(from) && is_there(to));
    }

    /// Opens ports again whose interfaces have come anew, so that sockets on them lead nowhere, and
    /// lets the worker of `changed` look again.
    pub fn heal(&mut self, is_new: impl Fn(&str) -> bool, changed: &str) {
        let urgent = Urgent::begin(self.config.priority);
        for line in &mut self.lines {
            let Some(interface) = candor_drivers::interface(&line.named.address) else { continue };
            if interface == changed {
                line.station.kick();
            }
            if !is_new(interface) {
                continue;
            }
            let halves = open_port(&line.bus, &line.named.address, line.wanted, &Estate::default());
            if let Ok(halves) = halves {
                line.endpoint = halves.endpoint;
                if let Some(receiver) = halves.receiver {
                    line.station.reopen(receiver);
                }
                if let (Some(transmitter), Some(output)) =
                    (halves.transmitter, &line.station.output)
                {
                    output.reopen(transmitter);
                }
            }
        }
        drop(urgent);
        let whole = self.jobs.as_mut().is_none_or(Jobs::are_whole);
        if !whole {
            let (table, planned) = (self.table.clone(), self.planned.clone());
            // An interface that is still away is tried again when it comes.
            let _ = self.change_jobs(&table, &planned);
        }
    }

    /// An interface went away: what waits for it is refused.
    pub fn close(&mut self, interface: &str) {
        let _urgent = Urgent::begin(self.config.priority);
        for line in &self.lines {
            if candor_drivers::interface(&line.named.address) == Some(interface)
                && let Some(output) = &line.station.output
            {
                output.close();
            }
        }
    }

    /// Ends its work; what it has done can still be asked.
    pub fn stop(&mut self) {
        end(&mut self.lines);
        if let Some(jobs) = &mut self.jobs {
            let _ = jobs.count();
            jobs.delete();
        }
    }

    /// Who does which rule, by destination.
    #[cfg(feature = "service")]
    #[must_use]
    pub fn plan_lines(&self) -> Vec<PlanLine> {
        plan_lines(&self.table, &self.planned)
    }

    /// What it has done so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut rules: BTreeMap<(String, String, String), RuleSnapshot> = BTreeMap::new();
        fn entry<'a>(
            rules: &'a mut BTreeMap<(String, String, String), RuleSnapshot>,
            key: &(String, String, String),
        ) -> &'a mut RuleSnapshot {
            rules.entry(key.clone()).or_insert_with(|| RuleSnapshot {
                rule: key.0.clone(),
                from: key.1.clone(),
                to: key.2.clone(),
                plane: Doer::User.name().into(),
                ..RuleSnapshot::default()
            })
        }
        for (key, counted) in self.rule_sums.iter() {
            entry(&mut rules, key).count(counted);
        }
        let mut buses = self.bus_sums.clone();
        for generation in &self.generations {
            for (key, counted) in keys(&generation.program).zip(generation.counters.jobs()) {
                let rule = entry(&mut rules, &key);
                rule.count(&counted);
                rule.in_use |= generation.is_current;
            }
            for (&line, counted) in generation.lines.iter().zip(generation.counters.buses()) {
                *buses.entry(line).or_default() += counted;
            }
        }
        let in_kernel = self.kernel_keys();
        for (key, sums) in self.jobs.iter().flat_map(Jobs::sums) {
            let rule = entry(&mut rules, key);
            rule.handled += sums.handled;
            for (cause, count) in [("dropped", sums.dropped), ("deleted", sums.deleted)] {
                if count > 0 {
                    *rule.stopped.entry(cause.into()).or_default() += count;
                }
            }
            if in_kernel.contains(key) {
                rule.plane = Doer::Kernel.name().into();
                rule.in_use = true;
            }
        }
        let ports = self.lines.iter().map(|line| self.port(line, &buses)).collect();
        let latencies =
            self.latencies.iter().map(|((from, to), latency)| latency.snapshot(from, to)).collect();
        Snapshot {
            file: self.config.file.display().to_string(),
            pid: std::process::id(),
            uptime_ns: (clock::now::<Monotonic>() - self.started).as_nanos(),
            generation: self.changes,
            rejected: self.rejected.clone(),
            ports,
            rules: self.in_order(rules),
            latencies,
        }
    }

    fn kernel_keys(&self) -> BTreeSet<(String, String, String)> {
        let name = |bus: BusIndex| {
            self.table.buses.get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
        };
        let of_kernel = self.planned.iter().filter(|planned| planned.doer == Doer::Kernel);
        let rules = of_kernel.filter_map(|planned| self.table.rules.get(planned.rule));
        rules
            .flat_map(|rule| {
                rule.to.iter().map(move |&to| (rule.name.clone(), name(rule.from), name(to)))
            })
            .collect()
    }

    /// As in the file; rules that are not in use any more at the end.
    fn in_order(
        &self,
        mut rules: BTreeMap<(String, String, String), RuleSnapshot>,
    ) -> Vec<RuleSnapshot> {
        let name = |bus: BusIndex| {
            self.table.buses.get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
        };
        let mut ordered = Vec::with_capacity(rules.len());
        for rule in &self.table.rules {
            for &to in &rule.to {
                ordered.extend(rules.remove(&(rule.name.clone(), name(rule.from), name(to))));
            }
        }
        ordered.extend(rules.into_values());
        ordered
    }

    fn port(&self, line: &Line, buses: &BTreeMap<LineId, BusCounters>) -> PortSnapshot {
        let received = line.station.counts();
        let output = line.station.output.as_ref();
        let sent = output.map(|output| output.counts()).unwrap_or_default();
        let (is_frame, is_datagram) =
            (line.message == Message::Frame, line.message == Message::Datagram);
        let only = |is_so: bool, count: u64| if is_so { count } else { 0 };
        let mut port = PortSnapshot {
            bus: line.bus.name.clone(),
            port: line.bus.port.clone(),
            trouble: trouble_of(line),
            refuses_unmatched: self.table.refuses_others,
            error_reports: received.error_reports,
            malformed_frames: only(is_frame, received.malformed) + received.malformed_frames,
            overflow_frames: only(is_frame, received.overflow),
            received_datagrams: received.datagrams,
            malformed_datagrams: only(is_datagram, received.malformed),
            overflow_datagrams: only(is_datagram, received.overflow),
            missing_datagrams: received.missing,
            out_of_order_datagrams: received.out_of_order,
            foreign: received.foreign,
            looping: line.station.looping.load(Ordering::Relaxed),
            transmitted: sent.transmitted,
            transmitted_datagrams: only(is_datagram, sent.datagrams),
            full: sent.full,
            lost: sent.lost + line.load.lost,
            queued: sent.queued,
            most_queued: sent.most_queued,
            queue_depth: sent.depth,
            reopened: line.station.reopened.load(Ordering::Relaxed),
            least_load_percent: line.load.percent,
            ..PortSnapshot::default()
        };
        port.count(buses.get(&line.id).copied().unwrap_or_default());
        let idle = line.station.idle.load(Ordering::Relaxed);
        port.count(BusCounters { received: idle, unmatched: idle });
        port
    }

    /// Whether all recordings that are replayed have come to their end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut receiving = self.lines.iter().filter(|line| line.wanted.receiver).peekable();
        receiving.peek().is_some()
            && receiving.all(|line| line.station.has_ended.load(Ordering::Relaxed))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Who does which rule, by destination, as plain data.
#[cfg(feature = "service")]
#[must_use]
pub fn plan_lines(table: &Table, planned: &[Planned]) -> Vec<PlanLine> {
    let name = |bus: BusIndex| {
        table.buses.get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
    };
    let mut lines = Vec::new();
    for planned in planned {
        let Some(rule) = table.rules.get(planned.rule) else { continue };
        lines.extend(rule.to.iter().map(|&to| PlanLine {
            rule: rule.name.clone(),
            from: name(rule.from),
            to: name(to),
            plane: planned.doer.name().to_owned(),
            reason: (planned.doer == Doer::User).then(|| planned.reason.clone()),
        }));
    }
    lines
}

/// This thread at the priority of workers, until it is dropped: who holds a lock that a worker wants
/// must not be held up by anybody less urgent.
struct Urgent(Option<Policy>);

impl Urgent {
    fn begin(priority: Option<u8>) -> Self {
        let before = priority.and_then(|priority| {
            let before = realtime::policy(Task::This).ok()?;
            realtime::set_policy(Task::This, Policy::Fifo(priority)).ok()?;
            Some(before)
        });
        Self(before)
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = realtime::set_policy(Task::This, before);
        }
    }
}

/// Why a bus does not work, if so.
fn trouble_of(line: &Line) -> Option<String> {
    let station = &line.station;
    let of_worker = lock(&station.trouble).clone();
    let output = station.output.as_ref();
    of_worker
        .or_else(|| station.counts().trouble)
        .or_else(|| output.and_then(|output| output.counts().trouble))
        .or_else(|| {
            let is_closed = output.is_some_and(|output| !output.is_open());
            is_closed.then(|| "the interface does not exist".into())
        })
}

/// A port that goes on, or one that was opened.
enum Source {
    Kept(usize),
    New(Box<New>),
}

/// A line whose threads wait for the word to begin. If it never comes they end.
struct New {
    line: Line,
    go: Vec<mpsc::Sender<()>>,
}

/// Closes what was opened for nothing, before this returns.
fn abandon(sources: Vec<Source>) {
    for source in sources {
        if let Source::New(new) = source {
            let New { mut line, go } = *new;
            drop(go);
            for thread in line.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

/// The halves of a port.
#[derive(Default)]
struct Halves {
    receiver: Option<Box<dyn Receiver>>,
    transmitter: Option<Box<dyn Transmitter>>,
    message: Message,
    endpoint: Option<Endpoint>,
}

fn open_port(
    bus: &Bus,
    address: &Address,
    wanted: Wanted,
    estate: &Estate,
) -> Result<Halves, Error> {
    if !wanted.receiver && !wanted.transmitter {
        return Ok(Halves::default());
    }
    let fail = |error| Error::Port(bus.name.clone(), error);
    let port = candor_drivers::open_after(address, wanted, estate).map_err(fail)?;
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
    Ok(Halves {
        receiver: port.receiver,
        transmitter: port.transmitter,
        message: port.capabilities.message,
        endpoint: port.endpoint,
    })
}

/// The table with the rules of user space only; buses stay where they are.
fn user_table(table: &Table, planned: &[Planned]) -> Table {
    let of_user = planned.iter().filter(|planned| planned.doer == Doer::User);
    let rules = of_user.filter_map(|planned| table.rules.get(planned.rule).cloned()).collect();
    Table {
        buses: table.buses.clone(),
        rules,
        max_hops: table.max_hops,
        refuses_others: table.refuses_others,
    }
}

/// Whether frames can go from one bus to another, directly or over buses that give them back.
fn is_linked(table: &Table, from: usize, to: usize) -> bool {
    let mut reached = vec![false; table.buses.len()];
    let mut next = vec![from];
    while let Some(bus) = next.pop() {
        for rule in table.rules.iter().filter(|rule| usize::from(rule.from.0) == bus) {
            for target in rule.to.iter().map(|target| usize::from(target.0)) {
                if target == to {
                    return true;
                }
                if rule.echo && reached.get(target) == Some(&false) {
                    reached[target] = true;
                    next.push(target);
                }
            }
        }
    }
    false
}

fn keys(program: &Program) -> impl Iterator<Item = (String, String, String)> + '_ {
    let name = |bus: BusIndex| {
        program.buses().get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
    };
    program.jobs().iter().map(move |job| (job.rule.clone(), name(job.from), name(job.to)))
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
/// leaves, then those that transmit.
fn end(lines: &mut [Line]) {
    for line in &mut *lines {
        line.station.is_ending.store(true, Ordering::Relaxed);
    }
    wait_until(|| {
        let mut are_over = true;
        for line in &*lines {
            let is_over = line.station.has_left.load(Ordering::Relaxed)
                || line.threads.iter().all(JoinHandle::is_finished);
            if !is_over {
                line.station.kick();
            }
            are_over &= is_over;
        }
        are_over
    });
    for line in &*lines {
        if let Some(output) = &line.station.output {
            output.end();
        }
    }
    wait_until(|| {
        let mut threads = lines.iter().flat_map(|line| &line.threads);
        threads.all(JoinHandle::is_finished)
    });
    for thread in lines.iter_mut().flat_map(|line| line.threads.drain(..)) {
        // One that panicked has said so.
        let _ = thread.join();
    }
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        let _ = clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use candor_linux::netlink::{CanState, Statistics};

    use super::*;

    #[test]
    fn the_load_is_what_the_kernel_counts_by_the_second() {
        let link = |frames: u64, data_bitrate: u32| Link {
            can: Some(CanState { bitrate: 500_000, data_bitrate, ..CanState::default() }),
            statistics: Statistics {
                rx_packets: frames,
                rx_bytes: frames * 8,
                ..Statistics::default()
            },
            ..Link::default()
        };
        let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
        let mut load = Load::default();
        load.tick(Some(&link(0, 0)), at(1));
        assert_eq!(load.percent, None);
        load.tick(Some(&link(1_000, 0)), at(2));
        assert_eq!(load.percent, Some(22.2), "1,000 frames of 111 bits");
        load.tick(Some(&link(1_000, 0)), at(3));
        assert_eq!(load.percent, Some(0.0));
        load.tick(Some(&link(2_000, 2_000_000)), at(4));
        assert_eq!(load.percent, None, "two bit rates");
        load.tick(None, at(5));
        assert_eq!((load.percent, load.lost), (None, 0));
        let dropping = |tx_dropped| {
            let statistics = Statistics { tx_dropped, ..Statistics::default() };
            Link { statistics, ..Link::default() }
        };
        for (dropped, lost) in [(7, 7), (9, 9), (1, 10)] {
            load.tick(Some(&dropping(dropped)), at(6));
            assert_eq!(load.lost, lost);
        }
    }
}

//! Workers in user space: one that receives for each bus, one that transmits for each bus that has to wait.
//!
//! ```text
//!  can0 -> Receiver -> worker: lock(Engine of can0) -> handle -> Output of can1: lock -> Transmitter -> can1
//! ```
//!
//! All ports of a gateway are here, also those of buses whose rules others carry out.

mod attempt;
mod circle;
mod latency;
mod load;
mod output;
mod port;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use candor_engine::counters::{BusCounters, Counters, JobCounters};
use candor_engine::program::Program;
use candor_engine::table::List;
use candor_engine::{BusIndex, Engine, Succession, Table};
use candor_linux::clock;
use candor_linux::netlink::Netlink;
use candor_linux::realtime::{self, Policy, Task};
use candor_port::Handover;
use candor_time::Monotonic;

use self::attempt::Attempt;
use self::latency::Latency;
#[cfg(feature = "daemon")]
pub(crate) use self::port::bad_ports;
use self::port::{New, OpenPort, PortId};
use self::worker::{BusRules, Routes};
use super::retired::Retired;
use super::{Kind, Plane, Replays, Report, RuleKey, Share, keys_of_program};
use crate::{Config, Error};

/// Workers in user space.
pub(super) const KIND: Kind = Kind {
    name: "user",
    title: "user space",
    help: "Threads of this process run all rules",
    obstacle: |_, _| None,
    excess: |_| None,
    most_steps: |_| None,
    compiles: true,
    start: |config| Ok(Box::new(Workers::new(config.clone()))),
};

/// A set of rules that is or was in use.
struct Generation {
    program: Arc<Program>,
    counters: Counters,
    /// Whose the counters of its buses are.
    ports: Vec<PortId>,
    is_current: bool,
}

/// The workers of a gateway, with the ports of its buses.
struct Workers {
    config: Config,
    /// The rules that they carry out.
    table: Table,
    ports: Vec<OpenPort>,
    generations: Vec<Generation>,
    /// What rules and buses counted in generations that are over.
    rule_sums: Retired<JobCounters>,
    bus_sums: BTreeMap<PortId, BusCounters>,
    latencies: BTreeMap<(String, String), Arc<Latency>>,
    /// To ask about interfaces.
    netlink: Option<Netlink>,
    changes: u64,
    last_id: u64,
    /// To open those that are not there yet.
    attempt: Option<Attempt>,
    prepared: Option<PreparedRules>,
}

/// Other rules, for which everything is ready.
struct PreparedRules {
    table: Table,
    program: Arc<Program>,
    counters: Counters,
    opened: Vec<Source>,
}

/// The port of a bus: one that goes on, by its place, or one that was opened.
enum Source {
    Kept(usize),
    New(Box<New>),
}

fn abandon(sources: Vec<Source>) {
    for source in sources {
        if let Source::New(new) = source {
            new.abandon();
        }
    }
}

impl Plane for Workers {
    fn prepare(&mut self, share: &Share<'_>) -> Result<(), Error> {
        // Nobody else could have what was opened.
        self.fetch();
        let table = share.own_table();
        let program = share.program.map_or_else(|| Arc::new(Program::new(&table)), Arc::clone);
        let counters = Counters::new(&program);
        let opened = self.open_lines(&table, share.moved)?;
        self.prepared = Some(PreparedRules { table, program, counters, opened });
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.change(prepared);
        }
    }

    fn abandon(&mut self) {
        if let Some(PreparedRules { opened, .. }) = self.prepared.take() {
            abandon(opened);
        }
    }

    fn tick(&mut self) {
        for latency in self.latencies.values() {
            latency.tick();
        }
        let now = clock::now::<Monotonic>();
        for port in &mut self.ports {
            let Some(name) = candor_drivers::interface(&port.named.address) else { continue };
            // One by one: a kernel that is not preemptible does nothing else while it answers, and a
            // list of all interfaces takes it 150 us.
            if self.netlink.is_none() {
                self.netlink = Netlink::open().ok();
            }
            let link = self.netlink.as_mut().and_then(|netlink| netlink.link(name).ok());
            port.load.tick(link.as_ref(), now);
        }
        self.fold();
        self.fetch();
        if self.attempt.is_none() {
            self.attempt = Attempt::begin(&self.ports);
        }
    }

    fn troubles(&self) -> Vec<String> {
        let trouble =
            |port: &OpenPort| Some(format!("bus `{}`: {}", port.bus.name, port.trouble()?));
        self.ports.iter().filter_map(trouble).collect()
    }

    fn news(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        for port in &mut self.ports {
            port.news(self.config.stops_loops, &mut news);
        }
        news
    }

    fn heal(&mut self, is_new: &dyn Fn(&str) -> bool, changed: &str) {
        let _urgent = Urgent::begin(self.config.priority);
        for port in &mut self.ports {
            let Some(interface) = port.interface() else { continue };
            if interface == changed {
                port.shared.kick();
            }
            if is_new(interface) {
                port.reopen();
            }
        }
    }

    /// What waits for the interface is refused.
    fn close(&mut self, interface: &str) {
        let _urgent = Urgent::begin(self.config.priority);
        for port in self.ports.iter().filter(|port| port.interface() == Some(interface)) {
            if let Some(output) = &port.shared.output {
                output.close();
            }
        }
    }

    fn replays(&self) -> Replays {
        let mut recordings = self.ports.iter().filter(|port| port.is_replay()).peekable();
        if recordings.peek().is_none() {
            return Replays::None;
        }
        if !recordings.all(|port| port.shared.has_ended.load(Ordering::Relaxed)) {
            return Replays::Going;
        }
        let mut outputs = self.ports.iter().filter_map(|port| port.shared.output.as_ref());
        if outputs.all(|output| output.is_empty()) { Replays::Done } else { Replays::Leaving }
    }

    fn seen(&self, add: &mut dyn FnMut(&str, u64)) {
        let buses = self.counted_buses();
        for port in &self.ports {
            let counted = buses.get(&port.id).copied().unwrap_or_default();
            add(&port.bus.name, counted.received + port.shared.idle.load(Ordering::Relaxed));
        }
    }

    fn report(&self, report: &mut Report) {
        for (key, counted) in self.rule_sums.iter() {
            report.rule(key, &KIND, false).count(counted);
        }
        for generation in &self.generations {
            for (key, counted) in
                keys_of_program(&generation.program).zip(generation.counters.jobs())
            {
                report.rule(&key, &KIND, generation.is_current).count(&counted);
            }
        }
        let buses = self.counted_buses();
        let refuses_others = self.table.refuses_others;
        report.ports.extend(self.ports.iter().map(|port| port.snapshot(refuses_others, &buses)));
        let latencies = self.latencies.iter();
        report.latencies.extend(latencies.map(|((from, to), latency)| latency.snapshot(from, to)));
    }

    fn stop(&mut self) {
        port::end(&mut self.ports);
    }
}

impl Workers {
    fn new(config: Config) -> Self {
        Self {
            config,
            table: Table::default(),
            ports: Vec::new(),
            generations: Vec::new(),
            rule_sums: Retired::default(),
            bus_sums: BTreeMap::new(),
            latencies: BTreeMap::new(),
            netlink: None,
            changes: 0,
            last_id: 0,
            attempt: None,
            prepared: None,
        }
    }

    /// What was counted of each bus in all generations.
    fn counted_buses(&self) -> BTreeMap<PortId, BusCounters> {
        let mut buses = self.bus_sums.clone();
        for generation in &self.generations {
            for (&port, counted) in generation.ports.iter().zip(generation.counters.buses()) {
                *buses.entry(port).or_default() += counted;
            }
        }
        buses
    }

    /// Goes on with ports that have come.
    fn fetch(&mut self) {
        if let Some(attempt) = self.attempt.take_if(|attempt| attempt.is_over()) {
            attempt.end(&mut self.ports);
        }
    }

    /// Puts other rules into place, each bus between two of its frames.
    fn change(&mut self, prepared: PreparedRules) {
        let PreparedRules { table, program, counters, opened } = prepared;
        self.changes += 1;
        let mut old_ports: Vec<_> = std::mem::take(&mut self.ports).into_iter().map(Some).collect();
        let mut waiting = Vec::new();
        for (source, bus) in opened.into_iter().zip(&table.buses) {
            match source {
                Source::Kept(index) => {
                    let port = old_ports.get_mut(index).and_then(Option::take);
                    self.ports.extend(port.map(|mut port| {
                        port.bus = bus.clone();
                        port
                    }));
                }
                Source::New(new) => {
                    let (port, go) = new.into_parts();
                    waiting.extend(go);
                    self.ports.push(port);
                }
            }
        }
        let routes = Arc::new(self.routes(&table));
        let succession =
            self.generations.last().map(|earlier| Succession::new(&earlier.program, &program));
        let takes_errors = |bus: BusIndex| {
            let mut rules = table.rules.iter().filter(|rule| rule.from == bus);
            rules.any(|rule| rule.filters.iter().any(|filter| filter.list() == List::Error))
        };
        let rules = |bus: BusIndex| {
            let is_source = table.rules.iter().any(|rule| rule.from == bus);
            let counters = counters.clone();
            is_source.then(|| BusRules {
                engine: Engine::with_counters(Arc::clone(&program), counters.clone(), Some(bus)),
                counters,
                bus,
                needs_time: program.needs_time(bus),
                takes_errors: takes_errors(bus),
                routes: Arc::clone(&routes),
            })
        };
        let rules_by_bus: Vec<_> = (0..self.ports.len() as u16).map(BusIndex).map(rules).collect();
        let mut over = Vec::with_capacity(rules_by_bus.len());
        let urgent = Urgent::begin(self.config.priority);
        for (port, rules) in self.ports.iter().zip(rules_by_bus) {
            over.push(port.shared.change(rules, |new, old| {
                if let Some(succession) = &succession {
                    new.engine.succeed(&mut old.engine, succession);
                }
            }));
        }
        drop(urgent);
        // What was replaced is freed here, not by a worker.
        drop(over);
        let mut old_ports: Vec<_> = old_ports.into_iter().flatten().collect();
        port::end(&mut old_ports);
        for old in &old_ports {
            if let Some(port) = self.ports.iter().find(|port| port.id == old.id) {
                port.shared.inherit(&old.shared);
            }
        }
        for generation in &mut self.generations {
            generation.is_current = false;
        }
        let ports = self.ports.iter().map(|port| port.id).collect();
        self.generations.push(Generation { program, counters, ports, is_current: true });
        self.table = table;
        // Not first with the next tick: rules may change many times until then.
        self.fold();
        // What has arrived meanwhile waits in the sockets.
        for go in waiting {
            let _ = go.send(());
        }
    }

    /// What becomes of each bus: a port that stays as it is is kept, whatever its bus is called now.
    /// Others are opened, with threads that wait for the word to begin.
    fn open_lines(
        &mut self,
        table: &Table,
        moved: &BTreeSet<String>,
    ) -> Result<Vec<Source>, Error> {
        let mut needs = Vec::with_capacity(table.buses.len());
        for (index, bus) in (0_u16..).zip(&table.buses) {
            let named = port::named(bus).map_err(|(reason, remedy)| {
                Error::Other(format!("bus `{}`: {reason}; {remedy}", bus.name))
            })?;
            let wanted = port::wanted(table, BusIndex(index), &named, self.config.measures);
            needs.push((bus, named, wanted));
        }
        let mut is_used = vec![false; self.ports.len()];
        let mut kept = vec![None; needs.len()];
        let was_moved =
            |port: &OpenPort| port.wanted.transmitter && moved.contains(port.named.address.place());
        // Under its own name first: two buses may be on one interface.
        for by_name in [true, false] {
            for (kept, (bus, named, wanted)) in kept.iter_mut().zip(&needs) {
                let is_same = |(place, port): &(usize, &OpenPort)| {
                    port.named == *named
                        && port.wanted == *wanted
                        && !was_moved(port)
                        && is_used.get(*place) == Some(&false)
                        && (!by_name || port.bus.name == bus.name)
                };
                if kept.is_none()
                    && let Some((place, _)) = self.ports.iter().enumerate().find(is_same)
                {
                    (*kept, is_used[place]) = (Some(place), true);
                }
            }
        }
        let leaving = || self.ports.iter().zip(&is_used).filter(|(_, is_used)| !**is_used);
        let handover = leaving().filter_map(|(port, _)| port.endpoint.clone()).collect();
        let handover = Handover::new(handover);
        let of = |port: &OpenPort| (port.id, port.bus.name.clone(), port.named.address.clone());
        let mut ids: Vec<_> = leaving().map(|(port, _)| of(port)).collect();
        // Who changes the rules wants to know that a port is not there: its name may be wrong.
        let waits = self.config.waits && self.changes == 0;
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
                    PortId(self.last_id)
                }
            };
            match New::open(&self.config, id, bus, named, wanted, &handover, waits) {
                Ok(new) => opened.push(Source::New(Box::new(new))),
                Err(error) => {
                    abandon(opened);
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    fn routes(&mut self, table: &Table) -> Routes {
        let buses: Vec<_> = self.ports.iter().map(|port| Arc::clone(&port.shared)).collect();
        let name = |bus: usize| table.buses.get(bus).map_or("", |bus| bus.name.as_str());
        let mut latencies = Vec::with_capacity(buses.len() * buses.len());
        for from in 0..buses.len() {
            for to in 0..buses.len() {
                let is_used = self.config.measures && is_linked(table, from, to);
                latencies.push(is_used.then(|| {
                    let key = (name(from).to_owned(), name(to).to_owned());
                    Arc::clone(self.latencies.entry(key).or_default())
                }));
            }
        }
        Routes { generation: self.changes, buses, latencies }
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
            for (key, counted) in keys_of_program(&generation.program).zip(jobs) {
                *rule_sums.entry(key) += counted;
            }
            for (&port, counted) in generation.ports.iter().zip(generation.counters.buses()) {
                *bus_sums.entry(port).or_default() += counted;
            }
            false
        });
        self.forget();
    }

    /// Bounds what is kept of rules, buses and pairs of buses that are not in use any more.
    fn forget(&mut self) {
        let current = self.generations.iter().filter(|generation| generation.is_current);
        let in_use: BTreeSet<RuleKey> =
            current.flat_map(|it| keys_of_program(&it.program)).collect();
        self.rule_sums.prune(|key| in_use.contains(key));
        let is_there = |name: &String| self.table.buses.iter().any(|bus| bus.name == *name);
        self.bus_sums.retain(|id, _| self.ports.iter().any(|port| port.id == *id));
        self.latencies.retain(|(from, to), _| is_there(from) && is_there(to));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.abandon();
        self.stop();
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use candor_engine::{Bus, Rule};

    use super::worker::SharedPort;
    use super::*;

    /// Puts rules between these buses into place; returns what is to be freed with the buses.
    fn load(workers: &mut Workers, names: [&str; 2]) -> Vec<Weak<SharedPort>> {
        let bus = |name: &str| {
            let port = format!("sim:{name}-{}", std::process::id());
            Bus { name: name.into(), port, is_virtual: false }
        };
        let both = [(0, 1), (1, 0)]
            .map(|(from, to)| Rule::new(format!("from {from}"), BusIndex(from), BusIndex(to)));
        let (buses, rules) = (names.map(bus).into(), both.into());
        let table = Table { buses, rules, ..Table::default() };
        let moved = BTreeSet::new();
        let share = Share { table: &table, rules: &[0, 1], program: None, moved: &moved };
        workers.prepare(&share).unwrap_or_else(|error| panic!("{error}"));
        workers.commit();
        workers.ports.iter().map(|port| Arc::downgrade(&port.shared)).collect()
    }

    /// A program that changes the rules a thousand times in a second makes the gateway no larger.
    #[test]
    fn rules_that_were_replaced_are_added_up_at_once() {
        let mut workers = Workers::new(Config::default());
        for _ in 0..20 {
            load(&mut workers, ["four", "five"]);
            assert_eq!(workers.generations.len(), 1);
        }
    }

    #[test]
    fn buses_that_end_are_freed() {
        let mut workers = Workers::new(Config::default());
        let first = load(&mut workers, ["one", "two"]);
        let second = load(&mut workers, ["one", "three"]);
        let alive = |buses: &[Weak<SharedPort>]| {
            buses.iter().map(|bus| bus.strong_count() > 0).collect::<Vec<_>>()
        };
        assert_eq!(alive(&first), [true, false], "`two` was replaced");
        assert_eq!(alive(&second), [true, true]);
        drop(workers);
        assert_eq!(alive(&second), [false, false]);
    }
}

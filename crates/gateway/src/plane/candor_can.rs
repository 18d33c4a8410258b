//! [`InterruptGateway`]: rules that the driver `candor_can` carries out, where it receives a frame: in its interrupt handler.
//!
//! The driver takes the image of the compiled rules, checks it, and replaces the rules between two frames. It counts by job of
//! the image since these rules are in use.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat;
use std::path::Path;
use std::sync::Arc;

use candor_causes::Cause;
use candor_engine::program::Program;
use candor_engine::{Bus, Rule, Table};
use candor_linux::candor_can::state;
use candor_linux::candor_gateway::{BusCounts, Counts, JobCounts, KernelGateway, Refusal};
use candor_port::Address;

use super::retired::Retired;
use super::{Kind, Plane, Report, RuleKey, Share, keys_of_program};
use crate::{Config, Error};

pub(super) const KIND: Kind = Kind {
    name: "candor_can",
    title: "candor_can",
    help: "The interrupt handler of the driver candor_can runs all rules; an error if it cannot run one",
    obstacle,
    excess: candor_rules::candor_can::excess,
    most_steps: |table| Some(Program::new(table).most_steps()),
    compiles: true,
    start: |_: &Config| Ok(Box::new(InterruptGateway::new()?)),
};

/// Why the driver cannot carry out a rule.
fn obstacle(table: &Table, rule: &Rule) -> Option<String> {
    for bus in rule.to.iter().chain([&rule.from]) {
        let bus = table.buses.get(usize::from(bus.0))?;
        if device(bus).is_none() {
            let Bus { name, port, .. } = bus;
            return Some(match port.split_once('?') {
                Some((port, _)) if port.starts_with("candor:") => {
                    format!("`{name}` has options that it does not support: use port = \"{port}\"")
                }
                _ => format!(
                    "`{name}` is {port}, and it supports only its own devices, such as candor:candor0"
                ),
            });
        }
    }
    candor_rules::candor_can::obstacle(table, rule)
}

/// N of the device `candorN` that a bus is, if it is one without options.
fn device(bus: &Bus) -> Option<u8> {
    let address: Address = bus.port.parse().ok()?;
    if address.driver() != "candor" || bus.port.contains('?') {
        return None;
    }
    let number = address.place().strip_prefix("candor")?;
    number.parse().ok().filter(|it: &u8| it.to_string() == number)
}

/// What is wrong with a device in this state, and what to do.
fn trouble_of(state: u64) -> Option<&'static str> {
    const STOPPED: u64 = state::STOPPED as u64;
    const BUS_OFF: u64 = state::BUS_OFF as u64;
    match state {
        STOPPED => Some(
            "stopped, and takes no frames: load candor_can with bitrate=, or let a program start it",
        ),
        BUS_OFF => Some(
            "bus-off, and takes no frames: mend its bus, then give its controller back and to candor_can again",
        ),
        _ => None,
    }
}

/// Whether the driver has this device now.
fn is_there(number: u8) -> bool {
    Path::new(&format!("/dev/candor{number}")).exists()
}

/// Rules that the driver has, or is to have.
struct Loaded {
    program: Arc<Program>,
    image: Vec<u8>,
    devices: Vec<Option<u8>>,
    /// What was added up of them so far.
    counted: Counts,
}

impl Loaded {
    fn new(program: &Arc<Program>) -> Self {
        let jobs = program.jobs();
        let used: BTreeSet<_> = jobs.iter().flat_map(|job| [job.from, job.to]).collect();
        let device = |(index, bus): (usize, &Bus)| {
            let is_used = u16::try_from(index).is_ok_and(|it| used.iter().any(|bus| bus.0 == it));
            device(bus).filter(|_| is_used)
        };
        Self {
            devices: program.buses().iter().enumerate().map(device).collect(),
            image: program.to_image(),
            program: Arc::clone(program),
            counted: Counts::default(),
        }
    }

    fn give_to(&self, gateway: &KernelGateway) -> Result<(), Error> {
        let refused = match gateway.prepare(&self.image, &self.devices) {
            Ok(_) => return Ok(()),
            Err(Refusal::Other(error)) => return Err(error.into()),
            Err(Refusal::Device { bus }) => {
                let bus = self.program.buses().get(bus as usize);
                let (name, port) = bus.map_or(("", ""), |bus| (&bus.name, &bus.port));
                format!("bus `{name}`: {port} is not there: give its controller to candor_can")
            }
            Err(Refusal::Image { section, record, reason }) => {
                format!(
                    "candor_can does not take the rules (section {section}, record {record}): {reason}"
                )
            }
        };
        Err(Error::Other(format!("{refused}; or use --plane user")))
    }

    /// What was counted since it was added up last, by job and by bus.
    fn since(&self, now: &Counts) -> (Vec<JobCounts>, Vec<BusCounts>) {
        let Counts { jobs, buses, .. } = &self.counted;
        let before = jobs.iter().copied().chain(repeat(JobCounts::default()));
        let jobs = now.jobs.iter().zip(before).map(|(now, before)| now.since(before)).collect();
        let before = buses.iter().copied().chain(repeat(BusCounts::default()));
        let buses = now.buses.iter().zip(before).map(|(now, before)| now.since(before)).collect();
        (jobs, buses)
    }

    fn bus_names(&self) -> impl Iterator<Item = &str> {
        self.program.buses().iter().map(|bus| bus.name.as_str())
    }
}

/// The rules that the driver carries out for this process.
struct InterruptGateway {
    gateway: KernelGateway,
    active: Option<Loaded>,
    prepared: Option<Loaded>,
    in_use: BTreeSet<RuleKey>,
    sums: Retired<JobCounts>,
    bus_sums: BTreeMap<String, BusCounts>,
}

impl InterruptGateway {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            gateway: KernelGateway::open()?,
            active: None,
            prepared: None,
            in_use: BTreeSet::new(),
            sums: Retired::default(),
            bus_sums: BTreeMap::new(),
        })
    }

    /// What the driver has counted for the rules in use, or for those before them. What cannot be read is not known.
    fn counts(&self, loaded: &Loaded, earlier: bool) -> Option<Counts> {
        let (jobs, buses) = (loaded.program.jobs().len(), loaded.program.buses().len());
        self.gateway.counts(jobs, buses, earlier).ok().flatten()
    }

    /// Adds up what the driver has counted.
    fn add_up(&mut self, loaded: &mut Loaded, earlier: bool) {
        let Some(now) = self.counts(loaded, earlier) else { return };
        let (jobs, buses) = loaded.since(&now);
        for (key, counted) in keys_of_program(&loaded.program).zip(jobs) {
            *self.sums.entry(key) += counted;
        }
        for (name, counted) in loaded.bus_names().zip(buses) {
            *self.bus_sums.entry(name.to_owned()).or_default() += counted;
        }
        loaded.counted = now;
    }

    /// Lets rules that the driver has prepared take the place of those in use.
    fn replace(&mut self, loaded: Loaded) {
        // It fails only if nothing is prepared.
        if self.gateway.commit().is_ok()
            && let Some(mut before) = self.active.replace(loaded)
        {
            self.add_up(&mut before, true);
        }
    }

    /// What each bus has seen, up to now.
    fn buses_now(&self) -> BTreeMap<String, BusCounts> {
        let mut buses = self.bus_sums.clone();
        if let Some(active) = &self.active
            && let Some(now) = self.counts(active, false)
        {
            for (name, counted) in active.bus_names().zip(active.since(&now).1) {
                *buses.entry(name.to_owned()).or_default() += counted;
            }
        }
        buses
    }

    /// What became of the copies of each rule, up to now.
    fn jobs_now(&self) -> BTreeMap<RuleKey, JobCounts> {
        let sums = self.sums.iter().map(|(key, sum)| (key.clone(), *sum));
        let mut jobs: BTreeMap<RuleKey, JobCounts> = sums.collect();
        if let Some(active) = &self.active
            && let Some(now) = self.counts(active, false)
        {
            for (key, counted) in keys_of_program(&active.program).zip(active.since(&now).0) {
                *jobs.entry(key).or_default() += counted;
            }
        }
        jobs
    }

    /// Gives the driver the rules again if a device of them went away: it may be there anew.
    fn look_for_devices(&mut self) {
        let Some(active) = self.active.as_ref().filter(|active| active.counted.is_gone) else {
            return;
        };
        let again = Loaded::new(&active.program);
        if again.give_to(&self.gateway).is_ok() {
            self.replace(again);
        }
    }
}

impl Plane for InterruptGateway {
    fn prepare(&mut self, share: &Share<'_>) -> Result<(), Error> {
        let program = match share.program {
            Some(program) => Arc::clone(program),
            None => Arc::new(Program::new(&share.own_table())),
        };
        let loaded = Loaded::new(&program);
        loaded.give_to(&self.gateway)?;
        self.prepared = Some(loaded);
        Ok(())
    }

    fn commit(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        self.sums.begin();
        let is_there = |name: &String| prepared.bus_names().any(|bus| bus == name);
        self.bus_sums.retain(|name, _| is_there(name));
        self.in_use = keys_of_program(&prepared.program).collect();
        for key in &self.in_use {
            self.sums.entry(key.clone());
        }
        self.replace(prepared);
    }

    fn abandon(&mut self) {
        if self.prepared.take().is_some() {
            let _ = self.gateway.abandon();
        }
    }

    fn tick(&mut self) {
        if let Some(mut active) = self.active.take() {
            self.add_up(&mut active, false);
            self.active = Some(active);
        }
        self.sums.prune(|key| self.in_use.contains(key));
        self.look_for_devices();
    }

    fn troubles(&self) -> Vec<String> {
        let Some(active) = &self.active else { return Vec::new() };
        let states = active.counted.buses.iter().map(|bus| bus.state);
        let used = active.program.buses().iter().zip(&active.devices).zip(states);
        let told = |((bus, device), state): ((&Bus, &Option<u8>), u64)| {
            let what = match device {
                Some(number) if !is_there(*number) => {
                    "gone: give its controller to candor_can; the rules take it again then"
                }
                Some(_) => trouble_of(state)?,
                None => return None,
            };
            Some(format!("bus `{}`: {} is {what}", bus.name, bus.port))
        };
        used.filter_map(told).collect()
    }

    fn heal(&mut self, _: &dyn Fn(&str) -> bool, _: &str) {}

    fn seen(&self, add: &mut dyn FnMut(&str, u64)) {
        for (name, counted) in self.buses_now() {
            add(&name, counted.received);
        }
    }

    fn report(&self, report: &mut Report) {
        for (key, sum) in &self.jobs_now() {
            let rule = report.rule(key, &KIND, self.in_use.contains(key));
            rule.handled += sum.handled;
            for (cause, count) in causes(sum) {
                if count > 0 {
                    *rule.stopped.entry(cause.name().to_owned()).or_default() += count;
                }
            }
        }
        let buses = self.buses_now();
        for port in &mut report.ports {
            let Some(counted) = buses.get(&port.bus) else { continue };
            port.most_steps = counted.most_steps;
            port.step_limit = counted.step_limit;
            port.longest_ns = counted.longest_ns;
            port.lost += counted.lost;
            if port.received == 0 {
                port.received = counted.received;
                port.unmatched = counted.unmatched;
            }
        }
    }

    fn stop(&mut self) {
        let nothing = Loaded::new(&Arc::new(Program::new(&Table::default())));
        if nothing.give_to(&self.gateway).is_ok() {
            self.replace(nothing);
        }
    }
}

fn causes(counts: &JobCounts) -> [(Cause, u64); 6] {
    let JobCounts { handled: _, hop_limit, down, returning, too_long, queue_full, unsupported } =
        *counts;
    [
        (Cause::HopLimit, hop_limit),
        (Cause::Down, down),
        (Cause::Returning, returning),
        (Cause::TooLong, too_long),
        (Cause::QueueFull, queue_full),
        (Cause::Unsupported, unsupported),
    ]
}

#[cfg(test)]
mod tests {
    use candor_engine::BusIndex;

    use super::*;

    #[test]
    fn rules_are_between_its_own_devices() {
        for (port, expected) in [
            ("candor:candor12", None),
            ("can0", Some("`b` is can0")),
            ("candor:candor1?priority=0", Some("use port = \"candor:candor1\"")),
            ("candor:candor256", Some("candor256")),
            ("candor:candor01", Some("candor01")),
        ] {
            let bus = |port: &str| Bus { name: "b".into(), port: port.into(), is_virtual: false };
            let buses = vec![bus("candor:candor0"), bus(port)];
            let rule = Rule::new("r", BusIndex(0), BusIndex(1));
            let table = Table { buses, rules: vec![rule.clone()], ..Table::default() };
            let found = obstacle(&table, &rule);
            match expected {
                None => assert_eq!(found, None),
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|it| it.contains(part)), "{found:?}");
                }
            }
        }
    }

    #[test]
    fn only_buses_that_rules_use_need_a_device() {
        let bus = |name: &str, port: &str| Bus {
            name: name.into(),
            port: port.into(),
            is_virtual: false,
        };
        let buses = vec![
            bus("a", "candor:candor3"),
            bus("b", "can0"),
            bus("c", "candor:candor1"),
            bus("d", "candor:candor0"),
        ];
        let rules = vec![Rule::new("r", BusIndex(0), BusIndex(3))];
        let program = Arc::new(Program::new(&Table { buses, rules, ..Table::default() }));
        assert_eq!(Loaded::new(&program).devices, [Some(3), None, None, Some(0)]);
    }

    #[test]
    fn a_device_that_takes_no_frames_is_a_trouble() {
        let said = |state: u32| trouble_of(state.into()).unwrap_or_default();
        assert!(said(state::BUS_OFF).starts_with("bus-off"));
        assert!(said(state::STOPPED).starts_with("stopped"));
        assert_eq!(said(state::PASSIVE), "");
    }

    #[test]
    fn what_was_added_up_is_not_counted_again() {
        let mut loaded = Loaded::new(&Arc::new(Program::new(&Table::default())));
        let counts = |handled, received| Counts {
            jobs: vec![JobCounts { handled, queue_full: handled, ..JobCounts::default() }],
            buses: vec![BusCounts { received, most_steps: received, ..BusCounts::default() }],
            is_gone: false,
        };
        assert_eq!(loaded.since(&counts(5, 7)).0[0].handled, 5);
        loaded.counted = counts(5, 7);
        let (jobs, buses) = loaded.since(&counts(9, 7));
        assert_eq!((jobs[0].handled, jobs[0].queue_full, buses[0].received), (4, 4, 0));
        // What is largest is not counted.
        assert_eq!(buses[0].most_steps, 7);
    }
}

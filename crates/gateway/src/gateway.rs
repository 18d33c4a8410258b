//! [`Gateway`]: the rules of a file, carried out by data planes, and changed while they run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use candor_engine::program::Program;
use candor_engine::{Bus, Rule, Table};
use candor_linux::clock;
use candor_port::Address;
use candor_time::{Instant, Monotonic};

use crate::Error;
#[cfg(feature = "daemon")]
use crate::control::PlanLine;
use crate::plan::{Planned, plan};
#[cfg(feature = "daemon")]
use crate::plane::name_of;
use crate::plane::{Choice, Config, Kind, Plane, Replays, Report, Share, keys_of};
use crate::silence::Silences;
use crate::snapshot::{PortSnapshot, RuleSnapshot, Snapshot};

/// Rules that were read and checked.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The file that they were read from; empty if they were not.
    pub file: PathBuf,
    pub table: Table,
    /// What is suspicious about them.
    pub warnings: String,
    /// The files that they name, beside the rule file.
    pub included: Vec<String>,
}

/// Rules with everything made for them that takes time and needs no gateway.
#[derive(Clone, Debug)]
pub struct Compiled {
    rules: Rules,
    planned: Vec<Planned>,
    /// By plane of the configuration: its rules, by index, and their program.
    shares: Vec<(Vec<usize>, Option<Arc<Program>>)>,
    /// The paths of recordings at which no port of this process writes.
    moved: BTreeSet<String>,
}

impl Compiled {
    /// Decides who carries out which rule, compiles them, and looks up the hosts that ports name.
    ///
    /// # Errors
    /// A rule cannot be carried out by the plane that shall do it.
    pub fn new(config: &Config, rules: Rules) -> Result<Self, Error> {
        let table = &rules.table;
        let none = BTreeSet::new();
        let planned = plan(table, config.planes, config.choice).map_err(|refused| {
            let title = match config.choice {
                Choice::Only(plane) => plane.title,
                Choice::Auto => "nothing",
            };
            let name = |rule: usize| table.rules.get(rule).map_or("", |rule| rule.name.as_str());
            let refused = refused.into_iter().map(|it| (name(it.rule).to_owned(), it.reason));
            Error::Plane(title, refused.collect())
        })?;
        let share = |kind: &&Kind| {
            let of_it = planned.iter().filter(|planned| planned.plane == *kind);
            let rules: Vec<usize> = of_it.map(|planned| planned.rule).collect();
            let share = Share { table, rules: &rules, program: None, moved: &none };
            let program = kind.compiles.then(|| Arc::new(Program::new(&share.own_table())));
            (rules, program)
        };
        let shares = config.planes.iter().map(share).collect();
        let ports = table.buses.iter().filter_map(|bus| bus.port.parse().ok());
        let ports: Vec<Address> = ports.collect();
        candor_drivers::look_up(&ports);
        let moved = ports.iter().filter(|port| candor_drivers::was_moved(port));
        let moved = moved.map(|port| port.place().to_owned()).collect();
        Ok(Self { rules, planned, shares, moved })
    }
}

/// A gateway at work. Dropping it ends it.
pub struct Gateway {
    config: Config,
    /// Where the rules in use were read.
    file: PathBuf,
    table: Table,
    planned: Vec<Planned>,
    /// The planes that have been started; first the one with the ports.
    planes: Vec<(&'static Kind, Box<dyn Plane>)>,
    started: Instant<Monotonic>,
    changes: u64,
    rejected: Option<String>,
    silences: Silences,
    /// Interfaces whose controllers have left their bus.
    bus_offs: BTreeSet<String>,
}

impl Gateway {
    /// Opens the ports of the rules and starts to work.
    ///
    /// # Errors
    /// A port cannot be opened, a rule cannot be carried out by the plane that shall do it, a priority
    /// cannot be had.
    pub fn start(config: Config, rules: Rules) -> Result<Self, Error> {
        let mut gateway = Self {
            file: config.file.clone(),
            config,
            table: Table::default(),
            planned: Vec::new(),
            planes: Vec::new(),
            started: clock::now::<Monotonic>(),
            changes: 0,
            rejected: None,
            silences: Silences::default(),
            bus_offs: BTreeSet::new(),
        };
        gateway.change(Compiled::new(&gateway.config, rules)?)?;
        gateway.changes = 0;
        Ok(gateway)
    }

    /// Puts other rules into place, each bus between two of its frames. On an error everything stays
    /// as it was.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub fn load(&mut self, rules: Rules) -> Result<(), Error> {
        let compiled = Compiled::new(&self.config, rules);
        self.load_compiled(compiled)
    }

    /// The same with rules that were compiled before, or what was wrong with them.
    ///
    /// # Errors
    /// As [`Gateway::load`].
    pub fn load_compiled(&mut self, compiled: Result<Compiled, Error>) -> Result<(), Error> {
        let outcome = compiled.and_then(|compiled| self.change(compiled));
        self.rejected = outcome.as_ref().err().map(Error::to_string);
        outcome
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

    /// Which plane carries out which rule.
    #[must_use]
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    fn change(&mut self, compiled: Compiled) -> Result<(), Error> {
        let Compiled { rules: Rules { file, table, .. }, planned, shares, moved } = compiled;
        let planes = self.config.planes;
        // First everything that may fail.
        for (index, (&kind, (rules, _))) in planes.iter().zip(&shares).rev().enumerate() {
            let is_wanted = index == 0 || !rules.is_empty();
            if is_wanted && self.planes.iter().all(|(running, _)| *running != kind) {
                self.planes.push((kind, (kind.start)(&self.config)?));
            }
        }
        for index in 0..self.planes.len() {
            let Some((kind, plane)) = self.planes.get_mut(index) else { continue };
            let share = planes.iter().position(|other| other == kind);
            let Some((rules, program)) = share.and_then(|share| shares.get(share)) else {
                continue;
            };
            let share = Share { table: &table, rules, program: program.as_ref(), moved: &moved };
            if let Err(error) = plane.prepare(&share) {
                for (_, plane) in self.planes.iter_mut().take(index) {
                    plane.abandon();
                }
                return Err(error);
            }
        }
        // From here on nothing fails.
        for (_, plane) in &mut self.planes {
            plane.commit();
        }
        self.changes += 1;
        if !file.as_os_str().is_empty() {
            self.file = file;
        }
        self.table = table;
        self.planned = planned;
        Ok(())
    }

    /// To be called every second: latencies of the last second, counters of the kernel, rules that are
    /// not in use any more.
    pub fn tick(&mut self) {
        for (_, plane) in &mut self.planes {
            plane.tick();
        }
        self.silences.look(&self.seen(), clock::now());
    }

    /// How many frames its planes have seen of each bus, by its name.
    fn seen(&self) -> BTreeMap<String, u64> {
        let mut seen: BTreeMap<_, _> =
            self.table.buses.iter().map(|bus| (bus.name.clone(), 0)).collect();
        for (_, plane) in &self.planes {
            plane.seen(&mut |bus, frames| {
                if let Some(sum) = seen.get_mut(bus) {
                    *sum += frames;
                }
            });
        }
        seen
    }

    /// For how long no frame has come from each port, if a rule takes frames of its bus.
    fn note_silences(&self, ports: &mut [PortSnapshot]) {
        let (seen, now) = (self.seen(), clock::now());
        let from =
            |rule: &Rule| self.table.buses.get(usize::from(rule.from.0)).map(|bus| &bus.name);
        let sources: BTreeSet<_> = self.table.rules.iter().filter_map(from).collect();
        for port in ports {
            port.silent_ns = sources.contains(&port.bus).then(|| {
                let frames = seen.get(&port.bus).copied().unwrap_or_default();
                self.silences.of(&port.bus, frames, now).as_nanos()
            });
        }
    }

    /// The interfaces whose controllers are bus-off now. Linux takes frames for them, and drops them.
    pub fn set_bus_offs(&mut self, interfaces: BTreeSet<String>) {
        self.bus_offs = interfaces;
    }

    /// The buses whose controllers are bus-off, each with the reason that its port does not work.
    fn bus_offs(&self) -> impl Iterator<Item = (&str, String)> {
        let is_off = |bus: &&Bus| self.bus_offs.contains(bus.interface());
        self.table.buses.iter().filter(is_off).map(|bus| {
            let why = format!("{} is bus-off until its controller is restarted", bus.interface());
            (bus.name.as_str(), why)
        })
    }

    fn note_bus_offs(&self, ports: &mut [PortSnapshot]) {
        for (bus, why) in self.bus_offs() {
            for port in ports.iter_mut().filter(|port| port.bus == bus) {
                port.trouble.get_or_insert_with(|| why.clone());
            }
        }
    }

    /// What has gone wrong with ports since this was asked last, and what is right again: a line for
    /// each. To be called every second. Of interfaces others tell.
    pub fn news(&mut self) -> Vec<String> {
        self.planes.iter_mut().flat_map(|(_, plane)| plane.news()).collect()
    }

    /// The ports that do not work now, each with the reason.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let of_planes = self.planes.iter().flat_map(|(_, plane)| plane.troubles());
        let of_links = self.bus_offs().map(|(bus, why)| format!("bus `{bus}`: {why}"));
        of_planes.chain(of_links).collect()
    }

    /// Opens ports again whose interfaces have come anew, so that sockets on them lead nowhere, and
    /// lets the worker of `changed` look again.
    pub fn heal(&mut self, is_new: impl Fn(&str) -> bool, changed: &str) {
        for (_, plane) in &mut self.planes {
            plane.heal(&is_new, changed);
        }
    }

    /// An interface went away: what waits for it is refused.
    pub fn close(&mut self, interface: &str) {
        for (_, plane) in &mut self.planes {
            plane.close(interface);
        }
    }

    /// Ends its work; what it has done can still be asked.
    pub fn stop(&mut self) {
        for (_, plane) in &mut self.planes {
            plane.stop();
        }
    }

    /// Which plane carries out which rule, by destination.
    #[cfg(feature = "daemon")]
    #[must_use]
    pub fn plan_lines(&self) -> Vec<PlanLine> {
        plan_lines(&self.table, &self.planned)
    }

    /// What it has done so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut report = Report::default();
        for (_, plane) in &self.planes {
            plane.report(&mut report);
        }
        self.note_silences(&mut report.ports);
        self.note_bus_offs(&mut report.ports);
        Snapshot {
            file: self.file.display().to_string(),
            pid: std::process::id(),
            uptime_ns: (clock::now::<Monotonic>() - self.started).as_nanos(),
            generation: self.changes,
            rejected: self.rejected.clone(),
            #[cfg(feature = "daemon")]
            messages_dropped: candor_output::messages::dropped(),
            #[cfg(not(feature = "daemon"))]
            messages_dropped: 0,
            rules: self.in_order(&mut report),
            ports: report.ports,
            latencies: report.latencies,
        }
    }

    /// The rules as in the file; those that are not in use any more at the end.
    fn in_order(&self, report: &mut Report) -> Vec<RuleSnapshot> {
        let all: Vec<_> = (0..self.table.rules.len()).collect();
        let keys = keys_of(&self.table, &all);
        let mut ordered: Vec<_> = keys.iter().filter_map(|key| report.rules.remove(key)).collect();
        ordered.extend(std::mem::take(&mut report.rules).into_values());
        ordered
    }

    /// How far the recordings are that are replayed, whatever other ports do.
    #[must_use]
    pub fn replays(&self) -> Replays {
        let replays = self.planes.iter().map(|(_, plane)| plane.replays());
        replays.max().unwrap_or(Replays::None)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Which plane carries out which rule, by destination, as plain data.
#[cfg(feature = "daemon")]
#[must_use]
pub fn plan_lines(table: &Table, planned: &[Planned]) -> Vec<PlanLine> {
    let mut lines = Vec::new();
    for planned in planned {
        let Some(rule) = table.rules.get(planned.rule) else { continue };
        lines.extend(rule.to.iter().map(|&to| PlanLine {
            rule: rule.name.clone(),
            from: name_of(table, rule.from),
            to: name_of(table, to),
            plane: planned.plane.name.to_owned(),
            reason: (!planned.is_preferred).then(|| planned.reason.clone()),
        }));
    }
    lines
}

//! Data planes: what carries out rules.
//!
//! ```text
//!  Table -- plan: who can? --> rules of can-gw     -- prepare, commit --> jobs in the kernel
//!                          |-> rules of candor_can -- prepare, commit --> an image in its interrupt handler
//!                          \-> rules of user space -- prepare, commit --> workers of this process
//! ```
//!
//! Rules change in two steps, so that no frame is lost, whichever plane a rule moves to: first every plane
//! [prepares](Plane::prepare) what can fail, then all [commit](Plane::commit). In between, a frame may be
//! passed on by two planes.
//!
//! To add a data plane: write one file with a [`Kind`], and name it in [`PLANES`].

mod can_gw;
mod candor_can;
mod retired;
mod user;

#[cfg(feature = "daemon")]
pub(crate) use user::bad_ports;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use candor_engine::program::Program;
use candor_engine::{BusIndex, Rule, Table};

use crate::Error;
use crate::snapshot::{LatencySnapshot, PortSnapshot, RuleSnapshot};

/// All data planes, the preferred one first. The last one can carry out every rule, and has the ports of
/// all buses.
pub static PLANES: &[&Kind] = &[&can_gw::KIND, &CANDOR_CAN, &USER];
/// The interrupt handler of the driver candor_can.
pub static CANDOR_CAN: Kind = candor_can::KIND;
/// Workers in user space.
pub static USER: Kind = user::KIND;

/// A kind of data plane.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name on the command line, in tables and JSON.
    pub name: &'static str,
    /// What carries out the rules, in messages such as "can-gw cannot run rule ...".
    pub title: &'static str,
    /// What it does, in a sentence without a full stop.
    pub help: &'static str,
    /// Why it cannot carry out a rule of a table, and what to do; `None` if it can.
    pub obstacle: fn(&Table, &Rule) -> Option<String>,
    /// The first bus whose rules, each of which it can carry out, are too much for it together, and why; `None` if none is.
    pub excess: fn(&Table) -> Option<(BusIndex, String)>,
    /// The most steps that the rules of a table take for one frame, copies that come back included; `None` if it does not count
    /// steps.
    pub most_steps: fn(&Table) -> Option<u64>,
    /// Whether it carries out a [`Program`].
    pub compiles: bool,
    /// Starts it, without rules. It is started when a rule is to be carried out by it.
    pub start: fn(&Config) -> Result<Box<dyn Plane>, Error>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Which data planes shall carry out the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Only(&'static Kind),
    /// Each rule the first one that can.
    Auto,
}

/// How a gateway runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rule file.
    pub file: PathBuf,
    /// The data planes that there are, the preferred one first. The last one has the ports of all buses.
    pub planes: &'static [&'static Kind],
    /// Which of them carry out the rules.
    pub choice: Choice,
    /// The real-time priority of workers, 1 to 99.
    pub priority: Option<u8>,
    /// The CPUs of workers.
    pub cpus: Vec<usize>,
    /// Whether latencies are measured.
    pub measures: bool,
    /// Whether frames are refused that go round between gateways.
    pub stops_loops: bool,
    /// Whether the first rules wait for ports that are not there yet. If not, they are refused, as later ones are in any case.
    pub waits: bool,
}

impl Default for Config {
    /// All rules in user space, by ordinary threads.
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            planes: PLANES,
            choice: Choice::Only(&USER),
            priority: None,
            cpus: Vec::new(),
            measures: false,
            stops_loops: false,
            waits: false,
        }
    }
}

/// How far the recordings are that are replayed. The greater one holds for several together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replays {
    None,
    /// All have ended, and what they caused has left.
    Done,
    /// All have ended, and some of what waits for a port may be of them.
    Leaving,
    /// One has not ended.
    Going,
}

/// What a plane is to carry out.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// All rules, and the buses.
    pub table: &'a Table,
    /// Those of the plane, by index.
    pub rules: &'a [usize],
    /// The same compiled, for a plane that [compiles](Kind::compiles).
    pub program: Option<&'a Arc<Program>>,
    /// The paths of recordings that were moved away from under the ports that write them: these are opened anew.
    pub moved: &'a BTreeSet<String>,
}

impl Share<'_> {
    /// Only the rules of the plane. Buses stay where they are.
    #[must_use]
    pub fn own_table(&self) -> Table {
        let Self { table, rules, .. } = self;
        Table {
            buses: table.buses.clone(),
            rules: rules.iter().filter_map(|&rule| table.rules.get(rule).cloned()).collect(),
            max_hops: table.max_hops,
            refuses_others: table.refuses_others,
        }
    }
}

/// A data plane at work. Dropping it ends it.
pub trait Plane: Send {
    /// Gets ready to carry out these rules instead of those before; everything that can fail. Those before are carried out until [`Plane::commit`].
    ///
    /// # Errors
    /// The rules cannot be carried out. Everything is as it was before.
    fn prepare(&mut self, share: &Share<'_>) -> Result<(), Error>;

    /// Carries out what was prepared. Counters go on: those of a rule by its name and buses.
    fn commit(&mut self);

    /// Takes back what was prepared.
    fn abandon(&mut self);

    /// To be called every second.
    fn tick(&mut self);

    /// What has gone wrong since this was asked last, and what is right again: a line for each. Of
    /// interfaces others tell.
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The ports that do not work now, each with the reason.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    /// The interface `changed` is up or there again; for which `is_new` is true, they were made anew since,
    /// so that what was open on them leads nowhere.
    fn heal(&mut self, is_new: &dyn Fn(&str) -> bool, changed: &str);

    /// An interface went away.
    fn close(&mut self, interface: &str) {
        let _ = interface;
    }

    /// How far the recordings are that it replays.
    fn replays(&self) -> Replays {
        Replays::None
    }

    /// Tells `add` how many frames it has seen of each bus, by the name of the bus. Two numbers for one bus add up.
    fn seen(&self, add: &mut dyn FnMut(&str, u64));

    /// Adds what it has done so far.
    fn report(&self, report: &mut Report);

    /// Ends its work; what it has done can still be asked.
    fn stop(&mut self);
}

/// A rule, the bus it takes frames from, and one that they go to, by name.
pub type RuleKey = (String, String, String);

/// What the planes of a gateway have done so far.
#[derive(Debug, Default)]
pub struct Report {
    /// Ports, in the order of the buses.
    pub ports: Vec<PortSnapshot>,
    /// How long frames take from port to port.
    pub latencies: Vec<LatencySnapshot>,
    pub(crate) rules: BTreeMap<RuleKey, RuleSnapshot>,
}

impl Report {
    /// What a plane counts for a rule, to be added to. If the rule is `in_use`, it is this plane that
    /// carries it out.
    pub fn rule(&mut self, key: &RuleKey, plane: &Kind, in_use: bool) -> &mut RuleSnapshot {
        let rule = self.rules.entry(key.clone()).or_insert_with(|| RuleSnapshot {
            rule: key.0.clone(),
            from: key.1.clone(),
            to: key.2.clone(),
            plane: plane.name.into(),
            ..RuleSnapshot::default()
        });
        if in_use {
            rule.plane = plane.name.into();
            rule.in_use = true;
        }
        rule
    }
}

/// The name of a bus of a table.
pub(crate) fn name_of(table: &Table, bus: BusIndex) -> String {
    table.buses.get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
}

/// What the jobs of a program are counted by.
pub(crate) fn keys_of_program(program: &Program) -> impl Iterator<Item = RuleKey> + '_ {
    let name = |bus: BusIndex| {
        program.buses().get(usize::from(bus.0)).map_or(String::new(), |bus| bus.name.clone())
    };
    program.jobs().iter().map(move |job| (job.rule.clone(), name(job.from), name(job.to)))
}

/// What rules of a table are counted by, one key for each of their destinations.
pub fn keys_of(table: &Table, rules: &[usize]) -> Vec<RuleKey> {
    let rules = rules.iter().filter_map(|&rule| table.rules.get(rule));
    let keys = rules.flat_map(|rule| {
        let key = |&to| (rule.name.clone(), name_of(table, rule.from), name_of(table, to));
        rule.to.iter().map(key)
    });
    keys.collect()
}

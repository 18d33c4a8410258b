//! What the command line sets must change something: names that the file does not know and settings
//! that no selected experiment uses are errors.
//!
//! A file may set what only some of its experiments use. On the command line such a setting is
//! a mistake, and a run that ignores it gives a wrong answer without a word.

use candor_config::{Table, Value};
use candor_diagnostics::did_you_mean;
use candor_protocol::Tester;

use super::leaves::leaves;
use crate::error::Error;
use crate::experiment::{CanGateway, Experiment, Kind, Pace, Testbed, Traffic, World};
use crate::glob;

/// Who uses a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Sim,
    Vm,
    Outside,
    Errors,
    Generated,
    Numbered,
    OneAtATime,
    Periodic,
    Replay,
    SignalService,
    Ping,
    Threads,
    TimeTriggered,
}

/// The settings that not every experiment uses. A pattern stands for dotted keys.
const USERS: [(&str, User); 50] = [
    ("network.*", User::TimeTriggered),
    ("measure.*", User::TimeTriggered),
    ("driver.*", User::TimeTriggered),
    ("ping.*", User::Ping),
    ("ping.priority", User::Threads),
    ("ping.virtual", User::Vm),
    ("service.*", User::SignalService),
    ("subscribers.*", User::SignalService),
    ("traffic.rate", User::SignalService),
    ("traffic.ids", User::SignalService),
    ("vm", User::Vm),
    ("vm.*", User::Vm),
    ("load.groups", User::Vm),
    ("load.ping_bytes", User::Vm),
    ("load.datagrams", User::Outside),
    ("load.period", User::Outside),
    ("load.link", User::Outside),
    ("gateway.priority", User::Vm),
    ("gateway.receive_buffer", User::Vm),
    ("gateway.port", User::Vm),
    ("gateway.measures", User::Vm),
    ("gateway.command", User::Vm),
    ("gateway.files", User::Vm),
    ("gateway.profile", User::Sim),
    ("gateway.delay", User::Sim),
    ("gateway.egress", User::Sim),
    ("instrument", User::Sim),
    ("bus.*.bit_error_rate", User::Errors),
    ("bus.*.restart", User::Errors),
    ("bus.*.dbc", User::Periodic),
    ("traffic.id", User::Numbered),
    ("traffic.length", User::Numbered),
    ("traffic.fd", User::Numbered),
    ("traffic.fill", User::Generated),
    ("traffic.timeout", User::Numbered),
    ("traffic.turnaround_*", User::OneAtATime),
    ("traffic.nodes*", User::Periodic),
    ("traffic.node", User::Periodic),
    ("traffic.node.*", User::Periodic),
    ("traffic.queue_depth", User::Periodic),
    ("traffic.offset", User::Periodic),
    ("traffic.offsets", User::Periodic),
    ("traffic.offsets.*", User::Periodic),
    ("traffic.dbc", User::Periodic),
    ("traffic.message", User::Periodic),
    ("traffic.queue", User::Periodic),
    ("traffic.log", User::Replay),
    ("traffic.interface", User::Replay),
    ("traffic.speed", User::Replay),
    ("traffic.bus", User::Replay),
];

impl User {
    fn is(self, experiment: &Experiment) -> bool {
        let CanGateway { traffic, world, .. } = match &experiment.kind {
            Kind::CanGateway(can) => &**can,
            Kind::SignalService(_) => return self == Self::SignalService,
            Kind::Ping(ping) => {
                return match self {
                    Self::Ping => true,
                    Self::Errors => ping.world.testbed() == Testbed::Sim,
                    Self::Threads => ping.world.testbed() != Testbed::Sim,
                    // Its tester is of the guest, but the station of an Ethernet load is outside.
                    Self::Vm | Self::Outside => ping.world.testbed() == Testbed::Vm,
                    _ => false,
                };
            }
            Kind::TimeTriggered(_) => return self == Self::TimeTriggered,
        };
        match (self, traffic) {
            (Self::SignalService | Self::Ping | Self::Threads | Self::TimeTriggered, _) => false,
            (Self::Sim, _) => world.testbed() == Testbed::Sim,
            (Self::Vm, _) => world.testbed() == Testbed::Vm,
            (Self::Outside, _) => match world {
                World::Sim(_) => false,
                World::Vm(vm) => vm.machine.tester == Tester::Outside,
            },
            (Self::Errors, _) => match world {
                World::Sim(_) => true,
                World::Vm(vm) => vm.machine.tester == Tester::Outside,
            },
            (Self::Generated, traffic) => !matches!(traffic, Traffic::Replay { .. }),
            (Self::Numbered, traffic) => matches!(traffic, Traffic::Numbered { .. }),
            (Self::OneAtATime, traffic) => {
                matches!(traffic, Traffic::Numbered { pace: Pace::OneAtATime { .. }, .. })
            }
            (Self::Periodic, traffic) => matches!(traffic, Traffic::Periodic),
            (Self::Replay, traffic) => matches!(traffic, Traffic::Replay { .. }),
        }
    }

    /// Why a setting has no effect without such an experiment, and what to do.
    const fn advice(self) -> &'static str {
        match self {
            Self::Sim => "no experiment runs on the sim testbed; add --testbed sim",
            Self::Vm => "no experiment runs on the vm testbed; add --testbed vm",
            Self::Outside => {
                "no experiment has its tester outside of the guest; add --set vm.tester=\"outside\""
            }
            Self::Errors => {
                "no experiment runs on buses that can have errors; add --testbed sim, or --set \
                 vm.tester=\"outside\""
            }
            Self::Generated => {
                "no experiment generates frames; set traffic.kind=one-at-a-time, half, flood or \
                 periodic"
            }
            Self::Numbered => {
                "no experiment sends numbered frames; set traffic.kind=one-at-a-time, half or flood"
            }
            Self::OneAtATime => {
                "no experiment sends one frame at a time; set traffic.kind=one-at-a-time"
            }
            Self::Periodic => "no experiment sends periodic messages; set traffic.kind=periodic",
            Self::SignalService => {
                "no experiment examines the signal service; set kind=signal-service"
            }
            Self::Ping => "no experiment measures round trips; set kind=ping",
            Self::Threads => {
                "no experiment measures round trips by programs with a priority; add --testbed vm or \
                 --testbed host"
            }
            Self::TimeTriggered => {
                "no experiment examines time-triggered Ethernet; set kind=time-triggered"
            }
            Self::Replay => "no experiment replays a recording; set traffic.kind=replay",
        }
    }

    /// Refuses `option` unless one of the experiments uses what it sets.
    pub(super) fn require(self, option: &str, experiments: &[Experiment]) -> Result<(), Error> {
        if experiments.iter().any(|experiment| self.is(experiment)) {
            return Ok(());
        }
        Err(Error::Other(format!("{option} has no effect: {}", self.advice())))
    }
}

/// Refuses what `--set` gave as the table `over` unless one of the experiments uses it.
pub(super) fn require(set: &str, over: &Table, experiments: &[Experiment]) -> Result<(), Error> {
    for (path, _) in leaves(over, &mut Vec::new()) {
        let key = path.join(".");
        let users = USERS.iter().filter(|(pattern, _)| glob::matches(pattern, &key));
        for (_, user) in users {
            user.require(&format!("--set {set}"), experiments)?;
        }
    }
    Ok(())
}

/// A bus that `over` has and `table` has not, and the one that may be meant: what is laid over an
/// experiment changes its buses and adds none.
pub(super) fn unknown_bus(table: &Table, over: &Table) -> Option<(String, String)> {
    let known = table.get("bus").and_then(Value::as_table)?;
    let bus_of = |path: Vec<String>| match &path[..] {
        [bus, name, ..] if bus == "bus" => Some(name.clone()),
        _ => None,
    };
    let mut buses = leaves(over, &mut Vec::new()).into_iter().filter_map(|(path, _)| bus_of(path));
    let unknown = buses.find(|name| known.get(name).is_none())?;
    let names = || known.entries().iter().map(|entry| entry.key.as_str());
    let hint = match did_you_mean(&unknown, names()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the buses are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Some((unknown, hint))
}

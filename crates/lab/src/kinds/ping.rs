//! Round trips between two programs, on one bus.

mod columns;
mod guest;
mod live;
mod read;
mod simulated;
mod trips;

use std::path::Path;

use candor_lat::TapPath;
use candor_lat::result::ResultFile;
use candor_network::Bus;
use candor_ping::Pair;
use candor_protocol::Report;
use candor_protocol::order::Measurement;
use candor_time::Nanos;
use candor_vm::Identity;

use super::{Key, KindEntry};
use crate::buses::BusFaults;
use crate::error::Error;
use crate::experiment::{Experiment, InGuest, Kind, Run, Testbed, Vm};

/// Round trips between a master and a slave, each with a controller of its own, on one bus.
#[derive(Clone, Debug)]
pub struct Ping {
    /// The bus.
    pub bus: Bus,
    /// The data length in bytes.
    pub length: u8,
    /// The mean time between two requests; zero for as soon as the one before is answered.
    pub period: Nanos,
    /// Whether requests are sent when they are due, also while others wait for their answers.
    pub is_open_loop: bool,
    /// An answer that comes after this is late.
    pub timeout: Nanos,
    /// The world, and what only that world wants to know.
    pub world: PingWorld,
}

/// The world of round trips, with its own settings.
#[derive(Clone, Debug)]
pub enum PingWorld {
    /// A bus in virtual time, where programs take none; and what can go wrong on it.
    Sim(BusFaults),
    /// Controllers and programs of one guest.
    Vm {
        /// Whether master and slave are on one virtual device, instead of two controllers on one bus.
        is_virtual: bool,
        /// Who answers.
        partner: Partner,
        /// The machine, what passes for its gateway, and how both are set up.
        vm: Box<Vm>,
    },
    /// Threads of this machine, on a bus of the driver `sim:`.
    Host {
        /// Their priority of `SCHED_FIFO`; 0 for none.
        priority: u8,
    },
}

/// Who answers the requests of a master in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// A slave in the same guest, with a controller of its own.
    Guest,
    /// A node outside of the guest: it wants to send each answer at the instant at which the request ends.
    Outside,
}

impl PingWorld {
    #[must_use]
    pub const fn testbed(&self) -> Testbed {
        match self {
            Self::Sim(_) => Testbed::Sim,
            Self::Vm { .. } => Testbed::Vm,
            Self::Host { .. } => Testbed::Host,
        }
    }
}

pub(super) static KIND: KindEntry = KindEntry {
    name: "ping",
    testbeds: &[Testbed::Sim, Testbed::Vm, Testbed::Host],
    has_own_network: false,
    read: read::read,
    check_parts: None,
    keys: &KEYS,
    tables: &[(TapPath::ROUND_TRIP, columns::columns)],
};

static KEYS: [Key; 13] = [
    Key {
        pattern: "ping.priority",
        uses: |it| runs(it, |testbed| testbed != Testbed::Sim),
        advice: "no experiment measures round trips by programs with a priority; add --testbed vm or --testbed host",
    },
    on_vm("ping.virtual"),
    on_vm("ping.partner"),
    Key {
        pattern: "ping.*",
        uses: |it| runs(it, |_| true),
        advice: "no experiment measures round trips; set kind=ping",
    },
    in_sim("bus.*.bit_error_rate"),
    in_sim("bus.*.restart"),
    on_vm("vm"),
    on_vm("vm.*"),
    on_vm("load.groups"),
    on_vm("load.ping_bytes"),
    // The station of an Ethernet load is outside, though the tester is of the guest.
    on_vm("load.datagrams"),
    on_vm("load.period"),
    on_vm("load.link"),
];

fn runs(experiment: &Experiment, is_there: fn(Testbed) -> bool) -> bool {
    experiment.of::<Ping>().is_some_and(|ping| is_there(ping.world.testbed()))
}

const fn in_sim(pattern: &'static str) -> Key {
    let advice = "no experiment runs on buses that can have errors; add --testbed sim";
    Key { pattern, uses: |it| runs(it, |testbed| testbed == Testbed::Sim), advice }
}

const fn on_vm(pattern: &'static str) -> Key {
    let advice = "no experiment runs on the vm testbed; add --testbed vm";
    Key { pattern, uses: |it| runs(it, |testbed| testbed == Testbed::Vm), advice }
}

impl Kind for Ping {
    fn path(&self) -> &'static TapPath {
        TapPath::ROUND_TRIP
    }

    fn testbed(&self) -> Testbed {
        self.world.testbed()
    }

    fn simulate<'a>(&'a self, run: Run<'a>) -> Option<Result<ResultFile, Error>> {
        let PingWorld::Sim(faults) = self.world else { return None };
        Some(simulated::run(run, (self, faults, Pair::DEFAULT)))
    }

    fn on_host<'a>(&'a self, run: Run<'a>, _: &Path) -> Option<Result<ResultFile, Error>> {
        let PingWorld::Host { priority } = self.world else { return None };
        Some(live::run(run, (self, priority)))
    }

    fn in_guest(&self) -> Option<(&dyn InGuest, &Vm)> {
        let PingWorld::Vm { vm, .. } = &self.world else { return None };
        Some((self, vm))
    }
}

impl InGuest for Ping {
    fn order(&self, experiment: &Experiment, vm: &Vm) -> Result<Measurement, Error> {
        Ok(guest::order(experiment, self, vm))
    }

    fn evaluate(
        &self,
        run: Run<'_>,
        (vm, machine): (&Vm, Identity),
        report: &Report,
    ) -> Result<ResultFile, Error> {
        guest::evaluate(run, (self, vm, machine), report)
    }
}

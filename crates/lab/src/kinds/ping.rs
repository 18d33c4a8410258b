//! Round trips between two programs.

mod columns;
mod guest;
mod read;

use candor_lat::TapPath;
use candor_lat::result::ResultFile;
use candor_network::Bus;
use candor_protocol::Report;
use candor_protocol::order::Measurement;
use candor_time::Nanos;
use candor_vm::Identity;

use super::{Key, KindEntry};
use crate::error::Error;
use crate::experiment::{Experiment, InGuest, Kind, Run, Testbed, Vm};

/// Round trips between a master and a slave, each with a controller of the same guest, on one bus.
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
    /// Whether master and slave are on one virtual device, instead of two controllers on one bus.
    pub is_virtual: bool,
    /// The machine, what passes for its gateway, and how both are set up.
    pub vm: Vm,
}

pub(super) static KIND: KindEntry = KindEntry {
    name: "ping",
    testbeds: &[Testbed::Vm],
    has_own_network: false,
    read: read::read,
    check_parts: None,
    keys: &KEYS,
    tables: &[(TapPath::ROUND_TRIP, columns::columns)],
};

static KEYS: [Key; 8] = [
    key("ping.*", "no experiment measures round trips; set kind=ping"),
    key("vm", ON_VM),
    key("vm.*", ON_VM),
    key("load.groups", ON_VM),
    key("load.ping_bytes", ON_VM),
    // The station of an Ethernet load is outside, though the tester is of the guest.
    key("load.datagrams", ON_VM),
    key("load.period", ON_VM),
    key("load.link", ON_VM),
];

const ON_VM: &str = "no experiment runs on the vm testbed; add --testbed vm";

/// A setting of all round trips.
const fn key(pattern: &'static str, advice: &'static str) -> Key {
    Key { pattern, uses: |it| it.of::<Ping>().is_some(), advice }
}

impl Kind for Ping {
    fn path(&self) -> &'static TapPath {
        TapPath::ROUND_TRIP
    }

    fn testbed(&self) -> Testbed {
        Testbed::Vm
    }

    fn in_guest(&self) -> Option<&dyn InGuest> {
        Some(self)
    }
}

impl InGuest for Ping {
    fn vm(&self) -> &Vm {
        &self.vm
    }

    fn order(&self, experiment: &Experiment) -> Result<Measurement, Error> {
        Ok(guest::order(experiment, self))
    }

    fn evaluate(
        &self,
        run: Run<'_>,
        machine: Identity,
        report: &Report,
    ) -> Result<ResultFile, Error> {
        guest::evaluate(run, (self, machine), report)
    }
}

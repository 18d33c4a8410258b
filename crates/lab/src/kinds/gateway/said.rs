//! What a file says beside its buses and rules, and what a world makes of it.

use candor_config::Table;
use candor_diagnostics::Origin;
use candor_network::Bus;
use candor_protocol::order::{Controller, Tester};

use super::keys;
use super::settings::{Traffic, World};
use crate::experiment::Load;
use crate::reading::machine::{self, LoadSize};

/// What a file says beside its buses, rules and traffic, before a world has looked at it.
pub(super) struct Said<'a> {
    pub(super) gateway: Option<keys::Said<'a>>,
    pub(super) load: Load,
    pub(super) load_size: LoadSize,
    pub(super) machine: machine::Said,
    /// Where the tester of a virtual machine is.
    pub(super) tester: Tester,
    pub(super) traffic: Option<Traffic>,
    /// How many frames come before those that count.
    pub(super) warm_up: Option<u64>,
    pub(super) wants_tester: bool,
    pub(super) tester_origin: &'a Origin,
    /// The place of a setting that may be absent: then that of its table.
    pub(super) table: &'a Table,
}

impl<'a> Said<'a> {
    /// Where the value of a setting stands, or what is around it.
    pub(super) fn origin_of(&self, path: &[&str]) -> &'a Origin {
        let mut table = self.table;
        let mut origin = table.origin();
        for key in path {
            let Some(value) = table.get(key) else { break };
            origin = &value.origin;
            let Some(inner) = value.as_table() else { break };
            table = inner;
        }
        origin
    }

    /// Whether a setting has a value.
    pub(super) fn says(&self, path: &[&str]) -> bool {
        let Some((last, before)) = path.split_last() else { return false };
        let mut table = Some(self.table);
        for key in before {
            table = table.and_then(|it| it.get(key)?.as_table());
        }
        table.is_some_and(|it| it.get(last).is_some())
    }
}

/// Where the tester of a virtual machine is: as the file says, or else outside of the guest. CAN FD has it inside, since the controllers of timed buses
/// are SJA1000s.
pub(super) fn place_of_tester(machine: &machine::Said, buses: &[Bus]) -> Tester {
    let is_fd =
        machine.controller == Some(Controller::CtuCanFd) || buses.iter().any(|bus| bus.is_fd);
    machine.tester.unwrap_or(if is_fd { Tester::Inside } else { Tester::Outside })
}

/// A world that can host an experiment.
pub(super) struct Hosted {
    pub(super) world: World,
    pub(super) traffic: Traffic,
    pub(super) rules: Option<candor_engine::Table>,
    pub(super) conditions: String,
}

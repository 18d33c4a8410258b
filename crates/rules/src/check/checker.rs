//! What all checks have at hand: the rules, what each of them takes, and where findings go.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use candor_diagnostics::{Findings, Origin};
use candor_signals::Message;

use crate::region::{Budget, Region};
use candor_engine::{BusIndex, Gate, Table};

/// What a finding is about, to be turned into a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The bus of that index.
    Bus(usize),
    /// The rule of that index, and the key that matters. `rate` stands for `min_interval`, too.
    Rule(usize, &'static str),
}

/// How many steps the search for overlaps, and that for loops, may take: some thousand rules of any
/// kind, and a second at most.
pub(super) const BUDGET: usize = 20_000_000;

pub(super) struct Checker<'a> {
    pub(super) table: &'a Table,
    /// What each rule takes.
    pub(super) regions: Vec<Region>,
    /// By bus, the messages that its DBC file describes.
    pub(super) messages: &'a [&'a [Message]],
    pub(super) origin: &'a dyn Fn(Place) -> Origin,
    pub(super) findings: &'a Findings,
}

impl Checker<'_> {
    pub(super) fn bus_name(&self, bus: BusIndex) -> &str {
        self.table.buses.get(usize::from(bus.0)).map_or("?", |bus| bus.name.as_str())
    }

    pub(super) fn rule_name(&self, rule: usize) -> &str {
        self.table.rules.get(rule).map_or("?", |rule| rule.name.as_str())
    }

    pub(super) fn warn(&self, place: Place, message: String, hint: impl Into<String>) {
        self.findings.warning(&(self.origin)(place), message, hint);
    }

    pub(super) fn error(&self, place: Place, message: String, hint: impl Into<String>) {
        self.findings.error_with_hint(&(self.origin)(place), message, hint);
    }

    pub(super) fn tell_exhausted(&self, budget: &Budget, what: &str) {
        if budget.0 == 0 {
            let message = format!("there are too many rules to check for all {what}");
            self.warn(Place::Rule(0, "name"), message, "the rules may still be correct");
        }
    }
}

/// Whether a frame can pass both gates.
pub(super) fn gates_meet(a: Gate, b: Gate) -> bool {
    a == b || a == Gate::Any || b == Gate::Any
}

//! Networks of time-triggered Ethernet.

mod columns;
mod flow;
mod live;
mod read;
mod simulated;

use std::path::Path;

use candor_lat::TapPath;
use candor_lat::result::ResultFile;
use candor_time::Nanos;
use candor_tte::model::Framing;

use super::{Key, KindEntry};
use crate::error::Error;
use crate::experiment::{Kind, Run, Testbed};

/// A network of time-triggered Ethernet, and the flow that is measured in it.
#[derive(Clone, Debug)]
pub struct TimeTriggered {
    /// The network with its schedule.
    pub network: candor_tte::Network,
    /// The flow, by its index.
    pub flow: usize,
    /// Who receives it, by its index.
    pub receiver: usize,
    /// Where its latency begins.
    pub framing: Framing,
    /// The latency that somebody published for these conditions.
    pub published: Option<Nanos>,
    /// What the receiving side adds to each latency; of a simulation.
    pub instrument: TimeStamping,
    /// Where it runs.
    pub testbed: Testbed,
    /// What is wrong with the schedule: it is measured all the same.
    pub schedule_errors: Vec<String>,
}

/// What a driver that takes its time stamp late adds to a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStamping {
    /// Frames of this size and longer are copied before they are stamped.
    pub copied_from: Option<u16>,
    /// How long that takes.
    pub copy: Nanos,
    /// The width within which the time for a copy varies.
    pub copy_jitter: Nanos,
}

pub(super) static KIND: KindEntry = KindEntry {
    name: "time-triggered",
    testbeds: &[Testbed::Sim, Testbed::Host],
    has_own_network: true,
    read: read::read,
    check_parts: None,
    keys: &[key("network.*"), key("measure.*"), key("driver.*")],
    tables: &[(TapPath::TIME_TRIGGERED, columns::columns)],
};

/// A setting of all networks of this kind.
const fn key(pattern: &'static str) -> Key {
    let advice = "no experiment examines time-triggered Ethernet; set kind=time-triggered";
    Key { pattern, uses: |it| it.of::<TimeTriggered>().is_some(), advice }
}

impl Kind for TimeTriggered {
    fn path(&self) -> &'static TapPath {
        TapPath::TIME_TRIGGERED
    }

    fn testbed(&self) -> Testbed {
        self.testbed
    }

    fn simulate<'a>(&'a self, run: Run<'a>) -> Option<Result<ResultFile, Error>> {
        Some(simulated::run(self, run))
    }

    fn on_host<'a>(&'a self, run: Run<'a>, _: &Path) -> Option<Result<ResultFile, Error>> {
        Some(live::run(self, run))
    }
}

//! [`CanGateway`]: the network, what is sent on it, and the world around both.

use std::path::PathBuf;

use candor_network::Network;
use candor_sim::instrument::Instrument;
use candor_sim::model::Model;
use candor_time::Nanos;

use super::sources::Numbered;
use crate::buses::BusFaults;
use crate::experiment::{Testbed, Vm};

/// CAN buses, with a gateway or without.
#[derive(Clone, Debug)]
pub struct CanGateway {
    /// The network. Its first bus is the source of generated traffic, the second its target; its nodes send
    /// periodic traffic; it has one gateway at most.
    pub network: Network,
    /// What is sent.
    pub traffic: Traffic,
    /// The world, and what only that world wants to know.
    pub world: World,
}

impl CanGateway {
    /// The rules of the gateway; `None` if there is no gateway.
    #[must_use]
    pub fn rules(&self) -> Option<&candor_engine::Table> {
        self.network.gateways.first().map(|gateway| &gateway.rules)
    }

    /// A frame whose main latency is longer is late, in ns; `None` for traffic with times of its own.
    pub(super) fn late_after_ns(&self) -> Option<i64> {
        match &self.traffic {
            Traffic::Numbered { timeout, .. } => i64::try_from(timeout.as_nanos()).ok(),
            Traffic::Periodic | Traffic::Replay { .. } => None,
        }
    }
}

/// The world of CAN buses, with its own settings.
#[derive(Clone, Debug)]
pub enum World {
    /// Buses and hosts in virtual time.
    Sim(Sim),
    /// Real kernels in QEMU.
    Vm(Box<Vm>),
}

impl World {
    #[must_use]
    pub const fn testbed(&self) -> Testbed {
        match self {
            Self::Sim(_) => Testbed::Sim,
            Self::Vm(_) => Testbed::Vm,
        }
    }
}

/// The settings of a simulation.
#[derive(Clone, Debug)]
pub struct Sim {
    /// What can go wrong on each bus, in the order of the network's.
    pub faults: Vec<BusFaults>,
    /// The host of the gateway, if there is one.
    pub model: Option<Model>,
    /// Whether latencies are measured as the papers' tester would, and with which costs.
    pub instrument: Option<Instrument>,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Numbered frames from one sender.
    Numbered {
        frames: Numbered,
        /// When the next one is sent.
        pace: Pace,
        /// A frame that has not arrived after this is lost.
        timeout: Nanos,
    },
    /// Messages with periods, from the nodes of the network.
    Periodic,
    /// A recording.
    Replay {
        log: PathBuf,
        /// Only this interface.
        interface: Option<String>,
        /// How many times faster than recorded.
        speed: f64,
        /// The bus it is sent on.
        bus: usize,
    },
}

/// When the next numbered frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When the one before has arrived, and a random while later.
    OneAtATime {
        /// Shortest and longest while.
        turnaround: (Nanos, Nanos),
    },
    /// At random times, whatever became of the frames before.
    OpenLoop {
        /// Shortest and longest time between two.
        gap: (Nanos, Nanos),
    },
    /// At every second frame time.
    Half,
    /// Back to back.
    Flood {
        /// How long after the end of a frame the sender has the next one for its controller.
        gap: Nanos,
    },
}

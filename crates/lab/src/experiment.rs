//! [`Experiment`]: one experiment, ready to run. Plain data; [`campaign`](crate::campaign) reads it from
//! a file.

use std::fmt;
use std::path::{Path, PathBuf};

use candor_config::quoted;
use candor_lat::TapPath;
use candor_network::{Bus, Network};
use candor_protocol::order::{self, Controller, File, Settings};
use candor_sim::instrument::Instrument;
use candor_sim::model::Model;
use candor_time::Nanos;
use candor_tte::model::Framing;
use serde::{Deserialize, Serialize};

use crate::traffic::Numbered;

/// One experiment, ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name, unique in its campaign and fit for a file.
    pub name: String,
    /// The name in the file of experiments: the runs with several seeds share it.
    pub group: String,
    /// What it is about.
    pub title: String,
    /// Its place in the matrix.
    pub axes: Vec<(String, String)>,
    /// Everything that was set, as TOML.
    pub config: String,
    /// The seed.
    pub seed: u64,
    /// Frames to send at most.
    pub count: u64,
    /// World and conditions, for people, as far as they are known before it runs.
    pub conditions: String,
    /// Files that were read.
    pub inputs: Vec<Input>,
    /// Whether a line per frame is written.
    pub per_frame: bool,
    /// What is examined.
    pub kind: Kind,
}

impl Experiment {
    /// The taps that its frames pass.
    #[must_use]
    pub const fn path(&self) -> &'static TapPath {
        match &self.kind {
            Kind::CanGateway(can) => match &can.world {
                World::Vm(vm) if matches!(vm.gateway, order::Gateway::Reader) => TapPath::RECEPTION,
                World::Vm(_) | World::Sim(_) => TapPath::CAN_GATEWAY,
            },
            Kind::SignalService(_) => TapPath::SIGNAL_SERVICE,
            Kind::Ping(_) => TapPath::ROUND_TRIP,
            Kind::TimeTriggered(_) => TapPath::TIME_TRIGGERED,
        }
    }

    /// The testbed that it runs in.
    #[must_use]
    pub const fn testbed(&self) -> Testbed {
        match &self.kind {
            Kind::CanGateway(can) => can.world.testbed(),
            Kind::SignalService(_) => Testbed::Host,
            Kind::Ping(ping) => ping.world.testbed(),
            Kind::TimeTriggered(time_triggered) => time_triggered.testbed,
        }
    }

    /// Buses and gateway, if these are examined.
    #[must_use]
    pub const fn can_gateway(&self) -> Option<&CanGateway> {
        match &self.kind {
            Kind::CanGateway(can) => Some(can),
            Kind::SignalService(_) | Kind::Ping(_) | Kind::TimeTriggered(_) => None,
        }
    }

    /// The virtual machine with its settings, if it runs on one.
    #[must_use]
    pub fn vm(&self) -> Option<&Vm> {
        match &self.kind {
            Kind::Ping(ping) => match &ping.world {
                PingWorld::Vm { vm, .. } => Some(vm),
                PingWorld::Sim(_) | PingWorld::Host { .. } => None,
            },
            Kind::CanGateway(can) => match &can.world {
                World::Vm(vm) => Some(vm),
                World::Sim(_) => None,
            },
            Kind::SignalService(_) | Kind::TimeTriggered(_) => None,
        }
    }
}

/// What an experiment examines.
#[derive(Clone, Debug)]
pub enum Kind {
    /// CAN buses, with a gateway or without.
    CanGateway(Box<CanGateway>),
    /// The signal service, by processes of this machine.
    SignalService(Box<SignalService>),
    /// Round trips between two controllers on one bus.
    Ping(Box<Ping>),
    /// A network of time-triggered Ethernet.
    TimeTriggered(Box<TimeTriggered>),
}

impl Kind {
    /// The names in files.
    pub(crate) const NAMES: [&str; 4] = ["can-gateway", "signal-service", "ping", "time-triggered"];

    /// The name in files.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CanGateway(_) => Self::NAMES[0],
            Self::SignalService(_) => Self::NAMES[1],
            Self::Ping(_) => Self::NAMES[2],
            Self::TimeTriggered(_) => Self::NAMES[3],
        }
    }
}

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
}

/// The signal service between a sender of datagrams and subscribers, each a process.
#[derive(Clone, Debug)]
pub struct SignalService {
    /// Events per second.
    pub rate_hz: u32,
    /// How many identifiers they have.
    pub ids: u16,
    /// How long the service gathers events.
    pub coalesce: Nanos,
    /// How it is subscribed to.
    pub subscriber: SubscriberKind,
    /// By how many.
    pub subscribers: u32,
}

impl SignalService {
    /// What is examined, for people.
    pub(crate) fn describe(&self) -> String {
        let whom = match (self.subscriber, self.subscribers) {
            (SubscriberKind::None, _) => "no subscriber".to_owned(),
            (kind, 1) => format!("one subscriber, {}", kind.description()),
            (kind, many) => format!("{many} subscribers, {}", kind.description()),
        };
        format!(
            "processes of this machine; {} events/s of {} identifiers over can2udp, gathered for {}; {whom}",
            self.rate_hz, self.ids, self.coalesce
        )
    }
}

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
        /// The machine, what passes for its gateway, and how both are set up.
        vm: Box<Vm>,
    },
    /// Threads of this machine, on a bus of the driver `sim:`.
    Host {
        /// Their priority of `SCHED_FIFO`; 0 for none.
        priority: u8,
    },
}

impl PingWorld {
    /// Which it is.
    #[must_use]
    pub const fn testbed(&self) -> Testbed {
        match self {
            Self::Sim(_) => Testbed::Sim,
            Self::Vm { .. } => Testbed::Vm,
            Self::Host { .. } => Testbed::Host,
        }
    }
}

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

/// How the signal service is subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubscriberKind {
    /// Nobody is: frames are received.
    None,
    /// In the process of the service.
    InProcess,
    /// WebSocket with AGL's messages.
    #[default]
    Json,
    /// WebSocket with CBOR, in batches.
    Cbor,
    /// WebSocket with MessagePack, in batches.
    #[serde(rename = "msgpack")]
    MessagePack,
    /// D-Bus, with a daemon of its own.
    Dbus,
}

impl SubscriberKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::InProcess, Self::Json, Self::Cbor, Self::MessagePack, Self::Dbus];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InProcess => "in-process",
            Self::Json => "json",
            Self::Cbor => "cbor",
            Self::MessagePack => "msgpack",
            Self::Dbus => "dbus",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InProcess => "in the process of the service",
            Self::Json => "WebSocket with JSON",
            Self::Cbor => "WebSocket with CBOR",
            Self::MessagePack => "WebSocket with MessagePack",
            Self::Dbus => "D-Bus",
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
    /// Which it is.
    #[must_use]
    pub const fn testbed(&self) -> Testbed {
        match self {
            Self::Sim(_) => Testbed::Sim,
            Self::Vm(_) => Testbed::Vm,
        }
    }
}

/// The worlds by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Testbed {
    /// Simulation.
    Sim,
    /// Virtual machines.
    Vm,
    /// Processes of this machine.
    Host,
}

impl Testbed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::Vm, Self::Host];

    /// The name in files and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Vm => "vm",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Testbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file that an experiment read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// As it was written.
    pub path: String,
    /// Of its contents.
    pub sha256: String,
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Numbered frames from one sender.
    Numbered {
        /// The frames.
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
        /// The file.
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
    /// At every second frame time.
    Half,
    /// Back to back.
    Flood,
}

/// What else the gateway's host has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) cpu: bool,
    pub(crate) ethernet: bool,
}

impl Load {
    pub(crate) const fn describe(self) -> &'static str {
        match (self.cpu, self.ethernet) {
            (false, false) => "no load",
            (true, false) => "CPU load",
            (false, true) => "Ethernet load",
            (true, true) => "CPU and Ethernet load",
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

/// What can go wrong on a bus: in a simulation, or with a tester outside of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BusFaults {
    /// Probability, 0 to 1, that a bit is destroyed on the way, for all receivers alike.
    pub bit_error_rate: f64,
    /// How long after bus-off the controllers on it restart; `None`: never.
    pub restart: Option<Nanos>,
}

/// The settings of an experiment on a virtual machine.
#[derive(Clone, Debug)]
pub struct Vm {
    /// The machine.
    pub machine: MachineChoice,
    /// What can go wrong, for each bus; nothing does with a tester inside.
    pub faults: Vec<BusFaults>,
    /// The controllers on the two buses.
    pub controller: Controller,
    /// What drives those of the gateway.
    pub driver: Driver,
    /// What passes frames on.
    pub gateway: order::Gateway,
    /// What else the machine has to do.
    pub load: order::Load,
    /// How it is set up.
    pub settings: Settings,
    /// Files for the guest.
    pub files: Vec<File>,
    /// Gateway and load, for people.
    pub(crate) description: String,
}

/// What drives the controllers of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// The drivers of the kernel, with network interfaces.
    #[default]
    Kernel,
    /// `candor_can`, with character devices.
    CandorCan {
        /// Where it reads a controller.
        handler: order::Handler,
        /// The folder with its sources; it is built for each kernel.
        sources: PathBuf,
    },
}

impl Driver {
    /// As an order says it.
    #[must_use]
    pub const fn of_order(&self) -> order::Driver {
        match self {
            Self::Kernel => order::Driver::Kernel,
            Self::CandorCan { handler, .. } => order::Driver::CandorCan(*handler),
        }
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Kernel => "SocketCAN".into(),
            Self::CandorCan { handler, .. } => format!("candor_can, handler {}", handler.name()),
        }
    }
}

/// Which machine an experiment wants. Equal ones are booted once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineChoice {
    /// Its kernel.
    pub kernel: KernelChoice,
    /// Million instructions per second.
    pub mips: u32,
    /// What is added to the kernel's command line.
    pub parameters: String,
    /// Where the tester is.
    pub tester: order::Tester,
}

impl fmt::Display for MachineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}, {} MIPS", self.kernel, self.mips)?;
        if !self.parameters.is_empty() {
            write!(f, ", {}", self.parameters)?;
        }
        match self.tester {
            order::Tester::Inside => {}
            order::Tester::Outside => write!(f, ", tester outside")?,
            order::Tester::Master => write!(f, ", round trips")?,
        }
        Ok(())
    }
}

/// Which kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelChoice {
    /// One of Debian's: `6.12`, `6.12-rt`, `debian:VERSION`.
    Named(String),
    /// One's own.
    Files {
        /// The kernel.
        image: PathBuf,
        /// The folder with its modules.
        modules: PathBuf,
    },
}

impl KernelChoice {
    /// As files name it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let path = |path: &Path| quoted(&path.display().to_string());
        match self {
            Self::Named(name) => quoted(name),
            Self::Files { image, modules } => {
                format!("{{ image = {}, modules = {} }}", path(image), path(modules))
            }
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Files { image, .. } => write!(f, "{}", image.display()),
        }
    }
}

//! What a guest is to do. One order per run of a guest.

use crate::random::Random;
use candor_engine::Table;
use serde::{Deserialize, Serialize};

/// What a guest is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Measure latencies on the test bed.
    Measure(Box<Measurement>),
    /// Let the kernel's can-gw decide about frames.
    Conform(Vec<Trial>),
    /// Let the gateway of candor_can decide about them, on virtual devices. The module is the first.
    ConformDriver(Vec<u8>, Vec<Trial>),
    /// Program can-gw, then run a command and report what it prints.
    Command(CommandOrder),
}

/// Where the tester is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Tester {
    /// A program of the guest, with controllers of its own. The buses take no time.
    #[default]
    Inside,
    /// Outside of the guest, on buses that take their time to the bit.
    Outside,
    /// The master of round trips, a program of the guest: its controller and that of the slave are on one bus, which takes
    /// its time to the bit. With [`Gateway::None`] a partner outside of the guest answers; the machine is then that of
    /// [`Tester::Outside`], so that no other controller of the guest is on that bus.
    Master,
}

impl Tester {
    /// The interfaces that the guest has with it, in the order of their controllers in the machine.
    #[must_use]
    pub const fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::Inside => &crate::interface::ALL,
            Self::Outside | Self::Master => &crate::interface::OF_GATEWAY,
        }
    }
}

/// One experiment on the test bed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub tester: Tester,
    /// The controllers on the two buses.
    pub controller: Controller,
    /// What drives those of the gateway.
    pub driver: Driver,
    /// The source bus.
    pub source: BusTiming,
    /// The target bus.
    pub target: BusTiming,
    /// What goes wrong on the source bus and on the target bus, with a tester outside.
    pub faults: [BusFaults; 2],
    /// What passes frames on.
    pub gateway: Gateway,
    /// The rules. The interfaces of its buses are [`crate::interface::SOURCE`],
    /// [`crate::interface::TARGET`], and for virtual ones `vcan0`, `vcan1`, ...
    pub rules: Table,
    /// What the tester sends.
    pub traffic: Traffic,
    /// What it sends before that, one frame at a time, so that nothing that counts is done for the first time.
    pub warm_up: Option<WarmUp>,
    /// How long a frame that is missing at the end is waited for, in nanoseconds.
    pub timeout_ns: u64,
    /// With [`Pace::Offered`] and a tester outside, the frames of all its senders by time. The guest is not told.
    pub offers: Vec<Offer>,
    /// What else the machine has to do.
    pub load: Load,
    /// How the machine is set up.
    pub settings: Settings,
    /// Files to write before anything starts.
    pub files: Vec<File>,
    /// The seed of everything random in the tester.
    pub seed: u64,
    /// Whether received frames are reported with their data.
    pub wants_frames: bool,
    /// Whether the functions of the kernel are reported
    /// ([`Message::Symbols`](crate::Message::Symbols)).
    pub wants_symbols: bool,
}

impl Order {
    /// What the guest is told of it: not what a tester outside sends.
    #[must_use]
    pub fn for_guest(&self) -> Self {
        match self {
            Self::Measure(order) => {
                Self::Measure(Box::new(Measurement { offers: Vec::new(), ..(**order).clone() }))
            }
            Self::Conform(_) | Self::ConformDriver(..) | Self::Command(_) => self.clone(),
        }
    }
}

impl Measurement {
    /// Whether something is sent before what counts.
    #[must_use]
    pub fn has_warm_up(&self) -> bool {
        self.warm_up.is_some() && self.tester != Tester::Master
    }

    /// The ports of master and slave.
    #[must_use]
    pub fn round_trip_ports(&self) -> [String; 2] {
        match (self.traffic.pace, self.driver) {
            (Pace::RoundTrips { is_virtual: true, .. }, Driver::Kernel) => {
                [0, 0].map(|_| crate::interface::VIRTUAL.into())
            }
            (Pace::RoundTrips { is_virtual: true, .. }, Driver::CandorCan(_)) => {
                [0, 0].map(|_| self.driver.port(crate::interface::SOURCE))
            }
            _ => crate::interface::OF_GATEWAY.map(|name| self.driver.port(name)),
        }
    }

    /// This traffic on two buses of 1 Mbit/s with SJA1000 controllers, a tester inside, and nothing else to do.
    #[must_use]
    pub fn new(gateway: Gateway, rules: Table, traffic: Traffic) -> Self {
        let timing = BusTiming { bitrate: 1_000_000, data_bitrate: None };
        Self {
            tester: Tester::Inside,
            controller: Controller::Sja1000,
            driver: Driver::Kernel,
            source: timing,
            target: timing,
            faults: [BusFaults::default(); 2],
            gateway,
            rules,
            traffic,
            warm_up: None,
            timeout_ns: 1_000_000_000,
            offers: Vec::new(),
            load: Load::default(),
            settings: Settings::default(),
            files: Vec::new(),
            seed: 1,
            wants_frames: true,
            wants_symbols: false,
        }
    }
}

/// What the five controllers of the test bed are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Controller {
    /// `kvaser_pci` with an SJA1000: classical CAN.
    Sja1000,
    /// `ctucan_pci` with CTU CAN FD cores: classical CAN and CAN FD.
    CtuCanFd,
}

/// What drives the controllers of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Driver {
    /// The drivers of the kernel, with network interfaces.
    #[default]
    Kernel,
    /// `candor_can`, with character devices; the module is the file [`crate::meeting::DRIVER`] of the order.
    CandorCan(Handler),
}

impl Driver {
    /// The port that a program opens for one of the gateway's [interfaces](crate::interface::OF_GATEWAY).
    #[must_use]
    pub fn port(self, interface: &str) -> String {
        match self {
            Self::Kernel => interface.into(),
            Self::CandorCan(_) => {
                let place = crate::interface::OF_GATEWAY.iter().position(|it| *it == interface);
                format!("candor:candor{}", place.unwrap_or(0))
            }
        }
    }
}

/// Where `candor_can` reads a controller: its parameter `handler` (kernel/README.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Handler {
    /// In the hard interrupt, also on PREEMPT_RT.
    Hard,
    Thread,
    /// As the kernel likes it: on PREEMPT_RT in a thread with the lock of the network's softirqs.
    Forced,
    /// Only in a softirq.
    Softirq,
}

impl Handler {
    /// All of them, with their names.
    pub const ALL: [(&str, Self); 4] = [
        ("hard", Self::Hard),
        ("thread", Self::Thread),
        ("forced", Self::Forced),
        ("softirq", Self::Softirq),
    ];

    /// As the driver and experiments call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }
}

/// What goes wrong on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusFaults {
    /// Probability, 0 to 1, that a bit is inverted, for all nodes alike.
    pub bit_error_rate: f64,
    /// After so many nanoseconds a node that is bus-off starts again; `None`: never. Linux counts whole milliseconds.
    pub restart_ns: Option<u64>,
}

/// The bit rates of a bus. The emulated bus takes no time; they pace the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusTiming {
    /// Nominal bit rate in bit/s.
    pub bitrate: u32,
    /// Data bit rate of CAN FD in bit/s.
    pub data_bitrate: Option<u32>,
}

/// What passes frames on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gateway {
    /// Nothing: the tester receives on the source bus (on `can2`), which measures the tester. A master is answered outside
    /// of the guest.
    None,
    /// The kernel's can-gw, programmed over netlink.
    Kernel,
    /// A process that reads a frame and writes it, and takes no notice of any rule: the papers'
    /// reference.
    ReadWrite,
    /// The live gateway, as `candor route run` runs it in user space.
    Live {
        /// Whether it measures latencies itself.
        measures: bool,
        /// The name of its ports, in which `{interface}` stands for each interface; `None` for CAN
        /// sockets.
        port: Option<String>,
    },
    /// The rules in the interrupt handler of the driver candor_can, as `candor route run --plane candor_can` has them.
    CandorCan,
    /// A process that answers each request of a master, as `candor pong` does.
    Slave,
    /// A process that reads frames from the source bus, and notes when it has each.
    Reader,
    /// A program of the user's. `{in}` and `{out}` in its arguments are the gateway's interfaces.
    Command(Vec<String>),
}

impl Gateway {
    /// Whether frames come out on the target bus.
    #[must_use]
    pub const fn passes_on(&self) -> bool {
        !matches!(self, Self::None | Self::Reader)
    }

    /// Whether it passes frames on by rules.
    #[must_use]
    pub const fn follows_rules(&self) -> bool {
        matches!(self, Self::Kernel | Self::Live { .. } | Self::CandorCan)
    }
}

/// What the tester sends on the source bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// When the next frame is sent.
    pub pace: Pace,
    /// Frames to send.
    pub count: u64,
    /// The identifier words, used in turn.
    pub can_ids: Vec<u32>,
    /// Bytes of data, at least two for the number (most significant byte first).
    pub length: u8,
    /// Flags of CAN FD; `None` sends classical frames.
    pub fd_flags: Option<u8>,
    /// The bytes behind the number.
    pub fill: u8,
}

impl Traffic {
    /// So many frames of 8 bytes with one identifier.
    #[must_use]
    pub fn new(pace: Pace, count: u64) -> Self {
        Self { pace, count, can_ids: vec![0x123], length: 8, fd_flags: None, fill: 0x55 }
    }

    /// The frame number `number`, which stands in the first two bytes.
    #[must_use]
    pub fn frame(&self, number: u64) -> Option<candor_wire::can::Frame> {
        let mut data = [self.fill; 64];
        data[..2].copy_from_slice(&(number as u16).to_be_bytes());
        let count = self.can_ids.len().max(1) as u64;
        let can_id = *self.can_ids.get((number % count) as usize)?;
        candor_wire::can::Frame::from_parts(
            can_id,
            data.get(..usize::from(self.length))?,
            self.fd_flags,
        )
        .ok()
    }
}

/// The first frames of a traffic, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// How many; of offers, no more than there are.
    pub frames: u64,
    /// The shortest while from an arrival to the next frame, in nanoseconds.
    pub shortest_ns: u64,
    /// The longest while; each is drawn evenly from between.
    pub longest_ns: u64,
    /// A frame that has not arrived after this is given up.
    pub timeout_ns: u64,
}

impl WarmUp {
    /// How long it takes at most, if none of its frames arrives, in nanoseconds.
    #[must_use]
    pub const fn longest_whole_ns(&self) -> u64 {
        self.frames.saturating_mul(self.longest_ns.saturating_add(self.timeout_ns))
    }

    /// The whiles between its frames.
    #[must_use]
    pub fn whiles(&self, seed: u64) -> Vec<u64> {
        // Others than those of the traffic behind it.
        let mut random = Random::new(seed ^ 0x7761_726D_5F75_7000);
        (0..self.frames).map(|_| random.between(self.shortest_ns, self.longest_ns)).collect()
    }
}

/// A classical data frame that one of several senders outside wants to send. Its number, the place among all offers modulo
/// 65,536, is in its first two bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Which sender, from 0. Each sends its frames in their order.
    pub sender: u8,
    /// When, in nanoseconds since the beginning.
    pub at_ns: u64,
    /// The identifier word.
    pub can_id: u32,
    /// Its data, 2 to 8 bytes.
    pub data: Vec<u8>,
}

/// When the next frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// When the one before has arrived, and a while later; or when it is given up.
    OneAtATime {
        /// The shortest while, in nanoseconds.
        shortest_ns: u64,
        /// The longest while; each is drawn evenly from between.
        longest_ns: u64,
        /// A frame that has not arrived after this is lost.
        timeout_ns: u64,
    },
    /// At fixed times: so many percent of the exact duration of the frame (intermission included)
    /// after the one before. 100 saturates the bus.
    Paced {
        /// 100 for flood, 200 for half of it.
        period_percent: u32,
        /// And so long between the end of a frame and the next one at least, in nanoseconds.
        gap_ns: u64,
    },
    /// At random times, whatever became of the frames before.
    OpenLoop {
        /// The shortest time between two, in nanoseconds.
        shortest_ns: u64,
        /// The longest; each is drawn evenly from between.
        longest_ns: u64,
    },
    /// At the times of the [offers](Measurement::offers), whatever became of the frames before; only outside.
    Offered {
        /// From the beginning to the last of them, in nanoseconds.
        lasts_ns: u64,
    },
    /// Requests of a master, as `candor ping` sends them. The identifiers are those of request and answer.
    RoundTrips {
        /// The mean time between two of them; 0 for as soon as the one before is answered.
        period_ns: u64,
        /// Whether they are sent when they are due, also while others wait for their answers.
        is_open_loop: bool,
        /// An answer that comes after this is late.
        timeout_ns: u64,
        /// How long late answers to the last requests are waited for, after their timeouts.
        linger_ns: u64,
        /// Whether master and slave are on one virtual device, instead of two controllers on one bus.
        is_virtual: bool,
    },
}

/// What else the machine has to do while it is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// hackbench: groups of 20 senders and 20 receivers that pass messages of 100 bytes.
    pub hackbench_groups: Option<u32>,
    /// Datagrams over Ethernet.
    pub ethernet: Option<EthernetLoad>,
}

/// Datagrams over Ethernet: with a tester inside over two network cards and a cable of the guest, with a tester outside
/// from another computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EthernetLoad {
    /// What they are, and when they come; with a tester inside only [`Datagrams::Ping`].
    pub datagrams: Datagrams,
    pub data_bytes: u16,
    /// The speed of the link of a tester outside, in bit/s.
    pub link_bits_per_second: u64,
}

impl EthernetLoad {
    /// A flood ping with so many bytes of data, on a link of 1 Gbit/s.
    #[must_use]
    pub const fn ping(data_bytes: u16) -> Self {
        let datagrams = Datagrams::Ping;
        Self { datagrams, data_bytes, link_bits_per_second: 1_000_000_000 }
    }
}

/// Datagrams that load a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Datagrams {
    /// As `ping -f`: an echo request when the one before is answered, or after 10 ms.
    Ping,
    /// Echo requests.
    Echo {
        /// From one to the next; 0 for as many as the link carries.
        period_ns: u64,
    },
    /// UDP to a port that nobody uses.
    Udp {
        /// See [`Datagrams::Echo`].
        period_ns: u64,
    },
}

/// How the machine is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// SCHED_FIFO priority of a user-space gateway; 0 for an ordinary process.
    pub gateway_priority: u8,
    /// SCHED_FIFO priority of the interrupt threads of the gateway's controllers, where there are
    /// such threads (-rt, `threadirqs`).
    pub interrupt_priority: Option<u8>,
    /// Let NAPI run in threads (`/sys/class/net/*/threaded`) of this SCHED_FIFO priority, 0 for
    /// ordinary ones.
    pub napi_thread_priority: Option<u8>,
    /// SCHED_FIFO priority of the threads that pass on received frames (`backlog_napi/*`), where there are such threads
    /// (-rt, `thread_backlog_napi`).
    pub backlog_priority: Option<u8>,
    /// `net.core.netdev_budget`.
    pub netdev_budget: Option<u32>,
    /// `txqueuelen` of the gateway's interfaces.
    pub tx_queue: u32,
    /// Bytes in the receive buffer of a user-space gateway's socket; the kernel's default if none.
    pub receive_buffer: Option<u32>,
}

/// How many frames wait in front of a controller: the length that Linux gives a CAN interface (`can_setup` in
/// `drivers/net/can/dev/dev.c`).
pub const TX_QUEUE: u32 = 10;

impl Default for Settings {
    /// As on the papers' test bed: SCHED_FIFO 90, and the queues of Linux.
    fn default() -> Self {
        Self {
            gateway_priority: 90,
            interrupt_priority: None,
            napi_thread_priority: None,
            backlog_priority: None,
            netdev_budget: None,
            tx_queue: TX_QUEUE,
            receive_buffer: None,
        }
    }
}

/// A file to write in the guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Whether it can be run.
    pub is_executable: bool,
    /// What is in it. Megabytes, which are not read byte by byte.
    #[serde(with = "serde_bytes")]
    pub contents: Vec<u8>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.path, self.contents.len())
    }
}

/// Rules, and frames for them. Every bus of the table is one end of a vxcan pair; frames come in
/// from the other end and leave to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The rules. Interfaces are named `gw0`, `gw1`, ... in the order of the buses.
    pub rules: Table,
    /// The frames, one after the other: the bus, and the bytes as a socket takes them (16 or 72).
    pub frames: Vec<(u16, Vec<u8>)>,
}

/// A command to run beside programmed rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandOrder {
    /// The rules to program first; virtual interfaces are made as they name them.
    pub rules: Table,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Files to write before it starts.
    pub files: Vec<File>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{decode, encode};
    use candor_engine::edit::{Crc8, Crc8Profile, Operands, Range};
    use candor_engine::{Bus, BusIndex, Edit, Filter, Rule};

    #[test]
    fn rules_survive_the_way() {
        let bus = |name: &str| Bus { name: name.into(), port: name.into(), is_virtual: false };
        let edit = Edit {
            and: Operands { data: Some(Box::new([0xA5; 64])), ..Operands::default() },
            set: Operands { can_id: Some(0x8000_0001), ..Operands::default() },
            crc8: Some(Crc8 {
                range: Range { from: 0, to: -2, result: -1 },
                init: 0xFF,
                final_xor: 0x5A,
                table: Box::new(Crc8::table_of(0x1D)),
                profile: Crc8Profile::ByCounter([7; 16]),
            }),
            ..Edit::default()
        };
        let rule = Rule {
            edit,
            filters: vec![Filter::standard(0x123)],
            ..Rule::new("one", BusIndex(0), BusIndex(1))
        };
        let rules = Table {
            buses: vec![bus("a"), bus("b")],
            rules: vec![rule],
            max_hops: 3,
            ..Table::default()
        };
        let order = Order::Conform(vec![Trial { rules, frames: vec![(0, vec![1; 16])] }]);
        assert_eq!(decode(&encode(&order), 0), Ok(Some((order.clone(), encode(&order).len()))));
    }

    #[test]
    fn a_reader_survives_the_way_and_passes_nothing_on() {
        let pace = Pace::OneAtATime { shortest_ns: 1, longest_ns: 2, timeout_ns: 3 };
        let traffic = Traffic::new(pace, 1);
        let order = Measurement::new(Gateway::Reader, Table::default(), traffic);
        let order = Order::Measure(Box::new(order));
        assert_eq!(decode(&encode(&order), 0), Ok(Some((order.clone(), encode(&order).len()))));
        for (gateway, passes_on) in [
            (Gateway::None, false),
            (Gateway::Reader, false),
            (Gateway::ReadWrite, true),
            (Gateway::Kernel, true),
        ] {
            assert_eq!(gateway.passes_on(), passes_on, "{gateway:?}");
        }
    }

    #[test]
    fn frames_are_numbered_and_take_identifiers_in_turn() {
        let traffic = Traffic {
            pace: Pace::Paced { period_percent: 100, gap_ns: 0 },
            count: 3,
            can_ids: vec![0x123, 0x8000_0001],
            length: 4,
            fd_flags: None,
            fill: 0x55,
        };
        let shown = |number| traffic.frame(number).unwrap().to_string();
        assert_eq!(
            [shown(0), shown(1), shown(0x1_0002)],
            ["123#00005555", "00000001#00015555", "123#00025555"]
        );
    }
}

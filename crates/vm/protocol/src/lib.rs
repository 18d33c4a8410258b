//! The test bed inside a guest: what the host orders, what the guest reports, and the bytes of
//! both. Plain data; the program that performs an order is `crates/vm/guest`, the one that boots
//! kernels and hands orders to it is `candor-vm`.
//!
//! ```text
//!            bus "source"                               bus "target"
//!   can0 ──────┬──────┬────── can2 ┐             ┌ can3 ─────┬───── can4
//!   tester    can1            gateway in    gateway out    tester
//!   transmit  tester monitor          └─ vcan0, vcan1 ─┘   receive
//! ```
//!
//! With a tester inside, the two buses hand a frame over at once. Frames are stamped by the kernel when the driver hands
//! them to the network stack, at the monitor and at the receiver. With a tester outside ([`Tester::Outside`]), the
//! buses take their time, the guest has `can2` and `can3` only, and frames are stamped on the wire.

pub mod channel;
pub mod departures;
pub mod order;
pub mod random;
pub mod report;

pub use order::{Order, Tester};
pub use report::{Message, Report};

/// The interfaces of the test bed, in the order of their controllers in the machine.
pub mod interface {
    /// The tester sends here, on the source bus.
    pub const TRANSMIT: &str = "can0";
    /// The tester listens here to its own frames, on the source bus.
    pub const MONITOR: &str = "can1";
    /// The gateway's interface on the source bus.
    pub const SOURCE: &str = "can2";
    /// The gateway's interface on the target bus.
    pub const TARGET: &str = "can3";
    /// The tester listens here, on the target bus.
    pub const RECEIVE: &str = "can4";
    /// The virtual one of master and slave.
    pub const VIRTUAL: &str = "vcan0";
    pub const OF_GATEWAY: [&str; 2] = [SOURCE, TARGET];
    pub const ALL: [&str; 5] = [TRANSMIT, MONITOR, SOURCE, TARGET, RECEIVE];
}

/// Every module that a test bed may need, and the option of the kernel's configuration that makes it.
pub const OPTIONS: [(&str, &str); 20] = [
    ("can", "CONFIG_CAN"),
    ("can_raw", "CONFIG_CAN_RAW"),
    ("can_gw", "CONFIG_CAN_GW"),
    ("can_dev", "CONFIG_CAN_DEV"),
    ("sja1000", "CONFIG_CAN_SJA1000"),
    ("kvaser_pci", "CONFIG_CAN_KVASER_PCI"),
    ("can_bcm", "CONFIG_CAN_BCM"),
    ("vcan", "CONFIG_CAN_VCAN"),
    ("vxcan", "CONFIG_CAN_VXCAN"),
    ("ctucanfd", "CONFIG_CAN_CTUCANFD"),
    ("ctucanfd_pci", "CONFIG_CAN_CTUCANFD_PCI"),
    ("e1000", "CONFIG_E1000"),
    ("sch_ingress", "CONFIG_NET_SCH_INGRESS"),
    ("sch_fq", "CONFIG_NET_SCH_FQ"),
    ("sch_etf", "CONFIG_NET_SCH_ETF"),
    ("sch_taprio", "CONFIG_NET_SCH_TAPRIO"),
    ("cls_bpf", "CONFIG_NET_CLS_BPF"),
    ("cls_matchall", "CONFIG_NET_CLS_MATCHALL"),
    ("act_bpf", "CONFIG_NET_ACT_BPF"),
    ("act_mirred", "CONFIG_NET_ACT_MIRRED"),
];

/// The option that makes the module of that name.
#[must_use]
pub fn option_of(module: &str) -> Option<&'static str> {
    OPTIONS.iter().find(|(name, _)| *name == module).map(|&(_, option)| option)
}

/// Where host and guest meet: devices of the machine that cost the guest no interrupt.
pub mod meeting {
    /// The name of the file of QEMU's fw_cfg device that holds the order.
    pub const ORDER: &str = "opt/candor/order";
    /// The kernel parameter that says which boot of a machine this is, if it is not the first: `candor.boot=3,xxxx`. What is
    /// behind the comma means nothing.
    pub const BOOT: &str = "candor.boot";
    /// The port of the debug console that takes the report, byte by byte. A machine that is ready to
    /// be saved tells its time there: nanoseconds since it was switched on, eight bytes,
    /// little-endian.
    pub const REPORT_PORT: u16 = 0xE9;
    /// The port of the pvpanic device: writing 1 stops the machine, so that it can be saved.
    pub const STOP_PORT: u16 = 0x505;
    /// The port of the isa-debug-exit device: QEMU ends with the status `value << 1 | 1`.
    pub const EXIT_PORT: u16 = 0xF4;
    /// The I/O port of the tester outside.
    pub const TESTER_PORT: u16 = 0x540;
    /// Written to that port, it starts the tester.
    pub const TESTER_START: u8 = 1;
    /// Written to that port, it tells a tester that sends nothing itself that the guest has sent everything.
    pub const TESTER_OVER: u8 = 2;
    /// What that port reads as, if there is such a tester, before it is done.
    pub const TESTER_IS_THERE: u8 = 0x43;
    /// The serial port that gets a line when the tester outside is done.
    pub const TESTER_DONE: &str = "/dev/ttyS1";
    /// The network card of a guest whose tester is outside: the name of its interface, its card's address and its IPv4
    /// address.
    pub const CARD: (&str, [u8; 6], [u8; 4]) = ("eth0", [0x52, 0x54, 0, 0, 0, 1], [10, 47, 0, 1]);
    /// The station at the other end of its cable.
    pub const STATION: ([u8; 6], [u8; 4]) = ([0x52, 0x54, 0, 0, 0, 2], [10, 47, 0, 2]);
    /// Exit value of a guest that has performed its order: QEMU's status is 33.
    pub const EXIT_DONE: u8 = 16;
    /// Exit value of a guest that has said in its report why it could not: QEMU's status is 35.
    pub const EXIT_FAILED: u8 = 17;
    /// The functions of the guest program that are called right before the first frame and right
    /// after the last one: in between the host counts instructions.
    pub const MARKS: [&str; 2] =
        ["candor_guest::host::counting_begins", "candor_guest::host::counting_ends"];
    /// The file of an order with the module `candor_can`.
    pub const DRIVER: &str = "/candor_can.ko";
    /// The PCI slots of the gateway's controllers, on both beds.
    pub const SLOTS_OF_GATEWAY: [&str; 2] = ["0000:00:08.0", "0000:00:09.0"];
    /// Where the initramfs holds the kernel's modules, `NAME.ko` each, uncompressed.
    pub const MODULES: &str = "/modules";
}

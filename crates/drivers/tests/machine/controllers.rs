//! Ports on CAN controllers: the first two of the machine, on one bus.

use candor_drivers::REGISTRY;
use candor_linux::clock;
use candor_linux::netlink::{CanSettings, Netlink};
use candor_linux::realtime::{self, Policy, Task};
use candor_port::{Sent, Wanted};
use candor_time::{Monotonic, Nanos};

use crate::harness::PAIR;
use crate::suite::{self, Bench};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 3] = [
    ("socketcan_conforms", Need::Controllers, socketcan),
    ("packet_conforms", Need::Controllers, packet),
    ("a_full_queue_is_told_and_passes", Need::Controllers, full),
];

/// Both up, with 1 Mbit/s and room for so many frames.
fn start(queue: u32) {
    let mut netlink = Netlink::open().unwrap();
    for name in PAIR {
        netlink.set_up(name, false).unwrap();
        let settings = CanSettings { bitrate: 1_000_000, ..CanSettings::default() };
        netlink.set_can(name, &settings).unwrap();
        netlink.set_up(name, true).unwrap();
        netlink.set_queue_length(name, queue).unwrap();
    }
}

/// Two connected ports. QEMU's SJA1000 loses its place behind a remote frame that asks for
/// data, and its driver is not asked for raw DLCs.
fn bench(left: &str, right: &str) -> Bench {
    Bench { carries_raw_dlc: false, carries_remote_len: false, ..Bench::new(left, right) }
}

fn socketcan() {
    start(1_000);
    let bench = bench("can0", "can1");
    let port = suite::open(REGISTRY, "can0", Wanted::BOTH);
    assert!(!port.capabilities.fd && !port.capabilities.hardware_stamps);
    suite::run(&bench);
}

fn packet() {
    start(1_000);
    suite::run(&bench("packet:can0", "packet:can1?ring=4096"));
    suite::run(&Bench { echo: false, ..bench("packet:can1?past_queue=true", "can0") });
}

/// Where interrupts are threads, a program with a higher priority fills any queue: until it waits, as
/// it is told to, nothing leaves. Elsewhere this bus takes frames as they come.
fn full() {
    start(1_000);
    let is_rt = std::fs::read_to_string("/proc/version").unwrap().contains("PREEMPT_RT");
    realtime::set_policy(Task::This, Policy::Fifo(99)).unwrap();
    for (left, right, queue, most) in [
        // The controller has one more, and one that it did not take waits beside the queue.
        ("can0", "can1", 3, 5),
        ("can0?send_buffer=1", "can1", 1_000, 8),
        ("packet:can1?past_queue=true", "packet:can0?ring=4096", 1_000, 1),
    ] {
        let interface = candor_drivers::interface(&left.parse().unwrap()).unwrap().to_owned();
        Netlink::open().unwrap().set_queue_length(&interface, queue).unwrap();
        if is_rt {
            let taken = taken_at_once(left);
            assert!((1..=most).contains(&taken), "{left} took {taken}");
            println!("{left} took {taken}");
        }
        let bench = Bench { is_full: is_rt, echo: false, ..bench(left, right) };
        suite::order_is_kept_and_fullness_passes(&bench);
    }
}

/// How many frames a port takes until it is full; waits until all have left.
fn taken_at_once(name: &str) -> u32 {
    let mut transmitter = suite::open(REGISTRY, name, Wanted::TRANSMITTER).transmitter.unwrap();
    let frame = "123#1122334455667788".parse().unwrap();
    let mut taken = 0;
    while taken < 100 && transmitter.transmit(&frame, false) == Sent::Taken {
        taken += 1;
    }
    let end = clock::now::<Monotonic>() + Nanos::from_secs(10);
    while !transmitter.is_drained() {
        assert!(clock::now::<Monotonic>() < end, "{name} is not drained");
        transmitter.wait(Nanos::from_millis(1));
    }
    let counters = transmitter.counters();
    let counted = [&counters.frames, &counters.full].map(|count| count.get());
    assert_eq!(counted, [u64::from(taken), u64::from(taken < 100)], "{name}");
    taken
}

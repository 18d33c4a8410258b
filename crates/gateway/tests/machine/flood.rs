//! A gateway with four ports under a flood: one bus of 1 Mbit/s is full.

use std::path::Path;

use candor_gateway::Snapshot;
use candor_gateway::snapshot::LatencySnapshot;
use candor_linux::clock;
use candor_linux::realtime::{self, Policy, Task};
use candor_port::{Receiver, Until, Wanted};
use candor_time::{Instant, Nanos, Realtime};
use candor_wire::can::{Bitrate, Frame, StandardId, Timing, bits};

use crate::bench::{
    Gateway, MONITOR, RECEIVES_ON, SENDS_ON, SOURCE, Sender, TARGET, create_vcan, now, pause, port,
    rule, start_bed,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 1] =
    [("four_ports_keep_up_with_a_full_bus", Need::Guest, four_ports)];

/// More than a second of frames of 8 bytes: what happens every second happens meanwhile.
const FRAMES: u64 = 10_000;
/// On -rt interrupts are threads, and one processor of 1,000 MIPS cannot be tester and gateway at once:
/// so many frames wait, and no more than fit into the buffers.
const FRAMES_ON_RT: u64 = 2_000;
/// Until what starting has left to be done is done.
const REST: Nanos = Nanos::from_millis(300);
/// Who talks comes before the gateway, as another computer would.
const SENDER_PRIORITY: u8 = 50;
/// What 999 of 1,000 frames may take, from the end of the frame on the source bus to that on the
/// target bus. The emulated buses take no time.
const MOST: Nanos = Nanos::from_micros(200);

fn frame(length: usize, number: u64) -> Frame {
    let id = StandardId::new((number % 0x700) as u16).unwrap();
    let mut data = number.to_be_bytes();
    // With the usual stuffing.
    data[..6].fill(0x55);
    Frame::new(id, &data[8 - length..]).unwrap()
}

/// A ring with room for all frames, to be read afterwards: so nobody is woken meanwhile.
fn ring(interface: &str) -> Box<dyn Receiver> {
    let name = format!("packet:{interface}?ring=16384");
    candor_drivers::open(&name.parse().unwrap(), Wanted::RECEIVER).unwrap().receiver.unwrap()
}

fn read(ring: &mut dyn Receiver, count: u64) -> Vec<(Frame, Instant<Realtime>)> {
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        ring.receive(Until::Woken, &mut |received| {
            all.push((received.frame, received.stamp.system.unwrap()));
        })
        .unwrap();
    }
    all
}

fn four_ports() {
    let mut netlink = start_bed(100);
    for name in ["vcan6", "vcan7"] {
        create_vcan(&mut netlink, name);
    }
    let rules = format!(
        "[bus]\nsource = \"{SOURCE}?buffer=1000000\"\ntarget = \"{TARGET}\"\n\
         left = \"vcan6\"\nright = \"vcan7\"\n\
         [[rule]]\nname = \"through\"\nfrom = \"source\"\nto = \"target\"\n\
         [[rule]]\nname = \"back\"\nfrom = \"target\"\nto = \"source\"\nmatch = [0x7F0]\n\
         [[rule]]\nname = \"left\"\nfrom = \"left\"\nto = \"target\"\nmatch = [0x7F1]\n\
         [[rule]]\nname = \"right\"\nfrom = \"right\"\nto = \"source\"\nmatch = [0x7F2]\n"
    );
    let is_rt = Path::new("/sys/kernel/realtime").exists();
    let frames = if is_rt { FRAMES_ON_RT } else { FRAMES };
    let (mut before, mut behind) = (ring(MONITOR), ring(RECEIVES_ON));
    let snapshot = flood(&rules, 8, frames);
    let (before, behind) = (read(&mut *before, frames), read(&mut *behind, frames));
    let mut latencies: Vec<_> = before
        .iter()
        .zip(&behind)
        .map(|((sent, at), (arrived, then))| {
            assert_eq!(sent, arrived);
            then.signed_nanos_since(*at)
        })
        .collect();
    latencies.sort_unstable();
    let of = |numerator: usize| latencies[(latencies.len() * numerator).div_ceil(1_000) - 1];
    println!(
        "8 bytes, bus to bus: p50 {} ns, p99.9 {} ns, worst {} ns",
        of(500),
        of(999),
        of(1_000)
    );
    tell(8, &snapshot);
    if is_rt {
        // All frames came through nevertheless.
        println!("on -rt the tester takes the time that the gateway needs: latencies not held");
        return;
    }
    assert!(of(999) < MOST.as_nanos() as i64, "{} ns", of(999));

    // The shortest frames come so fast that one processor of 1,000 MIPS cannot be tester and gateway
    // too. So nobody listens, and it is the gateway that tells how long they take: from the kernel's
    // stamp until the destination took them.
    for name in [MONITOR, RECEIVES_ON] {
        netlink.set_up(name, false).unwrap();
    }
    let snapshot = flood(&rules, 0, FRAMES);
    tell(0, &snapshot);
    let latency = through(&snapshot);
    assert!(latency.count > FRAMES / 20, "{latency:?}");
    assert!(latency.p999_ns < MOST.as_nanos(), "{latency:?}");
}

fn through(snapshot: &Snapshot) -> &LatencySnapshot {
    let mut latencies = snapshot.latencies.iter();
    latencies.find(|it| it.from == "source" && it.to == "target").unwrap()
}

fn tell(length: usize, snapshot: &Snapshot) {
    let latency = through(snapshot);
    println!(
        "{length} bytes, by the gateway: {} measured, p50 {} ns, p99.9 {} ns, worst {} ns",
        latency.count, latency.p50_ns, latency.p999_ns, latency.max_ns
    );
}

/// Fills the source bus; all of it goes through.
fn flood(rules: &str, length: usize, frames: u64) -> Snapshot {
    let timing = Timing::classical("1M".parse::<Bitrate>().unwrap());
    let mut gateway = Gateway::start(rules, &["--lock-memory"]);
    let mut sender = Sender::new(SENDS_ON);
    pause(REST);
    realtime::set_policy(Task::This, Policy::Fifo(SENDER_PRIORITY)).unwrap();
    let mut next = now() + Nanos::from_millis(1);
    for number in 0..frames {
        let frame = frame(length, number);
        clock::sleep_until(next).unwrap();
        sender.send(&frame);
        next += Nanos::from_nanos(timing.duration_ns(bits::length(&frame).unwrap()));
    }
    let late = now().signed_nanos_since(next);
    realtime::set_policy(Task::This, Policy::Other).unwrap();
    pause(Nanos::from_millis(50));
    let snapshot = gateway.settled("source", frames);
    println!("{frames} frames of {length} bytes; the last one left {} ns late", late.max(0));
    let (source, target) = (port(&snapshot, "source"), port(&snapshot, "target"));
    assert_eq!((source.received, source.overflow_frames), (frames, 0));
    assert_eq!((rule(&snapshot, "through").handled, target.transmitted), (frames, frames));
    gateway.end();
    snapshot
}

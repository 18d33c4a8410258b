//! CAN controllers: the first two of the machine, on one bus.

use candor_linux::Sent;
use candor_linux::can::{RawFrame, Socket, Stamps};
use candor_linux::clock;
use candor_linux::netlink::{CanSettings, Condition, Event, Monitor, Netlink};
use candor_linux::packet::{Ring, Sender};
use candor_linux::poll::{self, Interest};
use candor_linux::realtime::{self, Policy, Task};
use candor_time::{Nanos, Realtime};
use candor_wire::can::Frame;

use crate::can::received;
use crate::harness::PAIR;
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 6] = [
    ("bit_rates_are_set", Need::Controllers, bit_rates),
    ("the_state_of_a_controller_is_told", Need::Controllers, state),
    ("frames_cross_the_bus", Need::Controllers, frames),
    ("a_full_queue_is_told", Need::Controllers, full_queue),
    ("a_ring_leaves_out_what_is_marked", Need::Controllers, ring),
    ("packets_reach_the_bus", Need::Controllers, packets),
];

const SECOND: Option<Nanos> = Some(Nanos::from_secs(1));

fn frame(text: &str) -> RawFrame {
    RawFrame::from(text.parse::<Frame>().unwrap())
}

fn settings(bitrate: u32) -> CanSettings {
    CanSettings { bitrate, ..CanSettings::default() }
}

/// Both up, with 1 Mbit/s and room for so many frames.
///
/// They are started once: QEMU's SJA1000 does not reset where it writes received frames, only where
/// it reads them, so that after another start it tells old frames anew.
fn start(queue: u32) -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    for name in PAIR {
        netlink.set_up(name, false).unwrap();
        netlink.set_can(name, &settings(1_000_000)).unwrap();
        netlink.set_up(name, true).unwrap();
        netlink.set_queue_length(name, queue).unwrap();
    }
    netlink
}

fn bit_rates() {
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("can0", false).unwrap();
    netlink.set_can("can0", &settings(500_000)).unwrap();
    let link = netlink.link("can0").unwrap();
    let can = link.can.unwrap();
    assert_eq!((can.bitrate, can.data_bitrate, can.is_fd, can.state), (500_000, 0, false, 4));
    assert!(link.is_can && link.has_echo && link.mtu == 16, "{link:?}");
    let error = netlink.set_up("can1", true).unwrap_err();
    assert!(error.to_string().contains("needs a bit rate first"), "{error}");
    netlink.set_up("can0", true).unwrap();
    assert_eq!(netlink.link("can0").unwrap().can.unwrap().state, 0);
    let error = netlink.set_can("can0", &settings(1_000_000)).unwrap_err();
    assert!(error.is(libc::EBUSY) && error.to_string().contains("stop the interface"), "{error}");
    netlink.set_up("can0", false).unwrap();
    let listening = CanSettings { is_listen_only: true, ..settings(250_000) };
    netlink.set_can("can0", &listening).unwrap();
    assert_eq!(netlink.link("can0").unwrap().can.unwrap().mode & 2, 2);
    netlink.set_can("can0", &CanSettings { restart_ms: Some(100), ..settings(250_000) }).unwrap();
    assert_eq!(netlink.link("can0").unwrap().can.unwrap().mode & 2, 0);
    let error = netlink
        .set_can("can0", &CanSettings { data_bitrate: Some(2_000_000), ..settings(500_000) })
        .unwrap_err();
    assert!(error.is(libc::EOPNOTSUPP), "{error}");
    // Linux 6.1 says the words to its log only.
    let error = netlink.set_can("can0", &settings(7_777_777)).unwrap_err().to_string();
    assert!(error.contains("bitrate error") || error.contains("does not divide"), "{error}");
}

fn state() {
    let mut monitor = Monitor::open().unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("can0", false).unwrap();
    netlink.set_can("can0", &settings(500_000)).unwrap();
    for (is_up, expected) in [(true, Condition::ErrorActive), (false, Condition::Stopped)] {
        netlink.set_up("can0", is_up).unwrap();
        loop {
            match monitor.next_event().unwrap() {
                Some(Event::Changed(link)) if link.name == "can0" && link.is_up == is_up => {
                    let condition = link.can.and_then(|can| can.condition());
                    if condition == Some(expected) {
                        break;
                    }
                }
                Some(_) => {}
                None => assert!(poll::wait(&monitor, Interest::Read, SECOND).unwrap()),
            }
        }
    }
}

fn frames() {
    let mut netlink = start(200);
    let [sender, receiver] = PAIR.map(|name| Socket::open(name).unwrap());
    sender.set_receive_own(true).unwrap();
    receiver.set_stamps(Stamps::Software).unwrap();
    let begin = clock::now::<Realtime>();
    // QEMU's SJA1000 loses its place behind a remote frame that asks for data.
    for text in ["123#DEADBEEF", "12345678#11", "7FF#R0"] {
        let sent = frame(text);
        assert_eq!(sender.send(&sent), Ok(Sent::Taken));
        assert_eq!(poll::wait(&receiver, Interest::Read, SECOND), Ok(true));
        let other = received(&receiver).unwrap();
        assert_eq!((other.frame, other.is_local), (sent, false));
        assert!((begin..=clock::now::<Realtime>()).contains(&other.stamp.unwrap()));
        // It comes back when it has been sent.
        assert_eq!(poll::wait(&sender, Interest::Read, SECOND), Ok(true));
        let own = received(&sender).unwrap();
        assert_eq!((own.frame, own.is_own), (sent, true));
    }
    assert!(netlink.link("can1").unwrap().statistics.rx_packets >= 3);
}

fn full_queue() {
    let mut netlink = start(3);
    let before = netlink.queue("can0").unwrap().drops;
    let sender = Socket::open_for_sending("can0").unwrap();
    let frame = frame("123#1122334455667788");
    // Where interrupts are threads, they have to wait for whoever has the higher priority.
    let is_rt = std::fs::read_to_string("/proc/version").unwrap().contains("PREEMPT_RT");
    realtime::set_policy(Task::This, Policy::Fifo(99)).unwrap();
    let sent: [Sent; 64] = std::array::from_fn(|_| sender.send(&frame).unwrap());
    let refused = sent.iter().filter(|&&sent| sent == Sent::QueueFull).count();
    let queue = netlink.queue("can0").unwrap();
    assert!(refused > 0 || !is_rt);
    assert_eq!((queue.drops - before) as usize, refused, "{queue:?}");
}

fn ring() {
    const MARK: u32 = 0xCA0D;
    let _netlink = start(200);
    let mut ring = Ring::open("can0", 64).unwrap();
    ring.ignore_mark(MARK).unwrap();
    let [here, there] = PAIR.map(|name| Socket::open(name).unwrap());
    let marked = Sender::open("can0", true).unwrap();
    marked.set_mark(MARK).unwrap();
    assert_eq!(here.send(&frame("001#")), Ok(Sent::Taken));
    expect(&there, "001#");
    here.set_mark(MARK).unwrap();
    assert_eq!(here.send(&frame("002#")), Ok(Sent::Taken));
    expect(&there, "002#");
    assert_eq!(marked.send(frame("003#").as_bytes()), Ok(Sent::Taken));
    expect(&there, "003#");
    assert_eq!(there.send(&frame("004#")), Ok(Sent::Taken));
    for seen in ["001#", "004#"] {
        assert_eq!(ring.wait(SECOND), Ok(true));
        assert_eq!(ring.receive().unwrap().bytes(), frame(seen).as_bytes());
    }
    assert!(ring.receive().is_none());
}

fn packets() {
    let _netlink = start(200);
    let there = Socket::open("can1").unwrap();
    for past_queue in [false, true] {
        let sender = Sender::open("can0", past_queue).unwrap();
        for text in ["123#DEADBEEF", "12345678#11"] {
            assert_eq!(sender.send(frame(text).as_bytes()), Ok(Sent::Taken));
            expect(&there, text);
        }
    }
}

fn expect(socket: &Socket, text: &str) {
    assert_eq!(poll::wait(socket, Interest::Read, SECOND), Ok(true));
    assert_eq!(socket.receive(), Ok(Some(frame(text))));
}

//! Interfaces that go down, go away, change: nothing is lost in silence, and all goes on after.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use candor_gateway::Snapshot;
use candor_linux::netlink::Netlink;
use candor_port::Sent;
use candor_time::Nanos;

use crate::bench::{
    Capture, Gateway, RECEIVES_ON, SENDS_ON, SOURCE, Sender, TARGET, assert_balanced, create_vcan,
    frame, now, numbered, pause, port, refused, rule, start_bed, texts, until, virtual_buses,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 5] = [
    ("a_destination_goes_down_and_up_under_load", Need::Guest, destination),
    ("a_source_goes_down_and_up", Need::Guest, source),
    ("an_interface_goes_away_and_returns", Need::Guest, away),
    ("a_destination_loses_can_fd_and_gets_it_back", Need::Guest, mtu),
    ("rules_wait_for_an_interface_that_is_not_there", Need::Guest, absent),
];

/// The rules between two interfaces: everything.
fn all(from: &str, to: &str) -> String {
    format!(
        "[bus]\na = \"{from}\"\nb = \"{to}\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\nframes = \"any\"\necho = true\n"
    )
}

fn destination() {
    /// So many frames the queue of the interface holds.
    const QUEUE: u32 = 10;
    const TIMES: u64 = 5;
    let mut netlink = start_bed(1_000);
    netlink.set_queue_length(TARGET, QUEUE).unwrap();
    let dropped = netlink.link(TARGET).unwrap().statistics.tx_dropped;
    let capture = Capture::new(RECEIVES_ON);
    let mut gateway = Gateway::start(&all(&format!("{SOURCE}?buffer=4000000"), TARGET), &[]);
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = Sender::new(SENDS_ON);
            while !is_over.load(Ordering::Relaxed) {
                sender.send(&numbered(0x100, sent.fetch_add(1, Ordering::Relaxed)));
            }
        });
        for _ in 0..TIMES {
            let (received, down) = (capture.count(), refused(&gateway.stats(), "all", "down"));
            until(|| capture.count() >= received + 100, || format!("{} came", capture.count()));
            netlink.set_up(TARGET, false).unwrap();
            gateway.once("refused", |it| refused(it, "all", "down") >= down + 100);
            netlink.set_up(TARGET, true).unwrap();
        }
        let received = capture.count();
        until(|| capture.count() >= received + 100, || "nothing comes any more".into());
        is_over.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    let snapshot = gateway.settled("a", sent);
    assert_balanced(&snapshot, "a", sent);
    let (handled, down) = (rule(&snapshot, "all").handled, refused(&snapshot, "all", "down"));
    assert_eq!((handled + down, port(&snapshot, "b").transmitted), (sent, handled));
    // What the queue held when the interface went down is gone, with the frame that the controller had
    // and one that waited beside the queue. What the kernel takes while it takes an interface down it
    // drops, says that all is well, and counts it.
    pause(Nanos::from_millis(50));
    let received = capture.count();
    let dropped = netlink.link(TARGET).unwrap().statistics.tx_dropped - dropped;
    println!(
        "{sent} frames, {handled} taken, {down} refused, {dropped} dropped, {received} received"
    );
    let most = handled - dropped;
    let least = most - TIMES * u64::from(QUEUE + 2);
    assert!((least..=most).contains(&received), "{received} of {handled}, {dropped} dropped");
    gateway.end();
}

fn source() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1"]);
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(&all("vcan0", "vcan1"), &[]);
    for round in 0..3 {
        (0..100).for_each(|number| sender.send(&numbered(0x100, round * 100 + number)));
        capture.exactly((round + 1) * 100);
        netlink.set_up("vcan0", false).unwrap();
        let snapshot =
            gateway.once("the trouble is reported", |it| port(it, "a").trouble.is_some());
        let reported = port(&snapshot, "a").trouble.clone().unwrap();
        assert!(reported.contains("down") && reported.contains("vcan0"), "{reported}");
        assert_eq!(sender.try_to_send(&frame("123#")), Sent::Down);
        netlink.set_up("vcan0", true).unwrap();
        // At once, not after a time: a frame that comes right after the interface is received.
        let up = now();
        gateway.once("the trouble is over", |it| port(it, "a").trouble.is_none());
        assert!(now() - up < Nanos::from_millis(500));
    }
    sender.send(&frame("7FF#"));
    capture.exactly(301);
    assert_balanced(&gateway.settled("a", 301), "a", 301);
    gateway.end();
}

fn away() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1"]);
    let mut gateway = Gateway::start(&all("vcan0", "vcan1"), &[]);
    let (mut sent, mut handled) = (0, 0);
    for name in ["vcan1", "vcan0", "vcan1"] {
        let send = |count: u64| {
            let mut sender = Sender::new("vcan0");
            (0..count).for_each(|number| sender.send(&numbered(0x100, number)));
            count
        };
        {
            let capture = Capture::new("vcan1");
            sent += send(50);
            capture.exactly(50);
            handled += 50;
        }
        netlink.delete(name).unwrap();
        let bus = if name == "vcan0" { "a" } else { "b" };
        let snapshot =
            gateway.once("its absence is reported", |it| port(it, bus).trouble.is_some());
        println!("{name}: {}", port(&snapshot, bus).trouble.as_ref().unwrap());
        if name == "vcan1" {
            sent += send(30);
            assert_balanced(&gateway.settled("a", sent), "a", sent);
        }
        create_vcan(&mut netlink, name);
        gateway.once("it is back", |it| port(it, bus).trouble.is_none());
        let capture = Capture::new("vcan1");
        sent += send(20);
        capture.exactly(20);
        handled += 20;
    }
    let snapshot = gateway.settled("a", sent);
    assert_balanced(&snapshot, "a", sent);
    assert_eq!(rule(&snapshot, "all").handled, handled);
    assert_eq!(refused(&snapshot, "all", "down"), 60);
    assert_eq!(port(&snapshot, "a").reopened, 1);
    let reported = gateway.end();
    assert_eq!(reported.matches("disappeared").count(), 3, "{reported}");
}

fn mtu() {
    let mut netlink = virtual_buses(&["vcan0", "vcan1"]);
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(&all("vcan0", "vcan1"), &[]);
    let set = |netlink: &mut Netlink, bytes: u32| {
        netlink.set_up("vcan1", false).unwrap();
        netlink.set_mtu("vcan1", bytes).unwrap();
        netlink.set_up("vcan1", true).unwrap();
    };
    let both = ["123#11", "123##1AABB", "12345678#", "12345678##022"].map(frame);
    let mut send = || both.iter().for_each(|frame| sender.send(frame));
    send();
    assert_eq!(texts(&capture.exactly(4)), texts(&both));
    set(&mut netlink, 16);
    send();
    capture.exactly(6);
    set(&mut netlink, 72);
    send();
    let received = texts(&capture.exactly(10));
    assert_eq!(
        received[4..],
        ["123#11", "12345678#", "123#11", "123##1AABB", "12345678#", "12345678##022"]
    );
    let snapshot = gateway.settled("a", 12);
    assert_balanced(&snapshot, "a", 12);
    assert_eq!(refused(&snapshot, "all", "unsupported"), 2);
    gateway.end();
}

fn absent() {
    let mut netlink = virtual_buses(&["vcan0"]);
    let folder = crate::bench::folder();
    let file = folder.join("absent.rules.toml");
    std::fs::write(&file, all("vcan0", "vcan1")).unwrap();
    let mut gateway = Gateway::run(file.clone(), &[]);
    let trouble = |snapshot: &Snapshot| port(snapshot, "b").trouble.clone();
    let missing = trouble(&gateway.stats()).unwrap();
    assert!(missing.contains("vcan1"), "{missing}");
    let mut sender = Sender::new("vcan0");
    sender.send(&numbered(0x100, 0));
    gateway.once("it is refused", |it| refused(it, "all", "down") == 1);
    create_vcan(&mut netlink, "vcan1");
    gateway.once("it is there", |it| trouble(it).is_none());
    let capture = Capture::new("vcan1");
    sender.send(&numbered(0x100, 1));
    capture.exactly(1);
    // Twice on the same rules is refused.
    let again = crate::bench::candor(&["route", "run", &file.display().to_string()]);
    assert_eq!(again.status, Some(2), "{again:?}");
    let process = format!("process {} already runs these rules", gateway.process().id());
    assert!(again.errors.contains(&process), "{again:?}");
    gateway.end();
}

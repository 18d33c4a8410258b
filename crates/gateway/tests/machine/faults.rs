//! What goes wrong while frames run: buffers and queues that are full, clocks that are set, rules that
//! loop. Everything that does not arrive is counted, by its cause.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use candor_gateway::Snapshot;
use candor_linux::clock;
use candor_time::Nanos;
use candor_wire::can::tunnel::cannelloni::HELLO;
use candor_wire::can::{Frame, StandardId};

use crate::bench::{
    Capture, Gateway, RECEIVES_ON, SENDS_ON, SOURCE, Sender, Stopped, TARGET, assert_balanced,
    frame, now, number_of, numbered, pause, port, records, refused, rule, start_bed, step_clock,
    texts, virtual_buses,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 9] = [
    ("a_full_disk_is_told_and_the_recording_stays_whole", Need::Guest, full_disk),
    ("a_peer_that_never_reads_holds_up_nobody", Need::Guest, never_reads),
    ("what_overflows_a_receive_buffer_is_counted", Need::Guest, overflow),
    ("a_stopped_controller_fills_the_queue_by_priority", Need::Guest, full_queue),
    ("what_waits_too_long_is_stale", Need::Guest, stale),
    ("a_short_transmit_queue_loses_nothing_in_silence", Need::Guest, short_queue),
    ("a_clock_that_is_set_changes_no_decision", Need::Guest, clock_steps),
    ("rules_that_loop_end", Need::Guest, looping),
    ("error_reports_are_passed_on_as_the_rules_say", Need::Guest, error_reports),
];

/// How many frames a controller of the test bed has when it stops, and one that its driver did not take any
/// more, which waits beside the queue of the interface.
const IN_CONTROLLER: usize = 2;

/// Frames that nobody fetches, and then some that somebody does.
fn overflow() {
    let _netlink = virtual_buses(&["vcan0", "vcan1"]);
    for port_of_a in ["vcan0?buffer=5000", "packet:vcan0?ring=1"] {
        let rules = format!(
            "[bus]\na = \"{port_of_a}\"\nb = \"vcan1\"\n\
             [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\necho = true\n"
        );
        let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
        let mut gateway = Gateway::start(&rules, &[]);
        gateway.process().suspend();
        let mut sent = 0;
        let mut send = |count: u64| {
            (sent..sent + count).for_each(|number| sender.send(&numbered(0x100, number)));
            sent += count;
            sent
        };
        send(1_000);
        gateway.process().resume();
        // That some were dropped is reported with frames that come after.
        loop {
            let sent = send(1);
            let before = now();
            let mut all = gateway.stats();
            while port(&all, "a").received + port(&all, "a").overflow_frames < sent
                && now() < before + Nanos::from_millis(100)
            {
                pause(Nanos::from_millis(1));
                all = gateway.stats();
            }
            if port(&all, "a").overflow_frames > 0
                && port(&all, "a").received + port(&all, "a").overflow_frames >= sent
            {
                break;
            }
            assert!(sent < 1_200, "{all:#?}");
        }
        let snapshot = gateway.settled("a", 0);
        assert_balanced(&snapshot, "a", sent);
        let received = port(&snapshot, "a").received;
        println!(
            "{port_of_a}: {sent} sent, {received} received, {} lost",
            port(&snapshot, "a").overflow_frames
        );
        let received = capture.exactly(received);
        assert!(received.windows(2).all(|pair| number_of(&pair[0]) < number_of(&pair[1])), "order");
        gateway.end();
    }
}

/// A gateway whose destination has so deep a queue, in the interface and before it.
fn narrow(
    interface: u32,
    depth: usize,
    of_rule: &str,
) -> (Capture, Gateway, candor_linux::netlink::Netlink) {
    let mut netlink = start_bed(1_000);
    netlink.set_queue_length(TARGET, interface).unwrap();
    let rules = format!(
        "[bus]\na = \"{SOURCE}?buffer=4000000\"\nb = \"{TARGET}?queue={depth}\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n{of_rule}"
    );
    (Capture::new(RECEIVES_ON), Gateway::start(&rules, &[]), netlink)
}

/// Frames of identifiers from the least urgent to the most, so that each has to find its place.
fn rising(count: u16) -> Vec<Frame> {
    let of = |nth: u16| numbered(0x400 - nth, u64::from(nth));
    (0..count).map(of).collect()
}

fn full_queue() {
    const INTERFACE: usize = 10;
    const DEPTH: usize = 16;
    let (capture, mut gateway, _netlink) = narrow(INTERFACE as u32, DEPTH, "");
    let mut sender = Sender::new(SENDS_ON);
    let frames = rising(100);
    let stopped = Stopped::new(TARGET);
    frames.iter().for_each(|frame| sender.send(frame));
    let taken = (INTERFACE + IN_CONTROLLER) as u64;
    let snapshot = gateway.once("the queue is full", |it| {
        let rule = rule(it, "all");
        rule.copies() == 100
    });
    let of_b = port(&snapshot, "b");
    assert_eq!((of_b.queued, of_b.most_queued, of_b.queue_depth), (16, 16, 16), "{of_b:?}");
    assert!(of_b.full > 0, "{of_b:?}");
    let of_all = rule(&snapshot, "all");
    assert_eq!((of_all.handled, of_all.pending), (taken, DEPTH as u64), "{of_all:?}");
    assert_eq!(refused(&snapshot, "all", "queue_full"), 100 - taken - DEPTH as u64);
    drop(stopped);
    let snapshot = gateway.settled("a", 100);
    assert_balanced(&snapshot, "a", 100);
    let received = capture.exactly(taken + DEPTH as u64);
    // What the interface had leaves in its order, and then the most urgent of all first.
    let (first, rest) = received.split_at(taken as usize);
    assert_eq!(first, &frames[..taken as usize]);
    let mut urgent = frames[100 - DEPTH..].to_vec();
    urgent.reverse();
    assert_eq!(texts(rest), texts(&urgent));
    gateway.end();
}

fn stale() {
    const INTERFACE: usize = 10;
    let rules = "match = [\"!0x100-0x1FF\"]\n\
         [[rule]]\nname = \"short\"\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x100-0x1FF\"]\n\
         deadline = \"200ms\"\n";
    let (capture, mut gateway, _netlink) = narrow(INTERFACE as u32, 64, rules);
    let mut sender = Sender::new(SENDS_ON);
    let taken = (INTERFACE + IN_CONTROLLER) as u64;
    let stopped = Stopped::new(TARGET);
    // These fill the interface, and the others wait: five that may, five that may for a while.
    (0..taken).for_each(|number| sender.send(&numbered(0x300, number)));
    for number in 0..5 {
        sender.send(&numbered(0x150, number));
        sender.send(&numbered(0x350, number));
    }
    gateway.once("all of them wait", |it| port(it, "b").queued == 10);
    let snapshot = gateway.once("some are stale", |it| refused(it, "short", "stale") == 5);
    assert_eq!((rule(&snapshot, "all").pending, rule(&snapshot, "short").pending), (5, 0));
    drop(stopped);
    let snapshot = gateway.settled("a", taken + 10);
    assert_balanced(&snapshot, "a", taken + 10);
    let received = capture.exactly(taken + 5);
    assert!(received.iter().all(|frame| frame.can_id() != 0x150));
    // Once there is room again the same frames are in time.
    (0..5).for_each(|number| sender.send(&numbered(0x150, number)));
    capture.exactly(taken + 10);
    gateway.end();
}

/// The interface takes one frame, its controller stops again and again: what has to wait is passed on
/// or counted.
fn short_queue() {
    const TIMES: u64 = 5;
    let (capture, mut gateway, _netlink) = narrow(1, 32, "");
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sender = Sender::new(SENDS_ON);
            while !is_over.load(Ordering::Relaxed) {
                sender.send(&numbered(0x100, sent.fetch_add(1, Ordering::Relaxed)));
            }
        });
        for time in 1..=TIMES {
            let stopped = Stopped::new(TARGET);
            gateway.once("refused", |it| refused(it, "all", "queue_full") >= time * 50);
            drop(stopped);
            let handled = rule(&gateway.stats(), "all").handled;
            gateway.once("passed on", |it| rule(it, "all").handled >= handled + 50);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    let snapshot = gateway.settled("a", sent);
    assert_balanced(&snapshot, "a", sent);
    let (handled, full) = (rule(&snapshot, "all").handled, refused(&snapshot, "all", "queue_full"));
    println!(
        "{sent} frames: {handled} handled, {full} refused, {} times there was no room",
        port(&snapshot, "b").full
    );
    assert_eq!(handled + full, sent);
    assert!(port(&snapshot, "b").full > 0, "{snapshot:#?}");
    let received = capture.exactly(handled);
    assert!(received.windows(2).all(|pair| number_of(&pair[0]) < number_of(&pair[1])), "order");
    gateway.end();
}

/// The time of day is set by hours while frames run: they pass, their latencies are reported as unusable,
/// and rates, which have another clock, stay what they were.
fn clock_steps() {
    const HOURS: i64 = 3_600;
    /// Of so many frames of an interface one has a time stamp, and so a latency.
    const STAMP_EVERY: u64 = 16;
    const MEANWHILE: u64 = 2 * STAMP_EVERY;
    let _netlink = virtual_buses(&["vcan0", "vcan1"]);
    // Every fifth frame: they come every 10 ms, well before and well after the interval of 45 ms.
    let rules = "[bus]\na = \"vcan0\"\nb = \"vcan1\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x100]\necho = true\n\
         [[rule]]\nname = \"paced\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x200]\nmin_interval = \"45ms\"\n\
         echo = true\n";
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let mut gateway = Gateway::start(rules, &[]);
    let begin = now();
    let mut sent = 0;
    for number in 0..100_u64 {
        candor_linux::clock::sleep_until(begin + Nanos::from_millis(10 * number)).unwrap();
        let step = match number {
            // Well away from those that pass.
            33 => 5 * HOURS,
            67 => -11 * HOURS,
            _ => 0,
        };
        sender.send(&numbered(0x200, number));
        sent += 1;
        if step == 0 {
            continue;
        }
        gateway.settled("a", sent);
        // These arrive before the clock is set and leave after.
        gateway.process().suspend();
        (0..MEANWHILE).for_each(|number| sender.send(&numbered(0x100, number)));
        sent += MEANWHILE;
        step_clock(step);
        gateway.process().resume();
    }
    let took = now() - begin;
    let snapshot = gateway.settled("a", sent);
    assert_balanced(&snapshot, "a", sent);
    assert_eq!(rule(&snapshot, "all").handled, 2 * MEANWHILE);
    let latency = &snapshot.latencies[0];
    assert_eq!(latency.unusable, 2 * MEANWHILE / STAMP_EVERY, "{latency:?}");
    assert!(latency.count > 0, "{latency:?}");
    assert!(latency.max_ns < 1_000_000_000, "{latency:?}");
    println!("{} paced in {took}", rule(&snapshot, "paced").handled);
    // Setting the clock takes its time, in which frames come late; none comes early.
    assert!((17..=20).contains(&rule(&snapshot, "paced").handled), "{snapshot:#?}");
    capture.exactly(rule(&snapshot, "paced").handled + 2 * MEANWHILE);
    gateway.end();
}

/// Each frame that a rule puts on a virtual bus with echo the rules of that bus see.
fn looping() {
    let _netlink = virtual_buses(&["vcan0", "vcan1", "vcan2"]);
    let rules = "max_hops = 3\n[bus]\na = \"vcan0\"\nb = \"vcan1\"\nc = \"vcan2\"\n\
         [[rule]]\nname = \"in\"\nfrom = \"a\"\nto = \"b\"\necho = true\n\
         [[rule]]\nname = \"there\"\nfrom = \"b\"\nto = \"c\"\necho = true\n\
         [[rule]]\nname = \"back\"\nfrom = \"c\"\nto = \"b\"\necho = true\n";
    let (captures, mut sender) = (["vcan1", "vcan2"].map(Capture::new), Sender::new("vcan0"));
    let mut gateway = Gateway::start(rules, &[]);
    const FRAMES: u64 = 200;
    for number in 0..FRAMES {
        sender.send(&numbered(0x100, number));
    }
    // To b, to c, and back to b; from there it has been passed on three times.
    let snapshot =
        gateway.once("all of them went round", |it| refused(it, "there", "hop_limit") == FRAMES);
    for (name, handled) in [("in", FRAMES), ("there", FRAMES), ("back", FRAMES)] {
        assert_eq!(rule(&snapshot, name).handled, handled, "{snapshot:#?}");
    }
    let [b, c] = &captures;
    b.exactly(2 * FRAMES);
    c.exactly(FRAMES);
    let after = gateway.stats();
    assert_eq!(after.rules, snapshot.rules, "it goes on");
    gateway.end();
}

/// QEMU's controllers make no errors and never go bus-off, so reports are written as a driver would:
/// by hand, on a virtual bus.
fn error_reports() {
    let _netlink = virtual_buses(&["vcan0", "vcan1"]);
    let rules = "[bus]\na = \"vcan0\"\nb = \"vcan1\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\nmatch = [0x100]\necho = true\n";
    let (capture, mut sender) = (Capture::new("vcan1"), Sender::new("vcan0"));
    let driver = candor_linux::can::Socket::open("vcan0").unwrap();
    let report = frame("20000040#0000000000000000");
    let mut gateway = Gateway::start(rules, &[]);
    let report = candor_linux::can::RawFrame::from(report);
    assert_eq!(driver.send(&report), Ok(candor_linux::Sent::Taken));
    sender.send(&Frame::new(StandardId::new(0x100).unwrap(), &[1]).unwrap());
    assert_eq!(texts(&capture.exactly(1)), ["100#01"]);
    let snapshot = gateway.settled("a", 1);
    assert_eq!((port(&snapshot, "a").received, port(&snapshot, "a").unmatched), (1, 0));
    gateway.end();
}

/// A tunnel to somebody who greets and then never reads, beside a bus. At real-time priority, on the
/// only processor: whoever spins lets nobody else run, not even those who would end it.
fn never_reads() {
    const FRAMES: u64 = 20_000;
    let mut netlink = virtual_buses(&["vcan0", "vcan1"]);
    netlink.set_up("lo", true).unwrap();
    // Sockets would grow until there is room for all frames.
    for buffer in ["tcp_rmem", "tcp_wmem"] {
        std::fs::write(format!("/proc/sys/net/ipv4/{buffer}"), "4096 32768 32768").unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:20000").unwrap();
    let rules = "[bus]\nhere = \"vcan0\"\nthere = \"vcan1\"\n\
         tunnel = \"cannelloni:tcp://127.0.0.1:20000\"\n\
         [[rule]]\nname = \"tunnel\"\nfrom = \"here\"\nto = \"tunnel\"\ndeadline = \"50ms\"\n\
         [[rule]]\nname = \"bus\"\nfrom = \"here\"\nto = \"there\"\necho = true\n";
    let capture = Capture::new("vcan1");
    let mut gateway = Gateway::start(rules, &["--cpu", "0", "--lock-memory"]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&HELLO).unwrap();
    gateway.once("both have greeted", |it| port(it, "tunnel").trouble.is_none());
    let mut sender = Sender::new("vcan0");
    let begin = now();
    for number in 0..FRAMES {
        sender.send(&numbered(0x100, number));
        if number % 500 == 499 {
            // As many as the buffers of sockets have room for.
            capture.exactly(number + 1);
        }
    }
    let took = now() - begin;
    let snapshot = gateway.once("nothing waits for the tunnel any more", |it| {
        it.rules.iter().map(|rule| rule.copies()).sum::<u64>() == 2 * FRAMES
            && rule(it, "tunnel").pending == 0
    });
    // Both rules take each frame.
    let here = port(&snapshot, "here");
    assert_eq!(
        (here.received, here.overflow_frames, here.not_routed()),
        (FRAMES, 0, 0),
        "{here:?}"
    );
    for name in ["tunnel", "bus"] {
        let rule = rule(&snapshot, name);
        assert_eq!(rule.handled + rule.refused() + rule.lost(), FRAMES, "{rule:?}");
    }
    assert_eq!(rule(&snapshot, "bus").handled, FRAMES);
    let stopped = &rule(&snapshot, "tunnel").stopped;
    println!("{FRAMES} frames in {took}; stopped on the way to the tunnel: {stopped:?}");
    assert!(stopped["queue_full"] > 0 && stopped["stale"] > 0, "{snapshot:#?}");
    // Nothing comes, so there is nothing to do but to look whether the peer reads again.
    let (begin, before) = (now(), clock::cpu_time_of(gateway.process().id()).unwrap());
    pause(Nanos::from_millis(500));
    let used = clock::cpu_time_of(gateway.process().id()).unwrap().as_nanos() - before.as_nanos();
    let elapsed = (now() - begin).as_nanos();
    println!("{} us of CPU in {} us", used / 1_000, elapsed / 1_000);
    assert!(used * 10 < elapsed, "it spins");
    let begin = now();
    gateway.end();
    let took = now() - begin;
    println!("ended within {took}");
    assert!(took < Nanos::from_secs(2), "{took}");
    drop(stream);
}

/// A disk with room for a thousand frames fills, and is freed again.
fn full_disk() {
    let _netlink = virtual_buses(&["vcan0"]);
    let disk = std::env::temp_dir().join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let place = disk.display().to_string();
    candor_linux::mount::mount("tmpfs", &place, "size=128k").unwrap();
    // All but 48 kB are taken.
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![0; 80 << 10]).unwrap();
    let rules = format!(
        "[bus]\na = \"vcan0\"\nlog = \"file:{place}/drive.log\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"log\"\n"
    );
    let mut sender = Sender::new("vcan0");
    let mut gateway = Gateway::start(&rules, &[]);
    let mut sent = 0;
    let send = |sender: &mut Sender, gateway: &mut Gateway, sent: &mut u64| {
        sender.send(&numbered(0x100, *sent));
        *sent += 1;
        if (*sent).is_multiple_of(100) {
            gateway.settled("a", *sent);
            // Until it is written: twice a second.
            pause(Nanos::from_millis(100));
        }
        assert!(*sent < 10_000, "the disk never fills");
    };
    let trouble = |snapshot: &Snapshot| port(snapshot, "log").trouble.clone();
    while trouble(&gateway.stats()).is_none() {
        for _ in 0..100 {
            send(&mut sender, &mut gateway, &mut sent);
        }
    }
    let snapshot = gateway.stats();
    assert!(trouble(&snapshot).unwrap().contains("No space left"), "{snapshot:#?}");
    while !rule(&gateway.stats(), "all").stopped.contains_key("down") {
        send(&mut sender, &mut gateway, &mut sent);
    }
    // The file is whole, and can be read meanwhile.
    let file = disk.join("drive.log");
    let log = std::fs::read_to_string(&file).unwrap();
    assert!(log.ends_with('\n'), "half a line");
    let written = records(&log).len();
    // With room again everything that was taken is written, and recording goes on.
    std::fs::remove_file(&filler).unwrap();
    gateway.once("it works again", |it| trouble(it).is_none());
    for _ in 0..100 {
        send(&mut sender, &mut gateway, &mut sent);
    }
    let snapshot = gateway.settled("a", sent);
    assert_balanced(&snapshot, "a", sent);
    gateway.end();
    let (all, log) = (rule(&snapshot, "all"), std::fs::read_to_string(&file).unwrap());
    let frames = records(&log);
    println!("{sent} sent, {written} written when the disk was full, {} at the end", frames.len());
    assert_eq!(frames.len() as u64, all.handled, "what was taken is written: {snapshot:#?}");
    assert!(frames.windows(2).all(|pair| number_of(&pair[0].1) < number_of(&pair[1].1)), "order");
    assert_eq!(port(&snapshot, "log").lost, 0);
}

//! Peers of tunnels that behave badly: one that never reads, one that reads slowly, one that dies, one
//! that sends everything back. None of them may hold up anybody else, and every copy is counted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use candor_engine::Table;
use candor_gateway::snapshot::{PortSnapshot, RuleSnapshot};
use candor_gateway::{Config, Gateway, Rules, Snapshot};
use candor_linux::clock;
use candor_port::{Received, Sent, Transmitter, Until, Wanted};
use candor_time::{Monotonic, Nanos};
use candor_wire::can::tunnel::cannelloni::{HELLO, Stream};
use candor_wire::can::{Frame, StandardId};

/// How long anything may take.
const MOST: Nanos = Nanos::from_secs(20);

fn now() -> candor_time::Instant<Monotonic> {
    clock::now()
}

fn pause(time: Nanos) {
    clock::sleep_until(now() + time).unwrap();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = now() + MOST;
    while !is_so() {
        assert!(now() < end, "not within {MOST}: {what}");
        pause(Nanos::from_millis(1));
    }
}

fn free_ports<const N: usize>() -> [u16; N] {
    // Free for both protocols.
    let free = || loop {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let address = udp.local_addr().unwrap();
        if let Ok(tcp) = TcpListener::bind(address) {
            return (udp, tcp, address.port());
        }
    };
    let sockets: [_; N] = std::array::from_fn(|_| free());
    sockets.map(|(_, _, port)| port)
}

fn table(text: &str) -> Table {
    let (table, findings) = candor_rules::file::parse("rules.toml", text);
    table.unwrap_or_else(|| panic!("{findings}"))
}

fn rules(text: &str) -> Rules {
    Rules { table: table(text), ..Rules::default() }
}

fn start(text: &str) -> Gateway {
    let config = Config { measures: true, ..Config::default() };
    Gateway::start(config, rules(text)).unwrap_or_else(|error| panic!("{error}"))
}

fn numbered(id: u16, number: u64) -> Frame {
    Frame::new(StandardId::new(id).unwrap(), &number.to_be_bytes()).unwrap()
}

fn port<'a>(snapshot: &'a Snapshot, bus: &str) -> &'a PortSnapshot {
    snapshot.ports.iter().find(|port| port.bus == bus).unwrap()
}

fn rule<'a>(snapshot: &'a Snapshot, name: &str) -> &'a RuleSnapshot {
    snapshot.rules.iter().find(|rule| rule.rule == name).unwrap()
}

fn total(rule: &RuleSnapshot) -> u64 {
    rule.copies()
}

/// The end of a UDP tunnel that sends.
fn sender_to(gateway: u16) -> Box<dyn Transmitter> {
    let name = format!("cannelloni:udp://127.0.0.1:{gateway}?listen=0");
    candor_drivers::open(&name.parse().unwrap(), Wanted::TRANSMITTER).unwrap().transmitter.unwrap()
}

fn send(sender: &mut dyn Transmitter, frame: &Frame) {
    while sender.transmit(frame, false) == Sent::Full {
        sender.wait(Nanos::from_millis(1));
    }
    assert_eq!(sender.flush(), Sent::Taken);
}

/// A TCP peer in a thread, until it is dropped.
struct Peer {
    address: String,
    frames: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// `serve` has each connection after both have greeted.
    fn new(serve: impl Fn(TcpStream, &AtomicU64, &AtomicBool) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        listener.set_nonblocking(true).unwrap();
        let (frames, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counter, over) = (Arc::clone(&frames), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    pause(Nanos::from_millis(1));
                    continue;
                };
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                if stream.write_all(&HELLO).is_ok() {
                    serve(stream, &counter, &over);
                }
            }
        });
        Self { address, frames, is_over, thread: Some(thread) }
    }

    /// Reads so many bytes at a time, and then rests.
    fn reading(bytes: usize, rest: Nanos) -> Self {
        Self::new(move |mut stream, frames, over| {
            let (mut decoder, mut buffer) = (Stream::new(), vec![0; bytes]);
            while !over.load(Ordering::Relaxed) {
                let next = now() + rest;
                match stream.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => decoder
                        .decode(&buffer[..count], |_| _ = frames.fetch_add(1, Ordering::Relaxed))
                        .unwrap(),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
                clock::sleep_until(next).unwrap();
            }
        })
    }

    fn that_never_reads() -> Self {
        Self::new(|stream, _, over| {
            while !over.load(Ordering::Relaxed) {
                pause(Nanos::from_millis(5));
            }
            drop(stream);
        })
    }

    /// Reads a little and is gone, with bytes left unread: its kernel resets the connection.
    fn that_dies() -> Self {
        Self::new(|mut stream, frames, _| {
            let mut buffer = [0; 300];
            let mut decoder = Stream::new();
            for _ in 0..3 {
                let Ok(count @ 1..) = stream.read(&mut buffer) else { break };
                let _ = decoder
                    .decode(&buffer[..count], |_| _ = frames.fetch_add(1, Ordering::Relaxed));
            }
            pause(Nanos::from_millis(10));
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the peer that never reads and the slow one have made frames be refused.
fn both_are_full(gateway: &Gateway) -> bool {
    let snapshot = gateway.snapshot();
    ["never", "slow"].iter().all(|it| rule(&snapshot, it).stopped.contains_key("queue_full"))
        && rule(&snapshot, "never").stopped.contains_key("stale")
}

#[test]
fn no_destination_holds_up_another_whatever_its_peer_does() {
    let peers = [
        Peer::that_never_reads(),
        // 2,000 bytes per second.
        Peer::reading(40, Nanos::from_millis(20)),
        Peer::that_dies(),
        Peer::reading(65_536, Nanos::ZERO),
    ];
    let [never, slow, dies, good] = &peers;
    let [a, b] = free_ports();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let rule_to = |name: &str, more: &str| {
        format!("[[rule]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"{name}\"\n{more}")
    };
    let text = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen=127.0.0.1:{a}&any_peer=true\"\n\
         b = \"cannelloni:udp://{}?listen=127.0.0.1:{b}\"\n\
         never = \"cannelloni:tcp://{}\"\nslow = \"cannelloni:tcp://{}?flush=1ms\"\n\
         dies = \"cannelloni:tcp://{}\"\ngood = \"cannelloni:tcp://{}\"\n{}{}{}{}{}",
        far.local_addr().unwrap(),
        never.address,
        slow.address,
        dies.address,
        good.address,
        // The bad ones come first.
        rule_to("never", "deadline = \"50ms\"\n"),
        rule_to("slow", ""),
        rule_to("dies", ""),
        rule_to("good", ""),
        rule_to("b", ""),
    );
    let mut gateway = start(&text);
    until("all have greeted", || gateway.snapshot().ports.iter().all(|it| it.trouble.is_none()));
    let mut sender = sender_to(a);
    let mut buffer = [0; 2_000];
    let cpu_before = clock::cpu_time_of(std::process::id()).unwrap();
    let begin = now();
    let (mut sent, mut worst) = (0, Nanos::ZERO);
    // One at a time, for three seconds, so that the time of each is seen; and bursts in between. How
    // much fits into the buffers of two kernels, and how many rounds a slow machine has time for,
    // differs: it goes on until the peers that read too little have refused some.
    for round in 0.. {
        let took = now() - begin;
        if took >= Nanos::from_secs(30) || took >= Nanos::from_secs(3) && both_are_full(&gateway) {
            break;
        }
        let burst = if round % 20 == 0 { 400 } else { 1 };
        pause(Nanos::from_micros(500));
        let start = now();
        for _ in 0..burst {
            assert_ne!(sender.transmit(&numbered(0x100, sent), false), Sent::Full);
            sent += 1;
        }
        sender.flush();
        let mut frames = 0;
        while frames < burst {
            let len = far.recv(&mut buffer).expect("every frame comes, and soon");
            let datagram =
                candor_wire::can::tunnel::cannelloni::Datagram::decode(&buffer[..len]).unwrap();
            frames += u64::from(datagram.count());
        }
        worst = worst.max(now() - start);
        // The good peer's thread may have had no processor: some hundred frames one at a time fill the buffers
        // of two kernels, which count what each packet costs them.
        until("the good one has all", || good.frames.load(Ordering::Relaxed) == sent);
    }
    let took = now() - begin;
    let cpu = clock::cpu_time_of(std::process::id()).unwrap().as_nanos() - cpu_before.as_nanos();
    println!("{sent} frames, the worst took {worst}; {} ms of CPU in {took}", cpu / 1_000_000);
    // A burst has 5,200 bytes: it would wait for 2.6 s for one that reads 2,000 bytes per second. A machine with
    // other work may stop a thread for a second.
    assert!(worst < Nanos::from_secs(2), "{worst}");
    until("all are decided", || {
        let snapshot = gateway.snapshot();
        snapshot.rules.iter().all(|it| total(it) == sent)
    });
    let snapshot = gateway.snapshot();
    for name in ["b", "good"] {
        assert_eq!(rule(&snapshot, name).handled, sent, "{snapshot:#?}");
    }
    // What may wait for 50 ms does not wait for ever in front of a peer that never reads.
    until("all of it is stale", || rule(&gateway.snapshot(), "never").pending == 0);
    let snapshot = gateway.snapshot();
    let stale = rule(&snapshot, "never").stopped["stale"];
    assert!(stale > 0, "{snapshot:#?}");
    for name in ["never", "slow"] {
        assert!(rule(&snapshot, name).stopped["queue_full"] > 0, "{snapshot:#?}");
        assert_eq!(rule(&snapshot, name).handled, port(&snapshot, name).transmitted);
    }
    let dead = port(&snapshot, "dies");
    assert!(dead.transmitted > 0 && rule(&snapshot, "dies").stopped["down"] > 0, "{dead:?}");
    until("the good one has all", || good.frames.load(Ordering::Relaxed) == sent);
    // The end comes soon.
    let begin = now();
    gateway.stop();
    let took = now() - begin;
    println!("ended within {took}");
    assert!(took < Nanos::from_secs(10), "{took}");
    let snapshot = gateway.snapshot();
    for it in &snapshot.rules {
        assert_eq!((it.pending, total(it)), (0, sent), "{it:?}");
        assert_eq!(it.handled, port(&snapshot, &it.rule).transmitted, "{it:?}");
    }
}

#[test]
fn little_waits_behind_a_peer_that_does_not_read() {
    let never = Peer::that_never_reads();
    let name = format!("cannelloni:tcp://{}", never.address);
    let port = candor_drivers::open(&name.parse().unwrap(), Wanted::TRANSMITTER).unwrap();
    let mut transmitter = port.transmitter.unwrap();
    until("it is connected", || transmitter.transmit(&numbered(0, 0), false) == Sent::Taken);
    // The buffer of the other end fills; nobody but the other end can bound that.
    while transmitter.transmit(&numbered(0x100, 1), false) == Sent::Taken {}
    assert_eq!(transmitter.flush(), Sent::Full);
    let frames = transmitter.counters().frames.get();
    drop(transmitter);
    drop(never);
    // Nothing more is taken from then on: neither here nor by the kernel, whose buffer would have room
    // for megabytes.
    println!("{frames} frames of 13 bytes");
    assert!(frames < 400_000 / 13, "{frames}");
}

#[test]
fn a_peer_that_vanishes_leaves_sums_that_add_up() {
    let dies = Peer::that_dies();
    let [a] = free_ports();
    let text = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen=127.0.0.1:{a}&any_peer=true\"\n\
         t = \"cannelloni:tcp://{}\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"t\"\n",
        dies.address
    );
    let mut gateway = start(&text);
    until("it is connected", || gateway.snapshot().ports[1].trouble.is_none());
    let mut sender = sender_to(a);
    let mut sent = 0;
    // Through many connections, and while there is none.
    let lacks =
        |it: &Snapshot| port(it, "t").lost < 100 || !rule(it, "all").stopped.contains_key("down");
    while lacks(&gateway.snapshot()) {
        for _ in 0..20 {
            send(&mut *sender, &numbered(0x100, sent));
            sent += 1;
        }
        pause(Nanos::from_millis(2));
        assert!(sent < 200_000, "nothing is lost: {:#?}", gateway.snapshot());
    }
    until("all have come", || port(&gateway.snapshot(), "a").received == sent);
    gateway.stop();
    let snapshot = gateway.snapshot();
    let (all, tunnel) = (rule(&snapshot, "all"), port(&snapshot, "t"));
    let read = dies.frames.load(Ordering::Relaxed);
    println!("{sent} sent, {read} read by the peer; {all:?}");
    assert_eq!((all.pending, total(all)), (0, sent));
    assert_eq!(all.handled, tunnel.transmitted);
    // A frame that the peer read but did not acknowledge before it went away counts as lost too, so
    // the two may overlap; neither is more than what was transmitted.
    assert!(read <= tunnel.transmitted && tunnel.lost <= tunnel.transmitted, "{read} {tunnel:?}");
    assert!(all.stopped["down"] > 0);
}

#[test]
fn clients_that_never_greet_keep_nobody_out() {
    let [a, t] = free_ports();
    let text = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen=127.0.0.1:{a}&any_peer=true\"\n\
         t = \"cannelloni:tcp://127.0.0.1:{t}?role=server\"\n\
         [[rule]]\nname = \"out\"\nfrom = \"a\"\nto = \"t\"\n\
         [[rule]]\nname = \"in\"\nfrom = \"t\"\nto = \"a\"\n"
    );
    let mut gateway = start(&text);
    let connect = || TcpStream::connect(("127.0.0.1", t)).unwrap();
    let silent: Vec<_> = (0..100).map(|_| connect()).collect();
    let mut partial = connect();
    partial.write_all(&HELLO[..5]).unwrap();
    let mut wrong = connect();
    wrong.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let begin = now();
    let mut client = connect();
    client.write_all(&HELLO).unwrap();
    client.write_all(b"\0\0\x01\x23\x01\xAA").unwrap();
    until("its frame comes", || port(&gateway.snapshot(), "t").received == 1);
    let took = now() - begin;
    println!("{took}");
    // Each of the others would be waited for, for 5 s.
    assert!(took < Nanos::from_secs(4), "{took}: others were waited for");
    let snapshot = gateway.snapshot();
    assert!(port(&snapshot, "t").foreign >= 1, "{snapshot:#?}");
    assert_eq!(port(&snapshot, "t").trouble, None);
    drop((silent, partial));
    gateway.stop();
}

#[test]
fn datagrams_are_counted_once() {
    const FRAMES: u64 = 30_000;
    let [a, b, c] = free_ports();
    let loopback = |port: u16| format!("127.0.0.1:{port}");
    let sender = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen={}&any_peer=true\"\n\
         b = \"cannelloni:udp://{}?listen={}&mtu=110\"\n\
         [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n",
        loopback(a),
        loopback(c),
        loopback(b),
    );
    // Its buffer has room for a few datagrams, so that many are dropped.
    let receiver = format!(
        "[bus]\nc = \"cannelloni:udp://{}?listen={}&buffer=1\"\n\
         d = \"sim:peers-{}\"\n[[rule]]\nname = \"all\"\nfrom = \"c\"\nto = \"d\"\n",
        loopback(b),
        loopback(c),
        std::process::id(),
    );
    let (mut sender, mut receiver) = (start(&sender), start(&receiver));
    let mut input = sender_to(a);
    for number in 0..FRAMES {
        while input.transmit(&numbered(0x100, number), false) == Sent::Full {
            input.wait(Nanos::from_millis(1));
        }
        if number % 100 == 0 {
            input.flush();
            // The sender keeps up.
            until("it is received", || port(&sender.snapshot(), "a").received + 2_000 > number);
        }
    }
    input.flush();
    until("all are sent", || port(&sender.snapshot(), "b").transmitted == FRAMES);
    // Drops are reported with what comes after them; the kernel is asked when a thread is woken.
    let balanced = || {
        let (sent, got) = (sender.snapshot(), receiver.snapshot());
        let (sent, got) = (port(&sent, "b").transmitted_datagrams, port(&got, "c").clone());
        let known = got.received_datagrams + got.overflow_datagrams + got.missing_datagrams;
        (sent, known, got)
    };
    let mut extra = 0;
    until("every datagram is accounted for", || {
        let (sent, known, _) = balanced();
        if sent != known {
            extra += 1;
            send(&mut *input, &numbered(0x101, extra));
            pause(Nanos::from_millis(5));
        }
        let (sent, known, _) = balanced();
        sent == known
    });
    let (sent, _, got) = balanced();
    println!(
        "{sent} datagrams: {} received, {} dropped",
        got.received_datagrams, got.overflow_datagrams
    );
    assert!(got.overflow_datagrams > 0, "{got:?}");
    assert_eq!((got.missing_datagrams, got.malformed_datagrams, got.overflow_frames), (0, 0, 0));
    // Frames in dropped datagrams nobody knows of; those that came are all accounted for.
    until("all frames that came are decided", || {
        let snapshot = receiver.snapshot();
        total(rule(&snapshot, "all")) == port(&snapshot, "c").received
    });
    sender.stop();
    receiver.stop();
}

/// Two gateways with two tunnels, and rules that pass everything on.
fn ring(stops_loops: bool) -> (Gateway, Gateway, u16) {
    let [a, n1, n2, f1, f2] = free_ports();
    let bus = |name: &str, own: u16, peer: u16| {
        format!("{name} = \"cannelloni:udp://127.0.0.1:{peer}?listen=127.0.0.1:{own}\"\n")
    };
    let near = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen=127.0.0.1:{a}&any_peer=true\"\n{}{}\
         [[rule]]\nname = \"in\"\nfrom = \"a\"\nto = \"one\"\n\
         [[rule]]\nname = \"round\"\nfrom = \"two\"\nto = \"one\"\n",
        bus("one", n1, f1),
        bus("two", n2, f2),
    );
    let far = format!(
        "[bus]\n{}{}[[rule]]\nname = \"round\"\nfrom = \"one\"\nto = \"two\"\n",
        bus("one", f1, n1),
        bus("two", f2, n2),
    );
    let config = Config { stops_loops, ..Config::default() };
    let near = Gateway::start(config.clone(), rules(&near)).unwrap();
    (near, Gateway::start(config, rules(&far)).unwrap(), a)
}

#[test]
fn frames_that_go_round_between_gateways_are_reported() {
    let (mut near, mut far, a) = ring(false);
    send(&mut *sender_to(a), &numbered(0x100, 1));
    until("it is reported", || {
        near.news().iter().any(|line| line.contains("`two`: frames arrive again and again"))
    });
    let snapshot = near.snapshot();
    assert!(port(&snapshot, "two").looping > 0);
    assert_eq!(port(&snapshot, "a").looping, 0);
    far.stop();
    until("it is over", || {
        near.news().iter().any(|line| line.contains("no more frames run in a loop"))
    });
    near.stop();
}

#[test]
fn frames_that_go_round_and_are_changed_on_the_way_are_reported() {
    let [a, n1, n2, f1, f2] = free_ports();
    let end =
        |own: u16, peer: u16| format!("cannelloni:udp://127.0.0.1:{peer}?listen=127.0.0.1:{own}");
    let near = format!(
        "[bus]\na = \"cannelloni:udp://127.0.0.1:1?listen=127.0.0.1:{a}&any_peer=true\"\n\
         one = \"{}\"\ntwo = \"{}\"\n\
         [[rule]]\nname = \"in\"\nfrom = \"a\"\nto = \"one\"\n\
         [[rule]]\nname = \"round\"\nfrom = \"two\"\nto = \"one\"\n",
        end(n1, f1),
        end(n2, f2),
    );
    let mut near = start(&near);
    // The other gateway gives each frame a number that was not there before.
    let open = |name: String, wanted| candor_drivers::open(&name.parse().unwrap(), wanted).unwrap();
    let mut from = open(end(f1, n1), Wanted::RECEIVER).receiver.unwrap();
    let mut to = open(end(f2, n2), Wanted::TRANSMITTER).transmitter.unwrap();
    let is_over = Arc::<AtomicBool>::default();
    let over = Arc::clone(&is_over);
    let far = thread::spawn(move || {
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            let until = Until::Instant(now() + Nanos::from_millis(20));
            let mut take = |_: &Received| {
                number += 1;
                while to.transmit(&numbered(0x100, number), false) == Sent::Full {
                    to.wait(Nanos::from_millis(1));
                }
            };
            from.receive(until, &mut take).unwrap();
            to.flush();
        }
    });
    let mut sender = sender_to(a);
    for number in 0..200 {
        send(&mut *sender, &numbered(0x100, number));
    }
    until("it is reported", || {
        near.news().iter().any(|line| line.contains("`two`: frames arrive again and again"))
    });
    let snapshot = near.snapshot();
    assert!(port(&snapshot, "two").looping > 0);
    assert_eq!(port(&snapshot, "a").looping, 0);
    is_over.store(true, Ordering::Relaxed);
    far.join().unwrap();
    near.stop();
}

#[test]
fn frames_that_go_round_between_gateways_end_if_that_is_asked_for() {
    let (mut near, mut far, a) = ring(true);
    let mut sender = sender_to(a);
    for number in 0..20 {
        send(&mut *sender, &numbered(0x100, number));
    }
    let refused = |gateway: &Gateway| {
        let snapshot = gateway.snapshot();
        rule(&snapshot, "round").stopped.get("hop_limit").copied().unwrap_or(0)
    };
    until("all of them are refused", || refused(&near) + refused(&far) == 20);
    let news = [near.news(), far.news()].concat().join("\n");
    assert!(news.contains("in a loop; this gateway refuses them, as `hop_limit`; "), "{news}");
    assert!(!news.contains("--stop-loops"), "{news}");
    let before = port(&near.snapshot(), "two").received;
    pause(Nanos::from_millis(20));
    assert_eq!(port(&near.snapshot(), "two").received, before, "nothing goes round any more");
    near.stop();
    far.stop();
}

//! Generator, switch and listeners over pairs of virtual interfaces, in a network namespace that ends with the thread of
//! the test. What this machine does not permit is reported.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use candor_causes::Cause;
use candor_linux::ethernet::{EthernetSocket, Options};
use candor_linux::namespace::Namespace;
use candor_linux::netlink::Netlink;
use candor_linux::realtime::{self, Policy, Task};
use candor_linux::{Sent, clock};
use candor_time::{Nanos, Realtime};
use candor_tte::Network;
use candor_tte::file::parse;
use candor_tte::frames::{PCF_ID, integration};
use candor_tte_live::Epoch;
use candor_tte_live::analyzer::{Heard, listen};
use candor_tte_live::generator::{Advance, Cycles, Generator, News};
use candor_tte_live::join::{Join, Outcome};
use candor_tte_live::switch::{Service, Switch, Tally};
use candor_tte_live::synchronisation::{self, Change, Refusal};
use candor_wire::eth::tte::Measurement;

const NETWORK: &str = r#"
cycle = "10ms"
end_system = { generator = {}, analyzer = {} }
switch.switch = { buffer = "queue" }
link.in = { between = ["generator", "switch"] }
link.out = { between = ["switch", "analyzer"] }
[flow.one]
class = "tt"
id = 1
from = "generator"
to = "analyzer"
size = 128
send = "1ms"
relay_delay = "3ms"
[flow.two]
class = "tt"
id = 2
from = "generator"
to = "analyzer"
period = "5ms"
send = "4ms"
relay_delay = "2.5ms"
"#;
/// Nothing takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// At least so many are sent, and frames forged of each kind.
const FRAMES: usize = 40;
const FORGED: u32 = 20;
const FORGERIES: [Refusal; 5] = [
    Refusal::CycleNumber,
    Refusal::TransparentClock,
    Refusal::OtherLink,
    Refusal::Kind,
    Refusal::Truncated,
];

/// The interfaces: `gen` and `in` are a pair, `out` and `ana` are one.
fn set_up() -> Result<(), candor_linux::Error> {
    Namespace::unshare()?;
    for name in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    }
    let mut netlink = Netlink::open()?;
    for (one, other) in [("gen", "in"), ("out", "ana")] {
        netlink.create_veth(one, other)?;
        netlink.set_up(one, true)?;
        netlink.set_up(other, true)?;
    }
    Ok(())
}

/// One test at a time: threads that send and relay have a priority, where that is permitted, and few processors.
static ONE: Mutex<()> = Mutex::new(());

fn prefer_this_thread() {
    let _ = realtime::set_policy(Task::This, Policy::Fifo(50));
}

/// Whether `body` could be run, in a thread with a namespace.
fn in_a_namespace(body: fn(&Network)) {
    let work = move || {
        if let Err(error) = set_up() {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "continuous integration runs as root, so this must run there: {error}");
            println!("not run: {error}");
            return;
        }
        let (network, findings) = parse("n", NETWORK);
        body(&network.unwrap_or_else(|| panic!("{findings}")));
    };
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| scope.spawn(work).join().unwrap());
}

fn open(name: &str) -> EthernetSocket {
    EthernetSocket::open(name, Options::default()).unwrap()
}

/// Whatever happens, the threads end.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Cycles of a switch that begin anywhere.
fn serve(network: &Network, shift: Nanos, stop: &AtomicBool, tally: &Mutex<Tally>) -> Tally {
    prefer_this_thread();
    let (inner, outer) = (open("in"), open("out"));
    let epoch = Epoch::of_the_clock(clock::now::<Realtime>(), network.cycle);
    let switch = Switch {
        network,
        node: network.node("switch").unwrap(),
        ports: vec![(0, &inner), (1, &outer)],
        epoch: Epoch(epoch.0 + shift),
        advance: Nanos::from_micros(2),
        warmer: None,
    };
    let service = Service { pcf_id: Some(PCF_ID), cables: vec![], tally };
    let (tally, ended) = switch.serve(stop, &service);
    ended.unwrap();
    tally
}

fn generator<'a>(network: &'a Network, socket: &'a EthernetSocket) -> Generator<'a> {
    Generator {
        network,
        nodes: vec![(0, socket)],
        cycles: Cycles::Pcfs { id: PCF_ID, sends_unsynchronised: false },
        run: 5,
        seed: 1,
        advance: Advance::default(),
        warmer: None,
        count: None,
        most_late: Some(network.cycle),
    }
}

/// Waits for news that are wanted; what came before.
fn until(news: &Receiver<News>, wanted: impl Fn(&News) -> bool) -> Vec<News> {
    let mut before = Vec::new();
    let end = clock::now::<Realtime>() + Nanos::from_nanos(TIMEOUT.as_nanos() as u64);
    while clock::now::<Realtime>() < end {
        match news.recv_timeout(TIMEOUT) {
            Ok(it) if wanted(&it) => return before,
            Ok(it) => before.push(it),
            Err(_) => break,
        }
    }
    panic!("did not happen; before: {before:?}");
}

const fn is_sent(news: &News) -> bool {
    matches!(news, News::Sent { .. })
}

#[test]
fn all_frames_arrive_in_the_cycles_of_the_switch() {
    in_a_namespace(|network| {
        let (stop, enough) = (AtomicBool::new(false), AtomicBool::new(false));
        let tally = Mutex::default();
        let socket = open("gen");
        let behind = open("ana");
        let before =
            Options { hears_outgoing: true, has_transmit_stamps: false, ..Options::default() };
        let before = EthernetSocket::open("gen", before).unwrap();
        let (tell, heard) = channel();
        thread::scope(|scope| {
            let _ending = Ending(&stop);
            let switch = scope.spawn(|| serve(network, Nanos::from_micros(3_300), &stop, &tally));
            for (is_behind, port) in [(false, &before), (true, &behind)] {
                let (tell, stop) = (tell.clone(), &stop);
                scope.spawn(move || {
                    // Frames find no room where a machine at work lets nobody fetch them.
                    prefer_this_thread();
                    listen(port, network, stop, &mut |it| tell.send((is_behind, it)).is_ok())
                        .unwrap()
                });
            }
            let (told, news) = channel();
            let (enough, _enough) = (&enough, Ending(&enough));
            let sending = generator(network, &socket);
            let sending = scope.spawn(move || {
                prefer_this_thread();
                let (generated, ended) = sending.run(enough, &mut |it| told.send(it).unwrap());
                ended.map(|()| generated)
            });
            let early = until(&news, |it| *it == News::Changed(Change::Synchronised));
            let pcfs = early.iter().filter(|it| matches!(it, News::Heard(..))).count();
            assert!((3..20).contains(&pcfs), "{pcfs}: {early:?}");
            assert!(!early.iter().any(is_sent));
            // Forged frames while it sends.
            scope.spawn(|| {
                prefer_this_thread();
                let port = open("in");
                let address = port.address();
                for _ in 0..FORGED {
                    let pcf = |id, number, delay| {
                        network.frames.pcf(address, id, &integration(number, delay))
                    };
                    let back = pcf(PCF_ID, 0, Nanos::ZERO);
                    let slow = pcf(PCF_ID, 1 << 30, network.cycle);
                    let other = pcf(7, 0, Nanos::ZERO);
                    let mut kind = back;
                    kind[28] = 0x4;
                    for bytes in [&back[..], &slow, &other, &kind, &back[..30]] {
                        assert_eq!(port.send(bytes), Ok(Sent::Taken));
                    }
                    let _ = clock::sleep_until(clock::now::<Realtime>() + Nanos::from_millis(7));
                }
            });
            let mut sent = Vec::new();
            let mut precision = Nanos::ZERO;
            let mut refused = BTreeMap::<Refusal, u32>::new();
            // It sends until all that is awaited came.
            while let Ok(it) = news.recv_timeout(TIMEOUT) {
                match it {
                    News::Sent { departure, is_synchronised, .. } => {
                        assert!(is_synchronised && departure.is_taken && departure.stamp.is_some());
                        sent.push(departure);
                    }
                    News::Heard(synchronisation::Heard::Refused(it), _) => {
                        *refused.entry(it).or_default() += 1;
                    }
                    News::Heard(_, it) => precision = it,
                    _ => {}
                }
                let heard = FORGERIES.iter().all(|it| refused.get(it) >= Some(&FORGED));
                if heard && sent.len() >= FRAMES {
                    enough.store(true, Ordering::Relaxed);
                }
            }
            let generated = sending.join().unwrap().unwrap();
            assert!(sent.len() >= FRAMES, "{}", sent.len());
            for refusal in FORGERIES {
                assert!(refused.get(&refusal) >= Some(&FORGED), "{refusal}: {refused:?}");
            }
            println!("precision {precision}, stops {}", generated.stops.count());
            assert!(precision < Nanos::from_millis(2), "{precision}");
            // The frames are in the cycles of the switch, whose begin is 3.3 ms off those of the clock.
            for departure in sent.iter().filter(|it| it.flow == 0) {
                let into = departure.due.as_nanos() % network.cycle.as_nanos();
                assert!(into.abs_diff(4_300_000) < 500_000, "{into}");
            }
            let mut join = Join::new(Nanos::from_secs(5));
            let mut latencies = Vec::new();
            let mut gone = Vec::new();
            while latencies.len() < sent.len() {
                let (is_behind, it) = heard.recv_timeout(TIMEOUT).unwrap();
                if let Heard::Looked(at) = it {
                    join.expire(at, &mut |it| gone.push(it));
                    assert!(gone.is_empty(), "{gone:?}: {:?}", tally.lock());
                }
                let Heard::Frame { flow, arrival, is_outgoing } = it else { continue };
                assert_eq!(is_outgoing, !is_behind);
                let (key, stamp) = ((&arrival.measurement).into(), arrival.stamp.unwrap());
                let outcome = match is_behind {
                    true => join.behind(key, stamp),
                    false => join.before(key, stamp),
                };
                if let Some(Outcome::Arrived { before, behind, .. }) = outcome {
                    latencies.push((flow, behind.signed_nanos_since(before)));
                }
            }
            assert_eq!(join.waiting(), 0);
            for flow in 0..2 {
                let mut of: Vec<_> =
                    latencies.iter().filter(|it| it.0 == flow).map(|it| it.1).collect();
                of.sort_unstable();
                let model = network.latency(flow, 1, Default::default()).unwrap().total();
                println!("flow {flow}: {:?}, model {model}", &of[..]);
                // A machine at work delays most of them, but not all. Behind one that missed its instant the others wait
                // in the queue for the next one.
                let period = network.flows[flow].period().unwrap().as_nanos();
                let distance = |it: &i64| it.abs_diff(model.as_nanos() as i64) % period;
                assert!(of.iter().any(|it| distance(it) < 200_000), "{of:?}");
            }
            stop.store(true, Ordering::Relaxed);
            let tally = switch.join().unwrap();
            assert_eq!((tally.relayed, tally.dropped.len()), (sent.len() as u64, 0), "{tally:?}");
            // In each cycle it sends three frames, and each of two ports sends one PCF.
            assert!(tally.pcfs as usize >= sent.len() / 3 * 2, "{tally:?}");
        });
    });
}

/// Waits until a switch has counted what is wanted.
fn until_counted(tally: &Mutex<Tally>, wanted: impl Fn(&Tally) -> bool) {
    let end = clock::now::<Realtime>() + Nanos::from_nanos(TIMEOUT.as_nanos() as u64);
    while !wanted(&tally.lock().unwrap()) {
        assert!(clock::now::<Realtime>() < end, "{:?}", tally.lock().unwrap());
        let _ = clock::sleep_until(clock::now::<Realtime>() + Nanos::from_millis(1));
    }
}

#[test]
fn frames_that_are_longer_than_their_flow_says_are_dropped() {
    in_a_namespace(|_| {
        for (relaying, is_policed) in
            [("buffer = \"queue\"", true), ("relaying = \"store-and-forward\"", false)]
        {
            let (network, findings) = parse("n", &NETWORK.replace("buffer = \"queue\"", relaying));
            let network = network.unwrap_or_else(|| panic!("{findings}"));
            let (stop, tally) = (AtomicBool::new(false), Mutex::default());
            let port = open("gen");
            let ended = thread::scope(|scope| {
                let _ending = Ending(&stop);
                let switch = scope.spawn(|| serve(&network, Nanos::ZERO, &stop, &tally));
                until_counted(&tally, |it| it.pcfs > 0);
                // 64 bytes too long, one byte, and as long as the flow says.
                for more in [64, 1, 0] {
                    for (stream, sequence) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                        let measurement =
                            Measurement { run: 1, stream, sequence, scheduled_ns: 0, sent_ns: 0 };
                        let mut bytes = [0; 256];
                        let len = network.write_frame(port.address(), &measurement, &mut bytes);
                        assert_eq!(port.send(&bytes[..len + more]), Ok(Sent::Taken));
                    }
                }
                until_counted(&tally, |it| it.relayed + it.dropped.values().sum::<u64>() == 12);
                stop.store(true, Ordering::Relaxed);
                switch.join().unwrap()
            });
            let dropped: Vec<_> = ended.dropped.into_iter().collect();
            let expected = match is_policed {
                true => (4, vec![(Cause::Oversized, 8)]),
                false => (12, vec![]),
            };
            assert_eq!((ended.relayed, dropped), expected, "{relaying}");
        }
    });
}

#[test]
fn an_interface_that_goes_ends_all_and_what_was_counted_is_kept() {
    in_a_namespace(|network| {
        let (stop, tally) = (AtomicBool::new(false), Mutex::default());
        let [inner, outer, before, behind] = ["in", "out", "gen", "ana"].map(open);
        let switch = Switch {
            network,
            node: network.node("switch").unwrap(),
            ports: vec![(0, &inner), (1, &outer)],
            epoch: Epoch::of_the_clock(clock::now::<Realtime>(), network.cycle),
            advance: Nanos::from_micros(2),
            warmer: None,
        };
        // It sends nothing by which it would see that a port is gone.
        let service = Service { pcf_id: None, cables: vec![], tally: &tally };
        let free = Generator { cycles: Cycles::From(switch.epoch), ..generator(network, &before) };
        let (told, news) = channel();
        thread::scope(|scope| {
            let _ending = Ending(&stop);
            let (switch, free, stop) = (&switch, &free, &stop);
            let switching = scope.spawn(|| {
                prefer_this_thread();
                switch.serve(stop, &service)
            });
            let sending = scope.spawn(move || free.run(stop, &mut |it| told.send(it).unwrap()));
            let listening = scope.spawn(|| listen(&behind, network, stop, &mut |_| true));
            for _ in 0..FRAMES {
                until(&news, is_sent);
            }
            // Some are inside.
            let relayed = FRAMES as u64 / 2;
            until_counted(&tally, |it| it.relayed >= relayed);
            let mut netlink = Netlink::open().unwrap();
            netlink.delete("ana").unwrap();
            let (counted, ended) = switching.join().unwrap();
            let gone = |error: candor_linux::Error| error.to_string().contains("interface is gone");
            assert!(gone(ended.unwrap_err()));
            assert!(gone(listening.join().unwrap().unwrap_err()));
            assert!(counted.relayed >= relayed, "{counted:?}");
            netlink.delete("gen").unwrap();
            let (generated, ended) = sending.join().unwrap();
            assert!(gone(ended.unwrap_err()));
            assert!(generated.synchronisation.is_none());
        });
    });
}

#[test]
fn a_switch_that_vanishes_and_returns_is_followed() {
    in_a_namespace(|network| {
        let (stop, first) = (AtomicBool::new(false), AtomicBool::new(false));
        let tally = Mutex::default();
        let socket = open("gen");
        thread::scope(|scope| {
            let (_ending, _first) = (Ending(&stop), Ending(&first));
            let switch = scope.spawn(|| serve(network, Nanos::ZERO, &first, &tally));
            let (told, news) = channel();
            let sending = generator(network, &socket);
            let (stop, tally) = (&stop, &tally);
            scope.spawn(move || {
                prefer_this_thread();
                let (_, ended) = sending.run(stop, &mut |it| {
                    let _ = told.send(it);
                });
                ended.unwrap();
            });
            until(&news, |it| *it == News::Changed(Change::Synchronised));
            for _ in 0..6 {
                until(&news, is_sent);
            }
            first.store(true, Ordering::Relaxed);
            switch.join().unwrap();
            until(&news, |it| *it == News::Changed(Change::Lost));
            let before = until(&news, |it| matches!(it, News::Withheld(_)));
            assert!(!before.iter().any(is_sent));
            // It returns, counts from the begin, and its cycles begin at other instants.
            scope.spawn(|| serve(network, Nanos::from_micros(6_700), stop, tally));
            let before = until(&news, |it| *it == News::Changed(Change::Synchronised));
            assert!(!before.iter().any(|it| matches!(it, News::Changed(_))), "said once");
            assert!(!before.iter().any(is_sent));
            for _ in 0..8 {
                until(&news, |it| match it {
                    News::Sent { departure, .. } if departure.flow == 0 => {
                        let into = departure.due.as_nanos() % network.cycle.as_nanos();
                        assert!(into.abs_diff(7_700_000) < 500_000, "{into}");
                        true
                    }
                    _ => false,
                });
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

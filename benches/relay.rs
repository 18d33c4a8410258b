//! One frame a datagram: the gateway between two ports of can2udp against a loop of `recvfrom` and `sendto`, in turn:
//! `cargo bench -p candor-gateway --bench relay`.
//!
//! Sender and receiver are threads of this process and the same for both. What counts is the CPU time per frame of the
//! thread that relays, and that nothing is lost. The loop decodes nothing and decides nothing.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use candor_gateway::{Config, Gateway, Rules};
use candor_linux::realtime::threads_of;

const FRAMES: u64 = 400_000;
/// So many frames may be under way: fewer than fit into the buffers of the sockets.
const WINDOW: u64 = 200;
const ROUNDS: usize = 7;
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Relay {
    /// A call to receive and a call to send for each datagram.
    Loop,
    Gateway,
}

/// CPU time so far of the threads that relay, in ns.
fn cpu_ns() -> u64 {
    let threads = threads_of(std::process::id()).expect("/proc is mounted");
    let is_ours =
        |name: &str| name.starts_with("in/") || name.starts_with("out/") || name == "loop";
    let read = |id: u32| fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok();
    threads
        .iter()
        .filter(|thread| is_ours(&thread.name))
        .filter_map(|thread| read(thread.id)?.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// CPU time per frame in ns, and frames lost.
fn measure(relay: Relay) -> (f64, u64) {
    let bind = || UdpSocket::bind(("127.0.0.1", 0)).expect("loopback");
    let (sender, receiver) = (bind(), bind());
    let to = receiver.local_addr().expect("bound");
    let [a, b] = [bind(), bind()].map(|socket| socket.local_addr().expect("bound"));
    receiver.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let (received, is_ending) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let counting = {
        let (received, is_ending) = (Arc::clone(&received), Arc::clone(&is_ending));
        thread::spawn(move || {
            while !is_ending.load(Ordering::Relaxed) {
                received
                    .fetch_add(u64::from(receiver.recv(&mut [0; 64]).is_ok()), Ordering::Relaxed);
            }
        })
    };
    let mut gateway = None;
    let mut looping = None;
    match relay {
        Relay::Loop => {
            let socket = UdpSocket::bind(a).expect("it was free");
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
            let is_ending = Arc::clone(&is_ending);
            let work = move || {
                let mut datagram = [0; 64];
                while !is_ending.load(Ordering::Relaxed) {
                    if let Ok((len, _)) = socket.recv_from(&mut datagram) {
                        socket.send_to(&datagram[..len], to).expect("there is room");
                    }
                }
            };
            looping =
                Some(thread::Builder::new().name("loop".into()).spawn(work).expect("a thread"));
        }
        Relay::Gateway => {
            let text = format!(
                "[bus]\na = \"can2udp:{a}?version=1\"\nb = \"can2udp:{b}?peer={to}&version=1\"\n\
                 [[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n"
            );
            let (table, findings) = candor_rules::file::parse("rules.toml", &text);
            let table = table.unwrap_or_else(|| panic!("{findings}"));
            let config = Config { measures: false, ..Config::default() };
            let started = Gateway::start(config, Rules { table, ..Rules::default() });
            gateway = Some(started.unwrap_or_else(|error| panic!("{error}")));
        }
    }
    // Cogent can2udp, version 1: identifier 0x123, 8 bytes.
    let mut datagram = [0; 20];
    (datagram[0], datagram[4], datagram[5], datagram[8]) = (1, 0x23, 0x01, 8);
    let before = cpu_ns();
    let mut last = (0, Instant::now());
    for number in 0..FRAMES {
        while number > received.load(Ordering::Relaxed) + WINDOW {
            thread::yield_now();
            // What was lost is not waited for for ever.
            let now = received.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed() > TIMEOUT {
                received.fetch_add(WINDOW, Ordering::Relaxed);
            }
        }
        datagram[12..20].copy_from_slice(&number.to_le_bytes());
        sender.send_to(&datagram, a).expect("there is room");
    }
    let end = Instant::now();
    while received.load(Ordering::Relaxed) < FRAMES && end.elapsed() < TIMEOUT {
        thread::yield_now();
    }
    let cpu = cpu_ns() - before;
    is_ending.store(true, Ordering::Relaxed);
    if let Some(mut gateway) = gateway {
        gateway.stop();
    }
    looping.into_iter().chain([counting]).for_each(|thread| thread.join().expect("no panic"));
    (cpu as f64 / FRAMES as f64, FRAMES.saturating_sub(received.load(Ordering::Relaxed)))
}

fn main() {
    let mut rounds = Vec::new();
    let mut lost = [0, 0];
    for round in 1..=ROUNDS {
        let (of_loop, lost_by_loop) = measure(Relay::Loop);
        let (of_gateway, lost_by_gateway) = measure(Relay::Gateway);
        lost = [lost[0] + lost_by_loop, lost[1] + lost_by_gateway];
        eprintln!(
            "round {round} of {ROUNDS}: {of_loop:.0} ns, {of_gateway:.0} ns: {:.2} times",
            of_loop / of_gateway
        );
        rounds.push([of_loop, of_gateway, of_loop / of_gateway]);
    }
    let [of_loop, of_gateway, ratio] = std::array::from_fn(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    });
    println!("| relay | CPU per frame | frames per core, times those of the loop | lost |");
    println!("|---|---|---|---|");
    println!("| a loop of `recvfrom` and `sendto` | {of_loop:.0} ns | 1 | {} |", lost[0]);
    println!("| the gateway | {of_gateway:.0} ns | {ratio:.2} | {} |", lost[1]);
}

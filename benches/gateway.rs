//! What a frame costs the live gateway between two tunnels on the loopback interface:
//! `cargo bench -p candor-gateway --bench gateway`.
//!
//! Sender, gateway and receiver are threads of this process. What counts is the CPU time of the
//! gateway's threads per frame, and that nothing is lost: how long it takes depends on how many cores
//! there are to share.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use candor_gateway::{Config, Gateway, Rules};
use candor_linux::realtime::threads_of;
use candor_linux::wake::Wake;
use candor_port::{Until, Wanted};
use candor_time::Nanos;
use candor_wire::can::Frame;

const FRAMES: u64 = 1_000_000;
/// So many frames may be under way: fewer than fit into the buffers of the sockets.
const WINDOW: u64 = 4_000;
const ROUNDS: usize = 5;

/// CPU time of the gateway's threads so far, in ns.
fn cpu_ns() -> u64 {
    let threads = threads_of(std::process::id()).expect("/proc is mounted");
    let is_ours = |name: &str| name.starts_with("in/") || name.starts_with("out/");
    threads
        .iter()
        .filter(|thread| is_ours(&thread.name))
        .filter_map(|thread| {
            let path = format!("/proc/self/task/{}/schedstat", thread.id);
            fs::read_to_string(path).ok()?.split(' ').next()?.parse::<u64>().ok()
        })
        .sum()
}

/// Resident memory of this process in MB, at its most.
fn memory_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1024.0
}

struct Figures {
    cpu_ns_per_frame: f64,
    per_second: f64,
    lost: u64,
}

fn measure(rules: &str, measures: bool) -> Figures {
    let sockets: [UdpSocket; 4] =
        std::array::from_fn(|_| UdpSocket::bind(("127.0.0.1", 0)).expect("loopback"));
    let [near, a, b, far] =
        std::array::from_fn(|index| sockets[index].local_addr().expect("bound").port());
    drop(sockets);
    let name = |peer: u16, own: u16| format!("cannelloni:udp://127.0.0.1:{peer}?listen={own}");
    let text = format!("[bus]\na = \"{}\"\nb = \"{}\"\n{rules}", name(near, a), name(far, b));
    let (table, findings) = candor_rules::file::parse("rules.toml", &text);
    let table = table.unwrap_or_else(|| panic!("{findings}"));
    let open = |name: String, wanted| {
        candor_drivers::open(&name.parse().expect("a name"), wanted).expect("a port")
    };
    let mut input = open(name(a, near), Wanted::TRANSMITTER).transmitter.expect("transmits");
    let output = Wanted { stamps: false, ..Wanted::RECEIVER };
    let mut output = open(name(b, far), output).receiver.expect("receives");

    let received = Arc::new(AtomicU64::new(0));
    let is_ending = Arc::new(AtomicBool::new(false));
    let (tell, reported) = std::sync::mpsc::channel();
    let capture = {
        let (received, is_ending) = (Arc::clone(&received), Arc::clone(&is_ending));
        thread::spawn(move || {
            tell.send(Wake::new().expect("a signal").thread()).expect("somebody listens");
            while !is_ending.load(Ordering::Relaxed) {
                let mut count = 0;
                output.receive(Until::Woken, &mut |_| count += 1).expect("the port works");
                received.fetch_add(count, Ordering::Relaxed);
            }
        })
    };
    let sleeper = reported.recv().expect("the thread lives");
    let config = Config { measures, ..Config::default() };
    let mut gateway = Gateway::start(config, Rules { table, ..Rules::default() })
        .unwrap_or_else(|error| panic!("{error}"));

    let frames: Vec<Frame> = (0..64_u64)
        .map(|number| {
            let id = candor_wire::can::StandardId::new(0x100 + number as u16).expect("11 bits");
            Frame::new(id, &number.to_be_bytes()).expect("8 bytes")
        })
        .collect();
    let before = cpu_ns();
    let start = Instant::now();
    let mut last = (0, Instant::now());
    for number in 0..FRAMES {
        while number > received.load(Ordering::Relaxed) + WINDOW {
            thread::yield_now();
            // What was lost is not waited for for ever.
            let now = received.load(Ordering::Relaxed);
            if now != last.0 {
                last = (now, Instant::now());
            } else if last.1.elapsed().as_secs() > 2 {
                received.fetch_add(WINDOW, Ordering::Relaxed);
            }
        }
        let frame = &frames[(number % 64) as usize];
        while input.transmit(frame, false) != candor_port::Sent::Taken {
            input.wait(Nanos::from_millis(1));
        }
    }
    let _ = input.flush();
    let end = Instant::now();
    while received.load(Ordering::Relaxed) < FRAMES && end.elapsed().as_secs() < 2 {
        thread::yield_now();
    }
    let elapsed = start.elapsed().as_secs_f64();
    let cpu = cpu_ns() - before;
    gateway.stop();
    let handled: u64 = gateway.snapshot().rules.iter().map(|rule| rule.handled).sum();
    is_ending.store(true, Ordering::Relaxed);
    sleeper.interrupt_until(|| capture.is_finished()).expect("a signal");
    capture.join().expect("no panic");
    Figures {
        cpu_ns_per_frame: cpu as f64 / FRAMES as f64,
        per_second: FRAMES as f64 / elapsed,
        lost: FRAMES - handled.min(FRAMES),
    }
}

fn main() {
    let all = "[[rule]]\nname = \"all\"\nfrom = \"a\"\nto = \"b\"\n";
    let many: String = (0..2_048)
        .map(|id| format!("[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [{id}]\n"))
        .collect();
    let edits = "[[rule]]\nname = \"edits\"\nfrom = \"a\"\nto = \"b\"\nedit = [\n  { set = { length = 8 } \
                 },\n  { e2e = { profile = 2, data_ids = \"00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D \
                 0E 0F\" } },\n]\nper = \"rule\"\n";
    println!("| rules | frames/s per core | CPU per frame | frames/s here | lost |");
    println!("|---|---|---|---|---|");
    for (what, rules, measures) in [
        ("one rule", all, false),
        ("one rule, latencies measured", all, true),
        ("2,048 rules", &*many, true),
        ("counter and CRC recomputed", edits, true),
    ] {
        let best = (0..ROUNDS)
            .map(|_| measure(rules, measures))
            .min_by(|a, b| a.cpu_ns_per_frame.total_cmp(&b.cpu_ns_per_frame))
            .expect("there are rounds");
        let Figures { cpu_ns_per_frame, per_second, lost } = best;
        println!(
            "| {what} | {:.0} k | {cpu_ns_per_frame:.0} ns | {:.0} k | {lost} |",
            1e6 / cpu_ns_per_frame,
            per_second / 1e3
        );
    }
    println!("\nresident memory of everything at its most: {:.1} MB", memory_mb());
}

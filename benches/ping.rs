//! What a round trip costs the thread that measures it, beside a bare loop on the same port.
//!
//!     cargo bench -p candor-ping --bench ping -- COUNT
//!
//! Two can2udp ports on the loopback; a slave answers in a thread of its own in both cases. CPU time is that of the measuring
//! thread alone. The bare loop transmits a frame, waits for one with a timeout, and looks at nothing. Both take turns, so that what else the
//! machine does meets both.
#![allow(clippy::disallowed_methods, reason = "a benchmark prints")]

use std::error::Error;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use candor_linux::clock::{self, ThreadCpu};
use candor_ping::run::{self, Observer};
use candor_ping::{Master, Pace, Pair, Plan, Track, Trip};
use candor_port::{Port, Progress, Receiver, Sent, Transmitter, Until, Wanted};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Frame;

const ROUNDS: usize = 9;

type Halves = (Box<dyn Receiver>, Box<dyn Transmitter>);

fn open(own: u16, peer: u16) -> Result<Halves, Box<dyn Error>> {
    let address = format!("can2udp:127.0.0.1:{own}?peer=127.0.0.1:{peer}").parse()?;
    let port = candor_drivers::open(&address, Wanted { stamps: false, ..Wanted::BOTH })?;
    let Port { receiver, transmitter, .. } = port;
    receiver.zip(transmitter).ok_or_else(|| "half a port".into())
}

struct Silent;

impl Observer for Silent {
    fn trip(&mut self, _: &Trip) {}

    fn goes_on(&mut self, _: &Master, _: Instant<Monotonic>) -> bool {
        true
    }
}

/// CPU time per round trip, in ns.
fn measured(count: u64, work: impl FnOnce()) -> u64 {
    let before = clock::now::<ThreadCpu>();
    work();
    (clock::now::<ThreadCpu>() - before).as_nanos() / count
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let count: u64 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    // Free a moment ago; the kernel gives out others first.
    let free = || UdpSocket::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let (one, other) = (free()?.port(), free()?.port());
    let (mut receiver, mut transmitter) = open(one, other)?;
    let (mut from_master, mut to_master) = open(other, one)?;
    let is_over = AtomicBool::new(false);
    let (mut bare, mut ping) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(|| {
            let pairs = [Pair::DEFAULT];
            let mut goes_on = |_| !is_over.load(Ordering::Relaxed);
            run::slave(&pairs, &mut *from_master, &mut *to_master, &clock::now, &mut goes_on)
        });
        let request: Frame = "077#0011223344556677".parse()?;
        for _ in 0..ROUNDS {
            bare.push(measured(count, || {
                for _ in 0..count {
                    let sent = transmitter.transmit(&request, true);
                    assert!(sent == Sent::Taken && transmitter.flush() == Sent::Taken);
                    while receiver.receive(
                        Until::Instant(clock::now::<Monotonic>() + Nanos::from_secs(1)),
                        &mut |_| {},
                    ) != Ok(Progress::Frames(1))
                    {}
                }
            }));
            let track = Track { pair: Pair::DEFAULT, period: Nanos::ZERO };
            let plan = Plan {
                tracks: vec![track],
                length: 8,
                is_fd: false,
                pace: Pace::OneAtATime,
                count: Some(count),
                timeout: Nanos::from_secs(1),
                linger: Nanos::ZERO,
                seed: 1,
            };
            let mut master = Master::new(plan, clock::now())?;
            let mut ran = Ok(());
            ping.push(measured(count, || {
                let (receiver, transmitter) = (&mut *receiver, &mut *transmitter);
                ran = run::master(&mut master, receiver, transmitter, &clock::now, &mut Silent);
            }));
            ran?;
            assert_eq!(master.counts(None).answered, count, "an answer is missing");
        }
        is_over.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    bare.sort_unstable();
    ping.sort_unstable();
    let (bare, ping) = (bare[ROUNDS / 2], ping[ROUNDS / 2]);
    println!("CPU time per round trip, median of {ROUNDS}: bare loop {bare} ns, ping {ping} ns");
    println!("more: {} ns, {:.2} times", ping.saturating_sub(bare), ping as f64 / bare as f64);
    Ok(())
}

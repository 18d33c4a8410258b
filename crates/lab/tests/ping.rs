//! Round trips: laws of the simulation, and a run with threads of this machine.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::host::Host;
use candor_lab::result::{Counts, ResultFile};
use candor_lab::run::{self, Ended, Progress, Settings};
use candor_lab::runner::{Runner, Unwatched, Watch};
use candor_lab::sections::{BUSES, HOST, PING};
use candor_lab::simulate::Simulation;
use candor_lab::testbed::Testbeds;
use candor_lab::{Campaign, Error, Experiment};
use candor_lat::Metric;
use candor_time::Nanos;

fn read(rest: &str) -> Campaign {
    let text = format!("kind = 'ping'\n{rest}");
    let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
    campaign.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The result, and the lines.
fn simulate(rest: &str, watch: &dyn Watch) -> Result<(ResultFile, String), Error> {
    let campaign = read(&format!("bus.can.bitrate = '1M'\n{rest}"));
    let [experiment] = &campaign.experiments[..] else { panic!("several experiments") };
    let mut lines = Vec::new();
    let run = Run { experiment, command: "again".into(), lines: Some(&mut lines), watch };
    let ran = Simulation.run(run, true)?;
    Ok((ran.result, String::from_utf8(lines).unwrap()))
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_one_gives_others() {
    let run = |seed: u32| {
        let rest = format!("count = 300\nseed = {seed}\nbus.can.bit_error_rate = 1e-4");
        let (result, lines) = simulate(&rest, &Unwatched).unwrap();
        assert_eq!((result.counts.sent, result.counts.received), (300, 300), "seed {seed}");
        (lines, result.metrics, result.sections)
    };
    assert!(run(1) == run(1));
    assert!(run(1).0 != run(2).0);
}

/// 8 bytes at 1 Mbit/s: 225 us without a stuff bit, 3 of them the intermission behind the request.
#[test]
fn the_result_has_the_bus_and_what_it_allows() {
    let (result, _) = simulate("count = 500\nping.period = '1ms'", &Unwatched).unwrap();
    let expected = Counts { sent: 500, received: 500, ..Counts::default() };
    assert_eq!(result.counts, expected);
    let at = |key| result.sections.number(&PING, key).unwrap();
    let round_trip = result.metric(Metric::RoundTrip).unwrap();
    assert!(at("wire_ns_min") > 222_000.0 && at("wire_ns_max") < 290_000.0, "{result:?}");
    assert!(round_trip.min_ns as f64 >= at("wire_ns_min"));
    assert_eq!(at("strange") + at("waiting"), 0.0);
    // Two frames of about 0.115 ms in each period of 1 ms.
    let load = result.sections.numbers(&BUSES, "load_percent")[0];
    assert!((20.0..27.0).contains(&load), "{load}");
    assert_eq!(result.sections.numbers(&BUSES, "frames"), [1_000.0]);
}

#[test]
fn requests_wait_for_nobody_in_an_open_loop() {
    // More than the bus carries: answers wait behind requests, which win arbitration.
    let rest = "count = 200\nping = { paced = true, period = '100us', timeout = '1s' }";
    let (result, _) = simulate(rest, &Unwatched).unwrap();
    assert_eq!((result.counts.sent, result.counts.received), (200, 200));
    let round_trip = result.metric(Metric::RoundTrip).unwrap();
    assert!(round_trip.max_ns > 10_000_000, "{round_trip:?}");
}

#[test]
fn answers_after_the_timeout_are_late_and_count() {
    let rest = "count = 50\nping = { timeout = '100us', period = '1ms' }";
    let (result, _) = simulate(rest, &Unwatched).unwrap();
    assert_eq!(result.counts, Counts { sent: 50, received: 50, late: 50, ..Counts::default() });
    assert_eq!(result.notes, ["50 answers came later than 100us; they count"]);
    assert_eq!(result.metric(Metric::RoundTrip).unwrap().count, 50);
}

/// A bus with so many errors that a controller leaves it for ever, or for a while.
#[test]
fn requests_without_an_answer_are_lost_and_a_dead_bus_ends_the_run() {
    let rest = "count = 400\nbus.can.bit_error_rate = 0.02\nping.timeout = '20ms'\n";
    let (result, lines) = simulate(rest, &Unwatched).unwrap();
    let Counts { sent, received, lost, .. } = result.counts;
    assert!(sent < 400 && lost > 0 && sent == received + lost, "{:?}", result.counts);
    assert_eq!(lines.lines().filter(|line| line.contains("unexplained")).count() as u64, lost);
    assert!(
        result.notes.iter().any(|it| it.contains("of 400 requests could be sent")),
        "{:?}",
        result.notes
    );
    // The master's controller, and perhaps the other one before it.
    assert!([[1.0], [2.0]].contains(&[result.sections.numbers(&BUSES, "bus_offs")[0]]));
    let (result, _) = simulate(&format!("{rest}bus.can.restart = '1ms'\n"), &Unwatched).unwrap();
    assert_eq!(result.counts.sent, 400);
}

/// Interrupts when so many requests are sent.
struct After(u64, AtomicU64);

impl Watch for After {
    fn proceed(&self, _: Nanos, sent: u64) -> bool {
        self.1.store(sent, Ordering::Relaxed);
        sent < self.0
    }
}

#[test]
fn a_run_can_be_interrupted() {
    let watch = After(20, AtomicU64::new(0));
    let ended = simulate("count = 1000000", &watch);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert_eq!(watch.1.into_inner(), 20);
}

struct Silent;

impl Progress for Silent {
    fn proceed(&self, _: &Experiment, _: Nanos, _: u64) -> bool {
        true
    }
    fn finished(&self, _: &Experiment, _: &Ended) {}
}

/// How fast it is depends on the machine; that all are answered, and not before the bus allows, does not.
#[test]
fn two_threads_of_this_machine_measure_round_trips() {
    let campaign = read(
        "testbed = 'host'\ncount = 20\nseeds = 1\nbus.can.bitrate = '500k'\n\
         ping = { period = '1ms', timeout = '30s' }",
    );
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        testbeds: &Testbeds::new(None, Some(Host::new("/proc/self/exe".into()))),
        command: &|_| "again".into(),
        out: folder.path(),
        jobs: 1,
        verifies: false,
    };
    let outcome = run::run(&campaign.experiments, &settings, &Silent).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let [result] = &outcome.results()[..] else { panic!("{outcome:?}") };
    assert_eq!(result.counts, Counts { sent: 20, received: 20, ..Counts::default() });
    let round_trip = result.metric(Metric::RoundTrip).unwrap();
    let shortest_ns = result.sections.number(&PING, "wire_ns_min").unwrap();
    assert!(round_trip.min_ns as f64 >= shortest_ns, "{round_trip:?}");
    assert!(result.sections.number(&HOST, "cpus") > Some(0.0));
    let lines = run::results_of(folder.path()).join(format!("{}.csv", result.experiment));
    let lines = std::fs::read_to_string(lines).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("delivered")).count(), 20);
}

#[test]
fn a_run_of_this_machine_can_be_interrupted() {
    let campaign = read("testbed = 'host'\nseeds = 1\nbus.can.bitrate = '500k'");
    let [experiment] = &campaign.experiments[..] else { panic!("several experiments") };
    let watch = &After(3, AtomicU64::new(0));
    let run = Run { experiment, command: "again".into(), lines: None, watch };
    let ended = Host::new("/proc/self/exe".into()).run(run, true);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
}

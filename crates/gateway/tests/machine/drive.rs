//! A recorded drive, replayed onto a bus, goes through the gateway frame by frame as the simulator
//! says: `candor bus replay`, `candor route run`, `candor bus record`, `candor lab run`.
//!
//! ```text
//!  lights.log -- replay --> can0 == can1, can2 -- gateway --> can3 == can4        body.log
//!                                   |                    \--> fd0 == fd1 (FD)     backbone.log
//!                                   source.log
//!                                      \-- lab: the same rules, the same times --> drive.csv
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_engine::counters::Outcome;
use candor_engine::{BusIndex, Table};
use candor_engine::{Engine, Forward, Passage};
use candor_gateway::read_rules;
use candor_time::Nanos;
use candor_wire::can::Frame;

use crate::bench::{
    FD_RECEIVES_ON, FD_TARGET, Gateway, MONITOR, Process, RECEIVES_ON, Recorder, SENDS_ON, SOURCE,
    TARGET, argument, assert_balanced, candor, folder, port, start_bed,
};
use crate::{Check, Need};

pub(crate) const CHECKS: [Check; 1] =
    [("a_recorded_drive_goes_as_the_simulator_says", Need::Guest, drive)];

/// How much later than its stamp a frame may be looked at without another decision: what depends on
/// time is held against times that are off by so much. The gateway comes before all other processes
/// and takes a fraction of it.
const MARGIN_NS: u64 = 1_000_000;
/// How often that is tried, each time with other times.
const TRIALS: u64 = 8;

/// What is different from the example: its ports are those of the guest, and rates are such that the
/// recorded frames come well before or well after a rule lets the next one pass. Frames of a period of
/// 10 ms meet an interval of 50 ms at its end, where nobody can tell what a gateway will do. With a tolerance they would
/// come near such an end sooner or later.
const CHANGES: [(&str, &str); 7] = [
    ("port = \"can0\"", "port = \"can2?buffer=4000000\""),
    ("port = \"can1\"", "port = \"can3\""),
    ("port = \"can2\"", "port = \"fd0\""),
    ("at_least_every = \"500ms\"", "at_least_every = \"62ms\""),
    ("rate    = \"100/s\"", "rate    = \"36/min\""),
    ("min_interval = \"1s\"", "min_interval = \"940ms\""),
    ("rate  = \"20/s\"", "rate  = \"22/s\"\nburst = 1"),
];

const EXPERIMENT: &str = r#"
title = "The drive"
per_frame = true

[bus.powertrain]
bitrate = "1M"
[bus.body]
bitrate = "1M"
[bus.backbone]
bitrate = "1M"
data_bitrate = "4M"

[gateway]
delay    = "20us"
tx_queue = 1000
rules    = "drive.rules.toml"

[traffic]
kind = "replay"
bus  = "powertrain"
log  = "source.log"

[[experiment]]
name = "drive"
"#;

/// The files of a check in its folder.
fn place(folder: &Path) {
    let given = |name: &str| argument(name).unwrap_or_else(|| panic!("--{name}=FILE is missing"));
    let mut rules = fs::read_to_string(given("rules")).unwrap();
    // Last first: the example's can2 must not become the guest's can3.
    for (from, to) in CHANGES {
        let marked = to.replace("can", "\0");
        assert_eq!(rules.matches(from).count(), 1, "{from}");
        rules = rules.replace(from, &marked);
    }
    fs::write(folder.join("drive.rules.toml"), rules.replace('\0', "can")).unwrap();
    for name in ["dbc", "ids"] {
        let path = given(name);
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    fs::write(folder.join("drive.toml"), EXPERIMENT).unwrap();
}

/// What one bus carries of each identifier, in its order.
type Carried = BTreeMap<u32, Vec<String>>;

fn carried<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Carried {
    let mut carried = Carried::new();
    for frame in frames {
        carried.entry(frame.can_id()).or_default().push(frame.to_string());
    }
    carried
}

#[track_caller]
fn assert_same(what: &str, found: &Carried, expected: &Carried) {
    for id in found.keys().chain(expected.keys()) {
        let none = Vec::new();
        let (found, expected) = (found.get(id).unwrap_or(&none), expected.get(id).unwrap_or(&none));
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        assert!(
            differs.is_none() && found.len() == expected.len(),
            "{what}, {id:X}: {} frames, expected are {}; the first that differs is {:?}: {:?}, {:?}",
            found.len(),
            expected.len(),
            differs,
            differs.map(|at| &found[at]),
            differs.map(|at| &expected[at])
        );
    }
}

/// What the rules make of frames at these times, bus by bus.
fn decided(table: &Table, records: &[(u64, Frame)]) -> BTreeMap<BusIndex, Vec<Frame>> {
    let mut engine = Engine::new(table);
    let powertrain = table.bus("powertrain").unwrap();
    let mut decided: BTreeMap<BusIndex, Vec<Frame>> = BTreeMap::new();
    for (time_ns, frame) in records {
        let (now, passage) = (Nanos::from_nanos(*time_ns), Passage::received_on(powertrain));
        engine.handle(now, powertrain, frame, passage, &mut |copy: Forward<'_>| {
            decided.entry(copy.to).or_default().push(*copy.frame);
            Outcome::Handled
        });
    }
    decided
}

/// The same records, each of them later by up to the margin, but none before another.
fn late(records: &[(u64, Frame)], seed: u64) -> Vec<(u64, Frame)> {
    let (mut state, mut last) = (seed, 0);
    let later = |&(time_ns, frame): &(u64, Frame)| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        last = last.max(time_ns + (state >> 33) % MARGIN_NS);
        (last, frame)
    };
    records.iter().map(later).collect()
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            letter => cells.last_mut().unwrap().push(letter),
        }
    }
    cells
}

/// What the simulator forwarded, bus by bus, from its line per frame. A rule with several
/// destinations has a line for each of them.
fn simulated(table: &Table, csv: &str) -> BTreeMap<BusIndex, Vec<Frame>> {
    let mut copies: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut simulated: BTreeMap<BusIndex, Vec<Frame>> = BTreeMap::new();
    for line in csv.lines().skip(1) {
        let [number, _, received, outcome, rule, ..] = &cells(line)[..] else { panic!("{line}") };
        if outcome != "forwarded" {
            continue;
        }
        let nth = copies.entry((number.clone(), rule.clone())).or_default();
        let of_rule = table.rules.iter().find(|it| it.name == *rule).unwrap();
        // All of them are the same frame, so it does not matter which one is whose.
        simulated.entry(of_rule.to[*nth]).or_default().push(received.parse().unwrap());
        *nth += 1;
    }
    simulated
}

fn drive() {
    let folder = folder();
    place(&folder);
    let mut netlink = start_bed(1_000);
    netlink.create_vxcan(FD_TARGET, FD_RECEIVES_ON).unwrap();
    for name in [FD_TARGET, FD_RECEIVES_ON] {
        netlink.set_mtu(name, 72).unwrap();
        netlink.set_up(name, true).unwrap();
    }
    netlink.wait_until_running(FD_TARGET, Nanos::from_secs(5)).unwrap();
    let drive = argument("drive").expect("--drive=FILE is missing");
    let sent = crate::bench::records(&fs::read_to_string(&drive).unwrap());

    let recorders = [(MONITOR, "source"), (RECEIVES_ON, "body"), (FD_RECEIVES_ON, "backbone")]
        .map(|(interface, name)| Recorder::start(interface, folder.join(format!("{name}.log"))));
    let mut gateway = Gateway::run(folder.join("drive.rules.toml"), &[]);
    let replay =
        Process::candor("replay", &["bus", "replay", &drive.display().to_string(), SENDS_ON]);
    let replayed = replay.wait();
    assert_eq!(replayed.status, Some(0), "{replayed:?}");
    println!("{}", replayed.errors);
    let snapshot = gateway.settled("powertrain", sent.len() as u64);
    let reported = gateway.end();
    println!("{reported}");
    // What the recorders receive in the end they write at once.
    candor_linux::clock::sleep_until(crate::bench::now() + Nanos::from_millis(100)).unwrap();
    let [source, body, backbone] = recorders.map(Recorder::end);

    // The source bus carried the drive.
    let frames = |records: &[(u64, Frame)]| records.iter().map(|it| it.1).collect::<Vec<_>>();
    assert!(frames(&source) == frames(&sent), "{} of {} frames", source.len(), sent.len());
    let span = |records: &[(u64, Frame)]| records[records.len() - 1].0 - records[0].0;
    println!(
        "{} frames in {} ms, recorded in {} ms; on the body bus {}, on the backbone {}",
        source.len(),
        span(&source) / 1_000_000,
        span(&sent) / 1_000_000,
        body.len(),
        backbone.len()
    );

    // The rules decide nothing here that a frame could miss by the margin.
    let table = read_rules(&folder.join("drive.rules.toml")).unwrap().table;
    let expected = decided(&table, &source);
    for seed in 1..=TRIALS {
        let later = decided(&table, &late(&source, seed));
        assert!(later == expected, "a decision depends on less than {MARGIN_NS} ns (seed {seed})");
    }

    // The gateway made of it what the simulator makes of it.
    let path = |name: &str| folder.join(name).display().to_string();
    let ran = candor(&["lab", "run", &path("drive.toml"), "--out", &path("sim")]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let results = folder.join("sim").join("results");
    let csv = fs::read_to_string(results.join("drive.csv")).unwrap();
    let simulated = simulated(&table, &csv);
    for (name, recorded) in [("body", &body), ("backbone", &backbone)] {
        let bus = table.bus(name).unwrap();
        let recorded = carried(recorded.iter().map(|(_, frame)| frame));
        assert_same(name, &recorded, &carried(&simulated[&bus]));
        assert_same(name, &recorded, &carried(&expected[&bus]));
    }

    // And counted it alike.
    let result = fs::read_to_string(results.join("drive.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(counts_of_gateway(&snapshot), counts_of_simulator(&result));
    let source_port = port(&snapshot, "powertrain");
    assert_eq!(source_port.received, sent.len() as u64);
    assert!(source_port.refuses_unmatched && source_port.unmatched > 0);
    for rule in &snapshot.rules {
        assert!(rule.handled > 0, "nothing passed {rule:?}");
    }
    for cause in ["rate", "sampled", "unchanged", "unmapped"] {
        let happened = snapshot.rules.iter().any(|rule| rule.stopped.contains_key(cause));
        assert!(happened, "{cause} did not happen");
    }
    // Each frame fits one rule; that of two destinations counts for each.
    let twice: u64 = snapshot
        .rules
        .iter()
        .filter(|rule| rule.to == "backbone" && rule.rule.starts_with("steering"))
        .map(|rule| rule.handled)
        .sum();
    let mut once = snapshot.clone();
    once.rules.retain(|rule| !(rule.to == "backbone" && rule.rule.starts_with("steering")));
    assert!(twice > 0);
    assert_balanced(&once, "powertrain", sent.len() as u64);
    assert_eq!((SOURCE, TARGET), ("can2", "can3"), "as the rules say");
}

/// How many frames of which rule met which end, and how many no rule took.
type Counts = BTreeMap<(String, String), u64>;

fn counts_of_gateway(snapshot: &candor_gateway::Snapshot) -> Counts {
    let mut counts = Counts::new();
    for rule in &snapshot.rules {
        *counts.entry((rule.rule.clone(), "handled".into())).or_default() += rule.handled;
        for (cause, count) in &rule.stopped {
            *counts.entry((rule.rule.clone(), cause.clone())).or_default() += count;
        }
    }
    let port = port(snapshot, "powertrain");
    for (cause, count) in [("no_rule", port.not_routed()), ("not_allowed", port.refused())] {
        if count > 0 {
            counts.insert((String::new(), cause.into()), count);
        }
    }
    counts
}

fn counts_of_simulator(result: &serde_json::Value) -> Counts {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut counts = Counts::new();
    for rule in result["rules"].as_array().unwrap() {
        let handled = rule["handled"].as_u64().unwrap();
        *counts.entry((text(&rule["name"]), "handled".into())).or_default() += handled;
    }
    for stopped in result["stopped"].as_array().unwrap() {
        let key = (text(&stopped["rule"]), text(&stopped["cause"]));
        *counts.entry(key).or_default() += stopped["frames"].as_u64().unwrap();
    }
    counts
}

//! Rules applied to a recording send what a simulated gateway with these rules sends.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::scene::{Scene, reported};

const RULES: &str = "\
default = 'refuse'
[bus]
car = 'can0'
slow = 'can1'
[[rule]]
name = 'few'
from = 'car'
to = 'slow'
match = ['0x0C0']
every = 50
[[rule]]
name = 'slowly and numbered'
from = 'car'
to = 'slow'
match = ['0x0A8', '0x0BA']
rate = '7/s'
edit = [{ counter = { bit = 16, bits = 4 } }]
[[rule]]
name = 'changes'
from = 'car'
to = 'slow'
match = ['0x1A0', '0x1D0', '0x2B2']
on_change = true
edit = [{ crc8 = { from = 0, to = 3, into = 4, polynomial = 0x1D } }]
";

/// A gateway of constant delay, and buses on which nothing is lost: whatever the rules decide by time, they decide by times that
/// all lie as far behind those of the recording.
const EXPERIMENT: &str = "\
bus.car.bitrate = '500k'
bus.slow.bitrate = '1M'
gateway.delay = '50us'
gateway.rules = 'drive.rules.toml'
traffic.kind = 'replay'
traffic.bus = 'car'
traffic.log = 'drive.log'
[[experiment]]
name = 'replay'
";

const DRIVE: &str = include_str!("../../../../examples/recordings/drive.log");

#[test]
fn rules_decide_offline_as_in_a_simulated_gateway() {
    let scene = Scene::new(EXPERIMENT);
    let path = |name: &str| scene.0.path().join(name);
    fs::write(path("drive.rules.toml"), RULES).unwrap();
    fs::write(path("drive.log"), DRIVE).unwrap();
    scene.run(&["run", "two.toml", "--out", "out"], 0);
    let csv = fs::read_to_string(path("out/results/replay.csv")).unwrap();
    let mut lines = csv.lines();
    let head: Vec<_> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| head.iter().position(|it| *it == name).unwrap();
    let [sent, received, outcome, end] =
        ["sent", "received", "outcome", "source_end_ns"].map(place);
    let mut rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    rows.sort_by_key(|row| row[end].parse::<u64>().unwrap());
    let mut log = String::new();
    for row in &rows {
        let end_ns: u64 = row[end].parse().unwrap();
        let (seconds, nanos) = (end_ns / 1_000_000_000, end_ns % 1_000_000_000);
        writeln!(log, "({seconds}.{nanos:09}) can0 {}", row[sent]).unwrap();
    }
    fs::write(path("source.log"), log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(["route", "apply", "drive.rules.toml", "source.log", "sent.log"]);
    reported(&command.current_dir(scene.0.path()).output().unwrap(), 0);
    let applied = fs::read_to_string(path("sent.log")).unwrap();
    let applied: Vec<_> = applied.lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
    let forwarded = rows.iter().filter(|row| row[outcome] == "forwarded");
    let forwarded: Vec<_> = forwarded.map(|row| row[received]).collect();
    assert_eq!(applied, forwarded);
    assert!((100..1_000).contains(&applied.len()), "{}", applied.len());
}

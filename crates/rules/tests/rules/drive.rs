//! `examples/gateway/drive.rules.toml` on the recorded drive it was written for: every rule fires, and
//! the sums are right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candor_causes::Cause;
use candor_engine::Table;
use candor_engine::counters::Outcome;
use candor_engine::{Engine, Forward, Passage};
use candor_rules::file;
use candor_time::Nanos;
use candor_wire::can::Frame;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rules() -> Table {
    let folder = root().join("examples/gateway");
    let text = fs::read_to_string(folder.join("drive.rules.toml")).unwrap();
    let (table, findings) = file::parse_with("drive.rules.toml", &text, &|name| {
        fs::read(folder.join(name)).map_err(|error| error.to_string())
    });
    assert!(findings.is_empty(), "{findings}");
    table.unwrap()
}

/// Time and frame of a line of candump.
fn record(line: &str) -> (Nanos, Frame) {
    let [time, _, frame] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let seconds = time.trim_matches(['(', ')']);
    (format!("{seconds}s").parse().unwrap(), frame.parse().unwrap())
}

#[test]
fn every_feature_is_used() {
    let table = rules();
    let keys: Vec<_> = table.rules.iter().flat_map(|rule| rule.extension.keys()).collect();
    for key in ["data", "length", "rate", "every", "on_change", "edit", "convert", "deadline"] {
        assert!(keys.contains(&key), "no rule has `{key}`");
    }
    let actions = table.rules.iter().flat_map(|rule| &rule.extension.actions);
    let steps: Vec<_> = actions.map(|action| action.key()).collect();
    for step in [
        "and",
        "or",
        "xor",
        "set",
        "crc8",
        "xor_checksum",
        "copy",
        "signal",
        "message",
        "counter",
        "e2e",
        "remap",
    ] {
        assert!(steps.contains(&step), "no rule has `{step}`");
    }
    assert!(table.refuses_others);
}

#[test]
#[ignore = "needs ../shared/data; `./test --only replay` runs it"]
fn recorded_drive_fires_every_rule() {
    let path = root().join("../shared/data/ford-focus/lights.log");
    let log = fs::read_to_string(&path).expect("../shared/data is there");
    let table = rules();
    let mut engine = Engine::new(&table);
    let powertrain = table.bus("powertrain").unwrap();
    let mut identifiers: BTreeMap<u32, u64> = BTreeMap::new();
    let mut count = 0;
    for (now, frame) in log.lines().map(record) {
        count += 1;
        let passage = Passage::received_on(powertrain);
        engine.handle(now, powertrain, &frame, passage, &mut |copy: Forward<'_>| {
            *identifiers.entry(copy.frame.can_id()).or_default() += 1;
            Outcome::Handled
        });
    }
    let counters = engine.counters();
    assert_eq!(counters.buses()[0].received, count);
    assert!(counters.buses()[0].unmatched > 0, "nothing was refused");
    let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
    for (job, counted) in engine.program().jobs().iter().zip(counters.jobs()) {
        let refused: Vec<_> = Cause::ALL
            .into_iter()
            .map(|cause| (cause, counted.refused(cause)))
            .filter(|(_, count)| *count > 0)
            .collect();
        println!("{:50} {:6} {refused:?}", job.rule, counted.handled);
        assert!(counted.handled > 0, "{} passes nothing", job.rule);
        refused.into_iter().for_each(|(cause, count)| *causes.entry(cause).or_default() += count);
    }
    for cause in [Cause::Rate, Cause::Sampled, Cause::Unchanged, Cause::Unmapped] {
        assert!(causes.contains_key(&cause), "{cause:?} did not happen");
    }
    assert!(!causes.contains_key(&Cause::OutOfRange), "the DBC file does not fit the drive");
    let forwarded: u64 = counters.jobs().iter().map(|job| job.handled).sum();
    assert_eq!(identifiers.values().sum::<u64>(), forwarded);
    // New identifiers are there, and those that were replaced are not.
    for (id, is_there) in [
        (0x2E0, true),
        (0x322, true),
        (0x98FE_F17E, true),
        (0x3C0, true),
        (0x98FE_F1D0, true),
        (0x1E0, false),
        (0x090, false),
        (0x1C0, false),
    ] {
        assert_eq!(identifiers.contains_key(&id), is_there, "{id:X}");
    }
}

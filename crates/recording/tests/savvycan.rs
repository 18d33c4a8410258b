//! One trace that SavvyCAN wrote in several formats says the same in all of them.

use std::path::PathBuf;

use candor_recording::{Record, open};

const FILES: [(&str, &str); 3] = [
    ("GVRET_Log.csv", "gvret"),
    ("MicrochipLog.log", "microchip"),
    ("BusMasterLog.log", "busmaster"),
];

/// The records of a file of ../shared/data/savvycan; `None`, with a printed reason, if it is absent and this is not CI.
fn read(name: &str, format: &str) -> Option<Vec<Record>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/savvycan");
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if !folder.is_dir() && !is_ci {
        println!("skipped: {} is absent", folder.display());
        return None;
    }
    let recording = open(&folder.join(name), None).expect("a known format");
    assert_eq!(recording.format().name, format);
    Some(recording.map(|record| record.expect("a whole record")).collect())
}

#[test]
fn the_formats_of_one_trace_agree() {
    let Some(candump) = read("candump.log", "candump") else { return };
    let Some(gvret) = read("GVRET_Log.csv", "gvret") else { return };
    assert_eq!(candump.len(), 12_974);
    for (name, format) in FILES {
        let Some(records) = read(name, format) else { return };
        assert_eq!(records.len(), candump.len(), "{name}");
        for (record, expected) in records.iter().zip(&candump) {
            assert_eq!(record.frame, expected.frame, "{name}");
        }
        // The times of candump.log are whole seconds.
        let first_ns = records[0].time_ns;
        for (record, expected) in records.iter().zip(&gvret) {
            let apart = (record.time_ns - first_ns).abs_diff(expected.time_ns - gvret[0].time_ns);
            assert!(apart <= 1_000_000, "{name}: {} against {}", record.time_ns, expected.time_ns);
        }
        assert!(format == "busmaster" || first_ns == gvret[0].time_ns, "{name}");
    }
}

#[test]
fn the_trace_of_car_bus_analyzer_is_whole() {
    let Some(records) = read("CarBusAnalyzer.trc", "carbusanalyzer") else { return };
    let times = [&records[0], &records[records.len() - 1]].map(|record| record.time_ns);
    assert_eq!((records.len(), times), (55, [46_016_000_000, 56_094_000_000]));
}

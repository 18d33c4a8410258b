//! The same experiments on one kernel after the other.

use std::path::Path;

use candor_lab::campaign::{self, Options};
use candor_lab::compare::Side;
use candor_lab::history::{KernelLine, history};
use candor_lab::result::{FunctionCount, Machine, PROFILE_SCHEMA, ProfileFile, ResultFile};
use candor_lab::sections::MACHINE;
use candor_lab::simulate::{self, Unwatched};

const EXPERIMENT: &str = "\
name = 'one'
count = 10
bus.in.bitrate = '1M'
bus.out.bitrate = '1M'
gateway.delay = '35us'
traffic.kind = 'one-at-a-time'
";

fn machine(release: &str, package: &str) -> Machine {
    Machine {
        kernel: release.into(),
        release: release.into(),
        package: Some(package.into()),
        kernel_sha256: String::new(),
        guest_sha256: String::new(),
        qemu: String::new(),
        qemu_sha256: String::new(),
        plugin_sha256: String::new(),
        bus: candor_vm::BusTime::Timed,
        timed_bus_sha256: None,
        flags: Vec::new(),
        shift: 0,
        mips: 1_000,
    }
}

fn config(release: &str) -> String {
    format!("name = 'can-{release}'\nload.kind = 'none'\nvm.kernel = '{release}'\n")
}

fn result(machine: &Machine, p50_ns: i64) -> ResultFile {
    let campaign = campaign::parse("t.toml", EXPERIMENT, Path::new("."), &Options::default());
    let experiment = &campaign.unwrap().experiments[0];
    let mut result = simulate::run(experiment, "again".into(), None, &Unwatched).unwrap();
    let release = &machine.release;
    result.experiment = format!("can-{release}");
    result.testbed = "vm".into();
    result.axes.insert("vm.kernel".into(), release.clone());
    result.config = config(release);
    let row = serde_json::from_value(serde_json::to_value(machine).unwrap()).unwrap();
    result.sections = std::mem::take(&mut result.sections).with_one(&MACHINE, row);
    for figures in result.metrics.values_mut() {
        (figures.min_ns, figures.p50_ns) = (1_000, p50_ns);
    }
    result
}

/// Of 100 frames.
fn profile(machine: &Machine, functions: &[(&str, u64)]) -> ProfileFile {
    let count = |&(name, instructions): &(&str, u64)| FunctionCount {
        name: name.into(),
        place: "kernel".into(),
        instructions,
    };
    ProfileFile {
        schema: PROFILE_SCHEMA.into(),
        experiment: format!("can-{}", machine.release),
        candor: "0.1.0".into(),
        machine: machine.clone(),
        seed: 1,
        config: config(&machine.release),
        frames: 100,
        instructions: functions.iter().map(|it| it.1).sum(),
        functions: functions.iter().map(count).collect(),
    }
}

/// Debian 12 counts on in its package where the release does not; the kernels of Debian 13 are a line of their own.
#[test]
fn each_release_is_held_against_the_one_before_in_its_line() {
    let machines = [
        machine("6.12.10+deb13-amd64", "linux-image-6.12.10+deb13-amd64 6.12.10-1"),
        machine("6.1.0-9-amd64", "linux-image-6.1.0-9-amd64 6.1.27-1"),
        machine("6.12.9+deb13-amd64", "linux-image-6.12.9+deb13-amd64 6.12.9-1"),
        machine("6.1.0-10-amd64", "linux-image-6.1.0-10-amd64 6.1.37-1"),
        machine("6.12.10+deb13-rt-amd64", "linux-image-6.12.10+deb13-rt-amd64 6.12.10-1"),
    ];
    let medians = [2_500, 1_900, 2_000, 1_900, 9_000];
    let results = machines.iter().zip(medians).map(|(machine, p50)| result(machine, p50)).collect();
    // 7 instructions per frame more; a timer that hit 3 of 100 frames.
    let profiles = vec![
        profile(&machines[2], &[("can_rcv", 10_000), ("tick", 900)]),
        profile(&machines[0], &[("can_rcv", 10_700), ("tick", 1_251)]),
    ];
    let points = history(&Side { results, profiles });
    let releases: Vec<_> = points.iter().map(|it| it.release.as_str()).collect();
    assert_eq!(
        releases,
        [
            "6.1.0-9-amd64",
            "6.1.0-10-amd64",
            "6.12.9+deb13-amd64",
            "6.12.10+deb13-amd64",
            "6.12.10+deb13-rt-amd64"
        ]
    );
    assert!(points.iter().all(|point| point.experiment == "can"), "{points:?}");
    let changed: Vec<_> = points.iter().filter(|point| !point.changes.is_empty()).collect();
    let [point] = changed[..] else { panic!("one changed: {points:?}") };
    assert_eq!(point.line, KernelLine { debian: "deb13".into(), is_rt: false });
    let [change] = &point.changes[..] else { panic!("{point:?}") };
    assert_eq!((change.figure, change.before, change.after), ("p50", 2_000.0, 2_500.0));
    assert_eq!(change.since, "6.12.9+deb13-amd64");
    let functions: Vec<_> =
        change.functions.iter().map(|it| (it.function.as_str(), it.difference())).collect();
    assert_eq!(functions, [("can_rcv", 7.0)]);
}

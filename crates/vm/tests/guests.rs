//! Guests that behave, and guests that do not: the same order gives the same nanoseconds whatever
//! ran before it, and whatever ends a guest is reported in words.
//!
//! Needs QEMU and kernels, so it runs only when asked to, as `conformance.rs` does.

use std::fs;
use std::path::{Path, PathBuf};

use candor_engine::{Bus, BusIndex, Rule, Table};
use candor_init::INIT;
use candor_protocol::order::{
    CommandOrder, EthernetLoad, Gateway, Load, Measurement, Pace, Tester, Traffic,
};
use candor_protocol::{Order, Report, interface};
use candor_vm::{
    Cache, Error, Kernel, Machine, Qemu, Setup, Unwatched, Watch, kernel, program, python,
};

fn kernels() -> Vec<Kernel> {
    let names = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let cache = cache();
    let find = |name: &str| {
        let spec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        kernel::find(&cache, &spec).unwrap_or_else(|error| panic!("{error}"))
    };
    names.split_whitespace().map(find).collect()
}

fn cache() -> Cache {
    Cache::open(None).unwrap_or_else(|error| panic!("{error}"))
}

fn machine_in(cache: &Cache, kernel: &Kernel, parameters: &str) -> Machine {
    let qemu = Qemu::find().unwrap_or_else(|error| panic!("{error}"));
    Machine::new(cache, &qemu, kernel, INIT, Setup { parameters, ..Setup::default() }).unwrap()
}

fn machine(kernel: &Kernel) -> Machine {
    machine_in(&cache(), kernel, "")
}

fn table() -> Table {
    let bus =
        |interface: &str| Bus { name: interface.into(), port: interface.into(), is_virtual: false };
    let rule = Rule::new("all", BusIndex(0), BusIndex(1));
    Table {
        buses: vec![bus(interface::SOURCE), bus(interface::TARGET)],
        rules: vec![rule],
        ..Table::default()
    }
}

fn live(port: Option<&str>) -> Gateway {
    Gateway::Live { measures: false, port: port.map(str::to_owned) }
}

fn measurement(gateway: Gateway, pace: Pace, count: u64) -> Measurement {
    Measurement::new(gateway, table(), Traffic::new(pace, count))
}

const ONE_AT_A_TIME: Pace =
    Pace::OneAtATime { shortest_ns: 50_000, longest_ns: 150_000, timeout_ns: 1_000_000_000 };
const FLOOD: Pace = Pace::Paced { period_percent: 100, gap_ns: 0 };

fn run(machine: &Machine, measurement: &Measurement) -> Report {
    let order = Order::Measure(Box::new(measurement.clone()));
    machine.run(&order, &Unwatched).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn the_same_order_gives_the_same_nanoseconds_whatever_ran_before() {
    let orders = [
        measurement(Gateway::Kernel, ONE_AT_A_TIME, 200),
        measurement(Gateway::ReadWrite, FLOOD, 300),
        measurement(live(Some("packet:{interface}?gather=1ms")), FLOOD, 300),
        measurement(live(None), ONE_AT_A_TIME, 200),
    ];
    for kernel in kernels() {
        let machine = machine(&kernel);
        let first: Vec<_> = orders.iter().map(|order| run(&machine, order)).collect();
        let mut again: Vec<_> = orders.iter().rev().map(|order| run(&machine, order)).collect();
        again.reverse();
        for (one, other) in first.iter().zip(&again) {
            assert!(!one.received.is_empty());
            assert_eq!(one, other, "Linux {}", kernel.release);
        }
        // Not only because nothing depends on anything.
        assert_ne!(first[0].received, first[3].received);
        let other_seed = Measurement { seed: 2, ..orders[0].clone() };
        assert_ne!(first[0].sent, run(&machine, &other_seed).sent);
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn machines_saved_apart_give_the_same_nanoseconds() {
    let order = measurement(Gateway::Kernel, ONE_AT_A_TIME, 100);
    let folder = tempfile::tempdir().unwrap();
    for kernel in kernels() {
        let elsewhere = Cache::open(Some(folder.path())).unwrap();
        let theirs = machine_in(&elsewhere, &kernel, "");
        let ours = machine(&kernel);
        assert_eq!(ours.hash(), theirs.hash());
        assert_eq!(run(&ours, &order), run(&theirs, &order), "Linux {}", kernel.release);
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn watching_the_instructions_does_not_change_the_time() {
    // More rounds show how rarely anything differs: see docs/kernel-lab.md.
    let rounds =
        std::env::var("CANDOR_ROUNDS").map_or(1, |text| text.parse().expect("CANDOR_ROUNDS"));
    let measured = measurement(Gateway::Kernel, ONE_AT_A_TIME, 20);
    let order = Order::Measure(Box::new(measured.clone()));
    for kernel in kernels() {
        let machine = machine(&kernel);
        let (report, profile) = machine.profile(&order, &Unwatched).unwrap();
        for round in 1..=rounds {
            assert_eq!(report, run(&machine, &measured), "round {round}");
            let again = machine.profile(&order, &Unwatched).unwrap();
            assert!((&report, &profile) == (&again.0, &again.1), "profile {round} is another one");
        }
        println!("Linux {}: the same {rounds} times", kernel.release);
        let of = |name: &str| {
            let found = profile.functions.iter().find(|function| function.name == name);
            found.unwrap_or_else(|| panic!("{name} is missing")).instructions
        };
        assert!(of("can_can_gw_rcv") > 20 * 20, "each frame goes through the gateway");
        let modules: Vec<_> = profile.places().into_iter().map(|(place, _)| place).collect();
        for place in ["kernel", "can", "can_gw", "can_raw", "sja1000", "kvaser_pci", "program"] {
            assert!(modules.iter().any(|known| known == place), "{place} is not in {modules:?}");
        }
    }
}

/// Each gateway comes to an end under CPU load on each kernel, also one with a table of files of its own,
/// and on the first kernel under both loads at once: on -rt those take a minute. All combinations with all
/// traffics are in `campaigns/every-cell.toml`.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn every_gateway_ends_under_every_load() {
    let gateways = [
        Gateway::None,
        Gateway::Kernel,
        Gateway::ReadWrite,
        live(None),
        live(Some("packet:{interface}?gather=1ms")),
    ];
    for (number, kernel) in kernels().into_iter().enumerate() {
        let machine = machine(&kernel);
        let loads = [(Some(1), None), (Some(1), Some(60_000))];
        let loads = if number == 0 { &loads[..] } else { &loads[..1] };
        for gateway in &gateways {
            for &(groups, bytes) in loads {
                let mut loaded = measurement(gateway.clone(), ONE_AT_A_TIME, 3);
                loaded.load =
                    Load { hackbench_groups: groups, ethernet: bytes.map(EthernetLoad::ping) };
                let report = run(&machine, &loaded);
                let case = format!("{gateway:?}, {:?}, Linux {}", loaded.load, kernel.release);
                assert_eq!(report.received.len(), 3, "{case}");
                assert!(report.totals.hackbench_messages > 0, "{case}: no load");
            }
        }
    }
}

// ---- Guests that do not behave --------------------------------------------------------------------

fn command(argv: &[&str], files: Vec<candor_protocol::order::File>) -> Order {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    Order::Command(CommandOrder { rules: Table::default(), argv, files })
}

fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.exists()).unwrap_or_else(|| panic!("{program} is not there"))
}

/// A machine whose `init` cannot be started; its cache is thrown away.
fn failing_boot(folder: &Path, kernel: &Kernel) -> Error {
    let cache = Cache::open(Some(folder)).unwrap();
    machine_in(&cache, kernel, "rdinit=/nothing").ready(&Unwatched).unwrap_err()
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_kernel_that_does_not_come_up_shows_its_console() {
    let folder = tempfile::tempdir().unwrap();
    let error = failing_boot(folder.path(), &kernels()[0]).to_string();
    assert!(error.contains("did not boot"), "{error}");
    assert!(error.contains("Kernel panic"), "{error}");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_kernel_that_panics_shows_its_console() {
    let machine = machine(&kernels()[0]);
    let dd = on_path("dd");
    let mut files = program::files(&dd).unwrap();
    files.push(candor_protocol::order::File {
        path: "/crash".into(),
        is_executable: false,
        contents: b"c".to_vec(),
    });
    let dd = dd.display().to_string();
    let order = command(&[&dd, "if=/crash", "of=/proc/sysrq-trigger"], files);
    let error = machine.run(&order, &Unwatched).unwrap_err();
    assert!(matches!(error, Error::Guest { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("panicked") && error.contains("Kernel panic"), "{error}");
    assert!(error.contains("sysrq"), "{error}");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn what_hangs_is_ended_in_its_own_time() {
    let machine = machine(&kernels()[0]);
    let sleep = on_path("sleep");
    let order =
        command(&[&sleep.display().to_string(), "1000000"], program::files(&sleep).unwrap());
    let error = machine.run(&order, &Unwatched).unwrap_err().to_string();
    assert!(error.contains("s of the guest's time"), "{error}");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_gateway_that_dies_is_named() {
    let machine = machine(&kernels()[0]);
    let falsehood = on_path("false");
    let name = falsehood.display().to_string();
    let mut dying = measurement(Gateway::Command(vec![name.clone()]), ONE_AT_A_TIME, 10);
    dying.files = program::files(&falsehood).unwrap();
    let error = machine.run(&Order::Measure(Box::new(dying)), &Unwatched).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(&name) && error.contains("ended"), "{error}");

    let absent = measurement(Gateway::Command(vec!["/no-such".into()]), ONE_AT_A_TIME, 10);
    let error = machine.run(&Order::Measure(Box::new(absent)), &Unwatched).unwrap_err();
    assert!(error.to_string().contains("/no-such"), "{error}");
}

/// The sockets of a gateway in Python, and modules that it needs.
const SOCKETS: &str = "\
#!/usr/bin/env python3
import socket
import sys
import time

receiver = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
receiver.bind((sys.argv[1],))
sender = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
sender.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FILTER, b'')
sender.bind((sys.argv[2],))
";
/// A gateway with a module of its own beside it.
const PYTHON: &str = "
import frames
while True:
    sender.send(receiver.recv(frames.SIZE))
";

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_python_script_passes_frames_on() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gateway.py");
    fs::write(&program, format!("{SOCKETS}{PYTHON}")).unwrap();
    let module = "import struct\nSIZE = struct.calcsize('=IB3x8s')\n";
    fs::write(folder.path().join("frames.py"), module).unwrap();
    let script = python::script(&program, &["{in}", "{out}"], |name| name.into()).unwrap().unwrap();
    let mut order = measurement(Gateway::Command(script.argv), ONE_AT_A_TIME, 20);
    order.files = script.files;
    let machine = machine(&kernels()[0]);
    let report = run(&machine, &order);
    assert_eq!((report.sent.len(), report.received.len()), (20, 20));
    assert_eq!(report, run(&machine, &order));
}

/// A gateway that keeps the first ten frames for some seconds.
const HOLDING: &str = "
frames = [receiver.recv(16) for _ in range(10)]
time.sleep(float(sys.argv[3]))
for frame in frames:
    sender.send(frame)
    time.sleep(0.001)
while True:
    time.sleep(1)
";

/// A frame every 20 ms or so, whatever became of the one before.
const SOON: Pace =
    Pace::OneAtATime { shortest_ns: 15_000_000, longest_ns: 20_000_000, timeout_ns: 1_000_000 };

/// What is missing at the end is waited for as long as the order says, wherever the tester is.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn held_frames_come_late_and_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("holding.py");
    fs::write(&program, format!("{SOCKETS}{HOLDING}")).unwrap();
    let kernel = &kernels()[0];
    let qemu = Qemu::find().unwrap();
    for tester in [Tester::Inside, Tester::Outside] {
        let setup = Setup { tester, ..Setup::default() };
        let machine = Machine::new(&cache(), &qemu, kernel, INIT, setup).unwrap();
        let all = [("1.2", 1, 10), ("4", 1, 0), ("4", 5, 10)];
        let cases = if tester == Tester::Inside { &all[..1] } else { &all };
        for &(held_s, timeout_s, received) in cases {
            let arguments = ["{in}", "{out}", held_s];
            let script = python::script(&program, &arguments, |name| name.into()).unwrap().unwrap();
            let mut order = measurement(Gateway::Command(script.argv), SOON, 10);
            (order.tester, order.files) = (tester, script.files);
            order.timeout_ns = timeout_s * 1_000_000_000;
            let report = run(&machine, &order);
            let about = format!("{tester:?}, {held_s} s");
            assert_eq!((report.sent.len(), report.received.len()), (10, received), "{about}");
        }
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn a_full_disk_and_a_damaged_state_are_reported() {
    let kernel = &kernels()[0];
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(folder.path())).unwrap();
    let machine = machine_in(&cache, kernel, "");
    let saved = folder.path().join("machines").join(&machine.hash()[..32]);
    fs::create_dir_all(&saved).unwrap();
    std::os::unix::fs::symlink("/dev/full", saved.join("state.part0")).unwrap();
    let error = machine.ready(&Unwatched).unwrap_err().to_string();
    assert!(error.contains("full"), "{error}");

    // A saved machine that is damaged is not run; what is booted in its place does the same.
    let measured = Order::Measure(Box::new(measurement(Gateway::Kernel, ONE_AT_A_TIME, 20)));
    let notes = Notes::default();
    let whole = machine.run(&measured, &notes).unwrap();
    assert_eq!(notes.taken(), [""; 0]);
    let state = saved.join("state");
    let mut bytes = fs::read(&state).unwrap();
    for number in 1..=40 {
        let at = bytes.len() / 41 * number;
        bytes[at] ^= 0x40;
    }
    for damaged in [&bytes[..], b"rubbish"] {
        fs::write(&state, damaged).unwrap();
        assert_eq!(machine.run(&measured, &notes).unwrap(), whole);
        let reported = notes.taken();
        assert_eq!(reported.len(), 1, "{reported:?}");
        let says = format!("its checksum is wrong; Linux {} is booted again", kernel.release);
        assert!(
            reported[0].contains("state is damaged: ") && reported[0].ends_with(&says),
            "{reported:?}"
        );
        assert_ne!(fs::read(&state).unwrap(), damaged);
    }
    machine.run(&measured, &notes).unwrap();
    assert_eq!(notes.taken(), [""; 0]);
}

/// Keeps what it is given.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>);

impl Notes {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Watch for Notes {
    fn proceed(&self) -> bool {
        true
    }

    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.into());
    }
}

/// QEMU loads nothing into the machine that its sum does not know.
#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn the_sum_of_qemu_covers_what_the_machine_loads() {
    let kernel = &kernels()[0];
    let qemu = Qemu::find().unwrap();
    let machine = machine(kernel);
    let mut command = std::process::Command::new(&qemu.program);
    command.args(&machine.identity().flags).arg("-kernel").arg(&kernel.image).arg("-initrd");
    let folder = tempfile::tempdir().unwrap();
    let initrd = folder.path().join("initrd");
    fs::write(&initrd, "none").unwrap();
    command.arg(&initrd).args(["-S", "-trace", "load_file", "-qmp", "stdio"]);
    let script = folder.path().join("quit");
    fs::write(&script, "{\"execute\": \"qmp_capabilities\"}\n{\"execute\": \"quit\"}\n").unwrap();
    let output = command.stdin(fs::File::open(script).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let loaded: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix("load_file name ")?.split(' ').next())
        .collect();
    // A QEMU without trace events on standard error says nothing; Debian's has them.
    assert!(loaded.contains(&"bios-256k.bin") && loaded.contains(&"linuxboot_dma.bin"), "{said}");
    for name in loaded {
        assert!(candor_vm::FIRMWARE.contains(&name), "{name} is not part of the sum");
    }
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn an_interrupted_run_ends_at_once() {
    struct Never;
    impl Watch for Never {
        fn proceed(&self) -> bool {
            false
        }
    }
    let machine = machine(&kernels()[0]);
    machine.ready(&Unwatched).unwrap();
    let order = Order::Measure(Box::new(measurement(Gateway::Kernel, ONE_AT_A_TIME, 100_000)));
    assert!(matches!(machine.run(&order, &Never), Err(Error::Interrupted)));
}

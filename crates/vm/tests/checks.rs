//! The checks of `candor-linux` and `candor-drivers` (their tests `machine`) run on this machine and in
//! guests: each of them somewhere, and in a guest all but those that take a module which is not in a
//! guest's set.
//!
//! Needs QEMU and kernels, so it runs only when asked to, as `conformance.rs` does.

mod build;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use candor_engine::Table;
use candor_init::INIT;
use candor_protocol::Order;
use candor_protocol::order::CommandOrder;
use candor_vm::{Cache, Machine, Qemu, Setup, Unwatched, kernel, program};

/// What a guest may lack: pairs of virtual Ethernet interfaces need a module that no test bed needs.
const MAY_LACK: &str = "Veth";

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// The machine lacks this.
    NotRun(String),
}

/// The outcomes by the names of the checks.
type Outcomes = BTreeMap<String, Outcome>;

/// Reads lines such as `check can::filters_choose ... ok`; what a check prints itself is passed over.
fn outcomes(printed: &str) -> Outcomes {
    let outcome = |line: &str| {
        let (name, reported) = line.strip_prefix("check ")?.split_once(" ... ")?;
        let outcome = match reported {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            reported => {
                Outcome::NotRun(reported.strip_prefix("not run: this machine lacks ")?.to_owned())
            }
        };
        Some((name.to_owned(), outcome))
    };
    printed.lines().filter_map(outcome).collect()
}

/// The checks of `guest` that run in neither of the two, and those that a guest should run.
fn missing(host: &Outcomes, guest: &Outcomes) -> BTreeSet<String> {
    let is_missing = |(name, outcome): &(&String, &Outcome)| match outcome {
        Outcome::NotRun(lack) => {
            lack != MAY_LACK || !matches!(host.get(*name), Some(Outcome::Passed | Outcome::Failed))
        }
        Outcome::Passed | Outcome::Failed => false,
    };
    guest.iter().filter(is_missing).map(|(name, _)| name.clone()).collect()
}

fn failed(outcomes: &Outcomes) -> Vec<&String> {
    let has_failed = outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Failed);
    has_failed.map(|(name, _)| name).collect()
}

/// Runs all checks here. Without root's rights, within a user namespace of their own.
fn on_this_machine(program: &Path) -> Outcomes {
    let is_root = Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0);
    let mut command = match is_root {
        true => Command::new(program),
        false => {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user"]).arg(program);
            command
        }
    };
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = outcomes(&printed);
    // Where user namespaces are forbidden nothing has run; what that means is told later.
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = failed(&found);
    // Who failed comes last too: a long text may be cut in its middle.
    assert!(failed.is_empty(), "{failed:?} on this machine:\n{printed}\n{said}\n{failed:?}");
    found
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn every_check_of_linux_runs_here_or_in_a_guest() {
    every_check_runs("candor-linux");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn every_check_of_ports_runs_here_or_in_a_guest() {
    every_check_runs("candor-drivers");
}

#[test]
#[ignore = "needs QEMU and kernels: see the top of this file"]
fn every_check_of_bus_tools_runs_here_or_in_a_guest() {
    every_check_runs("candor-bus");
}

fn every_check_runs(package: &str) {
    let kernels = env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let cache = Cache::open(None).unwrap();
    let qemu = Qemu::find().unwrap();
    let program = build::machine_checks(package);
    let here = on_this_machine(&program);
    let order = Order::Command(CommandOrder {
        rules: Table { max_hops: 3, ..Table::default() },
        argv: vec![program.display().to_string(), "--guest".into()],
        files: program::files(&program).unwrap(),
    });
    for name in kernels.split_whitespace() {
        let spec = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = kernel::find(&cache, &spec).unwrap_or_else(|error| panic!("{error}"));
        let machine = Machine::new(&cache, &qemu, &kernel, INIT, Setup::default()).unwrap();
        let report = machine.run(&order, &Unwatched).unwrap_or_else(|error| panic!("{error}"));
        let outcome = report.command.expect("the command ran");
        let printed = String::from_utf8_lossy(&outcome.stdout);
        let said = String::from_utf8_lossy(&outcome.stderr);
        println!("Linux {name}:\n{printed}{said}");
        let there = outcomes(&printed);
        assert!(failed(&there).is_empty(), "Linux {name}: {:?}", failed(&there));
        assert_eq!(outcome.status, Some(0), "Linux {name}");
        let passed = there.values().filter(|outcome| **outcome == Outcome::Passed).count();
        assert!(printed.contains(&format!("\nchecks: {passed} passed, 0 failed, ")), "{name}");
        let missing = missing(&here, &there);
        assert!(
            missing.is_empty(),
            "neither this machine nor a guest with Linux {name} runs {missing:?}; run the tests as \
             root, or allow user namespaces"
        );
    }
}

#[test]
fn what_runs_nowhere_is_found() {
    let printed = "\
        thread panicked\n\
        check system::ports_answer ... ok\n\
        check links::refusals ... not run: this machine lacks Veth\n\
        check can::filters ... not run: this machine lacks Can\n\
        check can::stamps ... FAILED\n";
    let there = outcomes(printed);
    assert_eq!(there.len(), 4);
    assert_eq!(there["system::ports_answer"], Outcome::Passed);
    assert_eq!(there["links::refusals"], Outcome::NotRun("Veth".into()));
    assert_eq!(failed(&there), ["can::stamps"]);
    let here = |printed: &str| missing(&outcomes(printed), &there).into_iter().collect::<Vec<_>>();
    let both = "check links::refusals ... ok\ncheck can::filters ... ok\n";
    // A guest has CAN: if it lacks that, it is no comfort that this machine has it.
    assert_eq!(here(both), ["can::filters"]);
    assert_eq!(here(""), ["can::filters", "links::refusals"]);
    let lacks = "check links::refusals ... not run: this machine lacks Veth\n";
    assert_eq!(here(lacks), ["can::filters", "links::refusals"]);
}

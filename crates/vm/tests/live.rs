//! `candor route run` in guests: each check of `candor-gateway` (its tests `machine`) in a guest of its
//! own, with the program itself.
//!
//! Needs QEMU, kernels and the program, so it runs only when asked to, as `conformance.rs` does.
//! CANDOR_BINARY is the program; without it, it is built. CANDOR_CANNELLONI is cannelloni 2.1.2, static;
//! no package has it, so the checks against it (`peers`) are part of the test only if it is named.
//! With CANDOR_TURNS, a number, each check runs on one of the kernels, by turns that the number begins, and those of can-gw
//! (`planes`) on all; without it, all do.

mod build;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use candor_engine::Table;
use candor_init::INIT;
use candor_protocol::Order;
use candor_protocol::order::{CommandOrder, File};
use candor_vm::{Cache, Machine, Qemu, Setup, Unwatched, kernel, program};

/// So many frames of the drive are replayed: about five seconds of it.
const DRIVE_FRAMES: usize = 12_000;
/// Kernels that are tried unless CANDOR_KERNELS names others.
const KERNELS: &str = "6.12 6.12-rt";
/// How often rules of the checks may pass a frame on: can-gw gets the limit when it is loaded.
const MAX_HOPS: u8 = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn candor() -> PathBuf {
    match env::var_os("CANDOR_BINARY") {
        Some(program) => program.into(),
        None => build::cargo(
            &["build", "--release", "--package", "candor-cli"],
            "crates/cli/Cargo.toml",
            "candor",
        ),
    }
}

/// A program without what a debugger wants of it: three quarters of the checks' bytes, which every guest
/// would take in before it begins. It has the name that it has, in `folder`.
fn stripped(program: &Path, folder: &Path) -> PathBuf {
    let small = folder.join(program.file_name().unwrap());
    let status = Command::new("strip").arg("-o").arg(&small).arg(program).status();
    assert!(status.expect("strip is there, as it is wherever Rust links").success());
    small
}

/// What is handed to a guest: arguments of the checks, and files.
#[derive(Default)]
struct GuestFiles {
    arguments: Vec<String>,
    files: Vec<File>,
}

impl GuestFiles {
    /// A program of this machine, with what it needs, where it is here.
    fn program(&mut self, name: &str, path: &Path) {
        for file in program::files(path).unwrap_or_else(|error| panic!("{error}")) {
            if !self.files.iter().any(|known| known.path == file.path) {
                self.files.push(file);
            }
        }
        self.arguments.push(format!("--{name}={}", path.display()));
    }

    /// A file in the guest's folder for what it is given.
    fn file(&mut self, name: &str, path: &str, contents: Vec<u8>) {
        let path = format!("/given/{path}");
        self.arguments.push(format!("--{name}={path}"));
        self.files.push(File { path, is_executable: false, contents });
    }
}

fn on_path(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.exists()).unwrap_or_else(|| panic!("{program} is not there"))
}

/// The first frames of a recorded drive.
fn drive() -> Vec<u8> {
    let log = fs::read_to_string(root().join("../shared/data/ford-focus/lights.log"))
        .expect("../shared/data is there");
    let lines = log.lines().take(DRIVE_FRAMES).flat_map(|line| [line, "\n"]);
    lines.collect::<String>().into_bytes()
}

fn guest_files(checks: &Path, candor: &Path) -> GuestFiles {
    let mut guest_files = GuestFiles::default();
    guest_files.program("checks", checks);
    guest_files.program("candor", candor);
    guest_files.program("shell", &on_path("sh"));
    guest_files.program("date", &on_path("date"));
    if let Some(cannelloni) = env::var_os("CANDOR_CANNELLONI") {
        guest_files.program("cannelloni", Path::new(&cannelloni));
    }
    let example = |name: &str| fs::read(root().join("examples/gateway").join(name)).unwrap();
    guest_files.file("rules", "drive.rules.toml", example("drive.rules.toml"));
    guest_files.file("dbc", "car.dbc", example("car.dbc"));
    guest_files.file("ids", "ids.csv", example("ids.csv"));
    guest_files.file("drive", "drive.log", drive());
    guest_files
}

/// Runs a check in a guest of its own.
fn check(machine: &Machine, name: &str, argv: Vec<String>, files: Vec<File>) -> Result<(), String> {
    let rules = Table { max_hops: MAX_HOPS, ..Table::default() };
    let order = Order::Command(CommandOrder { rules, argv, files });
    let report = machine.run(&order, &Unwatched).map_err(|error| error.to_string())?;
    let outcome = report.command.expect("the command ran");
    let printed = String::from_utf8_lossy(&outcome.stdout);
    let said = String::from_utf8_lossy(&outcome.stderr);
    println!("Linux {}:\n{printed}{said}", report.release);
    let has_passed = printed.contains(&format!("check {name} ... ok\n"));
    if outcome.status == Some(0) && has_passed { Ok(()) } else { Err("see above".into()) }
}

#[test]
#[ignore = "needs QEMU, kernels and the program: see the top of this file"]
fn every_check_of_the_live_gateway_runs_in_a_guest() {
    let checks = build::machine_checks("candor-gateway");
    let listed = Command::new(&checks).arg("--list").output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let wanted = env::var("CANDOR_CHECKS").unwrap_or_default();
    let folder = tempfile::tempdir().unwrap();
    let checks = stripped(&checks, folder.path());
    let guest_files = guest_files(&checks, &stripped(&candor(), folder.path()));
    let is_part = |name: &&str| {
        name.contains(&wanted)
            && (!name.starts_with("peers::") || env::var_os("CANDOR_CANNELLONI").is_some())
    };
    let names: Vec<&str> = names.lines().filter(is_part).collect();
    assert!(!names.is_empty(), "no check is called {wanted:?}");
    let kernels = env::var("CANDOR_KERNELS").unwrap_or(KERNELS.into());
    let count = kernels.split_whitespace().count();
    let turns = env::var("CANDOR_TURNS").ok();
    let turns = turns.map(|text| text.parse::<usize>().expect("CANDOR_TURNS is a number"));
    let cache = Cache::open(None).unwrap();
    let qemu = Qemu::find().unwrap();
    let run = |number: usize, kernel: &str| {
        let spec = kernel.parse().unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let found = kernel::find(&cache, &spec).unwrap_or_else(|error| panic!("{error}"));
        let machine = Machine::new(&cache, &qemu, &found, INIT, Setup::default()).unwrap();
        let failure = |name: &&str| {
            let mut argv = vec![checks.display().to_string(), "--guest".into(), (*name).into()];
            argv.extend(guest_files.arguments.iter().cloned());
            let failure = check(&machine, name, argv, guest_files.files.clone()).err()?;
            Some(format!("Linux {kernel}: {name}: {failure}"))
        };
        let is_its_turn = |at: usize, name: &str| {
            name.starts_with("planes::")
                || turns.is_none_or(|first| (at + first % count) % count == number)
        };
        let names = names.iter().enumerate().filter(|(at, name)| is_its_turn(*at, name));
        names.filter_map(|(_, name)| failure(name)).collect::<Vec<_>>()
    };
    let run = &run;
    // Each kernel has a processor of its own.
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = kernels
            .split_whitespace()
            .enumerate()
            .map(|it| scope.spawn(move || run(it.0, it.1)))
            .collect();
        threads.into_iter().flat_map(|it| it.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

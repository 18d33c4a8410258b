//! Experiments in machines, as their user sees them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use candor_linux::clock;
use candor_time::{Monotonic, Nanos};

use crate::setting::{World, fails, stderr, stdout, succeeds};

/// An experiment with a rule of its own, in the folder of `world`.
fn experiment(world: &World, gateway: &str, rule: &str) {
    let text = format!(
        "testbed = \"vm\"\nseeds = 1\ncount = 20\nbus.in.bitrate = \"1M\"\nbus.out.bitrate = \"1M\"\n\
         gateway.kind = \"{gateway}\"\ngateway.rules = \"own.rules.toml\"\n\
         traffic.kind = \"one-at-a-time\"\n"
    );
    let rules = format!(
        "[bus]\nin = \"can0\"\nout = \"can1\"\n\
         [[rule]]\nname = \"mine\"\nfrom = \"in\"\nto = \"out\"\n{rule}\n"
    );
    fs::write(world.path("own.toml"), text).unwrap();
    fs::write(world.path("own.rules.toml"), rules).unwrap();
}

/// `candor lab run` with the experiment of `world`.
fn lab(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command
        .current_dir(world.folder.path())
        .args(["lab", "run", "own.toml", "--out", "out"])
        .args(arguments)
        .env("CANDOR_CACHE", world.path("cache"))
        .stdin(Stdio::null());
    command
}

#[test]
fn rules_that_can_gw_cannot_do_are_named_before_anything_is_started() {
    let world = World::new();
    // Two patterns are two jobs of can-gw, and each of these needs a handle of its own.
    let rule = "match = [\"0x123\", \"0x456\"]\nor = { id = \"0x0\" }\nuid = 7";
    experiment(&world, "kernel", rule);
    // There is neither QEMU nor a kernel here.
    let output = lab(&world, &[]).env("PATH", world.path("bin")).output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("can-gw cannot run rule `mine`: "), "{message}");
    assert!(!world.path("out").exists());
    // Our own engine can.
    experiment(&world, "live", rule);
    let output = lab(&world, &[]).env("PATH", world.path("bin")).output().unwrap();
    fails(&output, &["qemu-system-x86_64 was not found"]);
}

/// The first kernel of `CANDOR_KERNELS`, in the cache of `world` too.
fn one_kernel(world: &World) -> String {
    let kernels = std::env::var("CANDOR_KERNELS").unwrap_or("6.12 7.2".into());
    let fetched = candor_vm::Cache::open(None).unwrap().folder().join("kernels");
    fs::create_dir(world.path("cache")).unwrap();
    std::os::unix::fs::symlink(fetched, world.path("cache/kernels")).unwrap();
    kernels.split_whitespace().next().expect("a kernel").into()
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn results_of_another_qemu_are_not_taken_from_the_cache() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    // A QEMU of our own, beside the modules and the ROMs of the machine's.
    let qemu = candor_vm::Qemu::find().unwrap().program.canonicalize().unwrap();
    let prefix = world.path("patched");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    for folder in ["lib", "share"] {
        let there = qemu.parent().unwrap().parent().unwrap().join(folder);
        std::os::unix::fs::symlink(there, prefix.join(folder)).unwrap();
    }
    let patched = prefix.join("bin/qemu-system-x86_64");
    fs::copy(&qemu, &patched).unwrap();
    let path = std::env::join_paths(
        [prefix.join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    // Which of them ran, what it made, and whether the cache knew it.
    let run = |arguments: &[&str], path: Option<&std::ffi::OsStr>| {
        let mut command = lab(&world, &[&["--kernel", &kernel, "--json"], arguments].concat());
        command.envs(path.map(|path| ("PATH", path)));
        let output = command.output().unwrap();
        succeeds(&output);
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let file = world.folder.path().join(line["data"]["file"].as_str().unwrap());
        let result: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let sum = result["machine"]["qemu_sha256"].as_str().unwrap().to_owned();
        let min = result["metrics"]["gateway_latency"]["min_ns"].clone();
        (sum, min, line["data"]["cached"].as_bool().unwrap())
    };
    let machines = || fs::read_dir(world.path("cache/machines")).unwrap().count();

    let first = run(&[], None);
    assert_eq!(run(&[], None), (first.0.clone(), first.1.clone(), true));
    // The same bytes elsewhere are the same QEMU.
    assert_eq!(run(&[], Some(&path)), (first.0.clone(), first.1.clone(), true));
    assert_eq!(machines(), 1);

    // One byte more: all else is the same, and so are the nanoseconds.
    let mut bytes = fs::read(&qemu).unwrap();
    bytes.push(0);
    fs::remove_file(&patched).unwrap();
    fs::write(&patched, bytes).unwrap();
    fs::set_permissions(&patched, fs::Permissions::from_mode(0o755)).unwrap();
    let other = run(&[], Some(&path));
    assert_ne!(other.0, first.0);
    assert!(!other.2, "another QEMU's result was taken from the cache");
    assert_eq!((machines(), &other.1), (2, &first.1), "and its saved machine was not");
    let fresh = run(&["--no-cache"], Some(&path));
    assert_eq!(fresh, (other.0.clone(), other.1, false));

    // What the other one has made is stale now.
    let output = world
        .command(&["clean", "--dry-run", "--json"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    succeeds(&output);
    let text = stdout(&output);
    assert_eq!(text.matches(r#""stale":"another QEMU""#).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn a_long_experiment_shows_that_it_lives() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    let long = ["--kernel", &kernel, "--set", "count=200000", "--set", "traffic.kind=half"];
    let mut command = lab(&world, &long);
    let begun = clock::now::<Monotonic>();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first one comes ten seconds after the command began, which is before the experiment does; the second one as long after it.
    let mut signs = vec![lines.next().unwrap().unwrap()];
    assert!(clock::now::<Monotonic>() - begun >= Nanos::from_secs(10), "{signs:?}");
    signs.push(lines.next().unwrap().unwrap());
    let seconds: Vec<u64> = signs
        .iter()
        .map(|line| {
            let seconds = line
                .strip_prefix("[0/1] running experiment for ")
                .unwrap_or_else(|| panic!("{line}"));
            seconds.strip_suffix(" s").unwrap().parse().unwrap()
        })
        .collect();
    assert!(seconds[1] - seconds[0] >= 9, "{signs:?}");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.last().unwrap().starts_with("candor: interrupted"), "{rest:?}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
}

/// Needs QEMU and kernels, so it runs only when asked to, with those in `CANDOR_KERNELS`.
#[test]
#[ignore = "needs QEMU and kernels"]
fn a_guest_that_dies_and_a_disk_that_is_full_are_reported() {
    let world = World::new();
    experiment(&world, "kernel", "");
    let kernel = one_kernel(&world);
    let run = |arguments: &[&str]| {
        lab(&world, &[&["--kernel", &kernel], arguments].concat()).output().unwrap()
    };

    let output = run(&["--set", "vm.parameters=rdinit=/nothing"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("\nLinux ") && message.contains(" did not boot: "), "{message}");
    assert!(message.contains("Kernel panic"), "{message}");

    fs::remove_dir_all(world.path("cache/machines")).unwrap();
    succeeds(&run(&[]));
    let machines: Vec<_> = fs::read_dir(world.path("cache/machines")).unwrap().collect();
    let [Ok(machine)] = &machines[..] else { panic!("{machines:?}") };
    fs::remove_file(machine.path().join("state")).unwrap();
    for part in ["state.part0", "state.part1"] {
        std::os::unix::fs::symlink("/dev/full", machine.path().join(part)).unwrap();
    }
    let reported =
        ["the machine cannot be saved: the disk may be full", "free space", "CANDOR_CACHE"];
    fails(&run(&["--no-cache"]), &reported);
    // And when there is room, it works.
    succeeds(&run(&["--no-cache"]));
}

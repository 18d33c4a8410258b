//! The units in examples/systemd: their commands are such that this program takes, the rights of the gateway are the
//! least, and systemd understands them.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../../examples/systemd/candor-route@.service");
const SIGNALS: &str = include_str!("../../../examples/systemd/candor-signals@.service");

/// The settings of the unit by `Section.Name`; one that is there twice has all its values.
fn settings(unit: &str) -> BTreeMap<String, Vec<String>> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in unit.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap().to_owned();
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
        settings.entry(format!("{section}.{name}")).or_default().push(value.to_owned());
    }
    settings
}

/// The one value of a setting.
fn value(name: &str) -> String {
    let settings = settings(UNIT);
    match settings.get(name).map(Vec::as_slice) {
        Some([value]) => value.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Reads arguments as `candor` does, and no more: `--help` ends it then.
fn read(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.args(arguments).arg("--help").output().unwrap()
}

#[test]
fn the_command_is_one_that_the_program_takes() {
    let command = value("Service.ExecStart").replace("%i", "car");
    let words: Vec<_> = command.split_whitespace().collect();
    let [program, arguments @ ..] = &*words else { panic!("{command}") };
    // Without a folder, systemd looks where each way of installing puts it.
    assert_eq!(*program, "candor");
    assert_eq!(arguments.last(), Some(&"/etc/candor/car.rules.toml"));
    let output = read(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("candor route run"), "{help}");
    for word in arguments.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(word), "{word} is an option of another command: {help}");
    }
    // Arguments that are wrong are reported in spite of `--help`.
    for wrong in [&["route", "run", "--no-such-option"][..], &["route", "run", "--rt", "200"]] {
        assert_eq!(read(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_command_of_the_signal_service_is_one_too() {
    let settings = settings(SIGNALS);
    let [command] = settings["Service.ExecStart"].as_slice() else { panic!("one command") };
    assert_eq!(command, "candor signals serve /etc/candor/%i.signals.toml");
    let output = read(&["signals", "serve", "/etc/candor/car.signals.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(settings["Service.CapabilityBoundingSet"], [""]);
    for name in ["Type", "WatchdogSec", "ExecReload", "DynamicUser", "SystemCallFilter"] {
        let name = format!("Service.{name}");
        assert_eq!(settings[&name], [value(&name)], "{name}");
    }
}

#[test]
fn the_service_tells_how_it_goes_and_has_the_least_rights() {
    for (name, expected) in [
        ("Service.Type", "notify"),
        ("Service.ExecReload", "/bin/sh -c 'kill -HUP $MAINPID'"),
        ("Service.WatchdogSec", "10"),
        ("Service.DynamicUser", "yes"),
        ("Service.RuntimeDirectory", "candor/%i"),
        ("Service.NoNewPrivileges", "yes"),
        ("Service.ProtectSystem", "strict"),
        ("Service.CapabilityBoundingSet", "CAP_NET_RAW CAP_SYS_NICE CAP_IPC_LOCK"),
        ("Service.AmbientCapabilities", "CAP_NET_RAW CAP_SYS_NICE CAP_IPC_LOCK"),
        ("Service.SystemCallFilter", "@system-service"),
        ("Install.WantedBy", "multi-user.target"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    let families = value("Service.RestrictAddressFamilies");
    for family in ["AF_CAN", "AF_PACKET", "AF_NETLINK", "AF_INET", "AF_INET6", "AF_UNIX"] {
        assert!(families.split(' ').any(|word| word == family), "{family}");
    }
    // What the kernel plane takes is there to be switched on.
    for name in ["CapabilityBoundingSet", "AmbientCapabilities"] {
        assert!(UNIT.contains(&format!("\n#{name}=CAP_NET_ADMIN\n")), "{name}");
    }
}

#[test]
#[ignore = "needs systemd-analyze; `./test --only systemd` runs it"]
fn systemd_understands_the_units() {
    for (name, unit) in [("candor-route", UNIT), ("candor-signals", SIGNALS)] {
        systemd_understands(name, unit);
    }
}

/// Where the ways of installing put the program: `install` of a build, and a package.
const PLACES: [&str; 2] = ["usr/local/bin", "usr/bin"];

fn systemd_understands(name: &str, unit: &str) {
    let verify = |unit: &str, place: Option<&str>| {
        let root = tempfile::tempdir().unwrap();
        let system = root.path().join("etc/systemd/system");
        fs::create_dir_all(&system).unwrap();
        // What every unit needs.
        let own = root.path().join("usr/lib/systemd/system");
        fs::create_dir_all(&own).unwrap();
        for target in ["sysinit", "basic", "shutdown"] {
            fs::write(own.join(format!("{target}.target")), "[Unit]\n").unwrap();
        }
        let shell = root.path().join("bin/sh");
        fs::create_dir_all(root.path().join("bin")).unwrap();
        fs::copy("/bin/sh", shell).unwrap();
        if let Some(place) = place {
            let folder = root.path().join(place);
            fs::create_dir_all(&folder).unwrap();
            fs::hard_link(env!("CARGO_BIN_EXE_candor"), folder.join("candor"))
                .or_else(|_| {
                    fs::copy(env!("CARGO_BIN_EXE_candor"), folder.join("candor")).map(drop)
                })
                .unwrap();
        }
        let file = format!("{name}@car.service");
        fs::write(system.join(&file), unit).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(format!("--root={}", root.path().display()));
        command.arg(file).output().expect("systemd-analyze, of Debian's package systemd, is there")
    };
    let reported = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for place in PLACES {
        let output = verify(unit, Some(place));
        assert!(output.status.success(), "{place}: {}", reported(&output));
    }
    for (unit, place, reason) in [
        (unit.to_owned(), None, "candor is not executable"),
        (unit.replace("WatchdogSec=10", "WatchdogSec=often"), Some(PLACES[0]), "often"),
    ] {
        let output = verify(&unit, place);
        assert!(reported(&output).contains(reason), "{}", reported(&output));
    }
}

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
    assert!(program.ends_with("/candor"), "{program}");
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
    assert_eq!(command, "/usr/bin/candor signals serve /etc/candor/%i.signals.toml");
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
        ("Service.ExecReload", "/bin/kill -HUP $MAINPID"),
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

fn systemd_understands(name: &str, unit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let verify = |unit: &str| {
        let file = folder.path().join(format!("{name}@car.service"));
        // systemd looks whether the program is there.
        fs::write(&file, unit.replace("/usr/bin/candor", env!("CARGO_BIN_EXE_candor"))).unwrap();
        Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&file).output()
    };
    let output = verify(unit).expect("systemd-analyze, of Debian's package systemd, is there");
    let reported = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // What is wrong with other units of this machine is none of our business.
    assert!(!reported(&output).contains(name), "{}", reported(&output));
    let wrong = verify(&unit.replace("WatchdogSec=10", "WatchdogSec=often")).unwrap();
    assert!(reported(&wrong).contains(&format!("{name}@car.service")), "{}", reported(&wrong));
}

//! `candor signals` and D-Bus, in builds that have it and in those that do not.

use std::process::{Command, Output};

fn candor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_candor")).args(arguments).output().unwrap()
}

#[cfg(not(feature = "dbus"))]
#[test]
fn a_build_without_it_says_which_feature_it_needs() {
    let remedy = "this build has no D-Bus; build it with the feature `dbus`: cargo build --release --features dbus\n";
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", folder.path().join("s").display());
    let serve = ["signals", "serve", "--port", "can2udp:127.0.0.1:0", "--listen", &listen];
    for (arguments, place) in [
        (&[&serve[..], &["--dbus", "session"]].concat()[..], "--dbus session"),
        (&["signals", "watch", "dbus:session"], "dbus:session"),
    ] {
        let output = candor(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said, format!("candor: {place}: {remedy}"));
    }
}

#[cfg(feature = "dbus")]
#[test]
fn values_come_over_a_bus() {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    struct Ends(Child);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(
        folder.path().join("car.dbc"),
        "BU_: A\n\nBO_ 291 Motor: 1 A\n SG_ Gear : 0|8@1+ (1,0) [0|9] \"\" B\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("drive.log"),
        "(1.000000) can0 123#07\n(1.010000) can0 123#08\n",
    )
    .unwrap();
    let mut daemon = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--print-address", "--address"])
        .arg(format!("unix:path={}", path("bus")))
        .stdout(Stdio::piped())
        .spawn()
        .expect("dbus-daemon; install it with: sudo apt-get install dbus-daemon");
    let output = daemon.stdout.take().unwrap();
    let _daemon = Ends(daemon);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    let bus = format!("unix:path={}", path("bus"));
    let mut service = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["signals", "serve", "--dbc", &path("car.dbc"), "--dbus", &bus])
        .args(["--port", &format!("car=file:{}?loop=true", path("drive.log"))])
        .args(["--listen", &format!("unix:{}", path("s"))])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = service.stderr.take().unwrap();
    let _service = Ends(service);
    line.clear();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert!(line.ends_with(&format!("org.candor.Signals1 at D-Bus {bus}\n")), "{line}");
    let url = format!("dbus:{bus}");
    let output = candor(&["signals", "watch", &url, "Motor.*", "--count", "4"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), 4, "{printed} {}", String::from_utf8_lossy(&output.stderr));
    for line in printed.lines() {
        assert!(line.ends_with("  Motor.Gear  7") || line.ends_with("  Motor.Gear  8"), "{line}");
    }
    let refused = |arguments: &[&str], reason: &str| {
        let output = candor(&[&["signals", "watch"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    };
    refused(&[&url, "Moter.*"], "the service refused: no signal is called `Moter.*`");
    refused(&[&url, "--format", "cbor"], "--format: events have one form at a message bus");
    refused(&["dbus:bus"], "dbus:bus: a bus is session, system, or an address such as");
}

//! `candor route run`, `stats`, `load` and `top` as their user sees them: a gateway between two tunnels
//! on loopback.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

fn candor(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candor"));
    command.arg("route").current_dir(folder);
    command
}

/// Runs it to its end; what it says on standard output and on standard error.
#[track_caller]
fn run(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = candor(folder).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert_eq!(status.code(), Some(code), "{stdout}{stderr}");
    (stdout, stderr)
}

/// A gateway that is ended with the test.
struct Gateway {
    folder: TempDir,
    child: Child,
    reported: BufReader<ChildStderr>,
    /// Where it receives.
    entry: String,
    /// Where it sends.
    exit: UdpSocket,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    fn start() -> Self {
        Self::start_with("")
    }

    /// With one more bus, which gets the frames of the rule, too.
    fn start_with(bus: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (before, exit) = (bind(), bind());
        exit.set_read_timeout(Some(TIMEOUT)).unwrap();
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        // Free a moment ago; the kernel gives out others first.
        let [entry, other] = [bind(), bind()].map(|socket| port(&socket));
        let rules = format!(
            "[bus]\nbefore = \"cannelloni:udp://127.0.0.1:{}?listen={entry}&any_peer=true\"\n\
             behind = \"cannelloni:udp://127.0.0.1:{}?listen={other}\"\n{bus}\n[[rule]]\n\
             name = \"speed\"\nfrom = \"before\"\nto = [\"behind\"{}]\nmatch = [\"0x123\"]\n",
            port(&before),
            port(&exit),
            if bus.is_empty() { "" } else { ", \"more\"" },
        );
        fs::write(folder.path().join("drive.rules.toml"), rules).unwrap();
        let mut child = candor(folder.path())
            .args(["run", "drive.rules.toml", "--control", "./drive.sock"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let reported = BufReader::new(child.stderr.take().unwrap());
        let entry = format!("127.0.0.1:{entry}");
        let mut gateway = Self { folder, child, reported, entry, exit };
        gateway.wait_for("control socket");
        gateway
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Reads what it tells up to a line with this.
    fn wait_for(&mut self, text: &str) {
        let mut all = String::new();
        while !all.contains(text) {
            assert!(
                self.reported.read_line(&mut all).unwrap() > 0,
                "{text} was never reported: {all}"
            );
        }
    }

    /// Sends a frame as cannelloni does, and waits until it comes out.
    fn pass_a_frame(&self) {
        let frame = [2, 0, 0, 0, 1, 0, 0, 1, 0x23, 1, 0xAB];
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&frame, &self.entry).unwrap();
        let mut datagram = [0; 2048];
        let count = self.exit.recv(&mut datagram).unwrap();
        assert_eq!(datagram[5..count], frame[5..]);
    }

    fn control(&self) -> [String; 2] {
        ["--control".into(), self.folder().join("drive.sock").display().to_string()]
    }

    /// Runs a command with its control socket.
    #[track_caller]
    fn ask(&self, arguments: &[&str], code: i32) -> (String, String) {
        let control = self.control();
        let control = control.iter().map(String::as_str);
        let arguments: Vec<_> = arguments.iter().copied().chain(control).collect();
        run(self.folder(), &arguments, code)
    }

    /// What `stats --json` tells as soon as these rules have handled so many copies each: a frame is
    /// counted just after it went out.
    #[track_caller]
    fn stats(&self, handled: &[(&str, u64)]) -> Vec<serde_json::Value> {
        for _ in 0..1_000 {
            let reported = lines(&self.ask(&["stats", "--json"], 0).0);
            let counts = |name: &str| {
                let rule = reported.iter().find(|line| line["data"]["rule"] == name);
                rule.and_then(|rule| rule["data"]["handled"].as_u64())
            };
            if handled.iter().all(|&(name, count)| counts(name) == Some(count)) {
                return reported;
            }
        }
        panic!("never counted: {handled:?}");
    }
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn frames_are_counted_and_rules_changed() {
    let mut gateway = Gateway::start();
    gateway.pass_a_frame();
    let reported = gateway.stats(&[("speed", 1)]);
    let types: Vec<_> = reported.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["port", "port", "rule", "latency", "summary"]);
    assert_eq!(reported[0]["data"]["received"], 1);
    assert_eq!(reported[4]["data"]["pid"], gateway.child.id());
    let (stdout, _) = gateway.ask(&["stats"], 0);
    assert!(stdout.contains("\nspeed  before  behind  user "), "{stdout}");

    // Wrong rules are reported with their places, and those before stay.
    let rules = fs::read_to_string(gateway.folder().join("drive.rules.toml")).unwrap();
    let wrong = rules.replace("to = [\"behind\"]", "to = \"behnd\"");
    fs::write(gateway.folder().join("wrong.toml"), wrong).unwrap();
    let (stdout, stderr) = gateway.ask(&["load", "wrong.toml"], 1);
    assert!(stdout.contains("wrong.toml:8:6: error: unknown bus `behnd`\n"), "{stdout}");
    assert!(stderr.contains("stay in use"), "{stderr}");
    let (stdout, _) = gateway.ask(&["load", "wrong.toml", "--json"], 1);
    let reported = lines(&stdout);
    assert_eq!(
        (&reported[0]["type"], &reported[0]["data"]["line"]),
        (&"finding".into(), &8.into())
    );
    assert_eq!(reported.last().unwrap()["type"], "rejected");
    // That a file cannot be read is an error, not an answer about its rules.
    let (stdout, stderr) = gateway.ask(&["load", "absent.toml"], 2);
    assert!(stdout.is_empty() && stderr.contains("absent.toml: cannot be read: "), "{stderr}");
    let (stdout, _) = gateway.ask(&["load", "absent.toml", "--json"], 2);
    assert_eq!(lines(&stdout)[0]["type"], "rejected");
    let (stdout, _) = gateway.ask(&["stats"], 0);
    assert!(stdout.contains("\nthe rules on disk are not in use: "), "{stdout}");
    gateway.pass_a_frame();
    gateway.stats(&[("speed", 2)]);

    let renamed = rules.replace("\"speed\"", "\"faster\"");
    fs::write(gateway.folder().join("other.toml"), renamed).unwrap();
    let (stdout, stderr) = gateway.ask(&["load", "other.toml", "--json"], 0);
    assert_eq!(lines(&stdout)[0]["data"]["rules"], 1);
    assert!(stderr.contains("1 rule loaded in"), "{stderr}");
    gateway.pass_a_frame();
    let reported = gateway.stats(&[("speed", 2), ("faster", 1)]);
    assert_eq!(reported.last().unwrap()["data"]["rejected"], serde_json::Value::Null);
    let (stdout, _) = gateway.ask(&["stats"], 0);
    assert!(stdout.contains("/other.toml: process "), "{stdout}");
    // Nothing given: the file that it was started with.
    gateway.ask(&["load"], 0);
    let (stdout, _) = gateway.ask(&["stats"], 0);
    assert!(stdout.contains("/drive.rules.toml: process "), "{stdout}");

    // It is running: not a second time with its rules.
    let (_, stderr) = run(gateway.folder(), &["run", "drive.rules.toml", "--control", "./x"], 2);
    assert!(stderr.contains("already runs these rules"), "{stderr}");
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    let (_, stderr) = gateway.ask(&["stats"], 2);
    assert!(
        stderr.contains("no gateway runs with this control socket; start one with"),
        "{stderr}"
    );
}

#[test]
fn a_check_says_what_is_wrong() {
    let gateway = Gateway::start();
    gateway.pass_a_frame();
    let (stdout, stderr) = gateway.ask(&["stats", "--check", "--max-silence", "60s"], 0);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("ok\n", ""));
    let (stdout, _) = gateway.ask(&["stats", "--check", "--json"], 0);
    assert_eq!(stdout, "{\"type\":\"health\",\"data\":{\"ok\":true,\"problems\":0}}\n");
    // A limit that cannot be told is no answer.
    for (limit, reason) in [
        ("bfore=2s", "--max-silence: there is no bus `bfore`; there are `before`, `behind`"),
        ("behind=2s", "--max-silence: no frames are received from bus `behind`"),
        ("0.5s", "use 1s to 604800s"),
    ] {
        let (stdout, stderr) = gateway.ask(&["stats", "--check", "--max-silence", limit], 2);
        assert!(stdout.is_empty() && stderr.contains(reason), "{limit}: {stderr}");
    }
    let (_, stderr) = gateway.ask(&["stats", "--max-silence", "2s"], 2);
    assert!(stderr.contains("--check"), "{stderr}");
    // Nothing comes any more.
    let asked = ["stats", "--check", "--max-silence", "before=1s"];
    let control = gateway.control();
    let ask = || candor(gateway.folder()).args(asked).args(&control).output().unwrap();
    let silent = loop {
        let output = ask();
        if output.status.code() != Some(0) {
            break output;
        }
    };
    assert_eq!(silent.status.code(), Some(1));
    // How late it is asked is up to the machine.
    let told = String::from_utf8(silent.stdout).unwrap();
    let told = told.strip_prefix("bus `before`: no frame for ").expect(&told);
    let silent_s = told.strip_suffix("s, and at most 1s is allowed\n").expect(told);
    assert!(silent_s.parse::<f64>().unwrap() >= 1.0, "{told}");
    // One that is loud again is well again; a slow machine asks too late now and then.
    let mut passed = 1;
    let is_well = (0..20).any(|_| {
        gateway.pass_a_frame();
        passed += 1;
        gateway.stats(&[("speed", passed)]);
        ask().status.code() == Some(0)
    });
    assert!(is_well);
    // Rules that were refused are a problem until others are taken.
    fs::write(gateway.folder().join("wrong.toml"), "[buss]\n").unwrap();
    gateway.ask(&["load", "wrong.toml"], 1);
    let (stdout, _) = gateway.ask(&["stats", "--check"], 1);
    assert!(stdout.starts_with("the rules on disk are not in use: "), "{stdout}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    let (stdout, _) = gateway.ask(&["stats", "--check", "--json"], 1);
    let told = lines(&stdout);
    assert_eq!((&told[0]["type"], &told[0]["data"]["bus"]), (&"problem".into(), &().into()));
    assert_eq!(told[1]["data"], serde_json::json!({"ok": false, "problems": 1}));
    gateway.ask(&["load"], 0);
    gateway.ask(&["stats", "--check"], 0);
}

/// Who may use the socket by its group must not read, by what is said of errors, what the gateway may read.
#[test]
fn a_group_loads_only_rules_from_the_folder_of_the_gateway() {
    let mut gateway = Gateway::start();
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    let folder = gateway.folder().to_owned();
    let rules = fs::read_to_string(folder.join("drive.rules.toml")).unwrap();
    fs::create_dir(folder.join("candor")).unwrap();
    for name in ["candor/drive.rules.toml", "candor/other.rules.toml", "outside.rules.toml"] {
        fs::write(folder.join(name), &rules).unwrap();
    }
    gateway.child = candor(&folder)
        .args(["run", "candor/drive.rules.toml", "--control", "./drive.sock", "--control-group"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    gateway.reported = BufReader::new(gateway.child.stderr.take().unwrap());
    gateway.wait_for("control socket");
    gateway.ask(&["load", "candor/other.rules.toml"], 0);
    gateway.ask(&["load"], 0);
    for name in ["outside.rules.toml", "candor/../outside.rules.toml", "/etc/hostname", "absent"] {
        let (stdout, stderr) = gateway.ask(&["load", name], 2);
        assert!(stdout.is_empty() && stderr.contains("there is no such rule file in "), "{stderr}");
    }
}

/// As logrotate does it: it moves the file, and sends SIGHUP.
#[test]
fn a_recording_that_was_moved_is_begun_anew() {
    let mut gateway = Gateway::start_with("more = \"file:out.log\"\n");
    gateway.pass_a_frame();
    gateway.stats(&[("speed", 1)]);
    fs::rename(gateway.folder().join("out.log"), gateway.folder().join("out.log.1")).unwrap();
    // It writes on as long as nobody says anything.
    gateway.pass_a_frame();
    let id = gateway.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    gateway.wait_for("changed: ");
    gateway.pass_a_frame();
    let reported = gateway.stats(&[("speed", 3)]);
    let more = reported.iter().find(|line| line["data"]["bus"] == "more").unwrap();
    assert_eq!((&more["data"]["transmitted"], &more["data"]["lost"]), (&3.into(), &0.into()));
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    let frames = |name: &str| {
        let text = fs::read_to_string(gateway.folder().join(name)).unwrap();
        text.lines().count()
    };
    assert_eq!((frames("out.log.1"), frames("out.log")), (2, 1));
}

#[test]
fn a_watch_ends_when_nobody_reads_any_more() {
    let gateway = Gateway::start();
    let mut watch = candor(gateway.folder())
        .args(["stats", "--json", "--watch", "10ms"])
        .args(gateway.control())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(reported.next().unwrap().unwrap().contains(r#""type":"port""#));
    drop(reported);
    assert!(watch.wait().unwrap().success());
}

#[test]
fn a_watch_ends_with_the_gateway() {
    let mut gateway = Gateway::start();
    let mut watch = candor(gateway.folder())
        .args(["stats", "--json", "--watch", "10ms"])
        .args(gateway.control())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<_> = reported.by_ref().take(25).collect();
    // Two ports, a rule, a latency and a summary each time; rates from the second time on.
    assert!(
        first[4].contains("\"type\":\"summary\"") && first[24].contains("\"type\":\"summary\"")
    );
    assert!(first[0].contains("\"received_per_s\":null"), "{}", first[0]);
    assert!(first[20].contains("\"received_per_s\":0.0"), "{}", first[20]);
    gateway.child.kill().unwrap();
    gateway.child.wait().unwrap();
    // What was on its way, then the end.
    assert_eq!(reported.count() % 5, 0);
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "the gateway has stopped\n");
}

#[test]
fn who_is_not_there_is_reported_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere.sock");
    let nowhere = nowhere.to_str().unwrap();
    for arguments in [
        &["stats", "--control", nowhere][..],
        &["load", "--control", nowhere],
        &["load", "a.toml", "--control", nowhere],
    ] {
        let (_, stderr) = run(folder.path(), arguments, 2);
        assert!(
            stderr.contains("no gateway runs with this control socket; start one with"),
            "{stderr}"
        );
    }
    let (_, stderr) = run(folder.path(), &["stats", "no-such-gateway-as-this.toml"], 2);
    assert!(stderr.contains("no gateway `no-such-gateway-as-this` is running"), "{stderr}");
    let (_, stderr) = run(folder.path(), &["top", "--control", nowhere], 2);
    assert!(stderr.contains("this needs a terminal"), "{stderr}");
}

#[test]
fn pipes_without_their_other_ends_keep_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["in.log", "out.log"] {
        assert!(Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap().success());
    }
    let rules = "[bus]\nbefore = \"file:in.log\"\nbehind = \"file:out.log\"\n\n[[rule]]\n\
                 from = \"before\"\nto = \"behind\"\nmatch = [\"0x123\"]\n";
    fs::write(folder.path().join("drive.rules.toml"), rules).unwrap();
    let mut child = candor(folder.path())
        .args(["run", "drive.rules.toml", "--control", "./drive.sock"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reported = BufReader::new(child.stderr.take().unwrap());
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway { folder, child, reported, entry: String::new(), exit: bind() };
    gateway.wait_for("control socket");
    // Each port says so once its own thread has tried; asking again takes time enough for that.
    let mut ports = Vec::new();
    let waits = |port: &serde_json::Value| {
        let trouble = port["data"]["trouble"].as_str().unwrap_or_default();
        trouble.contains("a pipe waits for its other end")
    };
    for _ in 0..500 {
        let stats = lines(&gateway.ask(&["stats", "--json"], 0).0);
        ports = stats.into_iter().filter(|line| line["type"] == "port").collect();
        if ports.iter().all(waits) {
            break;
        }
    }
    assert!(ports.len() == 2 && ports.iter().all(waits), "{ports:?}");
    gateway.ask(&["load", "drive.rules.toml"], 0);
    let id = gateway.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_ends_with_its_recordings_whatever_other_ports_do() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let log: String = (0..5_000).map(|at| format!("({at}.0) can0 123#{at:04X}\n")).collect();
    write("drive.log", log.as_bytes());
    write("binary.log", b"\x7FELF\x02\x01\x01\0\0\0");
    let rules = |recording: &str| {
        format!(
            "[bus]\ncar = \"{recording}\"\nother = \"sim:until-end\"\n\
             copy = \"file:copy.log?replace=true\"\n\n[[rule]]\nfrom = \"car\"\nto = \"copy\"\n\n\
             [[rule]]\nfrom = \"other\"\nto = \"copy\"\n"
        )
    };
    write("drive.rules.toml", rules("file:drive.log?speed=max").as_bytes());
    write("binary.rules.toml", rules("file:binary.log").as_bytes());
    write("none.rules.toml", rules("sim:until-end-too").as_bytes());
    let arguments = |file: &'static str| ["run", file, "--until-end", "--control", "./drive.sock"];
    let (summary, _) = run(folder.path(), &arguments("drive.rules.toml"), 0);
    assert!(!summary.contains("note: "), "{summary}");
    let copy = fs::read_to_string(folder.path().join("copy.log")).unwrap();
    assert_eq!(copy.lines().count(), 5_000);
    // Rates that ran on the clock of the machine are told, and only they.
    let rated = rules("file:drive.log?speed=max").replacen(
        "to = \"copy\"",
        "to = \"copy\"\nrate = \"1/h\"",
        1,
    );
    write("rated.rules.toml", rated.as_bytes());
    let (summary, _) = run(folder.path(), &arguments("rated.rules.toml"), 0);
    assert!(summary.contains("note: car was read with speed=max, so the rates"), "{summary}");
    // A recording that is damaged is replayed as far as that goes, and that is told.
    write("damaged.log", b"(1.0) can0 123#11\nhello\n(1.1) can0 123#22\n");
    write("damaged.rules.toml", rules("file:damaged.log?speed=max").as_bytes());
    let (summary, _) = run(folder.path(), &arguments("damaged.rules.toml"), 1);
    assert!(summary.contains("1 malformed"), "{summary}");
    // What a full disk does not take is lost, and that is told, too.
    fs::remove_file(folder.path().join("copy.log")).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("copy.log")).unwrap();
    let (summary, said) = run(folder.path(), &arguments("drive.rules.toml"), 1);
    assert!(summary.contains("lost after the port took them"), "{summary}");
    assert!(said.contains("cannot be written: No space left on device"), "{said}");
    for (file, reason) in [
        ("binary.rules.toml", "binary.log: not a recording"),
        ("none.rules.toml", "no rule takes frames from a recording"),
    ] {
        let (_, said) = run(folder.path(), &arguments(file), 2);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn rules_that_are_too_large_for_the_process_leave_the_old_ones_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.rules.toml");
    let write = |rules: &str| {
        let buses = "[bus]\na = \"sim:memory-a\"\nb = \"sim:memory-b\"\n";
        fs::write(&path, format!("{buses}{rules}")).unwrap();
    };
    let rule = "\n[[rule]]\nfrom = \"a\"\nto = \"b\"\n".to_owned();
    write(&rule);
    let program = env!("CARGO_BIN_EXE_candor");
    let line = format!(
        "ulimit -v 200000; exec {program} route run drive.rules.toml --control ./drive.sock"
    );
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let reported = BufReader::new(child.stderr.take().unwrap());
    let exit = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway { folder, child, reported, entry: String::new(), exit };
    gateway.wait_for("control socket");
    // Ports take memory as well.
    let buses: String = (0..200).map(|bus| format!("b{bus} = \"sim:memory-{bus}\"\n")).collect();
    let rules = format!("[bus]\n{buses}\n[[rule]]\nfrom = \"b0\"\nto = [\"b1\"]\n");
    fs::write(gateway.folder().join("drive.rules.toml"), rules).unwrap();
    let (_, said) = gateway.ask(&["load", "drive.rules.toml"], 2);
    assert!(said.contains("it takes up to") && said.contains("ulimit -v"), "{said}");
    let stats = lines(&gateway.ask(&["stats", "--json"], 0).0);
    assert_eq!(stats.iter().filter(|line| line["type"] == "rule").count(), 1);
}

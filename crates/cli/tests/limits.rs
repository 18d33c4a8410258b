//! Limits of a process (`ulimit`). A file that reaches its size limit ends no command by a signal, and leaves nothing
//! half-written. Where no more files can be open, what is open goes on.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use candor_linux::{clock, peer};
use candor_time::{Monotonic, Nanos};

const RULES: &str = "bus.in = \"file:drive.log?loop=true&speed=max\"\nbus.out = \"file:there.log\"\n\n\
                     [[rule]]\nfrom = \"in\"\nto = \"out\"\n";

/// `candor WORDS`, whose files have at most 16 blocks of 512 bytes.
fn start(folder: &Path, words: &str, stderr: Stdio) -> Child {
    start_with(16, folder, words, Stdio::null(), stderr)
}

/// The same with another limit, in blocks.
fn start_with(blocks: u32, folder: &Path, words: &str, stdout: Stdio, stderr: Stdio) -> Child {
    let limited = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_candor")])
        .args(words.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn scene() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines = (0..2_000).map(|at| format!("({}.000000) can0 123#0102030405060708\n", 1_000 + at));
    fs::write(folder.path().join("drive.log"), lines.collect::<String>()).unwrap();
    fs::write(folder.path().join("rules.toml"), RULES).unwrap();
    folder
}

#[test]
fn what_cannot_be_written_is_an_error_with_a_remedy() {
    // Of a capture, what came up to the failure is kept, in whole records.
    for (words, is_kept) in [
        ("log convert drive.log there.pcapng", false),
        ("bus record can0=file:drive.log?speed=max --output there.log", true),
        ("bus record can0=file:drive.log?speed=max --output there.pcapng", true),
        ("bus record can0=file:drive.log?speed=max --id 0x123 --output there.log", true),
        // Less than is written at once.
        ("bus record can0=file:drive.log?speed=max --count 500 --output there.log", true),
        ("bus dump can0=file:drive.log?speed=max --log there.log", true),
        ("bus dump can0=file:drive.log?speed=max --count 500 --log there.log", true),
    ] {
        let scene = scene();
        let said = File::create(scene.path().join("says")).unwrap();
        let status: ExitStatus = start(scene.path(), words, said.into()).wait().unwrap();
        let says = fs::read_to_string(scene.path().join("says")).unwrap();
        assert_eq!((status.signal(), status.code()), (None, Some(2)), "{words}: {says}");
        assert!(says.contains("there.") && says.contains("File too large"), "{words}: {says}");
        assert!(says.contains("raise the limit of file sizes (`ulimit -f`"), "{words}: {says}");
        let names = names(scene.path());
        assert_eq!(names.len(), 3 + usize::from(is_kept), "{words}: {names:?}");
        assert_eq!(&names[..3], ["drive.log", "rules.toml", "says"], "{words}");
        let Some(name) = names.get(3) else { continue };
        let info = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["log", "info", name])
            .current_dir(scene.path())
            .output()
            .unwrap();
        let [info, trouble] =
            [info.stdout, info.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(!trouble.contains("the file ends inside"), "{words}: {trouble}");
        let number = |text: &str| {
            let digits = text.trim_start().chars().take_while(char::is_ascii_digit);
            digits.collect::<String>().parse::<u64>().unwrap()
        };
        let frames = number(info.split_once("\nframes").unwrap().1);
        assert!(frames > 100, "{words}: {info}");
        if let Some((_, said)) =
            says.split_once(&format!("{name}: ")).filter(|_| words.contains("record"))
        {
            assert_eq!(number(said), frames, "{words}: {says}");
            // What came and is not in the file is lost.
            let (_, port) = says.split_once("can0: ").unwrap();
            let lost = number(port.split_once(',').unwrap().1);
            let came = if words.contains("--count 500") { 500 } else { number(port) };
            assert_eq!(came, frames + lost, "{words}: {says}");
        }
    }
}

#[test]
fn every_command_names_the_limit_that_stops_it() {
    const EXPERIMENT: &str = "title = \"Two buses\"\ncount = 100\nper_frame = true\n\n\
                              [bus.in]\nbitrate = \"1M\"\n\n[bus.out]\nbitrate = \"500k\"\n\n\
                              [gateway]\ndelay = \"35us\"\n\n[traffic]\nkind = \"flood\"\n\n\
                              [[experiment]]\nname = \"calm\"\n";
    let of_vehicles = [
        "route compile rules.toml --output there.image",
        "route convert rules.toml there.toml",
        "route convert rules.toml --to toml",
        "man --out pages",
        "log decode drive.log --dbc small.dbc",
        "bus dump can0=file:drive.log?speed=max",
    ];
    let of_the_laboratory = ["demo --out made", "lab run two.toml --out made"];
    let lab: &[&str] = if cfg!(feature = "lab") { &of_the_laboratory } else { &[] };
    for words in of_vehicles.iter().chain(lab) {
        let scene = scene();
        let rule = "\n[[rule]]\nfrom = \"in\"\nto = \"out\"\n";
        fs::write(scene.path().join("rules.toml"), RULES.to_owned() + &rule.repeat(40)).unwrap();
        fs::write(scene.path().join("two.toml"), EXPERIMENT).unwrap();
        let dbc = "BU_: A\n\nBO_ 291 M: 8 A\n SG_ S : 0|8@1+ (1,0) [0|255] \"\" A\n";
        fs::write(scene.path().join("small.dbc"), dbc).unwrap();
        let stdout = File::create(scene.path().join("stdout")).unwrap();
        let output = start_with(1, scene.path(), words, stdout.into(), Stdio::piped());
        let output = output.wait_with_output().unwrap();
        let says = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {says}");
        let expected = "cannot be written: File too large (os error 27); raise the limit of file \
                        sizes (`ulimit -f`";
        assert!(says.contains(expected), "{words}: {says}");
    }
}

#[test]
fn what_is_sent_into_a_recording_is_in_it_or_told() {
    const TIMEOUT: Nanos = Nanos::from_secs(300);
    for (words, frames, cause) in [
        ("bus generate file:there.log --count 5000 --flood", Some(5_000), "File too large"),
        ("bus generate file:there.log --count 5000 --rate 20k/s", Some(5_000), "File too large"),
        (
            "bus send file:there.log --count 2000 123#1122334455667788",
            Some(2_000),
            "File too large",
        ),
        // No patience for what does not pass.
        (
            "bus send file:there.log --wait 1h --gap 2ms --count 2000 001#11",
            Some(2_000),
            "File too",
        ),
        ("bus replay drive.log file:there.pcapng --speed max --loop 20", None, "File too large"),
        ("bus send file:full.log --count 2000 --gap 1h 123#", Some(2_000), "No space left"),
    ] {
        let scene = scene();
        std::os::unix::fs::symlink("/dev/full", scene.path().join("full.log")).unwrap();
        let begin = clock::now::<Monotonic>();
        let output = start(scene.path(), words, Stdio::piped()).wait_with_output().unwrap();
        let took = clock::now::<Monotonic>() - begin;
        let says = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {says}");
        assert!(took < TIMEOUT, "{words}: {took}");
        assert!(says.contains(&format!("cannot be written: {cause}")), "{words}: {says}");
        let remedy = if cause.starts_with("File") { "ulimit -f" } else { "free space" };
        assert!(says.contains(remedy) && !says.contains("ip link"), "{words}: {says}");
        let line = says.lines().find(|line| line.contains(" sent, ")).expect("figures");
        let number = |what: &str| {
            let before = line.split(what).next().filter(|before| before.len() < line.len());
            before.and_then(|before| before.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let (sent, refused, lost) = (number(" sent"), number(" refused"), number(" lost"));
        let path = words.split(' ').find_map(|word| word.strip_prefix("file:")).unwrap();
        let written = match path {
            "full.log" => 0,
            path => {
                let recording = candor_recording::open(&scene.path().join(path), None).unwrap();
                recording.map(Result::unwrap).count() as u64
            }
        };
        assert_eq!(sent, written, "{words}: {says}");
        match frames {
            Some(frames) => assert_eq!(sent + refused + lost, frames, "{words}: {says}"),
            None => assert!(says.contains("not read any further"), "{words}: {says}"),
        }
    }
}

/// As systemd's watchdog does to one that hangs: a signal that is swallowed would cost the vehicle its gateway for 90 s more.
#[test]
fn an_abort_from_outside_ends_a_gateway_at_once() {
    let scene = scene();
    let mut gateway = start(scene.path(), "route run rules.toml", Stdio::piped());
    let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("started")).expect("it says so");
    let abort = Command::new("kill").args(["-ABRT", &gateway.id().to_string()]).status().unwrap();
    assert!(abort.success());
    // One that lives on ends by another signal.
    let last = ["-c", "sleep 20; kill -KILL $0", &gateway.id().to_string()];
    let mut guard = Command::new("sh").args(last).spawn().unwrap();
    let status = gateway.wait().unwrap();
    guard.kill().unwrap();
    guard.wait().unwrap();
    assert_eq!(status.signal(), Some(6));
}

#[test]
fn a_gateway_lives_on_and_says_so() {
    let scene = scene();
    let mut gateway = start(scene.path(), "route run rules.toml", Stdio::piped());
    let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("File too large")).expect("it says so");
    assert!(line.contains("there.log: cannot be written: "), "{line}");
    assert!(gateway.try_wait().unwrap().is_none(), "it has ended");
    let terminate = Command::new("kill").arg(gateway.id().to_string()).status().unwrap();
    assert!(terminate.success());
    let status = gateway.wait().unwrap();
    assert_eq!(status.signal(), None, "{status}");
    // Of what was written, all is whole.
    let written = fs::read_to_string(scene.path().join("there.log")).unwrap();
    assert!(written.len() <= 16 * 512 && written.ends_with('\n'), "{}", written.len());
}

#[test]
fn a_bus_without_descriptors_does_not_spin_and_leaves_out_who_says_nothing() {
    let bus = format!("limits-{}", std::process::id());
    let mut dump = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 24; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_candor"),
            "bus",
            "dump",
        ])
        .arg(format!("sim:{bus}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let name = format!("candor.sim.{}.{bus}", peer::own_user());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let mut lines = BufReader::new(dump.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Its bus ends with its last connection: this one stays until it has joined.
    let first = loop {
        match UnixStream::connect_addr(&address) {
            Ok(stream) => break stream,
            Err(_) => assert!(dump.try_wait().unwrap().is_none(), "it has ended"),
        }
    };
    // Until it receives, some are lost.
    let mut sender = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["bus", "send", &format!("sim:{bus}"), "122#00", "--count", "6000", "--gap", "10ms"])
        .spawn()
        .unwrap();
    assert!(lines.any(|line| line.contains("122")));
    sender.kill().unwrap();
    sender.wait().unwrap();
    drop(first);
    let mut mute: Vec<_> = (0..41).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    let used = || clock::cpu_time_of(dump.id()).unwrap().as_nanos();
    let before = used();
    clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(500)).unwrap();
    let used = used() - before;
    assert!(used < 100_000_000, "{used} ns of 500 ms");
    // Those that still wait to be taken go.
    mute.truncate(1);
    mute[0].set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    assert_eq!(mute[0].read(&mut [0]).unwrap(), 0, "it is disconnected");
    let sent = Command::new(env!("CARGO_BIN_EXE_candor"))
        .args(["bus", "send", &format!("sim:{bus}"), "123#AA"])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(lines.any(|line| line.contains("123") && line.contains("AA")));
    dump.kill().unwrap();
    dump.wait().unwrap();
}

/// `candor WORDS` with so many kilobytes of addresses.
fn limited(folder: &Path, limit_kb: usize, words: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -v {limit_kb}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_candor"))
        .args(words.split(' '))
        .current_dir(folder);
    command
}

fn many_rules(count: usize, steps: usize) -> String {
    let edit = match steps {
        0 => String::new(),
        _ => format!("edit = [{}]\n", "{ xor = { data = \"FF\" } }, ".repeat(steps)),
    };
    (0..count)
        .map(|rule| {
            format!("[[rule]]\nfrom = \"a\"\nto = \"b\"\nmatch = [\"0x{rule:08X}x\"]\n{edit}")
        })
        .collect()
}

#[test]
fn a_gateway_survives_rules_that_its_memory_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.toml");
    for (rules, limits) in [
        (many_rules(4_000, 0), (60_000..=150_000).step_by(15_000)),
        (many_rules(500, 20), (60_000..=150_000).step_by(15_000)),
    ] {
        let mut outcomes = Vec::new();
        for limit_kb in limits {
            let bus = format!("limits-{}-{limit_kb}", std::process::id());
            let buses = format!("[bus]\na = \"sim:{bus}-a\"\nb = \"sim:{bus}-b\"\n");
            fs::write(&path, format!("{buses}[[rule]]\nfrom = \"a\"\nto = \"b\"\n")).unwrap();
            let mut gateway = limited(folder.path(), limit_kb, "route run many.toml --control ./s")
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines =
                BufReader::new(gateway.stderr.take().unwrap()).lines().map(Result::unwrap);
            if !lines.any(|line| line.contains("control socket")) {
                let status = gateway.wait().unwrap();
                assert_eq!((status.signal(), status.code()), (None, Some(2)), "{limit_kb} kB");
                continue;
            }
            // Two changes, one by the file that was written and one that is asked for.
            fs::write(&path, buses + &rules).unwrap();
            let load = Command::new(env!("CARGO_BIN_EXE_candor"))
                .args(["route", "load", "many.toml", "--control", "./s"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&load.stderr);
            let is_loaded = load.status.success();
            assert!(is_loaded || said.contains("raise"), "{limit_kb} kB: {said}");
            assert!(gateway.try_wait().unwrap().is_none(), "{limit_kb} kB: it has ended");
            outcomes.push(is_loaded);
            gateway.kill().unwrap();
            gateway.wait().unwrap();
        }
        assert!(outcomes.contains(&false) && outcomes.contains(&true), "{outcomes:?}");
    }
}

#[test]
fn a_service_survives_a_file_that_its_memory_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    let mut dbc = "BU_: A\n".to_owned();
    for message in 0..400 {
        dbc += &format!("\nBO_ {message} Message{message}: 8 A\n");
        for signal in 0..64 {
            dbc += &format!(" SG_ Signal{signal} : {signal}|1@1+ (1,0) [0|0] \"\" A\n");
        }
    }
    fs::write(folder.path().join("large.dbc"), dbc).unwrap();
    let mut outcomes = Vec::new();
    for limit_kb in (60_000..=160_000).step_by(20_000) {
        let bus = format!("sim:limits-s-{}-{limit_kb}", std::process::id());
        let listen = "listen = \"unix:s\"\n";
        fs::write(&path, format!("{listen}[bus]\ncar = \"{bus}\"\n")).unwrap();
        let mut service = limited(folder.path(), limit_kb, "signals serve s.toml")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = RefCell::default();
        let lines = BufReader::new(service.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap).inspect(|line: &String| {
            let heard: &RefCell<Vec<String>> = &heard;
            heard.borrow_mut().push(line.clone());
        });
        assert!(lines.any(|line| line.contains("serving")), "{limit_kb} kB");
        let large = format!("{listen}[bus.car]\nport = \"{bus}\"\ndbc = \"large.dbc\"\n");
        fs::write(&path, large).unwrap();
        let said = lines.find(|line| line.contains("changed: ") || line.contains("stay in use"));
        let said = said.unwrap_or_else(|| {
            panic!("{limit_kb} kB: it has ended: {:?}, {heard:#?}", service.wait())
        });
        let is_changed = said.contains("changed: ");
        assert!(is_changed || said.contains("raise"), "{limit_kb} kB: {said}");
        assert!(service.try_wait().unwrap().is_none(), "{limit_kb} kB: it has ended");
        outcomes.push(is_changed);
        service.kill().unwrap();
        service.wait().unwrap();
    }
    assert!(outcomes.contains(&false) && outcomes.contains(&true), "{outcomes:?}");
}

#[test]
fn a_command_that_gets_no_memory_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let buses = "[bus]\na = \"sim:a\"\nb = \"sim:b\"\n";
    fs::write(folder.path().join("many.toml"), buses.to_owned() + &many_rules(1_000, 20)).unwrap();
    let mut codes = Vec::new();
    for limit_kb in (40_000..=240_000).step_by(20_000) {
        // Less than the program itself is the kernel's affair.
        if !limited(folder.path(), limit_kb, "--version").output().unwrap().status.success() {
            continue;
        }
        let check = limited(folder.path(), limit_kb, "route check many.toml").output().unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert_eq!(check.status.signal(), None, "{limit_kb} kB: {said}");
        if check.status.code() != Some(0) {
            assert!(said.contains("raise its limit (`ulimit -v`)"), "{limit_kb} kB: {said}");
        }
        codes.push(check.status.code().unwrap());
    }
    assert!(codes.contains(&0) && codes.contains(&2), "{codes:?}");
}

/// Clients of the metrics that ask nothing hold all descriptors that there are.
#[test]
fn a_gateway_without_descriptors_tells_how_it_is() {
    let scene = scene();
    // A recording that begins again needs a descriptor, and says so.
    let rules = RULES.replace("file:drive.log?loop=true&speed=max", "can2udp:127.0.0.1:0");
    fs::write(scene.path().join("rules.toml"), rules).unwrap();
    let limited = "ulimit -n 40; exec \"$0\" \"$@\"";
    let mut gateway = Killed(
        Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_candor"), "route", "run", "rules.toml"])
            .args(["--control", "./there.sock", "--metrics", "127.0.0.1:0"])
            .current_dir(scene.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(gateway.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = said.find_map(|line| {
        let rest = line.split_once("metrics at http://")?.1;
        rest.strip_suffix("/metrics").map(str::to_owned)
    });
    let address = address.unwrap();
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..5 {
        let stats = Command::new(env!("CARGO_BIN_EXE_candor"))
            .args(["route", "stats", "--control", "./there.sock", "--check"])
            .current_dir(scene.path())
            .output()
            .unwrap();
        let told = String::from_utf8([stats.stdout, stats.stderr].concat()).unwrap();
        assert_eq!((stats.status.code(), told.as_str()), (Some(0), "ok\n"));
    }
    drop(idle);
}

/// A process that ends with the test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

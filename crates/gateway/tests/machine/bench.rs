//! What the checks work with: processes of `candor`, interfaces, frames with numbers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use candor_gateway::Snapshot;
use candor_gateway::control::{Answer, Client, ClientError, Loaded, PlanLine, Request};
use candor_linux::can::{Inbox, Socket};
use candor_linux::clock;
use candor_linux::namespace::Namespace;
use candor_linux::netlink::{CanSettings, Netlink};
use candor_linux::poll::{self, Interest};
use candor_linux::realtime::{self, Policy, Task};
use candor_port::{Sent, Transmitter, Wanted};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::{Frame, StandardId};

/// How long anything may take.
const MOST: Nanos = Nanos::from_secs(20);
const STEP: Nanos = Nanos::from_millis(1);

/// The test bed: the tester sends on the first interface and sees the source bus on the second; the
/// gateway has the third and fourth; what it sends comes to the fifth.
pub(crate) const SENDS_ON: &str = "can0";
pub(crate) const MONITOR: &str = "can1";
pub(crate) const SOURCE: &str = "can2";
pub(crate) const TARGET: &str = "can3";
pub(crate) const RECEIVES_ON: &str = "can4";
/// The two ends of a virtual cable that carries CAN FD: Debian's kernels have no driver for a
/// controller for CAN FD that QEMU has.
pub(crate) const FD_TARGET: &str = "fd0";
pub(crate) const FD_RECEIVES_ON: &str = "fd1";

/// The priorities of who receives, and of the gateway: whoever sends more than is received has to wait,
/// and where interrupts are threads (of priority 50) they come first.
const CAPTURE_PRIORITY: u8 = 30;
const HEARING_PRIORITY: u8 = 60;
pub(crate) const GATEWAY_PRIORITY: &str = "40";

// ---- Arguments and time ---------------------------------------------------------------------------

/// What the argument `--NAME=VALUE` says.
pub(crate) fn argument(name: &str) -> Option<PathBuf> {
    let reported = format!("--{name}=");
    std::env::args().find_map(|argument| argument.strip_prefix(&reported).map(PathBuf::from))
}

fn needed(name: &str) -> PathBuf {
    argument(name).unwrap_or_else(|| panic!("--{name}=FILE is missing"))
}

pub(crate) fn now() -> Instant<Monotonic> {
    clock::now()
}

pub(crate) fn pause(time: Nanos) {
    clock::sleep_until(now() + time).unwrap();
}

/// Looks again and again until it is so; `reported` says how it is meanwhile.
pub(crate) fn until(mut is_so: impl FnMut() -> bool, reported: impl FnOnce() -> String) {
    let end = now() + MOST;
    while !is_so() {
        if now() >= end {
            panic!("not within {MOST}: {}", reported());
        }
        pause(STEP);
    }
}

/// A folder for the files of a check, empty.
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join("check");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

// ---- Interfaces -----------------------------------------------------------------------------------

/// The test bed with two buses of 1 Mbit/s. Its controllers are started once: QEMU's SJA1000 does not
/// reset where it writes received frames, only where it reads them, so that after another start it
/// tells old frames anew.
pub(crate) fn start_bed(queue: u32) -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    let settings = CanSettings { bitrate: 1_000_000, ..CanSettings::default() };
    for name in [SENDS_ON, MONITOR, SOURCE, TARGET, RECEIVES_ON] {
        start(&mut netlink, name, &settings, queue);
    }
    // The emulated bus takes no time. Where interrupts are threads, one that sends all that waits
    // would send more than the controllers that receive it have room for, if they did not come first.
    let is_receiver = |name: &str| {
        let interrupt = name.strip_prefix("irq/").and_then(|name| name.split_once('-'));
        interrupt.is_some_and(|(_, interface)| [MONITOR, SOURCE, RECEIVES_ON].contains(&interface))
    };
    for task in realtime::tasks(is_receiver).unwrap() {
        realtime::set_policy(Task::Id(task.id), Policy::Fifo(HEARING_PRIORITY)).unwrap();
    }
    netlink
}

fn start(netlink: &mut Netlink, name: &str, settings: &CanSettings, queue: u32) {
    netlink.set_can(name, settings).unwrap_or_else(|error| panic!("{error}"));
    netlink.set_queue_length(name, queue).unwrap();
    netlink.set_up(name, true).unwrap();
}

/// A network namespace of its own with these virtual buses, of CAN FD.
pub(crate) fn virtual_buses(names: &[&str]) -> Netlink {
    Namespace::unshare().unwrap();
    let mut netlink = Netlink::open().unwrap();
    names.iter().for_each(|name| create_vcan(&mut netlink, name));
    netlink
}

pub(crate) fn create_vcan(netlink: &mut Netlink, name: &str) {
    netlink.create_vcan(name).unwrap();
    netlink.set_mtu(name, 72).unwrap();
    netlink.set_up(name, true).unwrap();
}

/// Whether somebody has a CAN socket on this interface that receives.
fn is_listened_to(interface: &str) -> bool {
    let Ok(lists) = fs::read_dir("/proc/net/can") else { return false };
    lists.flatten().any(|list| {
        let text = fs::read_to_string(list.path()).unwrap_or_default();
        // " can1  00000000  00000000 ..."
        text.lines().any(|line| line.split_whitespace().next() == Some(interface))
    })
}

/// A controller that is set to raise no interrupts: the frame that it has is its last one until
/// this is dropped. For its driver that looks like a bus that is busy with more urgent frames.
pub(crate) struct Stopped {
    configuration: PathBuf,
}

impl Stopped {
    /// In the PCI configuration of the card: where the command register is, and the bit of it that
    /// keeps interrupts back.
    const COMMAND: u64 = 4;
    const NO_INTERRUPTS: u16 = 1 << 10;

    pub(crate) fn new(interface: &str) -> Self {
        let path = format!("/sys/class/net/{interface}/device/config");
        let stopped = Self { configuration: fs::canonicalize(path).unwrap() };
        stopped.set(true);
        stopped
    }

    fn set(&self, is_stopped: bool) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().read(true).write(true).open(&self.configuration).unwrap();
        let mut command = [0; 2];
        file.read_exact_at(&mut command, Self::COMMAND).unwrap();
        let command = u16::from_le_bytes(command);
        let command = match is_stopped {
            true => command | Self::NO_INTERRUPTS,
            false => command & !Self::NO_INTERRUPTS,
        };
        file.write_all_at(&command.to_le_bytes(), Self::COMMAND).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.set(false);
    }
}

// ---- Processes ------------------------------------------------------------------------------------

/// A process that ends with the check, at the latest.
pub(crate) struct Process {
    child: Child,
    name: String,
    output: PathBuf,
    errors: PathBuf,
}

/// What a process printed until it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Process {
    /// Starts a program; its output goes to files called after `name`.
    pub(crate) fn start(program: &Path, name: &str, arguments: &[&str]) -> Self {
        let folder = std::env::temp_dir();
        let [output, errors] = ["out", "err"].map(|end| folder.join(format!("{name}.{end}")));
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self { child, name: name.to_owned(), output, errors }
    }

    /// Starts `candor`.
    pub(crate) fn candor(name: &str, arguments: &[&str]) -> Self {
        Self::start(&needed("candor"), name, arguments)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `HUP`.
    pub(crate) fn signal(&self, signal: &str) {
        let script = format!("kill -{signal} {}", self.id());
        let status = Command::new(needed("shell")).args(["-c", &script]).status().unwrap();
        assert!(status.success(), "{script}: {status}");
    }

    /// Stops it as Ctrl-Z does. Each of its threads has stopped when this returns: after the signal, a
    /// thread may go on until the scheduler comes to it.
    pub(crate) fn suspend(&self) {
        self.signal("STOP");
        let end = now() + MOST;
        let is_stopped = |thread: &realtime::Named| {
            let status = fs::read_to_string(format!("/proc/{}/stat", thread.id)).unwrap();
            // The state follows the name, which is in parentheses.
            status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        while !realtime::threads_of(self.id()).unwrap().iter().all(is_stopped) {
            assert!(now() < end, "{} does not stop", self.name);
            pause(STEP);
        }
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }

    /// What it said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) -> Ended {
        let end = now() + MOST;
        while !self.has_ended() {
            assert!(now() < end, "{} does not end: {}", self.name, self.said());
            pause(STEP);
        }
        let status = self.child.wait().unwrap().code();
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        Ended { status, output: text(&self.output), errors: text(&self.errors) }
    }

    /// Tells it to end, and waits for that.
    pub(crate) fn end(self) -> Ended {
        self.signal("TERM");
        let name = self.name.clone();
        let ended = self.wait();
        assert_eq!(ended.status, Some(0), "{name}: {ended:?}");
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended() {
            println!("{}: {}", self.name, self.said());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs `candor` to its end.
pub(crate) fn candor(arguments: &[&str]) -> Ended {
    Process::candor("candor", arguments).wait()
}

/// Sets the clock of the machine to so many seconds after what it says.
pub(crate) fn step_clock(seconds: i64) {
    let now = clock::now::<candor_time::Realtime>().as_nanos() / 1_000_000_000;
    let target = now.checked_add_signed(seconds).unwrap();
    let output = Command::new(needed("date")).args(["-s", &format!("@{target}")]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

// ---- Recording ------------------------------------------------------------------------------------

/// A `candor bus record`.
pub(crate) struct Recorder {
    process: Process,
    file: PathBuf,
}

impl Recorder {
    /// Returns once it listens.
    pub(crate) fn start(interface: &str, file: PathBuf) -> Self {
        let port = format!("{interface}?buffer=16000000");
        let path = file.display().to_string();
        let name = format!("record-{interface}");
        let arguments = ["bus", "record", &port, "--output", &path, "--force", "--nanoseconds"];
        let mut process = Process::candor(&name, &arguments);
        let mut has_ended = false;
        until(
            || {
                has_ended = process.has_ended();
                has_ended || is_listened_to(interface)
            },
            || format!("{name} does not listen"),
        );
        assert!(!has_ended, "{name}: {}", process.said());
        Self { process, file }
    }

    /// Times in nanoseconds and frames.
    pub(crate) fn end(self) -> Vec<(u64, Frame)> {
        self.process.end();
        records(&fs::read_to_string(&self.file).unwrap())
    }
}

/// Times and frames of a log of candump.
pub(crate) fn records(log: &str) -> Vec<(u64, Frame)> {
    let record = |line: &str| {
        let mut words = line.split_whitespace();
        let (Some(time), Some(_), Some(frame)) = (words.next(), words.next(), words.next()) else {
            panic!("{line}")
        };
        let time: Nanos = format!("{}s", time.trim_matches(['(', ')'])).parse().unwrap();
        (time.as_nanos(), frame.parse().unwrap())
    };
    log.lines().map(record).collect()
}

// ---- The gateway ----------------------------------------------------------------------------------

/// A `candor route run`.
pub(crate) struct Gateway {
    process: Process,
    pub(crate) rules: PathBuf,
    /// Its control socket.
    pub(crate) control: PathBuf,
    client: Client,
}

impl Gateway {
    /// Runs rules that are written to a file of their own.
    pub(crate) fn start(rules: &str, arguments: &[&str]) -> Self {
        let path = folder().join("check.rules.toml");
        fs::write(&path, rules).unwrap();
        Self::run(path, arguments)
    }

    /// Runs a rule file.
    pub(crate) fn run(rules: PathBuf, arguments: &[&str]) -> Self {
        let control = rules.with_file_name("gateway.sock");
        let [file, socket] = [&rules, &control].map(|path| path.display().to_string());
        let common = ["route", "run", &file, "--control", &socket, "--rt", GATEWAY_PRIORITY];
        let mut process = Process::candor("gateway", &[&common[..], arguments].concat());
        let mut client = None;
        until(
            || {
                client = match Client::connect(&control) {
                    Ok(client) => Some(client),
                    Err(ClientError::NotRunning(_)) => None,
                    Err(error) => panic!("{error}"),
                };
                client.is_some() || process.has_ended()
            },
            || "the gateway does not come up".into(),
        );
        let client = client.unwrap_or_else(|| panic!("{}", process.said()));
        Self { process, rules, control, client }
    }

    fn ask(&mut self, request: &Request) -> Answer {
        self.client
            .request(request)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.process.said()))
    }

    pub(crate) fn stats(&mut self) -> Snapshot {
        match self.ask(&Request::Stats) {
            Answer::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn plan(&mut self) -> Vec<PlanLine> {
        match self.ask(&Request::Plan) {
            Answer::Plan { lines } => lines,
            other => panic!("{other:?}"),
        }
    }

    /// Has it take the rules of a file, or of its own file once more.
    pub(crate) fn load(&mut self, file: Option<&Path>) -> Loaded {
        match self.ask(&Request::Load { file: file.map(Path::to_owned) }) {
            Answer::Loaded(loaded) => loaded,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn once(&mut self, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let end = now() + MOST;
        loop {
            let snapshot = self.stats();
            if is_so(&snapshot) {
                return snapshot;
            }
            assert!(now() < end, "not so: {what}: {snapshot:#?}\n{}", self.process.said());
            pause(STEP);
        }
    }

    /// What it tells once a bus has received so many frames and none of them waits any more.
    pub(crate) fn settled(&mut self, bus: &str, received: u64) -> Snapshot {
        let what = format!("{received} frames of {bus} settled");
        self.once(&what, |snapshot| {
            port(snapshot, bus).received >= received
                && snapshot.rules.iter().all(|rule| rule.pending == 0)
        })
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Ends it; returns what it said.
    pub(crate) fn end(self) -> String {
        let Self { process, client, .. } = self;
        drop(client);
        process.end().errors
    }
}

pub(crate) fn port<'a>(
    snapshot: &'a Snapshot,
    bus: &str,
) -> &'a candor_gateway::snapshot::PortSnapshot {
    snapshot.ports.iter().find(|port| port.bus == bus).unwrap_or_else(|| panic!("{snapshot:#?}"))
}

pub(crate) fn rule<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> &'a candor_gateway::snapshot::RuleSnapshot {
    snapshot.rules.iter().find(|rule| rule.rule == name).unwrap_or_else(|| panic!("{snapshot:#?}"))
}

pub(crate) fn refused(snapshot: &Snapshot, name: &str, cause: &str) -> u64 {
    rule(snapshot, name).stopped.get(cause).copied().unwrap_or(0)
}

/// Where no frame is taken by two rules or sent to two buses: each one that came is handled, refused,
/// lost or not routed; none waits, none was lost before.
pub(crate) fn assert_balanced(snapshot: &Snapshot, bus: &str, sent: u64) {
    let port = port(snapshot, bus);
    assert_eq!(port.received + port.overflow_frames, sent, "{snapshot:#?}");
    let copies: u64 = snapshot
        .rules
        .iter()
        .filter(|rule| rule.from == bus)
        .map(|rule| {
            assert_eq!(rule.pending, 0, "{rule:?}");
            assert_eq!(rule.copies(), rule.handled + rule.refused() + rule.lost(), "{rule:?}");
            rule.copies()
        })
        .sum();
    let not_taken = port.not_routed() + port.refused();
    assert_eq!(copies + not_taken, port.received, "{snapshot:#?}");
}

// ---- Frames ---------------------------------------------------------------------------------------

pub(crate) fn frame(text: &str) -> Frame {
    text.parse().unwrap()
}

/// A frame that carries its number.
pub(crate) fn numbered(id: u16, number: u64) -> Frame {
    Frame::new(StandardId::new(id).unwrap(), &number.to_be_bytes()).unwrap()
}

pub(crate) fn number_of(frame: &Frame) -> u64 {
    u64::from_be_bytes(frame.data().try_into().unwrap())
}

pub(crate) fn texts(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(Frame::to_string).collect()
}

/// Sends on an interface.
pub(crate) struct Sender(Box<dyn Transmitter>);

impl Sender {
    pub(crate) fn new(interface: &str) -> Self {
        let port = candor_drivers::open(&interface.parse().unwrap(), Wanted::TRANSMITTER);
        Self(port.unwrap_or_else(|error| panic!("{error}")).transmitter.unwrap())
    }

    /// Sends a frame as soon as there is room; other programs of this machine receive it too.
    pub(crate) fn send(&mut self, frame: &Frame) {
        loop {
            match self.0.transmit(frame, true) {
                Sent::Taken => return,
                Sent::Full => self.0.wait(STEP),
                other => panic!("{frame}: {other:?}"),
            }
        }
    }

    /// What becomes of a frame.
    pub(crate) fn try_to_send(&mut self, frame: &Frame) -> Sent {
        self.0.transmit(frame, true)
    }
}

/// Receives everything on an interface, in a thread that comes before whoever sends.
pub(crate) struct Capture {
    received: Arc<Mutex<Vec<Frame>>>,
    count: Arc<AtomicU64>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    pub(crate) fn new(interface: &str) -> Self {
        let socket = Socket::open(interface).unwrap();
        socket.accept_fd().unwrap();
        socket.set_blocking(false).unwrap();
        socket.set_receive_buffer(16_000_000).unwrap();
        socket.count_overflow().unwrap();
        let (received, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let is_ending = Arc::new(AtomicBool::new(false));
        let thread = {
            let (received, count) = (Arc::clone(&received), Arc::clone(&count));
            let is_ending = Arc::clone(&is_ending);
            thread::spawn(move || {
                realtime::set_policy(Task::This, Policy::Fifo(CAPTURE_PRIORITY)).unwrap();
                let mut inbox = Inbox::new(1);
                while !is_ending.load(Ordering::Relaxed) {
                    // An interface that is down or away is silent.
                    if !poll::wait(&socket, Interest::Read, Some(Nanos::from_millis(10))).unwrap() {
                        continue;
                    }
                    let _ = socket.receive_batch(&mut inbox, false);
                    let Some(packet) = inbox.received(0) else { continue };
                    assert_eq!(packet.overflow, 0, "the check is too slow");
                    received.lock().unwrap().push(packet.frame.frame().unwrap());
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Self { received, count, is_ending, thread: Some(thread) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What was received, once there are so many frames.
    pub(crate) fn once(&self, count: u64) -> Vec<Frame> {
        let reported = || format!("{} frames of {count} came", self.count());
        until(|| self.count() >= count, reported);
        self.received.lock().unwrap().clone()
    }

    /// The same, and that no more come within a while.
    pub(crate) fn exactly(&self, count: u64) -> Vec<Frame> {
        self.once(count);
        pause(Nanos::from_millis(20));
        let received = self.received.lock().unwrap().clone();
        assert_eq!(received.len() as u64, count, "{:?}", received.last());
        received
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(thread::panicking() || outcome.is_ok(), "receiving failed");
        }
    }
}

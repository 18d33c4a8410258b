//! The control socket over real Unix sockets, with a gateway that is made up.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LockResult, Mutex, MutexGuard};
use std::time::Duration;

use candor_gateway::Snapshot;
use candor_gateway::control::{
    Access, Answer, Client, ClientError, Handler, Limits, Loaded, PlanLine, Reason, Rejected,
    Request, Server, SocketWatch,
};
use candor_gateway::snapshot::{PortSnapshot, RuleSnapshot};
use candor_linux::clock;
use candor_time::{Monotonic, Nanos};
use tempfile::TempDir;

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway that counts how often it was asked.
#[derive(Default)]
struct Fake(Mutex<State>);

#[derive(Default)]
struct State {
    snapshots: u64,
    loads: Vec<Option<PathBuf>>,
    rules: usize,
    is_stopped: bool,
}

impl Fake {
    fn lock(&self) -> LockResult<MutexGuard<'_, State>> {
        self.0.lock()
    }
}

impl Handler for Fake {
    fn file(&self) -> String {
        "/etc/candor/drive.rules.toml".into()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.lock().unwrap();
        state.snapshots += 1;
        let port =
            PortSnapshot { bus: "powertrain".into(), port: "can0".into(), ..Default::default() };
        let rule = |number| RuleSnapshot { rule: format!("rule {number}"), ..Default::default() };
        Snapshot {
            file: "/etc/candor/night.rules.toml".into(),
            pid: std::process::id(),
            uptime_ns: state.snapshots,
            generation: state.loads.len() as u64,
            ports: vec![port],
            rules: (0..state.rules).map(rule).collect(),
            ..Snapshot::default()
        }
    }

    fn load(&self, file: Option<&Path>) -> Result<Loaded, Rejected> {
        if file.is_some_and(|file| file.ends_with("panic.toml")) {
            panic!("on purpose");
        }
        if file.is_some_and(|file| file.ends_with("bad.toml")) {
            return Err(Rejected { message: "bad.toml is not used".into(), findings: Vec::new() });
        }
        let mut state = self.lock().unwrap();
        state.loads.push(file.map(Path::to_owned));
        Ok(Loaded { generation: state.loads.len() as u64, rules: 3, took_us: 1 })
    }

    fn plan(&self) -> Vec<PlanLine> {
        vec![PlanLine { rule: "speed".into(), plane: "user".into(), ..PlanLine::default() }]
    }

    fn stop(&self) {
        self.lock().unwrap().is_stopped = true;
    }
}

struct Scene {
    folder: TempDir,
    path: PathBuf,
    handler: Arc<Fake>,
    server: Server,
    socket: SocketWatch,
}

fn scene(limits: Limits) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("candor").join("drive.sock");
    let handler = Arc::new(Fake(Mutex::new(State { rules: 2, ..State::default() })));
    let listening = Server::bind(&path, Access::Owner).unwrap();
    let socket = listening.watch();
    let server = listening.serve(Arc::clone(&handler), limits, std::future::ready(())).unwrap();
    Scene { folder, path, handler, server, socket }
}

/// A client that speaks without the library.
struct Plain {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Plain {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next line; `None` if the server ended the connection.
    fn receive(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).unwrap();
        (count > 0).then_some(line)
    }

    #[track_caller]
    fn ask(&mut self, request: &str, expected: &str) {
        self.send(request);
        let answer = self.receive().unwrap();
        assert!(answer.contains(expected), "{request}: {answer}");
    }
}

#[test]
fn every_command_is_answered() {
    let scene = scene(Limits::default());
    let mut client = Client::connect(&scene.path).unwrap();
    assert_eq!(client.version().file, "/etc/candor/drive.rules.toml");
    assert_eq!(client.version().pid, std::process::id());
    let Answer::Snapshot(snapshot) = client.request(&Request::Stats).unwrap() else { panic!() };
    assert_eq!((snapshot.ports.len(), snapshot.rules.len()), (1, 2));
    let file = Some(PathBuf::from("/a/b.toml"));
    for file in [None, file] {
        client.request(&Request::Load { file }).unwrap();
    }
    assert_eq!(scene.handler.lock().unwrap().loads, [None, Some("/a/b.toml".into())]);
    let bad = Request::Load { file: Some("/a/bad.toml".into()) };
    let error = client.request(&bad).unwrap_err();
    assert!(matches!(&error, ClientError::Refused(rejected) if rejected.message.contains("bad")));
    let Answer::Plan { lines } = client.request(&Request::Plan).unwrap() else { panic!() };
    assert_eq!(lines[0].rule, "speed");
    assert_eq!(client.request(&Request::Stop).unwrap(), Answer::Stopping);
    let mut plain = Plain::connect(&scene.path);
    plain.ask("{\"command\":\"version\"}\n", "\"protocol\":1");
    // The handler learns of it after the client, in the thread of that client, which then ends.
    assert!(client.request(&Request::Stats).is_err());
    assert!(scene.handler.lock().unwrap().is_stopped);
}

#[test]
fn snapshots_of_a_watch_come_by_themselves() {
    let scene = scene(Limits::default());
    let client = Client::connect(&scene.path).unwrap();
    let snapshots = client.watch(Nanos::from_millis(10)).unwrap();
    let ages: Vec<_> = snapshots.take(5).map(|snapshot| snapshot.unwrap().uptime_ns).collect();
    assert!(ages.is_sorted_by(|a, b| a < b), "{ages:?}");
    // Requests are answered in between, and the watch can be ended.
    let mut plain = Plain::connect(&scene.path);
    plain.ask("{\"command\":\"watch\",\"interval_ms\":3600000}\n", "\"type\":\"snapshot\"");
    plain.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    plain.send("{\"command\":\"watch\",\"interval_ms\":0}\n");
    plain.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
}

#[test]
fn bad_input_is_answered_and_the_next_line_is_read() {
    let scene = scene(Limits { line_bytes: 100, ..Limits::default() });
    let mut client = Plain::connect(&scene.path);
    for (request, expected) in [
        ("garbage\n", "this is not a request"),
        ("{\"command\":\"halt\"}\n", "the commands are stats, watch, load, plan, version, stop"),
        ("\n  \r\n{\"command\":\"plan\"}\r\n", "\"type\":\"plan\""),
    ] {
        client.ask(request, expected);
    }
    // Half a line is a whole one later.
    client.send("{\"comm");
    client.ask("and\":\"plan\"}\n", "\"type\":\"plan\"");
    // A long line without an end takes no memory, and is reported once.
    for _ in 0..1_000 {
        client.send(&"x".repeat(1_000));
    }
    client.ask("\n", "longer than 100 bytes");
    client.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    client.stream.write_all(&[0xFF, 0x00, b'\n']).unwrap();
    assert!(client.receive().unwrap().contains("this is not a request"));
    // A line that never ends.
    client.send("{\"command\":\"plan\"}");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.receive().unwrap().contains("the last line is not complete"));
    assert_eq!(client.receive(), None);
}

#[test]
fn ten_thousand_requests_are_answered_in_order() {
    const COUNT: u64 = 10_000;
    let scene = scene(Limits { timeout: Nanos::from_secs(60), ..Limits::default() });
    let Plain { mut stream, reader } = Plain::connect(&scene.path);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..COUNT {
                stream.write_all(b"{\"command\":\"stats\"}\n").unwrap();
            }
        });
        for (number, line) in (1..=COUNT).zip(reader.lines()) {
            let Answer::Snapshot(snapshot) = Answer::decode(line.unwrap().as_bytes()).unwrap()
            else {
                panic!("no snapshot");
            };
            assert_eq!(snapshot.uptime_ns, number);
        }
    });
    assert_eq!(scene.handler.lock().unwrap().snapshots, COUNT);
}

#[test]
fn a_slow_client_is_disconnected_and_holds_nobody_up() {
    let limits = Limits { timeout: Nanos::from_millis(50), ..Limits::default() };
    let scene = scene(limits);
    scene.handler.lock().unwrap().rules = 20_000;
    let mut slow = Plain::connect(&scene.path);
    slow.send("{\"command\":\"stats\"}\n");
    // It reads nothing of its megabytes; others are served meanwhile.
    let mut quick = Plain::connect(&scene.path);
    for _ in 0..100 {
        quick.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    }
    // It is disconnected: waiting for the end of the connection reads nothing of it.
    wait_for_hangup(&slow.stream);
    let mut rest = Vec::new();
    // That nobody read what it said may be reported at the end, after what came.
    match slow.reader.read_to_end(&mut rest) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(count) => assert_eq!(count, rest.len()),
    }
    assert!(!rest.is_empty() && rest.last() != Some(&b'\n'), "{} bytes", rest.len());
    assert!(rest.len() < 4 << 20, "{} bytes", rest.len());
}

/// Until the other end has closed the connection. Writing says so; what is written is never read.
fn wait_for_hangup(mut stream: &UnixStream) {
    let mut writes = 0;
    while stream.write_all(b"\n").is_ok() {
        writes += 1;
        assert!(writes < 100_000_000, "still connected");
        std::thread::yield_now();
    }
}

#[test]
fn one_client_too_many_gets_the_reason() {
    let gives_way = Nanos::from_millis(100);
    let scene = scene(Limits { clients: 2, gives_way, ..Limits::default() });
    let mut first = Plain::connect(&scene.path);
    let mut second = Plain::connect(&scene.path);
    // Both wait for an answer.
    let handler = scene.handler.lock().unwrap();
    for client in [&mut first, &mut second] {
        client.send("{\"command\":\"stats\"}\n");
    }
    let mut third = Plain::connect(&scene.path);
    assert!(third.receive().unwrap().contains("2 clients are connected"));
    assert_eq!(third.receive(), None);
    let error = Client::connect(&scene.path).unwrap_err();
    assert!(error.to_string().contains("2 clients are connected"), "{error}");
    drop(handler);
    drop(first);
    // Its place is free as soon as its thread saw the end.
    let fourth = (0..1_000_000).find_map(|_| Client::connect(&scene.path).ok());
    assert!(fourth.is_some());
    assert!(second.receive().unwrap().contains("\"type\":\"snapshot\""));
    second.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
}

#[test]
fn idle_clients_give_way() {
    let gives_way = Nanos::from_millis(1);
    let scene = scene(Limits { clients: 4, gives_way, ..Limits::default() });
    // One watches, and so has something to do again and again; the others only hold connections.
    let watching = Client::connect(&scene.path).unwrap();
    let mut snapshots = watching.watch(Nanos::from_millis(10)).unwrap();
    let mut idle: Vec<_> = (0..3).map(|_| Plain::connect(&scene.path)).collect();
    for client in &mut idle {
        client.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    }
    // Five snapshots at intervals of 10 ms: the others are idle for longer than `gives_way`.
    assert_eq!(snapshots.by_ref().take(5).filter(Result::is_ok).count(), 5);
    let before = scene.handler.lock().unwrap().snapshots;
    assert!(snapshots.any(|snapshot| snapshot.unwrap().uptime_ns > before));
    let late: Vec<_> = (0..3)
        .map(|_| {
            let mut client = Client::connect(&scene.path).unwrap();
            assert!(client.request(&Request::Stats).is_ok(), "locked out");
            client
        })
        .collect();
    for client in &mut idle {
        let reported = client.receive().unwrap();
        assert!(reported.contains("a new client connected, and 4 is the limit"), "{reported}");
        assert_eq!(client.receive(), None);
    }
    assert!(snapshots.next().unwrap().is_ok(), "who watches stays");
    drop(late);
}

#[test]
fn clients_that_connect_again_and_again_keep_nobody_out() {
    let gives_way = Nanos::from_millis(200);
    let scene = scene(Limits { clients: 4, gives_way, ..Limits::default() });
    let path = scene.path.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let holders: Vec<_> = (0..20)
        .map(|_| {
            let (path, is_over) = (path.clone(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // Until it has to give way, or is turned away.
                    let mut client = Plain::connect(&path);
                    while client.receive().is_some() {}
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let mut client = Client::connect(&scene.path).unwrap();
        assert!(client.request(&Request::Stats).is_ok());
    }
    is_over.store(true, Ordering::Relaxed);
    drop(scene);
    for holder in holders {
        // The last one may find nobody to connect to.
        let _ = holder.join();
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = clock::now::<Monotonic>() + Nanos::from_secs(TIMEOUT.as_secs());
    while !is_so() {
        let now = clock::now::<Monotonic>();
        assert!(now < deadline, "not so: {what}");
        clock::sleep_until(now + Nanos::from_millis(10)).unwrap();
    }
}

#[test]
fn a_socket_that_is_deleted_is_made_again() {
    let mut scene = scene(Limits::default());
    let mut before = Plain::connect(&scene.path);
    before.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    fs::remove_file(&scene.path).unwrap();
    wait_until("it is made again", || scene.path.exists());
    assert!(Client::connect(&scene.path).unwrap().request(&Request::Stats).is_ok());
    before.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    // Another file in its place is somebody else's. It is told once, and again of the next one.
    for _ in 0..2 {
        fs::remove_file(&scene.path).unwrap();
        wait_until("it is made again", || scene.path.exists());
        assert_eq!(scene.socket.news(), None);
        let other = scene.folder.path().join("other");
        fs::write(&other, "precious").unwrap();
        fs::rename(&other, &scene.path).unwrap();
        let mut told = None;
        wait_until("it is told", || {
            told = told.take().or_else(|| scene.socket.news());
            told.is_some()
        });
        let told = told.unwrap();
        assert!(told.contains("another file has the name of this control socket"), "{told}");
        assert_eq!(scene.socket.news(), None);
    }
    let Scene { path, server, folder, .. } = scene;
    drop(server);
    assert_eq!(fs::read(path).unwrap(), b"precious");
    drop(folder);
}

#[test]
fn who_asks_for_nothing_is_disconnected() {
    let scene = scene(Limits { idle: Nanos::from_millis(20), ..Limits::default() });
    let mut client = Plain::connect(&scene.path);
    assert!(client.receive().unwrap().contains("no request came for 0.02 s"));
    assert_eq!(client.receive(), None);
}

#[test]
fn who_watches_need_not_ask() {
    let scene = scene(Limits { idle: Nanos::from_secs(1), ..Limits::default() });
    let watching = Client::connect(&scene.path).unwrap();
    // Twice the interval is longer than the limit.
    let snapshots = watching.watch(Nanos::from_millis(600)).unwrap();
    assert_eq!(snapshots.take(3).filter(Result::is_ok).count(), 3);
}

#[test]
fn a_handler_that_panics_takes_one_client_with_it() {
    let scene = scene(Limits::default());
    let mut other = Client::connect(&scene.path).unwrap();
    let mut client = Client::connect(&scene.path).unwrap();
    let error = client.request(&Request::Load { file: Some("/panic.toml".into()) }).unwrap_err();
    assert!(matches!(error, ClientError::Ended(_)), "{error}");
    assert!(other.request(&Request::Stats).is_ok());
}

#[test]
fn a_socket_is_there_once_and_only_for_its_owner() {
    let Scene { folder, path, server, handler, .. } = scene(Limits::default());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(server.path(), path);
    let error = Server::bind(&path, Access::Owner).unwrap_err();
    let own = std::process::id();
    match &error.reason {
        Reason::InUse(process) => assert_eq!(*process, Some(own)),
        _ => panic!("{error}"),
    }
    assert!(error.to_string().contains(&format!("(process {own})")), "{error}");
    // Another place is no way around it, in the first folder that serves.
    let elsewhere = folder.path().join("elsewhere").join("drive.sock");
    let places = [path.clone(), elsewhere.clone()];
    let error = Server::bind_first(&places, Access::Owner).unwrap_err();
    assert!(matches!(error.reason, Reason::InUse(_)), "{error}");
    // A client in the middle of things, and a lock that is held, do not hold up the end.
    let mut client = Plain::connect(&path);
    client.ask("{\"command\":\"plan\"}\n", "\"type\":\"plan\"");
    let held = handler.lock().unwrap();
    drop(server);
    drop(held);
    assert_eq!(client.receive(), None);
    assert!(!path.exists());
    let error = Client::connect(&path).unwrap_err();
    assert!(matches!(error, ClientError::NotRunning(_)), "{error}");

    // The socket of a process that was killed.
    let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(stale);
    assert!(path.exists());
    let listening = Server::bind(&path, Access::Group).unwrap();
    assert_eq!(mode(&path), 0o660);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing left behind");
    // Nobody else gets the socket while its file is not there.
    fs::remove_file(&path).unwrap();
    let error = Server::bind(&path, Access::Owner).unwrap_err();
    assert!(matches!(error.reason, Reason::InUse(process) if process == Some(own)), "{error}");
    // One that takes the place later is not removed.
    fs::write(&path, "something else").unwrap();
    drop(listening);
    assert!(path.exists());
    let error = Server::bind(&path, Access::Owner).unwrap_err();
    assert!(error.to_string().contains("a file that is not a socket"), "{error}");
    // What cannot be made is passed over.
    let impossible = path.join("drive.sock");
    let listening = Server::bind_first(&[impossible, elsewhere.clone()], Access::Owner).unwrap();
    assert_eq!(listening.path(), elsewhere);
    let long = folder.path().join("x".repeat(200));
    let error = Server::bind(&long, Access::Owner).unwrap_err();
    assert!(error.to_string().contains("cannot create the socket"), "{error}");
    assert!(!long.exists());
}

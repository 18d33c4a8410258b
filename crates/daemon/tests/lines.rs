//! Requests by lines over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use candor_daemon::Reactor;
use candor_daemon::lines::{self, Limits, Protocol, Reply};
use candor_time::Nanos;

/// No test waits longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A door that is shut until it is opened.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let shut = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(shut, |is_open| !*is_open).unwrap());
    }
}

/// Says what it hears; waits at the door if it is told so.
struct Echo {
    door: Door,
    /// Opened when somebody waits at the other one.
    arrived: Door,
}

impl Protocol for Echo {
    fn takes_long(&self, line: &[u8]) -> bool {
        line == b"door"
    }

    fn reply(&self, line: &[u8]) -> Reply {
        match line {
            b"door" => {
                self.arrived.open();
                self.door.pass();
                Reply::Line(b"passed\n".to_vec())
            }
            b"watch" => Reply::Watch(Some(Nanos::from_millis(10))),
            _ => Reply::Line([line, b"\n"].concat()),
        }
    }

    fn news(&self) -> Vec<u8> {
        b"news\n".to_vec()
    }

    fn end(&self) {}

    fn error(message: String) -> Vec<u8> {
        format!("error: {message}\n").into_bytes()
    }
}

struct Scene {
    path: PathBuf,
    door: Door,
    arrived: Door,
    reactor: Reactor,
}

impl Scene {
    fn new(name: &str, limits: Limits) -> Self {
        let name = format!("candor-lines-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let (door, arrived) = (Door::default(), Door::default());
        let echo = Echo { door: door.clone(), arrived: arrived.clone() };
        let serve = lines::serve(listener, limits, echo);
        let reactor = Reactor::start_with("lines", lines::THREADS, serve).unwrap();
        Self { path, door, arrived, reactor }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        BufReader::new(stream)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn send(client: &mut BufReader<UnixStream>, text: &str) {
    client.get_mut().write_all(text.as_bytes()).unwrap();
}

fn receive(client: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

#[test]
fn what_takes_time_stops_no_client_from_coming_and_going() {
    let gives_way = Nanos::from_millis(100);
    let scene = Scene::new("door", Limits { clients: 2, gives_way, ..Limits::default() });
    let mut first = scene.connect();
    send(&mut first, "door\n");
    scene.arrived.pass();
    let mut second = scene.connect();
    // The event loop goes on: one that leaves hears so, and so does one too many when something is done for all.
    send(&mut second, "half a line");
    second.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    assert!(receive(&mut second).starts_with("error: the last line is not complete"));
    let mut third = scene.connect();
    send(&mut third, "door\n");
    assert!(receive(&mut scene.connect()).starts_with("error: 2 clients are connected"));
    scene.door.open();
    assert_eq!(receive(&mut first), "passed\n");
    assert_eq!(receive(&mut third), "passed\n");
}

#[test]
fn who_asks_for_little_waits_for_nothing_that_takes_long() {
    let scene = Scene::new("long", Limits::default());
    let mut long: Vec<_> = (0..3).map(|_| scene.connect()).collect();
    long.iter_mut().for_each(|client| send(client, "door\n"));
    scene.arrived.pass();
    let mut client = scene.connect();
    for _ in 0..3 {
        send(&mut client, "here\n");
        assert_eq!(receive(&mut client), "here\n");
    }
    scene.door.open();
    long.iter_mut().for_each(|client| assert_eq!(receive(client), "passed\n"));
}

#[test]
fn connections_that_ask_nothing_keep_nobody_out() {
    // Who had an answer does not give way within the time of this test.
    let gives_way = Nanos::from_secs(3_600);
    let scene = Scene::new("idle", Limits { gives_way, ..Limits::default() });
    let mut first = scene.connect();
    send(&mut first, "one\n");
    assert_eq!(receive(&mut first), "one\n");
    let idle: Vec<_> = (0..300)
        .map(|number| {
            let mut client = scene.connect();
            if number % 2 == 0 {
                send(&mut client, "half a line");
            }
            client
        })
        .collect();
    // A request that is there when its client gets a place is answered, however many wait behind it.
    let mut asking: Vec<_> = (0..30)
        .map(|_| {
            let mut client = scene.connect();
            send(&mut client, "here\n");
            client
        })
        .collect();
    let behind: Vec<_> = (0..30).map(|_| scene.connect()).collect();
    for client in asking.iter_mut().take(15) {
        assert_eq!(receive(client), "here\n");
    }
    send(&mut first, "two\n");
    assert_eq!(receive(&mut first), "two\n", "who had an answer stays");
    drop((idle, behind));
}

#[test]
fn the_end_waits_for_nobody() {
    let mut scene = Scene::new("end", Limits::default());
    let mut client = scene.connect();
    send(&mut client, "watch\n");
    assert_eq!(receive(&mut client), "news\n");
    send(&mut client, "door\n");
    scene.arrived.pass();
    scene.reactor = Reactor::start("nothing", std::future::ready(())).unwrap();
    let mut rest = String::new();
    let _ = client.read_to_string(&mut rest);
    assert!(!rest.contains("passed"), "{rest}");
    scene.door.open();
}

//! The gateway's end of the control socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use candor_linux::clock;
use candor_service::unix::{self, Access, Bound, Kind, SocketFile};
use candor_time::{Instant, Monotonic, Nanos};

use super::clients::{self, Came, Clients, Pulse, Room, Service};
use super::protocol::{Lines, TooLong};
use super::{Answer, Handler, PROTOCOL, Request, Version};
use crate::lock::lock as lock_mutex;

/// What control sockets are called.
const SOCKET: Kind = Kind { owner: "gateway", socket: "control socket", option: "--control" };

/// How much clients may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients at once.
    pub clients: usize,
    /// Bytes of a request, its line feed apart.
    pub line_bytes: usize,
    /// How long a client may take to take an answer.
    pub patience: Nanos,
    /// How long a client may ask for nothing, and watch nothing.
    pub idle: Nanos,
    /// If there is no room for one more client, the one that has been without an answer or a snapshot
    /// for the longest time gives way, if that is so long.
    pub gives_way: Nanos,
}

/// 16 clients, 32 KiB, 5 s, 10 min, 1 s.
impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            line_bytes: 32 << 10,
            patience: Nanos::from_secs(5),
            idle: Nanos::from_secs(600),
            gives_way: Nanos::from_secs(1),
        }
    }
}

/// The control socket, made but not yet answering: clients that connect wait.
#[derive(Debug)]
pub struct Listening(Bound);

impl Listening {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Begins to answer, in threads of its own, until the server is dropped. They have the priority
    /// and the processors of the thread that calls this: call it before those become special.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(
        self,
        handler: Arc<Mutex<impl Handler + 'static>>,
        limits: Limits,
    ) -> io::Result<Server> {
        let Bound { listener, file } = self.0;
        let service = Control { handler, limits };
        let room = Room { clients: limits.clients, idle: limits.gives_way };
        let clients = Clients::serve("control", listener, room, service)?;
        Ok(Server { _clients: clients, file })
    }
}

/// The control socket in operation. When it is dropped clients are disconnected and its file is
/// removed. Whoever drops it may hold the lock of the handler.
#[derive(Debug)]
pub struct Server {
    _clients: Clients,
    file: SocketFile,
}

impl Server {
    /// Makes the socket, and its folder.
    ///
    /// # Errors
    /// A gateway is running with it, or it cannot be made.
    pub fn bind(path: &Path, access: Access) -> Result<Listening, unix::Error> {
        SOCKET.bind(path, access).map(Listening)
    }

    /// Makes the socket in the first of these places where that is possible.
    ///
    /// # Errors
    /// As [`Server::bind`], of the last place; if a gateway is running in one of them, that.
    pub fn bind_first(places: &[PathBuf], access: Access) -> Result<Listening, unix::Error> {
        SOCKET.bind_first(places, access).map(Listening)
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// What is done for clients of the control socket.
struct Control<H> {
    handler: Arc<Mutex<H>>,
    limits: Limits,
}

impl<H: Handler + 'static> Service<UnixStream> for Control<H> {
    fn serve(&self, client: UnixStream, pulse: &Pulse) {
        let lines = Lines::new(self.limits.line_bytes);
        Session { control: self, client, pulse, lines, watch: None }.run();
    }

    fn displace(&self, client: &mut UnixStream) {
        let limit = self.limits.clients;
        let message = format!("disconnected: a new client connected, and {limit} is the limit");
        clients::write_all(client, &Answer::error(message).encode(), Nanos::ZERO);
    }

    fn turn_away(&self, mut client: UnixStream) {
        let limit = self.limits.clients;
        let message = format!(
            "{limit} clients are connected, which is the limit; disconnect one \
                               of them"
        );
        clients::write_all(&mut client, &Answer::error(message).encode(), Nanos::ZERO);
    }
}

impl<H: Handler> Control<H> {
    /// The handler, also if it once panicked: what it counts is still there.
    fn handler(&self) -> MutexGuard<'_, H> {
        lock_mutex(&self.handler)
    }
}

/// When snapshots of a watch come.
struct Watch {
    next: Instant<Monotonic>,
    interval: Nanos,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    End,
}

struct Session<'a, H> {
    control: &'a Control<H>,
    client: UnixStream,
    pulse: &'a Pulse,
    lines: Lines,
    watch: Option<Watch>,
}

impl<H: Handler> Session<'_, H> {
    fn run(mut self) {
        let idle = self.control.limits.idle;
        let mut silent_since = clock::now::<Monotonic>();
        let mut piece = [0; 4096];
        loop {
            let until = match &self.watch {
                Some(watch) => watch.next,
                None => silent_since + idle,
            };
            match clients::read(&mut self.client, &mut piece, until) {
                Came::Bytes(count) => {
                    silent_since = clock::now::<Monotonic>();
                    self.lines.push(piece.get(..count).unwrap_or_default());
                    self.pulse.busy();
                    let flow = self.requests();
                    self.pulse.beat();
                    if flow == Flow::End {
                        return;
                    }
                }
                Came::Nothing if self.watch.is_some() => {}
                Came::Nothing => {
                    let idle = idle.as_secs_f64();
                    self.send(&Answer::error(format!("no request came for {idle} s")));
                    return;
                }
                Came::End => {
                    if self.lines.has_rest() {
                        self.send(&Answer::error("the last line is not complete; end it with \\n"));
                    }
                    return;
                }
            }
            if self.tick() == Flow::End {
                return;
            }
        }
    }

    /// Sends the snapshot of a watch if it is time.
    fn tick(&mut self) -> Flow {
        let now = clock::now::<Monotonic>();
        let Some(watch) = &mut self.watch else { return Flow::On };
        if now < watch.next {
            return Flow::On;
        }
        // Those that are missed are left out.
        let (late, interval) = (now - watch.next, watch.interval);
        let missed = late.as_nanos() / interval.as_nanos();
        watch.next += interval * (missed + 1);
        self.pulse.busy();
        let snapshot = self.control.handler().snapshot();
        let flow = self.send(&Answer::Snapshot(Box::new(snapshot)));
        self.pulse.beat();
        flow
    }

    /// Answers the requests that are there.
    fn requests(&mut self) -> Flow {
        loop {
            let request = match self.lines.next_line() {
                None => return Flow::On,
                Some(Err(TooLong)) => {
                    let limit = self.control.limits.line_bytes;
                    Err(format!("the line is longer than {limit} bytes, the limit for a request"))
                }
                Some(Ok(line)) if line.trim_ascii().is_empty() => continue,
                Some(Ok(line)) => Request::decode(line),
            };
            let flow = match request {
                Ok(request) => self.request(request),
                Err(message) => self.send(&Answer::error(message)),
            };
            if flow == Flow::End {
                return Flow::End;
            }
        }
    }

    fn request(&mut self, request: Request) -> Flow {
        let control = self.control;
        let answer = match request {
            Request::Stats => Answer::Snapshot(Box::new(control.handler().snapshot())),
            Request::Watch { interval_ms: 0 } => {
                self.watch = None;
                return Flow::On;
            }
            Request::Watch { interval_ms } => {
                let interval = Nanos::from_millis(interval_ms);
                self.watch = Some(Watch { next: clock::now(), interval });
                return self.tick();
            }
            Request::Load { file } => match control.handler().load(file.as_deref()) {
                Ok(loaded) => Answer::Loaded(loaded),
                Err(rejected) => Answer::Error(rejected),
            },
            Request::Plan => Answer::Plan { lines: control.handler().plan() },
            Request::Version => {
                let file = control.handler().file();
                Answer::Version(Version {
                    protocol: PROTOCOL,
                    candor: env!("CARGO_PKG_VERSION").to_owned(),
                    pid: std::process::id(),
                    file,
                })
            }
            Request::Stop => {
                // First, since there may be nobody to tell it afterwards.
                self.send(&Answer::Stopping);
                control.handler().stop();
                return Flow::End;
            }
        };
        self.send(&answer)
    }

    fn send(&mut self, answer: &Answer) -> Flow {
        let is_taken =
            clients::write_all(&mut self.client, &answer.encode(), self.control.limits.patience);
        if is_taken { Flow::On } else { Flow::End }
    }
}

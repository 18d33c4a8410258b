//! The gateway's end of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candor_daemon::Reactor;
use candor_daemon::lines::{self, Limits, Protocol, Reply};
use candor_daemon::unix::{self, Access, Bound, Kind, SocketWatch};
use candor_time::Nanos;

use super::{Answer, Handler, PROTOCOL, Request, Version};

/// What control sockets are called.
const SOCKET: Kind = Kind { owner: "gateway", socket: "control socket", option: "--control" };

/// The control socket, made but not yet answering: clients that connect wait.
#[derive(Debug)]
pub struct Listening(Bound);

impl Listening {
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// What tells what happens to its file.
    #[must_use]
    pub fn watch(&self) -> SocketWatch {
        self.0.file.watch()
    }

    /// Begins to answer, in an event loop of its own, until the server is dropped. What else is served is served
    /// there, too. Its thread has the priority and the processors of the thread that calls this: call it before
    /// those become special.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(
        self,
        handler: Arc<impl Handler + 'static>,
        limits: Limits,
        other: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Server> {
        let path = self.0.file.path().to_owned();
        let control = lines::serve(self.0, limits, ControlRequests(handler));
        let served = candor_daemon::both(control, other);
        let reactor = Reactor::start_with("service", lines::THREADS, served)?;
        Ok(Server { _reactor: reactor, path })
    }
}

/// The control socket in operation. A file that somebody deletes is made again. When it is dropped clients are
/// disconnected and its file is removed. Whoever drops it may hold the lock of the handler.
#[derive(Debug)]
pub struct Server {
    _reactor: Reactor,
    path: PathBuf,
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
        &self.path
    }
}

/// What clients of the control socket ask for.
struct ControlRequests<H>(Arc<H>);

impl<H: Handler> ControlRequests<H> {
    fn answer(&self, request: &Request) -> Answer {
        match request {
            Request::Stats | Request::Watch { .. } => Answer::Snapshot(Box::new(self.0.snapshot())),
            Request::Load { file } => match self.0.load(file.as_deref()) {
                Ok(loaded) => Answer::Loaded(loaded),
                Err(rejected) => Answer::Error(rejected),
            },
            Request::Plan => Answer::Plan { lines: self.0.plan() },
            Request::Version => Answer::Version(Version {
                protocol: PROTOCOL,
                candor: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                file: self.0.file(),
            }),
            Request::Stop => Answer::Stopping,
        }
    }
}

impl<H: Handler + 'static> Protocol for ControlRequests<H> {
    /// Hosts are looked up and rules compiled: nobody who asks for counts waits for that.
    fn takes_long(&self, line: &[u8]) -> bool {
        matches!(Request::decode(line), Ok(Request::Load { .. }))
    }

    fn reply(&self, line: &[u8]) -> Reply {
        match Request::decode(line) {
            Err(message) => Reply::Line(Self::error(message)),
            Ok(Request::Watch { interval_ms: 0 }) => Reply::Watch(None),
            Ok(Request::Watch { interval_ms }) => {
                Reply::Watch(Some(Nanos::from_millis(interval_ms)))
            }
            Ok(Request::Stop) => Reply::Last(self.answer(&Request::Stop).encode()),
            Ok(request) => Reply::Line(self.answer(&request).encode()),
        }
    }

    fn news(&self) -> Vec<u8> {
        self.answer(&Request::Stats).encode()
    }

    fn end(&self) {
        self.0.stop();
    }

    fn error(message: String) -> Vec<u8> {
        Answer::error(message).encode()
    }
}

//! The signal service: what ports receive becomes events for applications, over HTTP and WebSocket.
//!
//! ```text
//!  port -- ingest, a thread each --> Hub (candor-events) --> connection, a task each --> WebSocket, HTTP
//!            one batch per tick       behind one lock          one write per tick
//! ```
//!
//! An ingest thread is outside of the reactor, which would wake up for every datagram. Once a tick it takes what has
//! come, publishes it, and wakes the connections. All of these share one thread. A connection reads from the log only
//! when everything it had before is written, so the log is its queue, and it slows nobody.
//!
//! | path | what is there |
//! |---|---|
//! | `/` | the page: live values and plots |
//! | `/api` | WebSocket, AGL's protocol [`x-afb-ws-json1`](candor_events::afb) |
//! | `/values` | the newest values as JSON; `?name=GLOB` chooses |
//!
//! Only loopback addresses are served, since there is no password. Pages of other origins are refused.

pub mod client;
mod connection;
mod framing;
mod http;
mod ingest;
mod verbs;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candor_events::{Bus, Hub};
use candor_linux::clock;
use candor_port::Address;
use candor_service::Reactor;
use candor_service::listen::{self, Exposure};
use candor_signals::Database;
use candor_time::{Instant, Monotonic, Nanos};
use tokio::sync::watch;

use self::connection::Sessions;
use self::ingest::{Ingest, Intake};

/// A port whose frames become events.
#[derive(Debug)]
pub struct Source {
    /// What its bus is called.
    pub name: String,
    /// The port.
    pub address: Address,
    /// What its frames mean.
    pub database: Option<Database>,
}

/// How the service runs.
#[derive(Debug)]
pub struct Config {
    /// Where the frames come from.
    pub sources: Vec<Source>,
    /// Where HTTP is served; port 0 for any.
    pub listen: SocketAddr,
    /// How long frames and events are gathered before they are handed on together; 0 for the lowest latency.
    pub coalesce: Nanos,
}

/// Why the service cannot start.
#[derive(Debug)]
pub enum Error {
    /// Others would reach this address.
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    Listen(SocketAddr, io::Error),
    /// A port cannot be opened.
    Port(candor_port::Error),
    /// The kernel refuses something.
    Kernel(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "--listen {address}: other machines could reach it, and there is no password; use 127.0.0.1:{}",
                address.port()
            ),
            Self::Listen(address, error) => {
                write!(f, "--listen {address}: {error}; choose another address or port")
            }
            Self::Port(error) => write!(f, "{error}"),
            Self::Kernel(error) => write!(f, "the service cannot start: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// What threads and connections share.
struct Shared {
    hub: Mutex<Hub>,
    /// Counts ticks in which something was published.
    changed: watch::Sender<u64>,
    intakes: Vec<Arc<Intake>>,
    sessions: Sessions,
    started: Instant<Monotonic>,
}

impl Shared {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        // What a thread that panicked left is whole: an event more or less.
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service at work. Dropping it ends it.
pub struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    is_ending: Arc<AtomicBool>,
    ingests: Vec<Ingest>,
    server: Option<Reactor>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Service {
    /// Opens the ports and begins to serve.
    ///
    /// # Errors
    /// The address is not one of loopback or is taken, a port cannot be opened, or there can be no thread.
    pub fn start(config: Config) -> Result<Self, Error> {
        let Config { sources, listen, coalesce } = config;
        let listener = listen::tcp(listen, Exposure::Loopback).map_err(|error| match error {
            listen::Error::NotLoopback => Error::NotLoopback(listen),
            listen::Error::Io(error) => Error::Listen(listen, error),
        })?;
        let address = listener.local_addr().map_err(Error::Kernel)?;
        let mut buses = Vec::new();
        let mut receivers = Vec::new();
        for source in sources {
            receivers.push(ingest::open(&source.address).map_err(Error::Port)?);
            buses.push(Bus { name: source.name, database: source.database });
        }
        let intakes = receivers.iter().map(|opened| Arc::clone(&opened.intake)).collect();
        let shared = Arc::new(Shared {
            hub: Mutex::new(Hub::new(buses)),
            changed: watch::Sender::new(0),
            intakes,
            sessions: Sessions::default(),
            started: clock::now(),
        });
        let is_ending = Arc::new(AtomicBool::new(false));
        let server = Reactor::start("candor-serve", http::serve(listener, Arc::clone(&shared)));
        let mut service = Self {
            shared,
            address,
            is_ending,
            ingests: Vec::new(),
            server: Some(server.map_err(Error::Kernel)?),
        };
        for (bus, opened) in receivers.into_iter().enumerate() {
            let (shared, is_ending) = (Arc::clone(&service.shared), Arc::clone(&service.is_ending));
            let ingest = opened.start(bus, coalesce, shared, is_ending).map_err(Error::Kernel)?;
            service.ingests.push(ingest);
        }
        Ok(service)
    }

    /// Where it is served.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Frames that became events so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.shared.hub().frames().0
    }

    /// Frames lost before they could be received, as far as the ports know.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.intakes.iter().map(|intake| intake.totals().1).sum()
    }

    /// What has gone wrong with ports since this was asked last, and what is right again: a line for each.
    pub fn news(&mut self) -> Vec<String> {
        self.ingests.iter_mut().filter_map(Ingest::news).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for ingest in &self.ingests {
            ingest.wake();
        }
        for ingest in self.ingests.drain(..) {
            ingest.join();
        }
        drop(self.server.take());
    }
}

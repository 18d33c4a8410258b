//! Statistics for Prometheus: `GET /metrics` over HTTP/1.1, text format 0.0.4.
//!
//! | metric | labels | |
//! |---|---|---|
//! | `candor_up` | | 1 |
//! | `candor_info` | `file`, `version` | 1 |
//! | `candor_uptime_seconds` | | how long it has been running |
//! | `candor_rules_generation` | | how often the rules were changed since |
//! | `candor_rules_rejected` | | 1 if the rules on disk are not those in use |
//! | `candor_messages_dropped_total` | | messages that standard error did not take |
//! | `candor_port_up` | `bus`, `port` | 1 if it works |
//! | `candor_port_…_total` | `bus`, `port` | see [`text()`] for all of them |
//! | `candor_port_queue_frames` | `bus`, `port` | frames that wait in its egress queue now |
//! | `candor_rule_copies_total` | `rule`, `from`, `to`, `outcome`, `cause` | copies `handled` (no cause) or `refused` for the cause |
//! | `candor_rule_pending_copies` | `rule`, `from`, `to` | copies that wait for the destination |
//! | `candor_rule_in_use` | `rule`, `from`, `to` | 0 if it was taken out |
//! | `candor_latency_seconds` | `from`, `to`, `quantile` | from port to port: 0.5, 0.99, 0.999 since the start, with `_sum` and `_count` |
//! | `candor_latency_max_seconds` | `from`, `to` | the longest |
//! | `candor_latency_unusable_total` | `from`, `to` | frames whose time stamp could not be used |
//!
//! All counters are since the start of the process. A rule that was taken out keeps its counters, but
//! the number of such series is bounded: of the rules that are not in use, one by one for each
//! destination, the 256 that were taken out last are shown under their own names. What those before them
//! counted is added up in one series with `rule="(retired rules)"` and no buses, so that sums over all
//! rules never fall. A bus that was taken out takes the latencies of its pairs with it.
//!
//! Only loopback addresses are served, unless [`Exposure::Public`] is asked for: there is no password.
//! Each request has a connection of its own, which ends with the answer. A connection has
//! [`MAX_REQUEST`] bytes and [`PATIENCE`] for its request and as long for the answer. With
//! [`MAX_CLIENTS`] connections a new one takes the place of the oldest whose request has not come within
//! a second; if there is none, the new one is turned away.

mod http;
mod text;

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;

use candor_linux::clock;
use candor_time::{Monotonic, Nanos};

pub use http::{Asked, MAX_REQUEST, Refusal, asked};
pub use text::text;

use crate::Snapshot;
use crate::control::clients::{self, Came, Clients, Pulse, Room, Service};
use crate::lock::lock;

/// Connections at once.
pub const MAX_CLIENTS: usize = 8;
/// How long a request may take to come, and its answer to be taken.
pub const PATIENCE: Nanos = Nanos::from_secs(5);
/// A connection that has been there for so long gives way to a new one if there is no room: whoever can
/// connect could hold all of them with requests that never come.
const ROOM: Room = Room { clients: MAX_CLIENTS, idle: Nanos::from_secs(1) };
/// How much more is read of a request that was refused before its end, so that the answer arrives.
const MAX_REST: usize = 64 << 10;
const REST_PATIENCE: Nanos = Nanos::from_millis(200);

/// Who can reach the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Programs on this machine.
    #[default]
    Loopback,
    /// Whoever reaches the address.
    Public,
}

/// Why metrics cannot be served.
#[derive(Debug)]
pub enum Error {
    /// Others would reach this address.
    NotLoopback(SocketAddr),
    /// The kernel refuses.
    Io(SocketAddr, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "metrics at {address}: other machines could reach them; use 127.0.0.1:{}, or add \
                 --metrics-public",
                address.port()
            ),
            Self::Io(address, error) => {
                write!(f, "metrics at {address}: {error}; choose another address with --metrics")
            }
        }
    }
}

impl std::error::Error for Error {}

/// The address, with nobody to answer yet: who connects waits.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    /// Takes the address; port 0 for any.
    ///
    /// # Errors
    /// It is not to be reached by others but could be, or somebody has it.
    pub fn bind(address: SocketAddr, exposure: Exposure) -> Result<Self, Error> {
        if exposure == Exposure::Loopback && !address.ip().to_canonical().is_loopback() {
            return Err(Error::NotLoopback(address));
        }
        let fail = |error| Error::Io(address, error);
        let listener = TcpListener::bind(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that it got.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to answer, in threads of its own that have the priority and the processors of the
    /// thread that calls this. `snapshot` is called for each request, by one thread at a time.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(
        self,
        snapshot: impl FnMut() -> Snapshot + Send + 'static,
    ) -> io::Result<Exporter> {
        let exporter = Exporting { snapshot: Mutex::new(snapshot) };
        let clients = Clients::serve("metrics", self.listener, ROOM, exporter)?;
        Ok(Exporter { _clients: clients, address: self.address })
    }
}

/// Metrics being served, until it is dropped.
#[derive(Debug)]
pub struct Exporter {
    _clients: Clients,
    address: SocketAddr,
}

impl Exporter {
    /// Where.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

struct Exporting<F> {
    snapshot: Mutex<F>,
}

impl<F: FnMut() -> Snapshot + Send + 'static> Service<TcpStream> for Exporting<F> {
    fn serve(&self, mut client: TcpStream, pulse: &Pulse) {
        let end = clock::now::<Monotonic>() + PATIENCE;
        let mut request = Vec::new();
        let mut piece = [0; 2048];
        let answer = loop {
            match asked(&request) {
                Asked::More => {}
                Asked::Metrics { head_only } => {
                    pulse.busy();
                    let snapshot = lock(&self.snapshot)();
                    break http::answer(&text(&snapshot), head_only);
                }
                Asked::Refused(refusal) => break refusal.answer(),
            }
            match clients::read(&mut client, &mut piece, end) {
                Came::Bytes(count) => {
                    request.extend_from_slice(piece.get(..count).unwrap_or_default());
                }
                Came::Nothing => break Refusal::TooSlow.answer(),
                Came::End => return,
            }
        };
        send(&mut client, &answer, PATIENCE);
    }

    fn displace(&self, client: &mut TcpStream) {
        clients::write_all(client, &Refusal::TooSlow.answer(), Nanos::ZERO);
    }

    fn turn_away(&self, mut client: TcpStream) {
        // In the thread that takes connections: what does not go at once does not go.
        clients::write_all(&mut client, &Refusal::TooMany.answer(), Nanos::ZERO);
        let _ = client.shutdown(Shutdown::Write);
    }
}

/// Sends the answer and its end, and waits a moment until the client has seen it: what it sent and
/// nobody read would make the kernel take the answer back.
fn send(client: &mut TcpStream, answer: &[u8], patience: Nanos) {
    if !clients::write_all(client, answer, patience) || client.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let end = clock::now::<Monotonic>() + REST_PATIENCE;
    let mut piece = [0; 2048];
    let mut rest = 0;
    while rest < MAX_REST {
        match clients::read(client, &mut piece, end) {
            Came::Bytes(count) => rest += count,
            Came::Nothing | Came::End => return,
        }
    }
}

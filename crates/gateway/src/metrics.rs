//! Statistics for Prometheus: `GET /metrics` over HTTP/1.1.
//!
//! docs/metrics.md lists all metrics. Beside them, `GET /healthz` says whether the gateway is well ([`health`]).
//!
//! All counters are since the start of the process. A rule that was taken out keeps its counters, but
//! the number of such series is bounded: of the rules that are not in use, one by one for each
//! destination, the 256 that were taken out last are shown under their own names. What those before them
//! counted is added up in one series with `rule="(retired rules)"` and no buses, so that sums over all
//! rules never fall. A bus that was taken out takes the latencies of its pairs with it.
//!
//! Only loopback addresses are served, unless [`Exposure::Public`] is asked for: there is no password. Requests that a page of
//! somebody else's makes are refused ([`http::check_origin`]).
//! Each request has a connection of its own, which ends with the answer. A connection has
//! [`MAX_REQUEST`] bytes and [`REQUEST_TIMEOUT`] for its request and as long for the answer. With
//! [`MAX_CLIENTS`] connections a new one takes the place of the oldest whose request has not come within
//! [`GIVES_WAY`], and waits until there is one. All of them share one thread.

mod text;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use candor_daemon::clients::Room;
use candor_daemon::exposition;
use candor_daemon::health;
use candor_daemon::http::{self, Guard, Limits};
pub use candor_daemon::listen::Exposure;
use candor_daemon::listen::{self, Error as ListenError};
use candor_time::Nanos;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
pub use text::text;

use crate::Snapshot;
use crate::health::problems;
use crate::lock::lock;

/// Connections at once.
pub const MAX_CLIENTS: usize = 256;
/// How long a request may take to come, and its answer to be taken.
pub const REQUEST_TIMEOUT: Nanos = Nanos::from_secs(5);
/// A connection without a request that has been there for so long gives way to a new one if there is no room:
/// whoever can connect could hold all of them with requests that never come. A client on a loaded machine may need so
/// long between its connection and its request; and as many connections as the kernel queues (4,096) have all been taken
/// before the 10 s are over that Prometheus waits by default.
pub const GIVES_WAY: Nanos = Nanos::from_millis(500);
/// The longest request head that is read.
pub const MAX_REQUEST: usize = http::MIN_HEAD;

const LIMITS: Limits = Limits {
    room: Room { clients: MAX_CLIENTS, gives_way: GIVES_WAY, asks_within: GIVES_WAY },
    head: MAX_REQUEST,
    timeout: REQUEST_TIMEOUT,
    unread: REQUEST_TIMEOUT,
    keeps_alive: false,
};

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
    exposure: Exposure,
}

impl Listening {
    /// Takes the address; port 0 for any.
    ///
    /// # Errors
    /// It is not to be reached by others but could be, or somebody has it.
    pub fn bind(address: SocketAddr, exposure: Exposure) -> Result<Self, Error> {
        let fail = |error| Error::Io(address, error);
        let listener = listen::tcp(address, exposure).map_err(|error| match error {
            ListenError::NotLoopback => Error::NotLoopback(address),
            ListenError::Io(error) => fail(error),
        })?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address, exposure })
    }

    /// The address, with the port that it got.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers, for as long as this is polled. `snapshot` is called for each request.
    pub fn serve(
        self,
        snapshot: impl FnMut() -> Snapshot + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let snapshot = Mutex::new(snapshot);
        let exposure = self.exposure;
        let answer = move |request: Request<Incoming>, _| {
            std::future::ready(answer(&request, exposure, || lock(&snapshot)()))
        };
        http::serve(self.listener, LIMITS, answer)
    }
}

/// What a client gets that sends these pieces one after the other, and then nothing: for tests.
///
/// # Errors
/// Too many files are open.
pub fn exchange(pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
    http::exchange(pieces, LIMITS, |request, _| {
        std::future::ready(answer(&request, Exposure::Loopback, Snapshot::default))
    })
}

/// What is answered to a request.
fn answer<T>(
    request: &Request<T>,
    exposure: Exposure,
    snapshot: impl FnOnce() -> Snapshot,
) -> Response<Full<Bytes>> {
    let is_local = exposure == Exposure::Loopback;
    let guard = Guard { is_local, allowed: &[], pages: &["/metrics", health::PATH] };
    let (status, kind, body) = match (request.uri().path(), request.method()) {
        _ if http::check_origin(request, guard).is_err() => {
            let reason = "pages and names of others are refused; use localhost\n";
            (StatusCode::FORBIDDEN, PLAIN, reason.to_owned())
        }
        ("/metrics" | health::PATH, method) if !matches!(*method, Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "use GET or HEAD\n".to_owned())
        }
        ("/metrics", _) => (StatusCode::OK, exposition::CONTENT_TYPE, text(&snapshot())),
        (health::PATH, _) => {
            let problems = |limits: &[_]| problems(&snapshot(), limits);
            let (status, text) = health::answer(request.uri().query(), problems);
            (status, PLAIN, text)
        }
        _ => {
            let reason = "not found; there are /metrics and /healthz\n";
            (StatusCode::NOT_FOUND, PLAIN, reason.to_owned())
        }
    };
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}

const PLAIN: &str = "text/plain; charset=utf-8";

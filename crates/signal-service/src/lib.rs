//! The signal service: what ports receive becomes events for applications, over HTTP and WebSocket.
//!
//! ```text
//!  port -- ingest, a task each --> Hub (candor-events) --> connection, a task each --> WebSocket, HTTP
//!            one batch per tick      behind one lock          one write per tick
//! ```
//!
//! Once a tick an ingest takes what has come, publishes it, and wakes the connections for which there is something. While frames flow, the reactor waits
//! for the tick alone: it would wake up for every datagram. All tasks share one thread, so a tick wakes the process up once. A connection reads from the log only
//! when everything it had before is written, so the log is its queue, and it slows nobody.
//!
//! | path | what is there |
//! |---|---|
//! | `/` | the page: live values and plots |
//! | `/api` | WebSocket: AGL's protocol [`x-afb-ws-json1`](candor_events::afb), or [CBOR or MessagePack](candor_events::binary) |
//! | `/events` | Server-Sent Events; the query chooses |
//! | `/values` | the newest values as JSON; `?name=GLOB`, `id`, `pgn` and `raw` choose |
//! | `/metrics` | [statistics](stats::Stats) for Prometheus |
//! | `/healthz` | [whether it is well](candor_daemon::health) |
//!
//! With the feature `dbus` it is served on [D-Bus](dbus), too.
//!
//! [`Service::local`] subscribes in this process:
//!
//! ```no_run
#![doc = include_str!("../examples/subscribe.rs")]
//! ```
//!
//! Only loopback addresses are served, since there is no password, and Unix sockets, which have permissions. Pages of
//! other origins are refused unless [`Config::allow_origin`] has theirs.

pub mod client;
mod connection;
pub mod dbus;
pub mod file;
mod framing;
mod http;
mod ingest;
mod local;
mod place;
mod session;
pub mod stats;
mod stream;
mod turns;
mod verbs;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use candor_daemon::Reactor;
pub use candor_daemon::http::WebOrigin;
use candor_daemon::unix::{self, SocketWatch};
pub use candor_events::Naming;
pub use candor_events::binary::Encoding;
pub use candor_events::{Batch, Content, Event, Filter, Pattern};
use candor_events::{Bus, Hub};
use candor_linux::clock;
use candor_port::{Address, Handover};
use candor_signals::Database;
use candor_time::{Instant, Monotonic, Nanos};
use tokio::runtime::Handle;
use tokio::sync::watch;

pub use self::dbus::BusAddress;
use self::dbus::Link;
use self::ingest::{Ingest, Intake, Misfit};
pub use self::local::Local;
pub use self::place::Place;
use self::session::Sessions;
use self::turns::Turns;

/// A port whose frames become events.
#[derive(Debug)]
pub struct Source {
    /// What its bus is called.
    pub name: String,
    /// The port.
    pub address: Address,
    /// What its frames mean.
    pub database: Option<Arc<Database>>,
    /// When its frames come.
    pub pace: Pace,
}

/// When the frames of a port come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// When they are received, or at the times of a recording.
    #[default]
    Received,
    /// As fast as all subscribers take their events, so that none misses one; while there is no subscriber, none come. Only a
    /// recording can wait. A subscriber that takes nothing for 10 s holds up the others no more.
    Subscribers,
}

/// How the service runs.
#[derive(Debug)]
pub struct Config {
    /// Where the frames come from.
    pub sources: Vec<Source>,
    /// Where it is served.
    pub listen: Vec<Place>,
    /// The message buses on which it is served, too.
    pub dbus: Vec<BusAddress>,
    /// How long frames and events are gathered before they are handed on together; 0 for the lowest latency.
    pub coalesce: Nanos,
    /// The pages that may use it, beside its own.
    pub allow_origin: Vec<WebOrigin>,
    /// How long clients may be gone before their places are free again.
    pub client_timeouts: ClientTimeouts,
}

/// How long clients may be gone, without a word, before their places are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// For how long a client of the WebSocket may neither send anything, such as a pong, nor read anything if it is behind.
    /// After half of it, it is sent a ping.
    pub websocket_silence: Nanos,
    /// For how long a client of Server-Sent Events may take nothing of what was sent to it.
    pub sse_unread: Nanos,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self { websocket_silence: Nanos::from_secs(20), sse_unread: Nanos::from_secs(60) }
    }
}

/// Why the service cannot start.
#[derive(Debug)]
pub enum Error {
    /// Others would reach this address.
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    Listen(SocketAddr, io::Error),
    /// The socket cannot be made.
    Socket(unix::Error),
    /// A message bus does not let the service in, and why.
    Dbus(BusAddress, String),
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
            Self::Listen(address, reason) => {
                write!(f, "--listen {address}: {reason}; choose another address or port")
            }
            Self::Socket(error) => write!(f, "{error}"),
            Self::Dbus(address, reason) => write!(f, "--dbus {address}: {reason}"),
            Self::Port(error) => write!(f, "{error}"),
            Self::Kernel(error) => write!(f, "the service cannot start: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// How long a change waits until ports that are not used any more are closed. One that takes longer, such as for the
/// look-up of a name, is waited for by the next change.
const CLOSING: Duration = Duration::from_secs(1);

/// The most topics that all clients together may subscribe to. Each takes some 75 bytes of a client, so it is 600 MB.
const MOST_TOPICS: usize = 8 << 20;

/// What threads and connections share.
struct Shared {
    hub: Mutex<Hub>,
    /// Those of the ports in use. Locked after the hub.
    intakes: Mutex<Vec<Arc<Intake>>>,
    /// How often buses were changed.
    changes: AtomicU64,
    /// Why the file on disk is not in use, if it is not.
    rejected: Mutex<Option<String>>,
    /// The message buses.
    links: Mutex<Vec<Arc<Link>>>,
    sessions: Sessions,
    turns: Turns,
    /// Where longer works are done, from when on there is one.
    reactor: OnceLock<Handle>,
    /// The pages that may ask, beside its own.
    allow_origin: Vec<WebOrigin>,
    client_timeouts: ClientTimeouts,
    /// To how many topics all clients together may subscribe.
    most_topics: usize,
    /// Whether everything is to end.
    stop: watch::Sender<bool>,
    started: Instant<Monotonic>,
}

impl Shared {
    fn new(hub: Hub) -> Self {
        Self {
            hub: Mutex::new(hub),
            intakes: Mutex::default(),
            changes: AtomicU64::new(0),
            rejected: Mutex::default(),
            links: Mutex::default(),
            sessions: Sessions::default(),
            turns: Turns::default(),
            reactor: OnceLock::new(),
            allow_origin: Vec::new(),
            client_timeouts: ClientTimeouts::default(),
            most_topics: MOST_TOPICS,
            stop: watch::Sender::new(false),
            started: clock::now(),
        }
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        // What a thread that panicked left is whole: an event more or less.
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intakes(&self) -> MutexGuard<'_, Vec<Arc<Intake>>> {
        self.intakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rejected(&self) -> MutexGuard<'_, Option<String>> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service at work. Dropping it ends it.
pub struct Service {
    shared: Arc<Shared>,
    places: Vec<Place>,
    sockets: Vec<SocketWatch>,
    coalesce: Nanos,
    /// By the name of the bus.
    ingests: Vec<(String, Ingest)>,
    /// Those whose ports are not used any more.
    ended: Vec<Ingest>,
    /// It was said that there are too many identifiers, and that there is no room for more.
    is_full: bool,
    is_refusing: bool,
    server: Option<Reactor>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("places", &self.places).finish_non_exhaustive()
    }
}

/// Makes of a configuration what a service has of it in memory, and drops it. For a
/// [`Rehearsal`](candor_daemon::rehearsal::Rehearsal).
pub fn rehearse(config: Config) {
    let bus = |source: Source| Bus { name: source.name, database: source.database };
    drop(Hub::with_naming(config.sources.into_iter().map(bus).collect(), Naming::Always));
}

impl Service {
    /// Opens the ports and begins to serve. From then on, large pieces of memory go back to the system when they are freed
    /// ([`give_back_large_pieces`](candor_linux::limits::give_back_large_pieces)): answers to clients are such.
    ///
    /// # Errors
    /// A place is not of this machine alone or is taken, a port cannot be opened, or there can be no thread.
    pub fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, Naming::IfSeveral)
    }

    /// The same with a choice of how signals are called: where buses change, the name of the bus is a part of it.
    ///
    /// # Errors
    /// The same.
    pub fn start_with(config: Config, naming: Naming) -> Result<Self, Error> {
        let Config { sources, listen, dbus, coalesce, allow_origin, client_timeouts } = config;
        candor_linux::limits::give_back_large_pieces();
        let (mut listeners, mut places, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for place in &listen {
            let (listener, place) = place::listen(place)?;
            sockets.extend(listener.watch());
            listeners.push(listener);
            places.push(place);
        }
        let mut buses = Vec::new();
        let mut receivers = Vec::new();
        for source in sources {
            let opened = ingest::open(&source, &Handover::default(), true).map_err(Error::Port)?;
            opened.intake.set_bus(buses.len());
            receivers.push((source.name.clone(), opened));
            buses.push(Bus { name: source.name, database: source.database });
        }
        let intakes = receivers.iter().map(|(_, opened)| Arc::clone(&opened.intake)).collect();
        let mut shared = Shared::new(Hub::with_naming(buses, naming));
        shared.intakes = Mutex::new(intakes);
        (shared.allow_origin, shared.client_timeouts) = (allow_origin, client_timeouts);
        let shared = Arc::new(shared);
        let serve = http::serve(listeners, Arc::clone(&shared));
        let server = Reactor::start("signal-service", serve).map_err(Error::Kernel)?;
        shared.reactor.get_or_init(|| server.handle().clone());
        let links: Result<_, _> =
            dbus.into_iter().map(|address| dbus::start(&server, &shared, address)).collect();
        *shared.links() = links?;
        let mut service = Self {
            shared,
            places,
            sockets,
            coalesce,
            ingests: Vec::new(),
            ended: Vec::new(),
            is_full: false,
            is_refusing: false,
            server: None,
        };
        for (name, opened) in receivers {
            let ingest = opened.start(coalesce, Arc::clone(&service.shared), &server);
            service.ingests.push((name, ingest.map_err(Error::Kernel)?));
        }
        service.server = Some(server);
        Ok(service)
    }

    /// Receives from these ports from now on. A port that stays as it is stays open, also if its bus is called
    /// otherwise; one with other options takes over the socket of the old one. Buses that keep their name keep their topics
    /// and subscribers.
    ///
    /// # Errors
    /// A port cannot be opened, or there can be no thread. Then nothing has changed.
    pub fn change(&mut self, sources: Vec<Source>) -> Result<(), Error> {
        self.close_ended();
        let Some(server) = &self.server else { return Ok(()) };
        let (kept, is_used) = self.kept(&sources);
        let leaving = self.ingests.iter().zip(&is_used).filter(|(_, is_used)| !**is_used);
        let handover =
            leaving.filter_map(|((_, ingest), _)| ingest.intake.reception.endpoint()).collect();
        let handover = Handover::new(handover);
        let mut opened = Vec::new();
        for (source, kept) in sources.iter().zip(&kept) {
            opened.push(match kept {
                Some(_) => None,
                None => Some(ingest::open(source, &handover, false).map_err(Error::Port)?),
            });
        }
        // Nobody else takes over what is left.
        drop(handover);
        // What comes from now on waits until all is in place.
        let shared = Arc::clone(&self.shared);
        let mut hub = shared.hub();
        let mut started = Vec::new();
        for opened in opened.into_iter().flatten() {
            match opened.start(self.coalesce, Arc::clone(&self.shared), server) {
                Ok(ingest) => started.push(ingest),
                Err(error) => {
                    started.iter().for_each(Ingest::end);
                    self.ended.extend(started);
                    drop(hub);
                    self.close_ended();
                    return Err(Error::Kernel(error));
                }
            }
        }
        // Nothing fails from here on.
        self.replace(&mut hub, sources, kept, started);
        let intakes = self.ingests.iter().map(|(_, ingest)| Arc::clone(&ingest.intake));
        *self.shared.intakes() = intakes.collect();
        hub.ring_all();
        drop(hub);
        self.shared.changes.fetch_add(1, Ordering::Relaxed);
        self.close_ended();
        Ok(())
    }

    /// Which of the open ports each source keeps, by its place, and whether each port is kept.
    fn kept(&self, sources: &[Source]) -> (Vec<Option<usize>>, Vec<bool>) {
        let mut is_used = vec![false; self.ingests.len()];
        let mut kept = vec![None; sources.len()];
        // A port that keeps its bus comes first.
        for by_name in [true, false] {
            for (source, kept) in sources.iter().zip(&mut kept) {
                let is_it = |(place, (name, ingest)): (usize, &(String, Ingest))| {
                    let is_same = ingest.address == source.address && ingest.pace == source.pace;
                    let is_meant = is_same && !is_used[place];
                    (is_meant && (!by_name || *name == source.name)).then_some(place)
                };
                if kept.is_none()
                    && let Some(place) = self.ingests.iter().enumerate().find_map(is_it)
                {
                    (*kept, is_used[place]) = (Some(place), true);
                }
            }
        }
        (kept, is_used)
    }

    /// Each source has the port that it keeps, or the next one that was started. What is left of the old ones ends.
    fn replace(
        &mut self,
        hub: &mut Hub,
        sources: Vec<Source>,
        kept: Vec<Option<usize>>,
        started: Vec<Ingest>,
    ) {
        let mut old: Vec<_> = std::mem::take(&mut self.ingests).into_iter().map(Some).collect();
        let mut started = started.into_iter();
        let mut places = Vec::new();
        for (Source { name, database, .. }, kept) in sources.into_iter().zip(kept) {
            let place = hub.set_bus(Bus { name: name.clone(), database });
            places.push(place);
            let ingest = match kept.and_then(|place| old.get_mut(place)?.take()) {
                Some((_, ingest)) => Some(ingest),
                None => started.next(),
            };
            let Some(mut ingest) = ingest else { continue };
            ingest.intake.set_bus(place);
            // It may be another database.
            ingest.misfit = Misfit::default();
            self.ingests.push((name, ingest));
        }
        for place in (0..hub.buses().len()).filter(|place| !places.contains(place)) {
            hub.remove_bus(place);
        }
        for (name, ingest) in old.into_iter().flatten() {
            match self.ingests.iter().find(|(other, _)| *other == name) {
                // What it has taken is of the same bus.
                Some((_, successor)) => successor.intake.inherit(&ingest.intake),
                None => ingest.mute(),
            }
            ingest.end();
            self.ended.push(ingest);
        }
    }

    /// Waits until the ports that are not used any more are closed, so that others may have their addresses.
    fn close_ended(&mut self) {
        self.ended.retain_mut(|ingest| !ingest.wait_closed(CLOSING));
    }

    /// The buses, each with its port.
    pub fn buses(&self) -> impl Iterator<Item = (&str, &Address)> {
        self.ingests.iter().map(|(name, ingest)| (name.as_str(), &ingest.address))
    }

    #[must_use]
    pub fn signals(&self) -> usize {
        let hub = self.shared.hub();
        hub.topics().iter().filter(|topic| !topic.is_raw() && !topic.is_gone).count()
    }

    /// Where it is served.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Frames that became events so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.shared.hub().frames().0
    }

    /// Notes why the file on disk is not in use, or that it is.
    pub fn set_rejected(&self, why: Option<String>) {
        *self.shared.rejected() = why;
    }

    /// Subscribes in this process, to nothing yet.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub fn local(&self) -> io::Result<Local> {
        Local::new(&self.shared)
    }

    /// Frames lost before they could be received, as far as the ports know.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.intakes().iter().map(|intake| intake.reception.totals().lost()).sum()
    }

    /// The ports and message buses that do not work now, each with the reason.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let of_ports = self.ingests.iter().filter_map(|(name, ingest)| {
            Some(format!("bus `{name}`: {}", ingest.intake.reception.trouble()?))
        });
        of_ports.chain(self.shared.links().iter().filter_map(|link| link.trouble())).collect()
    }

    /// What has gone wrong with ports and message buses since this was asked last, and what is right again; subscribers that
    /// hold up a recording no more, that there are too many identifiers, that a database describes none of the frames, and
    /// that another file has the name of a socket: a line for each.
    pub fn news(&mut self) -> Vec<String> {
        let of_ports = self.ingests.iter_mut().flat_map(|(_, ingest)| ingest.news());
        let mut news: Vec<_> =
            of_ports.chain(self.shared.links().iter().filter_map(|link| link.news())).collect();
        let (is_full, is_refusing) = {
            let hub = self.shared.hub();
            let displaced = (0..hub.buses().len()).any(|place| hub.displaced(place) > 0);
            (displaced, hub.frames().1 > 0)
        };
        news.extend(self.misfits(false));
        news.extend(self.sockets.iter_mut().filter_map(SocketWatch::news));
        let most = Hub::MOST_UNKNOWN;
        if is_full && !std::mem::replace(&mut self.is_full, true) {
            news.push(format!(
                "more than {most} identifiers were seen that no DBC file describes; those not seen for long give way, and \
                 `displaced` of the verb `stats` counts them"
            ));
        }
        if is_refusing && !std::mem::replace(&mut self.is_refusing, true) {
            news.push(format!(
                "there are subscriptions to {most} identifiers that no DBC file describes; frames with others become no \
                 events, and `unlisted` of the verb `stats` counts them"
            ));
        }
        news
    }

    /// The buses whose databases describe none of their frames, as far as that was not said by [`Self::news`]: a line for
    /// each. For the end of a service, which has no time to see whether others come.
    pub fn last_news(&mut self) -> Vec<String> {
        self.misfits(true)
    }

    /// Whether there are frames on a bus with a database, and no database describes any frame of its bus.
    #[must_use]
    pub fn describes_nothing(&self) -> bool {
        let hub = self.shared.hub();
        let fits = || self.ingests.iter().filter_map(|(_, it)| hub.fit(it.intake.bus()));
        fits().any(|(fit, _)| fit.is_none()) && !fits().any(|(fit, _)| fit.is_any())
    }

    fn misfits(&mut self, is_end: bool) -> Vec<String> {
        let hub = self.shared.hub();
        let now = clock::now::<Monotonic>();
        let mut misfits = Vec::new();
        for (name, ingest) in &mut self.ingests {
            let Ingest { intake, misfit, .. } = ingest;
            let Some((fit, database)) = hub.fit(intake.bus()) else { continue };
            if misfit.is_told || !fit.is_none() {
                continue;
            }
            let first = *misfit.first.get_or_insert(now);
            let frames = intake.reception.totals().frames;
            if is_end || fit.is_evident(frames, now - first) {
                misfits.push(fit.words(database, frames, name));
                misfit.is_told = true;
            }
        }
        misfits
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for (_, ingest) in &self.ingests {
            ingest.end();
        }
        self.shared.stop.send_replace(true);
        for ingest in self.ended.drain(..).chain(self.ingests.drain(..).map(|(_, ingest)| ingest)) {
            ingest.join();
        }
        if let Some(server) = self.server.take() {
            server.join();
        }
    }
}

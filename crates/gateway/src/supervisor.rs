//! [`run`]: a gateway as a service: it starts once per rule file, follows changes of the file, of
//! interfaces and signals, answers on its control socket, and ends in order.
//!
//! ```text
//!  signals, rule file, interfaces, a tick per second --> supervisor --> Gateway
//!  control socket, /metrics ------------------------------- lock --------^
//! ```

mod claim;
mod links;
mod operator;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use candor_daemon::follow::Follow;
use candor_daemon::rehearsal::Rehearsal;
use candor_daemon::supervise::{Load, Next, Supervised, Supervision};
use candor_diagnostics::counted;
use candor_linux::netlink::Monitor;
use candor_linux::signal::{Signal, Signals};
use candor_linux::{realtime, udp};
use candor_time::Nanos;

use self::claim::Claim;
use self::links::Links;
use self::operator::{RequestOperator, change};
use crate::control::place::{Places, name_of};
use crate::control::{self, Access, Limits, Loaded, Server, SocketWatch};
use crate::lock::lock;
use crate::metrics::{self, Exposure};
use crate::plane::Replays;
use crate::{Config, Error, Gateway, Rules, Snapshot, read_rules};

/// How a gateway runs as a service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    pub gateway: Config,
    /// Whether all memory is kept in RAM.
    pub locks_memory: bool,
    /// Parts of the program that a gateway does not need; they are not kept there.
    pub unlocked: Vec<&'static [u8]>,
    /// Where the control socket is; by the rule file's name if not given.
    pub control: Option<PathBuf>,
    /// Whether the group may use it too.
    pub control_for_group: bool,
    /// Where `/metrics` is served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// Whether other machines may reach them.
    pub metrics_are_public: bool,
    /// End when all recordings have been replayed and what they caused has left, whatever other ports do.
    pub until_end: bool,
    /// How to find out, where memory is limited, whether changed rules fit in.
    pub rehearsal: Option<Rehearsal>,
}

/// Who is informed of what happens.
pub trait Observer {
    /// Something worth a line.
    fn tell(&mut self, line: &str);
}

impl<F: FnMut(&str)> Observer for F {
    fn tell(&mut self, line: &str) {
        self(line);
    }
}

/// What events come from.
const FILES: u64 = 0;
const LINKS: u64 = 1;

/// How often counters are rolled over, and how long requests from the control socket may wait for
/// what only the supervisor does.
const TICK: Nanos = Nanos::from_secs(1);
/// So many ticks may pass at the end of all recordings until what they caused has left: a port may never take
/// it.
const LEAVING_TICKS: u32 = 10;

/// The signals that a service lives with. Open them before any thread is started.
///
/// # Errors
/// Too many files are open.
pub fn signals() -> Result<Signals, Error> {
    Ok(Signals::open(&Signal::ALL)?)
}

/// Runs a gateway until it is asked to end. Returns what it has done.
///
/// # Errors
/// It cannot start. Once it has started, what goes wrong is reported and survived.
pub fn run(
    service: &Service,
    signals: &Signals,
    observer: &mut dyn Observer,
) -> Result<Snapshot, Error> {
    let path = std::path::absolute(&service.gateway.file).unwrap_or(service.gateway.file.clone());
    let claim = Claim::take(&path)?;
    let rules = read_rules(&path)?;
    if !rules.warnings.is_empty() {
        observer.tell(rules.warnings.trim_end());
    }
    check_rights(service)?;
    let mut supervision = Supervision::new(Some(signals))?;
    let mut monitor = Monitor::open()?;
    let links = Links::new(&monitor.links()?);
    let follow = follow(&path, &rules)?;
    supervision.add(&follow, FILES)?;
    supervision.add(&monitor, LINKS)?;
    // What somebody else may have is taken before a port is opened.
    let listening = Listening::bind(service, &path)?;

    let config = Config { file: path.clone(), ..service.gateway.clone() };
    let mut gateway = Gateway::start(config.clone(), rules)?;
    gateway.set_bus_offs(links.bus_offs());
    if service.until_end && gateway.replays() == Replays::None {
        return Err(Error::Other(format!(
            "{}: no rule takes frames from a recording, so nothing would end it; remove --until-end",
            path.display()
        )));
    }
    observer.tell(&summary(&gateway, "started"));
    let shared = Arc::new(Shared {
        config,
        rehearsal: service.rehearsal.clone(),
        gateway: Mutex::new(gateway),
        loading: Mutex::new(()),
        is_ending: AtomicBool::new(false),
        is_stopped: AtomicBool::new(false),
    });
    let loaded = Mutex::new(None);
    let operator = RequestOperator {
        shared: Arc::clone(&shared),
        file: path.clone(),
        is_confined: service.control_for_group,
        claim,
        loaded,
    };
    let socket = listening.control.watch();
    let server = listening.serve(operator, observer)?;
    if service.locks_memory {
        lock_memory(service, observer)?;
    }
    let mut supervisor = Supervisor {
        shared,
        path,
        monitor,
        links,
        follow,
        socket,
        metrics: service.metrics,
        until_end: service.until_end,
        leaving_ticks: 0,
        observer,
    };
    supervision.run(&mut supervisor, "routing", TICK)?;
    drop(server);
    let mut gateway = lock(&supervisor.shared.gateway);
    // What is still being read is not put into place any more.
    supervisor.shared.is_stopped.store(true, Ordering::Relaxed);
    gateway.stop();
    Ok(gateway.snapshot())
}

/// Follows a rule file and those that it was read with.
fn follow(path: &Path, rules: &Rules) -> Result<Follow, Error> {
    let mut follow = Follow::new(path)?;
    for file in &rules.included {
        // A file that cannot be watched is read again with the next change.
        let _ = follow.also(&path.parent().unwrap_or(Path::new("")).join(file));
    }
    Ok(follow)
}

/// The sockets of a service, bound.
struct Listening {
    control: control::Listening,
    metrics: Option<metrics::Listening>,
}

impl Listening {
    fn bind(service: &Service, path: &Path) -> Result<Self, Error> {
        let access = match service.control_for_group {
            true => Access::Group,
            false => Access::Owner,
        };
        let control = match &service.control {
            Some(place) => Server::bind(place, access),
            None => {
                let places = Places::of_process();
                Server::bind_first(&places.sockets(&name_of(path)), access)
            }
        };
        let control = control.map_err(|error| Error::Other(error.to_string()))?;
        let exposure = match service.metrics_are_public {
            true => Exposure::Public,
            false => Exposure::Loopback,
        };
        let metrics = service.metrics.map(|address| metrics::Listening::bind(address, exposure));
        let metrics = metrics.transpose().map_err(|error| Error::Other(error.to_string()))?;
        Ok(Self { control, metrics })
    }

    fn serve(
        self,
        operator: RequestOperator,
        observer: &mut dyn Observer,
    ) -> Result<Server, Error> {
        let control = format!("control socket {}", self.control.path().display());
        let shared = Arc::clone(&operator.shared);
        let address = self.metrics.as_ref().map(metrics::Listening::address);
        let metrics =
            self.metrics.map(|listening| listening.serve(move || lock(&shared.gateway).snapshot()));
        let metrics = async {
            if let Some(metrics) = metrics {
                metrics.await;
            }
        };
        let server = self.control.serve(Arc::new(operator), Limits::default(), metrics);
        let server =
            server.map_err(|error| Error::Other(format!("no thread can be started: {error}")))?;
        observer.tell(&control);
        if let Some(address) = address {
            observer.tell(&format!("metrics at http://{address}/metrics"));
            if let Some(trouble) = not_here(address) {
                observer.tell(&trouble);
            }
        }
        Ok(server)
    }
}

/// Keeps all memory in RAM but what a gateway does not need.
fn lock_memory(service: &Service, observer: &mut dyn Observer) -> Result<(), Error> {
    realtime::lock_memory()?;
    for bytes in &service.unlocked {
        // It only takes more memory then.
        if let Err(error) = realtime::unlock_memory(bytes) {
            observer.tell(&error.to_string());
        }
    }
    Ok(())
}

/// A gateway at work, and what may change it.
struct Supervisor<'a> {
    shared: Arc<Shared>,
    path: PathBuf,
    monitor: Monitor,
    links: Links,
    follow: Follow,
    /// The file of the control socket.
    socket: SocketWatch,
    metrics: Option<SocketAddr>,
    until_end: bool,
    /// For how long the recordings have been over while something still waits to leave.
    leaving_ticks: u32,
    observer: &'a mut dyn Observer,
}

impl Supervisor<'_> {
    /// Whether nothing is left to replay, and what it caused has left.
    fn has_replayed(&mut self, replays: Replays) -> bool {
        match replays {
            Replays::Going => self.leaving_ticks = 0,
            Replays::Leaving if self.leaving_ticks < LEAVING_TICKS => self.leaving_ticks += 1,
            Replays::Leaving | Replays::Done | Replays::None => return true,
        }
        false
    }
}

impl Supervised for Supervisor<'_> {
    type Error = Error;
    type Loaded = Result<Loaded, Error>;

    fn came(&mut self, source: u64) -> Result<Next, Error> {
        if source == LINKS {
            links::follow(&self.shared, &mut self.monitor, &mut self.links, self.observer)?;
            return Ok(Next::Wait);
        }
        Ok(self.follow.look()?)
    }

    fn tick(&mut self) -> Result<Next, Error> {
        let replays = {
            let mut gateway = lock(&self.shared.gateway);
            gateway.tick();
            for line in gateway.news() {
                self.observer.tell(&line);
            }
            gateway.replays()
        };
        if let Some(line) = self.socket.news() {
            self.observer.tell(&line);
        }
        match self.until_end && self.has_replayed(replays) {
            true => Ok(Next::End),
            false => Ok(self.follow.look()?),
        }
    }

    fn reload(&mut self) -> Load<Self::Loaded> {
        let (shared, path) = (Arc::clone(&self.shared), self.path.clone());
        Box::new(move || change(&shared, &path))
    }

    fn loaded(&mut self, loaded: Self::Loaded) -> String {
        match loaded {
            Ok(loaded) => {
                let gateway = lock(&self.shared.gateway);
                self.observer.tell(&summary(&gateway, "changed"));
                let changes = counted(loaded.generation, "time");
                format!("{}, changed {changes}", counted(loaded.rules, "rule"))
            }
            Err(error) => {
                let error = error.to_string();
                self.observer.tell(&format!("the old rules stay in use: {}", error.trim_end()));
                "the rules on disk have errors, the old rules stay in use".to_owned()
            }
        }
    }

    fn troubles(&self) -> Vec<String> {
        let mut troubles = lock(&self.shared.gateway).troubles();
        troubles.extend(self.metrics.and_then(not_here));
        troubles
    }

    fn is_over(&self) -> bool {
        self.shared.is_ending.load(Ordering::Relaxed)
    }
}

/// That nobody reaches the metrics at this address, if no interface has it now.
fn not_here(metrics: SocketAddr) -> Option<String> {
    let is_any = metrics.ip().is_unspecified();
    let is_away = !is_any && udp::is_local(metrics) == Ok(false);
    is_away
        .then(|| format!("metrics at {metrics}: no interface of this machine has this address now"))
}

/// Whether the priority and CPUs that workers shall have can be had.
fn check_rights(service: &Service) -> Result<(), Error> {
    let config = service.gateway.clone();
    let attempt = std::thread::spawn(move || {
        if let Some(priority) = config.priority {
            realtime::set_policy(realtime::Task::This, realtime::Policy::Fifo(priority))?;
        }
        if !config.cpus.is_empty() {
            realtime::set_affinity(realtime::Task::This, &config.cpus)?;
        }
        Ok::<(), candor_linux::Error>(())
    });
    match attempt.join() {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(Error::Other("cannot set up a thread".to_owned())),
    }
}

fn summary(gateway: &Gateway, what: &str) -> String {
    let table = gateway.table();
    let ports: Vec<_> =
        table.buses.iter().map(|bus| format!("{} = {}", bus.name, bus.port)).collect();
    format!("{what}: {}, {}", counted(table.rules.len(), "rule"), ports.join(", "))
}

struct Shared {
    config: Config,
    rehearsal: Option<Rehearsal>,
    gateway: Mutex<Gateway>,
    /// Locked before the gateway: rules are read by one thread at a time.
    loading: Mutex<()>,
    is_ending: AtomicBool,
    /// It has ended. Changed with the gateway locked.
    is_stopped: AtomicBool,
}

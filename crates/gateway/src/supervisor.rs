//! [`run`]: a gateway as a service: it starts once per rule file, follows changes of the file, of
//! interfaces and signals, answers on its control socket, and ends in order.
//!
//! ```text
//!  signals, rule file, interfaces, a tick per second --> supervisor --> Gateway
//!  control socket, /metrics ------------------------------- lock --------^
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use candor_linux::clock;
use candor_linux::lock::{self as single, Lock};
use candor_linux::netlink::{Condition, Event, Link, Monitor};
use candor_linux::notify::{self, Notifier, State};
use candor_linux::poll::{Interest, Poll};
use candor_linux::realtime;
use candor_linux::signal::{Signal, Signals};
use candor_linux::watch::Watch;
use candor_time::{Monotonic, Nanos};

use crate::control::place::{Places, name_of};
use crate::control::{Access, Handler, Limits, Loaded, PlanLine, Rejected, Server};
use crate::metrics::{self, Exposure};
use crate::worker::lock;
use crate::{Config, Error, Gateway, Rules, Snapshot, read_rules};

/// How a gateway runs as a service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The gateway.
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
    /// End when all recordings have been replayed.
    pub until_end: bool,
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
const SIGNALS: u64 = 0;
const FILES: u64 = 1;
const LINKS: u64 = 2;

/// How often counters are rolled over, and how long requests from the control socket may wait for
/// what only the supervisor does.
const TICK: Nanos = Nanos::from_secs(1);

/// The signals that a service lives with. Open them before any thread is started.
///
/// # Errors
/// Too many files are open.
pub fn signals() -> Result<Signals, Error> {
    Ok(Signals::open(&Signal::ALL)?)
}

/// Runs a gateway until it is told to end. Returns what it has done.
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
    let notifier = Notifier::from_environment()?;
    let mut monitor = Monitor::open()?;
    let mut links = Links::new(&monitor.links()?);
    let mut watch = Watch::new()?;
    watch.add(&path)?;
    for file in included(&rules) {
        // A file that cannot be watched is read again with the next change.
        let _ = watch.add(&path.parent().unwrap_or(Path::new("")).join(file));
    }

    // What somebody else may have is taken before a port is opened.
    let access = match service.control_for_group {
        true => Access::Group,
        false => Access::Owner,
    };
    let listening = match &service.control {
        Some(place) => Server::bind(place, access),
        None => {
            let places = Places::of_process();
            Server::bind_first(&places.sockets(&name_of(&path)), access)
        }
    };
    let listening = listening.map_err(|error| Error::Other(error.to_string()))?;
    let exposure = match service.metrics_are_public {
        true => Exposure::Public,
        false => Exposure::Loopback,
    };
    let exporting = service.metrics.map(|address| metrics::Listening::bind(address, exposure));
    let exporting = exporting.transpose().map_err(|error| Error::Other(error.to_string()))?;

    let config = Config { file: path.clone(), ..service.gateway.clone() };
    let gateway = Gateway::start(config, rules)?;
    observer.tell(&summary(&gateway, "started"));
    let shared =
        Arc::new(Shared { gateway: Mutex::new(gateway), is_ending: AtomicBool::new(false) });
    let desk = Desk { shared: Arc::clone(&shared), file: path.clone(), claim, loaded: None };
    let desk = Arc::new(Mutex::new(desk));
    observer.tell(&format!("control socket {}", listening.path().display()));
    let io = |error: std::io::Error| Error::Other(format!("no thread can be started: {error}"));
    let server = listening.serve(Arc::clone(&desk), Limits::default()).map_err(io)?;
    let exporter = match exporting {
        None => None,
        Some(listening) => {
            observer.tell(&format!("metrics at http://{}/metrics", listening.address()));
            let shared = Arc::clone(&shared);
            let snapshot = move || lock(&shared.gateway).snapshot();
            Some(listening.serve(snapshot).map_err(io)?)
        }
    };
    if service.locks_memory {
        realtime::lock_memory()?;
        for bytes in &service.unlocked {
            // It only takes more memory then.
            if let Err(error) = realtime::unlock_memory(bytes) {
                observer.tell(&error.to_string());
            }
        }
    }

    let mut poll = Poll::new(4)?;
    poll.add(signals, Interest::Read, SIGNALS)?;
    poll.add(&watch, Interest::Read, FILES)?;
    poll.add(&monitor, Interest::Read, LINKS)?;
    let alive_every = notify::watchdog().map(|period| Nanos::from_nanos(period.as_nanos() / 3));
    let period = alive_every.map_or(TICK, |every| every.min(TICK));
    let mut next_tick = clock::now::<Monotonic>() + TICK;
    let _ = notifier.tell(&[State::Ready, State::Status("routing")]);
    while !shared.is_ending.load(Ordering::Relaxed) {
        let tokens: Vec<u64> = poll.wait(Some(period))?.collect();
        for token in tokens {
            match token {
                SIGNALS => match signals.take()? {
                    Some(Signal::Hangup) => reload(&shared, &path, &notifier, observer),
                    Some(Signal::Interrupt | Signal::Terminate) => {
                        shared.is_ending.store(true, Ordering::Relaxed);
                    }
                    None => {}
                },
                FILES => {
                    if !watch.changes()?.is_empty() {
                        reload(&shared, &path, &notifier, observer);
                    }
                }
                _ => follow(&shared, &mut monitor, &mut links, observer)?,
            }
        }
        let now = clock::now::<Monotonic>();
        if now >= next_tick {
            next_tick = now + TICK;
            // A folder that went away and returned is noticed by looking.
            if !watch.changes()?.is_empty() && path.exists() {
                reload(&shared, &path, &notifier, observer);
            }
            let mut gateway = lock(&shared.gateway);
            gateway.tick();
            for line in gateway.news() {
                observer.tell(&line);
            }
            if service.until_end && gateway.has_ended() {
                shared.is_ending.store(true, Ordering::Relaxed);
            }
        }
        if alive_every.is_some() {
            let _ = notifier.tell(&[State::Alive]);
        }
    }
    let _ = notifier.tell(&[State::Stopping]);
    drop(exporter);
    drop(server);
    let mut gateway = lock(&shared.gateway);
    gateway.stop();
    Ok(gateway.snapshot())
}

/// That no other process of this user, or of root, runs the rules of a file.
struct Claim {
    names: BTreeSet<PathBuf>,
    _locks: Vec<Lock>,
}

impl Claim {
    fn take(path: &Path) -> Result<Self, Error> {
        let names = names_of(path);
        let mut locks = Vec::with_capacity(names.len());
        for name in &names {
            match Lock::take(&name.display().to_string())? {
                single::Outcome::Taken(lock) => locks.push(lock),
                single::Outcome::Held(holder) => return Err(Error::Other(refusal(path, &holder))),
            }
        }
        Ok(Self { names, _locks: locks })
    }
}

/// What a rule file is called: as it was named and, if that is a symbolic link, what it leads to, both
/// in folders without links. A link that is changed later still has its own name.
fn names_of(path: &Path) -> BTreeSet<PathBuf> {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let named = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let names: BTreeSet<_> = named.into_iter().chain(path.canonicalize().ok()).collect();
    if names.is_empty() { BTreeSet::from([path.to_owned()]) } else { names }
}

fn refusal(path: &Path, holder: &single::Holder) -> String {
    let who = match holder.process {
        Some(process) => format!("process {process}"),
        None => format!("another process (it holds {})", holder.path.display()),
    };
    format!(
        "{}: {who} already runs these rules; stop it, or change its rules with `candor route load`",
        path.display()
    )
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

/// The files that rules were read with.
fn included(rules: &Rules) -> &[String] {
    &rules.included
}

fn summary(gateway: &Gateway, what: &str) -> String {
    let table = gateway.table();
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let ports: Vec<_> =
        table.buses.iter().map(|bus| format!("{} = {}", bus.name, bus.port)).collect();
    format!("{what}: {}, {}", count(table.rules.len(), "rule"), ports.join(", "))
}

/// Reads the rules again and puts them into place, or says why not.
fn reload(shared: &Shared, path: &Path, notifier: &Notifier, observer: &mut dyn Observer) {
    let _ = notifier.tell(&[State::Reloading]);
    let status = match change(shared, path) {
        Ok(loaded) => {
            let gateway = lock(&shared.gateway);
            observer.tell(&summary(&gateway, "changed"));
            format!("{} rules, changed {} times", loaded.rules, loaded.generation)
        }
        Err(error) => {
            observer.tell(&format!("the old rules stay in use: {}", error.to_string().trim_end()));
            "the rules on disk have errors, the old rules stay in use".to_owned()
        }
    };
    let _ = notifier.tell(&[State::Ready, State::Status(&status)]);
}

/// Reads rules and puts them into place.
fn change(shared: &Shared, path: &Path) -> Result<Loaded, Error> {
    let start = clock::now::<Monotonic>();
    // Read before the gateway is locked: that takes time.
    let rules = read_rules(path);
    let mut gateway = lock(&shared.gateway);
    match rules {
        Err(error) => {
            gateway.reject(&error);
            Err(error)
        }
        Ok(rules) => {
            let count = rules.table.rules.len() as u64;
            gateway.load(rules)?;
            Ok(Loaded {
                generation: gateway.changes(),
                rules: count,
                took_us: (clock::now::<Monotonic>() - start).as_nanos() / 1_000,
            })
        }
    }
}

/// What of an interface makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    index: u32,
    is_up: bool,
    is_bus_off: bool,
    mtu: u32,
}

impl Seen {
    fn of(link: &Link) -> Self {
        let condition = link.can.and_then(|can| can.condition());
        Self {
            index: link.index,
            is_up: link.is_up,
            is_bus_off: condition == Some(Condition::BusOff),
            mtu: link.mtu,
        }
    }

    /// What has become of it, for people.
    fn describe(self, before: Option<Self>) -> String {
        match before {
            Some(before) if before.index == self.index => match (self.is_up, self.is_bus_off) {
                (false, _) => "is down".into(),
                (true, true) => "is bus-off until its controller is restarted".into(),
                (true, false) if before.mtu != self.mtu => format!("has an MTU of {}", self.mtu),
                (true, false) => "is up".into(),
            },
            _ => "is there".into(),
        }
    }
}

/// The interfaces as they were seen last.
struct Links(BTreeMap<String, Seen>);

impl Links {
    fn new(links: &[Link]) -> Self {
        Self(links.iter().map(|link| (link.name.clone(), Seen::of(link))).collect())
    }
}

/// Does what interfaces make necessary that came, went or changed.
fn follow(
    shared: &Shared,
    monitor: &mut Monitor,
    links: &mut Links,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    while let Some(event) = monitor.next_event()? {
        let mut gateway = lock(&shared.gateway);
        let is_ours = |gateway: &Gateway, name: &str| {
            gateway.table().buses.iter().any(|bus| bus.interface() == name)
        };
        match event {
            Event::Changed(link) => {
                let now = Seen::of(&link);
                let before = links.0.insert(link.name.clone(), now);
                if before == Some(now) || !is_ours(&gateway, &link.name) {
                    continue;
                }
                let is_new = before.is_none_or(|before| before.index != now.index);
                if is_new || now.is_up {
                    gateway.heal(|name| name == link.name && is_new, &link.name);
                }
                let state = now.describe(before);
                observer.tell(&format!("interface {} {state}", link.name));
            }
            Event::Removed { name, .. } => {
                links.0.remove(&name);
                if is_ours(&gateway, &name) {
                    gateway.close(&name);
                    observer.tell(&format!("interface {name} disappeared"));
                }
            }
            Event::Missed => {
                let fresh = Links::new(&monitor.links()?);
                let earlier = std::mem::replace(&mut links.0, fresh.0);
                let is_new = |name: &str| {
                    links.0.get(name).is_some_and(|now| {
                        earlier.get(name).is_none_or(|before| before.index != now.index)
                    })
                };
                for name in earlier.keys().filter(|name| !links.0.contains_key(*name)) {
                    gateway.close(name);
                }
                gateway.heal(is_new, "");
            }
        }
    }
    Ok(())
}

struct Shared {
    gateway: Mutex<Gateway>,
    is_ending: AtomicBool,
}

/// Answers requests from the control socket.
struct Desk {
    shared: Arc<Shared>,
    file: PathBuf,
    /// Of the file that the gateway was started with.
    claim: Claim,
    /// Of another file that was loaded since.
    loaded: Option<Claim>,
}

impl Desk {
    /// Takes the claim on a file if it is not there yet; returns it if it is one of its own.
    fn claim(&self, file: &Path) -> Result<Option<Claim>, Error> {
        let claims = [Some(&self.claim), self.loaded.as_ref()];
        let names = names_of(file);
        let is_claimed = claims.into_iter().flatten().any(|claim| !claim.names.is_disjoint(&names));
        if is_claimed { Ok(None) } else { Claim::take(file).map(Some) }
    }
}

impl Handler for Desk {
    fn snapshot(&mut self) -> Snapshot {
        lock(&self.shared.gateway).snapshot()
    }

    fn load(&mut self, file: Option<&Path>) -> Result<Loaded, Rejected> {
        let file = file.unwrap_or(&self.file);
        let rejected = |error| match error {
            Error::Rules(findings) => Rejected::new(file, &findings),
            other => Rejected { message: other.to_string(), findings: Vec::new() },
        };
        let claim = self.claim(file).map_err(rejected)?;
        let loaded = change(&self.shared, file).map_err(rejected)?;
        if claim.is_some() {
            self.loaded = claim;
        }
        Ok(loaded)
    }

    fn plan(&mut self) -> Vec<PlanLine> {
        lock(&self.shared.gateway).plan_lines()
    }

    fn stop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn rules_run_once_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["v1.toml", "v2.toml"] {
            fs::write(at(name), "").unwrap();
        }
        symlink(at("v1.toml"), at("current.toml")).unwrap();
        symlink(at("current.toml"), at("alias.toml")).unwrap();
        symlink(&root, at("folder")).unwrap();
        let claim = Claim::take(&at("current.toml")).unwrap();
        let own = format!("process {} already runs these rules", std::process::id());
        for name in ["current.toml", "v1.toml", "alias.toml", "folder/v1.toml", "./current.toml"] {
            let message = Claim::take(&at(name)).err().expect(name).to_string();
            assert!(message.contains(&own) && message.contains("route load"), "{message}");
        }
        // The link is still taken when it leads elsewhere.
        fs::remove_file(at("current.toml")).unwrap();
        symlink(at("v2.toml"), at("current.toml")).unwrap();
        assert!(Claim::take(&at("current.toml")).is_err());
        assert!(Claim::take(&at("v2.toml")).is_ok());
        drop(claim);
        assert!(Claim::take(&at("current.toml")).is_ok());
        // A file that is not there is told by who reads it.
        assert_eq!(names_of(Path::new("/no/such/file")), [PathBuf::from("/no/such/file")].into());
    }
}

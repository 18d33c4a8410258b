//! The processes of an experiment, from their start to their reports.

use std::io;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use candor_lat::result::ResultFile;
use candor_linux::clock;
use candor_time::{Instant, Monotonic, Nanos};

use super::daemon::Daemon;
use super::evaluate::{Cost, Ran as Measured};
use super::worker::{Order, Worker, answer};
use super::{SignalService, SubscriberKind, evaluate, injector, server, subscriber, trace};
use crate::error::Error;
use crate::experiment::{Experiment, Run};
use crate::machine::Watched;
use crate::watch::Watch;

/// How long after the last frame an event may arrive.
const LAST_EVENT_TIMEOUT: Nanos = Nanos::from_secs(1);
/// How often is looked whether the user wants to stop.
const STOP_CHECK_INTERVAL: Nanos = Nanos::from_millis(100);

/// Runs one experiment with processes of this program.
pub(super) fn run(
    service: &SignalService,
    run: Run<'_>,
    program: &Path,
) -> Result<ResultFile, Error> {
    let Run { experiment, watch, .. } = run;
    let scratch = tempfile::Builder::new().prefix("candor-host-").tempdir();
    let scratch = scratch.map_err(|error| Error::write(&std::env::temp_dir(), error))?;
    let bed = Bed { program, experiment, service, scratch: scratch.path(), watch };
    let measured = bed.measure()?;
    evaluate::evaluate(run, service, &measured)
}

/// An experiment at work.
struct Bed<'a> {
    program: &'a Path,
    experiment: &'a Experiment,
    service: &'a SignalService,
    scratch: &'a Path,
    watch: &'a dyn Watch,
}

impl Bed<'_> {
    fn measure(&self) -> Result<Measured, Error> {
        let trace = self.scratch.join("trace.pcap");
        let bytes = trace::write(&trace, self.experiment, self.service)?;
        let port = free_port()?;
        let arrivals = self.arrivals();
        let is_inside = self.service.subscriber == SubscriberKind::InProcess;
        let daemon = match self.service.subscriber {
            SubscriberKind::Dbus => Some(Daemon::start(self.scratch)?),
            _ => None,
        };
        let mut server = self.start(
            "server",
            &Order::Server {
                port: format!("can2udp:127.0.0.1:{port}"),
                coalesce_ns: self.service.coalesce.as_nanos(),
                events: self.experiment.count,
                dbus: daemon.as_ref().map(|daemon| daemon.address.clone()),
                in_process: if is_inside { arrivals.clone() } else { Vec::new() },
            },
        )?;
        let url = server.ready()?;
        let url = daemon.as_ref().map_or(&url, |daemon| &daemon.address);
        let subscribers = self.subscribers(url, if is_inside { &[] } else { &arrivals })?;
        let departures = self.scratch.join("departures");
        let mut injector = self.start(
            "injector",
            &Order::Injector {
                trace,
                port: format!("can2udp:127.0.0.1:0?peer=127.0.0.1:{port}&version=1"),
                events: self.experiment.count,
                departures: departures.clone(),
            },
        )?;
        injector.ready()?;

        let watched = Watched::begin();
        let begin = clock::now::<Monotonic>();
        let before = costs(&server, &subscribers, daemon.as_ref())?;
        injector.tell("begin")?;
        self.attend(&mut injector, begin)?;
        let end = clock::now::<Monotonic>();
        let sent = injector.report()?;
        let _ = clock::sleep_until(end + LAST_EVENT_TIMEOUT);
        let after = costs(&server, &subscribers, daemon.as_ref())?;
        let machine = watched.end();
        let served = server.end()?;
        let mut heard = Vec::new();
        for subscriber in subscribers {
            heard.push(subscriber.end()?);
        }
        Ok(Measured {
            duration: end - begin,
            machine,
            cost: Cost {
                server: after.server - before.server,
                subscribers: after.subscribers - before.subscribers,
                daemon: after.daemon.zip(before.daemon).map(|(after, before)| after - before),
            },
            datagram_bytes: bytes,
            sent,
            served,
            heard,
            departures,
            arrivals,
        })
    }

    /// Starts a subscriber for each file of arrivals. They are ready.
    fn subscribers(&self, url: &str, arrivals: &[PathBuf]) -> Result<Vec<Worker>, Error> {
        let start = |arrivals: &PathBuf| {
            let order = Order::Subscriber {
                url: url.to_owned(),
                kind: self.service.subscriber,
                events: self.experiment.count,
                arrivals: arrivals.clone(),
            };
            self.start("subscriber", &order)
        };
        let mut subscribers = arrivals.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for subscriber in &mut subscribers {
            subscriber.ready()?;
        }
        Ok(subscribers)
    }

    /// Waits until everything was sent, and tells how far that is.
    fn attend(&self, injector: &mut Worker, begin: Instant<Monotonic>) -> Result<(), Error> {
        let count = self.experiment.count;
        let length = Nanos::from_secs(count / u64::from(self.service.rate_hz));
        while !injector.has_answered(STOP_CHECK_INTERVAL)? {
            let now = clock::now::<Monotonic>() - begin;
            let share = now.as_nanos() as f64 / length.as_nanos().max(1) as f64;
            if !self.watch.proceed(now, (count as f64 * share.min(1.0)) as u64) {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Where subscribers write when events arrived.
    fn arrivals(&self) -> Vec<PathBuf> {
        let many = match self.service.subscriber {
            SubscriberKind::None => 0,
            _ => self.service.subscribers,
        };
        (0..many).map(|number| self.scratch.join(format!("arrivals-{number}"))).collect()
    }

    fn start(&self, role: &'static str, order: &Order) -> Result<Worker, Error> {
        Worker::start(self.program, role, order)
    }
}

/// Does what the order in the first line of the standard input says: the body of such a process.
///
/// # Errors
/// The order makes no sense, or it cannot be carried out; in words.
pub fn work() -> Result<(), String> {
    let mut lines = io::stdin().lines();
    let Some(Ok(order)) = lines.next() else {
        return Err("there is no order; this command is for `candor lab run`".into());
    };
    let order = serde_json::from_str(&order).map_err(|error| {
        format!("the order cannot be read: {error}; this command is for `candor lab run`")
    })?;
    let mut next = || lines.next().and_then(Result::ok);
    let report = match order {
        Order::Server { port, coalesce_ns, events, dbus, in_process } => {
            let coalesce = Nanos::from_nanos(coalesce_ns);
            server::serve(&port, coalesce, dbus.as_deref(), (events, in_process), &mut next)
        }
        Order::Injector { trace, port, events, departures } => {
            injector::inject(&trace, &port, events, &departures, &mut next)
        }
        Order::Subscriber { url, kind, events, arrivals } => {
            subscriber::subscribe(&url, kind, events, &arrivals)
        }
    }?;
    answer(&report)
}

/// CPU time so far.
fn costs(server: &Worker, subscribers: &[Worker], daemon: Option<&Daemon>) -> Result<Cost, Error> {
    let mut of_subscribers = Nanos::ZERO;
    for subscriber in subscribers {
        of_subscribers += subscriber.cpu_time()?;
    }
    let daemon = daemon.map(Daemon::cpu_time).transpose()?;
    Ok(Cost { server: server.cpu_time()?, subscribers: of_subscribers, daemon })
}

/// A UDP port of loopback that nobody has.
fn free_port() -> Result<u16, Error> {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let fail = |error| Error::Other(format!("no UDP port of 127.0.0.1 can be had: {error}"));
    port.map(|address| address.port()).map_err(fail)
}

//! What came of a run: which event arrived when at whom, and what it cost.

use std::path::PathBuf;

use candor_causes::Cause;
use candor_diagnostics::counted;
use candor_lat::account::{Copies, End, Terms};
use candor_lat::section::{Row, Sections};
use candor_lat::{Tap, TapPath, Taps};
use candor_time::Nanos;

use super::SignalService;
use super::times::{self, NEVER};
use super::worker::Report;
use crate::builder::{Copied, ResultBuilder, Sight};
use crate::error::Error;
use crate::experiment::Run;
use crate::machine::HostMachine;
use crate::result::{ResultFile, Stopped, row_of};
use crate::sections::{HOST, PROCESSES, SERVICE};

/// What the processes did.
pub(super) struct Ran {
    /// From the first frame to the last.
    pub(super) duration: Nanos,
    pub(super) machine: HostMachine,
    pub(super) cost: Cost,
    /// Bytes of UDP that were to be sent.
    pub(super) datagram_bytes: u64,
    pub(super) sent: Report,
    pub(super) served: Report,
    pub(super) heard: Vec<Report>,
    pub(super) departures: PathBuf,
    pub(super) arrivals: Vec<PathBuf>,
}

/// CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) server: Nanos,
    /// Of all of them together.
    pub(super) subscribers: Nanos,
    /// Of the message bus, if there is one.
    pub(super) daemon: Option<Nanos>,
}

/// A sender that is so late did not send at the rate that was wanted.
const VERY_LATE: Nanos = Nanos::from_millis(10);

/// Makes the result.
pub(super) fn evaluate(
    run: Run<'_>,
    service: &SignalService,
    ran: &Ran,
) -> Result<ResultFile, Error> {
    let departures = times::read(&ran.departures)?;
    let arrivals: Result<Vec<_>, _> = ran.arrivals.iter().map(|path| times::read(path)).collect();
    let arrivals = arrivals?;
    let terms = Terms {
        is_exact: departures.len() * arrivals.len().max(1) <= MOST_EXACT,
        copies: Copies::Every,
        ..Terms::new(TapPath::SIGNAL_SERVICE)
    };
    let sight = Sight { taps: TapPath::SIGNAL_SERVICE.taps(), has_rules: false };
    let mut builder = ResultBuilder::new(terms, sight, run);
    for (number, left_ns) in (0_u64..).zip(&departures) {
        if *left_ns == NEVER {
            continue;
        }
        for arrivals in &arrivals {
            let arrived = arrivals.get(number as usize).copied().filter(|time| *time != NEVER);
            let taps = taps(*left_ns, arrived);
            builder.line(&Copied {
                end: end_of(0, number, &taps),
                sent: None,
                received: arrived.is_some().then_some(&"event"),
                passed: "delivered",
                rule: "",
            });
        }
    }
    // The account takes them in the order of their ends, stream by stream.
    let left = || (0_u64..).zip(&departures).filter(|(_, left_ns)| **left_ns != NEVER);
    for (stream, arrivals) in (0..).zip(&arrivals) {
        let arrived = |number: u64| arrivals.get(number as usize).filter(|time| **time != NEVER);
        let mut events: Vec<_> = left().collect();
        events.sort_by_key(|(number, _)| arrived(*number));
        for (number, left_ns) in events {
            let taps = taps(*left_ns, arrived(number).copied());
            builder.account.end(&end_of(stream, number, &taps));
        }
    }
    let copies_lost: u64 = builder.account.stopped().values().sum();
    let sent = builder.run.experiment.count;
    builder.account.close(sent);
    let mut counts = builder.account.counts();
    if arrivals.is_empty() {
        // Nobody subscribes, so the events that the service made are what arrived.
        counts.received = ran.served.events.min(sent);
        counts.lost = sent - counts.received;
    }
    let subscribers = arrivals.len() as u64;
    let all_lost = copies_lost + ran.sent.lost * subscribers;
    let all_lost = if arrivals.is_empty() { counts.lost } else { all_lost };
    let first = ran.heard.first().copied().unwrap_or_default();
    let bytes_per_event =
        (first.events > 0 && first.bytes > 0).then(|| first.bytes as f64 / first.events as f64);
    let served = SERVICE.row([
        ran.served.events.into(),
        ran.datagram_bytes.into(),
        bytes_per_event.into(),
        u64::from(service.subscribers).min(subscribers).into(),
    ]);
    Ok(ResultFile {
        duration_ns: ran.duration.as_nanos(),
        counts,
        stopped: stopped(ran, subscribers, all_lost),
        notes: notes(ran),
        sections: Sections::default()
            .with_one(&SERVICE, served)
            .with(&PROCESSES, processes(ran, subscribers))
            .with_one(&HOST, row_of(&ran.machine)),
        ..builder.finish()?
    })
}

/// The way of an event to a subscriber.
fn taps(left_ns: u64, arrived: Option<u64>) -> Taps {
    let taps = Taps::new(TapPath::SIGNAL_SERVICE).with(Tap::Queued, left_ns);
    arrived.map_or(taps, |at_ns| taps.with(Tap::Delivered, at_ns))
}

fn end_of(stream: u32, number: u64, taps: &Taps) -> End<'_> {
    let stopped_by = taps.at(Tap::Delivered).is_none().then_some(Cause::Unexplained);
    End { stream: Some(stream), number, taps, known_ns: 0, stopped_by }
}

/// Where frames and events were stopped, of which `all_lost` did not arrive.
fn stopped(ran: &Ran, subscribers: u64, all_lost: u64) -> Vec<Stopped> {
    let overflow = ran.served.lost;
    let missed: u64 = ran.heard.iter().map(|report| report.lost).sum();
    let explained = missed + (overflow + ran.sent.lost) * subscribers.max(1);
    let mut stopped = vec![
        Stopped::new("sender", "", Cause::SenderQueueFull, ran.sent.lost),
        Stopped::new("service", "", Cause::SocketFull, overflow),
        Stopped::new("subscriber", "", Cause::QueueFull, missed),
        Stopped::new("service", "", Cause::Unexplained, all_lost.saturating_sub(explained)),
    ];
    stopped.retain(|stopped| stopped.frames > 0);
    stopped
}

/// The CPU time of the processes by what they do.
fn processes(ran: &Ran, subscribers: u64) -> Vec<Row> {
    let window = (ran.duration.as_nanos() * ran.machine.cpus as u64).max(1);
    let events = ran.served.events;
    let process = |name: &str, processes: u64, cpu: Nanos| {
        let cpu_ns = cpu.as_nanos();
        let per_event = (events > 0).then(|| cpu_ns as f64 / events as f64);
        let percent = (cpu_ns as f64 / window as f64 * 100.0 * 1_000.0).round() / 1_000.0;
        PROCESSES.row([
            name.into(),
            processes.into(),
            cpu_ns.into(),
            per_event.into(),
            percent.into(),
        ])
    };
    let mut processes = vec![process("server", 1, ran.cost.server)];
    if !ran.heard.is_empty() {
        processes.push(process("subscriber", subscribers, ran.cost.subscribers));
    }
    processes.extend(ran.cost.daemon.map(|cpu| process("dbus-daemon", 1, cpu)));
    processes
}

/// Latencies that are kept one by one.
const MOST_EXACT: usize = 2_000_000;

/// What makes the figures doubtful.
fn notes(ran: &Ran) -> Vec<String> {
    let mut notes = Vec::from_iter(ran.machine.doubt());
    let latest = Nanos::from_nanos(ran.sent.latest_ns);
    if latest > VERY_LATE {
        notes.push(format!(
            "a frame left {} late; what came after that was not late for it",
            Nanos::from_micros(latest.as_nanos() / 1_000)
        ));
    }
    if ran.sent.lost > 0 {
        notes.push(format!("the sender could not send {}", counted(ran.sent.lost, "frame")));
    }
    notes
}

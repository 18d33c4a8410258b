//! The live gateway, as `candor route run` runs it in user space: the same threads, queues and
//! sockets.

use std::fs;

use candor_engine::Table;
use candor_gateway::plane::{CANDOR_CAN, Choice};
use candor_gateway::{Config, Gateway, Rules};
use candor_linux::clock::{self, Switches};
use candor_linux::realtime::threads_of;
use candor_protocol::order::Measurement;
use candor_protocol::report::JobCount;
use candor_time::{Monotonic, Nanos};

use super::Tally;
use super::command::{cpu, switches};
use crate::failure::{Context, FAULT, Failure};

const PLACE: &str = "gateway";
/// How long its threads may take to wait for frames.
const START_TIMEOUT: Nanos = Nanos::from_secs(5);

/// The gateway at work.
pub(crate) struct Running {
    gateway: Gateway,
    before: ThreadUsage,
}

/// What its threads have used.
#[derive(Clone, Copy, Default)]
struct ThreadUsage {
    cpu: Nanos,
    switches: Switches,
}

impl Running {
    pub(super) fn start(
        order: &Measurement,
        measures: bool,
        port: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut table = order.rules.clone();
        for bus in table.buses.iter_mut().filter(|bus| !bus.is_virtual) {
            bus.port = match (port, order.settings.receive_buffer) {
                (Some(port), _) => port.replace("{interface}", &bus.port),
                (None, Some(bytes)) => format!("{}?buffer={bytes}", bus.port),
                (None, None) => continue,
            };
        }
        let gateway = start(order, Config { measures, ..Config::default() }, table)?;
        wait_until_idle()?;
        Ok(Self { gateway, before: usage()? })
    }

    /// Its rules run in the interrupt handler of candor_can.
    pub(super) fn in_handler(order: &Measurement) -> Result<Self, Failure> {
        let mut table = order.rules.clone();
        for bus in table.buses.iter_mut().filter(|bus| !bus.is_virtual) {
            bus.port = order.driver.port(&bus.port);
        }
        let config = Config { choice: Choice::Only(&CANDOR_CAN), ..Config::default() };
        Ok(Self { gateway: start(order, config, table)?, before: usage()? })
    }

    /// Ends it, and gives what it has counted then.
    pub(super) fn stop(mut self) -> Result<Tally, Failure> {
        let after = usage()?;
        self.gateway.stop();
        Ok(self.counted(after))
    }

    pub(super) fn tally(&self) -> Result<Tally, Failure> {
        Ok(self.counted(usage()?))
    }

    fn counted(&self, after: ThreadUsage) -> Tally {
        let snapshot = self.gateway.snapshot();
        let mut tally = Tally {
            cpu: Nanos::from_nanos(after.cpu.as_nanos().saturating_sub(self.before.cpu.as_nanos())),
            switches: after.switches.since(self.before.switches),
            ..Tally::default()
        };
        for port in &snapshot.ports {
            tally.overflow += port.overflow_frames;
            if port.step_limit > 0 {
                tally.notes.push(format!(
                    "the driver's own measure of {}: at most {} of {} steps, {} ns from the interrupt until a frame was passed on",
                    port.bus, port.most_steps, port.step_limit, port.longest_ns
                ));
            }
        }
        for rule in &snapshot.rules {
            let refused = |cause: &str| rule.stopped.get(cause).copied().unwrap_or(0);
            tally.refused += refused("queue_full");
            tally.jobs.push(JobCount {
                handled: rule.handled,
                dropped: refused("down") + refused("queue_full") + refused("unsupported"),
                deleted: refused("hop_limit") + refused("too_long"),
                causes: rule.stopped.iter().map(|(cause, count)| (cause.clone(), *count)).collect(),
            });
        }
        for latency in &snapshot.latencies {
            tally.notes.push(format!(
                "the gateway's own measure from {} to {}: {} frames, p50 {} ns, p99 {} ns, max {} ns",
                latency.from, latency.to, latency.count, latency.p50_ns, latency.p99_ns, latency.max_ns
            ));
        }
        tally
    }
}

fn start(order: &Measurement, config: Config, table: Table) -> Result<Gateway, Failure> {
    let priority = Some(order.settings.gateway_priority).filter(|&priority| priority > 0);
    let rules = Rules { table, ..Rules::default() };
    Gateway::start(Config { priority, ..config }, rules)
        .map_err(|error| Failure::new(PLACE, error.to_string(), "see the rules"))
}

/// The threads of the gateway by their names.
fn threads() -> Result<Vec<u32>, Failure> {
    let own = threads_of(std::process::id()).at(PLACE, FAULT)?;
    let is_ours = |name: &str| name.starts_with("in/") || name.starts_with("out/");
    Ok(own.into_iter().filter(|thread| is_ours(&thread.name)).map(|thread| thread.id).collect())
}

fn read(thread: u32, name: &str) -> String {
    let path = format!("/proc/{}/task/{thread}/{name}", std::process::id());
    fs::read_to_string(path).unwrap_or_default()
}

fn usage() -> Result<ThreadUsage, Failure> {
    let mut usage = ThreadUsage::default();
    for thread in threads()? {
        usage.cpu += cpu(&read(thread, "schedstat"));
        let more = switches(&read(thread, "status"));
        usage.switches.voluntary += more.voluntary;
        usage.switches.involuntary += more.involuntary;
    }
    Ok(usage)
}

/// Waits until all its threads sleep: they wait for frames.
fn wait_until_idle() -> Result<(), Failure> {
    let end = clock::now::<Monotonic>() + START_TIMEOUT;
    loop {
        clock::sleep_until(clock::now::<Monotonic>() + Nanos::from_millis(1)).at(PLACE, FAULT)?;
        let threads = threads()?;
        let sleeps = |&thread: &u32| {
            // The state follows the name, which ends with the last parenthesis.
            let stat = read(thread, "stat");
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
        };
        if !threads.is_empty() && threads.iter().all(sleeps) {
            return Ok(());
        }
        if clock::now::<Monotonic>() > end {
            return Err(Failure::new(PLACE, "its threads never came to rest", FAULT));
        }
    }
}

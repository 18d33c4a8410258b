//! The gateways under test.

mod coalesce;
mod command;
mod egress;
mod engine;
mod fast;
mod live;
mod read_write;

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use candor_bed::interface;
use candor_bed::order::{Gateway, Measurement};
use candor_bed::report::JobCount;
use candor_linux::Errno;
use candor_linux::clock::{self, Switches, ThreadCpu, Usage};
use candor_linux::quick::leave_shared_files;
use candor_linux::realtime::{Policy, Task, set_policy};
use candor_time::{Instant, Nanos};

use crate::bed::Bed;
use crate::failure::{Context, FAULT, Failure};
use crate::kernel::Jobs;

/// What a gateway counted and used.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) jobs: Vec<JobCount>,
    /// Frames that its sockets lost.
    pub(crate) overflow: u64,
    /// Frames that the queues of its interfaces refused.
    pub(crate) refused: u64,
    pub(crate) cpu: Nanos,
    pub(crate) switches: Switches,
    pub(crate) notes: Vec<String>,
}

/// A gateway at work.
pub(crate) enum Running {
    /// There is none.
    None,
    /// In the kernel.
    Kernel(Jobs),
    /// In a thread of this process.
    Thread(JoinHandle<Result<Tally, Failure>>),
    /// The live gateway, in threads of its own.
    Live(Box<live::Running>),
    /// A process of its own.
    Command(command::Running),
}

/// Starts the gateway and waits until it is ready.
pub(crate) fn start(order: &Measurement, bed: &mut Bed) -> Result<Running, Failure> {
    match &order.gateway {
        Gateway::None => Ok(Running::None),
        Gateway::Kernel => {
            let jobs = Jobs::add(&mut bed.netlink, &order.rules)?;
            match jobs.refused.first() {
                None => Ok(Running::Kernel(jobs)),
                Some(&(rule, errno)) => {
                    let rule = order.rules.rules.get(rule as usize);
                    let name = rule.map_or("", |rule| &rule.name);
                    let reason = format!("the kernel refuses rule `{name}`: {}", Errno(errno));
                    let remedy = "check it with `candor route check`, or take another gateway";
                    Err(Failure::new("can-gw", reason, remedy))
                }
            }
        }
        Gateway::Engine => in_thread(order, engine::run),
        Gateway::EngineFast => in_thread(order, fast::run),
        Gateway::ReadWrite => in_thread(order, read_write::run),
        Gateway::Live { measures } => {
            Ok(Running::Live(Box::new(live::Running::start(order, *measures)?)))
        }
        Gateway::Command(argv) => Ok(Running::Command(command::Running::start(order, argv)?)),
    }
}

impl Running {
    /// Ends it.
    pub(crate) fn stop(self, bed: &mut Bed) -> Result<Tally, Failure> {
        match self {
            Self::None => Ok(Tally::default()),
            Self::Kernel(jobs) => {
                let jobs = jobs.counts(&mut bed.netlink)?;
                // What the kernel drops it drops because a queue is full: all interfaces are up.
                let refused = jobs.iter().map(|job| job.dropped).sum();
                Ok(Tally { jobs, refused, ..Tally::default() })
            }
            Self::Command(running) => {
                let mut tally = running.stop()?;
                for name in [interface::SOURCE, interface::TARGET] {
                    tally.refused += bed.netlink.queue(name).at("gateway", FAULT)?.drops;
                }
                Ok(tally)
            }
            Self::Live(running) => running.stop(),
            Self::Thread(thread) => {
                bed.stop_gateway()?;
                thread.join().map_err(|_| Failure::new("gateway", "it panicked", FAULT))?
            }
        }
    }
}

/// How a gateway is scheduled.
fn policy(priority: u8) -> Policy {
    match priority {
        0 => Policy::Other,
        priority => Policy::Fifo(priority),
    }
}

/// Runs a gateway in a thread of its own. It is to call its last argument when it is ready.
fn in_thread(
    order: &Measurement,
    body: fn(&Measurement, &mut dyn FnMut()) -> Result<Tally, Failure>,
) -> Result<Running, Failure> {
    let (ready, is_ready) = sync_channel(1);
    let order = order.clone();
    let thread = Builder::new().name("gateway".into()).spawn(move || {
        let policy = policy(order.settings.gateway_priority);
        set_policy(Task::This, policy).at("gateway", "take a priority from 0 to 99")?;
        // As if it were a program of its own.
        leave_shared_files().at("gateway", FAULT)?;
        body(&order, &mut || {
            // If nobody waits any more, the guest is at its end.
            let _ = ready.send(());
        })
    });
    let thread = thread.at("gateway", FAULT)?;
    if is_ready.recv().is_err() {
        // It ended before it was ready, and says why.
        let outcome = thread.join().map_err(|_| Failure::new("gateway", "it panicked", FAULT))?;
        outcome?;
        return Err(Failure::new("gateway", "it ended at once", FAULT));
    }
    Ok(Running::Thread(thread))
}

/// What a thread uses from now on.
struct Meter {
    cpu: Instant<ThreadCpu>,
    switches: Switches,
}

impl Meter {
    fn start() -> Self {
        Self { switches: Usage::of_thread().switches, cpu: clock::now::<ThreadCpu>() }
    }

    fn stop(self, tally: &mut Tally) {
        let switches = Usage::of_thread().switches;
        tally.cpu = clock::now::<ThreadCpu>() - self.cpu;
        tally.switches = Switches {
            voluntary: switches.voluntary - self.switches.voluntary,
            involuntary: switches.involuntary - self.switches.involuntary,
        };
    }
}

/// Whether an error says that the interface was stopped: the way in which a gateway is ended.
fn is_stopped(error: &candor_linux::Error) -> bool {
    error.errno().and_then(Errno::name) == Some("ENETDOWN")
}

//! The gateways under test.

mod coalesce;
mod command;
mod egress;
mod engine;
mod fast;
mod live;
mod read_write;

use candor_bed::channel;
use candor_bed::interface;
use candor_bed::order::{Gateway, Measurement};
use candor_bed::report::JobCount;
use candor_linux::Errno;
use candor_linux::clock::{self, Switches, ThreadCpu, Usage};
use candor_linux::quick::{ThreadApart, spawn_apart};
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
    Thread(ThreadApart),
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
                    let remedy = "check it with `candor route check`, or use another gateway";
                    Err(Failure::new("can-gw", reason, remedy))
                }
            }
        }
        Gateway::Engine | Gateway::EngineFast | Gateway::ReadWrite => in_thread(order),
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
                outcome(thread)
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

/// Runs a gateway in a thread with files of its own, as if it were a program.
fn in_thread(order: &Measurement) -> Result<Running, Failure> {
    let thread = spawn_apart("gateway", channel::encode(order), apart).at("gateway", FAULT)?;
    if !thread.wait_until_ready() {
        // It ended before it was ready, and says why.
        outcome(thread)?;
        return Err(Failure::new("gateway", "it ended at once", FAULT));
    }
    Ok(Running::Thread(thread))
}

/// What such a thread hands over: what it counted in the order of [`Tally`], or why it failed.
type Report = Result<(Vec<JobCount>, u64, u64, u64, (u64, u64), Vec<String>), String>;

/// The gateway that an order asks for. It calls `ready` when it is.
fn apart(order: &[u8], ready: &mut dyn FnMut()) -> Vec<u8> {
    let mut run = || {
        let order = channel::decode::<Measurement>(order, 0).at("gateway", FAULT)?;
        let (order, _) = order.ok_or_else(|| Failure::new("gateway", "it has no order", FAULT))?;
        let policy = policy(order.settings.gateway_priority);
        set_policy(Task::This, policy).at("gateway", "use a priority from 0 to 99")?;
        match order.gateway {
            Gateway::EngineFast => fast::run(&order, ready),
            Gateway::ReadWrite => read_write::run(&order, ready),
            _ => engine::run(&order, ready),
        }
    };
    let reported: Report = run().map_err(|failure| failure.to_string()).map(|tally| {
        let Tally { jobs, overflow, refused, cpu, switches, notes } = tally;
        let switches = (switches.voluntary, switches.involuntary);
        (jobs, overflow, refused, cpu.as_nanos(), switches, notes)
    });
    channel::encode(&reported)
}

/// What a thread counted, or why it failed.
fn outcome(thread: ThreadApart) -> Result<Tally, Failure> {
    let bytes = thread.join().at("gateway", FAULT)?;
    let bytes = bytes.ok_or_else(|| Failure::new("gateway", "it panicked", FAULT))?;
    let reported = channel::decode::<Report>(&bytes, 0).at("gateway", FAULT)?;
    let (reported, _) =
        reported.ok_or_else(|| Failure::new("gateway", "it does not answer", FAULT))?;
    let (jobs, overflow, refused, cpu_ns, (voluntary, involuntary), notes) =
        reported.map_err(Failure::reported)?;
    let switches = Switches { voluntary, involuntary };
    Ok(Tally { jobs, overflow, refused, cpu: Nanos::from_nanos(cpu_ns), switches, notes })
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

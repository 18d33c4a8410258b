//! The gateways under test.

mod apart;
mod command;
mod live;
mod read_write;
mod reader;
mod slave;

use candor_linux::Errno;
use candor_linux::clock::Switches;
use candor_linux::realtime::Policy;
use candor_protocol::interface;
use candor_protocol::order::{Gateway, Measurement};
use candor_protocol::report::{JobCount, Stamp};
use candor_time::Nanos;

use crate::failure::{Context, FAULT, Failure};
use crate::kernel::Jobs;
use crate::testbed::TestBed;

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
    /// When a reader had each frame.
    pub(crate) delivered: Vec<Stamp>,
    pub(crate) notes: Vec<String>,
}

/// A gateway at work.
pub(crate) enum Running {
    /// There is none.
    None,
    /// In the kernel.
    Kernel(Jobs),
    /// A loop in a thread with files of its own.
    Apart(apart::Running),
    /// The live gateway, in threads of its own.
    Live(Box<live::Running>),
    /// A process of its own.
    Command(command::Running),
}

/// Starts the gateway and waits until it is ready.
pub(crate) fn start(order: &Measurement, bed: &mut TestBed) -> Result<Running, Failure> {
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
        Gateway::ReadWrite => Ok(Running::Apart(read_write::start(order)?)),
        Gateway::Reader => Ok(Running::Apart(reader::start(order)?)),
        Gateway::Slave => Ok(Running::Apart(slave::start(order)?)),
        Gateway::Live { measures, port } => {
            let running = live::Running::start(order, *measures, port.as_deref())?;
            Ok(Running::Live(Box::new(running)))
        }
        Gateway::Command(argv) => Ok(Running::Command(command::Running::start(order, argv)?)),
    }
}

impl Running {
    /// Ends it.
    pub(crate) fn stop(self, bed: &mut TestBed) -> Result<Tally, Failure> {
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
                for name in interface::OF_GATEWAY {
                    tally.refused += bed.netlink.queue(name).at("gateway", FAULT)?.drops;
                }
                Ok(tally)
            }
            Self::Live(running) => running.stop(),
            Self::Apart(running) => {
                bed.stop_gateway()?;
                running.stop()
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

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

impl Tally {
    /// Without what it was before.
    fn since(mut self, before: &Self) -> Self {
        for (now, before) in self.jobs.iter_mut().zip(&before.jobs) {
            now.handled -= before.handled;
            now.dropped -= before.dropped;
            now.deleted -= before.deleted;
            for (cause, count) in &mut now.causes {
                let before = before.causes.iter().find(|(other, _)| other == cause);
                *count -= before.map_or(0, |(_, count)| *count);
            }
        }
        self.overflow -= before.overflow;
        self.refused -= before.refused;
        self.cpu = Nanos::from_nanos(self.cpu.as_nanos().saturating_sub(before.cpu.as_nanos()));
        self.switches = self.switches.since(before.switches);
        self
    }
}

/// A gateway at work.
pub(crate) enum Running {
    None,
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
        Gateway::CandorCan => Ok(Running::Live(Box::new(live::Running::in_handler(order)?))),
        Gateway::Command(argv) => Ok(Running::Command(command::Running::start(order, argv)?)),
    }
}

impl Running {
    /// What it has counted and used so far; a loop apart counts from here on.
    pub(crate) fn tally(&mut self, bed: &mut TestBed) -> Result<Tally, Failure> {
        match self {
            Self::None => Ok(Tally::default()),
            Self::Kernel(jobs) => {
                let jobs = jobs.counts(&mut bed.netlink)?;
                // What the kernel drops it drops because a queue is full: all interfaces are up.
                let refused = jobs.iter().map(|job| job.dropped).sum();
                Ok(Tally { jobs, refused, ..Tally::default() })
            }
            Self::Command(running) => {
                let mut tally = running.tally()?;
                for name in interface::OF_GATEWAY {
                    tally.refused += bed.netlink.queue(name).at("gateway", FAULT)?.drops;
                }
                Ok(tally)
            }
            Self::Live(running) => running.tally(),
            Self::Apart(_) => {
                apart::count_anew();
                Ok(Tally::default())
            }
        }
    }

    /// Ends it. What it has counted and used since `before`.
    pub(crate) fn stop(mut self, before: &Tally, bed: &mut TestBed) -> Result<Tally, Failure> {
        let tally = match self {
            Self::Apart(running) => {
                bed.stop_gateway()?;
                running.stop()
            }
            Self::Live(running) => running.stop(),
            Self::None | Self::Kernel(_) => self.tally(bed),
            Self::Command(_) => {
                let tally = self.tally(bed);
                if let Self::Command(running) = self {
                    running.stop()?;
                }
                tally
            }
        }?;
        Ok(tally.since(before))
    }
}

/// How a gateway is scheduled.
fn policy(priority: u8) -> Policy {
    match priority {
        0 => Policy::Other,
        priority => Policy::Fifo(priority),
    }
}

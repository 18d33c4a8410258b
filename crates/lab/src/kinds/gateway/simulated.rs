//! CAN buses and the host of their gateway in virtual time.

mod collector;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use candor_causes::Cause;
use candor_diagnostics::{by_count, counted};
use candor_lat::section::Sections;
use candor_sim::{
    BusId, Discipline, Drive, HostId, Port, Random, SenderConfig, SenderId, Time, World,
};
use candor_time::Nanos;

use candor_recording::RecordingError;

use self::collector::{Collector, Way};
use super::doubt::{self, Demand, Left, Metered, Waits};
use super::messages::Messages;
use super::rules::Rules;
use super::settings::{CanGateway, Pace, Sim, Traffic};
use super::sources::{self, Allowance, Periodic, Replay};
use crate::buses::{bus_config, bus_counts};
use crate::error::Error;
use crate::experiment::{Experiment, Run};
use crate::result::{ResultFile, Stopped};
use crate::sections::{self, BUSES, MESSAGES, RULES};

/// The depth of the transmit queue of a tester (the papers set `txqueuelen` to 200).
const SENDER_QUEUE: usize = 200;
/// Recordings with coarse time stamps come in bursts; each was on a bus, so none is refused lightly.
const REPLAY_QUEUE: usize = 1 << 16;
/// A flooding sender needs one frame on the wire and one behind it.
const FLOOD_QUEUE: usize = 2;

/// Runs one experiment.
///
/// # Errors
/// An input ends in an error, lines cannot be written, or the run was interrupted.
pub(super) fn run(run: Run<'_>, (can, settings): (&CanGateway, &Sim)) -> Result<ResultFile, Error> {
    let mut scene = Scene::new(run.experiment, can, settings)?;
    let jobs = scene.jobs(can);
    let (way, waits) = (scene.way(can), Waits::new(can));
    let messages = Messages::new(can);
    let mut collector = Collector::new(run, jobs, way, waits, messages, can.late_after_ns());
    let finished = scene.world.run(&mut collector);
    collector.builder.check()?;
    if let Some(error) = scene.replay_failure.as_ref().and_then(|failure| failure.take()) {
        return Err(Error::Other(error.to_string()));
    }
    if !finished {
        return Err(Error::Interrupted);
    }
    scene.result((can, settings), collector)
}

/// The world of an experiment.
struct Scene {
    world: World<Rules>,
    buses: Vec<BusId>,
    senders: Vec<SenderId>,
    gateway: Option<HostId>,
    /// By bus: the port of the gateway, if it is connected.
    ports: Vec<Option<Port>>,
    replay_failure: Option<Rc<RefCell<Option<RecordingError>>>>,
    error_reports: Rc<Cell<u64>>,
    /// What each bus is to carry.
    demands: Vec<Rc<RefCell<Demand>>>,
}

impl Scene {
    fn new(experiment: &Experiment, can: &CanGateway, settings: &Sim) -> Result<Self, Error> {
        let mut world = World::new(experiment.seed);
        let buses: Vec<_> = can
            .network
            .buses
            .iter()
            .zip(&settings.faults)
            .map(|(bus, faults)| world.add_bus(bus_config(bus, *faults)))
            .collect();
        let mut ports = vec![None; buses.len()];
        let gateway = settings.model.as_ref().zip(can.rules()).map(|(model, rules)| {
            let host = world.add_host(model.clone(), Rules::new(rules));
            for bus in &rules.buses {
                let named = can.network.buses.iter().position(|config| config.name == bus.name);
                match named.filter(|_| !bus.is_virtual) {
                    Some(index) => ports[index] = Some(world.connect(host, buses[index])),
                    None => drop(world.add_virtual_port(host)),
                }
            }
            host
        });
        // Somebody acknowledges on every bus.
        for &bus in &buses {
            world.add_listener(bus);
        }
        if let Some(instrument) = settings.instrument {
            world.set_instrument(instrument);
        }
        let mut scene = Self {
            world,
            buses,
            senders: Vec::new(),
            gateway,
            ports,
            replay_failure: None,
            error_reports: Rc::default(),
            demands: can.network.buses.iter().map(|_| Rc::default()).collect(),
        };
        scene.add_senders(experiment, can, settings)?;
        Ok(scene)
    }

    fn add_senders(
        &mut self,
        experiment: &Experiment,
        can: &CanGateway,
        settings: &Sim,
    ) -> Result<(), Error> {
        let allowance: Allowance = Rc::new(Cell::new(experiment.count));
        // The papers' tester has one transmit buffer: its driver loads the next frame only after
        // the interrupt.
        let reload = settings.instrument.map_or(Nanos::ZERO, |instrument| {
            instrument.interrupt + instrument.transmit_done + instrument.reload
        });
        let config = |drive, discipline, depth| SenderConfig {
            drive,
            discipline,
            depth,
            reload,
            fault_rate: 0.0,
        };
        match &can.traffic {
            Traffic::Numbered { frames, pace, timeout } => {
                let (drive, depth) = match *pace {
                    Pace::OneAtATime { turnaround } => {
                        (Drive::OneAtATime { turnaround, timeout: *timeout }, SENDER_QUEUE)
                    }
                    Pace::OpenLoop { .. } => (Drive::Timed, REPLAY_QUEUE),
                    Pace::Half => (Drive::Paced { period_percent: 200 }, SENDER_QUEUE),
                    Pace::Flood { .. } => (Drive::Flood, FLOOD_QUEUE),
                };
                let gaps = match *pace {
                    Pace::OpenLoop { gap } => Some((gap, Random::new(experiment.seed, 4 << 32))),
                    _ => None,
                };
                let source = frames.clone().source(allowance, gaps);
                let mut config = config(drive, Discipline::Fifo, depth);
                if let Pace::Flood { gap } = *pace {
                    config.reload = config.reload.max(gap);
                }
                self.senders.push(self.world.add_sender(self.buses[0], config, source));
            }
            Traffic::Periodic => {
                let nodes = &can.network.nodes;
                let source = |(stream, node): (u64, &candor_network::Node)| {
                    Periodic::of_node(node, experiment.seed, stream)
                };
                let mut sources: Vec<_> = (0_u64..).zip(nodes).map(source).collect();
                sources::share(&mut sources, experiment.count);
                for (node, source) in nodes.iter().zip(sources) {
                    let bus = node.bus;
                    let timing = can.network.buses[bus].timing;
                    let source = Metered::new(source, timing, &self.demands[bus]);
                    let config = config(Drive::Timed, node.queue.discipline, node.queue.depth);
                    let sender = self.world.add_sender(self.buses[bus], config, Box::new(source));
                    self.senders.push(sender);
                }
            }
            Traffic::Replay { log, interface, speed, bus } => {
                let recording = candor_recording::open(log, None)
                    .map_err(|error| Error::Other(error.to_string()))?;
                let source = Replay::new(recording, interface.clone(), *speed, allowance);
                self.replay_failure = Some(source.failure());
                self.error_reports = source.reports();
                let timing = can.network.buses[*bus].timing;
                let source = Metered::new(source, timing, &self.demands[*bus]);
                // The order on the bus was decided when it was recorded.
                let config = config(Drive::Timed, Discipline::Fifo, REPLAY_QUEUE);
                let sender = self.world.add_sender(self.buses[*bus], config, Box::new(source));
                self.senders.push(sender);
            }
        }
        Ok(())
    }

    /// Names of the gateway's jobs: rule and destination.
    fn jobs(&self, can: &CanGateway) -> Vec<(String, String)> {
        let Some(rules) = can.rules() else { return Vec::new() };
        let Some(host) = self.gateway else { return Vec::new() };
        let program = self.world.gateway(host).engine().program();
        let name = |job: &candor_engine::program::Job| {
            let to = rules.buses.get(usize::from(job.to.0));
            (job.rule.clone(), to.map_or(String::new(), |bus| bus.name.clone()))
        };
        program.jobs().iter().map(name).collect()
    }

    /// What the rules are to the frames.
    fn way(&self, can: &CanGateway) -> Way {
        Way {
            has_gateway: self.gateway.is_some(),
            is_allow_list: can.rules().is_some_and(|rules| rules.refuses_others),
        }
    }

    /// The controllers, and how often each left its bus.
    fn left(&self, can: &CanGateway, settings: &Sim) -> Vec<Left> {
        let sender = |(index, &sender): (usize, &SenderId)| {
            let node = can.network.nodes.get(index);
            let (bus, whose) = match (&can.traffic, node) {
                (Traffic::Periodic, Some(node)) => (node.bus, format!("node {}", node.name)),
                (Traffic::Replay { bus, .. }, _) => (*bus, "the sender of the recording".into()),
                _ => (0, "the sender".into()),
            };
            (bus, whose, self.world.sender_bus_offs(sender))
        };
        let port = |(bus, port): (usize, &Option<Port>)| {
            let times = self.world.host_bus_offs(self.gateway?, (*port)?);
            Some((bus, "the gateway".to_owned(), times))
        };
        let senders = self.senders.iter().enumerate().map(sender);
        let all = senders.chain(self.ports.iter().enumerate().filter_map(port));
        all.filter_map(|(bus, whose, times)| {
            Some(Left { bus, whose, times, faults: *settings.faults.get(bus)? })
        })
        .collect()
    }

    fn result(
        self,
        (can, settings): (&CanGateway, &Sim),
        mut collected: Collector<'_>,
    ) -> Result<ResultFile, Error> {
        let elapsed = self.world.now() - Time::ZERO;
        let sent: u64 = self.senders.iter().map(|&sender| self.world.released(sender)).sum();
        let unexplained = collected.builder.account.close(sent);
        let mut by_cause: Vec<_> = collected.builder.account.stopped().iter().collect();
        by_cause.sort_by_key(|((job, cause), _)| (*job, cause.name()));
        let mut stopped: Vec<_> = by_cause
            .into_iter()
            .map(|(&(job, cause), &frames)| {
                let rule = job.and_then(|job| collected.jobs.get(job as usize));
                Stopped::new(place_of(job, cause), rule.map_or("", |(rule, _)| rule), cause, frames)
            })
            .collect();
        if unexplained > 0 {
            stopped.push(Stopped::new("gateway", "", Cause::Unexplained, unexplained));
        }
        let mut notes = Vec::new();
        match self.error_reports.get() {
            0 => {}
            reports => notes.push(format!(
                "the recording has {}, which {} not sent: error reports are not frames on the bus",
                counted(reports, "error report"),
                by_count(reports, "is", "are")
            )),
        }
        let statistics: Vec<_> =
            self.buses.iter().map(|&bus| self.world.bus_statistics(bus)).collect();
        notes.extend(doubt::notes(
            can,
            &self.demands,
            &collected.waits,
            &statistics,
            &self.left(can, settings),
        ));
        let buses = can.network.buses.iter().zip(&statistics).map(|(bus, statistics)| {
            sections::bus(bus, &bus_counts(statistics), elapsed.as_nanos())
        });
        let rules = self.gateway.map_or(Vec::new(), |host| {
            let counters = self.world.gateway(host).engine().counters();
            let counted = counters.jobs().into_iter().zip(&collected.jobs);
            counted
                .map(|(counters, (name, to))| {
                    let refusals = counters.refusals().collect();
                    sections::rule(name, to, counters.handled, &refusals)
                })
                .collect()
        });
        let sections = Sections::default()
            .with(&BUSES, buses.collect())
            .with(&RULES, rules)
            .with(&MESSAGES, collected.messages.rows());
        Ok(ResultFile {
            random: doubt::is_random(can, settings)
                || statistics.iter().any(|bus| bus.error_frames > 0),
            duration_ns: elapsed.as_nanos(),
            stopped,
            sections,
            notes,
            ..collected.builder.finish()?
        })
    }
}

fn place_of(job: Option<u32>, cause: Cause) -> &'static str {
    match (job, cause) {
        (Some(_), _) => "rule",
        (None, Cause::SenderQueueFull | Cause::Merged | Cause::Unsupported | Cause::Unfinished) => {
            "sender"
        }
        (None, _) => "gateway",
    }
}

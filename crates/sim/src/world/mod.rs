//! [`World`]: everything together, and the loop that moves it.

mod constant;
mod event;
mod linux;
mod outcomes;
mod passing;
mod port;
mod senders;

use candor_causes::Cause;
use candor_queue::Discipline;
use candor_time::Nanos;
use candor_wire::can::ErrorState;

use crate::can::{BusConfig, BusId, BusStatistics, Can, ControllerConfig, Fault, Queue};
use crate::event::{Core, Random, Time};
use crate::flight::{FlightId, Flights, Leg};
use crate::host::{Gateway, Host, HostKind, HostPort};
use crate::instrument::{Instrument, Measuring};
use crate::medium::{ControllerId, Medium, Outcome};
use crate::model::{Interference, Model};
use crate::node::PortNode;
use crate::record::{Fate, Observer, Record};
use crate::sender::{Drive, Sender, SenderConfig, Source};
use event::Event;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostId(pub u32);
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SenderId(pub u32);
/// Which port of a host, counted in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port(pub u32);

/// Whom a controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Sender(u32),
    /// A host and its port.
    Host(u32, u32),
    /// A program with a port of [`crate::port`].
    Program {
        /// Its sender, which has no source.
        sender: u32,
        /// Its place among such nodes.
        node: u32,
    },
    /// Acknowledges, and shows frames to the instrument.
    Listener,
}

/// How long nothing may get through before what is still under way is given up.
const STANDSTILL: Nanos = Nanos::from_secs(5);
/// Every so many events the observer may stop the run.
const EVENTS_PER_CHECK: u32 = 8_192;

/// The kinds of parts that draw, by the numbers of their streams of randomness. 1 is the buses of CAN,
/// 4 the messages of an experiment.
mod stream {
    pub(super) const HOST: u32 = 2;
    pub(super) const SENDER: u32 = 3;
    pub(super) const INSTRUMENT: u32 = 5;
}

/// A world of buses, senders and hosts whose rules are decided by `G`.
///
/// ```
/// use candor_sim::*;
/// use candor_sim::model::Egress;
/// use candor_time::Nanos;
/// use candor_wire::can::{Bitrate, Frame, Timing};
///
/// /// Passes everything from port 0 to port 1.
/// struct Repeater;
/// impl Gateway for Repeater {
///     fn decide(
///         &mut self, _: Time, _: u32, frame: &Frame, passage: PassageTag, decision: &mut Decision,
///     ) {
///         decision.copies.push(Copy {
///             job: 0, port: 1, frame: *frame, passage, echo: false, is_edited: false,
///             walk: Walk::default(),
///         });
///     }
///     fn settle(&mut self, _: u32, _: Settled) {}
/// }
///
/// struct Latencies(Vec<u64>);
/// impl Observer for Latencies {
///     fn record(&mut self, record: &Record<'_>) {
///         let taps = record.taps;
///         let end = |tap| taps.at(tap).unwrap();
///         self.0.push(end(candor_lat::Tap::TargetEnd) - end(candor_lat::Tap::SourceEnd));
///     }
/// }
///
/// let mut world = World::new(1);
/// let bus = |name: &str| BusConfig {
///     name: name.into(), timing: Timing::classical(Bitrate::new(1_000_000).unwrap()),
///     is_fd: false, bit_error_rate: 0.0, restart: None,
/// };
/// let (source, target) = (world.add_bus(bus("source")), world.add_bus(bus("target")));
/// let egress = Egress { depth: 10, discipline: Discipline::Fifo };
/// let host = world.add_host(Model::Constant { delay: Nanos::from_micros(35), egress }, Repeater);
/// world.connect(host, source);
/// world.connect(host, target);
/// world.add_listener(target);
///
/// let frame: Frame = "123#1122334455667788".parse()?;
/// let mut frames = std::iter::repeat_n(Release::new(Time::ZERO, frame), 3);
/// world.add_sender(source, SenderConfig {
///     drive: Drive::OneAtATime { turnaround: (Nanos::ZERO, Nanos::ZERO), timeout: Nanos::from_secs(1) },
///     discipline: Discipline::Fifo, depth: 2, reload: Nanos::ZERO, fault_rate: 0.0,
/// }, Box::new(move || frames.next()));
///
/// let mut latencies = Latencies(Vec::new());
/// world.run(&mut latencies);
/// // 35 us in the gateway, 109 bits on the second bus.
/// assert_eq!(latencies.0, [144_000; 3]);
/// # Ok::<(), candor_wire::can::notation::NotationError>(())
/// ```
pub struct World<G, S: ?Sized = dyn Source> {
    core: Core<Event>,
    flights: Flights,
    can: Can,
    /// Whom the controllers of buses serve.
    owners: Vec<Owner>,
    hosts: Vec<Host<G>>,
    senders: Vec<Sender<S>>,
    /// Nodes whose frames a program sends and receives ([`crate::port`]).
    port_nodes: Vec<PortNode>,
    /// Lent to each event, so that none allocates.
    outcomes: Vec<Outcome>,
    instrument: Option<Measuring>,
    identities: u64,
    /// When a frame was last released, was on a bus, or ended.
    moved_at: Time,
}

impl<G: Gateway> World<G> {
    /// An empty world, for one thread.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::empty(seed)
    }
}

impl<G: Gateway> World<G, dyn Source + Send> {
    /// An empty world whose sources may go to other threads, as ports need ([`crate::port`]).
    #[must_use]
    pub fn for_ports(seed: u64) -> Self {
        Self::empty(seed)
    }
}

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    fn empty(seed: u64) -> Self {
        Self {
            core: Core::new(seed),
            flights: Flights::default(),
            can: Can::default(),
            owners: Vec::new(),
            hosts: Vec::new(),
            senders: Vec::new(),
            port_nodes: Vec::new(),
            outcomes: Vec::new(),
            instrument: None,
            identities: 0,
            moved_at: Time::ZERO,
        }
    }

    /// Adds a bus.
    pub fn add_bus(&mut self, config: BusConfig) -> BusId {
        self.can.add_bus(&self.core, config)
    }

    /// A bit of a frame to come is inverted on a bus. Whether there is room for so many faults.
    pub fn add_fault(&mut self, bus: BusId, fault: Fault) -> bool {
        self.can.add_fault(bus, fault)
    }

    /// Adds a host with its gateway; connect it next.
    pub fn add_host(&mut self, model: Model, gateway: G) -> HostId {
        let id = self.hosts.len() as u32;
        let random = self.core.random(stream::HOST, id);
        self.hosts.push(Host::new(model, gateway, random));
        HostId(id)
    }

    /// Connects a host to a bus by a controller of its own.
    pub fn connect(&mut self, host: HostId, bus: BusId) -> Port {
        let port = self.hosts[host.0 as usize].ports.len() as u32;
        let host_ref = &self.hosts[host.0 as usize];
        let egress = host_ref.egress;
        let (rx_fifo, depth, waiting) = match &host_ref.kind {
            HostKind::Constant(_) => (0, egress.depth, 0),
            HostKind::Linux(linux) => (linux.model.rx_fifo, linux.model.tx_buffers, egress.depth),
        };
        let config = ControllerConfig {
            discipline: egress.discipline,
            depth,
            ..ControllerConfig::default()
        };
        let controller = self.add_controller(bus, Owner::Host(host.0, port), config);
        let egress = Queue::new(egress.discipline, waiting);
        let port_ref = HostPort::new(Some(controller), egress, rx_fifo);
        self.hosts[host.0 as usize].ports.push(port_ref);
        Port(port)
    }

    /// Gives a host a virtual interface: what is sent there comes back as received.
    pub fn add_virtual_port(&mut self, host: HostId) -> Port {
        let host = &mut self.hosts[host.0 as usize];
        let egress = Queue::new(Discipline::Fifo, 0);
        host.ports.push(HostPort::new(None, egress, 0));
        if let HostKind::Linux(linux) = &mut host.kind {
            linux.virtual_ports.push(host.ports.len() as u32 - 1);
        }
        Port(host.ports.len() as u32 - 1)
    }

    /// Adds a node that only listens, and acknowledges every frame.
    pub fn add_listener(&mut self, bus: BusId) {
        let config =
            ControllerConfig { depth: 0, is_listening: false, ..ControllerConfig::default() };
        self.add_controller(bus, Owner::Listener, config);
    }

    /// Adds a node that sends.
    pub fn add_sender(&mut self, bus: BusId, config: SenderConfig, source: Box<S>) -> SenderId {
        let owner = Owner::Sender(self.senders.len() as u32);
        self.add_node(bus, owner, config, Some(source))
    }

    /// Adds a controller with a transmit queue, and the sender that fills it.
    fn add_node(
        &mut self,
        bus: BusId,
        owner: Owner,
        config: SenderConfig,
        source: Option<Box<S>>,
    ) -> SenderId {
        let id = self.senders.len() as u32;
        let controller = self.add_controller(
            bus,
            owner,
            ControllerConfig {
                discipline: config.discipline,
                depth: config.depth,
                reload: config.reload,
                fault_rate: config.fault_rate,
                is_listening: matches!(owner, Owner::Program { .. }),
            },
        );
        self.senders.push(Sender {
            controller,
            drive: config.drive,
            source,
            random: self.core.random(stream::SENDER, id),
            next: None,
            awaited: None,
            deadline: Time::ZERO,
            has_timer: false,
            generation: 0,
            released: 0,
        });
        SenderId(id)
    }

    /// Measures with this instrument instead of an ideal one.
    pub fn set_instrument(&mut self, instrument: Instrument) {
        let random = self.core.random(stream::INSTRUMENT, 0);
        self.instrument = Some(Measuring::new(instrument, random));
    }

    #[must_use]
    pub fn gateway(&self, host: HostId) -> &G {
        &self.hosts[host.0 as usize].gateway
    }

    /// What happened on a bus up to [`World::now`].
    #[must_use]
    pub fn bus_statistics(&self, bus: BusId) -> BusStatistics {
        self.can.statistics(bus, self.core.now())
    }

    /// How many frames on buses, and copies in hosts, are still on their way: none, after a run to the
    /// end.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// How many frames a sender released.
    #[must_use]
    pub fn released(&self, sender: SenderId) -> u64 {
        self.senders[sender.0 as usize].released
    }

    /// The error state of a sender's controller.
    #[must_use]
    pub fn sender_state(&self, sender: SenderId) -> ErrorState {
        self.can.state(self.senders[sender.0 as usize].controller)
    }

    /// How often a sender's controller went bus-off.
    #[must_use]
    pub fn sender_bus_offs(&self, sender: SenderId) -> u64 {
        self.can.bus_offs(self.senders[sender.0 as usize].controller)
    }

    /// How often the controller of a host on a bus went bus-off; 0 for a virtual interface.
    #[must_use]
    pub fn host_bus_offs(&self, host: HostId, port: Port) -> u64 {
        let port = &self.hosts[host.0 as usize].ports[port.0 as usize];
        port.controller.map_or(0, |controller| self.can.bus_offs(controller))
    }

    /// The time reached.
    #[must_use]
    pub fn now(&self) -> Time {
        self.core.now()
    }

    fn add_controller(
        &mut self,
        bus: BusId,
        owner: Owner,
        config: ControllerConfig,
    ) -> ControllerId {
        let controller = self.can.add_controller(bus, config);
        self.owners.push(owner);
        controller
    }

    fn owner(&self, controller: ControllerId) -> Owner {
        self.owners[controller.0 as usize]
    }

    /// Runs until every frame has ended, or the observer stops it. Returns whether it ran to the
    /// end.
    pub fn run(&mut self, observer: &mut impl Observer) -> bool {
        self.plan_start();
        let mut until_check = EVENTS_PER_CHECK;
        while let Some(event) = self.core.next() {
            self.happen(event, observer);
            if self.is_over() {
                return true;
            }
            until_check -= 1;
            if until_check == 0 {
                until_check = EVENTS_PER_CHECK;
                if !observer.proceed(self.core.now(), self.identities) {
                    return false;
                }
                if self.core.now() - self.moved_at > STANDSTILL && !self.somebody_waits() {
                    self.give_up(observer);
                    return true;
                }
            }
        }
        self.give_up(observer);
        true
    }

    /// Plans what happens by itself: the first frames of senders, the disturbances of hosts.
    fn plan_start(&mut self) {
        for sender in 0..self.senders.len() as u32 {
            let state = &mut self.senders[sender as usize];
            state.next = state.source.as_mut().and_then(|source| source.next());
            self.plan_release(sender);
        }
        for host in 0..self.hosts.len() as u32 {
            self.plan_disturbances(host);
        }
    }

    /// An event happens; time has reached it.
    #[inline(always)]
    fn happen(&mut self, event: Event, observer: &mut impl Observer) {
        match event {
            Event::Can(event) => {
                self.can.happen(&mut self.core, event, &mut self.outcomes);
                self.follow_buses(observer);
            }
            Event::Wake(sender, generation) => self.wake(sender, generation, observer),
            Event::Timeout(sender) => self.time_out(sender),
            Event::Done(host, generation) => self.work_done(host, generation, observer),
            Event::Dispatch(host) => self.dispatch(host),
            Event::Emit(host, flight) => self.emit(host, flight, observer),
            Event::Disturb(host, which) => self.disturb(host, which),
            Event::Packet(host) => self.packet(host),
        }
    }

    fn is_over(&self) -> bool {
        self.flights.len() == 0 && self.senders.iter().all(|sender| sender.next.is_none())
    }

    /// Whether something will still move by itself.
    fn somebody_waits(&self) -> bool {
        let will_send = |sender: &Sender<S>| match (&sender.next, sender.drive) {
            (Some(next), Drive::Timed) => next.at > self.core.now(),
            (Some(_), Drive::OneAtATime { .. }) => true,
            _ => false,
        };
        self.senders.iter().any(will_send) || self.can.is_recovering()
    }

    /// Ends what is still under way, wherever it is. Time ends when the last frame moved: waiting
    /// for a frame that does not come is no part of what is measured.
    fn give_up(&mut self, observer: &mut impl Observer) {
        // In the order in which they were sent.
        let mut all: Vec<_> = self.flights.ids().collect();
        all.sort_by_key(|&id| self.flights[id].identity);
        for flight in all {
            self.refuse(flight, Cause::Unfinished, observer);
        }
        self.core.end_at(self.moved_at);
    }

    // The ends of frames.

    /// Ends a flight that got no further.
    fn refuse(&mut self, id: FlightId, cause: Cause, observer: &mut impl Observer) {
        self.finish(id, Fate::Refused(cause), 0, observer);
    }

    fn finish(
        &mut self,
        id: FlightId,
        fate: Fate,
        transmission_ns: u64,
        observer: &mut impl Observer,
    ) {
        let flight = &self.flights[id];
        let job = match flight.leg {
            Leg::Forwarded { job, .. } => Some(job),
            Leg::Sent | Leg::Received { .. } => None,
        };
        if fate != Fate::Refused(Cause::Unfinished) {
            self.moved_at = self.core.now();
        }
        observer.record(&Record {
            identity: flight.identity,
            sender: flight.sender,
            sent: &flight.sent,
            frame: &flight.frame,
            fate,
            job,
            taps: &flight.taps,
            transmission_ns,
        });
        let (sender, identity) = (flight.sender, flight.identity);
        self.flights.remove(id);
        if !matches!(fate, Fate::Refused(_)) {
            self.tell_sender(sender, identity);
        }
    }

    // Disturbances.

    fn plan_disturbances(&mut self, host: u32) {
        let HostKind::Linux(linux) = &mut self.hosts[host as usize].kind else { return };
        for (index, interference) in linux.model.interference.iter().enumerate() {
            // Periodic ones begin anywhere within their period.
            let first = match interference.is_random {
                true => linux.random.exponential(interference.every),
                false => linux.random.nanos(Nanos::ZERO, interference.every),
            };
            self.core.plan(self.core.now() + first, Event::Disturb(host, index as u32));
        }
        if let Some(ethernet) = linux.model.ethernet {
            let first = linux.random.nanos(Nanos::ZERO, ethernet.every);
            self.core.plan(self.core.now() + first, Event::Packet(host));
        }
    }

    /// The next interference after one at `now`, and its duration.
    fn draw(random: &mut Random, interference: Interference) -> (Nanos, Nanos) {
        let next = match interference.is_random {
            true => random.exponential(interference.every),
            false => interference.every,
        };
        (next, random.nanos(interference.duration.0, interference.duration.1))
    }
}

//! [`TestBed`]: buses, controllers and tester together.

use core::fmt;

use candor_can::{NodeId, Notice};
use candor_hardware::bus::{self, MOST_NODES};
use candor_hardware::{Bus, Sja1000};
use candor_random::BitErrors;
use candor_wire::can::{Bitrate, Timing};

use crate::machine::Machine;
use crate::network::Link;
use crate::plan::{MOST_BUSES, MOST_CARDS, Plan};
use crate::record::{Event, Record};
use crate::tester::{Progress, SAMPLE_POINT_PERMILLE, Tester};

/// How many controllers of the guest there can be.
pub const MOST_CONTROLLERS: usize = 16;
/// Notices of one instant on one bus: each node learns three things at most.
const MOST_NOTICES: usize = 3 * MOST_NODES;
/// Says that a bed of this version wrote the memory; the size of the bed says the rest.
const MARK: u64 = 0x6361_6e64_6f72_0009;

/// A controller of the guest and where it is.
#[derive(Clone, Copy, Debug)]
struct GuestController {
    registers: Sja1000,
    bus: u8,
    /// The slot of its card, which gives the controllers their order.
    slot: u8,
    /// The level of its interrupt line.
    level: bool,
}

/// Why a bed cannot be set up for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestBedError {
    /// The plan has so many buses, and the machine so many.
    Buses(usize, usize),
    /// The guest uses its controllers already.
    InUse,
    /// The buses have no room for the nodes of the tester.
    Full,
}

impl fmt::Display for TestBedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buses(plan, machine) => {
                write!(f, "the plan of the tester has {plan} buses, but the machine has {machine}")
            }
            Self::InUse => write!(f, "the guest used its controllers before it had an order"),
            Self::Full => write!(f, "a bus has no room for the nodes of the tester"),
        }
    }
}

impl core::error::Error for TestBedError {}

/// Buses, the guest's controllers on them, the tester, and the links of the guest's network cards.
#[derive(Clone, Copy, Debug)]
pub struct TestBed {
    /// Says that this version wrote it.
    mark: [u64; 2],
    buses: [Bus; MOST_BUSES],
    bus_count: u8,
    controllers: [Option<GuestController>; MOST_CONTROLLERS],
    /// The fingerprint of its plan, if it has one.
    plan: Option<u64>,
    tester: Tester,
    links: [Link; MOST_CARDS],
}

impl TestBed {
    /// Buses without controllers and without a plan, as many as that.
    #[must_use]
    pub fn new(buses: usize) -> Self {
        Self {
            mark: Self::mark(),
            buses: [bus::new(Timing::classical(Bitrate::MAX)); MOST_BUSES],
            bus_count: buses.min(MOST_BUSES) as u8,
            controllers: [None; MOST_CONTROLLERS],
            plan: None,
            tester: Tester::NEW,
            links: [Link::NEW; MOST_CARDS],
        }
    }

    const fn mark() -> [u64; 2] {
        [MARK, size_of::<Self>() as u64]
    }

    /// Whether this version wrote it: memory that was restored may be of another one.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.mark == Self::mark()
    }

    /// Adds a controller, in the order of slots; its index, behind which the others have moved by one. `None` if there is
    /// no such bus, or no room.
    pub fn add_controller(&mut self, bus: u8, slot: u8) -> Option<usize> {
        let count = self.controller_count();
        if count == MOST_CONTROLLERS || bus >= self.bus_count {
            return None;
        }
        let at = self.controllers.iter().flatten().take_while(|it| it.slot < slot).count();
        self.controllers.copy_within(at..count, at + 1);
        let registers = Sja1000::new(NodeId(0));
        self.controllers[at] = Some(GuestController { registers, bus, slot, level: false });
        self.join_controllers();
        Some(at)
    }

    #[must_use]
    pub fn controller_count(&self) -> usize {
        self.controllers.iter().flatten().count()
    }

    /// New nodes for all controllers, in their order.
    fn join_controllers(&mut self) {
        for bus in &mut self.buses {
            *bus = bus::new(bus.timing());
        }
        for controller in self.controllers.iter_mut().flatten() {
            // There are fewer controllers than nodes of a bus.
            if let Some(node) = self.buses[usize::from(controller.bus)].nodes_mut().add() {
                controller.registers.set_node(node);
            }
        }
    }

    /// Whether it was set up for this plan.
    #[must_use]
    pub fn has_plan(&self, plan: &Plan<'_>) -> bool {
        self.plan == Some(plan.fingerprint())
    }

    /// Gives the buses their bit rates and puts the tester's nodes on them: on each bus one that receives, and the
    /// senders of the plan.
    ///
    /// # Errors
    /// See [`TestBedError`].
    pub fn set_up(&mut self, plan: &Plan<'_>, now_ns: u64) -> Result<(), TestBedError> {
        let count = usize::from(self.bus_count);
        if plan.buses().count() != count {
            return Err(TestBedError::Buses(plan.buses().count(), count));
        }
        if self.controllers.iter().flatten().any(|it| !it.registers.is_in_reset()) {
            return Err(TestBedError::InUse);
        }
        for (bus, of_plan) in self.buses.iter_mut().zip(plan.buses()) {
            *bus = bus::new(of_plan.timing);
        }
        self.join_controllers();
        self.tester = Tester::NEW;
        self.links = [Link::NEW; MOST_CARDS];
        for station in plan.stations() {
            self.links[usize::from(station.card)] = Link::with(station);
        }
        for bus in &mut self.buses[..count] {
            let receiver = bus.nodes_mut().add().ok_or(TestBedError::Full)?;
            bus.join(receiver, false, SAMPLE_POINT_PERMILLE, now_ns);
        }
        for sender in plan.senders() {
            if !self.tester.add(sender, &mut self.buses, now_ns) {
                return Err(TestBedError::Full);
            }
        }
        self.plan = Some(plan.fingerprint());
        Ok(())
    }

    /// The tester starts with its next round, unless it is sending or has no other: times of its plan count from now on, and so
    /// does what is counted on the buses. Links have been at work since the first round; bits are destroyed in the last one.
    pub fn start(&mut self, plan: &Plan<'_>, now_ns: u64, machine: &mut dyn Machine) {
        if self.tester.can_start(plan) {
            if self.tester.progress() == Progress::Idle {
                self.links.iter_mut().for_each(|link| link.start(now_ns));
            }
            self.buses.iter_mut().for_each(Bus::count_anew);
            self.controllers.iter_mut().flatten().for_each(|it| it.registers.forget_overruns());
            self.tester.start(plan, now_ns);
            if self.tester.is_last_round() {
                for ((index, bus), of_plan) in (0..).zip(&mut self.buses).zip(plan.buses()) {
                    bus.faults_mut().set_bit_errors(BitErrors::of_bus(
                        plan.seed(),
                        index,
                        of_plan.bit_error_rate,
                    ));
                }
            }
            machine.note(Record {
                at_ns: now_ns,
                bus: 0,
                node: 0,
                is_guest: false,
                event: Event::Started,
            });
        }
    }

    /// The guest has sent everything: a tester without senders cannot know it otherwise.
    pub fn guest_is_over(&mut self, now_ns: u64) {
        self.tester.guest_is_over(now_ns);
    }

    /// Whether the tester is done: nothing comes any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.tester.progress() == Progress::Done
    }

    /// When something happens next, in ns.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.own_deadline().into_iter().chain(self.tester.deadline()).min()
    }

    /// That of buses and links, which need no plan.
    fn own_deadline(&self) -> Option<u64> {
        let buses = self.buses.iter().filter_map(Bus::deadline);
        buses.chain(self.links.iter().filter_map(Link::deadline)).min()
    }

    /// Everything that happens until `now_ns`. Without a plan the tester does nothing.
    pub fn advance(&mut self, plan: Option<&Plan<'_>>, now_ns: u64, machine: &mut dyn Machine) {
        let next = |bed: &Self| if plan.is_some() { bed.deadline() } else { bed.own_deadline() };
        while let Some(at) = next(self).filter(|&at| at <= now_ns) {
            // First, so that a frame that is due now takes part in an arbitration that begins now.
            if plan.is_some_and(|plan| self.tester.advance(plan, at, &mut self.buses)) {
                self.conclude(at, machine);
            }
            for index in 0..self.bus_count {
                if self.buses[usize::from(index)].deadline() == Some(at) {
                    self.step(index, at, plan, machine);
                }
            }
            for (card, link) in (0..).zip(&mut self.links) {
                if link.deadline() == Some(at) {
                    link.advance(card, at, machine);
                }
            }
        }
    }

    /// What happens on one bus at an instant.
    fn step(&mut self, index: u8, at: u64, plan: Option<&Plan<'_>>, machine: &mut dyn Machine) {
        let mut notices = [None; MOST_NOTICES];
        let mut free = notices.iter_mut();
        self.buses[usize::from(index)].advance(at, &mut |node, at, notice| {
            if let Some(free) = free.next() {
                *free = Some((node, at, notice));
            }
        });
        for (node, at_ns, notice) in notices.into_iter().flatten() {
            let is_guest = self.deliver(index, node, at_ns, notice);
            // The last record says that the tester is done.
            if let Some(event) = event(notice).filter(|_| !self.is_done()) {
                machine.note(Record { at_ns, bus: index, node: node.0 as u8, is_guest, event });
            }
            if let Notice::Sent(passage) | Notice::SentToOthers(passage) = notice {
                self.tester.note_passage(at_ns, is_guest);
                if let Some(plan) = plan.filter(|_| is_guest) {
                    self.tester.passed(plan, index, at_ns, &passage.frame, &mut self.buses);
                }
            }
            if let Some(plan) = plan.filter(|_| !is_guest) {
                self.tester.notice(plan, (index, node), at_ns, notice, &mut self.buses);
            }
        }
    }

    /// Hands a notice to the controller that is this node; whether there is one.
    fn deliver(&mut self, index: u8, node: NodeId, at: u64, notice: Notice) -> bool {
        let is_it = |it: &&mut GuestController| it.bus == index && it.registers.node() == node;
        let Some(controller) = self.controllers.iter_mut().flatten().find(is_it) else {
            return false;
        };
        controller.registers.notice(at, notice, &mut self.buses[usize::from(index)]);
        true
    }

    /// The tester is done: what was counted.
    fn conclude(&mut self, at_ns: u64, machine: &mut dyn Machine) {
        for (card, link) in (0..).zip(&mut self.links).filter(|_| self.tester.is_last_round()) {
            link.conclude(card, at_ns, machine);
        }
        let record = |bus, node, is_guest, event| Record { at_ns, bus, node, is_guest, event };
        for controller in self.controllers.iter().flatten() {
            let overruns = controller.registers.overruns();
            if overruns > 0 {
                let node = controller.registers.node().0 as u8;
                machine.note(record(controller.bus, node, true, Event::Overrun(overruns)));
            }
        }
        if let Some((bus, node, count)) = self.tester.refused() {
            machine.note(record(bus, node.0 as u8, false, Event::Overrun(count)));
        }
        for (index, bus) in (0..self.bus_count).zip(&self.buses) {
            machine.note(record(index, 0, false, Event::Statistics(*bus.statistics())));
        }
        machine.note(record(0, 0, false, Event::Done));
    }

    /// The guest reads a register.
    pub fn read(&mut self, controller: usize, address: u8, now_ns: u64) -> u8 {
        let Some(Some(it)) = self.controllers.get_mut(controller) else { return 0 };
        it.registers.read(address, now_ns, &self.buses[usize::from(it.bus)])
    }

    /// The guest writes a register.
    pub fn write(
        &mut self,
        controller: usize,
        address: u8,
        value: u8,
        now_ns: u64,
        machine: &mut dyn Machine,
    ) {
        let Some(Some(it)) = self.controllers.get_mut(controller) else { return };
        let bus = &mut self.buses[usize::from(it.bus)];
        let was_in_reset = it.registers.is_in_reset();
        it.registers.write(address, value, now_ns, bus);
        let bitrate = it.registers.bits_per_second();
        let takes_part = was_in_reset && !it.registers.is_in_reset();
        let is_other = bitrate != bus.timing().nominal.bits_per_second();
        if takes_part && is_other && self.plan.is_some() && self.tester.progress() != Progress::Done
        {
            let (bus, node) = (it.bus, it.registers.node().0 as u8);
            let event = Event::OtherBitrate(bitrate);
            machine.note(Record { at_ns: now_ns, bus, node, is_guest: true, event });
        }
    }

    /// The guest reads the tail register of a network card.
    #[must_use]
    pub fn tail(&self, card: u8) -> u16 {
        self.links.get(usize::from(card)).map_or(0, Link::tail)
    }

    /// The guest writes the tail register of a network card: it has frames to send.
    pub fn send(&mut self, card: u8, tail: u16, now_ns: u64, machine: &mut dyn Machine) {
        if let Some(link) = self.links.get_mut(usize::from(card)) {
            link.send(card, tail, now_ns, machine);
        }
    }

    /// The level of the interrupt line of a controller.
    #[must_use]
    pub fn level(&self, controller: usize) -> bool {
        self.controllers.get(controller).copied().flatten().is_some_and(|it| it.level)
    }

    /// The level of the interrupt line of a controller, if it is another one than the last time.
    pub fn changed_level(&mut self, controller: usize) -> Option<bool> {
        let it = self.controllers.get_mut(controller)?.as_mut()?;
        let level = it.registers.is_interrupting();
        (it.level != level).then(|| {
            it.level = level;
            level
        })
    }
}

/// What is recorded of what a node learns.
fn event(notice: Notice) -> Option<Event> {
    match notice {
        Notice::Sent(passage) | Notice::SentToOthers(passage) => Some(Event::Passed {
            frame: passage.frame,
            requested_ns: passage.requested_ns,
            started_ns: passage.started_ns,
        }),
        Notice::Failed { is_sender: true, kind, segment } => {
            Some(Event::Failed { kind: kind as u8, segment: segment as u8 })
        }
        Notice::BusOff => Some(Event::BusOff),
        Notice::TakesPart => Some(Event::TakesPart),
        Notice::Started
        | Notice::LostArbitration { .. }
        | Notice::Received(_)
        | Notice::Missed
        | Notice::Failed { is_sender: false, .. } => None,
    }
}

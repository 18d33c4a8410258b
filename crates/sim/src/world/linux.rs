//! Linux hosts: interrupts, the soft-irq, the process, and the way of a frame through them.

use candor_causes::Cause;
use candor_lat::Tap;
use candor_time::Nanos;

use super::World;
use super::event::Event;
use crate::flight::{FlightId, Leg};
use crate::host::cpu::{HARD, LEVELS, Work};
use crate::host::{Delivery, Gateway, HostKind, Interrupt, LinuxHost, Poller, Settled, Waiting};
use crate::medium::ControllerId;
use crate::model::Readout;
use crate::record::Observer;
use crate::sender::Source;

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    fn linux(&mut self, host: u32) -> Option<&mut LinuxHost> {
        match &mut self.hosts[host as usize].kind {
            HostKind::Linux(linux) => Some(linux),
            HostKind::Constant(_) => None,
        }
    }

    // What reaches a host from outside.

    /// A frame reaches the controller of a port.
    pub(super) fn receive_linux(
        &mut self,
        host: u32,
        port: u32,
        id: FlightId,
        observer: &mut impl Observer,
    ) {
        let port_ref = &mut self.hosts[host as usize].ports[port as usize];
        let refused = port_ref.received.push(id);
        let was_masked = std::mem::replace(&mut port_ref.is_masked, true);
        if let Err(id) = refused {
            self.refuse(id, Cause::RxOverflow, observer);
        }
        if !was_masked {
            self.interrupt(host, Interrupt::Receive(port));
        }
    }

    /// A frame of a port has left its controller.
    pub(super) fn left_linux(&mut self, host: u32, port: u32) {
        if let HostKind::Linux(_) = self.hosts[host as usize].kind {
            self.hosts[host as usize].ports[port as usize].unacknowledged += 1;
            self.interrupt(host, Interrupt::TransmitDone(port));
        }
    }

    /// An Ethernet packet reaches a host.
    pub(super) fn packet(&mut self, host: u32) {
        let now = self.core.now();
        let Some(linux) = self.linux(host) else { return };
        let Some(ethernet) = linux.model.ethernet else { return };
        if linux.fragments_left == 0 {
            linux.fragments_left = ethernet.fragments;
        }
        linux.fragments_left -= 1;
        let is_last = linux.fragments_left == 0;
        let taken = ethernet.spacing * u64::from(ethernet.fragments - 1);
        let next = if is_last { ethernet.every - taken } else { ethernet.spacing };
        self.core.plan(now + next, Event::Packet(host));
        self.interrupt(host, Interrupt::Ethernet(is_last));
    }

    /// Something else takes the processor of a host.
    pub(super) fn disturb(&mut self, host: u32, which: u32) {
        let now = self.core.now();
        let Some(linux) = self.linux(host) else { return };
        let Some(&interference) = linux.model.interference.get(which as usize) else { return };
        let (next, duration) = Self::draw(&mut linux.random, interference);
        self.core.plan(now + next, Event::Disturb(host, which));
        self.interrupt(host, Interrupt::Disturbance(duration));
    }

    fn interrupt(&mut self, host: u32, interrupt: Interrupt) {
        let Some(linux) = self.linux(host) else { return };
        let level = match interrupt {
            Interrupt::Disturbance(_) => HARD,
            _ => linux.cpu.levels.device,
        };
        linux.interrupts[level].push_back(interrupt);
        self.call_processor(host);
    }

    // The processor.

    /// Something has changed for a processor: it chooses what to work on when everything of this
    /// instant has happened.
    fn call_processor(&mut self, host: u32) {
        let now = self.core.now();
        let Some(linux) = self.linux(host) else { return };
        if !std::mem::replace(&mut linux.is_called, true) {
            self.core.plan(now, Event::Dispatch(host));
        }
    }

    /// Lets the highest level that has work run.
    pub(super) fn dispatch(&mut self, host: u32) {
        let now = self.core.now();
        if let Some(linux) = self.linux(host) {
            linux.is_called = false;
        }
        for level in (0..LEVELS).rev() {
            let Some(linux) = self.linux(host) else { return };
            if linux.cpu.running() == Some(level) {
                return;
            }
            if linux.cpu.has_begun(level) || self.begin(host, level) {
                if let Some((done, generation)) =
                    self.linux(host).and_then(|linux| linux.cpu.run(level, now))
                {
                    self.core.plan(done, Event::Done(host, generation));
                }
                return;
            }
        }
    }

    /// Begins the next piece of work of a level; whether there is one.
    fn begin(&mut self, host: u32, level: usize) -> bool {
        let Some(linux) = self.linux(host) else { return false };
        let levels = linux.cpu.levels;
        let work = match self.next_interrupt(host, level) {
            Some(interrupt) => Some(interrupt),
            None if level == levels.soft => self.next_soft(host),
            None if level == levels.user => self.next_user(host),
            None => None,
        };
        let (Some((work, cost, behind_mark)), Some(linux)) = (work, self.linux(host)) else {
            return false;
        };
        linux.cpu.begin(level, work, cost, behind_mark);
        true
    }

    /// The next interrupt of a level. A handler that finds nothing more to read lets its controller
    /// interrupt again.
    fn next_interrupt(&mut self, host: u32, level: usize) -> Option<(Work, Nanos, Nanos)> {
        loop {
            match self.linux(host)?.interrupts[level].pop_front()? {
                Interrupt::Read(port) if !self.has_received(host, port) => {
                    self.hosts[host as usize].ports[port as usize].is_masked = false;
                }
                interrupt => return Some(interrupt_work(self.linux(host)?, interrupt)),
            }
        }
    }

    /// A piece of work of a host is done, unless the event is stale.
    pub(super) fn work_done(&mut self, host: u32, generation: u32, observer: &mut impl Observer) {
        let now = self.core.now();
        let Some((_, work, decided)) =
            self.linux(host).and_then(|linux| linux.cpu.finish(now, generation))
        else {
            return;
        };
        match work {
            Work::Interrupt(interrupt) => self.interrupt_done(host, interrupt, observer),
            Work::SoftEntry => {}
            Work::PollRead(port) => self.read_done(host, port),
            Work::Packet => {}
            Work::Deliver => self.deliver_next(host, decided, false, observer),
            Work::Socket(port) => self.queue_in_socket(host, port, observer),
            Work::UserRecv => self.user_received(host),
            Work::UserSend => self.deliver_next(host, decided, true, observer),
        }
        self.call_processor(host);
    }

    fn interrupt_done(&mut self, host: u32, interrupt: Interrupt, observer: &mut impl Observer) {
        match interrupt {
            Interrupt::Disturbance(_) => {}
            Interrupt::Ethernet(is_last) => {
                self.queue_in_backlog(host, Waiting::Packet(is_last), observer);
            }
            Interrupt::TransmitDone(port) => self.transmit_done(host, port),
            Interrupt::Receive(port) => {
                let Some(linux) = self.linux(host) else { return };
                match linux.model.readout {
                    Readout::SoftIrq => linux.schedule(Poller::Port(port)),
                    Readout::HardIrq => self.read_on(host, port),
                }
            }
            Interrupt::Read(port) => {
                if let Some(id) = self.take(host, port) {
                    self.queue_in_backlog(host, Waiting::Frame(id, port), observer);
                }
                self.read_on(host, port);
            }
        }
    }

    /// The handler is not left: its next read comes before other interrupts.
    fn read_on(&mut self, host: u32, port: u32) {
        let Some(linux) = self.linux(host) else { return };
        linux.interrupts[linux.cpu.levels.device].push_front(Interrupt::Read(port));
    }

    fn has_received(&self, host: u32, port: u32) -> bool {
        !self.hosts[host as usize].ports[port as usize].received.is_empty()
    }

    /// Takes the oldest frame out of the controller of a port.
    fn take(&mut self, host: u32, port: u32) -> Option<FlightId> {
        let id = self.hosts[host as usize].ports[port as usize].received.pop()?;
        self.flights[id].taps.set(Tap::Read, self.core.now().as_nanos());
        Some(id)
    }

    fn queue_in_backlog(&mut self, host: u32, waiting: Waiting, observer: &mut impl Observer) {
        let Some(linux) = self.linux(host) else { return };
        if linux.backlog.len() < linux.model.backlog {
            linux.backlog.push_back(waiting);
            linux.schedule(Poller::Backlog);
        } else if let Waiting::Frame(id, _) = waiting {
            self.refuse(id, Cause::BacklogFull, observer);
        }
    }

    // The soft-irq.

    /// The next piece of work of the soft-irq: the rest of a delivery, or the next of the queues
    /// in turn.
    fn next_soft(&mut self, host: u32) -> Option<(Work, Nanos, Nanos)> {
        let linux = self.linux(host)?;
        if linux.delivery.flight.is_some() {
            return Some(delivery_work(linux, false));
        }
        if linux.polls.is_empty() {
            linux.soft_active = false;
            return None;
        }
        if !std::mem::replace(&mut linux.soft_active, true) {
            let jitter = linux.jitter();
            let cost = linux.scaled(linux.model.soft_irq + jitter);
            return Some((Work::SoftEntry, cost, Nanos::ZERO));
        }
        loop {
            let linux = self.linux(host)?;
            let Some(&poller) = linux.polls.front() else {
                linux.soft_active = false;
                return None;
            };
            if linux.polled >= linux.model.poll_weight {
                linux.polls.rotate_left(1);
                linux.polled = 0;
                continue;
            }
            linux.polled += 1;
            match poller {
                Poller::Port(port) => {
                    if self.has_received(host, port) {
                        let linux = self.linux(host)?;
                        let cost = linux.scaled(linux.model.read);
                        return Some((Work::PollRead(port), cost, Nanos::ZERO));
                    }
                    self.hosts[host as usize].ports[port as usize].is_masked = false;
                }
                Poller::Backlog => {
                    if let Some(work) = self.next_of_backlog(host) {
                        return Some(work);
                    }
                    self.linux(host)?.backlog_scheduled = false;
                }
            }
            let linux = self.linux(host)?;
            linux.polls.pop_front();
            linux.polled = 0;
        }
    }

    fn next_of_backlog(&mut self, host: u32) -> Option<(Work, Nanos, Nanos)> {
        match self.linux(host)?.backlog.pop_front()? {
            Waiting::Packet(is_last) => {
                let ethernet = self.linux(host)?.model.ethernet?;
                let reply = if is_last { ethernet.reply } else { Nanos::ZERO };
                Some((Work::Packet, ethernet.receive + reply, Nanos::ZERO))
            }
            Waiting::Frame(id, port) => Some(self.stack(host, port, id)),
        }
    }

    /// A frame enters the network stack: towards the rules, or towards the socket of the process.
    fn stack(&mut self, host: u32, port: u32, id: FlightId) -> (Work, Nanos, Nanos) {
        let mut decision = std::mem::take(&mut self.hosts[host as usize].scratch);
        let in_kernel = self.linux(host).is_some_and(|linux| linux.model.user_space.is_none());
        if in_kernel {
            self.decide(host, port, id, &mut decision);
        }
        let spare = self.linux(host).map(|linux| {
            linux.delivery.flight = Some(id);
            linux.delivery.next = 0;
            linux.delivery.walked = Nanos::ZERO;
            std::mem::replace(&mut linux.delivery.decision, decision)
        });
        self.hosts[host as usize].scratch = spare.unwrap_or_default();
        let Some(linux) = self.linux(host) else {
            return (Work::Deliver, Nanos::ZERO, Nanos::ZERO);
        };
        let receive = linux.scaled(linux.model.receive);
        match linux.model.user_space {
            Some(user) => (Work::Socket(port), receive + linux.scaled(user.socket), Nanos::ZERO),
            None => {
                let (work, cost, behind_mark) = delivery_work(linux, false);
                (work, receive + cost, behind_mark)
            }
        }
    }

    fn read_done(&mut self, host: u32, port: u32) {
        // The driver hands the frame to the stack within the same poll.
        if let Some(id) = self.take(host, port) {
            let (work, cost, behind_mark) = self.stack(host, port, id);
            if let Some(linux) = self.linux(host) {
                let level = linux.cpu.levels.soft;
                linux.cpu.begin(level, work, cost, behind_mark);
            }
        }
    }

    /// The next copy of a delivery is passed on, or its walk has ended.
    fn deliver_next(
        &mut self,
        host: u32,
        decided: super::Time,
        of_user: bool,
        observer: &mut impl Observer,
    ) {
        let Some(linux) = self.linux(host) else { return };
        let delivery = if of_user { &mut linux.user_delivery } else { &mut linux.delivery };
        let Some(id) = delivery.flight else { return };
        if let Some(copy) = delivery.decision.copies.get(delivery.next).copied() {
            delivery.next += 1;
            self.flights[id].taps.set(Tap::Decided, decided.as_nanos());
            let flight = self.fork(id, &copy);
            self.egress(host, flight, observer);
            // Without filters behind the last rule, the walk ends here.
            let Some(linux) = self.linux(host) else { return };
            let (delivery, filter) = delivery_of(linux, of_user);
            delivery.walked = copy.walk.cost(&filter);
            let rest = delivery.decision.walk.cost(&filter) - delivery.walked;
            if delivery.next < delivery.decision.copies.len() || rest > Nanos::ZERO {
                return;
            }
        }
        let Some(linux) = self.linux(host) else { return };
        let (delivery, _) = delivery_of(linux, of_user);
        delivery.flight = None;
        let decision = std::mem::take(&mut delivery.decision);
        self.end_received(id, &decision, observer);
        if let Some(linux) = self.linux(host) {
            delivery_of(linux, of_user).0.decision = decision;
        }
    }

    // The process.

    fn queue_in_socket(&mut self, host: u32, port: u32, observer: &mut impl Observer) {
        let Some(linux) = self.linux(host) else { return };
        let (Some(id), Some(user)) = (linux.delivery.flight.take(), linux.model.user_space) else {
            return;
        };
        if linux.socket.len() < user.socket_depth {
            linux.socket.push_back((id, port));
        } else {
            self.refuse(id, Cause::SocketFull, observer);
        }
    }

    fn next_user(&mut self, host: u32) -> Option<(Work, Nanos, Nanos)> {
        let linux = self.linux(host)?;
        let user = linux.model.user_space?;
        if linux.user_delivery.flight.is_some() {
            return Some(delivery_work(linux, true));
        }
        if linux.socket.is_empty() {
            linux.awake = false;
            return None;
        }
        let wake = if std::mem::replace(&mut linux.awake, true) { Nanos::ZERO } else { user.wake };
        Some((Work::UserRecv, linux.scaled(wake + user.recv), Nanos::ZERO))
    }

    fn user_received(&mut self, host: u32) {
        let Some((id, port)) = self.linux(host).and_then(|linux| linux.socket.pop_front()) else {
            return;
        };
        let mut decision = self
            .linux(host)
            .map(|linux| std::mem::take(&mut linux.user_delivery.decision))
            .unwrap_or_default();
        self.decide(host, port, id, &mut decision);
        if let Some(linux) = self.linux(host) {
            linux.user_delivery =
                Delivery { flight: Some(id), decision, next: 0, walked: Nanos::ZERO };
        }
    }

    // Out of the host.

    /// A copy goes into the egress queue of its port.
    fn egress(&mut self, host: u32, id: FlightId, observer: &mut impl Observer) {
        let Leg::Forwarded { port, job, echo, .. } = self.flights[id].leg else { return };
        let now = self.core.now().as_nanos();
        self.flights[id].taps.set(Tap::Enqueued, now);
        let Some(controller) = self.hosts[host as usize].ports[port as usize].controller else {
            return self.loop_back(host, port, job, echo, id, observer);
        };
        if self.is_unsupported(controller, id) {
            return self.refuse_copy(host, job, id, Cause::Unsupported, observer);
        }
        let key = self.flights[id].frame.arbitration_key();
        match self.hosts[host as usize].ports[port as usize].egress.push(key, id) {
            Ok(()) => {
                self.hosts[host as usize].gateway.settle(job, Settled::Handled);
                self.load(host, port, controller);
            }
            Err(id) => self.refuse_copy(host, job, id, Cause::QueueFull, observer),
        }
    }

    /// Moves frames from the egress queue into free transmit buffers.
    fn load(&mut self, host: u32, port: u32, controller: ControllerId) {
        let Some(buffers) = self.linux(host).map(|linux| linux.model.tx_buffers) else { return };
        loop {
            let held = self.can.held(controller);
            let port_ref = &mut self.hosts[host as usize].ports[port as usize];
            if held + port_ref.unacknowledged >= buffers {
                return;
            }
            let Some(id) = port_ref.egress.pop() else { return };
            self.flights[id].taps.set(Tap::Loaded, self.core.now().as_nanos());
            // There is room: fewer than `buffers` are in use, and the queue has as many places.
            let _ = self.offer(controller, id);
        }
    }

    fn transmit_done(&mut self, host: u32, port: u32) {
        let port_ref = &mut self.hosts[host as usize].ports[port as usize];
        let Some(controller) = port_ref.controller else { return };
        port_ref.unacknowledged = port_ref.unacknowledged.saturating_sub(1);
        self.load(host, port, controller);
    }

    /// What is sent to a virtual interface is received from it, if others there may see it.
    fn loop_back(
        &mut self,
        host: u32,
        port: u32,
        job: u32,
        echo: bool,
        id: FlightId,
        observer: &mut impl Observer,
    ) {
        self.hosts[host as usize].gateway.settle(job, Settled::Handled);
        if !echo {
            return self.refuse(id, Cause::VirtualWithoutEcho, observer);
        }
        if let Leg::Forwarded { passage, .. } = self.flights[id].leg {
            self.flights[id].leg = Leg::Received { passage };
        }
        self.queue_in_backlog(host, Waiting::Frame(id, port), observer);
    }
}

fn interrupt_work(linux: &LinuxHost, interrupt: Interrupt) -> (Work, Nanos, Nanos) {
    let model = &linux.model;
    let cost = match interrupt {
        Interrupt::Disturbance(duration) => duration,
        Interrupt::Receive(_) => linux.scaled(model.interrupt),
        Interrupt::Read(_) => linux.scaled(model.read),
        Interrupt::TransmitDone(_) => linux.scaled(model.interrupt + model.transmit_done),
        Interrupt::Ethernet(_) => model.ethernet.map_or(Nanos::ZERO, |ethernet| ethernet.interrupt),
    };
    (Work::Interrupt(interrupt), cost, Nanos::ZERO)
}

fn delivery_of(linux: &mut LinuxHost, of_user: bool) -> (&mut Delivery, crate::model::FilterCosts) {
    let filter = linux.model.filter;
    (if of_user { &mut linux.user_delivery } else { &mut linux.delivery }, filter)
}

/// The walk to the next copy of a delivery and its passing on; or the rest of the walk.
fn delivery_work(linux: &LinuxHost, of_user: bool) -> (Work, Nanos, Nanos) {
    let model = &linux.model;
    let (delivery, work) = if of_user {
        (&linux.user_delivery, Work::UserSend)
    } else {
        (&linux.delivery, Work::Deliver)
    };
    let Some(copy) = delivery.decision.copies.get(delivery.next) else {
        let rest = delivery.decision.walk.cost(&model.filter) - delivery.walked;
        return (work, if of_user { Nanos::ZERO } else { linux.scaled(rest) }, Nanos::ZERO);
    };
    if let (true, Some(user)) = (of_user, model.user_space) {
        let send = linux.scaled(user.send + model.transmit);
        return (work, send, send);
    }
    let walk = copy.walk.cost(&model.filter) - delivery.walked;
    let buffer = if copy.is_edited { model.copy } else { model.clone };
    let more = if linux.virtual_ports.len() > 1 { model.virtual_more } else { Nanos::ZERO };
    let transmit =
        if linux.is_virtual(copy.port) { model.virtual_transmit + more } else { model.transmit };
    (work, linux.scaled(walk + buffer + transmit), linux.scaled(buffer + transmit))
}

//! Ports on the buses of a simulated world: what is written against `candor_port` runs in virtual time.
//!
//! ```text
//!  program -- Transmitter --> transmit queue --> controller ==Bus== controller --> receive queue -- Receiver --> program
//! ```
//!
//! A [`Simulation`] owns a [`World`] and opens ports on its buses. Each port is a node with a controller of its
//! own. Arbitration, bit times and errors are those of the world.
//!
//! **Who advances time.** No clock is read. Virtual time advances only while a thread waits: in
//! [`Receiver::receive`] with [`Until::Instant`] or [`Until::Woken`], in [`Transmitter::wait`], in
//! [`Simulation::wait`] and in [`Simulation::run_until`]. What a program does between two waits takes no time.
//! The call that waits runs the events of the whole world, and returns right behind the event that it waits for.
//! A program with one thread therefore always gets the same results.
//!
//! **Order within an instant.** A frame has arrived at its exact end on the bus. The program can act before any
//! bus chooses its next frame at that instant, as a host without delay does. A wait until an instant ends at the
//! same point: frames that end at that instant have arrived, and the buses have not chosen.
//!
//! **Several threads** may use ports of one simulation. Each wait then advances the time of all. When another thread
//! transmits is up to the scheduler of the machine, so results are not repeatable. With [`Until::Woken`], a thread
//! blocks if nothing is planned in the world, until another thread transmits or uses the waker.
//!
//! **Time stamps** are nanoseconds of virtual time, as [`Stamp::system`] and as [`Stamp::hardware`]; deadlines are
//! nanoseconds of virtual time too.
//!
//! **Errors.** A controller that becomes error-passive, bus-off, or active again gives an error report if that was
//! wanted. While it is bus-off, [`Transmitter::transmit`] returns [`Sent::Down`], and `trouble` of the counters says so.
//!
//! This is a module of `sim` and not a crate of its own, because a port is a node of the world: it needs the queue
//! of its controller and the events of its bus, which are private. `port` knows no system and reads no clock, so
//! `sim` still depends on nothing that does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use candor_port::{
    Capabilities, Error, Message, Port, Progress, Received, Receiver, ReceiverCounters, Sent,
    Stamp, Transmitter, TransmitterCounters, Until, Waker, Wanted,
};
use candor_time::{Instant, Nanos};
use candor_wire::can::Frame;

use crate::can::BusId;
use crate::event::Time;
use crate::host::Gateway;
pub use crate::node::PortConfig;
use crate::record::Observer;
use crate::sender::Source;
use crate::world::World;
use candor_queue::Discipline;

/// Frames that a receiver hands over at once, at most.
const MOST_AT_ONCE: usize = 256;
/// Events after which a thread that waits lets others use the world.
const EVENTS_PER_TURN: u32 = 4_096;
const END_OF_TIME: Time = Time::from_nanos(u64::MAX);

/// A world whose time the ports on its buses advance. All clones are the same one.
///
/// ```
/// use candor_port::{Progress, Sent, Until, Wanted};
/// use candor_sim::port::{PortConfig, PortWorld, Simulation};
/// use candor_sim::*;
/// use candor_wire::can::{Bitrate, Frame, Timing};
///
/// struct Nobody;
/// impl Gateway for Nobody {
///     fn decide(&mut self, _: Time, _: u32, _: &Frame, _: PassageTag, _: &mut Decision) {}
///     fn settle(&mut self, _: u32, _: Settled) {}
/// }
/// struct Ignore;
/// impl Observer for Ignore {
///     fn record(&mut self, _: &Record<'_>) {}
/// }
///
/// let mut world: PortWorld<Nobody> = World::for_ports(1);
/// let bus = world.add_bus(BusConfig {
///     name: "bus".into(), timing: Timing::classical(Bitrate::new(1_000_000).unwrap()),
///     is_fd: false, bit_error_rate: 0.0, restart: None,
/// });
/// let simulation = Simulation::new(world, Ignore);
/// let mut left = simulation.open(bus, &PortConfig::default(), Wanted::TRANSMITTER);
/// let mut right = simulation.open(bus, &PortConfig::default(), Wanted::RECEIVER);
///
/// let frame: Frame = "123#1122334455667788".parse()?;
/// assert_eq!(left.transmitter.as_mut().unwrap().transmit(&frame, false), Sent::Taken);
/// let mut end_ns = 0;
/// let progress = right.receiver.as_mut().unwrap().receive(Until::Woken, &mut |received| {
///     end_ns = received.stamp.system.unwrap().as_nanos();
/// });
/// assert_eq!(progress, Ok(Progress::Frames(1)));
/// // 109 bits of 1 us.
/// assert_eq!(end_ns, 109_000);
/// # Ok::<(), candor_wire::can::notation::NotationError>(())
/// ```
pub struct Simulation<G, O> {
    shared: Arc<Shared<G, O>>,
}

impl<G, O> Clone for Simulation<G, O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<G, O> std::fmt::Debug for Simulation<G, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Simulation")
    }
}

impl<G, O> Simulation<G, O>
where
    G: Gateway + Send + 'static,
    O: Observer + Send + 'static,
{
    /// Takes over a world that has not run. `observer` gets the record of every frame that ends, also of those
    /// that ports transmit. [`Observer::proceed`] is not called: the program ends the simulation.
    #[must_use]
    pub fn new(mut world: PortWorld<G>, observer: O) -> Self {
        world.start_stepping();
        let state = Mutex::new(State { world, observer, is_closed: false });
        Self { shared: Arc::new(Shared { state, idle: Arc::default() }) }
    }

    /// Opens a port on a bus of the world. The port is a node of the bus from now on, even after both
    /// halves have been dropped: frames in its transmit queue are still transmitted.
    #[must_use]
    pub fn open(&self, bus: BusId, config: &PortConfig, wanted: Wanted) -> Port {
        let mut state = self.shared.lock();
        let node = state.world.add_port_node(bus, config, wanted);
        let capabilities = Capabilities {
            fd: state.world.is_fd(bus),
            remote: true,
            error_reports: true,
            own_frames: true,
            stamps: true,
            hardware_stamps: true,
            ordered: config.discipline == Discipline::Fifo,
            reliable: true,
            message: Message::Frame,
        };
        let node_ref = state.world.port_node(node);
        let receiver_counters = Arc::clone(&node_ref.receiver_counters);
        let transmitter_counters = Arc::clone(&node_ref.transmitter_counters);
        drop(state);
        let mut port = Port::new(capabilities);
        if wanted.receiver {
            port.receiver = Some(Box::new(PortReceiver {
                shared: Arc::clone(&self.shared),
                node,
                wants_stamps: wanted.stamps,
                is_woken: wanted.waker.then(Arc::default),
                counters: receiver_counters,
            }));
        }
        if wanted.transmitter {
            port.transmitter = Some(Box::new(PortTransmitter {
                shared: Arc::clone(&self.shared),
                node,
                counters: transmitter_counters,
            }));
        }
        port
    }

    /// The virtual time reached.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.lock().world.now()
    }

    /// Runs the world up to `time`. Does nothing if that is past.
    pub fn run_until(&self, time: Time) {
        let mut state = self.shared.lock();
        while state.step(time) {}
        state.world.reach(time);
    }

    /// Runs the world until some receiver has a frame, or `time` is reached; whether one has. Then
    /// [`Receiver::receive`] with [`Until::Now`] gives the frames. With this, one thread can serve several ports.
    #[must_use]
    pub fn wait(&self, time: Time) -> bool {
        let mut state = self.shared.lock();
        loop {
            if state.world.port_nodes().iter().any(|node| !node.received.is_empty()) {
                return true;
            }
            if !state.step(time) {
                break;
            }
        }
        // The end of time is no instant to go to: nothing is planned any more.
        if time != END_OF_TIME {
            state.world.reach(time);
        }
        false
    }

    /// Looks at the world and the observer.
    pub fn inspect<R>(&self, look: impl FnOnce(&PortWorld<G>, &O) -> R) -> R {
        let state = self.shared.lock();
        look(&state.world, &state.observer)
    }

    /// Ends the simulation: what is still under way ends as `unfinished`. Receivers then end once they have handed over
    /// what has arrived; transmitters take nothing more, and count as lost what they had taken.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        let State { world, observer, is_closed } = &mut *state;
        if !std::mem::replace(is_closed, true) {
            world.end_all(observer);
            for node in world.port_nodes() {
                node.transmitter_counters.lost.add(node.taken.saturating_sub(node.transmitted));
                node.transmitted = node.taken;
            }
        }
        drop(state);
        self.shared.idle.change();
    }
}

/// A world that may go to other threads.
pub type PortWorld<G> = World<G, dyn Source + Send>;

struct Shared<G, O> {
    state: Mutex<State<G, O>>,
    idle: Arc<Idle>,
}

impl<G, O> Shared<G, O> {
    fn lock(&self) -> MutexGuard<'_, State<G, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State<G, O> {
    world: PortWorld<G>,
    observer: O,
    is_closed: bool,
}

impl<G: Gateway, O: Observer> State<G, O> {
    fn step(&mut self, limit: Time) -> bool {
        !self.is_closed && self.world.step(limit, &mut self.observer)
    }
}

/// Where threads block while nothing is planned in the world.
#[derive(Default)]
struct Idle {
    /// How often something has changed from outside: a frame was transmitted, a waker was used.
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Idle {
    fn changes(&self) -> u64 {
        *self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        *changes = changes.wrapping_add(1);
        drop(changes);
        self.changed.notify_all();
    }

    /// Blocks until something has changed since `changes` were counted.
    fn block(&self, changes: u64) {
        let mut now = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        while *now == changes {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What came out of running the world.
enum WorldTurn {
    /// A frame has arrived.
    Arrived,
    /// The time is over, or the waker was used.
    Over,
    /// The simulation is closed.
    Closed,
    /// Others shall have their turn.
    Again,
    /// Nothing is planned.
    Idle,
}

struct PortReceiver<G, O> {
    shared: Arc<Shared<G, O>>,
    node: u32,
    wants_stamps: bool,
    /// `None` unless a waker was wanted.
    is_woken: Option<Arc<AtomicBool>>,
    counters: Arc<ReceiverCounters>,
}

impl<G, O> PortReceiver<G, O>
where
    G: Gateway + Send + 'static,
    O: Observer + Send + 'static,
{
    /// Runs the world until a frame arrives here, or `limit` is reached; `None` does not run it.
    fn turn(&self, limit: Option<Time>) -> WorldTurn {
        let mut state = self.shared.lock();
        for _ in 0..EVENTS_PER_TURN {
            if !state.world.port_node(self.node).received.is_empty() {
                return WorldTurn::Arrived;
            }
            let Some(limit) = limit else {
                return if state.is_closed { WorldTurn::Closed } else { WorldTurn::Over };
            };
            let is_woken = |woken: &Arc<AtomicBool>| woken.swap(false, Ordering::AcqRel);
            if self.is_woken.as_ref().is_some_and(is_woken) {
                return WorldTurn::Over;
            }
            if state.is_closed {
                return WorldTurn::Closed;
            }
            if !state.step(limit) {
                if limit == END_OF_TIME {
                    return WorldTurn::Idle;
                }
                state.world.reach(limit);
                return WorldTurn::Over;
            }
        }
        WorldTurn::Again
    }

    /// Hands over what has arrived. The world is free meanwhile, so `take` may transmit.
    fn hand_over(&self, take: &mut dyn FnMut(&Received)) -> usize {
        for count in 0..MOST_AT_ONCE {
            let arrival = self.shared.lock().world.port_node(self.node).received.pop();
            let Some(arrival) = arrival else { return count };
            let at = arrival.at.as_nanos();
            let stamp = match self.wants_stamps {
                true => Stamp {
                    system: Some(Instant::from_nanos(at)),
                    hardware: Some(Instant::from_nanos(at)),
                },
                false => Stamp::default(),
            };
            self.counters.frames.add(1);
            if arrival.frame.kind() == candor_wire::can::Kind::Error {
                self.counters.error_reports.add(1);
            }
            take(&Received { frame: arrival.frame, stamp, origin: arrival.origin });
        }
        MOST_AT_ONCE
    }
}

impl<G, O> Receiver for PortReceiver<G, O>
where
    G: Gateway + Send + 'static,
    O: Observer + Send + 'static,
{
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let limit = match until {
            Until::Now => None,
            Until::Instant(instant) => Some(Time::from_nanos(instant.as_nanos())),
            Until::Woken => Some(END_OF_TIME),
        };
        loop {
            let changes = self.shared.idle.changes();
            match self.turn(limit) {
                WorldTurn::Arrived => return Ok(Progress::Frames(self.hand_over(take))),
                WorldTurn::Over => return Ok(Progress::Nothing),
                WorldTurn::Closed => return Ok(Progress::Ended),
                WorldTurn::Again => {}
                WorldTurn::Idle => self.shared.idle.block(changes),
            }
        }
    }

    fn has_more(&self) -> bool {
        !self.shared.lock().world.port_node(self.node).received.is_empty()
    }

    fn waker(&self) -> Option<Waker> {
        let is_woken = Arc::clone(self.is_woken.as_ref()?);
        let idle = Arc::clone(&self.shared.idle);
        Some(Waker::new(move || {
            is_woken.store(true, Ordering::Release);
            idle.change();
        }))
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

impl<G, O> Drop for PortReceiver<G, O> {
    fn drop(&mut self) {
        self.shared.lock().world.stop_receiving(self.node);
    }
}

struct PortTransmitter<G, O> {
    shared: Arc<Shared<G, O>>,
    node: u32,
    counters: Arc<TransmitterCounters>,
}

impl<G, O> Transmitter for PortTransmitter<G, O>
where
    G: Gateway + Send + 'static,
    O: Observer + Send + 'static,
{
    fn transmit(&mut self, frame: &Frame, _echo: bool) -> Sent {
        let mut state = self.shared.lock();
        if state.is_closed {
            return Sent::Down;
        }
        let sent = state.world.transmit(self.node, frame);
        drop(state);
        if sent == Sent::Taken {
            self.shared.idle.change();
        }
        sent
    }

    /// Runs the world until the queue has room that it had not, or a frame of this port has been transmitted; at most
    /// so long. Returns at once if nothing is on the way.
    fn wait(&mut self, most: Nanos) {
        let mut state = self.shared.lock();
        let limit = state.world.now() + most;
        let was_full = state.world.is_queue_full(self.node);
        let node = state.world.port_node(self.node);
        let (taken, before) = (node.taken, node.transmitted);
        if taken == before {
            return;
        }
        while state.step(limit) {
            let is_full = state.world.is_queue_full(self.node);
            if state.world.port_node(self.node).transmitted != before || was_full && !is_full {
                return;
            }
        }
        state.world.reach(limit);
    }

    fn is_drained(&mut self) -> bool {
        let mut state = self.shared.lock();
        let node = state.world.port_node(self.node);
        node.taken == node.transmitted
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

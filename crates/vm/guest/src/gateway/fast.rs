//! Our rule engine with everything a process can do to be quick.
//!
//! | state | receives by | because |
//! |---|---|---|
//! | waiting | a CAN socket, `recv` that blocks | the shortest way from a frame to a process: no `poll` in front, no ring to look at |
//! | gathering | a ring shared with the kernel | no wake-up, no buffer and no system call per frame |
//!
//! Both send by `send` on CAN sockets without loopback. What was tried and is slower on Linux 6.12:
//! packet sockets past the queue (`PACKET_QDISC_BYPASS` saves the queue, but packet sockets dissect
//! each frame to find protocols), and `recvmmsg`, `sendmmsg` (their headers cost more than system
//! calls). A ring for sending puts frames into fragments, which CAN drivers do not look at.
//!
//! While it waits, the ring is closed, at first because it is not started, later by a filter; while
//! frames gather, the CAN socket has no filters. On the way from one to the other a frame may reach
//! both, so frames are compared by their stamps there: none is lost, none passes twice. Frames that
//! other programs of this machine send on the source bus do not reach the ring: while frames
//! gather, they are not forwarded.

use candor_bed::order::Measurement;
use candor_engine::{BusIndex, Engine};
use candor_linux::can::{Filter, Socket};
use candor_linux::clock;
use candor_linux::packet::Ring;
use candor_linux::poll::{Interest, Poll};
use candor_linux::quick::{self, Gate};
use candor_linux::{Error, Sent, state};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::socketcan::CANFD_MTU;

use super::coalesce::{Coalescer, Next};
use super::egress::{Sockets, sources};
use super::engine::count;
use super::{Meter, Tally, is_stopped};
use crate::failure::{Context, FAULT, Failure};

const REMEDY: &str = "see the console";
/// Frames that a ring holds: 36 ms of the shortest frames at 1 Mbit/s.
const RING_LEN: usize = 768;
/// How long frames are taken from both the socket and the ring, at least,
const OVERLAP: Nanos = Nanos::from_micros(250);
/// and how often as long, at most.
const MOST_OVERLAPS: u32 = 20;

pub(super) fn run(order: &Measurement, ready: &mut dyn FnMut()) -> Result<Tally, Failure> {
    let table = &order.rules;
    let mut gateway = Gateway {
        engine: Engine::new(table),
        egress: Sockets::open(table, |socket: &Socket, bytes: &[u8]| quick::send(socket, bytes))?,
        inputs: Vec::new(),
        scratch: Vec::with_capacity(RING_LEN),
        period: Nanos::from_nanos(order.settings.gather_ns),
    };
    for bus in sources(table) {
        let Some(interface) = table.buses.get(usize::from(bus.0)) else { continue };
        let input = Input::open(bus, &interface.port, order.settings.receive_buffer);
        gateway.inputs.push(input.at("gateway", REMEDY)?);
    }
    let mut poll = Poll::new(gateway.inputs.len()).at("gateway", FAULT)?;
    for (token, input) in (0..).zip(&gateway.inputs) {
        poll.add(&input.socket, Interest::Read, token).at("gateway", FAULT)?;
    }
    quick::leave_restartable_sequences().at("gateway", FAULT)?;
    let mut tally = Tally::default();
    ready();
    let meter = Meter::start();
    match gateway.work(&mut poll) {
        Err(error) if is_stopped(&error) => {}
        outcome => outcome.at("gateway", REMEDY)?,
    }
    meter.stop(&mut tally);
    for input in &gateway.inputs {
        tally.overflow += u64::from(state::memory(&input.socket).at("gateway", REMEDY)?.dropped);
        tally.overflow += u64::from(input.ring.overflow().at("gateway", REMEDY)?);
    }
    count(&gateway.engine, &mut tally);
    Ok(tally)
}

/// Where frames of a bus come in.
struct Input {
    bus: BusIndex,
    socket: Socket,
    ring: Ring,
}

impl Input {
    fn open(bus: BusIndex, interface: &str, receive_buffer: Option<u32>) -> Result<Self, Error> {
        let socket = Socket::open(interface)?;
        socket.accept_fd()?;
        if let Some(bytes) = receive_buffer {
            socket.set_receive_buffer(bytes)?;
        }
        let ring = Ring::prepare(interface, RING_LEN)?;
        // Both report the same stamp of a frame only if it is taken before either has it.
        state::set_stamps(&ring, true)?;
        Ok(Self { bus, socket, ring })
    }
}

/// A frame that may have come in on both ways.
type Twice = ([u8; CANFD_MTU], usize, Option<Instant<Realtime>>);

struct Gateway<Send> {
    engine: Engine,
    egress: Sockets<Send>,
    inputs: Vec<Input>,
    scratch: Vec<Twice>,
    /// How long frames gather.
    period: Nanos,
}

impl<Send: Fn(&Socket, &[u8]) -> Result<Sent, Error>> Gateway<Send> {
    /// Works until an interface is stopped.
    fn work(&mut self, poll: &mut Poll) -> Result<(), Error> {
        let mut coalescer = Coalescer::new(self.period);
        loop {
            let next = match self.inputs.len() {
                1 => self.wait_for_one(&mut coalescer)?,
                _ => self.wait_for_any(poll, &mut coalescer)?,
            };
            if let Next::Gather(time) = next {
                self.gather(time, &mut coalescer)?;
            }
        }
    }

    /// Waits for frames of the only input, until they shall gather.
    fn wait_for_one(&mut self, coalescer: &mut Coalescer) -> Result<Next, Error> {
        let Self { engine, egress, inputs, .. } = self;
        let Some(Input { bus, socket, .. }) = inputs.first() else { return Ok(Next::Wait) };
        let mut room = [0; CANFD_MTU];
        loop {
            let len = quick::receive(socket, &mut room, true)?.unwrap_or(0);
            egress.decide(engine, *bus, room.get(..len).unwrap_or_default());
            let next = coalescer.forwarded(clock::now::<Monotonic>().as_nanos());
            if next != Next::Wait {
                return Ok(next);
            }
        }
    }

    /// Waits for frames of all inputs, and forwards what is there.
    fn wait_for_any(&mut self, poll: &mut Poll, coalescer: &mut Coalescer) -> Result<Next, Error> {
        let Self { engine, egress, inputs, .. } = self;
        let mut next = Next::Wait;
        let mut room = [0; CANFD_MTU];
        for token in poll.wait(None)? {
            let Some(Input { bus, socket, .. }) = inputs.get(token as usize) else { continue };
            while let Some(len) = quick::receive(socket, &mut room, false)? {
                egress.decide(engine, *bus, room.get(..len).unwrap_or_default());
                next = match coalescer.forwarded(clock::now::<Monotonic>().as_nanos()) {
                    Next::Wait => next,
                    gather => gather,
                };
            }
        }
        Ok(next)
    }

    /// Lets frames gather and forwards them, as long as it is worth it.
    fn gather(&mut self, time: Nanos, coalescer: &mut Coalescer) -> Result<(), Error> {
        // A probe: still on the sockets.
        clock::sleep_until(clock::now::<Monotonic>() + time)?;
        let mut count = 0;
        for input in 0..self.inputs.len() {
            count += self.empty_socket(input)?;
        }
        let mut next = coalescer.gathered(count);
        if !coalescer.is_gathering() {
            return Ok(());
        }
        for input in 0..self.inputs.len() {
            self.change_to_ring(input)?;
        }
        let mut until = clock::now::<Monotonic>();
        while let Next::Gather(time) = next {
            // From batch to batch, so that forwarding them does not make them longer; but what
            // takes too long is not to be made up for.
            until = (until + time).max(clock::now::<Monotonic>());
            clock::sleep_until(until)?;
            let count = (0..self.inputs.len()).map(|input| self.empty_ring(input)).sum();
            next = coalescer.gathered(count);
        }
        for input in 0..self.inputs.len() {
            self.change_to_socket(input)?;
        }
        Ok(())
    }

    /// Forwards what waits in a socket; returns how many frames.
    fn empty_socket(&mut self, input: usize) -> Result<u64, Error> {
        let Self { engine, egress, inputs, .. } = self;
        let Some(Input { bus, socket, .. }) = inputs.get(input) else { return Ok(0) };
        let mut room = [0; CANFD_MTU];
        let mut count = 0;
        while let Some(len) = quick::receive(socket, &mut room, false)? {
            egress.decide(engine, *bus, room.get(..len).unwrap_or_default());
            count += 1;
        }
        Ok(count)
    }

    /// Forwards what waits in a ring; returns how many frames.
    fn empty_ring(&mut self, input: usize) -> u64 {
        let Self { engine, egress, inputs, .. } = self;
        let Some(Input { bus, ring, .. }) = inputs.get_mut(input) else { return 0 };
        let mut count = 0;
        while let Some(packet) = ring.receive() {
            egress.decide(engine, *bus, packet.bytes());
            count += 1;
        }
        count
    }

    /// From the socket to the ring. The ring is in front of the CAN layer, and where the kernel's own
    /// threads can be preempted, a frame may be past the one and not yet at the other: until one has
    /// come to the ring, when all before it are through, frames are taken from both.
    fn change_to_ring(&mut self, input: usize) -> Result<(), Error> {
        let Some(Input { socket, ring, .. }) = self.inputs.get_mut(input) else { return Ok(()) };
        // What came so late that it was taken from the socket.
        while ring.receive().is_some() {}
        state::set_stamps(socket, true)?;
        quick::set_gate(ring, Gate::Open)?;
        ring.start()?;
        let mut last = None;
        for _ in 0..MOST_OVERLAPS {
            clock::sleep_until(clock::now::<Monotonic>() + OVERLAP)?;
            last = self.empty_stamped_socket(input)?.or(last);
            if self.inputs.get(input).is_some_and(|input| input.ring.is_ready()) {
                break;
            }
        }
        let Some(Input { socket, .. }) = self.inputs.get(input) else { return Ok(()) };
        socket.set_filters(&[])?;
        last = self.empty_stamped_socket(input)?.or(last);
        let Some(Input { bus, socket, ring }) = self.inputs.get_mut(input) else { return Ok(()) };
        state::set_stamps(socket, false)?;
        self.scratch.clear();
        while let Some(packet) = ring.receive() {
            self.scratch.push(twice(packet.bytes(), Some(packet.stamp())));
        }
        let bus = *bus;
        self.forward_after(bus, last);
        Ok(())
    }

    /// Forwards what waits in a socket; returns the stamp of the last frame.
    fn empty_stamped_socket(&mut self, input: usize) -> Result<Option<Instant<Realtime>>, Error> {
        let Self { engine, egress, inputs, .. } = self;
        let Some(Input { bus, socket, .. }) = inputs.get(input) else { return Ok(None) };
        socket.set_blocking(false)?;
        let mut last = None;
        while let Some(received) = socket.receive_stamped()? {
            egress.decide(engine, *bus, received.frame.as_bytes());
            last = received.stamp;
        }
        socket.set_blocking(true)?;
        Ok(last)
    }

    /// From the ring to the socket, which is behind it: what is in the ring before it is closed, or
    /// past it, comes to the socket as well.
    fn change_to_socket(&mut self, input: usize) -> Result<(), Error> {
        let Some(Input { bus, socket, ring }) = self.inputs.get_mut(input) else { return Ok(()) };
        socket.set_blocking(false)?;
        // What came so late that it was taken from the ring.
        while socket.receive_stamped()?.is_some() {}
        state::set_stamps(socket, true)?;
        socket.set_filters(&[Filter::ANY])?;
        quick::set_gate(ring, Gate::Closed)?;
        let mut last = None;
        while let Some(packet) = ring.receive() {
            self.egress.decide(&mut self.engine, *bus, packet.bytes());
            last = Some(packet.stamp());
        }
        self.scratch.clear();
        // More than fits in are frames that came later: those are left to the socket.
        while self.scratch.len() < RING_LEN
            && let Some(received) = socket.receive_stamped()?
        {
            self.scratch.push(twice(received.frame.as_bytes(), received.stamp));
        }
        socket.set_blocking(true)?;
        state::set_stamps(socket, false)?;
        let bus = *bus;
        self.forward_after(bus, last);
        Ok(())
    }

    /// Forwards the frames of the scratch behind the one with that stamp, or all if it is not there.
    fn forward_after(&mut self, bus: BusIndex, stamp: Option<Instant<Realtime>>) {
        let is_last = |(_, _, found): &Twice| stamp.is_some() && *found == stamp;
        let known = self.scratch.iter().position(is_last).map_or(0, |at| at + 1);
        for (bytes, len, _) in self.scratch.iter().skip(known) {
            self.egress.decide(&mut self.engine, bus, bytes.get(..*len).unwrap_or_default());
        }
    }
}

fn twice(bytes: &[u8], stamp: Option<Instant<Realtime>>) -> Twice {
    let mut frame = [0; CANFD_MTU];
    let len = bytes.len().min(CANFD_MTU);
    frame[..len].copy_from_slice(&bytes[..len]);
    (frame, len, stamp)
}

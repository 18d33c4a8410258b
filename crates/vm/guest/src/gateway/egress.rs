//! Ways out for the engine's copies, by sockets of the CAN layer.
//!
//! A copy for a virtual bus does not go through the kernel: it is put into a queue and handed to
//! the engine again, with what it carries (its origin, how often it has been passed on). So chains
//! of virtual buses cost no system calls, and the hop limits hold.

use std::collections::VecDeque;

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::{BusIndex, Table};
use candor_engine::{Egress, Engine, Forward, Passage};
use candor_linux::can::{RawFrame, Socket};
use candor_linux::{Errno, Error, Sent};
use candor_time::Nanos;
use candor_wire::Frame;
use candor_wire::socketcan::{self, CAN_MTU, IdOrder};

use crate::failure::{Context, Failure};

/// Copies that may wait for the engine: far more than one frame becomes.
const MOST_PENDING: usize = 4_096;

/// A frame on a virtual bus.
struct Hop {
    bus: BusIndex,
    frame: Frame,
    passage: Passage,
}

/// Copies on virtual buses, in the order in which they were made.
pub(super) struct Hops(VecDeque<Hop>);

impl Hops {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(MOST_PENDING))
    }

    /// Takes a copy. It is told by its parts, since whoever has its address would have to write it to
    /// memory first.
    #[inline(never)]
    fn push(&mut self, bus: BusIndex, frame: &Frame, passage: Passage) -> Outcome {
        if self.0.len() == MOST_PENDING {
            return Outcome::Refused(Cause::QueueFull);
        }
        self.0.push_back(Hop { bus, frame: *frame, passage });
        Outcome::Handled
    }
}

/// What it counts as when a copy was not sent.
#[cold]
fn refused(sent: Result<Sent, Error>) -> Outcome {
    Outcome::Refused(match sent {
        Ok(Sent::Taken) => return Outcome::Handled,
        Ok(Sent::QueueFull | Sent::WouldBlock) => Cause::QueueFull,
        Err(error) => match error.errno().and_then(Errno::name) {
            Some("EMSGSIZE" | "EINVAL") => Cause::Unsupported,
            _ => Cause::Down,
        },
    })
}

/// The buses that rules take frames from, without virtual ones.
pub(super) fn sources(table: &Table) -> Vec<BusIndex> {
    let is_source = |bus: &BusIndex| {
        let is_virtual = table.buses.get(usize::from(bus.0)).is_none_or(|bus| bus.is_virtual);
        !is_virtual && table.rules.iter().any(|rule| rule.from == *bus)
    };
    (0..table.buses.len() as u16).map(BusIndex).filter(is_source).collect()
}

/// Sockets of the CAN layer: what is sent waits in the queue of the interface like that of anyone.
/// `Send` sends the bytes of a frame on one.
pub(super) struct Sockets<Send> {
    /// By bus, for copies that others on this machine do not see, and for those that they do.
    quiet: Vec<Option<Socket>>,
    echoed: Vec<Option<Socket>>,
    hops: Hops,
    send: Send,
}

impl<Send> Sockets<Send> {
    pub(super) fn open(table: &Table, send: Send) -> Result<Self, Failure> {
        let open = |is_echoed: bool| {
            let buses = (0_u16..).zip(&table.buses);
            let socket = buses.map(|(index, bus)| {
                let mut rules = table.rules.iter().filter(|rule| rule.echo == is_echoed);
                let is_target = rules.any(|rule| rule.to.contains(&BusIndex(index)));
                if bus.is_virtual || !is_target {
                    return Ok(None);
                }
                let socket = Socket::open_for_sending(&bus.port)?;
                socket.set_loopback(is_echoed)?;
                socket.accept_fd()?;
                Ok::<_, Error>(Some(socket))
            });
            socket.collect::<Result<Vec<_>, _>>().at("gateway", "see the console")
        };
        Ok(Self { quiet: open(false)?, echoed: open(true)?, hops: Hops::new(), send })
    }
}

/// The order of bytes of an x86 machine.
const NATIVE: IdOrder = IdOrder::LittleEndian;

impl<Send: Fn(&Socket, &[u8]) -> Result<Sent, Error>> Sockets<Send> {
    /// Lets the engine decide about the bytes of a frame that came in on `bus`, and about what
    /// becomes of it on virtual buses. What is no legal frame matches no rule.
    #[inline]
    pub(super) fn decide(&mut self, engine: &mut Engine, bus: BusIndex, bytes: &[u8]) {
        match <&[u8; CAN_MTU]>::try_from(bytes) {
            Ok(classical) => match socketcan::decode_tidy(classical, NATIVE) {
                Some(frame) => self.pass(engine, bus, &frame, bytes),
                None => self.decide_untidy(engine, bus, bytes),
            },
            Err(_) => self.decide_untidy(engine, bus, bytes),
        }
    }

    #[inline(never)]
    fn decide_untidy(&mut self, engine: &mut Engine, bus: BusIndex, bytes: &[u8]) {
        if let Ok(frame) = socketcan::decode(bytes, NATIVE) {
            self.pass(engine, bus, &frame, bytes);
        }
    }

    #[inline]
    fn pass(&mut self, engine: &mut Engine, bus: BusIndex, frame: &Frame, received: &[u8]) {
        let mut out = Out { sockets: self, received };
        engine.handle(Nanos::ZERO, bus, frame, Passage::received_on(bus), &mut out);
        if !self.hops.0.is_empty() {
            self.pass_on(engine);
        }
    }

    #[inline(never)]
    fn pass_on(&mut self, engine: &mut Engine) {
        while let Some(hop) = self.hops.0.pop_front() {
            let mut out = Out { sockets: self, received: &[] };
            engine.handle(Nanos::ZERO, hop.bus, &hop.frame, hop.passage, &mut out);
        }
    }
}

/// The way out for the copies of one frame.
struct Out<'a, Send> {
    sockets: &'a mut Sockets<Send>,
    /// Its bytes as they came in: what is passed on unchanged needs no encoding. None for a frame of
    /// a virtual bus.
    received: &'a [u8],
}

impl<Send: Fn(&Socket, &[u8]) -> Result<Sent, Error>> Out<'_, Send> {
    #[inline(never)]
    fn send_encoded(&self, socket: &Socket, frame: &Frame) -> Result<Sent, Error> {
        (self.sockets.send)(socket, RawFrame::from(frame).as_bytes())
    }
}

impl<Send: Fn(&Socket, &[u8]) -> Result<Sent, Error>> Egress for Out<'_, Send> {
    #[inline(always)]
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let sockets = if copy.echo { &self.sockets.echoed } else { &self.sockets.quiet };
        let Some(Some(socket)) = sockets.get(usize::from(copy.to.0)) else {
            return self.sockets.hops.push(copy.to, copy.frame, copy.passage);
        };
        let sent = if copy.is_edited || self.received.is_empty() {
            self.send_encoded(socket, copy.frame)
        } else {
            (self.sockets.send)(socket, self.received)
        };
        match sent {
            Ok(Sent::Taken) => Outcome::Handled,
            other => refused(other),
        }
    }
}

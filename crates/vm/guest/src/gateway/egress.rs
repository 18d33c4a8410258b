//! Ways out for the engine's copies, by sockets of the CAN layer.
//!
//! A copy for a virtual bus does not go through the kernel: it is put into a queue and handed to
//! the engine again, with what it carries (its origin, how often it has been passed on). So chains
//! of virtual buses cost no system calls, and the hop limits hold.

use std::collections::VecDeque;

use candor_linux::can::{RawFrame, Socket};
use candor_linux::{Errno, Error, Sent};
use candor_route::counters::{Cause, Outcome};
use candor_route::engine::{Egress, Engine, Forward, Passage};
use candor_route::{BusIndex, Table};
use candor_wire::Frame;
use candor_wire::socketcan::{self, CAN_MTU, CANFD_MTU, IdOrder};

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

    /// Takes a copy.
    pub(super) fn push(&mut self, copy: &Forward<'_>) -> Outcome {
        if self.0.len() == MOST_PENDING {
            return Outcome::Refused(Cause::QueueFull);
        }
        self.0.push_back(Hop { bus: copy.to, frame: *copy.frame, passage: copy.passage });
        Outcome::Handled
    }
}

/// What a failed attempt to send counts as.
pub(super) fn refusal(error: &Error) -> Cause {
    match error.errno().and_then(Errno::name) {
        Some("EMSGSIZE" | "EINVAL") => Cause::Unsupported,
        _ => Cause::Down,
    }
}

/// The buses that rules take frames from, without virtual ones.
pub(super) fn sources(table: &Table) -> Vec<BusIndex> {
    let is_source = |bus: &BusIndex| {
        let is_virtual = table.buses.get(usize::from(bus.0)).is_none_or(|bus| bus.is_virtual);
        !is_virtual && table.rules.iter().any(|rule| rule.from == *bus)
    };
    (0..table.buses.len() as u16).map(BusIndex).filter(is_source).collect()
}

/// Sends the bytes of a frame on a socket.
pub(super) type Send = fn(&Socket, &[u8]) -> Result<Sent, Error>;

/// Sockets of the CAN layer: what is sent waits in the queue of the interface like that of anyone.
pub(super) struct Sockets {
    /// By bus, for copies that others on this machine do not see, and for those that they do.
    quiet: Vec<Option<Socket>>,
    echoed: Vec<Option<Socket>>,
    send: Send,
    hops: Hops,
    /// The bytes of the frame that the engine decides about, as they came in: what is passed on
    /// unchanged needs no encoding.
    received: [u8; CANFD_MTU],
    /// How many; 0 for a frame of a virtual bus.
    received_len: usize,
}

impl Sockets {
    pub(super) fn open(table: &Table, send: Send) -> Result<Self, Failure> {
        let open = |is_echoed: bool| {
            let buses = (0_u16..).zip(&table.buses);
            let socket = buses.map(|(index, bus)| {
                let mut rules = table.rules.iter().filter(|rule| rule.echo == is_echoed);
                let is_target = rules.any(|rule| rule.to.contains(&BusIndex(index)));
                if bus.is_virtual || !is_target {
                    return Ok(None);
                }
                let socket = Socket::open_for_sending(&bus.interface)?;
                socket.set_loopback(is_echoed)?;
                socket.accept_fd()?;
                Ok::<_, Error>(Some(socket))
            });
            socket.collect::<Result<Vec<_>, _>>().at("gateway", "see the console")
        };
        Ok(Self {
            quiet: open(false)?,
            echoed: open(true)?,
            send,
            hops: Hops::new(),
            received: [0; CANFD_MTU],
            received_len: 0,
        })
    }
}

/// The order of bytes of an x86 machine.
const NATIVE: IdOrder = IdOrder::LittleEndian;

/// The frame that bytes of a socket are; what is no legal frame matches no rule.
#[inline]
fn frame_of(bytes: &[u8]) -> Option<Frame> {
    // Nearly all frames: classical, with data, and nothing in the bytes that have no use.
    if let Some((&[i0, i1, i2, i3, len, 0, 0, 0], data)) = bytes.split_first_chunk()
        && bytes.len() == CAN_MTU
    {
        let can_id = u32::from_le_bytes([i0, i1, i2, i3]);
        return Frame::from_parts(can_id, data.get(..usize::from(len))?, None).ok();
    }
    socketcan::decode(bytes, NATIVE).ok()
}

impl Sockets {
    /// Lets the engine decide about a frame that came in on `bus`, and about what becomes of it on
    /// virtual buses.
    #[inline]
    pub(super) fn decide(&mut self, engine: &mut Engine, bus: BusIndex, bytes: &[u8]) {
        let len = bytes.len().min(CANFD_MTU);
        self.received[..len].copy_from_slice(&bytes[..len]);
        self.decide_received(engine, bus, len);
    }

    /// Where the bytes of the next frame may be put, for [`Sockets::decide_received`].
    #[inline]
    pub(super) const fn room(&mut self) -> &mut [u8; CANFD_MTU] {
        &mut self.received
    }

    /// The same as [`Sockets::decide`] for the first `len` bytes of the room.
    #[inline]
    pub(super) fn decide_received(&mut self, engine: &mut Engine, bus: BusIndex, len: usize) {
        let Some(frame) = self.received.get(..len).and_then(frame_of) else { return };
        self.received_len = len;
        engine.handle(bus, &frame, Passage::received_on(bus), self);
        self.received_len = 0;
        while let Some(hop) = self.hops.0.pop_front() {
            engine.handle(hop.bus, &hop.frame, hop.passage, self);
        }
    }
}

impl Egress for Sockets {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let sockets = if copy.echo { &self.echoed } else { &self.quiet };
        let Some(Some(socket)) = sockets.get(usize::from(copy.to.0)) else {
            return self.hops.push(&copy);
        };
        let is_unchanged = !copy.is_edited && self.received_len > 0;
        let outcome = match self.received.get(..self.received_len) {
            Some(received) if is_unchanged => (self.send)(socket, received),
            _ => (self.send)(socket, RawFrame::from(copy.frame).as_bytes()),
        };
        match outcome {
            Ok(Sent::Taken) => Outcome::Handled,
            Ok(Sent::QueueFull | Sent::WouldBlock) => Outcome::Refused(Cause::QueueFull),
            Err(error) => Outcome::Refused(refusal(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_to_a_frame_is_no_other_way() {
        let tidy = [0x23, 1, 0, 0, 3, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0];
        let with = |at: usize, value: u8| {
            let mut bytes = tidy;
            bytes[at] = value;
            bytes
        };
        for bytes in [
            tidy,
            with(3, 0x40), // remote
            with(3, 0x80),
            with(3, 0x20), // an error report
            with(4, 9),
            with(4, 0),
            with(2, 1), // beyond 11 bits
            with(7, 12),
            with(5, 4), // the flag of CAN FD
            with(6, 1),
        ] {
            assert_eq!(frame_of(&bytes), socketcan::decode(&bytes, NATIVE).ok(), "{bytes:02x?}");
        }
        let mut fd = [0; CANFD_MTU];
        fd[..CAN_MTU].copy_from_slice(&tidy);
        assert_eq!(frame_of(&fd), socketcan::decode(&fd, NATIVE).ok());
        assert_eq!(frame_of(&tidy[..7]), None);
    }
}

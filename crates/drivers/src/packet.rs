//! `packet:can0`: an interface of Linux, by a packet socket with a ring.
//!
//! The kernel writes frames into memory that it shares with the receiver, each with its time: many
//! frames cost one system call, and stamps cost nothing. In return a single frame costs a little
//! more than with `socketcan:`, the ring sees frames before the CAN layer does, and nobody can tell
//! whether a frame is of the bus or of another program ([`Origin::Bus`] for all). What this port
//! itself transmits does not come back to it. Takes CAP_NET_RAW.
//!
//! Transmitting is that of `socketcan:`, since packet sockets are slower at it. With
//! `past_queue=true` frames without echo go past the queue of the interface straight to the driver,
//! and find no room ([`Sent::Full`](candor_port::Sent::Full)) as soon as the controller has none: nothing
//! waits where it cannot be overtaken. A virtual interface (vcan) shows such frames to nobody.

use std::sync::Arc;

use candor_linux::packet::Ring;
use candor_linux::state;
use candor_wire::Kind;

use super::socketcan::{Outlets, Sockets, capabilities, decode, failure};
use candor_port::{
    Address, Capabilities, Error, Estate, Origin, Port, Progress, Received, Receiver,
    ReceiverCounters, Stamp, Wanted,
};
use candor_port::{Driver, Medium};

/// The driver.
pub(crate) static DRIVER: Driver = Driver {
    name: "packet",
    summary: "a Linux interface, through a packet socket with a ring",
    medium: Medium::Interface,
    example: "packet:can0",
    options: &[
        ("ring", "the receive ring in frames; default 1024"),
        ("send_buffer", "the send buffer in bytes, about 800 per frame"),
        ("past_queue", "true: bypass the queue of the interface; frames go directly to the driver"),
    ],
    check: |address, _| settings(address).map(drop),
    open,
};

/// Frames that the ring holds unless told otherwise: 48 ms of the shortest at 1 Mbit/s.
const RING_LEN: usize = 1_024;
/// Frames that are handed over at once.
const BATCH: usize = 256;

/// The frames of the ring, the bytes of the send buffer, whether frames go past the queue.
fn settings(address: &Address) -> Result<(usize, Option<u32>, bool), Error> {
    Ok((
        address.parsed("ring", "4096")?.unwrap_or(RING_LEN),
        address.parsed("send_buffer", "8192")?,
        address.parsed("past_queue", "true")?.unwrap_or(false),
    ))
}

fn open(address: &Address, wanted: Wanted, _: &Estate) -> Result<Port, Error> {
    let name = address.to_string();
    let interface = address.place();
    let (ring_len, send_buffer, goes_past_queue) = settings(address)?;
    let fail = |error| failure(&name, interface, &error);

    let capabilities =
        Capabilities { own_frames: false, hardware_stamps: false, ..capabilities(interface) };
    let mut port = Port { capabilities, receiver: None, transmitter: None, endpoint: None };
    // Nothing arrives before it is started.
    let ring = match wanted.receiver {
        true => Some(Ring::prepare(interface, ring_len).map_err(fail)?),
        false => None,
    };
    if wanted.transmitter {
        let outlets = match goes_past_queue {
            true => Outlets::direct(interface, send_buffer),
            false => Outlets::pair(interface, send_buffer, None),
        };
        let outlets = outlets.map_err(fail)?;
        if let Some(ring) = &ring {
            let own = own_mark(state::cookie(ring).map_err(fail)?);
            outlets.set_mark(own).map_err(fail)?;
            ring.ignore_mark(own).map_err(fail)?;
        }
        port.transmitter = Some(Box::new(Sockets::new(outlets)));
    }
    if let Some(ring) = ring {
        if wanted.stamps {
            // Else those of when the frame was copied into the ring.
            state::set_stamps(&ring, true).map_err(fail)?;
        }
        ring.start().map_err(fail)?;
        port.receiver = Some(Box::new(Mapped {
            name: name.as_str().into(),
            interface: interface.into(),
            ring,
            wants_reports: wanted.error_reports,
            wants_stamps: wanted.stamps,
            counters: Arc::default(),
        }));
    }
    Ok(port)
}

/// The mark of what a port transmits, by which its ring knows it: `0xCA` and the lower 24 bits of what
/// the kernel counts its sockets by. A number of the process would not do: processes in containers have
/// the same ones, and would take each other's frames for their own.
const fn own_mark(cookie: u64) -> u32 {
    0xCA00_0000 | cookie as u32 & 0x00FF_FFFF
}

/// The half that receives.
struct Mapped {
    name: Box<str>,
    interface: Box<str>,
    ring: Ring,
    wants_reports: bool,
    wants_stamps: bool,
    counters: Arc<ReceiverCounters>,
}

impl Receiver for Mapped {
    fn receive(&mut self, take: &mut dyn FnMut(&Received)) -> Result<Progress, Error> {
        if !self.ring.is_ready() {
            match self.ring.wait_or_signal(None) {
                Ok(true) => {}
                Ok(false) => return Ok(Progress::Interrupted),
                Err(error) => return Err(failure(&self.name, &self.interface, &error)),
            }
        }
        let (mut count, mut has_lost) = (0, false);
        while count < BATCH
            && let Some(packet) = self.ring.receive()
        {
            has_lost |= packet.is_after_loss();
            let Some(frame) = decode(packet.bytes()) else {
                self.counters.malformed.add(1);
                continue;
            };
            let is_report = frame.kind() == Kind::Error;
            if is_report && !self.wants_reports {
                continue;
            }
            let system = self.wants_stamps.then(|| packet.stamp());
            // The slot is free before the frame is looked at.
            drop(packet);
            count += 1;
            self.counters.frames.add(1);
            self.counters.error_reports.add(u64::from(is_report));
            let stamp = Stamp { system, hardware: None };
            take(&Received { frame, stamp, origin: Origin::Bus });
        }
        if has_lost && let Ok(lost) = self.ring.overflow() {
            self.counters.overflow.add(u64::from(lost));
        }
        Ok(if count == 0 { Progress::Interrupted } else { Progress::Frames(count) })
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_follow_the_sockets() {
        for (cookie, mark) in
            [(1, 0xCA00_0001), (0x00FF_FFFF, 0xCAFF_FFFF), (0x12_3456_789A, 0xCA56_789A)]
        {
            assert_eq!(own_mark(cookie), mark, "{cookie:#x}");
        }
    }
}

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
//!
//! With `gather=1ms` frames of a flood are handed over together, at most so late: see [`gathering`].

mod gathering;

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux::clock;
use candor_linux::packet::Ring;
use candor_linux::poll::Interest;
use candor_linux::state;
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Kind;

use self::gathering::Gathering;
use super::socketcan::{Link, Outlets, Sockets, capabilities, decode, failure};
use crate::wait::{self, Wait};
use candor_port::{
    Address, Capabilities, Error, Handover, Origin, Port, Progress, Received, Receiver,
    ReceiverCounters, Stamp, Until, Waker, Wanted,
};
use candor_port::{Driver, Medium};

pub(crate) static DRIVER: Driver = Driver {
    name: "packet",
    summary: "a Linux interface, through a packet socket with a ring",
    medium: Medium::Interface,
    example: "packet:can0",
    options: &[
        ("ring", "the receive ring in frames; default 1024"),
        (
            "gather",
            "under a flood, receive frames together, at most so late, for example 1ms: fewer \
             wake-ups; 100us to 20ms",
        ),
        ("send_buffer", "the send buffer in bytes, about 800 per frame"),
        ("past_queue", "true: bypass the queue of the interface; frames go directly to the driver"),
    ],
    check: |address, _| Settings::read(address).map(drop),
    names: |_| Vec::new(),
    open,
};

/// Frames that the ring holds by default: 48 ms of the shortest at 1 Mbit/s.
const RING_LEN: usize = 1_024;
/// Frames that are handed over at once.
const BATCH: usize = 256;
/// How long frames may gather: not for less than about a frame, nor for longer than the ring holds.
const GATHER: RangeInclusive<Nanos> = Nanos::from_micros(100)..=Nanos::from_millis(20);

/// What the options of a name say.
struct Settings {
    ring_len: usize,
    send_buffer: Option<u32>,
    goes_past_queue: bool,
    gather: Option<Nanos>,
}

impl Settings {
    fn read(address: &Address) -> Result<Self, Error> {
        let gather = address.duration("gather")?;
        if let Some(time) = gather.filter(|time| !GATHER.contains(time)) {
            let reason = format!("frames cannot gather for {time}");
            let remedy = format!("use {} to {}", GATHER.start(), GATHER.end());
            return Err(Error::new(address.to_string(), reason).with_remedy(remedy));
        }
        Ok(Self {
            ring_len: address.parsed("ring", "4096")?.unwrap_or(RING_LEN),
            send_buffer: address.parsed("send_buffer", "8192")?,
            goes_past_queue: address.parsed("past_queue", "true")?.unwrap_or(false),
            gather,
        })
    }
}

fn open(address: &Address, wanted: Wanted, _: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let interface = address.place();
    let Settings { ring_len, send_buffer, goes_past_queue, gather } = Settings::read(address)?;
    let fail = |error| failure(&name, interface, &error);

    let capabilities =
        Capabilities { own_frames: false, hardware_stamps: false, ..capabilities(interface) };
    let mut port = Port {
        capabilities,
        receiver: None,
        transmitter: None,
        endpoint: None,
        control: Some(Arc::new(Link { name: name.as_str().into(), interface: interface.into() })),
    };
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
            wait: Wait::new(&name, wanted)?,
            gathering: gather.map(Gathering::new),
            gathered: 0,
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
    wait: Wait,
    gathering: Option<Gathering>,
    /// Frames of the batch that were handed over.
    gathered: u64,
    counters: Arc<ReceiverCounters>,
}

impl Mapped {
    /// Waits until there is something to receive, or until frames have gathered. False if there is
    /// nothing until then.
    fn wait(&mut self, until: Until) -> Result<bool, candor_linux::Error> {
        // Who does not wait gets what is there.
        if let (Some(end), true) = (self.batch_end(), until != Until::Now)
            && self.gathered == 0
        {
            self.wait.for_nothing(wait::earlier(until, end))?;
            return Ok(end <= clock::now::<Monotonic>());
        }
        if self.ring.is_ready() {
            return Ok(true);
        }
        Ok(self.wait.for_file(&self.ring, Interest::Read, until)? && self.ring.is_well()?)
    }

    /// When the batch is complete, if frames gather.
    fn batch_end(&self) -> Option<Instant<Monotonic>> {
        self.gathering.as_ref().and_then(Gathering::until)
    }

    /// So many frames were handed over, and the ring is empty or it is not.
    fn note_batch(&mut self, count: usize, is_empty: bool) {
        let Some(gathering) = &mut self.gathering else { return };
        self.gathered += count as u64;
        if is_empty {
            gathering.gathered(std::mem::take(&mut self.gathered), clock::now());
        }
    }
}

impl Receiver for Mapped {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        match self.wait(until) {
            Ok(true) => {}
            Ok(false) => return Ok(Progress::Nothing),
            Err(error) => return Err(failure(&self.name, &self.interface, &error)),
        }
        let (mut count, mut has_lost) = (0, false);
        let gathers = self.batch_end().is_some();
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
            let came = packet.stamp();
            let system = self.wants_stamps.then_some(came);
            // The slot is free before the frame is looked at.
            drop(packet);
            count += 1;
            self.counters.frames.add(1);
            self.counters.error_reports.add(u64::from(is_report));
            let stamp = Stamp { system, hardware: None };
            take(&Received { frame, stamp, origin: Origin::Bus });
            if let (Some(gathering), false) = (&mut self.gathering, gathers) {
                gathering.handed_over(came.as_nanos(), clock::now);
            }
        }
        if gathers {
            self.note_batch(count, count < BATCH);
        }
        if has_lost && let Ok(lost) = self.ring.overflow() {
            self.counters.overflow.add(u64::from(lost));
        }
        Ok(if count == 0 { Progress::Nothing } else { Progress::Frames(count) })
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
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

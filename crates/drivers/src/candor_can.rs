//! `candor:candor0`: a controller with the driver `candor_can`, a character device (`kernel/README.md`).
//!
//! - The device is to be started before, with its bit rate (`insmod candor_can.ko bitrate=500000`).
//! - A port is one handle of the device: it has a receive queue of its own, and what it transmits does not come back to it unless
//!   own frames are wanted. Other programs see all that is transmitted.
//! - Without a waker, a receiver waits in the driver, whose interrupt handler wakes it. With one it waits with `poll`, which on
//!   PREEMPT_RT a kernel thread of low priority wakes.
//! - Stamps are the instants at which the interrupt handler saw a frame.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use candor_linux::candor_can::{self as device, Device, Limit, error, state};
use candor_linux::clock;
use candor_linux::poll::{self, Interest};
use candor_linux::{Errno, Sent as Taken};
use candor_port::{
    Address, Capabilities, Control, Driver, Error, Filter, Handover, Medium, Message, Origin, Port,
    Progress, Received, Receiver, ReceiverCounters, Sent, Stamp, State, Status, Transmitter,
    TransmitterCounters, Until, Waker, Wanted,
};
use candor_time::{Instant, Monotonic, Nanos, Realtime};
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};
use candor_wire::can::socketcan::{self, CAN_MTU, IdOrder};
use candor_wire::can::{Frame, Kind};

use crate::kernel;
use crate::wait::Wait;

pub(crate) static DRIVER: Driver = Driver {
    name: "candor",
    summary: "a CAN controller with the driver candor_can, a character device",
    medium: Medium::Device,
    example: "candor:candor0?priority=0&queue=256",
    options: &[
        ("priority", "the transmit queue: 0, which goes first, to 2; default 1"),
        ("queue", "the receive queue in frames, 1 to 4096; default 64"),
        ("full", "what a full receive queue loses: newest (default) or oldest"),
    ],
    check: |address, _| options(address).map(drop),
    names: |_| Vec::new(),
    open,
};

/// Frames that are read at once.
const BATCH: usize = 64;
const DEFAULT_QUEUE: u32 = 64;
const MOST_QUEUE: u32 = 4_096;
const DEFAULT_PRIORITY: u32 = 1;

/// What the name says.
struct Options {
    priority: Option<u32>,
    queue: u32,
    overwrites: bool,
}

fn options(address: &Address) -> Result<Options, Error> {
    let fail = |reason: String, remedy: &str| {
        Err(Error::new(address.to_string(), reason).with_remedy(remedy))
    };
    let place = address.place();
    let number = place.strip_prefix("candor").unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return fail(
            format!("`{place}` is not a device of candor_can"),
            "use candor0, candor1, ...",
        );
    }
    let priority = address.parsed::<u32>("priority", "0")?;
    if priority.is_some_and(|priority| priority > 2) {
        return fail(format!("there is no priority {}", priority.unwrap_or(0)), "use 0 to 2");
    }
    let queue = address.parsed("queue", "64")?.unwrap_or(DEFAULT_QUEUE);
    if !(1..=MOST_QUEUE).contains(&queue) {
        return fail(format!("a queue cannot have {queue} frames"), "use 1 to 4096");
    }
    let overwrites = match address.option("full") {
        None | Some("newest") => false,
        Some("oldest") => true,
        Some(other) => return fail(format!("unknown policy `{other}`"), "use newest or oldest"),
    };
    Ok(Options { priority, queue, overwrites })
}

fn open(address: &Address, wanted: Wanted, _: &Handover) -> Result<Port, Error> {
    let name = address.to_string();
    let fail = |error| kernel::failure(&name, &error);
    let options = options(address)?;
    let device = Arc::new(Device::open(address.place()).map_err(fail)?);
    if let Some(priority) = options.priority.filter(|&priority| priority != DEFAULT_PRIORITY) {
        device.set_priority(priority).map_err(fail)?;
    }
    let errors = if wanted.error_reports { error::ALL } else { 0 };
    let takes_all = [device::Filter::default()];
    let filters = if wanted.receiver { &takes_all[..] } else { &[] };
    device.set_filters(filters, errors).map_err(fail)?;
    if options.queue != DEFAULT_QUEUE || options.overwrites {
        device.set_queue(options.queue, options.overwrites).map_err(fail)?;
    }
    if wanted.own_frames {
        device.set_options(device::RECEIVE_OWN).map_err(fail)?;
    }
    let mut port = Port::new(Capabilities {
        remote: true,
        error_reports: true,
        own_frames: true,
        stamps: true,
        ordered: true,
        message: Message::Frame,
        ..Capabilities::default()
    });
    if wanted.receiver {
        port.receiver = Some(Box::new(Reads {
            name: name.clone().into(),
            device: Arc::clone(&device),
            errors,
            room: [device::Frame::default(); BATCH],
            stamps: wanted.stamps,
            counters: Arc::default(),
            wait: Wait::new(&name, wanted)?,
        }));
    }
    if wanted.transmitter {
        let device = Arc::clone(&device);
        port.transmitter = Some(Box::new(Writes { device, counters: Arc::default() }));
    }
    port.control = Some(Arc::new(Asks { name: name.into(), device }));
    Ok(port)
}

/// The device of an open port fails.
#[cold]
fn gone(name: &str, error: &candor_linux::Error) -> Error {
    kernel::while_open(kernel::failure(name, error))
}

fn filter(filter: &Filter) -> device::Filter {
    let Filter { id, mask } = filter.normalized();
    let flags = |word: u32| {
        let extended = if word & EFF_FLAG == 0 { 0 } else { device::EXTENDED };
        let remote = if word & RTR_FLAG == 0 { 0 } else { device::REMOTE };
        extended | remote
    };
    device::Filter {
        id: id & EFF_MASK,
        mask: mask & EFF_MASK,
        flags: flags(id),
        flags_mask: flags(mask),
    }
}

/// What the driver tells of its controller.
struct Asks {
    name: Box<str>,
    device: Arc<Device>,
}

impl Control for Asks {
    fn status(&self) -> Result<Status, Error> {
        let fail = |error| gone(&self.name, &error);
        let statistics = self.device.statistics().map_err(fail)?;
        let rate = self.device.bit_rate().map_err(fail)?;
        Ok(Status {
            state: match statistics.state {
                state::STOPPED => State::Stopped,
                state::ACTIVE => State::Active,
                state::WARNING => State::Warning,
                state::PASSIVE => State::Passive,
                state::BUS_OFF => State::BusOff,
                _ => State::Unknown,
            },
            receive_errors: Some(statistics.receive_errors),
            transmit_errors: Some(statistics.transmit_errors),
            bitrate: (rate.bitrate > 0).then_some(rate.bitrate),
            data_bitrate: None,
        })
    }
}

/// The half that receives.
struct Reads {
    name: Box<str>,
    device: Arc<Device>,
    /// Which errors are received.
    errors: u32,
    room: [device::Frame; BATCH],
    stamps: bool,
    counters: Arc<ReceiverCounters>,
    wait: Wait,
}

impl Reads {
    /// How many frames there are now, or at last.
    fn read(&mut self, until: Until) -> Result<usize, candor_linux::Error> {
        let limit = match until {
            Until::Now => Limit::Now,
            Until::Instant(instant) if self.wait.waker().is_none() => Limit::Until(instant),
            Until::Woken if self.wait.waker().is_none() => Limit::Never,
            until => match self.wait.for_file(&*self.device, Interest::Read, until)? {
                true => Limit::Now,
                false => return Ok(0),
            },
        };
        self.device.read(&mut self.room, limit)
    }

    /// The driver counts since the handle is open.
    #[cold]
    fn count_overflow(&self) {
        if let Ok(statistics) = self.device.statistics() {
            self.counters.overflow.set(statistics.handle_lost);
        }
    }
}

impl Receiver for Reads {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, Error> {
        let count = self.read(until).map_err(|error| gone(&self.name, &error))?;
        if count == 0 {
            // What was lost last comes with no frame.
            self.count_overflow();
            return Ok(Progress::Nothing);
        }
        let offset = self.stamps.then(Offset::now);
        let mut legal = 0;
        for raw in self.room.get(..count).unwrap_or_default() {
            if raw.flags & device::OVERFLOW != 0 {
                self.count_overflow();
            }
            let Some(frame) = decode(raw) else {
                self.counters.malformed.add(1);
                continue;
            };
            legal += 1;
            self.counters.frames.add(1);
            if frame.kind() == Kind::Error {
                self.counters.error_reports.add(1);
            }
            let origin = match raw.flags & (device::OWN | device::LOCAL) {
                0 => Origin::Bus,
                device::LOCAL => Origin::Machine,
                _ => Origin::Own,
            };
            let system = offset.as_ref().map(|offset| offset.realtime(raw.time_ns));
            take(&Received { frame, stamp: Stamp { system, hardware: None }, origin });
        }
        Ok(if legal == 0 { Progress::Nothing } else { Progress::Frames(legal) })
    }

    fn set_filters(&mut self, filters: Option<&[Filter]>) -> Result<bool, Error> {
        let (filters, is_done) = match filters {
            Some(filters) if filters.len() <= device::MOST_FILTERS => {
                (filters.iter().map(filter).collect(), true)
            }
            Some(_) => (vec![device::Filter::default()], false),
            None => (vec![device::Filter::default()], true),
        };
        let outcome = self.device.set_filters(&filters, self.errors);
        outcome.map(|()| is_done).map_err(|error| gone(&self.name, &error))
    }

    fn waker(&self) -> Option<Waker> {
        self.wait.waker()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        Arc::clone(&self.counters)
    }
}

/// Two clocks at one instant.
struct Offset {
    monotonic: Instant<Monotonic>,
    realtime: Instant<Realtime>,
}

impl Offset {
    fn now() -> Self {
        Self { monotonic: clock::now(), realtime: clock::now() }
    }

    /// An instant that lies a little before.
    fn realtime(&self, monotonic_ns: u64) -> Instant<Realtime> {
        let ago_ns = self.monotonic.as_nanos().saturating_sub(monotonic_ns);
        Instant::from_nanos(self.realtime.as_nanos().saturating_sub(ago_ns))
    }
}

/// The half that transmits.
struct Writes {
    device: Arc<Device>,
    counters: Arc<TransmitterCounters>,
}

impl Transmitter for Writes {
    fn transmit(&mut self, frame: &Frame, _: bool) -> Sent {
        let Some(raw) = encode(frame) else { return Sent::Unsupported };
        match self.device.write(&raw) {
            Ok(Taken::Taken) => {
                self.counters.frames.add(1);
                Sent::Taken
            }
            Ok(Taken::WouldBlock | Taken::QueueFull) => {
                self.counters.full.add(1);
                Sent::Full
            }
            Err(error) if error.errno().and_then(Errno::name) == Some("EINVAL") => {
                Sent::Unsupported
            }
            Err(_) => Sent::Down,
        }
    }

    fn wait(&mut self, most: Nanos) {
        // An error here is reported with the next frame.
        let _ = poll::wait_or_signal(&*self.device, Interest::Write, Some(most));
    }

    fn is_drained(&mut self) -> bool {
        self.device.statistics().is_ok_and(|statistics| statistics.waiting == 0)
    }

    fn counters(&self) -> Arc<TransmitterCounters> {
        Arc::clone(&self.counters)
    }
}

/// A frame as the driver has it; `None` for CAN FD and reports of errors.
fn encode(frame: &Frame) -> Option<device::Frame> {
    let [i0, i1, i2, i3, len, _, _, _, data @ ..] =
        socketcan::encode_classical(frame, IdOrder::NATIVE)?;
    let word = u32::from_ne_bytes([i0, i1, i2, i3]);
    if word & ERR_FLAG != 0 {
        return None;
    }
    let (id, extended) = match word & EFF_FLAG {
        0 => (word & SFF_MASK, 0),
        _ => (word & EFF_MASK, device::EXTENDED),
    };
    let remote = if word & RTR_FLAG == 0 { 0 } else { device::REMOTE };
    Some(device::Frame::new(id, extended | remote, len, data))
}

/// A frame of the driver; a report of errors becomes one of SocketCAN.
fn decode(raw: &device::Frame) -> Option<Frame> {
    let (word, len, data) = match raw.flags & device::ERROR {
        0 => {
            let extended = if raw.flags & device::EXTENDED == 0 { 0 } else { EFF_FLAG };
            let remote = if raw.flags & device::REMOTE == 0 { 0 } else { RTR_FLAG };
            (raw.id | extended | remote, raw.len, raw.data)
        }
        _ => report(raw),
    };
    let mut bytes = [0; CAN_MTU];
    bytes[..4].copy_from_slice(&word.to_ne_bytes());
    bytes[4] = len;
    bytes[8..].copy_from_slice(&data);
    socketcan::decode(&bytes, IdOrder::NATIVE).ok()
}

/// A report of errors as SocketCAN has it (`linux/can/error.h`).
fn report(raw: &device::Frame) -> (u32, u8, [u8; 8]) {
    const LOST_ARBITRATION: u32 = 0x002;
    const CONTROLLER: u32 = 0x004;
    const PROTOCOL: u32 = 0x008;
    const BUS_OFF: u32 = 0x040;
    const BUS_ERROR: u32 = 0x080;
    const COUNTERS: u32 = 0x200;
    const RX_OVERFLOW: u8 = 0x01;
    const RX_WARNING: u8 = 0x04;
    const TX_WARNING: u8 = 0x08;
    const RX_PASSIVE: u8 = 0x10;
    const TX_PASSIVE: u8 = 0x20;
    const ACTIVE: u8 = 0x40;
    let [now, receive, transmit, _, lost_in, ..] = raw.data;
    let mut class = ERR_FLAG | COUNTERS;
    let mut data = [0; 8];
    let has = |kind: u32| raw.id & kind != 0;
    if has(error::ARBITRATION) {
        class |= LOST_ARBITRATION;
        data[0] = lost_in;
    }
    if has(error::OVERRUN) {
        class |= CONTROLLER;
        data[1] |= RX_OVERFLOW;
    }
    if has(error::STATE) {
        class |= CONTROLLER;
        data[1] |= match (u32::from(now), transmit >= receive) {
            (state::WARNING, true) => TX_WARNING,
            (state::WARNING, false) => RX_WARNING,
            (state::PASSIVE, true) => TX_PASSIVE,
            (state::PASSIVE, false) => RX_PASSIVE,
            _ => ACTIVE,
        };
    }
    if has(error::BUS) {
        class |= PROTOCOL | BUS_ERROR;
    }
    if has(error::BUS_OFF) {
        class |= BUS_OFF;
    }
    (data[6], data[7]) = (transmit, receive);
    (class, 8, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_the_same_after_both_ways() {
        for text in
            ["123#0011223344556677", "7FF#", "1ABCDEF0#01", "00000001#FF", "123#R4", "1ABCDEF0#R"]
        {
            let frame: Frame = text.parse().unwrap();
            let raw = encode(&frame).unwrap();
            assert_eq!(decode(&raw), Some(frame), "{text}");
        }
        for text in ["123##001", "20000004#0000000000000000"] {
            assert_eq!(encode(&text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn reports_of_errors_are_those_of_socketcan() {
        for (id, data, expected) in [
            (error::BUS_OFF, [4, 0, 255, 0, 0], "20000240#000000000000FF00"),
            (error::STATE, [3, 10, 128, 0, 0], "20000204#002000000000800A"),
            (error::STATE | error::OVERRUN, [2, 96, 0, 0, 0], "20000204#0005000000000060"),
            (error::ARBITRATION, [1, 0, 0, 0, 11], "20000202#0B00000000000000"),
            (error::BUS, [1, 1, 0, 0x40, 0], "20000288#0000000000000001"),
        ] {
            let mut all = [0; 8];
            all[..5].copy_from_slice(&data);
            let raw = device::Frame::new(id, device::ERROR, 5, all);
            assert_eq!(decode(&raw).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn filters_of_ports_become_those_of_the_driver() {
        let of_driver =
            |id, mask, flags, flags_mask| device::Filter { id, mask, flags, flags_mask };
        for ((id, mask), expected) in [
            ((0, 0), of_driver(0, 0, 0, 0)),
            ((0x123, 0x7FF), of_driver(0x123, 0x7FF, 0, 0)),
            ((0x123, EFF_FLAG | EFF_MASK), of_driver(0x123, SFF_MASK, 0, device::EXTENDED)),
            (
                (EFF_FLAG | RTR_FLAG | 5, EFF_FLAG | RTR_FLAG | EFF_MASK),
                of_driver(
                    5,
                    EFF_MASK,
                    device::EXTENDED | device::REMOTE,
                    device::EXTENDED | device::REMOTE,
                ),
            ),
        ] {
            assert_eq!(filter(&Filter { id, mask }), expected, "{id:#x} {mask:#x}");
        }
    }

    #[test]
    fn names_are_checked_without_a_device() {
        for (name, reported) in [
            ("candor:can0", "`can0` is not a device of candor_can"),
            ("candor:candor0/../x", "is not a device of candor_can"),
            ("candor:candor0?priority=3", "there is no priority 3"),
            ("candor:candor0?queue=0", "a queue cannot have 0 frames"),
            ("candor:candor0?full=both", "unknown policy `both`"),
        ] {
            let error = options(&name.parse().unwrap()).err().unwrap().to_string();
            assert!(error.contains(reported), "{error}");
        }
    }
}

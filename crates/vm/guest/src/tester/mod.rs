//! The tester: sends numbered frames on the source bus, receives them there and on the target bus.
//!
//! ```text
//!  one at a time   sleep a while . send . wait for it on the target bus . sleep a while . send ...
//!  paced           sleep until due . send . sleep until due . send ...    sockets are emptied afterwards
//! ```
//!
//! The tester shares the only processor with the gateway, so whatever it does while a frame is on
//! its way counts as the gateway's. It does as little as it can, and the same whatever the gateway
//! is. Paced, it runs above the gateway, so that the traffic does not depend on it. One at a time it
//! has nothing to do but to wait, so it runs below. An experiment without gateway tells what remains.

mod capture;
mod master;
mod outside;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use candor_linux::Sent;
use candor_linux::can::{RawFrame, Socket};
use candor_linux::clock::{self, ThreadCpu};
use candor_linux::realtime::{Policy, Task, set_policy};
use candor_protocol::departures::{self, Departures};
use candor_protocol::interface;
use candor_protocol::order::{Gateway, Measurement, Pace};
use candor_protocol::report::{Stamp, Ways};
use candor_time::{Instant, Monotonic, Nanos, Realtime};

use crate::failure::{Context, FAULT, Failure};
use crate::host;
use capture::{Capture, MOST_BUFFERED};
pub(crate) use master::{GuestMaster, pair, port};
pub(crate) use outside::Outside;

/// A sender that keeps times is above every gateway.
const PRIORITY: u8 = 99;
/// One that waits for its frame gives way to the gateway as soon as the gateway can run.
const WAITING_PRIORITY: u8 = 1;
/// The thread that empties the sockets where not all frames fit in: below every gateway of real-time
/// priority, above the load.
const DRAIN_PRIORITY: u8 = 1;
/// How often it does so.
const DRAIN_PERIOD: Nanos = Nanos::from_millis(2);
/// From the beginning to the first frame.
const LEAD: Nanos = Nanos::from_millis(10);
/// When nothing has arrived for so long after the last frame, nothing will.
const QUIET: Nanos = Nanos::from_millis(200);
/// The same while frames are missing, and the time that the order waits for them has passed as well: as a tester outside has it.
const STARVED: Nanos = Nanos::from_millis(1_100);
/// But no longer than this, or than for a missing frame.
const MOST_WAIT: Nanos = Nanos::from_secs(10);
/// One at a time, the monitor is emptied after so many frames.
const MONITOR_PERIOD: u64 = 256;

/// A tester that is ready.
pub(crate) struct GuestTester {
    sending: SendingHalf,
    monitor: Capture,
    receiver: Capture,
    policy: Policy,
    departures: Departures,
    timeout: Nanos,
    /// How long a frame that is missing at the end is waited for.
    missing: Nanos,
    /// The whiles between the frames of the warm-up, and how long each is waited for.
    cold: (Vec<u64>, Nanos),
}

struct SendingHalf {
    socket: Socket,
    start: Instant<Realtime>,
    /// A frame for each identifier, all but the number.
    templates: Vec<RawFrame>,
    sent: Vec<Stamp>,
    /// When each was due, since the start.
    due: Vec<u64>,
    refused: u64,
    latest: Nanos,
}

/// What the tester saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sent: Vec<Stamp>,
    pub(crate) due: Vec<u64>,
    pub(crate) monitored: Vec<Stamp>,
    pub(crate) received: Vec<Stamp>,
    pub(crate) frames: Vec<Vec<u8>>,
    /// Received frames without a number.
    pub(crate) without_number: u64,
    pub(crate) refused: u64,
    pub(crate) overflow: u64,
    pub(crate) latest_departure: Nanos,
    pub(crate) cpu: Nanos,
}

/// A traffic that cannot be: reason and remedy.
fn refused(reason: String) -> Failure {
    Failure::reported(format!("traffic: {reason}"))
}

impl GuestTester {
    pub(crate) fn new(order: &Measurement) -> Result<Self, Failure> {
        let traffic = &order.traffic;
        let receives_on = match order.gateway {
            Gateway::None => interface::SOURCE,
            _ => interface::RECEIVE,
        };
        let start = clock::now::<Realtime>();
        let socket = Socket::open_for_sending(interface::TRANSMIT).at("tester", FAULT)?;
        socket.set_loopback(false).at("tester", FAULT)?;
        if traffic.fd_flags.is_some() {
            socket.accept_fd().at("tester", FAULT)?;
        }
        let capture = |interface| Capture::open(interface, start, traffic.count);
        let (monitor, mut receiver) = (capture(interface::MONITOR)?, capture(receives_on)?);
        if order.wants_frames {
            receiver.keep_frames();
        }
        let timeout = match traffic.pace {
            Pace::OneAtATime { timeout_ns, .. } => Nanos::from_nanos(timeout_ns),
            Pace::Paced { .. }
            | Pace::OpenLoop { .. }
            | Pace::Offered { .. }
            | Pace::RoundTrips { .. } => Nanos::ZERO,
        };
        let templates = (0..traffic.can_ids.len() as u64)
            .map(|number| departures::frame(traffic, number).map(RawFrame::from))
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        let sending = SendingHalf {
            socket,
            start,
            templates,
            sent: Vec::with_capacity(traffic.count as usize),
            due: Vec::with_capacity(traffic.count as usize),
            refused: 0,
            latest: Nanos::ZERO,
        };
        let policy = match traffic.pace {
            Pace::Paced { .. }
            | Pace::OpenLoop { .. }
            | Pace::Offered { .. }
            | Pace::RoundTrips { .. } => Policy::Fifo(PRIORITY),
            Pace::OneAtATime { .. } if order.settings.gateway_priority > WAITING_PRIORITY => {
                Policy::Fifo(WAITING_PRIORITY)
            }
            Pace::OneAtATime { .. } => Policy::Other,
        };
        let departures = Departures::new(traffic, order.source, order.seed).map_err(refused)?;
        let whiles = order.warm_up.map(|it| it.whiles(order.seed)).unwrap_or_default();
        let cold_timeout = order.warm_up.map_or(0, |it| it.timeout_ns);
        let cold = (whiles, Nanos::from_nanos(cold_timeout));
        let missing = STARVED + Nanos::from_nanos(order.timeout_ns);
        Ok(Self { sending, monitor, receiver, policy, departures, timeout, missing, cold })
    }

    /// Sends the frames before those that count.
    pub(crate) fn warm_up(&mut self) -> Result<Ways, Failure> {
        let (whiles, timeout) = std::mem::take(&mut self.cold);
        let policy = match self.policy {
            Policy::Fifo(_) => Policy::Fifo(WAITING_PRIORITY),
            other => other,
        };
        set_policy(Task::This, policy).at("tester", FAULT)?;
        self.one_at_a_time(clock::now::<Realtime>() + LEAD, &whiles, timeout)?;
        self.settle(QUIET)?;
        let (sent, due) = self.sending.take();
        let [monitored, received] = [&mut self.monitor, &mut self.receiver].map(Capture::take);
        Ok(Ways { sent, due, monitored, received, target: Vec::new() })
    }

    /// Sends everything and receives what comes of it.
    pub(crate) fn run(mut self) -> Result<Seen, Failure> {
        host::counting_begins();
        set_policy(Task::This, self.policy).at("tester", FAULT)?;
        let begin = clock::now::<Realtime>() + LEAD;
        let cpu = clock::now::<ThreadCpu>();
        match std::mem::replace(&mut self.departures, Departures::At(Vec::new())) {
            Departures::AfterArrival(whiles) => {
                self.one_at_a_time(begin, &whiles, self.timeout)?;
            }
            Departures::At(times) if times.len() as u64 <= MOST_BUFFERED => {
                self.sending.paced(begin, &times)?;
            }
            Departures::At(times) => self.paced_and_drained(begin, &times)?,
        }
        let cpu = clock::now::<ThreadCpu>() - cpu;
        self.settle(self.missing)?;
        host::counting_ends();
        let overflow = self.monitor.overflow()? + self.receiver.overflow()?;
        let (monitored, _, _) = self.monitor.into_parts();
        let (received, frames, without_number) = self.receiver.into_parts();
        Ok(Seen {
            sent: self.sending.sent,
            due: self.sending.due,
            monitored,
            received,
            frames,
            without_number,
            refused: self.sending.refused,
            overflow,
            latest_departure: self.sending.latest,
            cpu,
        })
    }

    fn one_at_a_time(
        &mut self,
        begin: Instant<Realtime>,
        whiles: &[u64],
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let mut arrival = begin;
        for (number, &wait) in (0..).zip(whiles) {
            let due = arrival + Nanos::from_nanos(wait);
            clock::sleep_until(due).at("tester", FAULT)?;
            self.sending.send(number, due)?;
            self.receiver.wait_for(number as u16, timeout)?;
            if number % MONITOR_PERIOD == MONITOR_PERIOD - 1 {
                self.monitor.empty();
            }
            arrival = clock::now::<Realtime>();
        }
        Ok(())
    }

    /// The same while another thread empties the sockets.
    fn paced_and_drained(
        &mut self,
        begin: Instant<Realtime>,
        times: &[u64],
    ) -> Result<(), Failure> {
        let is_over = AtomicBool::new(false);
        let Self { sending, monitor, receiver, .. } = self;
        thread::scope(|scope| {
            let drain = scope.spawn(|| -> Result<(), Failure> {
                set_policy(Task::This, Policy::Fifo(DRAIN_PRIORITY)).at("tester", FAULT)?;
                while !is_over.load(Ordering::Acquire) {
                    let next = clock::now::<Monotonic>() + DRAIN_PERIOD;
                    clock::sleep_until(next).at("tester", FAULT)?;
                    monitor.empty();
                    receiver.empty();
                }
                Ok(())
            });
            let outcome = sending.paced(begin, times);
            is_over.store(true, Ordering::Release);
            let drained = drain.join();
            let panicked = |_| Err(Failure::new("tester", "the drain panicked", FAULT));
            outcome.and(drained.unwrap_or_else(panicked))
        })
    }

    /// Waits until nothing comes any more: while frames are missing, until none has come for so long.
    fn settle(&mut self, missing: Nanos) -> Result<(), Failure> {
        // What is still on its way is more important than looking at what has arrived.
        set_policy(Task::This, Policy::Other).at("tester", FAULT)?;
        let begin = clock::now::<Monotonic>();
        let end = begin + MOST_WAIT.max(missing);
        let mut last = begin;
        loop {
            clock::sleep_until(clock::now::<Monotonic>() + QUIET).at("tester", FAULT)?;
            let count = self.monitor.empty() + self.receiver.empty();
            let now = clock::now::<Monotonic>();
            if count > 0 {
                last = now;
            }
            let is_missing = self.receiver.len() < self.sending.sent.len();
            let is_quiet = count == 0 && (!is_missing || now - last >= missing);
            if is_quiet || now > end {
                return Ok(());
            }
        }
    }
}

impl SendingHalf {
    /// What was sent, and when it was due; what comes counts from here on.
    fn take(&mut self) -> (Vec<Stamp>, Vec<u64>) {
        let (sent, due) = (self.sent.capacity(), self.due.capacity());
        (self.refused, self.latest) = (0, Nanos::ZERO);
        (
            std::mem::replace(&mut self.sent, Vec::with_capacity(sent)),
            std::mem::replace(&mut self.due, Vec::with_capacity(due)),
        )
    }

    /// Sends frame `number`, which was due at `due`.
    fn send(&mut self, number: u64, due: Instant<Realtime>) -> Result<(), Failure> {
        let count = self.templates.len().max(1) as u64;
        let Some(frame) = self.templates.get_mut((number % count) as usize) else { return Ok(()) };
        if let Some(place) = frame.buffer_mut().get_mut(..2) {
            place.copy_from_slice(&(number as u16).to_be_bytes());
        }
        let now = clock::now::<Realtime>();
        self.latest = self.latest.max(now - due);
        let time_ns = (now - self.start).as_nanos();
        self.due.push((due - self.start).as_nanos());
        self.sent.push(Stamp { number: number as u16, time_ns });
        match self.socket.send(frame).at("tester", "see the console")? {
            Sent::Taken => {}
            Sent::QueueFull | Sent::WouldBlock => self.refused += 1,
        }
        Ok(())
    }

    fn paced(&mut self, begin: Instant<Realtime>, times: &[u64]) -> Result<(), Failure> {
        for (number, &time) in (0..).zip(times) {
            let due = begin + Nanos::from_nanos(time);
            clock::sleep_until(due).at("tester", FAULT)?;
            self.send(number, due)?;
        }
        Ok(())
    }
}

//! A worker: the thread that receives the frames of one bus and decides about them.
//!
//! Each bus has an engine of its own, so that what rules remember belongs to one lock, which only
//! its worker wants, but for frames that come back from a virtual bus, and for a change of rules.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use candor_causes::Cause;
use candor_drivers::lasting::{LastingReceiver, Opened, Reception};
use candor_engine::BusIndex;
use candor_engine::counters::{Counters, Outcome};
use candor_engine::{Egress, Engine, Forward, Hop, Hops, Passage};
use candor_linux::clock;
use candor_linux::wake::Sleeper;
use candor_port::{Progress, Received, Until};
use candor_time::{Instant, Monotonic, Nanos};
use candor_wire::can::Kind;

use super::circle::Circle;
use super::latency::{Arrival, Latency};
use super::output::{OutgoingCopy, Output};
use crate::lock::lock;

/// How long a worker waits before it looks whether its port works again.
const RETRY: Nanos = Nanos::from_millis(100);

/// A bus while the gateway runs, whatever rules there are.
pub(crate) struct SharedPort {
    /// The rules for its frames.
    rules: Mutex<Option<BusRules>>,
    pub(crate) output: Option<Arc<Output>>,
    /// A receiver that shall replace the one that there is.
    successor: Mutex<Option<Opened>>,
    pub(crate) is_ending: AtomicBool,
    /// There is no worker, or it has ended.
    pub(crate) has_left: AtomicBool,
    /// No more frames will come.
    pub(crate) has_ended: AtomicBool,
    /// What is known of its receivers.
    pub(crate) reception: Arc<Reception>,
    /// Frames received that seem to go round between gateways.
    pub(crate) looping: AtomicU64,
    /// Frames received while no rule was for this bus.
    pub(crate) idle: AtomicU64,
    pub(crate) sleeper: Mutex<Option<Sleeper>>,
}

/// The rules for the frames of one bus.
pub(crate) struct BusRules {
    pub(crate) engine: Engine,
    pub(crate) counters: Counters,
    /// What the rules call the bus.
    pub(crate) bus: BusIndex,
    pub(crate) needs_time: bool,
    /// Whether a rule takes error reports.
    pub(crate) takes_errors: bool,
    pub(crate) routes: Arc<Routes>,
}

/// Where copies go, by the buses of one set of rules.
pub(crate) struct Routes {
    pub(crate) generation: u64,
    pub(crate) buses: Vec<Arc<SharedPort>>,
    /// By source and destination, row by row.
    pub(crate) latencies: Vec<Option<Arc<Latency>>>,
}

impl Routes {
    fn latency(&self, from: BusIndex, to: BusIndex) -> Option<&Arc<Latency>> {
        let index = usize::from(from.0) * self.buses.len() + usize::from(to.0);
        self.latencies.get(index)?.as_ref()
    }
}

impl SharedPort {
    pub(crate) fn new(output: Option<Arc<Output>>) -> Self {
        Self {
            rules: Mutex::new(None),
            output,
            successor: Mutex::new(None),
            is_ending: AtomicBool::new(false),
            has_left: AtomicBool::new(true),
            has_ended: AtomicBool::new(false),
            reception: Arc::default(),
            looping: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            sleeper: Mutex::new(None),
        }
    }

    /// Puts other rules into place; returns those that were there.
    pub(crate) fn change(
        &self,
        mut rules: Option<BusRules>,
        inherit: impl FnOnce(&mut BusRules, &mut BusRules),
    ) -> Option<BusRules> {
        let mut current = lock(&self.rules);
        if let (Some(new), Some(old)) = (&mut rules, &mut *current) {
            inherit(new, old);
        }
        std::mem::replace(&mut current, rules)
    }

    /// Goes on with another receiver.
    pub(crate) fn reopen(&self, opened: Opened) {
        *lock(&self.successor) = Some(opened);
        self.kick();
    }

    /// Wakes the worker to look around.
    pub(crate) fn kick(&self) {
        if let Some(sleeper) = &*lock(&self.sleeper) {
            // Best effort: a worker looks again by itself whenever a frame comes.
            let _ = sleeper.interrupt();
        }
    }

    /// Goes on counting where another bus has ended, which this one replaces.
    pub(crate) fn inherit(&self, other: &Self) {
        self.reception.inherit(&other.reception);
        self.looping.store(other.looping.load(Ordering::Relaxed), Ordering::Relaxed);
        self.idle.store(other.idle.load(Ordering::Relaxed), Ordering::Relaxed);
        if let (Some(output), Some(other)) = (&self.output, &other.output) {
            output.inherit(other);
        }
    }
}

/// The way out for the copies of one frame.
struct FrameCopies<'a> {
    routes: &'a Routes,
    counters: &'a Counters,
    arrival: Option<Arrival>,
    /// The frame goes round, and that is to end here.
    is_to_stop: bool,
    /// Destinations that got a copy, as bits of their indices modulo 64.
    touched: &'a mut u64,
}

impl Egress for FrameCopies<'_> {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        if self.is_to_stop {
            return Outcome::Refused(Cause::HopLimit);
        }
        let Some(shared) = self.routes.buses.get(usize::from(copy.to.0)) else {
            return Outcome::Refused(Cause::Down);
        };
        let Some(output) = &shared.output else { return Outcome::Refused(Cause::Down) };
        *self.touched |= 1 << (copy.to.0 % 64);
        output.send(OutgoingCopy {
            frame: copy.frame,
            echo: copy.echo,
            job: copy.job,
            counters: self.counters,
            arrival: self.arrival,
            latency: self.routes.latency(copy.passage.origin, copy.to),
            deadline: copy.deadline,
        })
    }
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<SharedPort>,
    pub(crate) receiver: LastingReceiver,
    pub(crate) stamps: StampSource,
    pub(crate) loops: Loops,
}

/// What becomes of frames that go round between gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loops {
    /// They are not looked for.
    Ignored,
    /// They are counted and reported.
    Reported,
    /// They are refused as well.
    Stopped,
}

/// From when on the latency of a frame is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampSource {
    /// It is not.
    Unwanted,
    OfKernel,
    Own,
}

struct FrameForwarder {
    shared: Arc<SharedPort>,
    /// With where copies went when they were made.
    hops: Hops<Arc<Routes>>,
    stamps: StampSource,
    loops: Loops,
    circle: Option<Circle>,
    touched: u64,
    routes: Option<Arc<Routes>>,
}

impl FrameForwarder {
    #[inline]
    fn decide(&mut self, received: &Received) {
        let mut guard = lock(&self.shared.rules);
        let Some(rules) = &mut *guard else {
            self.shared.idle.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if received.frame.kind() == Kind::Error && !rules.takes_errors {
            // Some ports hand them over in any case. They are no frames, and counted by the port.
            return;
        }
        let now = match rules.needs_time {
            true => clock::now::<Monotonic>().since(Instant::ZERO),
            false => Nanos::ZERO,
        };
        let arrival = match (self.stamps, received.stamp.system) {
            (StampSource::Unwanted, _) => None,
            (StampSource::OfKernel, stamp) => stamp.map(Arrival::OfKernel),
            (StampSource::Own, _) => Some(Arrival::Own(clock::now())),
        };
        let is_round = self.circle.as_mut().is_some_and(|circle| circle.note(&received.frame));
        if is_round {
            self.shared.looping.fetch_add(1, Ordering::Relaxed);
        }
        let BusRules { engine, counters, bus, routes, .. } = rules;
        let mut copies = FrameCopies {
            routes,
            counters,
            arrival,
            is_to_stop: is_round && self.loops == Loops::Stopped,
            touched: &mut self.touched,
        };
        let (frame, passage) = (&received.frame, Passage::received_on(*bus));
        engine.handle(now, *bus, frame, passage, &mut self.hops.echo(routes, &mut copies));
        if self.touched != 0 && self.routes.is_none() {
            self.routes = Some(Arc::clone(routes));
        }
        drop(guard);
        if !self.hops.is_empty() {
            self.follow(arrival);
        }
    }

    /// Lets the rules of other buses see what was sent there with echo.
    #[inline(never)]
    fn follow(&mut self, arrival: Option<Arrival>) {
        self.hops.follow(|Hop { bus: earlier, frame, passage, tag }, hops| {
            let Some(shared) = tag.buses.get(usize::from(earlier.0)) else { return };
            let mut guard = lock(&shared.rules);
            let Some(rules) = &mut *guard else { return };
            let now = clock::now::<Monotonic>().since(Instant::ZERO);
            let BusRules { engine, counters, bus, routes, .. } = rules;
            let is_same = routes.generation == tag.generation;
            let passage = match is_same {
                true => passage,
                // Buses may be counted in another way by now.
                false => Passage { origin: *bus, hops: passage.hops },
            };
            debug_assert!(!is_same || *bus == earlier);
            let mut copies = FrameCopies {
                routes,
                counters,
                arrival,
                is_to_stop: false,
                touched: &mut self.touched,
            };
            engine.handle(now, *bus, &frame, passage, &mut hops.echo(routes, &mut copies));
        });
    }

    /// Whether frames that go round are counted anew as soon as nothing waits.
    fn is_window_over(&self) -> bool {
        self.circle.as_ref().is_some_and(Circle::is_over)
    }

    /// After a batch: what ports kept back for it leaves now.
    fn flush(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        let Some(routes) = self.routes.take() else { return };
        for (index, shared) in routes.buses.iter().enumerate() {
            if touched & 1 << (index % 64) != 0
                && let Some(output) = &shared.output
            {
                output.flush_if_due();
            }
        }
    }
}

impl Worker {
    /// Receives until the gateway ends the port.
    pub(crate) fn work(self) {
        let Self { shared, mut receiver, stamps, loops } = self;
        shared.has_left.store(false, Ordering::Relaxed);
        let mut forwarder = FrameForwarder {
            shared: Arc::clone(&shared),
            hops: Hops::default(),
            stamps,
            loops,
            circle: (loops != Loops::Ignored).then(Circle::new),
            touched: 0,
            routes: None,
        };
        while !shared.is_ending.load(Ordering::Relaxed) || receiver.present().has_more() {
            let asked = forwarder.is_window_over().then(clock::now);
            let until = if asked.is_some() { Until::Now } else { Until::Woken };
            match receiver.receive(until, &mut |received| forwarder.decide(received)) {
                Ok(Progress::Frames(_)) => {
                    forwarder.flush();
                    continue;
                }
                Ok(Progress::Nothing) => {
                    if let (Some(asked), Some(circle)) = (asked, &mut forwarder.circle) {
                        circle.begin(asked);
                    }
                }
                Ok(Progress::Ended) => {
                    // If it ended by an error, that is the trouble.
                    if shared.reception.trouble().is_none() {
                        shared.reception.set_trouble(Some("no more frames come".into()));
                    }
                    shared.has_ended.store(true, Ordering::Relaxed);
                    Self::pause(&shared, Nanos::from_secs(3_600));
                }
                // It may work again by itself: the next attempt tells.
                Err(_) => Self::pause(&shared, RETRY),
            }
            if let Some(successor) = lock(&shared.successor).take() {
                receiver.replace(successor);
                shared.has_ended.store(false, Ordering::Relaxed);
                shared.reception.set_trouble(None);
            }
        }
        shared.has_left.store(true, Ordering::Relaxed);
    }

    /// Waits, but not when there is something to do.
    fn pause(shared: &SharedPort, most: Nanos) {
        let until = clock::now::<Monotonic>() + most;
        let is_wanted =
            || shared.is_ending.load(Ordering::Relaxed) || lock(&shared.successor).is_some();
        // A signal ends the sleep early.
        while !is_wanted() && matches!(clock::sleep_until_or_signal(until), Ok(false)) {}
    }
}

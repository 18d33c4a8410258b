//! A worker: the thread that receives the frames of one bus and decides about them.
//!
//! Each bus has an engine of its own, so that what rules remember belongs to one lock, which only
//! its worker wants, but for frames that come back from a virtual bus, and for a change of rules.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candor_linux::clock::{self, Monotonic, Realtime};
use candor_linux::wake::Sleeper;
use candor_port::{Progress, Received, Receiver, ReceiverCounters};
use candor_route::BusIndex;
use candor_route::counters::{Cause, Counters, Outcome};
use candor_route::engine::{Egress, Engine, Forward, Passage};
use candor_time::{Instant, Nanos};
use candor_wire::Frame;

use crate::latency::Latency;
use crate::output::{Output, Parcel};

/// Copies that may wait for the rules of virtual buses: far more than one frame becomes.
const MOST_HOPS: usize = 4_096;
/// How long a worker waits before it looks whether its port works again.
const RETRY: Nanos = Nanos::from_millis(100);

/// A bus while the gateway runs, whatever rules there are.
pub(crate) struct Station {
    /// The rules for its frames.
    lane: Mutex<Option<Lane>>,
    pub(crate) output: Option<Arc<Output>>,
    /// A receiver that shall replace the one that there is.
    successor: Mutex<Option<Box<dyn Receiver>>>,
    pub(crate) is_ending: AtomicBool,
    /// Why no frames come, if so.
    pub(crate) trouble: Mutex<Option<String>>,
    pub(crate) reopened: AtomicU64,
    /// Frames received while no rule was for this bus.
    pub(crate) idle: AtomicU64,
    received: Mutex<ReceiverSums>,
    pub(crate) sleeper: Mutex<Option<Sleeper>>,
}

/// What the receivers of a bus counted.
#[derive(Default)]
struct ReceiverSums {
    counters: Option<Arc<ReceiverCounters>>,
    before: [u64; 6],
}

/// The counters of a receiver in the order of [`ReceiverSums::before`].
fn counts(counters: &ReceiverCounters) -> [u64; 6] {
    [
        counters.frames.get(),
        counters.error_reports.get(),
        counters.malformed.get(),
        counters.overflow.get(),
        counters.missing.get(),
        counters.out_of_order.get(),
    ]
}

/// The rules for the frames of one bus.
pub(crate) struct Lane {
    pub(crate) engine: Engine,
    pub(crate) counters: Counters,
    /// What the rules call the bus.
    pub(crate) bus: BusIndex,
    pub(crate) needs_time: bool,
    pub(crate) routes: Arc<Routes>,
}

/// Where copies go, by the buses of one set of rules.
pub(crate) struct Routes {
    pub(crate) generation: u64,
    pub(crate) stations: Vec<Arc<Station>>,
    /// By source and destination, row by row.
    pub(crate) latencies: Vec<Option<Arc<Latency>>>,
}

impl Routes {
    fn latency(&self, from: BusIndex, to: BusIndex) -> Option<&Arc<Latency>> {
        let index = usize::from(from.0) * self.stations.len() + usize::from(to.0);
        self.latencies.get(index)?.as_ref()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Station {
    pub(crate) fn new(output: Option<Arc<Output>>) -> Self {
        Self {
            lane: Mutex::new(None),
            output,
            successor: Mutex::new(None),
            is_ending: AtomicBool::new(false),
            trouble: Mutex::new(None),
            reopened: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            received: Mutex::default(),
            sleeper: Mutex::new(None),
        }
    }

    /// Puts other rules into place; returns those that were there.
    pub(crate) fn change(
        &self,
        mut lane: Option<Lane>,
        inherit: impl FnOnce(&mut Lane, &mut Lane),
    ) -> Option<Lane> {
        let mut current = lock(&self.lane);
        if let (Some(new), Some(old)) = (&mut lane, &mut *current) {
            inherit(new, old);
        }
        std::mem::replace(&mut current, lane)
    }

    /// Goes on with another receiver.
    pub(crate) fn reopen(&self, receiver: Box<dyn Receiver>) {
        *lock(&self.successor) = Some(receiver);
        self.kick();
    }

    /// Wakes the worker to look around.
    pub(crate) fn kick(&self) {
        if let Some(sleeper) = &*lock(&self.sleeper) {
            // Best effort: a worker looks again by itself whenever a frame comes.
            let _ = sleeper.interrupt();
        }
    }

    /// Frames, error reports, malformed, overflow, missing, out of order.
    pub(crate) fn counts(&self) -> [u64; 6] {
        let sums = lock(&self.received);
        let now = sums.counters.as_ref().map_or([0; 6], |counters| counts(counters));
        std::array::from_fn(|index| sums.before[index] + now[index])
    }

    fn adopt(&self, receiver: &dyn Receiver) {
        let mut sums = lock(&self.received);
        if let Some(earlier) = sums.counters.replace(receiver.counters()) {
            let earlier = counts(&earlier);
            for (sum, earlier) in sums.before.iter_mut().zip(earlier) {
                *sum += earlier;
            }
        }
    }
}

/// A frame on a virtual bus.
struct Hop {
    station: Arc<Station>,
    bus: BusIndex,
    generation: u64,
    frame: Frame,
    passage: Passage,
}

/// The way out for the copies of one frame.
struct Copies<'a> {
    routes: &'a Routes,
    counters: &'a Counters,
    arrival: Option<Instant<Realtime>>,
    hops: &'a mut VecDeque<Hop>,
    /// Destinations that got a copy, as bits of their indices modulo 64.
    touched: &'a mut u64,
}

impl Egress for Copies<'_> {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        let Some(station) = self.routes.stations.get(usize::from(copy.to.0)) else {
            return Outcome::Refused(Cause::Down);
        };
        let Some(output) = &station.output else { return Outcome::Refused(Cause::Down) };
        let outcome = output.send(Parcel {
            frame: copy.frame,
            echo: copy.echo,
            job: copy.job,
            counters: self.counters,
            arrival: self.arrival,
            latency: self.routes.latency(copy.passage.origin, copy.to),
            deadline: copy.deadline,
        });
        *self.touched |= 1 << (copy.to.0 % 64);
        let went_out = !matches!(outcome, Outcome::Refused(_));
        if copy.echo && went_out && self.hops.len() < MOST_HOPS {
            // What this machine sends with echo the rules of that bus see too.
            self.hops.push_back(Hop {
                station: Arc::clone(station),
                bus: copy.to,
                generation: self.routes.generation,
                frame: *copy.frame,
                passage: copy.passage,
            });
        }
        outcome
    }
}

/// What a worker does things with.
pub(crate) struct Worker {
    pub(crate) station: Arc<Station>,
    pub(crate) receiver: Box<dyn Receiver>,
    pub(crate) stamps: Stamps,
}

/// From when on the latency of a frame is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// It is not.
    Unwanted,
    /// From when the kernel had it.
    OfKernel,
    /// From when the worker had it.
    Own,
}

/// What a worker makes of each frame.
struct Desk {
    station: Arc<Station>,
    hops: VecDeque<Hop>,
    stamps: Stamps,
    touched: u64,
    routes: Option<Arc<Routes>>,
}

impl Desk {
    #[inline]
    fn decide(&mut self, received: &Received) {
        let mut guard = lock(&self.station.lane);
        let Some(lane) = &mut *guard else {
            self.station.idle.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let now = match lane.needs_time {
            true => clock::now::<Monotonic>().since(Instant::ZERO),
            false => Nanos::ZERO,
        };
        let arrival = match (self.stamps, received.stamp.system) {
            (Stamps::Unwanted, _) => None,
            (Stamps::OfKernel, stamp) => stamp,
            (Stamps::Own, _) => Some(clock::now::<Realtime>()),
        };
        let Lane { engine, counters, bus, routes, .. } = lane;
        let mut copies =
            Copies { routes, counters, arrival, hops: &mut self.hops, touched: &mut self.touched };
        let passage = Passage::received_on(*bus);
        engine.handle(now, *bus, &received.frame, passage, &mut copies);
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
    fn follow(&mut self, arrival: Option<Instant<Realtime>>) {
        while let Some(hop) = self.hops.pop_front() {
            let mut guard = lock(&hop.station.lane);
            let Some(lane) = &mut *guard else { continue };
            let now = clock::now::<Monotonic>().since(Instant::ZERO);
            let Lane { engine, counters, bus, routes, .. } = lane;
            let is_same = routes.generation == hop.generation;
            let passage = match is_same {
                true => hop.passage,
                // Buses may be counted in another way by now.
                false => Passage { origin: *bus, hops: hop.passage.hops },
            };
            debug_assert!(!is_same || *bus == hop.bus);
            let mut copies = Copies {
                routes,
                counters,
                arrival,
                hops: &mut self.hops,
                touched: &mut self.touched,
            };
            engine.handle(now, *bus, &hop.frame, passage, &mut copies);
        }
    }

    /// After a batch: what ports kept back for it leaves now.
    fn flush(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        let Some(routes) = self.routes.take() else { return };
        for (index, station) in routes.stations.iter().enumerate() {
            if touched & 1 << (index % 64) != 0
                && let Some(output) = &station.output
            {
                output.flush_if_due();
            }
        }
    }
}

impl Worker {
    /// Works until the station ends.
    pub(crate) fn work(self) {
        let Self { station, mut receiver, stamps } = self;
        station.adopt(&*receiver);
        let mut desk = Desk {
            station: Arc::clone(&station),
            hops: VecDeque::with_capacity(MOST_HOPS),
            stamps,
            touched: 0,
            routes: None,
        };
        while !station.is_ending.load(Ordering::Relaxed) {
            match receiver.receive(&mut |received| desk.decide(received)) {
                Ok(Progress::Frames(_)) => {
                    desk.flush();
                    continue;
                }
                Ok(Progress::Interrupted) => {}
                Ok(Progress::Ended) => {
                    *lock(&station.trouble) = Some("ended: no more frames come".into());
                    Self::pause(&station, Nanos::from_secs(3_600));
                }
                Err(error) => {
                    *lock(&station.trouble) = Some(error.to_string());
                    Self::pause(&station, RETRY);
                    if error.is_passing() {
                        // It may work again by itself: the next attempt tells.
                        *lock(&station.trouble) = None;
                    }
                }
            }
            if let Some(successor) = lock(&station.successor).take() {
                receiver = successor;
                station.adopt(&*receiver);
                station.reopened.fetch_add(1, Ordering::Relaxed);
                *lock(&station.trouble) = None;
            }
        }
    }

    /// Waits, but not when there is something to do.
    fn pause(station: &Station, most: Nanos) {
        let until = clock::now::<Monotonic>() + most;
        let is_wanted =
            || station.is_ending.load(Ordering::Relaxed) || lock(&station.successor).is_some();
        // A signal ends the sleep early.
        while !is_wanted() && matches!(clock::sleep_until_or_signal(until), Ok(false)) {}
    }
}

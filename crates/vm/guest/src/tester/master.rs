//! [`GuestMaster`]: the tester that measures round trips, as `candor ping` does. The buses are outside of the guest, and take their
//! time to the bit; master and slave are programs of the guest.

use candor_linux::clock;
use candor_linux::realtime::{Policy, Task, set_policy};
use candor_ping::{Pace, Pair, Plan, Track, Trip, run};
use candor_port::{Receiver, Transmitter, Wanted};
use candor_protocol::order::{self, Measurement, Traffic};
use candor_protocol::report::Stamp;
use candor_time::{Instant, Monotonic, Nanos};

use super::{Outside, Seen};
use crate::failure::{Context, FAULT, Failure};
use crate::host;

const PLACE: &str = "master";

/// A master that is ready.
pub(crate) struct GuestMaster {
    plan: Plan,
    policy: Policy,
    receiver: Box<dyn Receiver>,
    transmitter: Box<dyn Transmitter>,
    outside: Outside,
}

/// The identifiers of requests and answers.
pub(crate) fn pair(traffic: &Traffic) -> Result<Pair, Failure> {
    let pair = match traffic.can_ids[..] {
        [request, answer] => Pair::new(request, answer),
        _ => None,
    };
    pair.ok_or_else(|| Failure::reported("traffic: round trips need two identifiers".into()))
}

/// Both halves of a port.
pub(crate) type Halves = (Box<dyn Receiver>, Box<dyn Transmitter>);

/// Opens a port.
pub(crate) fn port(place: &'static str, name: &str) -> Result<Halves, Failure> {
    let failed = |reason: String| Failure::new(place, reason, FAULT);
    let address = name.parse().map_err(|error| failed(format!("{error}")))?;
    let wanted = Wanted { stamps: false, ..Wanted::BOTH };
    let port = candor_drivers::open(&address, wanted).map_err(|error| failed(error.to_string()))?;
    port.receiver.zip(port.transmitter).ok_or_else(|| failed("half a port".into()))
}

impl GuestMaster {
    pub(crate) fn new(order: &Measurement) -> Result<Self, Failure> {
        let traffic = &order.traffic;
        let order::Pace::RoundTrips { period_ns, is_open_loop, timeout_ns, linger_ns, .. } =
            traffic.pace
        else {
            return Err(Failure::reported("traffic: a master sends requests only".into()));
        };
        let track = Track { pair: pair(traffic)?, period: Nanos::from_nanos(period_ns) };
        let plan = Plan {
            tracks: vec![track],
            length: traffic.length.into(),
            is_fd: traffic.fd_flags.is_some(),
            pace: if is_open_loop { Pace::OpenLoop } else { Pace::OneAtATime },
            count: Some(traffic.count),
            timeout: Nanos::from_nanos(timeout_ns),
            linger: Nanos::from_nanos(linger_ns),
            seed: order.seed,
        };
        let policy = match order.settings.gateway_priority {
            0 => Policy::Other,
            priority => Policy::Fifo(priority),
        };
        let (receiver, transmitter) = port(PLACE, &order.round_trip_ports()[0])?;
        Ok(Self { plan, policy, receiver, transmitter, outside: Outside::new()? })
    }

    /// Measures all round trips.
    pub(crate) fn run(self) -> Result<Seen, Failure> {
        let Self { plan, policy, mut receiver, mut transmitter, mut outside } = self;
        let count = plan.count.unwrap_or(0) as usize;
        let failed = |reason: String| Failure::new(PLACE, reason, FAULT);
        outside.start()?;
        set_policy(Task::This, policy).at(PLACE, "use a priority from 0 to 99")?;
        let start = clock::now::<Monotonic>();
        let mut trips = RoundTrips { start, sent: Vec::new(), received: Vec::new() };
        trips.sent.reserve_exact(count);
        trips.received.reserve_exact(count);
        let mut master =
            candor_ping::Master::new(plan, start).map_err(|error| failed(error.to_string()))?;
        host::counting_begins();
        let ran =
            run::master(&mut master, &mut *receiver, &mut *transmitter, &clock::now, &mut trips);
        ran.map_err(|error| failed(error.to_string()))?;
        // Before the load takes the processor.
        outside.guest_is_over()?;
        set_policy(Task::This, Policy::Other).at(PLACE, FAULT)?;
        outside.wait()?;
        host::counting_ends();
        let mut seen = Seen { overflow: receiver.counters().overflow.get(), ..Seen::default() };
        // Requests that were lost are known at last.
        trips.sent.sort_by_key(|stamp| stamp.time_ns);
        seen.due = trips.sent.iter().map(|stamp| stamp.time_ns).collect();
        (seen.sent, seen.received) = (trips.sent, trips.received);
        Ok(seen)
    }
}

/// What became of requests.
struct RoundTrips {
    start: Instant<Monotonic>,
    sent: Vec<Stamp>,
    received: Vec<Stamp>,
}

impl run::Observer for RoundTrips {
    fn trip(&mut self, trip: &Trip) {
        let stamp = |at: Instant<Monotonic>| Stamp {
            number: trip.number as u16,
            time_ns: at.since(self.start).as_nanos(),
        };
        self.sent.push(stamp(trip.sent));
        if let Some(round_trip) = trip.outcome.round_trip() {
            self.received.push(stamp(trip.sent + round_trip));
        }
    }

    fn goes_on(&mut self, _: &candor_ping::Master, _: Instant<Monotonic>) -> bool {
        true
    }
}

//! Round trips in virtual time: a master and a slave, each with a controller of its own, on one bus.
//!
//! ```text
//!  run::master -- Desk: Receiver --> waits: the world goes on, and the slave answers what it receives
//!       \-------- Transmitter -----> controller == bus == controller of the slave
//! ```
//!
//! Both programs are one thread, and what they do takes no time: a round trip is what the bus takes.

use std::sync::Arc;

use candor_ping::Pair;
use candor_ping::run::{ROOM, Slave};
use candor_port::{
    Error as PortError, Progress, Received, Receiver, ReceiverCounters, Transmitter, Until, Waker,
    Wanted,
};
use candor_sim::port::{PortConfig, PortWorld, Simulation};
use candor_sim::{Decision, Gateway, Observer, PassageTag, Record, Settled, Time, World};
use candor_time::Instant;
use candor_wire::can::Frame;

use super::Ping;
use super::trips::{halves, measure};
use crate::buses::{self, BusFaults, bus_config, bus_counts};
use crate::error::Error;
use crate::experiment::Run;
use crate::result::ResultFile;
use crate::sections::{self, BUSES, BusCounts};

/// Runs one experiment with these identifiers.
pub(super) fn run(
    run: Run<'_>,
    (ping, faults, pair): (&Ping, BusFaults, Pair),
) -> Result<ResultFile, Error> {
    let Run { experiment, watch, .. } = run;
    let mut world: PortWorld<Nobody> = World::for_ports(experiment.seed);
    let bus = world.add_bus(bus_config(&ping.bus, faults));
    let simulation = Simulation::new(world, Nobody);
    let open = || halves(simulation.open(bus, &PortConfig::default(), Wanted::BOTH));
    let (receiver, mut transmitter) = open()?;
    let (of_slave, to_master) = open()?;
    let simulated = &simulation;
    let mut desk =
        Desk { simulation: simulated, receiver, of_slave, to_master, slave: Slave::new(&[pair]) };
    let now = || Instant::from_nanos(simulated.now().as_nanos());
    let measured = measure(experiment, (ping, pair), (&mut desk, &mut *transmitter), &now, watch)?;
    let duration_ns = measured.duration.as_nanos();
    let mut result = measured.evaluate(run, ping)?;
    let counts: BusCounts = simulation.inspect(|world, _| bus_counts(&world.bus_statistics(bus)));
    result.notes.extend(buses::left("the programs", counts.bus_offs, &ping.bus, faults));
    let row = sections::bus(&ping.bus, &counts, duration_ns);
    result.sections = result.sections.with(&BUSES, vec![row]);
    result.random = faults.bit_error_rate > 0.0;
    Ok(result)
}

/// There is no gateway, and nobody looks at single frames.
struct Nobody;

impl Gateway for Nobody {
    fn decide(&mut self, _: Time, _: u32, _: &Frame, _: PassageTag, _: &mut Decision) {}
    fn settle(&mut self, _: u32, _: Settled) {}
}

impl Observer for Nobody {
    fn record(&mut self, _: &Record<'_>) {}
}

/// What the master receives from. While it waits, the slave works.
struct Desk<'a> {
    simulation: &'a Simulation<Nobody, Nobody>,
    receiver: Box<dyn Receiver>,
    /// The port of the slave.
    of_slave: Box<dyn Receiver>,
    to_master: Box<dyn Transmitter>,
    slave: Slave,
}

impl Receiver for Desk<'_> {
    fn receive(
        &mut self,
        until: Until,
        take: &mut dyn FnMut(&Received),
    ) -> Result<Progress, PortError> {
        let latest = match until {
            Until::Now => self.simulation.now(),
            Until::Instant(instant) => Time::from_nanos(instant.as_nanos()),
            Until::Woken => Time::from_nanos(u64::MAX),
        };
        let Self { simulation, receiver, of_slave, to_master, slave } = self;
        loop {
            slave.retry(&mut **to_master);
            of_slave.receive(Until::Now, &mut |received| {
                slave.take(&received.frame, &mut **to_master);
            })?;
            let progress = receiver.receive(Until::Now, take)?;
            let now = simulation.now();
            if progress != Progress::Nothing || now >= latest {
                return Ok(progress);
            }
            // An answer that waits is tried again.
            let next = if slave.is_waiting() { latest.min(now + ROOM) } else { latest };
            if !simulation.wait(next) && simulation.now() < next {
                return Ok(Progress::Nothing);
            }
        }
    }

    fn waker(&self) -> Option<Waker> {
        None
    }

    fn counters(&self) -> Arc<ReceiverCounters> {
        self.receiver.counters()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candor_ping::{Master, Pace, Plan, Track, shortest};
    use candor_time::Nanos;
    use candor_wire::can::bits;
    use candor_wire::can::frame::EFF_FLAG;
    use proptest::prelude::*;

    use super::*;
    use crate::campaign::{self, Options};
    use crate::experiment::Experiment;
    use crate::watch::Unwatched;

    /// The requests of a master, which do not depend on when it sends them.
    fn requests(experiment: &Experiment, ping: &Ping, pair: Pair) -> Vec<Frame> {
        let plan = Plan {
            tracks: vec![Track { pair, period: ping.period }],
            length: ping.length.into(),
            is_fd: false,
            pace: Pace::OneAtATime,
            count: Some(experiment.count),
            timeout: Nanos::ZERO,
            linger: Nanos::ZERO,
            seed: experiment.seed,
        };
        let mut master = Master::new(plan, Instant::ZERO).unwrap();
        let next = |number: u64| {
            let now = Instant::from_nanos(number << 40);
            let (track, request) = master.request(now).unwrap();
            master.sent(track, now, &mut |_| {});
            request
        };
        (1..=experiment.count).map(next).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// To the nanosecond, a round trip is the shortest that the bus allows, behind the rest of the intermission
        /// that follows the answer before.
        #[test]
        fn a_round_trip_is_what_the_bus_takes(
            length in 1..9_u8,
            rate in 10_000..1_000_001_u32,
            period_us in prop_oneof![Just(0_u32), 100..20_000_u32],
            is_extended in any::<[bool; 2]>(),
            ids in any::<[u16; 2]>(),
            seed in any::<u32>(),
        ) {
            let word = |place: usize| match is_extended[place] {
                true => EFF_FLAG | u32::from(ids[place]) << 8,
                false => u32::from(ids[place]) & 0x7FF,
            };
            let pair = Pair::new(word(0), word(1));
            prop_assume!(pair.is_some());
            let pair = pair.unwrap_or(Pair::DEFAULT);
            let text = format!(
                "kind = 'ping'\ncount = 20\nseed = {seed}\nbus.a.bitrate = {rate}\n\
                 ping = {{ length = {length}, period = '{period_us}us', timeout = '1s' }}"
            );
            let campaign = campaign::parse("t.toml", &text, Path::new("."), &Options::default());
            let campaign = campaign.unwrap_or_else(|error| panic!("{error}"));
            let experiment = &campaign.experiments[0];
            let ping = experiment.of::<Ping>().unwrap();
            let mut lines = Vec::new();
            let (command, watch) = (String::new(), &Unwatched);
            let of_test = Run { experiment, command, lines: Some(&mut lines), watch };
            run(of_test, (ping, BusFaults::default(), pair)).unwrap();
            let lines = String::from_utf8(lines).unwrap();
            let timing = ping.bus.timing;
            let mut free_ns = 0;
            let mut trips = lines.lines().skip(1);
            for request in requests(experiment, ping, pair) {
                let cells: Vec<_> = trips.next().unwrap().split(',').collect();
                let [queued_ns, answered_ns] = [4, 5].map(|at: usize| cells[at].parse::<u64>().unwrap());
                let answer = pair.answer_to(&request).unwrap();
                let shortest = shortest(&request, &answer, timing).unwrap();
                prop_assert_eq!(answered_ns, queued_ns.max(free_ns) + shortest.as_nanos(), "{:?}", cells);
                free_ns = answered_ns + timing.nominal.duration_ns(bits::INTERMISSION_BITS);
            }
            prop_assert_eq!(trips.next(), None);
        }
    }
}

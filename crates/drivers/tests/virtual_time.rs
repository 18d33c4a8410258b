//! The suite on ports of a simulated world, in virtual time: no clock is read, and every run is the same.

mod suite;

use std::sync::Arc;

use candor_port::{Port, Wanted};
use candor_sim::port::{PortConfig, PortWorld, Simulation};
use candor_sim::{
    BusConfig, BusId, Decision, Gateway, Observer, PassageTag, Record, Settled, Time, World,
};
use candor_time::{Instant, Monotonic, Realtime};
use candor_wire::can::{Frame, Timing};
use suite::Bench;

/// There are no hosts.
struct Nobody;

impl Gateway for Nobody {
    fn decide(&mut self, _: Time, _: u32, _: &Frame, _: PassageTag, _: &mut Decision) {}
    fn settle(&mut self, _: u32, _: Settled) {}
}

struct Ignore;

impl Observer for Ignore {
    fn record(&mut self, _: &Record<'_>) {}
}

/// A bus of a world; whatever their names are, all ports are on it.
#[derive(Debug)]
struct Virtual {
    simulation: Simulation<Nobody, Ignore>,
    bus: BusId,
    config: PortConfig,
}

impl suite::World for Virtual {
    fn open(&self, _: &str, wanted: Wanted) -> Port {
        self.simulation.open(self.bus, &self.config, wanted)
    }

    fn now(&self) -> Instant<Monotonic> {
        Instant::from_nanos(self.simulation.now().as_nanos())
    }

    fn stamp_now(&self) -> Instant<Realtime> {
        Instant::from_nanos(self.simulation.now().as_nanos())
    }

    fn sleep_until(&self, instant: Instant<Monotonic>) {
        self.simulation.run_until(Time::from_nanos(instant.as_nanos()));
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// Runs the suite; what was not run, and the virtual time that it took.
fn run(is_fd: bool, config: PortConfig) -> (Vec<&'static str>, Time) {
    let mut world: PortWorld<Nobody> = World::for_ports(1);
    let bus = world.add_bus(BusConfig {
        name: "bus".into(),
        timing: Timing { nominal: "500k".parse().unwrap(), data: "2M".parse().unwrap() },
        is_fd,
        bit_error_rate: 0.0,
        restart: None,
    });
    let simulation = Simulation::new(world, Ignore);
    let world = Arc::new(Virtual { simulation: simulation.clone(), bus, config });
    let bench = Bench { world, is_full: true, ..Bench::new("left", "right") };
    let not_run = suite::run(&bench).into_iter().map(|(check, _)| check).collect();
    (not_run, simulation.now())
}

#[test]
fn ports_in_virtual_time_conform() {
    let fifo = PortConfig::default();
    let single = PortConfig { transmit_queue: 1, ..fifo };
    for (is_fd, config, not_run) in [
        (true, fifo, &["signal", "descriptor"][..]),
        (true, single, &["signal", "descriptor"]),
        (false, fifo, &["signal", "descriptor"]),
    ] {
        let first = run(is_fd, config);
        assert_eq!(first.0, not_run, "{config:?}");
        assert_eq!(first, run(is_fd, config), "another run: {config:?}");
    }
}

//! A run of one sender through one repeater.

use candor_sim::*;

use crate::scene::*;

/// Sender, bus, host, bus: the scene of most tests.
pub(crate) fn run(
    model: Model,
    config: SenderConfig,
    source: Box<dyn Source>,
) -> (Log, World<Repeater>) {
    let mut world = World::new(7);
    let (a, b) = (world.add_bus(bus("a", 1_000_000)), world.add_bus(bus("b", 1_000_000)));
    let host = world.add_host(model, Repeater::new(&[&[1], &[]]));
    world.connect(host, a);
    world.connect(host, b);
    world.add_listener(b);
    world.add_sender(a, config, source);
    let mut log = Log::default();
    assert!(world.run(&mut log));
    (log, world)
}

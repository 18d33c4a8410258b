//! Links beside buses, in one world.

use candor_causes::Cause;
use candor_sim::eth::LinkConfig;
use candor_sim::port::{PortWorld, Simulation};
use candor_sim::*;
use candor_time::Nanos;
use candor_wire::eth::LinkSpeed;

use crate::scene::*;

/// What ended when, in ns: on a bus `None`, on a link the number of the frame.
#[derive(Default)]
struct Ends {
    order: Vec<(u64, Option<u64>)>,
    on_links: Vec<LinkRecord>,
    buses: Log,
}

impl Observer for Ends {
    fn record(&mut self, record: &Record<'_>) {
        let end = record.taps.at(candor_lat::Tap::SourceEnd);
        self.order.extend(end.map(|end| (end, None)));
        self.buses.record(record);
    }
    fn record_on_link(&mut self, record: &LinkRecord) {
        self.order.push((record.ended.as_nanos(), Some(record.number)));
        self.on_links.push(*record);
    }
}

fn ns(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn link(depth: usize) -> LinkConfig {
    LinkConfig { speed: LinkSpeed::MBIT_100, delay: Nanos::from_nanos(240), depth }
}

fn releases(list: Vec<(u64, usize, u8)>) -> impl Iterator<Item = LinkRelease> + Send + 'static {
    let release = |(at_ns, len, priority)| LinkRelease { at: ns(at_ns), len, priority };
    list.into_iter().map(release)
}

#[test]
fn a_bus_and_a_link_run_in_one_world() {
    let mut world: World<Repeater> = World::new(7);
    let bus = world.add_bus(bus("a", 1_000_000));
    world.add_sender(
        bus,
        sender(Drive::Timed, Discipline::Fifo, 8),
        frames(&[(0, "123#"), (1, "300#")]),
    );
    let [left, right] = world.add_link(link(8)).ends();
    // 123# ends after 45 us: so does the first of these, with 5,760 + 240 ns.
    world.add_link_sender(left, releases(vec![(39_000, 60, 0), (39_000, 60, 5)]));
    world.add_link_sender(right, releases(vec![(0, 1_514, 0), (200_000, 60, 0)]));
    let mut ends = Ends::default();
    assert!(world.run(&mut ends));
    // Of one instant, buses are first. The higher priority is sent first. The world runs until all
    // has ended, on links too.
    let expected = [
        (45_000, None),
        (45_000, Some(1)),
        (51_720, Some(0)),
        (96_000, None),
        (122_320, Some(0)),
        (206_000, Some(1)),
    ];
    assert_eq!(ends.order, expected);
    assert_eq!(world.now(), ns(206_000));
    let record = |from, number, [released, started, sent, ended]: [u64; 4]| LinkRecord {
        from,
        number,
        released: ns(released),
        started: Some(ns(started)),
        sent: Some(ns(sent)),
        ended: ns(ended),
        fate: Fate::Delivered,
    };
    let expected = [
        record(left, 1, [39_000, 39_000, 44_760, 45_000]),
        record(left, 0, [39_000, 45_720, 51_480, 51_720]),
        record(right, 0, [0, 0, 122_080, 122_320]),
        record(right, 1, [200_000, 200_000, 205_760, 206_000]),
    ];
    assert_eq!(ends.on_links, expected);
    assert_eq!(ends.buses.causes(), [("delivered", 2)].into());
    assert_eq!((world.link_statistics(left).frames, world.bus_statistics(bus).frames), (2, 2));
}

#[test]
fn every_frame_on_a_link_ends_once() {
    // Room for one, besides the one that is sent.
    let mut world: World<Repeater> = World::new(7);
    let [left, _] = world.add_link(link(1)).ends();
    let list =
        vec![(0, 60, 0), (10, 60, 0), (20, 60, 0), (30, 2_000, 0), (30, 60, 1), (9_000, 60, 0)];
    world.add_link_sender(left, releases(list));
    let mut ends = Ends::default();
    assert!(world.run(&mut ends));
    let mut fates: Vec<_> = ends.on_links.iter().map(|it| (it.number, it.fate)).collect();
    fates.sort_by_key(|&(number, _)| number);
    let (delivered, refused) = (Fate::Delivered, Fate::Refused);
    let expected = [
        delivered,
        delivered,
        refused(Cause::SenderQueueFull),
        refused(Cause::Unsupported),
        delivered,
        refused(Cause::SenderQueueFull),
    ];
    assert_eq!(fates, (0..).zip(expected).collect::<Vec<_>>());
    assert_eq!(ends.on_links.iter().filter(|it| it.started.is_none()).count(), 3);
    assert_eq!(world.link_statistics(left).refused, 2);
}

#[test]
fn who_sends_late_on_a_link_is_waited_for() {
    // A frame that no bus-off node will ever send is under way all the time.
    let mut world: World<Repeater> = World::new(7);
    let bus = world.add_bus(bus("a", 1_000_000));
    let faulty = SenderConfig { fault_rate: 1.0, ..sender(Drive::Timed, Discipline::Fifo, 8) };
    world.add_sender(bus, faulty, frames(&[(0, "123#")]));
    let [left, right] = world.add_link(link(1)).ends();
    let second = 1_000_000_000;
    world.add_link_sender(left, releases(vec![(0, 60, 0), (20 * second, 60, 0)]));
    // So that the standstill is noticed, if it were one.
    let busy: Vec<_> = (0..20_000).map(|number| (number * 10_000, 60, 0)).collect();
    world.add_link_sender(right, releases(busy));
    let mut ends = Ends::default();
    assert!(world.run(&mut ends));
    assert_eq!(ends.on_links.len(), 20_002);
    assert!(ends.on_links.iter().all(|it| it.fate == Fate::Delivered));
    assert_eq!(ends.buses.causes(), [("unfinished", 1)].into());
    assert_eq!(world.now(), ns(20 * second + 6_000));
}

#[test]
fn what_is_on_a_link_when_the_simulation_is_closed_is_unfinished() {
    let mut world: PortWorld<Repeater> = World::for_ports(7);
    let links = [world.add_link(link(8)), world.add_link(link(8))];
    let [one, other] = links.map(|link| link.ends()[0]);
    // At 6,500 ns the first has arrived and the second waits for the gap. The third has not been
    // released. The long one is on its way.
    world.add_link_sender(one, releases(vec![(0, 60, 0), (10, 60, 0), (7_000, 60, 0)]));
    world.add_link_sender(other, releases(vec![(5, 1_514, 0)]));
    let simulation = Simulation::new(world, Ends::default());
    simulation.run_until(ns(6_500));
    simulation.close();
    simulation.inspect(|world, ends| {
        let ended: Vec<_> = ends.on_links.iter().map(|it| (it.from, it.number, it.fate)).collect();
        let unfinished = Fate::Refused(Cause::Unfinished);
        // In the order in which they were released.
        let expected = [(one, 0, Fate::Delivered), (other, 0, unfinished), (one, 1, unfinished)];
        assert_eq!(ended, expected);
        assert_eq!((world.now(), ends.on_links[1].ended), (ns(6_500), ns(6_500)));
        assert_eq!(ends.on_links[1].started, Some(ns(5)));
        assert_eq!(ends.on_links[2].started, None);
    });
}

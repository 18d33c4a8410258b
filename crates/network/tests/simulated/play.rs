//! A network in the simulation.

use std::collections::{BTreeMap, BTreeSet};

use candor_lat::Tap;
use candor_network::bound::Bounds;
use candor_network::bound::network::{QueueBound, Sender};
use candor_network::flow::Flow;
use candor_network::{Delay, Network, Queue};
use candor_sim::model::Egress;
use candor_sim::{
    BusConfig, Copy, Decision, Drive, Fate, Gateway, Model, Observer, PassageTag, Record, Release,
    SenderConfig, Settled, Stuffing, Time, Walk, World,
};
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::draw::{Draw, Phases, number, numbered};

/// When the first frames are released: behind all that comes early.
const BEGIN_NS: u64 = 1_000_000_000;
/// About so many frames are sent.
const FRAMES: u64 = 2_000;

/// Passes on what the flows say: by port and identifier, the flow of the copy and its port.
struct Forwards(BTreeMap<(u32, u32), Vec<(u32, u32)>>);

impl Gateway for Forwards {
    fn decide(
        &mut self,
        _: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    ) {
        for &(job, port) in self.0.get(&(port, frame.can_id())).into_iter().flatten() {
            let (frame, walk) = (*frame, Walk::default());
            let passage = PassageTag { hops: passage.hops + 1, ..passage };
            let (echo, is_edited) = (false, false);
            decision.copies.push(Copy { job, port, frame, passage, echo, is_edited, walk });
        }
    }

    fn settle(&mut self, _: u32, _: Settled) {}
}

/// For each flow the least and the greatest time from the nominal release to the end of the frame.
struct Times<'a> {
    flows: &'a [Flow],
    /// By identifier: the flow of the sender, the nominal release of its first frame, and the period.
    messages: BTreeMap<u32, (usize, u64, u64)>,
    seen: Vec<Option<(u64, u64)>>,
}

impl Times<'_> {
    fn note(&mut self, flow: usize, end_ns: u64, released_ns: u64) {
        let time_ns = end_ns - released_ns;
        let (least, most) = self.seen[flow].unwrap_or((time_ns, time_ns));
        self.seen[flow] = Some((least.min(time_ns), most.max(time_ns)));
    }
}

impl Observer for Times<'_> {
    fn record(&mut self, record: &Record<'_>) {
        let (flow, first_ns, period_ns) = self.messages[&record.sent.can_id()];
        let released_ns = first_ns + number(record.sent) * period_ns;
        let no_rule = Fate::Refused(candor_causes::Cause::NoRule);
        assert!(
            matches!(record.fate, Fate::Forwarded | Fate::Delivered) || record.fate == no_rule,
            "{:?}: {:?}",
            record.sent,
            record.fate
        );
        if let (Some(job), Some(end)) = (record.job, record.taps.at(Tap::TargetEnd)) {
            self.note(job as usize, end, released_ns);
        }
        let Some(end) = record.taps.at(Tap::SourceEnd) else { return };
        // Where it was before: only its own bus if there are no copies.
        let has_copies = self.flows.iter().any(|it| it.parent == Some(flow));
        match record.job {
            Some(job) => self.note(self.flows[job as usize].parent.unwrap(), end, released_ns),
            None if !has_copies => self.note(flow, end, released_ns),
            None => {}
        }
    }
}

/// Plays a network with queues that are as deep as their bounds say, and returns the least and the greatest time of each flow.
///
/// `phases` has when messages are released, and the flow that shall be late.
pub(crate) fn played(
    network: &Network,
    flows: &[Flow],
    bounds: &Bounds,
    draw: &mut Draw,
    phases: (Phases, usize),
) -> Vec<Option<(u64, u64)>> {
    let mut world: World<Forwards> = World::new(1);
    let buses = network.buses.iter().map(|bus| {
        world.add_bus(BusConfig {
            name: bus.name.clone(),
            timing: bus.timing,
            is_fd: bus.is_fd,
            bit_error_rate: 0.0,
            restart: None,
        })
    });
    let buses: Vec<_> = buses.collect();
    let deep = |sender: Sender, queue: Queue| {
        let bound = bounds.queues.iter().find(|it| it.sender == sender);
        // Without a bound, deep enough for everything.
        let frames = bound.map_or(Some(1), |it: &QueueBound| it.frames);
        Egress { depth: frames.unwrap_or(1_000_000) as usize, discipline: queue.discipline }
    };
    for (index, gateway) in network.gateways.iter().enumerate() {
        // On each bus that it needs, a controller: one host has one depth, which is that of the deepest.
        let sends = |flow: &Flow| flow.sent_by() == Some(index);
        let own = || flows.iter().enumerate().filter(|(_, flow)| sends(flow));
        let from = |flow: &Flow| flows[flow.parent.unwrap()].bus;
        let connected: BTreeSet<_> = own().flat_map(|(_, it)| [it.bus, from(it)]).collect();
        let port = |bus: usize| connected.iter().position(|&it| it == bus).unwrap() as u32;
        let mut forwards: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (job, flow) in own() {
            let key = (port(from(flow)), flow.frame.can_id());
            forwards.entry(key).or_default().push((job as u32, port(flow.bus)));
        }
        let queues = connected.iter().map(|&bus| deep(Sender::Gateway(index, bus), gateway.queue));
        let Some(egress) = queues.max_by_key(|it| it.depth) else { continue };
        let Some(Delay::Between(least, most)) = gateway.delay else { panic!("{gateway:?}") };
        let delay = least + Nanos::from_nanos(draw.up_to((most - least).as_nanos()));
        let host = world.add_host(Model::Constant { delay, egress }, Forwards(forwards));
        for &bus in &connected {
            let _ = world.connect(host, buses[bus]);
        }
    }
    buses.iter().for_each(|&bus| world.add_listener(bus));
    let mut times = Times { flows, messages: BTreeMap::new(), seen: vec![None; flows.len()] };
    let releases = releases(network, flows, draw, phases, &mut times.messages);
    for (index, (node, mut releases)) in network.nodes.iter().zip(releases).enumerate() {
        releases.reverse();
        let Egress { depth, discipline } = deep(Sender::Node(index), node.queue);
        let reload = Nanos::ZERO;
        let config =
            SenderConfig { drive: Drive::Timed, discipline, depth, reload, fault_rate: 0.0 };
        let _ = world.add_sender(buses[node.bus], config, Box::new(move || releases.pop()));
    }
    assert!(world.run(&mut times));
    times.seen
}

/// The releases of each node; also, by identifier, the flow of a message, its first nominal release and its period.
fn releases(
    network: &Network,
    flows: &[Flow],
    draw: &mut Draw,
    (phases, victim): (Phases, usize),
    messages: &mut BTreeMap<u32, (usize, u64, u64)>,
) -> Vec<Vec<Release>> {
    let shortest_ns =
        network.nodes.iter().flat_map(|it| &it.messages).map(|it| it.period.as_nanos());
    let sent: u64 = flows.iter().filter(|it| it.parent.is_none()).count() as u64;
    let until_ns = BEGIN_NS + FRAMES * shortest_ns.max().unwrap_or(1) / sent.max(1);
    let victim = &flows[victim];
    let key = |flow: &Flow| flow.frame.arbitration_key();
    // What blocks the victim: the longest less urgent frame of others.
    let bus = network.buses[victim.bus].timing;
    let longest = |flow: &Flow| candor_network::longest_transmission(&flow.frame, bus);
    let is_fifo = network.nodes[victim.node].queue.discipline == candor_network::Discipline::Fifo;
    let group = |flow: &Flow| is_fifo && flow.node == victim.node;
    let last = flows.iter().filter(|it| group(it)).map(key).max().unwrap_or(key(victim));
    let less_urgent = flows.iter().filter(|it| !group(it) && key(it) > last.max(key(victim)));
    let blocking = less_urgent.max_by_key(|it| longest(it)).map(|it| (it.node, it.message));
    let mut all = Vec::new();
    for (node, sender) in network.nodes.iter().enumerate() {
        let mut releases: Vec<(u64, bool, Release)> = Vec::new();
        for (index, message) in sender.messages.iter().enumerate() {
            let is_of = |it: &Flow| it.parent.is_none() && (it.node, it.message) == (node, index);
            let flow = flows.iter().position(is_of).unwrap();
            let (period_ns, jitter_ns) = (message.period.as_nanos(), message.jitter.as_nanos());
            let first_ns = match phases {
                Phases::Random => BEGIN_NS + draw.up_to(period_ns),
                // The one that blocks is on its way for a nanosecond.
                Phases::Constructed if blocking == Some((node, index)) => BEGIN_NS - 1 - jitter_ns,
                Phases::Constructed => BEGIN_NS - jitter_ns,
            };
            messages.insert(message.can_id, (flow, first_ns, period_ns));
            let mut queued_ns = 0;
            for number in (0..).take_while(|number| first_ns + number * period_ns < until_ns) {
                let late_ns = match (phases, number) {
                    (Phases::Constructed, 0) => jitter_ns,
                    (Phases::Constructed, _) => 0,
                    (Phases::Random, _) => draw.up_to(jitter_ns),
                };
                // In their order.
                queued_ns = queued_ns.max(first_ns + number * period_ns + late_ns);
                let at = Time::ZERO + Nanos::from_nanos(queued_ns);
                let (frame, stuffing) = (numbered(message, number), Stuffing::Worst);
                let is_victim = (node, index) == (victim.node, victim.message);
                releases.push((queued_ns, is_victim, Release { at, frame, stuffing }));
            }
        }
        // The victim is behind what is queued at the same time.
        releases.sort_by_key(|&(at, is_victim, _)| (at, is_victim));
        all.push(releases.into_iter().map(|(_, _, release)| release).collect());
    }
    all
}

//! A network in the simulation.

use std::collections::{BTreeMap, BTreeSet};

use candor_causes::Cause;
use candor_engine::extension::Pace;
use candor_lat::Tap;
use candor_network::bound::Bounds;
use candor_network::bound::network::{QueueBound, Sender};
use candor_network::flow::Flow;
use candor_network::{Delay, Network, Queue};
use candor_sim::model::{Egress, FilterCosts, Linux, Readout};
use candor_sim::{
    BusConfig, Copy, Decision, Drive, Fate, Gateway, Model, Observer, PassageTag, Record, Release,
    SenderConfig, Settled, Stuffing, Time, Walk, World,
};
use candor_time::Nanos;
use candor_wire::can::Frame;

use super::draw::{Draw, Phases, connected, number, numbered};

/// When the first frames are released: behind all that comes early.
const BEGIN_NS: u64 = 1_000_000_000;
/// About so many frames are sent.
const FRAMES: u64 = 2_000;

/// Passes on what the flows say: by port and identifier.
struct Forwards(BTreeMap<(u32, u32), Vec<Forward>>);

/// Makes a copy.
struct Forward {
    /// Its flow.
    job: u32,
    port: u32,
    pace: Pace,
    /// When the next frame may pass, but for the tolerance.
    due_ns: u64,
}

impl Gateway for Forwards {
    fn decide(
        &mut self,
        now: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    ) {
        for forward in self.0.get_mut(&(port, frame.can_id())).into_iter().flatten() {
            let Forward { job, port, pace, due_ns } = forward;
            let (job, port, now_ns) = (*job, *port, now.as_nanos());
            // The generic cell rate algorithm.
            if *due_ns > now_ns + pace.tolerance_ns {
                decision.refused.push((job, Cause::Rate));
                continue;
            }
            *due_ns = now_ns.max(*due_ns) + pace.interval_ns;
            let (frame, walk) = (*frame, Walk::default());
            let passage = PassageTag { hops: passage.hops + 1, ..passage };
            let (echo, is_edited) = (false, false);
            decision.copies.push(Copy { job, port, frame, passage, echo, is_edited, walk });
        }
    }

    fn settle(&mut self, _: u32, _: Settled) {}
}

/// A message as it is sent.
struct Sent {
    flow: usize,
    /// The nominal release of its first frame.
    first_ns: u64,
    period_ns: u64,
    /// When each frame is queued at its node.
    queued_ns: Vec<u64>,
}

/// What was seen of each flow.
pub(crate) struct Times<'a> {
    flows: &'a [Flow],
    /// By identifier.
    messages: BTreeMap<u32, Sent>,
    /// The least and the greatest time from the nominal release to the end of the frame.
    pub(crate) since_release: Vec<Option<(u64, u64)>>,
    /// The same from when it was queued at its node.
    pub(crate) since_queued: Vec<Option<(u64, u64)>>,
    /// For flows of nodes: when their frames ended.
    pub(crate) ends_ns: Vec<BTreeSet<u64>>,
    /// By gateway: the longest time from a frame to its copy in the transmit queue.
    pub(crate) in_gateway_ns: BTreeMap<usize, u64>,
    /// For copies that went no further: when they were put into the transmit queue.
    pub(crate) enqueued_ns: Vec<BTreeSet<u64>>,
    /// How many copies rules have stopped.
    pub(crate) stopped: u64,
}

impl<'a> Times<'a> {
    fn new(flows: &'a [Flow]) -> Self {
        let none = vec![None; flows.len()];
        let (messages, ends_ns) = (BTreeMap::new(), vec![BTreeSet::new(); flows.len()]);
        let (since_release, since_queued) = (none.clone(), none);
        let (in_gateway_ns, enqueued_ns) = (BTreeMap::new(), ends_ns.clone());
        Self {
            flows,
            messages,
            since_release,
            since_queued,
            ends_ns,
            in_gateway_ns,
            enqueued_ns,
            stopped: 0,
        }
    }

    fn note(&mut self, flow: usize, end_ns: u64, released_ns: u64, queued_ns: u64) {
        for (seen, since_ns) in
            [(&mut self.since_release, released_ns), (&mut self.since_queued, queued_ns)]
        {
            let time_ns = end_ns - since_ns;
            let (least, most) = seen[flow].unwrap_or((time_ns, time_ns));
            seen[flow] = Some((least.min(time_ns), most.max(time_ns)));
        }
    }
}

impl Observer for Times<'_> {
    fn record(&mut self, record: &Record<'_>) {
        let number = number(record.sent);
        let sent = &self.messages[&record.sent.can_id()];
        let (flow, released_ns) = (sent.flow, sent.first_ns + number * sent.period_ns);
        let queued_ns = sent.queued_ns[number as usize];
        let refused = |cause| record.fate == Fate::Refused(cause);
        let is_refused = refused(Cause::NoRule) || refused(Cause::Rate);
        assert!(
            is_refused || matches!(record.fate, Fate::Forwarded | Fate::Delivered),
            "{:?}: {:?}",
            record.sent,
            record.fate
        );
        self.stopped += u64::from(refused(Cause::Rate));
        if let (Some(job), Some(end)) = (record.job, record.taps.at(Tap::TargetEnd)) {
            self.note(job as usize, end, released_ns, queued_ns);
            self.enqueued_ns[job as usize].extend(record.taps.at(Tap::Enqueued));
        }
        let Some(end) = record.taps.at(Tap::SourceEnd) else { return };
        // Where it was before: only its own bus if there are no copies.
        let has_copies = self.flows.iter().any(|it| it.parent == Some(flow));
        let before = match record.job {
            Some(job) => {
                let (flow, enqueued) = (&self.flows[job as usize], record.taps.at(Tap::Enqueued));
                let most_ns = self.in_gateway_ns.entry(flow.sent_by().unwrap()).or_default();
                *most_ns = enqueued.map_or(0, |it| it - end).max(*most_ns);
                flow.parent.unwrap()
            }
            None if !has_copies => flow,
            None => return,
        };
        self.note(before, end, released_ns, queued_ns);
        self.ends_ns[before].insert(end);
    }
}

/// Plays a network with queues that are as deep as their bounds say.
///
/// `phases` has when messages are released, and the flow that shall be late.
pub(crate) fn played<'a>(
    network: &Network,
    flows: &'a [Flow],
    bounds: &Bounds,
    draw: &mut Draw,
    phases: (Phases, usize),
) -> Times<'a> {
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
        let connected = connected(flows, index);
        let port = |bus: usize| connected.iter().position(|&it| it == bus).unwrap() as u32;
        let mut forwards: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (job, flow) in own() {
            let key = (port(from(flow)), flow.frame.can_id());
            let rule = flow.rule.map(|rule| &gateway.rules.rules[rule]);
            let pace = rule.map(|rule| rule.extension.pace.clone()).unwrap_or_default();
            let (job, port) = (job as u32, port(flow.bus));
            forwards.entry(key).or_default().push(Forward { job, port, pace, due_ns: 0 });
        }
        let queues = connected.iter().map(|&bus| deep(Sender::Gateway(index, bus), gateway.queue));
        let Some(egress) = queues.max_by_key(|it| it.depth) else { continue };
        let host = world.add_host(model(gateway.delay.unwrap(), egress, draw), Forwards(forwards));
        for &bus in &connected {
            let _ = world.connect(host, buses[bus]);
        }
    }
    buses.iter().for_each(|&bus| world.add_listener(bus));
    let mut times = Times::new(flows);
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
    times
}

/// A host that takes so long for frames.
fn model(delay: Delay, egress: Egress, draw: &mut Draw) -> Model {
    let (Delay::Between(least, most) | Delay::PerFrame(least, most)) = delay;
    let time = least + Nanos::from_nanos(draw.up_to((most - least).as_nanos()));
    let Delay::PerFrame(..) = delay else { return Model::Constant { delay: time, egress } };
    // Interrupts take no time and bring frames into one queue, and each waits there until the stack has served those before it.
    // The transmit queue is in the controller; one place before it is passed at once.
    let filter = FilterCosts {
        slot: Nanos::ZERO,
        entry: Nanos::ZERO,
        entry_uncached: Nanos::ZERO,
        cached_entries: 0,
        extended_in_list: false,
    };
    Model::Linux(Box::new(Linux {
        interrupt: Nanos::ZERO,
        readout: Readout::HardIrq,
        read: Nanos::ZERO,
        rx_fifo: 1,
        tx_buffers: egress.depth,
        transmit_done: Nanos::ZERO,
        soft_irq: Nanos::ZERO,
        poll_weight: 64,
        receive: time,
        jitter: Nanos::ZERO,
        filter,
        clone: Nanos::ZERO,
        copy: Nanos::ZERO,
        transmit: Nanos::ZERO,
        virtual_transmit: Nanos::ZERO,
        virtual_more: Nanos::ZERO,
        backlog: 1_000_000,
        egress: Egress { depth: 1, ..egress },
        user_space: None,
        is_preempt_rt: false,
        slowdown_percent: 100,
        interference: Vec::new(),
        ethernet: None,
    }))
}

/// The releases of each node; also, by identifier, its messages.
fn releases(
    network: &Network,
    flows: &[Flow],
    draw: &mut Draw,
    (phases, victim): (Phases, usize),
    messages: &mut BTreeMap<u32, Sent>,
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
            let mut sent = Sent { flow, first_ns, period_ns, queued_ns: Vec::new() };
            let mut queued_ns = 0;
            for number in (0..).take_while(|number| first_ns + number * period_ns < until_ns) {
                let late_ns = match (phases, number) {
                    (Phases::Constructed, 0) => jitter_ns,
                    (Phases::Constructed, _) => 0,
                    (Phases::Random, _) => draw.up_to(jitter_ns),
                };
                // In their order.
                queued_ns = queued_ns.max(first_ns + number * period_ns + late_ns);
                sent.queued_ns.push(queued_ns);
                let at = Time::ZERO + Nanos::from_nanos(queued_ns);
                let (frame, stuffing) = (numbered(message, number), Stuffing::Worst);
                let is_victim = (node, index) == (victim.node, victim.message);
                releases.push((queued_ns, is_victim, Release { at, frame, stuffing }));
            }
            messages.insert(message.can_id, sent);
        }
        // The victim is behind what is queued at the same time.
        releases.sort_by_key(|&(at, is_victim, _)| (at, is_victim));
        all.push(releases.into_iter().map(|(_, _, release)| release).collect());
    }
    all
}

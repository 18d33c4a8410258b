//! Random networks, with their flows.

use std::collections::BTreeSet;
use std::fmt;

use candor_engine::extension::Pace;
use candor_engine::{BusIndex, Rule};
use candor_network::flow::Flow;
use candor_network::{
    Bus, Delay, Discipline, Gateway, Message, Network, Node, Payload, Queue, longest_transmission,
};
use candor_random::Random;
use candor_time::Nanos;
use candor_wire::can::frame::BRS;
use candor_wire::can::{Frame, StandardId, Timing};

/// Of which kind networks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The order in the queues; both if there is none.
    pub(crate) order: Option<Discipline>,
    /// Whether there are gateways, and several buses.
    pub(crate) has_gateways: bool,
    pub(crate) is_fd: bool,
    pub(crate) phases: Phases,
    pub(crate) more: More,
}

/// What there is besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Nothing,
    /// Rules of gateways that let some frames pass only.
    Rates,
    /// In each gateway a processor serves all frames in their order.
    Processors,
    /// Of messages no more is known than how close their frames came.
    Watched,
    /// Some buses are to carry more than they can.
    Overload,
}

/// When messages are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phases {
    /// At random.
    Random,
    /// So that one of them is as late as can be: all at the same instant, those that may be late so late that the next one comes
    /// soon, and the longest less urgent frame just before.
    Constructed,
}

impl Kind {
    const fn new(
        order: Option<Discipline>,
        has_gateways: bool,
        is_fd: bool,
        phases: Phases,
    ) -> Self {
        Self { order, has_gateways, is_fd, phases, more: More::Nothing }
    }

    const fn with(self, more: More) -> Self {
        Self { more, ..self }
    }

    /// That with an analysis which is exact.
    pub(crate) const EXACT: Self =
        Self::new(Some(Discipline::Priority), false, false, Phases::Constructed);

    pub(crate) const ALL: [Self; 17] = [
        Self::EXACT,
        Self::new(Some(Discipline::Priority), false, true, Phases::Constructed),
        Self::new(Some(Discipline::Fifo), false, false, Phases::Constructed),
        Self::new(None, false, false, Phases::Constructed),
        Self::new(Some(Discipline::Priority), false, false, Phases::Random),
        Self::new(Some(Discipline::Fifo), false, true, Phases::Random),
        Self::new(Some(Discipline::Priority), true, false, Phases::Random),
        Self::new(Some(Discipline::Fifo), true, false, Phases::Random),
        Self::new(None, true, true, Phases::Random),
        Self::new(None, true, false, Phases::Random),
        Self::new(None, true, false, Phases::Random).with(More::Rates),
        Self::new(Some(Discipline::Priority), true, false, Phases::Random).with(More::Processors),
        Self::new(None, true, true, Phases::Random).with(More::Processors),
        Self::new(None, false, false, Phases::Random).with(More::Watched),
        Self::new(None, true, false, Phases::Random).with(More::Watched),
        Self::new(None, false, false, Phases::Random).with(More::Overload),
        Self::new(None, true, false, Phases::Random).with(More::Overload),
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buses = if self.has_gateways { "gateways" } else { "one bus" };
        let order = self.order.map_or("both orders", Discipline::name);
        let frames = if self.is_fd { "CAN FD" } else { "classical" };
        let phases = match self.phases {
            Phases::Random => "random",
            Phases::Constructed => "constructed",
        };
        write!(f, "{buses}, {order}, {frames}, {phases} phases")?;
        f.write_str(match self.more {
            More::Nothing => "",
            More::Rates => ", rates",
            More::Processors => ", processors",
            More::Watched => ", watched",
            More::Overload => ", overloaded",
        })
    }
}

pub(crate) struct Draw(Random);

impl Draw {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Random::new(seed, stream))
    }

    /// One of so many.
    pub(crate) fn below(&mut self, count: u64) -> usize {
        (self.0.unit() * count as f64) as usize
    }

    pub(crate) fn is(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    /// A time up to and with `most_ns`.
    pub(crate) fn up_to(&mut self, most_ns: u64) -> u64 {
        self.0.nanos(Nanos::ZERO, Nanos::from_nanos(most_ns)).as_nanos()
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + self.0.unit() * (most - least)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64)]
    }

    /// A network, its flows, and the one that shall be as late as can be.
    pub(crate) fn network(&mut self, kind: &Kind) -> (Network, Vec<Flow>, usize) {
        let mut network = Network::default();
        let buses = if kind.has_gateways { 2 + self.below(3) } else { 1 };
        for bus in 0..buses {
            network.buses.push(self.bus(bus, kind.is_fd));
        }
        let mut keys: Vec<u32> = Vec::new();
        for node in 0..buses + self.below(2 * buses as u64 + 2) {
            let bus = if node < buses { node } else { self.below(buses as u64) };
            let queue = self.queue(kind);
            let messages = (0..=self.below(3)).map(|_| self.message(kind, &mut keys)).collect();
            network.nodes.push(Node { name: node.to_string(), bus, queue, messages });
        }
        if kind.has_gateways {
            for gateway in 0..=self.below(3) {
                let least_ns = self.up_to(100_000);
                let most_ns = least_ns + self.up_to(300_000);
                let delay = Delay::Between(Nanos::from_nanos(least_ns), Nanos::from_nanos(most_ns));
                let queue = self.queue(kind);
                let new = Gateway::new(gateway.to_string(), candor_engine::Table::default());
                network.gateways.push(Gateway { delay: Some(delay), queue, ..new });
            }
        }
        let mut flows = self.flows(&network);
        let load = match kind.more {
            More::Overload => self.between(0.95, 1.5),
            _ => self.between(0.3, 0.95),
        };
        self.set_periods(&mut network, &flows, load);
        match kind.more {
            More::Nothing | More::Watched | More::Overload => {}
            More::Rates => self.set_rates(&mut network, &mut flows),
            More::Processors => self.set_processors(&mut network, &flows),
        }
        let victim = self.below(flows.len() as u64);
        (network, flows, victim)
    }

    fn bus(&mut self, index: usize, is_fd: bool) -> Bus {
        let nominal = self.one_of(&["125k", "250k", "333k", "500k", "1M"]);
        let data = if is_fd { self.one_of(&["2M", "4M", "5M"]) } else { nominal };
        let timing = Timing { nominal: nominal.parse().unwrap(), data: data.parse().unwrap() };
        Bus { name: index.to_string(), timing, is_fd }
    }

    /// It is as deep as is needed; `play` sets what is enough.
    fn queue(&mut self, kind: &Kind) -> Queue {
        let any = self.one_of(&Discipline::ALL);
        Queue { discipline: kind.order.unwrap_or(any), depth: 1_000_000 }
    }

    /// Its period is a weight so far.
    fn message(&mut self, kind: &Kind, keys: &mut Vec<u32>) -> Message {
        let can_id = loop {
            let can_id = self.below(0x7FF) as u32;
            if !keys.contains(&can_id) {
                break can_id;
            }
        };
        keys.push(can_id);
        // Three bytes have the number of a frame.
        let is_fd = kind.is_fd && self.is(0.7);
        let length =
            if is_fd { self.one_of(&[3, 8, 12, 16, 32, 48, 64]) } else { 3 + self.below(6) };
        Message {
            name: format!("{can_id:X}"),
            can_id,
            length,
            is_fd,
            period: Nanos::from_nanos(1_000 + self.up_to(30_000)),
            offset: None,
            jitter: Nanos::ZERO,
            deadline: None,
            distances: Vec::new(),
            min_length: None,
            has_brs: true,
            payload: Payload::Worst,
        }
    }

    /// Each message on its bus, and behind gateways on others, on each bus once.
    fn flows(&mut self, network: &Network) -> Vec<Flow> {
        let mut flows: Vec<Flow> = Vec::new();
        for (node, sender) in network.nodes.iter().enumerate() {
            for (message, sent) in sender.messages.iter().enumerate() {
                let first = flows.len();
                flows.push(Flow {
                    node,
                    message,
                    bus: sender.bus,
                    frame: sent.frame(&[0; 64]).unwrap(),
                    parent: None,
                    gateways: Vec::new(),
                    rule: None,
                    is_refused: false,
                });
                let mut next = first;
                while next < flows.len() {
                    for gateway in 0..network.gateways.len() {
                        let to = self.below(network.buses.len() as u64);
                        let is_there = flows[first..].iter().any(|flow| flow.bus == to);
                        if is_there || flows[next].sent_by() == Some(gateway) || !self.is(0.4) {
                            continue;
                        }
                        let from = flows[next].clone();
                        let gateways = [from.gateways.as_slice(), &[gateway]].concat();
                        flows.push(Flow { bus: to, parent: Some(next), gateways, ..from });
                    }
                    next += 1;
                }
            }
        }
        flows
    }

    /// Makes times of the weights, so that the busiest bus is as busy as that; some messages are late.
    fn set_periods(&mut self, network: &mut Network, flows: &[Flow], load: f64) {
        let mut loads = vec![0.0; network.buses.len()];
        for flow in flows {
            let message = &network.nodes[flow.node].messages[flow.message];
            let longest = longest_transmission(&flow.frame, network.buses[flow.bus].timing);
            let period = message.period.as_nanos() as f64;
            loads[flow.bus] += longest.unwrap().as_nanos() as f64 / period;
        }
        let busiest = loads.into_iter().fold(0.0, f64::max);
        for node in &mut network.nodes {
            for message in &mut node.messages {
                let period_ns = message.period.as_nanos() as f64 * busiest / load;
                message.period = Nanos::from_nanos(period_ns as u64);
                if self.is(0.4) {
                    message.jitter = Nanos::from_nanos(self.up_to((period_ns * 1.5) as u64));
                }
            }
        }
    }

    /// A rule for each copy; many have a rate below that of the message, or a little above it.
    fn set_rates(&mut self, network: &mut Network, flows: &mut [Flow]) {
        for flow in flows {
            let Some(gateway) = flow.sent_by() else { continue };
            let rules = &mut network.gateways[gateway].rules.rules;
            let mut rule = Rule::new(rules.len().to_string(), BusIndex(0), BusIndex(0));
            if self.is(0.7) {
                let period = network.nodes[flow.node].messages[flow.message].period.as_nanos();
                let interval_ns = (period as f64 * self.between(0.5, 4.0)) as u64;
                let tolerance_ns = interval_ns * self.below(3) as u64;
                rule.extension.pace = Pace { interval_ns, tolerance_ns, ..Pace::default() };
            }
            flow.rule = Some(rules.len());
            rules.push(rule);
        }
    }

    /// Processors that are as busy as that, all of them with the frames of all buses that they are at.
    fn set_processors(&mut self, network: &mut Network, flows: &[Flow]) {
        for index in 0..network.gateways.len() {
            let connected = connected(flows, index);
            let is_received =
                |it: &&Flow| connected.contains(&it.bus) && it.sent_by() != Some(index);
            let rate = |it: &Flow| {
                1.0 / network.nodes[it.node].messages[it.message].period.as_nanos() as f64
            };
            let rate: f64 = flows.iter().filter(is_received).map(rate).sum();
            let most_ns = (self.between(0.1, 0.9) / rate.max(1e-7)) as u64;
            let least_ns = most_ns - self.up_to(most_ns / 2);
            let bus = |bus: &usize| candor_engine::Bus {
                name: network.buses[*bus].name.clone(),
                port: String::new(),
                is_virtual: false,
            };
            let buses = connected.iter().map(bus).collect();
            let gateway = &mut network.gateways[index];
            gateway.rules.buses = buses;
            let [least, most] = [least_ns, most_ns].map(Nanos::from_nanos);
            gateway.delay = Some(Delay::PerFrame(least, most));
        }
    }
}

/// The buses that a gateway receives from or sends to.
pub(crate) fn connected(flows: &[Flow], gateway: usize) -> BTreeSet<usize> {
    let own = flows.iter().filter(|it| it.sent_by() == Some(gateway));
    own.flat_map(|it| [it.bus, flows[it.parent.unwrap()].bus]).collect()
}

/// The frame of a message with a number in it.
pub(crate) fn numbered(message: &Message, number: u64) -> Frame {
    let mut data = [0; 64];
    data[..3].copy_from_slice(&number.to_le_bytes()[..3]);
    let data = &data[..message.length];
    let id = StandardId::new(message.can_id as u16).unwrap();
    match message.is_fd {
        true => Frame::fd(id, BRS, data).unwrap(),
        false => Frame::new(id, data).unwrap(),
    }
}

/// The number in a frame.
pub(crate) fn number(frame: &Frame) -> u64 {
    let data = frame.data();
    u64::from(data[0]) | u64::from(data[1]) << 8 | u64::from(data[2]) << 16
}

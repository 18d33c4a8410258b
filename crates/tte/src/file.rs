//! Network files: TOML to a [`Network`]. `docs/time-triggered.md` is their manual.
//!
//! Experiments say the same in their table `network`, and use the same reader: [`read_with_places`].

pub(crate) mod synchronisation;

use candor_config::{Entry, Section};
use candor_diagnostics::{Findings, Origin, Source, list_of_names, meant_or};
use candor_time::Nanos;
use candor_wire::eth::tte::{CriticalTraffic, MarkerError, TypeField};
use candor_wire::eth::{LinkSpeed, ether_type};

use crate::route::{NoRoute, route};
use crate::{
    EndSystem, Flow, Frames, Link, Network, Node, Oscillator, RelayBuffer, Relaying, Role, SIZES,
    Switch, Traffic,
};

/// How fast or slow a clock may be, in parts per million. Clocks that keep IEEE 802.3, clause 22.2.2.1, are within 100;
/// those beyond are broken.
const DRIFTS: std::ops::RangeInclusive<i32> = -10_000..=10_000;
/// By how much a drift may change in a cycle, in parts per million.
const DRIFT_CHANGES: std::ops::RangeInclusive<u32> = 0..=Oscillator::MAX_DRIFT_PPM;
/// The speeds of links by their names.
const SPEEDS: [(&str, LinkSpeed); 4] = [
    ("10M", LinkSpeed::MBIT_10),
    ("100M", LinkSpeed::MBIT_100),
    ("1G", LinkSpeed::GBIT_1),
    ("10G", LinkSpeed::GBIT_10),
];
/// The precision unless one is given (the paper: single-digit microseconds).
const DEFAULT_PRECISION: Nanos = Nanos::from_micros(10);
/// Frames that wait at a port of a switch at most.
const DEPTHS: std::ops::RangeInclusive<usize> = 1..=100_000;
/// Nodes, links and flows of each kind that a file may have.
const MOST: usize = 10_000;
/// No cycle, and no instant, is later.
const MOST_CYCLE: Nanos = Nanos::from_secs(3_600);

/// Where the parts of a network stand in its file, each by its index there.
#[derive(Clone, Debug)]
pub struct Places {
    /// End systems and switches.
    pub nodes: Vec<Place>,
    pub links: Vec<Place>,
    pub flows: Vec<Place>,
    /// The synchronisation, if there is one.
    pub synchronisation: Option<Place>,
}

/// Where a part of a network stands, and its keys.
#[derive(Clone, Debug)]
pub struct Place {
    /// The part as a whole: its name.
    pub whole: Origin,
    keys: Vec<(String, Origin)>,
    /// The relay delays that are given by switch.
    relays: Vec<(usize, Origin)>,
}

impl Place {
    fn new(entry: &Entry, section: &Section<'_>) -> Self {
        Self { whole: entry.origin.clone(), ..Self::of_section(section) }
    }

    fn of_section(section: &Section<'_>) -> Self {
        let keys = section.table().entries().iter();
        let keys = keys.map(|it| (it.key.clone(), it.value.origin.clone())).collect();
        Self { whole: section.origin().clone(), keys, relays: Vec::new() }
    }

    /// The value of `key`; without one, the part as a whole.
    #[must_use]
    pub fn of(&self, key: &str) -> &Origin {
        let found = self.keys.iter().find(|(name, _)| name == key);
        found.map_or(&self.whole, |(_, origin)| origin)
    }

    /// The relay delay of a flow at a switch; without one, the flow as a whole.
    #[must_use]
    pub fn relay_delay(&self, switch: usize) -> &Origin {
        let of_its_own = self.relays.iter().find(|(node, _)| *node == switch);
        of_its_own.map_or_else(|| self.of("relay_delay"), |(_, origin)| origin)
    }

    /// Relay delays of a flow that are given by switch: for which, and where.
    #[must_use]
    pub fn relay_delays(&self) -> &[(usize, Origin)] {
        &self.relays
    }
}

/// Reads a network file. `name` is what the file is called in findings.
///
/// There is a network only if there are no errors.
#[must_use]
pub fn parse(name: &str, text: &str) -> (Option<Network>, Findings) {
    let (network, findings) = parse_with_places(name, text);
    (network.map(|(network, _)| network), findings)
}

/// The same, and where everything stands.
#[must_use]
pub fn parse_with_places(name: &str, text: &str) -> (Option<(Network, Places)>, Findings) {
    let findings = Findings::new();
    let source = Source::new(name, text);
    let Some(document) = candor_config::parse(&source, &findings) else { return (None, findings) };
    let network = read_with_places(Section::new(&document, &findings));
    (network.filter(|_| !findings.has_errors()), findings)
}

/// Reads a network from a table, and where everything stands; what is wrong with it becomes findings, and then there may be
/// none.
#[must_use]
pub fn read_with_places(mut file: Section<'_>) -> Option<(Network, Places)> {
    let findings = file.findings();
    file.require(&["cycle", "end_system", "link"]);
    let title = file.string("title").unwrap_or_default().to_owned();
    let cycle = file.nanos("cycle").filter(|&cycle| {
        let is_usable = cycle > Nanos::ZERO && cycle <= MOST_CYCLE;
        if !is_usable {
            let message =
                format!("`cycle` is {cycle}, but must be above 0 and at most {MOST_CYCLE}");
            findings.error(file.origin_of("cycle"), message);
        }
        is_usable
    });
    let precision = file.nanos("precision").unwrap_or(DEFAULT_PRECISION);
    let mut network = Network {
        title,
        // Without one there is an error already.
        cycle: cycle.unwrap_or(Nanos::ZERO),
        precision,
        nodes: Vec::new(),
        links: Vec::new(),
        flows: Vec::new(),
        synchronisation: None,
        frames: file.section("frames").map(frames).unwrap_or_default(),
    };
    let mut places =
        Places { nodes: Vec::new(), links: Vec::new(), flows: Vec::new(), synchronisation: None };
    for (entry, section) in tables(&mut file, "end_system", findings) {
        places.nodes.push(Place::new(entry, &section));
        let (end_system, oscillator) = end_system(section);
        node(&mut network, entry, Role::EndSystem(end_system), oscillator, findings);
    }
    for (entry, section) in tables(&mut file, "switch", findings) {
        places.nodes.push(Place::new(entry, &section));
        let (switch, oscillator) = switch(section);
        node(&mut network, entry, Role::Switch(switch), oscillator, findings);
    }
    for (entry, section) in tables(&mut file, "link", findings) {
        places.links.push(Place::new(entry, &section));
        network.links.extend(link(&network, entry, section));
    }
    // Ways need all links.
    let flows = tables(&mut file, "flow", findings);
    let section = file.section("synchronisation");
    places.synchronisation = section.as_ref().map(Place::of_section);
    file.finish();
    if findings.has_errors() && network.links.is_empty() {
        return None;
    }
    for (entry, section) in flows {
        let mut place = Place::new(entry, &section);
        let flow = flow(&network, entry, section, &mut place);
        network.flows.extend(flow);
        places.flows.push(place);
    }
    // The longest delay needs all flows.
    network.synchronisation = section.and_then(|section| synchronisation::read(&network, section));
    // Then nothing was left out, and indices are the same.
    (!findings.has_errors()).then_some((network, places))
}

/// What frames look like.
fn frames(mut section: Section<'_>) -> Frames {
    let findings = section.findings();
    let default = Frames::default();
    let marker = section.integer("marker", 0..=u32::MAX).unwrap_or(default.critical.marker());
    let mask = section.integer("mask", 0..=u32::MAX).unwrap_or(default.critical.mask());
    let critical = CriticalTraffic::new(marker, mask).unwrap_or_else(|why| {
        let key = match why {
            MarkerError::NoMask => "mask",
            MarkerError::OutsideMask { .. } => "marker",
        };
        findings.error(section.origin_of(key), why.to_string());
        default.critical
    });
    let type_field = section.value("type").and_then(|value| {
        let number = value.as_integer().map(|it| u16::try_from(it).unwrap_or(0));
        match (value.as_str(), number) {
            (Some("length"), _) => Some(TypeField::Length),
            (_, Some(ether_type @ ether_type::FIRST..))
                if ![ether_type::VLAN, ether_type::TTETHERNET_PCF].contains(&ether_type) =>
            {
                Some(TypeField::EtherType(ether_type))
            }
            _ => {
                let message = format!(
                    "`type` is neither \"length\" nor an EtherType, which is a number from {:#06x} to 0xffff, but for \
                     {:#06x}, a tag, and {:#06x}, protocol control frames",
                    ether_type::FIRST,
                    ether_type::VLAN,
                    ether_type::TTETHERNET_PCF
                );
                let hint = format!("the default is {:#06x}", ether_type::TTETHERNET);
                findings.error_with_hint(&value.origin, message, hint);
                None
            }
        }
    });
    section.finish();
    Frames { critical, type_field: type_field.unwrap_or(default.type_field) }
}

/// The tables under `key`, by their names.
fn tables<'a>(
    file: &mut Section<'a>,
    key: &'static str,
    findings: &'a Findings,
) -> Vec<(&'a Entry, Section<'a>)> {
    let entries = file.table_entries(key);
    if let Some(entry) = entries.get(MOST) {
        findings.error(&entry.origin, format!("there are more than {MOST} tables `{key}`"));
    }
    let table = |entry: &'a Entry| match entry.value.as_table() {
        Some(table) => Some((entry, Section::new(table, findings))),
        None => {
            entry.value.wrong_type(&entry.key, "a table", findings);
            None
        }
    };
    entries.iter().take(MOST).filter_map(table).collect()
}

fn node(
    network: &mut Network,
    entry: &Entry,
    role: Role,
    oscillator: Oscillator,
    findings: &Findings,
) {
    if network.node(&entry.key).is_some() {
        let message = format!("`{}` is an end system and a switch", entry.key);
        findings.error_with_hint(&entry.origin, message, "give one of them another name");
        return;
    }
    network.nodes.push(Node { name: entry.key.clone(), role, oscillator });
}

fn end_system(mut section: Section<'_>) -> (EndSystem, Oscillator) {
    let jitter = section.nanos("jitter").unwrap_or_default();
    let oscillator = oscillator(&mut section);
    section.finish();
    (EndSystem { jitter }, oscillator)
}

fn oscillator(section: &mut Section<'_>) -> Oscillator {
    Oscillator {
        drift_ppm: section.integer("drift", DRIFTS).unwrap_or_default(),
        drift_change_ppm: section.integer("drift_change", DRIFT_CHANGES).unwrap_or_default(),
    }
}

fn switch(mut section: Section<'_>) -> (Switch, Oscillator) {
    let default = Switch::default();
    let buffer = section
        .one_of("buffer", &[("overwrite", RelayBuffer::Overwrite), ("queue", RelayBuffer::Queue)]);
    let tt = Relaying::TimeTriggered(buffer.unwrap_or(RelayBuffer::Overwrite));
    let relaying = section.one_of(
        "relaying",
        &[
            ("time-triggered", tt),
            ("store-and-forward", Relaying::StoreAndForward),
            ("cut-through", Relaying::CutThrough),
        ],
    );
    let relaying = relaying.unwrap_or(tt);
    if buffer.is_some() && relaying != tt {
        let message = "`buffer` has no effect: only relaying = \"time-triggered\" has one";
        let findings = section.findings();
        findings.error_with_hint(section.origin_of("buffer"), message, "remove `buffer`");
    }
    let processing = section.nanos("processing").unwrap_or(default.processing);
    let depth = section.integer("queue", DEPTHS).unwrap_or(default.depth);
    for key in ["drift", "drift_change"] {
        if relaying != tt && section.has(key) {
            let message =
                format!("`{key}` has no effect: a switch without a schedule has no clock");
            let hint = format!("remove `{key}`");
            section.findings().error_with_hint(section.origin_of(key), message, hint);
        }
    }
    let oscillator = oscillator(&mut section);
    section.finish();
    (Switch { relaying, processing, depth }, oscillator)
}

/// A duration that is added to others: without a bound, the sum would have none.
fn bounded(
    key: &str,
    origin: &Origin,
    duration: Option<Nanos>,
    findings: &Findings,
) -> Option<Nanos> {
    let duration = duration?;
    if duration > MOST_CYCLE {
        let message = format!("`{key}` is {duration}, but must be at most {MOST_CYCLE}");
        findings.error(origin, message);
        return None;
    }
    Some(duration)
}

/// A name that stands for a node, as an index.
fn node_named(
    network: &Network,
    name: &str,
    origin: &Origin,
    findings: &Findings,
) -> Option<usize> {
    let index = network.node(name);
    if index.is_none() {
        let names = || network.nodes.iter().map(|node| node.name.as_str());
        let hint =
            meant_or(name, names(), || format!("the nodes are {}", list_of_names(names(), "and")));
        findings.error_with_hint(origin, format!("unknown node `{name}`"), hint);
    }
    index
}

fn link(network: &Network, entry: &Entry, mut section: Section<'_>) -> Option<Link> {
    let findings = section.findings();
    section.require(&["between"]);
    let ends: Vec<_> = section
        .strings("between")
        .into_iter()
        .map(|(name, origin)| node_named(network, name, origin, findings))
        .collect();
    let speed = section.one_of("speed", &SPEEDS).unwrap_or(LinkSpeed::MBIT_100);
    let delay = section.nanos("delay");
    let delay = bounded("delay", section.origin_of("delay"), delay, findings).unwrap_or_default();
    let origin = section.origin_of("between");
    section.finish();
    let [one, other] = ends[..] else {
        if !ends.is_empty() {
            let message = format!("a link has two ends, and this one has {}", ends.len());
            findings.error(origin, message);
        }
        return None;
    };
    let ends = [one?, other?];
    if ends[0] == ends[1] {
        findings.error(origin, "both ends of the link are at the same node");
        return None;
    }
    for &end in &ends {
        let is_end_system = matches!(network.nodes[end].role, Role::EndSystem(_));
        if is_end_system && network.links_of(end).next().is_some() {
            let message =
                format!("the end system `{}` has a link already", network.nodes[end].name);
            findings.error_with_hint(
                origin,
                message,
                "an end system has one link; put a switch between them",
            );
        }
    }
    Some(Link { name: entry.key.clone(), ends, speed, delay })
}

fn flow(
    network: &Network,
    entry: &Entry,
    mut section: Section<'_>,
    place: &mut Place,
) -> Option<Flow> {
    let findings = section.findings();
    section.require(&["class", "from", "to"]);
    let class = section.one_of("class", &[("tt", "tt"), ("rc", "rc"), ("be", "be")])?;
    let end = |name: &str, origin: &Origin| {
        let index = node_named(network, name, origin, findings)?;
        let is_end_system = matches!(network.nodes[index].role, Role::EndSystem(_));
        if !is_end_system {
            findings.error(
                origin,
                format!("`{name}` is a switch, but frames come from and go to end systems"),
            );
        }
        is_end_system.then_some(index)
    };
    let from = section.string("from").map(|name| end(name, section.origin_of("from")));
    let to: Vec<_> =
        section.strings("to").into_iter().map(|(name, origin)| end(name, origin)).collect();
    section.refuse_empty("to", "name an end system");
    let size = section.integer("size", SIZES).unwrap_or(*SIZES.start());
    let deadline = section.nanos("deadline");
    let id = section.integer("id", 0..=u16::MAX);
    if class != "be" && id.is_none() && !section.has("id") {
        let message = "`id` is missing: the number of the virtual link";
        findings.error(section.origin(), message);
    }
    let (traffic, relays) = traffic(network, class, &mut section, place);
    let origin = section.origin_of("to");
    section.finish();
    let (from, to) = (from??, to.into_iter().collect::<Option<Vec<_>>>()?);
    if to.contains(&from) {
        findings.error(origin, "the sender is among the receivers");
        return None;
    }
    if let Some(twice) = to.iter().enumerate().find(|(at, node)| to[..*at].contains(node)) {
        let name = &network.nodes[*twice.1].name;
        findings.error_with_hint(origin, format!("`{name}` is named twice"), "name it once");
        return None;
    }
    let send = match traffic {
        Traffic::TimeTriggered { send, .. } => send,
        _ => Nanos::ZERO,
    };
    let hops = route(network, from, &to, send, &|switch| relays.of(switch)).map_err(|why| {
        let (node, what, hint) = match why {
            NoRoute::Unreachable(node) => {
                (node, "cannot be reached over switches", "add the links that lead there")
            }
            NoRoute::Ambiguous(node) => (
                node,
                "is reached over two paths of equal length",
                "remove a link, or make one path longer",
            ),
        };
        let message = format!("`{}` {what}", network.nodes[node].name);
        findings.error_with_hint(origin, message, hint);
    });
    let (hops, id, name) = (hops.ok()?, id.unwrap_or_default(), entry.key.clone());
    Some(Flow { name, traffic, id, from, to, size, deadline, hops, is_control: false })
}

/// What a flow of a class sends, and when switches relay it.
fn traffic(
    network: &Network,
    class: &str,
    section: &mut Section<'_>,
    place: &mut Place,
) -> (Traffic, Relays) {
    let findings = section.findings();
    let mut relays = Relays::default();
    let traffic = match class {
        "tt" => {
            section.require(&["send"]);
            let period = section.nanos("period").unwrap_or(network.cycle);
            let send = section.nanos("send").unwrap_or_default();
            let window = section.nanos("window");
            relays = Relays::read(network, section, place);
            if network.cycle == Nanos::ZERO {
                // Nothing can be said about the period.
            } else if period == Nanos::ZERO
                || !network.cycle.as_nanos().is_multiple_of(period.as_nanos())
            {
                let message = format!(
                    "`period` is {period}, which does not divide the cycle of {}",
                    network.cycle
                );
                let hint = "use the cycle or a whole part of it";
                findings.error_with_hint(section.origin_of("period"), message, hint);
            } else if send >= period {
                let message = format!("`send` is {send}, but must be below the period of {period}");
                findings.error(section.origin_of("send"), message);
            }
            Traffic::TimeTriggered { period, send, window }
        }
        "rc" => {
            section.require(&["gap"]);
            let gap = section.nanos("gap").unwrap_or(Nanos::from_millis(1));
            if gap == Nanos::ZERO {
                findings.error(section.origin_of("gap"), "`gap` is 0, but must be above 0");
            }
            let jitter = section.nanos("jitter").unwrap_or_default();
            Traffic::RateConstrained { gap, jitter }
        }
        _ => {
            section.require(&["load"]);
            let percent = section.float("load", 0.0..=100.0).unwrap_or_default();
            Traffic::BestEffort { load: percent / 100.0 }
        }
    };
    (traffic, relays)
}

/// The relay delays of a flow: one for all switches, or by switch.
#[derive(Default)]
struct Relays {
    all: Nanos,
    by_switch: Vec<(usize, Nanos)>,
}

impl Relays {
    fn read(network: &Network, section: &mut Section<'_>, place: &mut Place) -> Self {
        let findings = section.findings();
        let Some(value) = section.value("relay_delay") else { return Self::default() };
        let Some(table) = value.as_table() else {
            let all = bounded(
                "relay_delay",
                &value.origin,
                value.nanos("relay_delay", findings),
                findings,
            );
            return Self { all: all.unwrap_or_default(), ..Self::default() };
        };
        let mut relays = Self::default();
        for entry in table.entries() {
            let node = node_named(network, &entry.key, &entry.origin, findings);
            let delay = entry.value.nanos(&entry.key, findings);
            let delay = bounded("relay_delay", &entry.value.origin, delay, findings);
            relays.by_switch.extend(node.zip(delay));
            place.relays.extend(node.map(|node| (node, entry.value.origin.clone())));
        }
        relays
    }

    fn of(&self, switch: usize) -> Nanos {
        let of_its_own = self.by_switch.iter().find(|(node, _)| *node == switch);
        of_its_own.map_or(self.all, |(_, delay)| *delay)
    }
}

//! Rules about what is described: ways, ids, and what has no effect.

use std::collections::BTreeMap;

use candor_diagnostics::{Findings, by_count, list_of_names};
use candor_time::Nanos;

use crate::file::Places;
use crate::frames::PCF_ID;
use crate::schedule::{departures, ns};
use crate::{Flow, Network, Role, Traffic};

/// Whether the network is one, so that the other rules can be applied.
pub(super) fn check(network: &Network, places: &Places, findings: &Findings) -> bool {
    let mut is_whole = true;
    for (index, flow) in network.flows.iter().enumerate() {
        if let Err(why) = way(network, flow) {
            let message = format!("the way of `{}` is none: {why}", flow.name);
            let hint = "let `candor_tte::file` or `candor_tte::route` find the way";
            findings.error_with_hint(&places.flows[index].whole, message, hint);
            is_whole = false;
        }
    }
    if is_whole {
        ids(network, places, findings);
        ordinary_switches(network, places, findings);
        relay_delays(network, places, findings);
        jitter(network, places, findings);
        policing(network, places, findings);
    }
    is_whole
}

/// Whether the hops of a flow are a tree over links that exist, to every receiver, with the right instants.
fn way(network: &Network, flow: &Flow) -> Result<(), String> {
    let name = |node: usize| network.nodes.get(node).map_or("?", |node| node.name.as_str());
    if flow.period().is_some_and(|period| ns(period) == 0) {
        return Err("its period is 0".into());
    }
    for (index, hop) in flow.hops.iter().enumerate() {
        let link = network.links.get(hop.link);
        if link.and_then(|link| link.other_end(hop.from)) != Some(hop.to) {
            return Err(format!(
                "no such link is between `{}` and `{}`",
                name(hop.from),
                name(hop.to)
            ));
        }
        let begins_at = match hop.before {
            None => flow.from,
            Some(before) if before < index => flow.hops[before].to,
            Some(_) => {
                return Err(format!(
                    "a hop to `{}` stands before the one that leads there",
                    name(hop.to)
                ));
            }
        };
        if begins_at != hop.from {
            return Err(format!(
                "frames come to `{}`, and leave from `{}`",
                name(begins_at),
                name(hop.from)
            ));
        }
        let is_switch = |node: usize| matches!(network.nodes[node].role, Role::Switch(_));
        if hop.before.is_some() != is_switch(hop.from) {
            return Err(format!("`{}` cannot pass frames on", name(hop.from)));
        }
    }
    if let Some(&missing) = flow.to.iter().find(|to| !flow.hops.iter().any(|hop| hop.to == **to)) {
        return Err(format!("it does not reach `{}`", name(missing)));
    }
    if flow.is_time_triggered() {
        for (hop, departure) in flow.hops.iter().zip(departures(network, flow)) {
            if ns(hop.at) != departure.at {
                let (says, is) = (hop.at, super::nanos(departure.at));
                let from = name(hop.from);
                return Err(format!(
                    "the instant at `{from}` is {says}, but what leads there is {is}"
                ));
            }
        }
    }
    Ok(())
}

/// Critical flows have ids of their own.
fn ids(network: &Network, places: &Places, findings: &Findings) {
    let mut flows: BTreeMap<u16, &str> = BTreeMap::new();
    if network.synchronisation.is_some() {
        flows.insert(PCF_ID, "protocol control frames");
    }
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        if matches!(flow.traffic, Traffic::BestEffort { .. }) {
            continue;
        }
        if let Some(other) = flows.get(&flow.id) {
            let message = format!(
                "`{}` has the id {} of `{other}`: switches and receivers cannot tell their frames apart",
                flow.name, flow.id
            );
            let hint = "give each time-triggered and rate-constrained flow an id of its own";
            findings.error_with_hint(place.of("id"), message, hint);
        }
        flows.entry(flow.id).or_insert(&flow.name);
    }
}

/// Behind an ordinary switch no instant holds.
fn ordinary_switches(network: &Network, places: &Places, findings: &Findings) {
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        if !flow.is_time_triggered() {
            continue;
        }
        let mut ordinary: Vec<usize> = Vec::new();
        for hop in &flow.hops {
            if !network.has_schedule(hop.from) && !ordinary.contains(&hop.from) {
                ordinary.push(hop.from);
            }
        }
        if ordinary.is_empty() {
            continue;
        }
        let names = ordinary.iter().map(|&node| network.nodes[node].name.as_str());
        let message = format!(
            "no instant of `{}` holds behind {}, which {} frames as they come",
            flow.name,
            list_of_names(names, "and"),
            by_count(ordinary.len() as u64, "relays", "relay")
        );
        findings.warning(&place.whole, message, "use a switch with relaying = \"time-triggered\"");
    }
}

/// Relay delays for nodes that do not relay the flow have no effect.
fn relay_delays(network: &Network, places: &Places, findings: &Findings) {
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        for (node, origin) in place.relay_delays() {
            if !flow.hops.iter().any(|hop| hop.from == *node && hop.before.is_some()) {
                let name = &network.nodes[*node].name;
                let message =
                    format!("this has no effect: `{}` is not relayed by `{name}`", flow.name);
                findings.warning(origin, message, "remove it, or name a switch on the way");
            }
        }
    }
}

/// The precision is to hold for the frames of end systems.
fn jitter(network: &Network, places: &Places, findings: &Findings) {
    for (index, node) in network.nodes.iter().enumerate() {
        let half = Nanos::from_nanos(node.jitter().as_nanos().div_ceil(2));
        let sends = |flow: &Flow| flow.is_time_triggered() && flow.from == index;
        if half > network.precision && network.flows.iter().any(sends) {
            let message = format!(
                "frames of `{}` leave up to {half} from their instants, but `precision` says {} at most",
                node.name, network.precision
            );
            let hint = format!("precision = \"{half}\", or less jitter");
            findings.warning(places.nodes[index].of("jitter"), message, hint);
        }
    }
}

/// Switches with a schedule drop rate-constrained frames that come too soon. One that lets frames pass sooner by the gap
/// lets all of them pass; and frames that waited in the switch before are not to be dropped.
fn policing(network: &Network, places: &Places, findings: &Findings) {
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        let Traffic::RateConstrained { gap, jitter } = flow.traffic else { continue };
        if jitter >= gap {
            let message = format!(
                "switches let every frame of `{}` pass: `jitter` is {jitter}, and `gap` is {gap}",
                flow.name
            );
            findings.warning(place.of("jitter"), message, "a jitter that is less than the gap");
            continue;
        }
        let mut waits: Vec<Nanos> = Vec::new();
        for hop in &flow.hops {
            let shares = |other: &&Flow| {
                let is_it = |it: &crate::Hop| (it.from, it.link) == (hop.from, hop.link);
                other.name != flow.name && other.hops.iter().any(is_it)
            };
            let link = &network.links[hop.link];
            let others = network.flows.iter().filter(shares);
            let here = others.map(|other| link.occupation(other.size)).max().unwrap_or_default();
            let wait = here + hop.before.map_or(Nanos::ZERO, |before| waits[before]);
            waits.push(wait);
            let is_switch = matches!(network.nodes[hop.to].role, Role::Switch(_));
            let polices = is_switch && network.has_schedule(hop.to);
            // The sender keeps the gap on its own link.
            if hop.before.is_none() || !polices || here == Nanos::ZERO || wait <= jitter {
                continue;
            }
            let message = format!(
                "`{}` may drop frames of `{}`, which come up to {wait} closer together if they wait behind one frame of \
                 another flow on each link on the way; `jitter` is {jitter}",
                network.nodes[hop.to].name, flow.name,
            );
            let hint = format!("jitter = \"{wait}\", and more for each further frame before it");
            findings.warning(place.of("jitter"), message, hint);
            break;
        }
    }
}

//! The table `synchronisation` of a network file, and the ways of the frames that follow from it.

use candor_config::Section;
use candor_diagnostics::{Findings, Origin};
use candor_time::Nanos;

use super::node_named;
use crate::frames::PCF_ID;
use crate::route::{NoRoute, route};
use crate::sync::Timing;
use crate::{Flow, Hop, Network, Role, SIZES, Synchronisation, Traffic};

/// Masters of which frames have a bit each.
const MOST_MASTERS: usize = 32;
/// How long a compression master computes, unless a file says so (CoRE4INET: 5 ticks of 80 ns).
const DEFAULT_OVERHEAD: Nanos = Nanos::from_nanos(400);

/// How clocks are kept together.
pub(super) fn read(network: &Network, mut section: Section<'_>) -> Option<Synchronisation> {
    let findings = section.findings();
    section.require(&["period", "masters", "compression_master"]);
    let period = section.nanos("period");
    let (masters, compression_master) = nodes(network, &mut section);
    let faulty = section.integer("faulty", 0..=MOST_MASTERS as u32).unwrap_or_default();
    let priority = section.integer("priority", 0..=u8::MAX).unwrap_or_default();
    let most = section.nanos("max_transmission_delay");
    let overhead = section.nanos("overhead").unwrap_or(DEFAULT_OVERHEAD);
    let is_enabled = section.boolean("enabled").unwrap_or(true);
    let of_period = section.origin_of("period");
    let of_masters = section.origin_of("masters");
    section.finish();
    let (period, compression_master, masters) = (period?, compression_master?, masters?);
    check(&masters, faulty, of_masters, findings)?;
    let (cycle_ns, period_ns) = (network.cycle.as_nanos(), period.as_nanos());
    if period_ns == 0 || cycle_ns % period_ns != 0 && period_ns % cycle_ns != 0 {
        let message = format!(
            "`period` is {period}, which is neither a whole part nor a multiple of the cycle of {}",
            network.cycle
        );
        findings.error(of_period, message);
        return None;
    }
    let flows = control_flows(network, &masters, compression_master).map_err(|why| {
        let (NoRoute::Unreachable(node) | NoRoute::Ambiguous(node)) = why;
        let message = format!(
            "there is no one shortest path between `{}` and `{}`",
            network.nodes[compression_master].name, network.nodes[node].name
        );
        findings.error(of_masters, message);
    });
    let flows = flows.ok()?;
    let most = most.unwrap_or_else(|| longest_delay(network, &flows));
    let timing = Timing {
        precision: network.precision.as_nanos(),
        max_transmission_delay: most.as_nanos(),
        overhead: overhead.as_nanos(),
        faulty,
    };
    let needed =
        Nanos::from_nanos(timing.correction_at(timing.scheduled_receive(0)) + timing.precision);
    if needed >= period {
        let message =
            format!("`period` is {period}, but it takes {needed} until all clocks are corrected");
        let hint = "make it longer, or lower `precision` or `max_transmission_delay`";
        findings.error_with_hint(of_period, message, hint);
        return None;
    }
    let synchronisation =
        Synchronisation { period, masters, compression_master, priority, timing, flows };
    is_enabled.then_some(synchronisation)
}

/// The masters, and the compression master; `None` if one that is named cannot be it.
fn nodes(network: &Network, section: &mut Section<'_>) -> (Option<Vec<usize>>, Option<usize>) {
    let findings = section.findings();
    let masters: Vec<_> = section
        .strings("masters")
        .into_iter()
        .map(|(name, origin)| {
            let node = node_named(network, name, origin, findings)?;
            if matches!(network.nodes[node].role, Role::Switch(_)) {
                findings
                    .error(origin, format!("`{name}` is a switch, but masters are end systems"));
            }
            Some(node)
        })
        .collect();
    section.refuse_empty("masters", "name an end system");
    let compression_master = section.string("compression_master").and_then(|name| {
        let origin = section.origin_of("compression_master");
        let node = node_named(network, name, origin, findings)?;
        let is_end_system = matches!(network.nodes[node].role, Role::EndSystem(_));
        if is_end_system || !network.has_schedule(node) {
            let message =
                format!("`{name}` is no time-triggered switch, but the compression master is one");
            findings.error(origin, message);
            return None;
        }
        Some(node)
    });
    (masters.into_iter().collect(), compression_master)
}

/// Whether these can be the masters if so many of them may be faulty.
fn check(masters: &[usize], faulty: u32, origin: &Origin, findings: &Findings) -> Option<()> {
    let mut apart = masters.to_vec();
    apart.sort_unstable();
    apart.dedup();
    if apart.len() < masters.len() {
        findings.error(origin, "a master is named twice");
        return None;
    }
    if masters.len() > MOST_MASTERS {
        let message = format!("there are {}, but at most {MOST_MASTERS} can be", masters.len());
        findings.error(origin, format!("`masters`: {message}"));
        return None;
    }
    if masters.len() <= 2 * faulty as usize {
        let message = format!("{} masters cannot bear {faulty} faulty ones", masters.len());
        let hint = format!("{} can", 2 * faulty + 1);
        findings.error_with_hint(origin, message, hint);
        return None;
    }
    Some(())
}

/// The protocol control frames: from each master to the compression master, and from there to all others that have a
/// schedule.
fn control_flows(
    network: &Network,
    masters: &[usize],
    center: usize,
) -> Result<Vec<Flow>, NoRoute> {
    let flow = |from: usize, to: Vec<usize>| {
        // From the center or to it: what is the other end of a path that is not there is named.
        let hops =
            route(network, from, &to, Nanos::ZERO, &|_| Nanos::ZERO).map_err(|why| match why {
                NoRoute::Unreachable(node) if node == center => NoRoute::Unreachable(from),
                NoRoute::Ambiguous(node) if node == center => NoRoute::Ambiguous(from),
                why => why,
            })?;
        Ok(Flow {
            name: format!("control frames of {}", network.nodes[from].name),
            traffic: Traffic::RateConstrained { gap: Nanos::ZERO, jitter: Nanos::ZERO },
            id: PCF_ID,
            from,
            to,
            size: *SIZES.start(),
            deadline: None,
            hops,
            is_control: true,
        })
    };
    let all = (0..network.nodes.len()).filter(|&node| node != center && network.has_schedule(node));
    let mut flows =
        masters.iter().map(|&master| flow(master, vec![center])).collect::<Result<Vec<_>, _>>()?;
    flows.push(flow(center, all.collect())?);
    Ok(flows)
}

/// The longest delay of a protocol control frame, from its dispatch to its last bit at a receiver. On each link one
/// frame of another class is on its way already; every time-triggered flow has one frame in front of it, with what
/// timely block leaves free before it and the jitter of its sender; so have the other control frames. Clocks that are fast
/// count more than that.
pub(crate) fn longest_delay(network: &Network, flows: &[Flow]) -> Nanos {
    let ahead = |from: usize, link: usize| {
        let over = |flow: &&Flow| flow.hops.iter().any(|hop| (hop.from, hop.link) == (from, link));
        let occupation = |flow: &Flow| network.links[link].occupation(flow.size);
        let (scheduled, others): (Vec<_>, Vec<_>) =
            network.flows.iter().filter(over).partition(|flow| flow.is_time_triggered());
        let begun = others.into_iter().map(occupation).max().unwrap_or_default();
        let control: Nanos = flows.iter().filter(over).map(occupation).sum();
        let guard = network.links[link].occupation(*SIZES.start()) + network.nodes[from].jitter();
        begun + control + scheduled.into_iter().map(|flow| occupation(flow) + guard).sum()
    };
    let on_link = |hop: &Hop| ahead(hop.from, hop.link) + network.links[hop.link].delay;
    let most = flows.iter().map(|flow| delay_over(network, flow, on_link)).max();
    let most = most.unwrap_or_default();
    let scheduled = (0..network.nodes.len()).filter(|&node| network.has_schedule(node));
    let fastest = scheduled.map(|node| network.nodes[node].oscillator.most_ppm()).max();
    most + Nanos::from_nanos(
        (most.as_nanos() * u64::from(fastest.unwrap_or(0))).div_ceil(1_000_000),
    )
}

/// The delay of the frames of a flow to the furthest receiver, if each hop takes what `on_link` says.
pub(crate) fn delay_over(network: &Network, flow: &Flow, on_link: impl Fn(&Hop) -> Nanos) -> Nanos {
    // Each hop stands behind the one that leads to it.
    let mut delays: Vec<Nanos> = Vec::new();
    for hop in &flow.hops {
        let before = hop.before.map_or(Nanos::ZERO, |index| delays[index]);
        let processing = match network.nodes[hop.from].role {
            Role::Switch(switch) if hop.before.is_some() => switch.processing,
            _ => Nanos::ZERO,
        };
        delays.push(before + processing + on_link(hop));
    }
    delays.into_iter().max().unwrap_or_default()
}

//! Rules about clocks: they run no further apart than the precision, and the frames that correct them count.

use candor_diagnostics::Findings;
use candor_time::Nanos;

use crate::file::Places;
use crate::file::synchronisation::longest_delay;
use crate::{Flow, Network, Relaying, Role};

pub(super) fn check(network: &Network, places: &Places, findings: &Findings) {
    apart(network, places, findings);
    delay(network, places, findings);
}

/// How far clocks run apart, in parts per million, and the node that is furthest from the right time.
fn spread(network: &Network) -> (u64, usize) {
    let scheduled = || (0..network.nodes.len()).filter(|&node| network.has_schedule(node));
    let bounds = |node: usize| {
        let oscillator = network.nodes[node].oscillator;
        let most = i64::from(oscillator.most_ppm());
        match oscillator.drift_change_ppm {
            0 => [i64::from(oscillator.drift_ppm); 2],
            _ => [-most, most],
        }
    };
    let least = scheduled().map(|node| bounds(node)[0]).min().unwrap_or(0);
    let most = scheduled().map(|node| bounds(node)[1]).max().unwrap_or(0);
    let worst = scheduled().max_by_key(|&node| network.nodes[node].oscillator.most_ppm());
    (most.abs_diff(least), worst.unwrap_or(0))
}

/// Clocks that nothing corrects run apart without end; corrected ones until the next correction.
fn apart(network: &Network, places: &Places, findings: &Findings) {
    let (spread_ppm, worst) = spread(network);
    let is_relayed = |flow: &Flow| {
        let is_scheduled = |node: usize| match network.nodes[node].role {
            Role::Switch(switch) => matches!(switch.relaying, Relaying::TimeTriggered(_)),
            Role::EndSystem(_) => false,
        };
        flow.is_time_triggered() && flow.hops.iter().any(|hop| is_scheduled(hop.from))
    };
    if spread_ppm == 0 || !network.flows.iter().any(is_relayed) {
        return;
    }
    let precision = network.precision;
    // In this time they run apart by the precision.
    let lasts = Nanos::from_nanos(precision.as_nanos().saturating_mul(1_000_000) / spread_ppm);
    let Some(synchronisation) = &network.synchronisation else {
        let message = format!(
            "clocks run up to {spread_ppm} ppm apart and nothing corrects them: after {lasts} they differ by more than \
             the precision of {precision}, and frames miss their instants",
        );
        let hint = "add a table `synchronisation`, or remove `drift` and `drift_change`";
        findings.error_with_hint(places.nodes[worst].of("drift"), message, hint);
        return;
    };
    if synchronisation.period > lasts {
        let place = places.synchronisation.as_ref().map(|place| place.of("period"));
        let message = format!(
            "clocks run up to {spread_ppm} ppm apart: after {lasts} they differ by more than the precision of {precision}, \
             but they are corrected every {}",
            synchronisation.period
        );
        let hint = format!("a period of at most {lasts}, or a larger `precision`");
        findings.error_with_hint(place.unwrap_or(&places.nodes[worst].whole), message, hint);
    }
}

/// Protocol control frames that take longer than is possible do not count.
fn delay(network: &Network, places: &Places, findings: &Findings) {
    let Some(synchronisation) = &network.synchronisation else { return };
    let Some(place) = &places.synchronisation else { return };
    let most = Nanos::from_nanos(synchronisation.timing.max_transmission_delay);
    let shortest = synchronisation.flows.iter().map(|flow| shortest_delay(network, flow)).max();
    let shortest = shortest.unwrap_or_default();
    let longest = longest_delay(network, &synchronisation.flows);
    let origin = place.of("max_transmission_delay");
    if most < shortest {
        let message = format!(
            "`max_transmission_delay` is {most}, but some protocol control frames take {shortest} at least, so they do not count"
        );
        let hint = format!("remove it, or max_transmission_delay = \"{longest}\"");
        findings.error_with_hint(origin, message, hint);
    } else if most < longest {
        let message = format!(
            "`max_transmission_delay` is {most}, but a protocol control frame may take {longest} behind other frames, and does \
             not count then"
        );
        findings.warning(origin, message, "remove it, and the longest delay is computed");
    }
}

/// The delay of a protocol control frame to its furthest receiver if no other frame is in its way.
fn shortest_delay(network: &Network, flow: &Flow) -> Nanos {
    let mut delays: Vec<Nanos> = Vec::new();
    for hop in &flow.hops {
        let link = &network.links[hop.link];
        let before = hop.before.map_or(Nanos::ZERO, |before| delays[before]);
        let processing = match network.nodes[hop.from].role {
            Role::Switch(switch) if hop.before.is_some() => switch.processing,
            _ => Nanos::ZERO,
        };
        let on_link = link.preamble() + link.transmission(flow.size) + link.delay;
        delays.push(before + processing + on_link);
    }
    delays.into_iter().max().unwrap_or_default()
}

//! Rules about load: what fits on the links, and between the time-triggered frames.

use candor_diagnostics::Findings;

use crate::file::Places;
use crate::schedule::Direction;
use crate::{Network, Traffic};

/// Sums of parts are no exact numbers.
const WHOLE: f64 = 1.0 + 1e-9;

pub(super) fn check(
    network: &Network,
    places: &Places,
    directions: &[Direction],
    findings: &Findings,
) {
    for direction in directions {
        let load = direction.load;
        let link = &network.links[direction.link].name;
        let from = &network.nodes[direction.from].name;
        let critical = load.tt + load.rc;
        let place = &places.links[direction.link].whole;
        if critical > WHOLE {
            let message = format!(
                "link `{link}` from `{from}` cannot carry its critical frames: time-triggered ones take {:.1} % of the \
                 time, rate-constrained ones {:.1} %",
                load.tt * 100.0,
                load.rc * 100.0
            );
            findings.error_with_hint(
                place,
                message,
                "longer periods and gaps, smaller frames, or a faster link",
            );
        } else if load.total() > WHOLE {
            let message = format!(
                "link `{link}` from `{from}` cannot carry all best-effort frames: they would take {:.1} % of the time, \
                 and critical ones take {:.1} %",
                load.be * 100.0,
                critical * 100.0
            );
            findings.warning(place, message, "less load, or a faster link");
        }
    }
    blocked(network, places, directions, findings);
}

/// Frames of other classes that are longer than every gap between the time-triggered ones of a link.
fn blocked(network: &Network, places: &Places, directions: &[Direction], findings: &Findings) {
    let gaps: Vec<_> = directions.iter().map(|it| it.longest_gap(network.cycle)).collect();
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        let is_sent = match flow.traffic {
            Traffic::TimeTriggered { .. } => false,
            Traffic::RateConstrained { .. } => true,
            Traffic::BestEffort { load } => load > 0.0,
        };
        if !is_sent {
            continue;
        }
        for hop in &flow.hops {
            let key = |link: usize, from: usize| (link, network.links[link].ends[0] != from);
            let here = key(hop.link, hop.from);
            let found = directions.binary_search_by_key(&here, |it| key(it.link, it.from));
            let Ok(index) = found else { continue };
            // An ordinary switch holds nothing back.
            if !network.has_schedule(hop.from) {
                continue;
            }
            let link = &network.links[hop.link];
            let needed = link.occupation(flow.size);
            if let Some(gap) = gaps[index]
                && needed > gap
            {
                let from = &network.nodes[hop.from].name;
                let message = format!(
                    "frames of `{}` do not fit between the time-triggered ones on link `{}` from `{from}`: one needs \
                     {needed}, and the longest gap is {gap}",
                    flow.name, link.name
                );
                let hint = "smaller frames, or instants that leave a longer gap";
                findings.warning(place.of("size"), message, hint);
            }
            if findings.is_full() {
                return;
            }
        }
    }
}

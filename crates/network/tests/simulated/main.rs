//! The bounds of random networks against the simulation, which reaches them and never passes them.
//!
//! `CANDOR_NETWORKS` is how many networks are tried of each kind (8), `PROPTEST_RNG_SEED` where they are drawn from. With
//! `--nocapture` the test prints the table of docs/network.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod draw;
mod play;

use std::env;

use candor_network::bound::Bounds;
use candor_network::bound::network::NoBound;
use candor_network::flow::Flow;
use candor_network::watched::Watched;
use candor_network::{Network, bounds};
use candor_time::Nanos;

use self::draw::{Draw, Kind, More, Phases};
use self::play::Times;

fn variable(name: &str, usual: u64) -> u64 {
    env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

/// Quantiles of what was reached, as shares of the bounds.
fn row(kind: &Kind, networks: u64, shares: &mut [f64], without: u64) -> String {
    shares.sort_by(f64::total_cmp);
    let at = |share: f64| shares[((shares.len() - 1) as f64 * share) as usize];
    let (least, median, greatest) = (at(0.0), at(0.5), at(1.0));
    let messages = shares.len();
    format!(
        "| {kind} | {networks} | {messages} | {without} | {least:.3} | {median:.3} | {greatest:.3} |"
    )
}

/// Of each message, what its frames on its own bus say, as a recording of them would.
fn watch(network: &mut Network, flows: &[Flow], times: &Times<'_>) {
    for (flow, ends_ns) in flows.iter().zip(&times.ends_ns) {
        if flow.parent.is_none() {
            let mut watched = Watched::default();
            ends_ns.iter().for_each(|&end_ns| watched.add(end_ns));
            watched.end();
            let longest_ns = ends_ns.last().unwrap() - ends_ns.first().unwrap();
            let distances = watched.seen(longest_ns).distances_ns.into_iter();
            network.nodes[flow.node].messages[flow.message].distances =
                distances.map(Nanos::from_nanos).collect();
        }
    }
}

/// A flow whose copies were queued more densely than they can be, and what was seen.
fn too_dense(network: &Network, found: &Bounds, times: &Times<'_>) -> Option<String> {
    let streams = (0..network.buses.len()).flat_map(|bus| found.streams(bus));
    for (flow, stream) in streams {
        let Some(arrivals) = &stream.arrivals else { continue };
        let enqueued_ns: Vec<_> = times.enqueued_ns[flow].iter().collect();
        for frames in 1..20 {
            let apart = enqueued_ns.windows(frames + 1).map(|it| it[frames] - it[0]).min();
            if apart.is_some_and(|apart_ns| apart_ns < arrivals.distance(frames as u64)) {
                return Some(format!("flow {flow}: {frames} in {apart:?}, {arrivals:?}"));
            }
        }
    }
    None
}

#[test]
fn no_frame_of_a_simulation_is_later_than_its_bound() {
    let (networks, seed) = (variable("CANDOR_NETWORKS", 8), variable("PROPTEST_RNG_SEED", 1));
    println!("| network | networks | messages | without a bound | least | median | greatest |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (number, kind) in (0_u64..).zip(Kind::ALL) {
        let mut shares = Vec::new();
        let (mut without, mut stopped) = (0, 0);
        for index in 0..networks {
            let mut draw = Draw::new(seed.wrapping_add(index), number);
            let (mut network, flows, victim) = draw.network(&kind);
            let mut found = bounds(&network, &flows);
            let shown = || format!("seed {seed}, {kind}, network {index}");
            let times = play::played(&network, &flows, &found, &mut draw, (kind.phases, victim));
            stopped += times.stopped;
            let mut played = &times.since_release;
            if kind.more == More::Watched {
                watch(&mut network, &flows, &times);
                (found, played) = (bounds(&network, &flows), &times.since_queued);
            }
            assert_eq!(too_dense(&network, &found, &times), None, "{}", shown());
            for (&gateway, &seen_ns) in &times.in_gateway_ns {
                let delay_ns = found.delays_ns[gateway];
                let is_kept = delay_ns.is_none_or(|(_, most_ns)| seen_ns <= most_ns);
                assert!(is_kept, "{}, gateway {gateway}: {seen_ns}, {delay_ns:?}", shown());
            }
            for (flow, (bound, seen)) in found.flows.iter().zip(played).enumerate() {
                let Ok(bound) = bound else {
                    without += 1;
                    assert_ne!(bound, &Err(NoBound::Lost), "{}", shown());
                    continue;
                };
                let Some((earliest_ns, latest_ns)) = *seen else { continue };
                assert!(
                    bound.best_ns <= earliest_ns && latest_ns <= bound.worst_ns,
                    "{}, flow {flow}: {earliest_ns} to {latest_ns}, {bound:?}\n{network:#?}",
                    shown(),
                );
                if kind.phases == Phases::Random || flow == victim {
                    shares.push(latest_ns as f64 / bound.worst_ns as f64);
                }
            }
        }
        println!("{}", row(&kind, networks, &mut shares, without));
        let is_as_drawn = (stopped > 0) == (kind.more == More::Rates);
        assert!(is_as_drawn || networks < 8, "{kind}: rules have stopped {stopped} copies");
        // A single bus with queues of priorities has a worst case that can be constructed: but for the nanosecond by which the
        // less urgent frame comes first, and the intermission, the bound is reached.
        if kind == Kind::EXACT {
            assert!(shares.iter().all(|&share| share > 0.8), "{shares:?}");
        }
    }
}

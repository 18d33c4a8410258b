//! The bounds of random networks against the simulation, which reaches them and never passes them.
//!
//! `CANDOR_NETWORKS` is how many networks are tried of each kind (8), `PROPTEST_RNG_SEED` where they are drawn from. With
//! `--nocapture` the test prints the table of docs/network.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod draw;
mod play;

use std::env;

use candor_network::bound::network::NoBound;
use candor_network::bounds;

use self::draw::{Draw, Kind, Phases};

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

#[test]
fn no_frame_of_a_simulation_is_later_than_its_bound() {
    let (networks, seed) = (variable("CANDOR_NETWORKS", 8), variable("PROPTEST_RNG_SEED", 1));
    println!("| network | networks | messages | without a bound | least | median | greatest |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (number, kind) in (0_u64..).zip(Kind::ALL) {
        let mut shares = Vec::new();
        let mut without = 0;
        for index in 0..networks {
            let mut draw = Draw::new(seed.wrapping_add(index), number);
            let (network, flows, victim) = draw.network(&kind);
            let found = bounds(&network, &flows);
            let shown = || format!("seed {seed}, {kind}, network {index}");
            let played = play::played(&network, &flows, &found, &mut draw, (kind.phases, victim));
            for (flow, (bound, seen)) in found.flows.iter().zip(&played).enumerate() {
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
        // A single bus with queues of priorities has a worst case that can be constructed: but for the nanosecond by which the
        // less urgent frame comes first, and the intermission, the bound is reached.
        if kind == Kind::EXACT {
            assert!(shares.iter().all(|&share| share > 0.8), "{shares:?}");
        }
    }
}

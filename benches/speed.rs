//! What the hot paths cost: `cargo bench -p candor-lab --bench speed`.
//!
//! Inputs are fixed. Each figure is the best of several rounds, since other work on the machine
//! only ever adds; ratios within one run say more than the figures themselves.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "shared.rs"]
mod shared;

use std::hint::black_box;
use std::time::Instant;

use candor_engine::counters::Outcome;
use candor_engine::{BusIndex, Filter, Table};
use candor_engine::{Engine, Forward, Passage};
use candor_lab::campaign::{self, Options};
use candor_lab::experiment::Run;
use candor_lab::simulate;
use candor_time::Nanos;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, RTR_FLAG, SFF_MASK};
use candor_wire::can::{Frame, bits};
use shared::{Spread, frames, masked, scattered, table};

const ROUNDS: usize = 7;

/// Best seconds of several rounds.
fn best(mut work: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn show(what: &str, rate_per_s: f64, compared: &str) {
    let rate = format!("{:.2} M/s", rate_per_s / 1e6);
    println!("| {what:<58} | {rate:>11} | {:>8.1} ns | {compared:<34} |", 1e9 / rate_per_s);
}

fn lengths() {
    let mixed = |spread: &mut Spread| {
        let id = spread.next() as u32;
        let can_id = if id & 1 == 0 { id >> 4 & SFF_MASK } else { id >> 1 & EFF_MASK | EFF_FLAG };
        (can_id, (spread.next() % 9) as usize, None)
    };
    let classical = frames(4_096, mixed);
    let fd = frames(4_096, |spread| ((spread.next() as u32) & SFF_MASK, 64, Some(1)));
    let per_frame = |frames: &[Frame], seconds: f64| frames.len() as f64 * 50.0 / seconds;

    let built = best(|| {
        for frame in classical.iter().cycle().take(classical.len() * 2) {
            let mut count = 0_u32;
            let _ = bits::stream::encode(black_box(frame), |_| count += 1);
            black_box(count);
        }
    }) * 25.0;
    let counted = best(|| {
        for frame in classical.iter().cycle().take(classical.len() * 50) {
            let _ = black_box(bits::length(black_box(frame)));
        }
    });
    let fd_counted = best(|| {
        for frame in fd.iter().cycle().take(fd.len() * 50) {
            let _ = black_box(bits::length(black_box(frame)));
        }
    });
    show(
        "exact length, classical, 0 to 8 bytes, both formats",
        per_frame(&classical, counted),
        &format!("{:.0} times building bit by bit", built / counted),
    );
    show("exact length, CAN FD, 64 bytes", per_frame(&fd, fd_counted), "");
}

/// A set of rules and the frames it decides about.
struct Scene {
    engine: Engine,
    frames: Vec<Frame>,
}

impl Scene {
    const PASSES: usize = 300;

    fn new(table: &Table, frames: &[Frame]) -> Self {
        Self { engine: Engine::new(table), frames: frames.to_vec() }
    }

    /// Seconds per decision, over all frames again and again.
    fn decide(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..Self::PASSES {
            for frame in &self.frames {
                let passage = Passage::received_on(BusIndex(0));
                self.engine.handle(
                    Nanos::ZERO,
                    BusIndex(0),
                    black_box(frame),
                    passage,
                    &mut |copy: Forward<'_>| {
                        black_box(copy.frame);
                        Outcome::Handled
                    },
                );
            }
        }
        start.elapsed().as_secs_f64() / (Self::PASSES * self.frames.len()) as f64
    }
}

/// Shows the cost of `many` beside that of `one`, measured in turns.
fn compare(what: &str, many: &mut Scene, one: &mut Scene) {
    let (mut of_many, mut of_one) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        of_one = of_one.min(one.decide());
        of_many = of_many.min(many.decide());
    }
    show(what, 1.0 / of_many, &format!("{:.2} times the cost of 1 rule", of_many / of_one));
}

fn rules() {
    let one_standard = frames(4_096, |_| (0x123, 8, None));
    let one_extended = frames(4_096, |_| (0x1234_5678 | EFF_FLAG, 8, None));
    let all_standard = frames(4_096, |spread| (spread.next() as u32 & SFF_MASK, 8, None));
    let all_extended = frames(4_096, |spread| {
        let index = spread.next() as u32 % 2_048;
        (index << 8 | EFF_FLAG, 8, None)
    });

    let mut standard = Scene::new(&table([Filter::standard(0x123)].into_iter()), &one_standard);
    let mut extended =
        Scene::new(&table([Filter::extended(0x1234_5678)].into_iter()), &one_extended);
    let mut again = Scene::new(&table([Filter::standard(0x123)].into_iter()), &one_standard);
    compare("rule decision, 1 rule, standard identifier", &mut again, &mut standard);
    let mut again = Scene::new(&table([Filter::extended(0x1234_5678)].into_iter()), &one_extended);
    compare("rule decision, 1 rule, extended identifier", &mut again, &mut extended);

    let singles = (0..2_048).map(|id| Filter::standard(id as u16));
    let mut many = Scene::new(&table(singles), &all_standard);
    compare("rule decision, 2048 single standard identifiers", &mut many, &mut standard);
    let singles = (0..2_048).map(|index| Filter::extended(index << 8));
    let mut many = Scene::new(&table(singles), &all_extended);
    compare("rule decision, 2048 single extended identifiers", &mut many, &mut extended);
    // Masks on 11 bits overlap: 2048 of them with eight masks match many at a time, so only those
    // that are disjoint are held against one rule.
    let disjoint = (0..2_048_u32).step_by(8).map(|index| Filter {
        can_id: index,
        mask: SFF_MASK & !7 | EFF_FLAG | RTR_FLAG,
        inverted: false,
    });
    let mut many = Scene::new(&table(disjoint), &all_standard);
    compare("rule decision, 256 masked, disjoint, standard", &mut many, &mut standard);
    let mut many = Scene::new(&table(masked()), &all_extended);
    compare("rule decision, 2048 masked, 8 masks, extended", &mut many, &mut extended);
    let anything = frames(4_096, |spread| (spread.next() as u32 & EFF_MASK | EFF_FLAG, 8, None));
    let mut many = Scene::new(&table(masked()), &anything);
    compare("rule decision, 2048 masked, 8 masks, nothing matches", &mut many, &mut extended);
    let mut many = Scene::new(&table(scattered()), &anything);
    compare("rule decision, 2048 masked, 8 masks without a common bit", &mut many, &mut extended);
}

fn simulations() {
    let simulate = |name: &str, gateway: &str, kind: &str, count: u64| {
        let text = format!(
            "count = {count}\nper_frame = false\n[bus.in]\nbitrate = \"1M\"\n[bus.out]\n\
             bitrate = \"1M\"\n[gateway]\n{gateway}\n[traffic]\nkind = \"{kind}\"\n"
        );
        let campaign = campaign::parse(name, &text, std::path::Path::new("."), &Options::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let seconds = best(|| {
            let result = simulate::run(Run::unwatched(&campaign.experiments[0]))
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(result.counts.sent, count);
        });
        show(name, count as f64 / seconds, "");
        count as f64 / seconds
    };
    let count = 300_000;
    simulate("simulation, constant delay, half load", "delay = \"35us\"", "half", count);
    let board = "profile = \"mpc5200-2.6.33\"";
    simulate("simulation, Linux host model, half load", board, "half", count);
    simulate("simulation, Linux host model, one at a time", board, "one-at-a-time", count);
    simulate("simulation, Linux host model, flood", board, "flood", count);
}

fn main() {
    println!("| what | rate | each | compared |\n|---|---|---|---|");
    lengths();
    rules();
    simulations();
}

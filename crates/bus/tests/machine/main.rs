//! Bus tools on interfaces of this machine or of a guest: see `checks.rs` of `candor-vm`.

#[path = "../../../linux/tests/harness/mod.rs"]
mod harness;

mod can;
mod controllers;

use std::process::ExitCode;

use candor_bus::capture::{Capture, Captured, Next};
use candor_bus::named::NamedPort;
use candor_port::Wanted;
use candor_time::Nanos;

pub(crate) use harness::{Check, Need};

const CHECKS: [(&str, &[Check]); 2] =
    [("can", &can::CHECKS), ("controllers", &controllers::CHECKS)];

fn main() -> ExitCode {
    harness::main(&CHECKS, &["sja1000", "kvaser_pci"])
}

/// Begins to receive from these interfaces.
pub(crate) fn capture(names: &[&str]) -> Capture {
    let ports: Vec<NamedPort> = names.iter().map(|name| name.parse().unwrap()).collect();
    Capture::open(&ports, Wanted::RECEIVER).unwrap()
}

/// What comes until there are so many frames; news in their order.
pub(crate) fn receive(capture: &mut Capture, count: usize) -> (Vec<Captured>, Vec<Next>) {
    let (mut frames, mut news) = (Vec::new(), Vec::new());
    while frames.len() < count {
        match capture.next(Nanos::from_secs(10), |captured| frames.push(*captured)) {
            Next::Frames => {}
            Next::Nothing => panic!("{} of {count} frames came; {news:?}", frames.len()),
            other => news.push(other),
        }
    }
    (frames, news)
}

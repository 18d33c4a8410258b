//! Ports that take CAN, on the kernel of this machine or of a guest.

#[path = "../../../linux/tests/harness/mod.rs"]
mod harness;
#[path = "../suite/mod.rs"]
mod suite;

mod can;
mod controllers;
mod networks;
mod strangers;

use std::process::ExitCode;

pub(crate) use harness::{Check, Need};

const CHECKS: [(&str, &[Check]); 4] = [
    ("can", &can::CHECKS),
    ("controllers", &controllers::CHECKS),
    ("networks", &networks::CHECKS),
    ("strangers", &strangers::CHECKS),
];

fn main() -> ExitCode {
    harness::main(&CHECKS, &["sja1000", "kvaser_pci"])
}

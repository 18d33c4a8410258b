//! Ports that take CAN, on the kernel of this machine or of a guest.

#[path = "../../../linux/tests/harness/mod.rs"]
mod harness;
#[path = "../suite/mod.rs"]
mod suite;

mod can;
mod controllers;

use std::process::ExitCode;

pub(crate) use harness::{Check, Need};

const CHECKS: [(&str, &[Check]); 2] =
    [("can", &can::CHECKS), ("controllers", &controllers::CHECKS)];

fn main() -> ExitCode {
    harness::main(&CHECKS, &["sja1000", "kvaser_pci"])
}

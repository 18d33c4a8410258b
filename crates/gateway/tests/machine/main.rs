//! `candor route run` on the CAN of a kernel: the program itself, in a guest of its own.
//!
//! A test of `candor-vm`, `live.rs`, runs each of these checks in a guest, and hands along what they
//! need: the programs and files that the arguments name.

#[path = "../../../linux/tests/harness/mod.rs"]
mod harness;

mod bench;
mod drive;
mod faults;
mod flood;
mod interfaces;
mod loads;
mod peers;
mod planes;
mod swap;

use std::process::ExitCode;

pub(crate) use harness::{Check, Need};

const CHECKS: [(&str, &[Check]); 8] = [
    ("drive", &drive::CHECKS),
    ("swap", &swap::CHECKS),
    ("interfaces", &interfaces::CHECKS),
    ("faults", &faults::CHECKS),
    ("flood", &flood::CHECKS),
    ("loads", &loads::CHECKS),
    ("planes", &planes::CHECKS),
    ("peers", &peers::CHECKS),
];

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        for (module, checks) in CHECKS {
            checks.iter().for_each(|(name, ..)| println!("{module}::{name}"));
        }
        return ExitCode::SUCCESS;
    }
    harness::main(&CHECKS, &["sja1000", "kvaser_pci"])
}

//! What takes a kernel.

#[path = "../harness/mod.rs"]
mod harness;

mod can;
mod controllers;
mod ethernet;
mod gateway;
mod links;
mod packets;
mod strangers;
mod system;

use std::process::ExitCode;

pub(crate) use harness::{Check, Need};

const CHECKS: [(&str, &[Check]); 8] = [
    ("system", &system::CHECKS),
    ("strangers", &strangers::CHECKS),
    ("links", &links::CHECKS),
    ("packets", &packets::CHECKS),
    ("ethernet", &ethernet::CHECKS),
    ("can", &can::CHECKS),
    ("gateway", &gateway::CHECKS),
    ("controllers", &controllers::CHECKS),
];

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--wait") {
        // A program for a check: it ends when its standard input does.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        return ExitCode::SUCCESS;
    }
    harness::main(&CHECKS, &["sja1000", "kvaser_pci", "veth"])
}

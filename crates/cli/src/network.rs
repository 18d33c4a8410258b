//! `candor network`: the description of a network.

mod bound;
mod drive;
mod infer;
pub(crate) mod json;
mod recorded;
mod show;

use std::path::Path;

use candor_diagnostics::{Findings, Severity, counted};
use candor_network::file::{self, Purpose};
use candor_network::flow::{Flow, flows};
use candor_network::{Message, Network, Node};
use candor_rules::file::disk;
use clap::Subcommand;

use crate::Answer;
use crate::color;
use crate::file_kind::FileKind;
use crate::output::print;
use crate::route::read;

#[derive(Subcommand)]
pub(crate) enum NetworkCommand {
    /// Check a network file and show its buses, nodes and messages, and where gateways forward them
    ///
    /// Example: candor network show examples/small-car.network.toml
    Show(show::Show),
    /// Say how late each message can be on each bus, and how many frames each queue holds at worst
    ///
    /// Exit code 1: a deadline can be missed, a queue can lose frames, or something has no bound; 2: the file is wrong.
    ///
    /// Example: candor network bound examples/small-car.network.toml
    Bound(bound::Arguments),
    /// Write a network file for the messages of recordings, with how densely they were seen
    ///
    /// Example: candor network infer examples/recordings/drive.log --bitrate 500k > drive.network.toml
    Infer(infer::Arguments),
    /// Print the JSON Schema of network files, for editors
    ///
    /// Example: candor network schema > network.schema.json
    Schema,
}

/// What may be in a network file.
const SCHEMA: &str = include_str!("../../../schemas/network.schema.json");

pub(crate) fn run(command: &NetworkCommand) -> Answer {
    match command {
        NetworkCommand::Show(arguments) => show::run(arguments),
        NetworkCommand::Bound(arguments) => bound::run(arguments),
        NetworkCommand::Infer(arguments) => infer::run(arguments),
        NetworkCommand::Schema => print(SCHEMA).map(|()| true),
    }
}

/// A network with its flows.
struct Loaded {
    network: Network,
    flows: Vec<Flow>,
    /// Warnings only.
    findings: Findings,
}

/// A network with its flows, from a file, or from standard input if that is `-`. What is wrong with it is printed; with
/// errors, there is none, but how many there are.
fn load(path: &Path, purpose: Purpose) -> Result<Result<Loaded, String>, String> {
    let name = path.display().to_string();
    let is_input = path.as_os_str() == "-";
    let (network, findings) = match is_input {
        true => {
            let text = read(path, "network file").map_err(|reason| format!("-: {reason}"))?;
            let include = |name: &str| disk::read(Path::new(name), disk::MOST_BYTES);
            file::parse("-", &text, &include, purpose)
        }
        false => file::load(path, purpose)?,
    };
    if network.is_none()
        && !is_input
        && let Some(mix_up) = FileKind::Network.mix_up(path)
    {
        return Err(mix_up);
    }
    color::eprint_findings(&findings);
    // There are errors about networks whose flows cannot be listed.
    let network = network.and_then(|it| flows(&it).ok().map(|flows| (it, flows)));
    let errors = format!("{name}: {}", counted(findings.count(Severity::Error), "error"));
    Ok(network.map(|(network, flows)| Loaded { network, flows, findings }).ok_or(errors))
}

/// A message on a bus that it reaches.
struct Reached<'a> {
    flow: &'a Flow,
    node: &'a Node,
    message: &'a Message,
    /// The bus of the node.
    from: &'a str,
    bus: &'a candor_network::Bus,
    gateways: Vec<&'a str>,
}

impl<'a> Reached<'a> {
    fn new(network: &'a Network, flow: &'a Flow) -> Option<Self> {
        let node = network.nodes.get(flow.node)?;
        let gateways = flow.gateways.iter().filter_map(|&index| network.gateways.get(index));
        Some(Self {
            flow,
            node,
            message: node.messages.get(flow.message)?,
            from: bus_name(network, node.bus),
            bus: network.buses.get(flow.bus)?,
            gateways: gateways.map(|gateway| gateway.name.as_str()).collect(),
        })
    }

    /// The node, or the gateways that pass it on.
    fn sender(&self) -> String {
        match self.gateways.is_empty() {
            true => self.node.name.clone(),
            false => format!("{} (from {})", self.gateways.join(", "), self.from),
        }
    }
}

fn bus_name(network: &Network, bus: usize) -> &str {
    network.buses.get(bus).map_or("", |bus| bus.name.as_str())
}

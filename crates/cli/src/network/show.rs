//! `candor network show`: what a network file describes.
//!
//! `candor help json network show` describes what `--json` prints.

use std::path::{Path, PathBuf};

use candor_diagnostics::{Findings, Severity, counted, visible};
use candor_network::flow::{Flow, Load, flows, loads};
use candor_network::{Bus, Message, Network, Node, file, longest_transmission, show_id};
use candor_output::say;
use candor_rules::file::disk;
use candor_time::Nanos;
use clap::Args;

use crate::Answer;
use crate::color;
use crate::file_kind::FileKind;
use crate::json::lines;
use crate::output::{duration, print, table};
use crate::route::read;

#[derive(Args)]
pub(crate) struct Show {
    /// The network file, or - for standard input; then the files that it names are looked for in the current
    /// folder
    file: PathBuf,
    /// Print JSON Lines: an object of type "network", one of type "bus" per bus, one of type "node" per node,
    /// then one of type "message" for each message on each bus that it reaches
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Show) -> Answer {
    let path = &arguments.file;
    let name = path.display().to_string();
    let is_input = path.as_os_str() == "-";
    let (network, findings) = if is_input { from_input()? } else { file::load(path)? };
    if network.is_none()
        && !is_input
        && let Some(mix_up) = FileKind::Network.mix_up(path)
    {
        return Err(mix_up);
    }
    color::eprint_findings(&findings);
    // There are errors about networks whose flows cannot be listed.
    let Some((network, flows)) = network.and_then(|it| flows(&it).ok().map(|flows| (it, flows)))
    else {
        say!("{name}: {}", counted(findings.count(Severity::Error), "error"));
        return Ok(false);
    };
    let loads = loads(&network, &flows);
    let shown = Shown { network: &network, flows: &flows, loads: &loads };
    print(&if arguments.json { shown.json()? } else { shown.text() })?;
    Ok(true)
}

/// The network on standard input.
fn from_input() -> Result<(Option<Network>, Findings), String> {
    let text = read(Path::new("-"), "network file").map_err(|reason| format!("-: {reason}"))?;
    let include = |name: &str| disk::read(Path::new(name), disk::MOST_BYTES);
    Ok(file::parse("-", &text, &include))
}

/// What is shown.
struct Shown<'a> {
    network: &'a Network,
    flows: &'a [Flow],
    loads: &'a [Load],
}

impl<'a> Shown<'a> {
    fn json(&self) -> Result<String, String> {
        let buses = lines(self.network.buses.iter().zip(self.loads))?;
        let nodes = lines(self.network.nodes.iter().map(|node| (node, self.bus_name(node))))?;
        let messages = lines(self.flows.iter().filter_map(|flow| self.message(flow)))?;
        Ok(lines([self.network])? + &buses + &nodes + &messages)
    }

    fn bus_name(&self, node: &Node) -> &'a str {
        self.network.buses.get(node.bus).map_or("", |bus| bus.name.as_str())
    }

    fn message(&self, flow: &'a Flow) -> Option<Reached<'a>> {
        let node = self.network.nodes.get(flow.node)?;
        let gateways = flow.gateways.iter().filter_map(|&index| self.network.gateways.get(index));
        Some(Reached {
            flow,
            node,
            message: node.messages.get(flow.message)?,
            from: self.bus_name(node),
            bus: self.network.buses.get(flow.bus)?,
            gateways: gateways.map(|gateway| gateway.name.as_str()).collect(),
        })
    }

    /// The title and a table each of buses, nodes and messages.
    fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.network.title.is_empty() {
            parts.push(format!("{}\n", visible(&self.network.title)));
        }
        let buses: Vec<_> = self.network.buses.iter().zip(self.loads).map(bus_row).collect();
        parts.push(table(&["bus", "kind", ">bit rate", ">frames/s", ">load at most"], &buses));
        let nodes: Vec<_> = self.network.nodes.iter().map(|node| self.node_row(node)).collect();
        if !nodes.is_empty() {
            parts.push(table(&["node", "bus", "queue", ">messages"], &nodes));
        }
        let messages = self.message_table();
        parts.extend((!self.flows.is_empty()).then_some(messages));
        parts.join("\n")
    }

    fn node_row(&self, node: &Node) -> Vec<String> {
        let order = node.queue.discipline.name();
        let queue = format!("{order}, {}", counted(node.queue.depth as u64, "frame"));
        vec![node.name.clone(), self.bus_name(node).into(), queue, node.messages.len().to_string()]
    }

    /// Each message on each bus, the most urgent first. What no message has takes no column.
    fn message_table(&self) -> String {
        let mut flows: Vec<_> = self.flows.iter().collect();
        flows.sort_by_key(|flow| (flow.bus, flow.frame.id()));
        let rows: Vec<_> = flows.into_iter().filter_map(|flow| self.message(flow)).collect();
        let is_sent = |row: &&Reached<'_>| row.gateways.is_empty();
        let has_fd = rows.iter().any(|row| row.flow.frame.is_fd());
        let has_offset = rows.iter().filter(is_sent).any(|row| row.message.offset.is_some());
        let has_jitter = rows.iter().filter(is_sent).any(|row| row.message.jitter != Nanos::ZERO);
        let columns = [
            ("bus", true),
            ("identifier", true),
            ("message", true),
            ("sent by", true),
            ("kind", has_fd),
            (">bytes", true),
            (">period", true),
            (">offset", has_offset),
            (">jitter", has_jitter),
            (">longest", true),
        ];
        let head: Vec<_> =
            columns.iter().filter(|(_, is_used)| *is_used).map(|(name, _)| *name).collect();
        let used = |row: &Reached<'_>| {
            let cells = message_row(row).into_iter().zip(columns);
            cells.filter(|(_, (_, is_used))| *is_used).map(|(cell, _)| cell).collect()
        };
        table(&head, &rows.iter().map(used).collect::<Vec<_>>())
    }
}

/// A message on a bus that it reaches.
pub(crate) struct Reached<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) node: &'a Node,
    pub(crate) message: &'a Message,
    /// The bus of the node.
    pub(crate) from: &'a str,
    pub(crate) bus: &'a Bus,
    pub(crate) gateways: Vec<&'a str>,
}

impl Reached<'_> {
    /// `None` if the bus cannot carry it.
    pub(crate) fn longest(&self) -> Option<Nanos> {
        let longest = longest_transmission(&self.flow.frame, self.bus.timing);
        longest.filter(|_| !self.flow.is_refused)
    }
}

fn bus_row((bus, load): (&Bus, &Load)) -> Vec<String> {
    let [nominal, data] =
        [bus.timing.nominal, bus.timing.data].map(|it| rate(it.bits_per_second()));
    vec![
        bus.name.clone(),
        if bus.is_fd { "CAN FD" } else { "classical" }.to_owned(),
        if nominal == data { nominal } else { format!("{nominal}, data {data}") },
        format!("{:.1}", load.frames_per_second),
        format!("{:.1} %", load.longest_share * 100.0),
    ]
}

fn rate(bits_per_second: u32) -> String {
    match f64::from(bits_per_second) {
        rate if rate >= 1e6 => format!("{} Mbit/s", rate / 1e6),
        rate => format!("{} kbit/s", rate / 1e3),
    }
}

/// All cells. When a message is sent is said on the bus of its node.
fn message_row(row: &Reached<'_>) -> [String; 10] {
    let Reached { flow, node, message, from, bus, gateways } = row;
    let by = gateways.join(", ");
    let is_sent = by.is_empty();
    let from = if is_sent { node.name.clone() } else { format!("{by} (from {from})") };
    let time = |it: Nanos| duration(it.as_nanos() as f64);
    [
        bus.name.clone(),
        show_id(flow.frame.can_id()),
        message.name.clone(),
        from,
        if flow.frame.is_fd() { "CAN FD" } else { "classical" }.into(),
        flow.frame.len().to_string(),
        time(message.period),
        match message.offset {
            None if is_sent => "random".into(),
            Some(offset) if is_sent => time(offset),
            _ => "-".into(),
        },
        if is_sent && message.jitter != Nanos::ZERO { time(message.jitter) } else { "-".into() },
        row.longest().map_or_else(|| "lost".into(), time),
    ]
}

//! `candor network show`: what a network file describes.
//!
//! `candor help json network show` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::{counted, visible};
use candor_network::file::Purpose;
use candor_network::flow::{Flow, Load, loads};
use candor_network::{Network, Node, longest_transmission, show_id};
use candor_output::say;
use candor_time::Nanos;
use candor_wire::can::Timing;
use clap::Args;

use super::{Loaded, Reached, bus_name, load};
use crate::Answer;
use crate::json::lines;
use crate::output::{Table, duration, print};

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
    let Loaded { network, flows, .. } = match load(&arguments.file, Purpose::Flow)? {
        Ok(loaded) => loaded,
        Err(errors) => {
            say!("{errors}");
            return Ok(false);
        }
    };
    let loads = loads(&network, &flows);
    let shown = Shown { network: &network, flows: &flows, loads: &loads };
    print(&if arguments.json { shown.json()? } else { shown.text() })?;
    Ok(true)
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
        bus_name(self.network, node.bus)
    }

    fn message(&self, flow: &'a Flow) -> Option<Reached<'a>> {
        Reached::new(self.network, flow)
    }

    /// The title and a table each of buses, nodes and messages.
    fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.network.title.is_empty() {
            parts.push(format!("{}\n", visible(&self.network.title)));
        }
        parts.push(self.bus_table());
        if !self.network.nodes.is_empty() {
            parts.push(self.node_table());
        }
        let messages = self.message_table();
        parts.extend((!self.flows.is_empty()).then_some(messages));
        parts.join("\n")
    }

    fn bus_table(&self) -> String {
        Table::of(self.network.buses.iter().zip(self.loads))
            .column("bus", |(bus, _)| bus.name.clone())
            .column("kind", |(bus, _)| kind(bus.is_fd).to_owned())
            .column(">bit rate", |(bus, _)| rates(bus.timing))
            .column(">frames/s", |(_, load)| format!("{:.1}", load.frames_per_second))
            .column(">load at most", |(_, load)| format!("{:.1} %", load.longest_share * 100.0))
            .text()
    }

    fn node_table(&self) -> String {
        let depth = |node: &Node| counted(node.queue.depth as u64, "frame");
        Table::of(&self.network.nodes)
            .column("node", |it| it.name.clone())
            .column("bus", |it| self.bus_name(it).into())
            .column("queue", |it| format!("{}, {}", it.queue.discipline.name(), depth(it)))
            .column(">messages", |it| it.messages.len().to_string())
            .text()
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
        // When a message is sent is said on the bus of its node.
        let offset = |row: &Reached<'_>| match row.message.offset {
            _ if !is_sent(&row) => "-".into(),
            Some(offset) => time(offset),
            None => "random".into(),
        };
        let jitter = |row: &Reached<'_>| match row.message.jitter {
            jitter if is_sent(&row) && jitter != Nanos::ZERO => time(jitter),
            _ => "-".into(),
        };
        Table::of(rows)
            .column("bus", |it| it.bus.name.clone())
            .column("identifier", |it| show_id(it.flow.frame.can_id()))
            .column("message", |it| it.message.name.clone())
            .column("sent by", Reached::sender)
            .column_if(has_fd, "kind", |it| kind(it.flow.frame.is_fd()).into())
            .column(">bytes", |it| it.flow.frame.len().to_string())
            .column(">period", |it| time(it.message.period))
            .column_if(has_offset, ">offset", offset)
            .column_if(has_jitter, ">jitter", jitter)
            .column(">longest", |it| it.longest().map_or_else(|| "lost".into(), time))
            .text()
    }
}

impl Reached<'_> {
    /// The longest time on its bus; `None` if the bus cannot carry it.
    pub(crate) fn longest(&self) -> Option<Nanos> {
        let longest = longest_transmission(&self.flow.frame, self.bus.timing);
        longest.filter(|_| !self.flow.is_refused)
    }
}

const fn kind(is_fd: bool) -> &'static str {
    if is_fd { "CAN FD" } else { "classical" }
}

fn rates(Timing { nominal, data }: Timing) -> String {
    let [nominal, data] = [nominal, data].map(|it| rate(it.bits_per_second()));
    if nominal == data { nominal } else { format!("{nominal}, data {data}") }
}

fn rate(bits_per_second: u32) -> String {
    match f64::from(bits_per_second) {
        rate if rate >= 1e6 => format!("{} Mbit/s", rate / 1e6),
        rate => format!("{} kbit/s", rate / 1e3),
    }
}

fn time(it: Nanos) -> String {
    duration(it.as_nanos() as f64)
}

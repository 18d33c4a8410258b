//! `candor network show`: what a network file describes.
//!
//! `candor help json network show` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::{Severity, counted};
use candor_network::Network;
use candor_network::flow::{Flow, Load, flows, loads};
use candor_network::{longest_transmission, show_id};
use candor_time::Nanos;
use clap::Args;

use crate::Answer;
use crate::color;
use crate::file_kind::FileKind;
use crate::json::lines;
use crate::json::network_bus::NetworkBus;
use crate::json::network_message::NetworkMessage;
use crate::output::{duration, print, table};

#[derive(Args)]
pub(crate) struct Show {
    /// The network file
    file: PathBuf,
    /// Print JSON Lines: an object of type "bus" per bus, then one of type "message" for each message on
    /// each bus that it reaches
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Show) -> Answer {
    let path = &arguments.file;
    let name = path.display().to_string();
    let (network, findings) = candor_network::file::load(path)?;
    if network.is_none()
        && let Some(mix_up) = FileKind::Network.mix_up(path)
    {
        return Err(mix_up);
    }
    eprint!("{}", color::findings(&findings, color::on_stderr()));
    let Some(network) = network else {
        eprintln!("{name}: {}", counted(findings.count(Severity::Error), "error"));
        return Ok(false);
    };
    // There are findings about networks that have none.
    let flows = flows(&network).unwrap_or_default();
    let loads = loads(&network, &flows);
    if arguments.json {
        let buses = lines(network.buses.iter().zip(&loads).map(|(bus, load)| NetworkBus {
            bus: &bus.name,
            bitrate: bus.timing.nominal.bits_per_second(),
            data_bitrate: bus.timing.data.bits_per_second(),
            fd: bus.is_fd,
            frames_per_second: load.frames_per_second,
            longest_percent: load.longest_share * 100.0,
        }))?;
        print(&format!(
            "{buses}{}",
            lines(flows.iter().filter_map(|flow| message(&network, flow)))?
        ))?;
    } else {
        print(&show(&network, &flows, &loads))?;
    }
    Ok(true)
}

fn message<'a>(network: &'a Network, flow: &'a Flow) -> Option<NetworkMessage<'a>> {
    let node = network.nodes.get(flow.node)?;
    let message = node.messages.get(flow.message)?;
    let bus = network.buses.get(flow.bus)?;
    let gateways = flow.gateways.iter().filter_map(|&index| network.gateways.get(index));
    Some(NetworkMessage {
        message: &message.name,
        node: &node.name,
        from: &network.buses.get(node.bus)?.name,
        bus: &bus.name,
        id: show_id(flow.frame.can_id()),
        length: flow.frame.len(),
        period_ns: message.period.as_nanos(),
        offset_ns: message.offset.map(Nanos::as_nanos),
        jitter_ns: message.jitter.as_nanos(),
        longest_ns: longest_transmission(&flow.frame, bus.timing)?.as_nanos(),
        gateways: gateways.map(|gateway| gateway.name.as_str()).collect(),
    })
}

fn show(network: &Network, flows: &[Flow], loads: &[Load]) -> String {
    let rate = |bits: u32| format!("{} kbit/s", f64::from(bits) / 1_000.0);
    let bus = |(bus, load): (&candor_network::Bus, &Load)| {
        let (nominal, data) = (bus.timing.nominal, bus.timing.data);
        let rates = match nominal == data {
            true => rate(nominal.bits_per_second()),
            false => format!(
                "{}, data {}",
                rate(nominal.bits_per_second()),
                rate(data.bits_per_second())
            ),
        };
        vec![
            bus.name.clone(),
            if bus.is_fd { "CAN FD" } else { "classical" }.to_owned(),
            rates,
            format!("{:.1}", load.frames_per_second),
            format!("{:.1} %", load.longest_share * 100.0),
        ]
    };
    let row = |message: NetworkMessage<'_>| {
        let by = message.gateways.join(", ");
        let from = if by.is_empty() {
            message.node.to_owned()
        } else {
            format!("{by} (from {})", message.from)
        };
        vec![
            message.bus.to_owned(),
            message.id,
            message.message.to_owned(),
            from,
            message.length.to_string(),
            duration(message.period_ns as f64),
            duration(message.longest_ns as f64),
        ]
    };
    let buses: Vec<_> = network.buses.iter().zip(loads).map(bus).collect();
    let mut of_bus: Vec<_> = flows.iter().collect();
    // Most urgent first.
    of_bus.sort_by_key(|flow| (flow.bus, flow.frame.id()));
    let messages: Vec<_> =
        of_bus.into_iter().filter_map(|flow| message(network, flow)).map(row).collect();
    let mut text = table(&["bus", "kind", "bit rate", "frames/s", "load at most"], &buses);
    if !messages.is_empty() {
        text.push('\n');
        text.push_str(&table(
            &["bus", "identifier", "message", "sent by", "bytes", "period", "longest"],
            &messages,
        ));
    }
    text
}

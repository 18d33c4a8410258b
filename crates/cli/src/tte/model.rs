//! `candor tte model`: the latency that follows from a schedule.
//!
//! `candor help json tte model` describes what `--json` prints.

use std::path::{Path, PathBuf};

use candor_diagnostics::{Findings, Severity, counted};
use candor_output::say;
use candor_rules::file::disk;
use candor_time::Nanos;
use candor_tte::Network;
use candor_tte::file::{self, Places};
use candor_tte::model::{Framing, Latency};
use clap::{Args, ValueEnum};

use crate::Answer;
use crate::color;
use crate::file_kind::FileKind;
use crate::json::lines;
use crate::output::{Table, print};

/// The sizes of RFC 2544, section 9.1.
const SIZES: [u16; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];

#[derive(Args)]
pub(crate) struct Model {
    /// The network file
    file: PathBuf,
    /// Show the sizes of RFC 2544, 64 to 1518 bytes, instead of the size of each flow
    #[arg(long)]
    sizes: bool,
    /// Where a latency begins: with the first bit of the frame, or with its preamble
    #[arg(long, value_enum, default_value_t = Begin::Frame)]
    framing: Begin,
    /// Print JSON Lines: an object of type "tte_latency" per flow, receiver and size
    #[arg(long)]
    json: bool,
}

/// Where a latency begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Begin {
    /// The first bit behind the preamble
    Frame,
    /// The first bit of the preamble
    Preamble,
}

pub(super) fn run(arguments: &Model) -> Answer {
    let path = &arguments.file;
    let Some(network) = load(path)? else { return Ok(false) };
    let framing = match arguments.framing {
        Begin::Frame => Framing::Frame,
        Begin::Preamble => Framing::Preamble,
    };
    let mut rows = Vec::new();
    let mut resized = network.clone();
    for index in 0..network.flows.len() {
        if !network.flows[index].is_time_triggered() {
            continue;
        }
        let own = [network.flows[index].size];
        let sizes = if arguments.sizes { &SIZES[..] } else { &own };
        for &size in sizes {
            resized.flows[index].size = size;
            for &receiver in &network.flows[index].to {
                let latency = resized.latency(index, receiver, framing);
                rows.extend(latency.map(|latency| Row { index, receiver, size, latency }));
            }
        }
    }
    if rows.is_empty() {
        return Err(format!(
            "{}: no flow is time-triggered, so no latency follows from a schedule; add a flow with class = \"tt\"",
            path.display()
        ));
    }
    print(&match arguments.json {
        true => lines(rows.iter().map(|row| (&network, row)))?,
        false => text(&network, &rows, framing),
    })?;
    Ok(true)
}

/// A network file with its places, and what is wrong with it; there is no network if it has errors.
pub(super) fn read(path: &Path) -> Result<(Option<(Network, Places)>, Findings), String> {
    let text = disk::read_text(path, "network file")?;
    let (network, findings) = file::parse_with_places(&path.display().to_string(), &text);
    if network.is_none()
        && let Some(mix_up) = FileKind::TimeTriggered.mix_up(path)
    {
        return Err(mix_up);
    }
    Ok((network, findings))
}

/// A network file; `None` if it has errors, which were reported.
pub(super) fn load(path: &Path) -> Result<Option<Network>, String> {
    let (network, findings) = read(path)?;
    color::eprint_findings(&findings);
    if network.is_none() {
        say!("{}: {}", path.display(), counted(findings.count(Severity::Error), "error"));
    }
    Ok(network.map(|(network, _)| network))
}

/// A flow at one of its receivers.
pub(crate) struct Row {
    pub(crate) index: usize,
    pub(crate) receiver: usize,
    pub(crate) size: u16,
    pub(crate) latency: Latency,
}

fn text(network: &Network, rows: &[Row], framing: Framing) -> String {
    let us = |nanos: Nanos| format!("{:.3}", nanos.as_micros_f64());
    let mark = |row: &Row| if row.latency.misses > 0 { "* " } else { "" };
    let mut out = Table::of(rows)
        .column("flow", |it| network.flows[it.index].name.clone())
        .column("receiver", |it| network.nodes[it.receiver].name.clone())
        .column(">bytes", |it| it.size.to_string())
        .column(">switches", |it| it.latency.switches.to_string())
        .column(">wires", |it| us(it.latency.wires))
        .column(">transmission", |it| us(it.latency.transmission))
        .column(">relays", |it| us(it.latency.relays))
        .column(">latency", |it| format!("{}{}", mark(it), us(it.latency.total())))
        .column(">equation 3", |it| us(it.latency.equation_3()))
        .text();
    let begin = match framing {
        Framing::Frame => "behind the preamble",
        Framing::Preamble => "of the preamble",
    };
    if rows.iter().any(|row| row.latency.misses > 0) {
        out.push_str(
            "\n* not so: some frames are not ready to leave a switch at their instant, and leave a period later; see\n  \
             `candor tte check`\n",
        );
    }
    out.push_str(&format!(
        "\nin us, from the first bit {begin} to the last bit; relays: from the first bit into a switch to the\n\
         first bit out of it; equation 3: as printed, a transmission for each switch\n"
    ));
    out
}

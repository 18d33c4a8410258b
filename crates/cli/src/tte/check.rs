//! `candor tte check`: everything that is wrong with a schedule, and what it makes of each link.
//!
//! `candor help json tte check` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::{Severity, counted};
use candor_gateway::control::FindingLine;
use candor_output::say;
use candor_time::Nanos;
use candor_tte::schedule::{Departure, Direction, departures};
use candor_tte::{Flow, Hop, Network, check};
use clap::{Args, value_parser};

use super::{gantt, model};
use crate::Answer;
use crate::color;
use crate::json::{line, lines};
use crate::output::{Table, print};

#[derive(Args)]
pub(crate) struct Check {
    /// The network file
    file: PathBuf,
    /// Draw the cycle: a row per direction of a link, a letter per flow; also if there are errors
    #[arg(long, conflicts_with = "json")]
    gantt: bool,
    /// How many slices the drawn cycle is cut into
    #[arg(long, value_name = "COUNT", default_value_t = 72, requires = "gantt", value_parser = value_parser!(u16).range(10..=10_000))]
    slices: u16,
    /// Print JSON Lines: an object of type "finding" per finding, one of type "tte_direction" per direction of a
    /// link, one of type "tte_instant" per flow and hop, then one of type "summary"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Check) -> Answer {
    let path = &arguments.file;
    let name = path.display().to_string();
    let (network, findings) = model::read(path)?;
    let checked = network.map(|(network, places)| {
        let directions = check::check(&network, &places, &findings);
        Checked { network, directions }
    });
    let [errors, warnings] =
        [Severity::Error, Severity::Warning].map(|severity| findings.count(severity));
    let flows = checked.as_ref().map(|it| it.flows().count());
    if arguments.json {
        let found = lines(findings.sorted().iter().map(FindingLine::new))?;
        let shown = checked.as_ref().map_or(Ok(String::new()), Checked::json)?;
        let summary = line(&(name.as_str(), checked.as_ref(), [errors, warnings]))?;
        print(&(found + &shown + &summary))?;
    } else {
        color::eprint_findings(&findings);
        if let Some(checked) = &checked {
            let mut parts = Vec::new();
            if errors == 0 {
                parts.push(checked.links());
                parts.extend((checked.flows().next().is_some()).then(|| checked.instants()));
            }
            if arguments.gantt {
                let slices = usize::from(arguments.slices);
                parts.push(gantt::draw(&checked.network, &checked.directions, slices));
            }
            print(&parts.join("\n"))?;
        }
    }
    let found = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    match flows.zip(checked.as_ref()) {
        Some((flows, checked)) => {
            let flows = counted(flows, "time-triggered flow");
            say!("{name}: {flows} in a cycle of {}; {found}", checked.network.cycle);
        }
        None => say!("{name}: {found}"),
    }
    Ok(errors == 0)
}

/// A network, and what its schedule makes of its links.
pub(crate) struct Checked {
    pub(crate) network: Network,
    directions: Vec<Direction>,
}

impl Checked {
    /// The time-triggered flows.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.network.flows.iter().filter(|flow| flow.is_time_triggered())
    }

    pub(crate) fn node(&self, node: usize) -> &str {
        &self.network.nodes[node].name
    }

    pub(crate) fn link(&self, link: usize) -> &str {
        &self.network.links[link].name
    }

    /// Each flow with its hops and when it leaves over them. None if the description contradicts itself.
    fn hops(&self) -> impl Iterator<Item = (&Flow, &Hop, Departure)> {
        let flows = self.flows().filter(|_| !self.directions.is_empty());
        flows.flat_map(|flow| {
            let departures = departures(&self.network, flow);
            flow.hops.iter().zip(departures).map(move |(hop, departure)| (flow, hop, departure))
        })
    }

    fn json(&self) -> Result<String, String> {
        let directions = lines(self.directions.iter().map(|it| (self, it)))?;
        let instants = self.hops().map(|(flow, hop, departure)| (self, flow, hop, departure));
        Ok(directions + &lines(instants)?)
    }

    /// A table of the directions.
    fn links(&self) -> String {
        let cycle = self.network.cycle;
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        Table::of(&self.directions)
            .column("link", |it| self.link(it.link).to_owned())
            .column("from", |it| self.node(it.from).to_owned())
            .column("to", |it| self.node(it.to).to_owned())
            .column(">tt frames", |it| it.frames(cycle).to_string())
            .column(">tt", |it| percent(it.load.tt))
            .column(">rc", |it| percent(it.load.rc))
            .column(">be", |it| percent(it.load.be))
            .column(">longest gap", |it| {
                it.longest_gap(cycle).map_or_else(|| "unknown".into(), |gap| gap.to_string())
            })
            .text()
    }

    /// A table of the instants.
    fn instants(&self) -> String {
        let at = |departure| instant(departure).map_or_else(|| "none".into(), |at| at.to_string());
        Table::of(self.hops())
            .column("flow", |(flow, ..)| flow.name.clone())
            .column(">period", |(flow, ..)| flow.period().unwrap_or_default().to_string())
            .column("link", |(_, hop, _)| self.link(hop.link).to_owned())
            .column("from", |(_, hop, _)| self.node(hop.from).to_owned())
            .column("to", |(_, hop, _)| self.node(hop.to).to_owned())
            .column(">instant", |(.., departure)| at(*departure))
            .text()
    }
}

/// The instant at which a frame leaves, if one holds.
pub(crate) fn instant(departure: Departure) -> Option<Nanos> {
    departure.most?;
    u64::try_from(departure.at).ok().map(Nanos::from_nanos)
}

//! `candor network infer`: a network file out of recordings, with how densely each message was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use candor_config::{quoted, quoted_key};
use candor_diagnostics::{Findings, counted, visible};
use candor_network::show_id;
use candor_network::watched::Seen;
use candor_rules::file::disk;
use candor_signals::Database;
use candor_time::Nanos;
use candor_wire::can::Bitrate;
use clap::Args;

use super::drive::{Drive, Form, Message};
use crate::Answer;
use crate::color;
use crate::log::{InputArgs, SortArgs};
use crate::output::{duration, print};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The recordings, of the same buses; - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The bit rate of the buses, such as 500k; no recording says it
    #[arg(long, value_name = "RATE")]
    bitrate: Bitrate,
    /// The bit rate of the data phase of CAN FD, such as 2M; default: the same as --bitrate
    #[arg(long, value_name = "RATE")]
    data_bitrate: Option<Bitrate>,
    /// The DBC file that names messages and their senders
    #[arg(long, value_name = "FILE")]
    dbc: Option<PathBuf>,
    #[command(flatten)]
    sorting: SortArgs,
    #[command(flatten)]
    input: InputArgs,
}

/// The shortest period that a network file may have, in ns.
const SHORTEST_PERIOD_NS: u64 = 10_000;

pub(super) fn run(args: &Arguments) -> Answer {
    let database = match &args.dbc {
        None => None,
        Some(path) => {
            let name = path.display().to_string();
            let bytes =
                disk::read(path, disk::MOST_BYTES).map_err(|reason| format!("{name}: {reason}"))?;
            let findings = Findings::new();
            let database = Database::parse(&name, &bytes, &findings);
            color::eprint_findings(&findings);
            let Some(database) = database else { return Ok(false) };
            Some(database)
        }
    };
    let mut drive = Drive::default();
    for file in &args.files {
        drive.add(args.sorting.sort(args.input.open(file)?), file)?;
    }
    if drive.frames == 0 {
        return Err("no recording has a frame of CAN; record with `candor bus record`".into());
    }
    print(&text(&drive, args, database.as_ref()))?;
    Ok(drive.is_whole)
}

/// The network file.
fn text(drive: &Drive, args: &Arguments, database: Option<&Database>) -> String {
    let longest_ns = drive.longest_ns();
    let files: Vec<_> = args.files.iter().map(|it| it.display().to_string()).collect();
    let lasted: Vec<_> = drive.lengths_ns.iter().map(|&ns| duration(ns as f64)).collect();
    let mut text = format!(
        "# {}, of {} in {}.\n#\n\
             # Periods, jitters and distances are as seen at the ends of frames; the bit rate is as given. What was not sent\n\
             # meanwhile is not here, frames may come closer than they did here, and who sends what is known only from a DBC\n\
             # file: all others are one node for each bus.\n\ntitle = {}\n",
        counted(drive.frames, "frame"),
        counted(drive.messages.len() as u64, "message"),
        lasted.join(" and "),
        quoted(&files.join(", ")),
    );
    let buses: BTreeSet<_> = drive.messages.keys().map(|(bus, _)| bus).collect();
    let is_one = buses.len() == 1;
    let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut messages = String::new();
    for ((bus, can_id), message) in &drive.messages {
        let seen = message.watched.seen(longest_ns);
        let known = database.zip(message.id).and_then(|(it, id)| it.message_with(id));
        let sender = known.and_then(|it| it.sender.as_deref()).unwrap_or("others");
        // A node is on one bus.
        let sender = if is_one { sender.to_owned() } else { format!("{sender} on {bus}") };
        let of_bus = nodes.entry(bus).or_default();
        if !of_bus.contains(&sender) {
            of_bus.push(sender.clone());
        }
        messages += &listed(*can_id, known.map(|it| it.name.as_str()), &sender, message, &seen);
    }
    for bus in nodes.keys() {
        text += &format!("\n[bus.{}]\nbitrate = \"{}\"\n", quoted_key(bus), args.bitrate);
        let is_fd =
            drive.messages.iter().any(|((on, _), it)| on == bus && it.form != Form::Classical);
        if is_fd {
            text += &format!("data_bitrate = \"{}\"\n", args.data_bitrate.unwrap_or(args.bitrate));
        }
    }
    text += "\n[nodes]\n";
    for (bus, nodes) in nodes {
        let nodes: Vec<_> = nodes.iter().map(|node| quoted(node)).collect();
        text += &format!("{} = [{}]\n", quoted_key(bus), nodes.join(", "));
    }
    text + &messages
}

/// A message of a network file.
fn listed(can_id: u32, name: Option<&str>, node: &str, message: &Message, seen: &Seen) -> String {
    let time = |ns: u64| format!("\"{}\"", Nanos::from_nanos(ns));
    let period_ns = seen.period_ns.max(SHORTEST_PERIOD_NS);
    let distances: Vec<_> = seen.distances_ns.iter().map(|&it| time(it)).collect();
    let mut text = format!("\n[[message]]  # {}\n", counted(seen.frames, "frame"));
    if let Some(name) = name {
        text += &format!("name = {}\n", quoted(&visible(name)));
    }
    text += &format!(
        "id = \"{}\"\nnode = {}\nlength = {}\n",
        show_id(can_id),
        quoted(node),
        message.length
    );
    if message.min_length < message.length {
        text += &format!("min_length = {}\n", message.min_length);
    }
    text += match message.form {
        Form::Classical => "",
        Form::Fd => "fd = true\n",
        Form::Slow => "fd = true\nbrs = false\n",
    };
    text + &format!(
        "period = {}\njitter = {}\ndistances = [{}]\n",
        time(period_ns),
        time(seen.jitter_ns),
        distances.join(", ")
    )
}

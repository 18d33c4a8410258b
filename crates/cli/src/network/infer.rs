//! `candor network infer`: a network file out of recordings, with how densely each message was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candor_config::{quoted, quoted_key};
use candor_diagnostics::{Findings, counted, visible};
use candor_network::show_id;
use candor_network::watched::{Seen, Watched};
use candor_output::say;
use candor_recording::Recording;
use candor_rules::file::disk;
use candor_signals::Database;
use candor_time::Nanos;
use candor_wire::can::frame::id_word;
use candor_wire::can::{Bitrate, Frame, Id, Kind};
use clap::Args;

use crate::Answer;
use crate::color;
use crate::log::{InputArgs, Progress, SortArgs, explain_malformed, report_skipped};
use crate::output::{duration, print};
use crate::reading::is_sound;

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
/// A silence of all buses that is worth a note, in ns.
const LONG_SILENCE_NS: u64 = 1_000_000_000;

/// What was seen of a message.
#[derive(Default)]
struct Message {
    id: Option<Id>,
    length: usize,
    is_fd: bool,
    watched: Watched,
}

/// What was seen in all recordings.
#[derive(Default)]
struct Drive {
    /// By bus and identifier word.
    messages: BTreeMap<(String, u32), Message>,
    frames: u64,
    /// How long each recording is, in ns.
    lengths_ns: Vec<u64>,
    error_reports: u64,
}

pub(super) fn run(args: &Arguments) -> Answer {
    let database = match &args.dbc {
        None => None,
        Some(path) => {
            let bytes = disk::read(path, disk::MOST_BYTES)?;
            let findings = Findings::new();
            let database = Database::parse(&path.display().to_string(), &bytes, &findings);
            color::eprint_findings(&findings);
            let Some(database) = database else { return Ok(false) };
            Some(database)
        }
    };
    let mut drive = Drive::default();
    let mut is_whole = true;
    for file in &args.files {
        let mut recording = args.sorting.sort(args.input.open(file)?);
        drive.add(&mut recording, file)?;
        report_skipped(&recording);
        is_whole &= is_sound(&recording);
    }
    if drive.frames == 0 {
        return Err("no recording has a frame of CAN; record with `candor bus record`".into());
    }
    if drive.error_reports > 0 {
        let reports = counted(drive.error_reports, "error report");
        say!("note: {reports}: frames that were sent again because of errors look like early ones");
    }
    print(&drive.text(args, database.as_ref()))?;
    Ok(is_whole)
}

impl Drive {
    /// Adds the frames of a recording.
    fn add(&mut self, recording: &mut Recording, file: &Path) -> Result<(), String> {
        let progress = Progress::new(recording, true);
        let mut span_ns: Option<(u64, u64)> = None;
        // How many, the longest, and when that ended.
        let mut silences = (0, 0, 0);
        let mut records = 0;
        while let Some(entry) = recording.next() {
            let record = entry.map_err(|error| explain_malformed(error, records, file))?;
            records += 1;
            progress.show(recording, records);
            let time_ns = record.time_ns;
            let (first_ns, last_ns) = span_ns.unwrap_or((time_ns, time_ns));
            let Some(silence_ns) = time_ns.checked_sub(last_ns) else {
                let back = duration((last_ns - time_ns) as f64);
                let file = file.display();
                return Err(format!(
                    "{file}: record {records} is {back} before the one before it: how far frames are apart would be \
                     wrong; put them in order with --sort"
                ));
            };
            if silence_ns >= LONG_SILENCE_NS {
                silences.0 += 1;
                if silence_ns > silences.1 {
                    (silences.1, silences.2) = (silence_ns, time_ns - first_ns);
                }
            }
            span_ns = Some((first_ns, time_ns));
            if record.frame.kind() == Kind::Error {
                self.error_reports += 1;
                continue;
            }
            self.frames += 1;
            let bus = recording.interfaces().name(record.interface);
            self.see(bus, &record.frame, time_ns);
        }
        progress.clear();
        if let (count @ 1.., longest_ns, until_ns) = silences {
            let [longest, until] = [longest_ns, until_ns].map(|ns| duration(ns as f64));
            say!(
                "note: {}: {} of {} and more, the longest {longest} until {until}; if frames are missing there, \
                 periods are too long",
                file.display(),
                counted(count, "silence"),
                duration(LONG_SILENCE_NS as f64)
            );
        }
        self.messages.values_mut().for_each(|it| it.watched.end());
        self.lengths_ns.push(span_ns.map_or(0, |(first_ns, last_ns)| last_ns - first_ns));
        Ok(())
    }

    fn see(&mut self, bus: &str, frame: &Frame, time_ns: u64) {
        let message = self.messages.entry((bus.to_owned(), id_word(frame.id()))).or_default();
        message.id = Some(frame.id());
        message.length = message.length.max(frame.data().len());
        message.is_fd |= frame.is_fd();
        message.watched.add(time_ns);
    }

    /// The network file.
    fn text(&self, args: &Arguments, database: Option<&Database>) -> String {
        let longest_ns = self.lengths_ns.iter().copied().max().unwrap_or(0);
        let files: Vec<_> = args.files.iter().map(|it| it.display().to_string()).collect();
        let lasted: Vec<_> = self.lengths_ns.iter().map(|&ns| duration(ns as f64)).collect();
        let mut text = format!(
            "# {}, of {} in {}.\n#\n\
             # Periods, jitters and distances are as seen at the ends of frames; the bit rate is as given. What was not sent\n\
             # meanwhile is not here, frames may come closer than they did here, and who sends what is known only from a DBC\n\
             # file: all others are one node for each bus.\n\ntitle = {}\n",
            counted(self.frames, "frame"),
            counted(self.messages.len() as u64, "message"),
            lasted.join(" and "),
            quoted(&files.join(", ")),
        );
        let buses: BTreeSet<_> = self.messages.keys().map(|(bus, _)| bus).collect();
        let is_one = buses.len() == 1;
        let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut messages = String::new();
        for ((bus, can_id), message) in &self.messages {
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
            let is_fd = self.messages.iter().any(|((on, _), it)| on == bus && it.is_fd);
            if is_fd {
                text +=
                    &format!("data_bitrate = \"{}\"\n", args.data_bitrate.unwrap_or(args.bitrate));
            }
        }
        text += "\n[nodes]\n";
        for (bus, nodes) in nodes {
            let nodes: Vec<_> = nodes.iter().map(|node| quoted(node)).collect();
            text += &format!("{} = [{}]\n", quoted_key(bus), nodes.join(", "));
        }
        text + &messages
    }
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
    if message.is_fd {
        text += "fd = true\n";
    }
    text + &format!(
        "period = {}\njitter = {}\ndistances = [{}]\n",
        time(period_ns),
        time(seen.jitter_ns),
        distances.join(", ")
    )
}

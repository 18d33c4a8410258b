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
use candor_wire::can::frame::{BRS, id_word};
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
/// A silence of a bus that is worth a note, in ns.
const LONG_SILENCE_NS: u64 = 1_000_000_000;

/// What was seen of a message.
#[derive(Default)]
struct Message {
    id: Option<Id>,
    length: usize,
    min_length: usize,
    form: Form,
    watched: Watched,
}

/// What a network file says of all frames of a message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Classical,
    Fd,
    /// CAN FD without a switch of the bit rate.
    Slow,
}

impl Form {
    fn of(frame: &Frame) -> Self {
        match frame.is_fd() {
            false => Self::Classical,
            true if frame.fd_flags() & BRS != 0 => Self::Fd,
            true => Self::Slow,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Classical => "a classical frame",
            Self::Fd => "a CAN FD frame",
            Self::Slow => "a CAN FD frame without a switch of the bit rate",
        }
    }
}

/// Long times without a frame of a bus.
struct Silences {
    last_ns: u64,
    count: u64,
    longest_ns: u64,
    /// When the longest ended.
    until_ns: u64,
}

impl Silences {
    const fn new(from_ns: u64) -> Self {
        Self { last_ns: from_ns, count: 0, longest_ns: 0, until_ns: 0 }
    }

    fn heard(&mut self, time_ns: u64) {
        let silence_ns = time_ns - self.last_ns;
        self.last_ns = time_ns;
        if silence_ns >= LONG_SILENCE_NS {
            self.count += 1;
        }
        if silence_ns > self.longest_ns {
            (self.longest_ns, self.until_ns) = (silence_ns, time_ns);
        }
    }

    fn tell(&self, place: &str, first_ns: u64) {
        if self.count > 0 {
            let [longest, until] =
                [self.longest_ns, self.until_ns - first_ns].map(|ns| duration(ns as f64));
            say!(
                "note: {place}: {} of {} and more, the longest {longest} until {until}; if frames are missing there, they \
                 are not in the distances",
                counted(self.count, "silence"),
                duration(LONG_SILENCE_NS as f64)
            );
        }
    }
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
        let mut silences = BTreeMap::new();
        let mut records = 0;
        while let Some(entry) = recording.next() {
            let record = entry.map_err(|error| explain_malformed(error, records, file))?;
            records += 1;
            progress.show(recording, records);
            let time_ns = record.time_ns;
            let (first_ns, last_ns) = span_ns.unwrap_or((time_ns, time_ns));
            if time_ns < last_ns {
                let back = duration((last_ns - time_ns) as f64);
                let file = file.display();
                return Err(format!(
                    "{file}: record {records} is {back} before the one before it: how far frames are apart would be \
                     wrong; put them in order with --sort"
                ));
            }
            span_ns = Some((first_ns, time_ns));
            if record.frame.kind() == Kind::Error {
                self.error_reports += 1;
                continue;
            }
            self.frames += 1;
            let bus = recording.interfaces().name(record.interface);
            if !silences.contains_key(bus) {
                silences.insert(bus.to_owned(), Silences::new(first_ns));
            }
            if let Some(of_bus) = silences.get_mut(bus) {
                of_bus.heard(time_ns);
            }
            self.see(bus, &record.frame, time_ns)
                .map_err(|reason| format!("{}: record {records}: {reason}", file.display()))?;
        }
        progress.clear();
        let (first_ns, last_ns) = span_ns.unwrap_or_default();
        for (bus, mut silences) in silences {
            silences.heard(last_ns);
            silences.tell(&format!("{}: {bus}", file.display()), first_ns);
        }
        self.messages.values_mut().for_each(|it| it.watched.end());
        self.lengths_ns.push(span_ns.map_or(0, |(first_ns, last_ns)| last_ns - first_ns));
        Ok(())
    }

    /// Takes a frame in. A message has one form: a network file has no place for two.
    fn see(&mut self, bus: &str, frame: &Frame, time_ns: u64) -> Result<(), String> {
        let (length, form) = (frame.data().len(), Form::of(frame));
        let message = self.messages.entry((bus.to_owned(), id_word(frame.id()))).or_default();
        if message.id.is_none() {
            *message = Message {
                id: Some(frame.id()),
                length,
                min_length: length,
                form,
                ..Message::default()
            };
        }
        if message.form != form {
            return Err(format!(
                "{} on {bus} is {} here, and was {} before: a network file has one kind of frame for a message; cut the \
                 recording there with `candor log cut`",
                show_id(id_word(frame.id())),
                form.name(),
                message.form.name()
            ));
        }
        message.length = message.length.max(length);
        message.min_length = message.min_length.min(length);
        message.watched.add(time_ns);
        Ok(())
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
            let is_fd =
                self.messages.iter().any(|((on, _), it)| on == bus && it.form != Form::Classical);
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

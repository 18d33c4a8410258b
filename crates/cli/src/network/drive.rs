//! [`Drive`]: what recordings say of the messages of their buses.

use std::collections::BTreeMap;
use std::path::Path;

use candor_diagnostics::counted;
use candor_network::show_id;
use candor_network::watched::Watched;
use candor_output::say;
use candor_recording::Recording;
use candor_wire::can::frame::{BRS, id_word};
use candor_wire::can::{Frame, Id, Kind};

use crate::log::{Progress, explain_malformed, report_skipped};
use crate::output::duration;
use crate::reading::is_sound;

/// A silence of a bus that is worth a note, in ns.
const LONG_SILENCE_NS: u64 = 1_000_000_000;

/// What was seen of a message.
#[derive(Default)]
pub(super) struct Message {
    pub(super) id: Option<Id>,
    pub(super) length: usize,
    pub(super) min_length: usize,
    pub(super) form: Form,
    pub(super) watched: Watched,
}

/// What a network file says of all frames of a message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Form {
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

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Classical => "a classical frame",
            Self::Fd => "a CAN FD frame",
            Self::Slow => "a CAN FD frame without a switch of the bit rate",
        }
    }
}

/// Long times without a frame of a bus.
struct BusSilences {
    last_ns: u64,
    count: u64,
    longest_ns: u64,
    /// When the longest ended.
    until_ns: u64,
}

impl BusSilences {
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
pub(super) struct Drive {
    /// By bus and identifier word.
    pub(super) messages: BTreeMap<(String, u32), Message>,
    pub(super) frames: u64,
    /// How long each recording is, in ns.
    pub(super) lengths_ns: Vec<u64>,
    /// Whether all checksums that come last have confirmed it.
    pub(super) is_whole: bool,
}

impl Default for Drive {
    fn default() -> Self {
        Self { messages: BTreeMap::new(), frames: 0, lengths_ns: Vec::new(), is_whole: true }
    }
}

impl Drive {
    /// How long the longest recording is, in ns.
    pub(super) fn longest_ns(&self) -> u64 {
        self.lengths_ns.iter().copied().max().unwrap_or(0)
    }

    /// Adds the frames of a recording, and says what may be wrong with it.
    pub(super) fn add(&mut self, mut recording: Recording, file: &Path) -> Result<(), String> {
        let recording = &mut recording;
        let progress = Progress::new(recording, true);
        let mut error_reports = 0_u64;
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
                     wrong; put them in order with --sort, which `candor log convert` has, too"
                ));
            }
            span_ns = Some((first_ns, time_ns));
            if record.frame.kind() == Kind::Error {
                error_reports += 1;
                continue;
            }
            self.frames += 1;
            let bus = recording.interfaces().name(record.interface);
            if !silences.contains_key(bus) {
                silences.insert(bus.to_owned(), BusSilences::new(first_ns));
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
        if error_reports > 0 {
            say!(
                "note: {}: {}: frames that were sent again because of errors look like early ones",
                file.display(),
                counted(error_reports, "error report")
            );
        }
        report_skipped(recording);
        self.is_whole &= is_sound(recording);
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
}

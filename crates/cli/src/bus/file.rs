//! [`LogFile`]: a recording that grows, for `record` and `dump --log`.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use candor_bus::capture::Captured;
use candor_linux::clock;
use candor_output::Target;
use candor_port::Origin;
use candor_recording::{Direction, Encoder, Format, InterfaceIndex, Labels, Record};
use candor_time::{Instant, Monotonic, Nanos};

use super::json::Recording;
use crate::overwrite::Overwriting;

/// A recording that grows.
pub(super) struct LogFile {
    name: String,
    format: &'static Format,
    target: Target,
    encoder: Box<dyn Encoder>,
    buffer: Vec<u8>,
    /// Where in the buffer a record ends, and its port, or what stands before all of them.
    ends: Vec<(usize, Option<usize>)>,
    nanoseconds: bool,
    written: u64,
    /// Of each port.
    frames: Vec<u64>,
    /// When the buffer is written at the latest.
    due: Instant<Monotonic>,
}

/// The format of the logs of candump.
const CANDUMP: &str = "candump";
/// How much is written at once.
const BUFFER_LEN: usize = 64 << 10;
/// How long records are kept back.
const KEPT_BACK: Nanos = Nanos::from_millis(500);

impl LogFile {
    /// Creates a file for frames of so many ports.
    pub(super) fn create(
        path: &Path,
        ports: usize,
        nanoseconds: bool,
        overwriting: Overwriting,
    ) -> Result<Self, String> {
        let name = path.display().to_string();
        let format = candor_recording::growing_format_of_name(&name);
        let format = format.map_err(|error| error.to_string())?;
        if ports > 1 && format.labels == Labels::None {
            return Err(format!(
                "{name}: a {} holds only one interface; use .log or .pcapng for several ports",
                format.title
            ));
        }
        let target = overwriting.target(path)?;
        let mut buffer = Vec::with_capacity(2 * BUFFER_LEN);
        let encoder = format.encoder(&mut buffer);
        let due = clock::now::<Monotonic>() + KEPT_BACK;
        let nanoseconds = nanoseconds || format.name != CANDUMP;
        let ends = vec![(buffer.len(), None)];
        let (written, frames) = (0, vec![0; ports]);
        Ok(Self { name, format, target, encoder, buffer, ends, nanoseconds, written, frames, due })
    }

    /// How many bytes the recording has so far.
    pub(super) const fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// How many frames of each port the recording has so far.
    pub(super) fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// Appends a frame that a port of this title received.
    pub(super) fn write(&mut self, captured: &Captured, title: &str) -> Result<(), String> {
        let direction = match captured.received.origin {
            Origin::Bus => Direction::Received,
            Origin::Machine | Origin::Own => Direction::Transmitted,
        };
        // Logs of candump tell directions only on request, and not every reader knows them.
        let direction = Some(direction).filter(|_| self.format.name != CANDUMP);
        self.encoder
            .encode(&record(captured, direction, self.nanoseconds), title, &mut self.buffer)
            .map_err(|error| format!("{}: {error}", self.name))?;
        self.frames[captured.port] += 1;
        self.ends.push((self.buffer.len(), Some(captured.port)));
        if self.buffer.len() >= BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Writes what has waited long enough.
    pub(super) fn pause(&mut self) -> Result<(), String> {
        let now = clock::now::<Monotonic>();
        if self.buffer.is_empty() || now < self.due {
            return Ok(());
        }
        self.due = now + KEPT_BACK;
        self.flush()
    }

    /// Writes what has been kept back. Of what does not fit, nothing stays: the recording is whole up to there.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        let mut done = 0;
        let outcome = loop {
            match self.target.write(&self.buffer[done..]) {
                _ if done == self.buffer.len() => break Ok(()),
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if outcome.is_err() {
            let whole = self.ends.partition_point(|(end, _)| *end <= done);
            for port in self.ends.drain(whole..).filter_map(|(_, port)| port) {
                self.frames[port] -= 1;
            }
            done = self.ends.last().map_or(0, |(end, _)| *end);
            let _ = self.target.truncate(self.written + done as u64);
        }
        self.written += done as u64;
        self.buffer.clear();
        self.ends.clear();
        outcome.map_err(|error: io::Error| failure(&self.name, &error))
    }

    /// Writes the rest and puts the file in its place.
    pub(super) fn finish(mut self) -> Result<Recording, String> {
        let _ = self.encoder.finish(&mut self.buffer);
        self.ends.push((self.buffer.len(), None));
        self.flush()?;
        let Self { name, format, target, written, frames, .. } = self;
        target.finish().map_err(|error| failure(&name, &error))?;
        Ok(Recording { file: name, format, frames: frames.iter().sum(), bytes: written })
    }
}

/// A frame as a record of a log.
pub(super) fn record(
    captured: &Captured,
    direction: Option<Direction>,
    nanoseconds: bool,
) -> Record {
    let time_ns = captured.time.as_nanos();
    Record {
        time_ns: if nanoseconds { time_ns } else { time_ns / 1_000 * 1_000 },
        interface: InterfaceIndex(0), // encoders go by the name
        direction,
        frame: captured.received.frame,
    }
}

fn failure(name: &str, error: &io::Error) -> String {
    let remedy = candor_recording::remedy(error, "check the path, its permissions and the disk");
    format!("{name}: cannot be written: {error}; {remedy}")
}

//! [`Sink`]: a recording being written, to whatever takes bytes.

use std::io::Write;

use crate::compression::Compression;
use crate::decode::MAX_RECORD_LEN;
use crate::encode::Encoder;
use crate::error::{Problem, RecordingError};
use crate::format::{Format, Labels, error_report, renamed};
use crate::record::{AnyRecord, Record};
use candor_wire::can::Kind;

/// How much the buffer holds: it is written when it has [`MAX_RECORD_LEN`] bytes, and a record has as many at
/// most.
const BUFFER_LEN: usize = 2 * MAX_RECORD_LEN;

/// The format of a recording that is to be written: the one of its name.
///
/// # Errors
/// The ending of the name stands for none.
pub fn format_of_name(name: &str) -> Result<&'static Format, RecordingError> {
    Format::written_by_file_name(name)
        .ok_or_else(|| RecordingError::new(name, Problem::UnknownEnding))
}

/// As [`format_of_name`], for a recording that grows while it is used: what was recorded is in the file, and not only when it ends.
///
/// # Errors
/// The ending of the name stands for no format, or several records are compressed at once.
pub fn growing_format_of_name(name: &str) -> Result<&'static Format, RecordingError> {
    let format = format_of_name(name)?;
    let compressed = match Compression::of_file_name(name) {
        (_, Some(compression)) => Some(format!("what is compressed with {compression}")),
        (_, None) => (!format.grows_by_record).then(|| format!("a {}", format.title)),
    };
    match compressed {
        None => Ok(format),
        Some(what) => Err(RecordingError::new(name, Problem::NotGrowing(what))),
    }
}

/// A recording being written to `W`. What is left in the buffer is lost unless [`Sink::flush`] is
/// called.
pub struct Sink<W> {
    name: String,
    format: &'static Format,
    out: W,
    encoder: Box<dyn Encoder>,
    pub(crate) buffer: Vec<u8>,
    /// The interfaces that were written, in the order in which they came, if the format numbers them.
    names: Vec<String>,
    /// The error reports of which the format keeps that there was an error.
    error_reports: u64,
}

impl<W: Write> Sink<W> {
    /// Writes a recording to `out`, which errors call `name`.
    #[must_use]
    pub fn new(name: &str, out: W, format: &'static Format) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER_LEN);
        let encoder = format.encoder(&mut buffer);
        Self {
            name: name.to_owned(),
            format,
            out,
            encoder,
            buffer,
            names: Vec::new(),
            error_reports: 0,
        }
    }

    /// The format it is in.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Appends a record, seen on the interface of that name.
    ///
    /// # Errors
    /// The format cannot hold the record, or it cannot be written.
    pub fn write(&mut self, record: &Record, interface: &str) -> Result<(), RecordingError> {
        self.write_any(&AnyRecord::Can(*record), interface)
    }

    /// Appends a record of either kind, seen on the interface of that name.
    ///
    /// # Errors
    /// As [`Sink::write`].
    pub fn write_any(
        &mut self,
        record: &AnyRecord<'_>,
        interface: &str,
    ) -> Result<(), RecordingError> {
        let encoder = &mut self.encoder;
        match record {
            AnyRecord::Can(record) => encoder.encode(record, interface, &mut self.buffer),
            AnyRecord::Ethernet(record) => {
                encoder.encode_ethernet(record, interface, &mut self.buffer)
            }
        }
        .map_err(|error| RecordingError::new(&self.name, Problem::Unfit(error)))?;
        self.note_losses(record, interface);
        if self.buffer.len() >= MAX_RECORD_LEN { self.flush() } else { Ok(()) }
    }

    fn note_losses(&mut self, record: &AnyRecord<'_>, interface: &str) {
        let is_new = || !self.names.iter().any(|known| known == interface);
        if self.format.labels == Labels::Numbers && is_new() {
            self.names.push(interface.to_owned());
        }
        if let AnyRecord::Can(Record { frame, .. }) = record
            && frame.kind() == Kind::Error
            && !self.format.keeps_error_reports
        {
            let says_more = error_report().is_ok_and(|plain| plain != *frame);
            self.error_reports += u64::from(says_more);
        }
    }

    /// What the format did not keep of the records so far, in words: other names of interfaces than those by which they are read again, and what
    /// error reports say.
    pub fn losses(&self) -> impl Iterator<Item = String> {
        let renamed: Vec<_> = renamed(&self.names)
            .map(|(name, is_now)| format!("{name} is {is_now} there"))
            .collect();
        let names = format!("names of interfaces ({})", renamed.join(", "));
        let reports = format!(
            "what error reports say beyond that there was an error (error reports: {})",
            self.error_reports
        );
        [(!renamed.is_empty(), names), (self.error_reports > 0, reports)]
            .into_iter()
            .filter_map(|(is_lost, words)| is_lost.then_some(words))
    }

    /// Writes what is in the buffer.
    ///
    /// # Errors
    /// It cannot be written. The buffer is empty then too.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        written.map_err(|error| RecordingError::unwritable(&self.name, error))
    }

    /// When the measurement began, in nanoseconds since 1970, for formats that keep it; to be said before the first record.
    pub fn start(&mut self, start_ns: u64) {
        self.encoder.start(start_ns);
    }

    /// Writes what is left and gives back what it was written to, and what is to take the place of its first bytes, if anything
    /// is and `W` can go back.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<(W, Option<Vec<u8>>), RecordingError> {
        let head = self.encoder.finish(&mut self.buffer);
        self.flush()?;
        Ok((self.out, head))
    }
}

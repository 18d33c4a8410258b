//! [`Recording`]: a recording being read, from a file or a pipe.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::can_udp::CanUdp;
use crate::compression::Compression;
use crate::decode::{DecodeError, Decoder, PassedOver, ReadError, Step};
use crate::error::{Problem, RecordingError};
use crate::format::{FORMATS, Format};
use crate::input::Input;
use crate::record::{AnyRecord, EitherRecord, Interfaces, PacketSpan, Record};
use crate::sort::{Sorted, Sorter};

/// How much is read at most to find out the format.
const HEAD_LEN: usize = 4_096;

/// Opens the recording in the file `path`, or on standard input if that is `-`.
///
/// The format is the given one, else the one the contents begin like, else that of the file name, unless no line of a text is a frame
/// of it.
///
/// # Errors
/// The file cannot be read, or is of no known format.
pub fn open(path: &Path, format: Option<&'static Format>) -> Result<Recording, RecordingError> {
    if path.as_os_str() == "-" {
        return Recording::new("standard input", io::stdin(), format);
    }
    open_file(path, File::open(path), format)
}

/// The same of a file that was opened, or not, at `path`.
///
/// # Errors
/// As for [`open`].
pub fn open_file(
    path: &Path,
    file: io::Result<File>,
    format: Option<&'static Format>,
) -> Result<Recording, RecordingError> {
    let name = path.display().to_string();
    let file = file.map_err(|error| RecordingError::io(&name, "cannot be read", error))?;
    open_through(path, file, format, |file| file)
}

/// The same of a file that is read through what `source` makes of it, such as a reader that can be interrupted. What is sought in is
/// read as it is.
///
/// # Errors
/// As for [`open`].
pub fn open_through<R: Read + Send + 'static>(
    path: &Path,
    file: File,
    format: Option<&'static Format>,
    source: impl FnOnce(File) -> R,
) -> Result<Recording, RecordingError> {
    let name = path.display().to_string();
    let fail = |error| RecordingError::io(&name, "cannot be read", error);
    let len = file.metadata().map_err(fail)?.len();
    let is_regular = file.metadata().is_ok_and(|it| it.is_file());
    let again = file.try_clone().map_err(fail)?;
    let mut input = Input::new(source(file));
    if is_regular {
        input = input.with_file(again);
    }
    let mut recording = Recording::of(&name, input, format)?;
    recording.len_bytes = (len > 0).then_some(len);
    Ok(recording)
}

/// A recording being read: an iterator over its CAN frames. [`Recording::next_any`] gives its Ethernet frames,
/// too.
///
/// After an error that is not passed over the iteration is over, unless its source was only not ready
/// ([`RecordingError::is_pause`]).
pub struct Recording {
    name: String,
    input: Input,
    len_bytes: Option<u64>,
    format: &'static Format,
    decoder: Box<dyn Decoder>,
    is_over: bool,
    skips_malformed: bool,
    ends_at_malformed: bool,
    skipped: Skipped,
    /// Ethernet frames that nobody asked for.
    ethernet_frames: u64,
    cut: Option<RecordingError>,
    unverified: Option<u64>,
    sorter: Option<Sorter<RecordingError>>,
}

/// What [`Recording::step`] found.
pub(crate) type Found = EitherRecord<PacketSpan>;

/// A record of either kind with the name of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name of the interface that it was seen on.
    pub interface: &'a str,
    /// The record.
    pub record: AnyRecord<'a>,
    /// When the measurement began, in nanoseconds since 1970, if the recording has said so.
    pub start_ns: Option<u64>,
}

/// Malformed records that were passed over on request.
#[derive(Debug, Default)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Option<RecordingError>,
    /// The last of them, if nothing behind it was read since nobody knows where the next record begins.
    pub end: Option<RecordingError>,
}

impl Recording {
    /// Reads a recording from `source`, which errors call `name`; the format as for [`open`].
    ///
    /// # Errors
    /// The source cannot be read, or is of no known format.
    pub fn new(
        name: &str,
        source: impl Read + Send + 'static,
        format: Option<&'static Format>,
    ) -> Result<Self, RecordingError> {
        Self::of(name, Input::new(source), format)
    }

    pub(crate) fn of(
        name: &str,
        input: Input,
        format: Option<&'static Format>,
    ) -> Result<Self, RecordingError> {
        let mut recording = Self {
            name: name.to_owned(),
            input,
            len_bytes: None,
            // Replaced below.
            format: FORMATS[0],
            decoder: FORMATS[0].decoder(),
            is_over: false,
            skips_malformed: false,
            ends_at_malformed: false,
            skipped: Skipped::default(),
            ethernet_frames: 0,
            cut: None,
            unverified: None,
            sorter: None,
        };
        let decompressed = recording.input.decompress();
        if let Err(again) = decompressed.map_err(|error| recording.unreadable(error))? {
            return Err(recording.problem(Problem::Twice(again)));
        }
        recording.format = match format {
            Some(format) => format,
            None => recording.find_format()?,
        };
        recording.decoder = recording.format.decoder();
        Ok(recording)
    }

    /// Passes over malformed records as long as their end can be found, and counts them.
    #[must_use]
    pub fn skip_malformed(mut self, skips_malformed: bool) -> Self {
        self.skips_malformed = skips_malformed;
        self
    }

    /// Ends the reading, instead of with an error, where a malformed record cannot be passed over and others came before it:
    /// see [`Skipped::end`].
    #[must_use]
    pub fn end_at_malformed(mut self, ends_at_malformed: bool) -> Self {
        self.ends_at_malformed = ends_at_malformed;
        self
    }

    /// Puts records in order of time, within a window of so many that wait for earlier ones; see [`SORT_WINDOW`](crate::SORT_WINDOW).
    #[must_use]
    pub fn sort(mut self, window: Option<usize>) -> Self {
        self.sorter = window.map(Sorter::new);
        self
    }

    /// Calls `look` each time before more is read, which may so be interrupted: an error of the kind
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) is a pause.
    #[must_use]
    pub fn before_reading(mut self, look: impl FnMut() -> io::Result<()> + Send + 'static) -> Self {
        self.input.before_reading = Some(Box::new(look));
        self
    }

    /// Reads CAN frames of can2udp from Ethernet frames to this UDP port, or from none. To be called before a record
    /// is read.
    #[must_use]
    pub fn can_udp(mut self, can_udp: CanUdp) -> Self {
        self.decoder = self.format.decoder_with(can_udp);
        self
    }

    /// The format it is in.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The interfaces seen so far.
    #[must_use]
    pub fn interfaces(&self) -> &Interfaces {
        self.decoder.interfaces()
    }

    /// What was passed over so far because it is no frame, or none of those asked for.
    #[must_use]
    pub fn passed_over(&self) -> PassedOver {
        PassedOver { ethernet_frames: self.ethernet_frames, ..self.decoder.passed_over() }
    }

    /// What was passed over so far because it is malformed.
    #[must_use]
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Where the file ends inside a record, once that was found: its recorder was stopped, or its disk
    /// was full. The records before are whole, and that one is passed over. Or where a checksum is wrong of what the recording is
    /// compressed with: the records before were read, and nothing behind.
    #[must_use]
    pub fn cut(&self) -> Option<&RecordingError> {
        self.cut.as_ref()
    }

    /// How many of the last records no checksum confirms, since what the recording is compressed with ended too early, is damaged, or
    /// has a wrong checksum. `None` if nothing of this was found.
    #[must_use]
    pub fn unverified(&self) -> Option<u64> {
        self.unverified
    }

    /// What became of records that were stamped earlier than one before them, if they are sorted.
    #[must_use]
    pub fn sorted(&self) -> Option<Sorted> {
        self.sorter.as_ref().map(Sorter::sorted)
    }

    /// When the measurement began, in nanoseconds since 1970, if the recording has said so.
    #[must_use]
    pub fn start_ns(&self) -> Option<u64> {
        self.decoder.start_ns()
    }

    /// The size of the file, if it is one.
    #[must_use]
    pub fn len_bytes(&self) -> Option<u64> {
        self.len_bytes
    }

    /// What the recording is compressed with as a whole.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.input.compression()
    }

    /// How many bytes of the file the records so far took; of a compressed one, how many were read.
    #[must_use]
    pub fn consumed_bytes(&self) -> u64 {
        self.input.consumed_bytes()
    }

    fn unreadable(&self, error: io::Error) -> RecordingError {
        RecordingError::io(&self.name, "cannot be read", error)
    }

    /// Reads no further than needed, so that a live pipe is not waited for.
    fn find_format(&mut self) -> Result<&'static Format, RecordingError> {
        loop {
            if let Some(format) = Format::by_content(self.input.window()) {
                return Ok(format);
            }
            if self.input.window().len() >= HEAD_LEN
                || !self.input.more().map_err(|error| self.unreadable(error))?
            {
                break;
            }
        }
        if let Some(end) = self.end_of_compressed() {
            return Err(end);
        }
        // A name says nothing about bytes that no text has.
        let head = self.input.window();
        let is_binary =
            head.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace());
        let named = Format::by_file_name(&self.name).filter(|_| !is_binary);
        let Some(format) = named else {
            return Err(RecordingError::new(&self.name, Problem::UnknownContent));
        };
        match format.refuted_by(head, self.input.at_end()) {
            None => Ok(format),
            Some(error) => Err(RecordingError::new(&self.name, Problem::OnlyByName(format, error))),
        }
    }

    /// The next frame of either kind.
    ///
    /// # Errors
    /// As the iterator's.
    #[inline]
    pub fn next_any(&mut self) -> Option<Result<Entry<'_>, RecordingError>> {
        let found = match self.next_found()? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(self.entry(found)))
    }

    /// What was found last.
    #[inline]
    pub(crate) fn entry(&self, found: Found) -> Entry<'_> {
        let record = match found {
            Found::Can(record) => AnyRecord::Can(record),
            Found::Ethernet(record) => {
                let buffer = self.sorter.as_ref().map_or(self.input.taken(), Sorter::packet);
                AnyRecord::Ethernet(record.map(|span| span.slice(buffer)))
            }
        };
        let interface = self.decoder.interfaces().name(found.interface());
        Entry { interface, record, start_ns: self.decoder.start_ns() }
    }

    pub(crate) fn problem(&self, problem: Problem) -> RecordingError {
        RecordingError::new(&self.name, problem)
    }

    /// The next frame, unless the reading is over.
    pub(crate) fn next_found(&mut self) -> Option<Result<Found, RecordingError>> {
        if self.sorter.is_some() {
            return self.next_sorted();
        }
        if self.is_over {
            return None;
        }
        // Built where it is returned: a frame is a hundred bytes.
        loop {
            let error = match self.decoder.next(&mut self.input) {
                Ok(Step::Record(record)) => {
                    self.input.records += 1;
                    return Some(Ok(Found::Can(record)));
                }
                Ok(Step::Ethernet(record)) => {
                    self.input.records += 1;
                    return Some(Ok(Found::Ethernet(record)));
                }
                Ok(Step::Skip) => continue,
                Ok(Step::End) => None,
                Err(error) => Some(error),
            };
            if let Err(ended) = self.go_on(error) {
                let is_pause = ended.as_ref().is_some_and(RecordingError::is_pause);
                self.is_over = !is_pause;
                return ended.map(Err);
            }
        }
    }

    /// The next frame in order of time. Those of the file come while there is no sorter.
    #[cold]
    fn next_sorted(&mut self) -> Option<Result<Found, RecordingError>> {
        let mut sorter = self.sorter.take()?;
        let mut pause = None;
        while sorter.wants_more() && pause.is_none() {
            match self.next_found() {
                Some(Ok(found)) => sorter.push(found, self.input.taken()),
                Some(Err(error)) if error.is_pause() => pause = Some(Err(error)),
                ended => sorter.end(ended.and_then(Result::err)),
            }
        }
        let next = pause.or_else(|| sorter.pop());
        self.sorter = Some(sorter);
        next
    }

    /// Passes over what is malformed. `Err` says that nothing more comes: all that could be read was, or why.
    #[cold]
    fn go_on(&mut self, error: Option<ReadError>) -> Result<(), Option<RecordingError>> {
        match error {
            None => Err(self.end()),
            Some(ReadError::Io(error)) => Err(Some(self.unreadable(error))),
            Some(ReadError::Malformed(error)) if error.is_cut() && self.input.records > 0 => {
                self.input.consume(error.resume.unwrap_or(0));
                self.cut = Some(self.problem(Problem::Malformed(error)));
                Err(self.end())
            }
            Some(ReadError::Malformed(error)) => self.skip(error),
        }
    }

    /// All that could be read was; if it was decompressed no further, that is told.
    fn end(&mut self) -> Option<RecordingError> {
        let has_records = self.input.records > 0;
        match self.end_of_compressed() {
            None => {}
            Some(end) if end.is_end_of_compressed() && has_records => self.cut = Some(end),
            Some(end) if self.skips_malformed && has_records => {
                self.cut = None;
                self.skipped.count += 1;
                self.skipped.first.get_or_insert(end);
            }
            Some(end) => return Some(end),
        }
        None
    }

    /// Why it was decompressed no further, and how many of the records that were read no checksum confirms.
    fn end_of_compressed(&mut self) -> Option<RecordingError> {
        let what = self.input.compression()?;
        let (offset, error, unverified) = self.input.take_end()?;
        self.unverified = Some(unverified);
        let problem = Problem::Compressed { what, offset, unverified, error };
        Some(RecordingError::new(&self.name, problem))
    }

    fn skip(&mut self, error: DecodeError) -> Result<(), Option<RecordingError>> {
        let resume = error.resume;
        let error = self.problem(Problem::Malformed(error));
        if !self.skips_malformed {
            return Err(Some(error));
        }
        match resume {
            Some(count) => {
                self.input.consume(count);
                self.skipped.count += 1;
                self.skipped.first.get_or_insert(error);
                Ok(())
            }
            None if self.ends_at_malformed && self.input.records > 0 => {
                self.skipped.count += 1;
                self.skipped.end = Some(error);
                Err(self.end())
            }
            None => Err(Some(error)),
        }
    }
}

impl Iterator for Recording {
    type Item = Result<Record, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_found()? {
                Ok(Found::Can(record)) => return Some(Ok(record)),
                Ok(Found::Ethernet(_)) => self.ethernet_frames += 1,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::write::Sink;

    /// A recording of three Ethernet frames with one of CAN between them, as a pcapng file.
    fn mixed() -> Vec<u8> {
        let format = Format::by_name("pcapng").unwrap();
        let mut sink = Sink::new("a", Vec::new(), format);
        let record = |time_ns| Record {
            time_ns,
            interface: crate::InterfaceIndex(0),
            direction: None,
            frame: (),
        };
        for (time_ns, bytes) in [(1, &[1; 60][..]), (2, &[]), (3, &[3; 1_514]), (4, &[4])] {
            let packet = crate::Packet { bytes, original_len: 1_514 };
            let any = match bytes {
                [] => AnyRecord::Can(record(time_ns).map(|()| "123#".parse().unwrap())),
                _ => AnyRecord::Ethernet(record(time_ns).map(|()| packet)),
            };
            sink.write_any(&any, "x").unwrap();
        }
        sink.finish().unwrap().0
    }

    #[test]
    fn what_is_no_text_is_no_recording_whatever_its_name() {
        let format = |name: &str, bytes: &'static [u8]| {
            Recording::new(name, bytes, None).map(|recording| recording.format().name)
        };
        assert_eq!(format("a.log", b"").unwrap(), "candump");
        assert_eq!(format("a.log", b"\t\r\n# a comment\n").unwrap(), "candump");
        for bytes in [&b"\x7FELF\x02"[..], b"a\0b", b"text, then \x1B"] {
            let message = format("a.log", bytes).unwrap_err().to_string();
            assert!(
                message.starts_with("a.log: not a recording in one of the formats"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_text_without_a_frame_is_no_recording_whatever_its_name() {
        let notes: &[u8] = b"Drive of Monday\n- rain\n- 12 degrees\n";
        let numbers: &[u8] = b"1 2 3\n4 5 6\n";
        let ids: &[u8] = b"id,name\n0x123,Motor\n";
        for text in [notes, numbers, ids, b"hello", b"{\"schema\": 1}"] {
            for format in FORMATS.iter().filter(|format| format.name != "mf4") {
                let name = format!("notes.{}", format.endings[0]);
                let error = Recording::new(&name, text, None).err().expect(&name).to_string();
                let expected = format!("{name}: not a recording: ");
                assert!(error.starts_with(&expected), "{error}");
            }
        }
        let error = Recording::new("notes.log", notes, None).err().unwrap();
        assert_eq!(
            error.to_string(),
            "notes.log: not a recording: its name is one of candump, busmaster, microchip, but no line at its beginning is a frame; as candump, \
             1:1: not a line of a candump log; expected time, interface and frame, for example `(1436509052.249713) can0 123#DEADBEEF`"
        );
        let numbers = Recording::new("a.csv", numbers, None).err().unwrap().to_string();
        assert!(
            numbers.contains("its name is one of gvret, python-can-csv, but no line"),
            "{numbers}"
        );
        // Who names the format is believed; and so is a frame behind lines that a recorder has cut or written by itself.
        let named = Recording::new("notes.txt", notes, Some(FORMATS[0]));
        assert!(named.unwrap().next().unwrap().is_err());
        let cut: &[u8] = b"0 123#11\nstarted again\n(2.0) can0 123#22\n";
        let recording = Recording::new("cut.log", cut, None).unwrap().skip_malformed(true);
        assert_eq!(recording.filter(Result::is_ok).count(), 1);
    }

    #[test]
    fn frames_of_either_kind_come_in_their_order() {
        // Reads one byte, then another: the buffer moves beneath the frames.
        struct Drip(VecDeque<u8>);
        impl Read for Drip {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                out[..1].copy_from_slice(&[self.0.pop_front().unwrap_or_default()]);
                Ok(usize::from(!self.0.is_empty()))
            }
        }
        let mut bytes = VecDeque::from(mixed());
        bytes.push_back(0);
        let mut recording = Recording::new("a", Drip(bytes), None).unwrap();
        let mut read = Vec::new();
        while let Some(record) = recording.next_any() {
            read.push(match record.unwrap().record {
                AnyRecord::Can(record) => (record.time_ns, vec![]),
                AnyRecord::Ethernet(record) => {
                    assert_eq!(record.frame.is_cut(), record.frame.bytes.len() < 1_514);
                    (record.time_ns, record.frame.bytes.to_vec())
                }
            });
        }
        assert_eq!(read, [(1, vec![1; 60]), (2, vec![]), (3, vec![3; 1_514]), (4, vec![4])]);
        assert_eq!(recording.passed_over(), PassedOver::default());
    }

    #[test]
    fn ethernet_frames_between_can_frames_are_counted() {
        let mut recording = Recording::new("a", io::Cursor::new(mixed()), None).unwrap();
        let times: Vec<_> = recording.by_ref().map(|record| record.unwrap().time_ns).collect();
        assert_eq!(times, [2]);
        let expected = PassedOver { ethernet_frames: 3, ..PassedOver::default() };
        assert_eq!(recording.passed_over(), expected);
    }

    /// Whatever format it is in, and however many records were read before it was cut or damaged.
    #[test]
    fn compressed_recordings_are_read() {
        let record = |time_ns: u64| Record {
            time_ns,
            interface: crate::InterfaceIndex(0),
            direction: None,
            frame: format!("{:03X}#{time_ns:016X}", time_ns % 2_000).parse().unwrap(),
        };
        for compression in Compression::ALL {
            for format in Format::written() {
                let mut sink = Sink::new("a", Vec::new(), format);
                for number in 0..20_000_u64 {
                    sink.write(&record(number * 1_000_003), "can0").unwrap();
                }
                let plain = sink.finish().unwrap().0;
                let bytes = packed(&plain, compression);
                let open = |bytes: &[u8]| {
                    let source = io::Cursor::new(bytes.to_vec());
                    Recording::new("a", source, None).unwrap()
                };
                let mut whole = open(&bytes);
                assert_eq!((whole.format(), whole.compression()), (format, Some(compression)));
                assert_eq!(whole.by_ref().map(Result::unwrap).count(), 20_000);
                assert_eq!(whole.consumed_bytes(), bytes.len() as u64);
                // Of a zstd frame the last window is lost, here perhaps all of it.
                let cut = io::Cursor::new(bytes[..bytes.len() - 9].to_vec());
                let message = match Recording::new("a", cut, None) {
                    Ok(mut cut) => {
                        assert!(cut.by_ref().map(Result::unwrap).count() > 0);
                        cut.cut().unwrap().to_string()
                    }
                    Err(error) => error.to_string(),
                };
                assert!(message.contains("ends inside what is compressed"), "{message}");
            }
            let bytes = packed(&packed(LOG, compression), compression);
            let error = Recording::new("a", io::Cursor::new(bytes), None).err().unwrap();
            let expected =
                format!("a: it is compressed twice; decompress it once with `{compression} -d`");
            assert_eq!(error.to_string(), expected);
            let mut bytes = packed(LOG, compression);
            bytes.extend_from_slice(b"something else");
            let mut damaged = Recording::new("a", io::Cursor::new(bytes.clone()), None)
                .unwrap()
                .skip_malformed(true);
            assert!(damaged.by_ref().all(|record| record.is_ok()));
            assert!(damaged.skipped().count > 0 || compression == Compression::Gzip);
        }
    }

    fn packed(bytes: &[u8], compression: Compression) -> Vec<u8> {
        use std::io::Write;
        let mut out = crate::compression::Compressor::new(Vec::new(), Some(compression));
        out.write_all(bytes).unwrap();
        out.finish().unwrap().0
    }

    /// A zstd frame without a checksum: one segment of this length, one block as it is (RFC 8878, 3.1.1).
    fn unchecked(bytes: &[u8]) -> Vec<u8> {
        let block = ((bytes.len() as u32) << 3 | 1).to_le_bytes();
        let mut out = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, bytes.len() as u8];
        out.extend_from_slice(&block[..3]);
        out.extend_from_slice(bytes);
        out
    }

    /// Of a recording in two members or frames: what came since the last checksum that held is unverified.
    #[test]
    fn records_without_a_checksum_behind_them_are_told() {
        use Compression::{Gzip, Zstd};
        let lines = |from: u64, to: u64| {
            let line = |number| format!("({number}.000000) can0 123#{number:04X}\n");
            (from..=to).map(line).collect::<String>().into_bytes()
        };
        let (first, second) = (lines(1, 3), lines(4, 8));
        // What comes behind the second one is not read.
        let parts = |compression| {
            [&first, &second, &lines(9, 9)].map(|it| packed(it, compression)).to_vec()
        };
        let plain = [&first, &second, &lines(9, 9)].map(|it| unchecked(it)).to_vec();
        let flipped = |mut parts: Vec<Vec<u8>>, from_end: usize| {
            let at = parts[1].len() - from_end;
            parts[1][at] ^= 0x10;
            parts
        };
        let cut = |mut parts: Vec<Vec<u8>>, less: usize| {
            parts.truncate(2);
            let len = parts[1].len() - less;
            parts[1].truncate(len);
            parts
        };
        let wrong = "has a wrong checksum; nothing behind it was read, copy the file again; records before it that are unverified, \
                     since no checksum confirms them: 5";
        let length = "is damaged: a frame is longer or shorter than it says; the rest cannot be read, copy the file again; records \
                      before it that are unverified, since no checksum confirms them: 5";
        let early = "was not written to its end; records before it that are unverified, since no checksum confirms them: ";
        let early_5 = format!("{early}5");
        for (parts, frames, unverified, told) in [
            (parts(Gzip), 9, None, ""),
            (parts(Zstd), 9, None, ""),
            (plain.clone(), 9, None, ""),
            // The checksum, and of gzip the length behind it.
            (flipped(parts(Gzip), 8), 8, Some(5), wrong),
            (flipped(parts(Gzip), 1), 8, Some(5), wrong),
            (flipped(parts(Zstd), 1), 8, Some(5), wrong),
            (cut(parts(Gzip), 1), 8, Some(5), &early_5),
            (cut(parts(Gzip), 8), 8, Some(5), &early_5),
            (cut(parts(Zstd), 2), 3, Some(0), "was not written to its end"),
            (cut(plain.clone(), 10), 3, Some(0), "was not written to its end"),
        ] {
            let mut recording = Recording::new("a", io::Cursor::new(parts.concat()), None).unwrap();
            let read = recording.by_ref().map(Result::unwrap).count();
            let cut = recording.cut().map(ToString::to_string).unwrap_or_default();
            assert_eq!((read, recording.unverified()), (frames, unverified), "{cut}");
            assert!(cut.ends_with(told) && cut.is_empty() == told.is_empty(), "{cut}");
            assert_eq!(recording.skipped().count, 0);
        }
        // A length that is wrong is damage, also where there is no checksum.
        let mut parts = plain;
        parts[1][5] += 1;
        for skips_malformed in [false, true] {
            let source = io::Cursor::new(parts.concat());
            let recording = Recording::new("a", source, None).unwrap();
            let mut recording = recording.skip_malformed(skips_malformed);
            let read: Vec<_> = recording.by_ref().collect();
            let error = read.last().and_then(|it| it.as_ref().err()).map(ToString::to_string);
            let skipped = recording.skipped().first.as_ref().map(ToString::to_string);
            let message = error.or(skipped).unwrap_or_default();
            assert!(message.ends_with(length), "{message}");
            assert_eq!(recording.unverified(), Some(5));
            assert_eq!(read.iter().filter(|it| it.is_ok()).count(), 8);
        }
    }

    const LOG: &[u8] = b"(1.000000) can0 123#11\n(2.000000) can1 1234\n(3.000000) can0 123#33\n";

    #[test]
    fn malformed_records_end_the_reading_or_are_counted() {
        let mut recording = Recording::new("a.log", LOG, None).unwrap();
        assert!(recording.next().unwrap().is_ok());
        let error = recording.next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("a.log:2:21: an identifier has"), "{error}");
        assert!(error.can_be_skipped());
        assert!(recording.next().is_none());

        let mut recording = Recording::new("a.log", LOG, None).unwrap().skip_malformed(true);
        assert_eq!(recording.by_ref().filter(Result::is_ok).count(), 2);
        assert_eq!(recording.skipped().count, 1);
        assert_eq!(
            recording.skipped().first.as_ref().map(ToString::to_string),
            Some(error.to_string())
        );
        assert_eq!(recording.consumed_bytes(), LOG.len() as u64);
    }

    #[test]
    fn where_the_next_record_is_unknown_reading_ends_with_what_came_before_if_asked() {
        // A pcap file of SocketCAN with so many frames, and a packet whose length cannot be.
        let file = |frames: usize| {
            let header = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 227];
            let frame = [1, 0, 16, 16, 0x123_u32.swap_bytes(), 1, 0x11, 0];
            let words = header.iter().chain(frame.iter().cycle().take(8 * frames));
            let words = words.chain(&[2, 0, u32::MAX, u32::MAX]);
            words.flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()
        };
        for (frames, skips, ends, is_error) in [
            (3, false, true, true),
            (3, true, false, true),
            (3, true, true, false),
            // It may be no recording at all.
            (0, true, true, true),
        ] {
            for window in [None, Some(100)] {
                let recording = Recording::new("a", io::Cursor::new(file(frames)), None).unwrap();
                let recording = recording.skip_malformed(skips).end_at_malformed(ends);
                let mut recording = recording.sort(window);
                let read: Vec<_> = recording.by_ref().collect();
                assert_eq!(read.iter().filter(|it| it.is_ok()).count(), frames);
                assert_eq!(read.iter().any(Result::is_err), is_error, "{frames} {skips} {ends}");
                let skipped = recording.skipped();
                assert_eq!((skipped.count, skipped.first.is_none()), (u64::from(!is_error), true));
                let end = skipped.end.as_ref().map(ToString::to_string).unwrap_or_default();
                assert_eq!(end.starts_with("a: byte 120"), !is_error, "{end}");
            }
        }
    }

    #[test]
    fn a_file_that_ends_inside_a_record_is_read_as_far_as_it_goes() {
        let record = |time_ns: u64| Record {
            time_ns,
            interface: crate::InterfaceIndex(0),
            direction: None,
            frame: "123#1122334455667788".parse().unwrap(),
        };
        for format in Format::written().filter(|format| format.grows_by_record) {
            let mut sink = Sink::new("a", Vec::new(), format);
            let mut ends = Vec::new();
            for second in 1..=3 {
                sink.write(&record(second * 1_000_000_000), "can0").unwrap();
                ends.push(sink.buffer.len());
            }
            let whole = sink.finish().unwrap().0;
            for len in ends[0]..=whole.len() {
                let bytes = std::io::Cursor::new(whole[..len].to_vec());
                let mut recording = Recording::new("a", bytes, Some(format)).unwrap();
                let records: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
                let expected = ends.iter().filter(|&&end| end <= len).count();
                // The last line of a text may be whole without its line feed, and a number that lost
                // digits is a number.
                let is_text = ["candump", "asc", "trc"].contains(&format.name);
                let is_right =
                    records.len() == expected || is_text && records.len() == expected + 1;
                assert!(is_right, "{}: {len} bytes", format.name);
                // What comes behind the last record is none.
                let is_cut = len < ends[2] && !ends.contains(&len) && records.len() == expected;
                assert_eq!(recording.cut().is_some(), is_cut, "{}: {len} bytes", format.name);
                assert_eq!(recording.skipped().count, 0);
                assert_eq!(recording.consumed_bytes(), len as u64, "{}", format.name);
            }
        }
    }

    /// Gives what it was given, piece by piece, and then fails if asked further.
    struct Pieces(VecDeque<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.pop_front().ok_or(ErrorKind::Other)?;
            out[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn a_live_pipe_is_read_no_further_than_needed() {
        let pieces = Pieces([b"(1.0) ".as_slice(), b"can0 12", b"3#11\n(2.0)"].into());
        let mut recording = Recording::new("pipe", pieces, None).unwrap();
        assert!(recording.next().unwrap().is_ok());
        let error = recording.next().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("pipe: cannot be read: "), "{error}");
    }

    /// Whatever it is compressed with, and wherever it stopped. What cannot be resumed fails again and never ends.
    #[test]
    fn a_source_that_was_not_ready_is_read_on() {
        use crate::compression::Compressor;
        use std::io::Write;
        use std::sync::atomic::AtomicBool;
        /// Is not ready for every second call, once that is switched on.
        #[derive(Clone, Default)]
        struct Hesitation(Arc<AtomicBool>, bool);
        impl Hesitation {
            fn pass(&mut self) -> io::Result<()> {
                self.1 = !self.1 && self.0.load(Ordering::Relaxed);
                if self.1 { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
            }
        }
        struct Source(io::Cursor<Vec<u8>>, Hesitation);
        impl Read for Source {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                self.1.pass()?;
                let most = out.len().min(97);
                self.0.read(&mut out[..most])
            }
        }
        for compression in [None].into_iter().chain(Compression::ALL.map(Some)) {
            for is_before in [true, false] {
                let mut packed = Compressor::new(Vec::new(), compression);
                for number in 0..20_000_u64 {
                    let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    writeln!(packed, "({number}.0) can0 {:03X}#{word:016X}", number % 2_000)
                        .unwrap();
                }
                let bytes = io::Cursor::new(packed.finish().unwrap().0);
                let mut hesitation = Hesitation::default();
                let switch = hesitation.0.clone();
                let within = if is_before { Hesitation::default() } else { hesitation.clone() };
                let mut recording = Recording::new("a.log", Source(bytes, within), None).unwrap();
                if is_before {
                    recording = recording.before_reading(move || hesitation.pass());
                }
                switch.store(true, Ordering::Relaxed);
                let (mut records, mut pauses) = (0, 0);
                for record in recording {
                    match record {
                        Ok(record) => {
                            assert_eq!(record.time_ns, records * 1_000_000_000);
                            records += 1;
                        }
                        Err(error) if error.is_pause() => pauses += 1,
                        Err(error) => panic!("{error}"),
                    }
                    if pauses > 100_000 {
                        break;
                    }
                }
                assert!(pauses > 0);
                let is_stuck = compression == Some(Compression::Zstd) && !is_before;
                assert_eq!(records == 20_000, !is_stuck, "{compression:?} {is_before} {records}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_read_no_further_than_needed() {
        let line: &[u8] = &[b'('; 8_192];
        let pieces = Pieces([line].into());
        let error = Recording::new("x.log", pieces, None).err().unwrap();
        assert!(error.to_string().contains("1:4097: the line has more than"), "{error}");
    }

    #[test]
    fn the_contents_tell_the_format_before_the_name_does() {
        let format = |name, bytes: &'static [u8]| {
            Recording::new(name, bytes, None).map(|recording| recording.format().name)
        };
        assert_eq!(format("a.pcap", LOG).unwrap(), "candump");
        assert_eq!(format("a.pcap", b"").unwrap(), "pcap");
        assert_eq!(format("a.log", b"").unwrap(), "candump");
        assert_eq!(
            format("a.xyz", b"?").unwrap_err().to_string(),
            "a.xyz: not a recording in one of the formats candump, pcap, pcapng, asc, blf, trc, gvret, busmaster, microchip, carbusanalyzer, python-can-csv, candump-console, mf4"
        );
    }
}

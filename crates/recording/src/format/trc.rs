//! The trace of PEAK's tools, TRC, versions 1.0 to 2.1; written is 2.1. (The layouts are those of PEAK's document "CAN TRC File
//! Format" as python-can's `can/io/trc.py` reads them.)
//!
//! ```text
//! ;$FILEVERSION=2.1
//! ;$STARTTIME=43008.629319340275
//! ;$COLUMNS=N,O,T,B,I,d,R,L,D
//!       1      2501.000 DT  1      00C8 Rx -  8    09 08 07 06 05 04 03 02
//!       2      2502.000 FB  1  18EBFF00 Tx -  9    01 02 03 04 05 06 07 08 09 0A 0B 0C
//!       3      2503.000 ER  1         - Rx -  5    08 01 00 00 00
//! ```
//!
//! An identifier with more than 4 digits has 29 bits. `l` is a number of bytes, `L` a data length code: they differ for CAN FD.
//! Without a direction, as in 1.0, a frame was received. Error frames (`ER`, `Error`, `ERROR` before the data in 1.0) are read as the report of an error on the bus; status, events, counters and warnings
//! are passed over and counted.
//!
//! **The start** is a number of days since 1899-12-30, in PEAK's tools a float of 64 bits, which steps by 0.63 microseconds now and
//! by 2.5 at the end of 64-bit nanoseconds; the shortest text for it may be another half of a step off. So a whole millisecond, and
//! PEAK's clocks have no less, is at most 2.5 off: a start that is at most 3 microseconds from one is that one, and any other is
//! read to the nearest microsecond. Written is a whole millisecond with 12 decimals, which step by 0.09 microseconds. Offsets are
//! milliseconds, written with 3 decimals if they are whole microseconds, else 6. So every time that is written is
//! read again to the nanosecond.

use std::io::Write as _;

use memchr::memrchr;

use super::channels::Numbers;
use super::start::Start;
use super::text::{
    BAD_TIME, BYTE_ORDER_MARK, Layout, LineError, Log, Reader, Word, Words, data_bytes, decimal,
    digits, direction, identifier, length, number,
};
use super::{Format, classical, error_report, usual};
use crate::decode::Reason;
use crate::encode::{EncodeError, Encoder};
use crate::record::{Direction, Record};
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ESI, FD_LENGTHS, RTR_FLAG};
use candor_wire::can::{Frame, FrameError, Kind};

pub(super) static FORMAT: Format = Format {
    name: "trc",
    title: "TRC log",
    endings: &["trc"],
    has_start: true,
    is_written: true,
    begins,
    encoder: |_| Box::new(TrcEncoder::default()),
    ..usual(|_| Box::new(Reader::<Trc>::default()))
};

const BAD_LINE: &str =
    "not a line of a TRC log; expected number, time and frame, or a comment behind `;`";

const NANOS_PER_MILLI: u64 = 1_000_000;
const MICROS_PER_DAY: u64 = 86_400_000_000;
/// 1970-01-01 in days since 1899-12-30.
const EPOCH_DAYS: u64 = 25_569;
/// How many columns a file has at most.
const MAX_COLUMNS: usize = 16;

/// The version is said, or there are comments and then ` 1) `.
fn begins(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    if head.starts_with(b";$FILEVERSION=") {
        return true;
    }
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let is_comment = |line: &[u8]| matches!(line.first(), Some(b';'));
    let first = lines.find(|line| !line.is_empty() && !is_comment(line));
    first.filter(|_| head.starts_with(b";")).is_some_and(|line| {
        let (_, end) = digits(line, 0);
        end > 0 && line.get(end) == Some(&b')')
    })
}

struct Trc {
    /// As `$COLUMNS` calls them; those of version 1 have such letters here, too.
    columns: [u8; MAX_COLUMNS],
}

impl Default for Trc {
    fn default() -> Self {
        Self { columns: columns(b"NOIlD") }
    }
}

fn columns(letters: &[u8]) -> [u8; MAX_COLUMNS] {
    let mut columns = [0; MAX_COLUMNS];
    columns.iter_mut().zip(letters).for_each(|(column, &letter)| *column = letter);
    columns
}

/// The words of a row by their columns, and what is behind them.
#[derive(Default)]
struct Row<'a> {
    offset: Word<'a>,
    kind: Option<Word<'a>>,
    bus: Option<Word<'a>>,
    id: Word<'a>,
    direction: Option<Word<'a>>,
    /// Whether it is a code, and the word.
    length: (bool, Word<'a>),
}

impl Layout for Trc {
    const TOO_LONG: &'static str = " bytes; this is not a TRC log";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        let mut words = Words::new(line);
        let (word, at) = words.next();
        match word.first() {
            None => return Ok(None),
            Some(b';') => {
                return self.parse_header(word, &mut words, log).map(|()| None);
            }
            Some(byte) if byte.is_ascii_digit() => {}
            Some(_) => return Err((at, Reason::Text(BAD_LINE))),
        }
        words.at = 0;
        let row = self.row(&mut words);
        let (offset, offset_at) = row.offset;
        let time = decimal(offset, NANOS_PER_MILLI).and_then(|ns| log.start_ns.checked_add(ns));
        let time_ns = time.ok_or((offset_at, Reason::Text(BAD_TIME)))?;
        let Some(frame) = row.frame(&mut words)? else {
            log.other = log.other.saturating_add(1);
            return Ok(None);
        };
        let (channel, channel_at) = match row.bus {
            Some((word, at)) => (number(word, true).unwrap_or(1), at),
            None => (1, 0),
        };
        let channel = u32::try_from(channel).unwrap_or(u32::MAX);
        let interface = log.channel(channel, channel_at)?;
        let known = row.direction.and_then(|(word, _)| direction(word));
        let direction = Some(known.unwrap_or(Direction::Received));
        Ok(Some(Record { time_ns, interface, direction, frame }))
    }
}

impl Trc {
    fn parse_header(
        &mut self,
        word: &[u8],
        words: &mut Words<'_>,
        log: &mut Log,
    ) -> Result<(), LineError> {
        let is_known = ["FILEVERSION=", "STARTTIME=", "COLUMNS="]
            .iter()
            .any(|name| word.get(2..).is_some_and(|rest| rest.starts_with(name.as_bytes())));
        if is_known && word.starts_with(b";$") {
            // Another header, or a row.
            if let Some(at) = memrchr(b';', word).filter(|&at| at > 0) {
                words.at = words.at - word.len() + at;
            }
            words.end()?;
        }
        if let Some(version) = word.strip_prefix(b";$FILEVERSION=") {
            self.columns = columns(match version {
                b"1.1" => b"NOdIlD",
                b"1.2" => b"NOBdIlD",
                b"1.3" => b"NOBdIRlD",
                b"2.0" => b"NOTIdlD",
                b"1.0" => b"NOIlD",
                _ => b"NOTBIdRLD",
            });
        } else if let Some(days) = word.strip_prefix(b";$STARTTIME=") {
            log.start_ns = start_ns(days).unwrap_or(0);
        } else if let Some(names) = word.strip_prefix(b";$COLUMNS=") {
            let mut letters = [0; MAX_COLUMNS];
            let names = names.split(|&byte| byte == b',');
            letters.iter_mut().zip(names).for_each(|(letter, name)| {
                *letter = name.first().copied().unwrap_or(b'?');
            });
            self.columns = letters;
        }
        Ok(())
    }

    fn row<'a>(&self, words: &mut Words<'a>) -> Row<'a> {
        let mut row = Row::default();
        for letter in self.columns {
            if matches!(letter, 0 | b'D') {
                break;
            }
            let word = words.next();
            match letter {
                b'O' => row.offset = word,
                b'T' => row.kind = Some(word),
                b'B' => row.bus = Some(word),
                b'I' => row.id = word,
                b'd' => row.direction = Some(word),
                b'l' => row.length = (false, word),
                b'L' => row.length = (true, word),
                _ => {}
            }
        }
        row
    }
}

impl Row<'_> {
    /// The frame; `None` for another event.
    fn frame(&self, words: &mut Words<'_>) -> Result<Option<Frame>, LineError> {
        let (id, id_at) = self.id;
        let illegal = |error: FrameError| (id_at, Reason::Frame(error));
        let kind = match (self.kind, self.direction) {
            (Some((kind, _)), _) => kind,
            (None, Some((b"Rx" | b"Tx", _))) => b"DT",
            (None, Some((b"Error", _))) => b"ER",
            // Version 1.0 has no other column for it.
            (None, None) if id != b"FFFFFFFF" => b"DT",
            (None, _) => return Ok(None),
        };
        let (fd_flags, mut is_remote) = match kind {
            b"DT" => (None, false),
            b"RR" => (None, true),
            b"FD" => (Some(0), false),
            b"FB" => (Some(BRS), false),
            b"FE" => (Some(BRS | ESI), false),
            b"BI" => (Some(ESI), false),
            b"ER" => return self.error(words),
            _ => return Ok(None),
        };
        let can_id = identifier(self.id, false)? | if id.len() > 4 { EFF_FLAG } else { 0 };
        let (is_code, word) = self.length;
        let length = length(word, if fd_flags.is_some() && !is_code { 64 } else { 15 })?;
        if self.kind.is_none() {
            let at = words.at;
            match words.next().0 {
                b"RTR" => is_remote = true,
                b"ERROR" => return self.error(words),
                _ => words.at = at,
            }
        }
        let bytes = match (fd_flags, is_code) {
            (Some(_), true) => usize::from(FD_LENGTHS[length & 15]),
            (Some(_), false) => length,
            (None, _) => length.min(8),
        };
        let mut data = [0; 64];
        if !is_remote {
            data_bytes(&mut data[..bytes], false, || words.next())?;
        }
        words.end()?;
        let frame = match fd_flags {
            Some(_) => Frame::from_parts(can_id, &data[..bytes], fd_flags),
            None => {
                let eight = data.first_chunk().copied().unwrap_or_default();
                classical(can_id | if is_remote { RTR_FLAG } else { 0 }, length as u8, &eight)
            }
        };
        frame.map(Some).map_err(illegal)
    }

    /// The report of an error. Its bytes say which one, and nothing follows them.
    fn error(&self, words: &mut Words<'_>) -> Result<Option<Frame>, LineError> {
        let (_, word) = self.length;
        for _ in 0..length(word, 15)? {
            words.next();
        }
        words.end()?;
        error_report().map(Some).map_err(|error| (self.id.1, Reason::Frame(error)))
    }
}

/// Nanoseconds since 1970 of days since 1899-12-30, rounded as said above; `None` if that is no number, before 1970, or beyond
/// 64 bits.
fn start_ns(days: &[u8]) -> Option<u64> {
    // Two more digits, so as to round.
    let hundredths = decimal(days, MICROS_PER_DAY * 100)?;
    let micros = hundredths.checked_add(50)? / 100;
    let millis = (micros + 500) / 1_000;
    let micros = if micros.abs_diff(millis * 1_000) <= 3 { millis * 1_000 } else { micros };
    micros.checked_sub(EPOCH_DAYS * MICROS_PER_DAY)?.checked_mul(1_000)
}

#[derive(Default)]
struct TrcEncoder {
    start: Start,
    numbers: Numbers,
    count: u64,
}

impl TrcEncoder {
    fn put_header(&self, out: &mut Vec<u8>) {
        let micros = self.start.ns() / NANOS_PER_MILLI * 1_000;
        let (days, micros) = (EPOCH_DAYS + micros / MICROS_PER_DAY, micros % MICROS_PER_DAY);
        let rounded = u128::from(micros) * 1_000_000_000_000 + u128::from(MICROS_PER_DAY / 2);
        let decimals = rounded / u128::from(MICROS_PER_DAY);
        // A Vec takes all bytes.
        let _ = write!(
            out,
            ";$FILEVERSION=2.1\n;$STARTTIME={days}.{decimals:012}\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n;\n"
        );
    }
}

impl Encoder for TrcEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let channel = self.numbers.channel(interface)?;
        let (since_ns, is_first) = self.start.since(record.time_ns)?;
        if is_first {
            self.put_header(out);
        }
        self.count = self.count.saturating_add(1);
        let (count, millis, nanos) =
            (self.count, since_ns / NANOS_PER_MILLI, since_ns % NANOS_PER_MILLI);
        let _ = match nanos.is_multiple_of(1_000) {
            true => write!(out, "{count:>7} {millis:>9}.{:03} ", nanos / 1_000),
            false => write!(out, "{count:>7} {millis:>9}.{nanos:06} "),
        };
        let frame = &record.frame;
        let (direction, is_received) = match record.direction {
            Some(Direction::Transmitted) => ("Tx", 0),
            _ => ("Rx", 1),
        };
        if frame.kind() == Kind::Error {
            // Another error than bit, form and stuff, of a frame received or not, at no place; both counters 0.
            let _ = writeln!(
                out,
                "ER {channel:>2} {:>8} {direction} -  5    08 {is_received:02} 00 00 00",
                "-"
            );
            return Ok(());
        }
        let kind = match (frame.kind(), frame.fd_flags() & BRS != 0, frame.fd_flags() & ESI != 0) {
            (Kind::Fd, false, false) => "FD",
            (Kind::Fd, true, false) => "FB",
            (Kind::Fd, true, true) => "FE",
            (Kind::Fd, false, true) => "BI",
            (Kind::Remote, ..) => "RR",
            _ => "DT",
        };
        let width = if frame.is_extended() { 8 } else { 4 };
        let id = frame.can_id() & EFF_MASK;
        let blanks = 8 - width;
        let _ = write!(
            out,
            "{kind} {channel:>2} {:blanks$}{id:0width$X} {direction} -  {}",
            "",
            frame.dlc()
        );
        let blanks = if frame.dlc() > 9 { 2 } else { 3 };
        for (place, byte) in frame.data().iter().enumerate() {
            let blanks = if place == 0 { blanks + 1 } else { 1 };
            let _ = write!(out, "{:blanks$}{byte:02X}", "");
        }
        out.push(b'\n');
        Ok(())
    }

    fn start(&mut self, start_ns: u64) {
        self.start.announce(start_ns);
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        if !self.start.is_known() {
            self.put_header(out);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{Any, count, decode, decode_any};

    /// 2017-09-30 15:06:13.191.
    const START_NS: u64 = 1_506_783_973_191_000_000;
    const HEADER: &str =
        ";$FILEVERSION=2.1\n;$STARTTIME=43008.629319340275\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n";
    const ERROR: &str = "20000080#0000000000000000";

    #[test]
    fn frames_of_every_version_are_read() {
        use Direction::{Received, Transmitted};
        let all = [
            ("2.1", "", "1 2.5 DT 2 00C8 Tx - 3 09 08 0a", "can1", Transmitted, "0C8#09080A"),
            ("2.1", "", "1 2.500 RR 1 00000001 Rx - 4\r", "can0", Received, "00000001#R4"),
            (
                "2.1",
                "",
                "1 2.5 DT 1 0001 Rx - 15 1 2 3 4 5 6 7 8",
                "can0",
                Received,
                "001#0102030405060708_F",
            ),
            (
                "2.1",
                "",
                "1 2.5 FB 1 0001 Rx - 9 1 2 3 4 5 6 7 8 9 A B C",
                "can0",
                Received,
                "001##10102030405060708090A0B0C",
            ),
            (
                "2.0",
                "",
                "1 2.5 FE 0001 Rx 12 1 2 3 4 5 6 7 8 9 A B C",
                "can0",
                Received,
                "001##30102030405060708090A0B0C",
            ),
            ("2.0", "", "1 2.5 BI 0001 Rx 0", "can0", Received, "001##2"),
            ("2.0", "", "1 2.5 FD 0001 Rx 1 07", "can0", Received, "001##007"),
            ("2.0", "", "1 2.5 ER      Rx 5 04 00 02 00 00", "can0", Received, ERROR),
            ("2.1", "", "1 2.5 ER 3 - Tx - 5 04 00 02 00 00", "can2", Transmitted, ERROR),
            ("2.0", "N,O,T,B,I,d,l,D", "1 2.5 DT 7 0001 Tx 1 07", "can6", Transmitted, "001#07"),
            ("1.3", "", "1) 2.5 4 Tx 0001 - 1 07", "can3", Transmitted, "001#07"),
            ("1.2", "", "1) 2.5 4 Tx 0001 2 RTR", "can3", Transmitted, "001#R2"),
            ("1.1", "", "1) 2.5 Rx 00000001 1 07", "can0", Received, "00000001#07"),
            ("1.1", "", "1) 2.5 Error 0008 4 00 19 08 08", "can0", Received, ERROR),
            ("1.0", "", "1) 2.5 0001 1 07", "can0", Received, "001#07"),
            ("1.0", "", "1) 2.5 0001 0 RTR", "can0", Received, "001#R"),
            ("1.0", "", "2) 2.5 0008 4 ERROR 00 19 08 08", "can0", Received, ERROR),
        ];
        for (version, columns, line, name, direction, expected) in all {
            let columns = match columns {
                "" => String::new(),
                names => format!(";$COLUMNS={names}\n"),
            };
            let text = format!(
                ";$FILEVERSION={version}\n;$STARTTIME=43008.629319340275\n{columns}{line}\n"
            );
            let frame = Any::Can(expected.parse().unwrap());
            let record = (START_NS + 2_500_000, name.to_owned(), Some(direction), frame);
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
    }

    #[test]
    fn a_log_is_known_by_its_version_or_its_first_row() {
        for (text, is_it) in [
            (";$FILEVERSION=1.1", true),
            ("\u{feff};$FILEVERSION=2.1\r\n", true),
            (";####\r\n;   C:\\a.trc\r\n;\r\n     1)      1841  0001  8 00", true),
            (";####\n", false),
            (";####\n[rules]\n", false),
            ("1) 1841 0001 0", false),
            ("", false),
        ] {
            assert_eq!(begins(text.as_bytes()), is_it, "{text}");
        }
    }

    #[test]
    fn a_start_is_read_to_the_microsecond() {
        for (days, expected) in [
            ("43008.629319340275", Some(START_NS)),
            ("43008.920986006946", Some(1_506_809_173_191_000_000)),
            ("25569", Some(0)),
            ("25569.00000000004", Some(0)),
            ("25569.00000000005", Some(4_000)),
            ("25568.9", None),
            ("239073.0", None),
            ("99999999999999999999", None),
            ("30.9.2017", None),
            ("", None),
        ] {
            assert_eq!(start_ns(days.as_bytes()), expected, "{days}");
        }
    }

    proptest::proptest! {
        /// As a float of 64 bits, as PEAK's tools have it, and as it is written.
        #[test]
        fn a_start_survives(millis in 0..u64::MAX / NANOS_PER_MILLI) {
            let mut encoder = TrcEncoder::default();
            encoder.start.announce(millis * NANOS_PER_MILLI);
            let mut out = Vec::new();
            encoder.put_header(&mut out);
            let text = String::from_utf8(out).unwrap();
            let days = text.lines().nth(1).unwrap().strip_prefix(";$STARTTIME=").unwrap();
            proptest::prop_assert_eq!(start_ns(days.as_bytes()), Some(millis * NANOS_PER_MILLI));
            let float = (25_569 * 86_400_000 + millis) as f64 / 86_400_000.0;
            let read = start_ns(float.to_string().as_bytes());
            proptest::prop_assert_eq!(read, Some(millis * NANOS_PER_MILLI));
        }
    }

    #[test]
    fn other_events_are_passed_over_and_counted() {
        let text = format!(
            "{HEADER};\r\n\r\n1 0.1 ST 1 - Rx - 4 00 00 00 00\n2 0.2 EC 1 - Rx - 2 00 01\n3 0.3 EV 1 0 Rx - 0 User\n\
             4 0.4 DT 1 0001 Rx - 0\n;$FILEVERSION=1.1\n5) 0.5 Warng FFFFFFFF 4 00 00 00 04 BUSHEAVY\n\
             ;$FILEVERSION=1.0\n6) 6 FFFFFFFF 4 00 00 00 04 BUSLIGHT\n"
        );
        let mut decoder = FORMAT.decoder();
        let records = count(&mut *decoder, text.as_bytes());
        assert_eq!((records, decoder.passed_over().other_packets), (1, 5));
        assert_eq!(decoder.start_ns(), Some(START_NS));
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("hello", "4:1: not a line of a TRC log"),
            ("1 x DT 1 0001 Rx - 0", "4:3: this is not a time"),
            ("1 99999999999999999 DT 1 0001 Rx - 0", "4:3: this is not a time"),
            ("1 0.0 DT 1 000G Rx - 0", "4:12: this is not an identifier"),
            ("1 0.0 DT 1 20000000 Rx - 0", "4:12: this is not an identifier"),
            ("1 0.0 DT 1 0800 Rx - 0", "4:12: standard identifier 0x800"),
            ("1 0.0 DT 1 0001 Rx - 16", "4:22: this is not the length"),
            ("1 0.0 DT 1 0001 Rx - 2 00", "4:26: the frame has fewer data bytes"),
            ("1 0.0 DT 1 0001 Rx - 1 100", "4:24: the frame has fewer data bytes"),
            // The next line's number would be the second byte.
            ("1 0.0 DT 1 0001 Rx - 2 00      2 0.1 DT 1 0002 Rx - 0", "4:34: the line goes on"),
            ("1 0.0 DT 1 0001 Rx - 1 00 00", "4:27: the line goes on"),
            ("1 0.0 RR 1 0001 Rx - 0      2 0.1 DT 1 0002 Rx - 0", "4:29: the line goes on"),
            ("1 0.0 ER 1 - Rx - 1 00      2 0.1 DT 1 0002 Rx - 0", "4:29: the line goes on"),
            (";$COLUMNS=N,O,T,B,I,d,R,L,D      2 0.1 DT 1 0002 Rx - 0", "4:34: the line goes on"),
            (";$FILEVERSION=2.1;$STARTTIME=43008.6", "4:18: the line goes on"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let text = format!("{HEADER}1 0.0 DT 1 0001 Rx - 2 00");
        assert!(decode(&FORMAT, text.as_bytes()).unwrap_err().is_cut());
    }

    #[test]
    fn a_log_is_written_as_others_read_it() {
        let mut out = Vec::new();
        let mut encoder = FORMAT.encoder(&mut out);
        for (time_ns, name, direction, frame) in [
            (1_000_000, "can1", None, "123#0102"),
            (1_000_001_500, "can1", Some(Direction::Transmitted), "18EBFF00#R4"),
            (2_000_000_000, "body", None, "123##30102030405060708090A0B0C"),
            (2_000_001_000, "body", None, "20000088#"),
            (2_000_002_000, "body", Some(Direction::Transmitted), "20000088#"),
        ] {
            let frame = frame.parse().unwrap();
            let time_ns = START_NS + time_ns;
            let record = Record { time_ns, interface: crate::InterfaceIndex(0), direction, frame };
            encoder.encode(&record, name, &mut out).unwrap();
        }
        assert_eq!(encoder.finish(&mut out), None);
        let expected = "\
;$FILEVERSION=2.1
;$STARTTIME=43008.629319351852
;$COLUMNS=N,O,T,B,I,d,R,L,D
;
      1         0.000 DT  2     0123 Rx -  2    01 02
      2       999.001500 RR  2 18EBFF00 Tx -  4
      3      1999.000 FE  1     0123 Rx -  9    01 02 03 04 05 06 07 08 09 0A 0B 0C
      4      1999.001 ER  1        - Rx -  5    08 01 00 00 00
      5      1999.002 ER  1        - Tx -  5    08 00 00 00 00
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

//! The log of `candump -l` and `candump -L` (can-utils): one line per frame.
//!
//! ```text
//! (1436509052.249713) can0 123#DEADBEEF
//! (1436509052.249713123)  vcan1 12345678##1AABB T
//! ```
//!
//! A line is the time in seconds with 1 to 9 decimals, the interface, the frame in the notation of
//! [`crate::notation`], and perhaps `R` (received) or `T` (transmitted) as newer recorders write.
//! Blanks may repeat, lines may end in CR LF; empty lines and lines that begin with `#` are passed
//! over, and so are the `DROPCOUNT` lines of candump, whose losses are counted.
//!
//! Written are 6 decimals if the time is a whole number of microseconds, else 9, and the seconds
//! with at least 10 digits, as candump does. A blank in the name of an interface becomes `_`.
//!
//! A last line without its line feed was cut if it is malformed. If it was cut between two bytes of data, nothing tells, and it is a
//! shorter frame.
//!
//! An error report keeps its class and data. Whether its identifier word also had the flags of an
//! extended or remote frame is not part of the notation and is lost.

use super::text::{
    LineError, Lines, digits, first_below_0x21, is_space, line_feed, put_decimal, skip_blanks,
    token,
};
use super::{Format, Labels, usual};
use crate::decode::{CUT, Decoder, MAX_LINE_LEN, PassedOver, ReadError, Reason, Step};
use crate::encode::{EncodeError, Encoder, NANOS_PER_SECOND};
use crate::input::Input;
use crate::record::{Direction, InterfaceError, Interfaces, Record};
use candor_wire::can::FrameError;
use candor_wire::can::notation::{self, NotationError};

pub(super) static FORMAT: Format = Format {
    name: "candump",
    title: "candump log",
    endings: &["log", "candump"],
    labels: Labels::Names,
    keeps_error_reports: true,
    is_written: true,
    begins,
    encoder: |_| Box::new(CandumpEncoder),
    ..usual(|_| Box::new(CandumpDecoder::default()))
};

const EXPECTED: &str = "not a line of a candump log; expected time, interface and frame, \
                        for example `(1436509052.249713) can0 123#DEADBEEF`";
const BAD_TIME: &str = "this is not a time; expected seconds with 1 to 9 decimals in parentheses, \
                        for example `(1436509052.249713)`";
const LATE_TIME: &str =
    "the time is after 18446744073 s, the limit of 64-bit nanoseconds; correct the line";
const BAD_END: &str = "only `R` or `T` may follow the frame; remove the rest";
const TOO_LONG: &str = " bytes; this is not a candump log";

/// The first line that is neither empty nor a comment begins with a parenthesis and a digit, and is not of candump's console.
fn begins(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|line| !is_comment(line))
        .is_some_and(|line| {
            line.strip_prefix(b"(").and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit)
                && !super::console::begins(line)
        })
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line.first(), None | Some(b'#'))
}

#[derive(Default)]
struct CandumpDecoder {
    reader: LineReader,
    lines: Lines,
}

/// What lines tell.
#[derive(Default)]
struct LineReader {
    interfaces: Interfaces,
    lost_frames: u64,
}

impl Decoder for CandumpDecoder {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let Self { reader, lines } = self;
        if let Some((consumed, record)) = reader.usual_line(input.window()) {
            lines.pass();
            input.consume(consumed);
            return Ok(Step::Record(record));
        }
        lines.step(input, line_feed, TOO_LONG, |line| match reader.parse_line(line.bytes)? {
            Some(record) if line.is_open && may_be_cut(&record) => Err((line.bytes.len(), CUT)),
            record => Ok(record),
        })
    }

    fn interfaces(&self) -> &Interfaces {
        &self.reader.interfaces
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { lost_frames: self.reader.lost_frames, ..PassedOver::default() }
    }
}

/// Whether a line without an end may have had more data: nothing in it says how many there were.
fn may_be_cut(record: &Record) -> bool {
    let most = if record.frame.is_fd() { 64 } else { 8 };
    record.direction.is_none() && record.frame.len() < most
}

impl LineReader {
    /// A whole line as candump writes it, of a classical data frame: `(1436509052.249713) can0 123#DEADBEEF`. `None` for
    /// anything else that is a line, and for what is none.
    #[inline]
    fn usual_line(&mut self, input: &[u8]) -> Option<(usize, Record)> {
        const TIME_LEN: usize = "(1436509052.249713) ".len();
        let head: &[u8; TIME_LEN] = input.first_chunk()?;
        let (seconds, micros) = match (digits(head, 1), digits(head, 12)) {
            ((seconds, 11), (micros, 18)) => (seconds, micros),
            _ => return None,
        };
        if (head[0], head[11], head[18], head[19]) != (b'(', b'.', b')', b' ') {
            return None;
        }
        let at = first_below_0x21(input, TIME_LEN);
        if input.get(at) != Some(&b' ') || at == TIME_LEN {
            return None;
        }
        let name = &input[TIME_LEN..at];
        let (frame, len) = notation::data_frame(&input[at + 1..])?;
        let end = at + 1 + len;
        if input.get(end) != Some(&b'\n') || end > MAX_LINE_LEN {
            return None;
        }
        // Ten digits and six of them are less than 64 bits hold.
        let time_ns = seconds * NANOS_PER_SECOND + micros * 1_000;
        let interface = self.interfaces.intern(name).ok()?;
        Some((end + 1, Record { time_ns, interface, direction: None, frame }))
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<Option<Record>, LineError> {
        let at = skip_blanks(line, 0);
        if line.get(at) != Some(&b'(') {
            return self.parse_other(line, at);
        }
        let (time_ns, at) = parse_time(line, at + 1)?;

        let at = skip_blanks(line, at);
        let (name, at) = token(line, at);
        if name.is_empty() {
            return Err((at, Reason::Text(EXPECTED)));
        }
        let interface_at = at - name.len();

        let frame_at = skip_blanks(line, at);
        let (text, at) = token(line, frame_at);
        if text.is_empty() {
            return Err((at, Reason::Text(EXPECTED)));
        }
        let frame = notation::parse(text).map_err(|error| frame_error(text, frame_at, error))?;

        let at = skip_blanks(line, at);
        // Most lines end here.
        let direction = if at == line.len() { None } else { parse_direction(line, at)? };
        let interface = self
            .interfaces
            .intern(name)
            .map_err(|error| (interface_at, Reason::Interface(error)))?;
        Ok(Some(Record { time_ns, interface, direction, frame }))
    }

    /// A line without a frame.
    fn parse_other(&mut self, line: &[u8], at: usize) -> Result<Option<Record>, LineError> {
        let rest = line.get(at..).unwrap_or_default();
        if let Some(count) = rest.strip_prefix(b"DROPCOUNT: dropped ") {
            let digits = count.iter().take_while(|byte| byte.is_ascii_digit()).take(18);
            let lost = digits.fold(0, |lost, digit| lost * 10 + u64::from(digit - b'0'));
            self.lost_frames = self.lost_frames.saturating_add(lost);
            return super::console::check_drops(line).map(|()| None);
        }
        if is_comment(rest) { Ok(None) } else { Err((at, Reason::Text(EXPECTED))) }
    }
}

/// Reads `12.500000)`; returns nanoseconds and where it ends.
fn parse_time(line: &[u8], start: usize) -> Result<(u64, usize), LineError> {
    const SCALES: [u64; 10] =
        [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let bad = |at| Err((at, Reason::Text(BAD_TIME)));
    let (seconds, point) = digits(line, start);
    if point == start || line.get(point) != Some(&b'.') {
        return bad(point);
    }
    let (fraction, end) = digits(line, point + 1);
    let places = end - point - 1;
    let Some(&scale) = SCALES.get(places).filter(|_| places > 0) else {
        return bad(if places > 0 { point + SCALES.len() } else { end });
    };
    if line.get(end) != Some(&b')') {
        return bad(end);
    }
    let time =
        seconds.checked_mul(NANOS_PER_SECOND).and_then(|ns| ns.checked_add(fraction * scale));
    time.map(|time| (time, end + 1)).ok_or((start, Reason::Text(LATE_TIME)))
}

fn parse_direction(line: &[u8], at: usize) -> Result<Option<Direction>, LineError> {
    let (word, end) = token(line, at);
    let direction = match word {
        b"" => None,
        b"R" => Some(Direction::Received),
        b"T" => Some(Direction::Transmitted),
        _ => return Err((at, Reason::Text(BAD_END))),
    };
    let rest = skip_blanks(line, end);
    if rest < line.len() { Err((rest, Reason::Text(BAD_END))) } else { Ok(direction) }
}

fn frame_error(text: &[u8], frame_at: usize, error: NotationError) -> LineError {
    if text.contains(&b':') {
        // `123#80:00:00000000#AABB`
        return (frame_at, Reason::Frame(FrameError::Xl));
    }
    (frame_at + error.offset, Reason::Notation(error.reason))
}

struct CandumpEncoder;

impl Encoder for CandumpEncoder {
    fn encode(
        &mut self,
        record: &Record,
        interface: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if interface.is_empty() {
            return Err(EncodeError::Interface(InterfaceError::Length(0)));
        }
        let (seconds, nanos) =
            (record.time_ns / NANOS_PER_SECOND, record.time_ns % NANOS_PER_SECOND);
        out.push(b'(');
        put_decimal::<10>(seconds, out);
        out.push(b'.');
        if nanos.is_multiple_of(1_000) {
            put_decimal::<6>(nanos / 1_000, out);
        } else {
            put_decimal::<9>(nanos, out);
        }
        out.extend_from_slice(b") ");
        out.extend(interface.bytes().map(|byte| if is_space(byte) { b'_' } else { byte }));
        out.push(b' ');
        let mut text = [0; notation::MAX_LEN];
        let len = notation::write(&record.frame, &mut text);
        out.extend_from_slice(&text[..len]);
        out.extend_from_slice(match record.direction {
            None => b"\n",
            Some(Direction::Received) => b" R\n",
            Some(Direction::Transmitted) => b" T\n",
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{Any, Chunks, count, decode, encode, error, read_on};
    use crate::{InterfaceIndex, Recording};

    #[test]
    fn lines_are_read() {
        use Direction::*;
        for (line, time_ns, name, direction, frame) in [
            (
                "(1436509052.249713) can0 123#DEADBEEF",
                1_436_509_052_249_713_000,
                "can0",
                None,
                "123#DEADBEEF",
            ),
            (
                "(1436509052.249713123) vcan1 123#R2",
                1_436_509_052_249_713_123,
                "vcan1",
                None,
                "123#R2",
            ),
            (
                "(08255.460300) can0 0c00000b#fcffff7dffffffff",
                8_255_460_300_000,
                "can0",
                None,
                "0C00000B#FCFFFF7DFFFFFFFF",
            ),
            ("(0.5) can0 123##1AABB", 500_000_000, "can0", None, "123##1AABB"),
            ("  (1.000001)\t  can0   000#  \r", 1_000_001_000, "can0", None, "000#"),
            ("(1.000001) can0 7FF#11 R", 1_000_001_000, "can0", Some(Received), "7FF#11"),
            ("(1.000001) can0 7FF#11 T\r", 1_000_001_000, "can0", Some(Transmitted), "7FF#11"),
            ("(1.000001) can0 20000088#00", 1_000_001_000, "can0", None, "20000088#00"),
            ("(18446744073.709551615) c 7FF#11", u64::MAX, "c", None, "7FF#11"),
        ] {
            let expected = vec![(time_ns, name.into(), direction, frame.parse().unwrap())];
            assert_eq!(decode(&FORMAT, line.as_bytes()), Ok(expected), "{line}");
        }
    }

    proptest::proptest! {
        /// Whatever is read as a usual line is what the line is.
        #[test]
        fn what_seems_usual_is_right(
            time in "[0-9]{9,11}\\.[0-9]{5,7}|[ -~]{17}", between in " {1,2}|\t",
            name in "[ -~]{0,9}|can[0-9]|c\nn", id in "[0-9A-Fa-f]{3}|[0-9A-Fa-f]{8}|[ -~]{0,9}",
            data in "[0-9A-Fa-f.]{0,19}|[ -~]{0,20}", end in "( R|\r|| )\n[ -~]{0,9}",
        ) {
            let line = format!("({time}){between}{name} {id}#{data}{end}");
            let (whole, _) = line.split_once('\n').unwrap();
            let usual = LineReader::default().usual_line(line.as_bytes());
            let parsed = LineReader::default().parse_line(whole.as_bytes());
            if let Some((consumed, record)) = usual {
                proptest::prop_assert_eq!((consumed, Ok(Some(record))), (whole.len() + 1, parsed));
            }
        }

        /// What candump writes of classical data frames is a usual line.
        #[test]
        fn usual_lines_are_usual(
            time in "[0-9]{10}\\.[0-9]{6}", name in "[!-~]{1,15}", id in "[0-7][0-9A-F]{2}|[01][0-9A-F]{7}",
            data in "([0-9A-F]{2}){0,8}",
        ) {
            let line = format!("({time}) {name} {id}#{data}");
            let usual = LineReader::default().usual_line(format!("{line}\n").as_bytes());
            let parsed = LineReader::default().parse_line(line.as_bytes());
            proptest::prop_assert_eq!(usual.map(|(_, record)| Ok(Some(record))), Some(parsed));
        }
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("can0 123 [4] 11 22 33 44", "1:1: not a line of a candump log"),
            ("()", "1:2: this is not a time"),
            ("(12) can0 1#", "1:4: this is not a time"),
            ("(12.) can0 1#", "1:5: this is not a time"),
            ("(-1.0) can0 1#", "1:2: this is not a time"),
            ("(1:.0) can0 1#", "1:3: this is not a time"),
            ("(1.0000000001) can0 123#", "1:13: this is not a time"),
            ("(2026-11-20 12:00:00.5) can0 123#", "1:6: this is not a time"),
            ("(18446744073.709551616) can0 123#", "1:2: the time is after 18446744073 s"),
            ("(99999999999999999999999999.5) can0 123#", "1:2: the time is after"),
            ("(1.0)", "1:6: not a line of a candump log"),
            ("(1.0) can0", "1:11: not a line of a candump log"),
            ("(1.0) can0 123", "1:15: `#` is missing after the identifier"),
            ("(1.0) can0 123#112g", "1:19: a data byte needs two hex digits"),
            ("(1.0) can0 900#11", "1:12: standard identifier 0x900"),
            ("(1.0) can0 00123#80:00:00000000#AABB", "1:12: CAN XL frames are not supported"),
            ("(1.0) can0 123#11 22", "1:19: only `R` or `T` may follow"),
            ("(1.0) can0 123#11 R x", "1:21: only `R` or `T` may follow"),
            (
                "DROPCOUNT: dropped 5 CAN frames on 'can0' socket (total drops 5)(1.0) can0 123#11",
                "1:65: the line goes on",
            ),
            ("(1.0) \u{1F697}\u{FFFD}#11 123#1", "1:23: a data byte"),
        ] {
            let error = decode(&FORMAT, line.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert!(!error.to_string().contains("at character"), "the place stands in front");
            assert_eq!(error.resume, Some(line.len()), "{line}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_reported_at_its_place() {
        let line = std::format!("(1.0)  {} 123#11", "c".repeat(256));
        let error = decode(&FORMAT, line.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("1:8: the name of the interface has 256"), "{error}");
    }

    #[test]
    fn a_malformed_line_can_be_passed_over() {
        let mut decoder = FORMAT.decoder();
        let log: &[u8] = b"# made by hand\n\n(1.0) can0 1\n(2.0) can0 123#11\n";
        let mut outcomes = Vec::new();
        read_on(&mut *decoder, &mut Input::new(log), |found, _| {
            let found = found.map(|record| record.time_ns);
            outcomes.push(found.map_or_else(|it| it.position.to_string(), |it| it.to_string()));
            true
        });
        assert_eq!(outcomes, ["3:13", "2000000000"]);
    }

    #[test]
    fn a_line_without_an_end_was_cut() {
        for (line, message) in [
            ("(2.0) can0 123#1", "2:17: the file ends inside this record"),
            ("(2.0) can0 123#1\n", "2:17: a data byte needs two hex digits"),
        ] {
            let error = decode(&FORMAT, format!("\n{line}").as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn an_endless_line_is_refused_early() {
        let mut decoder = FORMAT.decoder();
        let endless = [b'('; MAX_LINE_LEN + 1];
        let waits = decoder.next(&mut Input::of_head(&endless[1..], false));
        assert!(matches!(waits, Err(ReadError::Io(_))), "{waits:?}");
        let error = error(&mut *decoder, &mut Input::of_head(&endless, false));
        assert_eq!(
            error.to_string(),
            "1:4097: the line has more than 4096 bytes; this is not a candump log"
        );
        assert_eq!(error.resume, Some(endless.len()));
    }

    /// Also where what follows in the line looks like one of its own, wherever pieces of the text end.
    #[test]
    fn a_line_that_is_too_long_costs_itself() {
        let good = "(1436509052.249713) can0 123#11\n";
        for len in [MAX_LINE_LEN + 1, 2 * MAX_LINE_LEN, 300_000] {
            for filler in ["\0", "(", good.trim_end(), "\r"] {
                let long = filler.repeat(len.div_ceil(filler.len()));
                let text = format!("{good}{long}{good}(2.0) can0 xyz\n{good}{long}");
                for chunk in [31, 4_096, 4_097, 4_098, 1 << 20] {
                    let source = Chunks::new(text.as_bytes(), chunk);
                    let recording = Recording::new("a.log", source, None).unwrap();
                    let mut recording = recording.skip_malformed(true);
                    assert_eq!(recording.by_ref().map(Result::unwrap).count(), 2);
                    assert_eq!(recording.skipped().count, 3);
                    assert_eq!(recording.consumed_bytes(), text.len() as u64);
                    let source = Chunks::new(text.as_bytes(), chunk);
                    let mut recording = Recording::new("a.log", source, None).unwrap();
                    let error = recording.by_ref().find_map(Result::err).unwrap().to_string();
                    let expected = "a.log:2:4097: the line has more than 4096 bytes, more than any record has; remove it";
                    assert_eq!(error, expected);
                    assert!(recording.next().is_none());
                }
            }
        }
    }

    #[test]
    fn losses_of_the_recorder_are_counted() {
        let mut decoder = FORMAT.decoder();
        let line = b"DROPCOUNT: dropped 17 CAN frames on 'can0' socket (total drops 20)\n";
        assert_eq!(count(&mut *decoder, line), 0);
        assert_eq!(decoder.passed_over().lost_frames, 17);
    }

    #[test]
    fn lines_are_written_as_candump_does() {
        let frame = || Any::Can("123#dead".parse().unwrap());
        let records = [
            (8_255_460_300_000, String::from("can0"), None, frame()),
            (1_436_509_052_249_713_123, String::from("bus\n1"), Some(Direction::Received), frame()),
            (0, String::from("can0"), Some(Direction::Transmitted), frame()),
        ];
        assert_eq!(
            String::from_utf8(encode(&FORMAT, &records)).unwrap(),
            "(0000008255.460300) can0 123#DEAD\n\
             (1436509052.249713123) bus_1 123#DEAD R\n\
             (0000000000.000000) can0 123#DEAD T\n"
        );
    }

    #[test]
    fn a_log_is_recognised_behind_comments() {
        assert!(begins(b"\r\n  # comment (1.0)\n (1"));
        for other in [&b"# only\n"[..], b"", b"(", b"can0 123#", b"***START***", b"{(1"] {
            assert!(!begins(other), "{other:?}");
        }
    }

    #[test]
    fn indices_follow_the_names() {
        let mut decoder = FORMAT.decoder();
        for (line, index) in
            [("(1.0) b 1#\n", None), ("(1.0) b 001#\n", Some(0)), ("(1.0) a 001#\n", Some(1))]
        {
            let found = match decoder.next(&mut Input::of_head(line.as_bytes(), true)) {
                Ok(Step::Record(record)) => Some(record.interface),
                _ => None,
            };
            assert_eq!(found, index.map(InterfaceIndex), "{line}");
        }
    }
}

//! The trace of CarBusAnalyzer, `.trc` as PEAK's. (Layout: a file of SavvyCAN's examples.)
//!
//! ```text
//! @ TEXT @ 2 @ 64 @ 0 @ 55 @ 10078 @ 00:00:10.078 @
//! 46,016  1  0004  45A  8  5A 04 00 00 00 00 00 00  00000000  Z
//! ```
//!
//! Lines end in CR alone, and tabulators stand between the fields: seconds with a decimal comma, channel, flags, identifier, length,
//! data, and what does not count. The first line has the number of frames and how many milliseconds they took. No example tells
//! what the flags say, nor how 29-bit identifiers look: one with more than 4 digits or above 0x7FF is taken for one.

use memchr::memrchr;

use super::text::{
    BAD_TIME, BEHIND, Layout, LineError, Log, Reader, Words, begins_with, data_bytes, decimal,
    identifier, length, line_feed_or_cr, number,
};
use super::{Format, usual};
use crate::decode::Reason;
use crate::encode::NANOS_PER_SECOND;
use crate::record::Record;
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, SFF_MASK};

pub(super) static FORMAT: Format = Format {
    name: "carbusanalyzer",
    title: "CarBusAnalyzer trace",
    endings: &["trc"],
    keeps_directions: false,
    begins: |head| begins_with(head, HEAD),
    ..usual(|_| Box::new(Reader::<CarBus>::default()))
};

const HEAD: &[u8] = b"@ TEXT @";
/// How many columns that do not count follow the data: eight digits, and the bytes as characters.
const COLUMNS_BEHIND: usize = 2;

#[derive(Default)]
struct CarBus;

impl Layout for CarBus {
    const TOO_LONG: &'static str = " bytes; this is not a trace of CarBusAnalyzer";

    fn line_end(window: &[u8], at_end: bool) -> Option<(usize, usize)> {
        line_feed_or_cr(window, at_end)
    }

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if line.starts_with(HEAD) {
            let end = memrchr(b'@', line).map_or(0, |at| at + 1);
            Words { line, at: end }.end()?;
            return Ok(None);
        }
        let mut words = Words::new(line);
        let (time, time_at) = words.next();
        let time_ns = decimal(time, NANOS_PER_SECOND).ok_or((time_at, Reason::Text(BAD_TIME)))?;
        let (channel, channel_at) = words.next();
        words.next();
        let (id, id_at) = words.next();
        let value = identifier((id, id_at), false)?;
        let is_extended = id.len() > 4 || value > SFF_MASK;
        let len = length(words.next(), 8)?;
        let mut data = [0; 8];
        data_bytes(&mut data[..len], false, || words.next())?;
        for place in 0.. {
            let (word, at) = words.field(b'\t');
            if at >= line.len() {
                break;
            }
            if place >= COLUMNS_BEHIND && !word.is_empty() {
                return Err((at, Reason::Text(BEHIND)));
            }
        }
        let can_id = value | if is_extended { EFF_FLAG } else { 0 };
        let frame = Frame::from_parts(can_id, &data[..len], None)
            .map_err(|error| (id_at, Reason::Frame(error)))?;
        let channel = number(channel, true).and_then(|channel| u32::try_from(channel).ok());
        let interface = log.channel(channel.unwrap_or(1), channel_at)?;
        Ok(Some(Record { time_ns, interface, direction: None, frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;
    use crate::format::tests::{Any, Chunks, decode, decode_any, read_on};

    const HEADER: &str = "@ TEXT @ 2 @ 64 @ 0 @ 55 @ 10078 @ 00:00:10.078 @";

    #[test]
    fn frames_are_read_whatever_ends_a_line() {
        for end in ["\r", "\n", "\r\n"] {
            for (line, name, expected) in [
                ("46,016\t1\t0004\t45A\t2\t5A 04\t00000000\tZ \t", "can0", "45A#5A04"),
                ("46.016\t2\t0004\t45A\t0\t\t00000000\t\t", "can1", "45A#"),
                ("46,016\t1\t0004\t0000045A\t1\t5A\t00000000\t\t", "can0", "0000045A#5A"),
                ("46,016\t1\t0004\t800\t1\t5A", "can0", "00000800#5A"),
            ] {
                let text = format!("{HEADER}{end}{line}{end}{line}{end}");
                let frame = Any::Can(expected.parse().unwrap());
                let record = (46_016_000_000, name.to_owned(), None, frame);
                for chunk in 1..9 {
                    let records = decode_any(&FORMAT, text.as_bytes(), &[chunk]);
                    assert_eq!(records, Ok(vec![record.clone(), record.clone()]), "{line}");
                }
            }
        }
        assert!((FORMAT.begins)(HEADER.as_bytes()) && !(FORMAT.begins)(b"@ TEXT"));
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("hello", "2:1: this is not a time"),
            ("99999999999,0 1 0004 45A 0", "2:1: this is not a time"),
            ("46,016 1 0004 45G 0", "2:15: this is not an identifier"),
            ("46,016 1 0004 45A 9", "2:19: this is not the length"),
            ("46,016 1 0004 45A 2 00", "2:23: the frame has fewer data bytes"),
            (
                "46,016\t1\t0004\t45A\t1\t5A\t00000000\tZ\t46,017\t1\t0004\t45A\t0",
                "2:35: the line goes on",
            ),
            ("@ TEXT @ 2 @46,016\t1\t0004\t45A\t0", "2:13: the line goes on"),
        ] {
            let text = format!("{HEADER}\r{line}\r");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let text = format!("{HEADER}\r46,016 1 0004 45A 2 00");
        assert!(decode(&FORMAT, text.as_bytes()).unwrap_err().is_cut());
        // The line behind one that is too long is read, and has its number, whichever way lines end and pieces of the text.
        for end in ["\r", "\r\n"] {
            let long = "x".repeat(9_000);
            let text = format!("{HEADER}{end}{long}{end}46,016 1 0004 45A 0{end}hello{end}");
            for chunk in 1..70 {
                let mut found = Vec::new();
                let source = Chunks::new(text.as_bytes(), chunk);
                read_on(&mut *FORMAT.decoder(), &mut Input::new(source), |it, _| {
                    found.push(
                        it.map_or_else(|it| it.position.to_string(), |it| it.frame.to_string()),
                    );
                    true
                });
                assert_eq!(found, ["2:4097", "45A#", "4:1"], "{chunk}");
            }
        }
        // As long as a line may be, and one byte more.
        for (len, is_error) in [(4_096, false), (4_097, true)] {
            let text = format!("{HEADER}{}\r\n", " ".repeat(len - HEADER.len()));
            for chunk in [1_000, 4_097, 4_098] {
                assert_eq!(
                    decode_any(&FORMAT, text.as_bytes(), &[chunk]).is_err(),
                    is_error,
                    "{len}"
                );
            }
        }
    }
}

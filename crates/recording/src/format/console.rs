//! What `candump` shows on the console. (Layout: `candump.c` and `lib.c` of can-utils.)
//!
//! ```text
//!   can0  123   [8]  11 22 33 44 55 66 77 88
//!  (1600000000.123456)  can0  RX - -  123   [2]  11 22
//!  (1600000000.123456)  can0  TX B E  12345678  [12]  11 22 33 44 55 66 77 88 99 AA BB CC
//! ```
//!
//! The time is there with `-t`, the direction and the marks for BRS and ESI with `-x`. Two digits in brackets are those of CAN FD;
//! `{F}` is a data length code beyond 8. An identifier of 8 digits has 29 bits, one with the flag 0x20000000 is an error report.
//! Times are as they stand: nothing tells those of `-t d`, which count from the line before, from those of `-t z`. Without `-t`
//! they are 0. `-t A` writes local time, taken as UTC. Views with `-i` (binary) and `-S` (swapped) are not read.

use memchr::{memchr, memmem};

use super::start::DateTime;
use super::text::{
    BAD_ID, BAD_LENGTH, BAD_TIME, BYTE_ORDER_MARK, Layout, LineError, Log, Reader, Words, at_most,
    data_bytes, decimal, number, skip_blanks,
};
use super::{Format, Labels, classical, usual};
use crate::decode::Reason;
use crate::encode::NANOS_PER_SECOND;
use crate::record::{Direction, Record};
use candor_wire::can::Frame;
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ERR_FLAG, ESI, RTR_FLAG};

pub(super) static FORMAT: Format = Format {
    name: "candump-console",
    title: "console output of candump",
    endings: &["txt"],
    labels: Labels::Names,
    keeps_error_reports: true,
    begins,
    ..usual(|_| Box::new(Reader::<Console>::default()))
};

/// The first line has a time or none, an interface, an identifier, and a length in brackets.
pub(super) fn begins(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let line = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let mut words = Words::new(line.unwrap_or_default());
    let _ = time(&mut words);
    words.next();
    extra(&mut words);
    let id = words.next().0;
    (3..=8).contains(&id.len()) && number(id, false).is_some() && length(words.next().0).is_some()
}

/// `(1600000000.123456)` or `(2020-09-13 12:26:40.123456)`, in nanoseconds; nothing is taken if there is none.
fn time(words: &mut Words<'_>) -> Result<u64, LineError> {
    let before = words.at;
    let (word, at) = words.next();
    let Some(word) = word.strip_prefix(b"(") else {
        words.at = before;
        return Ok(0);
    };
    let time_ns = match word.strip_suffix(b")") {
        Some(seconds) => decimal(seconds, NANOS_PER_SECOND),
        None => words.next().0.strip_suffix(b")").and_then(|clock| date(word, clock)),
    };
    time_ns.ok_or((at, Reason::Text(BAD_TIME)))
}

fn date(date: &[u8], clock: &[u8]) -> Option<u64> {
    let (mut date, mut clock) = (Words::new(date), Words::new(clock));
    let [year, month, day] = [0; 3].map(|_| number(date.field(b'-').0, true));
    let [hour, minute] = [0; 2].map(|_| number(clock.field(b':').0, true));
    let nanos = decimal(clock.field(b':').0, NANOS_PER_SECOND)?;
    let (second, fraction) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND);
    let time = (hour?, minute?, second);
    let start = DateTime { date: (year?, month?, day?), time, millis: 0, weekday: 0 };
    start.nanos()?.checked_add(fraction)
}

/// `RX - -`: the direction and the flags of CAN FD; nothing is taken if they are not there.
fn extra(words: &mut Words<'_>) -> (Option<Direction>, u8) {
    let before = words.at;
    let direction = match words.next().0 {
        b"RX" => Direction::Received,
        b"TX" => Direction::Transmitted,
        _ => {
            words.at = before;
            return (None, 0);
        }
    };
    let brs = if words.next().0 == b"B" { BRS } else { 0 };
    let esi = if words.next().0 == b"E" { ESI } else { 0 };
    (Some(direction), brs | esi)
}

/// What the brackets say.
enum Length {
    Fd(usize),
    /// A data length code.
    Classical(u8),
}

fn length(word: &[u8]) -> Option<Length> {
    match *word {
        [b'[', digit @ b'0'..=b'8', b']'] => Some(Length::Classical(digit - b'0')),
        [b'{', digit, b'}'] => number(&[digit], false).map(|dlc| Length::Classical(dlc as u8)),
        [b'[', tens, ones, b']'] => {
            number(&[tens, ones], true).filter(|&len| len <= 64).map(|len| Length::Fd(len as usize))
        }
        _ => None,
    }
}

/// Behind a frame nothing may follow but `remote request`, `ERRORFRAME`, or its data as characters in quotes.
fn check_end(words: &mut Words<'_>, is_remote: bool, data_len: usize) -> Result<(), LineError> {
    let at = skip_blanks(words.line, words.at);
    let rest = words.line.get(at..).unwrap_or_default().trim_ascii_end();
    let is_quote = |byte: Option<&u8>| matches!(byte, Some(b'\'' | b'`'));
    words.at = at
        + match rest {
            _ if is_remote => "remote request".len(),
            b"ERRORFRAME" => rest.len(),
            _ if is_quote(rest.first()) && is_quote(rest.get(data_len + 1)) => data_len + 2,
            _ => 0,
        };
    words.end()
}

/// `DROPCOUNT: dropped 2 CAN frames on 'can0' socket (total drops 2)` ends with a parenthesis, if all of it is there.
pub(super) fn check_drops(line: &[u8]) -> Result<(), LineError> {
    const TOTAL: &[u8] = b"(total drops ";
    let total = memmem::find(line, TOTAL).map(|at| at + TOTAL.len());
    let end = total.and_then(|at| Some(at + memchr(b')', line.get(at..)?)? + 1));
    end.map_or(Ok(()), |at| Words { line, at }.end())
}

#[derive(Default)]
struct Console;

impl Layout for Console {
    const TOO_LONG: &'static str = " bytes; this is not the output of candump";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        let mut words = Words::new(line);
        let time_ns = time(&mut words)?;
        let (name, name_at) = words.next();
        if name == b"DROPCOUNT:" {
            log.other = log.other.saturating_add(1);
            return check_drops(line).map(|()| None);
        }
        if name.is_empty() {
            let is_empty = line.trim_ascii().is_empty();
            return if is_empty { Ok(None) } else { Err((name_at, Reason::Text(BAD_ID))) };
        }
        let (direction, fd_flags) = extra(&mut words);
        let (id, id_at) = words.next();
        let value = at_most(u64::from(ERR_FLAG | EFF_MASK), (id, id_at), false, BAD_ID)? as u32;
        let can_id = match id.len() {
            8 if value & ERR_FLAG == 0 => value | EFF_FLAG,
            _ => value,
        };
        let (word, length_at) = words.next();
        let length = length(word).ok_or((length_at, Reason::Text(BAD_LENGTH)))?;
        let mut data = [0; 64];
        let before = words.at;
        let is_remote = words.next().0 == b"remote";
        words.at = before;
        let data_len = match length {
            Length::Fd(len) => len,
            Length::Classical(dlc) => usize::from(dlc).min(8),
        };
        let frame = match length {
            Length::Fd(len) => {
                data_bytes(&mut data[..len], false, || words.next())?;
                Frame::from_parts(can_id, &data[..len], Some(fd_flags))
            }
            Length::Classical(dlc) if is_remote => classical(can_id | RTR_FLAG, dlc, &[0; 8]),
            Length::Classical(dlc) => {
                data_bytes(&mut data[..data_len], false, || words.next())?;
                let eight = data.first_chunk().copied().unwrap_or_default();
                classical(can_id, dlc, &eight)
            }
        };
        check_end(&mut words, is_remote, data_len)?;
        let frame = frame.map_err(|error| (id_at, Reason::Frame(error)))?;
        let interface = log.named((name, name_at))?;
        Ok(Some(Record { time_ns, interface, direction, frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{Any, decode, decode_any};

    #[test]
    fn frames_are_read() {
        use Direction::{Received, Transmitted};
        let long = 1_600_000_000_123_456_000;
        for (line, time_ns, direction, expected) in [
            ("  can0  123   [2]  11 22", 0, None, "123#1122"),
            ("  can0       123   [2]  11 22   '.\"'\r", 0, None, "123#1122"),
            ("  can0  12345678   [0]", 0, None, "12345678#"),
            (" (1600000000.123456)  can0  123   [0]  remote request", long, None, "123#R"),
            (
                " (2020-09-13 12:26:40.123456)  can0  123   [4]  remote request",
                long,
                None,
                "123#R4",
            ),
            (" (000.000001)  can0  RX - -  123   [1]  11", 1_000, Some(Received), "123#11"),
            (
                " (000.000001)  can0  TX B E  123  [02]  11 22",
                1_000,
                Some(Transmitted),
                "123##31122",
            ),
            (
                "  can0  RX - E  123  [12]  1 2 3 4 5 6 7 8 9 A B C",
                0,
                Some(Received),
                "123##20102030405060708090A0B0C",
            ),
            ("  can0  123   {F}  01 02 03 04 05 06 07 08", 0, None, "123#0102030405060708_F"),
            (
                "  can0  20000088   [8]  00 00 08 00 00 00 00 00   ERRORFRAME",
                0,
                None,
                "20000088#0000080000000000",
            ),
        ] {
            assert!(begins(line.as_bytes()), "{line}");
            let frame = Any::Can(expected.parse().unwrap());
            let record = (time_ns, "can0".to_owned(), direction, frame);
            let text = format!("\u{feff}\n{line}\n");
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
        assert!(!begins(b"(1436509052.249713) can0 123#DEADBEEF\n") && !begins(b"[bus]\na = 1\n"));
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("(x)  can0  123  [0]", "2:1: this is not a time"),
            ("(99999999999.0)  can0  123  [0]", "2:1: this is not a time"),
            ("(2020-13-13 12:26:40.1)  can0  123  [0]", "2:1: this is not a time"),
            ("can0 12G [0]", "2:6: this is not an identifier"),
            ("can0 800 [0]", "2:6: standard identifier 0x800"),
            ("can0 123 [9]", "2:10: this is not the length"),
            ("can0 123 [65]", "2:10: this is not the length"),
            ("can0 123 [2] 11", "2:16: the frame has fewer data bytes"),
            ("can0 123 [2] 00010001 00100010", "2:14: the frame has fewer data bytes"),
            ("can0 123 [09] 1 2 3 4 5 6 7 8 9", "2:6: 9 bytes of data, but a CAN FD"),
            ("can0 123 [1] 11 22", "2:17: the line goes on"),
            ("can0  123   [1]  11  can0  124   [0]", "2:22: the line goes on"),
            ("can0  123   [1]  11   '.'  can0  124   [0]   '.'", "2:28: the line goes on"),
            ("can0  123   [1]  11   '..'", "2:23: the line goes on"),
            ("can0  123   [0]  remote request  can0  124   [0]", "2:34: the line goes on"),
            ("can0  123   [0]  remote  can0  124   [0]", "2:"),
            ("can0  20000088   [0]  ERRORFRAME  can0  124   [0]", "2:23: the line goes on"),
            ("(1.0)", "2:6: this is not an identifier"),
            (
                "DROPCOUNT: dropped 2 CAN frames on 'can0' socket (total drops 2)  can0  124  [0]",
                "2:67: the line goes on",
            ),
        ] {
            let text = format!(
                "DROPCOUNT: dropped 2 CAN frames on 'can0' socket (total drops 2)\n{line}\n"
            );
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let cut = decode(&FORMAT, b"  can0  123  [0]\n  can0  123  [2]  11").unwrap_err();
        assert!(cut.is_cut());
    }
}

//! The log of BUSMASTER. (Layouts: its own files, and `framefileio.cpp` of SavvyCAN, which writes another number of decimals.)
//!
//! ```text
//! ***BUSMASTER Ver 2.4.0***
//! ***START DATE AND TIME 23:9:2015 22:17:28:928***
//! ***HEX***
//! ***SYSTEM MODE***
//! 22:20:14:992 Rx 0 0000021A s 8 FE 36 12 FE 69 05 07 AD
//! 22:20:14:9925 Tx 1 0x023 xr 1
//! ```
//!
//! Four digits behind the seconds are tenths of a millisecond, fewer are milliseconds. In `SYSTEM MODE` times are those of the
//! day; a line is at most an hour earlier than the one before it, so what seems to be more is of the next day. In `ABSOLUTE MODE` they count from the
//! start, in `RELATIVE MODE` from the line before. Channel 1 is `can0`, 0 is `channel0`. Identifiers and data are
//! hexadecimal, or decimal after `***DEC***`. A second session begins with a header of its own. Lines with another type than
//! `s`, `x`, `sr` and `xr` are passed over and counted.

use memchr::memmem;

use super::start::DateTime;
use super::text::{
    BAD_DIRECTION, BAD_TIME, BEHIND, Layout, LineError, Log, Reader, Words, begins_with,
    data_bytes, digits, direction, ends_in_one_digit, identifier, length, number, without_0x,
};
use super::{Format, classical, usual};
use crate::decode::Reason;
use crate::encode::NANOS_PER_SECOND;
use crate::record::Record;
use candor_wire::can::frame::{EFF_FLAG, RTR_FLAG};
use candor_wire::can::{Frame, Kind};

pub(super) static FORMAT: Format = Format {
    name: "busmaster",
    title: "BUSMASTER log",
    endings: &["log"],
    has_start: true,
    begins: |head| begins_with(head, b"***BUSMASTER"),
    ..usual(|_| Box::new(Reader::<Busmaster>::default()))
};

const NANOS_PER_DAY: u64 = 86_400 * NANOS_PER_SECOND;
/// How late a line may be.
const MAX_LATE_NS: u64 = 3_600 * NANOS_PER_SECOND;

#[derive(Clone, Copy, Default)]
enum Mode {
    #[default]
    System,
    Absolute,
    Relative,
}

#[derive(Default)]
struct Busmaster {
    is_decimal: bool,
    mode: Mode,
    /// When the line before was.
    latest_ns: u64,
}

impl Layout for Busmaster {
    const TOO_LONG: &'static str = " bytes; this is not a BUSMASTER log";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        let mut words = Words::new(line);
        let (time, time_at) = words.next();
        if time.is_empty() {
            return Ok(None);
        }
        if time.starts_with(b"***") {
            // What was lost behind it, as `***HEX***` or a frame, is not another name.
            let end = memmem::find(&line[time_at + 3..], b"***").map(|end| time_at + end + 6);
            if let Some(end) = end.filter(|&end| !line[end..].trim_ascii().is_empty()) {
                return Err((end, Reason::Text(BEHIND)));
            }
            self.parse_header(line.trim_ascii(), log);
            return Ok(None);
        }
        let time_ns = parse_time(time).and_then(|time| self.since_1970(time, log.start_ns));
        let time_ns = time_ns.ok_or((time_at, Reason::Text(BAD_TIME)))?;
        self.latest_ns = time_ns;
        let (way, way_at) = words.next();
        let direction = direction(way).ok_or((way_at, Reason::Text(BAD_DIRECTION)))?;
        let (channel, channel_at) = words.next();
        let id = words.next();
        let (flags, is_remote) = match words.next().0 {
            b"s" => (0, false),
            b"x" => (EFF_FLAG, false),
            b"sr" => (RTR_FLAG, true),
            b"xr" => (EFF_FLAG | RTR_FLAG, true),
            _ => {
                log.other = log.other.saturating_add(1);
                return Ok(None);
            }
        };
        let can_id = identifier(without_0x(id), self.is_decimal)? | flags;
        let len = length(words.next(), 8)?;
        let mut data = [0; 8];
        if is_remote {
            // BUSMASTER writes the data of every frame; those of a request say nothing.
            let mut rest = Words { line, at: words.at };
            while words.at < line.len() && self.is_byte(rest.next().0) {
                words.at = rest.at;
            }
        } else {
            data_bytes(&mut data[..len], self.is_decimal, || without_0x(words.next()))?;
        }
        words.end()?;
        let frame = classical(can_id, len as u8, &data);
        let frame = frame.map_err(|error| (id.1, Reason::Frame(error)))?;
        let channel = number(channel, true).and_then(|channel| u32::try_from(channel).ok());
        let interface = log.channel(channel.unwrap_or(1), channel_at)?;
        Ok(Some(Record { time_ns, interface, direction: Some(direction), frame }))
    }

    fn may_be_cut(&self, line: &[u8], frame: &Frame) -> bool {
        let has_data = frame.kind() == Kind::Data && !frame.is_empty();
        has_data && (self.is_decimal || ends_in_one_digit(line))
    }
}

impl Busmaster {
    fn is_byte(&self, word: &[u8]) -> bool {
        number(word, self.is_decimal).is_some_and(|value| value <= 0xFF && word.len() <= 3)
    }

    fn parse_header(&mut self, line: &[u8], log: &mut Log) {
        match line {
            b"***HEX***" => self.is_decimal = false,
            b"***DEC***" => self.is_decimal = true,
            b"***SYSTEM MODE***" => self.mode = Mode::System,
            b"***ABSOLUTE MODE***" => self.mode = Mode::Absolute,
            b"***RELATIVE MODE***" => self.mode = Mode::Relative,
            _ => {
                if let Some(date) = line.strip_prefix(b"***START DATE AND TIME ") {
                    log.start_ns = parse_date(date).unwrap_or(0);
                    self.latest_ns = log.start_ns;
                }
            }
        }
    }

    /// Nanoseconds since 1970 of the time of a line; `None` if that is beyond 64 bits.
    fn since_1970(&self, time: u64, start_ns: u64) -> Option<u64> {
        match self.mode {
            Mode::Absolute => start_ns.checked_add(time),
            Mode::Relative => self.latest_ns.checked_add(time),
            Mode::System => {
                let midnight = self.latest_ns - self.latest_ns % NANOS_PER_DAY;
                let today = midnight.checked_add(time)?;
                if self.latest_ns.saturating_sub(today) > MAX_LATE_NS {
                    return today.checked_add(NANOS_PER_DAY);
                }
                // A line of before midnight that is late; there is none before the start.
                let is_late = today.saturating_sub(self.latest_ns) > NANOS_PER_DAY - MAX_LATE_NS
                    && self.latest_ns > start_ns;
                Some(today.checked_sub(if is_late { NANOS_PER_DAY } else { 0 }).unwrap_or(today))
            }
        }
    }
}

/// `22:20:14:992` or `22:20:14:9925`, in nanoseconds.
fn parse_time(word: &[u8]) -> Option<u64> {
    let mut numbers = [0; 4];
    let (mut at, mut places) = (0, 0);
    for (place, value) in numbers.iter_mut().enumerate() {
        if place > 0 && word.get(at) != Some(&b':') {
            return None;
        }
        let start = at + usize::from(place > 0);
        (*value, at) = digits(word, start);
        places = at - start;
        if places == 0 {
            return None;
        }
    }
    let [hours, minutes, seconds, fraction] = numbers;
    let unit = match places {
        1..=3 => 1_000_000,
        4 => 100_000,
        _ => return None,
    };
    if at < word.len() || minutes > 59 || seconds > 60 {
        return None;
    }
    let seconds = hours.checked_mul(3_600)?.checked_add(minutes * 60 + seconds)?;
    seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(fraction * unit)
}

/// `23:9:2015 22:17:28:928***`.
fn parse_date(text: &[u8]) -> Option<u64> {
    let mut words = Words::new(text.strip_suffix(b"***").unwrap_or(text));
    let (mut date, time) = (Words::new(words.next().0), words.next().0);
    let [day, month, year] = [0; 3].map(|_| number(date.field(b':').0, true));
    let midnight = DateTime { date: (year?, month?, day?), time: (0, 0, 0), millis: 0, weekday: 0 };
    midnight.nanos()?.checked_add(parse_time(time).filter(|&time| time < NANOS_PER_DAY)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::format::tests::{Any, decode, decode_any};

    const HEADER: &str = "***BUSMASTER Ver 2.4.0***\r\n***START DATE AND TIME 23:9:2015 22:17:28:928***\n***HEX***\n***SYSTEM MODE***\n";
    /// 2015-09-23.
    const DAY_MS: u64 = 1_442_966_400_000;

    #[test]
    fn frames_are_read() {
        use Direction::{Received, Transmitted};
        for (line, name, direction, expected) in [
            ("22:20:14:992 Rx 0 0000021A s 2 FE 36 ", "channel0", Received, "21A#FE36"),
            ("22:20:14:9920 Tx 1 0x023 s 1 40", "can0", Transmitted, "023#40"),
            ("22:20:14:992 Rx 2 0x023 x 0\r", "can1", Received, "00000023#"),
            ("22:20:14:992 Rx 1 0x023 xr 4", "can0", Received, "00000023#R4"),
            ("22:20:14:992 Rx 1 0x023 sr 0", "can0", Received, "023#R"),
            ("22:20:14:992 Rx 1 0x023 sr 2 00 00 ", "can0", Received, "023#R2"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let time_ns = (DAY_MS + 80_414_992) * 1_000_000;
            let frame = Any::Can(expected.parse().unwrap());
            let record = (time_ns, name.to_owned(), Some(direction), frame);
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
        let decimal = format!("{HEADER}***DEC***\n22:20:14:992 Rx 1 255 s 1 255\n");
        assert_eq!(decode(&FORMAT, decimal.as_bytes()).unwrap()[0].3.to_string(), "0FF#FF");
    }

    #[test]
    fn times_are_as_the_mode_says() {
        let times = |text: &str| -> Vec<i64> {
            let records = decode(&FORMAT, text.as_bytes()).unwrap();
            records.iter().map(|it| (it.0 / 1_000_000) as i64 - DAY_MS as i64).collect()
        };
        let lines = |mode: &str, times: &[&str]| {
            let lines: String = times.iter().map(|it| format!("{it} Rx 1 1 s 0\n")).collect();
            format!("{HEADER}***{mode} MODE***\n{lines}")
        };
        const DAY: i64 = 86_400_000;
        // Also a line that is late.
        let system = lines(
            "SYSTEM",
            &["23:59:59:999", "0:0:0:1", "23:59:59:998", "0:0:0:2", "22:0:0:0", "21:30:0:0"],
        );
        assert_eq!(
            times(&system),
            [DAY - 1, DAY + 1, DAY - 2, DAY + 2, DAY + 79_200_000, DAY + 77_400_000]
        );
        let start = 80_248_928;
        assert_eq!(
            times(&lines("ABSOLUTE", &["0:0:1:0", "0:0:2:5"])),
            [start + 1_000, start + 2_005]
        );
        assert_eq!(
            times(&lines("RELATIVE", &["0:0:1:0", "0:0:2:5"])),
            [start + 1_000, start + 3_005]
        );
        // Begun before midnight, first frame behind it; and a second session.
        let second =
            format!("{}{}", lines("SYSTEM", &["1:0:0:0"]), lines("ABSOLUTE", &["0:0:1:0"]));
        assert_eq!(times(&second), [DAY + 3_600_000, start + 1_000]);
        let undated = "***BUSMASTER\n1:0:0:0 Rx 1 1 s 0\n";
        assert_eq!(decode(&FORMAT, undated.as_bytes()).unwrap()[0].0, 3_600_000_000_000);
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("hello", "5:1: this is not a time"),
            ("22:20:14 Rx 1 1 s 0", "5:1: this is not a time"),
            ("22:20:14:99999 Rx 1 1 s 0", "5:1: this is not a time"),
            ("9999999999:20:14:1 Rx 1 1 s 0", "5:1: this is not a time"),
            ("22:20:14:992 XX 1 1 s 0", "5:14: this is no direction"),
            ("22:20:14:992 Rx 1 G s 0", "5:19: this is not an identifier"),
            ("22:20:14:992 Rx 1 800 s 0", "5:19: standard identifier 0x800"),
            ("22:20:14:992 Rx 1 1 s 9", "5:23: this is not the length"),
            ("22:20:14:992 Rx 1 1 s 2 00 ", "5:28: the frame has fewer data bytes"),
            ("22:20:14:992 Rx 1 1 s 1 00 22:20:14:993 Rx 1 2 s 0", "5:28: the line goes on"),
            ("22:20:14:992 Rx 1 1 xr 1 05 22:20:14:993 Rx 1 2 s 0", "5:29: the line goes on"),
            ("***DEC***22:20:14:992 Rx 1 1 s 0", "5:10: the line goes on"),
            ("***DEC******RELATIVE MODE***", "5:10: the line goes on"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
        let text = format!("{HEADER}22:20:14:992 Rx 1 1 s 2 00");
        assert!(decode(&FORMAT, text.as_bytes()).unwrap_err().is_cut());
        assert!((FORMAT.begins)(HEADER.as_bytes()) && !(FORMAT.begins)(b"***"));
    }
}

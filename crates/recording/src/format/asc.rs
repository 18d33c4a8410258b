//! The text log of Vector's tools, ASC.
//!
//! ```text
//! date Sat Sep 30 15:06:13.191 2017
//! base hex  timestamps absolute
//! Begin Triggerblock Sat Sep 30 15:06:13.191 2017
//!    0.000000 Start of measurement
//!    2.584921 1  18EBFF00x       Rx   d 8 01 A0 0F A6 60 3B D1 40
//!    2.585000 1  123             Tx   r 4
//!    2.586000 2  ErrorFrame
//!    2.587000 CANFD   1 Rx        123                                   1 0 9 12 01 02 03 04 05 06 07 08 09 0A 0B 0C
//! End TriggerBlock
//! ```
//!
//! Times are seconds since the start, which is the `date` or, from there on, that of the last `Begin Triggerblock`: each block counts
//! from 0 again. After `timestamps relative` they are seconds since the line before. A date that is not readable costs the date alone,
//! is counted, and the one before stays. Identifiers and
//! data are in the `base`, hexadecimal unless the file says otherwise; an `x` behind an identifier means 29 bits. A line of
//! `CANFD` whose flags behind the data lack bit 12 (EDL) is a classical frame, unless it has more than 8 bytes or its data at another
//! bit rate: flags may be left 0. So is a line of `d` CAN FD that has more than 8 bytes. All other events are passed over and counted.
//!
//! An error frame says only that there was one: it is read as the report of an error on the bus, as python-can writes it.
//! It was received, unless the line says `Tx`.
//!
//! Written are absolute times with 6 decimals if they are whole microseconds, else 9.

use std::io::Write as _;

use memchr::{memchr_iter, memmem};

use super::channels::Numbers;
use super::start::{DateTime, Start};
use super::text::{
    BAD_DIRECTION, BEHIND, BYTE_ORDER_MARK, Layout, LineError, Log, Reader, Word, Words, at_most,
    digits, direction, ends_in_one_digit, is_blank, number,
};
use super::{Format, classical, error_report, usual};
use crate::decode::Reason;
use crate::encode::{EncodeError, Encoder, NANOS_PER_SECOND};
use crate::record::{Direction, Record};
use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ESI, RTR_FLAG};
use candor_wire::can::{Frame, FrameError, Kind};

pub(super) static FORMAT: Format = Format {
    name: "asc",
    title: "ASC log",
    endings: &["asc"],
    has_start: true,
    is_written: true,
    begins,
    encoder: |_| Box::new(AscEncoder::default()),
    ..usual(|_| Box::new(Reader::<Asc>::default()))
};

const LATE: &str = "the time is after the year 2554, the limit of 64-bit nanoseconds; correct the line or the date";
const BAD_ID: &str =
    "this is not an identifier in the base of the file; correct it, or the line `base`";
const BAD_DATA: &str = "the frame has fewer data bytes than its length says, or one that is not in the base of the file";
const BAD_LENGTH: &str = "this is not the length of a frame; it is a data length code (0 to 15), or the number of data bytes (up to 64)";
const BAD_TIME: &str = "this is no time in seconds with decimals; correct the line";
const BAD_BASE: &str = "expected `base hex` or `base dec`, and perhaps `timestamps absolute` or `timestamps relative` behind it; \
                        correct the line";
const BAD_KIND: &str = "this is no kind of frame; it is `d` (data) or `r` (remote)";
/// Lines that say nothing about frames.
const KNOWN: [&str; 3] =
    ["no internal events logged", "internal events logged", "end triggerblock"];

/// The line with the flags of a frame that was logged as CAN FD: bit 12.
const EDL: u64 = 1 << 12;
/// How many words stand between the data and the flags: duration and length of the message.
const WORDS_BEFORE_FLAGS: usize = 2;
/// How many lines may stand before the first one that tells.
const HEAD_LINES: usize = 8;

/// One of the first lines is a `date` of some day of the week, or the `base` of numbers.
fn begins(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').take(HEAD_LINES).any(|line| {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let mut words = Words::new(line);
        let (word, second) = (words.next().0, words.next().0);
        match word.to_ascii_lowercase().as_slice() {
            b"date" => second.first().is_some_and(|&byte| byte.is_ascii_alphabetic()),
            b"base" => ["hex", "dec"].iter().any(|it| second.eq_ignore_ascii_case(it.as_bytes())),
            _ => false,
        }
    })
}

#[derive(Default)]
struct Asc {
    is_decimal: bool,
    is_relative: bool,
    /// When the line before was, since the start.
    latest_ns: u64,
}

impl Layout for Asc {
    const TOO_LONG: &'static str = " bytes; this is not an ASC log";

    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError> {
        let mut words = Words::new(line);
        let (word, at) = words.next();
        let Some(time_ns) = parse_time(word) else {
            self.parse_header(line, (word, at), &mut words, log)?;
            return Ok(None);
        };
        let since_ns = match self.is_relative {
            true => self.latest_ns.checked_add(time_ns),
            false => Some(time_ns),
        };
        let late = (at, Reason::Text(LATE));
        let since_ns = since_ns.ok_or(late)?;
        self.latest_ns = since_ns;
        let (word, channel_at) = words.next();
        let parsed = match (number(word, true), word) {
            (Some(channel), _) => self.parse_classical(&mut words)?.map(|found| (channel, found)),
            (None, b"CANFD") => {
                let (word, _) = words.next();
                match number(word, true) {
                    Some(channel) => self.parse_fd(&mut words)?.map(|found| (channel, found)),
                    None => None,
                }
            }
            _ => None,
        };
        let Some((channel, (direction, frame))) = parsed else {
            log.other += u64::from(!line.trim_ascii_end().ends_with(b"Start of measurement"));
            return Ok(None);
        };
        let time_ns = log.start_ns.checked_add(since_ns).ok_or(late)?;
        let channel = u32::try_from(channel).unwrap_or(u32::MAX);
        let interface = log.channel(channel, channel_at)?;
        Ok(Some(Record { time_ns, interface, direction, frame }))
    }

    /// Decimal data may have lost a digit in more ways; behind those of CAN FD, flags say what they are; and behind `r` there may
    /// have been a length.
    fn may_be_cut(&self, line: &[u8], frame: &Frame) -> bool {
        match frame.kind() {
            Kind::Data if memmem::find(line, b"CANFD").is_some() => true,
            Kind::Data => (self.is_decimal && !frame.is_empty()) || ends_in_one_digit(line),
            Kind::Fd | Kind::Remote => true,
            Kind::Error => false,
        }
    }
}

impl Asc {
    /// A line without a time.
    fn parse_header(
        &mut self,
        line: &[u8],
        (word, at): Word<'_>,
        words: &mut Words<'_>,
        log: &mut Log,
    ) -> Result<(), LineError> {
        let is = |word: &[u8], expected: &[u8]| word.eq_ignore_ascii_case(expected);
        if is(word, b"date") {
            Self::parse_start(words, log)?;
        } else if is(word, b"base") {
            self.parse_base(words)?;
        } else if is(word, b"begin") && is(words.next().0, b"triggerblock") {
            self.latest_ns = 0;
            Self::parse_start(words, log)?;
        } else if matches!(word, [b'0'..=b'9' | b'-' | b'.' | ..b' ' | 0x7F.., ..]) {
            return Err((at, Reason::Text(BAD_TIME)));
        } else if !KNOWN.iter().any(|known| is(line.trim_ascii(), known.as_bytes()))
            && !word.starts_with(b"//")
        {
            log.other = log.other.saturating_add(u64::from(!word.is_empty()));
        }
        Ok(())
    }

    /// `hex  timestamps absolute`.
    fn parse_base(&mut self, words: &mut Words<'_>) -> Result<(), LineError> {
        let mut one_of = |first: &str, second: &str| {
            let (word, at) = words.next();
            let is = |expected: &str| word.eq_ignore_ascii_case(expected.as_bytes());
            if is(first) || is(second) { Ok(is(second)) } else { Err((at, Reason::Text(BAD_BASE))) }
        };
        self.is_decimal = one_of("hex", "dec")?;
        let has_no_times = one_of("timestamps", "")?;
        self.is_relative = !has_no_times && one_of("absolute", "relative")?;
        words.end()
    }

    /// A date that is not readable is counted, and the one before stays.
    fn parse_start(words: &mut Words<'_>, log: &mut Log) -> Result<(), LineError> {
        match parse_date(words) {
            Some(start_ns) => {
                log.start_ns = start_ns;
                words.end()
            }
            None => {
                log.other = log.other.saturating_add(1);
                Ok(())
            }
        }
    }

    /// Behind the channel: `123x Rx d 2 01 02`, `123 Tx r 4`, `ErrorFrame`; `None` for any other event. Behind the frame its duration
    /// and the like may follow.
    fn parse_classical(
        &self,
        words: &mut Words<'_>,
    ) -> Result<Option<(Option<Direction>, Frame)>, LineError> {
        let (id, id_at) = words.next();
        if id.eq_ignore_ascii_case(b"errorframe") {
            let before = words.at;
            let known = direction(words.next().0);
            words.at = before;
            return error_frame(known, id_at, words).map(Some);
        }
        let known_id = self.can_id(id);
        let (way, way_at) = words.next();
        let Some(direction) = direction(way) else {
            return match known_id {
                // A request to transmit, and not yet a frame.
                Some(_) if !way.eq_ignore_ascii_case(b"txrq") => {
                    Err((way_at, Reason::Text(BAD_DIRECTION)))
                }
                _ => Ok(None),
            };
        };
        let (kind, kind_at) = words.next();
        let is_remote = match kind {
            b"d" | b"D" => false,
            b"r" | b"R" => true,
            _ => return Err((kind_at, Reason::Text(BAD_KIND))),
        };
        let can_id = known_id.ok_or((id_at, Reason::Text(BAD_ID)))?;
        let (word, length_at) = words.next();
        let most = if is_remote { 15 } else { 64 };
        let dlc = number(word, self.is_decimal).filter(|&dlc| dlc <= most);
        let frame = match (is_remote, dlc) {
            // A request without a length, such as `r` alone or `r Length = 0`.
            (true, None) => {
                words.at = length_at;
                Frame::from_parts(can_id | RTR_FLAG, &[], None)
            }
            (true, Some(dlc)) => classical(can_id | RTR_FLAG, dlc as u8, &[0; 8]),
            (false, None) => return Err((length_at, Reason::Text(BAD_LENGTH))),
            (false, Some(dlc)) => self.data_frame(can_id, dlc as u8, words)?,
        };
        check_end(words)?;
        let frame = frame.map_err(|error| (id_at, Reason::Frame(error)))?;
        Ok(Some((Some(direction), frame)))
    }

    /// The frame behind `d` and its length. With more than 8 bytes only one of CAN FD is as long: some programs write such so, with the
    /// number of bytes.
    fn data_frame(
        &self,
        can_id: u32,
        dlc: u8,
        words: &mut Words<'_>,
    ) -> Result<Result<Frame, FrameError>, LineError> {
        let mut data = [0; 64];
        let len = usize::from(dlc);
        self.data(words, &mut data[..len.min(8)])?;
        let before = words.at;
        let (word, at) = words.next();
        let is_byte = self.byte(word).is_some();
        words.at = before;
        if len > 15 || len > 8 && is_byte {
            self.data(words, &mut data[8..len])?;
            return Ok(Frame::from_parts(can_id, &data[..len], Some(0)));
        }
        if is_byte {
            return Err((at, Reason::Text(BEHIND)));
        }
        let eight = data.first_chunk().copied().unwrap_or_default();
        Ok(classical(can_id, dlc, &eight))
    }

    /// Behind the channel: `Rx 123x [name] BRS ESI DLC length data ... duration length flags ...`.
    fn parse_fd(
        &self,
        words: &mut Words<'_>,
    ) -> Result<Option<(Option<Direction>, Frame)>, LineError> {
        let Some(direction) = direction(words.next().0) else { return Ok(None) };
        let (id, id_at) = words.next();
        if id.eq_ignore_ascii_case(b"errorframe") {
            return error_frame(Some(direction), id_at, words).map(Some);
        }
        let can_id = self.can_id(id).ok_or((id_at, Reason::Text(BAD_ID)))?;
        let mut brs = words.next().0;
        if !matches!(brs, b"0" | b"1") {
            // The name of the message.
            brs = words.next().0;
        }
        let esi = words.next().0;
        let dlc = at_most(15, words.next(), false, BAD_LENGTH)? as u8;
        let length = at_most(64, words.next(), true, BAD_LENGTH)? as usize;
        let mut data = [0; 64];
        self.data(words, &mut data[..length])?;
        check_end(words)?;
        for _ in 0..WORDS_BEFORE_FLAGS {
            words.next();
        }
        let flags = number(words.next().0, false);
        // What only CAN FD has tells more than flags, which some files leave 0.
        let is_fd = length > 8 || brs == b"1";
        let frame = match flags {
            Some(flags) if flags & EDL == 0 && !is_fd => {
                let eight = data.first_chunk().copied().unwrap_or_default();
                let remote = if flags & 0x10 != 0 { RTR_FLAG } else { 0 };
                classical(can_id | remote, dlc, &eight)
            }
            _ => {
                let bits = [(brs == b"1", BRS), (esi == b"1", ESI)];
                let bits =
                    bits.iter().filter(|(is_set, _)| *is_set).fold(0, |sum, (_, bit)| sum | bit);
                Frame::from_parts(can_id, &data[..length], Some(bits))
            }
        };
        let frame = frame.map_err(|error| (id_at, Reason::Frame(error)))?;
        Ok(Some((Some(direction), frame)))
    }

    /// An identifier, with the flag of the kernel if it has 29 bits.
    fn can_id(&self, word: &[u8]) -> Option<u32> {
        let (digits, flag) = match word {
            [digits @ .., b'x' | b'X'] => (digits, EFF_FLAG),
            digits => (digits, 0),
        };
        let id = number(digits, self.is_decimal).filter(|&id| id <= u64::from(EFF_MASK))?;
        Some(id as u32 | flag)
    }

    /// Reads as many bytes as `data` has.
    fn data(&self, words: &mut Words<'_>, data: &mut [u8]) -> Result<(), LineError> {
        for byte in data {
            let (word, at) = words.next();
            *byte = self.byte(word).ok_or((at, Reason::Text(BAD_DATA)))?;
        }
        Ok(())
    }

    fn byte(&self, word: &[u8]) -> Option<u8> {
        let value = number(word, self.is_decimal).filter(|_| word.len() <= 3);
        value.and_then(|value| u8::try_from(value).ok())
    }
}

/// An error frame, and what stands behind the word; received, if the line does not say.
fn error_frame(
    direction: Option<Direction>,
    at: usize,
    words: &Words<'_>,
) -> Result<(Option<Direction>, Frame), LineError> {
    check_end(words)?;
    let frame = error_report().map_err(|error| (at, Reason::Frame(error)))?;
    Ok((Some(direction.unwrap_or(Direction::Received)), frame))
}

/// What may stand behind a frame (`Length = 273910 BitCount = 141`, counters, names of errors) has no decimals, unlike the time that
/// every event begins with: where one is, the line break before it is lost.
fn check_end(words: &Words<'_>) -> Result<(), LineError> {
    let rest = words.line.get(words.at..).unwrap_or_default();
    let is_time = |&at: &usize| rest.get(at + 1).is_some_and(u8::is_ascii_digit);
    let Some(point) = memchr_iter(b'.', rest).find(is_time) else { return Ok(()) };
    let word = rest[..point].iter().rposition(|&byte| is_blank(byte)).map_or(0, |at| at + 1);
    Err((words.at + word, Reason::Text(BEHIND)))
}

/// Seconds with decimals, as nanoseconds; what is below them is dropped.
fn parse_time(word: &[u8]) -> Option<u64> {
    let (seconds, point) = digits(word, 0);
    if point == 0 || word.get(point) != Some(&b'.') {
        return None;
    }
    let (_, end) = digits(word, point + 1);
    if end != word.len() || end == point + 1 {
        return None;
    }
    let places = (end - point - 1).min(9);
    let (fraction, _) = digits(&word[..point + 1 + places], point + 1);
    let fraction = fraction * 10_u64.pow(9 - places as u32);
    Some(seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(fraction))
}

/// The first letters of the months, in English and German; `M\u{e4}r` in Latin-1, too.
const MONTHS: [(&[u8], u64); 18] = [
    (b"jan", 1),
    (b"feb", 2),
    (b"mar", 3),
    (b"m\xC3\xA4r", 3),
    (b"m\xE4r", 3),
    (b"mrz", 3),
    (b"apr", 4),
    (b"may", 5),
    (b"mai", 5),
    (b"jun", 6),
    (b"jul", 7),
    (b"aug", 8),
    (b"sep", 9),
    (b"oct", 10),
    (b"okt", 10),
    (b"nov", 11),
    (b"dec", 12),
    (b"dez", 12),
];

/// `Sat Sep 30 15:06:13.191 2017` or `Sat Sep 30 03:06:13.191 pm 2017`; the day of the week does not count.
fn parse_date(words: &mut Words<'_>) -> Option<u64> {
    words.next();
    let month = words.next().0;
    let (_, month) = MONTHS.iter().find(|(name, _)| {
        month.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    })?;
    let day = number(words.next().0, true)?;
    let clock = words.next().0;
    let mut word = words.next().0;
    let is_afternoon = match word.to_ascii_lowercase().as_slice() {
        b"am" => Some(false),
        b"pm" => Some(true),
        _ => None,
    };
    if is_afternoon.is_some() {
        word = words.next().0;
    }
    let year = number(word, true)?;
    let (mut hour, at) = digits(clock, 0);
    let (minute, at) = digits(clock, at + 1);
    let (second, at) = digits(clock, at + 1);
    let (fraction, end) = digits(clock, at + 1);
    let places = end.saturating_sub(at + 1);
    let millis = match places {
        0 => 0,
        1..=3 => fraction * 10_u64.pow(3 - places as u32),
        4..=9 => fraction / 10_u64.pow(places as u32 - 3),
        _ => return None,
    };
    match is_afternoon {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    DateTime { date: (year, *month, day), time: (hour, minute, second), millis, weekday: 0 }.nanos()
}

#[derive(Default)]
struct AscEncoder {
    start: Start,
    numbers: Numbers,
}

impl AscEncoder {
    fn put_header(&self, out: &mut Vec<u8>) {
        const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const NAMES: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let DateTime { date: (year, month, day), time: (hour, minute, second), millis, weekday } =
            DateTime::of(self.start.ns());
        let day_name = DAYS.get(weekday as usize).unwrap_or(&"");
        let month = NAMES.get(month as usize - 1).unwrap_or(&"");
        let date = format!(
            "{day_name} {month} {day:02} {hour:02}:{minute:02}:{second:02}.{millis:03} {year}"
        );
        // A Vec takes all bytes.
        let _ = write!(
            out,
            "date {date}\nbase hex  timestamps absolute\nno internal events logged\n\
             Begin Triggerblock {date}\n   0.000000 Start of measurement\n"
        );
    }
}

impl Encoder for AscEncoder {
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
        let (seconds, nanos) = (since_ns / NANOS_PER_SECOND, since_ns % NANOS_PER_SECOND);
        let _ = match nanos.is_multiple_of(1_000) {
            true => write!(out, "{seconds:>4}.{:06} ", nanos / 1_000),
            false => write!(out, "{seconds:>4}.{nanos:09} "),
        };
        let frame = &record.frame;
        let direction = match record.direction {
            Some(Direction::Transmitted) => "Tx",
            _ => "Rx",
        };
        let id = frame.can_id() & EFF_MASK;
        let mark = if frame.is_extended() { "x" } else { "" };
        let dlc = frame.dlc();
        let digits = (32 - id.leading_zeros()).div_ceil(4).max(1) as usize;
        let blanks = 15_usize.saturating_sub(digits);
        let _ = match frame.kind() {
            // Only a line of CANFD has a direction for it.
            Kind::Error if direction == "Tx" => write!(out, "CANFD {channel:>3} Tx   ErrorFrame"),
            Kind::Error => write!(out, "{channel}  ErrorFrame"),
            Kind::Remote => {
                write!(out, "{channel}  {id:X}{mark:<blanks$} {direction:<4} r {dlc:x}")
            }
            Kind::Data => write!(out, "{channel}  {id:X}{mark:<blanks$} {direction:<4} d {dlc:x}"),
            Kind::Fd => {
                let [brs, esi] = [BRS, ESI].map(|flag| u8::from(frame.fd_flags() & flag != 0));
                let (len, name) = (frame.len(), "");
                write!(
                    out,
                    "CANFD {channel:>3} {direction:<4} {id:X}{mark:<blanks$} {name:32} {brs} {esi} {dlc:x} {len:>2}"
                )
            }
        };
        if frame.kind() != Kind::Error {
            for byte in frame.data() {
                let _ = write!(out, " {byte:02X}");
            }
        }
        if frame.is_fd() {
            let bits = EDL
                | u64::from(frame.fd_flags() & BRS != 0) << 13
                | u64::from(frame.fd_flags() & ESI != 0) << 14;
            let _ = write!(out, " {:>8} {:>4} {bits:>8X}", 0, 0);
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
        out.extend_from_slice(b"End TriggerBlock\n");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::{Any, count, decode, decode_any};

    /// 2017-09-30 15:06:13.191.
    const START_NS: u64 = 1_506_783_973_191_000_000;
    const HEADER: &str = "date Sat Sep 30 15:06:13.191 2017\nbase hex  timestamps absolute\n";

    #[test]
    fn frames_are_read() {
        use Direction::{Received, Transmitted};
        let error = "20000080#0000000000000000";
        for (line, name, direction, expected) in [
            (
                "2.5 1  18EBFF00x       Rx   d 8 01 A0 0F A6 60 3B D1 40  Length = 273910 ID = 418119424x",
                "can0",
                Received,
                "18EBFF00#01A00FA6603BD140",
            ),
            ("2.5 1  123  Rx d 2 01 02", "can0", Received, "123#0102"),
            ("2.500000 12 7ff Tx d 0", "can11", Transmitted, "7FF#"),
            (" 2.5 2 7FF Tx d F 1 2 3 4 5 6 7 8\r", "can1", Transmitted, "7FF#0102030405060708_F"),
            ("2.5 1 123 Rx r", "can0", Received, "123#R"),
            ("2.5 1 123 Rx r 4", "can0", Received, "123#R4"),
            ("2.5 1 123 Rx r Length = 0 BitCount = 64", "can0", Received, "123#R"),
            ("2.5 2 ErrorFrame", "can1", Received, error),
            ("2.5 2  ErrorFrame ECC: 10100010", "can1", Received, error),
            ("2.5 CANFD 2 Rx ErrorFrame Not Acknowledge error", "can1", Received, error),
            (
                "2.5 CANFD 5 Tx ErrorFrame Not Acknowledge error, dominant error flag fffe c7 31ca Arb. 556 44",
                "can4",
                Transmitted,
                error,
            ),
            ("2.5 2 ErrorFrame Tx", "can1", Transmitted, error),
            ("2.5 1 123 Rx d 1 07 TE Length = 0 BitCount = 0 ID = 291", "can0", Received, "123#07"),
            // Programs that count bytes.
            (
                "2.5 1 123 Rx d C 1 2 3 4 5 6 7 8 9 A B C",
                "can0",
                Received,
                "123##00102030405060708090A0B0C",
            ),
            (
                "2.5 1 123x Rx d 10 0 1 2 3 4 5 6 7 8 9 A B C D E F",
                "can0",
                Received,
                "00000123##0000102030405060708090A0B0C0D0E0F",
            ),
            (
                "2.5 CANFD 1 Rx 123 1 0 9 12 1 2 3 4 5 6 7 8 9 A B C 0 0 3000 0",
                "can0",
                Received,
                "123##10102030405060708090A0B0C",
            ),
            (
                "2.5 CANFD 3 Tx 123x Engine_Data 0 1 0 0 0 0 5000",
                "can2",
                Transmitted,
                "00000123##2",
            ),
            // Logged by the tools for CAN FD, but not EDL in the flags: classical frames.
            ("2.5 CANFD 1 Rx 123 0 0 2 2 0A 0B 130000 130 200000 0", "can0", Received, "123#0A0B"),
            ("2.5 CANFD 1 Rx 123 0 0 4 0 130000 130 200010 0", "can0", Received, "123#R4"),
            // Flags that are left 0 do not make the longer frames and those at another bit rate classical ones.
            (
                "2.5 CANFD 1 Rx 123 0 1 9 12 1 2 3 4 5 6 7 8 9 A B C 0 0 0 0",
                "can0",
                Received,
                "123##20102030405060708090A0B0C",
            ),
            ("2.5 CANFD 1 Rx 123 1 0 1 1 1 0 0 0 0", "can0", Received, "123##101"),
            // Without flags, it is what the line says.
            ("2.5 CANFD 1 Rx 123 0 0 2 2 0A 0B", "can0", Received, "123##00A0B"),
        ] {
            let time_ns = START_NS + 2_500_000_000;
            let frame = Any::Can(expected.parse().unwrap());
            let record = (time_ns, name.to_owned(), Some(direction), frame);
            let text = format!("{HEADER}{line}\n");
            assert_eq!(decode_any(&FORMAT, text.as_bytes(), &[9]), Ok(vec![record]), "{line}");
        }
    }

    /// The times of the frames of a text, in milliseconds since 1970.
    fn times(text: &[u8]) -> Vec<u64> {
        decode(&FORMAT, text).unwrap().iter().map(|record| record.0 / 1_000_000).collect()
    }

    #[test]
    fn a_log_is_known_by_its_first_lines() {
        for (text, is_it) in [
            ("date Sat Sep 30 15:06:13.191 2017\n", true),
            ("\u{feff}DATE Sam Sep", true),
            ("// version 7\r\nbase hex  timestamps absolute\r\n", true),
            ("Base dec", true),
            ("date", false),
            ("date = 1\n", false),
            ("base = \"hex\"\n", false),
            ("//---\n// Microchip Technology Inc.\n", false),
            ("\n\n\n\n\n\n\n\nbase hex\n", false),
        ] {
            assert_eq!(begins(text.as_bytes()), is_it, "{text}");
        }
    }

    #[test]
    fn headers_say_how_lines_are_read() {
        let start = START_NS / 1_000_000;
        for (date, expected) in [
            ("Sat Sep 30 15:06:13.191 2017", start),
            ("Sam Sep 30 03:06:13.191 pm 2017", start),
            ("Sat Sep 30 03:06:13.191 AM 2017", start - 43_200_000),
            ("Sat Sep 30 12:06:13.191 am 2017", start - 54_000_000),
            ("Sat Sep 30 12:06:13.191 pm 2017", start - 10_800_000),
            ("Sat Sep 30 15:06:13 2017", start - 191),
            ("Sat Sep 30 15:06:13.191999 2017", start),
            ("Son Okt 1 15:06:13.191 2017", start + 86_400_000),
            // What is no date costs itself.
            ("Sat Sep 31 15:06:13.191 2017", 0),
            ("30.9.2017 15:06", 0),
            ("", 0),
        ] {
            let text = format!("date {date}\nbase hex timestamps absolute\n0.0 1 123 Rx d 0\n");
            assert_eq!(times(text.as_bytes()), [expected], "{date}");
        }
        let latin_1 = b"\xEF\xBB\xBFdate Mit M\xE4r 1 00:00:00 2017\n0.0 1 123 Rx d 0\n";
        assert_eq!(times(latin_1), [1_488_326_400_000]);

        // Since the line before, whatever it is; each trigger block begins anew.
        let relative = "BASE dec TIMESTAMPS relative\n0.5 1 255 Rx d 1 255\n0.25 Statistic: x\n0.25 1 2047 Rx d 0\n\
                        Begin Triggerblock Thu Jan 1 00:01:00 1970\n0.5 1 1x Rx d 0\n";
        assert_eq!(times(relative.as_bytes()), [500, 1_000, 60_500]);
        let frames = decode(&FORMAT, relative.as_bytes()).unwrap();
        let frames: Vec<_> = frames.iter().map(|record| record.3.to_string()).collect();
        assert_eq!(frames, ["0FF#FF", "7FF#", "00000001#"]);
    }

    /// Each counts from its own date; without one that is readable, from the date before, which is counted.
    #[test]
    fn each_trigger_block_has_its_own_start() {
        let block = |date: &str| {
            format!(
                "Begin Triggerblock {date}\n0.0 Start of measurement\n0.5 1 123 Rx d 0\nEnd TriggerBlock\n"
            )
        };
        let blocks =
            ["Sat Sep 30 15:06:14.191 2017", "Sat Sep 30 15:08:14.191 2017", "?"].map(block);
        let text = format!("{HEADER}{}", blocks.concat());
        let start = START_NS / 1_000_000 + 1_000;
        assert_eq!(times(text.as_bytes()), [start + 500, start + 120_500, start + 120_500]);
        let recording = crate::Recording::new("a", std::io::Cursor::new(text), None).unwrap();
        let mut recording = recording.skip_malformed(false);
        assert_eq!(recording.by_ref().map(Result::unwrap).count(), 3);
        assert_eq!(recording.passed_over().other_packets, 1);
        // It began with the first one.
        assert_eq!(recording.start_ns(), Some(start * 1_000_000));
    }

    #[test]
    fn other_events_are_passed_over_and_counted() {
        let text = format!(
            "{HEADER}internal events logged\n// version 9.0.0\nBegin Triggerblock Sat Sep 30 15:06:13.191 2017\n\
             0.0 Start of measurement\n0.1 1 Statistic: D 0 R 0\n0.2 CAN 1 Status:chip status error active\n\
             0.3 J1939TP FEE3p 6\n0.4 Li 3C Tx 8 00\n0.5 SV: 3 0 1\nwhat is this\n0.6 1 123 TxRq d 1 00\n\
             0.7 1 123 Rx d 1 11\nEnd TriggerBlock\n"
        );
        let mut decoder = FORMAT.decoder();
        let records = count(&mut *decoder, text.as_bytes());
        assert_eq!((records, decoder.passed_over().other_packets), (1, 7));
        assert_eq!(decoder.start_ns(), Some(START_NS));
    }

    #[test]
    fn malformed_lines_say_where_and_why() {
        for (line, message) in [
            ("0.x 1 123 Rx d 0", "3:1: this is no time"),
            ("\u{fffd}.0 1 123 Rx d 0", "3:1: this is no time"),
            ("0.0 1 123 Bx d 0", "3:11: this is no direction"),
            ("0.0 1 123 Rx 8 00", "3:14: this is no kind of frame"),
            ("0.0 1 123 Rx d 40 00", "3:21: the frame has fewer data bytes"),
            ("0.0 1 123 Rx d 41 00", "3:16: this is not the length"),
            ("0.0 1 123 Rx d 1 00 01", "3:21: the line goes on"),
            ("0.0 1 123 Rx d 1 00   0.1 1 124 Rx d 0", "3:23: the line goes on"),
            ("0.0 1 123 Rx d 1 00 Length = 0 ID = 1230.1 1 124 Rx d 0", "3:37: the line goes on"),
            ("0.0 1 123 Rx r   0.1 1 124 Rx d 0", "3:18: the line goes on"),
            ("0.0 1 123 Rx r 40.1 1 124 Rx d 0", "3:16: the line goes on"),
            ("0.0 1 ErrorFrame   0.1 1 124 Rx d 0", "3:20: the line goes on"),
            ("0.0 CANFD 1 Tx ErrorFrame   0.1 1 124 Rx d 0", "3:29: the line goes on"),
            ("0.0 CANFD 1 Rx 123 0 0 0 0 0 0 3000 0   0.1 1 124 Rx d 0", "3:41: the line goes on"),
            ("date Sat Sep 30 15:06:13.191 2017   0.1 1 124 Rx d 0", "3:37: the line goes on"),
            ("base hex timestamps absolute0.1 1 124 Rx d 0", "3:21: expected `base hex`"),
            ("base 16", "3:6: expected `base hex`"),
            ("base hex timestamps absolute   0.1 1 124 Rx d 0", "3:32: the line goes on"),
            ("0.0 1 12G Rx d 0", "3:7: this is not an identifier in the base of the file"),
            ("0.0 1 20000000x Rx d 0", "3:7: this is not an identifier"),
            ("0.0 1 800 Rx d 0", "3:7: standard identifier 0x800"),
            ("0.0 1 123 Rx d", "3:15: this is not the length of a frame"),
            ("0.0 1 123 Rx d 2 00", "3:20: the frame has fewer data bytes"),
            ("0.0 1 123 Rx d 1 100", "3:18: the frame has fewer data bytes"),
            ("0.0 CANFD 1 Rx 123 0 0 9 65", "3:26: this is not the length"),
            ("0.0 CANFD 1 Rx 123 0 0 9 9 1 2 3 4 5 6 7 8 9", "3:16: 9 bytes of data, but a CAN FD"),
            ("99999999999.0 1 123 Rx d 0", "3:1: the time is after the year 2554"),
        ] {
            let text = format!("{HEADER}{line}\n");
            let error = decode(&FORMAT, text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(message), "{line}: {error}");
            assert_eq!(error.resume, Some(line.len() + 1), "{line}");
        }
    }

    #[test]
    fn a_log_is_written_as_others_read_it() {
        let mut out = Vec::new();
        let mut encoder = FORMAT.encoder(&mut out);
        encoder.start(START_NS + 999_999);
        for (time_ns, name, direction, frame) in [
            (1_000_000, "can1", None, "123#0102"),
            (1_000_001_500, "can1", Some(Direction::Transmitted), "18EBFF00#R4"),
            (2_000_000_000, "body", None, "123##3AABB"),
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
date Sat Sep 30 15:06:13.191 2017
base hex  timestamps absolute
no internal events logged
Begin Triggerblock Sat Sep 30 15:06:13.191 2017
   0.000000 Start of measurement
   0.001000 2  123             Rx   d 2 01 02
   1.000001500 2  18EBFF00x       Tx   r 4
   2.000000 CANFD   1 Rx   123                                              1 1 2  2 AA BB        0    0     7000
   2.000001 1  ErrorFrame
   2.000002 CANFD   1 Tx   ErrorFrame
End TriggerBlock
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

//! What text formats have in common: lines, words and numbers.

use memchr::{memchr, memchr2};

use super::channels::Channels;
use crate::decode::{
    CUT, DecodeError, Decoder, MAX_LINE_LEN, PassedOver, Position, ReadError, Reason, Step,
};
use crate::input::Input;
use crate::record::{Direction, InterfaceIndex, Interfaces, Record};
use candor_wire::can::frame::EFF_MASK;
use candor_wire::can::{Frame, Kind};

/// How some programs begin a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

pub(super) const BAD_TIME: &str = "this is not a time, or one after the year 2554, the limit of 64-bit nanoseconds; correct the line";
pub(super) const BAD_ID: &str = "this is not an identifier; correct the line";
pub(super) const BAD_DIRECTION: &str = "this is no direction; a frame is `Rx` or `Tx`";
pub(super) const BAD_LENGTH: &str = "this is not the length of a frame; correct the line";
pub(super) const BAD_DATA: &str =
    "the frame has fewer data bytes than its length says, or one that is no byte; correct the line";

/// Something behind what a line has; a lost line break must not hide the record behind it.
pub(super) const BEHIND: &str = "the line goes on behind its end, perhaps with the next one, whose line break is lost; break the line here, or remove the rest";

/// Finds the end of the first line of a window, of which perhaps nothing follows: the length of the line, and how many bytes it has with
/// its end.
type LineEnd<'a> = dyn Fn(&[u8], bool) -> Option<(usize, usize)> + 'a;

/// What to do about a line that is too long, behind records.
const REMOVE: &str = " bytes, more than any record has; remove it";

/// Whether a text begins so, behind a byte-order mark or not.
pub(super) fn begins_with(head: &[u8], start: &[u8]) -> bool {
    head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).starts_with(start)
}

/// What is wrong with a line, and at which byte.
pub(super) type LineError = (usize, Reason);

/// A line of a text, without its line feed.
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// How many come before it.
    pub(super) before: u64,
    /// Whether it may be cut: it is the last one, and has no line feed.
    pub(super) is_open: bool,
}

/// Finds the first line of a window: its length, and that with its end. It is told whether nothing follows the window.
pub(super) fn line_feed(window: &[u8], _: bool) -> Option<(usize, usize)> {
    memchr(b'\n', window).map(|len| (len, len + 1))
}

/// As [`line_feed`], where a line may end in CR alone, too.
pub(super) fn line_feed_or_cr(window: &[u8], at_end: bool) -> Option<(usize, usize)> {
    let len = memchr2(b'\n', b'\r', window)?;
    match (window[len], window.get(len + 1)) {
        (b'\r', Some(b'\n')) => Some((len, len + 2)),
        // A line feed may follow, unless the line has all the bytes that it may have.
        (b'\r', None) if !at_end && window.len() <= MAX_LINE_LEN => None,
        _ => Some((len, len + 1)),
    }
}

/// The part of a window that is of a line which is too long, with its end if that is there; and whether nothing of it follows. A CR
/// stays, behind which the line feed of the same end may come.
fn rest_of_line(window: &[u8], at_end: bool, end: &LineEnd<'_>) -> (usize, bool) {
    let is_undecided = !at_end && window.ends_with(b"\r");
    match end(window, at_end) {
        Some((_, consumed)) if !is_undecided || consumed < window.len() => (consumed, true),
        _ => (window.len() - usize::from(is_undecided), at_end),
    }
}

/// How many lines of a text were consumed.
#[derive(Clone, Copy, Default)]
pub(super) struct Lines {
    count: u64,
    /// Whether the last of them was too long and goes on. Its end is not in the window then.
    is_inside: bool,
}

impl Lines {
    /// Lets `parse` read the next line, which `end` finds. `too_long` follows the number of bytes that a line has at most. What is
    /// wrong with an open line is that it was cut. Of a line that is too long no more is kept than of others.
    #[inline]
    pub(super) fn step(
        &mut self,
        input: &mut Input,
        end: impl Fn(&[u8], bool) -> Option<(usize, usize)>,
        too_long: &'static str,
        parse: impl FnOnce(&Line<'_>) -> Result<Option<Record>, LineError>,
    ) -> Result<Step, ReadError> {
        let (len, consumed) = loop {
            let window = input.window();
            let window = window.get(..=MAX_LINE_LEN).unwrap_or(window);
            if let Some(found) = end(window, input.at_end()) {
                break found;
            }
            if self.is_inside || window.len() > MAX_LINE_LEN {
                self.beyond(input, &end, too_long)?;
                continue;
            }
            match window.len() {
                0 if input.at_end() => return Ok(Step::End),
                len if input.at_end() => break (len, len),
                _ => input.more()?,
            };
        };
        let bytes = &input.window()[..len];
        let is_open = consumed == bytes.len() && self.count > 0;
        let parsed = parse(&Line { bytes, before: self.count, is_open });
        let parsed = parsed.map_err(|(at, reason)| {
            self.error((at, if is_open { CUT } else { reason }), Some(consumed))
        });
        self.count += 1;
        // A frame is built where it is returned.
        match parsed {
            Ok(found) => {
                input.consume(consumed);
                Ok(found.map_or(Step::Skip, Step::Record))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A line was read in another way.
    pub(super) fn pass(&mut self) {
        self.count += 1;
    }

    /// Passes over the rest of a line that is too long, or says that the next one is.
    #[cold]
    #[inline(never)]
    fn beyond(
        &mut self,
        input: &mut Input,
        end: &LineEnd<'_>,
        too_long: &'static str,
    ) -> Result<(), ReadError> {
        match self.is_inside {
            true => self.leave(input, end),
            false => Err(self.too_long(input, end, too_long).into()),
        }
    }

    /// The next line is too long. It counts as consumed, since the caller may consume what is there of it.
    fn too_long(
        &mut self,
        input: &Input,
        end: &LineEnd<'_>,
        too_long: &'static str,
    ) -> DecodeError {
        let too_long = if input.records > 0 { REMOVE } else { too_long };
        let reason = Reason::Number("the line has more than ", MAX_LINE_LEN as u64, too_long);
        let (rest, is_over) = rest_of_line(input.window(), input.at_end(), end);
        let error = self.error((MAX_LINE_LEN, reason), Some(rest));
        (self.count, self.is_inside) = (self.count + 1, !is_over);
        error
    }

    /// Piece by piece.
    fn leave(&mut self, input: &mut Input, end: &LineEnd<'_>) -> Result<(), ReadError> {
        while self.is_inside {
            input.more()?;
            let (rest, is_over) = rest_of_line(input.window(), input.at_end(), end);
            input.consume(rest);
            self.is_inside = !is_over;
        }
        Ok(())
    }

    fn error(self, (at, reason): LineError, resume: Option<usize>) -> DecodeError {
        let position = Position::Text { line: self.count + 1, column: at + 1 };
        DecodeError { position, reason, resume }
    }
}

/// A text format: what its lines say. [`Reader`] is the decoder.
pub(super) trait Layout: Default + Send {
    /// What follows the number of bytes that a line has at most.
    const TOO_LONG: &'static str;

    /// Where a line ends.
    fn line_end(window: &[u8], at_end: bool) -> Option<(usize, usize)> {
        line_feed(window, at_end)
    }

    /// Reads a line; `None` if it has no frame.
    fn parse_line(&mut self, line: &[u8], log: &mut Log) -> Result<Option<Record>, LineError>;

    /// Whether the frame of a line, the last one and without an end, may be another one that was cut. If its length says how many
    /// data it has, that is so when the last of them may have lost a digit.
    fn may_be_cut(&self, line: &[u8], frame: &Frame) -> bool {
        let has_data = matches!(frame.kind(), Kind::Data | Kind::Fd) && !frame.is_empty();
        has_data && ends_in_one_digit(line)
    }
}

/// What the lines of a text said so far.
#[derive(Default)]
pub(super) struct Log {
    channels: Channels,
    /// How many events are no frames.
    pub(super) other: u64,
    /// Nanoseconds since 1970; 0 if there is no date. A later part of a text may have one of its own.
    pub(super) start_ns: u64,
    /// As it was before the first frame.
    first_start_ns: u64,
    has_frames: bool,
}

impl Log {
    /// The interface of a channel, whose number is at this byte.
    pub(super) fn channel(&mut self, channel: u32, at: usize) -> Result<InterfaceIndex, LineError> {
        self.channels.interface(channel).map_err(|reason| (at, reason))
    }

    /// The interface of a name.
    pub(super) fn named(&mut self, (name, at): Word<'_>) -> Result<InterfaceIndex, LineError> {
        self.channels.named(name).map_err(|reason| (at, reason))
    }
}

/// Reads the lines of a text. A byte-order mark does not count; what begins like an event, has no frame and no line feed was cut.
#[derive(Default)]
pub(super) struct Reader<T> {
    layout: T,
    log: Log,
    lines: Lines,
}

impl<T: Layout> Decoder for Reader<T> {
    fn next(&mut self, input: &mut Input) -> Result<Step, ReadError> {
        let Self { layout, log, .. } = self;
        let parse = |line: &Line<'_>| {
            let bytes = match line.before {
                0 => line.bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line.bytes),
                _ => line.bytes,
            };
            // Events begin with blanks and digits.
            let first = skip_blanks(bytes, 0);
            let parsed = layout.parse_line(bytes, log)?;
            if !log.has_frames {
                log.first_start_ns = log.start_ns;
                log.has_frames = parsed.is_some();
            }
            match parsed {
                None if line.is_open && bytes.get(first).is_none_or(u8::is_ascii_digit) => {
                    Err((first, CUT))
                }
                Some(record) if line.is_open && layout.may_be_cut(bytes, &record.frame) => {
                    Err((bytes.len(), CUT))
                }
                record => Ok(record),
            }
        };
        self.lines.step(input, T::line_end, T::TOO_LONG, parse)
    }

    fn interfaces(&self) -> &Interfaces {
        self.log.channels.interfaces()
    }

    fn passed_over(&self) -> PassedOver {
        PassedOver { other_packets: self.log.other, ..PassedOver::default() }
    }

    fn start_ns(&self) -> Option<u64> {
        Some(self.log.first_start_ns).filter(|&start_ns| start_ns > 0)
    }
}

/// The words of a line, one after the other.
pub(super) struct Words<'a> {
    pub(super) line: &'a [u8],
    pub(super) at: usize,
}

/// A word, empty if there is none, and where it begins.
pub(super) type Word<'a> = (&'a [u8], usize);

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The next word, empty at the end of the line.
    pub(super) fn next(&mut self) -> Word<'a> {
        let start = skip_blanks(self.line, self.at);
        let (word, end) = token(self.line, start);
        self.at = end;
        (word, start)
    }

    /// What stands before the next `separator` or the end of the line, without the blanks around it.
    pub(super) fn field(&mut self, separator: u8) -> Word<'a> {
        let start = skip_blanks(self.line, self.at.min(self.line.len()));
        let rest = self.line.get(start..).unwrap_or_default();
        let len = memchr(separator, rest).unwrap_or(rest.len());
        self.at = start + len + 1;
        (rest[..len].trim_ascii_end(), start)
    }

    /// Refuses anything but blanks behind what was read.
    pub(super) fn end(&self) -> Result<(), LineError> {
        let at = skip_blanks(self.line, self.at.min(self.line.len()));
        if at < self.line.len() { Err((at, Reason::Text(BEHIND))) } else { Ok(()) }
    }
}

/// Whether the last word has one hexadecimal digit, perhaps the first one of two.
pub(super) fn ends_in_one_digit(line: &[u8]) -> bool {
    let is_digit = u8::is_ascii_hexdigit;
    matches!(line, [.., before, last] if is_digit(last) && !is_digit(before))
}

/// The bytes of a frame, each a word of one or two hexadecimal digits, or up to three decimal ones.
pub(super) fn data_bytes<'a>(
    data: &mut [u8],
    is_decimal: bool,
    mut next: impl FnMut() -> Word<'a>,
) -> Result<(), LineError> {
    let digits = if is_decimal { 3 } else { 2 };
    for byte in data {
        let (word, at) = next();
        let value = number(word, is_decimal).filter(|&value| value <= 0xFF && word.len() <= digits);
        *byte = value.ok_or((at, Reason::Text(BAD_DATA)))? as u8;
    }
    Ok(())
}

/// `Rx` or `Tx`.
pub(super) fn direction(word: &[u8]) -> Option<Direction> {
    match word {
        b"Rx" | b"RX" | b"rx" => Some(Direction::Received),
        b"Tx" | b"TX" | b"tx" => Some(Direction::Transmitted),
        _ => None,
    }
}

/// The word without `0x` before it, if that is there.
pub(super) fn without_0x((word, at): Word<'_>) -> Word<'_> {
    (word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X")).unwrap_or(word), at)
}

/// An identifier of up to 29 bits.
pub(super) fn identifier(word: Word<'_>, is_decimal: bool) -> Result<u32, LineError> {
    at_most(u64::from(EFF_MASK), word, is_decimal, BAD_ID).map(|id| id as u32)
}

/// A length or a data length code of at most `most`.
pub(super) fn length(word: Word<'_>, most: u64) -> Result<usize, LineError> {
    at_most(most, word, true, BAD_LENGTH).map(|len| len as usize)
}

/// A number of at most `most`, or what is wrong with the word.
#[inline]
pub(super) fn at_most(
    most: u64,
    (word, at): Word<'_>,
    is_decimal: bool,
    bad: &'static str,
) -> Result<u64, LineError> {
    let value = number(word, is_decimal).filter(|&value| value <= most);
    value.ok_or((at, Reason::Text(bad)))
}

/// A number of up to 16 digits; `None` for anything else.
pub(super) fn number(word: &[u8], is_decimal: bool) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' if !is_decimal => byte - b'a' + 10,
            b'A'..=b'F' if !is_decimal => byte - b'A' + 10,
            _ => return None,
        };
        Some(sum * if is_decimal { 10 } else { 16 } + u64::from(digit))
    })
}

/// A number with or without decimals, times `unit`; what is below 1 is dropped. `None` if it is none, or more than 64 bits hold.
pub(super) fn decimal(word: &[u8], unit: u64) -> Option<u64> {
    let (whole, at) = digits(word, 0);
    let mut rest = word.get(at..)?;
    let mut sum = whole.checked_mul(unit)?;
    if at == 0 {
        return None;
    }
    if let [b'.' | b',', decimals @ ..] = rest {
        let (_, end) = digits(decimals, 0);
        let (fraction, places) = digits(&decimals[..end.min(18)], 0);
        let part = u128::from(fraction) * u128::from(unit) / 10_u128.pow(places as u32);
        sum = sum.checked_add(part as u64)?;
        rest = &decimals[end..];
    }
    rest.is_empty().then_some(sum)
}

const BLANKS: [u8; 3] = [b' ', b'\t', b'\r'];

pub(super) fn is_blank(byte: u8) -> bool {
    BLANKS.contains(&byte)
}

pub(super) fn is_space(byte: u8) -> bool {
    is_blank(byte) || byte == b'\n'
}

pub(super) fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|&byte| is_blank(byte)) {
        at += 1;
    }
    at
}

/// The bytes from `from` up to the next blank, and where they end.
pub(super) fn token(line: &[u8], from: usize) -> (&[u8], usize) {
    let mut end = first_below_0x21(line, from);
    while line.get(end).is_some_and(|&byte| !is_blank(byte)) {
        end = first_below_0x21(line, end + 1);
    }
    (line.get(from..end).unwrap_or_default(), end)
}

/// Where the first byte that is a blank or a control character is, from `at` on; the end, if there is none.
pub(super) fn first_below_0x21(line: &[u8], mut at: usize) -> usize {
    loop {
        // A byte below 0x21 borrows, and so its highest bit is set; what is borrowed changes no byte before it. The zeros
        // behind the end do, too.
        let bytes = eight_bytes(line, at);
        let below = bytes.wrapping_sub(eight(0x21)) & !bytes & eight(0x80);
        at += (below.trailing_zeros() / 8) as usize;
        if below != 0 {
            return at;
        }
    }
}

/// The number that the decimal digits from `at` on make, and where they end. A saturated number is more
/// seconds than 64-bit nanoseconds hold, too.
pub(super) fn digits(line: &[u8], mut at: usize) -> (u64, usize) {
    const POWERS: [u64; 9] =
        [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let mut number: u64 = 0;
    loop {
        let (part, len) = up_to_eight_digits(eight_bytes(line, at));
        number = number.saturating_mul(POWERS[len]).saturating_add(part);
        at += len;
        if len < 8 {
            return (number, at);
        }
    }
}

/// The bytes from `at` on, the first one lowest; zeros behind the end.
pub(super) fn eight_bytes(line: &[u8], at: usize) -> u64 {
    let rest = line.get(at..).unwrap_or_default();
    u64::from_le_bytes(rest.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    }))
}

/// The same byte eight times.
pub(super) const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The number that the decimal digits at the beginning of eight bytes make, and how many there are.
///
/// All eight are added up at once: neighbours to numbers below 100, those to numbers below 10,000, and those to one.
/// The first digit is in the lowest byte, so it is the left one that is multiplied before the right one is moved
/// to its place and added.
pub(super) fn up_to_eight_digits(text: u64) -> (u64, usize) {
    let digits = text ^ eight(b'0');
    // The upper half of a byte is 0 for 0x30 to 0x3F, and 6 more reaches it from 0x3A on. What is carried beyond a
    // byte changes none before it.
    let others = (digits | digits.wrapping_add(eight(6))) & eight(0xF0);
    let len = (others.trailing_zeros() / 8) as usize;
    // As if zeros stood before them.
    let digits = digits.checked_shl(64 - 8 * len as u32).unwrap_or(0);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    ((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF, len)
}

/// Appends `value` with at least `WIDTH` digits.
pub(super) fn put_decimal<const WIDTH: usize>(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while value > 0 {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[first.min(digits.len() - WIDTH)..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::format::tests::read_on;

    /// A text in each format.
    fn texts() -> Vec<String> {
        let asc = "date Sat Sep 30 15:06:13.191 2017\nbase hex  timestamps absolute\n";
        let bytes: String = (1..=12).map(|byte| format!(" {byte:02X}")).collect();
        vec![
            format!("{asc}0.5 1 123 Rx d 2 01 A2\n0.6 1 123x Tx r 4\n0.7 1 ErrorFrame\n0.8 1 123 Rx d 0\n"),
            format!("{asc}0.5 CANFD 1 Rx 123 0 0 9 12{bytes} 0 0 3000 0\n"),
            format!("{asc}0.5 CANFD 1 Rx 123 0 0 2 2 01 02 130000 130 200000 0\n"),
            "date Sat Sep 30 15:06:13.191 2017\nbase dec\n0.5 1 12 Rx d 2 255 100\n".to_owned(),
            format!(
                ";$FILEVERSION=2.1\n;$STARTTIME=43008.6\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n\
                 1 2.5 DT 1 00C8 Rx - 2 09 A7\n2 2.5 FB 1 0BFF00FF Rx - 9{bytes}\n3 2.5 RR 1 00C8 Rx - 4\n"
            ),
            ";$FILEVERSION=1.0\n 1) 2.5 00C8 2 09 A7\n".to_owned(),
            "Time Stamp,ID,Extended,Dir,Bus,LEN,D1,D2\n7,0000021A,false,Rx,0,2,FE,36,\n8,1A,true,Rx,0,1,FE\n".to_owned(),
            "***BUSMASTER Ver 2.4.0***\n***SYSTEM MODE***\n22:20:14:992 Rx 1 0x21A s 2 FE 36 \n22:20:14:992 Rx 1 0x21A xr 2\n"
                .to_owned(),
            "***BUSMASTER Ver 2.4.0***\n***DEC***\n22:20:14:992 Rx 1 21 s 2 250 136\n".to_owned(),
            "//---\nMicrochip Technology Inc.\n//---\n7;RX;0x0000021A;2;0xFE;0x36;\n7;RX;0x0000021A;2;0xFE;0x36\n".to_owned(),
            "@ TEXT @ 2 @\r46,016\t1\t0004\t45A\t2\t5A 04\t00000000\tZ\r46,017\t1\t0004\t45A\t2\t5A 04\r".to_owned(),
            "timestamp,arbitration_id,extended,remote,error,dlc,data\n1.5,0x9,0,0,0,8,PDRMQYnrLx4=\n".to_owned(),
            format!("\n  can0  123   [2]  11 22\n can0  123  [12] {bytes}\n can0  123  [4]  remote request\n"),
            "# one\n(1.5) can0 123#0102030405060708\n(1.5) can0 123#0102\n(1.6) can0 123#R\n(1.7) can0 123#R4\n(1.8) can0 123##10102\n"
                .to_owned(),
        ]
    }

    /// The frames up to the first error, or of all lines that are none, and how much was told: errors and what was passed over.
    fn read(
        format: &Format,
        text: &[u8],
        skips_malformed: bool,
    ) -> (Vec<(u64, Option<Direction>, Frame)>, u64) {
        let (mut input, mut decoder) = (Input::of_head(text, true), format.decoder());
        let (mut frames, mut told) = (Vec::new(), 0);
        read_on(&mut *decoder, &mut input, |found, _| {
            told += u64::from(skips_malformed && found.is_err());
            frames.extend(found.iter().map(|it| (it.time_ns, it.direction, it.frame)));
            found.is_ok() || skips_malformed
        });
        (frames, told + decoder.passed_over().other_packets)
    }

    /// A text that was cut anywhere has frames of the whole one, in order, and no other.
    #[test]
    fn a_text_that_was_cut_has_no_frame_of_its_own() {
        for text in texts() {
            let format = Format::by_content(text.as_bytes()).unwrap();
            let (whole, _) = read(format, text.as_bytes(), false);
            assert!(!whole.is_empty(), "{text}");
            for len in 0..text.len() {
                let (frames, _) = read(format, &text.as_bytes()[..len], false);
                assert!(whole.starts_with(&frames), "{}", &text[..len]);
            }
        }
    }

    /// A line break that is lost, or became a blank, hides no record: it is told. Only a comment takes what follows.
    #[test]
    fn a_lost_line_break_loses_nothing_in_silence() {
        for text in texts() {
            let format = Format::by_content(text.as_bytes()).unwrap();
            let (whole, told_before) = read(format, text.as_bytes(), true);
            let lines: Vec<_> = text.split_inclusive(['\n', '\r']).collect();
            for lost in 0..lines.len() - 1 {
                for instead in ["", " ", "   ", "\t"] {
                    let line = lines[lost].trim_end_matches(['\n', '\r']);
                    if line.starts_with('#') || line.is_empty() {
                        continue;
                    }
                    let changed =
                        [&lines[..lost].concat(), line, instead, &lines[lost + 1..].concat()]
                            .concat();
                    let (frames, told) = read(format, changed.as_bytes(), true);
                    assert!(frames == whole || told > told_before, "{changed}");
                    let is_header =
                        frames.iter().zip(&whole).any(|(frame, other)| frame.0 != other.0);
                    let made_up = frames.iter().filter(|frame| !whole.contains(frame)).count();
                    assert!(made_up == 0 || is_header, "{changed}");
                }
            }
        }
    }

    proptest::proptest! {
        /// Eight digits at once are what one after the other is, wherever something else is among them.
        #[test]
        fn digits_make_a_number(before in ".{0,3}", text in "[0-9]{0,22}", behind in "([^0-9].{0,9})?") {
            let line = format!("{before}{text}{behind}");
            let expected = text.bytes().fold(0_u64, |sum, digit| {
                sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
            });
            let found = digits(line.as_bytes(), before.len());
            proptest::prop_assert_eq!(found, (expected, before.len() + text.len()));
        }

        /// Only digits are digits, in any of eight places.
        #[test]
        fn only_digits_are_digits(place in 0..8_usize, byte: u8) {
            let mut text = *b"12345678";
            text[place] = byte;
            let len = if byte.is_ascii_digit() { 8 } else { place };
            let number = str::from_utf8(&text[..len]).unwrap().parse().unwrap_or(0);
            proptest::prop_assert_eq!(up_to_eight_digits(u64::from_le_bytes(text)), (number, len));
        }

        /// A token is what stands before the next blank, whatever its bytes are.
        #[test]
        fn tokens_end_at_blanks(line in "[\x00-\x22a-cé]{0,40}", from in 0..40_usize) {
            let line = line.as_bytes();
            let from = from.min(line.len());
            let len = line[from..].iter().position(|&byte| is_blank(byte)).unwrap_or(line.len() - from);
            proptest::prop_assert_eq!(token(line, from), (&line[from..from + len], from + len));
        }
    }
}

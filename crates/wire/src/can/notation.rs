//! The notation of `candump` and `cansend`: `123#DEADBEEF` and back.
//!
//! | text | frame |
//! |---|---|
//! | `123#DEADBEEF`, `123#DE.AD.BE.EF` | standard identifier (3 digits), 4 bytes |
//! | `12345678#` | extended identifier (8 digits), no data |
//! | `123#R`, `123#R2` | remote frame asking for 0 or 2 bytes |
//! | `123#1122334455667788_C` | 8 bytes with raw DLC 12 |
//! | `123##1AABB` | CAN FD, flags 1 (BRS), 2 bytes |
//! | `20000004#0000000000000000` | error report (bit 29 set) |

use core::fmt;
use core::str::FromStr;

use crate::can::frame::{
    EFF_FLAG, EFF_MASK, ERR_FLAG, Frame, FrameError, Kind, RTR_FLAG, SFF_MASK,
};

/// Why a text is no frame, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// Offset in bytes from the start of the text.
    pub offset: usize,
    /// The reason.
    pub reason: Reason,
}

/// The reason of a [`NotationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The identifier is not 3 or 8 hex digits.
    Identifier,
    /// No `#` after the identifier.
    Separator,
    /// CAN FD lacks its one digit of flags after `##`.
    Flags,
    /// A data byte is not two hex digits.
    Data,
    /// Data bytes, and the flag of a remote frame in the identifier (bit 30).
    RemoteData,
    /// Something follows that does not belong.
    Trailing,
    /// The parts are readable but make no legal frame.
    Frame(FrameError),
}

/// Without the place, for those who have a better one: a line and a column.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identifier => {
                "an identifier has 3 hex digits (standard) or 8 (extended), as in 123#DEADBEEF"
            }
            Self::Separator => "`#` is missing after the identifier",
            Self::Flags => "CAN FD needs one hex digit of flags after `##`",
            Self::Data => "a data byte needs two hex digits",
            Self::RemoteData => {
                "a remote frame has no data: bit 30 of the identifier says that this is one; clear it, or write \
                 `R` in place of the data"
            }
            Self::Trailing => "nothing may follow the data",
            Self::Frame(error) => return error.fmt(f),
        })
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.reason, self.offset + 1)
    }
}
impl core::error::Error for NotationError {}

/// The value of each hex digit, 0xFF for other bytes.
const HEX: [u8; 256] = {
    let mut table = [0xFF; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// The value of the hex digit at `offset`, 0xFF if there is none.
#[inline]
fn hex(text: &[u8], offset: usize) -> u8 {
    text.get(offset).map_or(0xFF, |&byte| HEX[usize::from(byte)])
}

#[inline]
fn legal(result: Result<Frame, FrameError>, offset: usize) -> Result<Frame, NotationError> {
    result.map_err(|error| NotationError { offset, reason: Reason::Frame(error) })
}

const fn fail<T>(offset: usize, reason: Reason) -> Result<T, NotationError> {
    Err(NotationError { offset, reason })
}

/// Reads a frame from ASCII bytes.
///
/// # Errors
/// See [`Reason`]; the offset counts from the start of `text`.
pub fn parse(text: &[u8]) -> Result<Frame, NotationError> {
    let hex = |offset: usize| hex(text, offset);
    let (can_id, mut at) = identifier(text)?;
    if text.get(at) != Some(&b'#') {
        return fail(at, Reason::Separator);
    }
    at += 1;
    let mut fd_flags = None;
    if text.get(at) == Some(&b'#') {
        at += 1;
        if hex(at) == 0xFF {
            return fail(at, Reason::Flags);
        }
        fd_flags = Some(hex(at));
        at += 1;
    }
    let data_at = at;

    let (frame, at) = if matches!(text.get(at), Some(b'R' | b'r')) {
        at += 1;
        let mut len = 0;
        if hex(at) != 0xFF {
            len = usize::from(hex(at));
            at += 1;
        }
        if can_id & ERR_FLAG != 0 || fd_flags.is_some() {
            return fail(data_at, Reason::Frame(FrameError::RemoteFd));
        }
        if len > 8 {
            return fail(at - 1, Reason::Frame(FrameError::ClassicalTooLong(len)));
        }
        (legal(Frame::from_parts(can_id | RTR_FLAG, &[0; 8][..len], None), 0)?, at)
    } else {
        let mut data = [0; 64];
        let mut len = 0;
        // As far as there are no points between the bytes, two digits at a time.
        let (pairs, _) = text.get(at..).unwrap_or_default().as_chunks();
        for (byte, &[high, low]) in data.iter_mut().zip(pairs) {
            let (high, low) = (HEX[usize::from(high)], HEX[usize::from(low)]);
            if (high | low) == 0xFF {
                break;
            }
            *byte = high << 4 | low;
            len += 1;
        }
        at += 2 * len;
        loop {
            if len > 0 && text.get(at) == Some(&b'.') {
                at += 1;
            }
            let high = hex(at);
            if high == 0xFF {
                break;
            }
            let low = hex(at + 1);
            if low == 0xFF {
                return fail(at + 1, Reason::Data);
            }
            if len == data.len() {
                return fail(at, Reason::Frame(FrameError::FdLength(len + 1)));
            }
            data[len] = high << 4 | low;
            len += 1;
            at += 2;
        }
        if fd_flags.is_none() && can_id & RTR_FLAG != 0 && len > 0 {
            return fail(data_at, Reason::RemoteData);
        }
        // eight digits with the error flag cannot be CAN FD, three digits cannot exceed 0x7ff
        let offset =
            if fd_flags.is_none() && can_id & (EFF_FLAG | ERR_FLAG) == 0 && can_id > SFF_MASK {
                0
            } else {
                data_at
            };
        (legal(Frame::from_parts(can_id, &data[..len], fd_flags), offset)?, at)
    };

    ending(text, at, frame)
}

/// The classical data frame at the beginning, without points between its bytes, and how many bytes of the text it is: what nearly all
/// of a recording is. `None` for anything else, of which [`parse`] knows more. What stands behind it is not looked at.
#[inline]
#[must_use]
pub fn data_frame(text: &[u8]) -> Option<(Frame, usize)> {
    let (can_id, at) = match text {
        [_, _, _, b'#', ..] => (digits(&text[..3])?, 4),
        [_, _, _, _, _, _, _, _, b'#', ..] => (digits(&text[..8])? | EFF_FLAG, 9),
        _ => return None,
    };
    if can_id & ERR_FLAG != 0 {
        return None;
    }
    let (pairs, _) = text[at..].as_chunks();
    let mut data = [0; 8];
    let mut len = 0;
    for (byte, &[high, low]) in data.iter_mut().zip(pairs) {
        let (high, low) = (HEX[usize::from(high)], HEX[usize::from(low)]);
        if (high | low) == 0xFF {
            break;
        }
        *byte = high << 4 | low;
        len += 1;
    }
    Some((Frame::classical(can_id, data, len)?, at + 2 * usize::from(len)))
}

/// The number that hex digits make.
#[inline]
fn digits(text: &[u8]) -> Option<u32> {
    let mut number = 0;
    let mut all = 0;
    for &byte in text {
        let digit = HEX[usize::from(byte)];
        all |= digit;
        number = number << 4 | u32::from(digit);
    }
    (all != 0xFF).then_some(number)
}

/// The identifier word at the beginning, and where it ends.
#[inline]
fn identifier(text: &[u8]) -> Result<(u32, usize), NotationError> {
    let mut at = 0;
    let mut id: u32 = 0;
    while at < 9 && hex(text, at) != 0xFF {
        id = id << 4 | u32::from(hex(text, at));
        at += 1;
    }
    let can_id = match at {
        3 => id,
        // Eight digits are extended, unless they carry the flag of an error report, in which the
        // other flags mean nothing.
        8 if id & ERR_FLAG != 0 => id & !(EFF_FLAG | RTR_FLAG),
        8 => id | EFF_FLAG,
        _ => return fail(at.min(text.len()), Reason::Identifier),
    };
    Ok((can_id, at))
}

/// The frame, with the raw DLC that may follow its data; nothing else may.
#[inline]
fn ending(text: &[u8], at: usize, frame: Frame) -> Result<Frame, NotationError> {
    match text.get(at) {
        None => Ok(frame),
        Some(b'_') if !frame.is_fd() => {
            let dlc = hex(text, at + 1);
            if dlc == 0xFF {
                return fail(at + 1, Reason::Trailing);
            }
            let frame = legal(frame.with_raw_dlc(dlc), at + 1)?;
            if text.len() > at + 2 { fail(at + 2, Reason::Trailing) } else { Ok(frame) }
        }
        Some(byte) if byte.is_ascii_alphanumeric() => fail(at, Reason::Data),
        Some(_) => fail(at, Reason::Trailing),
    }
}

impl FromStr for Frame {
    type Err = NotationError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.as_bytes())
    }
}

/// Room for the longest frame in this notation: 8 digits, `##`, flags, 64 bytes.
pub const MAX_LEN: usize = 8 + 3 + 128;

/// Writes `frame` into `out`; returns how many bytes it took.
pub fn write(frame: &Frame, out: &mut [u8; MAX_LEN]) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut at = 0;
    let mut put = |byte: u8| {
        out[at] = byte;
        at += 1;
    };
    let kind = frame.kind();
    let id = frame.can_id() & !(EFF_FLAG | RTR_FLAG);
    let digits = if frame.is_extended() || kind == Kind::Error { 8 } else { 3 };
    for digit in (0..digits).rev() {
        put(DIGITS[(id >> (digit * 4) & 0xF) as usize]);
    }
    put(b'#');
    match kind {
        Kind::Fd => {
            put(b'#');
            put(DIGITS[usize::from(frame.fd_flags())]);
        }
        Kind::Remote => {
            put(b'R');
            if !frame.is_empty() {
                put(DIGITS[frame.len()]);
            }
        }
        Kind::Data | Kind::Error => {}
    }
    for &byte in frame.data() {
        put(DIGITS[usize::from(byte >> 4)]);
        put(DIGITS[usize::from(byte & 0xF)]);
    }
    if let Some(dlc) = frame.raw_dlc() {
        put(b'_');
        put(DIGITS[usize::from(dlc)]);
    }
    at
}

/// An identifier word (SocketCAN's) as `candump` writes its identifier: 3 hex digits standard, 8 extended.
///
/// ```
/// use candor_wire::can::notation::Identifier;
/// assert_eq!(Identifier(0x77).to_string(), "077");
/// assert_eq!(Identifier(0x8000_0077).to_string(), "00000077");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier(pub u32);

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & (EFF_FLAG | ERR_FLAG) {
            0 => write!(f, "{:03X}", self.0 & EFF_MASK),
            _ => write!(f, "{:08X}", self.0 & EFF_MASK),
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = [0; MAX_LEN];
        let len = write(self, &mut out);
        f.pad(core::str::from_utf8(&out[..len]).map_err(|_| fmt::Error)?)
    }
}
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn frames_are_read_and_shown() {
        for (text, shown) in [
            ("123#DEADBEEF", "123#DEADBEEF"),
            ("123#de.ad.be.ef", "123#DEADBEEF"),
            ("000#", "000#"),
            ("12345678#", "12345678#"),
            ("0c00000b#fc", "0C00000B#FC"),
            ("123#R2", "123#R2"),
            ("123#r", "123#R"),
            ("123#R0", "123#R"),
            ("1F334455#1122334455667788_B", "1F334455#1122334455667788_B"),
            ("123#R8_E", "123#R8_E"),
            ("123##1AABB", "123##1AABB"),
            ("123##0", "123##0"),
            ("123##F112233445566778899AABBCC", "123##3112233445566778899AABBCC"),
            ("20000088#0000000000000000", "20000088#0000000000000000"),
            ("60000004#AA", "20000004#AA"),
            ("E0000004#AA", "20000004#AA"),
            ("C0000004#", "00000004#R"),
            ("C0000004#R", "00000004#R"),
        ] {
            let frame: Frame = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(frame.to_string(), shown);
            assert_eq!(shown.parse(), Ok(frame));
        }
    }

    #[test]
    fn what_is_no_frame_says_why_and_where() {
        use Reason::*;
        for (text, offset, reason) in [
            ("", 0, Identifier),
            ("12#11", 2, Identifier),
            ("1234#11", 4, Identifier),
            ("123456789#11", 9, Identifier),
            ("1234567890#11", 9, Identifier),
            ("xyz#11", 0, Identifier),
            ("123", 3, Separator),
            ("123 11", 3, Separator),
            ("123##", 5, Flags),
            ("123##x", 5, Flags),
            ("123#1", 5, Data),
            ("123#11223", 9, Data),
            ("123#11g2", 6, Data),
            ("123#11 22", 6, Trailing),
            ("40000123#11", 9, RemoteData),
            ("C0000123#1122334455667788_9", 9, RemoteData),
            ("40000123##011", 11, Frame(FrameError::RemoteFd)),
            ("123#.11", 4, Trailing),
            ("123#R2x", 6, Data),
            ("123#R9", 5, Frame(FrameError::ClassicalTooLong(9))),
            ("123##0R", 6, Frame(FrameError::RemoteFd)),
            ("900#11", 0, Frame(FrameError::StandardIdTooLarge(0x900))),
            ("123#112233445566778899", 4, Frame(FrameError::ClassicalTooLong(9))),
            ("7FF#112233445566778899", 4, Frame(FrameError::ClassicalTooLong(9))),
            ("12345678#112233445566778899", 9, Frame(FrameError::ClassicalTooLong(9))),
            ("123##0112233445566778899", 6, Frame(FrameError::FdLength(9))),
            ("123#11_9", 7, Frame(FrameError::RawDlc(9))),
            ("123#11_", 7, Trailing),
            ("123#11_x", 7, Trailing),
            ("123##011_9", 8, Trailing),
            ("123#1122334455667788_9x", 22, Trailing),
        ] {
            assert_eq!(
                text.parse::<super::Frame>(),
                Err(NotationError { offset, reason }),
                "{text}"
            );
        }
    }

    #[test]
    fn the_65th_byte_is_refused_at_its_place() {
        let text = String::from("123##0") + &"11".repeat(65);
        let reason = Reason::Frame(FrameError::FdLength(65));
        assert_eq!(text.parse::<Frame>(), Err(NotationError { offset: 6 + 2 * 64, reason }));
    }

    #[test]
    fn refusals_are_written_with_their_place() {
        for (text, message) in [
            ("12", "an identifier has 3 hex digits (standard) or 8 (extended), as in 123#DEADBEEF"),
            ("123", "`#` is missing after the identifier"),
            ("123##", "CAN FD needs one hex digit of flags after `##`"),
            ("123#1", "a data byte needs two hex digits"),
            ("123#11 ", "nothing may follow the data"),
            ("123#R9", "9 bytes of data, but a classical CAN frame has at most 8"),
        ] {
            let error = text.parse::<Frame>().unwrap_err();
            let place = error.offset + 1;
            assert_eq!(error.to_string(), alloc::format!("{message} (at character {place})"));
        }
    }

    #[test]
    fn the_debug_output_is_the_notation() {
        let frame: Frame = "123##1AABB".parse().unwrap();
        assert_eq!(alloc::format!("{frame:?} {frame:>12}"), "123##1AABB   123##1AABB");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(frame in crate::can::tunnel::testing::frame()) {
            let read: Frame = frame.to_string().parse().unwrap();
            // In an error report, the other flags mean nothing and are not written.
            let unwritten = if frame.kind() == Kind::Error { EFF_FLAG | RTR_FLAG } else { 0 };
            proptest::prop_assert_eq!(read.can_id(), frame.can_id() & !unwritten);
            proptest::prop_assert_eq!(read == frame, frame.can_id() & unwritten == 0);
            proptest::prop_assert_eq!(read.data(), frame.data());
        }
    }
}

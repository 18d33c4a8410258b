//! python-can's `udp_multicast`: a frame per datagram, as a map of MessagePack.
//!
//! | key | value | if absent |
//! |---|---|---|
//! | `timestamp` | seconds since 1970, a float | unknown |
//! | `arbitration_id` | identifier | 0 |
//! | `is_extended_id` | whether it has 29 bits | true |
//! | `is_remote_frame`, `is_error_frame`, `is_fd` | what it is | false |
//! | `dlc` | length in bytes, not the code | that of the data |
//! | `data` | bytes | none |
//! | `bitrate_switch`, `error_state_indicator` | flags of CAN FD | false |
//! | `channel` and any other | is passed over | |
//!
//! Keys may stand in any order, the last of equal ones counts, and integers may be of any width, as
//! for Python. A raw DLC does not travel.

use super::{Malformed, Reason};
use crate::Frame;
use crate::frame::{BRS, EFF_FLAG, EFF_MASK, ERR_FLAG, ESI, FrameError, Kind, RTR_FLAG, SFF_MASK};

/// The group of python-can in IPv4.
pub const GROUP_V4: [u8; 4] = [239, 74, 163, 2];
/// The group of python-can in IPv6: `ff15:7079:7468:6f6e:6465:6d6f:6d63:6173`.
pub const GROUP_V6: [u8; 16] = *b"\xFF\x15pythondemomcas";
/// Its port.
pub const PORT: u16 = 43113;
/// The size of the longest datagram that is written.
pub const MAX_LEN: usize = 256;

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The frame.
    pub frame: Frame,
    /// When the sender had it, in nanoseconds since 1970, as exact as the sender's float: to a
    /// quarter of a microsecond. Zero counts as unknown.
    pub time_ns: Option<u64>,
}

/// The keys, in the order in which python-can writes them.
const KEYS: [&str; 11] = [
    "timestamp",
    "arbitration_id",
    "is_extended_id",
    "is_remote_frame",
    "is_error_frame",
    "channel",
    "dlc",
    "data",
    "is_fd",
    "bitrate_switch",
    "error_state_indicator",
];

// ---- Reading ------------------------------------------------------------------------------------

/// The values of the keys, and where the one stands that cannot be judged alone.
struct Fields<'a> {
    time: Option<f64>,
    id: u64,
    id_offset: usize,
    is_extended: bool,
    is_remote: bool,
    is_error: bool,
    dlc: Option<u64>,
    dlc_offset: usize,
    data: &'a [u8],
    is_fd: bool,
    has_brs: bool,
    has_esi: bool,
}

impl Datagram {
    /// Reads a datagram.
    ///
    /// # Errors
    /// No map of MessagePack, a value of another kind than its key has, or something that is no
    /// frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader { bytes, offset: 0 };
        let mut fields = Fields {
            time: None,
            id: 0,
            id_offset: 0,
            is_extended: true,
            is_remote: false,
            is_error: false,
            dlc: None,
            dlc_offset: 0,
            data: &[],
            is_fd: false,
            has_brs: false,
            has_esi: false,
        };
        let count = match reader.value()? {
            Value::Map(count) => count,
            _ => return Err(Malformed::new(0, Reason::NoMap)),
        };
        for _ in 0..count {
            fields.read(&mut reader)?;
        }
        match bytes.len() - reader.offset {
            0 => fields.datagram(),
            more => Err(Malformed::new(reader.offset, Reason::Surplus(more))),
        }
    }
}

impl<'a> Fields<'a> {
    /// Reads a key and its value.
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        let key = match reader.value()? {
            Value::Bytes(key) => key,
            key => {
                reader.skip(key.children())?;
                &[]
            }
        };
        let Some(key) = KEYS.into_iter().find(|known| known.as_bytes() == key) else {
            return reader.skip(1);
        };
        let offset = reader.offset;
        let value = reader.value()?;
        let kind = Malformed::new(offset, Reason::Kind(key));
        let number = Malformed::new(offset, Reason::Number(key));
        let truth = || match value {
            Value::Truth(truth) => Ok(truth),
            Value::Integer(number) => Ok(number != 0),
            _ => Err(kind),
        };
        let unsigned = || match value {
            Value::Integer(value) => u64::try_from(value).map_err(|_| number),
            _ => Err(kind),
        };
        match key {
            "timestamp" => {
                self.time = match value {
                    Value::Nil => None,
                    Value::Float(seconds) => Some(seconds),
                    Value::Integer(seconds) => Some(seconds as f64),
                    _ => return Err(kind),
                };
                // Neither negative nor infinite nor no number at all.
                if self.time.is_some_and(|time| !(0.0..=f64::MAX).contains(&time)) {
                    return Err(number);
                }
            }
            "arbitration_id" => (self.id, self.id_offset) = (unsigned()?, offset),
            "is_extended_id" => self.is_extended = truth()?,
            "is_remote_frame" => self.is_remote = truth()?,
            "is_error_frame" => self.is_error = truth()?,
            "dlc" => {
                self.dlc = match value {
                    Value::Nil => None,
                    _ => Some(unsigned()?),
                };
                self.dlc_offset = offset;
            }
            "data" => {
                self.data = match value {
                    Value::Nil => &[],
                    Value::Bytes(data) => data,
                    _ => return Err(kind),
                };
            }
            "is_fd" => self.is_fd = truth()?,
            "bitrate_switch" => self.has_brs = truth()?,
            "error_state_indicator" => self.has_esi = truth()?,
            _ => reader.skip(value.children())?,
        }
        Ok(())
    }

    fn datagram(&self) -> Result<Datagram, Malformed> {
        let max_id = if self.is_extended { EFF_MASK } else { SFF_MASK };
        let id = u32::try_from(self.id).ok().filter(|&id| id <= max_id);
        let id = id.ok_or(Malformed::new(self.id_offset, Reason::Number("arbitration_id")))?;
        let mut can_id = id;
        for (flag, is_set) in
            [(EFF_FLAG, self.is_extended), (RTR_FLAG, self.is_remote), (ERR_FLAG, self.is_error)]
        {
            can_id |= if is_set { flag } else { 0 };
        }
        if self.is_remote && self.is_error {
            return Err(Malformed::new(self.id_offset, Reason::RemoteErrorReport));
        }
        let dlc = self.dlc.unwrap_or(self.data.len() as u64);
        let zeros = [0; 8];
        let data = match self.is_remote {
            true => usize::try_from(dlc).ok().and_then(|len| zeros.get(..len)).ok_or(
                Malformed::new(self.dlc_offset, Reason::Number("dlc")), // more than 8
            )?,
            false => self.data,
        };
        if dlc != data.len() as u64 || self.is_remote && !self.data.is_empty() {
            let reason = Reason::Length(dlc, self.data.len());
            return Err(Malformed::new(self.dlc_offset, reason));
        }
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let fd_flags = flag(self.has_brs, BRS) | flag(self.has_esi, ESI);
        let frame =
            Frame::from_parts(can_id, data, self.is_fd.then_some(fd_flags)).map_err(|error| {
                match error {
                    FrameError::ClassicalTooLong(_) | FrameError::FdLength(_) => {
                        Malformed::new(self.dlc_offset, Reason::Frame(error))
                    }
                    _ => Malformed::new(self.id_offset, Reason::Frame(error)),
                }
            })?;
        let time_ns = self.time.map(nanos);
        Ok(Datagram { frame, time_ns: time_ns.filter(|&time| time != 0) })
    }
}

/// A value of MessagePack, or the beginning of one that holds others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Nil,
    Truth(bool),
    Integer(i128),
    Float(f64),
    /// Text or bytes: Python makes no difference here, depending on its age.
    Bytes(&'a [u8]),
    Extension,
    Array(u32),
    Map(u32),
}

impl Value<'_> {
    /// How many values follow that belong to it.
    const fn children(self) -> u64 {
        match self {
            Self::Array(count) => count as u64,
            Self::Map(count) => 2 * count as u64,
            _ => 0,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = rest
            .get(..count)
            .ok_or(Malformed::new(self.bytes.len(), Reason::Cut(count - rest.len().min(count))))?;
        self.offset += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let offset = self.offset;
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or(Malformed::new(offset, Reason::Cut(N)))
    }

    /// A length of one, two or four bytes.
    fn length(&mut self, width: u8) -> Result<u32, Malformed> {
        Ok(match width {
            0 => u32::from(u8::from_be_bytes(self.array()?)),
            1 => u32::from(u16::from_be_bytes(self.array()?)),
            _ => u32::from_be_bytes(self.array()?),
        })
    }

    fn bytes(&mut self, len: u32) -> Result<Value<'a>, Malformed> {
        // Where it is too large for the processor, it is too large for a datagram.
        self.take(usize::try_from(len).unwrap_or(usize::MAX)).map(Value::Bytes)
    }

    /// An extension: a byte for its type, and so many more.
    fn extension(&mut self, len: u32) -> Result<Value<'a>, Malformed> {
        self.take(1)?;
        self.bytes(len).map(|_| Value::Extension)
    }

    /// The next value; of one that holds others, only the beginning.
    fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let offset = self.offset;
        let [marker] = self.array()?;
        Ok(match marker {
            0x00..=0x7F => Value::Integer(i128::from(marker)),
            0x80..=0x8F => Value::Map(u32::from(marker & 0x0F)),
            0x90..=0x9F => Value::Array(u32::from(marker & 0x0F)),
            0xA0..=0xBF => self.bytes(u32::from(marker & 0x1F))?,
            0xC0 => Value::Nil,
            0xC1 => return Err(Malformed::new(offset, Reason::Marker(marker))),
            0xC2 | 0xC3 => Value::Truth(marker == 0xC3),
            0xC4..=0xC6 => {
                let len = self.length(marker - 0xC4)?;
                self.bytes(len)?
            }
            0xC7..=0xC9 => {
                let len = self.length(marker - 0xC7)?;
                self.extension(len)?
            }
            0xCA => Value::Float(f64::from(f32::from_be_bytes(self.array()?))),
            0xCB => Value::Float(f64::from_be_bytes(self.array()?)),
            0xCC => Value::Integer(i128::from(u8::from_be_bytes(self.array()?))),
            0xCD => Value::Integer(i128::from(u16::from_be_bytes(self.array()?))),
            0xCE => Value::Integer(i128::from(u32::from_be_bytes(self.array()?))),
            0xCF => Value::Integer(i128::from(u64::from_be_bytes(self.array()?))),
            0xD0 => Value::Integer(i128::from(i8::from_be_bytes(self.array()?))),
            0xD1 => Value::Integer(i128::from(i16::from_be_bytes(self.array()?))),
            0xD2 => Value::Integer(i128::from(i32::from_be_bytes(self.array()?))),
            0xD3 => Value::Integer(i128::from(i64::from_be_bytes(self.array()?))),
            0xD4..=0xD8 => self.extension(1 << (marker - 0xD4))?,
            0xD9..=0xDB => {
                let len = self.length(marker - 0xD9)?;
                self.bytes(len)?
            }
            0xDC | 0xDD => Value::Array(self.length(marker - 0xDC + 1)?),
            0xDE | 0xDF => Value::Map(self.length(marker - 0xDE + 1)?),
            0xE0..=0xFF => Value::Integer(i128::from(marker.cast_signed())),
        })
    }

    /// Passes over `count` values with all that they hold. Each takes a byte at least, so this ends
    /// with the bytes, however deep they are nested.
    fn skip(&mut self, count: u64) -> Result<(), Malformed> {
        let mut left = count;
        while left > 0 {
            left = left.saturating_sub(1).saturating_add(self.value()?.children());
        }
        Ok(())
    }
}

/// The nanoseconds of so many seconds, zero or more; saturates. Whole seconds and the rest are
/// converted apart: together they have more digits than a float.
fn nanos(seconds: f64) -> u64 {
    let whole = seconds as u64;
    let rest = (seconds - whole as f64) * 1e9 + 0.5;
    whole.saturating_mul(1_000_000_000).saturating_add(rest as u64)
}

/// The seconds of so many nanoseconds.
fn seconds(nanos: u64) -> f64 {
    (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9
}

// ---- Writing ------------------------------------------------------------------------------------

impl Datagram {
    /// Writes a datagram to the start of `out`, as python-can does; returns its size. `None` for an
    /// error report that asks for data.
    #[must_use]
    pub fn encode(&self, out: &mut [u8; MAX_LEN]) -> Option<usize> {
        let frame = &self.frame;
        let can_id = frame.can_id();
        let kind = frame.kind();
        if kind == Kind::Error && can_id & RTR_FLAG != 0 {
            return None;
        }
        let mut writer = Writer { out, end: 0 };
        writer.put(&[0x80 | KEYS.len() as u8]);
        for key in KEYS {
            writer.put(&[0xA0 | key.len() as u8]);
            writer.put(key.as_bytes());
            match key {
                "timestamp" => {
                    writer.put(&[0xCB]);
                    writer.put(&seconds(self.time_ns.unwrap_or(0)).to_be_bytes());
                }
                "arbitration_id" => writer.number(can_id & EFF_MASK),
                "is_extended_id" => writer.truth(frame.is_extended()),
                "is_remote_frame" => writer.truth(kind == Kind::Remote),
                "is_error_frame" => writer.truth(kind == Kind::Error),
                "dlc" => writer.number(frame.len() as u32),
                "data" => {
                    writer.put(&[0xC4, frame.data().len() as u8]);
                    writer.put(frame.data());
                }
                "is_fd" => writer.truth(frame.is_fd()),
                "bitrate_switch" => writer.truth(frame.fd_flags() & BRS != 0),
                "error_state_indicator" => writer.truth(frame.fd_flags() & ESI != 0),
                _ => writer.put(&[0xC0]),
            }
        }
        Some(writer.end)
    }
}

struct Writer<'a> {
    out: &'a mut [u8; MAX_LEN],
    end: usize,
}

impl Writer<'_> {
    /// There is room: the longest datagram has 239 bytes.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.end..self.end + bytes.len()) {
            place.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    fn truth(&mut self, truth: bool) {
        self.put(&[0xC2 | u8::from(truth)]);
    }

    /// In the shortest form, as Python writes it.
    fn number(&mut self, number: u32) {
        match number {
            0..=0x7F => self.put(&[number as u8]),
            0x80..=0xFF => self.put(&[0xCC, number as u8]),
            0x100..=0xFFFF => {
                self.put(&[0xCD]);
                self.put(&(number as u16).to_be_bytes());
            }
            _ => {
                self.put(&[0xCE]);
                self.put(&number.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::tunnel::testing;

    /// What python-can 4.6.1 sends for `Message(timestamp=1700000000.25, arbitration_id=0x123,
    /// is_extended_id=False, data=[0xAA, 0xBB])`.
    const SENT: &[u8] = b"\x8b\
        \xa9timestamp\xcb\x41\xd9\x54\xfc\x40\x10\x00\x00\
        \xaearbitration_id\xcd\x01\x23\
        \xaeis_extended_id\xc2\
        \xafis_remote_frame\xc2\
        \xaeis_error_frame\xc2\
        \xa7channel\xc0\
        \xa3dlc\x02\
        \xa4data\xc4\x02\xaa\xbb\
        \xa5is_fd\xc2\
        \xaebitrate_switch\xc2\
        \xb5error_state_indicator\xc2";

    fn frame(text: &str) -> Frame {
        text.parse().unwrap()
    }

    /// A key and its value.
    type Entry = (&'static str, &'static [u8]);

    /// A map of MessagePack with these keys and values.
    fn map(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::from([0x80 | entries.len() as u8]);
        for (key, value) in entries {
            bytes.push(0xA0 | key.len() as u8);
            bytes.extend(key.as_bytes());
            bytes.extend(*value);
        }
        bytes
    }

    #[test]
    fn bytes_are_those_of_python_can() {
        let datagram =
            Datagram { frame: frame("123#AABB"), time_ns: Some(1_700_000_000_250_000_000) };
        assert_eq!(Datagram::decode(SENT), Ok(datagram));
        let mut out = [0; MAX_LEN];
        let len = datagram.encode(&mut out).unwrap();
        assert_eq!(&out[..len], SENT);
    }

    #[test]
    fn identifiers_are_as_short_as_those_of_python_can() {
        let cases: [(&str, &[u8]); 8] = [
            ("000#", b"\x00"),
            ("07F#", b"\x7f"),
            ("080#", b"\xcc\x80"),
            ("0FF#", b"\xcc\xff"),
            ("100#", b"\xcd\x01\x00"),
            ("0000FFFF#", b"\xcd\xff\xff"),
            ("00010000#", b"\xce\x00\x01\x00\x00"),
            ("1FFFFFFF#", b"\xce\x1f\xff\xff\xff"),
        ];
        for (text, value) in cases {
            let mut out = [0; MAX_LEN];
            let len = Datagram { frame: frame(text), time_ns: None }.encode(&mut out).unwrap();
            let entry = [b"\xaearbitration_id", value, b"\xae"].concat();
            assert!(out[..len].windows(entry.len()).any(|window| window == entry), "{text}");
        }
    }

    #[test]
    fn values_of_any_width_and_order_are_read() {
        let cases: [(&[Entry], &str); 14] = [
            (&[], "00000000#"),
            (&[("data", b"\xc4\x01\xaa"), ("is_extended_id", b"\xc2")], "000#AA"),
            // Integers of every width, signed ones too.
            (&[("arbitration_id", b"\x7f")], "0000007F#"),
            (&[("arbitration_id", b"\xcc\xff")], "000000FF#"),
            (&[("arbitration_id", b"\xce\x1f\xff\xff\xff")], "1FFFFFFF#"),
            (&[("arbitration_id", b"\xcf\0\0\0\0\0\0\0\x05")], "00000005#"),
            (&[("arbitration_id", b"\xd0\x05")], "00000005#"),
            (&[("arbitration_id", b"\xd1\x01\x05")], "00000105#"),
            (&[("arbitration_id", b"\xd2\0\x01\0\x05")], "00010005#"),
            (&[("arbitration_id", b"\xd3\0\0\0\0\0\0\0\x05")], "00000005#"),
            // Old versions wrote bytes as text; numbers stand for truth; the last of equal keys.
            (&[("data", b"\xa1x"), ("data", b"\xd9\x02xy"), ("is_extended_id", b"\0")], "000#7879"),
            (&[("is_remote_frame", b"\xc3"), ("dlc", b"\x04"), ("data", b"\xc0")], "00000000#R4"),
            (
                &[("is_fd", b"\xc3"), ("bitrate_switch", b"\xc3"), ("data", b"\xc5\0\x01\xaa")],
                "00000000##1AA",
            ),
            (
                &[("is_error_frame", b"\xc3"), ("arbitration_id", b"\x04"), ("dlc", b"\xc0")],
                "A0000004#",
            ),
        ];
        for (entries, text) in cases {
            let read = Datagram::decode(&map(entries)).map(|datagram| datagram.frame);
            let expected = match text.strip_prefix('A') {
                // Extended and an error report, for which there is no notation.
                Some(_) => Frame::from_parts(EFF_FLAG | ERR_FLAG | 4, &[], None).unwrap(),
                None => frame(text),
            };
            assert_eq!(read, Ok(expected), "{entries:?}");
        }
    }

    #[test]
    fn unknown_keys_are_passed_over() {
        let values: [&[u8]; 15] = [
            b"\xc0",
            b"\xc3",
            b"\xe0",
            b"\xca\0\0\0\0",
            b"\xa2hi",
            b"\xda\0\x02hi",
            b"\x92\x91\x90\x81\xa1x\xc0",
            b"\xdc\0\x02\x01\x02",
            b"\xde\0\x01\x01\x02",
            b"\xdf\0\0\0\x01\x01\x02",
            b"\xd4\x01\x02",
            b"\xd8\x01................",
            b"\xc7\x02\x05xy",
            b"\xc8\0\x01\x05x",
            b"\xc9\0\0\0\x01\x05x",
        ];
        for value in values {
            for key in ["is_rx", "channel"] {
                let bytes = map(&[(key, value), ("arbitration_id", b"\x05")]);
                let read = Datagram::decode(&bytes).map(|datagram| datagram.frame);
                assert_eq!(read, Ok(frame("00000005#")), "{key} {value:02x?}");
            }
        }
        // Keys that are no text.
        let read = Datagram::decode(b"\x82\x92\x01\x02\x03\xa3dlc\0").map(|read| read.frame);
        assert_eq!(read, Ok(frame("00000000#")));
    }

    #[test]
    fn times_are_read_as_python_writes_them() {
        let float = |seconds: f64| {
            let mut value = Vec::from([0xCB]);
            value.extend(seconds.to_be_bytes());
            value
        };
        let cases: [(Vec<u8>, Option<u64>); 6] = [
            (float(0.0), None),
            (float(1.5), Some(1_500_000_000)),
            (float(1e300), Some(u64::MAX)),
            (b"\xca\x3f\xc0\0\0".to_vec(), Some(1_500_000_000)),
            (b"\x02".to_vec(), Some(2_000_000_000)),
            (b"\xc0".to_vec(), None),
        ];
        for (value, time_ns) in cases {
            let read = Datagram::decode(&map(&[("timestamp", &value)])).unwrap();
            assert_eq!(read.time_ns, time_ns, "{value:02x?}");
        }
        for seconds in [-1.0, f64::NAN, f64::INFINITY] {
            let read = Datagram::decode(&map(&[("timestamp", &float(seconds))]));
            assert_eq!(read, Err(Malformed::new(11, Reason::Number("timestamp"))), "{seconds}");
        }
    }

    #[test]
    fn what_is_not_right_is_refused_with_the_place() {
        let at = Malformed::new;
        let illegal = |offset, error| Malformed::new(offset, Reason::Frame(error));
        let cases: [(&[u8], Malformed); 21] = [
            (b"", at(0, Reason::Cut(1))),
            (b"\x02\0\0\0\0", at(0, Reason::NoMap)),
            (b"\xc1", at(0, Reason::Marker(0xC1))),
            (b"\x80\0", at(1, Reason::Surplus(1))),
            (b"\x81", at(1, Reason::Cut(1))),
            (b"\x81\xa3dl", at(4, Reason::Cut(1))),
            (b"\x81\xa3dlc", at(5, Reason::Cut(1))),
            (b"\x81\xa3dlc\xcd\0", at(7, Reason::Cut(1))),
            (b"\x81\xa3dlc\xa1x", at(5, Reason::Kind("dlc"))),
            (b"\x81\xa3dlc\xff", at(5, Reason::Number("dlc"))),
            (b"\x81\xa3dlc\x01", at(5, Reason::Length(1, 0))),
            (b"\x81\xa4data\x05", at(6, Reason::Kind("data"))),
            (b"\x81\xa4data\xc6\xff\xff\xff\xff", at(11, Reason::Cut(u32::MAX as usize))),
            (b"\x81\xa5is_fd\xa0", at(7, Reason::Kind("is_fd"))),
            (b"\x81\xaearbitration_id\xce\x20\0\0\0", at(16, Reason::Number("arbitration_id"))),
            // Maps that promise more than there is, and deep nesting.
            (b"\xdf\xff\xff\xff\xff", at(5, Reason::Cut(1))),
            (b"\x81\xa1x\xdd\xff\xff\xff\xff", at(8, Reason::Cut(1))),
            (b"\x81\xa1x\x91\x91\x91\x91\x91\x91\x91\x91", at(11, Reason::Cut(1))),
            (b"\x82\xa3dlc\x09\xa4data\xa9.........", illegal(5, FrameError::ClassicalTooLong(9))),
            (
                b"\x83\xa5is_fd\xc3\xa3dlc\x09\xa4data\xa9.........",
                illegal(12, FrameError::FdLength(9)),
            ),
            (b"\x82\xafis_remote_frame\xc3\xa3dlc\x09", at(22, Reason::Number("dlc"))),
        ];
        for (bytes, error) in cases {
            assert_eq!(Datagram::decode(bytes), Err(error), "{bytes:02x?}");
        }
        let yes: &[u8] = b"\xc3";
        let both = map(&[("is_remote_frame", yes), ("is_error_frame", yes)]);
        let error = Datagram::decode(&both).unwrap_err();
        assert_eq!(error.reason, Reason::RemoteErrorReport);
        let remote_fd = map(&[("is_remote_frame", yes), ("is_fd", yes)]);
        let error = Datagram::decode(&remote_fd).unwrap_err();
        assert_eq!(error.reason, Reason::Frame(FrameError::RemoteFd));
        let with_data = map(&[("is_remote_frame", yes), ("data", b"\xa1x"), ("dlc", b"\x01")]);
        let error = Datagram::decode(&with_data).unwrap_err();
        assert_eq!(error.reason, Reason::Length(1, 1));
        let standard = map(&[("is_extended_id", b"\xc2"), ("arbitration_id", b"\xcd\x08\0")]);
        let error = Datagram::decode(&standard).unwrap_err();
        assert_eq!(error.reason, Reason::Number("arbitration_id"));
    }

    #[test]
    fn the_groups_are_those_of_python_can() {
        let group: core::net::Ipv6Addr = GROUP_V6.into();
        assert_eq!(Ok(group), "ff15:7079:7468:6f6e:6465:6d6f:6d63:6173".parse());
        let group: core::net::Ipv4Addr = GROUP_V4.into();
        assert_eq!(group, core::net::Ipv4Addr::new(239, 74, 163, 2));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frame in testing::frame(), time in 0..1_u64 << 61) {
            let datagram = Datagram { frame, time_ns: Some(time) };
            let mut out = [0; MAX_LEN];
            let len = datagram.encode(&mut out).unwrap();
            let read = Datagram::decode(&out[..len]).unwrap();
            prop_assert_eq!(read.frame, testing::without_raw_dlc(&frame));
            // As exact as a float is at this time.
            prop_assert!(read.time_ns.unwrap_or(0).abs_diff(time) <= 2 + (time >> 52));
            for end in 0..len {
                prop_assert!(Datagram::decode(&out[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut message = Vec::from(SENT);
            let _ = Datagram::decode(&bytes);
            // Within a message, too.
            let at = bytes.len().min(message.len() - 1);
            message.splice(at..at + 1, bytes);
            let _ = Datagram::decode(&message);
        }
    }
}

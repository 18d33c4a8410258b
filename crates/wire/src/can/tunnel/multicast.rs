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
use crate::can::Frame;
use crate::can::frame::{
    BRS, EFF_FLAG, EFF_MASK, ERR_FLAG, ESI, FrameError, Kind, RTR_FLAG, SFF_MASK,
};

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
mod tests;

//! [`Record`]: a frame of a recording, with its time, its interface and its direction.

use std::fmt;

use candor_wire::can::Frame;
use candor_wire::eth;

/// How many different interfaces one recording may name.
pub const MAX_INTERFACES: usize = 256;
/// The longest name of an interface in bytes. (Linux allows 15, captures of other systems more.)
pub const MAX_INTERFACE_NAME_LEN: usize = 255;

/// One frame of a recording: of CAN, unless `F` is another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<F = Frame> {
    /// Nanoseconds since the zero of whoever recorded, usually 1970.
    pub time_ns: u64,
    /// Where it was seen; [`Decoder::interfaces`](crate::Decoder::interfaces) knows the name.
    pub interface: InterfaceIndex,
    /// Whether the recorder received or sent it, if the recording says so.
    pub direction: Option<Direction>,
    /// The frame; of CAN, perhaps an error report.
    pub frame: F,
}

impl<F> Record<F> {
    /// The record with what `change` makes of its frame.
    pub fn map<G>(self, change: impl FnOnce(F) -> G) -> Record<G> {
        let Self { time_ns, interface, direction, frame } = self;
        Record { time_ns, interface, direction, frame: change(frame) }
    }
}

/// A record of either kind.
pub type AnyRecord<'a> = EitherRecord<Packet<'a>>;

/// A record of a CAN frame, or of an Ethernet frame by its packet or the place of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EitherRecord<P> {
    /// A CAN frame.
    Can(Record),
    /// An Ethernet frame.
    Ethernet(Record<P>),
}

impl<P> EitherRecord<P> {
    /// Nanoseconds since the zero of whoever recorded, usually 1970.
    #[must_use]
    pub const fn time_ns(&self) -> u64 {
        match self {
            Self::Can(record) => record.time_ns,
            Self::Ethernet(record) => record.time_ns,
        }
    }

    /// The interface that the frame was seen on.
    #[must_use]
    pub const fn interface(&self) -> InterfaceIndex {
        match self {
            Self::Can(record) => record.interface,
            Self::Ethernet(record) => record.interface,
        }
    }

    /// Which way the frame went, if the recording says so.
    #[must_use]
    pub const fn direction(&self) -> Option<Direction> {
        match self {
            Self::Can(record) => record.direction,
            Self::Ethernet(record) => record.direction,
        }
    }
}

/// A packet of a capture: the bytes of a frame, or only its start. Of an Ethernet frame the check sequence is not
/// among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What was captured.
    pub bytes: &'a [u8],
    /// How many bytes the frame had.
    pub original_len: u32,
}

impl<'a> Packet<'a> {
    /// Whether the recorder kept only the start of the frame.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.original_len as usize
    }

    /// Reads it as an Ethernet frame.
    ///
    /// # Errors
    /// What was kept is shorter than a header.
    pub fn parse(&self) -> Result<eth::Frame<'a>, eth::TooShort> {
        eth::Frame::parse(self.bytes)
    }
}

/// Where a packet is in the bytes that a [`Decoder`](crate::Decoder) consumed last: in [`Input::taken`](crate::Input::taken).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSpan {
    /// The place of its first byte.
    pub start: usize,
    /// How many bytes of it were captured.
    pub len: usize,
    /// How many bytes the frame had.
    pub original_len: u32,
}

impl PacketSpan {
    /// The packet in `bytes`, those that were consumed last; empty if they are others.
    #[must_use]
    pub fn slice(self, bytes: &[u8]) -> Packet<'_> {
        let bytes = bytes.get(self.start..self.start + self.len).unwrap_or_default();
        Packet { bytes, original_len: self.original_len }
    }
}

/// Which way a frame went, seen from the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came from the bus.
    Received,
    /// The recorder's own machine sent it.
    Transmitted,
}

impl Direction {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Received, Self::Transmitted];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Transmitted => "transmitted",
        }
    }
}

/// Which interface of a recording; counts from 0 in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceIndex(pub u16);

/// The names of the interfaces seen so far: at most [`MAX_INTERFACES`].
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    names: Vec<String>,
    /// The name asked for last: runs of one interface cost one comparison.
    latest: usize,
}

impl Interfaces {
    /// The name of an interface; empty for an index from elsewhere.
    #[must_use]
    pub fn name(&self, index: InterfaceIndex) -> &str {
        self.names.get(usize::from(index.0)).map_or("", String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All indices with their names, in the order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, &str)> {
        self.names.iter().enumerate().map(|(i, name)| (InterfaceIndex(i as u16), name.as_str()))
    }

    /// The index of `name`, which is added if it is new.
    ///
    /// # Errors
    /// No legal name, or too many.
    pub fn intern(&mut self, name: &[u8]) -> Result<InterfaceIndex, InterfaceError> {
        let is_latest = self.names.get(self.latest).is_some_and(|known| known.as_bytes() == name);
        if !is_latest {
            let known = self.names.iter().position(|known| known.as_bytes() == name);
            self.latest = match known {
                Some(index) => index,
                None => self.add(name)?,
            };
        }
        Ok(InterfaceIndex(self.latest as u16))
    }

    fn add(&mut self, name: &[u8]) -> Result<usize, InterfaceError> {
        if self.names.len() == MAX_INTERFACES {
            return Err(InterfaceError::TooMany);
        }
        if name.is_empty() || name.len() > MAX_INTERFACE_NAME_LEN {
            return Err(InterfaceError::Length(name.len()));
        }
        let name = str::from_utf8(name).map_err(|_| InterfaceError::NotUtf8)?;
        self.names.push(name.into());
        Ok(self.names.len() - 1)
    }
}

/// Why something is no name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceError {
    /// More than [`MAX_INTERFACES`].
    TooMany,
    /// Empty, or longer than [`MAX_INTERFACE_NAME_LEN`]; the number of bytes.
    Length(usize),
    /// Not text.
    NotUtf8,
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "more than {MAX_INTERFACES} different interfaces; split the recording by interface"
            ),
            Self::Length(len) => write!(
                f,
                "the name of the interface has {len} bytes; it must have 1 to \
                 {MAX_INTERFACE_NAME_LEN}"
            ),
            Self::NotUtf8 => f.write_str("the name of the interface is not UTF-8; rename it"),
        }
    }
}
impl std::error::Error for InterfaceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_numbered_as_they_appear_and_bounded() {
        let mut interfaces = Interfaces::default();
        for (name, index) in [("can1", 0), ("can0", 1), ("can0", 1), ("can1", 0)] {
            assert_eq!(interfaces.intern(name.as_bytes()), Ok(InterfaceIndex(index)));
        }
        for n in 2..MAX_INTERFACES {
            interfaces.intern(n.to_string().as_bytes()).unwrap();
        }
        assert_eq!(interfaces.intern(b"one more"), Err(InterfaceError::TooMany));
        assert_eq!(interfaces.intern(b"can0"), Ok(InterfaceIndex(1)));
        assert_eq!(interfaces.len(), MAX_INTERFACES);

        let mut interfaces = Interfaces::default();
        assert_eq!(interfaces.intern(b""), Err(InterfaceError::Length(0)));
        assert_eq!(interfaces.intern(&[b'c'; 256]), Err(InterfaceError::Length(256)));
        assert_eq!(interfaces.intern(b"\xFF"), Err(InterfaceError::NotUtf8));
        assert_eq!(interfaces.name(InterfaceIndex(0)), "");
    }

    #[test]
    fn interfaces_are_listed_with_their_numbers() {
        let mut interfaces = Interfaces::default();
        assert!(interfaces.is_empty());
        interfaces.intern(b"can1").unwrap();
        interfaces.intern(&[b'c'; MAX_INTERFACE_NAME_LEN]).unwrap();
        assert!(!interfaces.is_empty());
        let listed: Vec<_> = interfaces.iter().map(|(index, name)| (index.0, name.len())).collect();
        assert_eq!(listed, [(0, 4), (1, 255)]);
    }
}

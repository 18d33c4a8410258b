//! [`Frame`]: one value for every kind of CAN frame, always legal.

use core::fmt;
use core::hash::{Hash, Hasher};

use embedded_can::{ExtendedId, Id, StandardId};

/// Bit 31 of a SocketCAN `can_id`: the identifier has 29 bits.
pub const EFF_FLAG: u32 = 0x8000_0000;
/// Bit 30 of a SocketCAN `can_id`: remote transmission request.
pub const RTR_FLAG: u32 = 0x4000_0000;
/// Bit 29 of a SocketCAN `can_id`: an error report of the driver, not a frame of the bus.
pub const ERR_FLAG: u32 = 0x2000_0000;
/// The 11 bits of a standard identifier.
pub const SFF_MASK: u32 = 0x7FF;
/// The 29 bits of an extended identifier.
pub const EFF_MASK: u32 = 0x1FFF_FFFF;

/// CAN FD flag: the data phase runs at the data bit rate.
pub const BRS: u8 = 0x01;
/// CAN FD flag: the transmitter is error passive.
pub const ESI: u8 = 0x02;

/// The data lengths a CAN FD frame can have, by data length code.
pub const FD_LENGTHS: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64];

/// What a [`Frame`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A classical data frame, 0 to 8 bytes.
    Data,
    /// A classical remote frame: a length, no data.
    Remote,
    /// A CAN FD data frame, 0 to 64 bytes.
    Fd,
    /// An error report of the driver (SocketCAN `CAN_ERR_FLAG`), never on the wire as such.
    Error,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Data, Self::Remote, Self::Fd, Self::Error];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Remote => "remote",
            Self::Fd => "fd",
            Self::Error => "error",
        }
    }
}

/// A CAN frame. Whatever constructs one checks it: there is no classical frame of 9 bytes, no
/// remote frame of CAN FD, no CAN FD frame of 13 bytes.
///
/// The value keeps SocketCAN's identifier word ([`Frame::can_id`]) and a 64-byte buffer. Bytes of
/// the buffer beyond the length do not count: they are zero unless a rule that rewrites whole
/// buffers put something there, and two frames that differ only there are equal.
#[derive(Clone, Copy)]
pub struct Frame {
    can_id: u32,
    len: u8,
    /// 9..=15 if a classical frame of 8 bytes carries such a raw DLC, else 0.
    len8_dlc: u8,
    fd_flags: u8,
    is_fd: bool,
    data: [u8; 64],
}

/// Why something is no legal frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// More data than a classical frame holds; the number of bytes.
    ClassicalTooLong(usize),
    /// A length that no data length code of CAN FD stands for; the number of bytes.
    FdLength(usize),
    /// An identifier beyond 11 bits in a standard frame.
    StandardIdTooLarge(u32),
    /// A raw DLC outside 9..=15, or on a frame that is not 8 bytes long.
    RawDlc(u8),
    /// CAN FD has no remote frames.
    RemoteFd,
    /// Error reports are classical and carry 8 bytes at most.
    ErrorFd,
    /// A CAN XL frame, which is not supported.
    Xl,
    /// Fewer bytes than the layout needs; how many there are, how many it needs.
    Short(usize, usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ClassicalTooLong(len) => {
                write!(f, "{len} bytes of data, but a classical CAN frame has at most 8")
            }
            Self::FdLength(len) => write!(
                f,
                "{len} bytes of data, but a CAN FD frame has 0 to 8, 12, 16, 20, 24, 32, 48 or 64"
            ),
            Self::StandardIdTooLarge(id) => {
                write!(
                    f,
                    "standard identifier {id:#x} is greater than 0x7ff; write extended ones with \
                     8 digits"
                )
            }
            Self::RawDlc(dlc) => {
                write!(
                    f,
                    "raw DLC {dlc}, but only a classical frame of 8 bytes can have one, 9 to 15"
                )
            }
            Self::RemoteFd => f.write_str("CAN FD has no remote frames"),
            Self::ErrorFd => f.write_str("CAN FD has no error reports"),
            Self::Xl => f.write_str("CAN XL frames are not supported"),
            Self::Short(have, need) => write!(f, "{have} bytes, but the layout needs {need}"),
        }
    }
}
impl core::error::Error for FrameError {}

impl Frame {
    /// A classical data frame.
    ///
    /// # Errors
    /// More than 8 bytes.
    pub fn new(id: impl Into<Id>, data: &[u8]) -> Result<Self, FrameError> {
        Self::from_parts(id_word(id.into()), data, None)
    }

    /// A classical remote frame asking for `len` bytes.
    ///
    /// # Errors
    /// More than 8 bytes.
    pub fn remote(id: impl Into<Id>, len: usize) -> Result<Self, FrameError> {
        if len > 8 {
            return Err(FrameError::ClassicalTooLong(len));
        }
        Self::from_parts(id_word(id.into()) | RTR_FLAG, &[0; 8][..len], None)
    }

    /// A CAN FD frame; `flags` of [`BRS`] and [`ESI`], other bits are ignored.
    ///
    /// # Errors
    /// A length that CAN FD does not have.
    pub fn fd(id: impl Into<Id>, flags: u8, data: &[u8]) -> Result<Self, FrameError> {
        Self::from_parts(id_word(id.into()), data, Some(flags))
    }

    /// A frame from SocketCAN's identifier word and data; CAN FD if `fd_flags` are given.
    ///
    /// A remote frame keeps the length of `data` and drops its contents.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn from_parts(can_id: u32, data: &[u8], fd_flags: Option<u8>) -> Result<Self, FrameError> {
        if can_id & (EFF_FLAG | ERR_FLAG) == 0 && can_id & EFF_MASK > SFF_MASK {
            return Err(FrameError::StandardIdTooLarge(can_id & EFF_MASK));
        }
        match fd_flags {
            None if data.len() > 8 => return Err(FrameError::ClassicalTooLong(data.len())),
            Some(_) if can_id & ERR_FLAG != 0 => return Err(FrameError::ErrorFd),
            Some(_) if can_id & RTR_FLAG != 0 => return Err(FrameError::RemoteFd),
            Some(_) if fd_dlc(data.len()).is_none() => {
                return Err(FrameError::FdLength(data.len()));
            }
            _ => {}
        }
        let mut frame = Self {
            can_id,
            len: data.len() as u8,
            len8_dlc: 0,
            fd_flags: fd_flags.unwrap_or(0) & (BRS | ESI),
            is_fd: fd_flags.is_some(),
            data: [0; 64],
        };
        if !is_remote(can_id) {
            frame.data[..data.len()].copy_from_slice(data);
        }
        Ok(frame)
    }

    /// A classical frame that is no remote frame, from its identifier word and the first `len` of
    /// 8 bytes; `None` if it is not legal. For those who have no time for reasons.
    #[inline]
    #[must_use]
    pub(crate) const fn classical(can_id: u32, data: [u8; 8], len: u8) -> Option<Self> {
        let is_standard = can_id & (EFF_FLAG | ERR_FLAG) == 0;
        if len > 8 || is_standard && can_id & EFF_MASK > SFF_MASK || is_remote(can_id) {
            return None;
        }
        let bits = u64::from_le_bytes(data);
        let kept = match len {
            0 => 0,
            _ => bits & (u64::MAX >> (64 - 8 * len as u32)),
        };
        let mut frame = Self { can_id, len, len8_dlc: 0, fd_flags: 0, is_fd: false, data: [0; 64] };
        if let Some(first) = frame.data.first_chunk_mut() {
            *first = kept.to_le_bytes();
        }
        Some(frame)
    }

    /// The same frame with a raw DLC of 9..=15, which classical CAN transmits with 8 bytes.
    ///
    /// # Errors
    /// Another DLC, or a frame that is not classical and 8 bytes long.
    pub const fn with_raw_dlc(mut self, dlc: u8) -> Result<Self, FrameError> {
        if self.is_fd || self.len != 8 || dlc < 9 || dlc > 15 {
            return Err(FrameError::RawDlc(dlc));
        }
        self.len8_dlc = dlc;
        Ok(self)
    }

    /// What this frame is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        if self.can_id & ERR_FLAG != 0 {
            Kind::Error
        } else if self.is_fd {
            Kind::Fd
        } else if is_remote(self.can_id) {
            Kind::Remote
        } else {
            Kind::Data
        }
    }

    /// The identifier. For an error report, the extended identifier with the error class bits.
    #[must_use]
    pub fn id(&self) -> Id {
        if self.can_id & (EFF_FLAG | ERR_FLAG) != 0 {
            Id::Extended(ExtendedId::new(self.can_id & EFF_MASK).unwrap_or(ExtendedId::MAX))
        } else {
            let raw = (self.can_id & SFF_MASK) as u16;
            Id::Standard(StandardId::new(raw).unwrap_or(StandardId::MAX))
        }
    }

    /// SocketCAN's identifier word: identifier, [`EFF_FLAG`], [`RTR_FLAG`], [`ERR_FLAG`].
    #[must_use]
    pub const fn can_id(&self) -> u32 {
        self.can_id
    }

    /// Whether the identifier has 29 bits.
    #[must_use]
    pub const fn is_extended(&self) -> bool {
        self.can_id & EFF_FLAG != 0
    }

    /// Whether this is a CAN FD frame.
    #[must_use]
    pub const fn is_fd(&self) -> bool {
        self.is_fd
    }

    /// [`BRS`] and [`ESI`] of a CAN FD frame, else 0.
    #[must_use]
    pub const fn fd_flags(&self) -> u8 {
        self.fd_flags
    }

    /// The number of data bytes; of a remote frame, the number asked for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the length is zero.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The data length code on the wire, 0..=15.
    #[must_use]
    pub const fn dlc(&self) -> u8 {
        if self.len8_dlc != 0 {
            return self.len8_dlc;
        }
        match fd_dlc(self.len as usize) {
            Some(dlc) => dlc,
            None => 15,
        }
    }

    /// The raw DLC 9..=15 of a classical frame of 8 bytes, if it carries one.
    #[must_use]
    pub const fn raw_dlc(&self) -> Option<u8> {
        if self.len8_dlc == 0 { None } else { Some(self.len8_dlc) }
    }

    /// The data; empty for a remote frame.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        if is_remote(self.can_id) { &[] } else { &self.data[..usize::from(self.len)] }
    }

    /// The whole buffer, beyond the length too. Only code that rewrites buffers as the Linux
    /// gateway does needs it.
    #[must_use]
    pub const fn buffer(&self) -> &[u8; 64] {
        &self.data
    }

    /// The frame's place in arbitration: of frames that start together, the one with the smallest
    /// key wins. The bits are those of the arbitration field in their order on the wire (ISO
    /// 11898-1): base identifier, RTR or SRR, IDE, identifier extension, RTR.
    ///
    /// For data frames the order is that of [`Id`]; a remote frame loses against the data frame
    /// with its identifier.
    #[must_use]
    pub const fn arbitration_key(&self) -> u32 {
        let remote = (self.can_id & RTR_FLAG != 0) as u32;
        if self.is_extended() {
            let id = self.can_id & EFF_MASK;
            (id >> 18) << 21 | 0b11 << 19 | (id & 0x3_FFFF) << 1 | remote
        } else {
            (self.can_id & SFF_MASK) << 21 | remote << 20
        }
    }

    /// Replaces everything at once: the last step of a rule that rewrites frames.
    ///
    /// `len` is the length in bytes, for classical frames also a raw DLC of 9..=15 (which means 8
    /// bytes). For CAN FD it is rounded up to the next length there is, as drivers do. An
    /// identifier word without [`EFF_FLAG`] is cut to 11 bits.
    ///
    /// # Errors
    /// `len` beyond 15 or 64.
    pub fn rewritten(
        can_id: u32,
        len: u8,
        fd_flags: Option<u8>,
        buffer: [u8; 64],
    ) -> Result<Self, FrameError> {
        let id_mask = if can_id & (EFF_FLAG | ERR_FLAG) != 0 { EFF_MASK } else { SFF_MASK };
        let mut can_id = can_id & (id_mask | EFF_FLAG | RTR_FLAG | ERR_FLAG);
        let (len, len8_dlc) = match fd_flags {
            None if len <= 8 => (len, 0),
            None if len <= 15 => (8, len),
            None => return Err(FrameError::ClassicalTooLong(usize::from(len))),
            Some(_) => {
                can_id &= !(RTR_FLAG | ERR_FLAG);
                match FD_LENGTHS.iter().find(|&&length| length >= len) {
                    Some(&length) => (length, 0),
                    None => return Err(FrameError::FdLength(usize::from(len))),
                }
            }
        };
        Ok(Self {
            can_id,
            len,
            len8_dlc,
            fd_flags: fd_flags.unwrap_or(0) & (BRS | ESI),
            is_fd: fd_flags.is_some(),
            data: buffer,
        })
    }
}

/// The data length code of CAN FD for exactly `len` bytes.
#[must_use]
pub const fn fd_dlc(len: usize) -> Option<u8> {
    if len <= 8 {
        return Some(len as u8);
    }
    let mut dlc = 9;
    while dlc < FD_LENGTHS.len() {
        if FD_LENGTHS[dlc] as usize == len {
            return Some(dlc as u8);
        }
        dlc += 1;
    }
    None
}

/// Whether SocketCAN's identifier word is that of a remote frame; in an error report the bit means
/// nothing.
pub(crate) const fn is_remote(can_id: u32) -> bool {
    can_id & (RTR_FLAG | ERR_FLAG) == RTR_FLAG
}

/// SocketCAN's identifier word of a data frame with this identifier.
#[must_use]
pub fn id_word(id: Id) -> u32 {
    match id {
        Id::Standard(id) => u32::from(id.as_raw()),
        Id::Extended(id) => id.as_raw() | EFF_FLAG,
    }
}

/// The group number (PGN) of an extended identifier, SAE J1939-21: without priority and source, and without the
/// destination that numbers below 0xF000 have in their last byte.
#[must_use]
pub fn group_number(id: Id) -> Option<u32> {
    let Id::Extended(id) = id else { return None };
    let group = id.as_raw() >> 8 & MAX_GROUP_NUMBER;
    Some(if has_destination(group) { group & 0x3_FF00 } else { group })
}

/// The highest group number.
pub const MAX_GROUP_NUMBER: u32 = 0x3_FFFF;

/// Whether the last byte of a group number is a destination, and so none of the number.
#[must_use]
pub const fn has_destination(group: u32) -> bool {
    group >> 8 & 0xFF < 0xF0
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        (self.can_id, self.len, self.len8_dlc, self.fd_flags, self.is_fd)
            == (other.can_id, other.len, other.len8_dlc, other.fd_flags, other.is_fd)
            && self.data() == other.data()
    }
}
impl Eq for Frame {}
impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.can_id, self.len, self.len8_dlc, self.fd_flags, self.is_fd).hash(state);
        self.data().hash(state);
    }
}

impl embedded_can::Frame for Frame {
    fn new(id: impl Into<Id>, data: &[u8]) -> Option<Self> {
        Self::new(id, data).ok()
    }
    fn new_remote(id: impl Into<Id>, dlc: usize) -> Option<Self> {
        Self::remote(id, dlc).ok()
    }
    fn is_extended(&self) -> bool {
        self.is_extended()
    }
    fn is_remote_frame(&self) -> bool {
        self.kind() == Kind::Remote
    }
    fn id(&self) -> Id {
        self.id()
    }
    fn dlc(&self) -> usize {
        self.len()
    }
    fn data(&self) -> &[u8] {
        self.data()
    }
}

#[cfg(test)]
mod tests;

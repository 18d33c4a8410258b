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
    let mut dlc = 0;
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
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::bits::stream;
    use crate::tunnel::testing;

    fn standard(raw: u16) -> Id {
        StandardId::new(raw).unwrap().into()
    }
    fn extended(raw: u32) -> Id {
        ExtendedId::new(raw).unwrap().into()
    }

    #[test]
    fn arbitration_is_the_order_of_ids() {
        // From the highest priority to the lowest: an extended identifier loses against the
        // standard one with its base, and wins against the next base.
        let order = [
            standard(0),
            extended(0),
            extended(1),
            standard(1),
            extended(1 << 18),
            standard(0x7FF),
            extended(EFF_MASK),
        ];
        for pair in order.windows(2) {
            assert!(pair[0] < pair[1]);
            let key = |id| Frame::new(id, &[]).unwrap().arbitration_key();
            assert!(key(pair[0]) < key(pair[1]));
        }
    }

    #[test]
    fn a_remote_frame_loses_against_its_data_frame() {
        let data = Frame::new(standard(5), &[1]).unwrap();
        let remote = Frame::remote(standard(5), 1).unwrap();
        let longer = Frame::new(extended(5 << 18), &[]).unwrap();
        assert!(data.arbitration_key() < remote.arbitration_key());
        assert!(remote.arbitration_key() < longer.arbitration_key());
    }

    #[test]
    fn illegal_frames_do_not_exist() {
        use FrameError::*;
        let id = standard(1);
        assert_eq!(Frame::new(id, &[0; 9]), Err(ClassicalTooLong(9)));
        assert_eq!(Frame::remote(id, 9), Err(ClassicalTooLong(9)));
        assert_eq!(Frame::fd(id, 0, &[0; 13]), Err(FdLength(13)));
        assert_eq!(Frame::fd(id, 0, &[0; 65]), Err(FdLength(65)));
        assert_eq!(Frame::from_parts(0x800, &[], None), Err(StandardIdTooLarge(0x800)));
        assert_eq!(Frame::from_parts(RTR_FLAG, &[], Some(0)), Err(RemoteFd));
        assert_eq!(Frame::from_parts(ERR_FLAG, &[], Some(0)), Err(ErrorFd));
        assert_eq!(Frame::new(id, &[0; 7]).unwrap().with_raw_dlc(9), Err(RawDlc(9)));
        assert_eq!(Frame::new(id, &[0; 8]).unwrap().with_raw_dlc(8), Err(RawDlc(8)));
        assert_eq!(Frame::new(id, &[0; 8]).unwrap().with_raw_dlc(16), Err(RawDlc(16)));
    }

    #[test]
    fn bytes_beyond_the_length_do_not_count() {
        let mut buffer = [0; 64];
        buffer[2] = 7;
        let a = Frame::rewritten(1, 2, None, buffer).unwrap();
        let b = Frame::new(standard(1), &[0, 0]).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.buffer()[2], 7);
    }

    #[test]
    fn only_a_remote_frame_loses_its_data() {
        let remote = Frame::from_parts(RTR_FLAG | 1, &[7], None).unwrap();
        assert_eq!((remote.kind(), remote.len(), remote.data()), (Kind::Remote, 1, &[][..]));
        let error = Frame::from_parts(ERR_FLAG | RTR_FLAG | 1, &[7], None).unwrap();
        assert_eq!((error.kind(), error.data()), (Kind::Error, &[7][..]));
    }

    #[test]
    fn the_quick_way_has_the_same_limits() {
        for (can_id, len, is_legal) in [
            (SFF_MASK, 8, true),
            (SFF_MASK + 1, 8, false),
            (EFF_FLAG | EFF_MASK, 8, true),
            (SFF_MASK, 9, false),
            (RTR_FLAG, 0, false),
        ] {
            let made = Frame::classical(can_id, [0; 8], len);
            assert_eq!(made.is_some(), is_legal, "{can_id:x} {len}");
        }
    }

    #[test]
    fn every_dlc_has_its_length() {
        for (dlc, &len) in FD_LENGTHS.iter().enumerate() {
            let frame = Frame::fd(standard(1), 0, &[0; 64][..usize::from(len)]).unwrap();
            assert_eq!(usize::from(frame.dlc()), dlc);
        }
        let raw = Frame::new(standard(1), &[0; 8]).unwrap().with_raw_dlc(13).unwrap();
        assert_eq!((raw.dlc(), raw.len()), (13, 8));
    }
    #[test]
    fn a_frame_is_what_it_was_made_of() {
        let data = Frame::new(standard(0x155), &[1, 2]).unwrap();
        let empty = Frame::new(extended(0x1555_5555), &[]).unwrap();
        let remote = Frame::remote(extended(0x155), 3).unwrap();
        let fd = Frame::fd(standard(0x7FF), 0xFE, &[9; 12]).unwrap();
        let report = Frame::from_parts(ERR_FLAG | 0x1000_0004, &[0; 8], None).unwrap();
        for (frame, id, can_id, kind, flags, (dlc, len), data) in [
            (data, standard(0x155), 0x155, Kind::Data, 0, (2, 2), &[1, 2][..]),
            (empty, extended(0x1555_5555), 0x9555_5555, Kind::Data, 0, (0, 0), &[]),
            (remote, extended(0x155), 0xC000_0155, Kind::Remote, 0, (3, 3), &[]),
            (fd, standard(0x7FF), 0x7FF, Kind::Fd, ESI, (9, 12), &[9; 12]),
            (report, extended(0x1000_0004), 0x3000_0004, Kind::Error, 0, (8, 8), &[0; 8]),
        ] {
            assert_eq!((frame.id(), frame.can_id(), frame.kind()), (id, can_id, kind), "{frame}");
            assert_eq!((frame.dlc(), frame.len(), frame.data()), (dlc, len, data), "{frame}");
            assert_eq!((frame.is_fd(), frame.fd_flags()), (kind == Kind::Fd, flags), "{frame}");
            assert_eq!((frame.is_empty(), frame.raw_dlc()), (len == 0, None), "{frame}");
            let is_extended = can_id & EFF_FLAG != 0;
            assert_eq!(frame.is_extended(), is_extended, "{frame}");
            // The same through the traits of embedded-can, which count lengths in bytes.
            use embedded_can::Frame as Embedded;
            assert_eq!(Embedded::id(&frame), id);
            assert_eq!(Embedded::is_extended(&frame), is_extended);
            assert_eq!(Embedded::is_remote_frame(&frame), kind == Kind::Remote);
            assert_eq!((Embedded::dlc(&frame), Embedded::data(&frame)), (len, data));
        }
    }

    #[test]
    fn embedded_can_makes_the_same_frames() {
        use embedded_can::Frame as Embedded;
        let id = standard(5);
        assert_eq!(<Frame as Embedded>::new(id, &[1]), Frame::new(id, &[1]).ok());
        assert_eq!(<Frame as Embedded>::new(id, &[1; 9]), None);
        assert_eq!(<Frame as Embedded>::new_remote(id, 4), Frame::remote(id, 4).ok());
        assert_eq!(<Frame as Embedded>::new_remote(id, 9), None);
    }

    #[test]
    fn refusals_name_the_numbers() {
        for (error, words) in [
            (
                FrameError::ClassicalTooLong(9),
                "9 bytes of data, but a classical CAN frame has at most 8",
            ),
            (
                FrameError::StandardIdTooLarge(0x800),
                "standard identifier 0x800 is greater than 0x7ff",
            ),
            (FrameError::RawDlc(8), "raw DLC 8, but only a classical frame of 8 bytes"),
            (FrameError::RemoteFd, "CAN FD has no remote frames"),
            (FrameError::ErrorFd, "CAN FD has no error reports"),
            (FrameError::Xl, "CAN XL frames are not supported"),
            (FrameError::Short(3, 16), "3 bytes, but the layout needs 16"),
        ] {
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }

    #[test]
    fn rewriting_rounds_and_cuts() {
        let buffer = [0xA5; 64];
        for (can_id, len, fd_flags, shown) in [
            (0x123, 2, None, "123#A5A5"),
            (0xF_FFFF, 0, None, "7FF#"),
            (EFF_FLAG | 0x1FFF_FFFF, 1, None, "1FFFFFFF#A5"),
            (RTR_FLAG | 0x123, 8, None, "123#R8"),
            (ERR_FLAG | 0x1234, 1, None, "20001234#A5"),
            (0x123, 9, None, "123#A5A5A5A5A5A5A5A5_9"),
            (0x123, 15, None, "123#A5A5A5A5A5A5A5A5_F"),
            (0x123, 9, Some(BRS | 0xF0), "123##1A5A5A5A5A5A5A5A5A5A5A5A5"),
            (RTR_FLAG | ERR_FLAG | 0x123, 1, Some(0), "123##0A5"),
        ] {
            let frame = Frame::rewritten(can_id, len, fd_flags, buffer).unwrap();
            assert_eq!(frame.to_string(), shown);
            assert_eq!(frame.buffer(), &buffer);
        }
        let longest = Frame::rewritten(1, 64, Some(0), buffer).unwrap();
        assert_eq!((longest.len(), longest.dlc()), (64, 15));
        assert_eq!(Frame::rewritten(1, 16, None, buffer), Err(FrameError::ClassicalTooLong(16)));
        assert_eq!(Frame::rewritten(1, 65, Some(0), buffer), Err(FrameError::FdLength(65)));
    }

    #[test]
    fn frames_that_differ_in_one_thing_differ() {
        let hash = |frame: &Frame| {
            let mut hasher = std::hash::DefaultHasher::new();
            frame.hash(&mut hasher);
            std::hash::Hasher::finish(&hasher)
        };
        let texts = [
            "123#",
            "124#",
            "00000123#",
            "123#00",
            "123#01",
            "123#R",
            "123#R1",
            "123##0",
            "123##1",
            "123##000",
            "123##100",
            "123#0000000000000000",
            "123#0000000000000000_9",
            "123#0000000000000000_A",
            "00000123#R",
            "20000123#",
        ];
        let frames = texts.map(|text| text.parse::<Frame>().unwrap());
        for (index, frame) in frames.iter().enumerate() {
            let mut buffer = *frame.buffer();
            if !is_remote(frame.can_id()) {
                buffer[frame.len()..].fill(0xEE);
            }
            let fd_flags = frame.is_fd().then_some(frame.fd_flags());
            let len = frame.raw_dlc().unwrap_or(frame.len() as u8);
            let same = Frame::rewritten(frame.can_id(), len, fd_flags, buffer).unwrap();
            assert_eq!((frame, hash(frame)), (&same, hash(&same)));
            for other in &frames[..index] {
                assert_ne!(frame, other);
                assert_ne!(hash(frame), hash(other), "{frame} {other}");
            }
        }
    }

    /// The arbitration field as the bus sees it, without stuff bits.
    fn arbitration_field(frame: &Frame) -> Vec<bool> {
        // Start of frame, 11 bits, RTR or SRR, IDE; 18 more bits and RTR.
        let len = if frame.is_extended() { 33 } else { 14 };
        let mut bits = Vec::new();
        stream::encode(frame, |bit| {
            if !bit.is_stuff {
                bits.push(bit.value);
            }
        })
        .unwrap();
        bits.truncate(len);
        bits
    }

    proptest! {
        #[test]
        fn arbitration_is_the_order_of_bits_on_the_bus(
            one in testing::frame(),
            other in testing::frame(),
            is_near in any::<bool>(),
            flipped in 0..29_u32,
        ) {
            let mut other = other;
            if is_near {
                // The same frame with one other bit in its identifier.
                let bits = if one.is_extended() { 29 } else { 11 };
                let can_id = one.can_id() ^ 1 << (flipped % bits);
                let fd_flags = one.is_fd().then_some(one.fd_flags());
                other = Frame::rewritten(can_id, one.len() as u8, fd_flags, *one.buffer()).unwrap();
            }
            prop_assume!(one.kind() != Kind::Error && other.kind() != Kind::Error);
            prop_assert_eq!(
                one.arbitration_key().cmp(&other.arbitration_key()),
                arbitration_field(&one).cmp(&arbitration_field(&other))
            );
        }

        #[test]
        fn the_quick_way_makes_the_same_frames(
            id in prop_oneof![0..=0xFFF_u32, any::<u32>()],
            flags in 0..8_u32,
            data in any::<[u8; 8]>(),
            len in 0..=12_u8,
        ) {
            let can_id = id & EFF_MASK | flags << 29;
            let slow = match data.get(..usize::from(len)) {
                Some(data) if !is_remote(can_id) => Frame::from_parts(can_id, data, None).ok(),
                _ => None,
            };
            prop_assert_eq!(Frame::classical(can_id, data, len), slow);
            if let Some(frame) = slow {
                let mut buffer = [0; 64];
                buffer[..usize::from(len)].copy_from_slice(&data[..usize::from(len)]);
                let quick = Frame::classical(can_id, data, len).unwrap();
                prop_assert_eq!(quick.buffer(), &buffer);
                prop_assert_eq!(frame.data(), &data[..usize::from(len)]);
            }
        }
    }
}

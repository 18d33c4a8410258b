//! cannelloni: version 2 of its datagrams, version 1 of its stream.
//!
//! | bytes of a datagram | value |
//! |---|---|
//! | 0 | version: 2 |
//! | 1 | operation: 0 data, 1 and 2 (acknowledgements) are not used |
//! | 2 | sequence number of the datagram, wraps |
//! | 3..5 | number of frames |
//! | 5.. | the frames, one behind the other |
//!
//! | bytes of a frame | value |
//! |---|---|
//! | 0..4 | identifier word as SocketCAN has it |
//! | 4 | length; 128 is added for CAN FD |
//! | 5 | flags of CAN FD, only there |
//! | then | data; a remote frame has none, whatever its length |
//!
//! Numbers are big-endian. The stream is `CANNELLONIv1` and then frames.
//!
//! A raw DLC does not travel: behind the tunnel such a frame is one of 8 bytes. A datagram without
//! frames is legal.

use super::{Malformed, Reason, Refused};
use crate::can::Frame;
use crate::can::frame::{ERR_FLAG, FrameError, Kind, RTR_FLAG, is_remote};

/// The version of the datagrams.
pub const VERSION: u8 = 2;
/// The operation of a datagram with frames.
const DATA: u8 = 0;
/// Bytes before the first frame of a datagram.
pub const HEADER_LEN: usize = 5;
/// Bytes of the longest frame.
pub const MAX_FRAME_LEN: usize = FD_HEADER_LEN + 64;
/// How both ends of a stream begin.
pub const HELLO: [u8; 12] = *b"CANNELLONIv1";

/// Bytes before the data of a classical frame.
const FRAME_HEADER_LEN: usize = 5;
/// Bytes before the data of a CAN FD frame.
const FD_HEADER_LEN: usize = 6;
/// Added to the length of a CAN FD frame.
const FD: u8 = 0x80;

// ---- Frames -------------------------------------------------------------------------------------

/// The header of a frame, checked.
#[derive(Clone, Copy)]
struct Header {
    can_id: u32,
    /// What the frame says.
    len: usize,
    fd_flags: Option<u8>,
    /// Where the data begin and end.
    data: (usize, usize),
}

impl Header {
    /// Reads the header of the frame that begins at `offset` of `bytes`.
    fn read(bytes: &[u8], offset: usize) -> Result<Self, Malformed> {
        let rest = bytes.get(offset..).unwrap_or_default();
        let cut =
            |need: usize| Malformed::new(bytes.len(), Reason::Cut(need.saturating_sub(rest.len())));
        let Some(&[i0, i1, i2, i3, len]) = rest.first_chunk::<FRAME_HEADER_LEN>() else {
            return Err(cut(FRAME_HEADER_LEN));
        };
        let can_id = u32::from_be_bytes([i0, i1, i2, i3]);
        let is_fd = len & FD != 0;
        let len = usize::from(len & !FD);
        // All that may be wrong is known here, before a byte of data is needed.
        let zeros = [0; 64];
        let data = match is_fd {
            true => zeros.get(..len).ok_or(FrameError::FdLength(len)),
            false => zeros.get(..len).ok_or(FrameError::ClassicalTooLong(len)),
        };
        data.and_then(|data| Frame::from_parts(can_id, data, is_fd.then_some(0)))
            .map_err(|error| Malformed::frame(offset, error))?;
        if can_id & (ERR_FLAG | RTR_FLAG) == ERR_FLAG | RTR_FLAG {
            return Err(Malformed::new(offset, Reason::RemoteErrorReport));
        }
        let (fd_flags, start) = match is_fd {
            true => (Some(*rest.get(5).ok_or(cut(FD_HEADER_LEN))?), FD_HEADER_LEN),
            false => (None, FRAME_HEADER_LEN),
        };
        let data_len = if is_remote(can_id) { 0 } else { len };
        let data = (offset + start, offset + start + data_len);
        Ok(Self { can_id, len, fd_flags, data })
    }

    /// The frame with this header; the bytes are those of [`Header::read`].
    fn frame(&self, bytes: &[u8]) -> Result<Frame, Malformed> {
        let (start, end) = self.data;
        let cut = Malformed::new(bytes.len(), Reason::Cut(end.saturating_sub(bytes.len())));
        let data = bytes.get(start..end).ok_or(cut)?;
        let zeros = [0; 8];
        let data = match is_remote(self.can_id) {
            true => zeros.get(..self.len).unwrap_or_default(),
            false => data,
        };
        // Cannot fail: the header is checked.
        Frame::from_parts(self.can_id, data, self.fd_flags)
            .map_err(|error| Malformed::frame(start, error))
    }
}

/// How many bytes `frame` takes.
#[must_use]
pub fn frame_len(frame: &Frame) -> usize {
    let header = if frame.is_fd() { FD_HEADER_LEN } else { FRAME_HEADER_LEN };
    header + frame.data().len()
}

/// How many bytes the frame takes that was written to the start of `bytes`; `None` if it is none.
#[must_use]
pub fn written_len(bytes: &[u8]) -> Option<usize> {
    Header::read(bytes, 0).ok().map(|header| header.data.1)
}

/// Writes `frame` to the start of `out`; returns how many bytes it took.
///
/// # Errors
/// It does not fit in, or it is an error report that asks for data.
pub fn encode_frame(frame: &Frame, out: &mut [u8]) -> Result<usize, Refused> {
    let can_id = frame.can_id();
    if frame.kind() == Kind::Error && can_id & RTR_FLAG != 0 {
        return Err(Refused::Unsupported);
    }
    let len = frame_len(frame);
    let out = out.get_mut(..len).ok_or(Refused::Full)?;
    let (header, rest) = out.split_first_chunk_mut::<FRAME_HEADER_LEN>().ok_or(Refused::Full)?;
    let [i0, i1, i2, i3] = can_id.to_be_bytes();
    let fd = if frame.is_fd() { FD } else { 0 };
    *header = [i0, i1, i2, i3, frame.len() as u8 | fd];
    let data = match (frame.is_fd(), rest.split_first_mut()) {
        (true, Some((flags, data))) => {
            *flags = frame.fd_flags();
            data
        }
        (true, None) => return Err(Refused::Full),
        (false, _) => rest,
    };
    data.copy_from_slice(frame.data());
    Ok(len)
}

// ---- Datagrams ----------------------------------------------------------------------------------

/// A datagram, checked to its end.
///
/// ```
/// use candor_wire::can::Frame;
/// use candor_wire::can::tunnel::cannelloni::{Datagram, Outgoing};
///
/// let frame: Frame = "123#DEADBEEF".parse()?;
/// let mut outgoing = Outgoing::new([0; 1472]);
/// outgoing.push(&frame).expect("it is empty");
/// let bytes = outgoing.finish(7);
///
/// let datagram = Datagram::decode(bytes)?;
/// assert_eq!(datagram.sequence(), 7);
/// assert!(datagram.frames().eq([frame]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    bytes: &'a [u8],
    sequence: u8,
    count: u16,
}

impl<'a> Datagram<'a> {
    /// Checks a datagram. All its frames are good, or it is refused.
    ///
    /// # Errors
    /// Another version or operation, another number of frames than it says, or one that is no frame.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(&[version, operation, sequence, c0, c1]) = bytes.first_chunk::<HEADER_LEN>()
        else {
            let more = HEADER_LEN - bytes.len();
            return Err(Malformed::new(bytes.len(), Reason::Cut(more)));
        };
        if version != VERSION {
            return Err(Malformed::new(0, Reason::Version(version)));
        }
        if operation != DATA {
            return Err(Malformed::new(1, Reason::Operation(operation)));
        }
        let count = u16::from_be_bytes([c0, c1]);
        let mut offset = HEADER_LEN;
        for _ in 0..count {
            let header = Header::read(bytes, offset)?;
            offset = header.data.1;
            if offset > bytes.len() {
                return Err(Malformed::new(bytes.len(), Reason::Cut(offset - bytes.len())));
            }
        }
        match bytes.len() - offset {
            0 => Ok(Self { bytes, sequence, count }),
            more => Err(Malformed::new(offset, Reason::Surplus(more))),
        }
    }

    /// The sequence number.
    #[must_use]
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    /// How many frames there are.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// The frames in their order.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + use<'a> {
        let (bytes, mut offset) = (self.bytes, HEADER_LEN);
        // None of these fail: the datagram is checked.
        core::iter::from_fn(move || {
            let header = Header::read(bytes, offset).ok()?;
            offset = header.data.1;
            header.frame(bytes).ok()
        })
    }
}

/// How many frames can be read at the start of a datagram that [`Datagram::decode`] refuses: those
/// that stand before the fault. None if its header is not right.
#[must_use]
pub fn readable_frames(bytes: &[u8]) -> u32 {
    let Some(&[VERSION, DATA, _, c0, c1]) = bytes.first_chunk::<HEADER_LEN>() else { return 0 };
    let (mut offset, mut frames) = (HEADER_LEN, 0);
    for _ in 0..u16::from_be_bytes([c0, c1]) {
        match Header::read(bytes, offset) {
            Ok(header) if header.data.1 <= bytes.len() => offset = header.data.1,
            _ => break,
        }
        frames += 1;
    }
    frames
}

/// A datagram that is being filled.
#[derive(Clone, Debug)]
pub struct Outgoing<B> {
    buffer: B,
    /// Where the next frame goes.
    end: usize,
    count: u16,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Outgoing<B> {
    /// In a buffer as large as a datagram may be.
    pub fn new(buffer: B) -> Self {
        Self { buffer, end: HEADER_LEN, count: 0 }
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// It does not fit in, or the format has no such frame.
    pub fn push(&mut self, frame: &Frame) -> Result<(), Refused> {
        let room = self.buffer.as_mut().get_mut(self.end..).unwrap_or_default();
        let count = self.count.checked_add(1).ok_or(Refused::Full)?;
        self.end += encode_frame(frame, room)?;
        self.count = count;
        Ok(())
    }

    /// How many frames are in.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Whether not even the shortest frame fits in any more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.buffer.as_ref().len().saturating_sub(self.end) < FRAME_HEADER_LEN
    }

    /// Whether none is in.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of the datagram with this sequence number; empty if not even the header fits in.
    pub fn finish(&mut self, sequence: u8) -> &[u8] {
        let [c0, c1] = self.count.to_be_bytes();
        if let Some(header) = self.buffer.as_mut().first_chunk_mut() {
            *header = [VERSION, DATA, sequence, c0, c1];
        }
        self.buffer.as_ref().get(..self.end).unwrap_or_default()
    }

    /// Takes all frames out.
    pub const fn clear(&mut self) {
        self.end = HEADER_LEN;
        self.count = 0;
    }
}

// ---- Sequence numbers ---------------------------------------------------------------------------

/// A datagram this many numbers behind, or fewer, came late; else those between are missing.
const LATE: u8 = 64;
/// After so many late ones in a row, each the successor of the one before, the sender has begun
/// anew.
const RESTART: u8 = 8;

/// Where a datagram stands in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Where it was expected.
    Next,
    /// Behind a gap; so many are missing.
    Gap(u8),
    /// It came again, or later than one that was sent after it.
    Late,
}

/// Follows the sequence numbers of one sender.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// What comes next, once something came.
    next: Option<u8>,
    /// What came late last, and how many such in a row.
    late: Option<(u8, u8)>,
}

impl Sequence {
    /// Takes the number of the next datagram. One that comes late was counted as missing before.
    pub fn take(&mut self, number: u8) -> Order {
        let next = self.next.unwrap_or(number);
        let ahead = number.wrapping_sub(next);
        if ahead <= u8::MAX - LATE {
            (self.next, self.late) = (Some(number.wrapping_add(1)), None);
            return if ahead == 0 { Order::Next } else { Order::Gap(ahead) };
        }
        let run = match self.late {
            Some((before, run)) if before.wrapping_add(1) == number => run + 1,
            _ => 1,
        };
        self.late = Some((number, run));
        if run == RESTART {
            (self.next, self.late) = (Some(number.wrapping_add(1)), None);
        }
        Order::Late
    }
}

// ---- The stream ---------------------------------------------------------------------------------

/// Decodes a stream from pieces of any size. It keeps what is left of a frame: at most
/// [`MAX_FRAME_LEN`] bytes.
///
/// ```
/// use candor_wire::can::tunnel::cannelloni::Stream;
///
/// let mut stream = Stream::new();
/// let mut frames = Vec::new();
/// for piece in [&b"CANNELLO"[..], b"NIv1\x00\x00\x01", b"\x23\x02\xAA\xBB"] {
///     stream.decode(piece, |frame| frames.push(frame.to_string()))?;
/// }
/// assert_eq!(frames, ["123#AABB"]);
/// # Ok::<(), candor_wire::can::tunnel::Malformed>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    /// Bytes of the stream that are done with.
    position: u64,
    /// How much of [`HELLO`] came.
    greeting: usize,
    /// The beginning of a frame.
    partial: [u8; MAX_FRAME_LEN],
    filled: usize,
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

impl Stream {
    /// At the start of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { position: 0, greeting: 0, partial: [0; MAX_FRAME_LEN], filled: 0 }
    }

    /// Whether the other end has said [`HELLO`].
    #[must_use]
    pub const fn is_greeted(&self) -> bool {
        self.greeting == HELLO.len()
    }

    /// Takes the next bytes and hands over the frames that are complete.
    ///
    /// # Errors
    /// It does not begin as it should, or something is no frame: where the next one would begin is
    /// then unknown, and the stream is of no use any more.
    pub fn decode(&mut self, bytes: &[u8], mut take: impl FnMut(Frame)) -> Result<(), Malformed> {
        let mut rest = self.greet(bytes)?;
        while self.filled > 0 && !rest.is_empty() {
            rest = self.complete(rest, &mut take)?;
        }
        let mut offset = 0;
        while offset < rest.len() {
            match self.next(rest, offset)? {
                Some((frame, end)) => {
                    take(frame);
                    offset = end;
                }
                None => break,
            }
        }
        self.position += offset as u64;
        let left = rest.get(offset..).unwrap_or_default();
        if let Some(place) = self.partial.get_mut(..left.len()).filter(|_| !left.is_empty()) {
            place.copy_from_slice(left);
            self.filled = left.len();
        }
        Ok(())
    }

    /// Takes off what belongs to the greeting.
    fn greet<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let mut rest = bytes;
        while let (Some(&expected), Some((&byte, behind))) =
            (HELLO.get(self.greeting), rest.split_first())
        {
            if byte != expected {
                return Err(Malformed::new(self.greeting, Reason::Hello));
            }
            self.greeting += 1;
            self.position += 1;
            rest = behind;
        }
        Ok(rest)
    }

    /// Goes on with the frame that was begun: by one step, so that no byte of the next frame is
    /// taken.
    fn complete<'a>(
        &mut self,
        bytes: &'a [u8],
        take: &mut impl FnMut(Frame),
    ) -> Result<&'a [u8], Malformed> {
        let have = self.partial.get(..self.filled).unwrap_or_default();
        let need = match Header::read(have, 0) {
            Ok(header) => header.data.1,
            Err(Malformed { reason: Reason::Cut(more), .. }) => self.filled + more,
            Err(error) => return Err(error.behind(self.position)),
        };
        let step = need.saturating_sub(self.filled).min(bytes.len());
        let (now, later) = bytes.split_at_checked(step).unwrap_or((bytes, &[]));
        if let Some(place) = self.partial.get_mut(self.filled..self.filled + step) {
            place.copy_from_slice(now);
        }
        self.filled += step;
        let have = self.partial.get(..self.filled).unwrap_or_default();
        if let Some((frame, end)) = self.next(have, 0)? {
            take(frame);
            self.position += end as u64;
            self.filled = 0;
        }
        Ok(later)
    }

    /// The frame at `offset` of `bytes` and where it ends; `None` if it is not complete.
    fn next(&self, bytes: &[u8], offset: usize) -> Result<Option<(Frame, usize)>, Malformed> {
        let frame = Header::read(bytes, offset)
            .and_then(|header| Ok((header.frame(bytes)?, header.data.1)));
        match frame {
            Ok(frame) => Ok(Some(frame)),
            Err(Malformed { reason: Reason::Cut(_), .. }) => Ok(None),
            Err(error) => Err(error.behind(self.position)),
        }
    }
}

#[cfg(test)]
mod tests;

//! The objects of a BLF recording.
//!
//! | type | object | layout of its body |
//! |--:|---|---|
//! | 1, 86 | frame | channel u16, flags u8 (1 transmitted, 0x80 remote), DLC u8, identifier u32 (bit 31: extended), 8 data |
//! | 2 | error frame | channel u16 |
//! | 73 | error frame | channel u16, what is valid u32 at 4 (2: what the controller says), direction in bits 12 and 13 of the u16 at 20 |
//! | 100 | CAN FD frame | as 1; flags of CAN FD u8 at 13 (1 EDL, 2 BRS, 4 ESI), bytes of data u8 at 14, data at 20 |
//! | 101 | CAN FD frame | channel u8, DLC u8, bytes of data u8; identifier u32 at 4, flags u32 at 12 (0x10 remote, 0x1000 EDL, 0x2000 BRS, 0x4000 ESI), direction u8 at 34, where other data begin u8 at 35, data at 40 |
//! | 104 | error frame of CAN FD | channel u8, what is valid u16 at 4, direction in bits 12 and 13 of the u16 at 6 |
//!
//! The direction of an error frame is 0 or 2 if it was received, without and with an acknowledgement, and 1 or 3 if it was transmitted.
//!
//! The header of an object has flags u32 at 16 (1: times in 10 microseconds, else nanoseconds), and the time since the
//! start u64 at 24. Data that are not there are zero, as CANoe reads them.

use candor_wire::can::frame::{BRS, EFF_FLAG, EFF_MASK, ESI, FD_LENGTHS, RTR_FLAG};
use candor_wire::can::{Frame, FrameError};

use memchr::memmem;

use super::{MAX_OBJECT_LEN, MAX_PASSED_LEN, NESTED, OBJECT_HEADER_LEN, OBJECT_SIGNATURE};
use crate::decode::Reason;
use crate::format::order::Order;
use crate::format::{classical, error_report};
use crate::record::Direction;

/// Why a frame has no time.
pub(super) const LATE: &str =
    "the time of the frame is after the year 2554, the limit of 64-bit nanoseconds";

pub(super) const MESSAGE: u32 = 1;
const ERROR: u32 = 2;
pub(super) const ERROR_EXT: u32 = 73;
const MESSAGE2: u32 = 86;
pub(super) const FD_MESSAGE: u32 = 100;
const FD_MESSAGE_64: u32 = 101;
const FD_ERROR_64: u32 = 104;
/// In order.
const FRAMES: [u32; 7] =
    [MESSAGE, ERROR, ERROR_EXT, MESSAGE2, FD_MESSAGE, FD_MESSAGE_64, FD_ERROR_64];

/// No header is longer, and no type is greater, by far.
const MAX_HEADER_LEN: usize = 256;
const MAX_KIND: u32 = 0xFFFF;
/// The shortest object with a frame, and the header of another one.
const SHORTEST_TWO: usize = 64;

/// The shortest header with a time.
pub(super) const TIMED_HEADER_LEN: usize = 32;
const TEN_MICROS: u32 = 1;
pub(super) const NANOS: u32 = 2;
pub(super) const EXTENDED: u32 = 1 << 31;
/// The flags of an error frame that say whether those of the controller count, and that it was transmitted.
pub(super) const CONTROLLER_SAYS: u16 = 2;
pub(super) const TRANSMITTED_ERROR: u16 = 1 << 12;

/// The beginning of an object.
#[derive(Clone, Copy)]
pub(super) struct Object {
    header_len: u16,
    /// With its header.
    pub(super) len: u32,
    pub(super) kind: u32,
}

/// What an object is.
pub(super) enum Found {
    Frame { since_ns: u64, channel: u16, direction: Direction, frame: Frame },
    Other,
}

/// The header at the beginning of the bytes, if all of it is there.
pub(super) fn header(bytes: &[u8]) -> Option<Object> {
    let header: &[u8; OBJECT_HEADER_LEN] = bytes.first_chunk()?;
    Some(Object {
        header_len: Order::Little.u16(header, 4),
        len: Order::Little.u32(header, 8),
        kind: Order::Little.u32(header, 12),
    })
}

/// Where the first header begins that is `wanted` and may be one, and whether all of it is there; if not, it is only its signature, or the
/// beginning of that, that is known.
pub(super) fn find(bytes: &[u8], wanted: impl Fn(Object) -> bool) -> Option<(usize, bool)> {
    for at in memmem::find_iter(bytes, OBJECT_SIGNATURE) {
        match header(&bytes[at..]) {
            None => return Some((at, false)),
            Some(object) if object.may_be() && wanted(object) => return Some((at, true)),
            Some(_) => {}
        }
    }
    let last = bytes.len().saturating_sub(OBJECT_SIGNATURE.len() - 1);
    let begun = (last..bytes.len()).find(|&at| OBJECT_SIGNATURE.starts_with(&bytes[at..]));
    begun.map(|at| (at, false))
}

impl Object {
    /// Whether such a header is one by more than its signature.
    fn may_be(self) -> bool {
        let header_len = usize::from(self.header_len);
        (OBJECT_HEADER_LEN..=MAX_HEADER_LEN).contains(&header_len)
            && self.kind <= MAX_KIND
            && self.len as usize >= header_len
    }

    /// Refuses this object, at the beginning of the bytes, if another one begins behind what it has. False if that takes more bytes than
    /// there are: a header may begin inside and end behind.
    pub(super) fn check_inside(self, bytes: &[u8]) -> Result<bool, Reason> {
        let len = self.len as usize;
        if len < SHORTEST_TWO {
            return Ok(true);
        }
        let Some(from) = self.contents_len(bytes) else { return Ok(false) };
        // With as much of what is behind it as a header at its end needs.
        let bytes = &bytes[..bytes.len().min(len + OBJECT_HEADER_LEN)];
        match find(bytes.get(from..).unwrap_or_default(), |_| true) {
            Some((at, true)) if from + at < len => Err(NESTED),
            Some((at, false)) => Ok(from + at >= len),
            _ => Ok(true),
        }
    }

    /// How many bytes the time and the frame take, which may be any: also those of a header. Of others only the signature is known. `None`
    /// if there are too few to tell.
    fn contents_len(self, bytes: &[u8]) -> Option<usize> {
        if !FRAMES.contains(&self.kind) {
            return Some(OBJECT_SIGNATURE.len());
        }
        let header_len = usize::from(self.header_len);
        let body = |at: usize| bytes.get(header_len + at).map(|&len| usize::from(len.min(64)));
        Some(match self.kind {
            MESSAGE => header_len + 16,
            MESSAGE2 => header_len + 8 + body(3)?.min(8),
            FD_MESSAGE => header_len + 20 + body(14)?,
            FD_MESSAGE_64 => header_len + 40 + body(2)?,
            _ => header_len,
        })
    }

    /// Whether its sizes can be true.
    pub(super) fn check(self) -> Result<(), Reason> {
        let is_frame = FRAMES.contains(&self.kind);
        let least = if is_frame { TIMED_HEADER_LEN } else { OBJECT_HEADER_LEN };
        let header_len = usize::from(self.header_len);
        let len = self.len as usize;
        let most = if is_frame { MAX_OBJECT_LEN } else { MAX_PASSED_LEN };
        if header_len < least || len < header_len || len > most {
            return Err(Reason::Number(
                "an object cannot have a size of ",
                u64::from(self.len),
                " bytes; the file is damaged there",
            ));
        }
        Ok(())
    }

    /// Reads an object from all its bytes.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Found, Reason> {
        if !FRAMES.contains(&self.kind) {
            return Ok(Found::Other);
        }
        let unit_ns = if Order::Little.u32(bytes, 16) == TEN_MICROS { 10_000 } else { 1 };
        let since = Order::Little.u64(bytes, 24);
        let since_ns = since.checked_mul(unit_ns).ok_or(Reason::Text(LATE))?;
        let body = bytes.get(usize::from(self.header_len)..).unwrap_or_default();
        let least = match self.kind {
            MESSAGE | MESSAGE2 => 8,
            FD_MESSAGE => 20,
            FD_MESSAGE_64 => 40,
            _ => 2,
        };
        if body.len() < least {
            return Err(Reason::Number(
                "an object with a frame has only ",
                body.len() as u64,
                " bytes; the file is damaged there",
            ));
        }
        let (channel, direction, frame) = match self.kind {
            MESSAGE | MESSAGE2 => message(body),
            FD_MESSAGE => fd_message(body),
            FD_MESSAGE_64 => fd_message_64(body, self.header_len),
            FD_ERROR_64 => (u16::from(body[0]), error_direction(body, 6), error_report()),
            ERROR_EXT => (Order::Little.u16(body, 0), error_direction(body, 20), error_report()),
            _ => (Order::Little.u16(body, 0), Direction::Received, error_report()),
        };
        let frame = frame.map_err(Reason::Frame)?;
        Ok(Found::Frame { since_ns, channel, direction, frame })
    }
}

/// An identifier as the kernel has it.
const fn can_id(id: u32, is_remote: bool) -> u32 {
    let flags =
        if id & EXTENDED != 0 { EFF_FLAG } else { 0 } | if is_remote { RTR_FLAG } else { 0 };
    id & EFF_MASK | flags
}

const fn direction(is_transmitted: bool) -> Direction {
    if is_transmitted { Direction::Transmitted } else { Direction::Received }
}

/// The direction of an error frame, whose flags are at `at`; received, if the controller does not say.
fn error_direction(body: &[u8], at: usize) -> Direction {
    let is_known = Order::Little.u16(body, 4) & CONTROLLER_SAYS != 0;
    direction(is_known && Order::Little.u16(body, at) & TRANSMITTED_ERROR != 0)
}

type Message = (u16, Direction, Result<Frame, FrameError>);

fn message(body: &[u8]) -> Message {
    let (flags, dlc) = (body[2], body[3]);
    let can_id = can_id(Order::Little.u32(body, 4), flags & 0x80 != 0);
    let frame = classical(can_id, dlc, &data(body, 8, 8));
    (Order::Little.u16(body, 0), direction(flags & 1 != 0), frame)
}

fn fd_message(body: &[u8]) -> Message {
    let (flags, dlc, fd_flags, len) = (body[2], body[3], body[13], body[14]);
    let id = Order::Little.u32(body, 4);
    let channel = Order::Little.u16(body, 0);
    let is_remote = flags & 0x80 != 0;
    let bits = (fd_flags & 1 != 0, fd_flags & 2 != 0, fd_flags & 4 != 0);
    let frame = any_frame((id, is_remote, bits), dlc, &data(body, 20, len));
    (channel, direction(flags & 1 != 0), frame)
}

fn fd_message_64(body: &[u8], header_len: u16) -> Message {
    let (channel, dlc, len) = (body[0], body[1], body[2]);
    let flags = Order::Little.u32(body, 12);
    let others_at = usize::from(body[35]);
    // Counts from the beginning of the object; 0 for none.
    let end = others_at.checked_sub(usize::from(header_len)).unwrap_or(body.len());
    let body_end = end.min(body.len());
    let bits = (flags & 0x1000 != 0, flags & 0x2000 != 0, flags & 0x4000 != 0);
    let id = Order::Little.u32(body, 4);
    let frame = any_frame((id, flags & 0x10 != 0, bits), dlc, &data(&body[..body_end], 40, len));
    (u16::from(channel), direction(body[34] != 0), frame)
}

/// The `len` bytes from `at` on, zeros where there are none.
fn data<const LEN: usize>(body: &[u8], at: usize, len: u8) -> [u8; LEN] {
    let mut data = [0; LEN];
    let there = body.get(at..).unwrap_or_default();
    let count = there.len().min(usize::from(len)).min(LEN);
    data[..count].copy_from_slice(&there[..count]);
    data
}

/// A frame of an object for both kinds: of CAN FD if the first bit is set; the others are BRS and ESI.
fn any_frame(
    (id, is_remote, (is_fd, brs, esi)): (u32, bool, (bool, bool, bool)),
    dlc: u8,
    data: &[u8; 64],
) -> Result<Frame, FrameError> {
    let can_id = can_id(id, is_remote);
    if !is_fd {
        let eight = data.first_chunk().copied().unwrap_or_default();
        return classical(can_id, dlc, &eight);
    }
    let len = FD_LENGTHS.get(usize::from(dlc)).ok_or(FrameError::RawDlc(dlc))?;
    let flags = if brs { BRS } else { 0 } | if esi { ESI } else { 0 };
    Frame::from_parts(can_id, &data[..usize::from(*len)], Some(flags))
}

//! A frame as bytes, in plans and records.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | identifier word, little-endian |
//! | 4 | length |
//! | 5 | flags of a CAN FD frame; 255 for a classical one |
//! | 6..8 | 0 |
//! | 8..72 | data |

use candor_wire::can::Frame;
use candor_wire::can::frame::ERR_FLAG;

/// A frame takes so many bytes.
pub const FRAME_BYTES: usize = 72;
const CLASSICAL: u8 = 255;

#[must_use]
pub fn bytes(frame: &Frame) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    let (head, data) = bytes.split_at_mut(8);
    head[..4].copy_from_slice(&frame.can_id().to_le_bytes());
    head[4] = frame.len() as u8;
    head[5] = if frame.is_fd() { frame.fd_flags() } else { CLASSICAL };
    data.copy_from_slice(frame.buffer());
    bytes
}

/// The frame of these bytes, unless they are of none that a bus can carry.
#[must_use]
pub fn read(bytes: &[u8; FRAME_BYTES]) -> Option<Frame> {
    let [a, b, c, d, len, flags, _, _, data @ ..] = bytes;
    let can_id = u32::from_le_bytes([*a, *b, *c, *d]);
    let fd_flags = (*flags != CLASSICAL).then_some(*flags);
    let frame = Frame::from_parts(can_id, data.get(..usize::from(*len))?, fd_flags).ok()?;
    (can_id & ERR_FLAG == 0).then_some(frame)
}

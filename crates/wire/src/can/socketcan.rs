//! The layouts of `struct can_frame` (16 bytes) and `struct canfd_frame` (72 bytes), as sockets
//! pass them (`linux/can.h`) and captures with link type 227 store them.
//!
//! | bytes | `can_frame` | `canfd_frame` |
//! |---|---|---|
//! | 0..4 | identifier word | identifier word |
//! | 4 | length | length |
//! | 5 | padding | flags: BRS 1, ESI 2, FDF 4 |
//! | 6 | reserved | reserved |
//! | 7 | raw DLC 9..=15, or 0 | reserved |
//! | 8.. | up to 8 bytes | up to 64 bytes |
//!
//! A `struct canxl_frame` has its flags at byte 4 and the flag 0x80 always set, which no length
//! here has.

use crate::can::frame::{BRS, ESI, Frame, FrameError, is_remote};

/// Bytes before the data.
pub const HEADER_LEN: usize = 8;
/// The size of `struct can_frame`.
pub const CAN_MTU: usize = 16;
/// The size of `struct canfd_frame`.
pub const CANFD_MTU: usize = 72;
/// Flag of `canfd_frame.flags`: this is a CAN FD frame.
pub const FDF: u8 = 0x04;
/// `CANXL_XLF`, the flag in byte 4 of every `struct canxl_frame`.
const XLF: u8 = 0x80;

/// In which order the four bytes of the identifier word stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrder {
    /// As in a capture file of link type 227.
    BigEndian,
    /// As on a socket of a little-endian machine.
    LittleEndian,
}

impl IdOrder {
    /// As on a socket of this machine.
    pub const NATIVE: Self =
        if cfg!(target_endian = "little") { Self::LittleEndian } else { Self::BigEndian };
}

/// Reads a frame from either layout, which may be cut after its last data byte.
///
/// CAN FD if the FDF flag is set or the bytes have the full size of `canfd_frame`, since older
/// captures lack the flag. Some recorders leave rubbish in bytes 5 to 7 of classical frames, which
/// have no use for them: unless byte 5 is made of known flags and byte 6 is zero, none of the three
/// counts.
///
/// # Errors
/// Too few bytes, CAN XL, or a frame that is not legal.
pub fn decode(bytes: &[u8], order: IdOrder) -> Result<Frame, FrameError> {
    let Some((header, data)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(FrameError::Short(bytes.len(), HEADER_LEN));
    };
    let [i0, i1, i2, i3, len, flags, reserved, len8_dlc] = *header;
    if len & XLF != 0 {
        return Err(FrameError::Xl);
    }
    let has_full_size = bytes.len() == CANFD_MTU;
    let is_tidy = has_full_size || flags & !(BRS | ESI | FDF) == 0 && reserved == 0;
    let (flags, len8_dlc) = if is_tidy { (flags, len8_dlc) } else { (0, 0) };
    let can_id = match order {
        IdOrder::BigEndian => u32::from_be_bytes([i0, i1, i2, i3]),
        IdOrder::LittleEndian => u32::from_le_bytes([i0, i1, i2, i3]),
    };
    let is_fd = flags & FDF != 0 || has_full_size;
    let len = usize::from(len);
    if is_remote(can_id) && !is_fd {
        // A capture may leave out the data that a remote frame does not have.
        let zeros = [0; 8];
        let data = zeros.get(..len).ok_or(FrameError::ClassicalTooLong(len))?;
        return Ok(with_raw_dlc(Frame::from_parts(can_id, data, None)?, len8_dlc));
    }
    let data = data.get(..len).ok_or(FrameError::Short(bytes.len(), HEADER_LEN + len))?;
    let frame = Frame::from_parts(can_id, data, is_fd.then_some(flags))?;
    Ok(if is_fd { frame } else { with_raw_dlc(frame, len8_dlc) })
}

/// What [`decode`] makes of `bytes`, if that is short to say: a classical frame with nothing in the
/// bytes that have no use, and no remote frame. Nearly all are.
#[inline]
#[must_use]
pub const fn decode_tidy(bytes: &[u8; CAN_MTU], order: IdOrder) -> Option<Frame> {
    // Two words instead of sixteen bytes.
    let [i0, i1, i2, i3, len, r5, r6, r7, data @ ..] = *bytes;
    let header = u64::from_le_bytes([i0, i1, i2, i3, len, r5, r6, r7]);
    if header >> 40 != 0 {
        return None;
    }
    let can_id = match order {
        IdOrder::BigEndian => (header as u32).swap_bytes(),
        IdOrder::LittleEndian => header as u32,
    };
    Frame::classical(can_id, data, (header >> 32) as u8)
}

/// As the kernel does: a raw DLC that makes no sense is ignored.
fn with_raw_dlc(frame: Frame, len8_dlc: u8) -> Frame {
    frame.with_raw_dlc(len8_dlc).unwrap_or(frame)
}

/// Writes `frame` in its layout; returns the buffer and how many bytes of it count: 16 or 72.
#[must_use]
pub fn encode(frame: &Frame, order: IdOrder) -> ([u8; CANFD_MTU], usize) {
    let mut bytes = [0; CANFD_MTU];
    let id = match order {
        IdOrder::BigEndian => frame.can_id().to_be_bytes(),
        IdOrder::LittleEndian => frame.can_id().to_le_bytes(),
    };
    bytes[..4].copy_from_slice(&id);
    bytes[4] = frame.len() as u8;
    bytes[HEADER_LEN..HEADER_LEN + frame.data().len()].copy_from_slice(frame.data());
    if frame.is_fd() {
        bytes[5] = frame.fd_flags() | FDF;
        (bytes, CANFD_MTU)
    } else {
        bytes[7] = frame.raw_dlc().unwrap_or(0);
        (bytes, CAN_MTU)
    }
}

/// What [`encode`] makes of a frame that is classical: its 16 bytes, without the detour over 72.
#[inline]
#[must_use]
pub const fn encode_classical(frame: &Frame, order: IdOrder) -> Option<[u8; CAN_MTU]> {
    if frame.is_fd() {
        return None;
    }
    let id = match order {
        IdOrder::BigEndian => frame.can_id().swap_bytes(),
        IdOrder::LittleEndian => frame.can_id(),
    };
    let raw_dlc = match frame.raw_dlc() {
        Some(dlc) => dlc,
        None => 0,
    };
    let header = id as u64 | (frame.len() as u64) << 32 | (raw_dlc as u64) << 56;
    let data = match frame.buffer().first_chunk() {
        Some(data) if !frame.is_empty() && !is_remote(frame.can_id()) => {
            u64::from_le_bytes(*data) & (u64::MAX >> (64 - 8 * frame.len() as u32))
        }
        _ => 0,
    };
    let whole = header as u128 | (data as u128) << 64;
    Some(whole.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_round_trip() {
        for text in [
            "123#DEADBEEF",
            "12345678#",
            "123#R2",
            "7FF#1122334455667788_C",
            "123##1AABB",
            "00000001##3",
            "20000088#0001",
        ] {
            let frame: Frame = text.parse().unwrap();
            for order in [IdOrder::BigEndian, IdOrder::LittleEndian] {
                let (bytes, len) = encode(&frame, order);
                assert_eq!(decode(&bytes[..len], order), Ok(frame), "{text}");
                let short = encode_classical(&frame, order);
                assert_eq!(short.is_none(), frame.is_fd(), "{text}");
                assert!(short.is_none_or(|short| short == bytes[..len]), "{text}");
            }
        }
    }

    #[test]
    fn the_short_way_is_no_other_way() {
        let tidy = [0x23, 1, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        // Every place with values that mean something there: flags of the identifier word, lengths,
        // raw DLCs, flags of CAN FD.
        for at in 0..CAN_MTU {
            for value in 0..=u8::MAX {
                let mut bytes = tidy;
                bytes[at] = value;
                for order in [IdOrder::BigEndian, IdOrder::LittleEndian] {
                    let long = decode(&bytes, order);
                    match decode_tidy(&bytes, order) {
                        Some(frame) => assert_eq!(Ok(frame), long, "{bytes:02x?}"),
                        None => assert!(
                            bytes[5..8] != [0; 3]
                                || long.is_err()
                                || long.is_ok_and(|frame| is_remote(frame.can_id())),
                            "{bytes:02x?} is tidy"
                        ),
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_stand_where_linux_puts_them() {
        let frame =
            Frame::fd(crate::can::StandardId::new(0x123).unwrap(), BRS | ESI, &[0xAA]).unwrap();
        let (bytes, len) = encode(&frame, IdOrder::BigEndian);
        assert_eq!((&bytes[..9], len), (&[0, 0, 1, 0x23, 1, 7, 0, 0, 0xAA][..], 72));
    }

    #[test]
    fn rubbish_in_unused_bytes_is_ignored() {
        const PACKET: [u8; CAN_MTU] =
            [0x80, 0, 1, 0x23, 3, 0, 0, 0, 0xAA, 0xBB, 0xCC, 0, 0, 0, 0, 0];
        let read = |bytes: &[u8]| decode(bytes, IdOrder::BigEndian);
        // The last two have the FDF flag, and the flag of CAN XL in the wrong byte.
        for rubbish in [[0x2E, 0x92, 4], [0xAA, 0x21, 3], [0x0C, 0, 12], [4, 1, 12], [0x84, 0, 0]] {
            let mut bytes = PACKET;
            bytes[5..8].copy_from_slice(&rubbish);
            let frame = Ok("00000123#AABBCC".parse().unwrap());
            assert_eq!(read(&bytes), frame);
            assert_eq!(read(&bytes[..11]), frame, "the bytes may end behind the data");
        }
        let mut fd = [0; CANFD_MTU];
        fd[..CAN_MTU].copy_from_slice(&PACKET);
        assert_eq!(read(&fd), Ok("00000123##0AABBCC".parse().unwrap()));
        fd[5] = BRS | FDF;
        assert_eq!(read(&fd[..11]), Ok("00000123##1AABBCC".parse().unwrap()));
    }

    #[test]
    fn garbage_is_refused_with_the_reason() {
        use FrameError::*;
        assert_eq!(decode(&[], IdOrder::BigEndian), Err(Short(0, 8)));
        assert_eq!(decode(&[0, 0, 1, 0x23, 4, 0, 0, 0, 1], IdOrder::BigEndian), Err(Short(9, 12)));
        assert_eq!(decode(&[0; 15][..], IdOrder::BigEndian).map(|f| f.len()), Ok(0));
        let nine = [0, 0, 1, 0x23, 9, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(decode(&nine, IdOrder::BigEndian), Err(ClassicalTooLong(9)));
        let xl = [0, 0, 1, 0x23, 0x81, 0, 1, 0, 0, 0, 0, 0, 1];
        assert_eq!(decode(&xl, IdOrder::BigEndian), Err(Xl));
        assert_eq!(decode(&xl[..HEADER_LEN], IdOrder::BigEndian), Err(Xl));
    }
}

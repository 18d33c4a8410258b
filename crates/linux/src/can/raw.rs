//! [`RawFrame`]: the bytes of a frame as a socket passes them.

use candor_wire::can::socketcan::{self, CAN_MTU, CANFD_MTU, HEADER_LEN, IdOrder};
use candor_wire::can::{Frame, frame::FrameError};

/// The bytes of a frame as a socket passes them: `struct can_frame` (16) or `struct canfd_frame`
/// (72), see [`socketcan`]. Cheap to read, cheap to change; not checked.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct RawFrame {
    bytes: [u8; CANFD_MTU],
    len: u8,
}

impl RawFrame {
    /// No bytes at all, to receive into.
    #[must_use]
    pub const fn empty() -> Self {
        Self { bytes: [0; CANFD_MTU], len: 0 }
    }

    /// From bytes, 16 or 72 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut frame = Self::empty();
        if ![CAN_MTU, CANFD_MTU].contains(&bytes.len()) {
            return None;
        }
        frame.bytes[..bytes.len()].copy_from_slice(bytes);
        frame.set_len(bytes.len());
        Some(frame)
    }

    /// The bytes: 16, or 72 for CAN FD.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The frame that the bytes are.
    ///
    /// # Errors
    /// A CAN XL frame, or one that can-gw gave a length that CAN FD does not have.
    pub fn frame(&self) -> Result<Frame, FrameError> {
        socketcan::decode(self.as_bytes(), IdOrder::NATIVE)
    }

    /// Whether it is a CAN FD frame.
    #[must_use]
    pub const fn is_fd(&self) -> bool {
        self.len as usize == CANFD_MTU
    }

    /// The identifier word.
    #[must_use]
    pub const fn can_id(&self) -> u32 {
        let [i0, i1, i2, i3, ..] = self.bytes;
        u32::from_ne_bytes([i0, i1, i2, i3])
    }

    /// The data, as long as the frame says.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let len = usize::from(self.bytes[4]);
        self.as_bytes().get(HEADER_LEN..).and_then(|data| data.get(..len)).unwrap_or_default()
    }

    /// The whole data field, 8 or 64 bytes, to be changed.
    #[must_use]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        let end = usize::from(self.len);
        self.bytes.get_mut(HEADER_LEN..end).unwrap_or_default()
    }

    /// Where the kernel may write.
    pub(super) fn room(&mut self) -> &mut [u8; CANFD_MTU] {
        &mut self.bytes
    }

    /// How much the kernel wrote.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(CANFD_MTU) as u8;
    }
}

impl From<&Frame> for RawFrame {
    fn from(frame: &Frame) -> Self {
        let (bytes, len) = socketcan::encode(frame, IdOrder::NATIVE);
        Self { bytes, len: len as u8 }
    }
}

impl From<Frame> for RawFrame {
    fn from(frame: Frame) -> Self {
        Self::from(&frame)
    }
}

impl PartialEq for RawFrame {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for RawFrame {}

impl std::fmt::Debug for RawFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.frame() {
            Ok(frame) => write!(f, "{frame}"),
            Err(error) => write!(f, "{:02X?} ({error})", self.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_become_bytes_and_frames_again() {
        for text in ["123#DEADBEEF", "12345678#", "123#R2", "7FF#1122334455667788_C", "123##1AABB"]
        {
            let frame: Frame = text.parse().unwrap();
            let raw = RawFrame::from(frame);
            assert_eq!(raw.frame(), Ok(frame));
            assert_eq!(raw.can_id(), frame.can_id());
            assert_eq!(raw.is_fd(), frame.is_fd());
            assert_eq!(RawFrame::from_bytes(raw.as_bytes()), Some(raw));
            if !text.contains('R') {
                assert_eq!(raw.data(), frame.data());
            }
        }
        assert_eq!(RawFrame::from_bytes(&[0; 17]), None);
    }

    #[test]
    fn bytes_are_changed_in_place() {
        let mut raw = RawFrame::from("123#AABB".parse::<Frame>().unwrap());
        raw.buffer_mut()[1] = 0xCC;
        assert_eq!(raw.frame(), Ok("123#AACC".parse().unwrap()));
        assert_eq!(raw.buffer_mut().len(), 8);
    }

    #[test]
    fn a_length_beyond_the_bytes_is_no_data() {
        let mut bytes = [0; CAN_MTU];
        bytes[4] = 200;
        let raw = RawFrame::from_bytes(&bytes).unwrap();
        assert_eq!(raw.data(), []);
        assert!(raw.frame().is_err());
        assert_eq!(RawFrame::empty().data(), []);
        assert!(RawFrame::empty().frame().is_err());
        assert!(RawFrame::empty().buffer_mut().is_empty());
    }
}

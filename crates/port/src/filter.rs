//! [`Filter`]: which frames a receiver hands over.

use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};
use candor_wire::can::{Frame, Kind};

/// An acceptance filter: takes a frame if the bits of its identifier word that `mask` has are those of
/// `id`. Error reports pass every filter: [`Wanted`](crate::Wanted) says whether there are any.
///
/// The identifier word is that of `SocketCAN`: bit 31 (`CAN_EFF_FLAG`) for extended identifiers, bit 30
/// (`CAN_RTR_FLAG`) for remote frames. Without bit 31 in `mask` both kinds of identifiers are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The identifier word.
    pub id: u32,
    /// Its bits that count.
    pub mask: u32,
}

impl Filter {
    /// Takes every frame.
    pub const ANY: Self = Self { id: 0, mask: 0 };

    /// The filter as the kernel registers it: without bit 29 (`CAN_INV_FILTER` in `id`), bits beyond a
    /// standard identifier are not compared, and those that are not compared are 0.
    #[must_use]
    pub const fn normalized(self) -> Self {
        let mut mask = self.mask & !ERR_FLAG;
        if mask & EFF_FLAG != 0 && self.id & EFF_FLAG == 0 {
            mask &= SFF_MASK | EFF_FLAG | RTR_FLAG;
        }
        Self { id: self.id & mask, mask }
    }

    /// Whether it takes a frame.
    #[must_use]
    pub const fn takes(self, frame: &Frame) -> bool {
        let Self { id, mask } = self.normalized();
        let word = frame.can_id() & (EFF_FLAG | RTR_FLAG | EFF_MASK);
        matches!(frame.kind(), Kind::Error) || word & mask == id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candor_wire::can::frame::{BRS, ERR_FLAG};

    fn frame(can_id: u32) -> Frame {
        Frame::from_parts(can_id, &[0; 8][..if can_id & RTR_FLAG == 0 { 8 } else { 0 }], None)
            .unwrap_or_else(|error| panic!("{can_id:#x}: {error}"))
    }

    #[test]
    fn a_filter_takes_what_the_kernel_would() {
        let (extended, remote) = (EFF_FLAG, RTR_FLAG);
        for (id, mask, taken, refused) in [
            (0, 0, &[0, 0x7FF, extended | 0x123, remote | 1, ERR_FLAG | 4][..], &[][..]),
            (0x123, 0x7FF, &[0x123, extended | 0x123, extended | 0x1_0123], &[0x124]),
            (0x120, 0x7F0, &[0x120, 0x12F], &[0x130]),
            (0x123, extended | 0x7FF, &[0x123, remote | 0x123], &[extended | 0x123]),
            // Bits that no standard identifier has are not compared.
            (0x1_0123, extended | EFF_MASK, &[0x123], &[extended | 0x1_0123]),
            (extended | 5, extended | EFF_MASK, &[extended | 5], &[5, extended | 0x805]),
            (5, remote | 0x7FF, &[5], &[remote | 5]),
            (remote | 5, remote | 0x7FF, &[remote | 5], &[5]),
            // It is never inverted.
            (ERR_FLAG | 5, ERR_FLAG | 0x7FF, &[5, ERR_FLAG | 4], &[6]),
        ] {
            let filter = Filter { id, mask };
            for &word in taken {
                assert!(filter.takes(&frame(word)), "{filter:x?} {word:#x}");
            }
            for &word in refused {
                assert!(!filter.takes(&frame(word)), "{filter:x?} {word:#x}");
            }
        }
        let fd = Frame::from_parts(0x123, &[1; 12], Some(BRS)).unwrap();
        assert!(Filter { id: 0x123, mask: 0x7FF }.takes(&fd));
    }
}
